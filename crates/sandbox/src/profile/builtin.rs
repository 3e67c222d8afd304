//! The profiles that come with Palisade.
//!
//! Source: `strict.toml`, `dev.toml` and `read-only.toml` in `profiles/`; `table` is made from them, since reading
//! TOML in a process that has just started costs more than a tenth of a millisecond. A test holds both equal.

use super::draft::{Draft, Word};
use super::names::{BadText, Name, NamePattern, Variable};
use super::place::{Place, Protected};
use super::reachable;
use super::table::BUILT_IN;

/// What a built-in document says, value by value.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    /// With the line of the document.
    pub(super) base: Option<(&'static str, usize)>,
    pub(super) words: &'static [(&'static str, &'static str)],
    pub(super) lists: &'static [(&'static str, &'static [&'static str])],
    pub(super) flags: &'static [(&'static str, bool)],
    pub(super) set: &'static [(&'static str, &'static str)],
    pub(super) limits: &'static [(&'static str, &'static str)],
}

const DOCUMENTS: [(&str, &str); 3] = [
    ("strict", include_str!("../../profiles/strict.toml")),
    ("dev", include_str!("../../profiles/dev.toml")),
    ("read-only", include_str!("../../profiles/read-only.toml")),
];

/// The document of a built-in profile, comments and all.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static str> {
    DOCUMENTS.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
}

/// The names of the built-in profiles.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    DOCUMENTS.iter().map(|(name, _)| *name)
}

/// What a built-in profile says; `None` if there is none of this name.
pub(super) fn draft(name: &Name) -> Option<Result<Draft, BadText>> {
    BUILT_IN.iter().find(|built_in| built_in.name == name.as_str()).map(BuiltIn::draft)
}

impl BuiltIn {
    fn draft(&self) -> Result<Draft, BadText> {
        let mut draft = Draft { name: Some(Name::parse(self.name)?), ..Draft::default() };
        if let Some((base, line)) = self.base {
            draft.base = Some((Name::parse(base)?, line));
        }
        for (key, word) in self.words {
            match *key {
                "worktree" => draft.worktree = Some(Word::parse(word)?),
                "network" => draft.network = Some(Word::parse(word)?),
                other => return Err(unknown(other)),
            }
        }
        for (key, list) in self.lists {
            match *key {
                "read" => draft.read = Some(each(list, Place::parse)?),
                "write" => draft.write = Some(each(list, Place::parse)?),
                "hide" => draft.hide = each(list, NamePattern::parse)?,
                "show" => draft.show = each(list, NamePattern::parse)?,
                "protect" => draft.protect = each(list, Protected::parse)?,
                "unprotect" => draft.unprotect = each(list, Protected::parse)?,
                "environment" => draft.environment = Some(each(list, Variable::shipped)?),
                "require" => draft.require = each(list, Word::parse)?.into_iter().collect(),
                "allow" => draft.rules.extend(each(list, reachable::allowed)?),
                "deny" => draft.rules.extend(each(list, reachable::denied)?),
                "presets" => draft.presets = each(list, reachable::preset)?,
                other => return Err(unknown(other)),
            }
        }
        for (key, flag) in self.flags {
            match *key {
                "inherit" => draft.inherit = Some(*flag),
                "toolchains" => draft.toolchains = Some(*flag),
                "trace" => draft.trace = Some(*flag),
                other => return Err(unknown(other)),
            }
        }
        draft.set = self.set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        for (name, amount) in self.limits {
            if !draft.limits.put(name, amount)? {
                return Err(unknown(name));
            }
        }
        Ok(draft)
    }
}

fn each<T>(list: &[&str], parse: impl Fn(&str) -> Result<T, BadText>) -> Result<Vec<T>, BadText> {
    list.iter().map(|text| parse(text)).collect()
}

fn unknown(key: &str) -> BadText {
    BadText(format!("unknown key `{key}`"))
}
