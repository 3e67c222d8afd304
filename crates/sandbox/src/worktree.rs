//! What guards a worktree that is the host's own directory: control files that cannot be planted, and secrets
//! that are not shown.
//!
//! Flow: names of a profile -> mounts over them, and [`Stubs`] on the host for names that do not exist yet.
//! A mount over a single file is a second wall only (a host program that replaces the file drops it), so what
//! does not exist is stubbed by a directory, and the end of a run looks again.
//!
//! Invariant: a stub is an empty directory that we made; it is removed by `rmdir`, which removes nothing else.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::plan::{Access, Mount, Source};
use crate::profile::{Hidden, Protected};

/// Directories that are not searched for hidden names: what is in them was installed or built, not written by
/// the person.
const INSTALLED: [&str; 6] = [".git", "node_modules", "target", ".venv", "venv", "__pycache__"];

/// The most that is looked at before a run; beyond it the run is refused rather than left half hidden.
const MOST_ENTRIES: usize = 2_000_000;

/// Stubs on the host; removed with the value.
#[derive(Debug, Default)]
pub struct Stubs(Vec<PathBuf>);

impl Stubs {
    /// Where they are.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.0
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            let _ = rustix::fs::rmdir(path);
        }
    }
}

/// Mounts that keep control files as they are; stubs for those that are not there.
pub(crate) fn guard(worktree: &Path, protect: &[Protected]) -> io::Result<(Vec<Mount>, Stubs)> {
    let (mut mounts, mut stubs) = (Vec::new(), Stubs::default());
    for protected in protect {
        let at = worktree.join(&protected.path);
        keep_parents(worktree, &at, &mut mounts, &mut stubs)?;
        match std::fs::symlink_metadata(&at) {
            // A link cannot be mounted over; the end of the run looks at it.
            Ok(found) if found.is_symlink() => {}
            Ok(_) => mounts.push(Mount::host(&at, &at, Access::Read)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&at, &mut stubs)?;
                mounts.push(nothing(at));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((mounts, stubs))
}

/// Directories between the worktree and what is guarded are mounted on themselves: what has a mount on it cannot
/// be moved aside.
fn keep_parents(worktree: &Path, at: &Path, mounts: &mut Vec<Mount>, stubs: &mut Stubs) -> io::Result<()> {
    let between: Vec<&Path> =
        at.ancestors().skip(1).take_while(|above| *above != worktree && above.starts_with(worktree)).collect();
    for above in between.into_iter().rev() {
        if mounts.iter().any(|mount| mount.at == above) {
            continue;
        }
        match std::fs::symlink_metadata(above) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(above, stubs)?,
            Err(error) => return Err(error),
        }
        let mut mount = Mount::host(above, above, Access::Write);
        mount.owned = true;
        mounts.push(mount);
    }
    Ok(())
}

fn make(at: &Path, stubs: &mut Stubs) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o755).create(at)?;
    stubs.0.push(at.to_owned());
    Ok(())
}

fn nothing(at: PathBuf) -> Mount {
    Mount { programs: false, ..Mount::own(Source::Nothing, at, Access::Read) }
}

/// Mounts over every file in the worktree whose name is hidden.
pub(crate) fn hide(worktree: &Path, hidden: &Hidden) -> io::Result<Vec<Mount>> {
    use std::os::unix::ffi::OsStrExt;
    let mut mounts = Vec::new();
    if hidden.hide().is_empty() {
        return Ok(mounts);
    }
    let (mut folders, mut seen) = (vec![worktree.to_owned()], 0usize);
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // What we may not read, the inside may not either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            seen += 1;
            if seen > MOST_ENTRIES {
                return Err(io::Error::other("too many files to look for hidden ones; use a profile that hides none"));
            }
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            if hidden.hides(name.as_bytes()) && !kind.is_symlink() {
                mounts.push(nothing(entry.path()));
            } else if kind.is_dir() && !INSTALLED.iter().any(|installed| name == *installed) {
                folders.push(entry.path());
            }
        }
    }
    Ok(mounts)
}
