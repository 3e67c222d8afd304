//! Worktrees.

use std::sync::Arc;

use access::{
    AddOwner, ArchiveWorktree, CreateWorktree, DeleteWorktree, ListWorktrees, Principal, ReadWorktree,
    RemoveOwner, SetTier, UpdateWorktree,
};
use model::{Tier, UserId, WorktreeId};
use store::{StoreError, Worktree, WorktreeFilter};

use crate::{ActError, Page, Runtime};

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
        let (gate, caller) = (Arc::clone(&self.gate), who.clone());
        let effect = async move |store: Arc<store::Store>, permit| match known {
            true => store.create_worktree(permit, |facts| gate.may_read(&caller, facts, as_of)).await,
            // As if it were not there.
            false => Err(StoreError::Dangling("repository")),
        };
        self.perform(who, act, effect).await
    }

    /// Changes what a worktree says of itself.
    pub async fn update_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        about: String,
    ) -> Result<Worktree, ActError> {
        let act = UpdateWorktree { worktree, about };
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

    /// Archives a worktree.
    pub async fn archive_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
    ) -> Result<Worktree, ActError> {
        let act = ArchiveWorktree { worktree };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.archive_worktree(permit).await)
            .await
    }

    /// Deletes a worktree.
    pub async fn delete_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
    ) -> Result<(), ActError> {
        let act = DeleteWorktree { worktree };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.delete_worktree(permit).await)
            .await
    }
}
