//! A real PostgreSQL server, shared by the tests of one process.

#[path = "../../crates/store/tests/kit/server.rs"]
#[expect(dead_code, reason = "the store's own tests use more of it")]
mod server;

/// Every row of every table of a database that [`database`] gave, as text.
#[must_use]
pub fn dump(address: &str) -> String {
    let name = address.rsplit('/').next().unwrap();
    server::Server::shared().sql(name, "SELECT database_to_xml(true, true, '')")
}

/// The address of a new, empty database.
#[must_use]
pub fn database() -> String {
    server::Server::shared().database()
}

/// A server of one test's own, which can be treated badly.
pub struct Apart(server::Server);

impl Apart {
    /// Started.
    #[must_use]
    pub fn start() -> Self {
        Self(server::Server::start().unwrap())
    }

    /// The address of a new, empty database.
    #[must_use]
    pub fn database(&self) -> String {
        self.0.database()
    }

    /// Runs SQL as its administrator.
    pub fn sql(&self, sql: &str) -> String {
        self.0.sql("postgres", sql)
    }
}
