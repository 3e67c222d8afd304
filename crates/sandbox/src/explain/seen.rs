//! Turns a call of a traced thread into a [`Call`]: paths and addresses from its memory, and what is known of the
//! files inside and on the host.
//!
//! Invariants: what is read is bounded, and what cannot be read is left out; a path inside is looked up without
//! leaving the sandbox's root and only as a place (nothing is opened that could wait or act). Another thread can
//! change a path between the call and our look: this explains, it does not guard.

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::calls::{At, names, open_flags, wanted};
use super::judge::{Call, File, Node, Peer, Want};
use super::rules::Rules;
use crate::sys::trace;

/// The longest path.
const MOST_BYTES: usize = 4096;

/// Whether an answer can be a refusal; most calls end here.
fn is_refusal(number: u32, error: i32, rules: &Rules<'_>) -> bool {
    match error {
        // A mask is seen by what succeeds.
        0 => rules.has_masks() && matches!(libc::c_long::from(number), libc::SYS_open | libc::SYS_openat),
        libc::EAGAIN => {
            matches!(libc::c_long::from(number), libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone)
        }
        libc::EINVAL => matches!(
            libc::c_long::from(number),
            libc::SYS_setuid
                | libc::SYS_setgid
                | libc::SYS_setreuid
                | libc::SYS_setregid
                | libc::SYS_setresuid
                | libc::SYS_setresgid
        ),
        libc::EEXIST | libc::EISDIR | libc::EBUSY | libc::EXDEV | libc::ENOTEMPTY => true,
        libc::EPERM | libc::EACCES | libc::EROFS | libc::ENOENT | libc::ENOTDIR | libc::ENOSYS => true,
        libc::EMFILE | libc::EFBIG | libc::ENOSPC => true,
        libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::EADDRNOTAVAIL | libc::ECONNREFUSED => true,
        libc::ENETDOWN | libc::ENETUNREACH | libc::EHOSTUNREACH => true,
        _ => false,
    }
}

/// What a thread asked for, if the answer can be a refusal.
pub(super) fn call(
    thread: i32,
    number: u32,
    arguments: [u64; 6],
    result: i64,
    rules: &Rules<'_>,
) -> Option<Call> {
    let error = if (-4095..0).contains(&result) { i32::try_from(-result).ok()? } else { 0 };
    if !is_refusal(number, error, rules) {
        return None;
    }
    let (mut files, mut peer) = (Vec::new(), None);
    for (at, want) in names(number) {
        let want = open_flags(number, &arguments).map_or(*want, wanted);
        match (named(thread, *at, &arguments), error) {
            (Some(Named::Peer(address)), _) => {
                peer = Some(Peer {
                    address,
                    host_listens: error == libc::ECONNREFUSED && host_listens(address.port()),
                });
            }
            (Some(Named::Path(path)), 0) => files.push(bare(path, want)),
            (Some(Named::Path(path)), _) => files.push(file(thread, path, want, error, rules)),
            (None, _) => {}
        }
    }
    Some(Call { number, arguments, error, files, peer })
}

enum Named {
    Path(PathBuf),
    Peer(SocketAddr),
}

/// What an argument names.
fn named(thread: i32, at: At, arguments: &[u64; 6]) -> Option<Named> {
    let argument = |place: usize| arguments.get(place).copied().unwrap_or(0);
    let descriptor = |place: usize| i32::try_from(argument(place).cast_signed() << 32 >> 32).unwrap_or(-1);
    match at {
        At::Path(place) => path(thread, libc::AT_FDCWD, argument(place)).map(Named::Path),
        At::Beside(folder, place) => path(thread, descriptor(folder), argument(place)).map(Named::Path),
        At::Open(place) => link(thread, descriptor(place)).filter(|path| path.is_absolute()).map(Named::Path),
        At::Address(place) => address(thread, argument(place), argument(place + 1)),
        At::Message(place) => {
            let mut head = [0u8; 16];
            let got = trace::read(thread, argument(place), &mut head);
            let (name, length) = head.split_at(8);
            let name = u64::from_le_bytes(name.try_into().ok()?);
            let length = u32::from_le_bytes(length.get(..4)?.try_into().ok()?);
            (got == 16).then(|| address(thread, name, length.into())).flatten()
        }
    }
}

/// A path of the thread, absolute and without steps up.
fn path(thread: i32, folder: i32, from: u64) -> Option<PathBuf> {
    let mut bytes = [0u8; MOST_BYTES];
    let got = trace::read(thread, from, &mut bytes);
    let text = bytes.get(..got)?;
    let text = text.get(..text.iter().position(|byte| *byte == 0)?)?;
    let path = PathBuf::from(OsString::from_vec(text.to_vec()));
    if path.is_absolute() {
        return Some(clean(&path));
    }
    link(thread, folder).filter(|base| base.is_absolute()).map(|base| clean(&base.join(path)))
}

/// The path of what a thread has open, or of where it stands.
fn link(thread: i32, descriptor: i32) -> Option<PathBuf> {
    let link = match descriptor {
        libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
        number => format!("/proc/{thread}/fd/{number}"),
    };
    std::fs::read_link(link).ok()
}

fn clean(path: &Path) -> PathBuf {
    let mut done = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => done.push(name),
            Component::ParentDir => drop(done.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    done
}

fn address(thread: i32, from: u64, length: u64) -> Option<Named> {
    let mut bytes = [0u8; 128];
    let wanted = usize::try_from(length).ok()?.min(bytes.len());
    let got = trace::read(thread, from, bytes.get_mut(..wanted)?);
    let bytes = bytes.get(..got)?;
    let two = |at: usize| bytes.get(at..at + 2).and_then(|two| <[u8; 2]>::try_from(two).ok());
    let port = || two(2).map(u16::from_be_bytes);
    match i32::from(u16::from_le_bytes(two(0)?)) {
        libc::AF_INET => {
            let four: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(Named::Peer(SocketAddr::from((Ipv4Addr::from(four), port()?))))
        }
        libc::AF_INET6 => {
            let all: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(Named::Peer(SocketAddr::from((Ipv6Addr::from(all), port()?))))
        }
        libc::AF_UNIX => {
            let text = bytes.get(2..)?.split(|byte| *byte == 0).next().filter(|text| !text.is_empty())?;
            let path = PathBuf::from(OsString::from_vec(text.to_vec()));
            let base = if path.is_absolute() { PathBuf::new() } else { link(thread, libc::AT_FDCWD)? };
            Some(Named::Path(clean(&base.join(path))))
        }
        _ => None,
    }
}

/// Whether somebody listens at this port of the host.
fn host_listens(port: u16) -> bool {
    let lists =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|list| std::fs::read_to_string(list).unwrap_or_default());
    let end = format!(":{port:04X}");
    lists.iter().flat_map(|list| list.lines()).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (own, state) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        own.ends_with(&end) && state == "0A"
    })
}

/// A file about which nothing more need be known.
fn bare(path: PathBuf, want: Want) -> File {
    File { want, nearest: path.clone(), path, node: None, absent: None }
}

/// A file, and what decides about it.
fn file(thread: i32, path: PathBuf, want: Want, error: i32, rules: &Rules<'_>) -> File {
    if error == libc::ENOENT || error == libc::ENOTDIR {
        let absent = absent(thread, &path, want, rules);
        return File { absent, ..bare(path, want) };
    }
    let found = Inside::open(thread, &path);
    let real = found.as_ref().and_then(Inside::path).unwrap_or_else(|| beside(thread, &path));
    let is_name = matches!(want, Want::Remove | Want::Move) || (want == Want::Make && found.is_none());
    let decides = if is_name { real.parent().and_then(|folder| Inside::open(thread, folder)) } else { found };
    let nearest =
        real.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(Path::new("/")).to_owned();
    File { want, path: real, node: decides.as_ref().and_then(Inside::node), absent: None, nearest }
}

/// The path of something that is not there, by the directory it would be in.
fn beside(thread: i32, path: &Path) -> PathBuf {
    let folder =
        path.parent().and_then(|folder| Inside::open(thread, folder)).and_then(|folder| folder.path());
    folder.zip(path.file_name()).map_or_else(|| path.to_owned(), |(folder, name)| folder.join(name))
}

/// What the host has and the inside has not: the path, and the topmost part of it that is missing.
fn absent(thread: i32, path: &Path, want: Want, rules: &Rules<'_>) -> Option<(PathBuf, PathBuf)> {
    let makes = matches!(want, Want::Make | Want::Write);
    let there = match path.canonicalize() {
        Ok(there) => there,
        // A new file in a directory that only the host has.
        Err(_) if makes => path.parent()?.canonicalize().ok()?,
        Err(_) => return None,
    };
    if there.parent().is_none() || rules.gives(&there) {
        return None;
    }
    let mut above: Vec<&Path> = there.ancestors().collect();
    above.reverse();
    let missing = above.into_iter().find(|part| Inside::open(thread, part).is_none())?;
    Some((there.clone(), missing.to_owned()))
}

/// A place inside, held.
struct Inside(OwnedFd);

impl Inside {
    fn open(thread: i32, path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{thread}/root"), flags, Mode::empty()).ok()?;
        let rest =
            path.strip_prefix("/").ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&root, rest, flags, Mode::empty(), resolve).ok().map(Self)
    }

    /// Where it really is, as the inside sees it.
    fn path(&self) -> Option<PathBuf> {
        use std::os::fd::AsRawFd;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd())).ok()?;
        (path.is_absolute() && !path.as_os_str().as_bytes().ends_with(b" (deleted)")).then_some(path)
    }

    fn node(&self) -> Option<Node> {
        let found = rustix::fs::fstat(&self.0).ok()?;
        Some(Node { owner: found.st_uid, group: found.st_gid, mode: found.st_mode })
    }
}
