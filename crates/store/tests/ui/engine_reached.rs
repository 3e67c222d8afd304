//! The engine below knows no permits: nobody gets it, nor a whole copy of it, past the store.

use store::Store;
use store::engine::Engine;

async fn reach(store: &Store, engine: &Engine) {
    drop(store.engine().write().await);
    drop(store.engine.write().await);
    drop(engine.dump(&mut Vec::new()).await);
    drop(engine.snapshot().await);
}

fn main() {}
