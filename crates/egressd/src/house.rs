//! What all connections of one sandbox share: rules, names, and who is told.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use egress::control::{Loan, Report, Verdict, Wanted};
use egress::names::{Named, Table};
use rules::{Decision, Host, Look, Rule, RuleId, Rules};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use crate::held::Questions;
use crate::lent::Lent;
use crate::logins::Logins;
use crate::published::WaysIn;
use crate::quota::{self, Over, Quota};
use crate::relay::Pipes;
use crate::tls::Authority;

/// Reports that wait to be said; then connections wait with them.
const REPORTS: usize = 1024;
/// How long a name that the launcher has just given out may take to get here.
const NAMING: Duration = Duration::from_millis(250);
/// How long open connections may take to say that they are over.
const CLOSING: Duration = Duration::from_secs(2);
/// Long heads at once: 32 MiB at most.
const LONG_HEADS: usize = 512;
/// Contents that are kept as a whole at once: 32 MiB at most.
const CONTENTS: usize = 128;
/// Connections that speak HTTP/2 at once: each may have some megabytes on their way. More speak HTTP/1.1.
const TWOS: usize = 128;
/// WebSockets at once: each may have two messages of a mebibyte that are not whole.
const SOCKETS: usize = 256;
/// The most of a reason that is told.
const MOST_OF_TEXT: usize = 1024;
/// The set of rules after a theft: none, and no other follows.
const STOLEN: u64 = u64::MAX - 1;
/// Refusals that the sandbox is told of.
const REMEMBERED: usize = 20;
/// The most connections at once; more wait.
pub(crate) const MOST_CONNECTIONS: usize = 8_192;

tokio::task_local! {
    /// Where the connection came from that this task serves.
    pub(crate) static FROM: SocketAddr;
}

/// A set of rules that holds.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) rules: Rules,
}

impl Generation {
    fn none() -> Self {
        Self { rules: Rules::none() }
    }

    /// What a rule is called on the record.
    pub(crate) fn label(&self, id: RuleId) -> String {
        self.rules
            .rule(id)
            .map_or_else(String::new, |rule| rule.label.clone().unwrap_or_else(|| rule.host.clone()))
    }

    /// The verdict on a connection, in the words of the record.
    pub(crate) fn connect(&self, host: &Host, port: u16) -> Result<(Verdict, Look), Verdict> {
        self.told(self.rules.connect(host, port))
    }

    /// The same for any decision.
    pub(crate) fn told(&self, decision: Decision) -> Result<(Verdict, Look), Verdict> {
        match decision {
            Decision::Allowed { rule, look } => {
                Ok((Verdict::Allowed { rule: self.label(rule), inspected: look == Look::Inspect }, look))
            }
            Decision::Refused(why) => Err(Verdict::Refused { why: why.to_string() }),
        }
    }
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct House {
    holds: ArcSwap<Generation>,
    /// Counts the sets of rules; the last one says that everything is to end.
    turn: watch::Sender<u64>,
    names: Mutex<Table>,
    named: Notify,
    reports: mpsc::Sender<Report>,
    pub(crate) pipes: Pipes,
    open: AtomicUsize,
    /// How many long heads, and contents that are kept as a whole, there may be at once.
    pub(crate) heads: Semaphore,
    pub(crate) contents: Semaphore,
    /// How many connections that speak HTTP/2, and WebSockets, there may be at once.
    pub(crate) twos: Semaphore,
    pub(crate) sockets: Semaphore,
    emptied: Notify,
    authority: OnceLock<Authority>,
    lent: ArcSwap<Lent>,
    refusals: Mutex<VecDeque<(Wanted, String)>>,
    /// Reports that go before all others.
    urgent: mpsc::UnboundedSender<Report>,
    /// A decoy was on its way out.
    was_stolen: AtomicBool,
    /// What people are asked.
    pub(crate) questions: Questions,
    pub(crate) quota: Arc<Quota>,
    pub(crate) ways_in: WaysIn,
    /// Logins whose tokens are renewed outside.
    pub(crate) logins: Logins,
}

/// What is to be said, and what of it goes first.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) said: mpsc::Receiver<Report>,
    pub(crate) urgent: mpsc::UnboundedReceiver<Report>,
}

/// A report without more of what strangers chose than fits.
fn shortened(mut report: Report) -> Report {
    let cut = |text: &mut String| {
        if text.len() > MOST_OF_TEXT {
            let end = text.floor_char_boundary(MOST_OF_TEXT);
            text.truncate(end);
            text.push('…');
        }
    };
    match &mut report {
        Report::Judged { verdict: Verdict::Refused { why }, .. } | Report::TooMuch { why, .. } => cut(why),
        Report::Finding { what, .. } => cut(what),
        Report::Over { trouble: Some(trouble), .. } => cut(trouble),
        _ => {}
    }
    report
}

/// Tells what was done, now and then, as long as there is somebody to tell.
pub(crate) async fn account(house: Arc<House>) {
    while !house.is_closed() {
        house.quota.changes().await;
        house.say(Report::Used(house.quota.used())).await;
        tokio::time::sleep(quota::TELLING).await;
    }
}

/// That one connection is open.
#[derive(Debug)]
pub(crate) struct Open(Arc<House>);

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.emptied.notify_waiters();
        }
    }
}

impl House {
    /// Without rules or names; what it says comes out at the other end.
    pub(crate) fn new() -> (Self, Said) {
        let (reports, said) = mpsc::channel(REPORTS);
        let (urgent, first) = mpsc::unbounded_channel();
        let house = Self {
            holds: ArcSwap::from_pointee(Generation::none()),
            turn: watch::channel(0).0,
            names: Mutex::new(Table::default()),
            named: Notify::new(),
            reports,
            pipes: Pipes::default(),
            open: AtomicUsize::new(0),
            heads: Semaphore::new(LONG_HEADS),
            contents: Semaphore::new(CONTENTS),
            twos: Semaphore::new(TWOS),
            sockets: Semaphore::new(SOCKETS),
            emptied: Notify::new(),
            authority: OnceLock::new(),
            lent: ArcSwap::from_pointee(Lent::new(Vec::new())),
            refusals: Mutex::default(),
            urgent,
            was_stolen: AtomicBool::new(false),
            questions: Questions::default(),
            quota: Arc::default(),
            ways_in: WaysIn::default(),
            logins: Logins::default(),
        };
        (house, Said { said, urgent: first })
    }

    /// The rules that hold now.
    pub(crate) fn rules(&self) -> Arc<Generation> {
        self.holds.load_full()
    }

    /// Tells when other rules hold, or everything is to end.
    pub(crate) fn turns(&self) -> watch::Receiver<u64> {
        self.turn.subscribe()
    }

    /// Which set of rules holds now.
    pub(crate) fn turn(&self) -> u64 {
        *self.turn.borrow()
    }

    /// Whether everything is to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.turn() == u64::MAX
    }

    /// Puts a set of rules in force; one that cannot be used leaves those before.
    pub(crate) fn rule(&self, generation: u64, written: Vec<Rule>) {
        // Whoever was seen to steal gets nothing more.
        let written = if self.was_stolen.load(Ordering::Acquire) { Vec::new() } else { written };
        let report = match Rules::compile(written) {
            Ok(rules) => {
                self.holds.store(Arc::new(Generation { rules }));
                self.turn.send_replace(generation);
                // It may have been seen meanwhile, and these would come after what that did.
                if self.was_stolen.load(Ordering::Acquire) {
                    self.shut();
                }
                Report::Holds { generation }
            }
            Err(faults) => Report::Unusable { generation, why: faults.to_string() },
        };
        let _ = self.reports.blocking_send(report);
    }

    /// Addresses stand for names from now on.
    pub(crate) fn name(&self, names: Vec<Named>) {
        let mut table = self.table();
        names.into_iter().for_each(|named| table.take(named));
        drop(table);
        self.named.notify_waiters();
    }

    /// The name that an address stands for. The launcher tells a name before it gives the address out, and not to the
    /// same socket: it may still be on its way.
    pub(crate) async fn named(&self, address: IpAddr) -> Option<String> {
        let known = || self.table().name(address).map(str::to_owned);
        let waits = async {
            loop {
                let told = self.named.notified();
                if let Some(name) = known() {
                    return name;
                }
                told.await;
            }
        };
        tokio::time::timeout(NAMING, waits).await.ok()
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something; waits while too much is unsaid.
    pub(crate) async fn say(&self, report: Report) {
        let _ = self.reports.send(shortened(report)).await;
    }

    /// Room for one more report, once there is some; with it something can be said at the very moment at which it is so.
    pub(crate) async fn room(&self) -> Option<mpsc::Permit<'_, Report>> {
        self.reports.reserve().await.ok()
    }

    /// Signs for hosts from now on.
    pub(crate) fn sign(&self, authority: Authority) {
        let _ = self.authority.set(authority);
    }

    /// Who signs for hosts.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        self.authority.get()
    }

    /// Lends these, and nothing else.
    pub(crate) fn lend(&self, loans: Vec<Loan>) {
        self.lent.store(Arc::new(self.lent().replaced(loans)));
    }

    /// What is lent.
    pub(crate) fn lent(&self) -> Arc<Lent> {
        self.lent.load_full()
    }

    /// Says that something happened which must not.
    pub(crate) async fn found(&self, wanted: &Wanted, what: String) {
        if let Some(name) = self.lent().stolen() {
            // Here and now, whoever hears of it when: what is open is closed, and nothing more goes out.
            self.was_stolen.store(true, Ordering::Release);
            self.shut();
            let _ = self.urgent.send(shortened(Report::Stolen { wanted: wanted.clone(), name }));
        }
        self.say(Report::Finding { wanted: wanted.clone(), what }).await;
    }

    /// Nothing more goes out, and what is open is closed.
    fn shut(&self) {
        self.holds.store(Arc::new(Generation::none()));
        self.turn.send_if_modified(|turn| *turn != u64::MAX && std::mem::replace(turn, STOLEN) != STOLEN);
    }

    /// What the sandbox may know of its network: what it may reach, what was refused, and what to do about it.
    pub(crate) fn told(&self) -> serde_json::Value {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refused: Vec<_> = refusals
            .iter()
            .map(|(wanted, why)| {
                serde_json::json!({
                    "host": wanted.host, "port": wanted.port, "method": wanted.method, "path": wanted.path, "why": why,
                })
            })
            .collect();
        let generation = self.rules();
        let rules: Vec<&Rule> = generation.rules.list().map(|(_, rule, _)| rule).collect();
        serde_json::json!({
            "rules": rules, "refused": refused, "limits": self.quota.limits(), "used": self.quota.used(),
            "to_do": "ask the person who started this sandbox for a rule: `palisade run --allow HOST[:PORT]`, or `--ask`",
        })
    }

    /// Says what was decided.
    pub(crate) async fn judged(&self, wanted: &Wanted, verdict: Verdict, address: Option<SocketAddr>) {
        if let Verdict::Refused { why } = &verdict {
            self.remember(wanted, why);
        }
        let from = FROM.try_with(|from| *from).ok();
        drop(from.and_then(|from| self.questions.used(from)));
        self.say(Report::Judged { wanted: wanted.clone(), verdict, address, from }).await;
    }

    /// A connection is over. One that waited to be allowed, and then asked for nothing, is told of: what was allowed for it is
    /// allowed for nobody else.
    pub(crate) async fn ended(&self) {
        let Some((host, port)) = FROM.try_with(|from| self.questions.used(*from)).ok().flatten() else {
            return;
        };
        let why = "it was allowed, and the program that had waited for that did not use it".to_owned();
        self.judged(&Wanted { host, port, ..Wanted::default() }, Verdict::Refused { why }, None).await;
    }

    /// Says that there was too much of something, the first time.
    pub(crate) async fn over(&self, wanted: &Wanted, over: Over) {
        if self.quota.refused(over) {
            let (why, from) = (over.to_string(), FROM.try_with(|from| *from).ok());
            self.remember(wanted, &why);
            let limit = over.name().to_owned();
            self.say(Report::TooMuch { wanted: wanted.clone(), limit, why, from }).await;
        }
    }

    /// Keeps a refusal for the sandbox, which may ask.
    pub(crate) fn remember(&self, wanted: &Wanted, why: &str) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() >= REMEMBERED {
            refusals.pop_front();
        }
        refusals.push_back((wanted.clone(), why.to_owned()));
    }

    /// Counts a connection, as long as what comes back lives.
    pub(crate) fn opened(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::AcqRel);
        Open(Arc::clone(self))
    }

    /// How many are open.
    pub(crate) fn is_full(&self) -> bool {
        self.open.load(Ordering::Acquire) >= MOST_CONNECTIONS
    }

    /// Everything is to end.
    pub(crate) fn close(&self) {
        self.holds.store(Arc::new(Generation::none()));
        self.turn.send_replace(u64::MAX);
    }

    /// Waits until nothing is open, for a while.
    pub(crate) async fn emptied(&self) {
        let waits = async {
            loop {
                let told = self.emptied.notified();
                if self.open.load(Ordering::Acquire) == 0 {
                    return;
                }
                told.await;
            }
        };
        let _ = tokio::time::timeout(CLOSING, waits).await;
        self.say(Report::Used(self.quota.used())).await;
        self.say(Report::Last).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_decoy_that_an_earlier_request_finds_counts_after_other_loans_have_come() {
        const WORD: &str = "ghp_DECOYdecoyDECOYdecoyDECOYdecoy0123456789";
        let decoy = || Loan { name: "BAIT".into(), word: WORD.into(), is_decoy: true, ..Loan::default() };
        let (house, mut said) = House::new();
        house.lend(vec![decoy()]);
        let before = house.lent();
        house.lend(vec![decoy()]);
        let astray = before.watch().look(format!("some {WORD} text").as_bytes()).unwrap_err();
        house.found(&Wanted::default(), astray.why()).await;
        assert!(matches!(said.urgent.try_recv(), Ok(Report::Stolen { name, .. }) if name == "BAIT"));
        assert_eq!(house.turn(), STOLEN);
    }
}
