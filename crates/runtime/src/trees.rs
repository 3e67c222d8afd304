//! Repositories and worktrees on the disk: where each lies, and what is done to it there.
//!
//! Flow: an origin -> a sandbox that reaches that one host and runs git there ([`launcher`]) -> a bundle, checked as an
//! agent's would be -> a repository of ours -> trees on branches of it.
//!
//! Invariants: git runs outside a sandbox only on repositories that no agent writes, never on a tree; a tree that could not
//! be made leaves neither a directory nor a branch; one thing at a time is done to a repository.
//! Not here: who may (`access`), rows (`store`), git itself (`git`).

mod launcher;
mod origin;

use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use git::{Branch, Commit, Cut, Repository, RepositoryError};
use model::{RepoId, WorktreeId};
use store::{StoreError, Tree};

pub(crate) use launcher::Launcher;
pub use origin::{BadOrigin, Origin};

use crate::Mode;

/// What origins have is kept below this.
const THEIRS: &str = "refs/remotes/origin/";
/// What a fetch brings lies below this among the branches, for as long as it takes.
const COMING: &str = "palisade-fetch";
/// The most branches that an origin may have.
const MOST_BRANCHES: usize = 4_000;

/// Repositories and worktrees on the disk.
#[derive(Debug)]
pub(crate) struct Trees {
    repos: PathBuf,
    worktrees: PathBuf,
    launcher: Launcher,
    mode: Mode,
    /// One thing at a time is done to a repository.
    busy: Mutex<HashMap<RepoId, Arc<tokio::sync::Mutex<()>>>>,
}

/// What a fetch brought.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// The branch that is worked from there, if the origin says or it is plain.
    pub(crate) usual: Option<String>,
    /// The run of the sandbox that it was done in.
    pub(crate) run: String,
}

/// What is asked for a new tree.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) repo: RepoId,
    pub(crate) worktree: WorktreeId,
    /// Named by the caller, or one of its own.
    pub(crate) branch: Option<String>,
    /// The branch of the origin that it begins at.
    pub(crate) base: String,
    /// What it is called.
    pub(crate) name: String,
}

/// A tree that was made, until somebody keeps it.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) tree: Tree,
    repo: RepoId,
    worktree: WorktreeId,
    branch: Branch,
}

impl Trees {
    pub(crate) fn new(data: &Path, launcher: PathBuf, mode: Mode) -> Self {
        Self {
            repos: data.join("repos"),
            worktrees: data.join("worktrees"),
            launcher: Launcher::new(launcher, data.join("runs")),
            mode,
            busy: Mutex::default(),
        }
    }

    fn repo(&self, id: RepoId) -> PathBuf {
        self.repos.join(id.to_string())
    }

    /// Where the tree of a worktree lies.
    pub(crate) fn tree(&self, id: WorktreeId) -> PathBuf {
        self.worktrees.join(id.to_string())
    }

    /// For whoever does something to a repository.
    pub(crate) async fn alone(&self, id: RepoId) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut busy = self.busy.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            busy.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(busy.entry(id).or_default())
        };
        lock.lock_owned().await
    }

    /// Brings a repository up to what its origin has.
    pub(crate) async fn fetch(&self, id: RepoId, origin: &str) -> Result<Fetched, StoreError> {
        let origin =
            Origin::parse(origin, self.mode).map_err(|error| StoreError::Unusable(error.to_string()))?;
        let folder = self.repo(id);
        let _alone = self.alone(id).await;
        private(&self.repos)?;
        let made = folder.clone();
        on_disk(move || Repository::make(&made).map(drop)).await?;
        let reach = origin.reach()?;
        let listed = self.launcher.listed(&folder, &reach, &origin.address()).await?;
        let theirs = Theirs::read(&listed)?;
        let run = self.launcher.fetched(&folder, &reach, &origin.address(), COMING).await?;
        let fetched = Fetched { usual: theirs.usual(), run: run.clone() };
        on_disk(move || {
            let ours = Repository::open(&folder)?;
            let kept = format!("refs/palisade/{run}/");
            let come = ours.references(&format!("{kept}{COMING}/"))?;
            let mut all = Vec::new();
            for (name, id) in theirs.branches {
                let new = come.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone());
                let id = match new {
                    Some(new) => new,
                    None if ours.tip(&id)?.is_some() => id,
                    None => {
                        let why = format!("`{name}` moved while it was fetched; try again");
                        return Err(RepositoryError::Refused(why));
                    }
                };
                all.push((name, id));
            }
            ours.replace(THEIRS, &all, &kept)
        })
        .await?;
        Ok(fetched)
    }

    /// Makes a tree; the caller holds the repository alone.
    pub(crate) async fn make(self: &Arc<Self>, wanted: Wanted) -> Result<Made, StoreError> {
        private(&self.worktrees)?;
        let (folder, tree) = (self.repo(wanted.repo), self.tree(wanted.worktree));
        let Wanted { repo, worktree, branch, base, name } = wanted;
        let this = Arc::clone(self);
        on_disk(move || {
            let ours = Repository::open(&folder)?;
            let base = ours.tip(&format!("{THEIRS}{base}"))?.ok_or(RepositoryError::NoBranch(base))?;
            let branch = match branch {
                Some(branch) => branch,
                None => free(&ours, &name, worktree)?,
            };
            match ours.add_tree(&tree, &branch, &base) {
                Ok(made) => Ok(Made { tree: Tree { branch, base }, repo, worktree, branch: made }),
                Err(error) => {
                    let made = Made { tree: Tree { branch, base }, repo, worktree, branch: Branch::Found };
                    this.remove(&made)?;
                    Err(error)
                }
            }
        })
        .await
    }

    /// Takes a tree back that nobody kept.
    pub(crate) async fn give_up(self: &Arc<Self>, made: Made) -> Result<(), StoreError> {
        let this = Arc::clone(self);
        on_disk(move || this.remove(&made)).await
    }

    fn remove(&self, made: &Made) -> Result<(), RepositoryError> {
        let tree = self.tree(made.worktree);
        files::remove::tree(&tree).map_err(|error| RepositoryError::File(tree, error))?;
        let branch =
            (made.branch == Branch::Made).then_some((made.tree.branch.as_str(), made.tree.base.as_str()));
        Repository::open(&self.repo(made.repo))?.forget_tree(branch)
    }

    /// Removes the tree of a worktree that is no more. Its branch stays, unless nothing was committed there.
    pub(crate) async fn drop_tree(
        self: &Arc<Self>,
        repo: RepoId,
        worktree: WorktreeId,
        tree: Tree,
    ) -> Result<(), StoreError> {
        let _alone = self.alone(repo).await;
        self.give_up(Made { tree, repo, worktree, branch: Branch::Made }).await
    }

    /// Removes a repository that is no more.
    pub(crate) async fn drop_repo(&self, id: RepoId) -> Result<(), StoreError> {
        let _alone = self.alone(id).await;
        let folder = self.repo(id);
        on_disk(move || files::remove::tree(&folder).map_err(|error| RepositoryError::File(folder, error)))
            .await
    }

    /// The newest commits of a tree's branch.
    pub(crate) async fn log(&self, repo: RepoId, tree: Tree, most: u32) -> Result<Vec<Commit>, StoreError> {
        let folder = self.repo(repo);
        let branch = format!("refs/heads/{}", tree.branch);
        on_disk(move || Repository::open(&folder)?.log(&tree.base, &branch, most)).await
    }

    /// What was committed on a tree's branch, as a patch.
    pub(crate) async fn diff(&self, repo: RepoId, tree: Tree, most: usize) -> Result<Cut, StoreError> {
        let folder = self.repo(repo);
        let branch = format!("refs/heads/{}", tree.branch);
        on_disk(move || Repository::open(&folder)?.diff(&tree.base, &branch, most)).await
    }

    /// Trees on the disk, by the worktree that each is of.
    pub(crate) fn found(&self) -> Vec<WorktreeId> {
        let entries = std::fs::read_dir(&self.worktrees).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }
}

/// A branch of the worktree's own: by its name, or by its number too where that is taken. What is hidden from somebody is
/// not told to them by refusing its name.
fn free(ours: &Repository, name: &str, worktree: WorktreeId) -> Result<String, RepositoryError> {
    let plain = format!("palisade/{name}");
    if ours.tip(&format!("refs/heads/{plain}"))?.is_none() {
        return Ok(plain);
    }
    let id = worktree.to_string();
    let short = id.get(3..11).unwrap_or(&id);
    Ok(format!("{plain}-{short}"))
}

/// What an origin says that it has.
#[derive(Debug)]
struct Theirs {
    branches: Vec<(String, String)>,
    head: Option<String>,
}

impl Theirs {
    fn read(listed: &str) -> Result<Self, StoreError> {
        let (mut branches, mut head) = (Vec::new(), None);
        for line in listed.lines() {
            let Some((what, name)) = line.split_once('\t') else { continue };
            match (what.strip_prefix("ref: refs/heads/"), name.strip_prefix("refs/heads/")) {
                (Some(to), _) if name == "HEAD" => head = Some(to.to_owned()),
                (None, Some(branch)) if git::is_branch(branch) && is_id(what) => {
                    branches.push((branch.to_owned(), what.to_owned()));
                }
                _ => {}
            }
        }
        match branches.len() {
            0 => Err(StoreError::Unusable("the origin has no branch that could be worked from".into())),
            count if count > MOST_BRANCHES => {
                Err(StoreError::Unusable(format!("the origin has more than {MOST_BRANCHES} branches")))
            }
            _ => Ok(Self { branches, head }),
        }
    }

    fn usual(&self) -> Option<String> {
        let there = |name: &&str| self.branches.iter().any(|(known, _)| known == name);
        self.head.as_deref().into_iter().chain(["main", "master"]).find(there).map(str::to_owned)
    }
}

fn is_id(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A directory of ours alone.
fn private(path: &Path) -> Result<(), StoreError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        tracing::error!(%error, "a directory of the installation could not be made");
        StoreError::Unusable(format!("the daemon cannot make its directory: {error}"))
    })
}

/// Git and the disk wait; nobody else does.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepositoryError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| StoreError::Unusable("the work was interrupted".into()))?;
    done.map_err(|error| StoreError::Unusable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_origin_says_is_taken_only_where_it_makes_sense() {
        let id = "a".repeat(40);
        let listed = format!(
            "ref: refs/heads/trunk\tHEAD\n{id}\tHEAD\n{id}\trefs/heads/trunk\n{id}\trefs/heads/a..b\n\
             {id}\trefs/tags/v1\nxyz\trefs/heads/bad\n{id}\trefs/heads/-x\n{id}\trefs/heads/ok/1\n"
        );
        let theirs = Theirs::read(&listed).unwrap();
        assert_eq!(theirs.branches, [("trunk".to_owned(), id.clone()), ("ok/1".to_owned(), id.clone())]);
        assert_eq!(theirs.usual().unwrap(), "trunk");
        let without = Theirs::read(&format!("{id}\trefs/heads/master\n")).unwrap();
        assert_eq!(without.usual().unwrap(), "master");
        let lies = Theirs::read(&format!("ref: refs/heads/none\tHEAD\n{id}\trefs/heads/x\n")).unwrap();
        assert_eq!(lies.usual(), None);
        for nothing in ["", "garbage", "\t\t\t"] {
            assert!(Theirs::read(nothing).is_err(), "{nothing:?}");
        }
    }
}
