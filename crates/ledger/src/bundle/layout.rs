//! Turns the files of a bundle into a new directory that is there whole or not at all.
//!
//! Flow: a hidden directory beside the target, written and synced, then renamed. Invariant: the target is
//! never replaced and never half there; what was begun and not finished is removed.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{CHECKPOINTS, ENTRIES, INPUTS, MANIFEST, PROOFS, is_hash};
use crate::disk;
use crate::verify::{Kind, Trust, verify_bundle};

/// Why a bundle was not laid out; nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// Something is there already.
    #[error("`{0}` exists already; name a new directory")]
    Exists(PathBuf),
    /// The name is not one of a bundle.
    #[error("`{0}` is not a file of a bundle")]
    Name(String),
    /// Something is missing, or is not what the manifest lists.
    #[error("the bundle did not arrive whole: {0}")]
    Incomplete(String),
    /// A file could not be written.
    #[error("`{path}` could not be written")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A bundle on its way to a directory.
#[derive(Debug)]
pub struct Layout {
    target: PathBuf,
    draft: PathBuf,
    files: BTreeMap<String, File>,
    done: bool,
}

impl Layout {
    /// Begins beside `target`, which must not exist.
    pub fn begin(target: &Path) -> Result<Self, LayoutError> {
        if target.symlink_metadata().is_ok() {
            return Err(LayoutError::Exists(target.to_owned()));
        }
        let Some(name) = target.file_name() else { return Err(LayoutError::Exists(target.to_owned())) };
        let draft = (0..100).find_map(|number| {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{number}", std::process::id()));
            let draft = target.with_file_name(hidden);
            match DirBuilder::new().mode(0o700).create(&draft) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made.map(|()| draft.clone()).map_err(at(&draft))),
            }
        });
        let Some(draft) = draft.transpose()? else { return Err(LayoutError::Exists(target.to_owned())) };
        let layout = Self { target: target.to_owned(), draft, files: BTreeMap::new(), done: false };
        let inputs = layout.draft.join(INPUTS);
        DirBuilder::new().mode(0o700).create(&inputs).map_err(at(&inputs))?;
        Ok(layout)
    }

    /// Adds bytes to the end of a file.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), LayoutError> {
        let input = name.strip_prefix(INPUTS).and_then(|rest| rest.strip_prefix('/'));
        if ![ENTRIES, CHECKPOINTS, PROOFS, MANIFEST].contains(&name) && !input.is_some_and(is_hash) {
            return Err(LayoutError::Name(name.to_owned()));
        }
        let path = self.draft.join(name);
        let io = |source| LayoutError::Io { path: path.clone(), source };
        if !self.files.contains_key(name) {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(io)?;
            self.files.insert(name.to_owned(), file);
        }
        self.files.get_mut(name).map_or(Ok(()), |file| file.write_all(bytes).map_err(io))
    }

    /// Makes everything durable and gives it its name; returns how many entries it holds.
    pub fn finish(mut self) -> Result<u64, LayoutError> {
        // Whose signature counts is for a trust root to say; that everything is there shows without one.
        let report = verify_bundle(&self.draft, &Trust::default(), None);
        if let Some(wrong) = report.findings.iter().find(|it| it.kind != Kind::NoTrust) {
            return Err(LayoutError::Incomplete(wrong.message.clone()));
        }
        for (name, file) in &self.files {
            file.sync_all().map_err(at(&self.draft.join(name)))?;
        }
        for dir in [self.draft.join(INPUTS), self.draft.clone()] {
            disk::sync_dir(&dir).map_err(at(&dir))?;
        }
        renameat_with(CWD, &self.draft, CWD, &self.target, RenameFlags::NOREPLACE).map_err(|error| {
            match error {
                rustix::io::Errno::EXIST => LayoutError::Exists(self.target.clone()),
                error => at(&self.target)(error.into()),
            }
        })?;
        self.done = true;
        let parent = self.target.parent().filter(|dir| !dir.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        disk::sync_dir(parent).map_err(at(parent))?;
        Ok(report.entries)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        if !self.done {
            // The error that led here is told; a second one helps nobody.
            drop(std::fs::remove_dir_all(&self.draft));
        }
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LayoutError {
    let path = path.to_owned();
    move |source| LayoutError::Io { path, source }
}
