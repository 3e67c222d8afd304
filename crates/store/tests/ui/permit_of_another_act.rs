use access::{Permit, ReadWorktree};
use store::Store;

async fn swap(store: &Store, permit: Permit<ReadWorktree>) {
    drop(store.restore_worktree(permit).await);
}

fn main() {}
