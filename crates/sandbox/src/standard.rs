//! Standard input, output and error: what of the host's goes in.
//!
//! `/dev/null` goes in as it is. A terminal never does: the sandbox has its own, and the launcher carries bytes
//! between the two. Files, pipes and sockets stay out too, because a descriptor is a right to more than bytes: a file
//! can be truncated or its mode changed through it, and the other end of a pipe can be opened through `/proc`. The
//! launcher carries their bytes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::FileType;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::launch::InsideEnds;

/// What one of the three is on the host, and how it is known inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A terminal: inside, the sandbox's own.
    Terminal,
    /// Goes in as it is.
    Passed,
    /// Its bytes are carried.
    Carried,
}

/// The three descriptors of the host.
#[derive(Debug)]
pub struct Standard {
    pub(crate) host: [OwnedFd; 3],
    pub(crate) kinds: [Kind; 3],
    /// The launcher's ends of the pipes that carry.
    pub(crate) carriers: [Option<OwnedFd>; 3],
}

impl Standard {
    /// The three of this process.
    ///
    /// # Errors
    /// When they cannot be duplicated.
    pub fn of_this_process() -> io::Result<Self> {
        let copy = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let host =
            [copy(rustix::stdio::stdin())?, copy(rustix::stdio::stdout())?, copy(rustix::stdio::stderr())?];
        Ok(Self::of(host))
    }

    /// These three.
    #[must_use]
    pub fn of(host: [OwnedFd; 3]) -> Self {
        let kinds = [kind(&host[0]), kind(&host[1]), kind(&host[2])];
        Self { host, kinds, carriers: [None, None, None] }
    }

    /// An input of the host's, and two pipes that were made for this: their writing ends go in as they are, because nobody else has
    /// them, and whoever started this reads the others while it runs.
    pub(crate) fn with_pipes(input: OwnedFd, out: OwnedFd, err: OwnedFd) -> Self {
        let kinds = [kind(&input), Kind::Passed, Kind::Passed];
        Self { host: [input, out, err], kinds, carriers: [None, None, None] }
    }

    /// Which of the three is the terminal inside, if one is.
    pub(crate) fn terminal(&self) -> Option<u8> {
        (0..).zip(self.kinds).find(|(_, kind)| *kind == Kind::Terminal).map(|(number, _)| number)
    }

    /// What goes in.
    pub(crate) fn inside(&mut self) -> io::Result<InsideEnds> {
        let mut ends = [None, None, None];
        let rows = ends.iter_mut().zip(&self.host).zip(&self.kinds).zip(&mut self.carriers);
        for (number, (((end, host), kind), carrier)) in rows.enumerate() {
            match kind {
                Kind::Terminal => {}
                Kind::Passed => *end = Some(rustix::io::fcntl_dupfd_cloexec(host, 3)?),
                Kind::Carried => {
                    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
                    let (inner, outer) = if number == 0 { (reads, writes) } else { (writes, reads) };
                    *end = Some(inner);
                    *carrier = Some(outer);
                }
            }
        }
        Ok(InsideEnds(ends))
    }
}

fn kind(fd: &OwnedFd) -> Kind {
    const NULL: u64 = 0x103;
    if rustix::termios::isatty(fd) {
        return Kind::Terminal;
    }
    let Ok(found) = rustix::fs::fstat(fd.as_fd()) else { return Kind::Carried };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice if found.st_rdev == NULL => Kind::Passed,
        _ => Kind::Carried,
    }
}
