//! What guards a worktree that is the host's own directory: control files that cannot be planted, and secrets
//! that are not shown.
//!
//! Flow: names of a profile -> mounts over them, and [`Stubs`] on the host for names that do not exist yet.
//! A mount over a single file is a second wall only (a host program that replaces the file drops it), so what
//! does not exist is stubbed by a directory, and the end of a run looks again.
//!
//! Invariant: a stub is an empty directory that we made; it is removed by `rmdir`, which removes nothing else.

mod stubs;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::guardian::Guardian;
use crate::plan::{Access, Mount, Source, is_below};
use crate::profile::Protected;
pub(crate) use stubs::{Left, relied_on};
pub use stubs::{Stubs, sweep};

/// Mounts that keep control files as they are; stubs for those that are not there.
///
/// `written` are the places of it that can be written, `books` is where stubs are written down, `run` what this run is
/// called there.
pub(crate) fn guard(
    worktree: &Path,
    (written, read): (&[&Path], &[&Path]),
    protect: &[Protected],
    books: &Path,
    run: &OsStr,
) -> io::Result<(Vec<Mount>, Stubs)> {
    let mut mounts = Vec::new();
    if protect.is_empty() {
        return Ok((mounts, Stubs::default()));
    }
    let (stubs, _open) = Stubs::begin(books, worktree, run)?;
    let mut leaves: Vec<PathBuf> = Vec::new();
    for protected in protect {
        let at = worktree.join(&protected.path);
        keep_parents(worktree, (written, read), &at, &mut mounts, &stubs)?;
        match std::fs::symlink_metadata(&at) {
            // A link cannot be mounted over; the end of the run looks at it.
            Ok(found) if found.is_symlink() => {}
            // Another run made it; now both rely on it.
            Ok(_) if stubs.is_shared(&at) => {
                stubs.note(&at)?;
                mounts.push(nothing(at));
            }
            Ok(_) => mounts.push(Mount::host(&at, &at, Access::Read)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // By their bytes: whole paths take long to compare.
                if !leaves.iter().any(|leaf| leaf.as_os_str() == at.as_os_str()) {
                    leaves.push(at.clone());
                    mounts.push(nothing(at));
                }
            }
            Err(error) => return Err(error),
        }
    }
    stubs.make_all(&leaves)?;
    Ok((mounts, stubs))
}

/// Directories between the worktree and what is guarded are mounted on themselves: what has a mount on it cannot
/// be moved aside. Where nothing can be written nothing is moved, and a mount that can be written would open it.
fn keep_parents(
    worktree: &Path,
    (written, read): (&[&Path], &[&Path]),
    at: &Path,
    mounts: &mut Vec<Mount>,
    stubs: &Stubs,
) -> io::Result<()> {
    let between: Vec<&Path> = at
        .ancestors()
        .skip(1)
        .take_while(|above| *above != worktree && above.starts_with(worktree))
        .collect();
    for above in between.into_iter().rev() {
        if mounts.iter().any(|mount| mount.at == above) {
            continue;
        }
        match std::fs::symlink_metadata(above) {
            Ok(found) if found.is_symlink() => {
                let why = format!(
                    "`{}` is a link on the way to what is protected; remove it, or the rule",
                    above.display()
                );
                return Err(io::Error::other(why));
            }
            Ok(_) if stubs.is_shared(above) => stubs.note(above)?,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => stubs.make(above)?,
            Err(error) => return Err(error),
        }
        // What is given by name is a mount already. The nearest place says whether it is written there.
        let nearest = |places: &[&Path]| {
            places.iter().filter(|place| is_below(above, place)).map(|place| place.components().count()).max()
        };
        let is_given = written.contains(&above) || read.contains(&above);
        if !is_given && nearest(written) > nearest(read) {
            let mut mount = Mount::host(above, above, Access::Write);
            mount.owned = true;
            mounts.push(mount);
        }
    }
    Ok(())
}

fn nothing(at: PathBuf) -> Mount {
    Mount { programs: false, ..Mount::own(Source::Nothing, at, Access::Read) }
}

/// Mounts over every file of a place whose name is hidden; from now on it is watched for more of them.
pub(crate) fn hide(place: &Path, guardian: &mut Guardian) -> io::Result<Vec<Mount>> {
    Ok(guardian.hidden(place)?.into_iter().map(nothing).collect())
}

/// Mounts over every file that a hidden name leads to by a link, in all places that are watched.
pub(crate) fn hide_linked(guardian: &mut Guardian) -> Vec<Mount> {
    guardian.linked().into_iter().map(nothing).collect()
}
