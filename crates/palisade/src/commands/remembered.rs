//! What a person allowed for good, project by project: the answers "always" to a question of a run.
//!
//! Invariants: it lies with the configuration, where no sandbox writes; it is replaced as a whole; a record with anything odd
//! in it is refused as a whole, and then nothing of it holds.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ledger::{Decision, Draft};
use rules::{Rule, Rules};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::catalog;
use super::record::OwnRecord;
use super::run::{self, Home};
use crate::credentials::hold_beside;
use crate::failure::Failure;
use crate::output::{Shown, table};

/// The record, in the folder of the configuration.
const FILE: &str = "remembered.toml";

/// How long another may change it; a run that asks does nothing else meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// All of it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Book {
    #[serde(default)]
    allowed: Vec<Allowed>,
}

/// One answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    /// The worktree that it holds in.
    project: String,
    /// When it was given: `2026-11-15`.
    day: String,
    rule: Rule,
}

fn read(config: &Path) -> Result<Book, Failure> {
    let path = config.join(FILE);
    let Some(bytes) = run::bytes(&path).map_err(Failure::file(&path))? else { return Ok(Book::default()) };
    let wrong = |error: String| {
        Failure::Sandbox(format!("{}: {error}; correct it, or move it away", path.display()), 125)
    };
    let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
    let book: Book = toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
    for allowed in &book.allowed {
        Rules::compile(vec![allowed.rule.clone()]).map_err(|faults| wrong(faults.to_string()))?;
    }
    Ok(book)
}

/// What was allowed for good in a project.
pub(super) fn rules(config: &Path, project: &Path) -> Result<Vec<Rule>, Failure> {
    let project = project.to_string_lossy();
    let book = read(config)?;
    Ok(book.allowed.into_iter().filter(|one| one.project == project).map(|one| one.rule).collect())
}

/// Changes the record while nobody else does.
fn change<T>(config: &Path, change: impl FnOnce(&mut Book) -> T) -> Result<T, Failure> {
    let path = config.join(FILE);
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(config).map_err(Failure::file(config))?;
    let _alone = hold_beside(&path, PATIENCE)?;
    let mut book = read(config)?;
    let changed = change(&mut book);
    let text = toml::to_string(&book).map_err(|error| Failure::Program(error.to_string()))?;
    let root = files::Root::open(config).map_err(Failure::file(config))?;
    root.write(Path::new(FILE), text.as_bytes()).map_err(|error| Failure::file(&path)(error.into()))?;
    Ok(changed)
}

/// Allows this for good in a project.
pub(super) fn add(config: &Path, project: &Path, day: &str, rule: &Rule) -> Result<(), Failure> {
    let project = project.to_str().map(str::to_owned);
    let project =
        project.ok_or_else(|| Failure::Usage("the path of this project is no text; move it first".into()))?;
    change(config, |book| {
        let is_it = |one: &Allowed| {
            one.project == project && one.rule.host == rule.host && one.rule.ports == rule.ports
        };
        book.allowed.retain(|one| !is_it(one));
        book.allowed.push(Allowed { project, day: day.to_owned(), rule: rule.clone() });
    })
}

/// Everything that was allowed for good.
pub(super) fn list(home: &Home) -> Result<Shown, Failure> {
    let book = read(&home.config)?;
    let place = |rule: &Rule| format!("{}:{}", rule.host, rule.ports.first().copied().unwrap_or_default());
    let rows: Vec<Vec<String>> =
        book.allowed.iter().map(|one| vec![one.project.clone(), place(&one.rule), one.day.clone()]).collect();
    let text = match rows.is_empty() {
        true => "nothing was allowed for good\n".to_owned(),
        false => table(&["PROJECT", "HOST", "SINCE"], &rows),
    };
    let told: Vec<_> = book
        .allowed
        .iter()
        .map(
            |one| json!({"project": one.project, "host": place(&one.rule), "day": one.day, "rule": one.rule}),
        )
        .collect();
    Ok(Shown::new(&told, text))
}

/// Takes something back, in the project here or in all; runs at work keep what they were started with.
pub(super) fn forget(home: &Home, host: &str, everywhere: bool) -> Result<Shown, Failure> {
    let wanted = Rules::allowing(host).map_err(|what| Failure::Usage(what.to_string()))?;
    let project: PathBuf = super::caller::caller(home, catalog::NOBODYS)?.worktree;
    let project = project.to_string_lossy().into_owned();
    let gone = change(&home.config, |book| {
        let before = book.allowed.len();
        let is_it = |one: &Allowed| {
            (everywhere || one.project == project)
                && one.rule.host == wanted.host
                && one.rule.ports == wanted.ports
        };
        book.allowed.retain(|one| !is_it(one));
        before - book.allowed.len()
    })?;
    if gone == 0 {
        return Err(Failure::NotFound(format!(
            "`{host}` was not allowed for good here; `palisade profile remembered` shows what was"
        )));
    }
    let draft = Draft::new(run::who(), "network.forget", Decision::Done).with("host", wanted.host.clone());
    let draft = draft.with("port", wanted.ports.first().copied().unwrap_or_default().to_string());
    OwnRecord::open(&home.state)?.append_narrowing(&draft)?;
    Ok(Shown::new(&json!({ "forgotten": gone }), "taken back; the next run asks again\n"))
}
