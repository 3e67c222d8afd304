use access::{RestoreWorktree, Permit};
use store::Store;

async fn twice(store: &Store, permit: Permit<RestoreWorktree>) {
    drop(store.restore_worktree(permit.clone()).await);
    drop(store.restore_worktree(permit).await);
}

fn main() {}
