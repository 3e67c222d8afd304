//! Secrets for one run: the command gets words that stand for them, and the proxy puts them in.
//!
//! Flow: what was typed, or what is known of the command -> values from the caller's environment -> words of the same shape
//! -> loans. Invariant: a value goes to the proxy and to nobody else; a secret without a host to go to is not lent.

use std::ffi::OsStr;

use egress::control::{Loan, Value};
use rules::Rule;
use serde::Deserialize;

use super::login;
use crate::failure::Failure;

/// What is known of agents, one document each.
const AGENTS: [&str; 3] = [
    include_str!("../../../../agents/claude.toml"),
    include_str!("../../../../agents/codex.toml"),
    include_str!("../../../../agents/gemini.toml"),
];
/// The variable whose secret is never sent, and signs instead.
const SIGNING: &str = "AWS_SECRET_ACCESS_KEY";
/// The least that has to be guessed of a word.
const LEAST_RANDOM: usize = 20;
/// How values of known services begin; longer ones first. What does not begin so keeps nothing of its own.
const BEGINNINGS: [&str; 17] = [
    "sk-ant-api03-",
    "sk-ant-oat01-",
    "sk-ant-",
    "sk-proj-",
    "sk-svcacct-",
    "sk-or-v1-",
    "sk-",
    "github_pat_",
    "ghp_",
    "gho_",
    "ghs_",
    "glpat-",
    "npm_",
    "pypi-",
    "AIza",
    "xoxb-",
    "hf_",
];

/// What an agent needs of the network.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Agent {
    command: String,
    /// Sets of rules.
    pub(super) presets: Vec<String>,
    #[serde(default, rename = "secret")]
    secrets: Vec<Bound>,
    /// What is known of the login that it keeps.
    pub(super) login: Option<login::Known>,
}

/// A variable that holds a secret, and where it goes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bound {
    name: String,
    hosts: Vec<String>,
}

impl Agent {
    /// Whether one of these is a secret of its own.
    pub(super) fn has_one_of(&self, loans: &[Loan]) -> bool {
        self.secrets.iter().any(|bound| loans.iter().any(|loan| loan.name == bound.name))
    }

    /// Whether a model of this agent is at one of these hosts.
    fn is_asked_at(&self, hosts: &[(String, u16)]) -> bool {
        let own = |host: &String| self.secrets.iter().any(|bound| bound.hosts.contains(host));
        hosts.iter().any(|(host, _)| own(host))
    }
}

/// All that is known.
pub(super) fn agents() -> Result<Vec<Agent>, Failure> {
    let wrong = |error: toml::de::Error| Failure::Sandbox(format!("a document of `agents`: {error}"), 125);
    AGENTS.into_iter().map(|text| toml::from_str(text).map_err(wrong)).collect()
}

/// What is known of this command.
pub(super) fn known(command: &OsStr) -> Result<Option<Agent>, Failure> {
    // By its bare name, which is looked for where the caller's programs are: a file of the project may be called anything.
    // Most commands are in no document, and need none read.
    let Some(name) = command.to_str() else { return Ok(None) };
    let line = format!("command = \"{name}\"");
    if !AGENTS.iter().any(|text| text.lines().any(|one| one == line)) {
        return Ok(None);
    }
    Ok(agents()?.into_iter().find(|agent| name == agent.command))
}

/// What is lent, and the rules that let it go where it is bound to.
#[derive(Debug, Default)]
pub(super) struct Lending {
    pub(super) loans: Vec<Loan>,
    pub(super) rules: Vec<Rule>,
    pub(super) presets: Vec<String>,
}

impl Lending {
    /// `typed` are `NAME` or `NAME=HOST[:PORT]`; `agent` is what is known of the command, whose secrets are lent if they are
    /// there.
    pub(super) fn of(typed: &[String], agent: Option<&Agent>) -> Result<Self, Failure> {
        let mut lending = Self::default();
        for text in typed {
            lending.typed(text)?;
        }
        let known = agent.into_iter().flat_map(|agent| &agent.secrets);
        for bound in
            known.filter(|bound| std::env::var_os(&bound.name).is_some_and(|value| !value.is_empty()))
        {
            if !lending.loans.iter().any(|loan| loan.name == bound.name) {
                lending.lend(&bound.name, bound.hosts.iter().map(|host| (host.clone(), 443)).collect())?;
            }
        }
        Ok(lending)
    }

    fn typed(&mut self, text: &str) -> Result<(), Failure> {
        let wrong = |text: String| Failure::Sandbox(text, 125);
        if let Some((name, host)) = text.split_once('=') {
            let rule = rules::Rules::allowing(host)
                .map_err(|what| wrong(format!("cannot lend `{name}` to `{host}`, because {what}")))?;
            if rule.host.contains('*') {
                return Err(wrong(format!(
                    "cannot lend `{name}` to `{host}`, because a secret goes to one host; name it without `*`"
                )));
            }
            let hosts = rule.ports.iter().map(|port| (rule.host.clone(), *port)).collect();
            let label = Some(format!("lent for {name}"));
            self.rules.push(Rule { access: Some(rules::Access::Inspect), label, ..rule });
            return self.lend(name, hosts);
        }
        for agent in agents()? {
            if let Some(bound) = agent.secrets.iter().find(|bound| bound.name == text) {
                let hosts = bound.hosts.iter().map(|host| (host.clone(), 443)).collect();
                self.presets.extend(agent.presets);
                return self.lend(text, hosts);
            }
        }
        Err(wrong(format!(
            "cannot lend `{text}`, because nothing says where it goes; try `--secret {text}=HOST[:PORT]`"
        )))
    }

    fn lend(&mut self, name: &str, hosts: Vec<(String, u16)>) -> Result<(), Failure> {
        let wrong = |text: &str| Failure::Sandbox(format!("cannot lend `{name}`, because {text}"), 125);
        let value = match std::env::var(name) {
            Ok(value) if !value.is_empty() => value,
            Ok(_) | Err(std::env::VarError::NotPresent) => {
                return Err(wrong("it is not set here; set it, and run this again"));
            }
            Err(std::env::VarError::NotUnicode(_)) => return Err(wrong("its value is no text")),
        };
        if value.len() < 8 || value.chars().any(char::is_control) {
            return Err(wrong(
                "its value is too short, or has a line end or another control character in it",
            ));
        }
        let word = word_for(&value).map_err(|error| wrong(&error.to_string()))?;
        if let Some(before) = self.loans.iter_mut().find(|loan| loan.name == name) {
            before.in_content &= !agents()?.iter().any(|agent| agent.is_asked_at(&hosts));
            before.hosts.extend(hosts);
            return Ok(());
        }
        let in_content = !agents()?.iter().any(|agent| agent.is_asked_at(&hosts));
        self.loans.push(Loan {
            name: name.to_owned(),
            word,
            value: Value::new(value),
            hosts,
            is_decoy: false,
            signs: name == SIGNING,
            in_content,
        });
        Ok(())
    }
}

/// Decoys in these variables: what looks like a key, stands for nothing, and may go nowhere.
pub(super) fn decoys(names: &[String], loans: &mut Vec<Loan>) -> Result<(), Failure> {
    for name in names {
        let wrong = |why: &str| Failure::Sandbox(format!("--decoy {name}: {why}"), 125);
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit());
        if !is_name || name.len() > 128 {
            return Err(wrong("expected the name of a variable"));
        }
        if loans.iter().any(|loan| loan.name == *name) {
            return Err(wrong("a secret is lent in this variable"));
        }
        let word = decoy_for(name).map_err(|error| wrong(&error.to_string()))?;
        let value = Value::new(String::new());
        loans.push(Loan {
            name: name.clone(),
            word,
            value,
            hosts: Vec::new(),
            is_decoy: true,
            signs: false,
            in_content: true,
        });
    }
    Ok(())
}

/// What a thief would take for the key that a variable of this name holds.
fn decoy_for(name: &str) -> Result<String, getrandom::Error> {
    let is = |part: &str| name.to_ascii_uppercase().contains(part);
    let (begins, length) = match () {
        () if is("GITHUB") || is("GH_TOKEN") => ("ghp_", 36),
        () if is("NPM") => ("npm_", 36),
        () if is("ANTHROPIC") => ("sk-ant-api03-", 95),
        () if is("OPENAI") => ("sk-proj-", 48),
        () if is("STRIPE") => ("sk_live_", 24),
        () => ("", 40),
    };
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes)?;
    let letter =
        |byte: u8| char::from(LETTERS.get(usize::from(byte) % LETTERS.len()).copied().unwrap_or(b'x'));
    Ok(begins.chars().chain(bytes.into_iter().map(letter)).collect())
}

/// A word without a shape.
fn plain_word() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 20];
    getrandom::fill(&mut bytes)?;
    Ok(format!("palisade-{}", hex::encode(bytes)))
}

/// A word of the shape of a value: its beginning, if that says whose it is, and then other letters and digits.
fn word_for(value: &str) -> Result<String, getrandom::Error> {
    let beginning = BEGINNINGS.into_iter().find(|beginning| value.starts_with(beginning));
    let Some(keeps) = beginning.map(str::len) else { return plain_word() };
    let random = value.chars().skip(keeps).filter(char::is_ascii_alphanumeric).count();
    if random < LEAST_RANDOM || !value.is_ascii() {
        return plain_word();
    }
    let mut bytes = vec![0; value.len()];
    getrandom::fill(&mut bytes)?;
    let other = |(at, (letter, byte)): (usize, (char, u8))| {
        let of = |first: u8, count: u8| char::from(first + byte % count);
        match letter {
            _ if at < keeps => letter,
            'a'..='z' => of(b'a', 26),
            'A'..='Z' => of(b'A', 26),
            '0'..='9' => of(b'0', 10),
            // Where signs stand tells something too.
            _ => of(b'a', 26),
        }
    };
    Ok(value.chars().zip(bytes).enumerate().map(other).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egr_13_a_word_has_the_shape_of_its_value_and_tells_nothing_of_it() {
        let value = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789_-AbCdAA";
        let (word, other) = (word_for(value).unwrap(), word_for(value).unwrap());
        assert_ne!(word, other);
        assert!(word.starts_with("sk-ant-api03-") && word.len() == value.len(), "{word}");
        assert!(!word[13..].contains(['-', '_']), "{word}");
        // Nothing of a value whose service is not known.
        for value in ["550e8400-e29b-41d4-a716-446655440000", "aX9_kQ2-fG7h_aX9_kQ2-fG7haX9_kQ2-fG7h"] {
            assert!(word_for(value).unwrap().starts_with("palisade-"));
        }
        // Too little of this one could be other than it is.
        assert!(word_for("sk-ant-api03-short").unwrap().starts_with("palisade-"));
        assert!(word_for("pass word with spaces, ä").unwrap().starts_with("palisade-"));
    }

    #[test]
    fn what_is_known_of_agents_can_be_read_and_has_rules() {
        for agent in agents().unwrap() {
            for preset in &agent.presets {
                let rules = rules::presets::find(preset).unwrap().rules().unwrap();
                let logins = agent.login.iter().map(login::Known::hosts);
                for hosts in agent.secrets.iter().map(|bound| &bound.hosts).chain(logins) {
                    for host in hosts {
                        assert!(rules.iter().any(|rule| rule.host == *host), "{}: {host}", agent.command);
                    }
                }
            }
        }
        assert!(known(OsStr::new("claude")).unwrap().is_some());
        assert!(known(OsStr::new("./claude")).unwrap().is_none());
        assert!(known(OsStr::new("claudette")).unwrap().is_none());
    }
}
