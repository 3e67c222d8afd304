//! The words a table row is written in: which arguments of a call are let through.
//!
//! A [`Rule`] is read top-down: the first [`Case`] whose tests all hold decides, else `otherwise` does.
//! Arguments are compared by halves. Nearly all of them are 32-bit to the kernel, which drops the upper half;
//! a rule that looked at it could be talked out of its verdict with garbage there.
//!
//! Not here: what the rules are (`arguments`), how they become instructions (`assemble`).

/// What the kernel does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    /// The call does nothing and returns this error.
    Errno(i32),
    /// The whole process dies with SIGSYS.
    Kill,
}

/// Half of one of the six arguments, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Low(u8),
    High(u8),
}

/// One question about the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum Test {
    /// `word & mask` is one of `values`.
    OneOf { word: Word, mask: u32, values: &'static [u32] },
    /// `word` has at least one of `bits`.
    AnyBit { word: Word, bits: u32 },
    /// The sandbox lets processes trace each other; known when the program is made, not when it runs.
    OwnTracing,
}

/// Tests that must all hold, and what follows then.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) when: &'static [Test],
    pub(super) then: Verdict,
}

/// What decides about one listed call.
#[derive(Debug)]
pub(super) struct Rule {
    /// For people: what is let through and why the rest is not.
    pub(super) says: &'static str,
    pub(super) cases: &'static [Case],
    pub(super) otherwise: Verdict,
}

/// A call on the allow-list.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) rule: &'static Rule,
}

/// A call that is known and refused whatever its arguments.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) errno: i32,
    pub(super) why: &'static str,
}

pub(super) const fn call(name: &'static str, number: libc::c_long, rule: &'static Rule) -> Call {
    Call { name, number: number as u32, rule }
}

pub(super) const fn refused(
    name: &'static str,
    number: libc::c_long,
    errno: i32,
    why: &'static str,
) -> Refusal {
    Refusal { name, number: number as u32, errno, why }
}

/// The low half of the argument is one of `values`.
pub(super) const fn is(argument: u8, values: &'static [u32]) -> Test {
    Test::OneOf { word: Word::Low(argument), mask: u32::MAX, values }
}

/// The low half of the argument, with all but `mask` cut away, is one of `values`.
pub(super) const fn masked(argument: u8, mask: u32, values: &'static [u32]) -> Test {
    Test::OneOf { word: Word::Low(argument), mask, values }
}

/// The low half of the argument has at least one of `bits`.
pub(super) const fn has(argument: u8, bits: u32) -> Test {
    Test::AnyBit { word: Word::Low(argument), bits }
}

/// The upper half of the argument is not zero; only for what the kernel takes as a `long`.
pub(super) const fn is_long(argument: u8) -> Test {
    Test::AnyBit { word: Word::High(argument), bits: u32::MAX }
}
