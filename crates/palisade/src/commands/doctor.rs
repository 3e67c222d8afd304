//! `palisade doctor`: which layers this machine has, what stands in the way of the others, and whether a sandbox
//! holds against attacks. Also what `palisade run` does about both before it starts anything.
//!
//! Invariant: what is missing or got through is an error; a layer is left out only where a person named it.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use sandbox::doctor::{Facts, Finding, Places, Severity, Status, judge};
use sandbox::probe::{Outcome, Probed, SelfTest};
use sandbox::receipt::{Degraded, Layer};
use sandbox::{Part, Plan, RunId, Spec};
use serde_json::{Value, json};

use super::caller::{caller, resolved};
use super::run::Home;
use crate::cli::{Degradable, DoctorArgs, RunArgs};
use crate::failure::Failure;
use crate::output::{self, Shown, table};

/// Looks, tries, and says what to do.
pub(super) fn run(config: Option<&Path>, args: &DoctorArgs) -> Result<Shown, Failure> {
    let home = Home::find(config);
    let own = std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let places = Places {
        state: home.state.clone(),
        config: home.config.clone(),
        home: own.unwrap_or_else(|| "/nonexistent".into()),
    };
    let findings = judge(&Facts::gather(&places));
    let mut text = told(&findings);
    let removed = sandbox::sweep(&home.state);
    for path in &removed {
        text.push_str(&format!("removed `{}`, which a run that was killed had left\n", path.display()));
    }
    let finished = super::unfinished::everywhere(&home)?;
    for line in finished.iter().flat_map(|one| &one.lines) {
        text.push_str(&format!("{line}\n"));
    }
    let finished: Vec<Value> = finished.into_iter().map(|one| one.value).collect();
    let mut result = json!({ "checks": findings, "removed": removed, "ended": finished });
    let mut wrong = findings.iter().filter(|finding| finding.blocks()).count();
    if args.self_test && wrong == 0 {
        let (attacks, shown, through) = attacked(&home, &args.profile)?;
        text.push_str(&shown);
        wrong += through;
        if let Value::Object(fields) = &mut result {
            fields.insert("self_test".into(), attacks);
        }
    }
    if wrong > 0 {
        let things = if wrong == 1 { "thing keeps" } else { "things keep" };
        return Err(Failure::Unfit(
            format!("{wrong} {things} sandboxes from being made here; see above"),
            result,
            text,
        ));
    }
    Ok(Shown::new(&result, text))
}

fn told(findings: &[Finding]) -> String {
    let row = |finding: &Finding| {
        let status = match (finding.status, finding.severity) {
            (Status::Ok, _) => "ok",
            (Status::Unknown, _) => "?",
            (Status::Fails, Severity::Required) => "MISSING",
            (Status::Fails, Severity::Recommended) => "weak",
            (Status::Fails, Severity::Info) => "-",
        };
        let severity = match finding.severity {
            Severity::Required => "required",
            Severity::Recommended => "recommended",
            Severity::Info => "",
        };
        let found = match &finding.cause {
            Some(cause) => format!("{}: {cause}", finding.found),
            None => finding.found.clone(),
        };
        [status, finding.id, severity, &found].map(str::to_owned).to_vec()
    };
    let mut text = table(&["", "CHECK", "NEED", "FOUND"], &findings.iter().map(row).collect::<Vec<_>>());
    let mut fixes: Vec<(&str, String)> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.severity != Severity::Info) {
        let Some(fix) = &finding.fix else { continue };
        match fixes.iter_mut().find(|(same, _)| same == fix) {
            Some((_, names)) => names.push_str(&format!(", {}", finding.id)),
            None => fixes.push((fix, finding.id.to_owned())),
        }
    }
    if !fixes.is_empty() {
        text.push_str("\nTo fix:\n");
    }
    for (fix, names) in fixes {
        text.push_str(&format!("  {names}\n      {fix}\n"));
    }
    text
}

/// Attacks a sandbox of this profile's shape, in directories of its own.
fn attacked(home: &Home, profile: &str) -> Result<(Value, String, usize), Failure> {
    let command: Vec<OsString> = vec!["true".into()];
    let folder = Folder::new(&home.state)?;
    let mut caller = caller(home, super::catalog::NOBODYS)?;
    caller.worktree = folder.made("work")?;
    caller.private_home = folder.made("home")?;
    caller.directory = caller.worktree.clone();
    // The trial's own worktree is below the state, and nothing of ours is in it.
    caller.kept.clear();
    caller.run_folder = folder.0.join("run");
    let args = RunArgs { profile: profile.to_owned(), ..RunArgs::default() };
    let profile = resolved(home, &caller, &args)?.profile;
    let broken = |error: &dyn std::fmt::Display| Failure::Sandbox(error.to_string(), 1);
    let prepared = Spec::of(&profile, &caller, command).map_err(|error| broken(&error))?;
    let run = RunId::new().map_err(|error| broken(&error))?;
    let plan = prepared.spec.plan(run).map_err(|error| broken(&error))?;
    let test = SelfTest::new(&home.state).map_err(|error| broken(&error))?;
    let begun = Instant::now();
    let probed = test.run(&plan).map_err(|error| broken(&error))?;
    let took = begun.elapsed();
    drop(prepared.stubs);
    let through = probed.iter().filter(|probed| !probed.holds()).count();
    let rows: Vec<Vec<String>> =
        probed.iter().map(|probed| vec![probed.name.to_owned(), word(probed)]).collect();
    let text = format!(
        "\n{}{} attacks on `{}`, {through} got through, in {} ms\n",
        table(&["ATTACK", "OUTCOME"], &rows),
        probed.len(),
        args.profile,
        took.as_millis()
    );
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    Ok((
        json!({ "profile": args.profile, "micros": micros, "through": through, "attacks": probed }),
        text,
        through,
    ))
}

fn word(probed: &Probed) -> String {
    match probed.outcome {
        Outcome::Refused(0) => "ok".into(),
        Outcome::Refused(number @ 1..) => format!("ok, {}", std::io::Error::from_raw_os_error(number)),
        Outcome::Refused(signal) => format!("ok, killed by signal {}", -signal),
        Outcome::Through => "GOT THROUGH".into(),
        Outcome::Unanswered => "NO ANSWER".into(),
    }
}

/// A directory that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(state: &Path) -> Result<Self, Failure> {
        let folder = Self(state.join(format!("doctor-{}", rustix::process::getpid().as_raw_pid())));
        folder.made("")?;
        Ok(folder)
    }

    fn made(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.0.join(name);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.and_then(|()| path.canonicalize()).map_err(Failure::file(&path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Answers from inside a sandbox that is being tested.
pub(crate) fn answer() -> ExitCode {
    match sandbox::probe::answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::tell(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Leaves out what the person named, and says so.
pub(super) fn degraded(spec: Spec, allowed: &[Degradable]) -> Spec {
    let leave_out = |spec: Spec, layer: &Degradable| {
        let part = match layer {
            Degradable::Landlock => Part::Landlock,
            Degradable::Seccomp => Part::Seccomp,
        };
        output::tell(&format!("DEGRADED: {} is off because of --allow-degraded", part.word()));
        spec.without(part)
    };
    allowed.iter().fold(spec, leave_out)
}

/// What was left out, for the receipt.
pub(super) fn degraded_on_record(left_out: &[Part]) -> Vec<Degraded> {
    let on_record = |part: &Part| {
        let layer = match part {
            Part::Landlock => Layer::Landlock,
            Part::Seccomp | Part::NoNewPrivs => Layer::Seccomp,
            Part::ReadOnly => Layer::Mounts,
        };
        Degraded { layer, reason: "off because of --allow-degraded".into() }
    };
    left_out.iter().map(on_record).collect()
}

/// The same plan, once its shape has held against every attack.
pub(super) fn proven(state: &Path, plan: Plan) -> Result<Plan, Failure> {
    let test = SelfTest::new(state).and_then(|test| test.ensure(&plan));
    test.map_err(|error| Failure::Sandbox(error.to_string(), 125))?;
    Ok(plan)
}
