//! The directory that tools work in: paths that a model chose, judged and opened beneath it.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use files::{FileError, Root, Rule};
use model::{Access, Grant, GrantPath};
use rustix::fs::{Dir, FileType};

use super::sensitive::is_sensitive;
use super::{ToolError, failed, refused};

/// What is in a directory under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    File,
    Folder,
    Link,
    Other,
}

/// A directory, and what may be touched beneath it.
pub(crate) struct Tree {
    root: Root,
    shown: PathBuf,
}

impl Tree {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let root = Root::open(path).map_err(|error| format!("the directory cannot be opened: {error}"))?;
        Ok(Self { root, shown: path.to_owned() })
    }

    /// Where it is.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// A path as a model gave it, if the rules of names let it pass. "." is the directory itself, where that makes sense.
    pub(crate) fn judged(&self, text: &str, access: Access, grant: &Grant) -> Result<PathBuf, ToolError> {
        let path = Path::new(text);
        if text.is_empty() {
            return Err(refused("path_empty", "a path has a name in it"));
        }
        if text.contains('\0') || text.len() > 4_096 {
            return Err(refused("path_text", "a path has no NUL and at most 4,096 bytes"));
        }
        if path.is_absolute() {
            return Err(refused("path_absolute", "paths are relative to the working directory"));
        }
        if path.components().any(|part| matches!(part, Component::ParentDir)) {
            return Err(refused("path_parent", "a path has no `..` in it"));
        }
        let path: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        if is_sensitive(&path) {
            return Err(refused("sensitive_name", "files of that name are never read or written"));
        }
        let names_git = path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"));
        if access == Access::Write && names_git {
            return Err(refused("git_files", "git's own files are changed by git only"));
        }
        let whole = self.shown.join(&path);
        let whole = whole.to_string_lossy();
        let asked = format!("{}:{}", access.word(), whole.trim_end_matches('/'));
        let right: GrantPath =
            asked.parse().map_err(|_| refused("path_text", "the path cannot be judged"))?;
        if !grant.paths.allows(&right) {
            return Err(refused("grant_paths", "the grant of this session does not have that path"));
        }
        Ok(path)
    }

    /// The text of a file of at most `most` bytes.
    pub(crate) fn text(&self, path: &Path, most: u64) -> Result<String, ToolError> {
        let file = self.root.file(path, Rule::Any).map_err(|error| unopened(&error))?;
        let (file, about) = sized(file)?;
        if about.nlink() > 1 {
            return Err(refused("one_link", "the file has more than one name"));
        }
        if about.len() > most {
            return Err(refused(
                "size",
                format!("the file has {} bytes, of which {most} may be read", about.len()),
            ));
        }
        let mut bytes = Vec::new();
        // It may have grown since.
        file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > most {
            return Err(refused("size", format!("the file has more than {most} bytes")));
        }
        plain_text(bytes).ok_or_else(|| refused("binary", "the file is binary"))
    }

    /// Whether a file is there, and its text if so.
    pub(crate) fn text_if_any(&self, path: &Path, most: u64) -> Result<Option<String>, ToolError> {
        match self.root.file(path, Rule::Any) {
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(unopened(&error)),
            Ok(_) => self.text(path, most).map(Some),
        }
    }

    /// Names in a directory, in order, at most so many; and whether there were more.
    pub(crate) fn names(&self, path: &Path, most: usize) -> Result<(Vec<(String, What)>, bool), ToolError> {
        let folder = self.root.folder(path).map_err(|error| unopened(&error))?;
        let mut names: Vec<(String, What)> = Vec::new();
        for entry in Dir::read_from(folder.as_fd()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            if names.len() == most {
                names.sort_by(|(one, _), (other, _)| one.cmp(other));
                return Ok((names, true));
            }
            let what = match entry.file_type() {
                FileType::RegularFile => What::File,
                FileType::Directory => What::Folder,
                FileType::Symlink => What::Link,
                _ => What::Other,
            };
            names.push((name.to_owned(), what));
        }
        names.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok((names, false))
    }

    /// Puts a file there, whole; `fresh` says that there is none yet.
    pub(crate) fn put(&self, path: &Path, text: &str, fresh: bool) -> Result<(), ToolError> {
        if fresh {
            self.folders(path)?;
            self.root.create(path, text.as_bytes()).map_err(failed)
        } else {
            self.root.write(path, text.as_bytes()).map_err(failed)
        }
    }

    pub(crate) fn remove(&self, path: &Path) -> Result<(), ToolError> {
        self.root.remove(path).map_err(failed)
    }

    /// Makes the directories that a file needs.
    fn folders(&self, path: &Path) -> Result<(), ToolError> {
        let mut made = PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            let folder = self.root.folder(&made).map_err(|error| unopened(&error))?;
            match rustix::fs::mkdirat(&folder, part.as_os_str(), rustix::fs::Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => made.push(part),
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
    }
}

fn sized(file: File) -> Result<(File, std::fs::Metadata), ToolError> {
    let about = file.metadata().map_err(failed)?;
    Ok((file, about))
}

fn unopened(error: &FileError) -> ToolError {
    match error {
        FileError::NotPlain => refused("plain_file", "it is not a plain file, or lies behind a link"),
        FileError::Outside => refused("path_outside", "it is not beneath the working directory"),
        FileError::Missing => failed("there is no such file"),
        FileError::Long(_) | FileError::Many(_) | FileError::Shared | FileError::Taken | FileError::Io(_) => {
            failed(error)
        }
    }
}

/// Bytes as text, unless they are none: a NUL, what is no UTF-8, or more than a tenth of control characters.
pub(crate) fn plain_text(bytes: Vec<u8>) -> Option<String> {
    let strange = bytes.iter().filter(|byte| matches!(byte, 0..=8 | 11 | 14..=31 | 127)).count();
    if bytes.contains(&0) || strange * 10 > bytes.len() {
        return None;
    }
    String::from_utf8(bytes).ok()
}
