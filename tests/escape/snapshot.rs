//! What there is of a place of the host, to be compared after an attack.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What is there of a place: names, bytes, modes, owners, times, attributes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, (Vec<u8>, [i64; 9])>);

impl Snapshot {
    pub(crate) fn of(place: &Path) -> Self {
        let (mut found, mut open) = (BTreeMap::new(), vec![place.to_owned()]);
        while let Some(path) = open.pop() {
            let Ok(data) = fs::symlink_metadata(&path) else { continue };
            let bytes = if data.is_file() {
                fs::read(&path).unwrap_or_default()
            } else if data.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                Vec::new()
            };
            if data.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let attributes = rustix::fs::llistxattr(&path, &mut [0u8; 4096][..]).unwrap_or(0);
            let facts = [
                data.mode().into(),
                data.uid().into(),
                data.gid().into(),
                data.mtime(),
                data.mtime_nsec(),
                data.ctime(),
                data.ctime_nsec(),
                data.nlink().cast_signed(),
                attributes.cast_signed() as i64,
            ];
            found.insert(path, (bytes, facts));
        }
        Self(found)
    }

    /// The same names of the same kinds, whatever their times.
    pub(crate) fn assert_kinds(&self, place: &Path) {
        let kinds = |all: &Self| -> Vec<(PathBuf, i64)> {
            all.0.iter().map(|(path, (_, facts))| (path.clone(), facts[0])).collect()
        };
        assert_eq!(kinds(self), kinds(&Self::of(place)));
    }

    pub(crate) fn assert_same(&self, place: &Path) {
        let now = Self::of(place);
        for (path, facts) in &self.0 {
            assert_eq!(now.0.get(path), Some(facts), "{} changed", path.display());
        }
        for path in now.0.keys() {
            assert!(self.0.contains_key(path), "{} appeared", path.display());
        }
    }
}
