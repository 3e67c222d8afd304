//! A small process that makes sandboxes, so that a large one with threads never forks.
//!
//! Flow: [`Spawner::start`] forks it while the caller has one thread -> [`Spawner::launch`] sends an [`Order`] with
//! three descriptors -> it takes a half-made sandbox from its pool, completes it, measures it and answers -> the
//! caller signs and records, and says [`Spawner::go`] -> [`Word::Ended`] comes when everything of it is gone.
//!
//! Invariants: it knows the verbs of [`message::Verb`] and no others; a message that is not understood changes
//! nothing and is answered; a shape is attacked once before it is used; every path of an order is found beneath one of the roots that it was started with,
//! without following a link; when its caller goes, it goes, and every sandbox with it. Not here: who may launch
//! what, what is recorded (the caller).

mod account;
mod message;
mod ordered;
mod prepared;
mod proven;
mod serve;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

pub use message::{Account, Answer, Order, Verb};

use crate::launch::Tree;
use crate::permit::Permit;
use crate::receipt::RunId;
use crate::sys::process::{Side, fork, leave};

/// How a spawner is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories of the host beneath which every path of an order must lie.
    pub roots: Vec<PathBuf>,
    /// How many half-made sandboxes wait.
    pub pool: usize,
    /// Where it is remembered which shapes held. The caller's program answers [`crate::probe::ARGUMENT`] by
    /// [`crate::probe::answer`]; of one that does not, no shape holds.
    pub state: PathBuf,
}

/// The near end of a spawner.
#[derive(Debug)]
pub struct Spawner {
    line: OwnedFd,
    process: Tree,
}

/// How long a spawner may take to end all of its sandboxes and remove what they left.
const ENDS: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

impl Drop for Spawner {
    fn drop(&mut self) {
        // It ends by itself when nobody is at the other end, and leaves nothing; only then, or if it does not, it is killed.
        let _ = rustix::net::shutdown(&self.line, rustix::net::Shutdown::Both);
        let _ = poll(&mut [PollFd::new(&self.process.pidfd, PollFlags::IN)], Some(&ENDS));
    }
}

impl Spawner {
    /// Forks the process. The caller must have one thread.
    ///
    /// # Errors
    /// When the kernel gives no process or socket.
    pub fn start(options: Options) -> io::Result<Self> {
        let (near, far) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        match fork(0, None)? {
            Side::Child => {
                drop(near);
                let code = i32::from(serve::serve(far, options).is_err());
                leave(code)
            }
            Side::Parent(pid, pidfd) => {
                drop(far);
                let process = Tree::new(pid, pidfd)?;
                Ok(Self { line: near, process })
            }
        }
    }

    /// What to wait on for answers.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Asks for a sandbox with these three descriptors; [`Answer::Ready`] or [`Answer::Refused`] comes.
    ///
    /// # Errors
    /// When the message cannot be sent.
    pub fn launch(&self, permit: Permit, order: Order, standard: [BorrowedFd<'_>; 3]) -> io::Result<()> {
        let Permit { .. } = permit;
        message::send(self.line.as_fd(), &Verb::Launch(Box::new(order)), &standard)
    }

    /// Starts the command of a sandbox that is ready.
    ///
    /// # Errors
    /// When the message cannot be sent.
    pub fn go(&self, run: RunId) -> io::Result<()> {
        message::send(self.line.as_fd(), &Verb::Go { run }, &[])
    }

    /// Says anything.
    ///
    /// # Errors
    /// When the message cannot be sent.
    pub fn say(&self, verb: &Verb) -> io::Result<()> {
        message::send(self.line.as_fd(), verb, &[])
    }

    /// The next answer; waits for it.
    ///
    /// # Errors
    /// When the spawner is gone.
    pub fn hear(&self) -> io::Result<Answer> {
        let (answer, _) = message::receive(self.line.as_fd())?;
        answer.ok_or_else(|| io::Error::from_raw_os_error(libc::EPIPE))
    }
}
