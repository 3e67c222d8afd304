//! The one gate: (principal, act) in, a [`Permit`] or a refusal out, both on the record.
//!
//! Flow: still signed in? -> scope -> Pass -> facts -> policies -> ledger -> permit.
//!
//! Invariants: an act that widens gets its permit only after its entry is durable; what the caller may not
//! read looks exactly like what does not exist; nothing remembered is used after the epoch moved, and
//! what is remembered bears the epoch that stood *before* its facts were read.

mod found;
mod reads;
mod trial;

use std::sync::Arc;

pub use trial::{Trial, TrialError};

use arc_swap::ArcSwap;
use ledger::{Decision as Entry, Draft, Ledger, Recorded};
use model::{Clock, Role, SessionId, UserId, WorktreeId};
use quick_cache::sync::Cache;

use self::found::{Found, Marks};
use crate::act;
use crate::policy::{Subject, Target};
use crate::record::{append, append_narrowing};
use crate::{
    Act, Action, Asks, Backing, Class, Decision, Denied, Epoch, Permit, Policies, PolicyError, Principal,
    Reason, Record, Resource, SessionFacts, Unavailable, UserFacts, Via, WorktreeFacts,
};

/// What callers are told while there are no policies; the reason is in the log.
const SHUT: &str = "the policies cannot be loaded, so everything is refused; the daemon's log says why";

/// How the gate is set up.
#[derive(Clone, Debug)]
pub struct GateConfig {
    /// Whether worktrees are divided by owners and tiers.
    pub worktree_rbac: bool,
    /// Whether people may prompt each other's sessions where a worktree says so, too.
    pub session_sharing: bool,
    /// What nobody does without a one-time password that came with the very request.
    pub totp_actions: Vec<&'static Action>,
}

/// The one gate.
#[derive(Debug)]
pub struct Gate<B> {
    backing: Arc<B>,
    ledger: Arc<Ledger>,
    clock: Arc<dyn Clock>,
    config: GateConfig,
    /// The policies in force, or why there are none: then everything is refused.
    policies: ArcSwap<Result<Policies, PolicyError>>,
    epoch: Epoch,
    users: Cache<UserId, (u64, UserFacts)>,
    worktrees: Cache<WorktreeId, (u64, Arc<WorktreeFacts>)>,
    /// Where a session is and whose never changes.
    sessions: Cache<SessionId, (WorktreeId, UserId)>,
    decisions: Cache<Question, (u64, Arc<Decision>)>,
    /// Whether a credential still stands: its login not ended, its key or Pass not revoked.
    standing: Cache<Via, (u64, bool)>,
}

/// What decides a decision as long as the epoch stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    user: UserId,
    role: Role,
    via: &'static str,
    action: &'static str,
    resource: Resource,
}

impl<B: Backing> Gate<B> {
    /// A gate over these facts, writing to this ledger. Policies that cannot be loaded leave it shut.
    pub async fn new(
        backing: Arc<B>,
        ledger: Arc<Ledger>,
        clock: Arc<dyn Clock>,
        config: GateConfig,
    ) -> Result<Self, Unavailable> {
        let added = backing.added_policies().await?;
        let policies = trial::load(&added, &config);
        Ok(Self {
            backing,
            ledger,
            clock,
            config,
            policies: ArcSwap::from_pointee(policies),
            epoch: Epoch::default(),
            users: Cache::new(10_000),
            worktrees: Cache::new(20_000),
            sessions: Cache::new(20_000),
            decisions: Cache::new(50_000),
            standing: Cache::new(20_000),
        })
    }

    /// The access epoch.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The clock everything here goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What the gate reads. Not for others: they spend permits.
    pub(crate) fn backing(&self) -> &Arc<B> {
        &self.backing
    }

    /// The ledger that the gate writes to, for reading it.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Whether the gate is shut because its policies cannot be loaded. The log says why.
    pub fn shut(&self) -> Option<&'static str> {
        self.policies.load().is_err().then_some(SHUT)
    }

    /// Whether worktrees are divided by owners and tiers.
    pub fn worktree_rbac(&self) -> bool {
        self.config.worktree_rbac
    }

    /// Judges an act. A refusal is on the ledger when this returns; so is the opening of what is allowed.
    pub async fn authorize<A: Act>(&self, who: &Principal, act: A) -> Result<Permit<A>, Denied> {
        match self.judge(who, A::ACTION, act.resource(), act.asks()).await {
            Ok(marks) => {
                if act.class() == Class::Read {
                    return Ok(Permit::new(act, who.clone(), None));
                }
                let resource = act.names().unwrap_or_else(|| act.resource().to_string());
                let opened = self.open(who, &act, &resource, marks).await?;
                let record = Record { opened, action: A::ACTION, resource, who: who.clone() };
                let record = Some(record);
                Ok(Permit::new(act, who.clone(), record))
            }
            Err(refused) => {
                self.refuse(who, A::ACTION, act.resource(), &refused).await;
                Err(refused.denied)
            }
        }
    }

    /// Says what became of an act. Rights that changed are asked again from here on.
    pub async fn close(&self, record: Option<Record>, outcome: Result<(), String>) {
        self.close_noting(record, outcome, None).await;
    }

    /// The same, with a word that only the effect could tell.
    pub async fn close_noting(
        &self,
        record: Option<Record>,
        outcome: Result<(), String>,
        note: Option<(&'static str, String)>,
    ) {
        let Some(record) = record else { return };
        if record.action.changes_access {
            self.epoch.bump();
        }
        let (entry, cause) = match outcome {
            Ok(()) => (Entry::Done, String::new()),
            Err(cause) => (Entry::Failed, cause),
        };
        let draft =
            Draft::new(record.who.label(), record.action.name, entry).on(record.resource).because(cause);
        let draft = match note {
            Some((name, text)) => draft.with(name, text),
            None => draft,
        };
        let draft = match record.opened {
            Some(opened) => draft.closes_recorded(opened),
            // What could not be recorded before is recorded now, if it can be.
            None => draft.with("opening", "could not be recorded"),
        };
        // The act is done; a closing entry that fails is made good at recovery.
        if let Err(error) = append_narrowing(&self.ledger, draft).await {
            let opened = record.opened;
            tracing::error!(%error, ?opened, "the closing entry could not be written; recovery will close it");
        }
    }

    /// Judges before costly work is done for an act, which is then judged again. A refusal is on the
    /// ledger when this returns; nothing is opened.
    pub async fn check(
        &self,
        who: &Principal,
        action: &'static Action,
        resource: Resource,
        asks: Asks,
    ) -> Result<(), Denied> {
        match self.judge(who, action, resource, asks).await {
            Ok(_) => Ok(()),
            Err(refused) => {
                self.refuse(who, action, resource, &refused).await;
                Err(refused.denied)
            }
        }
    }

    /// Whether this user may do this to the installation or to a user; for pages, no entry.
    pub async fn would_allow(&self, who: &Principal, action: &'static Action, resource: Resource) -> bool {
        self.judge(who, action, resource, Asks::default()).await.is_ok()
    }

    /// Whether what was begun with this right may go on. The credential that it was begun with stands, though the token
    /// that showed it may have run out since.
    ///
    /// # Errors
    /// [`Unavailable`] when nobody can tell now.
    pub async fn still_allows(
        &self,
        who: &Principal,
        action: &'static Action,
        resource: Resource,
    ) -> Result<bool, Unavailable> {
        let epoch = self.epoch.now();
        if !self.stands_as(who).await? {
            return Ok(false);
        }
        match self.judge_valid(who, action, resource, Asks::default(), epoch).await {
            Ok(_) => Ok(true),
            Err(refused) if refused.denied.reason() == Reason::Unavailable => {
                Err(Unavailable(refused.cause.into()))
            }
            Err(_) => Ok(false),
        }
    }

    /// The same of whoever can show a one-time password, where it asks for one.
    ///
    /// # Errors
    /// [`Unavailable`] when nobody can tell now.
    pub async fn still_allows_with_code(
        &self,
        who: &Principal,
        action: &'static Action,
        resource: Resource,
    ) -> Result<bool, Unavailable> {
        self.still_allows(&Principal { code_shown: true, ..who.clone() }, action, resource).await
    }

    /// What the gate knows of a worktree.
    pub async fn worktree(&self, id: WorktreeId) -> Result<Option<Arc<WorktreeFacts>>, Unavailable> {
        let epoch = self.epoch.now();
        if let Some((at, facts)) = self.worktrees.get(&id)
            && at == epoch
        {
            return Ok(Some(facts));
        }
        let found = self.backing.worktree(id).await?.map(Arc::new);
        if let Some(facts) = &found {
            self.worktrees.insert(id, (epoch, Arc::clone(facts)));
        }
        Ok(found)
    }

    /// What the gate knows of a session.
    pub async fn session(&self, id: SessionId) -> Result<Option<SessionFacts>, Unavailable> {
        let known = match self.sessions.get(&id) {
            Some(known) => known,
            None => {
                let Some(found) = self.backing.session(id).await? else { return Ok(None) };
                self.sessions.insert(id, found);
                found
            }
        };
        let (worktree, creator) = known;
        Ok(self.worktree(worktree).await?.map(|worktree| SessionFacts { id, worktree, creator }))
    }

    /// What the gate knows of a user.
    pub async fn user(&self, id: UserId) -> Result<Option<UserFacts>, Unavailable> {
        let epoch = self.epoch.now();
        if let Some((at, facts)) = self.users.get(&id)
            && at == epoch
        {
            return Ok(Some(facts));
        }
        let found = self.backing.user(id).await?;
        if let Some(facts) = &found {
            self.users.insert(id, (epoch, facts.clone()));
        }
        Ok(found)
    }

    /// Whether a principal is still who they were: enabled, no change since, and the very credential that
    /// proved it not ended or revoked. Live connections rest on this.
    pub async fn still_valid(&self, who: &Principal) -> Result<bool, Unavailable> {
        if who.expires <= self.clock.now() {
            return Ok(false);
        }
        self.stands_as(who).await
    }

    /// The same, whenever the token that showed it ends.
    async fn stands_as(&self, who: &Principal) -> Result<bool, Unavailable> {
        let user = self.user(who.user).await?;
        if !user.is_some_and(|user| user.enabled && user.version == who.version && user.role == who.role) {
            return Ok(false);
        }
        self.stands(&who.via).await
    }

    /// Says that a credential was just found to stand, by someone who looked after `as_of` began.
    pub(crate) fn vouch(&self, via: &Via, as_of: u64) {
        self.standing.insert(via.clone(), (as_of, true));
    }

    async fn stands(&self, via: &Via) -> Result<bool, Unavailable> {
        let epoch = self.epoch.now();
        if let Some((at, stands)) = self.standing.get(via)
            && at == epoch
        {
            return Ok(stands);
        }
        let stands = match via {
            Via::Login(family) => self.backing.family_live(family).await?,
            Via::Key(key) => self.backing.key(*key).await?.is_some_and(|key| !key.revoked),
            Via::Pass(chain) => {
                let mut all = true;
                for pass in chain.iter() {
                    all = all && self.backing.pass(*pass).await?.is_some_and(|pass| !pass.revoked);
                }
                all
            }
        };
        self.standing.insert(via.clone(), (epoch, stands));
        Ok(stands)
    }

    /// Writes down an attempt that never became an act because the request made no sense.
    pub async fn refuse_malformed(&self, who: &Principal, action: &'static Action, why: &str) {
        let refused = Refused { denied: Denied::hidden(), cause: format!("malformed: {why}") };
        self.refuse(who, action, Resource::Installation, &refused).await;
    }

    /// Writes down that someone known was refused for a reason outside the policies.
    pub(crate) async fn refused(
        &self,
        who: &Principal,
        action: &'static Action,
        resource: Resource,
        cause: &str,
    ) {
        let refused = Refused { denied: Denied::hidden(), cause: cause.to_owned() };
        self.refuse(who, action, resource, &refused).await;
    }

    async fn judge(
        &self,
        who: &Principal,
        action: &'static Action,
        resource: Resource,
        asks: Asks,
    ) -> Result<Marks, Refused> {
        let broken = |_: Unavailable| Refused::unavailable("the store did not answer; nothing was started");
        // Before any fact is read: what is decided on facts of this epoch is remembered for this epoch only.
        let epoch = self.epoch.now();
        if !self.still_valid(who).await.map_err(broken)? {
            return Err(Refused { denied: Denied::ended(), cause: "credential ended".into() });
        }
        self.judge_valid(who, action, resource, asks, epoch).await
    }

    /// Judges what somebody asks for whose credential stands. The epoch is from before any fact was read.
    async fn judge_valid(
        &self,
        who: &Principal,
        action: &'static Action,
        resource: Resource,
        asks: Asks,
        epoch: u64,
    ) -> Result<Marks, Refused> {
        let broken = |_: Unavailable| Refused::unavailable("the store did not answer; nothing was started");
        if who.scope < action.scope {
            return Err(Refused {
                denied: Denied::scope(action.scope.word()),
                cause: format!("scope {}", who.scope.word()),
            });
        }
        pass_allows(who, action, resource)?;
        // A read that was allowed since the epoch last moved needs no facts again.
        if action.class == Class::Read
            && asks == Asks::default()
            && self.remembered(who, action, resource).is_some_and(|d| d.allowed)
        {
            return Ok(Marks::default());
        }
        let Some(found) = self.find(resource).await.map_err(broken)? else {
            return Err(Refused::hidden());
        };
        let decision = self.decide(who, action, resource, || found.target(), asks, epoch)?;
        if decision.allowed && self.asks_totp(action) && !who.code_shown {
            return Err(Refused { denied: Denied::totp(), cause: "one-time password needed".into() });
        }
        if decision.allowed {
            return Ok(found.marks(who, action, self.config.worktree_rbac));
        }
        let cause = match decision.policies.is_empty() {
            true => "no policy permits".to_owned(),
            false => format!("forbidden by {}", decision.policies.join(", ")),
        };
        let readable = match reading(resource) {
            Some(read) if read != action => {
                self.decide(who, read, resource, || found.target(), Asks::default(), epoch)?.allowed
            }
            Some(_) => false,
            None => true,
        };
        if !readable {
            return Err(Refused::hidden());
        }
        Err(Refused { denied: Denied::forbidden(decision.policies.clone()), cause })
    }

    /// Whether this needs a one-time password of its own.
    pub fn asks_totp(&self, action: &Action) -> bool {
        self.config.totp_actions.iter().any(|chosen| chosen.name == action.name)
    }

    fn question(who: &Principal, action: &'static Action, resource: Resource) -> Question {
        Question { user: who.user, role: who.role, via: who.via.word(), action: action.name, resource }
    }

    fn remembered(
        &self,
        who: &Principal,
        action: &'static Action,
        resource: Resource,
    ) -> Option<Arc<Decision>> {
        let (at, decision) = self.decisions.get(&Self::question(who, action, resource))?;
        (at == self.epoch.now()).then_some(decision)
    }

    fn decide<'f>(
        &self,
        who: &Principal,
        action: &'static Action,
        resource: Resource,
        target: impl FnOnce() -> Target<'f>,
        asks: Asks,
        as_of: u64,
    ) -> Result<Arc<Decision>, Refused> {
        let plain = asks == Asks::default();
        if plain && let Some(decision) = self.remembered(who, action, resource) {
            return Ok(decision);
        }
        // The epoch was read before facts and policies: what is remembered is never older than it says.
        let loaded = self.policies.load();
        let policies = loaded.as_ref().as_ref().map_err(|_| Refused::unavailable(SHUT))?;
        let subject = Subject { user: who.user, role: who.role, via: who.via.word() };
        let decision = Arc::new(policies.decide(subject, action, &target(), asks));
        if plain {
            self.decisions.insert(Self::question(who, action, resource), (as_of, Arc::clone(&decision)));
        }
        Ok(decision)
    }

    async fn find(&self, resource: Resource) -> Result<Option<Found>, Unavailable> {
        Ok(match resource {
            Resource::Installation => Some(Found::Installation),
            Resource::User(id) => self.user(id).await?.map(Found::User),
            Resource::Key(id) => self.backing.key(id).await?.map(|key| Found::Key(id, key.user)),
            Resource::Pass(id) => self.backing.pass(id).await?.map(|pass| Found::Pass(id, pass.user)),
            Resource::Repo(id) => self.backing.repo_exists(id).await?.then_some(Found::Repo(id)),
            Resource::Worktree(id) => {
                self.worktree(id).await?.filter(|facts| !facts.deleted).map(Found::Worktree)
            }
            Resource::Session(id) => {
                self.session(id).await?.filter(|facts| !facts.worktree.deleted).map(Found::Session)
            }
        })
    }

    async fn open<A: Act>(
        &self,
        who: &Principal,
        act: &A,
        resource: &str,
        marks: Marks,
    ) -> Result<Option<Recorded>, Denied> {
        let action = A::ACTION;
        let mut draft = Draft::new(who.label(), action.name, Entry::Allowed).on(resource).opens();
        for (name, value) in act.detail() {
            draft = draft.with(name, value);
        }
        for (name, value) in marks.told() {
            draft = draft.with(name, value);
        }
        if self.asks_totp(action) {
            draft = draft.with("totp", "shown");
        }
        let unrecorded = |error: ledger::AppendError| {
            tracing::error!(%error, action = action.name, "an act could not be recorded and was not started");
            Denied::unavailable("it could not be recorded; nothing was started")
        };
        match act.class() {
            Class::Read | Class::Widens => {
                append(&self.ledger, draft).await.map(|seq| Some(Recorded::Entry(seq))).map_err(unrecorded)
            }
            // Narrowing happens all the same; what even the reserve cannot hold is in the log.
            Class::Narrows => Ok(append_narrowing(&self.ledger, draft).await.map_err(unrecorded).ok()),
        }
    }

    async fn refuse(&self, who: &Principal, action: &'static Action, resource: Resource, refused: &Refused) {
        metrics::counter!("palisade_refusals_total", "action" => action.name).increment(1);
        let draft = Draft::new(who.label(), action.name, Entry::Refused)
            .on(resource.to_string())
            .because(refused.cause.clone());
        if let Err(error) = append_narrowing(&self.ledger, draft).await {
            tracing::error!(%error, action = action.name, "a refusal could not be recorded");
        }
    }
}

/// A refusal with what only the ledger may know.
struct Refused {
    denied: Denied,
    cause: String,
}

impl Refused {
    /// Absent, or not for the caller. One cause for both: callers read their own entries.
    fn hidden() -> Self {
        Self { denied: Denied::hidden(), cause: "nothing that the caller may know of".into() }
    }

    fn unavailable(message: &str) -> Self {
        Self { denied: Denied::unavailable(message), cause: message.to_owned() }
    }
}

/// The act by which one knows that a thing exists.
fn reading(resource: Resource) -> Option<&'static Action> {
    match resource {
        Resource::Installation => None,
        Resource::User(_) => Some(&act::USER_READ),
        Resource::Key(_) => Some(&act::KEY_REVOKE),
        Resource::Pass(_) => Some(&act::PASS_REVOKE),
        Resource::Repo(_) => Some(&act::REPO_READ),
        Resource::Worktree(_) => Some(&act::WORKTREE_READ),
        Resource::Session(_) => Some(&act::SESSION_READ),
    }
}

/// A Pass acts only where its Grant names the tool `api.<action>`, and only on a named thing.
fn pass_allows(who: &Principal, action: &'static Action, resource: Resource) -> Result<(), Refused> {
    let Via::Pass(_) = &who.via else { return Ok(()) };
    let refused = |cause: &str| Refused { denied: Denied::hidden(), cause: cause.to_owned() };
    if resource == Resource::Installation {
        return Err(Refused {
            denied: Denied::scope(action.name),
            ..refused("a pass needs a named resource")
        });
    }
    let tool = format!("api.{}", action.name).parse().ok();
    if tool.is_some_and(|tool| who.grant.tools.allows(&tool)) {
        Ok(())
    } else {
        Err(refused("outside the pass"))
    }
}
