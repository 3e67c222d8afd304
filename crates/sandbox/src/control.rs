//! A run that is at work can be looked up, stopped where it is, and ended, by the same user, from elsewhere.
//!
//! Flow: the launcher of a run listens on `<live>/<run>.sock` -> [`Control::ask`] from another process. One packet
//! each way. Invariants: the directory belongs to the user alone, so whoever reaches the socket may end the process
//! anyway; a socket whose launcher is gone is removed by the next who looks. Not here: what a signal does
//! ([`crate::running`]), who may ask in a daemon (`access`).

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind,
    connect, listen, recv, send, socket_with,
};
use serde::{Deserialize, Serialize};

use crate::groups::Groups;
use crate::plan::Plan;
use crate::receipt::RunId;

/// The longest packet: a plan.
const MOST_BYTES: usize = 192 * 1024;
/// The longest text that is left for a run.
const MOST_LEFT: u64 = 4 * 1024 * 1024;

/// What a run can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Say who you are.
    Tell,
    /// Stand still.
    Freeze,
    /// Go on.
    Thaw,
    /// Ask the command to end; after a while everything is ended.
    Stop,
    /// End everything now.
    Kill,
    /// Let nothing out of it any more.
    Offline,
    /// Take other rules for the network: they lie beside the socket ([`Control::leave`]).
    Rules,
    /// Say how the sandbox is made, for a process that joins it.
    Plan,
}

/// What a run says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Said {
    /// Whether it was done.
    pub done: bool,
    /// Process 1, as the host numbers it.
    pub pid: i32,
    /// The command.
    pub command: String,
    /// Whether it stands still.
    pub frozen: bool,
    /// By what it is frozen: a control group, or a signal to each process.
    pub by: String,
    /// How long its command has to end by itself when it is stopped, in milliseconds.
    pub grace_ms: u64,
    /// Why it was not done.
    pub why: Option<String>,
    /// How the sandbox is made, if that was asked.
    pub plan: Option<Box<Plan>>,
    /// The hash of the rules of its network, if it has one.
    pub rules: Option<String>,
}

/// The launcher's end.
#[derive(Debug)]
pub struct Control {
    socket: OwnedFd,
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.path.with_extension(LEFT));
    }
}

/// How what is left for a run is called.
const LEFT: &str = "rules";
/// How a socket is called before anybody can be heard on it.
const DRAFT: &str = "new";

/// Its launcher was killed, and what it launched went with it: nothing of it need stay.
fn forget(folder: &Path, run: &RunId) {
    Groups::forget(&format!("palisade-{run}"));
    for kind in ["sock", LEFT] {
        let _ = std::fs::remove_file(folder.join(format!("{run}.{kind}")));
    }
}

fn seqpacket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Paths of sockets are short in the kernel: what is too long is reached through its directory.
fn address(folder: &OwnedFd, run: &RunId, kind: &str) -> rustix::io::Result<SocketAddrUnix> {
    use std::os::fd::AsRawFd;
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{run}.{kind}", folder.as_raw_fd()))
}

fn opened(folder: &Path) -> io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, rustix::fs::Mode::empty())?)
}

impl Control {
    /// Listens for a run, in a directory of the user's own.
    ///
    /// # Errors
    /// When the directory or the socket cannot be made.
    pub fn listen(folder: &Path, run: &RunId) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let socket = seqpacket()?;
        let held = opened(folder)?;
        // Under its name only when it listens: before, it looks like one whose launcher is gone, which is removed.
        bind(&socket, &address(&held, run, DRAFT)?)?;
        listen(&socket, 8)?;
        rustix::fs::renameat(&held, format!("{run}.{DRAFT}"), &held, format!("{run}.sock"))?;
        Ok(Self { socket, path: folder.join(format!("{run}.sock")) })
    }

    pub(crate) fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// One question, if somebody is there with one.
    pub(crate) fn question(&self) -> Option<(Ask, OwnedFd)> {
        let peer = acceptfrom_with(&self.socket, SocketFlags::CLOEXEC).ok()?.0;
        let timeout = Some(std::time::Duration::from_millis(200));
        rustix::net::sockopt::set_socket_timeout(&peer, rustix::net::sockopt::Timeout::Recv, timeout).ok()?;
        let mut bytes = [0u8; 64];
        let (got, _) = recv(&peer, &mut bytes, RecvFlags::empty()).ok()?;
        let ask = serde_json::from_slice(bytes.get(..got)?).ok()?;
        Some((ask, peer))
    }

    pub(crate) fn answer(peer: &OwnedFd, said: &Said) {
        if let Ok(bytes) = serde_json::to_vec(said) {
            let _ = send(peer, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Leaves a text for a run, which takes it when it is told to: it may be longer than a packet.
    ///
    /// # Errors
    /// When it cannot be written, or is too long.
    pub fn leave(folder: &Path, run: &RunId, text: &[u8]) -> io::Result<()> {
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > MOST_LEFT {
            return Err(io::Error::other(format!("it is longer than {MOST_LEFT} bytes")));
        }
        let place = folder.join(format!("{run}.{LEFT}"));
        let whole = place.with_extension(format!("{LEFT}.{}", std::process::id()));
        let mut new = std::fs::OpenOptions::new();
        let written = new.write(true).create_new(true).mode(0o600).open(&whole);
        written.and_then(|mut file| file.write_all(text)).and_then(|()| std::fs::rename(&whole, &place))
    }

    /// Takes back what was left, if nobody took it.
    pub fn withdraw(folder: &Path, run: &RunId) {
        let _ = std::fs::remove_file(folder.join(format!("{run}.{LEFT}")));
    }

    /// Takes what was left.
    pub(crate) fn left(&self) -> io::Result<Vec<u8>> {
        let place = self.path.with_extension(LEFT);
        let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&place)?;
        let _ = std::fs::remove_file(&place);
        let mut text = Vec::new();
        file.take(MOST_LEFT).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Asks a run from elsewhere; none if there is no such run at work.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ask(folder: &Path, run: &RunId, ask: Ask) -> io::Result<Option<Said>> {
        let Ok(opened) = opened(folder) else { return Ok(None) };
        let socket = seqpacket()?;
        match connect(&socket, &address(&opened, run, "sock")?) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::CONNREFUSED) => {
                forget(folder, run);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        let timeout = Some(std::time::Duration::from_secs(10));
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, timeout)?;
        send(&socket, &serde_json::to_vec(&ask)?, SendFlags::NOSIGNAL)?;
        let mut bytes = vec![0u8; MOST_BYTES];
        let (got, _) = recv(&socket, &mut bytes, RecvFlags::empty())?;
        Ok(Some(serde_json::from_slice(bytes.get(..got).unwrap_or_default())?))
    }

    /// Removes what runs left whose launcher was killed.
    pub fn sweep(folder: &Path) {
        let (Ok(entries), Ok(opened)) = (std::fs::read_dir(folder), opened(folder)) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let run = name.to_str().and_then(|name| name.strip_suffix(".sock")?.parse::<RunId>().ok());
            if let (Some(run), Ok(socket)) = (run, seqpacket())
                && let Ok(address) = address(&opened, &run, "sock")
                && connect(&socket, &address) == Err(rustix::io::Errno::CONNREFUSED)
            {
                forget(folder, &run);
            }
        }
    }

    /// Every run at work.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(folder: &Path) -> io::Result<Vec<(RunId, Said)>> {
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let run = name.to_str().and_then(|name| name.strip_suffix(".sock")?.parse::<RunId>().ok());
            if let Some(run) = run
                && let Ok(Some(said)) = Self::ask(folder, &run, Ask::Tell)
            {
                found.push((run, said));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
