//! Joins a branch of a repository of ours into another one, and packs what is new for somebody else's repository.
//!
//! Flow: two branches -> [`Merged`] (forwards, or by a commit that joins both, made without a checkout); a branch -> [`Bundle`].
//! Invariants: nothing is checked out and no merge driver runs; a branch changes only from the value that was looked at; what
//! both changed changes nothing, and is named.

use std::path::Path;
use std::process::Stdio;

use crate::repository::{RepositoryError, is_branch, line};
use crate::{Git, Repository};

/// Most paths that are named of a conflict.
const MOST_NAMED: usize = 20;

/// What became of a branch that another one was joined into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It had everything.
    There,
    /// It went forwards.
    Forwards,
    /// By a commit that joins both.
    Commit,
}

/// A branch after another one was joined into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Where it was; none if it is new.
    pub before: Option<String>,
    /// Where it is.
    pub after: String,
    /// How it came there.
    pub how: Joined,
}

/// Commits, packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bundle {
    /// Whoever has the origin's branches has all of it.
    Nothing,
    /// What is new.
    Bytes(Vec<u8>),
    /// More than fits.
    TooLarge,
}

impl Repository {
    /// Whether a tree has this branch.
    pub fn is_checked_out(&self, branch: &str) -> Result<bool, RepositoryError> {
        let reference = format!("refs/heads/{branch}");
        let out = self.in_it(&["for-each-ref", "--format=%(worktreepath)", &reference])?;
        Ok(!line(&out).is_empty())
    }

    /// Whether a commit is within the history of another.
    pub fn is_within(&self, old: &str, new: &str) -> Result<bool, RepositoryError> {
        let directory = format!("--git-dir={}", self.directory().display());
        let said = self.git.run(
            &[],
            &[&directory, "merge-base", "--is-ancestor", "--end-of-options", old, new],
            Stdio::null(),
        )?;
        match (said.ok, said.err.is_empty()) {
            (true, _) => Ok(true),
            (false, true) => Ok(false),
            (false, false) => Err(RepositoryError::Refused(said.err)),
        }
    }

    /// Joins a commit into a branch of ours. One that is not there yet begins where `theirs` is; one that is behind `theirs` goes
    /// there first.
    pub fn merge(
        &self,
        from: &str,
        into: &str,
        theirs: Option<&str>,
        message: &str,
    ) -> Result<Merged, RepositoryError> {
        if !is_branch(into) {
            return Err(RepositoryError::Name(into.to_owned()));
        }
        let reference = format!("refs/heads/{into}");
        let before = self.tip(&reference)?;
        let base = match (&before, theirs) {
            (None, None) => return Err(RepositoryError::NoBranch(into.to_owned())),
            (None, Some(theirs)) => theirs.to_owned(),
            (Some(ours), None) => ours.clone(),
            (Some(ours), Some(theirs)) if self.is_within(theirs, ours)? => ours.clone(),
            (Some(ours), Some(theirs)) if self.is_within(ours, theirs)? => theirs.to_owned(),
            (Some(_), Some(_)) => return Err(RepositoryError::Apart(into.to_owned())),
        };
        let (after, how) = if self.is_within(from, &base)? {
            (base, Joined::There)
        } else if self.is_within(&base, from)? {
            (from.to_owned(), Joined::Forwards)
        } else {
            (self.joined(&base, from, message)?, Joined::Commit)
        };
        if before.as_deref() != Some(after.as_str()) {
            let none = "0".repeat(after.len());
            let old = before.as_deref().unwrap_or(&none);
            self.change(&format!("update {reference} {after} {old}\n"))?;
        }
        Ok(Merged { before, after, how })
    }

    /// A commit that joins two.
    fn joined(&self, ours: &str, theirs: &str, message: &str) -> Result<String, RepositoryError> {
        let directory = format!("--git-dir={}", self.directory().display());
        let words = [
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
            "--end-of-options",
            ours,
            theirs,
        ];
        // What is larger than this is told apart as a whole.
        let settings = ["merge.conflictStyle=merge", "core.attributesFile=/dev/null"];
        let said = self.git.run(&settings, &[&[directory.as_str()][..], &words].concat(), Stdio::null())?;
        let mut parts = said.out.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        let tree = parts.next().map(line).unwrap_or_default();
        if !is_id(&tree) {
            return Err(match said.err.contains("unrelated histories") {
                true => RepositoryError::Strangers,
                false => RepositoryError::Refused(said.err),
            });
        }
        if !said.ok {
            let all: Vec<String> = parts.map(|path| String::from_utf8_lossy(path).into_owned()).collect();
            let more = all.len().saturating_sub(MOST_NAMED);
            let named: Vec<_> =
                all.iter().take(MOST_NAMED).map(|path| format!("`{}`", path.escape_debug())).collect();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(RepositoryError::Conflict(format!("{}{more}", named.join(", "))));
        }
        let made = self.in_it(&["commit-tree", &tree, "-p", ours, "-p", theirs, "-m", message])?;
        Ok(line(&made))
    }

    /// What is new in a branch for whoever has these references, packed; with at most so many bytes.
    pub fn bundle(&self, branch: &str, known: &str, most: usize) -> Result<Bundle, RepositoryError> {
        let reference = format!("refs/heads/{branch}");
        let tip = self.tip(&reference)?.ok_or_else(|| RepositoryError::NoBranch(branch.to_owned()))?;
        for (_, id) in self.references(known)? {
            if self.is_within(&tip, &id)? {
                return Ok(Bundle::Nothing);
            }
        }
        let directory = format!("--git-dir={}", self.directory().display());
        let words = ["bundle", "create", "--quiet", "-", &reference, "--not", &format!("--glob={known}*")];
        let (said, more) = self.git.read(&[&[directory.as_str()][..], &words].concat(), most)?;
        match (more, said.ok) {
            (true, _) => Ok(Bundle::TooLarge),
            (false, true) => Ok(Bundle::Bytes(said.out)),
            (false, false) => Err(RepositoryError::Refused(said.err)),
        }
    }

    /// Says where this repository comes from, once; an error if it comes from elsewhere.
    pub fn comes_from(&self, origin: &str) -> Result<(), RepositoryError> {
        let said = match self.in_it(&["config", "--local", "--get", "palisade.origin"]) {
            Ok(out) => Some(line(&out)),
            Err(RepositoryError::Refused(_)) => None,
            Err(other) => return Err(other),
        };
        match said {
            Some(said) if said == origin => Ok(()),
            Some(_) => Err(RepositoryError::Elsewhere),
            None => self.in_it(&["config", "--local", "palisade.origin", origin]).map(drop),
        }
    }

    /// Writes down where a branch of the origin is now.
    pub fn note(&self, reference: &str, to: &str) -> Result<(), RepositoryError> {
        self.come(&[to.to_owned()])?;
        self.change(&format!("update {reference} {to}\n"))
    }

    /// Every path of a commit, as git lists them.
    pub fn paths(&self, commit: &str, most: usize) -> Result<Option<Vec<Vec<u8>>>, RepositoryError> {
        let directory = format!("--git-dir={}", self.directory().display());
        let list = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", commit];
        let (said, more) = self.git.read(&[&[directory.as_str()][..], &list].concat(), most)?;
        match (more, said.ok) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(
                said.out.split(|b| *b == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect(),
            )),
            (false, false) => Err(RepositoryError::Refused(said.err)),
        }
    }

    /// Forgets that a directory is a tree of this repository, and leaves it as it is.
    pub fn let_go(&self, tree: &Path) -> Result<(), RepositoryError> {
        let Some(name) = tree.file_name() else { return Ok(()) };
        let own = self.directory().join("worktrees").join(name);
        match std::fs::remove_dir_all(&own) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(RepositoryError::File(own, error))
            }
            _ => {
                self.reclaim();
                Ok(())
            }
        }
    }

    /// What is checked out in a tree, by the repository's own files: a branch, if it is one, and its commit.
    pub fn checked_out(&self, tree: &Path) -> Result<(Option<String>, Option<String>), RepositoryError> {
        let Some(name) = tree.file_name() else { return Ok((None, None)) };
        let own = self.directory().join("worktrees").join(name);
        let ask = |arguments: &[&str]| -> Result<Option<String>, RepositoryError> {
            let directory = format!("--git-dir={}", own.display());
            let git: &Git = &self.git;
            let said = git.run(&[], &[&[directory.as_str()][..], arguments].concat(), Stdio::null())?;
            Ok(said.ok.then(|| line(&said.out)).filter(|text| !text.is_empty()))
        };
        Ok((
            ask(&["symbolic-ref", "-q", "--short", "HEAD"])?,
            ask(&["rev-parse", "-q", "--verify", "HEAD^{commit}"])?,
        ))
    }
}

fn is_id(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}
