use std::sync::Arc;

use access::{Principal, Scope, Via};
use model::{Grant, KeyId, Role, UserId};

fn forge() -> Principal {
    Principal {
        user: UserId::random(),
        role: Role::Owner,
        scope: Scope::Admin,
        grant: Arc::new(Grant::everything()),
        via: Via::Key(KeyId::random()),
        version: 0,
        expires: i64::MAX,
        code_shown: true,
    }
}

fn main() {}
