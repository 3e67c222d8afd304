//! Every act there is, as the value that is judged, recorded and then carried out.
//!
//! An effect takes `Permit<A>` by value, so what was authorized is what is done: the fields here are the
//! whole request. Secrets never stand in an act; a password arrives hashed, a key as its digest.

use model::{
    DisplayName, Email, Grant, HostPattern, KeyId, Links, Millis, PassId, RepoId, RepoName, Role, SecretId,
    SecretName, SecretOwner, Tier, TreeFiles, UserId, WorktreeId, WorktreeName,
};

use crate::Via;
use crate::act::{self, Act, Action, Asks, Resource, Scope};

macro_rules! acts {
    ($(
        $(#[$doc:meta])*
        $name:ident = $action:ident on $resource:expr $(, names $names:ident)? $(, asks $asks:expr)?
            $(, narrows $narrows:expr)? $(, detail $detail:expr)?;
        { $($(#[$fdoc:meta])* $field:ident: $type:ty),* $(,)? }
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name { $($(#[$fdoc])* pub $field: $type),* }

            impl Act for $name {
                const ACTION: &'static Action = &act::$action;
                fn resource(&self) -> Resource {
                    let on: fn(&Self) -> Resource = $resource;
                    on(self)
                }
                $(fn names(&self) -> Option<String> {
                    Some(self.$names.to_string())
                })?
                $(fn asks(&self) -> Asks {
                    let asks: fn(&Self) -> Asks = $asks;
                    asks(self)
                })?
                $(fn only_narrows(&self) -> bool {
                    let narrows: fn(&Self) -> bool = $narrows;
                    narrows(self)
                })?
                $(fn detail(&self) -> Vec<(&'static str, String)> {
                    let detail: fn(&Self) -> Vec<(&'static str, String)> = $detail;
                    detail(self)
                })?
            }
        )+
    };
}

/// How a person is known by a password: an Argon2id string in PHC form. It never leaves the store.
pub struct PasswordHash(pub(crate) String);

impl PasswordHash {
    /// The text that is stored.
    #[must_use]
    pub fn stored(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(***)")
    }
}

/// What is asked for when it is about a secret: its owner decides.
fn of(owner: SecretOwner) -> Resource {
    match owner {
        SecretOwner::User(user) => Resource::User(user),
        SecretOwner::Worktree(worktree) => Resource::Worktree(worktree),
        SecretOwner::Daemon => Resource::Installation,
    }
}

fn shown<T: ToString>(name: &'static str, value: Option<T>) -> Option<(&'static str, String)> {
    value.map(|value| (name, value.to_string()))
}

/// What the ledger says of a worktree whose sessions are shared.
const SHARING: &str = "people may prompt each other's sessions here: what one leaves in the conversation and the tree steers what \
                       runs with the rights and the secrets of another";

mod artifacts;
mod sessions;

pub use artifacts::*;
pub use sessions::*;

acts! {
    /// Read how the daemon is.
    ReadStatus = STATUS_READ on |_| Resource::Installation; {}
    /// Read the metrics.
    ReadMetrics = METRICS_READ on |_| Resource::Installation; {}
    /// Follow the stream of events.
    FollowEvents = EVENT_FOLLOW on |_| Resource::Installation; {}

    /// Sign out: end the login, or revoke the key, that this call came with.
    EndSignIn = SIGNIN_END on |a| Resource::User(a.user), detail |a| vec![("via", a.via.word().into())]; {
        /// Whose.
        user: UserId,
        /// Which credential.
        via: Via,
    }
    /// Sign a user out everywhere.
    EndAllSignIns = SIGNIN_END_ALL on |a| Resource::User(a.user); {
        /// Whose.
        user: UserId,
    }
    /// Change the own password.
    ChangePassword = PASSWORD_CHANGE on |a| Resource::User(a.user); {
        /// Whose.
        user: UserId,
        /// The new one.
        hash: PasswordHash,
    }
    /// Turn the one-time password of the caller on or off.
    ChangeTotp = TOTP_CHANGE on |a| Resource::User(a.user),
        detail |a| vec![("enabled", a.sealed_seed.is_some().to_string())]; {
        /// Whose.
        user: UserId,
        /// The sealed seed, or none to turn it off.
        sealed_seed: Option<Vec<u8>>,
        /// The time step already used to confirm it.
        used_step: i64,
    }

    /// List users.
    ListUsers = USER_LIST on |_| Resource::Installation; {}
    /// Read one user.
    ReadUser = USER_READ on |a| Resource::User(a.user); {
        /// Which.
        user: UserId,
    }
    /// Create a user.
    CreateUser = USER_CREATE on |_| Resource::Installation, names user,
        asks |a| Asks { role: Some(a.role) },
        detail |a| vec![("role", a.role.to_string())]; {
        /// Its id, minted here.
        user: UserId,
        /// Address, unique.
        email: Email,
        /// How they are shown.
        name: DisplayName,
        /// What they are.
        role: Role,
        /// How they sign in.
        hash: PasswordHash,
    }
    /// Change a user's name or role, or enable them again.
    UpdateUser = USER_UPDATE on |a| Resource::User(a.user),
        asks |a| Asks { role: a.role },
        // No role is below this one. Another demotion may be none by the time it is written.
        narrows |a| a.role == Some(Role::Viewer) && a.name.is_none() && !a.enable,
        detail |a| shown("role", a.role).into_iter().chain(a.enable.then(|| ("enabled", "true".into()))).collect(); {
        /// Which.
        user: UserId,
        /// New name.
        name: Option<DisplayName>,
        /// New role.
        role: Option<Role>,
        /// Enable a disabled user.
        enable: bool,
    }
    /// Disable a user: everything they have open ends.
    DisableUser = USER_DISABLE on |a| Resource::User(a.user); {
        /// Which.
        user: UserId,
    }
    /// Delete a user.
    DeleteUser = USER_DELETE on |a| Resource::User(a.user); {
        /// Which.
        user: UserId,
    }
    /// Set another user's password.
    ResetPassword = USER_RESET on |a| Resource::User(a.user); {
        /// Whose.
        user: UserId,
        /// The new one.
        hash: PasswordHash,
    }

    /// List API keys of a user.
    ListKeys = KEY_LIST on |a| Resource::User(a.user); {
        /// Whose.
        user: UserId,
    }
    /// Make an API key for the caller.
    CreateKey = KEY_CREATE on |a| Resource::User(a.user), names key,
        detail |a| vec![("scope", a.scope.word().into()), ("expires", a.expires.to_string())]; {
        /// Whose.
        user: UserId,
        /// Its id.
        key: KeyId,
        /// What it is for.
        label: DisplayName,
        /// What it may be used for.
        scope: Scope,
        /// When it ends.
        expires: Millis,
        /// Digest of the secret part.
        digest: String,
    }
    /// Show a code that signs one more device in, with a key of the caller's.
    OfferPairing = PAIRING_OFFER on |a| Resource::User(a.user),
        detail |a| vec![("scope", a.scope.word().into()), ("expires", a.expires.to_string())]; {
        /// Whose.
        user: UserId,
        /// What the device is called.
        label: DisplayName,
        /// What its key may be used for.
        scope: Scope,
        /// The caller's credential version: the code ends when that does.
        version: i64,
        /// How long its key will live.
        key_life: Millis,
        /// When the code ends.
        expires: Millis,
        /// Digest of the code.
        digest: String,
    }
    /// Revoke an API key.
    RevokeKey = KEY_REVOKE on |a| Resource::Key(a.key); {
        /// Which.
        key: KeyId,
    }

    /// List Passes of a user.
    ListPasses = PASS_LIST on |a| Resource::User(a.user); {
        /// Whose.
        user: UserId,
    }
    /// Mint a Pass for the caller.
    MintPass = PASS_MINT on |a| Resource::User(a.user), names pass,
        detail |a| vec![("expires", a.expires.to_string())]; {
        /// Whose authority it carries a part of.
        user: UserId,
        /// Its id.
        pass: PassId,
        /// The Pass it was made from.
        parent: Option<PassId>,
        /// The API key it was asked for with; it ends with that.
        made_with: Option<KeyId>,
        /// What it is for.
        label: DisplayName,
        /// What it allows.
        grant: Grant,
        /// When it ends.
        expires: Millis,
    }
    /// Revoke a Pass and everything made from it.
    RevokePass = PASS_REVOKE on |a| Resource::Pass(a.pass); {
        /// Which.
        pass: PassId,
    }

    /// List repositories.
    ListRepos = REPO_LIST on |_| Resource::Installation; {}
    /// Read one repository.
    ReadRepo = REPO_READ on |a| Resource::Repo(a.repo); {
        /// Which.
        repo: RepoId,
    }
    /// Fetch a repository from where it comes from.
    FetchRepo = REPO_FETCH on |a| Resource::Repo(a.repo); {
        /// Which.
        repo: RepoId,
    }
    /// Register a repository; nothing is fetched by it.
    CreateRepo = REPO_CREATE on |_| Resource::Installation, names repo,
        detail |a| shown("asks_for", a.secret.as_ref()).into_iter().collect(); {
        /// Its id.
        repo: RepoId,
        /// Its name, unique.
        name: RepoName,
        /// Where it comes from.
        origin: String,
        /// The name of the secret that its origin asks for.
        secret: Option<SecretName>,
        /// Who that secret is for, as the origin knows them.
        login: Option<String>,
    }
    /// Remove a repository that no worktree uses.
    DeleteRepo = REPO_DELETE on |a| Resource::Repo(a.repo); {
        /// Which.
        repo: RepoId,
    }

    /// List worktrees.
    ListWorktrees = WORKTREE_LIST on |_| Resource::Installation; {}
    /// Read one worktree.
    ReadWorktree = WORKTREE_READ on |a| Resource::Worktree(a.worktree); {
        /// Which.
        worktree: WorktreeId,
    }
    /// Create a worktree; its creator owns it.
    CreateWorktree = WORKTREE_CREATE on |_| Resource::Installation, names worktree,
        detail |a| {
            let named = shown("branch", a.branch.as_ref()).into_iter().chain(shown("base", a.base.as_ref()));
            [("tier", a.tier.to_string())].into_iter().chain(named).collect()
        }; {
        /// Its id.
        worktree: WorktreeId,
        /// Of which repository.
        repo: RepoId,
        /// Its name, unique in the repository.
        name: WorktreeName,
        /// What it is for.
        about: String,
        /// What non-owners may do.
        tier: Tier,
        /// The branch that it is to be on; one of its own unless told.
        branch: Option<String>,
        /// The branch of the origin that it begins at; the usual one unless told.
        base: Option<String>,
    }
    /// Change what a worktree says of itself.
    UpdateWorktree = WORKTREE_UPDATE on |a| Resource::Worktree(a.worktree); {
        /// Which.
        worktree: WorktreeId,
        /// What it is for, if that changes.
        about: Option<String>,
        /// What it belongs to elsewhere; those that are given change, and empty ones go.
        links: Links,
    }
    /// Change what non-owners may do.
    SetTier = WORKTREE_SET_TIER on |a| Resource::Worktree(a.worktree),
        // No tier is below this one.
        narrows |a| a.tier == Tier::None,
        detail |a| vec![("tier", a.tier.to_string())]; {
        /// Which.
        worktree: WorktreeId,
        /// The new tier.
        tier: Tier,
    }
    /// Let others than its creator prompt a session in a worktree, each as themselves, or end that.
    SetSharing = WORKTREE_SET_SHARING on |a| Resource::Worktree(a.worktree),
        narrows |a| !a.shares,
        detail |a| {
            let mut told = vec![("sharing", a.shares.to_string())];
            told.extend(a.shares.then(|| ("warning", SHARING.to_owned())));
            told
        }; {
        /// Which.
        worktree: WorktreeId,
        /// Whether they may.
        shares: bool,
    }
    /// Add an owner.
    AddOwner = WORKTREE_SET_OWNERS on |a| Resource::Worktree(a.worktree), detail |a| vec![("add", a.owner.to_string())]; {
        /// Which.
        worktree: WorktreeId,
        /// Who.
        owner: UserId,
    }
    /// Remove an owner; the last one stays.
    RemoveOwner = WORKTREE_SET_OWNERS on |a| Resource::Worktree(a.worktree),
        narrows |_| true,
        detail |a| vec![("remove", a.owner.to_string())]; {
        /// Which.
        worktree: WorktreeId,
        /// Who.
        owner: UserId,
    }
    /// Archive a worktree.
    ArchiveWorktree = WORKTREE_ARCHIVE on |a| Resource::Worktree(a.worktree), detail |a| vec![("files", a.files.to_string())]; {
        /// Which.
        worktree: WorktreeId,
        /// What becomes of its files.
        files: TreeFiles,
    }
    /// Delete a worktree.
    DeleteWorktree = WORKTREE_DELETE on |a| Resource::Worktree(a.worktree), detail |a| vec![("files", a.files.to_string())]; {
        /// Which.
        worktree: WorktreeId,
        /// What becomes of its files.
        files: TreeFiles,
    }
    /// Bring an archived worktree back, with the sessions that were archived with it.
    RestoreWorktree = WORKTREE_RESTORE on |a| Resource::Worktree(a.worktree); {
        /// Which.
        worktree: WorktreeId,
    }
    /// Join what was committed in a worktree into a branch, and perhaps take it away.
    MergeWorktree = WORKTREE_MERGE on |a| Resource::Worktree(a.worktree),
        detail |a| {
            let mut told: Vec<_> = shown("into", a.into.as_ref()).into_iter().collect();
            told.extend(a.takes.then(|| ("takes", "bundle".to_owned())));
            told
        }; {
        /// Which.
        worktree: WorktreeId,
        /// The branch; the usual one unless told.
        into: Option<String>,
        /// Whether the result is also handed out.
        takes: bool,
    }
    /// Push what was committed in a worktree to where its repository comes from.
    PushWorktree = WORKTREE_PUSH on |a| Resource::Worktree(a.worktree),
        detail |a| shown("to", a.to.as_ref()).into_iter().collect(); {
        /// Which.
        worktree: WorktreeId,
        /// The branch there; the one of the same name unless told.
        to: Option<String>,
    }

    /// Read the policies in force.
    ReadPolicies = POLICY_READ on |_| Resource::Installation; {}
    /// Ask what the gate would say, without an effect.
    TryPolicy = POLICY_TRY on |_| Resource::Installation; {}
    /// Add a `forbid` policy.
    AddPolicy = POLICY_ADD on |_| Resource::Installation, names id; {
        /// Its id.
        id: String,
        /// Its Cedar text, checked.
        text: String,
    }
    /// Remove a `forbid` policy that was added.
    RemovePolicy = POLICY_REMOVE on |_| Resource::Installation, names id; {
        /// Its id.
        id: String,
    }

    /// List the secrets of an owner: what there is, never a value.
    ListSecrets = SECRET_LIST on |a| of(a.owner); {
        /// Whose.
        owner: SecretOwner,
    }
    /// Keep a secret.
    AddSecret = SECRET_ADD on |a| of(a.owner), names secret,
        detail |a| {
            let hosts = a.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            let about = [("name", a.name.to_string()), ("owner", a.owner.to_string()), ("hosts", hosts)];
            let how = [("replace", a.replace.to_string()), ("epoch", a.epoch.to_string())];
            about.into_iter().chain(shown("expires", a.expires)).chain(how).collect()
        }; {
        /// Its id, minted here.
        secret: SecretId,
        /// Whose.
        owner: SecretOwner,
        /// Its name.
        name: SecretName,
        /// Where it may be sent; nowhere by name if empty.
        hosts: Vec<HostPattern>,
        /// When it ends.
        expires: Option<Millis>,
        /// Whether one of this name may be there already, and goes.
        replace: bool,
        /// The epoch it is sealed under.
        epoch: u32,
        /// The value, sealed for its row.
        sealed: Vec<u8>,
    }
    /// Remove a secret.
    RemoveSecret = SECRET_REMOVE on |a| of(a.owner),
        detail |a| vec![("name", a.name.to_string()), ("owner", a.owner.to_string())]; {
        /// Whose.
        owner: SecretOwner,
        /// Its name.
        name: SecretName,
    }
    /// Lend a secret to one consumer, whichever of those with its name counts there.
    LeaseSecret = SECRET_LEASE on |a| a.worktree.map_or(Resource::User(a.user), Resource::Worktree),
        detail |a| {
            let mut told = vec![("name", a.name.to_string()), ("consumer", a.consumer.clone())];
            if !a.hosts.is_empty() {
                told.push(("hosts", a.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")));
            }
            told
        }; {
        /// For whom.
        user: UserId,
        /// Where, if anywhere.
        worktree: Option<WorktreeId>,
        /// Its name.
        name: SecretName,
        /// What is to have it.
        consumer: String,
        /// Where it is to go, if that is known; it is lent only if it may go to all of them.
        hosts: Vec<HostPattern>,
    }
    /// Give the installation a new master key and every secret a new data key.
    RotateKeys = SECRET_ROTATE on |_| Resource::Installation; {}

    /// Read the own part of the ledger.
    ReadLedger = LEDGER_READ on |_| Resource::Installation; {}
    /// Read the whole ledger.
    ReadWholeLedger = LEDGER_READ_ALL on |_| Resource::Installation; {}
    /// Verify the ledger.
    VerifyLedger = LEDGER_VERIFY on |_| Resource::Installation; {}
    /// Take a sealed copy of everything.
    CreateBackup = BACKUP_CREATE on |_| Resource::Installation; {}
}
