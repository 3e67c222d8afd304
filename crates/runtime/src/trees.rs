//! Repositories and worktrees on the disk: where each lies, and what is done to it there.
//!
//! Flow: an origin -> a sandbox that reaches that one host and runs git there ([`launcher`]) -> a bundle, checked as an
//! agent's would be -> a repository of ours -> trees on branches of it.
//!
//! Invariants: git runs outside a sandbox only on repositories that no agent writes, never on a tree; a tree that could not
//! be made leaves neither a directory nor a branch; one thing at a time is done to a repository.
//! Not here: who may (`access`), rows (`store`), git itself (`git`).

pub(crate) mod frames;
mod launcher;
mod leaving;
mod origin;
mod ssh;

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use git::{Branch, Commit, Cut, Repository, RepositoryError};
use model::{RepoId, WorktreeId};
use store::{StoreError, Tree};
use tokio::sync::Semaphore;

pub(crate) use launcher::Launcher;
pub(crate) use leaving::{Merge, Push};
pub(crate) use origin::Credential;
pub use origin::{BadOrigin, Origin, is_login};

use crate::Mode;

/// What origins have is kept below this.
const THEIRS: &str = "refs/remotes/origin/";
/// What a fetch brings lies below this among the branches, for as long as it takes.
const COMING: &str = "palisade-fetch";
/// Branches of worktrees that named none are below this, and nobody else's.
pub(crate) const OURS: &str = "palisade";
/// What names the repository in a tree; it is the daemon's.
pub(crate) const GIT: &str = ".git";
/// What is behind the name of a worktree while its tree is being made.
const MAKING: &str = ".making";
/// How many repositories are fetched at once, and how many look at commits.
const MOST_FETCHES: usize = 4;
const MOST_LOOKS: usize = 4;
/// The most that a tree may have.
const MOST_FILES: u64 = 1_000_000;
const MOST_BYTES: u64 = 16 << 30;
/// The most branches that an origin may have.
const MOST_BRANCHES: usize = 4_000;

/// Repositories and worktrees on the disk.
#[derive(Debug)]
pub(crate) struct Trees {
    repos: PathBuf,
    worktrees: PathBuf,
    launcher: Launcher,
    mode: Mode,
    /// One thing at a time is done to a repository; nobody waits for a network here.
    busy: Mutex<HashMap<RepoId, Arc<tokio::sync::Mutex<()>>>>,
    /// What is being fetched, each once and few in all.
    fetching: Mutex<HashSet<RepoId>>,
    /// How many look at commits at once.
    looks: Semaphore,
    /// What was being made when the last daemon ended.
    left: Vec<WorktreeId>,
}

/// A fetch that is under way.
struct Fetching<'a>(&'a Trees, RepoId);

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.0.fetching.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
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
    pub(crate) fn new(data: &Path, launcher: Launcher, mode: Mode) -> Self {
        let worktrees = data.join("worktrees");
        launcher.sweep();
        Self {
            repos: data.join("repos"),
            left: unfinished(&worktrees),
            worktrees,
            launcher,
            mode,
            busy: Mutex::default(),
            fetching: Mutex::default(),
            looks: Semaphore::new(MOST_LOOKS),
        }
    }

    /// What makes sandboxes.
    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
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
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            busy.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(busy.entry(id).or_default())
        };
        lock.lock_owned().await
    }

    /// Brings a repository up to what its origin has.
    pub(crate) async fn fetch(
        &self,
        id: RepoId,
        origin: &str,
        credential: Option<Credential>,
    ) -> Result<Fetched, StoreError> {
        let comes_from = origin.to_owned();
        let way = self.origin(origin)?.reading(credential)?;
        let folder = self.repo(id);
        let _fetching = self.begin_fetch(id)?;
        private(&self.repos)?;
        let made = folder.clone();
        let alone = self.alone(id).await;
        // With what a fetch left that did not come to its end. Alone until it is done, also if nobody waits for it any more.
        on_disk(move || {
            let _alone = alone;
            let ours = Repository::make(&made)?;
            ours.comes_from(&comes_from)?;
            ours.sweep("refs/palisade/", &format!("/{COMING}/"))
        })
        .await?;
        let listed = self.launcher.listed(&folder, &way).await?;
        let theirs = Theirs::read(&listed)?;
        let run = self.launcher.fetched(&folder, &way, COMING).await?;
        let alone = self.alone(id).await;
        let fetched = Fetched { usual: theirs.usual(), run: run.clone() };
        on_disk(move || {
            let _alone = alone;
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

    /// Where a repository comes from, by what is kept of it.
    pub(crate) fn origin(&self, text: &str) -> Result<Origin, StoreError> {
        Origin::parse(text, self.mode).map_err(|error| StoreError::Unusable(error.to_string()))
    }

    fn begin_fetch(&self, id: RepoId) -> Result<Fetching<'_>, StoreError> {
        let mut all = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_FETCHES && !all.contains(&id) {
            return Err(StoreError::Unusable(
                "too many repositories are being fetched; try again later".into(),
            ));
        }
        match all.insert(id) {
            true => Ok(Fetching(self, id)),
            false => Err(StoreError::Unusable("the repository is being fetched; try again later".into())),
        }
    }

    /// Makes a tree; the caller holds the repository alone.
    pub(crate) async fn make(self: &Arc<Self>, wanted: Wanted) -> Result<Made, StoreError> {
        private(&self.worktrees)?;
        let (folder, tree) = (self.repo(wanted.repo), self.tree(wanted.worktree));
        let Wanted { repo, worktree, branch, base } = wanted;
        let this = Arc::clone(self);
        on_disk(move || {
            let ours = Repository::open(&folder)?;
            let base = ours.tip(&format!("{THEIRS}{base}"))?.ok_or(RepositoryError::NoBranch(base))?;
            let asked = branch.is_some();
            // Not by its name: that may be hidden from others who see the branch.
            let branch = branch.unwrap_or_else(|| format!("{OURS}/{worktree}"));
            let at = ours.tip(&format!("refs/heads/{branch}"))?;
            fits(&ours, at.as_deref().unwrap_or(&base))?;
            let how = if at.is_some() { Branch::Found } else { Branch::Made };
            let made = Made { tree: Tree { branch, base }, repo, worktree, branch: how };
            this.mark(&made)?;
            match ours.add_tree(&tree, &made.tree.branch, &made.tree.base) {
                Ok(_) => Ok(made),
                Err(error) => {
                    if let Err(left) = this.remove(&made) {
                        tracing::error!(%left, "a tree that could not be made is still there");
                    }
                    // Why may be somebody's whom the caller does not know of.
                    match asked && matches!(error, RepositoryError::InUse(_) | RepositoryError::Refused(_)) {
                        true => {
                            tracing::warn!(%error, "a tree could not be made on the branch that was asked for");
                            Err(RepositoryError::InUse(made.tree.branch))
                        }
                        false => Err(error),
                    }
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
        match Repository::open(&self.repo(made.repo)) {
            Ok(ours) => ours.forget_tree(branch)?,
            Err(RepositoryError::Gone) => {}
            Err(other) => return Err(other),
        }
        self.unmark(made.worktree)
    }

    /// Where it is written down that a tree is being made: whoever finds this after a crash takes it back.
    fn marker(&self, worktree: WorktreeId) -> PathBuf {
        self.worktrees.join(format!("{worktree}{MAKING}"))
    }

    fn mark(&self, made: &Made) -> Result<(), RepositoryError> {
        let branch = if made.branch == Branch::Made { made.tree.branch.as_str() } else { "" };
        let text = format!("{}\n{branch}\n{}\n", made.repo, made.tree.base);
        let path = self.marker(made.worktree);
        std::fs::write(&path, text).map_err(|error| RepositoryError::File(path, error))
    }

    fn unmark(&self, worktree: WorktreeId) -> Result<(), RepositoryError> {
        let path = self.marker(worktree);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(RepositoryError::File(path, error))
            }
            _ => Ok(()),
        }
    }

    /// Somebody has this tree now.
    pub(crate) fn keep(&self, made: &Made) {
        if let Err(error) = self.unmark(made.worktree) {
            tracing::warn!(%error, "the mark of a tree that is made is still there");
        }
    }

    /// What was being made when the last daemon ended.
    pub(crate) fn left(&self) -> &[WorktreeId] {
        &self.left
    }

    /// Takes back what was being made, or, where somebody has it, only the mark.
    pub(crate) async fn finish(
        self: &Arc<Self>,
        worktree: WorktreeId,
        is_kept: bool,
    ) -> Result<(), StoreError> {
        let this = Arc::clone(self);
        on_disk(move || {
            if is_kept {
                return this.unmark(worktree);
            }
            let path = this.marker(worktree);
            let text = std::fs::read_to_string(&path).map_err(|error| RepositoryError::File(path, error))?;
            let mut lines = text.lines();
            let (repo, branch, base) = (lines.next(), lines.next(), lines.next());
            let (Some(Ok(repo)), Some(branch), Some(base)) = (repo.map(str::parse), branch, base) else {
                // Nothing was made before all of it was written.
                return this.unmark(worktree);
            };
            let how = if branch.is_empty() { Branch::Found } else { Branch::Made };
            let tree = Tree { branch: branch.to_owned(), base: base.to_owned() };
            this.remove(&Made { tree, repo, worktree, branch: how })
        })
        .await
    }

    /// Removes the tree of a worktree. A branch that was made for it stays, too, unless nothing was committed there.
    pub(crate) async fn drop_tree(
        self: &Arc<Self>,
        repo: RepoId,
        worktree: WorktreeId,
        tree: Tree,
        branch: Branch,
    ) -> Result<(), StoreError> {
        let _alone = self.alone(repo).await;
        self.give_up(Made { tree, repo, worktree, branch }).await
    }

    /// Removes a repository that is no more.
    pub(crate) async fn drop_repo(&self, id: RepoId) -> Result<(), StoreError> {
        let _fetching = self.begin_fetch(id)?;
        let _alone = self.alone(id).await;
        let folder = self.repo(id);
        on_disk(move || files::remove::tree(&folder).map_err(|error| RepositoryError::File(folder, error)))
            .await
    }

    /// Few look at once: git works on threads that others need too.
    async fn seat(&self) -> Result<tokio::sync::SemaphorePermit<'_>, StoreError> {
        let busy = || StoreError::Unusable("too many look at commits now; try again".into());
        let permit = tokio::time::timeout(std::time::Duration::from_secs(10), self.looks.acquire()).await;
        permit.map_err(|_| busy())?.map_err(|_| busy())
    }

    /// The newest commits of a tree's branch.
    pub(crate) async fn log(&self, repo: RepoId, tree: Tree, most: u32) -> Result<Vec<Commit>, StoreError> {
        let _seat = self.seat().await?;
        let folder = self.repo(repo);
        let branch = format!("refs/heads/{}", tree.branch);
        on_disk(move || Repository::open(&folder)?.log(&tree.base, &branch, most)).await
    }

    /// What was committed on a tree's branch, as a patch.
    pub(crate) async fn diff(&self, repo: RepoId, tree: Tree, most: usize) -> Result<Cut, StoreError> {
        let _seat = self.seat().await?;
        let folder = self.repo(repo);
        let branch = format!("refs/heads/{}", tree.branch);
        on_disk(move || Repository::open(&folder)?.diff(&tree.base, &branch, most)).await
    }
}

/// What is marked as being made.
fn unfinished(worktrees: &Path) -> Vec<WorktreeId> {
    let entries = std::fs::read_dir(worktrees).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_suffix(MAKING)?.parse().ok();
    entries.filter_map(of).collect()
}

/// Whether what would lie on the disk is within bounds: a small repository can name one large file many times.
fn fits(ours: &Repository, commit: &str) -> Result<(), RepositoryError> {
    match ours.size(commit)? {
        Some((files, bytes)) if files <= MOST_FILES && bytes <= MOST_BYTES => Ok(()),
        _ => Err(RepositoryError::Refused(format!(
            "the tree has more than {MOST_FILES} files, or more than {} GiB in them",
            MOST_BYTES >> 30
        ))),
    }
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

/// Whether somebody may have a branch of this name: what we make ourselves is below names of our own.
#[must_use]
pub fn may_be_named(branch: &str) -> bool {
    let first = branch.split('/').next().unwrap_or_default().to_ascii_lowercase();
    git::is_branch(branch) && !first.starts_with(OURS)
}

/// A directory of ours alone.
pub(crate) fn private(path: &Path) -> Result<(), StoreError> {
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
