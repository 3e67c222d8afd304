//! Turns a layer's upper directory and the worktree below it into a list of changes.
//!
//! Invariant: the list is in the order of paths, what is above before what is below, and names every path that
//! applying would touch. What merely was copied up (opened for writing, touched) and is still the same is no change.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::names::escaped;
use super::tree::{self, MOST_PATH, Root, Seen, is_git};
use super::upper::{self, Below, Meaning, Upper};
use super::{Change, Dropped, Face, Kind, What, renames};

/// Why the changes of a run cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no layer.
    #[error("the run has no layer any more; it was discarded")]
    NoLayer,
    /// The worktree is gone, or another directory has its name.
    #[error("`{}` is not the directory that the run worked in; move it back", escaped(.0))]
    NoWorktree(PathBuf),
    /// A file cannot be read.
    #[error("`{name}`: {1}", name = escaped(.0))]
    File(PathBuf, #[source] io::Error),
}

/// A directory of the layer that is still to be read.
struct Open {
    path: PathBuf,
    /// Whether the worktree has a directory there.
    has_lower: bool,
    below: Below,
}

/// Everything that differs.
pub(super) fn read(upper: &mut Upper, host: &Root) -> Result<Vec<Change>, ReadError> {
    let mut reader = Reader { upper, host, changes: Vec::new() };
    let mut open = vec![Open { path: PathBuf::new(), has_lower: true, below: Below::Shows }];
    while let Some(next) = open.pop() {
        reader.directory(next, &mut open).map_err(|(path, error)| ReadError::File(path, error))?;
    }
    let mut changes = reader.changes;
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    renames::pair(&mut changes, upper, host);
    Ok(changes)
}

struct Reader<'a> {
    upper: &'a mut Upper,
    host: &'a Root,
    changes: Vec<Change>,
}

type At<T> = Result<T, (PathBuf, io::Error)>;

impl Reader<'_> {
    fn directory(&mut self, open: Open, more: &mut Vec<Open>) -> At<()> {
        let at = |error| (open.path.clone(), error);
        let directory = match self.upper.directory(&open.path) {
            // A layer in use: it was there a moment ago.
            Err(error) if tree::is_nothing(&error) && !open.path.as_os_str().is_empty() => return Ok(()),
            other => other.map_err(at)?,
        };
        let below = if open.below == Below::Hidden {
            Below::Hidden
        } else {
            upper::below(directory.as_fd()).map_err(at)?
        };
        let lower = if open.has_lower { self.lower(&open.path).map_err(at)? } else { None };
        let names = tree::names(directory.as_fd()).map_err(at)?;
        for name in &names {
            let path = open.path.join(name);
            if is_git(&path) {
                continue;
            }
            let entry = self.entry(&directory, lower.as_ref(), below, path.clone(), more);
            entry.map_err(|error| (path, error))?;
        }
        if let (Below::Hidden, Some(lower)) = (below, &lower) {
            let kept: HashSet<&OsString> = names.iter().collect();
            for name in listed(lower).map_err(at)?.iter().filter(|name| !kept.contains(name)) {
                let path = open.path.join(name);
                let seen = tree::seen_in(lower.as_fd(), name).map_err(at)?;
                if let Some(seen) = seen.filter(|_| !is_git(&path)) {
                    self.deleted(path, seen).map_err(at)?;
                }
            }
        }
        Ok(())
    }

    /// The worktree's directory; none if it is gone, or not ours to enter.
    fn lower(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        match self.host.directory(path) {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if tree::is_nothing(&error) => Ok(None),
            // It can be passed without being listed.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.host.place(path).map(Some),
            Err(error) => Err(error),
        }
    }

    fn entry(
        &mut self,
        directory: &OwnedFd,
        lower: Option<&OwnedFd>,
        below: Below,
        path: PathBuf,
        more: &mut Vec<Open>,
    ) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default();
        let before = match lower {
            Some(lower) => tree::seen_in(lower.as_fd(), name)?,
            None => None,
        };
        let after = match self.upper.meaning(directory.as_fd(), &path)? {
            None => return Ok(()),
            Some(Meaning::Gone) => return before.map_or(Ok(()), |before| self.deleted(path, before)),
            Some(Meaning::There(after)) => after,
        };
        if path.as_os_str().len() > MOST_PATH {
            let after = Face { what: What::TooLong, ..after };
            self.changes.push(Change {
                path,
                kind: Kind::Added,
                before: None,
                after: Some(after),
                dropped: Vec::new(),
            });
            return Ok(());
        }
        let before = before.map(Seen::face);
        if after.what == What::Directory {
            let has_lower = before.is_some_and(|before| before.what == What::Directory);
            more.push(Open { path: path.clone(), has_lower, below });
        }
        let mut dropped = Vec::new();
        let had = before.map_or(0, |before| before.seen.mode);
        if after.what == What::File && after.seen.mode & 0o6000 & !had != 0 {
            dropped.push(Dropped::SetId);
        }
        if after.what == What::File && upper::has_escaped_attributes(self.upper.file(&path)?.as_fd())? {
            dropped.push(Dropped::Attribute);
        }
        let kind = match &before {
            None => Some(Kind::Added),
            Some(before) if before.what != after.what => Some(Kind::TypeChanged),
            Some(before) => self.compared(&path, before, &after)?,
        };
        // What only has something that is dropped is told, too.
        let Some(kind) = kind.or((!dropped.is_empty()).then_some(Kind::ModeChanged)) else { return Ok(()) };
        if let (Kind::TypeChanged, Some(before)) = (&kind, &before)
            && before.what == What::Directory
        {
            self.deleted_in(&path)?;
        }
        self.changes.push(Change { path, kind, before, after: Some(after), dropped });
        Ok(())
    }

    /// How two things of the same kind differ; none if they do not.
    fn compared(&mut self, path: &Path, before: &Face, after: &Face) -> io::Result<Option<Kind>> {
        let is_same = match after.what {
            What::File => before.size == after.size && self.is_same_content(path)?,
            What::Link => self.upper.link(path)? == self.host.link(path)?,
            What::Directory | What::Fifo | What::Socket | What::Device | What::TooLong => true,
        };
        let is_same_mode = before.mode == after.mode || after.what == What::Link;
        Ok(match (is_same, is_same_mode) {
            (false, _) => Some(Kind::Changed),
            (true, false) => Some(Kind::ModeChanged),
            (true, true) => None,
        })
    }

    fn is_same_content(&mut self, path: &Path) -> io::Result<bool> {
        let host = match self.host.file(path) {
            Ok(host) => host,
            // What we cannot read is not known to be the same.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
            Err(error) => return Err(error),
        };
        let upper = self.upper.file(path)?;
        if upper::own_attributes(host.as_fd())? != upper::own_attributes(upper.as_fd())? {
            return Ok(false);
        }
        is_same(&host, &upper)
    }

    fn deleted(&mut self, path: PathBuf, before: Seen) -> io::Result<()> {
        let before = before.face();
        if before.what == What::Directory {
            self.deleted_in(&path)?;
        }
        self.changes.push(Change {
            path,
            kind: Kind::Deleted,
            before: Some(before),
            after: None,
            dropped: Vec::new(),
        });
        Ok(())
    }

    /// Names everything in a directory of the worktree as deleted.
    fn deleted_in(&mut self, path: &Path) -> io::Result<()> {
        let mut open = vec![path.to_owned()];
        while let Some(path) = open.pop() {
            if path.as_os_str().as_bytes().len() > MOST_PATH {
                return Err(io::Error::other("the path is too long"));
            }
            let Some(directory) = self.lower(&path)? else { continue };
            for name in listed(&directory)? {
                let Some(seen) = tree::seen_in(directory.as_fd(), &name)? else { continue };
                let (path, before) = (path.join(&name), seen.face());
                if before.what == What::Directory {
                    open.push(path.clone());
                }
                let before = Some(before);
                self.changes.push(Change {
                    path,
                    kind: Kind::Deleted,
                    before,
                    after: None,
                    dropped: Vec::new(),
                });
            }
        }
        Ok(())
    }
}

/// The names in a directory of the worktree; none if it is not ours to list.
fn listed(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    match tree::names(directory.as_fd()) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::EACCES)) => Ok(Vec::new()),
        other => other,
    }
}

/// Whether two files of one size have the same bytes; what is a hole in both is not read.
fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0u8; 1 << 16], vec![0u8; 1 << 16]);
    let mut at = 0;
    loop {
        let Some(next) = data(one, at)?.into_iter().chain(data(other, at)?).min() else { return Ok(true) };
        let (read, also) = (filled(one, &mut left, next)?, filled(other, &mut right, next)?);
        if left.get(..read) != right.get(..also) {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
        at = next.saturating_add(read as u64);
    }
}

/// Where content goes on; none if only a hole is left.
fn data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

/// Reads as much as there is room, or until the end.
fn filled(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = room.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at.saturating_add(length as u64))? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}
