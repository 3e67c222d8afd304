//! One installation inside the test: real store, real ledger, a clock that stands still until moved.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use access::{AuthError, Lifetimes, Principal, Tokens};
use model::{Clock, FixedClock, Millis, Role, UserId};
use runtime::{Boot, Mode, PasswordSource, Runtime, Source};
use store::engine::{Engine as Database, Value};
use vault::{KeyRing, MasterKey, Purpose, Secret};

#[path = "../../../store/tests/kit/server.rs"]
#[expect(dead_code, reason = "the store's own tests use more of it")]
pub(crate) mod server;

pub(crate) const PASSWORD: &str = "correct horse battery";
pub(crate) const SECOND: Millis = 1_000;
pub(crate) const MINUTE: Millis = 60 * SECOND;
pub(crate) const DAY: Millis = 24 * 60 * MINUTE;

/// What the store is kept in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Sqlite,
    Postgres,
}

impl Kept {
    /// An empty store of this kind.
    pub(crate) fn source(self) -> Source {
        match self {
            Self::Sqlite => Source::Embedded,
            Self::Postgres => Source::Postgres(server::Server::shared().database()),
        }
    }
}

/// Makes tests of promises that hold whatever the store is kept in. One that is not named here is never called,
/// which the compiler says.
macro_rules! on_both_engines {
    ($($promise:ident,)+) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(crate::house::Kept::Sqlite).await;
            })+
        }

        mod on_postgresql {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(crate::house::Kept::Postgres).await;
            })+
        }
    };
}
pub(crate) use on_both_engines;

pub(crate) struct House {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) ring: Arc<KeyRing>,
    /// Makes the ledger's disk fail.
    pub(crate) faults: Arc<ledger::Faults>,
    source: Source,
    lifetimes: Lifetimes,
    folder: tempfile::TempDir,
    /// The database, opened a second time: the runtime gives nobody its own.
    pub(crate) behind: Database,
}

/// Someone who is signed in.
pub(crate) struct Someone {
    pub(crate) id: UserId,
    pub(crate) email: String,
    pub(crate) tokens: Tokens,
    pub(crate) who: Principal,
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::on(Kept::Sqlite).await
    }

    pub(crate) async fn on(kept: Kept) -> Self {
        Self::with(kept.source(), Lifetimes::default()).await
    }

    pub(crate) async fn with(source: Source, lifetimes: Lifetimes) -> Self {
        let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap();
        let clock = Arc::new(FixedClock::at(1_800_000_000_000));
        let ring = Arc::new(KeyRing::new(MasterKey::random().unwrap()));
        let faults = Arc::<ledger::Faults>::default();
        let runtime = boot(&folder, &source, &ring, lifetimes, &clock, &faults).await;
        let behind = open(&folder, &source, &ring).await;
        Self { runtime, clock, ring, faults, source, lifetimes, folder, behind }
    }

    /// The same installation after the daemon was started again.
    pub(crate) async fn again(self) -> Self {
        let Self { runtime, clock, ring, faults, source, lifetimes, folder, behind } = self;
        runtime.shut_down().await;
        drop(runtime);
        let runtime = boot(&folder, &source, &ring, lifetimes, &clock, &faults).await;
        Self { runtime, clock, ring, faults, source, lifetimes, folder, behind }
    }

    /// The same installation after the daemon was started again with this master key.
    pub(crate) async fn again_under(mut self, master: &MasterKey) -> Self {
        self.ring = Arc::new(KeyRing::read(&self.kept_ring().await, master).unwrap());
        self.again().await
    }

    /// The ring of this installation as it is kept.
    pub(crate) async fn kept_ring(&self) -> Vec<u8> {
        match runtime::kept_ring(self.folder.path(), &self.source).await.unwrap() {
            runtime::KeptRing::Ring(kept) => kept,
            other => panic!("{other:?}"),
        }
    }

    /// Makes the owner.
    pub(crate) async fn owner(&self) -> Someone {
        let secret = self.runtime.auth().offer_bootstrap().await.unwrap().unwrap();
        let (email, name) = ("owner@example.org".parse().unwrap(), "Owner".parse().unwrap());
        let made = self.runtime.auth().bootstrap(secret.expose(), email, name, password(), "10.0.0.1").await;
        self.someone("owner@example.org", made.unwrap()).await
    }

    /// Makes a user and signs them in, from an address of their own.
    pub(crate) async fn user(&self, by: &Someone, name: &str, role: Role) -> Someone {
        let email = format!("{name}@example.org");
        let plain = PasswordSource::Plain(password());
        let (parsed, shown) = (email.parse().unwrap(), name.parse().unwrap());
        self.runtime.create_user(&by.who, parsed, shown, role, plain).await.unwrap();
        let tokens = self.login(&email, PASSWORD, &format!("peer of {name}")).await.unwrap();
        self.someone(&email, tokens).await
    }

    pub(crate) async fn login(&self, email: &str, text: &str, peer: &str) -> Result<Tokens, AuthError> {
        self.runtime.auth().login(email, Secret::new(text.to_owned()), None, peer).await
    }

    pub(crate) async fn someone(&self, email: &str, tokens: Tokens) -> Someone {
        let who = self.runtime.auth().authenticate(tokens.access.expose()).await.unwrap();
        Someone { id: tokens.user, email: email.to_owned(), tokens, who }
    }

    /// Changes the store behind everyone's back.
    pub(crate) async fn sql(&self, sql: &'static str, args: &[Value]) -> u64 {
        let mut tx = self.behind.write().await.unwrap();
        let changed = tx.exec(sql, args).await.unwrap();
        tx.commit().await.unwrap();
        changed
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        self.behind.row(sql, &[]).await.unwrap().unwrap().int(0).unwrap()
    }

    /// How many entries the ledger has for this action with this decision.
    pub(crate) fn entries(&self, action: &str, decision: &str) -> usize {
        let ledger = self.runtime.gate().ledger();
        let mut tail = ledger::Tail::new(ledger.dir(), 1);
        let all = tail.more(ledger.head().seq, 1_000_000).unwrap();
        all.iter().filter(|one| one.entry.action == action && one.entry.decision.word() == decision).count()
    }

    /// How many entries the ledger has.
    pub(crate) fn head(&self) -> u64 {
        self.runtime.gate().ledger().head().seq
    }
}

async fn open(folder: &tempfile::TempDir, source: &Source, ring: &KeyRing) -> Database {
    match source {
        Source::Embedded => {
            let file = folder.path().join("store").join("palisade.db");
            Database::open_sqlite(&file, ring.subkey(Purpose::Store).expose()).await.unwrap()
        }
        Source::Postgres(url) => Database::open_postgres(url).await.unwrap(),
    }
}

async fn boot(
    folder: &tempfile::TempDir,
    source: &Source,
    ring: &Arc<KeyRing>,
    lifetimes: Lifetimes,
    clock: &Arc<FixedClock>,
    faults: &Arc<ledger::Faults>,
) -> Arc<Runtime> {
    let boot = Boot {
        data: folder.path().to_owned(),
        source: source.clone(),
        ring: Arc::clone(ring),
        mode: Mode::Team,
        worktree_rbac: true,
        totp_actions: Vec::new(),
        lifetimes,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        redactor: redact::Redactor::new(),
        ledger: ledger::Options {
            lock_wait: std::time::Duration::from_secs(10),
            faults: Some(Arc::clone(faults)),
            ..Default::default()
        },
        on_loss: runtime::OnLoss::Refuse,
        launcher: std::path::PathBuf::from("palisade"),
        patterns: None,
        agents: agents::Catalog::default(),
        agent_path: String::new(),
        known_hosts: Vec::new(),
        bounds: runtime::SessionBounds::default(),
    };
    Runtime::boot(boot).await.unwrap()
}

pub(crate) fn password() -> Secret<String> {
    Secret::new(PASSWORD.to_owned())
}

/// A count, scaled by `PALISADE_SCALE` (a twentieth unless told), at least `least`.
pub(crate) fn scale(full: u32, least: u32) -> u32 {
    let scale =
        std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.05);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small")]
    let scaled = (f64::from(full) * scale) as u32;
    scaled.max(least)
}

/// Numbers that look random and are the same each time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
