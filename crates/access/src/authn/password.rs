//! Passwords: one way to store them, Argon2id, whatever road they came by.
//!
//! Hashing takes 64 MiB, so only a few run at once, on threads of their own. Imported bcrypt hashes are
//! wrapped at once: Argon2id over the bcrypt string, its salt kept beside it.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash as Phc;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use tokio::sync::Semaphore;
use vault::Secret;

use crate::PasswordHash;

/// The shortest password.
pub const MIN_PASSWORD: usize = 12;
const MAX_PASSWORD: usize = 1_024;
const MEMORY_KIB: u32 = 64 * 1024;
/// Three would do for Argon2id; eight make one hash cost no less than bcrypt with 12 rounds (IDN-03), also where
/// memory is slow.
const PASSES: u32 = 8;
const LANES: u32 = 1;
const WRAPPED: &str = "bcrypt+";
/// bcrypt's own form: `$2b$12$` and 22 characters of salt, then 31 of hash.
const BCRYPT_SALT_END: usize = 29;
const BCRYPT_LEN: usize = 60;
/// The cost doubles with each step: 15 is about two seconds, 31 would be days and keep everyone waiting.
const MAX_BCRYPT: u32 = 15;

/// Why a password was not taken.
#[derive(Debug, thiserror::Error)]
pub enum BadPassword {
    /// Too short or too long.
    #[error("a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters")]
    Length,
    /// Not a hash we can import.
    #[error("expected a bcrypt hash (`$2a$`, `$2b$` or `$2y$`) with cost 12 to {MAX_BCRYPT}")]
    NotBcrypt,
    /// The machine could not do it.
    #[error("the password could not be hashed")]
    Machine,
}

/// Hashes and checks passwords.
#[derive(Clone, Debug)]
pub struct Passwords {
    turns: Arc<Semaphore>,
    /// What an unknown account is compared with, so that it costs the same.
    decoy: Arc<str>,
}

impl Passwords {
    /// At most `at_once` hashes at a time.
    pub fn new(at_once: usize) -> Result<Self, BadPassword> {
        let decoy = decoy().map_err(|_| BadPassword::Machine)?;
        Ok(Self { turns: Arc::new(Semaphore::new(at_once.max(1))), decoy: decoy.into() })
    }

    /// Hashes a new password.
    pub async fn hash(&self, password: Secret<String>) -> Result<PasswordHash, BadPassword> {
        let length = password.expose().chars().count();
        if !(MIN_PASSWORD..=MAX_PASSWORD).contains(&length) {
            return Err(BadPassword::Length);
        }
        self.off_thread(move || hash_now(password.expose().as_bytes()).map(PasswordHash)).await?
    }

    /// Takes in a bcrypt hash of another system.
    pub async fn import_bcrypt(&self, hash: String) -> Result<PasswordHash, BadPassword> {
        let cost = bcrypt_cost(&hash).ok_or(BadPassword::NotBcrypt)?;
        if !(12..=MAX_BCRYPT).contains(&cost) {
            return Err(BadPassword::NotBcrypt);
        }
        self.off_thread(move || {
            let salt = hash.get(..BCRYPT_SALT_END).ok_or(BadPassword::NotBcrypt)?;
            let normal = format!("$2b${}", hash.get(4..).ok_or(BadPassword::NotBcrypt)?);
            Ok(PasswordHash(format!("{WRAPPED}{salt}{}", hash_now(normal.as_bytes())?)))
        })
        .await?
    }

    /// Whether the password fits. Without an account it fails, at the same cost; where imported passwords
    /// wait for their first login, every failure costs what the costliest of them does (`pad`).
    pub(crate) async fn verify(
        &self,
        password: Secret<String>,
        stored: Option<String>,
        pad: Option<u32>,
    ) -> bool {
        let decoy = Arc::clone(&self.decoy);
        let checked = self.off_thread(move || {
            let fits = verify_now(password.expose(), stored.as_deref().unwrap_or(&decoy));
            if !fits && let Some(most) = pad {
                spend_bcrypt(password.expose(), stored.as_deref(), most.min(MAX_BCRYPT));
            }
            fits && stored.is_some()
        });
        checked.await.unwrap_or(false)
    }

    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BadPassword> {
        let _turn = self.turns.acquire().await.map_err(|_| BadPassword::Machine)?;
        tokio::task::spawn_blocking(work).await.map_err(|_| BadPassword::Machine)
    }
}

/// A stored hash that no password fits: random where the hash would be. Checking against it costs what checking
/// against a real one does, and making it costs nothing.
fn decoy() -> Result<String, getrandom::Error> {
    let (mut salt, mut hash) = ([0u8; 16], [0u8; 32]);
    getrandom::fill(&mut salt)?;
    getrandom::fill(&mut hash)?;
    let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
    Ok(format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${hash}"))
}

/// Whether a stored hash should be replaced at the next login: an imported one, or one of other costs.
pub(crate) fn is_outdated(stored: &str) -> bool {
    !stored.starts_with(&format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}$"))
}

fn argon() -> Result<Argon2<'static>, BadPassword> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|_| BadPassword::Machine)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash_now(secret: &[u8]) -> Result<String, BadPassword> {
    argon()?.hash_password(secret).map(|hash| hash.to_string()).map_err(|_| BadPassword::Machine)
}

fn verify_now(password: &str, stored: &str) -> bool {
    match stored.strip_prefix(WRAPPED) {
        None => fits(password.as_bytes(), stored),
        Some(rest) => {
            let Some((salt, phc)) = rest.split_at_checked(BCRYPT_SALT_END) else { return false };
            rebuild_bcrypt(password, salt).is_some_and(|text| fits(text.as_bytes(), phc))
        }
    }
}

fn fits(secret: &[u8], phc: &str) -> bool {
    let Ok(parsed) = Phc::new(phc) else { return false };
    argon().is_ok_and(|argon| argon.verify_password(secret, &parsed).is_ok())
}

fn bcrypt_cost(hash: &str) -> Option<u32> {
    let known = ["$2a$", "$2b$", "$2y$"].iter().any(|lead| hash.starts_with(lead));
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'/';
    let tail_fits = hash.get(7..).is_some_and(|tail| tail.bytes().all(alphabet));
    if !known || hash.len() != BCRYPT_LEN || hash.get(6..7) != Some("$") || !tail_fits {
        return None;
    }
    hash.get(4..6)?.parse().ok().filter(|cost| (4..=31).contains(cost))
}

/// Does as much bcrypt work as is missing to one hash of cost `most`: 2^most less the 2^cost already done.
fn spend_bcrypt(password: &str, stored: Option<&str>, most: u32) {
    let wrapped = stored.and_then(|stored| stored.strip_prefix(WRAPPED));
    let done: Option<u32> = wrapped.and_then(|rest| rest.get(4..6)?.parse().ok());
    let costs = match done {
        None => most..most + 1,
        // 2^c + 2^(c+1) + … + 2^(most-1) = 2^most - 2^c
        Some(done) => done..most,
    };
    for cost in costs {
        drop(std::hint::black_box(bcrypt::hash_with_salt(password, cost, [0; 16])));
    }
}

/// The bcrypt string of this password under the salt that was kept.
fn rebuild_bcrypt(password: &str, salt: &str) -> Option<String> {
    // The crate parses salts only as part of a whole hash; the tail is a placeholder of the right length.
    let whole = format!("{salt}{}", ".".repeat(BCRYPT_LEN - BCRYPT_SALT_END));
    let parts: bcrypt::HashParts = whole.parse().ok()?;
    let made = bcrypt::hash_with_salt(password, parts.get_cost(), parts.get_salt_raw()).ok()?;
    Some(made.format_for_version(bcrypt::Version::TwoB))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret<String> {
        Secret::new(text.to_owned())
    }

    #[tokio::test]
    async fn idn_03_every_road_ends_in_the_same_argon2id() {
        let passwords = Passwords::new(2).unwrap();
        let own = passwords.hash(secret("correct horse battery")).await.unwrap();
        let bcrypt = bcrypt::hash("correct horse battery", 12).unwrap();
        let imported = passwords.import_bcrypt(bcrypt).await.unwrap();
        let parameters = "$argon2id$v=19$m=65536,t=8,p=1$";
        assert!(own.stored().starts_with(parameters));
        assert!(imported.stored().contains(parameters));
        for stored in [own.stored(), imported.stored()] {
            assert!(passwords.verify(secret("correct horse battery"), Some(stored.into()), None).await);
            assert!(!passwords.verify(secret("correct horse batterz"), Some(stored.into()), None).await);
        }
        let decoy = passwords.verify(secret("nobody has this password"), None, None).await;
        assert!(!decoy, "the decoy opens nothing");
    }

    #[tokio::test]
    async fn idn_03_weak_or_foreign_hashes_are_not_imported() {
        let passwords = Passwords::new(1).unwrap();
        let weak = bcrypt::hash("x", 10).unwrap();
        let good = bcrypt::hash("x", 12).unwrap();
        for bad in [
            weak.as_str(),
            "",
            "$2b$12$short",
            "$1$abc",
            &good.replace("$2b$", "$2x$"),
            &format!("{good}a"),
            &good.replace("$12$", "$16$"),
            &good.replace("$12$", "$31$"),
            &good.replace('$', "€"),
        ] {
            assert!(passwords.import_bcrypt(bad.to_owned()).await.is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_password_has_bounds() {
        let passwords = Passwords::new(1).unwrap();
        assert!(passwords.hash(secret("short")).await.is_err());
        assert!(passwords.hash(secret(&"x".repeat(1_025))).await.is_err());
    }
}
