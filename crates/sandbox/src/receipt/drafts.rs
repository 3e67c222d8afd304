//! Turns what happened to a sandbox into entries for the ledger, and proves that an entry means a receipt.
//!
//! Three entries: `sandbox.launch` allowed (with the hash of the sealed receipt, durable before the command runs),
//! `sandbox.launch` refused or failed (with the reason), `sandbox.end`. A launch does not *open* an entry that the end
//! closes: runs of one user overlap in one ledger, and the next start would close the others' as interrupted; the end
//! names the launch instead. Invariants: a launch is allowed only with a receipt; the details stay below what the
//! ledger keeps, and a list that is cut says so. Not here: appending ([`ledger::Once`]).

use ledger::{Decision, Draft, Entry};

use super::compare::Difference;
use super::facts::Measured;
use super::seal::Sealed;
use super::{ProfileRef, Receipt, RunId};

/// The action of a launch.
const LAUNCH: &str = "sandbox.launch";
/// The action of an end.
const END: &str = "sandbox.end";
/// The detail that names the receipt.
const RECEIPT: &str = "receipt";
const KEY: &str = "receipt_key";
/// The most lines of a list that become details.
const MAX_LISTED: usize = 20;

/// The entry that `who` launched the sandbox of this receipt.
#[must_use]
pub fn launch_draft(who: &str, sealed: &Sealed) -> Draft {
    let Receipt {
        run, host, build, command, cwd, worktree, profile, degraded, published, rules, facts, ..
    } = &sealed.receipt;
    let list: Vec<String> = degraded.iter().map(|it| format!("{}: {}", it.layer.word(), it.reason)).collect();
    let cause = if list.is_empty() { "found as planned" } else { "found as planned, degraded" };
    let draft = Draft::new(who, LAUNCH, Decision::Allowed)
        .on(run.as_str())
        .because(cause)
        .with(RECEIPT, ledger::reference(sealed.to_text().as_bytes()))
        .with(KEY, sealed.key())
        .with("profile", profile.name.as_str())
        .with("profile_sha256", profile.sha256.to_string())
        .with("degraded", if list.is_empty() { "no".to_owned() } else { list.join("; ") })
        .with("command", command.join(" "))
        .with("cwd", cwd.as_str())
        .with("build", build.as_str())
        .with("kernel", host.kernel.as_str())
        .with("boot_id", host.boot_id.as_str())
        .with("host_uid", facts.host_uid.value.to_string())
        .with("mounts_sha256", facts.mounts.value.sha256.to_string())
        .with("landlock_abi", facts.landlock.abi.value.to_string())
        .with("seccomp_sha256", facts.seccomp.filter.value.to_string())
        .with("binary", facts.binary.value.path.as_str())
        .with("binary_sha256", facts.binary.value.sha256.to_string());
    let Measured { value: network, .. } = &facts.network;
    let draft = draft.with("network", super::compare::word(network));
    let draft = match published.is_empty() {
        true => draft,
        false => draft.with("published", published.join(", ")),
    };
    let draft = match rules {
        Some(rules) => draft.with("rules_sha256", rules.to_string()),
        None => draft,
    };
    match worktree {
        Some(worktree) => draft.with("worktree", worktree.as_str()),
        None => draft,
    }
}

/// Why a launch came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A rule, a missing layer or a bad profile: nothing was started.
    Denied(String),
    /// The sandbox was not as planned and was killed before its command started.
    NotAsPlanned(Vec<Difference>),
    /// It was tried and did not work.
    Failed(String),
}

/// The entry that a launch by `who` came to nothing.
#[must_use]
pub fn refused_draft(who: &str, run: &RunId, profile: Option<&ProfileRef>, refusal: &Refusal) -> Draft {
    let (decision, cause) = match refusal {
        Refusal::Denied(reason) => (Decision::Refused, reason.as_str()),
        Refusal::NotAsPlanned(_) => (Decision::Refused, "not as planned"),
        Refusal::Failed(reason) => (Decision::Failed, reason.as_str()),
    };
    let mut draft = Draft::new(who, LAUNCH, decision).on(run.as_str()).because(cause);
    if let Some(profile) = profile {
        draft =
            draft.with("profile", profile.name.as_str()).with("profile_sha256", profile.sha256.to_string());
    }
    match refusal {
        Refusal::NotAsPlanned(list) => listed(draft, "difference", list.iter().map(ToString::to_string)),
        Refusal::Denied(_) | Refusal::Failed(_) => draft,
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Nobody knows.
    Unknown,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// How the command ended.
    pub exit: Exit,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// The entry of the launch, if it is known.
    pub launch: Option<u64>,
    /// What was found at the end: quarantined files, lost masks.
    pub findings: Vec<String>,
}

/// The entry that a run of `who` ended.
#[must_use]
pub fn end_draft(who: &str, run: &RunId, end: &End) -> Draft {
    let (decision, cause) = match end.exit {
        Exit::Code(code) => (Decision::Done, format!("exit code {code}")),
        Exit::Signal(signal) => (Decision::Done, format!("signal {signal}")),
        Exit::Unknown => (Decision::Failed, "outcome unknown".to_owned()),
    };
    let mut draft = Draft::new(who, END, decision)
        .on(run.as_str())
        .because(cause)
        .with("duration_ms", end.duration_ms.to_string())
        .with("findings", end.findings.len().to_string());
    draft = match end.exit {
        Exit::Code(code) => draft.with("exit_code", code.to_string()),
        Exit::Signal(signal) => draft.with("signal", signal.to_string()),
        Exit::Unknown => draft,
    };
    if let Some(launch) = end.launch {
        draft = draft.with("launch", launch.to_string());
    }
    listed(draft, "finding", end.findings.iter().cloned())
}

/// Adds the lines of a list as numbered details; of a long one the first, and how many more there are.
fn listed(draft: Draft, name: &str, lines: impl ExactSizeIterator<Item = String>) -> Draft {
    let more = lines.len().saturating_sub(MAX_LISTED);
    let numbered = (1u32..).zip(lines.take(MAX_LISTED));
    let draft = numbered.fold(draft, |draft, (place, line)| draft.with(format!("{name}.{place:02}"), line));
    if more == 0 { draft } else { draft.with(format!("{name}.more"), more.to_string()) }
}

/// Why an entry does not prove a receipt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInLedger {
    /// It is about something else.
    #[error("entry `{0}` is not the entry of a launch that was allowed")]
    NotALaunch(u64),
    /// It is about another run.
    #[error("entry `{seq}` is about run `{}`, the receipt about `{expected}`", .found.escape_debug())]
    OtherRun {
        /// The entry.
        seq: u64,
        /// The run it names.
        found: String,
        /// The run of the receipt.
        expected: RunId,
    },
    /// It names another receipt, or none.
    #[error("entry `{0}` names another receipt: this one is not what was recorded")]
    OtherReceipt(u64),
}

/// Checks that this receipt is the one that the entry names. That the entry is genuine is for the ledger's verifier
/// to say, and that the receipt is for [`Sealed::verify`].
///
/// # Errors
/// [`NotInLedger`] with what does not fit.
pub fn check_in_ledger(entry: &Entry, sealed: &Sealed) -> Result<(), NotInLedger> {
    if entry.action != LAUNCH || entry.decision != Decision::Allowed {
        return Err(NotInLedger::NotALaunch(entry.seq));
    }
    let run = &sealed.receipt.run;
    if entry.resource != run.as_str() {
        let found = entry.resource.clone();
        return Err(NotInLedger::OtherRun { seq: entry.seq, found, expected: run.clone() });
    }
    let named = |name: &str| entry.detail.get(name).map(String::as_str);
    let reference = ledger::reference(sealed.to_text().as_bytes());
    if named(RECEIPT) != Some(reference.as_str()) || named(KEY) != Some(sealed.key()) {
        return Err(NotInLedger::OtherReceipt(entry.seq));
    }
    Ok(())
}
