//! Removes a tree that an agent had: whatever its modes and however deep, without following links, without leaving the tree.
//!
//! Invariant: however deep a tree is, neither the stack nor the number of open files grows with it, and no path is made of it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Names of a directory that are read at once.
const AT_ONCE: usize = 4_096;

/// How often a directory that should be empty is gone through again; more means that somebody is adding to it.
const MOST_ROUNDS: usize = 100_000;

/// A directory on the way from the top down to where we are. However deep that is, one of them is open at a time.
struct Level {
    /// Its name in the one above.
    name: CString,
    /// What it is, so that we come back to it and to nothing else.
    id: (u64, u64),
    /// What is still to be gone through in it.
    names: Vec<CString>,
}

/// Removes it; what is not there is removed.
pub fn tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let parent =
        match rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
    let name = CString::new(std::os::unix::ffi::OsStrExt::as_bytes(name))?;
    entry_of(parent.as_fd(), &name)
}

/// Removes an entry of a directory that is open.
pub fn entry_of(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    if is_removed(folder, name)? {
        return Ok(());
    }
    let mut at = opened(folder, name)?;
    let mut way = vec![level(&at, name, AT_ONCE)?];
    let mut rounds = 0;
    while let Some(here) = way.last_mut() {
        if let Some(name) = here.names.pop() {
            if !is_removed(at.as_fd(), &name)? {
                at = opened(at.as_fd(), &name)?;
                way.push(level(&at, &name, AT_ONCE)?);
            }
            continue;
        }
        here.names = names(&at, AT_ONCE)?;
        if !here.names.is_empty() {
            continue;
        }
        let Some(emptied) = way.pop() else { break };
        let above = way.last().map(|above| up(&at, above)).transpose()?;
        let parent = above.as_ref().map_or(folder, AsFd::as_fd);
        match rustix::fs::unlinkat(parent, &emptied.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if rounds < MOST_ROUNDS => {
                rounds += 1;
                way.push(emptied);
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(above) = above {
            at = above;
        }
    }
    Ok(())
}

/// Removes everything in a directory but these paths beneath it. A directory where a file is kept, or the other way round, is
/// not what is kept.
pub fn all_but(path: &Path, kept: &Kept) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(path, flags, Mode::empty())?;
    let mut way = vec![level(&at, c"", usize::MAX)?];
    // Where we are, beneath the top; behind each directory a slash.
    let mut beneath = Vec::new();
    while let Some(here) = way.last_mut() {
        let Some(name) = here.names.pop() else {
            let Some(left) = way.pop() else { break };
            if let Some(above) = way.last() {
                at = up(&at, above)?;
                beneath.truncate(beneath.len().saturating_sub(left.name.to_bytes().len() + 1));
            }
            continue;
        };
        let length = beneath.len();
        beneath.extend(name.to_bytes());
        let kind = match rustix::fs::statat(&at, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Some(FileType::from_raw_mode(found.st_mode)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        match kind {
            Some(FileType::Directory) if kept.has_beneath(&mut beneath) => {
                at = opened(at.as_fd(), &name)?;
                way.push(level(&at, &name, usize::MAX)?);
                beneath.push(b'/');
                continue;
            }
            Some(FileType::Directory) => entry_of(at.as_fd(), &name)?,
            Some(_) if kept.has(&beneath) => {}
            Some(_) => entry_of(at.as_fd(), &name)?,
            None => {}
        }
        beneath.truncate(length);
    }
    Ok(())
}

/// What is kept when everything else goes.
#[derive(Debug, Default)]
pub struct Kept {
    /// In order, so that what lies beneath a directory stands together.
    files: Vec<Vec<u8>>,
}

impl Kept {
    /// These files, by their paths beneath the directory, and what they lie in.
    #[must_use]
    pub fn files(paths: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut files: Vec<_> = paths.into_iter().collect();
        files.sort_unstable();
        Self { files }
    }

    fn has(&self, path: &[u8]) -> bool {
        self.files.binary_search_by(|kept| kept.as_slice().cmp(path)).is_ok()
    }

    /// Whether something beneath this directory is kept; the path is as it was afterwards.
    fn has_beneath(&self, folder: &mut Vec<u8>) -> bool {
        folder.push(b'/');
        let first = self.files.partition_point(|kept| kept.as_slice() < folder.as_slice());
        let has = self.files.get(first).is_some_and(|kept| kept.starts_with(folder));
        folder.pop();
        has
    }
}

/// Removes what is no directory; false if it is one.
fn is_removed(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn level(folder: &OwnedFd, name: &CStr, most: usize) -> io::Result<Level> {
    Ok(Level { name: name.to_owned(), id: id(folder)?, names: names(folder, most)? })
}

fn id(folder: &OwnedFd) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(folder)?;
    Ok((found.st_dev, found.st_ino))
}

/// So many of the names in a directory.
fn names(folder: &OwnedFd, most: usize) -> io::Result<Vec<CString>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            found.push(name);
        }
        if found.len() >= most {
            break;
        }
    }
    Ok(found)
}

/// The directory above, if it is still the one that we came from.
fn up(folder: &OwnedFd, above: &Level) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(folder, c"..", flags, Mode::empty())?;
    match id(&found)? == above.id {
        true => Ok(found),
        false => Err(io::Error::other("somebody moves directories there while they are removed")),
    }
}

/// A directory, made readable first if need be.
fn opened(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
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

    /// The lowest of so many directories in each other.
    fn dug(top: &OwnedFd, depth: usize) -> OwnedFd {
        let mut folder = rustix::fs::openat(top, ".", OFlags::RDONLY, Mode::empty()).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&folder, "deep", Mode::from_raw_mode(0o700)).unwrap();
            folder = rustix::fs::openat(&folder, "deep", OFlags::RDONLY, Mode::empty()).unwrap();
        }
        folder
    }

    /// WT-15: also what is kept may lie deeper than files can be open and than a path can be long.
    #[test]
    fn wt_15_what_is_kept_may_lie_very_deep() {
        let home = tempfile::tempdir().unwrap();
        let tree_at = home.path().join("tree");
        std::fs::create_dir(&tree_at).unwrap();
        let top = rustix::fs::open(&tree_at, OFlags::RDONLY, Mode::empty()).unwrap();
        let lowest = dug(&top, 6_000);
        for name in ["kept", "new"] {
            rustix::fs::openat(&lowest, name, OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o600))
                .unwrap();
        }
        drop(dug(&lowest, 3_000));
        let kept = format!("{}kept", "deep/".repeat(6_000)).into_bytes();
        let near = b"deep/deep-not".to_vec();
        all_but(&tree_at, &Kept::files([kept, near])).unwrap();
        let left: Vec<_> = names(&lowest, usize::MAX).unwrap();
        assert_eq!(left, [c"kept".to_owned()]);
        drop((top, lowest));
        tree(&tree_at).unwrap();
        assert!(!tree_at.exists());
    }

    #[test]
    fn more_names_than_are_read_at_once_are_all_removed() {
        let home = tempfile::tempdir().unwrap();
        let tree_at = home.path().join("tree");
        std::fs::create_dir(&tree_at).unwrap();
        for number in 0..AT_ONCE * 2 + 1 {
            std::fs::write(tree_at.join(number.to_string()), "").unwrap();
        }
        tree(&tree_at).unwrap();
        assert!(!tree_at.exists());
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
        drop(dug(&rustix::fs::open(&tree_at, OFlags::RDONLY, Mode::empty()).unwrap(), 6_000));
        tree(&tree_at).unwrap();
        assert!(!tree_at.exists());
        assert_eq!(std::fs::read_to_string(beside.join("file")).unwrap(), "kept");
        tree(&tree_at).unwrap();
    }
}
