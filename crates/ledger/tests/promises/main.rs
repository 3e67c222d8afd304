//! The ledger's promises, each by its id in the specification.

#[cfg(test)]
mod bundle;
#[cfg(test)]
mod checkpoints;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod command;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod kit;
#[cfg(test)]
mod mutation;
#[cfg(test)]
mod once;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod power_loss;
#[cfg(test)]
mod reserved;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod stored_bytes;
#[cfg(test)]
mod tail;
#[cfg(test)]
mod tampering;
