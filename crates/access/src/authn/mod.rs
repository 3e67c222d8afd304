//! Credentials in, a [`Principal`] out; and how credentials begin and end.
//!
//! Invariants: an unknown account costs and answers the same as a wrong password; a secret is stored only
//! as a digest or a costly hash; attempts are counted before they are judged.
//!
//! [`Principal`]: crate::Principal

mod bearer;
mod claim;
mod digest;
mod pairing;
mod password;
mod signin;
mod strangers;
mod ticket;
mod token;
mod totp;

pub use bearer::Authenticator;
pub use digest::{Digests, NewSecret};
pub use pairing::NewPairing;
pub use password::{BadPassword, MIN_PASSWORD, Passwords};
pub use signin::{AuthError, Tokens};
pub use token::TokenKeys;
pub use totp::TotpSeed;

use model::Millis;

/// How long things live and how often they may be tried.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// Access token; 15 minutes, at most 7 days.
    pub access: Millis,
    /// Refresh token; 30 days.
    pub refresh: Millis,
    /// After its first use a refresh token answers once more within this time: two tabs, one login.
    pub refresh_grace: Millis,
    /// The one-time set-up secret; 60 minutes.
    pub bootstrap: Millis,
    /// A ticket for a socket; 30 seconds.
    pub ticket: Millis,
    /// A code that pairs a device; 10 minutes.
    pub pairing: Millis,
}

impl Default for Lifetimes {
    fn default() -> Self {
        const MINUTE: Millis = 60_000;
        Self {
            access: 15 * MINUTE,
            refresh: 30 * 24 * 60 * MINUTE,
            refresh_grace: 10_000,
            bootstrap: 60 * MINUTE,
            ticket: 30_000,
            pairing: 10 * MINUTE,
        }
    }
}
