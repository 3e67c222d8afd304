//! The end of a worktree: its sessions are closed with it, it is archived or deleted, and an archived one comes back.
//!
//! Flow: [`Store::begin_archive`] or [`Store::begin_delete`] (nothing is begun there any more) -> whatever is done to its files ->
//! [`Store::archive_worktree`] or [`Store::delete_worktree`], or [`Store::stay`] if that failed.
//!
//! Invariant: a session that was closed with its worktree knows when; with the worktree come back those that it was archived
//! with, and nothing that a person closed.

use access::{ArchiveWorktree, DeleteWorktree, MergeWorktree, Permit, PushWorktree, RestoreWorktree};
use model::{EventKind, Millis, SecretOwner, WorktreeId};

use crate::engine::Value;
use crate::secrets::forget_secrets;
use crate::{Repo, Store, StoreError, Worktree};

/// A worktree that is being ended: its sessions are closed, and come back if it stays.
#[derive(Debug)]
pub struct Ending {
    worktree: WorktreeId,
    at: Millis,
}

impl Store {
    /// Closes the sessions of a worktree that is to be archived; the permit comes back for what follows.
    pub async fn begin_archive(
        &self,
        permit: Permit<ArchiveWorktree>,
    ) -> Result<(Permit<ArchiveWorktree>, Worktree, Ending), StoreError> {
        let row = self.worktree_row(permit.act().worktree).await?;
        let ending = self.begin_ending(row.id).await?;
        Ok((permit, row, ending))
    }

    /// Closes the sessions of a worktree that is to be deleted; the permit comes back for what follows.
    pub async fn begin_delete(
        &self,
        permit: Permit<DeleteWorktree>,
    ) -> Result<(Permit<DeleteWorktree>, Worktree, Ending), StoreError> {
        let row = self.worktree_row(permit.act().worktree).await?;
        let ending = self.begin_ending(row.id).await?;
        Ok((permit, row, ending))
    }

    async fn begin_ending(&self, worktree: WorktreeId) -> Result<Ending, StoreError> {
        let at = self.clock.now();
        let mut tx = self.engine.write().await?;
        let sql =
            "UPDATE sessions SET closed_at = $2, archived_at = $2 WHERE worktree = $1 AND closed_at IS NULL";
        tx.exec(sql, &[worktree.to_string().into(), at.into()]).await?;
        tx.commit().await?;
        Ok(Ending { worktree, at })
    }

    /// Opens the sessions of a worktree again that stays after all.
    pub async fn stay(&self, ending: Ending) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE sessions SET closed_at = NULL, archived_at = NULL WHERE worktree = $1 AND archived_at = $2";
        tx.exec(sql, &[ending.worktree.to_string().into(), ending.at.into()]).await?;
        Ok(tx.commit().await?)
    }

    /// Opens the sessions of worktrees that were being ended when the last daemon ended, and stayed.
    pub async fn reopen_interrupted(&self) -> Result<u64, StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE sessions SET closed_at = NULL, archived_at = NULL WHERE archived_at IS NOT NULL \
                   AND worktree IN (SELECT id FROM worktrees WHERE archived_at IS NULL AND deleted_at IS NULL)";
        let count = tx.exec(sql, &[]).await?;
        tx.commit().await?;
        Ok(count)
    }

    /// Archives a worktree; it stays readable. Archived once more, it keeps when and by whom it was.
    pub async fn archive_worktree(
        &self,
        permit: Permit<ArchiveWorktree>,
        ending: Ending,
    ) -> Result<Worktree, StoreError> {
        let by = permit.user();
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE worktrees SET archived_at = COALESCE(archived_at, $2), archived_by = COALESCE(archived_by, $3), \
                   files = $4 WHERE id = $1 AND deleted_at IS NULL";
        let args: [Value; 4] = [
            act.worktree.to_string().into(),
            ending.at.into(),
            by.to_string().into(),
            act.files.word().into(),
        ];
        if tx.exec(sql, &args).await? == 0 {
            return Err(StoreError::Missing("worktree"));
        }
        self.finish(tx, EventKind::WorktreeArchived, act.worktree).await?;
        self.worktree_row(act.worktree).await
    }

    /// Deletes a worktree: its name is free again, its record keeps its meaning.
    pub async fn delete_worktree(
        &self,
        permit: Permit<DeleteWorktree>,
        ending: Ending,
    ) -> Result<(), StoreError> {
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE worktrees SET deleted_at = $2, files = $3 WHERE id = $1 AND deleted_at IS NULL";
        let args = [act.worktree.to_string().into(), ending.at.into(), act.files.word().into()];
        if tx.exec(sql, &args).await? == 0 {
            return Err(StoreError::Missing("worktree"));
        }
        // What was opened while it was being ended ends as well.
        let sql = "UPDATE sessions SET closed_at = $2 WHERE worktree = $1 AND closed_at IS NULL";
        tx.exec(sql, &[act.worktree.to_string().into(), ending.at.into()]).await?;
        let sql = "UPDATE tasks SET state = 'stopped', why = $2, ended_at = $3, prompt = NULL WHERE state = 'queued' \
                   AND session IN (SELECT id FROM sessions WHERE worktree = $1)";
        let why = "its worktree was deleted before its turn came";
        tx.exec(sql, &[act.worktree.to_string().into(), why.into(), ending.at.into()]).await?;
        forget_secrets(&mut tx, SecretOwner::Worktree(act.worktree)).await?;
        self.finish(tx, EventKind::WorktreeDeleted, act.worktree).await
    }

    /// An archived worktree that is to come back; the permit comes back for what follows.
    pub async fn worktree_to_restore(
        &self,
        permit: Permit<RestoreWorktree>,
    ) -> Result<(Permit<RestoreWorktree>, Worktree), StoreError> {
        let row = self.worktree_row(permit.act().worktree).await?;
        match row.archived_at {
            Some(_) => Ok((permit, row)),
            None => Err(StoreError::Unusable("the worktree is not archived".into())),
        }
    }

    /// Brings an archived worktree back, and the sessions that were archived with it.
    pub async fn restore_worktree(&self, permit: Permit<RestoreWorktree>) -> Result<Worktree, StoreError> {
        let worktree = permit.into_act().worktree;
        let id: Value = worktree.to_string().into();
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE sessions SET closed_at = NULL, archived_at = NULL WHERE worktree = $1 \
                   AND archived_at = (SELECT archived_at FROM worktrees WHERE id = $1)";
        tx.exec(sql, std::slice::from_ref(&id)).await?;
        let sql = "UPDATE worktrees SET archived_at = NULL, archived_by = NULL, files = NULL \
                   WHERE id = $1 AND deleted_at IS NULL AND archived_at IS NOT NULL";
        if tx.exec(sql, &[id]).await? == 0 {
            return Err(StoreError::Missing("worktree"));
        }
        self.finish(tx, EventKind::WorktreeChanged, worktree).await?;
        self.worktree_row(worktree).await
    }

    /// What is to be joined, and the worktrees of its repository that have a branch; the permit comes back for what follows.
    pub async fn worktree_to_merge(
        &self,
        permit: Permit<MergeWorktree>,
    ) -> Result<(Permit<MergeWorktree>, Worktree, Repo, Vec<Worktree>), StoreError> {
        let row = self.worktree_row(permit.act().worktree).await?;
        let repo = self.repo_row(row.repo).await?;
        let others = self.worktrees_with_branch(row.repo).await?;
        Ok((permit, row, repo, others))
    }

    /// Ends the record of what was joined.
    pub async fn merged_worktree(&self, permit: Permit<MergeWorktree>) -> Result<(), StoreError> {
        let worktree = permit.into_act().worktree;
        let tx = self.engine.write().await?;
        self.finish(tx, EventKind::WorktreeChanged, worktree).await
    }

    /// What is to be pushed; the permit comes back for what follows.
    pub async fn worktree_to_push(
        &self,
        permit: Permit<PushWorktree>,
    ) -> Result<(Permit<PushWorktree>, Worktree, Repo), StoreError> {
        let row = self.worktree_row(permit.act().worktree).await?;
        let repo = self.repo_row(row.repo).await?;
        Ok((permit, row, repo))
    }

    /// Ends the record of what was pushed.
    pub async fn pushed_worktree(&self, permit: Permit<PushWorktree>) -> Result<(), StoreError> {
        let worktree = permit.into_act().worktree;
        let tx = self.engine.write().await?;
        self.finish(tx, EventKind::WorktreeChanged, worktree).await
    }
}
