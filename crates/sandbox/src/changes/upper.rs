//! A layer's upper directory, as overlayfs wrote it: what stands for a deletion, a replaced directory, a file.
//!
//! Tried on 6.18 with `userxattr`: a deletion is a character device 0/0; a directory that was removed and made again
//! has `user.overlay.opaque=y`; a renamed directory is a copy, since lower directories cannot be renamed; what the
//! inside calls `user.overlay.x` itself is stored as `user.overlay.overlay.x`. The kernel also *reads* deletions
//! written as empty files with `user.overlay.whiteout`; so do we. `user.overlay.redirect` and `.metacopy` send the
//! reader elsewhere and are never written in this mode: a layer that has one is refused.
//!
//! An unprivileged caller cannot read what the run left unreadable. Its mode is written down beside the layer, then
//! the mode is widened; whoever asks for the mode gets the one that was written down.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::names::{escaped, unescaped};
use super::tree::{self, Root, Seen};
use super::{Face, What};

const PREFIX: &[u8] = b"user.overlay.";

/// What an entry of the upper directory stands for.
pub(super) enum Meaning {
    /// What was below is gone.
    Gone,
    /// This, instead of or over what is below.
    There(Face),
}

/// What a directory of the upper does to the one below.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// It lies over it: what is not named here shines through.
    Shows,
    /// It replaces it.
    Hidden,
}

/// The upper directory of one layer.
#[derive(Debug)]
pub(super) struct Upper {
    root: Root,
    /// Modes as the run left them, where they were widened since.
    modes: HashMap<PathBuf, u32>,
    /// Where modes are written down before they are widened; none: nothing is widened.
    kept: Option<File>,
}

impl Upper {
    /// Opens `folder/changes`. Only when nobody else uses the layer, modes may be widened.
    pub(super) fn open(folder: &Path, is_ours: bool) -> io::Result<Self> {
        let path = folder.join("modes");
        let mut modes = HashMap::new();
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                // A line that was cut off was not acted on. The first mode of a path is the run's.
                for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
                    let parsed = line.split_once(' ');
                    let parsed =
                        parsed.and_then(|(m, p)| Some((u32::from_str_radix(m, 8).ok()?, unescaped(p)?)));
                    if let Some((mode, path)) = parsed {
                        modes.entry(path).or_insert(mode & 0o7777);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let kept = || std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let kept = is_ours.then(kept).transpose()?;
        Ok(Self { root: Root::open(&folder.join("changes"))?, modes, kept })
    }

    /// A directory, to list it.
    pub(super) fn directory(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let is_root = rustix::process::geteuid().is_root();
        self.unlocking(path, 0o700, |root| {
            let directory = root.directory(path)?;
            // One that can be listed and not be entered is as closed as any.
            let closed = rustix::fs::fstat(&directory)?.st_mode & 0o500 != 0o500 && !is_root;
            if closed { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(directory) }
        })
    }

    /// A file with content.
    pub(super) fn file(&mut self, path: &Path) -> io::Result<File> {
        self.unlocking(path, 0o400, |root| root.file(path))
    }

    pub(super) fn link(&self, path: &Path) -> io::Result<PathBuf> {
        self.root.link(path)
    }

    /// What an entry stands for; its directory is open.
    pub(super) fn meaning(&mut self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<Option<Meaning>> {
        let name = path.file_name().unwrap_or_default();
        let stat = match rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut seen = Seen::of(&stat);
        if let Some(mode) = self.modes.get(path) {
            seen.mode = seen.mode & !0o7777 | mode;
        }
        let face = seen.face();
        if face.what == What::Device && stat.st_rdev == 0 {
            return Ok(Some(Meaning::Gone));
        }
        if face.what == What::File && face.size == 0 && self.has(path, "user.overlay.whiteout")? {
            return Ok(Some(Meaning::Gone));
        }
        if face.what == What::File && self.has(path, "user.overlay.metacopy")? {
            return Err(io::Error::other("is marked as content that is elsewhere (`user.overlay.metacopy`)"));
        }
        Ok(Some(Meaning::There(face)))
    }

    fn has(&mut self, path: &Path, attribute: &str) -> io::Result<bool> {
        let file = self.file(path)?;
        Ok(tree::attribute(file.as_fd(), attribute)?.is_some())
    }

    /// Runs `open`; when it is refused and the layer is ours, once more with a wider mode.
    fn unlocking<T>(
        &mut self,
        path: &Path,
        wider: u32,
        open: impl Fn(&Root) -> io::Result<T>,
    ) -> io::Result<T> {
        match open(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.kept.is_some() => {
                let Some(seen) = self.root.seen(path)? else { return Err(error) };
                let mode = seen.mode & 0o7777;
                if let Some(kept) = &mut self.kept {
                    kept.write_all(format!("{mode:o} {}\n", escaped(path)).as_bytes())?;
                }
                self.modes.entry(path.to_owned()).or_insert(mode);
                self.root.set_mode(path, mode & 0o777 | wider)?;
                open(&self.root)
            }
            other => other,
        }
    }
}

/// What a directory of the upper does to the one below.
pub(super) fn below(directory: BorrowedFd<'_>) -> io::Result<Below> {
    if tree::attribute(directory, "user.overlay.redirect")?.is_some() {
        return Err(io::Error::other("is marked as a directory that is elsewhere (`user.overlay.redirect`)"));
    }
    let opaque = tree::attribute(directory, "user.overlay.opaque")?;
    Ok(if opaque.as_deref() == Some(b"y") { Below::Hidden } else { Below::Shows })
}

/// The attributes that are a person's own: they are carried over.
pub(super) fn own_attributes(file: BorrowedFd<'_>) -> io::Result<Vec<(std::ffi::OsString, Vec<u8>)>> {
    let mut own = Vec::new();
    for name in tree::attributes(file)? {
        let bytes = name.as_encoded_bytes();
        if !bytes.starts_with(b"user.") || bytes.starts_with(PREFIX) {
            continue;
        }
        if let Some(value) = name.to_str().map(|name| tree::attribute(file, name)).transpose()?.flatten() {
            own.push((name, value));
        }
    }
    own.sort();
    Ok(own)
}

/// Whether the run gave a file attributes that overlayfs would act on, had they been stored as they are.
pub(super) fn has_escaped_attributes(file: BorrowedFd<'_>) -> io::Result<bool> {
    let names = tree::attributes(file)?;
    Ok(names.iter().any(|name| name.as_encoded_bytes().starts_with(b"user.overlay.overlay.")))
}
