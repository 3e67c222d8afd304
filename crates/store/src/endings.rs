//! The end of a worktree: its sessions are closed with it, it is archived or deleted, and an archived one comes back.
//!
//! Flow: [`Store::begin_archive`], [`Store::begin_delete`] or [`Store::worktree_to_restore`] (nothing is begun there any more) ->
//! whatever is done to its files -> [`Store::archive_worktree`], [`Store::delete_worktree`] or [`Store::restore_worktree`], or
//! [`Store::stay`] if that failed. What was under way when the daemon ended is told by [`Store::interrupted_endings`].
//!
//! Invariants: of one worktree one such thing is under way, and that is on the disk before a file is touched; whoever opens a session there
//! comes before it, and the session is closed with the others, or after it, and is refused. A session that was closed with its worktree
//! knows when; with the worktree come back those that it was archived with, and nothing that a person closed.

use access::{ArchiveWorktree, DeleteWorktree, MergeWorktree, Permit, PushWorktree, RestoreWorktree};
use model::{EventKind, Millis, SecretOwner, SessionId, TreeFiles, UserId, WorktreeId};

use crate::engine::{EngineError, Row, Tx, Value};
use crate::secrets::forget_secrets;
use crate::store::{odd, parsed};
use crate::{Repo, Store, StoreError, Worktree};

/// What is being done to a worktree as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndingOf {
    /// It is being archived.
    Archive,
    /// It is being deleted.
    Delete,
    /// It is coming back.
    Restore,
}

impl EndingOf {
    /// As the table has it, and the ledger.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Delete => "delete",
            Self::Restore => "restore",
        }
    }

    fn said(self) -> &'static str {
        match self {
            Self::Archive => "archived",
            Self::Delete => "deleted",
            Self::Restore => "brought back",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Archive, Self::Delete, Self::Restore].into_iter().find(|one| one.word() == word)
    }
}

/// A worktree that is being ended: its sessions are closed, and come back if it stays.
#[derive(Debug)]
pub struct Ending {
    worktree: WorktreeId,
    at: Millis,
}

/// One that was under way when the last daemon ended.
#[derive(Debug)]
pub struct Interrupted {
    /// It goes on with this.
    pub ending: Ending,
    /// What it was.
    pub of: EndingOf,
    /// What was to become of its files.
    pub files: TreeFiles,
    /// The worktree.
    pub worktree: Worktree,
    /// Whose act it was.
    pub by: UserId,
}

impl Store {
    /// Closes the sessions of a worktree that is to be archived; the permit comes back for what follows.
    pub async fn begin_archive(
        &self,
        permit: Permit<ArchiveWorktree>,
    ) -> Result<(Permit<ArchiveWorktree>, Worktree, Ending), StoreError> {
        let (by, worktree, files) = (permit.user(), permit.act().worktree, permit.act().files);
        let (row, ending) = self.begin_ending(worktree, EndingOf::Archive, files, by).await?;
        Ok((permit, row, ending))
    }

    /// Closes the sessions of a worktree that is to be deleted; the permit comes back for what follows.
    pub async fn begin_delete(
        &self,
        permit: Permit<DeleteWorktree>,
    ) -> Result<(Permit<DeleteWorktree>, Worktree, Ending), StoreError> {
        let (by, worktree, files) = (permit.user(), permit.act().worktree, permit.act().files);
        let (row, ending) = self.begin_ending(worktree, EndingOf::Delete, files, by).await?;
        Ok((permit, row, ending))
    }

    /// An archived worktree that is to come back; the permit comes back for what follows.
    pub async fn worktree_to_restore(
        &self,
        permit: Permit<RestoreWorktree>,
    ) -> Result<(Permit<RestoreWorktree>, Worktree, Ending), StoreError> {
        let (by, worktree) = (permit.user(), permit.act().worktree);
        let (row, ending) = self.begin_ending(worktree, EndingOf::Restore, TreeFiles::Kept, by).await?;
        Ok((permit, row, ending))
    }

    /// Of all who want to end a worktree or bring it back one is the first; the others are told what is under way.
    async fn begin_ending(
        &self,
        worktree: WorktreeId,
        of: EndingOf,
        files: TreeFiles,
        by: UserId,
    ) -> Result<(Worktree, Ending), StoreError> {
        let id: Value = worktree.to_string().into();
        let mut tx = self.engine.write().await?;
        lock_worktree(&mut tx, worktree).await?;
        let sql = "SELECT archived_at FROM worktrees WHERE id = $1";
        let archived =
            tx.row(sql, std::slice::from_ref(&id)).await?.map_or(Ok(None), |row| row.opt_int(0))?;
        if of == EndingOf::Restore && archived.is_none() {
            return Err(StoreError::Unusable("the worktree is not archived".into()));
        }
        // No two of one worktree have the same time: by that they are told apart.
        let at = self.clock.now().max(archived.map_or(0, |at| at.saturating_add(1)));
        let sql = "UPDATE worktrees SET ending = $2, ending_at = $3, ending_files = $4, ending_by = $5 WHERE id = $1";
        let args = [id.clone(), of.word().into(), at.into(), files.word().into(), by.to_string().into()];
        tx.exec(sql, &args).await?;
        let sql =
            "UPDATE sessions SET closed_at = $2, archived_at = $2 WHERE worktree = $1 AND closed_at IS NULL";
        tx.exec(sql, &[id, at.into()]).await?;
        tx.commit().await?;
        Ok((self.worktree_row(worktree).await?, Ending { worktree, at }))
    }

    /// Opens the sessions of a worktree again that stays after all.
    pub async fn stay(&self, ending: &Ending) -> Result<(), StoreError> {
        let (id, at): (Value, Value) = (ending.worktree.to_string().into(), ending.at.into());
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE worktrees SET ending = NULL, ending_at = NULL, ending_files = NULL, ending_by = NULL \
                   WHERE id = $1 AND ending_at = $2";
        if tx.exec(sql, &[id.clone(), at.clone()]).await? == 0 {
            return Ok(());
        }
        let sql = "UPDATE sessions SET closed_at = NULL, archived_at = NULL WHERE worktree = $1 AND archived_at = $2";
        tx.exec(sql, &[id, at]).await?;
        Ok(tx.commit().await?)
    }

    /// What was being done to worktrees when the last daemon ended.
    pub async fn interrupted_endings(&self) -> Result<Vec<Interrupted>, StoreError> {
        let sql = "SELECT id, ending, ending_at, ending_files, ending_by FROM worktrees \
                   WHERE ending IS NOT NULL AND deleted_at IS NULL ORDER BY seq";
        let mut all = Vec::new();
        for row in self.engine.rows(sql, &[]).await? {
            let id: WorktreeId = parsed(&row, 0)?;
            all.push(Interrupted {
                ending: Ending { worktree: id, at: row.int(2)? },
                of: EndingOf::parse(row.text(1)?).ok_or_else(|| odd(1))?,
                files: parsed(&row, 3)?,
                worktree: self.worktree_row(id).await?,
                by: parsed(&row, 4)?,
            });
        }
        Ok(all)
    }

    /// Says of a worktree whose end was interrupted that it is archived or deleted, now that its files are as they were to be.
    pub async fn end_interrupted(&self, left: &Interrupted) -> Result<(), StoreError> {
        match left.of {
            EndingOf::Archive => self.is_archived(&left.ending, left.files, left.by).await,
            EndingOf::Delete => self.is_deleted(&left.ending, left.files).await,
            EndingOf::Restore => self.stay(&left.ending).await,
        }
    }

    /// Opens the sessions of worktrees that were being ended when a daemon ended that did not keep that, and stayed.
    pub async fn reopen_interrupted(&self) -> Result<u64, StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE sessions SET closed_at = NULL, archived_at = NULL WHERE archived_at IS NOT NULL AND worktree IN \
                   (SELECT id FROM worktrees WHERE archived_at IS NULL AND deleted_at IS NULL AND ending IS NULL)";
        let count = tx.exec(sql, &[]).await?;
        tx.commit().await?;
        Ok(count)
    }

    /// The sessions of a worktree, and whether each is open.
    pub async fn sessions_in(&self, worktree: WorktreeId) -> Result<Vec<(SessionId, bool)>, StoreError> {
        let sql = "SELECT id, closed_at FROM sessions WHERE worktree = $1 ORDER BY seq";
        let rows = self.engine.rows(sql, &[worktree.to_string().into()]).await?;
        let one = |row: &Row| -> Result<_, EngineError> { Ok((parsed(row, 0)?, row.opt_int(1)?.is_none())) };
        Ok(rows.iter().map(one).collect::<Result<_, _>>()?)
    }

    /// Whether a session will not go on: a person closed it, or its worktree is deleted.
    pub async fn is_over(&self, session: SessionId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM sessions s JOIN worktrees w ON w.id = s.worktree WHERE s.id = $1 \
                   AND (w.deleted_at IS NOT NULL OR (s.closed_at IS NOT NULL AND s.archived_at IS NULL))";
        Ok(self.engine.row(sql, &[session.to_string().into()]).await?.is_some())
    }

    /// Archives a worktree; it stays readable. Archived once more, it keeps when and by whom it was.
    pub async fn archive_worktree(
        &self,
        permit: Permit<ArchiveWorktree>,
        ending: Ending,
    ) -> Result<Worktree, StoreError> {
        let by = permit.user();
        let act = permit.into_act();
        self.is_archived(&ending, act.files, by).await?;
        self.worktree_row(act.worktree).await
    }

    async fn is_archived(&self, ending: &Ending, files: TreeFiles, by: UserId) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE worktrees SET archived_at = COALESCE(archived_at, $2), archived_by = COALESCE(archived_by, $3), \
                   files = $4, ending = NULL, ending_at = NULL, ending_files = NULL, ending_by = NULL \
                   WHERE id = $1 AND ending_at = $2 AND deleted_at IS NULL";
        let args: [Value; 4] = [
            ending.worktree.to_string().into(),
            ending.at.into(),
            by.to_string().into(),
            files.word().into(),
        ];
        if tx.exec(sql, &args).await? == 0 {
            return Err(StoreError::Missing("worktree"));
        }
        self.finish(tx, EventKind::WorktreeArchived, ending.worktree).await
    }

    /// Deletes a worktree: its name is free again, its record keeps its meaning.
    pub async fn delete_worktree(
        &self,
        permit: Permit<DeleteWorktree>,
        ending: Ending,
    ) -> Result<(), StoreError> {
        self.is_deleted(&ending, permit.into_act().files).await
    }

    async fn is_deleted(&self, ending: &Ending, files: TreeFiles) -> Result<(), StoreError> {
        let (id, at): (Value, Value) = (ending.worktree.to_string().into(), ending.at.into());
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE worktrees SET deleted_at = $2, files = $3, \
                   ending = NULL, ending_at = NULL, ending_files = NULL, ending_by = NULL \
                   WHERE id = $1 AND ending_at = $2 AND deleted_at IS NULL";
        if tx.exec(sql, &[id.clone(), at.clone(), files.word().into()]).await? == 0 {
            return Err(StoreError::Missing("worktree"));
        }
        let sql = "UPDATE tasks SET state = 'stopped', why = $2, ended_at = $3, prompt = NULL WHERE state = 'queued' \
                   AND session IN (SELECT id FROM sessions WHERE worktree = $1)";
        let why = "its worktree was deleted before its turn came";
        tx.exec(sql, &[id, why.into(), at]).await?;
        forget_secrets(&mut tx, SecretOwner::Worktree(ending.worktree)).await?;
        self.finish(tx, EventKind::WorktreeDeleted, ending.worktree).await
    }

    /// Brings an archived worktree back, and the sessions that were archived with it.
    pub async fn restore_worktree(
        &self,
        permit: Permit<RestoreWorktree>,
        ending: Ending,
    ) -> Result<Worktree, StoreError> {
        let worktree = permit.into_act().worktree;
        let id: Value = worktree.to_string().into();
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE sessions SET closed_at = NULL, archived_at = NULL WHERE worktree = $1 \
                   AND archived_at = (SELECT archived_at FROM worktrees WHERE id = $1)";
        tx.exec(sql, std::slice::from_ref(&id)).await?;
        let sql = "UPDATE worktrees SET archived_at = NULL, archived_by = NULL, files = NULL, \
                   ending = NULL, ending_at = NULL, ending_files = NULL, ending_by = NULL \
                   WHERE id = $1 AND ending_at = $2 AND deleted_at IS NULL AND archived_at IS NOT NULL";
        if tx.exec(sql, &[id, ending.at.into()]).await? == 0 {
            return Err(StoreError::Missing("worktree"));
        }
        self.finish(tx, EventKind::WorktreeChanged, worktree).await?;
        self.worktree_row(worktree).await
    }

    /// Whether nothing is being done to a worktree as a whole, for whoever touches its files.
    pub async fn is_settled(&self, worktree: WorktreeId) -> Result<(), StoreError> {
        let sql = "SELECT ending, deleted_at FROM worktrees WHERE id = $1";
        settled(self.engine.row(sql, &[worktree.to_string().into()]).await?)
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

/// For whoever begins something in a worktree, or ends it: others wait. Refused while it is being ended or brought back.
pub(crate) async fn lock_worktree(tx: &mut Tx, worktree: WorktreeId) -> Result<(), StoreError> {
    let id: Value = worktree.to_string().into();
    tx.exec("UPDATE worktrees SET tier = tier WHERE id = $1", std::slice::from_ref(&id)).await?;
    settled(tx.row("SELECT ending, deleted_at FROM worktrees WHERE id = $1", &[id]).await?)
}

/// The same for whoever opens a session there: it has to be in use as well.
pub(crate) async fn lock_in_use(tx: &mut Tx, worktree: WorktreeId) -> Result<(), StoreError> {
    lock_worktree(tx, worktree).await?;
    let row =
        tx.row("SELECT archived_at FROM worktrees WHERE id = $1", &[worktree.to_string().into()]).await?;
    match row.map_or(Ok(None), |row| row.opt_int(0))? {
        None => Ok(()),
        Some(_) => Err(StoreError::Unusable(
            "the worktree is archived; `palisade worktree restore` brings it back".into(),
        )),
    }
}

fn settled(row: Option<Row>) -> Result<(), StoreError> {
    let row = row.ok_or(StoreError::Missing("worktree"))?;
    if row.opt_int(1)?.is_some() {
        return Err(StoreError::Missing("worktree"));
    }
    match row.opt_text(0)? {
        None => Ok(()),
        Some(word) => Err(being(word)),
    }
}

/// What is told to whoever comes while a worktree is being ended.
pub(crate) fn being(word: &str) -> StoreError {
    let said = EndingOf::parse(word).map_or("ended", EndingOf::said);
    StoreError::Unusable(format!("the worktree is being {said}; wait until that came to its end"))
}
