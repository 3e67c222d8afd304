//! One-time passwords by RFC 6238: 6 digits, 30 s, one step of slack either way, each code once.

use model::{Email, Millis, UserId};
use totp_rs::{Builder, Secret as Seed, Totp};
use vault::{KeyRing, OpenError, Place, Sealed, SealedRecord, Secret};

const STEP_MS: Millis = 30_000;

/// The seed of a user's one-time passwords.
pub struct TotpSeed(Secret<Vec<u8>>);

impl std::fmt::Debug for TotpSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TotpSeed(***)")
    }
}

impl TotpSeed {
    /// A new seed from the operating system.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = vec![0; 20];
        getrandom::fill(&mut bytes)?;
        Ok(Self(Secret::new(bytes)))
    }

    /// What an authenticator app takes in: seed and address, to be shown once.
    #[must_use]
    pub fn link(&self, email: &Email) -> Secret<String> {
        let seed = Seed::from(self.0.expose().clone()).to_base32();
        let account =
            email.as_str().replace('%', "%25").replace('?', "%3F").replace('#', "%23").replace('/', "%2F");
        Secret::new(format!("otpauth://totp/Palisade:{account}?secret={seed}&issuer=Palisade"))
    }

    /// The seed, sealed for this user's row.
    pub fn seal(&self, ring: &KeyRing, user: UserId) -> Option<Vec<u8>> {
        let id = user.to_string();
        ring.seal_record(&place(&id), self.0.expose()).ok().map(SealedRecord::into_bytes)
    }

    /// The seed from this user's row.
    pub fn open(ring: &KeyRing, user: UserId, sealed: Vec<u8>) -> Option<Self> {
        Self::of_any_build(ring, user, sealed).ok()
    }

    /// Builds before there were epochs sealed seeds as values of the ring itself; a rotation seals them anew, and none is
    /// left when the first is done.
    fn of_any_build(ring: &KeyRing, user: UserId, sealed: Vec<u8>) -> Result<Self, OpenError> {
        let id = user.to_string();
        let seed = match SealedRecord::parse(sealed.clone()) {
            Ok(record) => ring.open_record(&place(&id), &record)?,
            Err(_) if ring.epoch() == 1 || ring.is_rotating() => {
                ring.open(&place(&id), &Sealed::parse(sealed)?)?
            }
            Err(error) => return Err(error),
        };
        Ok(Self(seed))
    }

    /// The seed of this user's row, sealed again under the ring's current epoch; none if it is current.
    ///
    /// # Errors
    /// [`OpenError`] when what stands in the row cannot be opened.
    pub fn carry_over(ring: &KeyRing, user: UserId, sealed: &[u8]) -> Result<Option<Vec<u8>>, OpenError> {
        if SealedRecord::parse(sealed.to_vec()).is_ok_and(|old| old.epoch() == ring.epoch()) {
            return Ok(None);
        }
        Ok(Self::of_any_build(ring, user, sealed.to_vec())?.seal(ring, user))
    }

    /// The time step this code is for, if it is one of now.
    #[must_use]
    pub fn step_of(&self, code: &str, now: Millis) -> Option<i64> {
        let totp = self.totp();
        let step = now / STEP_MS;
        let nearby = [step, step - 1, step + 1];
        let fits = |step: &i64| {
            let seconds = u64::try_from(*step * STEP_MS / 1_000).unwrap_or_default();
            let made = totp.generate(seconds).to_string();
            subtle::ConstantTimeEq::ct_eq(made.as_bytes(), code.as_bytes()).into()
        };
        nearby.into_iter().find(fits)
    }

    /// The code of a moment, for tests and for those who keep a seed elsewhere.
    #[must_use]
    pub fn code_at(&self, now: Millis) -> String {
        self.totp().generate(u64::try_from(now / 1_000).unwrap_or_default()).to_string()
    }

    fn totp(&self) -> Totp {
        Builder::new().with_secret(Seed::from(self.0.expose().clone())).with_skew(0).build_noncompliant()
    }
}

fn place(user: &str) -> Place<'_> {
    Place { record: user, owner: user, field: "totp" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_04_a_seed_that_an_earlier_build_sealed_opens_and_is_sealed_anew() {
        let ring = KeyRing::new(vault::MasterKey::random().unwrap());
        let (user, other) = (UserId::random(), UserId::random());
        let old = ring.seal(&place(&user.to_string()), b"12345678901234567890").unwrap().as_bytes().to_vec();
        assert!(TotpSeed::open(&ring, user, old.clone()).unwrap().0.matches(b"12345678901234567890"));
        assert!(TotpSeed::open(&ring, other, old.clone()).is_none(), "for its row only");
        assert!(TotpSeed::carry_over(&ring, other, &old).is_err());
        let new = TotpSeed::carry_over(&ring, user, &old).unwrap().unwrap();
        assert_eq!(SealedRecord::parse(new.clone()).unwrap().epoch(), 1);
        assert!(TotpSeed::open(&ring, user, new.clone()).unwrap().0.matches(b"12345678901234567890"));
        assert!(TotpSeed::carry_over(&ring, user, &new).unwrap().is_none(), "once");
        assert!(TotpSeed::open(&ring, user, b"12345678901234567890".to_vec()).is_none(), "nor a plain one");
    }

    #[test]
    fn sec_04_a_seed_that_an_earlier_build_sealed_ends_with_the_first_rotation() {
        let ring = KeyRing::new(vault::MasterKey::random().unwrap());
        let user = UserId::random();
        let old = ring.seal(&place(&user.to_string()), b"12345678901234567890").unwrap().as_bytes().to_vec();
        ring.adopt(ring.turn(&vault::MasterKey::random().unwrap()).unwrap());
        assert!(TotpSeed::open(&ring, user, old.clone()).is_some(), "it is carried over yet");
        let new = TotpSeed::carry_over(&ring, user, &old).unwrap().unwrap();
        ring.adopt(ring.settle(2).unwrap());
        assert!(TotpSeed::open(&ring, user, old.clone()).is_none());
        assert!(TotpSeed::carry_over(&ring, user, &old).is_err());
        assert!(TotpSeed::open(&ring, user, new).is_some());
    }

    #[test]
    fn idn_15_the_vectors_of_rfc_6238_hold() {
        // Appendix B, SHA-1, the last six of eight digits.
        let seed = TotpSeed(Secret::new(b"12345678901234567890".to_vec()));
        for (seconds, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(seed.code_at(seconds * 1_000), code);
            assert_eq!(seed.step_of(code, seconds * 1_000), Some(seconds / 30));
            assert_eq!(seed.step_of(code, (seconds + 61) * 1_000), None, "two steps later it is over");
        }
        for bad in ["", "28708", "2870820", "28708a", "٢٨٧٠٨٢"] {
            assert_eq!(seed.step_of(bad, 59_000), None);
        }
    }
}
