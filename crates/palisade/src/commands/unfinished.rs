//! Ends runs whose launcher was killed: stubs go, commits are taken over, what was planted is put away, and the end is on the record.
//!
//! It happens at the next run in the same worktree, and by `palisade doctor` everywhere. Not here: what has to be done
//! (`sandbox::CutOff`).

use std::path::Path;

use sandbox::changes::{Kept, RunError, State};
use sandbox::receipt::{End, Exit, end_draft};
use sandbox::{CutOff, RunId};
use serde_json::{Value, json};

use super::caller::own_home;
use super::ending;
use super::record::OwnRecord;
use super::run::{Home, who};
use crate::failure::Failure;
use crate::output;

/// What became of one of them.
pub(super) struct Finished {
    /// For a person, a line each.
    pub(super) lines: Vec<String>,
    /// For a program.
    pub(super) value: Value,
}

/// Ends those that worked in this directory, and says so.
pub(super) fn before(home: &Home, worktree: &Path) {
    those(home, |place, _| place == worktree);
}

/// Ends this one, if it was cut off, and says so.
pub(super) fn of(home: &Home, run: &RunId) {
    those(home, |_, one| one == run);
}

fn those(home: &Home, is_one: impl Fn(&Path, &RunId) -> bool) {
    match all(home, is_one) {
        Ok(all) => all.iter().flat_map(|one| &one.lines).for_each(|line| output::tell(line)),
        Err(error) => output::tell(&error.to_string()),
    }
}

/// Ends all of them. What cannot be ended is told and tried again next time: a run of today need not fail for one of yesterday.
pub(super) fn everywhere(home: &Home) -> Result<Vec<Finished>, Failure> {
    all(home, |_, _| true)
}

fn all(home: &Home, is_one: impl Fn(&Path, &RunId) -> bool) -> Result<Vec<Finished>, Failure> {
    let failed = |error| Failure::Program(format!("runs that were cut off cannot be listed: {error}"));
    let all = sandbox::cut_off(&home.state, is_one).map_err(failed)?;
    let finished = |cut: CutOff| {
        let run = cut.run().clone();
        finish(home, cut).unwrap_or_else(|failure| {
            let why = format!("`{run}` was cut off and could not be ended: {failure}");
            Finished { value: json!({ "run": run.as_str(), "left": why }), lines: vec![why] }
        })
    };
    Ok(all.into_iter().map(finished).collect())
}

fn finish(home: &Home, cut: CutOff) -> Result<Finished, Failure> {
    let run = cut.run().clone();
    let failed = |error: &dyn std::fmt::Display| Failure::Program(error.to_string());
    let record = OwnRecord::open(&home.state)?;
    // Nobody else uses its layer meanwhile. One that was discarded has none; its commits are kept all the same.
    let mut kept = match cut.is_layered().then(|| Kept::take(&home.state, &run)).transpose() {
        Ok(kept) => kept.filter(|kept| kept.record().state == State::Ended),
        Err(RunError::NotFound(_)) => None,
        Err(error) => return Err(failed(&error)),
    };
    if cut.launch().is_some() {
        output::tell(&format!("the launcher of `{run}` was killed; what it left is seen to first"));
    }
    let late = cut.finish(&own_home()).map_err(|error| failed(&error))?;
    if let Some(kept) = &mut kept {
        if let Some(branch) = ending::waiting(&late.ending) {
            kept.committed(branch);
        }
        kept.ended().map_err(|error| failed(&error))?;
    }
    if let Some(launch) = cut.launch().filter(|_| !cut.is_recorded()) {
        let lasted = cut.lasted().unwrap_or_default();
        let end = End {
            exit: Exit::Unknown,
            duration_ms: u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX),
            launch: Some(launch),
            findings: ending::findings(&late.ending),
        };
        record.append_narrowing(&end_draft(&who(), &run, &end))?;
        cut.recorded().map_err(|error| failed(&error))?;
    }
    let mut lines = ending::lines(&late.ending);
    lines.extend(
        late.left
            .as_ref()
            .map(|why| format!("commits of `{run}` stay where they are until next time: {why}")),
    );
    let (commits, findings) = ending::value(&late.ending);
    let place = output::kept(&cut.worktree().to_string_lossy());
    let value = json!({ "run": run.as_str(), "worktree": place, "commits": commits, "findings": findings, "left": late.left });
    let is_done = late.left.is_none();
    late.release();
    if is_done {
        cut.done().map_err(|error| failed(&error))?;
    }
    Ok(Finished { lines, value })
}
