//! The network of one run: which rules hold, who carries them out, and what is recorded of it.
//!
//! Flow: what was typed -> rules -> a sandbox whose connections come to us -> a proxy that judges them -> entries of the
//! ledger. Invariants: without a word of the person there is no network; a decision that cannot be recorded ends the run.

mod ask;
mod asker;
mod bundle;
mod change;
mod counts;
mod host;
mod learn;
mod left;
mod login;
mod models;
mod notices;
mod publish;
mod seen;
mod typed;

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use agents::{Agent, Catalog};
use egress::control::{Loan, Report};
use egress::decoys::Decoys;
use egress::published::Doors;
use egress::{Front, Told};
use ledger::{Decision, Draft};
use rules::{Host, Rule, Rules};
use sandbox::profile::{Network as Reach, Profile};
use sandbox::receipt::Digest;
use sandbox::{Attendant, Caller, Held, RunId, Spec};
use serde_json::json;

use self::ask::{Asking, Remembers, Unknown};
use self::asker::Askers;
use self::bundle::Bundle;
pub(super) use self::change::Kept;
use self::change::{Bounds, Change, Started, stays_here};
use self::counts::Tally;
use self::learn::Learnt;
use self::login::Own;
use self::models::Models;
use self::seen::Seen;
pub(super) use self::typed::Typed;
use super::catalog;
use super::lend::{self, Lending, Lines, Vault, Words};
use super::login::Renewal;
use super::record::OwnRecord;
use super::remembered;
use super::run::Home;
use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::output;

/// The program that carries connections, beside this one.
const PROGRAM: &str = "palisade-egress";
/// Refusals that a person is told of at the end.
const MOST_TOLD: usize = 10;
/// Connections at a time, if nobody says otherwise: more than programs have, and fewer than a proxy can carry.
const USUAL_CONNECTIONS: u64 = 1024;

/// The network of a run that is to have one.
pub(super) struct Network {
    front: Front,
    /// What other rules would have to go with.
    started: Started,
    /// The certificates that the sandbox trusts, as long as it runs.
    bundle: Option<Bundle>,
    /// Variables, and the words in them that stand for secrets.
    words: Vec<(String, String)>,
    /// What the daemon lends for as long as it holds these.
    lines: Lines,
    /// What is done about hosts that no rule knows.
    unknown: Unknown,
    remembers: Remembers,
    command: String,
    /// Ports inside that are reached from here.
    doors: Doors,
    /// The login that is lent.
    renewal: Option<Renewal>,
}

impl Network {
    /// For what was typed and what the profile says; none if nothing is to be reached.
    pub(super) fn of(
        args: &RunArgs,
        profile: &Profile,
        home: &Home,
        caller: &Caller,
        vault: &Vault<'_>,
        run: &RunId,
        agent: Option<&Agent>,
    ) -> Result<Option<Self>, Failure> {
        // A profile that says `none` gives nothing by itself; what is typed holds all the same.
        let gives = profile.network == Reach::Rules;
        if args.offline || !(gives || is_typed(args)) {
            return Ok(None);
        }
        let unknown = unknown(args, &home.config)?;
        let remembers = Remembers { config: home.config.clone(), project: caller.worktree.clone() };
        let agent = agent.filter(|_| gives);
        // Without a secret nothing has to be known of anybody.
        let lends = agent.is_some() || !args.secret.is_empty();
        let catalog = if lends { catalog::all(&home.config)? } else { Catalog::default() };
        let catalog = agent.cloned().into_iter().fold(catalog, Catalog::with);
        // Only an agent's home is one agent's.
        let words = agent.map_or(Ok(Words::New), |_| Words::of_home(&caller.private_home))?;
        let Lending { mut loans, rules: bound, presets, lines, .. } =
            Lending::of(&args.secret, &catalog, agent, vault, words)?;
        lend::decoys(&args.decoy, &mut loans)?;
        let Own { lent, rule, callbacks } = login::own(agent, &loans, &args.command, caller)?;
        let presets = presets.into_iter().chain(agent.into_iter().flat_map(|agent| agent.presets.clone()));
        let presets = presets.chain(profile.presets.iter().filter(|_| gives).cloned());
        let typed =
            Typed { allow: &args.allow, preset: &args.preset, rules: &args.rules, limits: &args.net_limit };
        let (mut written, mut limits) = typed.read(presets.collect())?;
        limits.connections.get_or_insert(USUAL_CONNECTIONS);
        written.extend(rule);
        let doors = publish::doors(&login::published(&args.publish, callbacks))?;
        let known = |rule: &Rule, written: &[Rule]| written.iter().any(|other| means_the_same(rule, other));
        for rule in profile.rules.iter().filter(|rule| gives || rule.deny) {
            if !known(rule, &written) {
                written.push(rule.clone());
            }
        }
        // Where other rules say what may go to a host, they also say it for what is lent.
        for bound in bound {
            let covers =
                |rule: &&mut Rule| !rule.deny && rule.host == bound.host && rule.ports == bound.ports;
            match written.iter_mut().find(covers) {
                // Nothing can be put into what passes unopened.
                Some(rule) if rule.access == Some(rules::Access::Pass) => {
                    let host = &rule.host;
                    let why = format!("a rule passes `{host}` on unopened, so no secret can be put in there");
                    return Err(Failure::Sandbox(why, 125));
                }
                Some(rule) => rule.access = Some(rules::Access::Inspect),
                None => written.push(bound),
            }
        }
        if gives && !args.local_only {
            written.extend(remembered(&written, home, caller)?);
        }
        if args.local_only {
            stays_here(&written).map_err(|why| Failure::Sandbox(why, 125))?;
        }
        let bounds = Bounds::of(&args.within, &args.never).map_err(|why| Failure::Sandbox(why, 125))?;
        written = bounds.keep(written);
        let is_idle = loans.is_empty() && doors.ports().is_empty() && matches!(unknown, Unknown::Refused);
        if written.is_empty() && is_idle {
            return Ok(None);
        }
        host::check(&written, &home.settings)?;
        let wrong = |error: &dyn std::fmt::Display| Failure::Sandbox(error.to_string(), 125);
        let compiled = Rules::compile(written.clone()).map_err(|faults| wrong(&faults))?;
        let listed = written.iter().filter_map(|rule| match rule.host.parse() {
            Ok(Host::Address(address)) => Some(address),
            Ok(Host::Name(_)) | Err(_) => None,
        });
        let listed = listed.collect();
        let looks = compiled.list().any(|(_, _, look)| look == Some(rules::Look::Inspect))
            || matches!(unknown, Unknown::Learnt(_));
        let user = rustix::process::geteuid().is_root().then(own_user);
        let words = loans.iter().map(|loan| (loan.name.clone(), loan.word.clone())).collect();
        let (login, renewal) = match lent {
            Some(lent) => {
                loans.extend(lent.loans);
                (Some(lent.login), Some(lent.renewal))
            }
            None => (None, None),
        };
        let started = Started {
            local_only: args.local_only,
            listed,
            looks,
            settings: home.settings.clone(),
            lent: lent_to(&loans),
            bounds,
        };
        let mut front = Front::new(written, loans, program()?, user).map_err(|faults| wrong(&faults))?;
        if !matches!(unknown, Unknown::Refused) {
            front.ask();
        }
        front.limit(limits);
        login.into_iter().for_each(|login| front.log_in(login));
        let bundle = match looks {
            true => {
                let certificate = front.certificate().map_err(|error| wrong(&error))?;
                Some(Bundle::new(&certificate, &home.state, run)?)
            }
            false => None,
        };
        let command = output::kept_words(args.command.get(..1).unwrap_or_default()).concat();
        Ok(Some(Self { front, started, bundle, words, lines, doors, unknown, remembers, command, renewal }))
    }

    /// Keeps the rules beside the ledger; their hash, for the receipt.
    pub(super) fn keep(&self, record: &OwnRecord) -> Result<Digest, Failure> {
        Kept::of(&self.front, record)
    }

    /// What is published, for the receipt.
    pub(super) fn published(&self) -> Vec<String> {
        publish::words(&self.doors.ports())
    }

    /// What the sandbox has for it.
    pub(super) fn shape(&self, spec: Spec) -> Result<Spec, Failure> {
        let spec = spec.captured(self.started.listed.clone());
        let spec = if self.doors.ports().is_empty() { spec } else { spec.entered() };
        let spec = self.words.iter().fold(spec, |spec, (name, word)| spec.variable(name, word));
        let Some(bundle) = &self.bundle else { return Ok(spec) };
        let spec = spec.trusting(bundle.path());
        let stores = spec.java_stores();
        if stores.is_empty() {
            return Ok(spec);
        }
        let trusted = std::fs::read(bundle.path()).map_err(Failure::file(bundle.path()))?;
        let store = sandbox::trust::java_store(&String::from_utf8_lossy(&trusted));
        bundle.add_java(&store)?;
        Ok(spec.java_trusting(&bundle.java(), stores))
    }

    /// The sandbox stands: from now on its connections are served.
    pub(super) fn attach<'a>(
        mut self,
        held: &mut Held,
        run: &RunId,
        record: &'a OwnRecord,
        watch: bool,
    ) -> Result<Watched<'a>, Failure> {
        let (ports, mut asked) = (self.doors.ports(), None);
        if let Some(sockets) = held.sockets() {
            asked = sockets.sockets;
            self.front.publish(self.doors, sockets.ways_in);
            let connections = [Some(sockets.connections_v4), sockets.connections_v6];
            let questions = [Some(sockets.names_v4), sockets.names_v6];
            self.front.attach(
                connections.into_iter().flatten().collect(),
                questions.into_iter().flatten().collect(),
                sockets.refusals,
            );
        }
        let seen = Seen::new(record, run.clone(), watch).with(Askers::new(held.inhabitants(asked)), ports);
        let bounds = self.started.bounds.clone();
        let asking = Asking::new(self.unknown, bounds, self.remembers, record, run.clone());
        let (untold, was_stolen, stops) = (Vec::new(), false, false);
        let (front, lines, command, renewal, _bundle) =
            (self.front, self.lines, self.command, self.renewal, self.bundle);
        if let Some(renewal) = &renewal {
            seen.login(ledger::Decision::Noted, &renewal.name, "lent", None)?;
        }
        let taken_back = TakenBack { lines, record, run: run.clone() };
        let change = Change { started: self.started, record, run: run.clone() };
        Ok(Watched {
            front,
            seen,
            asking,
            taken_back,
            change,
            command,
            untold,
            since: Instant::now(),
            was_stolen,
            stops,
            renewal,
            _bundle,
        })
    }
}

/// A network at work.
pub(super) struct Watched<'a> {
    front: Front,
    seen: Seen<'a>,
    asking: Asking<'a>,
    taken_back: TakenBack<'a>,
    change: Change<'a>,
    command: String,
    /// What was told, and waits until everything stands still.
    untold: Vec<Told>,
    since: Instant,
    was_stolen: bool,
    stops: bool,
    renewal: Option<Renewal>,
    _bundle: Option<Bundle>,
}

impl Watched<'_> {
    /// A decoy was on its way out: nothing goes out any more, and everything is to stand still.
    fn cut_off(&mut self) {
        (self.was_stolen, self.stops) = (true, true);
        self.asking.cut();
        self.front.cut();
    }

    /// Bytes that went out and came back until now.
    pub(super) fn bytes(&self) -> (u64, u64) {
        self.seen.bytes()
    }

    /// Ends it, and says what came of it.
    pub(super) fn end(self) -> Result<Summary, Failure> {
        let Self { mut front, mut seen, mut asking, command, untold: mut last, mut renewal, _bundle, .. } =
            self;
        output::hold(false);
        // What the service gave is kept before this ends.
        login::take(&mut renewal, &mut front, &mut seen, true)?;
        let counts = front.counts();
        last.extend(front.end());
        asking.hear(&mut front, &last)?;
        seen.take(last)?;
        let mut summary = seen.ended(counts)?;
        summary.decoys = front.decoys();
        if let Unknown::Learnt(learnt) = asking.unknown {
            // What the command did counts, also when this cannot be written.
            summary.learnt = learnt.write(&command).unwrap_or_else(|failure| vec![failure.to_string()]);
        }
        Ok(summary)
    }
}

impl Attendant for Watched<'_> {
    fn waits_for(&self) -> Vec<BorrowedFd<'_>> {
        let renews = self.renewal.as_ref().and_then(Renewal::waits_for);
        self.front.waits_for().into_iter().chain(renews).chain(self.taken_back.lines.fds()).collect()
    }

    fn due(&self) -> Option<Instant> {
        if !self.untold.is_empty() {
            // At once: a moment that has passed.
            return Some(self.since);
        }
        self.front.due()
    }

    fn cut(&mut self) {
        self.asking.cut();
        self.front.cut();
    }

    fn change(&mut self, written: &[u8]) -> Result<(), String> {
        self.change.to(&mut self.front, written)
    }

    fn holds(&self) -> Option<String> {
        Kept::of(&self.front, self.change.record).ok().map(|digest| digest.to_string())
    }

    fn shows(&mut self, number: usize, printed: &[u8]) -> bool {
        let Some(name) = self.front.prints(number, printed) else { return true };
        if !self.was_stolen {
            self.untold.push(Told::Printed { name });
            self.cut_off();
        }
        false
    }

    fn attend(&mut self) -> ControlFlow<()> {
        if let Err(failure) = self.taken_back.hear(&mut self.front) {
            return goes_on(Err(failure));
        }
        let mut told = std::mem::take(&mut self.untold);
        told.extend(self.front.attend());
        let is_theft = |one: &Told| matches!(one, Told::Stolen { .. } | Told::Proxy(Report::Stolen { .. }));
        if !self.was_stolen && told.iter().any(is_theft) {
            // First everything stands still and nothing goes out any more; then it is put down.
            self.untold = told;
            self.cut_off();
            return ControlFlow::Continue(());
        }
        let heard = self.asking.hear(&mut self.front, &told);
        // Nothing is said while a question stands.
        output::hold(self.asking.question().is_some());
        let renews = login::begin(&mut self.renewal, &mut self.front, &mut self.seen, &told);
        let taken = login::take(&mut self.renewal, &mut self.front, &mut self.seen, false);
        goes_on(heard.and(renews).and(taken).and_then(|()| self.seen.take(told)))
    }

    fn stops_everything(&mut self) -> bool {
        std::mem::take(&mut self.stops)
    }

    fn question(&self) -> Option<String> {
        self.asking.question()
    }

    fn answered(&mut self, question: &str, line: &str) -> ControlFlow<()> {
        let answered = self.asking.answer(&mut self.front, question, line);
        output::hold(self.asking.question().is_some());
        goes_on(answered)
    }
}

/// What the daemon takes back while the run is at work, or cannot vouch for any more because it is gone.
struct TakenBack<'a> {
    lines: Lines,
    record: &'a OwnRecord,
    run: RunId,
}

impl TakenBack<'_> {
    fn hear(&mut self, front: &mut Front) -> Result<(), Failure> {
        for name in self.lines.ended() {
            if !front.take_back(&name) {
                continue;
            }
            let why = format!(
                "`{name}` is not lent any more: the daemon took it back, or is gone; requests with it are refused"
            );
            output::tell(&why);
            let draft = Draft::new(super::run::who(), "network.taken_back", Decision::Done);
            self.record.append_narrowing(&draft.on(self.run.as_str()).because(&why))?;
        }
        Ok(())
    }
}

/// What cannot be recorded ends the run.
fn goes_on(done: Result<(), Failure>) -> ControlFlow<()> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => {
            output::tell(&format!("{failure}; so the run was ended"));
            ControlFlow::Break(())
        }
    }
}

/// What is done about hosts that no rule knows.
fn unknown(args: &RunArgs, config: &Path) -> Result<Unknown, Failure> {
    if let Some(name) = &args.learn {
        return Learnt::new(config, name, &args.profile).map(|learnt| Unknown::Learnt(Box::new(learnt)));
    }
    if !args.ask {
        return Ok(Unknown::Refused);
    }
    if !rustix::termios::isatty(rustix::stdio::stdin()) {
        let why = "--ask needs a terminal as standard input; use `--allow HOST` or `--learn NAME` instead";
        return Err(Failure::Sandbox(why.into(), 125));
    }
    Ok(Unknown::Asked)
}

/// What came of it, for the person.
#[derive(Default)]
pub(super) struct Summary {
    tally: Tally,
    /// What models answered.
    models: Models,
    /// Whether the person saw it all.
    was_watched: bool,
    /// What must not happen, and did or was tried.
    findings: Vec<String>,
    /// What was refused, why, and how often.
    refused: Vec<(String, String, u64)>,
    /// What became of learning.
    learnt: Vec<String>,
    /// What is still looked for in what is left.
    decoys: Decoys,
}

impl Summary {
    /// For `--json`.
    pub(super) fn value(&self) -> serde_json::Value {
        let refused: Vec<_> = self
            .refused
            .iter()
            .map(|(what, why, times)| json!({"what": what, "why": why, "times": times}))
            .collect();
        json!({
            "allowed": self.tally.allowed, "refused": refused, "findings": self.findings,
            "counts": self.tally.value(), "models": self.models.value(), "learnt": self.learnt,
        })
    }

    /// Says what was refused.
    pub(super) fn tell(&self) {
        self.learnt.iter().for_each(|text| output::tell(text));
        if self.was_watched {
            return;
        }
        for (what, why, times) in self.refused.iter().take(MOST_TOLD) {
            let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
            output::tell(&format!("refused {what}{times}: {why}"));
        }
        if let Some(more) = self.refused.len().checked_sub(MOST_TOLD).filter(|more| *more > 0) {
            output::tell(&format!("refused {more} more; `--watch-net` shows each as it happens"));
        }
    }
}

/// Where secrets that are lent go, with all of its paths or some.
fn lent_to(loans: &[Loan]) -> Vec<(String, u16)> {
    let by_path = |rule: &Rule| -> Vec<(String, u16)> {
        rule.ports.iter().map(|port| (rule.host.clone(), *port)).collect()
    };
    loans
        .iter()
        .flat_map(|loan| loan.hosts.iter().cloned().chain(loan.paths.iter().flat_map(by_path)))
        .collect()
}

/// Whether something was typed about what may be reached.
fn is_typed(args: &RunArgs) -> bool {
    let RunArgs { allow, preset, rules, secret, decoy, publish, ask, learn, .. } = args;
    let lists = [allow, preset, secret, decoy, publish];
    *ask || learn.is_some() || !rules.is_empty() || lists.into_iter().any(|list| !list.is_empty())
}

/// What was allowed for good here, of what no other rule knows: those say it more exactly.
fn remembered(others: &[Rule], home: &Home, caller: &Caller) -> Result<Vec<Rule>, Failure> {
    let remembered = remembered::rules(&home.config, &caller.worktree)?;
    // Others that cannot be used are told of by whoever uses them.
    let Ok(others) = Rules::compile(others.to_vec()) else { return Ok(Vec::new()) };
    let is_new = |rule: &Rule| match (rule.host.parse::<Host>(), rule.ports.first()) {
        (Ok(host), Some(port)) => others.connect(&host, *port).is_unlisted(),
        _ => false,
    };
    Ok(remembered.into_iter().filter(is_new).collect())
}

/// Whether two rules say the same; what they are called and why they are there is nothing that is said.
fn means_the_same(one: &Rule, other: &Rule) -> bool {
    let bare = |rule: &Rule| Rule { label: None, reason: None, ..rule.clone() };
    bare(one) == bare(other)
}

/// A user that nobody is, for the proxy of root: another one for each run, so that no two can reach each other.
fn own_user() -> (u32, u32) {
    const FIRST: u32 = 0x7100_0000;
    let own = FIRST | (std::process::id() & 0x00ff_ffff);
    (own, own)
}

/// The proxy's program.
fn program() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::Sandbox(error.to_string(), 125))?;
    let program = own.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    let shown = program.display();
    Err(Failure::Sandbox(format!("the proxy `{shown}` is missing: install it beside `palisade`"), 125))
}
