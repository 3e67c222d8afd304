//! Begins what waits, one task of a session at a time, few in all; knows what is at work, and what it asked.
//!
//! Flow: something waits -> whoever asked is judged again -> the task is begun by a permit and carried out ([`super::turn`]) ->
//! the next.
//!
//! Invariants: a task that may not be begun waits behind a hold and is not lost; everything begun here ends here; a
//! question is answered once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use access::{Denied, Permit, Reason, StartTask};
use model::{
    Allowance, ApprovalId, BudgetScope, HoldCause, SessionId, StepKind, TaskId, TaskState, UserId, WorktreeId,
};
use serde_json::json;
use store::{AtWork, BudgetStanding, Store, StoreError, TaskEnd, Waiting};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinSet;

use super::cut::Cut;
use super::turn::{Turn, Wish};
use super::{measured, told};
use crate::{ActError, Runtime};

/// Tasks that are at work at once.
const MOST: usize = 256;
/// How often it is looked whether something waits, though nobody said so.
const EVERY: Duration = Duration::from_secs(5);
/// Periods of budgets that are waited out, in milliseconds.
const SHORT: i64 = 60 * 60 * 1_000;
/// How long is waited at first and at most between tries to keep how a task ended, and how long it is tried; after that it is closed
/// like what nobody carries out.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_AT_MOST: Duration = Duration::from_secs(3);
const KEEPING: Duration = Duration::from_mins(10);
/// How long what is at work may take to end when the daemon does, or its worktree goes.
const CLEARING: Duration = Duration::from_secs(40);

/// What is at work.
#[derive(Debug)]
pub(crate) struct Desk {
    wake: Notify,
    seats: Arc<Semaphore>,
    at_work: Mutex<HashMap<SessionId, Working>>,
    asked: Mutex<HashMap<ApprovalId, oneshot::Sender<Option<String>>>>,
    /// Sessions that are looked at again later, and when.
    resting: Mutex<HashMap<SessionId, Instant>>,
    /// Sessions that may be over, whose homes nobody needs then.
    over: Mutex<BTreeSet<SessionId>>,
}

#[derive(Debug)]
struct Working {
    task: TaskId,
    worktree: Option<WorktreeId>,
    /// Who has an agent at work; nobody where a task is being taken back, which is done alone in its worktree.
    asked_by: Option<UserId>,
    /// The session, and those that it comes from.
    comes_from: Vec<String>,
    wish: watch::Sender<Option<Wish>>,
}

/// Who wants to work where.
struct Place<'a> {
    asked_by: UserId,
    worktree: Option<WorktreeId>,
    comes_from: &'a [String],
}

impl Working {
    /// The first wish counts.
    fn wants(&self, wish: Wish) {
        self.wish.send_if_modified(|now| {
            let first = now.is_none();
            if first {
                *now = Some(wish);
            }
            first
        });
    }
}

/// Takes a session from the desk however its task ended.
pub(super) struct Leaving<'a>(&'a Desk, SessionId);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.working().remove(&self.1);
        self.0.wake.notify_one();
    }
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            wake: Notify::new(),
            seats: Arc::new(Semaphore::new(MOST)),
            at_work: Mutex::default(),
            asked: Mutex::default(),
            resting: Mutex::default(),
            over: Mutex::default(),
        }
    }
}

impl Desk {
    fn working(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Working>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something may wait now.
    pub(crate) fn look(&self) {
        self.wake.notify_one();
    }

    /// Has what is at work in a session end, or only this task of it.
    pub(super) fn end(&self, session: SessionId, task: Option<TaskId>, wish: Wish) {
        if let Some(one) = self.working().get(&session)
            && task.is_none_or(|task| task == one.task)
        {
            one.wants(wish);
        }
    }

    /// Has everything in a worktree end, and waits for that; false if something is still there.
    pub(crate) async fn clear(&self, worktree: WorktreeId) -> bool {
        let until = Instant::now() + CLEARING;
        while Instant::now() < until {
            let mut any = false;
            for one in self.working().values().filter(|one| one.worktree == Some(worktree)) {
                one.wants(Wish::Ended);
                any = true;
            }
            if !any {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Keeps everybody from beginning anything in a worktree, as long as nothing is at work there. It stands in the place of the
    /// session whose task is taken back.
    pub(super) fn alone(
        &self,
        session: SessionId,
        task: TaskId,
        worktree: WorktreeId,
    ) -> Option<Leaving<'_>> {
        let mut working = self.working();
        if working.contains_key(&session) || working.values().any(|one| one.worktree == Some(worktree)) {
            return None;
        }
        let (wish, _) = watch::channel(None);
        let (worktree, comes_from) = (Some(worktree), Vec::new());
        working.insert(session, Working { task, worktree, asked_by: None, comes_from, wish });
        Some(Leaving(self, session))
    }

    /// Looks at a session again after a while; until then it takes nobody's place.
    fn rest(&self, session: SessionId) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.insert(session, Instant::now() + EVERY);
    }

    /// Whether a session is to be looked at later.
    fn rests(&self, session: SessionId) -> bool {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.retain(|_, until| *until > Instant::now());
        resting.contains_key(&session)
    }

    /// These may be over: what is not needed any more is removed when nothing of them is at work.
    pub(crate) fn are_over(&self, sessions: impl IntoIterator<Item = SessionId>) {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).extend(sessions);
        self.wake.notify_one();
    }

    /// Some that may be over and have nothing at work.
    pub(super) fn some_over(&self, most: usize) -> Vec<SessionId> {
        let working = self.working();
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let some: Vec<_> = over.iter().filter(|id| !working.contains_key(id)).take(most).copied().collect();
        over.retain(|id| !some.contains(id));
        some
    }

    /// A question that waits; the answer comes to whoever asked.
    pub(super) fn ask(&self, id: ApprovalId) -> oneshot::Receiver<Option<String>> {
        let (answer, heard) = oneshot::channel();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(id, answer);
        heard
    }

    /// Somebody decided, or nobody waits for it any more.
    pub(super) fn answer(&self, id: ApprovalId, choice: Option<String>) {
        let waiting = self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(choice);
        }
    }
}

impl Runtime {
    /// Begins what waits, until told to stop; then what is at work is ended.
    pub(crate) async fn attend_sessions(self: &Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut begun = JoinSet::new();
        loop {
            if let Err(error) = self.close_what_nobody_does().await {
                tracing::warn!(%error, "what nobody carries out could not be closed; it is tried again");
            }
            if let Err(error) = self.tell_parents().await {
                tracing::warn!(%error, "ends of children cannot be told; it is tried again");
            }
            self.tidy_over(&mut begun);
            if let Err(error) = self.begin_waiting(&mut begun).await {
                tracing::warn!(%error, "what waits cannot be read; it is tried again");
            }
            tokio::select! {
                () = self.desk.wake.notified() => {}
                () = tokio::time::sleep(EVERY) => {}
                Some(_) = begun.join_next() => {}
                _ = stop.changed() => break,
            }
        }
        let sessions: Vec<SessionId> = self.desk.working().keys().copied().collect();
        for session in sessions {
            self.desk.end(session, None, Wish::Daemon);
        }
        let all = async { while begun.join_next().await.is_some() {} };
        if tokio::time::timeout(CLEARING, all).await.is_err() {
            tracing::error!("tasks are still at work at the daemon's end; they end with it");
        }
    }

    /// Says of tasks that are at work by what is kept, and that nobody carries out, how they ended: the daemon before this one
    /// began them, or their beginning or end could not be kept.
    async fn close_what_nobody_does(&self) -> Result<(), StoreError> {
        for task in self.store.tasks_at_work().await? {
            // Whoever begins one stands at the desk before, and leaves it after its end is kept.
            if self.desk.working().contains_key(&task.session) {
                continue;
            }
            self.store.make_room();
            if !self.store.abandon_task(&task).await? {
                continue;
            }
            measured::ended(TaskState::Failed);
            let text = "nobody carries this out any more: the daemon ended, or could not keep how it went";
            let body = json!({ "state": "failed", "text": text, "run": task.run });
            self.journal.write_soon(task.session, Some(task.id), StepKind::Result, body).await;
        }
        Ok(())
    }

    async fn begin_waiting(self: &Arc<Self>, begun: &mut JoinSet<()>) -> Result<(), StoreError> {
        // Nothing is begun that could not be kept; what waits stays.
        if self.store.is_tight() {
            return Ok(());
        }
        let at_once = self.store.at_once().await?;
        let (most, mut behind) = (i64::try_from(MOST).unwrap_or(i64::MAX), 0);
        loop {
            let some = self.store.waiting_tasks(most, behind).await?;
            let count = some.len();
            // Those that have to wait keep nobody behind them from being looked at.
            if !self.begin_some(some, &at_once, begun).await? || count < MOST {
                return Ok(());
            }
            behind = behind.saturating_add(most);
        }
    }

    /// Begins what can be of these; false if there is no place for more.
    async fn begin_some(
        self: &Arc<Self>,
        some: Vec<Waiting>,
        at_once: &[Allowance],
        begun: &mut JoinSet<()>,
    ) -> Result<bool, StoreError> {
        for waiting in some {
            if self.desk.rests(waiting.session) || self.desk.working().contains_key(&waiting.session) {
                continue;
            }
            let Ok(seat) = Arc::clone(&self.desk.seats).try_acquire_owned() else { return Ok(false) };
            let (wish, wishes) = watch::channel(None);
            // Whoever ends a worktree has to see what is begun there.
            let Ok(facts) = self.gate.session(waiting.session).await else {
                self.desk.rest(waiting.session);
                continue;
            };
            let worktree = facts.map(|facts| facts.worktree.id);
            // What needs no question to the store first: very many may wait for a place.
            let here = Place { asked_by: waiting.asked_by, worktree, comes_from: &[] };
            if self.is_full(&self.desk.working(), &here, at_once) {
                continue;
            }
            let comes_from = self.store.comes_from(waiting.session).await?;
            {
                let mut working = self.desk.working();
                let place = Place { asked_by: waiting.asked_by, worktree, comes_from: &comes_from };
                // Whoever takes something back has the tree alone, and has us look again afterwards.
                let is_taking_back = |one: &Working| one.asked_by.is_none() && one.worktree == worktree;
                if working.contains_key(&waiting.session)
                    || working.values().any(is_taking_back)
                    || self.is_full(&working, &place, at_once)
                {
                    continue;
                }
                let (task, asked_by) = (waiting.task, Some(waiting.asked_by));
                working.insert(waiting.session, Working { task, worktree, asked_by, comes_from, wish });
            }
            let this = Arc::clone(self);
            begun.spawn(async move { this.attend(waiting, wishes, seat).await });
        }
        Ok(true)
    }

    /// Whether as many are at work for this person, in this worktree, or of what a session is bound to, as may be.
    fn is_full(
        &self,
        working: &HashMap<SessionId, Working>,
        place: &Place<'_>,
        at_once: &[Allowance],
    ) -> bool {
        let set = |scope: BudgetScope, owner: &str| {
            at_once.iter().find(|one| one.scope == scope && one.owner == owner).map(|one| one.most)
        };
        let count = |is: &dyn Fn(&Working) -> bool| {
            i64::try_from(working.values().filter(|one| is(one)).count()).unwrap_or(i64::MAX)
        };
        let usual = |most: usize| i64::try_from(most).unwrap_or(i64::MAX);
        let theirs = count(&|one| one.asked_by == Some(place.asked_by));
        let most = set(BudgetScope::User, &place.asked_by.to_string());
        if theirs >= most.unwrap_or(usual(self.bounds.per_person)) {
            return true;
        }
        if let Some(worktree) = place.worktree {
            // What takes something back there is no task.
            let there = count(&|one| one.worktree == Some(worktree) && one.asked_by.is_some());
            let most = set(BudgetScope::Worktree, &worktree.to_string());
            if there >= most.unwrap_or(usual(self.bounds.per_worktree)) {
                return true;
            }
        }
        place.comes_from.iter().any(|owner| {
            set(BudgetScope::Session, owner)
                .is_some_and(|most| count(&|one| one.comes_from.contains(owner)) >= most)
        })
    }

    /// One task, from its turn to its end.
    async fn attend(
        self: Arc<Self>,
        waiting: Waiting,
        wishes: watch::Receiver<Option<Wish>>,
        _seat: OwnedSemaphorePermit,
    ) {
        let Waiting { session, task, claim, .. } = waiting;
        let _leaving = Leaving(&self.desk, session);
        let who = match self.auth.claimed(&claim, &task.to_string()).await {
            Ok(Some(who)) => who,
            Ok(None) => return self.refuse(session, task, "whoever asked for it is not who they were").await,
            Err(error) => {
                tracing::warn!(error = %error.0, "who asked for a task cannot be told now");
                return self.desk.rest(session);
            }
        };
        if let Err(why) = Cut::of(who.grant()).options() {
            return self.refuse(session, task, &why).await;
        }
        match self.spent_before(session, &who).await {
            Ok(None) => {}
            Ok(Some(spent)) => return self.wait_for_budget(session, task, &spent).await,
            Err(error) => {
                tracing::warn!(%error, "what was spent cannot be told now");
                return self.desk.rest(session);
            }
        }
        let (this, asker) = (Arc::clone(&self), who.clone());
        let effect = async move |store: Arc<Store>, permit: Permit<StartTask>| {
            let (work, row) = store.start_task(permit).await?;
            let end = Turn::new(&this, &work, &row, &asker, wishes).run().await;
            let end = TaskEnd { why: told::clean(&this.redactor, &end.why), ..end };
            let body = json!({ "state": end.state, "text": end.why });
            this.journal.write_soon(session, Some(task), StepKind::Result, body).await;
            keep_end(&store, &work, &end).await?;
            Ok(format!("{}: {}", end.state, end.why))
        };
        let note = |told: &String| Some(("ended", told.clone()));
        match self.perform_noting(&who, StartTask { session, task }, effect, note).await {
            Ok(_) => {}
            Err(ActError::Denied(denied)) if denied.reason() == Reason::Unavailable => {
                tracing::warn!(%denied, "a task could not be begun; it is tried again");
                self.desk.rest(session);
            }
            Err(ActError::Denied(denied)) => self.refuse(session, task, &refused(&denied)).await,
            Err(error) => {
                tracing::error!(%error, %task, "a task could not be begun, or its end not be kept");
                self.desk.rest(session);
            }
        }
    }

    /// Keeps a task back that would spend what there is no more of: for a while, or until somebody lets it go on.
    async fn wait_for_budget(&self, session: SessionId, task: TaskId, spent: &BudgetStanding) {
        if (1..=SHORT).contains(&spent.budget.period) {
            return self.desk.rest(session);
        }
        self.note_spent(session, spent).await;
        let why =
            format!("{} are spent; it goes on by `palisade session resume` when there is more", spent.budget);
        self.hold(session, task, &why, HoldCause::Budget).await;
    }

    /// Keeps a task that nobody may begin, behind a hold.
    async fn refuse(&self, session: SessionId, task: TaskId, why: &str) {
        self.hold(session, task, why, HoldCause::Refused).await;
    }

    async fn hold(&self, session: SessionId, task: TaskId, why: &str, cause: HoldCause) {
        let body = json!({ "text": format!("the task waits: {why}") });
        self.journal.write_soon(session, Some(task), StepKind::Error, body).await;
        self.store.make_room();
        if let Err(error) = self.store.hold_session(session, cause).await {
            tracing::error!(%error, "a session whose task may not be begun could not be held");
            tokio::time::sleep(EVERY).await;
        }
        self.store.publish();
    }
}

/// Keeps how a task ended. Until it is kept nothing else of its session is begun. An end only narrows: on a full disk it has the room that
/// is kept back for that.
async fn keep_end(store: &Store, work: &AtWork, end: &TaskEnd) -> Result<(), StoreError> {
    let (until, mut wait) = (Instant::now() + KEEPING, AGAIN);
    loop {
        store.make_room();
        match store.end_task(work, end).await {
            Err(error) if Instant::now() < until => {
                let task = work.task();
                tracing::error!(%error, %task, "how a task ended could not be kept; it is tried again");
            }
            done => {
                if done.is_ok() {
                    measured::ended(end.state);
                }
                return done;
            }
        }
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2).min(AGAIN_AT_MOST);
    }
}

fn refused(denied: &Denied) -> String {
    format!("whoever asked for it may not do that now ({denied})")
}
