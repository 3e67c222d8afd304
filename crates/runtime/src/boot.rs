//! Brings everything up in order: keys, store, ledger, gate; and takes it down.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ::ledger::{Decision, Draft, Keys, Ledger, OpenError, Options};
use access::{Authenticator, BadPassword, Gate, GateConfig, Lifetimes, Unavailable};
use model::{Clock, Millis};
use redact::Redactor;
use store::engine::Engine;
use store::{Answers, KeptRing, StartError, Store};
use tokio::sync::RwLock;
use vault::{KeyRing, Leases, Purpose};
use zeroize::Zeroizing;

use crate::SessionBounds;
use crate::backup::{Unfinished, unfinished};
use crate::guarded::GuardedLedger;
use crate::index::Indexer;
use crate::keeper::{FindRingError, Keeper};
use crate::lending::Lending;
use crate::session::{Desk, Journal};
use crate::standing::{self, Loss, OnLoss, StandingError};
use crate::trees::{Launcher, Trees};

/// How the installation is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One person on one machine.
    Solo,
    /// Several people.
    Team,
}

impl Mode {
    /// The one word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Solo => "solo",
            Self::Team => "team",
        }
    }
}

/// Where the store is.
#[derive(Clone, Debug)]
pub enum Source {
    /// The embedded database in the data directory.
    Embedded,
    /// A PostgreSQL server.
    Postgres(String),
}

/// What is needed to start.
#[derive(Debug)]
pub struct Boot {
    /// The data directory; it exists and is ours alone.
    pub data: PathBuf,
    /// Where the store is.
    pub source: Source,
    /// The key ring.
    pub ring: Arc<KeyRing>,
    /// How the installation is used.
    pub mode: Mode,
    /// Whether worktrees are divided by owners and tiers.
    pub worktree_rbac: bool,
    /// What nobody does without a one-time password that came with the request.
    pub totp_actions: Vec<&'static access::Action>,
    /// How long credentials live.
    pub lifetimes: Lifetimes,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// What text passes before it leaves.
    pub redactor: Redactor,
    /// How the ledger is kept.
    pub ledger: Options,
    /// What to do when the ledger is not what the store remembers.
    pub on_loss: OnLoss,
    /// `palisade`, which makes sandboxes.
    pub launcher: PathBuf,
    /// Further patterns of what it masks, if there are some.
    pub patterns: Option<PathBuf>,
    /// The agents that are known.
    pub agents: agents::Catalog,
    /// Where their programs are looked for.
    pub agent_path: String,
    /// Files that say which keys hosts have that are spoken to over SSH.
    pub known_hosts: Vec<PathBuf>,
    /// How far sessions go.
    pub bounds: SessionBounds,
}

/// Says on the ledger that people may prompt each other's sessions, as far as the daemon says; without that record they may not.
fn is_sharing_noted(ledger: &Ledger) -> bool {
    let warning = "people may prompt each other's sessions in worktrees that say so, too: what one leaves in a conversation and a \
                   tree steers what runs with the rights and the secrets of another";
    let note = Draft::new("local", "session.sharing", Decision::Noted)
        .with("setting", "sessions.dangerously_allow_session_sharing")
        .with("warning", warning);
    let noted = ledger.append(note);
    if let Err(error) = &noted {
        tracing::error!(%error, "that sessions are shared could not be recorded, so they are not");
    }
    noted.is_ok()
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The database could not be opened.
    #[error("the store could not be opened")]
    Store(#[source] store::engine::OpenError),
    /// Another daemon works on the same database.
    #[error("another daemon uses this database; rights are remembered per daemon, so only one may")]
    Taken,
    /// Its schema is not what this program knows.
    #[error(transparent)]
    Schema(StartError),
    /// A restore did not come to its end.
    #[error(transparent)]
    Restoring(#[from] Unfinished),
    /// The store belongs to another master key.
    #[error(
        "the store was made under master key `{made}`, and `{given}` was given; give the right one, nothing was changed"
    )]
    OtherKey {
        /// The name of its key.
        made: String,
        /// The name of the key that was given.
        given: String,
    },
    /// The ring was changed between its being read and the database being taken.
    #[error("the keys were changed by another daemon meanwhile; start again")]
    OtherRing,
    /// The ledger is not what the store remembers.
    #[error(transparent)]
    Lost(Box<Loss>),
    /// Nobody can tell whether it is.
    #[error(transparent)]
    Standing(#[from] StandingError),
    /// The ledger could not be opened.
    #[error("the ledger could not be opened")]
    Ledger(#[source] OpenError),
    /// Facts could not be read.
    #[error(transparent)]
    Facts(#[from] Unavailable),
    /// Passwords cannot be hashed here.
    #[error(transparent)]
    Passwords(#[from] BadPassword),
}

/// Everything that a use case needs.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) store: Arc<Store>,
    pub(crate) gate: Arc<Gate<Store>>,
    pub(crate) auth: Authenticator<Store>,
    pub(crate) ring: Arc<KeyRing>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) index: Indexer,
    pub(crate) mode: Mode,
    pub(crate) started_at: Millis,
    pub(crate) ledger: GuardedLedger,
    /// Learns what is lent, so that it leaves nowhere.
    pub(crate) redactor: Redactor,
    pub(crate) leases: Leases<Lending>,
    /// The access epoch at which everything that is lent was last judged.
    pub(crate) judged: AtomicU64,
    /// Held while a value is learned and lent, or ended and forgotten: one never comes between the other's two.
    pub(crate) lending: std::sync::Mutex<()>,
    /// Where the ring is kept, once it is.
    pub(crate) keeper: Keeper,
    /// Held while something is sealed and until it is committed: a rotation waits for it.
    pub(crate) sealing: Arc<RwLock<()>>,
    /// Held for a whole step of a rotation.
    pub(crate) rotating: tokio::sync::Mutex<()>,
    /// Held while a copy of everything is made: its ring and its rows belong together.
    pub(crate) copying: RwLock<()>,
    /// Repositories and worktrees on the disk.
    pub(crate) trees: Arc<Trees>,
    /// What happens in sessions, and what is at work there.
    pub(crate) journal: Journal,
    pub(crate) desk: Desk,
    pub(crate) agents: agents::Catalog,
    pub(crate) bounds: SessionBounds,
    pub(crate) checks: crate::session::Checks,
    /// What was being done to worktrees when the last daemon ended, until somebody goes on with it.
    pub(crate) interrupted: std::sync::Mutex<Vec<store::Interrupted>>,
}

/// Opens the database, without looking at its schema. Whoever has it needs no permit: only tests and measurements take
/// it from outside, which `tests/promises/permits.rs` looks after.
#[doc(hidden)]
pub async fn open_engine(
    data: &Path,
    source: &Source,
    ring: &KeyRing,
) -> Result<Engine, store::engine::OpenError> {
    match source {
        Source::Embedded => {
            Engine::open_sqlite(&data.join("store").join("palisade.db"), ring.subkey(Purpose::Store).expose())
                .await
        }
        Source::Postgres(url) => Engine::open_postgres(url).await,
    }
}

/// Looks for the ring that a shared database keeps, before anybody takes it.
pub(crate) async fn ring_in_database(url: &str) -> Result<KeptRing, FindRingError> {
    let engine = Engine::open_postgres(url).await?;
    let found = engine.kept_ring().await;
    if let Err(error) = engine.close().await {
        tracing::debug!(%error, "the connection that was only asked did not close");
    }
    Ok(found?)
}

/// Why a store has the schema that it had.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The database could not be opened.
    #[error(transparent)]
    Open(#[from] store::engine::OpenError),
    /// A daemon works on it.
    #[error("another daemon uses this database; stop it first")]
    Taken,
    /// It did not say who holds it.
    #[error(transparent)]
    Engine(#[from] store::engine::EngineError),
    /// The migrations were not applied.
    #[error(transparent)]
    Migrate(#[from] store::engine::MigrateError),
}

/// Brings an older store to the present schema while no daemon has it; says how many migrations that took. The embedded
/// database is opened by the ring, and one elsewhere by its address.
pub async fn upgrade(
    data: &Path,
    source: &Source,
    ring: Option<&KeyRing>,
    clock: &dyn Clock,
) -> Result<usize, UpgradeError> {
    let engine = match (source, ring) {
        (Source::Postgres(url), _) => Engine::open_postgres(url).await?,
        (Source::Embedded, Some(ring)) => open_engine(data, source, ring).await?,
        (Source::Embedded, None) => return Err(store::engine::OpenError::WrongKey(data.into()).into()),
    };
    if !engine.hold().await? {
        return Err(UpgradeError::Taken);
    }
    Ok(engine.migrate(store::MIGRATIONS, clock.now()).await?)
}

/// The keys of the ledger, and what outsiders verify it by.
pub(crate) fn ledger_keys(ring: &KeyRing) -> Keys {
    let seed = Zeroizing::new(*ring.subkey(Purpose::LedgerSigner).expose());
    let chain = Zeroizing::new(*ring.subkey(Purpose::LedgerChain).expose());
    Keys::new(chain, &seed, format!("palisade-{}", ring.fingerprint()))
}

impl Runtime {
    /// Starts everything.
    pub async fn boot(boot: Boot) -> Result<Arc<Self>, BootError> {
        unfinished(&boot.data)?;
        let engine = open_engine(&boot.data, &boot.source, &boot.ring).await.map_err(BootError::Store)?;
        if !engine.hold().await.map_err(|error| BootError::Schema(error.into()))? {
            return Err(BootError::Taken);
        }
        let store = Store::start(engine, Arc::clone(&boot.clock)).await.map_err(BootError::Schema)?;
        let store = Arc::new(store);
        let (given, dir) = (boot.ring.fingerprint().to_string(), boot.data.join("ledger"));
        let made = store.master_key_name().await.map_err(StandingError::from)?;
        if let Some(made) = made.clone().filter(|made| *made != given) {
            return Err(BootError::OtherKey { made, given });
        }
        let lost = standing::loss(&store, &dir).await?;
        if let (Some(lost), OnLoss::Refuse) = (&lost, boot.on_loss) {
            return Err(BootError::Lost(Box::new(lost.clone())));
        }
        let keeper = Keeper::of(&boot.data, &boot.source);
        keeper.check(&store, &boot.ring).await?;
        store.restock();
        let keys = ledger_keys(&boot.ring);
        let signer = (keys.signer_id().to_owned(), keys.public_key());
        let redactor = boot.redactor.clone();
        let scrub = Box::new(move |text: &str| redactor.scrub(text).into_owned());
        let opened = Ledger::open(&dir, keys, Arc::clone(&boot.clock), scrub, boot.ledger);
        let (ledger, recovery) = opened.map_err(BootError::Ledger)?;
        keeper.put_aside(&boot.ring, &boot.data);
        if !recovery.interrupted.is_empty() {
            tracing::warn!(
                count = recovery.interrupted.len(),
                "acts were interrupted by the last end; their records are closed"
            );
        }
        let ledger = Arc::new(ledger);
        if let Some(lost) = lost {
            let aside = standing::accept(&store, &ledger, &lost).await?;
            tracing::warn!(
                ?lost,
                ?aside,
                "entries of the ledger are lost; that is recorded, and the daemon goes on"
            );
        }
        if made.is_none()
            && let Err(error) = store.keep_master_key_name(&given).await
        {
            tracing::warn!(%error, "which master key the store belongs to could not be written down");
        }
        // Before anybody can begin such a thing here.
        let interrupted = store.interrupted_endings().await.map_err(StandingError::from)?.into();
        let config = GateConfig {
            worktree_rbac: boot.worktree_rbac,
            session_sharing: boot.bounds.shares && is_sharing_noted(&ledger),
            totp_actions: boot.totp_actions,
        };
        let gate =
            Gate::new(Arc::clone(&store), Arc::clone(&ledger), Arc::clone(&boot.clock), config).await?;
        let gate = Arc::new(gate);
        let auth = Authenticator::new(Arc::clone(&gate), Arc::clone(&boot.ring), boot.lifetimes)?;
        Ok(Arc::new(Self {
            journal: Journal::new(Arc::clone(&store), Arc::clone(&boot.clock)),
            desk: Desk::default(),
            agents: boot.agents,
            bounds: boot.bounds,
            checks: crate::session::Checks::default(),
            interrupted,
            index: Indexer::new(Arc::clone(&store), Arc::clone(&ledger)),
            store,
            gate,
            auth,
            ring: boot.ring,
            started_at: boot.clock.now(),
            clock: boot.clock,
            mode: boot.mode,
            ledger: GuardedLedger::new(ledger, signer),
            redactor: boot.redactor,
            leases: Leases::default(),
            judged: AtomicU64::new(0),
            lending: std::sync::Mutex::default(),
            keeper,
            sealing: Arc::default(),
            rotating: tokio::sync::Mutex::default(),
            copying: RwLock::default(),
            trees: Arc::new(Trees::new(
                &boot.data,
                Launcher::new(boot.launcher, &boot.data, boot.agent_path, boot.known_hosts, boot.patterns),
                boot.mode,
            )),
        }))
    }

    /// Who is calling, and how logins begin and end.
    pub fn auth(&self) -> &Authenticator<Store> {
        &self.auth
    }

    /// The gate.
    pub fn gate(&self) -> &Gate<Store> {
        &self.gate
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The key ring, for sealing what the server itself keeps.
    pub fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// Answers remembered under idempotency keys.
    pub fn answers(&self) -> Answers<'_> {
        self.store.answers()
    }

    /// Keeps house until told to stop: search index, counts of strangers, old events, old entries, what is lent.
    pub async fn keep_house(self: Arc<Self>, stop: tokio::sync::watch::Receiver<bool>) {
        self.sweep_trees().await;
        match self.store.reopen_interrupted().await {
            Ok(0) => {}
            Ok(count) => tracing::warn!(
                count,
                "sessions of worktrees that were being ended, and stayed, are open again"
            ),
            Err(error) => tracing::error!(%error, "sessions of worktrees that stayed may be closed"),
        }
        // Beside each other: the end of a right does not wait for an index.
        let tidy = async {
            tokio::select! {
                () = self.tidy(stop.clone()) => {}
                () = self.watch_leases() => {}
            }
        };
        // What is written down ends last: those who end still say so.
        let (over, ended) = tokio::sync::watch::channel(false);
        let sessions = async {
            // Nothing is begun in a worktree that is being ended, so nobody else has to wait for large trees.
            let mut stopped = stop.clone();
            let endings = async {
                tokio::select! {
                    () = self.finish_endings() => {}
                    _ = stopped.changed() => {}
                }
            };
            tokio::join!(self.attend_sessions(stop.clone()), endings, self.find_over());
            over.send_replace(true);
        };
        tokio::join!(tidy, sessions, self.journal.keep(ended));
    }

    /// Takes away trees that were being made when the last daemon ended: nothing names them.
    async fn sweep_trees(&self) {
        for &id in self.trees.left() {
            let is_kept = match self.gate.worktree(id).await {
                Ok(facts) => facts.is_some(),
                Err(error) => {
                    tracing::warn!(%error, "whether a tree belongs to a worktree cannot be told now");
                    continue;
                }
            };
            match self.trees.finish(id, is_kept).await {
                Ok(()) => tracing::warn!(worktree = %id, "a tree that was being made was taken back"),
                Err(error) => {
                    tracing::error!(%error, worktree = %id, "a tree that was being made is still there")
                }
            }
        }
    }

    async fn tidy(&self, mut stop: tokio::sync::watch::Receiver<bool>) {
        const EVENTS_KEPT: Millis = 30 * 24 * 60 * 60 * 1_000;
        let mut every = tokio::time::interval(std::time::Duration::from_secs(5));
        let mut retention = crate::retention::times();
        loop {
            tokio::select! {
                _ = every.tick() => {}
                _ = retention.tick() => {
                    if let Err(error) = self.drop_old_entries().await {
                        tracing::warn!(%error, "old entries of the ledger are still there");
                    }
                }
                _ = stop.changed() => break,
            }
            self.store.restock();
            // A full disk has better uses for the room that is left.
            if !self.store.is_tight()
                && let Err(error) = self.index.catch_up().await
            {
                tracing::warn!(%error, "the ledger's search index is behind");
            }
            self.auth.flush_strangers().await;
            if let Err(error) = self.store.forget_events(self.clock.now().saturating_sub(EVENTS_KEPT)).await {
                tracing::warn!(%error, "old events could not be removed");
            }
        }
    }

    /// Ends in order: what is counted is written down, the chain is signed.
    pub async fn shut_down(&self) {
        self.auth.flush_strangers().await;
        // So that the next start notices whatever is done to the ledger meanwhile.
        if !self.store.is_tight()
            && let Err(error) = self.index.catch_up().await
        {
            tracing::warn!(%error, "the ledger's search index is behind");
        }
        let signed = self.ledger.sign().await;
        if !matches!(signed, Ok(Ok(_))) {
            tracing::error!("the last checkpoint could not be written; the next start signs the chain");
        }
    }
}
