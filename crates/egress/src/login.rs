//! Logins of subscriptions, as far as the proxy knows them.
//!
//! A login is a token that is lent like any other secret, and ends after a while. What renews it is never lent: the launcher
//! keeps that, and gives out the next token.

use serde::{Deserialize, Serialize};

/// What the proxy must know of a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The name of the loan that is its token.
    pub name: String,
    /// Which of its tokens that is, counted from one.
    pub turn: u64,
    /// From when on another one is wanted, in milliseconds since 1970.
    pub renew_at: Option<u64>,
    /// From when on it is of no use.
    pub ends_at: Option<u64>,
    /// Where a program inside would renew it by itself. Nothing goes there: it is answered here.
    pub host: String,
    /// The path of it.
    pub path: String,
    /// What stands, inside, for what renews it.
    pub word: String,
    /// What a program that renews it is answered: words again.
    pub answer: String,
}
