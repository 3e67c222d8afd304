//! Named sets of rules that many need, kept as data.

use crate::fault::Faults;
use crate::rule::Rule;

/// A named set of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is asked for by.
    pub name: &'static str,
    /// The document, with words about what it opens.
    pub text: &'static str,
}

/// Every preset, by name.
pub const PRESETS: [Preset; 7] = [
    Preset { name: "anthropic", text: include_str!("../presets/anthropic.toml") },
    Preset { name: "crates", text: include_str!("../presets/crates.toml") },
    Preset { name: "gemini", text: include_str!("../presets/gemini.toml") },
    Preset { name: "github-read", text: include_str!("../presets/github-read.toml") },
    Preset { name: "npm-install", text: include_str!("../presets/npm-install.toml") },
    Preset { name: "openai", text: include_str!("../presets/openai.toml") },
    Preset { name: "pypi-install", text: include_str!("../presets/pypi-install.toml") },
];

/// The preset of this name.
#[must_use]
pub fn find(name: &str) -> Option<Preset> {
    PRESETS.into_iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Its rules, to be compiled beside others.
    ///
    /// # Errors
    /// Not for those in [`PRESETS`].
    pub fn rules(&self) -> Result<Vec<Rule>, Faults> {
        crate::build::read(self.text).map(|read| read.rules)
    }
}
