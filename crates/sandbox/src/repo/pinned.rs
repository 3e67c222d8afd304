//! Keeps what a run in a layer sees of its branch as it was at launch, whatever others do to the repository meanwhile.
//!
//! A layer shows what is below as it is now. Where another run's commits are taken over while this one is at work, it would find its
//! branch elsewhere and its index behind, and its next commit would take those commits back. So `HEAD`, the index and the branch
//! are in the layer from the beginning. Invariant: they are of one moment. Repositories with reftables have no file for
//! a branch; there nothing is pinned.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ::files::{FileError, Kind, Root, Rule};

use super::Repository;
use super::place::Place;
use super::refs::{self, Head};

/// More entries than this below `refs` are a change.
const MOST_ENTRIES: usize = 10_000;
/// The longest content of a reference.
const MOST_BYTES: u64 = 4096;

/// A file of the layer that is as at launch until somebody inside changes it: its place in the repository, its bytes.
pub(super) type Pin = (PathBuf, Vec<u8>);

/// Puts them into the layer; what is checked out, and what was put there. Nobody applies anything meanwhile.
pub(super) fn pin(place: &Place, changes: &Path) -> io::Result<(Head, Vec<Pin>)> {
    let head = refs::head(&place.own, &place.common)?;
    let mut pins = Vec::new();
    if place.common.join("reftable").is_dir() {
        return Ok((head, pins));
    }
    let own = place.own.strip_prefix(&place.common).unwrap_or(Path::new("")).to_owned();
    let layer = Below { common: &place.common, changes };
    let (at, from) = (own.join("index"), place.own.join("index"));
    match std::fs::File::open(&from) {
        Ok(mut index) => layer.put(&at, &mut index)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if let Some(bytes) = refs::small(&place.own.join("HEAD"))? {
        pins.push((own.join("HEAD"), bytes));
    }
    if let Head::Branch(name, Some(id)) = &head {
        let bytes = format!("{}\n", id.as_str()).into_bytes();
        pins.push((Path::new("refs/heads").join(name), bytes));
    }
    for (path, bytes) in &pins {
        layer.put(path, &mut bytes.as_slice())?;
    }
    Ok((head, pins))
}

/// The layer, and what is below it.
struct Below<'a> {
    common: &'a Path,
    changes: &'a Path,
}

impl Below<'_> {
    /// A file, with the permissions and the time of the one that it stands for.
    fn put(&self, path: &Path, from: &mut dyn io::Read) -> io::Result<()> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.retain(|above| !above.as_os_str().is_empty());
        for folder in above.into_iter().rev() {
            let mode =
                std::fs::metadata(self.common.join(folder)).map_or(0o755, |found| found.mode() & 0o777);
            match std::fs::DirBuilder::new().mode(mode | 0o700).create(self.changes.join(folder)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let found = std::fs::metadata(self.common.join(path)).ok();
        let mode = found.as_ref().map_or(0o644, |found| found.mode() & 0o777 | 0o600);
        let mut new = std::fs::OpenOptions::new();
        let mut file = new.write(true).create_new(true).mode(mode).open(self.changes.join(path))?;
        io::copy(from, &mut file)?;
        file.flush()?;
        // git tells by the time of its index which files it must look at.
        found.map_or(Ok(()), |found| file.set_modified(found.modified()?))
    }
}

impl Repository {
    /// A cheap look: whether a reference can have changed at all.
    pub(super) fn is_touched(&self) -> bool {
        let own = self.place.own.strip_prefix(&self.place.common).unwrap_or(&self.place.own);
        let Ok(layer) = Root::open(&self.changes()) else { return true };
        let is_there = |name: &str| self.changes().join(name).symlink_metadata().is_ok();
        is_there("packed-refs")
            || is_there("reftable")
            || self.differs(&layer, &own.join("HEAD"))
            || self.differs_below(&layer, Path::new("refs"))
    }

    /// Whether a file of the layer is anything but pinned; what is not there is as below.
    fn differs(&self, layer: &Root, path: &Path) -> bool {
        match layer.read(path, MOST_BYTES, Rule::Any) {
            Ok(bytes) => !self.pinned.iter().any(|(pinned, known)| pinned == path && *known == bytes),
            Err(FileError::Missing) => false,
            Err(_) => true,
        }
    }

    fn differs_below(&self, layer: &Root, folder: &Path) -> bool {
        let mut open = vec![folder.to_owned()];
        let mut seen = 0;
        while let Some(folder) = open.pop() {
            let entries = match layer.list(&folder, MOST_ENTRIES) {
                Ok(entries) => entries,
                Err(FileError::Missing) => continue,
                Err(_) => return true,
            };
            seen += entries.len();
            for entry in entries {
                let path = folder.join(&entry.name);
                match entry.kind {
                    Kind::Folder => open.push(path),
                    Kind::File if !self.differs(layer, &path) => {}
                    Kind::File | Kind::Link | Kind::Other => return true,
                }
            }
            if seen > MOST_ENTRIES {
                return true;
            }
        }
        false
    }
}
