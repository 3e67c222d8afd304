//! Turns text into the names a profile is made of: profiles, file names, environment variables.
//!
//! Invariant: a name that was parsed holds no control or invisible character, so it can be shown to a person
//! and means what it looks like. Not here: paths (`place`).

use std::fmt;

use super::environment;

/// Why a piece of text is not used. Says what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadText(pub(super) String);

impl BadText {
    pub(super) fn expected(what: &str, found: &str) -> Self {
        Self(format!("expected {what}, found `{}`", shown(found)))
    }
}

/// Text for a message: cut to a line's length, with nothing in it that moves a cursor.
pub(super) fn shown(text: &str) -> String {
    let clean = text.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' });
    let mut out: String = clean.take(80).collect();
    if out.len() < text.len() && text.chars().nth(80).is_some() {
        out.push('…');
    }
    out
}

/// Whether a character shows itself: no control character, no mark that hides or turns text around.
pub(super) fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    !c.is_control() && !redact::is_unseen(c)
}

/// Names one profile: small letters, digits and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// A name, or why not.
    pub fn parse(text: &str) -> Result<Self, BadText> {
        let fits = (1..=64).contains(&text.len())
            && !text.starts_with('-')
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        let expected = "a name of small letters, digits and `-`, at most 64";
        if fits { Ok(Self(text.to_owned())) } else { Err(BadText::expected(expected, text)) }
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Stands for file names at any depth: `.env`, `.env.*`, `*.pem`. `*` is any run of characters.
///
/// Capitals do not matter (ASCII): `.ENV` is as secret as `.env`, and some file systems hold them equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamePattern(String);

impl NamePattern {
    /// A pattern, or why not.
    pub fn parse(text: &str) -> Result<Self, BadText> {
        let fits = (1..=128).contains(&text.len())
            && text
                .chars()
                .all(|c| is_plain(c) && !matches!(c, '/' | '?' | '[' | ']' | '{' | '}' | '\\' | '!'))
            && text.chars().any(|c| c != '*' && c != '.')
            && !text.contains("**");
        let expected = "a file name such as `.env` or `*.pem` (`*` is the only wildcard, no `/`)";
        if fits { Ok(Self(text.to_owned())) } else { Err(BadText::expected(expected, text)) }
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a file name is one of these.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        glob(self.0.as_bytes(), name)
    }

    /// Whether some file name could be in both. Errs to yes.
    #[must_use]
    pub fn may_overlap(&self, other: &Self) -> bool {
        let (Some((a, _)), Some((b, _))) = (self.0.split_once('*'), other.0.split_once('*')) else {
            let plain = if self.0.contains('*') { (other, self) } else { (self, other) };
            return plain.1.matches(plain.0.0.as_bytes());
        };
        let end = |text: &'_ str| text.len() - text.rfind('*').map_or(0, |star| star + 1);
        let (y, z) = (self.0.bytes().rev().take(end(&self.0)), other.0.bytes().rev().take(end(&other.0)));
        agree(a.bytes(), b.bytes()) && agree(y, z)
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether one begins as the other does, as far as both go.
fn agree(a: impl Iterator<Item = u8>, b: impl Iterator<Item = u8>) -> bool {
    a.zip(b).all(|(a, b)| a.eq_ignore_ascii_case(&b))
}

/// Whether `name` is what `pattern` stands for; `*` is any run of bytes, capitals do not matter.
pub(super) fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last star: the pattern behind it, and one byte further in the name.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(n) {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, n));
            }
            Some(wanted) if wanted.eq_ignore_ascii_case(byte) => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    p = after;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

/// An environment variable, or all that begin so: `TERM`, `LC_*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable {
    stem: String,
    open: bool,
}

impl Variable {
    /// A name, or a beginning with `*`, or why not.
    pub fn parse(text: &str) -> Result<Self, BadText> {
        let variable = Self::shipped(text)?;
        environment::refuse_steering(&variable.stem)?;
        Ok(variable)
    }

    /// The same for a name of ours, of which a test knows that it steers nothing: a launch does not look again.
    pub(super) fn shipped(text: &str) -> Result<Self, BadText> {
        let (stem, open) = text.strip_suffix('*').map_or((text, false), |stem| (stem, true));
        if !is_variable(stem) {
            return Err(BadText::expected("a variable such as `TERM` or `LC_*`", text));
        }
        if stem.starts_with(OWN) {
            return Err(BadText(format!("`{text}` is Palisade's own and never goes in; take it out")));
        }
        Ok(Self { stem: stem.to_owned(), open })
    }

    /// Whether a variable of this name is meant. A beginning never means one that holds a credential.
    #[must_use]
    pub fn passes(&self, name: &str) -> bool {
        self.is(name) || (self.open && name.starts_with(&self.stem) && Self::any_may_pass(name))
    }

    /// Whether it is this very name.
    pub(super) fn is(&self, name: &str) -> bool {
        !self.open && name == self.stem
    }

    /// Whether a variable of this name may come along without having been named.
    pub(super) fn any_may_pass(name: &str) -> bool {
        is_variable(name)
            && !name.starts_with(OWN)
            && !environment::steers(name)
            && !environment::is_withheld(name)
    }

    /// Whether it brings nothing that would not come along with everything else.
    pub(super) fn is_among_all(&self) -> bool {
        self.open || Self::any_may_pass(&self.stem)
    }

    /// What both stand for.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Option<Self> {
        match (self.covers(other), other.covers(self)) {
            (true, _) => Some(other.clone()),
            (_, true) => Some(self.clone()),
            _ => None,
        }
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        let is_below = |other: &Self| {
            // One that goes in only by its own name is not among those that begin so.
            other.stem.starts_with(&self.stem) && (other.open || Self::any_may_pass(&other.stem))
        };
        if self.open { is_below(other) } else { self == other }
    }

    /// Whether it stands for more than one.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }
}

/// Palisade's own variables: they hold its credentials.
const OWN: &str = "PALISADE_";

pub(super) fn is_variable(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stem, if self.open { "*" } else { "" })
    }
}

/// Which file names are hidden: those of `hide` that are not of `show`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    hide: Vec<NamePattern>,
    show: Vec<NamePattern>,
}

impl Hidden {
    /// Whether a file of this name is hidden, wherever it is and whenever it appears.
    #[must_use]
    pub fn hides(&self, name: &[u8]) -> bool {
        let any = |list: &[NamePattern]| list.iter().any(|pattern| pattern.matches(name));
        any(&self.hide) && !any(&self.show)
    }

    /// The names that are hidden.
    #[must_use]
    pub fn hide(&self) -> &[NamePattern] {
        &self.hide
    }

    /// The names among them that are not.
    #[must_use]
    pub fn show(&self) -> &[NamePattern] {
        &self.show
    }

    /// Hides more. An exception that could touch what is newly hidden is dropped.
    pub(crate) fn add(&mut self, hide: &[NamePattern]) {
        self.show.retain(|shown| !hide.iter().any(|pattern| pattern.may_overlap(shown)));
        for pattern in hide {
            if !self.hide.contains(pattern) {
                self.hide.push(pattern.clone());
            }
        }
    }

    /// Shows some of it again.
    pub(super) fn except(&mut self, show: &[NamePattern]) {
        self.hide.retain(|pattern| !show.contains(pattern));
        for pattern in show {
            if !self.show.contains(pattern) && self.hide.iter().any(|hide| hide.may_overlap(pattern)) {
                self.show.push(pattern.clone());
            }
        }
    }
}
