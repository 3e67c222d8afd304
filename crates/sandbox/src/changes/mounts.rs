//! Turns a worktree and a run's folder into the mounts of a layer, with nothing left on the host.
//!
//! Flow: the worktree, read-only, at its own place -> the layer over it -> control files over that: those that exist
//! read-only, those that do not as empty directories of a lower layer of their own (`stubs`), covered by nothing.
//! Invariant: a stub never hides what the worktree has. Not here: `.git`, which is a mount of its own.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use super::folder::layer_of;
use crate::cut::Cut;
use crate::plan::{Access, Identity, Layer, Mount, Source};
use crate::profile::Protected;

/// The mounts of a worktree whose changes go to a layer.
pub(crate) fn layered(
    worktree: &Path,
    run_folder: &Path,
    protect: &[Protected],
    cut: Option<&Cut>,
) -> io::Result<Vec<Mount>> {
    let layer = layer_of(run_folder);
    let mut lower = Mount::host(worktree, worktree, Access::Read);
    lower.owned = true;
    let mut mounts = vec![lower, Mount::own(Source::Layer(layer.clone()), worktree, Access::Write)];
    if let Some(cut) = cut {
        let stubs = layer.stubs.as_deref().unwrap_or(run_folder);
        mounts.extend(cut.mounts(worktree, protect, &|path| stub(worktree, stubs, path))?);
    }
    let shows = |one: &&Protected| cut.is_none_or(|cut| cut.shows(Path::new(&one.path)));
    for protected in protect.iter().filter(shows) {
        let at = worktree.join(&protected.path);
        match std::fs::symlink_metadata(&at) {
            // A link cannot be mounted over; what replaces it is not applied.
            Ok(found) if found.is_symlink() => {}
            Ok(_) => mounts.push(Mount::host(&at, &at, Access::Read)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let stubs = layer.stubs.as_deref().unwrap_or(run_folder);
                if stub(worktree, stubs, Path::new(&protected.path))? {
                    mounts.push(Mount { programs: false, ..Mount::own(Source::Nothing, at, Access::Read) });
                }
            }
            // Something that is no directory is in the way; it keeps the name from being made.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            Err(error) => return Err(error),
        }
    }
    Ok(mounts)
}

/// Makes an empty directory in the lower layer of stubs, unless that would hide something; whether it did.
fn stub(worktree: &Path, stubs: &Path, path: &Path) -> io::Result<bool> {
    let above: Vec<&Path> = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
    let modes: io::Result<Vec<(&Path, u32)>> = above
        .into_iter()
        .rev()
        .map(|above| match std::fs::symlink_metadata(worktree.join(above)) {
            Ok(found) if found.is_dir() => Ok((above, found.mode() & 0o777)),
            Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((above, 0o755)),
            Err(error) => Err(error),
        })
        .collect();
    let modes = match modes {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(false),
        other => other?,
    };
    let make = |path: &Path, mode: u32| {
        match std::fs::DirBuilder::new().mode(0o700).create(stubs.join(path)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // As the worktree's own directory: it is what the inside sees and what is copied up.
        std::fs::set_permissions(stubs.join(path), std::fs::Permissions::from_mode(mode | 0o700))
    };
    modes.into_iter().try_for_each(|(above, mode)| make(above, mode))?;
    make(path, 0o755)?;
    Ok(true)
}

/// Gives the directories of a layer to the user that will mount it; needs root.
pub(crate) fn hand_over(layer: &Layer, identity: &Identity) -> io::Result<()> {
    if identity.owns.is_none() {
        return Ok(());
    }
    let own =
        |path: &Path| std::os::unix::fs::lchown(path, Some(identity.host_user), Some(identity.host_group));
    // The folder around them is passed through; the one above it stays closed to everybody.
    let room = layer.changes.parent().unwrap_or(&layer.changes);
    std::fs::set_permissions(room, std::fs::Permissions::from_mode(0o711))?;
    own(&layer.work)?;
    // They are ours and as deep as the names of control files.
    let mut open: Vec<_> = layer.stubs.clone().into_iter().collect();
    // What is in it is ours too, until it was mounted: then it is theirs, and theirs alone.
    if std::fs::symlink_metadata(&layer.changes)?.uid() != identity.host_user {
        open.push(layer.changes.clone());
    }
    while let Some(path) = open.pop() {
        if std::fs::symlink_metadata(&path)?.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        }
        own(&path)?;
    }
    Ok(())
}
