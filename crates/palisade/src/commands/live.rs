//! Runs that are at work: who they are, standing still, ending, and one more command inside.

use std::path::Path;
use std::process::ExitCode;

use ledger::{Decision, Draft};
use sandbox::{Ask, Control, Permit, RunId, Said};
use serde_json::json;

use super::record::OwnRecord;
use super::run::{self, Home};
use crate::cli::{RunArgs, ShellArgs};
use crate::failure::Failure;
use crate::output::{Shown, table};
use crate::session::Session;

/// Where the sockets of runs at work are.
pub(super) fn folder(home: &Home) -> std::path::PathBuf {
    home.state.join("live")
}

/// Every run at work.
pub(super) fn list(config: Option<&Path>) -> Result<Shown, Failure> {
    let folder = folder(&Home::find(config));
    let found = Control::list(&folder).map_err(Failure::file(&folder))?;
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(run, said)| {
            let state = if said.frozen { "frozen" } else { "running" };
            vec![run.to_string(), said.pid.to_string(), state.into(), said.command.clone()]
        })
        .collect();
    let told: Vec<_> = found
        .iter()
        .map(|(run, said)| json!({ "run": run.as_str(), "pid": said.pid, "frozen": said.frozen, "command": said.command }))
        .collect();
    let text = if rows.is_empty() {
        "nothing is running\n".into()
    } else {
        table(&["RUN", "PID", "STATE", "COMMAND"], &rows)
    };
    Ok(Shown::new(&told, text))
}

/// Tells a run something, and puts it on the record.
pub(super) fn tell(config: Option<&Path>, name: Option<&str>, ask: Ask) -> Result<Shown, Failure> {
    let home = Home::find(config);
    let run = named(&home, name)?;
    let (action, word, done) = match ask {
        Ask::Freeze => ("sandbox.freeze", "stands still", "frozen"),
        Ask::Thaw => ("sandbox.thaw", "goes on", "running"),
        Ask::Offline => ("sandbox.offline", "reaches nothing any more", "offline"),
        Ask::Stop => ("sandbox.stop", "is being stopped", "gone"),
        Ask::Kill => ("sandbox.kill", "is ended", "gone"),
        Ask::Tell | Ask::Plan | Ask::Rules => return Err(Failure::Usage("there is nothing to do".into())),
    };
    let record = OwnRecord::open(&home.state)?;
    let draft = |decision, why: &str| Draft::new(run::who(), action, decision).on(run.as_str()).because(why);
    if ask == Ask::Thaw {
        // Letting something go on is recorded before it happens.
        record.append(&draft(Decision::Allowed, "asked by its user"))?;
    }
    let said = asked(&home, &run, ask)?;
    if let Some(why) = &said.why {
        record.append_narrowing(&draft(Decision::Failed, why))?;
        return Err(Failure::Program(format!("`{run}`: {why}")));
    }
    if matches!(ask, Ask::Stop | Ask::Kill) {
        gone(&home, &run, std::time::Duration::from_millis(said.grace_ms))?;
    }
    record.append_narrowing(&draft(Decision::Done, "asked by its user"))?;
    let by = if said.by.is_empty() { String::new() } else { format!(" (by {})", said.by) };
    let word = if matches!(ask, Ask::Stop | Ask::Kill) { "is gone, with everything in it" } else { word };
    Ok(Shown::new(
        &json!({ "run": run.as_str(), "state": word, "done": done, "by": said.by }),
        format!("{run} {word}{by}\n"),
    ))
}

/// Waits until nothing of a run is left; its launcher waits for that too and then goes.
fn gone(home: &Home, run: &RunId, grace: std::time::Duration) -> Result<(), Failure> {
    let patience = grace + std::time::Duration::from_secs(5);
    let deadline = std::time::Instant::now() + patience;
    while std::time::Instant::now() < deadline {
        if Control::ask(&folder(home), run, Ask::Tell).ok().flatten().is_none() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let seconds = patience.as_secs();
    Err(Failure::Program(format!(
        "`{run}` is still there after {seconds} seconds; try `palisade stop --now {run}`"
    )))
}

pub(super) fn asked(home: &Home, run: &RunId, ask: Ask) -> Result<Said, Failure> {
    let folder = folder(home);
    let said = Control::ask(&folder, run, ask).map_err(Failure::file(&folder))?;
    said.ok_or_else(|| Failure::NotFound(format!("`{run}` is not running; `palisade ps` shows what is")))
}

/// The run that was named; without a name, the only one there is.
pub(super) fn named(home: &Home, name: Option<&str>) -> Result<RunId, Failure> {
    if let Some(name) = name {
        return name.parse().map_err(|error| Failure::Usage(format!("{error}")));
    }
    let folder = folder(home);
    let mut found = Control::list(&folder).map_err(Failure::file(&folder))?;
    match (found.pop(), found.pop()) {
        (Some((run, _)), None) => Ok(run),
        (None, _) => Err(Failure::NotFound("nothing is running".into())),
        (Some(_), Some(_)) => {
            Err(Failure::Usage("several runs are at work; name one (`palisade ps`)".into()))
        }
    }
}

/// A shell in a sandbox of its own, or in one that is at work.
pub(crate) fn shell(session: &Session, json: bool, args: ShellArgs) -> ExitCode {
    let Some(name) = args.join else {
        return run::run(session, json, RunArgs { command: vec!["/bin/bash".into()], ..args.run_args() });
    };
    let home = Home::find(session.config.as_deref());
    let name = Some(name).filter(|name| !name.is_empty());
    match joined(&home, name.as_deref()) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            crate::output::refused_run(&failure, json);
            ExitCode::from(failure.exit_of_run())
        }
    }
}

fn joined(home: &Home, name: Option<&str>) -> Result<u8, Failure> {
    let run = named(home, name)?;
    let said = asked(home, &run, Ask::Plan)?;
    let plan = said.plan.ok_or_else(|| Failure::Program(format!("`{run}` did not say how it is made")))?;
    let record = OwnRecord::open(&home.state)?;
    let draft = Draft::new(run::who(), "sandbox.join", Decision::Allowed)
        .on(run.as_str())
        .because("asked by its user");
    record.append(&draft)?;
    let held = plan.with_command(vec!["/bin/bash".into()]).join(
        Permit::own_process(),
        said.pid,
        run::standard(false)?,
    );
    let ended = held.and_then(sandbox::Held::go).map_err(run::refused)?.wait();
    Ok(ended.map_err(|error| Failure::Sandbox(error.to_string(), 125))?.code())
}
