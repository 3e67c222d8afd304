//! The line between the launcher and what it launches: one packet, one message.
//!
//! Before process 1 runs: a terminal handed out, owners told, or what broke. Afterwards: process 1's words (see
//! `init/main.rs`). Invariant: packets from inside are short, of known kinds, and anything else ends the sandbox.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::capture::Sockets;
use crate::inside::{Broken, Step};

/// One end.
#[derive(Debug)]
pub(crate) struct Line(OwnedFd);

/// What came from inside.
#[derive(Debug)]
pub(crate) enum Word {
    /// The root is complete: nothing is mounted any more.
    Rooted,
    /// Process 1 waits for the word to go.
    Ready,
    /// The command could not be executed.
    NotExecuted(i32),
    /// The command ended, with this status.
    Ended(i32),
    /// The command was stopped.
    Stopped,
    /// The sandbox could not be made.
    Broken(Broken),
    /// The near end of the sandbox's terminal.
    Terminal(OwnedFd),
    /// Where everything that it sends comes.
    Sockets(Sockets),
    /// Nobody is at the other end any more.
    Gone,
}

/// A command that is told to a process 1 that stands already.
pub(crate) struct Told<'a> {
    pub(crate) path: &'a Path,
    pub(crate) words: &'a [OsString],
    pub(crate) variables: &'a [OsString],
}

impl Told<'_> {
    fn all(&self) -> impl Iterator<Item = &OsStr> {
        let rest = self.words.iter().chain(self.variables).map(OsString::as_os_str);
        std::iter::once(self.path.as_os_str()).chain(rest)
    }

    /// Whether it can be told: process 1 has this much room (see `init/main.rs`).
    pub(crate) fn fits(&self) -> bool {
        let bytes: usize = self.all().map(|word| word.len() + 1).sum();
        let has_zero = self.all().any(|word| word.as_bytes().contains(&0));
        !self.words.is_empty() && !has_zero && bytes + 5 <= 64 * 1024 && self.all().count() < 2048
    }
}

const STEPS: [Step; 16] = [
    Step::Namespaces,
    Step::Owners,
    Step::Host,
    Step::Loopback,
    Step::Capture,
    Step::Root,
    Step::Mount,
    Step::Layer,
    Step::Terminal,
    Step::Limits,
    Step::Command,
    Step::Directory,
    Step::Privileges,
    Step::Landlock,
    Step::Seccomp,
    Step::Init,
];

impl Line {
    /// Both ends: the launcher's, and the inside's.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (near, far) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(near), Self(far)))
    }

    /// An end that is known by its descriptor.
    pub(crate) fn of(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// The same end once more.
    pub(crate) fn again(&self) -> rustix::io::Result<Self> {
        rustix::io::fcntl_dupfd_cloexec(&self.0, 3).map(Self)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn say(&self, bytes: &[u8]) -> rustix::io::Result<()> {
        rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL).map(drop)
    }

    // Said by the inside, before process 1.

    /// Tells what broke; a launcher that is gone need not know.
    pub(crate) fn tell_broken(&self, broken: &Broken) {
        let step = STEPS.iter().position(|step| *step == broken.step).unwrap_or(0);
        let mut bytes = vec![b'F', u8::try_from(step).unwrap_or(0)];
        bytes.extend(broken.error.to_le_bytes());
        bytes.extend(broken.what.bytes().take(256));
        let _ = self.say(&bytes);
    }

    /// Waits until the launcher has said who is who.
    pub(crate) fn wait_for_owners(&self) -> rustix::io::Result<()> {
        let mut byte = [0u8];
        let (got, _) = rustix::net::recv(&self.0, &mut byte, RecvFlags::empty())?;
        if got == 1 && byte == *b"O" { Ok(()) } else { Err(rustix::io::Errno::PIPE) }
    }

    /// Tells that the root is complete.
    pub(crate) fn tell_rooted(&self) -> rustix::io::Result<()> {
        self.say(b"M")
    }

    /// Hands the near end of the terminal out.
    pub(crate) fn give_terminal(&self, terminal: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        let fds = [terminal];
        with.push(SendAncillaryMessage::ScmRights(&fds));
        rustix::net::sendmsg(&self.0, &[io::IoSlice::new(b"P")], &mut with, SendFlags::NOSIGNAL).map(drop)
    }

    /// Hands out the sockets that everything goes to.
    pub(crate) fn give_sockets(&self, sockets: &Sockets) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Sockets::MOST))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        let (which, fds) = sockets.all();
        with.push(SendAncillaryMessage::ScmRights(&fds));
        rustix::net::sendmsg(&self.0, &[io::IoSlice::new(&[b'N', which])], &mut with, SendFlags::NOSIGNAL)
            .map(drop)
    }

    // Said by the launcher.

    /// The owners are written.
    pub(crate) fn owners_are_known(&self) -> rustix::io::Result<()> {
        self.say(b"O")
    }

    /// Tells a process 1 that stands without one what the command is: the program's path, its words and its variables,
    /// with its standard input, output and error.
    pub(crate) fn command(
        &self,
        command: &Told<'_>,
        standard: [BorrowedFd<'_>; 3],
    ) -> rustix::io::Result<()> {
        let count = u32::try_from(command.words.len()).map_err(|_| rustix::io::Errno::TOOBIG)?;
        let mut bytes = vec![b'C'];
        bytes.extend(count.to_le_bytes());
        for word in command.all() {
            bytes.extend(word.as_bytes());
            bytes.push(0);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        with.push(SendAncillaryMessage::ScmRights(&standard));
        rustix::net::sendmsg(&self.0, &[io::IoSlice::new(&bytes)], &mut with, SendFlags::NOSIGNAL).map(drop)
    }

    /// Starts the command, with this one of the three descriptors as its terminal.
    pub(crate) fn go(&self, terminal: Option<u8>) -> rustix::io::Result<()> {
        self.say(&[b'G', terminal.unwrap_or(u8::MAX)])
    }

    /// Passes a signal to the command.
    pub(crate) fn signal(&self, signal: u8) -> rustix::io::Result<()> {
        self.say(&[b'S', signal])
    }

    /// The next word from inside.
    pub(crate) fn hear(&self) -> io::Result<Word> {
        let mut bytes = [0u8; 512];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Sockets::MOST))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let mut was_left = false;
        let got = loop {
            let mut parts = [io::IoSliceMut::new(&mut bytes)];
            match rustix::net::recvmsg(&self.0, &mut parts, &mut with, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                // Told once, before what was said: the other end left without hearing everything.
                Err(rustix::io::Errno::CONNRESET) if !was_left => was_left = true,
                Err(rustix::io::Errno::CONNRESET) => return Ok(Word::Gone),
                other => break other?.bytes,
            }
        };
        let mut passed: Vec<OwnedFd> = Vec::new();
        for message in with.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                passed.extend(fds);
            }
        }
        let message = bytes.get(..got).unwrap_or_default();
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "an unknown word from inside");
        let number = || {
            let four = message.get(1..5).and_then(|four| four.try_into().ok());
            four.map(i32::from_le_bytes).ok_or_else(strange)
        };
        match (message.first(), passed.len()) {
            (None, 0) => Ok(Word::Gone),
            (Some(b'M'), 0) => Ok(Word::Rooted),
            (Some(b'R'), 0) => Ok(Word::Ready),
            (Some(b'E'), 0) => Ok(Word::NotExecuted(number()?)),
            (Some(b'X'), 0) => Ok(Word::Ended(number()?)),
            (Some(b'T'), 0) => Ok(Word::Stopped),
            (Some(b'P'), 1) => passed.pop().map(Word::Terminal).ok_or_else(strange),
            (Some(b'N'), _) => {
                let which = message.get(1).copied().ok_or_else(strange)?;
                Sockets::of(which, passed).map(Word::Sockets).ok_or_else(strange)
            }
            (Some(b'F'), 0) => {
                let step = message.get(1).and_then(|step| STEPS.get(usize::from(*step)));
                let error = message.get(2..6).and_then(|four| four.try_into().ok()).map(i32::from_le_bytes);
                let what = String::from_utf8_lossy(message.get(6..).unwrap_or_default()).into_owned();
                match (step, error) {
                    (Some(step), Some(error)) => Ok(Word::Broken(Broken { step: *step, what, error })),
                    _ => Err(strange()),
                }
            }
            _ => Err(strange()),
        }
    }
}
