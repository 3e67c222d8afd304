//! A repository of the installation's own: a directory that no agent writes, its branches, and trees made from it.
//!
//! Branches of where it came from are `refs/remotes/origin/`, those of worktrees are `refs/heads/`. Invariants: an existing
//! branch is never moved by making a tree; names that could be taken for something else are refused before git sees them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::{Git, GitError, Stores};

/// The longest name of a branch.
const MOST_NAME: usize = 200;
/// The most that is read of a list of files.
const MOST_LISTED: usize = 256 << 20;
/// The branch that a repository is on when it has none: it never comes to be.
const NONE: &str = "palisade-none";

/// Why something was not done to a repository.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// There is no git here.
    #[error("git is not installed on this machine; install it, then try again")]
    NoGit,
    /// Its files are not there.
    #[error("the files of the repository are not there; `palisade repo fetch` brings them")]
    Gone,
    /// A name that is none.
    #[error("`{0}` cannot be the name of a branch")]
    Name(String),
    /// There is no such branch.
    #[error("there is no branch `{0}` in the repository")]
    NoBranch(String),
    /// A tree of another worktree has it.
    #[error("the branch `{0}` is in use by another worktree")]
    InUse(String),
    /// Both changed these.
    #[error("both changed {0}; nothing was changed: join them in the worktree, then try again")]
    Conflict(String),
    /// They begin nowhere together.
    #[error("the branches have no commit in common, so they cannot be joined")]
    Strangers,
    /// What is here and what the origin has went different ways.
    #[error(
        "`{0}` here and at the origin went different ways; name another branch, or bring the one here to the origin first"
    )]
    Apart(String),
    /// It is of another origin.
    #[error(
        "the files of the repository come from another origin; remove the repository and register it anew"
    )]
    Elsewhere,
    /// git refused.
    #[error("git refused: {0}")]
    Refused(String),
    /// git could not be asked.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The disk.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] io::Error),
}

/// One commit, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name.
    pub id: String,
    /// Who wrote it.
    pub author: String,
    /// Seconds since the epoch.
    pub at: i64,
    /// The first line of its message.
    pub subject: String,
}

/// Text, and whether there was more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// As much as was asked for.
    pub text: String,
    /// Whether the rest was left out.
    pub truncated: bool,
}

/// What became of a branch when a tree was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// It was made for it.
    Made,
    /// It was there.
    Found,
}

/// A repository of ours.
#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
    pub(crate) git: Git,
}

impl Repository {
    /// Makes one, or opens the one that is there.
    pub fn make(folder: &Path) -> Result<Self, RepositoryError> {
        let failed = |error| RepositoryError::File(folder.to_owned(), error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let made = Self::open(folder)?;
        if !made.directory().join("HEAD").exists() {
            let branch = format!("--initial-branch={NONE}");
            let folder = folder.to_string_lossy();
            made.told(&["init", "--quiet", "--template=", &branch, &folder])?;
        }
        Stores::of(&made.directory())?;
        Ok(made)
    }

    /// The one that was made there.
    pub fn open(folder: &Path) -> Result<Self, RepositoryError> {
        if !folder.is_dir() {
            return Err(RepositoryError::Gone);
        }
        let git = Git::find(folder).ok_or(RepositoryError::NoGit)?;
        Ok(Self { folder: folder.to_owned(), git })
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.folder.join(".git")
    }

    /// Runs git for its answer; what it complains of is the error.
    fn told(&self, arguments: &[&str]) -> Result<Vec<u8>, RepositoryError> {
        let said = self.git.run(&[], arguments, Stdio::null())?;
        if said.ok { Ok(said.out) } else { Err(RepositoryError::Refused(said.err)) }
    }

    pub(crate) fn in_it(&self, arguments: &[&str]) -> Result<Vec<u8>, RepositoryError> {
        let directory = format!("--git-dir={}", self.directory().display());
        let mut all = vec![directory.as_str()];
        all.extend(arguments);
        self.told(&all)
    }

    /// What a reference names; none if it is not there.
    pub fn tip(&self, reference: &str) -> Result<Option<String>, RepositoryError> {
        let wanted = format!("{reference}^{{commit}}");
        match self.in_it(&["rev-parse", "--quiet", "--verify", "--end-of-options", &wanted]) {
            Ok(out) => Ok(Some(line(&out)).filter(|id| !id.is_empty())),
            Err(RepositoryError::Refused(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Short names of references below a place, and what they name.
    pub fn references(&self, below: &str) -> Result<Vec<(String, String)>, RepositoryError> {
        let out = self.in_it(&["for-each-ref", "--format=%(objectname) %(refname)", below])?;
        let text = String::from_utf8_lossy(&out);
        let each = |line: &str| {
            let (id, name) = line.split_once(' ')?;
            Some((name.strip_prefix(below)?.to_owned(), id.to_owned()))
        };
        Ok(text.lines().filter_map(each).collect())
    }

    /// Takes away what is below a place and names a branch like this one there, left by whoever did not come to an end.
    pub fn sweep(&self, below: &str, part: &str) -> Result<(), RepositoryError> {
        let left = self.references(below)?.into_iter().filter(|(name, _)| name.contains(part));
        let orders: String = left.map(|(name, _)| format!("delete {below}{name}\n")).collect();
        self.change(&orders)
    }

    /// What a commit would take on the disk: files, and bytes in them. None if that is more than is counted.
    pub fn size(&self, commit: &str) -> Result<Option<(u64, u64)>, RepositoryError> {
        let directory = format!("--git-dir={}", self.directory().display());
        let list = ["ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", commit];
        let (said, more) = self.git.read(&[&[directory.as_str()][..], &list].concat(), MOST_LISTED)?;
        if more {
            return Ok(None);
        }
        if !said.ok {
            return Err(RepositoryError::Refused(said.err));
        }
        let (mut files, mut bytes) = (0u64, 0u64);
        for line in said.out.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let about = line.split(|byte| *byte == b'\t').next().unwrap_or_default();
            let size =
                String::from_utf8_lossy(about).split_ascii_whitespace().nth(3).and_then(|n| n.parse().ok());
            files += 1;
            bytes = bytes.saturating_add(size.unwrap_or(0u64));
        }
        Ok(Some((files, bytes)))
    }

    /// These commits are about to be known as the origin's: everything they reach is for everybody who has a tree.
    pub(crate) fn come(&self, tips: &[String]) -> Result<(), RepositoryError> {
        let known: Vec<String> =
            self.references("refs/remotes/origin/")?.into_iter().map(|(_, id)| id).collect();
        let new: Vec<String> = tips.iter().filter(|id| !known.contains(id)).cloned().collect();
        Stores::of(&self.directory())?.complete_base(&new, &known)
    }

    /// Makes these the whole of one place, and takes another place away.
    pub fn replace(
        &self,
        place: &str,
        with: &[(String, String)],
        and_drop: &str,
    ) -> Result<(), RepositoryError> {
        if let Some((odd, _)) = with.iter().find(|(name, _)| !is_branch(name)) {
            return Err(RepositoryError::Name(odd.clone()));
        }
        // What stands in the way goes first: `a`, where `a/b` is to come. Everything else happens at once.
        let is_below =
            |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
        let (mut first, mut orders) = (String::new(), String::new());
        for (name, _) in self.references(place)? {
            if with.iter().all(|(other, _)| *other != name) {
                let blocks = with.iter().any(|(other, _)| is_below(other, &name) || is_below(&name, other));
                let list = if blocks { &mut first } else { &mut orders };
                list.push_str(&format!("delete {place}{name}\n"));
            }
        }
        let tips: Vec<String> = with.iter().map(|(_, id)| id.clone()).collect();
        self.come(&tips)?;
        self.change(&first)?;
        for (name, id) in with {
            orders.push_str(&format!("update {place}{name} {id}\n"));
        }
        for (name, _) in self.references(and_drop)? {
            orders.push_str(&format!("delete {and_drop}{name}\n"));
        }
        self.change(&orders)
    }

    /// Changes references, all of these or none.
    pub(crate) fn change(&self, orders: &str) -> Result<(), RepositoryError> {
        let mut orders = format!("start\n{orders}");
        orders.push_str("prepare\ncommit\n");
        let directory = format!("--git-dir={}", self.directory().display());
        let input = crate::input(orders.as_bytes()).map_err(GitError::from)?;
        let said = self.git.run(&[], &[&directory, "update-ref", "--stdin"], input)?;
        if said.ok { Ok(()) } else { Err(RepositoryError::Refused(said.err)) }
    }

    /// Makes a tree on a branch: a new one that begins at `base`, or the one that is there, as it is.
    pub fn add_tree(&self, tree: &Path, branch: &str, base: &str) -> Result<Branch, RepositoryError> {
        if !is_branch(branch) {
            return Err(RepositoryError::Name(branch.to_owned()));
        }
        let path = tree.to_string_lossy();
        let found = self.tip(&format!("refs/heads/{branch}"))?.is_some();
        let mut arguments = vec!["worktree", "add", "--quiet"];
        match found {
            true => arguments.extend(["--end-of-options", &path, branch]),
            false => arguments.extend(["--no-track", "-b", branch, "--end-of-options", &path, base]),
        }
        match self.in_it(&arguments) {
            Ok(_) => Ok(if found { Branch::Found } else { Branch::Made }),
            Err(RepositoryError::Refused(why)) if is_use(&why) => {
                Err(RepositoryError::InUse(branch.to_owned()))
            }
            Err(other) => Err(other),
        }
    }

    /// Forgets a tree that is gone from the disk, and the branch that was made for it if nothing was committed there.
    pub fn forget_tree(&self, made: Option<(&str, &str)>) -> Result<(), RepositoryError> {
        self.in_it(&["worktree", "prune", "--expire=now"])?;
        if let Some((branch, base)) = made {
            let reference = format!("refs/heads/{branch}");
            if self.tip(&reference)?.as_deref() == Some(base) {
                self.in_it(&["update-ref", "-d", &reference, base])?;
            }
        }
        self.reclaim();
        Ok(())
    }

    /// Room of trees that are gone. If it cannot be had now, it is had when the next one goes.
    pub(crate) fn reclaim(&self) {
        let _ = Stores::of(&self.directory()).and_then(|stores| stores.reclaim());
    }

    /// The newest commits that are in `to` and not in `from`.
    pub fn log(&self, from: &str, to: &str, most: u32) -> Result<Vec<Commit>, RepositoryError> {
        let (most, range) = (format!("--max-count={most}"), format!("{from}..{to}"));
        // The first two hold no such sign, whatever an author is called.
        let format = "--format=%H%x1f%at%x1f%an%x1f%s";
        let out =
            self.in_it(&["log", "-z", &most, format, "--no-show-signature", "--end-of-options", &range])?;
        let text = String::from_utf8_lossy(&out);
        let each = |entry: &str| {
            let mut parts = entry.splitn(4, '\x1f').map(str::to_owned);
            let (id, at) = (parts.next()?, parts.next()?.parse().ok()?);
            Some(Commit { id, at, author: parts.next()?, subject: parts.next()? })
        };
        Ok(text.split('\0').filter_map(each).collect())
    }

    /// What differs between two commits, as a patch.
    pub fn diff(&self, from: &str, to: &str, most: usize) -> Result<Cut, RepositoryError> {
        let directory = format!("--git-dir={}", self.directory().display());
        let how =
            ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--end-of-options"];
        let (said, truncated) =
            self.git.read(&[&[directory.as_str()][..], &how, &[from, to]].concat(), most)?;
        if !said.ok {
            return Err(RepositoryError::Refused(said.err));
        }
        Ok(Cut { text: String::from_utf8_lossy(&said.out).into_owned(), truncated })
    }
}

pub(crate) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn is_use(why: &str) -> bool {
    why.contains("already checked out") || why.contains("already used by worktree")
}

/// Whether this can be the short name of a branch: git's rules, and fewer characters than git takes.
#[must_use]
pub fn is_branch(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && Path::new(part).extension().is_none_or(|end| !end.eq_ignore_ascii_case("lock"))
    };
    name.len() <= MOST_NAME
        && name != "HEAD"
        && name != NONE
        && !name.contains("..")
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./+#".contains(&b))
        && name.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(folder);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ana").env(format!("GIT_{who}_EMAIL"), "ana@host.example");
        }
        let out = command.args(arguments).output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        line(&out.stdout)
    }

    /// A repository of ours that has a commit of somebody's as `origin/main`.
    fn fetched(folder: &Path) -> (Repository, String) {
        let theirs = folder.join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        git(&theirs, &["init", "-q", "-b", "main"]);
        std::fs::write(theirs.join("file"), "one\n").unwrap();
        git(&theirs, &["add", "."]);
        git(&theirs, &["commit", "-qm", "one"]);
        let ours = Repository::make(&folder.join("ours")).unwrap();
        let path = theirs.to_string_lossy().into_owned();
        ours.in_it(&["fetch", "-q", &path, "+refs/heads/*:refs/palisade/run/up/*"]).unwrap();
        let come = ours.references("refs/palisade/run/up/").unwrap();
        ours.replace("refs/remotes/origin/", &come, "refs/palisade/run/").unwrap();
        let tip = ours.tip("refs/remotes/origin/main").unwrap().unwrap();
        assert_eq!(tip, git(&theirs, &["rev-parse", "main"]));
        (ours, tip)
    }

    fn committed(tree: &Path, text: &str) -> String {
        std::fs::write(tree.join("file"), text).unwrap();
        git(tree, &["commit", "-qam", text.trim_end()]);
        git(tree, &["rev-parse", "HEAD"])
    }

    #[test]
    fn names_of_branches_are_checked_before_git_sees_them() {
        for good in ["main", "palisade/fix-1", "a/b/c.d", "release-1.2_x", "x#1"] {
            assert!(is_branch(good), "{good}");
        }
        let long = "x".repeat(201);
        let bad = [
            "", "-x", "a/-x", ".x", "a/.b", "a//b", "a/", "/a", "a..b", "a.lock", "a b", "a~1", "a^", "a:b",
            "HEAD",
        ];
        for bad in bad.into_iter().chain([
            "a\0b",
            "a\u{1b}b",
            "ü",
            "@{-1}",
            "a*",
            "a?",
            "a\\b",
            &long,
            "palisade-none",
        ]) {
            assert!(!is_branch(bad), "{bad}");
        }
    }

    #[test]
    fn wt_02_a_tree_begins_a_branch_and_never_moves_one_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, base) = fetched(folder.path());
        let tree = folder.path().join("tree");
        assert_eq!(ours.add_tree(&tree, "palisade/a", &base).unwrap(), Branch::Made);
        assert_eq!(std::fs::read_to_string(tree.join("file")).unwrap(), "one\n");
        let tip = committed(&tree, "two\n");
        let other = folder.path().join("other");
        let refused = ours.add_tree(&other, "palisade/a", &base).unwrap_err();
        assert!(matches!(refused, RepositoryError::InUse(_)), "{refused}");
        assert!(!other.exists());
        std::fs::remove_dir_all(&tree).unwrap();
        ours.forget_tree(Some(("palisade/a", &base))).unwrap();
        assert_eq!(
            ours.tip("refs/heads/palisade/a").unwrap().as_ref(),
            Some(&tip),
            "what was committed stays"
        );
        assert_eq!(ours.add_tree(&other, "palisade/a", &base).unwrap(), Branch::Found);
        assert_eq!(ours.tip("refs/heads/palisade/a").unwrap(), Some(tip));
        assert_eq!(std::fs::read_to_string(other.join("file")).unwrap(), "two\n");
    }

    #[test]
    fn wt_03_a_tree_that_is_given_up_leaves_no_branch() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, base) = fetched(folder.path());
        let tree = folder.path().join("tree");
        ours.add_tree(&tree, "x", &base).unwrap();
        std::fs::remove_dir_all(&tree).unwrap();
        ours.forget_tree(Some(("x", &base))).unwrap();
        assert_eq!(ours.tip("refs/heads/x").unwrap(), None);
        assert!(ours.add_tree(&tree, "y", "refs/remotes/origin/none").is_err());
        assert!(!tree.exists() && ours.tip("refs/heads/y").unwrap().is_none());
        assert!(matches!(ours.add_tree(&tree, "--detach", &base), Err(RepositoryError::Name(_))));
    }

    #[test]
    fn branches_that_are_gone_there_go_here_and_a_bad_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, base) = fetched(folder.path());
        let replace = |name: &str| {
            ours.replace("refs/remotes/origin/", &[(name.to_owned(), base.clone())], "refs/palisade/two/")
        };
        ours.in_it(&["update-ref", "refs/palisade/two/new", &base]).unwrap();
        replace("new").unwrap();
        assert_eq!(ours.references("refs/remotes/origin/").unwrap(), [("new".to_owned(), base.clone())]);
        assert_eq!(ours.references("refs/palisade/").unwrap(), []);
        // A name may become part of another.
        replace("new/er").unwrap();
        assert_eq!(ours.references("refs/remotes/origin/").unwrap(), [("new/er".to_owned(), base.clone())]);
        replace("new").unwrap();
        // Somebody holds that name.
        std::fs::write(ours.directory().join("refs/remotes/origin/a.lock"), "").unwrap();
        replace("a").unwrap_err();
        assert!(ours.tip("refs/remotes/origin/new").unwrap().is_some(), "all of it or nothing");
        replace("../../heads/x").unwrap_err();
    }

    #[test]
    fn what_was_done_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, base) = fetched(folder.path());
        let tree = folder.path().join("tree");
        ours.add_tree(&tree, "x", &base).unwrap();
        let two = committed(&tree, "two\n");
        let three = committed(&tree, "three\n");
        let log = ours.log(&base, "refs/heads/x", 10).unwrap();
        let shown: Vec<_> = log.iter().map(|one| (one.id.as_str(), one.subject.as_str())).collect();
        assert_eq!(shown, [(three.as_str(), "three"), (two.as_str(), "two")]);
        assert_eq!(log[0].author, "Ana");
        assert_eq!(ours.size(&base).unwrap(), Some((1, 4)));
        assert_eq!(ours.log(&base, "refs/heads/x", 1).unwrap().len(), 1);
        let diff = ours.diff(&base, "refs/heads/x", 1 << 20).unwrap();
        assert!(diff.text.contains("-one\n+three\n") && !diff.truncated, "{}", diff.text);
        let cut = ours.diff(&base, "refs/heads/x", 10).unwrap();
        assert!(cut.truncated && cut.text.len() == 10);
    }
}
