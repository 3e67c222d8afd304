//! The record of which projects' asks a person consented to: text in, text out.
//!
//! One line each: the hash of the file, the day, the path of the file. Invariant: a consent holds for these
//! bytes at this path; changed bytes, or the same in another clone, are asked about again. A record with
//! anything odd in it is refused as a whole. Not here: files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::names::{is_plain, shown};
use super::project::ContentHash;

const HEADER: &str = "# palisade consents, version 1: hash of the profile, day, its path";

/// Why a record of consents is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsentError {
    /// A line that is none.
    #[error("{0}:{1}: {2}; take the line out and consent again with `palisade profile consent`")]
    Line(PathBuf, usize, String),
    /// Not such a record at all.
    #[error("{0}: {1}; move it away and consent again with `palisade profile consent`")]
    File(PathBuf, &'static str),
    /// A path that cannot be recorded.
    #[error("`{0}` cannot be recorded: expected an absolute path on one line")]
    Path(String),
    /// A day that cannot be recorded.
    #[error("`{0}` cannot be recorded: expected a day such as `2025-01-31`")]
    Day(String),
}

/// One consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// What was consented to.
    pub hash: ContentHash,
    /// When: `2025-01-31`.
    pub day: String,
    /// The project's file.
    pub path: PathBuf,
}

/// Every consent of one person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consents(Vec<Consent>);

impl Consents {
    /// Reads a record; an empty one is no consent.
    pub fn parse(bytes: &[u8], file: &Path) -> Result<Self, ConsentError> {
        let whole = |why| ConsentError::File(file.to_owned(), why);
        if bytes.len() > 1 << 20 {
            return Err(whole("longer than 1 MiB"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| whole("not UTF-8"))?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        if !text.ends_with('\n') {
            return Err(whole("cut off in the last line"));
        }
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, first)| first != HEADER) {
            return Err(whole("not a record of consents of this version"));
        }
        let mut all: Vec<Consent> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (at, line) in lines {
            let bad = |why: String| ConsentError::Line(file.to_owned(), at + 1, why);
            let consent = consent(line).map_err(bad)?;
            if !seen.insert((consent.hash, consent.path.clone())) {
                return Err(bad("the same consent twice".to_owned()));
            }
            all.push(consent);
        }
        Ok(Self(all))
    }

    /// Whether these bytes at this path were consented to.
    #[must_use]
    pub fn holds(&self, hash: &ContentHash, path: &Path) -> bool {
        self.0.iter().any(|consent| consent.hash == *hash && consent.path == path)
    }

    /// Adds one, in place of an older one for the same path.
    pub fn add(&mut self, hash: ContentHash, day: &str, path: &Path) -> Result<(), ConsentError> {
        if !is_day(day) {
            return Err(ConsentError::Day(shown(day)));
        }
        let text = path.to_str().filter(|text| is_path(text));
        let path = text.ok_or_else(|| ConsentError::Path(shown(&path.to_string_lossy())))?;
        self.withdraw(Path::new(path));
        self.0.push(Consent { hash, day: day.to_owned(), path: path.into() });
        Ok(())
    }

    /// Takes back what was consented to for a path; whether there was any.
    pub fn withdraw(&mut self, path: &Path) -> bool {
        let before = self.0.len();
        self.0.retain(|consent| consent.path != path);
        self.0.len() < before
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Consent] {
        &self.0
    }

    /// The record.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for consent in &self.0 {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} {} {}", consent.hash, consent.day, consent.path.display());
        }
        text
    }
}

fn consent(line: &str) -> Result<Consent, String> {
    let mut parts = line.splitn(3, ' ');
    let (Some(hash), Some(day), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected a hash, a day and a path".to_owned());
    };
    let hash = ContentHash::parse(hash).map_err(|why| why.to_string())?;
    if !is_day(day) {
        return Err(format!("expected a day such as `2025-01-31`, found `{}`", shown(day)));
    }
    if !is_path(path) {
        return Err(format!("expected an absolute path, found `{}`", shown(path)));
    }
    Ok(Consent { hash, day: day.to_owned(), path: path.into() })
}

fn is_path(text: &str) -> bool {
    text.len() <= 4_095 && text.chars().all(is_plain) && super::place::is_rooted(Path::new(text))
}

fn is_day(text: &str) -> bool {
    let number = |text: Option<&str>, digits: usize| {
        text.filter(|text| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse::<u32>().ok())
    };
    let mut parts = text.split('-');
    let (year, month, day) = (number(parts.next(), 4), number(parts.next(), 2), number(parts.next(), 2));
    parts.next().is_none()
        && year.is_some()
        && month.is_some_and(|month| (1..=12).contains(&month))
        && day.is_some_and(|day| (1..=31).contains(&day))
}
