//! The network of `palisade run`: real programs on the real kernel, in an internet of the test's own.
//!
//! Every test runs as root and as a user. What is refused is looked for at the server too: nothing may have come.

mod acp;
mod agents;
mod asked;
mod attacks;
mod changed;
mod clients;
mod confined;
mod conforms;
mod counted;
mod crossing;
mod daemon;
mod decoys;
mod fetched;
mod flood;
mod git;
mod hops;
mod ill;
mod lent;
mod logins;
mod modes;
mod opened;
mod origins;
mod packed;
mod profiles;
mod quotas;
mod reach;
mod resolver;
mod servers;
mod signed;
mod small;
mod sockets;
mod spent;
mod told;
mod two;
mod two_attacks;
mod vault;
mod wire;
mod world;
