//! Secrets that come along with an env: put aside for the vault, with a reference in their place.
//!
//! Invariants: a value is in no document; the name of a secret is made of its variable and a keyed digest of its value, so that
//! another value is another version.

use access::NewEnvSecret;
use model::{SecretId, SecretName};
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::{KeptSecrets, Registered};
use vault::{Purpose, Secret};

use super::closed::Faults;
use super::document;
use crate::Runtime;

/// Secrets that may come along with an env: few enough that an entry of the ledger names each of them.
const MOST_INLINE: usize = 32;
/// The longest that a secret which comes along may last, in seconds: ten years.
const LONGEST: i64 = 10 * 366 * 86_400;

/// A secret that comes along with an env.
#[derive(Debug)]
pub struct InlineSecret {
    /// The variable that it is for.
    pub variable: String,
    /// Its value.
    pub value: Secret<Vec<u8>>,
    /// How long it lasts.
    pub seconds: Option<i64>,
    /// Whether that counts from now on where the same value is kept already.
    pub renew: bool,
}

/// A secret that goes into the vault, and its value until it is sealed.
pub(super) type SetApart = (NewEnvSecret, Secret<Vec<u8>>);

impl Runtime {
    /// Puts what came along as a secret aside for the vault, and a reference in its place. The name holds a keyed digest of
    /// the value: another value is another version, the same value is the same, and nobody learns more from it.
    pub(super) fn set_apart(
        &self,
        mut document: Value,
        inline: Vec<InlineSecret>,
        faults: &mut Faults,
    ) -> (Value, Vec<SetApart>) {
        let mut kept = Vec::new();
        if inline.len() > MOST_INLINE {
            faults.add(
                "inline",
                format!("at most {MOST_INLINE} secrets can come along; add the others to the vault first"),
            );
            return (document, kept);
        }
        for InlineSecret { variable, value, seconds, renew } in inline {
            let size = value.expose().len();
            if !document::is_variable(&variable) {
                faults.add(
                    "inline",
                    "expected names of variables: 1 to 64 characters from A-Z, a-z, 0-9 and `_`",
                );
            } else if size == 0 || size > document::MOST_VALUE || value.expose().contains(&0) {
                faults.add(format!("inline.{variable}"), "a secret has 1 to 65536 bytes without NUL");
            } else if seconds.is_some_and(|seconds| !(1..=LONGEST).contains(&seconds)) {
                faults.add(format!("inline.{variable}"), "`ttlSeconds` is 1 to ten years");
            } else if ["values", "secrets"]
                .iter()
                .any(|part| document.get(part).is_some_and(|all| all.get(&variable).is_some()))
            {
                faults.add(
                    format!("inline.{variable}"),
                    "the variable has a value already; expected one of them",
                );
            } else {
                let Some(name) = self.vault_name(&variable, &value) else { continue };
                let expires =
                    seconds.map(|seconds| self.clock.now().saturating_add(seconds.saturating_mul(1_000)));
                if let Some(fields) = document.as_object_mut() {
                    let refers = fields.entry("secrets").or_insert(Value::Null);
                    // Said to be nothing is as not said.
                    if refers.is_null() {
                        *refers = Value::Object(serde_json::Map::new());
                    }
                    if let Some(refers) = refers.as_object_mut() {
                        refers.insert(variable, Value::String(name.to_string()));
                    }
                }
                let secret = SecretId::random();
                kept.push((NewEnvSecret { secret, name, expires, renew, sealed: Vec::new() }, value));
            }
        }
        (document, kept)
    }

    fn vault_name(&self, variable: &str, value: &Secret<Vec<u8>>) -> Option<SecretName> {
        let mut digest = Sha256::new();
        digest.update(self.ring.subkey(Purpose::Digests).expose());
        digest.update(b"palisade/env-secret/v1\0");
        digest.update(variable.as_bytes());
        digest.update([0]);
        digest.update(value.expose());
        let mark = hex::encode(digest.finalize());
        // In groups: a name that looks like nothing but chance would be masked wherever it is shown.
        let groups: Vec<&str> = (0..8).map_while(|at| mark.get(at * 4..at * 4 + 4)).collect();
        format!("ENV_{variable}_{}", groups.join("_")).parse().ok()
    }
}

/// What the closing entry says of secrets that came along.
pub(super) fn told(registered: &Registered) -> Option<(&'static str, String)> {
    let KeptSecrets { added, replaced } = &registered.secrets;
    let listed =
        |what: &str, names: Vec<&str>| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
    let added = listed("added", added.iter().map(SecretName::as_str).collect());
    let replaced = listed("replaced", replaced.iter().map(|(_, name)| name.as_str()).collect());
    let all: Vec<String> = added.into_iter().chain(replaced).collect();
    (!all.is_empty()).then(|| ("secrets", all.join("; ")))
}
