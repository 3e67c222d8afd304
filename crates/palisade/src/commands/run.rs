//! `palisade run`: a command in a sandbox, without a daemon.
//!
//! Flow: what was typed -> the profile and the caller's surroundings -> `sandbox` -> the command's own exit code.
//! Exit codes: the command's own; 125 the sandbox could not be made; 126 the command cannot be executed; 127 it is
//! not found.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use sandbox::profile::{Profile, Resolved, Worktree, pending_notice};
use sandbox::receipt::{
    Digest, End, Exit, HostInfo, ProfileRef, Receipt, Refusal, RunId, compare, end_draft, launch_draft,
    refused_draft,
};
use sandbox::{Begun, Caller, Control, Cut, Ended, Held, LaunchError, Note, Permit, Spec, Standard};
use serde_json::json;

use super::caller::{caller, resolved};
use super::catalog;
use super::changes::Layered;
use super::doctor;
use super::ending;
use super::explain;
use super::lend::Vault;
use super::network::{Network, Summary, Watched};
use super::record::{self, OwnRecord};
use super::report::Report;
use super::spent::Telling;
use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

/// The most that a profile may be long; the parser refuses less.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// Where this installation keeps what `run` needs.
pub(crate) struct Home {
    /// Profiles and consents.
    pub(crate) config: PathBuf,
    /// Homes of agents, changes of layers, the user's ledger.
    pub(crate) state: PathBuf,
    /// The daemon's settings, if there are any.
    pub(crate) settings: PathBuf,
    /// What the daemon keeps, if one is started here.
    pub(super) data: PathBuf,
}

impl Home {
    /// Beside the configuration that was named, or where the base directories say.
    pub(crate) fn find(config: Option<&Path>) -> Self {
        let places = api::Places::find(config);
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = match (config, variable("XDG_STATE_HOME"), variable("HOME")) {
            (Some(_), ..) => places.data.with_file_name("state"),
            (None, Some(base), _) => base.join("palisade"),
            (None, None, Some(home)) => home.join(".local/state/palisade"),
            (None, None, None) => places.data.join("state"),
        };
        Self { config: places.config_dir().to_owned(), state, settings: places.config, data: places.data }
    }
}

/// Runs the command and gives its exit code.
pub(crate) fn run(session: &Session, json: bool, args: RunArgs) -> ExitCode {
    let report = args.report.as_deref().map(Report::at).transpose();
    let outcome = report.and_then(|report| {
        let outcome = started(session, json, args, report.as_ref());
        if let (Some(report), Err(failure)) = (&report, &outcome) {
            report.failed(failure);
        }
        outcome
    });
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            output::refused_run(&failure, json);
            ExitCode::from(failure.exit_of_run())
        }
    }
}

fn started(
    session: &Session,
    json: bool,
    args: RunArgs,
    report: Option<&Report>,
) -> Result<ExitCode, Failure> {
    let parent = args.parent.map(starter).transpose()?;
    let home = Home::find(session.config.as_deref());
    record::is_own(&home.state)?;
    let (agent, keeps) = match &args.known_as {
        Some(document) => catalog::documented(document)?,
        None => catalog::known(&home.config, args.command.first())?,
    };
    let mut caller = caller(&home, &keeps)?;
    if !args.only.is_empty() {
        caller.cut = Some(Cut::parse(&args.only, &args.except).map_err(|error| broken(&error))?);
    }
    let run = RunId::new().map_err(|error| broken(&error))?;
    // First of all: by it the next run finds what this one leaves if it is killed.
    Control::sweep(&super::live::folder(&home));
    let control = Control::listen(&super::live::folder(&home), &run).map_err(|error| broken(&error))?;
    if report.is_none() {
        super::unfinished::before(&home, &caller.worktree);
    }
    // Another process builds what every sandbox has, while this one finds out what this one is to have.
    let begun = Begun::new(Permit::own_process(), &run, &caller.worktree).map_err(refused);
    let Resolved { mut profile, pending } = resolved(&home, &caller, &args)?;
    if let Some(agent) = &agent {
        catalog::spare(agent, &caller, &mut profile);
    }
    if let Some(report) = report {
        report.is_apart(&profile, &caller)?;
    }
    if let Some(notice) = pending_notice(&pending) {
        output::tell(&notice);
    }
    let mut withheld = if profile.inherit { without_secrets(&mut caller, &profile) } else { Vec::new() };
    let record = OwnRecord::open(&home.state)?;
    caller.run_folder = sandbox::changes::folder(&home.state, &run);
    let asked = Asked { run: &run, profile: &profile, caller: &caller, command: &args.command };
    let layered = match profile.worktree {
        Worktree::Overlay => Some(Layered::new(&caller, &run, &profile, &args.command)?),
        Worktree::Write | Worktree::Read => None,
    };
    let mut prepared = match Spec::of(&profile, &caller, args.command.clone()) {
        Ok(prepared) => prepared,
        Err(error) => return Err(asked.refused(&record, Refusal::Denied(error.to_string()), broken(&error))),
    };
    withheld.append(&mut prepared.withheld);
    // Whoever wants a report sees to what is left when this process is killed.
    let mut note = match report {
        None => Note::begin(&home.state, &run, &profile, &mut prepared).map_err(|error| {
            let why = format!("what the end of the run needs cannot be noted: {error}");
            asked.refused(&record, Refusal::Failed(why.clone()), broken(&why))
        })?,
        Some(_) => None,
    };
    if let Some(agent) = &agent {
        catalog::furnish(agent, &caller)?;
        prepared.spec = catalog::given(agent, &args, prepared.spec);
    }
    if !withheld.is_empty() {
        let names = withheld.join(", ");
        output::tell(&format!(
            "these variables stayed outside: {names}; `--env NAME` passes one that you name"
        ));
    }
    prepared.spec = doctor::degraded(prepared.spec, &args.allow_degraded);
    let vault = Vault::new(session, &run, args.secret_worktree.as_deref(), profile.limits.wall);
    let network = match Network::of(&args, &profile, &home, &caller, &vault, &run, agent.as_ref()) {
        Ok(network) => network,
        Err(failure) => return Err(asked.refused(&record, Refusal::Denied(failure.to_string()), failure)),
    };
    if let Some(network) = &network {
        prepared.spec = match network.shape(prepared.spec) {
            Ok(spec) => spec,
            Err(failure) => {
                return Err(asked.refused(&record, Refusal::Failed(failure.to_string()), failure));
            }
        };
    }
    let held = begun.and_then(|begun| {
        let plan = prepared.spec.clone().plan_for(run.clone(), &begun).map_err(|error| broken(&error))?;
        let plan = doctor::proven(&home.state, plan)?;
        prepared.watch_over(&plan).map_err(|error| broken(&error))?;
        let coming = plan.launch_in(begun, standard(json)?).map_err(refused)?;
        // While it is being made.
        let kept = prepared.keep_covers(&coming).map_err(|error| broken(&error))?;
        record.prepare()?;
        let words = asked.words(&record)?;
        coming.held().map(|held| (held, kept, words)).map_err(refused)
    });
    let (mut held, mut kept, words) = match held {
        Ok(held) => held,
        Err(failure) => return Err(asked.refused(&record, Refusal::Failed(failure.to_string()), failure)),
    };
    let observer = match args
        .explain
        .then(|| held.observe(&profile, &caller).map_err(|error| broken(&error)))
        .transpose()
    {
        Ok(observer) => observer,
        Err(failure) => return Err(asked.refused(&record, Refusal::Failed(failure.to_string()), failure)),
    };
    let reach = Reach {
        published: network.as_ref().map(Network::published).unwrap_or_default(),
        rules: network.as_ref().map(|network| network.keep(&record)).transpose()?,
    };
    let launched = asked.receipt(&record, &held, &home, words, reach)?;
    if let Some(report) = report {
        report.running(&run, launched, &record.receipt(&run))?;
    }
    let begun = Instant::now();
    kept.as_mut().map_or(Ok(()), sandbox::Kept::begin).map_err(|error| broken(&error))?;
    let network = network.map(|network| network.attach(&mut held, &run, &record, args.watch_net));
    let mut network = network.transpose()?;
    note.as_mut()
        .map_or(Ok(()), |note| note.begun(launched, !args.decoy.is_empty()))
        .map_err(|error| broken(&error))?;
    prepared.begin();
    let mut took = None;
    let ended = held.go().map_err(refused).and_then(|running| {
        let running = running.controlled_by(control).with_grace(Duration::from_secs(args.grace));
        let running = running.guarded_by(kept.as_ref()).map_err(|error| broken(&error))?;
        let running = match parent {
            Some(parent) => running.ending_with(parent),
            None => running,
        };
        let waited = match (report, &mut network) {
            (Some(report), network) => {
                let mut telling = Telling::new(report, running.meter(), network.as_mut());
                let waited = running.wait_attended(&mut telling);
                took = Some(telling.took());
                waited
            }
            (None, Some(network)) => running.wait_attended(network),
            (None, None) => running.wait(),
        };
        waited.map_err(|error| broken(&error))
    });
    let duration = begun.elapsed();
    if let Some(note) = note.as_ref().filter(|_| ended.is_ok()) {
        note.gone();
    }
    // What fails from here on must not keep the rest of the end from being done, unless nobody knows the decoys any more.
    let mut network = match network.map(Watched::end).transpose() {
        Err(failure) if !args.decoy.is_empty() => return Err(failure),
        other => other,
    };
    network.iter().flatten().for_each(Summary::tell);
    if let Ok(Ended::Over(over)) = &ended {
        output::tell(&over.told(&profile.limits));
    }
    let explained = explain::tell(observer, ended.as_ref().ok().copied(), json);
    let covers = kept.map(sandbox::Kept::end).unwrap_or_default();
    let mut ending = {
        let sought = network.as_ref().ok().and_then(Option::as_ref).and_then(Summary::sought);
        prepared.finish(&profile, &run, sought.as_deref())
    };
    if let Ok(Some(network)) = &mut network {
        network.carried(&ending.carried, &record, &run, report.is_none())?;
    }
    ending.findings.extend(covers);
    // Whoever wants a report reads it there; what is said beside a program's own words would look like them.
    if report.is_none() {
        ending::tell(&ending);
    }
    let layer = layered.map(|layered| layered.end(json || report.is_some(), ending::waiting(&ending)));
    let (ended, network) = (ended?, network?);
    let end = End {
        exit: exit(ended),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        launch: Some(launched),
        findings: ending::findings(&ending),
    };
    record.append_narrowing(&end_draft(&who(), &run, &end))?;
    if let Some(note) = note {
        note.done();
    }
    if json || report.is_some() {
        let (commits, findings) = ending::value(&ending);
        let ended_by = word(ended);
        let degraded: Vec<String> =
            args.allow_degraded.iter().map(|layer| crate::cli::word(*layer)).collect();
        let told = json!({
            "run": run.as_str(), "exit": ended.code(), "ended": ended_by, "commits": commits, "findings": findings,
            "layer": layer, "degraded": degraded, "explained": explained,
            "network": network.as_ref().map(Summary::value), "cpu_ms": took,
        });
        if json {
            output::report(&told);
        }
        if let Some(report) = report {
            report.ended(told)?;
        }
    }
    Ok(ExitCode::from(ended.code()))
}

/// The process that started this one, if it is this one: another would be somebody's whom nobody named.
fn starter(pid: u32) -> Result<OwnedFd, Failure> {
    let wrong = |why: &str| Failure::Sandbox(format!("--parent {pid}: {why}"), 125);
    let named = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let named = named.ok_or_else(|| wrong("expected the number of a process"))?;
    let held = rustix::process::pidfd_open(named, rustix::process::PidfdFlags::empty());
    let held = held.map_err(|error| wrong(&format!("it cannot be watched: {error}")))?;
    // After it is held: its number cannot be another's from now on.
    if rustix::process::getppid() == Some(named) { Ok(held) } else { Err(wrong("it did not start this run")) }
}

/// Of everything that is inherited, what looks like a secret stays out, whatever its name is; whoever named a variable
/// means it. The names of those that stay out.
fn without_secrets(caller: &mut Caller, profile: &Profile) -> Vec<String> {
    let mut out = Vec::new();
    caller.environment.retain(|name, value| {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        let is_named = profile.environment.iter().any(|one| one.to_string() == name);
        let stays = name == "PATH" || is_named || !profile.passes(&name) || output::is_clean(&value);
        if !stays {
            out.push(name.into_owned());
        }
        stays
    });
    out
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::Sandbox(error.to_string(), 125)
}

/// Who runs, as the user's own ledger knows them.
pub(super) fn who() -> String {
    format!("uid:{}", rustix::process::getuid().as_raw())
}

fn exit(ended: Ended) -> Exit {
    match ended {
        Ended::Code(code) => Exit::Code(code.into()),
        Ended::Signal(signal) => Exit::Signal(signal),
        Ended::NotExecuted(_) => Exit::Code(ended.code().into()),
        Ended::Over(_) | Ended::Killed => Exit::Signal(9),
    }
}

/// What was asked for, as the record tells it.
struct Asked<'a> {
    run: &'a RunId,
    profile: &'a Profile,
    caller: &'a Caller,
    command: &'a [OsString],
}

/// What a receipt says besides what was measured, and the key that signs it: got together while the sandbox is made.
struct Words {
    host: HostInfo,
    command: Vec<String>,
    cwd: String,
    worktree: String,
    profile: ProfileRef,
    key: SigningKey,
}

/// What a receipt says of the network.
struct Reach {
    published: Vec<String>,
    rules: Option<Digest>,
}

impl Asked<'_> {
    fn profile(&self) -> ProfileRef {
        let sha256 = Digest::of(self.profile.to_toml().as_bytes());
        ProfileRef { name: self.profile.name.as_str().to_owned(), sha256 }
    }

    /// Records that nothing was run; what kept it from running is what the person is told.
    fn refused(&self, record: &OwnRecord, refusal: Refusal, failure: Failure) -> Failure {
        let draft = refused_draft(&who(), self.run, Some(&self.profile()), &refusal);
        match record.append_narrowing(&draft) {
            Ok(()) => failure,
            Err(unrecorded) => {
                let code = failure.exit_of_run();
                Failure::Sandbox(format!("{failure}; and {unrecorded}"), code)
            }
        }
    }

    /// What the receipt says that need not be measured.
    fn words(&self, record: &OwnRecord) -> Result<Words, Failure> {
        let kept = |text: &std::ffi::OsStr| output::kept(&text.to_string_lossy());
        Ok(Words {
            host: HostInfo {
                kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
                boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
                    .map(|text| text.trim().to_owned())
                    .map_err(|error| broken(&error))?,
            },
            command: output::kept_words(self.command),
            cwd: kept(self.caller.directory.as_os_str()),
            worktree: kept(self.caller.worktree.as_os_str()),
            profile: self.profile(),
            key: record.receipt_key(),
        })
    }

    /// Measures, compares, signs and records; nothing goes on if one of them fails. The number of the entry.
    fn receipt(
        &self,
        record: &OwnRecord,
        held: &Held,
        home: &Home,
        words: Words,
        reach: Reach,
    ) -> Result<u64, Failure> {
        let account = held.measure(&home.state.join("binaries")).map_err(|error| broken(&error))?;
        if let Err(differences) = compare(&account.expected, &account.facts) {
            let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
            let failure =
                broken(&format!("the sandbox is not as planned, so nothing was run: {}", told.join("; ")));
            return Err(self.refused(record, Refusal::NotAsPlanned(differences), failure));
        }
        let Words { host, command, cwd, worktree, profile, key } = words;
        let receipt = Receipt {
            version: sandbox::receipt::VERSION,
            run: self.run.clone(),
            at: now(),
            host,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            cwd,
            worktree: Some(worktree),
            profile,
            degraded: doctor::degraded_on_record(held.left_out()),
            published: reach.published,
            rules: reach.rules,
            facts: account.facts,
        };
        let sealed = receipt.seal(&key).map_err(|error| broken(&error))?;
        record.keep(self.run, &sealed)?;
        record.append(&launch_draft(&who(), &sealed))
    }
}

pub(super) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Code(_) => "exited",
        Ended::Signal(_) => "signalled",
        Ended::NotExecuted(_) => "not_executed",
        Ended::Over(_) => "over_limit",
        Ended::Killed => "killed",
    }
}

pub(super) fn refused(error: LaunchError) -> Failure {
    let code = match &error {
        LaunchError::Inside(refused) if refused.is_no_command() => 127,
        LaunchError::Inside(refused) if refused.is_not_executable() => 126,
        _ => 125,
    };
    Failure::Sandbox(error.to_string(), code)
}

/// With `--json` standard output is for the one document: what the command prints goes to standard error. Otherwise it is the
/// command's alone: whoever reads it finds its end when the command closes it, so nothing else here has it open.
pub(super) fn standard(json: bool) -> Result<Standard, Failure> {
    let failed = |error: std::io::Error| Failure::Sandbox(format!("standard input and output: {error}"), 125);
    let copy = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map_err(failed);
    let (input, out, err) = (rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr());
    let standard = Standard::of([copy(input)?, copy(if json { err } else { out })?, copy(err)?]);
    if !json && !rustix::termios::isatty(out) {
        let nothing = OpenOptions::new().write(true).open("/dev/null").map_err(failed)?;
        rustix::stdio::dup2_stdout(&nothing).map_err(|error| failed(error.into()))?;
    }
    Ok(standard)
}

/// A small file that is a file; none if there is nothing.
pub(super) fn bytes(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
