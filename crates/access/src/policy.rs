//! Cedar, prepared: policies parsed, checked and cut per action once, then asked per request.
//!
//! Invariant: an evaluation error is a refusal. Added policies can only forbid, so adding one never widens.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use cedar_policy::{
    ActionConstraint, Authorizer, Context, Decision as CedarDecision, Effect, Entities, Entity, EntityId,
    EntityTypeName, EntityUid, Policy, PolicyId, PolicySet, Request, Response, RestrictedExpression, Schema,
    ValidationMode, Validator,
};
use model::{KeyId, PassId, RepoId, Role, UserId};

use crate::{ACTIONS, Action, AddedPolicy, Asks, SessionFacts, WorktreeFacts};

/// The shipped schema and policies, as (file, text).
pub const SHIPPED: [(&str, &str); 4] = [
    ("roles.cedar", include_str!("../../../policies/roles.cedar")),
    ("worktrees.cedar", include_str!("../../../policies/worktrees.cedar")),
    ("sessions.cedar", include_str!("../../../policies/sessions.cedar")),
    (KEPT, include_str!("../../../policies/kept.cedar")),
];
/// The file whose permits no added policy takes away.
const KEPT: &str = "kept.cedar";
const SCHEMA: &str = include_str!("../../../policies/palisade.cedarschema");

/// Why a set of policies was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It is not Cedar.
    #[error("policy `{id}` cannot be read: {why}")]
    Unreadable {
        /// Which.
        id: String,
        /// What Cedar said.
        why: String,
    },
    /// It is Cedar, but does not fit the schema.
    #[error("policy `{id}` does not fit the schema: {why}")]
    Misfit {
        /// Which.
        id: String,
        /// What Cedar said.
        why: String,
    },
    /// Added policies may only narrow.
    #[error("policy `{0}` permits; an added policy may only forbid")]
    Permits(String),
    /// One document, one policy.
    #[error("policy `{0}` must be exactly one `forbid` statement")]
    NotOne(String),
    /// The name is taken.
    #[error("there is already a policy `{0}`; choose another id or remove it first")]
    Taken(String),
    /// The store did not tell which were added.
    #[error("the added policies cannot be read")]
    Unread,
    /// Longer or deeper than any policy needs to be.
    #[error(
        "policy `{0}` is too large: at most 8192 characters, 64 brackets, 192 operator signs and 16 `if`"
    )]
    TooLarge(String),
    /// The name cannot be one.
    #[error("a policy id is 1 to 64 characters from a-z, 0-9 and `-`")]
    BadId,
}

/// Who asks, as policies see them.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Which user.
    pub user: UserId,
    /// What they are.
    pub role: Role,
    /// `login`, `key` or `pass`.
    pub via: &'static str,
}

/// What it is about, as policies see it.
#[derive(Clone, Debug)]
pub enum Target<'a> {
    /// The installation.
    Installation,
    /// A user.
    User {
        /// Which.
        id: UserId,
        /// What they are.
        role: Role,
    },
    /// An API key.
    Key {
        /// Which.
        id: KeyId,
        /// Whose.
        owner: UserId,
    },
    /// A Pass.
    Pass {
        /// Which.
        id: PassId,
        /// Whose.
        owner: UserId,
    },
    /// A repository.
    Repo(RepoId),
    /// A worktree.
    Worktree(&'a WorktreeFacts),
    /// A session.
    Session(&'a SessionFacts),
}

/// What the policies say, and which of them said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The policies that decided: permits when allowed, forbids when refused by one, none by default.
    pub policies: Vec<String>,
    /// Policies that could not be evaluated; any makes it a refusal.
    pub errors: Vec<String>,
}

/// A decision with the text of what decided.
#[derive(Clone, Debug)]
pub struct Why {
    /// The decision.
    pub decision: Decision,
    /// Id and Cedar text of each deciding policy.
    pub texts: Vec<(String, String)>,
}

/// A set of policies, ready to be asked.
#[derive(Debug)]
pub struct Policies {
    whole: PolicySet,
    by_action: HashMap<&'static str, (EntityUid, PolicySet)>,
    /// What no added policy takes away: the permits that say so, and every shipped `forbid`.
    kept: HashMap<&'static str, PolicySet>,
    worktree_rbac: bool,
    session_sharing: bool,
}

static SCHEMA_READ: LazyLock<Option<Schema>> =
    LazyLock::new(|| Schema::from_cedarschema_str(SCHEMA).ok().map(|(schema, _)| schema));
static AUTHORIZER: LazyLock<Authorizer> = LazyLock::new(Authorizer::new);

impl Policies {
    /// The shipped policies with those that were added.
    pub fn load(added: &[AddedPolicy], worktree_rbac: bool) -> Result<Self, PolicyError> {
        for one in added {
            if !bounded(&one.text) {
                return Err(PolicyError::TooLarge(one.id.clone()));
            }
        }
        // Cedar's parser and checker recurse; a thread of their own has the room for it.
        let unread = || PolicyError::Unread;
        std::thread::scope(|scope| {
            let roomy = std::thread::Builder::new().stack_size(PARSER_STACK);
            let work = roomy.spawn_scoped(scope, || Self::load_here(added, worktree_rbac));
            work.map_err(|_| unread())?.join().map_err(|_| unread())?
        })
    }

    fn load_here(added: &[AddedPolicy], worktree_rbac: bool) -> Result<Self, PolicyError> {
        let (mut whole, mut kept) = (PolicySet::new(), PolicySet::new());
        for (file, text) in SHIPPED {
            for policy in parse(file, text)? {
                let id = policy.annotation("id").unwrap_or_default().to_owned();
                insert(&mut whole, &policy, &id)?;
                if file == KEPT || policy.effect() == Effect::Forbid {
                    insert(&mut kept, &policy, &id)?;
                }
            }
        }
        for one in added {
            let policy = forbid(one)?;
            insert(&mut whole, &policy, &one.id)?;
        }
        let unreadable = |why: String| PolicyError::Unreadable { id: "palisade.cedarschema".into(), why };
        let (schema, _) =
            Schema::from_cedarschema_str(SCHEMA).map_err(|error| unreadable(error.to_string()))?;
        let validator = Validator::new(schema);
        if let Some(error) = validator.validate(&whole, ValidationMode::Strict).validation_errors().next() {
            return Err(PolicyError::Misfit { id: error.policy_id().to_string(), why: error.to_string() });
        }
        let (mut by_action, mut kept_by_action) = (HashMap::new(), HashMap::new());
        for action in ACTIONS {
            let uid = uid(&ACTION_TYPE, action.name).ok_or_else(|| unreadable(action.name.into()))?;
            let kept = slice(&kept, &uid)?;
            if kept.policies().any(|policy| policy.effect() == Effect::Permit) {
                kept_by_action.insert(action.name, kept);
            }
            by_action.insert(action.name, (uid.clone(), slice(&whole, &uid)?));
        }
        Ok(Self { whole, by_action, kept: kept_by_action, worktree_rbac, session_sharing: false })
    }

    /// The same, where the daemon lets people prompt each other's sessions, or does not.
    #[must_use]
    pub fn sharing(mut self, on: bool) -> Self {
        self.session_sharing = on;
        self
    }

    fn around(&self) -> Around {
        Around { worktree_rbac: self.worktree_rbac, session_sharing: self.session_sharing }
    }

    /// Whether worktrees are divided by owners and tiers at all.
    #[must_use]
    pub fn worktree_rbac(&self) -> bool {
        self.worktree_rbac
    }

    /// Whether the schema knows this action for this kind of resource.
    #[must_use]
    pub fn fits(action: &'static Action, target: &Target<'_>) -> bool {
        let kind = match target {
            Target::Installation => "Installation",
            Target::User { .. } => "User",
            Target::Key { .. } => "Key",
            Target::Pass { .. } => "Pass",
            Target::Repo(_) => "Repo",
            Target::Worktree(_) => "Worktree",
            Target::Session(_) => "Session",
        };
        let fits = || {
            let schema = LazyLock::force(&SCHEMA_READ).as_ref()?;
            let request_env = schema.request_envs().any(|env| {
                AsRef::<str>::as_ref(env.action().id()) == action.name && env.resource().to_string() == kind
            });
            Some(request_env)
        };
        fits().unwrap_or(false)
    }

    /// Asks. What cannot be asked is refused.
    #[must_use]
    pub fn decide(&self, who: Subject, action: &'static Action, target: &Target<'_>, asks: Asks) -> Decision {
        let answer = self.by_action.get(action.name).and_then(|(uid, set)| {
            let (entities, request) = question(who, uid, target, asks, self.around())?;
            let answer = AUTHORIZER.is_authorized(&request, set, &entities);
            let allows = |answer: &Response| {
                answer.decision() == CedarDecision::Allow && answer.diagnostics().errors().count() == 0
            };
            if !allows(&answer)
                && let Some(kept) = self.kept.get(action.name)
            {
                let kept = AUTHORIZER.is_authorized(&request, kept, &entities);
                return Some(if allows(&kept) { kept } else { answer });
            }
            Some(answer)
        });
        let Some(answer) = answer else {
            return Decision {
                allowed: false,
                policies: Vec::new(),
                errors: vec!["the question cannot be put".into()],
            };
        };
        let errors: Vec<String> = answer.diagnostics().errors().map(ToString::to_string).collect();
        let mut policies: Vec<String> = answer.diagnostics().reason().map(ToString::to_string).collect();
        policies.sort();
        Decision { allowed: answer.decision() == CedarDecision::Allow && errors.is_empty(), policies, errors }
    }

    /// Asks, and tells the text of what decided.
    #[must_use]
    pub fn explain(&self, who: Subject, action: &'static Action, target: &Target<'_>, asks: Asks) -> Why {
        let decision = self.decide(who, action, target, asks);
        let text = |id: &String| {
            let policy = self.whole.policy(&PolicyId::new(id));
            (id.clone(), policy.map(ToString::to_string).unwrap_or_default())
        };
        Why { texts: decision.policies.iter().map(text).collect(), decision }
    }

    /// Id, effect and text of every policy in force.
    #[must_use]
    pub fn list(&self) -> Vec<(String, bool, String)> {
        let row = |policy: &Policy| {
            (policy.id().to_string(), policy.effect() == Effect::Forbid, policy.to_string())
        };
        let mut rows: Vec<_> = self.whole.policies().map(row).collect();
        rows.sort();
        rows
    }

    /// The whole set, and one question, for comparing with a raw evaluation.
    #[doc(hidden)]
    #[must_use]
    pub fn raw(
        &self,
        who: Subject,
        action: &'static Action,
        target: &Target<'_>,
    ) -> Option<(PolicySet, Entities, Request)> {
        let (uid, _) = self.by_action.get(action.name)?;
        let (entities, request) = question(who, uid, target, Asks::default(), self.around())?;
        Some((self.whole.clone(), entities, request))
    }
}

/// Room for the parser; enough for what [`bounded`] lets through, many times over.
const PARSER_STACK: usize = 64 * 1024 * 1024;

/// Whether a text can be handed to Cedar's parser: whatever it says, it cannot nest deep enough to exhaust a
/// stack. Brackets and operators count wherever they stand, also in strings: nesting is never deeper than that.
fn bounded(text: &str) -> bool {
    const MOST_TEXT: usize = 8_192;
    const MOST_BRACKETS: usize = 64;
    const MOST_OPERATORS: usize = 192;
    const MOST_BRANCHES: usize = 16;
    let count = |of: &[u8]| text.bytes().filter(|byte| of.contains(byte)).count();
    text.len() <= MOST_TEXT
        && count(b"([{") <= MOST_BRACKETS
        && count(b"!-+*&|=<>.") <= MOST_OPERATORS
        && text.matches("if").count() <= MOST_BRANCHES
}

fn parse(id: &str, text: &str) -> Result<Vec<Policy>, PolicyError> {
    let set: PolicySet = text.parse().map_err(|error: cedar_policy::ParseErrors| {
        PolicyError::Unreadable { id: id.into(), why: error.to_string() }
    })?;
    Ok(set.policies().cloned().collect())
}

fn insert(set: &mut PolicySet, policy: &Policy, id: &str) -> Result<(), PolicyError> {
    if id.is_empty() {
        return Err(PolicyError::BadId);
    }
    set.add(policy.new_id(PolicyId::new(id))).map_err(|_| PolicyError::Taken(id.into()))
}

/// Checks the form of a policy that someone wants to add.
fn forbid(added: &AddedPolicy) -> Result<Policy, PolicyError> {
    let id_fits = (1..=64).contains(&added.id.len())
        && added.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !id_fits {
        return Err(PolicyError::BadId);
    }
    let mut policies = parse(&added.id, &added.text)?;
    match (policies.pop(), policies.is_empty()) {
        (Some(policy), true) if policy.effect() == Effect::Forbid => Ok(policy),
        (Some(_), true) => Err(PolicyError::Permits(added.id.clone())),
        _ => Err(PolicyError::NotOne(added.id.clone())),
    }
}

/// The policies that can have a say about this action; the others cannot match its scope.
fn slice(whole: &PolicySet, action: &EntityUid) -> Result<PolicySet, PolicyError> {
    let mut set = PolicySet::new();
    for policy in whole.policies() {
        let relevant = match policy.action_constraint() {
            ActionConstraint::Any => true,
            ActionConstraint::Eq(one) => one == *action,
            // A name that is no action could be a group: keep the policy rather than guess.
            ActionConstraint::In(many) => many.iter().any(|one| one == action || !is_action(one)),
        };
        if relevant {
            set.add(policy.clone()).map_err(|_| PolicyError::Taken(policy.id().to_string()))?;
        }
    }
    Ok(set)
}

fn is_action(uid: &EntityUid) -> bool {
    ACTIONS.iter().any(|action| action.name == AsRef::<str>::as_ref(uid.id()))
}

type TypeName = LazyLock<Option<EntityTypeName>>;
static ACTION_TYPE: TypeName = LazyLock::new(|| "Action".parse().ok());
static ROLE_TYPE: TypeName = LazyLock::new(|| "Role".parse().ok());
static USER_TYPE: TypeName = LazyLock::new(|| "User".parse().ok());
static INSTALLATION_TYPE: TypeName = LazyLock::new(|| "Installation".parse().ok());
static REPO_TYPE: TypeName = LazyLock::new(|| "Repo".parse().ok());
static KEY_TYPE: TypeName = LazyLock::new(|| "Key".parse().ok());
static PASS_TYPE: TypeName = LazyLock::new(|| "Pass".parse().ok());
static WORKTREE_TYPE: TypeName = LazyLock::new(|| "Worktree".parse().ok());
static SESSION_TYPE: TypeName = LazyLock::new(|| "Session".parse().ok());

fn uid(kind: &TypeName, id: impl AsRef<str>) -> Option<EntityUid> {
    LazyLock::force(kind).clone().map(|kind| EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

fn user_entity(id: UserId, role: Role) -> Option<Entity> {
    let groups: Option<HashSet<EntityUid>> =
        Role::EVERY.iter().filter(|one| **one <= role).map(|one| uid(&ROLE_TYPE, one.word())).collect();
    Some(Entity::new_no_attrs(uid(&USER_TYPE, id.to_string())?, groups?))
}

fn owned(kind: &TypeName, id: String, owner: UserId) -> Option<Entity> {
    let owner = RestrictedExpression::new_entity_uid(uid(&USER_TYPE, owner.to_string())?);
    Entity::new(uid(kind, id)?, HashMap::from([("owner".to_owned(), owner)]), HashSet::new()).ok()
}

fn worktree_entity(facts: &WorktreeFacts) -> Option<Entity> {
    let owners: Option<Vec<RestrictedExpression>> = facts
        .owners
        .iter()
        .map(|owner| uid(&USER_TYPE, owner.to_string()).map(RestrictedExpression::new_entity_uid))
        .collect();
    let attributes = HashMap::from([
        ("owners".to_owned(), RestrictedExpression::new_set(owners?)),
        ("tier".to_owned(), RestrictedExpression::new_string(facts.tier.word().to_owned())),
        ("archived".to_owned(), RestrictedExpression::new_bool(facts.archived)),
        ("shares".to_owned(), RestrictedExpression::new_bool(facts.shares)),
    ]);
    Entity::new(uid(&WORKTREE_TYPE, facts.id.to_string())?, attributes, HashSet::new()).ok()
}

/// A session is judged by where it is and who opened it.
fn session_entity(facts: &SessionFacts) -> Option<Entity> {
    let link = |kind, id: String| Some(RestrictedExpression::new_entity_uid(uid(kind, id)?));
    let attributes = HashMap::from([
        ("worktree".to_owned(), link(&WORKTREE_TYPE, facts.worktree.id.to_string())?),
        ("creator".to_owned(), link(&USER_TYPE, facts.creator.to_string())?),
    ]);
    Entity::new(uid(&SESSION_TYPE, facts.id.to_string())?, attributes, HashSet::new()).ok()
}

/// How the installation is set up, as policies see it.
#[derive(Clone, Copy)]
struct Around {
    worktree_rbac: bool,
    session_sharing: bool,
}

fn question(
    who: Subject,
    action: &EntityUid,
    target: &Target<'_>,
    asks: Asks,
    setup: Around,
) -> Option<(Entities, Request)> {
    let principal = user_entity(who.user, who.role)?;
    let resource = match target {
        Target::Installation => Entity::new_no_attrs(uid(&INSTALLATION_TYPE, "here")?, HashSet::new()),
        Target::User { id, role } => user_entity(*id, *role)?,
        Target::Key { id, owner } => owned(&KEY_TYPE, id.to_string(), *owner)?,
        Target::Pass { id, owner } => owned(&PASS_TYPE, id.to_string(), *owner)?,
        Target::Repo(id) => Entity::new_no_attrs(uid(&REPO_TYPE, id.to_string())?, HashSet::new()),
        Target::Worktree(facts) => worktree_entity(facts)?,
        Target::Session(facts) => session_entity(facts)?,
    };
    let around = match target {
        Target::Session(facts) => Some(worktree_entity(&facts.worktree)?),
        _ => None,
    };
    let mut pairs = vec![
        ("worktree_rbac".to_owned(), RestrictedExpression::new_bool(setup.worktree_rbac)),
        ("session_sharing".to_owned(), RestrictedExpression::new_bool(setup.session_sharing)),
        ("via".to_owned(), RestrictedExpression::new_string(who.via.to_owned())),
    ];
    if let Some(role) = asks.role {
        pairs.push(("role".to_owned(), RestrictedExpression::new_string(role.word().to_owned())));
    }
    let context = Context::from_pairs(pairs).ok()?;
    let request = Request::new(principal.uid(), action.clone(), resource.uid(), context, None).ok()?;
    // The same user may be both; an entity stands in the set once.
    let both = if principal.uid() == resource.uid() { vec![principal] } else { vec![principal, resource] };
    Some((Entities::from_entities(both.into_iter().chain(around), None).ok()?, request))
}
