//! How work leaves a worktree, and how a worktree ends: joined, pushed, archived, deleted, brought back.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use access::{
    ArchiveWorktree, DeleteWorktree, MergeWorktree, Permit, Principal, PushWorktree, RestoreWorktree,
};
use git::{Merged, RepositoryError};
use ledger::{Decision, Draft};
use model::{RequestId, StepKind, TreeFiles, WorktreeId};
use serde_json::json;
use store::{Ending, EndingOf, Interrupted, Store, StoreError, Tree, Worktree};

use crate::trees::{Merge, Push};
use crate::{ActError, Runtime, may_be_named};

/// How long is waited between tries to keep that a worktree stays.
const AGAIN: [Duration; 3] = [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5)];

/// What became of a merge.
#[derive(Clone, Debug)]
pub struct WorktreeMerged {
    /// The branch that was joined into.
    pub into: String,
    /// Where it was, where it is, and how it came there.
    pub merged: Merged,
    /// What is new in it for whoever has the origin's branches, if that was asked for and is anything.
    pub bundle: Option<Vec<u8>>,
}

/// What became of a push.
#[derive(Clone, Debug)]
pub struct WorktreePushed {
    /// The branch at the origin.
    pub to: String,
    /// What it names now.
    pub commit: String,
}

fn with_tree(tree: Option<Tree>) -> Result<Tree, StoreError> {
    tree.ok_or_else(|| {
        StoreError::Unusable(
            "the worktree has no branch: its repository was not fetched when it was made".into(),
        )
    })
}

impl Runtime {
    /// Joins what was committed in a worktree into a branch; the usual one unless told.
    pub async fn merge_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        into: Option<String>,
        takes: bool,
    ) -> Result<WorktreeMerged, ActError> {
        let trees = Arc::clone(&self.trees);
        let effect = async move |store: Arc<Store>, permit: Permit<MergeWorktree>| {
            let (permit, row, repo, others) = store.worktree_to_merge(permit).await?;
            let tree = with_tree(row.tree)?;
            let none =
                || StoreError::Unusable("the origin has no usual branch; name one with `--into`".into());
            let into = permit.act().into.clone().or(repo.default_branch).ok_or_else(none)?;
            if into == tree.branch {
                return Err(StoreError::Unusable(format!(
                    "`{into}` is the worktree's own branch; name another"
                )));
            }
            // A branch of another worktree is that one's, also while it is archived.
            let is_theirs = |other: &Worktree| other.tree.as_ref().is_some_and(|tree| tree.branch == into);
            if !may_be_named(&into) || others.iter().any(is_theirs) {
                return Err(StoreError::Unusable(RepositoryError::InUse(into).to_string()));
            }
            let message = format!("Merge worktree {} into {into}", row.name);
            let takes = permit.act().takes;
            let merge = Merge { repo: row.repo, from: tree.branch, into: into.clone(), message, takes };
            let (merged, bundle) = trees.merge(merge).await?;
            store.merged_worktree(permit).await?;
            Ok(WorktreeMerged { into, merged, bundle })
        };
        let note = |done: &WorktreeMerged| Some(("commit", done.merged.after.clone()));
        self.perform_noting(who, MergeWorktree { worktree, into, takes }, effect, note).await
    }

    /// Pushes what was committed in a worktree to where its repository comes from, forwards only.
    pub async fn push_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        to: Option<String>,
    ) -> Result<WorktreePushed, ActError> {
        let (this, caller) = (Arc::clone(self), who.clone());
        let effect = async move |store: Arc<Store>, permit: Permit<PushWorktree>| {
            let (permit, row, repo) = store.worktree_to_push(permit).await?;
            let tree = with_tree(row.tree)?;
            let origin = this.trees.origin(&repo.origin)?;
            let to = permit.act().to.clone().unwrap_or_else(|| tree.branch.clone());
            let consumer = format!("push of {worktree} {}", RequestId::random());
            let push = Push { repo: row.repo, branch: tree.branch, to: to.clone() };
            let pushed = async |credential| this.trees.push(push, &origin, credential).await;
            let commit = this.with_credential(&caller, &repo, Some(worktree), &consumer, pushed).await?;
            store.pushed_worktree(permit).await?;
            Ok(WorktreePushed { to, commit })
        };
        let note = |done: &WorktreePushed| Some(("commit", done.commit.clone()));
        self.perform_noting(who, PushWorktree { worktree, to }, effect, note).await
    }

    /// Archives a worktree, with its sessions: whoever works there ends first.
    pub async fn archive_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        files: TreeFiles,
    ) -> Result<Worktree, ActError> {
        let this = Arc::clone(self);
        let effect = async move |store: Arc<Store>, permit: Permit<ArchiveWorktree>| {
            let (permit, row, ending) = store.begin_archive(permit).await?;
            let ending = this.ended(&store, row, files, false, ending).await?;
            store.archive_worktree(permit, ending).await
        };
        self.perform(who, ArchiveWorktree { worktree, files }, effect).await
    }

    /// Deletes a worktree.
    pub async fn delete_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
        files: TreeFiles,
    ) -> Result<(), ActError> {
        let this = Arc::clone(self);
        let effect = async move |store: Arc<Store>, permit: Permit<DeleteWorktree>| {
            let (permit, row, ending) = store.begin_delete(permit).await?;
            let ending = this.ended(&store, row, files, true, ending).await?;
            store.delete_worktree(permit, ending).await
        };
        self.perform(who, DeleteWorktree { worktree, files }, effect).await?;
        // Those that are missed here are found at the next start.
        let sessions = self.store.sessions_in(worktree).await.unwrap_or_default();
        self.desk.are_over(sessions.into_iter().map(|(session, _)| session));
        Ok(())
    }

    /// Ends whoever works there, then does to the files what was asked. Where that fails, the worktree stays, with its sessions, and
    /// says so; of its files those may be gone that were to go.
    async fn ended(
        &self,
        store: &Store,
        row: Worktree,
        files: TreeFiles,
        goes: bool,
        ending: Ending,
    ) -> Result<Ending, StoreError> {
        let done = match self.desk.clear(row.id).await {
            false => Err(StoreError::InUse("worktree")),
            true => match row.tree {
                Some(tree) => self.trees.end_tree(row.repo, row.id, tree, files, goes).await,
                None => Ok(()),
            },
        };
        let Err(why) = done else { return Ok(ending) };
        self.stays(store, row.id, &ending).await;
        Err(match why {
            StoreError::Unusable(text) => {
                let also = if files == TreeFiles::Kept { "" } else { ", and some of them may be gone" };
                let why = format!("the worktree stays, because its files could not be {files}{also}: {text}");
                StoreError::Unusable(why)
            }
            other => other,
        })
    }

    /// Keeps that a worktree stays; tried again for a while, since nobody can work there before.
    async fn stays(&self, store: &Store, worktree: WorktreeId, ending: &Ending) {
        for wait in AGAIN {
            match store.stay(ending).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, %worktree, "that a worktree stays could not be kept; it is tried again");
                    tokio::time::sleep(wait).await;
                }
            }
        }
        if let Err(error) = store.stay(ending).await {
            tracing::error!(%error, %worktree, "that a worktree stays could not be kept; the next start goes on with ending it");
        }
    }

    /// Goes on with what was being done to worktrees when the last daemon ended. What cannot be brought to its end is told of: by the
    /// ledger, and in the sessions that are open again.
    pub(crate) async fn finish_endings(&self) {
        let all = std::mem::take(&mut *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner));
        for left in all {
            let (id, of, files) = (left.worktree.id, left.of, left.files);
            let done = match self.finish_files(&left).await {
                Ok(()) => self.store.end_interrupted(&left).await,
                Err(error) => Err(error),
            };
            let (word, goes) = (of.word(), of != EndingOf::Restore);
            let told = match &done {
                Ok(()) if goes => {
                    format!("the {word} that the daemon's end interrupted was brought to its end")
                }
                Ok(()) => {
                    "the worktree stays archived: the daemon's end interrupted its coming back".to_owned()
                }
                Err(error) => format!(
                    "the {word} that the daemon's end interrupted failed, so the worktree stays, and some of its files may be gone: {error}"
                ),
            };
            tracing::warn!(worktree = %id, "{told}");
            if done.is_err() {
                self.stays(&self.store, id, &left.ending).await;
                let sessions = self.store.sessions_in(id).await.unwrap_or_default();
                for (session, _) in sessions.into_iter().filter(|(_, is_open)| *is_open) {
                    let text = crate::session::shown(&self.redactor, &told);
                    self.journal.write_soon(session, None, StepKind::Error, json!({ "text": text })).await;
                }
            }
            let note = Draft::new("daemon", "worktree.ending", Decision::Noted)
                .because(told)
                .with("worktree", id.to_string())
                .with("what", word)
                .with("files", files.word())
                .with("asked_by", left.by.to_string());
            if !matches!(self.ledger.note(note).await, Ok(Ok(_))) {
                tracing::error!(worktree = %id, "what became of an interrupted end of a worktree could not be recorded");
            }
            self.gate.epoch().bump();
            self.store.publish();
            self.desk.look();
        }
    }

    async fn finish_files(&self, left: &Interrupted) -> Result<(), StoreError> {
        let Interrupted { of, files, worktree: row, .. } = left;
        let Some(tree) = row.tree.clone() else { return Ok(()) };
        match of {
            EndingOf::Archive => self.trees.end_tree(row.repo, row.id, tree, *files, false).await,
            EndingOf::Delete => self.trees.end_tree(row.repo, row.id, tree, *files, true).await,
            // What lay there before is somebody's; what was being made is nobody's yet.
            EndingOf::Restore if row.files == Some(TreeFiles::Removed) => {
                // The branch stays, as it was before.
                self.trees.drop_tree(row.repo, row.id, tree, git::Branch::Found).await
            }
            EndingOf::Restore => Ok(()),
        }
    }

    /// Brings an archived worktree back, with the sessions that were archived with it, and its tree if that was removed.
    pub async fn restore_worktree(
        self: &Arc<Self>,
        who: &Principal,
        worktree: WorktreeId,
    ) -> Result<Worktree, ActError> {
        let this = Arc::clone(self);
        let effect = async move |store: Arc<Store>, permit: Permit<RestoreWorktree>| {
            let (permit, row, ending) = store.worktree_to_restore(permit).await?;
            if let Some(tree) = row.tree
                && let Err(error) = this.trees.remake(row.repo, worktree, tree).await
            {
                this.stays(&store, worktree, &ending).await;
                return Err(error);
            }
            store.restore_worktree(permit, ending).await
        };
        let row = self.perform(who, RestoreWorktree { worktree }, effect).await?;
        self.desk.look();
        Ok(row)
    }
}
