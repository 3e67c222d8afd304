//! Access tokens: short-lived JWTs in which every claim counts.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use model::{Millis, UserId};
use serde::{Deserialize, Serialize};
use vault::Secret;

const AUDIENCE: &str = "palisade-api";
const TYPE: &str = "access";

/// What an access token says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    iss: String,
    aud: String,
    typ: String,
    pub(crate) sub: UserId,
    /// The login it came from.
    pub(crate) fam: String,
    /// The user's credential version.
    pub(crate) ver: i64,
    /// Milliseconds: the whole product counts in them.
    pub(crate) exp: Millis,
    iat: Millis,
}

/// Signs and checks access tokens.
pub struct TokenKeys {
    issuer: String,
    sign: EncodingKey,
    check: DecodingKey,
    validation: Validation,
}

impl std::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKeys(***)")
    }
}

impl TokenKeys {
    /// Tokens of this installation; `issuer` tells installations apart.
    #[must_use]
    pub fn new(key: &Secret<[u8; 32]>, issuer: &str) -> Self {
        let mut validation = Validation::new(Algorithm::HS256);
        // Expiry is judged below, by the product's own clock and without leeway.
        validation.validate_exp = false;
        validation.set_issuer(&[issuer]);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        Self {
            issuer: issuer.to_owned(),
            sign: EncodingKey::from_secret(key.expose()),
            check: DecodingKey::from_secret(key.expose()),
            validation,
        }
    }

    pub(crate) fn issue(
        &self,
        sub: UserId,
        fam: &str,
        ver: i64,
        now: Millis,
        life: Millis,
    ) -> Option<String> {
        let claims = Claims {
            iss: self.issuer.clone(),
            aud: AUDIENCE.into(),
            typ: TYPE.into(),
            sub,
            fam: fam.to_owned(),
            ver,
            exp: now.saturating_add(life),
            iat: now,
        };
        encode(&Header::new(Algorithm::HS256), &claims, &self.sign).ok()
    }

    pub(crate) fn check(&self, token: &str, now: Millis) -> Option<Claims> {
        let claims = decode::<Claims>(token, &self.check, &self.validation).ok()?.claims;
        (claims.typ == TYPE && now < claims.exp && claims.iat <= now.saturating_add(60_000)).then_some(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> TokenKeys {
        TokenKeys::new(&Secret::new([7; 32]), "here")
    }

    #[test]
    fn idn_05_an_access_token_lives_fifteen_minutes() {
        let user = UserId::random();
        let token = keys().issue(user, "fam", 3, 1_000, 15 * 60_000).unwrap();
        assert_eq!(keys().check(&token, 1_000 + 14 * 60_000 + 59_000).unwrap().sub, user);
        assert!(keys().check(&token, 1_000 + 15 * 60_000).is_none());
        assert!(keys().check(&token, 1_000 + 15 * 60_000 + 1_000).is_none());
    }

    #[test]
    fn idn_05_each_claim_counts() {
        let good = Claims {
            iss: "here".into(),
            aud: AUDIENCE.into(),
            typ: TYPE.into(),
            sub: UserId::random(),
            fam: "f".into(),
            ver: 0,
            exp: 10_000,
            iat: 0,
        };
        let signed = |claims: &Claims, keys: &TokenKeys| {
            encode(&Header::new(Algorithm::HS256), claims, &keys.sign).unwrap()
        };
        assert!(keys().check(&signed(&good, &keys()), 5_000).is_some());
        let altered = [
            Claims { iss: "there".into(), ..good.clone() },
            Claims { aud: "another".into(), ..good.clone() },
            Claims { typ: "refresh".into(), ..good.clone() },
            Claims { exp: 4_999, ..good.clone() },
        ];
        for claims in &altered {
            assert!(keys().check(&signed(claims, &keys()), 5_000).is_none(), "{claims:?}");
        }
        let foreign = TokenKeys::new(&Secret::new([8; 32]), "here");
        assert!(keys().check(&signed(&good, &foreign), 5_000).is_none(), "another key");
        let token = signed(&good, &keys());
        let none = encode(&Header::new(Algorithm::HS512), &good, &keys().sign).unwrap();
        assert!(keys().check(&none, 5_000).is_none(), "another algorithm");
        let body = token.split('.').nth(1).unwrap();
        let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{body}.");
        assert!(keys().check(&unsigned, 5_000).is_none(), "no signature");
    }
}
