//! Carries bytes between the host's standard input, output and error and those of a command.
//!
//! Invariants: bytes keep their order; whoever does not read holds up what is carried to them and nothing else, so a run can be
//! stopped, frozen and looked after meanwhile. Not here: which of the three are carried ([`crate::standard`]).

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Attendant, Running};
use crate::standard::Kind;

/// A pipe that can be written takes at least this much without waiting.
const SOME: usize = 4096;

impl Running {
    /// Takes bytes from the host's standard input.
    // Apart, as are the others with a buffer: a frame that holds theirs is paid for by runs that carry nothing.
    #[inline(never)]
    pub(super) fn take_input(&mut self) {
        let mut bytes = [0u8; 16 * 1024];
        match rustix::io::read(&self.standard.host[0], &mut bytes) {
            Ok(0) | Err(Errno::IO) => {
                self.input_ended = true;
                self.standard.carriers[0] = None;
            }
            Ok(got) => {
                self.pending.extend_from_slice(bytes.get(..got).unwrap_or_default());
                match self.standard.kinds[0] {
                    Kind::Terminal => self.feed_terminal(),
                    _ => self.give_input(),
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.input_ended = true,
        }
    }

    pub(super) fn feed_terminal(&mut self) {
        let Some(terminal) = &self.terminal else { return };
        if let Ok(written) = rustix::io::write(terminal, &self.pending) {
            self.pending.drain(..written);
        }
    }

    pub(super) fn give_input(&mut self) {
        let Some(carrier) = &self.standard.carriers[0] else { return };
        let some = self.pending.get(..self.pending.len().min(SOME)).unwrap_or_default();
        match rustix::io::write(carrier, some) {
            Ok(written) => drop(self.pending.drain(..written)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => {
                self.pending.clear();
                self.input_ended = true;
                self.standard.carriers[0] = None;
            }
        }
    }

    /// Carries what the sandbox's terminal shows to the person's.
    #[inline(never)]
    pub(super) fn move_terminal(&mut self, attendant: &mut Option<&mut dyn Attendant>) {
        if !self.pending.is_empty() && self.standard.kinds[0] == Kind::Terminal {
            self.feed_terminal();
        }
        let Some(terminal) = &self.terminal else { return };
        let mut bytes = [0u8; 16 * 1024];
        match rustix::io::read(terminal, &mut bytes) {
            Ok(got) if got > 0 => {
                let printed = bytes.get(..got).unwrap_or_default();
                if !self.is_shown(0, printed, attendant) {
                    return;
                }
                let to = if self.standard.kinds[1] == Kind::Terminal {
                    1
                } else {
                    usize::from(self.standard.terminal().unwrap_or(1))
                };
                if let Some(to) = self.standard.host.get(to) {
                    let _ = write_all(to, printed);
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(_) | Err(_) => self.terminal = None,
        }
    }

    /// Takes what the command said.
    #[inline(never)]
    pub(super) fn carry_out(&mut self, number: usize, attendant: &mut Option<&mut dyn Attendant>) {
        let Some(Some(from)) = self.standard.carriers.get(number) else { return };
        let mut bytes = [0u8; 64 * 1024];
        let got = match rustix::io::read(from, &mut bytes) {
            Err(Errno::INTR | Errno::AGAIN) => return,
            other => other.unwrap_or(0),
        };
        let printed = bytes.get(..got).unwrap_or_default();
        if got == 0 {
            self.hang_up(number);
        } else if self.is_shown(number, printed, attendant)
            && let Some(unsent) = self.unsent.get_mut(number)
        {
            unsent.extend_from_slice(printed);
            self.give_output(number);
        }
    }

    /// Gives the host as much of it as it takes now.
    pub(super) fn give_output(&mut self, number: usize) {
        let (Some(to), Some(unsent)) = (self.standard.host.get(number), self.unsent.get_mut(number)) else {
            return;
        };
        while !unsent.is_empty() {
            match write_some(to, unsent) {
                Ok(0) => return,
                Ok(written) => drop(unsent.drain(..written)),
                Err(_) => {
                    unsent.clear();
                    return self.hang_up(number);
                }
            }
        }
    }

    /// Nothing more is carried there: both sides find the other gone, as they would without us between them.
    fn hang_up(&mut self, number: usize) {
        if let Some(carrier) = self.standard.carriers.get_mut(number) {
            *carrier = None;
        }
        let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        if let (Some(host), Ok(nothing)) = (self.standard.host.get_mut(number), nothing) {
            *host = nothing;
        }
    }
}

/// Writes what can be written without waiting; 0 if that is nothing.
fn write_some(to: &OwnedFd, bytes: &[u8]) -> rustix::io::Result<usize> {
    // Where it is, as `write` does, and at once: others have the same descriptor, so it cannot be told never to wait.
    match rustix::io::pwritev2(to, &[IoSlice::new(bytes)], u64::MAX, ReadWriteFlags::NOWAIT) {
        Err(Errno::INTR | Errno::AGAIN | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::SPIPE) => {}
        other => return other,
    }
    let is_file = rustix::fs::fstat(to)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
    let mut one = [PollFd::new(to, PollFlags::OUT)];
    if !is_file && poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
        return Ok(0);
    }
    let some = if is_file { bytes } else { bytes.get(..SOME).unwrap_or(bytes) };
    match rustix::io::write(to, some) {
        Err(Errno::INTR | Errno::AGAIN) => Ok(0),
        other => other,
    }
}

pub(super) fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut one = [PollFd::new(to, PollFlags::OUT)];
                poll(&mut one, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
