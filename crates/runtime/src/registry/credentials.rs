//! What looks like a credential in an artifact: found before it is kept, masked where it is shown.
//!
//! Invariant: a text is looked at as it stands, with the name that it stands under, and as a word of the command that it is
//! a part of; what one of these looks finds when something is registered, the same look masks when it is shown.
//!
//! Not here: what a credential is (`redact`).

use model::ArtifactKind;
use redact::{MARK, Place, Redactor};
use serde_json::{Map, Value, json};

use super::closed::Faults;
use super::files::{NewFile, told};

/// Characters that are shown of what looks like a credential; never more than half of it.
const SHOWN: usize = 4;

/// The credentials of a file, if it is text, and of its path.
pub(super) fn in_file(redactor: &Redactor, file: &NewFile, faults: &mut Faults) -> usize {
    let place = told(&file.path);
    let path = file.path.as_bytes();
    let named = tell(&place, path, &redactor.find(path), faults);
    if file.content.contains(&0) || std::str::from_utf8(&file.content).is_err() {
        return named;
    }
    named + tell(&place, &file.content, &redactor.find(&file.content), faults)
}

/// Those of every text of a document.
pub(super) fn in_document(
    redactor: &Redactor,
    kind: ArtifactKind,
    document: &Value,
    faults: &mut Faults,
) -> usize {
    let Value::Object(fields) = document else { return 0 };
    // Files are named by hashes, which look like nothing else; they were looked at themselves.
    let fields = fields.iter().filter(|(key, _)| key.as_str() != "files");
    fields.map(|(key, value)| find(redactor, Stands::at(kind, key), key, value, faults)).sum()
}

/// A document as it is shown: more people read it than may write it.
#[must_use]
pub fn masked_document(redactor: &Redactor, kind: ArtifactKind, document: Value) -> Value {
    let Value::Object(fields) = document else { return mask(redactor, Stands::Alone, "", document) };
    let one = |(key, value): (String, Value)| {
        let value = match (key.as_str(), value) {
            ("files", Value::Object(files)) => Value::Object(
                files.into_iter().map(|(path, about)| (redactor.scrub(&path).into_owned(), about)).collect(),
            ),
            (_, value) => mask(redactor, Stands::at(kind, &key), &key, value),
        };
        (redactor.scrub(&key).into_owned(), value)
    };
    Value::Object(fields.into_iter().map(one).collect())
}

/// What the name above a text says of it.
#[derive(Clone, Copy)]
enum Stands {
    /// Perhaps what it is.
    Named,
    /// Nothing: beneath it stand names of secrets of the vault, which are no secrets.
    Alone,
}

impl Stands {
    fn at(kind: ArtifactKind, key: &str) -> Self {
        if kind == ArtifactKind::Env && key == "secrets" { Self::Alone } else { Self::Named }
    }
}

/// The last name of a place.
fn name(place: &str) -> &str {
    place.rsplit('.').next().unwrap_or_default()
}

fn find(redactor: &Redactor, stands: Stands, place: &str, value: &Value, faults: &mut Faults) -> usize {
    match value {
        Value::String(text) => {
            let (looked, found) = looks(redactor, stands, name(place), text);
            tell(place, looked.as_bytes(), &found, faults)
        }
        Value::Array(all) => {
            let in_command = command(redactor, place, all);
            let each = all.iter().enumerate().map(|(at, one)| {
                match (find(redactor, Stands::Alone, place, one, faults), one) {
                    (0, Value::String(word)) if in_command.contains(&at) => {
                        let whole = Place {
                            offset: 0,
                            length: u64::try_from(word.len()).unwrap_or(0),
                            line: 1,
                            column: 1,
                        };
                        tell(place, word.as_bytes(), &[whole], faults)
                    }
                    (count, _) => count,
                }
            });
            each.sum()
        }
        Value::Object(fields) => {
            let each = fields
                .iter()
                .map(|(key, value)| find(redactor, stands, &format!("{place}.{key}"), value, faults));
            each.sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn mask(redactor: &Redactor, stands: Stands, key: &str, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(mask_text(redactor, stands, key, &text)),
        Value::Array(all) => {
            let in_command = command(redactor, key, &all);
            let each = all.into_iter().enumerate().map(|(at, one)| {
                match (mask(redactor, Stands::Alone, key, one.clone()), one) {
                    (Value::String(shown), Value::String(word))
                        if in_command.contains(&at) && marks(&shown) <= marks(&word) =>
                    {
                        MARK.into()
                    }
                    (shown, _) => shown,
                }
            });
            each.collect()
        }
        Value::Object(fields) => {
            let one = |(key, value): (String, Value)| {
                let shown = mask(redactor, stands, &key, value);
                (redactor.scrub(&key).into_owned(), shown)
            };
            Value::Object(fields.into_iter().map(one).collect())
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

fn mask_text(redactor: &Redactor, stands: Stands, key: &str, text: &str) -> String {
    let shown = match stands {
        Stands::Alone => return redactor.scrub(text).into_owned(),
        Stands::Named => {
            let told = serde_json::from_str::<Map<String, Value>>(&redactor.scrub(&as_json(key, text))).ok();
            match told.and_then(|mut told| told.remove(key)) {
                Some(Value::String(told)) => redactor.scrub(&told).into_owned(),
                _ => MARK.to_owned(),
            }
        }
    };
    if marks(&shown) <= marks(text) && !looks(redactor, stands, key, text).1.is_empty() {
        return MARK.to_owned();
    }
    shown
}

fn marks(text: &str) -> usize {
    text.matches(MARK).count()
}

/// A text as it was looked at when something was found in it: as it stands, as a program is given it, as it is written in a document.
fn looks(redactor: &Redactor, stands: Stands, key: &str, text: &str) -> (String, Vec<Place>) {
    let alone = redactor.find(text.as_bytes());
    if !alone.is_empty() || matches!(stands, Stands::Alone) {
        return (text.to_owned(), alone);
    }
    let ways = [format!("{key}={text}"), as_json(key, text)];
    let found = ways.into_iter().map(|way| {
        let found = redactor.find(way.as_bytes());
        (way, found)
    });
    found.into_iter().find(|(_, found)| !found.is_empty()).unwrap_or_default()
}

fn as_json(key: &str, text: &str) -> String {
    json!({ key: text }).to_string()
}

/// Which words of a command hold a credential that only the words before it tell, as in `--token VALUE`. Other lists are
/// sets, whose words say nothing of each other.
fn command(redactor: &Redactor, place: &str, all: &[Value]) -> Vec<usize> {
    if name(place) != "command" {
        return Vec::new();
    }
    let mut line = String::new();
    let mut ends = Vec::with_capacity(all.len());
    for word in all {
        let word = word.as_str().unwrap_or_default();
        let is_plain =
            |sign: char| !sign.is_whitespace() && !sign.is_control() && !matches!(sign, '\'' | '"' | '\\');
        if !word.is_empty() && word.chars().all(is_plain) {
            line.push_str(word);
        } else {
            line.push('\'');
            line.push_str(&word.replace('\'', "'\\''"));
            line.push('\'');
        }
        ends.push(u64::try_from(line.len()).unwrap_or(u64::MAX));
        line.push(' ');
    }
    let found = redactor.find(line.as_bytes());
    let holds = |at: &usize| {
        let end = ends.get(*at).copied().unwrap_or(0);
        let start = at.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |end| end + 1);
        found.iter().any(|place| place.offset < end && place.offset + place.length > start)
    };
    (0..all.len()).filter(holds).collect()
}

/// Tells what was found by its place and the least that lets somebody find it.
fn tell(place: &str, text: &[u8], found: &[Place], faults: &mut Faults) -> usize {
    for one in found {
        let from = usize::try_from(one.offset).unwrap_or(usize::MAX);
        let length = usize::try_from(one.length).unwrap_or(0);
        let begins = text.get(from..from.saturating_add(length)).unwrap_or_default();
        let begins = String::from_utf8_lossy(begins);
        let shown: String =
            begins.chars().take(SHOWN.min(length / 2)).filter(|one| !one.is_control()).collect();
        faults.add(
            place,
            format!(
                "line {} holds what looks like a credential, `{shown}…`; put it into the vault, or accept it",
                one.line
            ),
        );
    }
    found.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of no known shape: only where it stands tells what it is.
    const VALUE: &str = "marmalade-quilt-zebra-4711";

    fn token() -> String {
        // Made of two pieces, so that none stands in this file.
        format!("{}{}", "ghp_", "a8Bc3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1x")
    }

    fn found_in(kind: ArtifactKind, document: &Value) -> (usize, String) {
        let mut faults = Faults::default();
        let count = in_document(&Redactor::new(), kind, document, &mut faults);
        (count, faults.to_string())
    }

    #[test]
    fn reg_02_a_credential_is_told_by_its_place_and_few_of_its_characters() {
        let (redactor, token) = (Redactor::new(), token());
        let file = NewFile {
            path: "conf/app.ini".into(),
            executable: false,
            content: format!("# settings\ntoken = {token}\n").into_bytes(),
        };
        let mut faults = Faults::default();
        assert_eq!(in_file(&redactor, &file, &mut faults), 1);
        let told = faults.to_string();
        assert!(
            told.starts_with("`files/conf/app.ini`: line 2 holds") && !told.contains(&token[..9]),
            "{told}"
        );
        let binary = NewFile { content: [file.content.as_slice(), b"\0"].concat(), ..file };
        assert_eq!(in_file(&redactor, &binary, &mut Faults::default()), 0);
        let named = NewFile { path: format!("conf/{token}.txt"), content: Vec::new(), ..binary };
        assert_eq!(in_file(&redactor, &named, &mut Faults::default()), 1, "its path is told too");
        for path in
            ["assets/index-3f9a8b7c.js", "objects/ab/cdef0123456789abcdef0123456789abcdef01", "token.rs"]
        {
            let plain = NewFile { path: path.into(), ..named.clone() };
            assert_eq!(in_file(&redactor, &plain, &mut Faults::default()), 0, "{path}");
        }
    }

    /// What tells that a text is a secret is the name it stands under, or the words before it.
    #[test]
    fn reg_02_names_and_words_before_a_value_tell_what_it_is() {
        let (capability, subagent, env) =
            (ArtifactKind::Capability, ArtifactKind::Subagent, ArtifactKind::Env);
        for (kind, place, document) in [
            (env, "values.DB_PASSWORD", json!({"values": {"DB_PASSWORD": VALUE}})),
            (env, "values.API_KEY", json!({"values": {"API_KEY": format!("{VALUE} and more")}})),
            (
                capability,
                "mcp.docs.env.API_KEY",
                json!({"mcp": {"docs": {"command": ["docs"], "env": {"API_KEY": VALUE}}}}),
            ),
            (
                capability,
                "mcp.docs.command",
                json!({"mcp": {"docs": {"command": ["docs", "--token", VALUE]}}}),
            ),
            (
                capability,
                "mcp.docs.command",
                json!({"mcp": {"docs": {"command": ["docs", "--password", "quilt zebra"]}}}),
            ),
            (
                subagent,
                "verify.command",
                json!({"verify": {"command": ["curl", "-u", format!("ana:{VALUE}"), "https://x.example"]}}),
            ),
        ] {
            let (count, told) = found_in(kind, &document);
            assert!(count == 1 && told.starts_with(&format!("`{place}`: ")), "{document}: {count} {told}");
            assert!(!told.contains("marmalade") && !told.contains("quilt"), "{told}");
            let shown = masked_document(&Redactor::new(), kind, document).to_string();
            assert!(!shown.contains(VALUE) && !shown.contains("zebra") && shown.contains(MARK), "{shown}");
        }
    }

    /// What is no secret is found by neither, and shown as it is: names of secrets of the vault, and words that mean nothing.
    #[test]
    fn reg_02_what_is_no_credential_is_shown_as_it_is() {
        let (capability, subagent, env) =
            (ArtifactKind::Capability, ArtifactKind::Subagent, ArtifactKind::Env);
        let hash = format!("sha256:{}", "0123456789abcdef".repeat(4));
        for (kind, document) in [
            (
                env,
                json!({
                    "about": "the password is in the vault", "values": {"LOG_LEVEL": "debug", "TOKEN_LIMIT": "4096", "PATH_PREFIX": "/opt/x"},
                    "secrets": {"TOKEN": "ENV_TOKEN_1f2e_3d4c_5b6a_7988_a7b6_c5d4_e3f2_0110", "FORGE": "FORGE_TOKEN"},
                }),
            ),
            (
                capability,
                json!({
                    "files": {"bin/run": {"hash": hash, "bytes": 7}}, "setup": "bin/run", "tools": {"allow": ["read"], "deny": ["token", "secret"]},
                    "mcp": {"docs": {"command": ["docs-server", "--stdio", "--token-file", "/run/x"], "env": {"MODE": "fast"}}},
                }),
            ),
            (
                subagent,
                json!({
                    "systemPrompt": "Review what changed.", "verify": {"command": ["make", "test"]},
                    "allow": {"secrets": ["ENV_TOKEN_1f2e_3d4c_5b6a_7988_a7b6_c5d4_e3f2_0110", "FORGE_TOKEN"], "images": [format!("worker@{hash}")]},
                }),
            ),
        ] {
            assert_eq!(found_in(kind, &document), (0, String::new()));
            assert_eq!(masked_document(&Redactor::new(), kind, document.clone()), document);
        }
    }

    /// A text that is looked at in two ways is masked by either, also where it has the mark in it already.
    #[test]
    fn reg_02_what_is_found_is_masked() {
        let redactor = Redactor::new();
        for (key, text) in [
            ("PASSWORD", format!("{MARK} {VALUE}")),
            ("PASSWORD", format!("{VALUE}\nsecond line")),
            ("TOKEN", token()),
            ("NOTE", format!("first\ntoken = {}", token())),
        ] {
            let document = json!({"values": {key: text}});
            let found = found_in(ArtifactKind::Env, &document).0;
            let shown = masked_document(&redactor, ArtifactKind::Env, document).to_string();
            assert!(found > 0 && !shown.contains(VALUE) && !shown.contains(&token()), "{found} {shown}");
        }
    }
}
