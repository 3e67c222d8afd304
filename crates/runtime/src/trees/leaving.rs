//! What leaves a worktree, and how it ends: its branch joined into another, packed for somebody, pushed to the origin; its files
//! kept, cleaned or removed, and made again.
//!
//! Invariants: git runs outside a sandbox on repositories of ours only; a branch that a tree has checked out is moved by nobody
//! else; what cannot be done changes nothing.

use std::sync::Arc;

use files::remove::Kept;
use git::{Branch, Bundle, Merged, Repository, RepositoryError};
use model::{RepoId, TreeFiles, WorktreeId};
use store::{Standing, StoreError, Tree};

use super::{Credential, Made, Origin, THEIRS, Trees, on_disk};

/// The largest bundle that is handed out.
const MOST_BUNDLE: usize = 32 << 20;
/// The longest list of paths that is read.
const MOST_LISTED: usize = 256 << 20;

/// What is to be joined.
#[derive(Debug)]
pub(crate) struct Merge {
    pub(crate) repo: RepoId,
    /// The branch whose commits are joined.
    pub(crate) from: String,
    /// The branch that they are joined into.
    pub(crate) into: String,
    /// What the commit that joins them says, if there is one.
    pub(crate) message: String,
    /// Whether the result is packed.
    pub(crate) takes: bool,
}

/// What is to be pushed.
#[derive(Debug)]
pub(crate) struct Push {
    pub(crate) repo: RepoId,
    pub(crate) branch: String,
    pub(crate) to: String,
}

impl Trees {
    /// Joins a branch into another one of ours.
    pub(crate) async fn merge(&self, merge: Merge) -> Result<(Merged, Option<Vec<u8>>), StoreError> {
        let Merge { repo, from, into, message, takes } = merge;
        let _alone = self.alone(repo).await;
        let folder = self.repo(repo);
        on_disk(move || {
            let ours = Repository::open(&folder)?;
            let tip = ours.tip(&format!("refs/heads/{from}"))?.ok_or(RepositoryError::NoBranch(from))?;
            if ours.is_checked_out(&into)? {
                return Err(RepositoryError::InUse(into));
            }
            let theirs = ours.tip(&format!("{THEIRS}{into}"))?;
            let merged = ours.merge(&tip, &into, theirs.as_deref(), &message)?;
            let packed = match takes {
                true => match ours.bundle(&into, THEIRS, MOST_BUNDLE)? {
                    Bundle::Nothing => None,
                    Bundle::Bytes(bytes) => Some(bytes),
                    Bundle::TooLarge => {
                        let why = format!("what is new in `{into}` is more than {} MiB", MOST_BUNDLE >> 20);
                        return Err(RepositoryError::Refused(why));
                    }
                },
                false => None,
            };
            Ok((merged, packed))
        })
        .await
    }

    /// Pushes a branch to where its repository comes from; the commit that is there now.
    pub(crate) async fn push(
        &self,
        push: Push,
        origin: &Origin,
        credential: Option<Credential>,
    ) -> Result<String, StoreError> {
        let Push { repo, branch, to } = push;
        let way = origin.pushing(credential, &to)?;
        // Not while it is fetched: that would be told of what is not there any more.
        let _fetching = self.begin_fetch(repo)?;
        let folder = self.repo(repo);
        let ours = folder.clone();
        let commit = on_disk(move || {
            let tip = Repository::open(&ours)?.tip(&format!("refs/heads/{branch}"))?;
            tip.ok_or(RepositoryError::NoBranch(branch))
        })
        .await?;
        self.launcher.pushed(&folder, &way, &commit, &to).await?;
        let alone = self.alone(repo).await;
        let pushed = commit.clone();
        on_disk(move || {
            let _alone = alone;
            Repository::open(&folder)?.note(&format!("{THEIRS}{to}"), &pushed)
        })
        .await?;
        Ok(commit)
    }

    /// Does to the files of a worktree that ends what was asked for. `goes` says that nothing will name its tree any more.
    pub(crate) async fn end_tree(
        self: &Arc<Self>,
        repo: RepoId,
        worktree: WorktreeId,
        tree: Tree,
        files: TreeFiles,
        goes: bool,
    ) -> Result<(), StoreError> {
        match (files, goes) {
            (TreeFiles::Removed, _) => return self.drop_tree(repo, worktree, tree, Branch::Made).await,
            (TreeFiles::Kept, false) => return Ok(()),
            (TreeFiles::Kept | TreeFiles::Cleaned, _) => {}
        }
        let _alone = self.alone(repo).await;
        let (folder, place) = (self.repo(repo), self.tree(worktree));
        on_disk(move || {
            let ours = match Repository::open(&folder) {
                Err(RepositoryError::Gone) if files == TreeFiles::Kept => return Ok(()),
                other => other?,
            };
            if files == TreeFiles::Cleaned && place.is_dir() {
                let tip = ours.tip(&format!("refs/heads/{}", tree.branch))?.unwrap_or(tree.base);
                let paths = ours.paths(&tip, MOST_LISTED)?;
                let mut paths =
                    paths.ok_or_else(|| RepositoryError::Refused("the branch has too many files".into()))?;
                if !goes {
                    // What names the repository; git itself takes no file of this name.
                    paths.push(super::GIT.into());
                }
                files::remove::all_but(&place, &Kept::files(paths))
                    .map_err(|error| RepositoryError::File(place.clone(), error))?;
            }
            if goes { ours.let_go(&place) } else { Ok(()) }
        })
        .await
    }

    /// Makes the tree of a worktree again that was archived without one; nothing if it is there.
    pub(crate) async fn remake(
        self: &Arc<Self>,
        repo: RepoId,
        worktree: WorktreeId,
        tree: Tree,
    ) -> Result<(), StoreError> {
        if self.tree(worktree).is_dir() {
            return Ok(());
        }
        super::private(&self.worktrees)?;
        let _alone = self.alone(repo).await;
        let (folder, this) = (self.repo(repo), Arc::clone(self));
        on_disk(move || {
            let ours = Repository::open(&folder)?;
            let at = ours.tip(&format!("refs/heads/{}", tree.branch))?;
            super::fits(&ours, at.as_deref().unwrap_or(&tree.base))?;
            let how = if at.is_some() { Branch::Found } else { Branch::Made };
            let made = Made { tree, repo, worktree, branch: how };
            match ours.add_tree(&this.tree(worktree), &made.tree.branch, &made.tree.base) {
                Ok(_) => Ok(()),
                Err(error) => {
                    if let Err(left) = this.remove(&made) {
                        tracing::error!(%left, "a tree that could not be made again is still there");
                    }
                    Err(error)
                }
            }
        })
        .await
    }

    /// Where a tree stands, by what the repository tells; whether something lies there that is in no commit is not looked at.
    pub(crate) async fn stands(&self, repo: RepoId, worktree: WorktreeId) -> Result<Standing, StoreError> {
        let (folder, place) = (self.repo(repo), self.tree(worktree));
        let (branch, commit) = on_disk(move || Repository::open(&folder)?.checked_out(&place)).await?;
        Ok(Standing { branch, commit, dirty: None, at: 0 })
    }

    /// Whether something lies in a tree that is in no commit: looked at from inside a sandbox, which ends with this.
    pub(crate) async fn is_dirty(&self, worktree: WorktreeId) -> Option<bool> {
        self.launcher.is_dirty(&self.tree(worktree)).await
    }
}
