//! Removes a tree that an agent had: whatever its modes, without following links, without leaving the tree.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// How deep it goes by itself; what is deeper is brought up first.
const DEEPEST: usize = 200;

/// How often what came up is gone through; more means that somebody is adding to it.
const MOST_ROUNDS: usize = 100_000;

/// Removes it; what is not there is removed.
pub fn tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let parent =
        match rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
    let name = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(name))?;
    entry_of(parent.as_fd(), &name)
}

/// Removes an entry of a directory that is open.
pub fn entry_of(folder: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<()> {
    // Each time around, what was too deep has come up to the top.
    for _ in 0..MOST_ROUNDS {
        if entry(folder, name, None, 0)? {
            return Ok(());
        }
    }
    Err(Errno::NOTEMPTY.into())
}

/// Removes everything in a directory but these paths beneath it. A directory where a file is kept, or the other way round, is
/// not what is kept.
pub fn all_but(path: &Path, kept: &Kept) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    others(folder.as_fd(), &[], kept)
}

fn others(folder: BorrowedFd<'_>, at: &[u8], kept: &Kept) -> io::Result<()> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            found.push(name);
        }
    }
    for name in found {
        let mut beneath = at.to_vec();
        if !at.is_empty() {
            beneath.push(b'/');
        }
        beneath.extend(name.to_bytes());
        let kind = match rustix::fs::statat(folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => FileType::from_raw_mode(found.st_mode),
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        match kind {
            FileType::Directory if kept.folders.contains(&beneath) => {
                others(opened(folder, &name)?.as_fd(), &beneath, kept)?;
            }
            FileType::Directory => entry_of(folder, &name)?,
            _ if kept.files.contains(&beneath) => {}
            _ => entry_of(folder, &name)?,
        }
    }
    Ok(())
}

/// What is kept when everything else goes.
#[derive(Debug, Default)]
pub struct Kept {
    files: HashSet<Vec<u8>>,
    folders: HashSet<Vec<u8>>,
}

impl Kept {
    /// These files, by their paths beneath the directory, and what they lie in.
    #[must_use]
    pub fn files(paths: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut kept = Self::default();
        for path in paths {
            for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                kept.folders.extend(path.get(..at).map(<[u8]>::to_vec));
            }
            kept.files.insert(path);
        }
        kept
    }
}

/// Removes one entry; whether all of it is gone.
fn entry(
    folder: BorrowedFd<'_>,
    name: &std::ffi::CStr,
    top: Option<BorrowedFd<'_>>,
    depth: usize,
) -> io::Result<bool> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    if let (Some(top), true) = (top, depth > DEEPEST) {
        let mut number = 0u32;
        loop {
            let up = format!("deep-{number}");
            match rustix::fs::renameat_with(
                folder,
                name,
                top,
                up.as_str(),
                rustix::fs::RenameFlags::NOREPLACE,
            ) {
                Err(Errno::EXIST) => number += 1,
                other => return Ok(other.map(|()| false)?),
            }
        }
    }
    let inner = opened(folder, name)?;
    let mut gone = true;
    for found in Dir::read_from(&inner)? {
        let found = found?;
        if !matches!(found.file_name().to_bytes(), b"." | b"..") {
            gone &= entry(inner.as_fd(), found.file_name(), Some(top.unwrap_or(inner.as_fd())), depth + 1)?;
        }
    }
    match rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(true),
        // What was too deep is here now.
        Err(Errno::NOTEMPTY | Errno::EXIST) if !gone || top.is_none() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A directory, made readable first if need be.
fn opened(folder: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place =
        rustix::fs::openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = rustix::fs::fstat(&place)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR.into());
    }
    if found.st_mode & 0o700 != 0o700 {
        // By descriptor: a mode cannot be set on a mere place otherwise.
        let by_number = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place));
        rustix::fs::chmodat(CWD, by_number.as_str(), Mode::from_raw_mode(0o700), AtFlags::empty())?;
    }
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_kept_stays_and_the_rest_goes() {
        let home = tempfile::tempdir().unwrap();
        let (tree_at, beside) = (home.path().join("tree"), home.path().join("beside"));
        for folder in ["a/b", "new/deep", "a/was-file", "odd"] {
            std::fs::create_dir_all(tree_at.join(folder)).unwrap();
        }
        std::fs::create_dir(&beside).unwrap();
        for file in ["a/b/kept", "a/b/new", "top", "new/deep/x", "a/was-file/x", "odd/.hidden"] {
            std::fs::write(tree_at.join(file), "x").unwrap();
        }
        std::fs::write(beside.join("file"), "kept").unwrap();
        std::os::unix::fs::symlink(&beside, tree_at.join("a/was-folder")).unwrap();
        std::os::unix::fs::symlink(&beside, tree_at.join("new/link")).unwrap();
        std::fs::set_permissions(tree_at.join("a/b"), std::fs::Permissions::from_mode(0o0)).unwrap();
        let kept =
            ["a/b/kept", "a/was-file", "a/was-folder/file", "gone/file"].map(|path| path.as_bytes().to_vec());
        all_but(&tree_at, &Kept::files(kept)).unwrap();
        let left = |path: &str| tree_at.join(path).exists();
        assert!(left("a/b/kept") && !left("a/b/new") && !left("top") && !left("new") && !left("odd"));
        assert!(!left("a/was-file") && std::fs::symlink_metadata(tree_at.join("a/was-folder")).is_err());
        assert_eq!(std::fs::read_to_string(beside.join("file")).unwrap(), "kept");
    }

    #[test]
    fn a_hostile_tree_is_removed_and_nothing_beside_it() {
        let home = tempfile::tempdir().unwrap();
        let (tree_at, beside) = (home.path().join("tree"), home.path().join("beside"));
        std::fs::create_dir_all(tree_at.join("a/b")).unwrap();
        std::fs::create_dir(&beside).unwrap();
        std::fs::write(beside.join("file"), "kept").unwrap();
        std::os::unix::fs::symlink(&beside, tree_at.join("a/link")).unwrap();
        std::fs::write(tree_at.join("a/b/file"), "x").unwrap();
        std::fs::set_permissions(tree_at.join("a/b"), std::fs::Permissions::from_mode(0o0)).unwrap();
        let mut folder = rustix::fs::open(&tree_at, OFlags::RDONLY, Mode::empty()).unwrap();
        for _ in 0..2000 {
            rustix::fs::mkdirat(&folder, "deep", Mode::from_raw_mode(0o700)).unwrap();
            folder = rustix::fs::openat(&folder, "deep", OFlags::RDONLY, Mode::empty()).unwrap();
        }
        drop(folder);
        tree(&tree_at).unwrap();
        assert!(!tree_at.exists());
        assert_eq!(std::fs::read_to_string(beside.join("file")).unwrap(), "kept");
        tree(&tree_at).unwrap();
    }
}
