use access::{Backing, Warrant};
use store::Store;

async fn forge(store: &Store) {
    drop(store.end_family(&Warrant(()), "family").await);
    drop(store.end_family(&Warrant::new(), "family").await);
}

fn main() {}
