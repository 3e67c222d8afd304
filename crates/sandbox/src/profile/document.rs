//! Turns the bytes of a profile document into a [`Draft`], or refuses the whole of it with file and line.
//!
//! Documents are closed: an unknown or repeated key, a wrong type, a contradiction, a character that hides, or
//! too much of anything is an error. Invariant: work is bounded by [`MOST_BYTES`] whatever the bytes are.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rules::{Rule, Rules};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::draft::{Draft, Word};
use super::environment;
use super::key::{InProject, KEYS};
use super::names::{BadText, Name, NamePattern, Variable, is_plain, shown};
use super::place::{Place, Protected};
use super::reachable as reach;
use super::show::rules_as_toml;

/// Longest document.
const MOST_BYTES: usize = 65_536;
/// Most values in one document.
const MOST_ENTRIES: usize = 1_000;

/// Why a document is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Too many bytes.
    #[error("{0}: longer than {MOST_BYTES} bytes; make it shorter")]
    Long(PathBuf),
    /// Too many values.
    #[error("{0}:{1}: more than {MOST_ENTRIES} values; make it shorter")]
    Many(PathBuf, usize),
    /// Not TOML, or not text.
    #[error("{0}:{1}: not TOML: {2}")]
    Toml(PathBuf, usize, String),
    /// A key nobody knows.
    #[error("{0}:{1}: unknown key `{2}`; `palisade profile keys` lists all")]
    Unknown(PathBuf, usize, String),
    /// A key that does not belong where it stands.
    #[error("{0}:{1}: `{2}` {3}")]
    Misplaced(PathBuf, usize, String, &'static str),
    /// A value that does not do.
    #[error("{0}:{1}: `{2}`: {3}")]
    Bad(PathBuf, usize, String, String),
    /// Two rules that contradict each other.
    #[error("{file}:{line}: `{value}` is in `{first}` and in `{second}`; keep one")]
    Conflict {
        /// The document.
        file: PathBuf,
        /// Where the second is.
        line: usize,
        /// What is in both.
        value: String,
        /// A key.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
}

/// Whose document it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A person's, or a built-in.
    Person,
    /// A repository's: what narrows.
    Project,
    /// A repository's: what it asks for.
    Ask,
}

/// A person's profile, or a built-in one.
pub(super) fn person(bytes: &[u8], file: &Path) -> Result<Draft, DocumentError> {
    let source = Source::open(bytes, file)?;
    source.draft(source.parse()?.get_ref(), Whose::Person)
}

/// A project's file in its two parts.
pub(super) struct Parts {
    /// What it gives up.
    pub(super) narrows: Draft,
    /// What it asks for.
    pub(super) wants: Draft,
    /// The same, key by key, for people to read.
    pub(super) wishes: Vec<(String, String)>,
}

/// A project's file.
pub(super) fn project(bytes: &[u8], file: &Path) -> Result<Parts, DocumentError> {
    let source = Source::open(bytes, file)?;
    let mut parsed = source.parse()?;
    let Some((key, ask)) = parsed.get_mut().remove_entry("ask") else {
        let narrows = source.draft(parsed.get_ref(), Whose::Project)?;
        return Ok(Parts { narrows, wants: Draft::default(), wishes: Vec::new() });
    };
    let DeValue::Table(table) = ask.get_ref() else {
        return Err(source.bad(key.span(), "ask", "expected a section `[ask]`"));
    };
    let narrows = source.draft(parsed.get_ref(), Whose::Project)?;
    let wants = source.draft(table, Whose::Ask)?;
    let limits = |table: &DeTable<'_>| match table.get("limits").map(Spanned::get_ref) {
        Some(DeValue::Table(limits)) => limits.keys().map(|key| key.get_ref().to_string()).collect(),
        _ => Vec::new(),
    };
    let narrowed = limits(parsed.get_ref());
    if let Some(value) = limits(table).into_iter().find(|name| narrowed.contains(name)) {
        return Err(source.conflict(key.span(), value, "limits", "ask.limits"));
    }
    let mut wishes = Vec::new();
    list(table, "", &mut wishes);
    Ok(Parts { narrows, wants, wishes })
}

/// Every value of a checked table with its key, for people.
fn list(table: &DeTable<'_>, prefix: &str, into: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let key = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => list(inner, &format!("{key}."), into),
            DeValue::Array(items) => {
                into.extend(items.iter().map(|item| (key.clone(), plain(item.get_ref()).into_owned())));
            }
            other => into.push((key, plain(other).into_owned())),
        }
    }
}

/// A document that is text and no bomb.
struct Source<'a> {
    file: &'a Path,
    text: &'a str,
}

impl<'a> Source<'a> {
    fn open(bytes: &'a [u8], file: &'a Path) -> Result<Self, DocumentError> {
        if bytes.len() > MOST_BYTES {
            return Err(DocumentError::Long(file.to_owned()));
        }
        let line = |upto: usize| bytes.iter().take(upto).filter(|byte| **byte == b'\n').count() + 1;
        let toml = |upto, why: &str| DocumentError::Toml(file.to_owned(), line(upto), why.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|error| toml(error.valid_up_to(), "expected UTF-8"))?;
        // ASCII is the common case and is looked at byte by byte. A warning sign in a comment may have its style.
        let odd = |(c, hides): (char, bool)| !matches!(c, '\n' | '\r' | '\t') && (c.is_control() || hides);
        let suspicious = |b: &u8| !b.is_ascii() || b.is_ascii_control();
        if bytes.iter().any(|b| suspicious(b) && *b != b'\n')
            && let Some(((at, c), _)) =
                text.char_indices().zip(redact::hiding(text)).find(|(_, one)| odd(*one))
        {
            let why = format!("character {} does not show itself; take it out", c.escape_unicode());
            return Err(toml(at, &why));
        }
        Ok(Self { file, text })
    }

    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn bad(&self, at: Range<usize>, key: &str, why: impl ToString) -> DocumentError {
        DocumentError::Bad(self.file.to_owned(), self.line(at.start), shown(key), why.to_string())
    }

    fn conflict(
        &self,
        at: Range<usize>,
        value: impl ToString,
        first: &'static str,
        second: &'static str,
    ) -> DocumentError {
        let (file, line) = (self.file.to_owned(), self.line(at.start));
        DocumentError::Conflict { file, line, value: value.to_string(), first, second }
    }

    fn parse(&self) -> Result<Spanned<DeTable<'a>>, DocumentError> {
        let parsed = DeTable::parse(self.text).map_err(|error| {
            let line = error.span().map_or(1, |span| self.line(span.start));
            DocumentError::Toml(self.file.to_owned(), line, shown(error.message()))
        })?;
        let mut left = MOST_ENTRIES;
        self.count(parsed.get_ref(), &mut left)?;
        Ok(parsed)
    }

    /// Refuses what holds too much. Depth is bounded by the parser, and by the keys there are.
    fn count(&self, table: &DeTable<'_>, left: &mut usize) -> Result<(), DocumentError> {
        for (key, value) in table {
            let here = match value.get_ref() {
                DeValue::Array(items) => items.len().max(1),
                DeValue::Table(inner) => {
                    self.count(inner, left)?;
                    1
                }
                _ => 1,
            };
            *left = left
                .checked_sub(here)
                .ok_or_else(|| DocumentError::Many(self.file.to_owned(), self.line(key.span().start)))?;
        }
        Ok(())
    }

    fn draft(&self, table: &DeTable<'_>, whose: Whose) -> Result<Draft, DocumentError> {
        let mut draft = Draft::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            self.belongs(name, key.span(), whose)?;
            self.take(&mut draft, name, key.span(), value, whose)?;
        }
        self.contradictions(&draft, table)?;
        if let Err(faults) = Rules::compile(draft.rules.clone()) {
            let at = ["rule", "allow", "deny"].iter().find_map(|key| table.get(*key));
            let faults: Vec<String> = faults.iter().map(|fault| fault.what.to_string()).collect();
            return Err(self.bad(at.map_or(0..0, Spanned::span), "rule", shown(&faults.join("; "))));
        }
        Ok(draft)
    }

    /// Whether there is such a key, and here.
    fn belongs(&self, name: &str, at: Range<usize>, whose: Whose) -> Result<(), DocumentError> {
        let section = format!("{name}.");
        let known = KEYS.iter().find(|key| key.name == name || key.name.starts_with(&section));
        let prefix = if whose == Whose::Ask { "ask." } else { "" };
        let Some(key) = known else {
            let name = format!("{prefix}{}", shown(name));
            return Err(DocumentError::Unknown(self.file.to_owned(), self.line(at.start), name));
        };
        let why = match (whose, key.project) {
            (Whose::Project | Whose::Ask, InProject::Refused) => {
                "is the person's choice; a project's file only narrows it, take it out"
            }
            (Whose::Project, InProject::Asks) => "adds; move it to the section `[ask]`",
            (Whose::Ask, InProject::Narrows) => "narrows and needs no asking; move it out of `[ask]`",
            (Whose::Person, _)
            | (Whose::Project, InProject::Narrows | InProject::Both)
            | (Whose::Ask, InProject::Asks | InProject::Both) => return Ok(()),
        };
        let name = format!("{prefix}{name}");
        Err(DocumentError::Misplaced(self.file.to_owned(), self.line(at.start), name, why))
    }

    fn take(
        &self,
        draft: &mut Draft,
        name: &str,
        at: Range<usize>,
        value: &Spanned<DeValue<'_>>,
        whose: Whose,
    ) -> Result<(), DocumentError> {
        match name {
            "name" => draft.name = Some(self.one(name, value, Name::parse)?),
            "base" => draft.base = Some((self.one(name, value, Name::parse)?, self.line(at.start))),
            "worktree" => draft.worktree = Some(self.one(name, value, Word::parse)?),
            "read" => draft.read = Some(self.many(name, value, Place::parse)?),
            "write" => draft.write = Some(self.many(name, value, Place::parse)?),
            "hide" => draft.hide = self.many(name, value, NamePattern::parse)?,
            "show" => draft.show = self.many(name, value, NamePattern::parse)?,
            "protect" => draft.protect = self.many(name, value, Protected::parse)?,
            "unprotect" => draft.unprotect = self.many(name, value, unprotected)?,
            "environment" => draft.environment = Some(self.many(name, value, Variable::parse)?),
            "inherit" => draft.inherit = Some(self.flag(name, value, whose)?),
            "toolchains" => draft.toolchains = Some(self.flag(name, value, whose)?),
            "trace" => draft.trace = Some(self.flag(name, value, whose)?),
            "network" => draft.network = Some(self.one(name, value, Word::parse)?),
            "allow" => draft.rules.extend(self.many(name, value, reach::allowed)?),
            "deny" => draft.rules.extend(self.many(name, value, reach::denied)?),
            "presets" => draft.presets = self.many(name, value, reach::preset)?,
            "rule" => draft.rules.extend(self.rules(value, whose)?),
            "require" => draft.require = self.many(name, value, Word::parse)?.into_iter().collect(),
            "set" => {
                for (key, value) in self.table(name, value)? {
                    let (variable, whole) = (key.get_ref().as_ref(), format!("set.{}", key.get_ref()));
                    let text = self.one(&whole, value, environment::value)?;
                    let checked =
                        environment::settable(variable).and_then(|()| Variable::parse(variable).map(drop));
                    checked.map_err(|why| self.bad(key.span(), &whole, why))?;
                    draft.set.insert(variable.to_owned(), text);
                }
            }
            "limits" => {
                for (key, value) in self.table(name, value)? {
                    let whole = format!("limits.{}", key.get_ref());
                    let known = match value.get_ref() {
                        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) => {
                            draft.limits.put(key.get_ref(), &plain(value.get_ref()))
                        }
                        _ => Err(BadText("expected a number or a text".into())),
                    };
                    if !known.map_err(|why| self.bad(value.span(), &whole, why))? {
                        let (line, name) = (self.line(key.span().start), shown(&whole));
                        return Err(DocumentError::Unknown(self.file.to_owned(), line, name));
                    }
                }
            }
            _ => return Err(DocumentError::Unknown(self.file.to_owned(), self.line(at.start), shown(name))),
        }
        Ok(())
    }

    /// Whole rules. They are read from the text again, by those who know them.
    fn rules(&self, value: &Spanned<DeValue<'_>>, whose: Whose) -> Result<Vec<Rule>, DocumentError> {
        if !matches!(value.get_ref(), DeValue::Array(_)) {
            return Err(self.bad(value.span(), "rule", "expected tables `[[rule]]`"));
        }
        let read = reach::read(self.text, whose == Whose::Ask);
        let rules = read.map_err(|(at, why)| self.bad(at.unwrap_or(value.span()), "rule", shown(&why)))?;
        if whose == Whose::Project
            && let Some((at, _)) = rules.iter().find(|(_, rule)| !rule.deny)
        {
            let why = "allows; a project's file narrows with `deny = true`, and asks under `[[ask.rule]]`";
            return Err(self.bad(at.clone(), "rule", why));
        }
        if whose == Whose::Ask
            && let Some((at, _)) = rules.iter().find(|(_, rule)| rule.deny || rule.is_admin_only())
        {
            let why = "only rules that allow are asked for, without `address` and `access = \"pass\"`";
            return Err(self.bad(at.clone(), "rule", why));
        }
        let hides = |rule: &Rule| {
            rules_as_toml(std::slice::from_ref(rule)).chars().any(|c| c != '\n' && !is_plain(c))
        };
        if let Some((at, _)) = rules.iter().find(|(_, rule)| hides(rule)) {
            return Err(self.bad(at.clone(), "rule", "a character does not show itself; take it out"));
        }
        Ok(rules.into_iter().map(|(_, rule)| rule).collect())
    }

    fn one<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        parse: impl Fn(&str) -> Result<T, BadText>,
    ) -> Result<T, DocumentError> {
        match value.get_ref() {
            DeValue::String(text) => parse(text).map_err(|why| self.bad(value.span(), key, why)),
            _ => Err(self.bad(value.span(), key, "expected a text in quotes")),
        }
    }

    /// A list in which nothing comes twice.
    fn many<T: PartialEq>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        parse: impl Fn(&str) -> Result<T, BadText>,
    ) -> Result<Vec<T>, DocumentError> {
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.bad(value.span(), key, "expected a list of texts: `[\"…\"]`"));
        };
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            let one = self.one(key, item, &parse)?;
            if out.contains(&one) {
                let twice = format!("`{}` is there twice; keep one", plain(item.get_ref()));
                return Err(self.bad(item.span(), key, twice));
            }
            out.push(one);
        }
        Ok(out)
    }

    fn flag(&self, key: &str, value: &Spanned<DeValue<'_>>, whose: Whose) -> Result<bool, DocumentError> {
        match (value.get_ref(), whose) {
            (DeValue::Boolean(false), Whose::Ask) => {
                Err(self.bad(value.span(), key, "expected true; move `false` out of `[ask]`"))
            }
            (DeValue::Boolean(flag), _) => Ok(*flag),
            _ => Err(self.bad(value.span(), key, "expected true or false")),
        }
    }

    fn table<'v, 'd>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'d>>,
    ) -> Result<&'v DeTable<'d>, DocumentError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.bad(value.span(), key, "expected a table")),
        }
    }

    /// Rules of one document that cannot both hold.
    fn contradictions(&self, draft: &Draft, table: &DeTable<'_>) -> Result<(), DocumentError> {
        let at = |key: &str| table.get(key).map_or(0..0, Spanned::span);
        let refuse = |value: String, first, second| Err(self.conflict(at(second), value, first, second));
        let none = Vec::new();
        let (read, write) = (draft.read.as_ref().unwrap_or(&none), draft.write.as_ref().unwrap_or(&none));
        if let Some(path) = write.iter().find(|path| read.contains(path)) {
            return refuse(path.to_string(), "read", "write");
        }
        for (key, paths) in [("read", read), ("write", write)] {
            let hidden = |path: &&Place| {
                let text = path.to_string();
                text.rsplit('/')
                    .next()
                    .is_some_and(|name| draft.hide.iter().any(|h| h.matches(name.as_bytes())))
            };
            if let Some(path) = paths.iter().find(hidden) {
                return refuse(path.to_string(), key, "hide");
            }
        }
        for path in write {
            let Place::Worktree(path) = path else { continue };
            let held = |p: &&Protected| path == &p.path || path.starts_with(&format!("{}/", p.path));
            if let Some(protected) = draft.protect.iter().find(held) {
                return refuse(protected.to_string(), "write", "protect");
            }
        }
        if let Some(name) = draft.show.iter().find(|name| draft.hide.contains(name)) {
            return refuse(name.to_string(), "hide", "show");
        }
        if let Some(path) = draft.unprotect.iter().find(|u| draft.protect.iter().any(|p| p.path == u.path)) {
            return refuse(path.to_string(), "protect", "unprotect");
        }
        let passed = draft.environment.iter().flatten();
        let set = |name: &&Variable| draft.set.keys().any(|set| set == &name.to_string());
        match passed.into_iter().find(set) {
            Some(name) => refuse(name.to_string(), "environment", "set"),
            None => Ok(()),
        }
    }
}

/// A control file that may be given up; the profile's own may not.
fn unprotected(text: &str) -> Result<Protected, BadText> {
    let path = Protected::parse(text)?;
    let own = path.path.split('/').next().is_some_and(|first| first.eq_ignore_ascii_case(".palisade"));
    if own { Err(BadText("`.palisade` holds this profile; it stays protected".into())) } else { Ok(path) }
}

/// A value within another: texts stand in quotes, so that none can look like more than one.
fn inner(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => super::show::quoted(text),
        other => plain(other).into_owned(),
    }
}

fn plain<'v>(value: &'v DeValue<'_>) -> Cow<'v, str> {
    match value {
        DeValue::String(text) => Cow::Borrowed(text),
        DeValue::Integer(number) => Cow::Owned(number.to_string().replace('_', "")),
        DeValue::Float(number) => Cow::Borrowed(number.as_str()),
        DeValue::Boolean(flag) => Cow::Borrowed(if *flag { "true" } else { "false" }),
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| inner(item.get_ref())).collect();
            Cow::Owned(format!("[{}]", items.join(", ")))
        }
        DeValue::Table(table) => {
            // What a rule is called, and why it is wanted, are its writer's words and change nothing.
            let says = |key: &str| key != "label" && key != "reason";
            let rows = table.iter().filter(|(key, _)| says(key.get_ref()));
            let rows =
                rows.map(|(key, value)| format!("{}: {}", shown(key.get_ref()), inner(value.get_ref())));
            Cow::Owned(rows.collect::<Vec<_>>().join(", "))
        }
        DeValue::Datetime(_) => Cow::Borrowed("…"),
    }
}
