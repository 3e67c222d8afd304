//! Secrets that whoever starts this run says on its standard input, before anything that is for the command.
//!
//! Flow: standard input -> one value for each name, in the order in which the names were typed (four bytes that say how long it is,
//! the highest first, and the value) -> the rest is the command's. Invariants: not a byte of the command's is read here; a value is
//! in no argument and in no environment, neither of which its process can keep from others of its user.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Read};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use super::vault::value;

/// How long they may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was said so far.
#[derive(Default)]
pub(super) struct Input(HashMap<String, Zeroizing<String>>);

impl Input {
    /// The value of this name; it is said once, however often it is asked for.
    pub(super) fn of(&mut self, name: &str) -> io::Result<Zeroizing<String>> {
        if let Some(said) = self.0.get(name) {
            return Ok(said.clone());
        }
        if io::stdin().is_terminal() {
            return Err(io::Error::other("standard input is a terminal"));
        }
        let said = value(&mut Unbuffered(Instant::now() + PATIENCE))?;
        self.0.insert(name.to_owned(), said.clone());
        Ok(said)
    }
}

/// Standard input as it is: what is not asked for stays there.
struct Unbuffered(Instant);

impl Read for Unbuffered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.0.saturating_duration_since(Instant::now());
        let stdin = rustix::stdio::stdin();
        let mut waits = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut waits, Some(&Timespec::try_from(left).map_err(io::Error::other)?))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(rustix::io::read(stdin, into)?),
        }
    }
}
