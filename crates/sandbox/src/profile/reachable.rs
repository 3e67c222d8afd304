//! What a profile says about the network: rules, as `crates/rules` knows them.
//!
//! Not here: what the rules of all layers come to together; that is judged where a run begins.

use std::ops::Range;

use rules::{Rule, Rules, presets};
use serde::Deserialize;
use toml::Spanned;

use super::names::BadText;

/// Of a document, its rules only; everything else is read elsewhere.
#[derive(Default, Deserialize)]
struct Part {
    #[serde(default)]
    rule: Vec<Spanned<Rule>>,
}

/// The same of what a project asks for.
#[derive(Deserialize)]
struct Asks {
    #[serde(default)]
    ask: Part,
}

/// Where a fault is, if that is known, and what it is.
type Fault = (Option<Range<usize>>, String);

/// The tables `[[rule]]`, or `[[ask.rule]]`, of a document, with their places.
pub(super) fn read(text: &str, asked: bool) -> Result<Vec<(Range<usize>, Rule)>, Fault> {
    let wrong = |error: toml::de::Error| (error.span(), error.message().to_owned());
    let part = match asked {
        true => toml::from_str::<Asks>(text).map_err(wrong)?.ask,
        false => toml::from_str::<Part>(text).map_err(wrong)?,
    };
    Ok(part.rule.into_iter().map(|rule| (rule.span(), rule.into_inner())).collect())
}

/// A host that may be reached.
pub(super) fn allowed(text: &str) -> Result<Rule, BadText> {
    Rules::allowing(text).map_err(|what| BadText(what.to_string()))
}

/// A host that may not.
pub(super) fn denied(text: &str) -> Result<Rule, BadText> {
    allowed(text).map(|rule| Rule { deny: true, ..rule })
}

/// The name of a set of rules.
pub(super) fn preset(text: &str) -> Result<String, BadText> {
    let known = || presets::PRESETS.map(|preset| format!("`{}`", preset.name)).join(", ");
    match presets::find(text) {
        Some(preset) => Ok(preset.name.to_owned()),
        None => Err(BadText::expected(&known(), text)),
    }
}
