//! What the files of logins look like, outside and inside.
//!
//! Invariants: no token and nothing else that is secret of the file outside gets into the one inside; a word is long, and
//! can be told from a token by its beginning.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

/// How words for the tokens of Claude Code begin.
const CLAUDE_ACCESS: &str = "sk-ant-oat01-palisade-";
const CLAUDE_REFRESH: &str = "sk-ant-ort01-palisade-";
/// How the word for what renews a login of Codex begins.
const CODEX_REFRESH: &str = "rt_palisade_";
/// Who has made a token that is only a word.
const ISSUER: &str = "palisade";
/// The part of a token of Codex that the program reads.
const CLAIMS: &str = "https://api.openai.com/auth";
/// Of that part, what is copied.
const COPIED: [&str; 5] =
    ["chatgpt_account_id", "chatgpt_plan_type", "chatgpt_user_id", "user_id", "chatgpt_account_is_fedramp"];
/// Letters of a word that have to be guessed.
const RANDOM: usize = 72;
/// The most that a word is long.
const LONGEST: usize = 2048;
const DAY: u64 = 24 * 60 * 60 * 1000;
/// How long words look good to the program inside.
const LOOKS_GOOD: u64 = 365 * DAY;
/// Words that look good for less are made anew.
const LEAST_GOOD: u64 = 30 * DAY;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Shape {
    ClaudeCode,
    Codex,
}

/// What such a file holds.
pub(in crate::commands) struct Tokens {
    pub(super) access: Zeroizing<String>,
    /// What renews it; empty if there is nothing.
    pub(super) refresh: Zeroizing<String>,
    /// When the first is of no use any more, in milliseconds since 1970.
    pub(super) ends_at: Option<u64>,
    /// Whose it is, if that is told.
    pub(super) account: Option<String>,
}

/// What stands for tokens inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) access: String,
    pub(super) refresh: String,
}

impl Shape {
    /// The tokens in a document; none if it has no login in it that can be lent.
    pub(super) fn tokens(self, document: &Value) -> Option<Tokens> {
        let text = |value: &Value| value.as_str().filter(|text| fits(text)).map(str::to_owned);
        let tokens = match self {
            Self::ClaudeCode => {
                let login = document.get("claudeAiOauth")?;
                Tokens {
                    access: Zeroizing::new(text(login.get("accessToken")?)?),
                    refresh: Zeroizing::new(login.get("refreshToken").and_then(text).unwrap_or_default()),
                    ends_at: login.get("expiresAt").and_then(Value::as_u64),
                    account: None,
                }
            }
            Self::Codex => {
                let tokens = document.get("tokens")?;
                let access = Zeroizing::new(text(tokens.get("access_token")?)?);
                let ends = claims(&access).and_then(|claims| claims.get("exp")?.as_u64());
                Tokens {
                    refresh: Zeroizing::new(tokens.get("refresh_token").and_then(text).unwrap_or_default()),
                    ends_at: ends.map(|seconds| seconds.saturating_mul(1000)),
                    account: tokens.get("account_id").and_then(Value::as_str).map(str::to_owned),
                    access,
                }
            }
        };
        let is_word = [&tokens.access, &tokens.refresh].into_iter().any(|one| is_word(one));
        (!is_word).then_some(tokens)
    }

    /// The words in a file inside; none if there are others, or tokens.
    pub(super) fn words(self, text: &[u8]) -> Option<Words> {
        let document: Value = serde_json::from_slice(text).ok()?;
        let (access, refresh) = match self {
            Self::ClaudeCode => {
                let login = document.get("claudeAiOauth")?;
                (login.get("accessToken")?, login.get("refreshToken")?)
            }
            Self::Codex => {
                let tokens = document.get("tokens")?;
                (tokens.get("access_token")?, tokens.get("refresh_token")?)
            }
        };
        let words = Words { access: access.as_str()?.to_owned(), refresh: refresh.as_str()?.to_owned() };
        (is_word(&words.access) && is_word(&words.refresh)).then_some(words)
    }

    /// Whether a file inside has a login in it.
    pub(super) fn is_login(self, text: &[u8]) -> bool {
        let document: Option<Value> = serde_json::from_slice(text).ok();
        let has_key = |document: &Value| document.get("OPENAI_API_KEY").is_some_and(Value::is_string);
        document.is_some_and(|document| self.tokens(&document).is_some() || has_key(&document))
    }

    /// Whether words of an earlier run still do for this login.
    pub(super) fn suits(self, words: &Words, outside: &Value) -> bool {
        match self {
            Self::ClaudeCode => true,
            Self::Codex => {
                let told = claims(&words.access).unwrap_or_default();
                let ends = told.get("exp").and_then(Value::as_u64).unwrap_or_default();
                ends.saturating_mul(1000) > now() + LEAST_GOOD
                    && told.get(CLAIMS) == Some(&copied(outside, "access_token"))
            }
        }
    }

    /// New words for a login.
    pub(super) fn new_words(self, outside: &Value) -> Result<Words, getrandom::Error> {
        Ok(match self {
            Self::ClaudeCode => Words {
                access: format!("{CLAUDE_ACCESS}{}", letters()?),
                refresh: format!("{CLAUDE_REFRESH}{}", letters()?),
            },
            Self::Codex => Words {
                access: token(&copied(outside, "access_token"))?,
                refresh: format!("{CODEX_REFRESH}{}", letters()?),
            },
        })
    }

    /// The file inside: what the program needs to know of the one outside, and words.
    pub(super) fn inside(self, outside: &Value, words: &Words) -> String {
        let Words { access, refresh } = words;
        match self {
            Self::ClaudeCode => {
                let login = outside.get("claudeAiOauth");
                let same = |name: &str| login.and_then(|login| login.get(name)).cloned().unwrap_or_default();
                json!({"claudeAiOauth": {
                    "accessToken": access, "refreshToken": refresh, "expiresAt": now() + LOOKS_GOOD,
                    "scopes": same("scopes"), "subscriptionType": same("subscriptionType"),
                    "rateLimitTier": same("rateLimitTier"),
                }})
                .to_string()
            }
            Self::Codex => {
                let account = outside.get("tokens").and_then(|tokens| tokens.get("account_id"));
                // Its end is of no importance, and it is never sent: it only tells the program whose login it is.
                let id = token(&copied(outside, "id_token")).unwrap_or_default();
                let mut inside = json!({
                    "OPENAI_API_KEY": null, "last_refresh": moment(),
                    "tokens": {"id_token": id, "access_token": access, "refresh_token": refresh, "account_id": account},
                });
                if let (Some(mode), Some(inside)) = (outside.get("auth_mode"), inside.as_object_mut()) {
                    inside.insert("auth_mode".into(), mode.clone());
                }
                format!("{inside:#}")
            }
        }
    }

    /// What a program inside is answered that renews its login by itself.
    pub(super) fn answer(self, outside: &Value, words: &Words) -> String {
        let Words { access, refresh } = words;
        let seconds = LOOKS_GOOD / 1000;
        match self {
            Self::ClaudeCode => json!({
                "token_type": "Bearer", "access_token": access, "refresh_token": refresh, "expires_in": seconds,
                "scope": scopes(outside),
            }),
            Self::Codex => json!({"access_token": access, "refresh_token": refresh}),
        }
        .to_string()
    }

    /// What is sent to have a login renewed.
    pub(super) fn asks(self, outside: &Value, refresh: &str, client: &str) -> Zeroizing<String> {
        let mut asks = json!({"grant_type": "refresh_token", "refresh_token": refresh, "client_id": client});
        if let (Self::ClaudeCode, Some(login), Some(asks)) =
            (self, outside.get("claudeAiOauth"), asks.as_object_mut())
        {
            let scopes = scopes(outside);
            if !scopes.is_empty() {
                asks.insert("scope".into(), scopes.into());
            }
            if let Some(own) = login.get("clientId").filter(|own| own.is_string()) {
                asks.insert("client_id".into(), own.clone());
            }
        }
        Zeroizing::new(asks.to_string())
    }

    /// Puts what came back into a document, as the program itself does, and leaves everything else in it. False if there is
    /// no token in what came.
    pub(super) fn merge(self, document: &mut Value, came: &Value) -> bool {
        let text = |name: &str| came.get(name).filter(|value| value.as_str().is_some_and(fits)).cloned();
        let Some(access) = text("access_token") else { return false };
        let refresh = text("refresh_token");
        let seconds = |name: &str| came.get(name).and_then(Value::as_u64);
        let ends = |name: &str| seconds(name).map(|left| now().saturating_add(left.saturating_mul(1000)));
        match self {
            Self::ClaudeCode => {
                let Some(login) = document.get_mut("claudeAiOauth").and_then(Value::as_object_mut) else {
                    return false;
                };
                login.insert("accessToken".into(), access);
                refresh.into_iter().for_each(|refresh| drop(login.insert("refreshToken".into(), refresh)));
                if let Some(at) = ends("expires_in") {
                    login.insert("expiresAt".into(), at.into());
                }
                if let Some(at) = ends("refresh_token_expires_in") {
                    login.insert("refreshTokenExpiresAt".into(), at.into());
                }
                if let Some(scopes) =
                    came.get("scope").and_then(Value::as_str).filter(|text| !text.is_empty())
                {
                    login.insert("scopes".into(), scopes.split(' ').collect::<Vec<_>>().into());
                }
            }
            Self::Codex => {
                let Some(tokens) = document.get_mut("tokens").and_then(Value::as_object_mut) else {
                    return false;
                };
                tokens.insert("access_token".into(), access);
                refresh.into_iter().for_each(|refresh| drop(tokens.insert("refresh_token".into(), refresh)));
                text("id_token").into_iter().for_each(|id| drop(tokens.insert("id_token".into(), id)));
                if let Some(document) = document.as_object_mut() {
                    document.insert("last_refresh".into(), moment().into());
                }
            }
        }
        true
    }

    /// A document as the program writes it.
    pub(super) fn written(self, document: &Value) -> Zeroizing<String> {
        Zeroizing::new(match self {
            Self::ClaudeCode => document.to_string(),
            Self::Codex => format!("{document:#}"),
        })
    }
}

/// What a login of Claude Code is good for.
fn scopes(outside: &Value) -> String {
    let scopes = outside.get("claudeAiOauth").and_then(|login| login.get("scopes")?.as_array());
    let scopes: Vec<&str> = scopes.into_iter().flatten().filter_map(Value::as_str).collect();
    scopes.join(" ")
}

/// Whether this can be a token: nothing in it that ends a header.
fn fits(text: &str) -> bool {
    text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_word(text: &str) -> bool {
    let is_random =
        |rest: &str| rest.len() == RANDOM && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let begins = [CLAUDE_ACCESS, CLAUDE_REFRESH, CODEX_REFRESH];
    let is_token = || {
        let (_, signature) = text.rsplit_once('.').unwrap_or_default();
        let claims = claims(text).unwrap_or_default();
        is_random(signature) && claims.get("iss").and_then(Value::as_str) == Some(ISSUER)
    };
    let is_one = |begin: &&str| text.strip_prefix(*begin).is_some_and(is_random);
    text.len() <= LONGEST && (begins.iter().any(is_one) || is_token())
}

/// Letters and digits that nobody guesses.
fn letters() -> Result<String, getrandom::Error> {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut bytes = [0; RANDOM];
    getrandom::fill(&mut bytes)?;
    let letter = |byte: u8| LETTERS.get(usize::from(byte) % LETTERS.len()).copied().unwrap_or(b'x');
    Ok(bytes.into_iter().map(|byte| char::from(letter(byte))).collect())
}

/// What a token says of itself, whoever signed it.
fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?).ok()
}

/// Of what one of the tokens says, what the program must know inside.
fn copied(outside: &Value, which: &str) -> Value {
    let token = outside.get("tokens").and_then(|tokens| tokens.get(which)).and_then(Value::as_str);
    let told = token.and_then(claims).and_then(|claims| claims.get(CLAIMS).cloned()).unwrap_or_default();
    let kept = COPIED.iter().filter_map(|name| Some(((*name).to_owned(), told.get(name)?.clone())));
    Value::Object(kept.collect())
}

/// A word in the shape of a token that says this of itself. Nobody has signed it.
fn token(says: &Value) -> Result<String, getrandom::Error> {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(json!({"alg": "RS256", "typ": "JWT"}));
    let payload = part(json!({"iss": ISSUER, "exp": (now() + LOOKS_GOOD) / 1000, CLAIMS: says}));
    Ok(format!("{head}.{payload}.{}", letters()?))
}

/// Now, as Codex writes it.
fn moment() -> String {
    crate::output::moment(i64::try_from(now()).unwrap_or(i64::MAX)).replace(' ', "T")
}

pub(super) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(says: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2lnbmVkLWJ5LXNvbWVib2R5", part(&json!({"alg": "RS256"})), part(says))
    }

    fn outside(shape: Shape) -> Value {
        let auth = json!({"chatgpt_account_id": "acc-1", "chatgpt_plan_type": "plus", "poid": "private"});
        let says = json!({"exp": 2_000_000_000, "email": "a@b.test", CLAIMS: auth});
        match shape {
            Shape::ClaudeCode => json!({
                "claudeAiOauth": {
                    "accessToken": "sk-ant-oat01-the-real-one-1234", "refreshToken": "sk-ant-ort01-the-real-one-1234",
                    "expiresAt": 5, "scopes": ["user:inference"], "subscriptionType": "max", "other": 1,
                },
                "mcpOAuth": {"x": "another secret"},
            }),
            Shape::Codex => json!({
                "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "last_refresh": "2020-01-01T00:00:00Z", "other": 1,
                "tokens": {
                    "id_token": signed(&says), "access_token": signed(&says), "refresh_token": "rt_the_real_one_1234",
                    "account_id": "acc-1",
                },
            }),
        }
    }

    #[test]
    fn egr_14_the_file_inside_has_words_and_what_the_program_must_know() {
        for shape in [Shape::ClaudeCode, Shape::Codex] {
            let outside = outside(shape);
            let tokens = shape.tokens(&outside).unwrap();
            let words = shape.new_words(&outside).unwrap();
            let inside = shape.inside(&outside, &words);
            for secret in
                [&*tokens.access, &*tokens.refresh, "another secret", "a@b.test", "private", "c2lnbmVk"]
            {
                assert!(!inside.contains(secret), "{inside}");
            }
            // What was written is known again, and is no login of anybody's.
            assert_eq!(shape.words(inside.as_bytes()), Some(words.clone()));
            assert!(shape.suits(&words, &outside) && !shape.is_login(inside.as_bytes()));
            assert!(shape.tokens(&serde_json::from_str(&inside).unwrap()).is_none());
            assert!(shape.is_login(outside.to_string().as_bytes()));
            assert_eq!(shape.words(outside.to_string().as_bytes()), None);
        }
        let words = Shape::Codex.new_words(&outside(Shape::Codex)).unwrap();
        let claims = claims(&words.access).unwrap();
        assert_eq!(claims[CLAIMS], json!({"chatgpt_account_id": "acc-1", "chatgpt_plan_type": "plus"}));
        assert!(!words.access.contains("cG9pZ"), "what is not needed stays outside");
    }

    #[test]
    fn egr_14_what_came_back_is_put_in_and_everything_else_stays() {
        let came = json!({
            "access_token": "another-token-1234", "refresh_token": "another-refresh-1234", "expires_in": 3600,
            "scope": "a b", "id_token": "another-id-token-1234",
        });
        let mut claude = outside(Shape::ClaudeCode);
        assert!(Shape::ClaudeCode.merge(&mut claude, &came));
        let login = &claude["claudeAiOauth"];
        assert_eq!((&login["accessToken"], &login["other"]), (&json!("another-token-1234"), &json!(1)));
        assert_eq!(
            (&login["scopes"], &claude["mcpOAuth"]["x"]),
            (&json!(["a", "b"]), &json!("another secret"))
        );
        assert!(login["expiresAt"].as_u64().unwrap() > now() + 3_000_000);
        let mut codex = outside(Shape::Codex);
        assert!(Shape::Codex.merge(&mut codex, &came));
        assert_eq!(codex["tokens"]["refresh_token"], "another-refresh-1234");
        assert_eq!((&codex["other"], &codex["tokens"]["account_id"]), (&json!(1), &json!("acc-1")));
        assert_ne!(codex["last_refresh"], "2020-01-01T00:00:00Z");
        // One without a token changes nothing; one without another refresh token leaves the one there is.
        let before = codex.clone();
        assert!(!Shape::Codex.merge(&mut codex, &json!({"error": "x"})) && codex == before);
        assert!(Shape::Codex.merge(&mut codex, &json!({"access_token": "yet-another-token-1234"})));
        assert_eq!(codex["tokens"]["refresh_token"], "another-refresh-1234");
    }
}
