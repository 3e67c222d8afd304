use access::{DeleteWorktree, Permit};
use store::Store;

async fn twice(store: &Store, permit: Permit<DeleteWorktree>) {
    drop(store.delete_worktree(permit.clone()).await);
    drop(store.delete_worktree(permit).await);
}

fn main() {}
