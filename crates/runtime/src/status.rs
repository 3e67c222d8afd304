//! How the daemon is.

use ::ledger::verify::Verdict;
use access::{Permit, Principal, ReadMetrics, ReadStatus};
use model::Millis;

use crate::{ActError, Mode, Runtime};

/// How the daemon is.
#[derive(Clone, Debug)]
pub struct Status {
    /// How it is used.
    pub mode: Mode,
    /// Whether worktrees are divided.
    pub worktree_rbac: bool,
    /// The database.
    pub store: &'static str,
    /// Names the master key.
    pub key: String,
    /// Which keys secrets are sealed under.
    pub key_epoch: u32,
    /// Whether a rotation of the keys was begun and is not finished.
    pub key_rotating: bool,
    /// The last ledger entry.
    pub ledger_head: u64,
    /// What the last check of the whole ledger found: intact, tampered, unverifiable, or unchecked.
    pub ledger: String,
    /// Since when.
    pub started_at: Millis,
}

/// What is measured of the parts below, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Vitals {
    /// The last ledger entry.
    pub ledger_head: u64,
    /// Whether entries cannot be written.
    pub ledger_failing: bool,
    /// Entries that wait in the reserve.
    pub ledger_reserved: usize,
    /// How long the oldest entry waits that no checkpoint covers.
    pub ledger_unsigned: Millis,
    /// What the last check of the whole ledger found; `None` before the first has ended.
    pub ledger_verdict: Option<Verdict>,
    /// Whether there is so little room that only acts which narrow are written.
    pub disk_tight: bool,
    /// Which keys secrets are sealed under.
    pub key_epoch: u32,
    /// How many sessions, tasks and questions there are; `None` if the store does not say.
    pub tallies: Option<store::Tallies>,
    /// How long the oldest question waits for a person.
    pub asked_for: Millis,
}

/// Who is told what is measured.
#[derive(Debug)]
pub enum MetricsReader {
    /// A caller, who was judged.
    Caller(Permit<ReadMetrics>),
    /// Whoever asks at the listener on loopback that the settings opened for this alone.
    Scraper,
}

/// One thing that readiness depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// What is wrong with it, if anything.
    pub fault: Option<String>,
}

impl Runtime {
    /// How the daemon is.
    pub async fn status(&self, who: &Principal) -> Result<Status, ActError> {
        let permit = self.look(who, ReadStatus {}).await?;
        Ok(self.tell(permit))
    }

    fn tell(&self, permit: Permit<ReadStatus>) -> Status {
        let (ledger_head, verdict) = self.ledger.state(permit);
        Status {
            mode: self.mode,
            worktree_rbac: self.gate.worktree_rbac(),
            store: match self.store.kind() {
                store::engine::Kind::Sqlite => "sqlite",
                store::engine::Kind::Postgres => "postgres",
            },
            key: self.ring.master().to_string(),
            key_epoch: self.ring.epoch(),
            key_rotating: self.ring.is_rotating(),
            ledger_head,
            ledger: verdict.map_or_else(|| "unchecked".into(), |found| found.to_string()),
            started_at: self.started_at,
        }
    }

    /// Lets this caller read the metrics once.
    pub async fn permit_metrics(&self, who: &Principal) -> Result<MetricsReader, ActError> {
        Ok(MetricsReader::Caller(self.look(who, ReadMetrics {}).await?))
    }

    /// What is measured of the parts below, now.
    pub async fn vitals(&self, _reader: MetricsReader) -> Vitals {
        let tallies = self.store.tallies().await.ok();
        let asked = tallies.map(|tallies| tallies.waits_since).filter(|since| *since > 0);
        let health = self.ledger.health();
        let waits = health.unsigned_since.map_or(0, |since| self.clock.now().saturating_sub(since));
        Vitals {
            ledger_head: health.last_seq,
            ledger_failing: !health.is_good(),
            ledger_reserved: health.reserved,
            ledger_unsigned: waits.max(0),
            ledger_verdict: self.ledger.verdict(),
            disk_tight: self.store.is_tight(),
            key_epoch: self.ring.epoch(),
            tallies,
            asked_for: asked.map_or(0, |since| self.clock.now().saturating_sub(since)).max(0),
        }
    }

    /// What readiness depends on, looked at now.
    pub async fn checks(&self) -> Vec<Check> {
        let store = self.store.ping().await.err().map(|error| error.to_string());
        let health = self.ledger.health();
        let ledger = (!health.is_good()).then(|| match health.last_error {
            Some((_, error)) => format!("entries cannot be written: {error}"),
            None => "the ledger's writer stopped".to_owned(),
        });
        vec![
            Check { name: "store", fault: store },
            Check { name: "ledger", fault: ledger },
            Check { name: "policies", fault: self.gate.shut().map(str::to_owned) },
        ]
    }
}
