use access::{Permit, ReadWorktree};
use store::Store;

async fn swap(store: &Store, permit: Permit<ReadWorktree>) {
    drop(store.set_tier(permit).await);
}

fn main() {}
