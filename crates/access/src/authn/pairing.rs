//! Pairing: a code shown on one device signs another one in, once.
//!
//! Invariant: a code is as wide as its maker was, lives ten minutes, is kept as a digest, and is worth nothing
//! after its maker's credentials changed. What it yields is an API key: listed, scoped, ending, revocable.

use model::{KeyId, Millis};
use subtle::ConstantTimeEq;
use vault::Secret;

use super::signin::AuthError;
use super::{Authenticator, NewSecret};
use crate::{Backing, KeptKey, NewDevice, Warrant, Window};

/// Crockford's alphabet: nothing that reads like something else.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Ten letters of five bits.
const LETTERS: usize = 10;
/// Five wrong codes from one address, and it waits until every code it may have aimed at is over.
const TRIES: Window = Window { most: 5, span: 10 * 60_000 };

/// A device that was just signed in.
#[derive(Debug)]
pub struct NewPairing {
    /// What is kept of its key.
    pub paired: KeptKey,
    /// The key, shown once.
    pub secret: Secret<String>,
}

impl<B: Backing> Authenticator<B> {
    /// A new code and its digest.
    pub fn new_pairing_code(&self) -> Result<NewSecret, AuthError> {
        let text = random_code().map_err(|_| AuthError::Busy)?;
        let digest = self.digests.of("pairing", &plain(text.expose()));
        Ok(NewSecret { text, digest })
    }

    /// How long a code lives.
    pub fn pairing_life(&self) -> Millis {
        self.lifetimes.pairing
    }

    /// Trades a code for an API key of the one who showed it.
    pub async fn pair(&self, code: &str, peer: &str) -> Result<NewPairing, AuthError> {
        let subjects = [format!("pairing:{peer}")];
        let attempt = self.admit_within(&subjects, TRIES, peer).await?;
        let digest = self.digests.of("pairing", &plain(code));
        let now = self.clock.now();
        let found = self.backing.pairing(&digest).await?.filter(|row| {
            let equal: bool = row.digest.as_bytes().ct_eq(digest.as_bytes()).into();
            equal && now < row.expires
        });
        let Some(row) = found else { return self.no_pairing(peer, now).await };
        if self.active(row.user, row.version).await.is_err() {
            return self.no_pairing(peer, now).await;
        }
        let key = KeyId::random();
        let made = self.new_key(key)?;
        let device = NewDevice { key, digest: made.digest, now, expires: now.saturating_add(row.key_life) };
        let opened = self.open_entry(&row.user, "pairing.used").await?;
        let taken = self.backing.take_pairing(&Warrant::new(), &digest, device).await;
        self.close_entry(&row.user, "pairing.used", opened, matches!(taken, Ok(Some(_)))).await;
        let Some(paired) = taken? else { return self.no_pairing(peer, now).await };
        self.backing.clear_attempt(&Warrant::new(), &attempt).await?;
        Ok(NewPairing { paired, secret: made.text })
    }

    async fn no_pairing(&self, peer: &str, now: Millis) -> Result<NewPairing, AuthError> {
        self.strangers.refused(peer, "pairing", now).await;
        Err(AuthError::Invalid)
    }
}

/// `XXXXX-XXXXX`, 50 bits of the operating system.
fn random_code() -> Result<Secret<String>, getrandom::Error> {
    let mut bytes = zeroize::Zeroizing::new([0u8; LETTERS]);
    getrandom::fill(bytes.as_mut_slice())?;
    let mut text = String::with_capacity(LETTERS + 1);
    for (place, byte) in bytes.iter().enumerate() {
        if place == LETTERS / 2 {
            text.push('-');
        }
        // 256 is a multiple of 32: every letter is equally likely.
        let letter = ALPHABET.get(usize::from(byte % 32)).copied().unwrap_or(b'0');
        text.push(char::from(letter));
    }
    Ok(Secret::new(text))
}

/// A code as people type it: any case, with or without the dash, `O` for `0` and `I` or `L` for `1`.
fn plain(typed: &str) -> String {
    let letters = typed.chars().filter(|c| !matches!(c, '-' | ' '));
    letters
        .map(|c| match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn idn_14_ten_thousand_codes_show_no_repeat_and_every_letter() {
        let codes: HashSet<String> = (0..10_000).map(|_| random_code().unwrap().expose().clone()).collect();
        assert_eq!(codes.len(), 10_000);
        let letters: HashSet<char> = codes.iter().flat_map(|code| code.chars()).collect();
        assert_eq!(letters.len(), 33, "32 letters and the dash");
        assert!(codes.iter().all(|code| plain(code).len() == LETTERS), "10 letters of 5 bits: 50 bits");
    }

    #[test]
    fn a_code_is_read_as_people_type_it() {
        assert_eq!(plain("o1lab-cdefg"), "011ABCDEFG");
        assert_eq!(plain(" 011AB CDEFG "), "011ABCDEFG");
    }
}
