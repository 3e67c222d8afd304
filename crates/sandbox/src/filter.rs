//! Turns a commented list of system calls into the seccomp program of a sandbox.
//!
//! Flow: `table` (allowed) and `refused` (known, with the reason) -> `assemble` -> [`Filter`], which the
//! launcher gives to seccomp(2). The same tables answer people: [`allowed`], [`name_of`], [`why_refused`].
//!
//! Invariants: a number that is not on the list is never allowed; another architecture (`int 0x80`) and
//! the x32 bit kill the process; a verdict looks at as many bits of an argument as the kernel does. A refusal
//! of a whole call is EPERM or ENOSYS. The filter is one wall of several: it does not know paths, processes
//! or addresses (mounts, Landlock and namespaces do).
//!
//! Not here: loading the program (`sys`), and the choice of [`Tracing`] (`profile`).

mod arguments;
mod assemble;
#[cfg(test)]
mod interpreter;
mod refused;
mod rule;
mod table;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use sha2::{Digest, Sha256};

/// One instruction of classic BPF, laid out as the kernel's `sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to skip if a comparison holds.
    pub jt: u8,
    /// How many to skip if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// Whether processes inside may trace each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Tracing {
    /// No ptrace at all.
    Refused,
    /// Debuggers work on what runs inside; the kernel keeps them from init.
    Own,
}

/// A seccomp program, ready to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    instructions: Vec<Instruction>,
}

impl Filter {
    /// Assembles the program. The tables are fixed, so there are exactly two, and neither can fail.
    #[must_use]
    pub fn new(tracing: Tracing) -> Self {
        Self { instructions: assemble::program(table::ALLOWED, refused::REFUSED, tracing) }
    }

    /// The same, assembled once: processes that are made later have it already.
    pub(crate) fn of(tracing: Tracing) -> &'static (Self, [u8; 32]) {
        static KNOWN: [OnceLock<(Filter, [u8; 32])>; 2] = [OnceLock::new(), OnceLock::new()];
        let [refused, own] = &KNOWN;
        let known = match tracing {
            Tracing::Refused => refused,
            Tracing::Own => own,
        };
        known.get_or_init(|| {
            let filter = Self::new(tracing);
            let hash = filter.hash();
            (filter, hash)
        })
    }

    /// What the kernel is given.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// SHA-256 over the instructions in order, eight bytes each: `code` (2), `jt`, `jf`, `k` (4), numbers
    /// little-endian. These are the very bytes the kernel is given.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for instruction in &self.instructions {
            hash.update(instruction.code.to_le_bytes());
            hash.update([instruction.jt, instruction.jf]);
            hash.update(instruction.k.to_le_bytes());
        }
        hash.finalize().into()
    }
}

/// A call on the allow-list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As in its manual page.
    pub name: &'static str,
    /// On x86_64.
    pub number: u32,
    /// Which arguments are let through, in words.
    pub rule: &'static str,
}

/// The allow-list, in the order of the table.
pub fn allowed() -> impl Iterator<Item = Listed> {
    table::ALLOWED.iter().map(|call| Listed { name: call.name, number: call.number, rule: call.rule.says })
}

/// The name of a call that is allowed, or refused and known.
#[must_use]
pub fn name_of(number: u32) -> Option<&'static str> {
    let listed = table::ALLOWED.iter().find(|call| call.number == number).map(|call| call.name);
    listed.or_else(|| refused::REFUSED.iter().find(|call| call.number == number).map(|call| call.name))
}

/// Why a call was refused, or what its arguments have to keep to; `None` if it is allowed with any.
#[must_use]
pub fn why_refused(number: u32) -> Option<&'static str> {
    if let Some(call) = table::ALLOWED.iter().find(|call| call.number == number) {
        let ruled = !call.rule.cases.is_empty();
        return ruled.then_some(call.rule.says);
    }
    let known = refused::REFUSED.iter().find(|call| call.number == number);
    Some(known.map_or("not a call this version knows; answered as by an older kernel", |call| call.why))
}
