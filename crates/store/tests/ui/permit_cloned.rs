use access::{Permit, SetTier};
use store::Store;

async fn twice(store: &Store, permit: Permit<SetTier>) {
    drop(store.set_tier(permit.clone()).await);
    drop(store.set_tier(permit).await);
}

fn main() {}
