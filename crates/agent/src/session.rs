//! One conversation: its directory, its level, what was said, and the one turn that may be running.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::autonomy::Autonomy;
use crate::cancel::Cancel;
use crate::config::Config;
use crate::history::{Kept, SessionId, Shelf};
use crate::provider::{Entry, Pool, Web};
use crate::purse::Purse;
use crate::tools::{Desk, Processes, Programs, Tree};

/// What all sessions share.
pub(crate) struct House {
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    pub(crate) web: Web,
    pub(crate) shelf: Shelf,
    pub(crate) programs: Arc<Programs>,
    pub(crate) interpreters: Arc<Programs>,
}

impl House {
    pub(crate) fn open(mut config: Config) -> Self {
        let web = Web::new();
        let providers = std::mem::take(&mut config.providers);
        let pool = Pool::new(providers, &config.limits, &config.redactor, &web);
        let shelf = Shelf::open(config.home.as_deref());
        let programs = Arc::new(std::mem::take(&mut config.programs));
        let interpreters = Arc::new(std::mem::take(&mut config.interpreters));
        Self { config, pool, web, shelf, programs, interpreters }
    }
}

/// A conversation.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) desk: Arc<Desk>,
    pub(crate) purse: Arc<Purse>,
    mode: Mutex<Autonomy>,
    entries: Mutex<Vec<Entry>>,
    running: Mutex<Option<Cancel>>,
    always: Mutex<BTreeSet<(&'static str, String)>>,
    calls: AtomicU64,
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    pub(crate) fn new(house: &House, cwd: &Path) -> Result<Self, String> {
        Self::made(house, SessionId::random()?, cwd, house.config.autonomy, Vec::new())
    }

    /// The session that was kept; in the directory that it was in.
    pub(crate) fn load(house: &House, id: &SessionId, cwd: &Path) -> Result<Self, String> {
        let kept = house.shelf.load(id)?;
        if kept.cwd != cwd {
            return Err("that session was in another directory".to_owned());
        }
        // What it may do is said by whoever starts it now, and never more than it had.
        let mode = kept.mode.parse::<Autonomy>()?.min(house.config.autonomy);
        Self::made(house, kept.id, cwd, mode, kept.entries)
    }

    fn made(
        house: &House,
        id: SessionId,
        cwd: &Path,
        mode: Autonomy,
        entries: Vec<Entry>,
    ) -> Result<Self, String> {
        let config = &house.config;
        let calls = entries.iter().map(|entry| match entry {
            Entry::Assistant { calls, .. } => calls.len() as u64,
            Entry::User { .. } | Entry::Results { .. } => 0,
        });
        let desk = Desk {
            tree: Arc::new(Tree::open(cwd)?),
            limits: config.limits.clone(),
            writing: config.writing,
            programs: Arc::clone(&house.programs),
            interpreters: Arc::clone(&house.interpreters),
            grant: config.grant.clone(),
            processes: Arc::new(Processes::default()),
            web: house.web.clone(),
            redactor: config.redactor.clone(),
        };
        Ok(Self {
            id,
            desk: Arc::new(desk),
            purse: Purse::new(config.grant.budget, None),
            mode: Mutex::new(mode),
            calls: AtomicU64::new(calls.sum()),
            entries: Mutex::new(entries),
            running: Mutex::new(None),
            always: Mutex::new(BTreeSet::new()),
        })
    }

    pub(crate) fn mode(&self) -> Autonomy {
        *held(&self.mode)
    }

    pub(crate) fn set_mode(&self, mode: Autonomy) {
        *held(&self.mode) = mode;
        // What was answered for always was answered at another level.
        held(&self.always).clear();
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        held(&self.entries).clone()
    }

    /// Notes what was said, and keeps it.
    pub(crate) fn note(&self, house: &House, entries: &[Entry]) -> Result<(), String> {
        *held(&self.entries) = entries.to_vec();
        house.shelf.keep(&Kept {
            version: 1,
            id: self.id.clone(),
            cwd: self.desk.tree.shown().to_owned(),
            mode: self.mode().word().to_owned(),
            entries: entries.to_vec(),
        })
    }

    /// The word that stops the turn which begins now; nothing if one is running.
    pub(crate) fn begin(&self) -> Option<Cancel> {
        let mut running = held(&self.running);
        if running.is_some() {
            return None;
        }
        let cancel = Cancel::default();
        *running = Some(cancel.clone());
        Some(cancel)
    }

    pub(crate) fn end(&self) {
        *held(&self.running) = None;
    }

    pub(crate) fn cancel(&self) {
        if let Some(cancel) = held(&self.running).as_ref() {
            cancel.cancel();
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        held(&self.running).is_some()
    }

    /// A name for a call that no other call of this session has.
    pub(crate) fn next_call(&self) -> String {
        format!("call_{}", self.calls.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn is_always(&self, tool: &'static str, subject: &str) -> bool {
        held(&self.always).contains(&(tool, subject.to_owned()))
    }

    pub(crate) fn allow_always(&self, tool: &'static str, subject: &str) {
        held(&self.always).insert((tool, subject.to_owned()));
    }
}
