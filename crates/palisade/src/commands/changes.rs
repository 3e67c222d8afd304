//! `palisade diff | apply | discard | runs`: what a run with `--overlay` changed, and what becomes of it.
//!
//! Invariants: what a run wrote is shown escaped, so neither a name nor a content can act on a terminal; an act is on
//! the user's own ledger before it is done and again when it is. Not here: reading and carrying over layers
//! (`sandbox::changes`), the sandbox itself (`run`).

mod show;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use ledger::{Decision, Draft};
use sandbox::changes::{
    Apply, ApplyError, Branch, Change, DiscardError, Kept, Left, Record, Undo, UndoError, Why, escaped,
    runs as all_runs,
};
use sandbox::profile::{Class, Profile, Roots};
use sandbox::{Caller, RunId};
use serde_json::{Value, json};

use super::caller::own_home;
use super::record::OwnRecord;
use super::run::Home;
use crate::failure::Failure;
use crate::output::{self, Shown, moment, table};

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::Layer(error.to_string())
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        match &error {
            ApplyError::Conflicts(conflicts) => {
                let paths = conflicts.iter().map(|one| escaped(&one.path)).collect();
                Self::Conflict(error.to_string(), paths)
            }
            other => failed(other),
        }
    }
}

impl From<UndoError> for Failure {
    fn from(error: UndoError) -> Self {
        match &error {
            UndoError::Changed(paths) => {
                let paths = paths.iter().map(|path| escaped(path)).collect();
                Self::Conflict(error.to_string(), paths)
            }
            other => failed(other),
        }
    }
}

impl From<DiscardError> for Failure {
    fn from(error: DiscardError) -> Self {
        failed(&error)
    }
}

/// A run that keeps its changes, from before its launch to its end; forgotten if it never ran.
pub(super) struct Layered(Option<Kept>);

impl Layered {
    /// Makes an empty layer for a run.
    pub(super) fn new(
        caller: &Caller,
        run: &RunId,
        profile: &Profile,
        command: &[OsString],
    ) -> Result<Self, Failure> {
        let broken = |error: &dyn std::fmt::Display| Failure::Sandbox(error.to_string(), 125);
        let words = output::kept_words(command);
        let unprotect = profile.unprotect.iter().map(ToString::to_string).collect();
        let record = Record::begin(run.as_str(), &caller.worktree, words, profile.name.as_str(), unprotect);
        let record = record.map_err(|error| broken(&error))?;
        Kept::create(&caller.run_folder, record).map(|kept| Self(Some(kept))).map_err(|error| broken(&error))
    }

    /// Says what the run changed and what can be done with it. `branch` waits for that.
    pub(super) fn end(mut self, is_json: bool, branch: Option<Branch>) -> Value {
        let Some(mut kept) = self.0.take() else { return Value::Null };
        let waits = branch.is_some();
        if let Some(branch) = branch {
            kept.committed(branch);
        }
        if let Err(error) = kept.ended() {
            output::tell(&error.to_string());
        }
        let changes = match kept.changes() {
            Ok(changes) => changes,
            Err(error) => {
                output::tell(&format!("the changes of the run cannot be read: {error}"));
                return Value::Null;
            }
        };
        let count = show::count(&changes);
        if changes.is_empty() && !waits {
            // There is nothing to look at, and nothing to list.
            let _ = kept.forget();
            return json!({ "changed": 0, "kept": null });
        }
        if !is_json {
            let files = if count == 1 { "file" } else { "files" };
            output::tell(&format!(
                "{count} {files} changed, in a layer: `palisade diff` shows, `palisade apply` keeps, `palisade discard` drops"
            ));
        }
        json!({ "changed": count, "kept": kept.record().run })
    }
}

impl Drop for Layered {
    fn drop(&mut self) {
        if let Some(kept) = self.0.take() {
            let _ = kept.forget();
        }
    }
}

/// Puts an act on the user's own ledger: before it is done (`Allowed`), and what came of it.
///
/// This is the one place where `apply`, `undo` and `discard` are recorded.
fn record(
    home: &Home,
    run: &RunId,
    act: &'static str,
    decision: Decision,
    details: &[(&'static str, String)],
) -> Result<(), Failure> {
    let who = format!("uid:{}", rustix::process::getuid().as_raw());
    let mut draft = Draft::new(&who, act, decision).on(run.as_str());
    for (name, value) in details {
        draft = draft.with(*name, value.clone());
    }
    let record = OwnRecord::open(&home.state)?;
    match decision {
        // No record, no effect.
        Decision::Allowed => record.append(&draft).map(|_| ()),
        _ => record.append_narrowing(&draft),
    }
}

/// Records the end of an act and gives its outcome; an act that was done stays done if its end cannot be recorded.
fn recorded<T, E: std::fmt::Display + Into<Failure>>(
    home: &Home,
    run: &RunId,
    act: &'static str,
    outcome: Result<T, E>,
    details: impl Fn(&T) -> Vec<(&'static str, String)>,
) -> Result<T, Failure> {
    let (decision, details) = match &outcome {
        Ok(done) => (Decision::Done, details(done)),
        Err(error) => (Decision::Failed, vec![("error", error.to_string())]),
    };
    if let Err(unrecorded) = record(home, run, act, decision, &details) {
        output::tell(&format!("what was done could not be recorded: {unrecorded}"));
    }
    outcome.map_err(Into::into)
}

/// The run that was named first, or the newest of the worktree that we stand in; and the other words.
fn chosen<'w>(home: &Home, words: &'w [OsString]) -> Result<(RunId, &'w [OsString]), Failure> {
    let all = all_runs(&home.state).map_err(|error| failed(&error))?;
    let named = words.split_first().filter(|(first, _)| first.as_bytes().starts_with(b"run_"));
    let (name, rest) = match named {
        Some((first, rest)) => {
            let mut found = all.iter().filter(|one| one.record.run.as_bytes().starts_with(first.as_bytes()));
            let (one, other) = (found.next(), found.next());
            let text = escaped(Path::new(first));
            let one = one.ok_or_else(|| {
                Failure::NotFound(format!("there is no run `{text}`; `palisade runs` lists them"))
            })?;
            if other.is_some() {
                return Err(Failure::NotFound(format!(
                    "`{text}` begins the names of several runs; give more of it"
                )));
            }
            (one.record.run.clone(), rest)
        }
        None => {
            let here = std::env::current_dir().and_then(|path| path.canonicalize());
            let here = here
                .map_err(|error| Failure::Usage(format!("the current directory cannot be used: {error}")))?;
            let newest = all.iter().find(|one| here.starts_with(&one.record.worktree));
            let none = || {
                Failure::NotFound("no run with `--overlay` has worked here; `palisade runs` lists all".into())
            };
            (newest.ok_or_else(none)?.record.run.clone(), words)
        }
    };
    let run =
        name.parse().map_err(|error: sandbox::receipt::BadRunId| Failure::NotFound(error.to_string()))?;
    Ok((run, rest))
}

/// Paths as they were typed, relative to the worktree.
fn relative(worktree: &Path, typed: &[OsString]) -> Result<Vec<PathBuf>, Failure> {
    let here =
        std::env::current_dir().and_then(|path| path.canonicalize()).unwrap_or_else(|_| worktree.to_owned());
    let here = if here.starts_with(worktree) { here } else { worktree.to_owned() };
    let normal = |path: &Path| {
        let mut out = PathBuf::new();
        for part in here.join(path).components() {
            match part {
                Component::ParentDir => drop(out.pop()),
                Component::CurDir => {}
                other => out.push(other),
            }
        }
        out
    };
    let below = |text: &OsString| {
        let path = normal(Path::new(text));
        let below = path.strip_prefix(worktree).map(Path::to_owned);
        below.map_err(|_| {
            Failure::Usage(format!("`{}` is not in the worktree of the run", escaped(Path::new(text))))
        })
    };
    let paths: Vec<PathBuf> = typed.iter().map(below).collect::<Result<_, _>>()?;
    // The worktree itself is everything.
    Ok(if paths.iter().any(|path| path.as_os_str().is_empty()) { Vec::new() } else { paths })
}

/// The rules about control files that the run had.
fn rules(record: &Record) -> Result<Profile, Failure> {
    let roots = Roots { home: own_home(), worktree: record.worktree.clone() };
    Profile::guarding(&roots, &record.unprotect).map_err(|error| failed(&error))
}

/// `palisade diff`.
pub(super) fn diff(config: Option<&Path>, words: &[OsString], stat: bool) -> Result<Shown, Failure> {
    let home = Home::find(config);
    let (run, typed) = chosen(&home, words)?;
    // Alone if nobody uses it: then what is unreadable can be opened, too.
    let kept = Kept::take(&home.state, &run)
        .or_else(|_| Kept::look(&home.state, &run))
        .map_err(|error| failed(&error))?;
    let paths = relative(&kept.record().worktree, typed)?;
    let is_asked =
        |change: &Change| paths.is_empty() || paths.iter().any(|path| change.path.starts_with(path));
    let mut changes = kept.changes().map_err(|error| failed(&error))?;
    changes.retain(is_asked);
    let rules = rules(kept.record())?;
    Ok(show::diff(&kept, &changes, &rules, stat))
}

/// `palisade apply`.
pub(super) fn apply(
    config: Option<&Path>,
    words: &[OsString],
    force: bool,
    with_control: bool,
) -> Result<Shown, Failure> {
    let home = Home::find(config);
    let (run, typed) = chosen(&home, words)?;
    // Its commits come along only if they were taken over.
    super::unfinished::of(&home, &run);
    let mut kept = Kept::take(&home.state, &run).map_err(|error| failed(&error))?;
    let rules = rules(kept.record())?;
    let paths = relative(&kept.record().worktree, typed)?;
    let asked = Apply { paths, force, with_control, control: &|path| rules.control_of(path) };
    let worktree = ("worktree", escaped(&kept.record().worktree));
    let how = [worktree, ("force", force.to_string()), ("control", with_control.to_string())];
    record(&home, &run, "run.apply", Decision::Allowed, &how)?;
    let done = recorded(&home, &run, "run.apply", kept.apply(&asked), |done| {
        vec![("carried", done.carried.len().to_string()), ("left", done.left.len().to_string())]
    })?;
    let mut text = String::new();
    if done.rolled_back {
        text.push_str("a former apply had been cut off; it was rolled back first\n");
    }
    for (path, word) in &done.carried {
        text.push_str(&format!("{}  {}\n", show::letter(word), escaped(path)));
    }
    for left in &done.left {
        text.push_str(&format!("not applied: {}: {}\n", escaped(&left.path), why(left)));
    }
    let watched: Vec<String> = done.carried.iter().filter_map(|(path, _)| watched(&rules, path)).collect();
    watched.iter().for_each(|line| text.push_str(&format!("look at: {line}\n")));
    text.extend(done.branch.iter().map(show::branch));
    let moved = done.branch.as_ref().is_some_and(show::has_moved);
    text.push_str(&match done.carried.len() {
        0 if !moved => "nothing was applied\n".to_owned(),
        count => format!("{count} applied; `palisade apply --undo {run}` takes it back\n"),
    });
    let carried: Vec<Value> =
        done.carried.iter().map(|(path, word)| json!({ "path": escaped(path), "kind": word })).collect();
    let left: Vec<Value> =
        done.left.iter().map(|left| json!({ "path": escaped(&left.path), "why": why(left) })).collect();
    let json = json!({
        "run": run.as_str(), "applied": carried, "left": left, "look_at": watched,
        "branch": done.branch.as_ref().map(show::branch_value), "rolled_back": done.rolled_back,
    });
    Ok(Shown::new(&json, text))
}

/// Control files that are ordinary work at times are carried over, and named.
fn watched(rules: &Profile, path: &Path) -> Option<String> {
    let control = rules.control_of(path).filter(|control| control.class == Class::Watch)?;
    Some(format!("{}: {}", escaped(path), control.why))
}

fn why(left: &Left) -> String {
    match &left.why {
        Why::Control(control) => format!("a control file ({}); `--control` carries it over", control.why),
        Why::NotPlain(what) => format!("a {} is never applied", what.word()),
        Why::NotChosen => "a part of it was not asked for".to_owned(),
    }
}

/// `palisade apply --undo`.
pub(super) fn undo(config: Option<&Path>, words: &[OsString], force: bool) -> Result<Shown, Failure> {
    let home = Home::find(config);
    let (run, rest) = chosen(&home, words)?;
    if !rest.is_empty() {
        return Err(Failure::Usage("`--undo` takes back everything of a run; leave the paths out".into()));
    }
    let mut kept = Kept::take(&home.state, &run).map_err(|error| failed(&error))?;
    record(&home, &run, "run.undo", Decision::Allowed, &[("force", force.to_string())])?;
    let done = recorded(&home, &run, "run.undo", kept.undo(Undo { force }), |done| {
        vec![("restored", done.restored.len().to_string()), ("kept", done.kept.len().to_string())]
    })?;
    let mut text = String::new();
    for path in &done.kept {
        text.push_str(&format!("kept: {}: something else is in it now\n", escaped(path)));
    }
    text.extend(done.branch.iter().map(show::branch));
    text.push_str(&format!("{} paths are as they were before the apply\n", done.restored.len()));
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| escaped(path)).collect::<Vec<_>>();
    let branch = done.branch.as_ref().map(show::branch_value);
    let json = json!({
        "run": run.as_str(), "restored": paths(&done.restored), "kept": paths(&done.kept), "branch": branch,
    });
    Ok(Shown::new(&json, text))
}

/// `palisade discard`.
pub(super) fn discard(config: Option<&Path>, words: &[OsString], forget: bool) -> Result<Shown, Failure> {
    let home = Home::find(config);
    let (run, rest) = chosen(&home, words)?;
    if !rest.is_empty() {
        return Err(Failure::Usage("`discard` drops a whole layer; leave the paths out".into()));
    }
    super::unfinished::of(&home, &run);
    let mut kept = Kept::take(&home.state, &run).map_err(|error| failed(&error))?;
    record(&home, &run, "run.discard", Decision::Allowed, &[("forget", forget.to_string())])?;
    let outcome = if forget { kept.forget() } else { kept.discard() };
    let rolled_back = recorded(&home, &run, "run.discard", outcome, |_| Vec::new())?;
    let first = if rolled_back { "a former apply had been cut off; it was rolled back first\n" } else { "" };
    let text = format!("{first}the changes of {run} are gone\n");
    Ok(Shown::new(&json!({ "run": run.as_str(), "discarded": true, "rolled_back": rolled_back }), text))
}

/// `palisade runs`.
pub(super) fn runs(config: Option<&Path>) -> Result<Shown, Failure> {
    let all = all_runs(&Home::find(config).state).map_err(|error| failed(&error))?;
    let state = |one: &sandbox::changes::Listed| match (one.record.state, one.in_use) {
        (sandbox::changes::State::Running, false) => "interrupted",
        _ if one.is_torn && !one.in_use => "apply cut off",
        (state, _) => state.word(),
    };
    let millis = |nanos: i64| nanos.div_euclid(1_000_000);
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            let command: String = one.record.command.join(" ").chars().take(40).collect();
            let began = moment(millis(one.record.started));
            vec![one.record.run.clone(), state(one).to_owned(), began, escaped(&one.record.worktree), command]
        })
        .collect();
    let json: Vec<Value> = all
        .iter()
        .map(|one| {
            json!({
                "run": one.record.run, "state": state(one), "started": millis(one.record.started),
                "ended": one.record.ended.map(millis), "worktree": escaped(&one.record.worktree),
                "command": one.record.command, "profile": one.record.profile,
            })
        })
        .collect();
    let text = if rows.is_empty() {
        "no run kept its changes; `palisade run --overlay` does\n".to_owned()
    } else {
        table(&["RUN", "STATE", "BEGAN", "WORKTREE", "COMMAND"], &rows)
    };
    Ok(Shown::new(&json, text))
}
