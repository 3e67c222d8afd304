//! What happens in sessions: written down in order, then told to whoever follows.
//!
//! Flow: [`Journal::write`] -> one writer that takes all that waits, numbers it and commits it at once -> the newest steps of
//! each session in memory, and a number that wakes followers.
//!
//! Invariants: nobody is told of a step that is not on the disk; places are given by the one writer, without gaps; who
//! writes faster than the disk waits; followers of what is new read no database.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::{Clock, SessionId, Step, StepKind, TaskId};
use serde_json::Value;
use store::engine::EngineError;
use store::{Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// Steps that wait for the writer.
const WAITING: usize = 4_096;
/// Steps that are written at once.
const AT_ONCE: usize = 1_024;
/// Steps of a session that are kept in memory, and bytes of them.
const TAIL: usize = 256;
const TAIL_BYTES: usize = 256 << 10;
/// Sessions that are kept in memory though nobody follows them.
const RESTING: usize = 512;
/// How long is waited before what could not be written is tried again, and how long at the end.
const AGAIN: Duration = Duration::from_millis(500);
const PARTING: Duration = Duration::from_secs(5);
/// Kibibytes of steps that wait or are being written.
const ROOM: u32 = 64 << 10;
/// Sessions whose places the writer remembers.
const PLACES: usize = 4_096;

/// A step before it has a place.
#[derive(Debug)]
struct Draft {
    session: SessionId,
    task: Option<TaskId>,
    kind: StepKind,
    body: Value,
    /// Its share of the room.
    _room: Option<OwnedSemaphorePermit>,
}

/// What is known of a session in memory.
#[derive(Debug)]
struct Live {
    last: i64,
    tail: VecDeque<(Arc<Step>, usize)>,
    bytes: usize,
    newest: watch::Sender<i64>,
}

impl Live {
    fn at(last: i64) -> Self {
        Self { last, tail: VecDeque::new(), bytes: 0, newest: watch::Sender::new(last) }
    }

    fn push(&mut self, step: Arc<Step>, size: usize) {
        self.last = self.last.max(step.seq);
        self.tail.push_back((step, size));
        self.bytes += size;
        while self.tail.len() > TAIL || (self.bytes > TAIL_BYTES && self.tail.len() > 1) {
            let Some((_, size)) = self.tail.pop_front() else { break };
            self.bytes -= size;
        }
        self.newest.send_replace(self.last);
    }
}

/// What happens in sessions.
#[derive(Debug)]
pub(crate) struct Journal {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    to: mpsc::Sender<Draft>,
    from: Mutex<Option<mpsc::Receiver<Draft>>>,
    room: Arc<Semaphore>,
    live: Mutex<HashMap<SessionId, Live>>,
    /// How many look on who may decide what is asked there.
    attended: Mutex<HashMap<SessionId, usize>>,
}

impl Journal {
    pub(crate) fn new(store: Arc<Store>, clock: Arc<dyn Clock>) -> Self {
        let (to, from) = mpsc::channel(WAITING);
        let room = Arc::new(Semaphore::new(ROOM as usize));
        Self {
            store,
            clock,
            to,
            from: Mutex::new(Some(from)),
            room,
            live: Mutex::default(),
            attended: Mutex::default(),
        }
    }

    fn live(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what happened. Waits while too much waits to be written.
    pub(crate) async fn write(&self, session: SessionId, task: Option<TaskId>, kind: StepKind, body: Value) {
        let share = u32::try_from(size(&body) >> 10).unwrap_or(ROOM).saturating_add(1).min(ROOM);
        let _room = Arc::clone(&self.room).acquire_many_owned(share).await.ok();
        // The writer ends with the daemon only.
        let _ = self.to.send(Draft { session, task, kind, body, _room }).await;
    }

    /// The same, for those who must go on though nothing can be written: after a while it is only in the log.
    pub(crate) async fn write_soon(
        &self,
        session: SessionId,
        task: Option<TaskId>,
        kind: StepKind,
        body: Value,
    ) {
        if tokio::time::timeout(PARTING, self.write(session, task, kind, body)).await.is_err() {
            tracing::error!(%session, ?task, %kind, "what happened in a session could not be written in time");
        }
    }

    /// Writes until told to stop, and then what still waits.
    pub(crate) async fn keep(&self, mut stop: watch::Receiver<bool>) {
        let from = self.from.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut from) = from else { return };
        let mut waiting = Vec::with_capacity(AT_ONCE);
        // Its own: what others remember of a session may be older.
        let mut places: HashMap<SessionId, i64> = HashMap::new();
        let mut ends = false;
        loop {
            tokio::select! {
                biased;
                count = from.recv_many(&mut waiting, AT_ONCE) => if count == 0 { return },
                _ = stop.changed(), if !ends => {
                    from.close();
                    ends = true;
                    continue;
                }
            }
            if places.len() > PLACES {
                places.clear();
            }
            self.commit(std::mem::take(&mut waiting), &mut places, &stop).await;
        }
    }

    /// Numbers and keeps these, however long that takes; at the daemon's end not for ever.
    async fn commit(
        &self,
        drafts: Vec<Draft>,
        places: &mut HashMap<SessionId, i64>,
        stop: &watch::Receiver<bool>,
    ) {
        let at = self.clock.now();
        let (mut steps, mut shares) = (Vec::with_capacity(drafts.len()), Vec::new());
        for Draft { session, task, kind, body, _room } in drafts {
            shares.extend(_room);
            let last = match places.get(&session) {
                Some(last) => *last,
                None => match self.last(session, stop).await {
                    Some(last) => last,
                    // A session that is not there has nobody who could read it.
                    None => continue,
                },
            };
            let seq = last + 1;
            places.insert(session, seq);
            steps.push(Step { session, seq, at, task, kind, body });
        }
        let mut late = None;
        while let Err(error) = self.append(&steps).await {
            tracing::error!(%error, "what happened in sessions could not be written; it is tried again");
            if *stop.borrow() && *late.get_or_insert_with(|| Instant::now() + PARTING) < Instant::now() {
                tracing::error!(count = steps.len(), "the daemon ends without them");
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
        let mut live = self.live();
        for step in steps {
            let size = size(&step.body);
            let one = live.entry(step.session).or_insert_with(|| Live::at(step.seq - 1));
            one.push(Arc::new(step), size);
        }
        if live.len() > RESTING {
            live.retain(|_, one| one.newest.receiver_count() > 0);
        }
    }

    /// Writes these, unless what room there is was given to acts that narrow.
    async fn append(&self, steps: &[Step]) -> Result<(), StoreError> {
        match self.store.is_rationed() {
            true => Err(EngineError::Full.into()),
            false => self.store.append_steps(steps).await,
        }
    }

    async fn last(&self, session: SessionId, stop: &watch::Receiver<bool>) -> Option<i64> {
        loop {
            match self.store.last_step(session).await {
                Ok(last) => return Some(last),
                Err(StoreError::Missing(_)) => return None,
                Err(error) => {
                    tracing::error!(%error, "where a session stands cannot be read; it is tried again");
                    if *stop.borrow() {
                        return None;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Wakes when there is something new; the number is the place of the newest.
    pub(crate) fn follow(&self, session: SessionId, last: i64) -> watch::Receiver<i64> {
        self.live().entry(session).or_insert_with(|| Live::at(last)).newest.subscribe()
    }

    fn attending(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, usize>> {
        self.attended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody looks on who may decide.
    pub(crate) fn is_attended(&self, session: SessionId) -> bool {
        self.attending().contains_key(&session)
    }

    /// Somebody who may decide looks on from now on.
    pub(crate) fn attend(&self, session: SessionId) {
        *self.attending().entry(session).or_default() += 1;
    }

    /// They do not any more, or may not.
    pub(crate) fn leave(&self, session: SessionId) {
        let mut attended = self.attending();
        let Some(count) = attended.get_mut(&session) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            attended.remove(&session);
        }
    }

    /// Steps after a place, if all of them are in memory.
    pub(crate) fn tail(&self, session: SessionId, after: i64) -> Option<Vec<Arc<Step>>> {
        let live = self.live();
        let one = live.get(&session)?;
        if one.last <= after {
            return Some(Vec::new());
        }
        let first = one.tail.front().map(|(step, _)| step.seq)?;
        (first <= after + 1).then(|| {
            let told = one.tail.partition_point(|(step, _)| step.seq <= after);
            one.tail.range(told..).map(|(step, _)| Arc::clone(step)).collect()
        })
    }
}

/// About how much room it takes.
pub(super) fn size(body: &Value) -> usize {
    match body {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => 32 + text.len(),
        Value::Array(all) => 32 + all.iter().map(size).sum::<usize>(),
        Value::Object(all) => {
            32 + all.iter().map(|(name, value)| 32 + name.len() + size(value)).sum::<usize>()
        }
    }
}
