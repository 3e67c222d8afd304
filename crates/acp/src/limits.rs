//! How much of an agent's talk is taken, and how long it is waited for.

use std::time::Duration;

/// Bounds of the talk with one agent. The defaults are those of the specification (SES-08).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that are read at once. A record that is longer is joined from such pieces.
    pub line: usize,
    /// Bytes of a record.
    pub record: usize,
    /// How deep a record is nested at most; what is deeper is cut.
    pub depth: usize,
    /// Bytes of records that were read and that nobody has taken yet.
    pub ahead: usize,
    /// Questions that are open at once; further ones are cancelled.
    pub questions: usize,
    /// Odd records that are told one by one; one more each second. Further ones are counted.
    pub odd: u32,
    /// How long an answer may take, but for a turn's.
    pub answer: Duration,
    /// How long a turn may take.
    pub turn: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line: 64 << 10,
            record: 1 << 20,
            depth: 32,
            ahead: 4 << 20,
            questions: 8,
            odd: 64,
            answer: Duration::from_secs(60),
            turn: Duration::from_secs(24 * 60 * 60),
        }
    }
}
