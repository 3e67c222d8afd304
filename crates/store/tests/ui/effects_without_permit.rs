//! Every effect, called with nothing instead of its permit.

use store::Store;

async fn all(
    store: &Store,
    filter: &store::WorktreeFilter,
    sessions: &store::SessionFilter,
    task: &store::Task,
    child: store::Child,
    wanted: &store::LedgerFilter,
    seal: &dyn store::Reseal,
    archived: store::Ending,
    deleted: store::Ending,
    restored: store::Ending,
    blob: model::ContentHash,
) {
    drop(store.read_user(()).await);
    drop(store.list_users((), None, "", 1).await);
    drop(store.create_user(()).await);
    drop(store.update_user(()).await);
    drop(store.disable_user(()).await);
    drop(store.delete_user(()).await);
    drop(store.change_password(()).await);
    drop(store.reset_password(()).await);
    drop(store.change_totp(()).await);
    drop(store.end_sign_in(()).await);
    drop(store.end_all_sign_ins(()).await);
    drop(store.list_keys((), None, 1).await);
    drop(store.create_key(()).await);
    drop(store.offer_pairing(()).await);
    drop(store.revoke_key(()).await);
    drop(store.list_passes((), None, 1).await);
    drop(store.mint_pass(()).await);
    drop(store.revoke_pass(()).await);
    drop(store.read_repo(()).await);
    drop(store.list_repos((), None, 1).await);
    drop(store.create_repo(()).await);
    drop(store.repo_to_fetch(()).await);
    drop(store.fetched_repo((), None).await);
    drop(store.delete_repo(()).await);
    drop(store.read_worktree(()).await);
    drop(store.list_worktrees((), true, filter, None, 1).await);
    drop(store.create_worktree((), |_| true, None).await);
    drop(store.repo_of_new(()).await);
    drop(store.update_worktree(()).await);
    drop(store.set_tier(()).await);
    drop(store.set_sharing(()).await);
    drop(store.add_owner(()).await);
    drop(store.remove_owner(()).await);
    drop(store.begin_archive(()).await);
    drop(store.archive_worktree((), archived).await);
    drop(store.begin_delete(()).await);
    drop(store.delete_worktree((), deleted).await);
    drop(store.worktree_to_restore(()).await);
    drop(store.restore_worktree((), restored).await);
    drop(store.worktree_to_merge(()).await);
    drop(store.merged_worktree(()).await);
    drop(store.worktree_to_push(()).await);
    drop(store.pushed_worktree(()).await);
    drop(store.task_trees((), 0, 1).await);
    drop(store.read_session(()).await);
    drop(store.list_sessions((), true, sessions, None, 1).await);
    drop(store.create_session(()).await);
    drop(store.import_page((), store::ImportedPage::default()).await);
    drop(store.resume_session(()).await);
    drop(store.close_session(()).await);
    drop(store.fork_session(()).await);
    drop(store.parent_of_new(()).await);
    drop(store.spawn_session((), child, store::Reach { depth: 1, fan_out: 1 }).await);
    drop(store.lineage(()).await);
    drop(store.reorder_tasks(()).await);
    drop(store.task_to_undo(()).await);
    drop(store.undid_task((), task).await);
    drop(store.steps_before((), 0, 1).await);
    drop(store.usage_of(()).await);
    drop(store.usage(()).await);
    drop(store.list_budgets(()).await);
    drop(store.set_budget(()).await);
    drop(store.queue_task((), String::new(), None, 0).await);
    drop(store.list_tasks((), 0, 1).await);
    drop(store.start_task(()).await);
    drop(store.stop_task(()).await);
    drop(store.steps_after((), 0, 1).await);
    drop(store.allow_approval((), true).await);
    drop(store.list_consents(()).await);
    drop(store.revoke_consent(()).await);
    drop(store.deny_approval(()).await);
    drop(store.list_approvals((), true, 1).await);
    drop(store.list_open_approvals((), true, None, 1).await);
    drop(store.list_secrets(()).await);
    drop(store.add_secret(()).await);
    drop(store.remove_secret(()).await);
    drop(store.lease_secret(()).await);
    drop(store.reseal((), 1, 1, seal).await);
    drop(store.keep_key_ring((), None, b"").await);
    drop(store.add_policy(()).await);
    drop(store.remove_policy(()).await);
    drop(store.events_after((), 0, 1).await);
    drop(store.event_range(()).await);
    drop(store.search_ledger((), wanted, 50).await);
    drop(store.search_own_entries((), wanted, 50).await);
    drop(store.dump((), &mut Vec::new()).await);
    drop(store.list_artifacts((), None, 1).await);
    drop(store.read_artifact(()).await);
    drop(store.artifact_history(()).await);
    drop(store.artifact_parts((), blob).await);
    drop(store.register_artifact(()).await);
    drop(store.assign_artifact(()).await);
    drop(store.revoke_artifact(()).await);
}

fn main() {}
