//! Turns the text of a configuration into one that holds, or says what is wrong with it.
//!
//! Flow: JSON (unknown fields refused) -> [`Raw`] -> [`Config`], where nothing is left open. Keys are named by the
//! variables that hold them: the text itself has no secret in it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use model::Grant;
use redact::Redactor;
use serde::Deserialize;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::autonomy::Autonomy;
use crate::limits::Limits;
use crate::prices::{Price, Prices, Usage};
use crate::tools::{Programs, default_programs};

/// How deep sub-agents may go.
pub(crate) const DEPTH: u8 = 3;

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[error("the configuration does not hold: {0}")]
pub struct BadConfig(pub(crate) String);

/// What a configuration says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    autonomy: Option<String>,
    #[serde(default)]
    autonomy_ceiling: Option<String>,
    providers: Vec<RawProvider>,
    #[serde(default)]
    writing: bool,
    #[serde(default)]
    programs: Option<Vec<String>>,
    #[serde(default)]
    interpreters: Vec<String>,
    #[serde(default)]
    grant: Option<Grant>,
    #[serde(default)]
    limits: Map<String, Value>,
    #[serde(default)]
    prices: Vec<Price>,
    #[serde(default)]
    instructions: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProvider {
    name: String,
    kind: Kind,
    #[serde(default)]
    base_url: Option<String>,
    model: String,
    #[serde(default)]
    keys: Vec<String>,
}

/// Which wire format a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Anthropic,
    /// Chat completions, as many speak them.
    Openai,
    Gemini,
    Ollama,
}

impl Kind {
    const fn usual_base(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::Openai => Some("https://api.openai.com/v1"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com"),
            // Whichever machine it is on, somebody has to say so.
            Self::Ollama => None,
        }
    }
}

/// A provider, ready to be asked.
pub(crate) struct Provider {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) base: String,
    pub(crate) model: String,
    pub(crate) keys: Vec<Zeroizing<String>>,
}

/// A configuration that holds.
pub struct Config {
    pub(crate) autonomy: Autonomy,
    pub(crate) ceiling: Autonomy,
    pub(crate) providers: Vec<Provider>,
    pub(crate) writing: bool,
    pub(crate) programs: Programs,
    pub(crate) interpreters: Programs,
    pub(crate) grant: Grant,
    pub(crate) limits: Limits,
    pub(crate) prices: Prices,
    pub(crate) instructions: String,
    pub(crate) redactor: Redactor,
    /// Where conversations are kept; without one, none is.
    pub(crate) home: Option<PathBuf>,
}

impl Config {
    /// The configuration that a text says, with keys from variables that `variable` knows.
    ///
    /// # Errors
    /// [`BadConfig`], with no secret in it.
    pub fn read(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, BadConfig> {
        let raw: Raw = serde_json::from_str(text).map_err(|error| BadConfig(error.to_string()))?;
        resolved(raw, variable).map_err(BadConfig)
    }

    /// What knows the keys that stand in it.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

fn resolved(raw: Raw, variable: &dyn Fn(&str) -> Option<String>) -> Result<Config, String> {
    let level = |text: Option<String>, usual: Autonomy| text.map_or(Ok(usual), |text| text.parse());
    let autonomy = level(raw.autonomy, Autonomy::Supervised)?;
    let ceiling = level(raw.autonomy_ceiling, Autonomy::Full)?;
    if autonomy > ceiling {
        return Err(format!("`autonomy` is above `autonomy_ceiling` (`{}`)", ceiling.word()));
    }
    if raw.providers.is_empty() || raw.providers.len() > 8 {
        return Err("`providers` has 1 to 8 entries, the first is asked first".to_owned());
    }
    let redactor = Redactor::new();
    let mut names = BTreeSet::new();
    let mut providers = Vec::new();
    for provider in raw.providers {
        if !names.insert(provider.name.clone()) {
            return Err(format!("there are two providers `{}`", provider.name));
        }
        providers.push(provided(provider, variable, &redactor)?);
    }
    let mut grant = raw.grant.unwrap_or_else(Grant::everything);
    grant.depth = grant.depth.min(DEPTH);
    let prices = Prices::with(raw.prices)?;
    if grant.budget.micro_usd != u64::MAX {
        // Without a price nothing would ever be spent.
        let paid = providers.iter().filter(|one| one.kind != Kind::Ollama);
        if let Some(one) = paid.into_iter().find(|one| prices.cost(&one.model, &Usage::default()).is_none()) {
            return Err(format!("the model `{}` has no price, so a budget of money cannot hold", one.model));
        }
    }
    let programs = raw.programs.unwrap_or_else(default_programs);
    let home = variable("PALISADE_AGENT_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".palisade-agent")))
        .filter(|home| home.is_absolute());
    Ok(Config {
        autonomy,
        ceiling,
        providers,
        writing: raw.writing,
        programs: Programs::listed(&programs)?,
        interpreters: Programs::listed(&raw.interpreters)?,
        grant,
        limits: Limits::changed(&raw.limits)?,
        prices,
        instructions: raw.instructions,
        redactor,
        home,
    })
}

fn provided(
    raw: RawProvider,
    variable: &dyn Fn(&str) -> Option<String>,
    redactor: &Redactor,
) -> Result<Provider, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte);
    if raw.name.is_empty() || raw.name.len() > 64 || !raw.name.bytes().all(plain) {
        return Err("a provider's name has 1 to 64 plain characters".to_owned());
    }
    if raw.model.is_empty() || raw.model.len() > 128 || !raw.model.bytes().all(plain) {
        return Err(format!("the model of `{}` has 1 to 128 plain characters", raw.name));
    }
    let base = raw.base_url.or_else(|| raw.kind.usual_base().map(str::to_owned));
    let base = base.ok_or_else(|| format!("`{}` needs a `base_url`", raw.name))?;
    let is_web = base.starts_with("https://") || base.starts_with("http://");
    // A name and password in an address would be a secret outside of its variable.
    if !is_web || base.contains(['@', '?', '#', ' ']) {
        return Err(format!("the `base_url` of `{}` is no plain web address", raw.name));
    }
    if raw.keys.len() > 16 {
        return Err(format!("`{}` has more than 16 keys", raw.name));
    }
    let mut keys = Vec::new();
    for name in &raw.keys {
        let value = variable(name).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("the variable `{name}` of `{}` is not set", raw.name))?;
        if value.bytes().any(|byte| !(0x21..0x7f).contains(&byte)) {
            return Err(format!("the variable `{name}` holds what cannot be a key"));
        }
        // Values too short to be told from other text are in no pool worth hiding.
        let _ = redactor.learn(value.as_bytes());
        keys.push(Zeroizing::new(value));
    }
    let base = base.trim_end_matches('/').to_owned();
    Ok(Provider { name: raw.name, kind: raw.kind, base, model: raw.model, keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let variables = |name: &str| (name == "KEY").then(|| "sk-test-0123456789abcdef".to_owned());
        Config::read(text, &variables).map_err(|error| error.to_string())
    }

    const PROVIDER: &str = r#"{"name":"main","kind":"anthropic","model":"m","keys":["KEY"]}"#;

    #[test]
    fn acc_17_supervised_is_the_default_and_an_unknown_level_refuses_to_start() {
        let config = read(&format!(r#"{{"providers":[{PROVIDER}]}}"#)).unwrap();
        assert_eq!(config.autonomy, Autonomy::Supervised);
        assert!(!config.writing, "SES-29: writing is off without a word");
        for level in ["yolo", "", "Full", "read-only", "FULL"] {
            let text = format!(r#"{{"autonomy":"{level}","providers":[{PROVIDER}]}}"#);
            assert!(read(&text).err().unwrap().contains("there is no level"), "{level}");
        }
        let above =
            format!(r#"{{"autonomy":"full","autonomy_ceiling":"supervised","providers":[{PROVIDER}]}}"#);
        assert!(read(&above).is_err());
    }

    #[test]
    fn what_is_not_known_is_refused_and_told_without_a_secret() {
        for text in [
            "",
            "{}",
            r#"{"providers":[]}"#,
            r#"{"providers":[{"name":"a","kind":"anthropic","model":"m","key":"x"}]}"#,
            r#"{"providers":[{"name":"a","kind":"other","model":"m"}]}"#,
            r#"{"providers":[{"name":"a","kind":"ollama","model":"m"}]}"#,
            r#"{"providers":[{"name":"a","kind":"openai","model":"m","base_url":"https://u:p@x.org"}]}"#,
            r#"{"providers":[{"name":"a","kind":"openai","model":"m","keys":["NONE"]}]}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let extra = format!(r#"{{"providers":[{PROVIDER}],"shell":true}}"#);
        assert!(read(&extra).err().unwrap().contains("unknown field"));
        for shell in ["sh", "bash", "/bin/dash", "env", "busybox"] {
            let text = format!(r#"{{"providers":[{PROVIDER}],"programs":["{shell}"]}}"#);
            assert!(read(&text).err().unwrap().contains("cannot be listed"), "{shell}");
        }
    }
}
