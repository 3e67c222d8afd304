//! A real PostgreSQL server, shared by the tests of one process.

#[path = "../../crates/store/tests/kit/server.rs"]
#[expect(dead_code, reason = "the store's own tests use more of it")]
mod server;

/// The address of a new, empty database.
#[must_use]
pub fn database() -> String {
    server::Server::shared().database()
}
