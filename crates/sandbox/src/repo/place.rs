//! Where the repository of a worktree is: `.git` as a directory, or as a file that names one.
//!
//! Invariant: a directory elsewhere is given to a sandbox only if it is a repository and names this worktree back. A
//! `.git` file may have come with an archive; what it points at did not agree to anything.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::config;
use super::refs::small;

/// Why a repository cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A link cannot be covered by a mount, so it could be replaced.
    #[error(
        "`{0}` is a link, which cannot be kept as it is; put the directory there, or use `git worktree add`"
    )]
    Link(PathBuf),
    /// Not what git writes.
    #[error("`{0}` does not say `gitdir: <path>`; `git worktree repair` in the main worktree may help")]
    Pointer(PathBuf),
    /// It names nothing.
    #[error("`{0}` names `{1}`, which is no repository; `git worktree repair` in the main worktree may help")]
    NoRepository(PathBuf, PathBuf),
    /// It names a repository that knows nothing of it.
    #[error(
        "`{0}` names `{1}`, which does not name it back; run `git worktree repair` in the main worktree, or \
         `git config core.worktree <this directory>` if that repository is for this one"
    )]
    NotNamedBack(PathBuf, PathBuf),
    /// A file cannot be read.
    #[error("`{0}`: {1}")]
    File(PathBuf, #[source] io::Error),
}

/// Where the repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// What holds `HEAD` and the index of this worktree.
    pub(crate) own: PathBuf,
    /// What holds objects and references.
    pub(crate) common: PathBuf,
    /// What the `.git` file said; none if `.git` is the directory itself.
    pub(crate) pointer: Option<Vec<u8>>,
}

impl Place {
    /// The repository of this worktree, if there is one.
    pub(crate) fn find(worktree: &Path) -> Result<Option<Self>, Unusable> {
        let git = worktree.join(".git");
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| Unusable::File(path, error)
        };
        let kind = match std::fs::symlink_metadata(&git) {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Unusable::File(git, error)),
        };
        if kind.is_dir() {
            return Ok(Some(Self { own: git.clone(), common: git, pointer: None }));
        }
        if kind.is_symlink() {
            return Err(Unusable::Link(git));
        }
        let pointer = small(&git).map_err(failed(&git))?.ok_or_else(|| Unusable::Pointer(git.clone()))?;
        let named =
            pointer.strip_prefix(b"gitdir:").map(<[u8]>::trim_ascii).filter(|named| !named.is_empty());
        let named = named.map(path).ok_or_else(|| Unusable::Pointer(git.clone()))?;
        let none = |_| Unusable::NoRepository(git.clone(), named.clone());
        let own = worktree.join(&named).canonicalize().map_err(none)?;
        let common = match small(&own.join("commondir")).map_err(failed(&own))? {
            Some(bytes) => own.join(path(bytes.trim_ascii())).canonicalize().map_err(none)?,
            None => own.clone(),
        };
        let is_repository =
            own.join("HEAD").is_file() && common.join("objects").is_dir() && common.join("refs").is_dir();
        if !is_repository {
            return Err(Unusable::NoRepository(git, own));
        }
        if !names_back(&own, &common, worktree).map_err(failed(&own))? {
            return Err(Unusable::NotNamedBack(git, own));
        }
        Ok(Some(Self { own, common, pointer: Some(pointer) }))
    }
}

/// Whether a git directory says that this worktree is its own: a linked one by its `gitdir`, a submodule by its
/// configuration.
fn names_back(own: &Path, common: &Path, worktree: &Path) -> io::Result<bool> {
    if own != common {
        let listed = own.parent() == Some(common.join("worktrees").as_path());
        let Some(back) = small(&own.join("gitdir"))? else { return Ok(false) };
        let back = own.join(path(back.trim_ascii()));
        let parent = back.parent().and_then(|parent| parent.canonicalize().ok());
        return Ok(listed
            && back.file_name().is_some_and(|name| name == ".git")
            && parent.as_deref() == Some(worktree));
    }
    let settings =
        small(&own.join("config"))?.and_then(|bytes| config::parse(&bytes).ok()).unwrap_or_default();
    let back =
        config::last(&settings, "core", "worktree").and_then(|back| own.join(back).canonicalize().ok());
    Ok(back.as_deref() == Some(worktree))
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(at: &Path, config: &str) {
        std::fs::create_dir_all(at.join("objects")).unwrap();
        std::fs::create_dir_all(at.join("refs")).unwrap();
        std::fs::write(at.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(at.join("config"), config).unwrap();
    }

    #[test]
    fn a_directory_a_linked_worktree_and_a_submodule_are_found() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        assert_eq!(Place::find(&root).unwrap(), None);
        let main = root.join("main/.git");
        repository(&main, "");
        assert_eq!(Place::find(&root.join("main")).unwrap().unwrap().common, main);

        let (linked, own) = (root.join("linked"), main.join("worktrees/linked"));
        std::fs::create_dir_all(&linked).unwrap();
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(linked.join(".git"), "gitdir: ../main/.git/worktrees/linked\n").unwrap();
        std::fs::write(own.join("HEAD"), "ref: refs/heads/x\n").unwrap();
        std::fs::write(own.join("commondir"), "../..\n").unwrap();
        std::fs::write(own.join("gitdir"), format!("{}\n", linked.join(".git").display())).unwrap();
        let found = Place::find(&linked).unwrap().unwrap();
        assert_eq!((found.own, found.common), (own, main.clone()));

        let (sub, own) = (root.join("main/sub"), main.join("modules/sub"));
        std::fs::create_dir_all(&sub).unwrap();
        repository(&own, "[core]\n\tworktree = ../../../sub\n");
        std::fs::write(sub.join(".git"), "gitdir: ../.git/modules/sub\n").unwrap();
        assert_eq!(Place::find(&sub).unwrap().unwrap().common, own);
    }

    #[test]
    fn adv_g01_a_git_file_cannot_open_what_did_not_agree() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let (secret, private, here) = (root.join(".ssh"), root.join("private/.git"), root.join("here"));
        std::fs::create_dir_all(&secret).unwrap();
        std::fs::create_dir_all(&here).unwrap();
        repository(&private, "[core]\n\tbare = false\n");
        let git = here.join(".git");
        for (text, expected) in [
            (format!("gitdir: {}\n", secret.display()), "is no repository"),
            (format!("gitdir: {}\n", private.display()), "does not name it back"),
            ("gitdir: /nonexistent\n".to_owned(), "is no repository"),
            ("hello\n".to_owned(), "does not say"),
        ] {
            std::fs::write(&git, text).unwrap();
            let told = Place::find(&here).unwrap_err().to_string();
            assert!(told.contains(expected), "{told}");
        }
        std::fs::remove_file(&git).unwrap();
        std::os::unix::fs::symlink(&private, &git).unwrap();
        assert!(Place::find(&here).unwrap_err().to_string().contains("is a link"));
    }
}
