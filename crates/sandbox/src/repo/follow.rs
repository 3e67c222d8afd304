//! Takes a branch of the host to what a run committed, when its changes are applied, and back when they are taken back.
//!
//! Flow: [`Branch`] (what a run made of one) -> [`Host::follow`] (what the host has now) -> [`Move`] -> [`Host::go`], or
//! [`Host::back`]. Invariants: a branch only goes forwards, or is joined with what others committed meanwhile; what is joined is
//! joined file by file, so what both changed is a conflict and no merge driver runs; a reference changes only from the value that
//! was looked at; git looks at no file of the worktree. Not here: files ([`crate::changes`]), how commits came here ([`super::ingest`]).

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ::git::{Git, GitError, Said, in_directory};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::place::{Place, Unusable};
use super::refs::{self, Head, Id};
use super::view;
use crate::receipt::Digest;

/// The most files and directories that a worktree of the daemon's may have.
const MOST_FILES: usize = 1_000_000;
/// Who joins, where something is joined.
const JOINS: [&str; 2] = ["user.name=palisade", "user.email=palisade@localhost"];

/// The branch that was checked out, and what a run made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Its short name.
    pub name: String,
    /// What it named at launch; nothing before its first commit.
    pub old: Option<String>,
    /// What the run made of it.
    pub new: String,
}

/// What a branch is taken from, and to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Move {
    pub(crate) name: String,
    pub(crate) from: Option<String>,
    pub(crate) to: String,
}

/// What can be done with a branch.
#[derive(Debug)]
pub(crate) enum Follow {
    /// It goes there.
    Moves(Move),
    /// It goes to a commit that joins both.
    Joins(Move),
    /// It has the commits already.
    There,
    /// It stays where it is, for this reason.
    Stays(String),
    /// Both changed these.
    Conflicts(Vec<PathBuf>),
    /// What is staged is in the way, as git says it.
    Staged(String),
}

/// What became of a branch that was taken back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Back {
    /// It is where it was, and so is the index.
    There,
    /// It stays, for this reason.
    Stays(String),
}

/// Why nothing can be done with a branch.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The repository is gone.
    #[error("there is no repository in the worktree any more")]
    NoRepository,
    /// The repository cannot be used.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The host has no git of its own.
    #[error("there is no git of the system in /usr/bin or /usr/local/bin; install it")]
    NoGit,
    /// git could not be asked.
    #[error(transparent)]
    Git(#[from] GitError),
    /// git refused.
    #[error("git refused: {0}")]
    Refused(String),
    /// A file of the repository.
    #[error("`{0}`: {1}")]
    File(PathBuf, #[source] io::Error),
}

/// The repository of a worktree, as the host has it.
#[derive(Debug)]
pub(crate) struct Host {
    place: Place,
    git: Git,
}

impl Host {
    pub(crate) fn find(worktree: &Path) -> Result<Self, FollowError> {
        let place = Place::find(worktree)?.ok_or(FollowError::NoRepository)?;
        let git = Git::find(&place.common).ok_or(FollowError::NoGit)?;
        Ok(Self { place, git })
    }

    /// What can be done to let the host have what a run committed. Nothing that anybody sees is changed.
    pub(crate) fn follow(&self, branch: &Branch, run: &str) -> Result<Follow, FollowError> {
        let stays = |why: &str| Ok(Follow::Stays(why.to_owned()));
        let now = match self.head()? {
            Head::Branch(name, now) if name == branch.name => now,
            Head::Branch(name, _) => return Ok(Follow::Stays(format!("`{name}` is checked out now"))),
            Head::Other => return stays("no branch is checked out now"),
        };
        let new = branch.new.as_str();
        if !self.says(&["cat-file", "-e", &format!("{new}^{{commit}}")])? {
            return stays("its commits are not in the repository any more");
        }
        if view::is_ours(&self.place) && self.is_countless(new)? {
            return stays("it has more files than a worktree may have");
        }
        let forwards = |from: Option<String>| Move { name: branch.name.clone(), from, to: new.to_owned() };
        let (now, old) = match (now, &branch.old) {
            (None, None) => return self.unless_staged(forwards(None), Follow::Moves),
            (None, Some(_)) => return stays("it has no commit on the host any more"),
            (Some(now), old) => (now.as_str().to_owned(), old),
        };
        if self.is_within(new, &now)? {
            return Ok(Follow::There);
        }
        if let Some(old) = old
            && !self.is_within(old, new)?
        {
            return stays("its history was rewritten");
        }
        if self.is_within(&now, new)? {
            return self.unless_staged(forwards(Some(now)), Follow::Moves);
        }
        match self.joined(&now, new, run)? {
            Joined::Commit(to) => {
                let to = Move { name: branch.name.clone(), from: Some(now), to };
                self.unless_staged(to, Follow::Joins)
            }
            Joined::Conflicts(paths) => Ok(Follow::Conflicts(paths)),
            Joined::Strangers => stays("it has nothing in common with what is there now"),
        }
    }

    /// A copy of the index, for taking it back; whether there is one.
    pub(crate) fn save_index(&self, to: &Path) -> Result<bool, FollowError> {
        let index = self.index();
        match kept(&index, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(FollowError::File(index, error)),
        }
    }

    /// Moves the branch and brings the index in step; what the index lists then, as a digest.
    pub(crate) fn go(&self, to: &Move, run: &str) -> Result<String, FollowError> {
        let (reference, why) = (format!("refs/heads/{}", to.name), format!("palisade: {run}"));
        let old = to.from.clone().unwrap_or_else(|| none_like(&to.to));
        self.done(&["update-ref", "-m", &why, &reference, &to.to, &old])?;
        self.done(&["read-tree", "-i", "-m", tree_of(to.from.as_deref(), &to.to), &to.to])?;
        self.listing()
    }

    /// Why a move cannot be taken back, if it cannot. `listed` is what [`Host::go`] gave.
    pub(crate) fn held(&self, to: &Move, listed: Option<&str>) -> Result<Option<String>, FollowError> {
        let now = self.tip(&to.name)?;
        if now.as_deref() != Some(to.to.as_str()) && now != to.from {
            return Ok(Some("it moved since".into()));
        }
        if !self.is_checked_out(&to.name)? {
            return Ok(Some("another branch is checked out now".into()));
        }
        if listed.is_some_and(|listed| self.listing().is_ok_and(|now| now == listed)) {
            return Ok(None);
        }
        let (new, old) = (to.to.as_str(), tree_of(to.from.as_deref(), &to.to));
        let said = self.said(&["read-tree", "-n", "-i", "-m", new, old])?;
        Ok((!said.ok).then(|| format!("what was staged since is in the way ({})", said.err)))
    }

    /// Takes a move back, as far as it came: the branch, if it is where it was taken, and the index as it was saved, or what was
    /// staged since upon that.
    pub(crate) fn back(
        &self,
        to: &Move,
        saved: Option<&Path>,
        listed: Option<&str>,
        run: &str,
    ) -> Result<Back, FollowError> {
        let now = self.tip(&to.name)?;
        let reference = format!("refs/heads/{}", to.name);
        match (&now, &to.from) {
            (now, from) if now == from => {}
            (Some(now), from) if *now == to.to => {
                let why = format!("palisade: {run} taken back");
                match from {
                    Some(from) => self.done(&["update-ref", "-m", &why, &reference, from, now])?,
                    None => self.done(&["update-ref", "-d", &reference, now])?,
                };
            }
            _ => return Ok(Back::Stays("it moved since".into())),
        }
        if !self.is_checked_out(&to.name)? {
            return Ok(Back::Stays("another branch is checked out now".into()));
        }
        let is_untouched = listed.is_some_and(|listed| self.listing().is_ok_and(|now| now == listed));
        let (new, old) = (to.to.as_str(), tree_of(to.from.as_deref(), &to.to));
        if is_untouched || !self.said(&["read-tree", "-i", "-m", new, old])?.ok {
            self.restore_index(saved).map_err(|error| FollowError::File(self.index(), error))?;
        }
        Ok(Back::There)
    }

    fn unless_staged(&self, to: Move, then: impl FnOnce(Move) -> Follow) -> Result<Follow, FollowError> {
        let old = tree_of(to.from.as_deref(), &to.to);
        let said = self.said(&["read-tree", "-n", "-i", "-m", old, &to.to])?;
        Ok(if said.ok { then(to) } else { Follow::Staged(said.err) })
    }

    /// Whether a commit has more files and directories than anybody lists: a few small trees can name each other many times, also without a
    /// single file.
    fn is_countless(&self, commit: &str) -> Result<bool, FollowError> {
        let directory = in_directory(&self.place.own);
        let list = ["ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", commit];
        let words: Vec<&str> = directory.iter().map(String::as_str).chain(list).collect();
        let mut files = 0usize;
        let whole = self.git.pass(&words, b"", |piece| {
            files += piece.iter().filter(|byte| **byte == 0).count();
            if files > MOST_FILES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match files > MOST_FILES {
            // Nobody knows how many there are.
            false if !whole => Err(FollowError::Refused("the files of a commit cannot be listed".into())),
            is_countless => Ok(is_countless),
        }
    }

    fn head(&self) -> Result<Head, FollowError> {
        let Place { own, common, .. } = &self.place;
        refs::head(own, common).map_err(|error| FollowError::File(own.join("HEAD"), error))
    }

    fn is_checked_out(&self, name: &str) -> Result<bool, FollowError> {
        Ok(matches!(self.head()?, Head::Branch(now, _) if now == name))
    }

    fn tip(&self, name: &str) -> Result<Option<String>, FollowError> {
        let said = self.said(&["rev-parse", "-q", "--verify", &format!("refs/heads/{name}")])?;
        Ok(said.ok.then(|| line(&said.out)))
    }

    /// Whether everything in `one` is in `other`.
    fn is_within(&self, one: &str, other: &str) -> Result<bool, FollowError> {
        self.says(&["merge-base", "--is-ancestor", one, other])
    }

    fn index(&self) -> PathBuf {
        self.place.own.join("index")
    }

    /// What the index lists, whatever it knows of the files.
    fn listing(&self) -> Result<String, FollowError> {
        let directory = in_directory(&self.place.own);
        let list = ["ls-files", "--stage", "-z"];
        let words: Vec<&str> = directory.iter().map(String::as_str).chain(list).collect();
        // However many files there are.
        let mut pieces = sha2::Sha256::new();
        let listed = self.git.pass(&words, b"", |piece| {
            pieces.update(piece);
            ControlFlow::Continue(())
        })?;
        match listed {
            true => Ok(Digest::of_all(pieces).to_string()),
            false => Err(FollowError::Refused("the index cannot be listed".into())),
        }
    }

    /// Puts the index back as it was, under git's own lock.
    fn restore_index(&self, saved: Option<&Path>) -> io::Result<()> {
        let (index, lock) = (self.index(), self.place.own.join("index.lock"));
        let owner = std::fs::symlink_metadata(&self.place.own)?;
        let mut file = locked(&lock)?;
        let restored = (|| {
            let Some(saved) = saved else {
                return std::fs::remove_file(&index).and_then(|()| std::fs::remove_file(&lock));
            };
            let mut from = std::fs::File::open(saved)?;
            io::copy(&mut from, &mut file)?;
            file.flush()?;
            let found = from.metadata()?;
            file.set_permissions(found.permissions())?;
            file.set_modified(found.modified()?)?;
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
            }
            file.sync_data()?;
            std::fs::rename(&lock, &index)
        })();
        if restored.is_err() {
            let _ = std::fs::remove_file(&lock);
        }
        restored
    }

    /// A commit that has what both committed since they parted.
    fn joined(&self, now: &str, new: &str, run: &str) -> Result<Joined, FollowError> {
        let said = self.said(&["merge-base", now, new])?;
        if !said.ok {
            return Ok(Joined::Strangers);
        }
        let base = line(&said.out);
        let index = self.place.own.join(format!("palisade-{run}"));
        let git = Git::find(&self.place.common).ok_or(FollowError::NoGit)?.with_index(&index);
        let apart = Self { place: self.place.clone(), git };
        let joined = apart.join(&base, now, new, run);
        let _ = std::fs::remove_file(&index);
        joined
    }

    /// In an index of its own.
    fn join(&self, base: &str, now: &str, new: &str, run: &str) -> Result<Joined, FollowError> {
        self.done(&["read-tree", "-i", "-m", "--aggressive", base, now, new])?;
        let unmerged = self.done(&["ls-files", "--unmerged", "-z"])?;
        let mut paths: Vec<PathBuf> = unmerged.out.split(|byte| *byte == 0).filter_map(path_of).collect();
        paths.dedup();
        if !paths.is_empty() {
            return Ok(Joined::Conflicts(paths));
        }
        let tree = line(&self.done(&["write-tree"])?.out);
        let message = format!("Join what {run} committed");
        let words = ["commit-tree", &tree, "-p", now, "-p", new, "-m", &message];
        Ok(Joined::Commit(line(&self.done(&words)?.out)))
    }

    fn said(&self, arguments: &[&str]) -> Result<Said, FollowError> {
        let directory = in_directory(&self.place.own);
        let mut all: Vec<&str> = directory.iter().map(String::as_str).collect();
        all.extend(arguments);
        Ok(self.git.run(&JOINS, &all, Stdio::null())?)
    }

    fn says(&self, arguments: &[&str]) -> Result<bool, FollowError> {
        Ok(self.said(arguments)?.ok)
    }

    fn done(&self, arguments: &[&str]) -> Result<Said, FollowError> {
        let said = self.said(arguments)?;
        if said.ok { Ok(said) } else { Err(FollowError::Refused(said.err)) }
    }
}

/// What came of joining.
enum Joined {
    Commit(String),
    Conflicts(Vec<PathBuf>),
    Strangers,
}

fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// The path in `<mode> <id> <stage>\t<path>`.
fn path_of(entry: &[u8]) -> Option<PathBuf> {
    let at = entry.iter().position(|byte| *byte == b'\t')?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(entry.get(at + 1..)?)))
}

fn none_like(id: &str) -> String {
    "0".repeat(id.len())
}

/// What a branch has before its first commit is the tree without entries.
fn tree_of<'a>(commit: Option<&'a str>, like: &str) -> &'a str {
    let empty = || Id::parse(like.as_bytes()).map_or("", |id| id.empty_tree_like());
    commit.unwrap_or_else(empty)
}

/// git's lock of an index; what was cut off may still be writing.
fn locked(lock: &Path) -> io::Result<std::fs::File> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(lock) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// A copy with the time of the original: git tells by it which files it must look at.
fn kept(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = std::fs::File::open(from)?;
    let mut file = super::exclusive(to)?;
    io::copy(&mut from, &mut file)?;
    let found = from.metadata()?;
    file.set_permissions(found.permissions())?;
    file.set_modified(found.modified()?)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str], input: &str) -> String {
        let mut command = std::process::Command::new("git");
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(folder).args(arguments);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ana").env(format!("GIT_{who}_EMAIL"), "ana@host.example");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{arguments:?}");
        line(&out.stdout)
    }

    #[test]
    fn adv_g03_small_trees_that_name_each_other_are_counted_whether_there_is_a_file_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        git(&here, &["init", "-q"], "");
        let file = git(&here, &["hash-object", "-w", "--stdin"], "x");
        let host = Host::find(&here).unwrap();
        for leaf in
            [git(&here, &["mktree"], ""), git(&here, &["mktree"], &format!("100644 blob {file}\ta\n"))]
        {
            let mut tree = leaf;
            for depth in 1..=7 {
                let entries: String = (0..10).map(|name| format!("040000 tree {tree}\t{name}\n")).collect();
                tree = git(&here, &["mktree"], &entries);
                if depth == 3 || depth == 7 {
                    let commit = git(&here, &["commit-tree", &tree, "-m", "x"], "");
                    assert_eq!(host.is_countless(&commit).unwrap(), depth == 7);
                }
            }
        }
        // What cannot be listed is not taken for few.
        let gone = git(&here, &["mktree", "--missing"], &format!("040000 tree {}\tx\n", "1".repeat(40)));
        let commit = git(&here, &["commit-tree", &gone, "-m", "x"], "");
        assert!(host.is_countless(&commit).is_err());
    }
}
