//! Worktrees.

use std::sync::Arc;

use access::{
    AddOwner, ArchiveWorktree, CreateWorktree, DeleteWorktree, ListWorktrees, Principal, ReadWorktree,
    RemoveOwner, SetTier, UpdateWorktree,
};
use model::{Tier, UserId, WorktreeId};
use store::{Worktree, WorktreeFilter};

use crate::{ActError, Page, Runtime};

/// How many rows are read at a time when policies hide what owners and tiers would show.
const REFILL: i64 = 500;

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
        let permit = self.look(who, ListWorktrees {}).await?;
        let wanted = usize::try_from(limit).unwrap_or(0).saturating_add(1);
        let (mut shown, mut after) = (Vec::new(), self.known(who, after).await?);
        let mut take = limit.saturating_add(1);
        let rbac = self.gate.worktree_rbac();
        loop {
            let as_of = self.gate.epoch().now();
            let rows = self.store.list_worktrees(&permit, who, rbac, filter, after, take).await?;
            let last_page = rows.len() < usize::try_from(take).unwrap_or(0);
            after = rows.last().map(|row| row.id).or(after);
            // The store knows owners, tiers and roles; only the gate knows every policy.
            shown.extend(rows.into_iter().filter(|row| self.gate.may_read(who, &row.facts(), as_of)));
            // To the end if need be: a cursor must name something that the caller may know of.
            if last_page || shown.len() >= wanted {
                return Ok(Page::cut(shown, limit, |row| row.id));
            }
            take = take.max(REFILL);
        }
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
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.create_worktree(permit).await)
            .await
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
        let act = AddOwner { worktree, owner };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.add_owner(permit).await).await
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
