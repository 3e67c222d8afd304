//! What is said between a spawner and its caller: one packet, one message, with descriptors beside it.
//!
//! Invariant: closed documents; what has an unknown field, kind or size is no message.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::raw;
use crate::receipt::{Difference, Facts, RunId};
use crate::running::Ended;

/// The longest message.
const MOST_BYTES: usize = 192 * 1024;

/// What a spawner can be told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Verb {
    /// Make this sandbox; standard input, output and error come along.
    Launch(Box<Order>),
    /// Start the command of a sandbox that is ready.
    Go {
        /// Which.
        run: RunId,
    },
    /// Pass a signal to the command.
    Signal {
        /// Which.
        run: RunId,
        /// The signal's number.
        signal: u8,
    },
    /// Stop everything where it is, or let it go on.
    Freeze {
        /// Which.
        run: RunId,
        /// Whether to stop.
        frozen: bool,
    },
    /// End everything.
    Kill {
        /// Which.
        run: RunId,
    },
}

/// What a sandbox is to have.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Its name.
    pub run: RunId,
    /// The command and its arguments.
    #[serde(with = "raw::all")]
    pub command: Vec<OsString>,
    /// Where the command stands.
    pub directory: PathBuf,
    /// Places to show.
    pub read: Vec<PathBuf>,
    /// Places to give.
    pub write: Vec<PathBuf>,
    /// The home: a directory of the host, and where it is inside.
    pub home: (PathBuf, PathBuf),
    /// How the user is called inside.
    pub user: String,
    /// The environment, whole.
    #[serde(with = "raw::pairs")]
    pub environment: Vec<(OsString, OsString)>,
    /// The most of open files, of bytes in a file, of processes.
    pub files: u64,
    /// See `files`.
    pub file_size: u64,
    /// See `files`.
    pub pids: u64,
    /// Memory of all processes together; none: no limit of its own.
    pub memory: Option<u64>,
    /// Thousandths of a processor for all together; none: every one.
    pub cpu: Option<u64>,
    /// The size of `/tmp`.
    pub tmp: u64,
    /// Whether processes may trace their own children.
    pub trace: bool,
}

/// What a spawner says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Answer {
    /// It stands and waits; this was measured.
    Ready {
        /// Which.
        run: RunId,
        /// What holds around it.
        account: Box<Account>,
    },
    /// It was not made, or what was said makes no sense.
    Refused {
        /// Which, if that is known.
        run: Option<RunId>,
        /// Why.
        why: String,
    },
    /// It is gone, with everything in it.
    Ended {
        /// Which.
        run: RunId,
        /// How.
        ended: Ended,
    },
}

/// What was measured, and how it differs from what was ordered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Process 1, as the host numbers it.
    pub pid: i32,
    /// What was found.
    pub facts: Facts,
    /// What is not as planned; the sandbox is gone if there is anything.
    pub differences: Vec<String>,
}

impl Account {
    pub(super) fn words(differences: Vec<Difference>) -> Vec<String> {
        differences.iter().map(ToString::to_string).collect()
    }
}

/// Sends a message with descriptors.
pub(super) fn send(to: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the order is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        with.push(SendAncillaryMessage::ScmRights(fds));
    }
    rustix::net::sendmsg(to, &[io::IoSlice::new(&bytes)], &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message, if it is one, with what came beside it; an error when nobody is there any more.
pub(super) fn receive<T: DeserializeOwned>(from: BorrowedFd<'_>) -> io::Result<(Option<T>, Vec<OwnedFd>)> {
    ROOM.with_borrow_mut(|bytes| {
        bytes.resize(MOST_BYTES + 1, 0);
        let (message, fds, got) = receive_in(from, bytes)?;
        // What is begun later is a copy of this process, and nobody's variables are for it.
        bytes.get_mut(..got).unwrap_or_default().fill(0);
        Ok((message, fds))
    })
}

thread_local! {
    /// Where messages are read to: the kernel would have to find the memory anew for each.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn receive_in<T: DeserializeOwned>(
    from: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(Option<T>, Vec<OwnedFd>, usize)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut parts = [io::IoSliceMut::new(bytes)];
        match rustix::net::recvmsg(from, &mut parts, &mut with, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let fds: Vec<OwnedFd> = with
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if got == 0 && fds.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::EPIPE));
    }
    let text = bytes.get(..got.min(MOST_BYTES)).unwrap_or_default();
    let message = if got > MOST_BYTES { None } else { serde_json::from_slice(text).ok() };
    Ok((message, fds, got))
}
