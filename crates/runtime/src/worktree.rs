//! Worktrees.

use std::path::PathBuf;
use std::sync::Arc;

use access::{
    AddOwner, CreateWorktree, ListWorktrees, Permit, Principal, ReadWorktree, RemoveOwner, SetSharing,
    SetTier, UpdateWorktree, WorktreeFacts,
};
use files::FileError;
use git::{Commit, Cut};
use model::{Links, RepoId, Tier, UserId, WorktreeId};
use store::{Repo, StoreError, Tree, Worktree, WorktreeFilter};

use crate::trees::{GIT, Wanted};
use crate::{ActError, Page, Runtime};

/// How many files of a directory are shown.
const MOST_ENTRIES: usize = 10_000;

/// The tree that a new worktree gets; none while its repository is only a record.
fn wanted(act: &CreateWorktree, repo: &Repo) -> Result<Option<Wanted>, StoreError> {
    let unusable = |why: &str| Err(StoreError::Unusable(why.to_owned()));
    match (repo.fetched_at, &act.branch, &act.base) {
        (None, None, None) => return Ok(None),
        (None, ..) => return unusable("the repository was not fetched yet; `palisade repo fetch` does that"),
        (Some(_), ..) => {}
    }
    let base = match act.base.as_ref().or(repo.default_branch.as_ref()) {
        Some(base) => base.clone(),
        None => return unusable("the origin does not say which branch is worked from; name one as `base`"),
    };
    Ok(Some(Wanted { repo: repo.id, worktree: act.worktree, branch: act.branch.clone(), base }))
}

/// The disk waits; nobody else does.
async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let interrupted = |_| FileError::Io(std::io::Error::other("it was interrupted"));
    tokio::task::spawn_blocking(work).await.map_err(interrupted)?
}

impl Runtime {
    /// One worktree.
    pub async fn worktree(&self, who: &Principal, worktree: WorktreeId) -> Result<Worktree, ActError> {
        let permit = self.look(who, ReadWorktree { worktree }).await?;
        Ok(self.store.read_worktree(permit).await?)
    }

    /// The worktrees this caller may know of.
    pub async fn worktrees(
        &self,
        who: &Principal,
        filter: &WorktreeFilter,
        after: Option<WorktreeId>,
        limit: i64,
    ) -> Result<Page<Worktree, WorktreeId>, ActError> {
        let rbac = self.gate.worktree_rbac();
        // The store knows owners, tiers and roles; only the gate knows every policy.
        Page::filled(
            limit,
            self.known(who, after).await?,
            |row: &Worktree| row.id,
            |after, take| async move {
                let permit = self.look(who, ListWorktrees {}).await?;
                Ok(self.store.list_worktrees(permit, rbac, filter, after, take).await?)
            },
            |row, as_of| self.gate.may_read(who, &row.facts(), as_of),
            self.gate.epoch(),
        )
        .await
    }

    /// A cursor that names what the caller may not know of is like one that names nothing.
    async fn known(
        &self,
        who: &Principal,
        cursor: Option<WorktreeId>,
    ) -> Result<Option<WorktreeId>, ActError> {
        let Some(id) = cursor else { return Ok(None) };
        let as_of = self.gate.epoch().now();
        let facts = self.gate.worktree(id).await.map_err(|_| ActError::Interrupted)?;
        Ok(facts.filter(|facts| self.gate.may_read(who, facts, as_of)).map(|_| id))
    }

    /// Creates a worktree.
    pub async fn create_worktree(
        self: &Arc<Self>,
        who: &Principal,
        act: CreateWorktree,
    ) -> Result<Worktree, ActError> {
        let as_of = self.gate.epoch().now();
        let known = self.gate.may_read_repo(who, act.repo, as_of);
        let (gate, caller, trees) = (Arc::clone(&self.gate), who.clone(), Arc::clone(&self.trees));
        let effect = async move |store: Arc<store::Store>, permit: Permit<CreateWorktree>| {
            let knows = |facts: &WorktreeFacts| gate.may_read(&caller, facts, as_of);
            let (permit, repo) = store.repo_of_new(permit).await?;
            // What the caller may not know of is as if it were not there.
            let repo = repo.filter(|_| known).ok_or(StoreError::Dangling("repository"))?;
            let Some(wanted) = wanted(permit.act(), &repo)? else {
                return store.create_worktree(permit, knows, None).await;
            };
            let _alone = trees.alone(repo.id).await;
            let made = trees.make(wanted).await?;
            match store.create_worktree(permit, knows, Some(made.tree.clone())).await {
                Ok(row) => {
                    trees.keep(&made);
                    Ok(row)
                }
                Err(error) => {
                    if let Err(left) = trees.give_up(made).await {
                        tracing::error!(%left, "a tree that nobody keeps could not be removed");
                    }
                    Err(error)
                }
            }
        };
        self.perform(who, act, effect).await
    }

    /// What was committed in a worktree, the newest first.
    pub async fn worktree_log(
        &self,
        who: &Principal,
        worktree: WorktreeId,
        most: u32,
    ) -> Result<Vec<Commit>, ActError> {
        let (repo, tree) = self.with_tree(who, worktree).await?;
        Ok(self.trees.log(repo, tree, most).await?)
    }

    /// What was committed in a worktree, as a patch.
    pub async fn worktree_diff(
        &self,
        who: &Principal,
        worktree: WorktreeId,
        most: usize,
    ) -> Result<Cut, ActError> {
        let (repo, tree) = self.with_tree(who, worktree).await?;
        Ok(self.trees.diff(repo, tree, most).await?)
    }

    /// What lies in a directory of a worktree's tree.
    pub async fn worktree_files(
        &self,
        who: &Principal,
        worktree: WorktreeId,
        path: PathBuf,
    ) -> Result<Result<Vec<files::Entry>, FileError>, ActError> {
        self.with_tree(who, worktree).await?;
        let root = self.trees.tree(worktree);
        Ok(read(move || {
            if path.starts_with(GIT) {
                return Err(FileError::Missing);
            }
            let entries = files::Root::open(&root)?.list(&path, MOST_ENTRIES)?;
            let shown = |entry: &files::Entry| !path.as_os_str().is_empty() || entry.name != GIT;
            Ok(entries.into_iter().filter(shown).collect())
        })
        .await)
    }

    /// What is in a file of a worktree's tree.
    pub async fn worktree_file(
        &self,
        who: &Principal,
        worktree: WorktreeId,
        path: PathBuf,
        most: u64,
    ) -> Result<Result<Vec<u8>, FileError>, ActError> {
        self.with_tree(who, worktree).await?;
        let root = self.trees.tree(worktree);
        Ok(read(move || match path.starts_with(GIT) {
            true => Err(FileError::Missing),
            false => files::Root::open(&root)?.read(&path, most, files::Rule::Any),
        })
        .await)
    }

    async fn with_tree(&self, who: &Principal, worktree: WorktreeId) -> Result<(RepoId, Tree), ActError> {
        let row = self.worktree(who, worktree).await?;
        let none = || {
            StoreError::Unusable(
                "the worktree has no tree: its repository was not fetched when it was made".into(),
            )
        };
        Ok((row.repo, row.tree.ok_or_else(none)?))
    }

    /// Changes what a worktree says of itself.
    pub async fn update_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        about: Option<String>,
        links: Links,
    ) -> Result<Worktree, ActError> {
        let act = UpdateWorktree { worktree, about, links };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.update_worktree(permit).await)
            .await
    }

    /// Changes what non-owners may do.
    pub async fn set_tier(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        tier: Tier,
    ) -> Result<Worktree, ActError> {
        let act = SetTier { worktree, tier };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.set_tier(permit).await).await
    }

    /// Lets people prompt each other's sessions in a worktree, each as themselves, or ends that.
    pub async fn set_sharing(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        shares: bool,
    ) -> Result<Worktree, ActError> {
        let act = SetSharing { worktree, shares };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.set_sharing(permit).await).await
    }

    /// Adds an owner.
    pub async fn add_owner(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        owner: UserId,
    ) -> Result<Worktree, ActError> {
        let known = self.knows_user(who, owner).await?;
        let effect = async move |store: Arc<store::Store>, permit| match known {
            true => store.add_owner(permit).await,
            false => Err(StoreError::Dangling("user")),
        };
        self.perform(who, AddOwner { worktree, owner }, effect).await
    }

    /// Removes an owner.
    pub async fn remove_owner(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        owner: UserId,
    ) -> Result<Worktree, ActError> {
        let act = RemoveOwner { worktree, owner };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.remove_owner(permit).await)
            .await
    }
}
