//! Secrets: kept sealed, listed without their values, lent to one consumer at a time.
//!
//! Flow: a value -> sealed for its row -> [`Runtime::add_secret`]; [`Runtime::lease_secret`] opens the one that counts
//! and lends it; the consumer looks at it by [`Runtime::with_lease`] until it ends.
//!
//! Invariants: no use case gives a value to a caller; a value opens only in its row, for its owner, under its name, with
//! its hosts and its end, so none of those can be changed behind it; what is lent is known to the redactor as long; a lease
//! ends with its time, its secret, and the right to have it, whoever or whatever takes that away.
//!
//! Not here: new keys (`rotation`), the end of a right (`lending`), who may do it (`access`), where a consumer sends it.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use access::{Act, AddSecret, LeaseSecret, ListSecrets, Permit, Principal, RemoveSecret, Resource, Via};
use model::{HostPattern, Millis, SecretId, SecretName, SecretOwner, SecretSource, WorktreeId};
use redact::LearnError;
use store::{SealedSecret, SecretRow, Store, StoreError};
use vault::{KeyRing, LeaseError, LeaseId, Leases, OpenError, Place, SealedRecord, Secret, Term};

use crate::lending::Lending;
use crate::{ActError, Runtime};

/// What the daemon's own environment gives: `PALISADE_SECRET_` and the name.
const ENVIRONMENT: &str = "PALISADE_SECRET_";

/// A secret to keep.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// Whose.
    pub owner: SecretOwner,
    /// Its name.
    pub name: SecretName,
    /// Where it may be sent.
    pub hosts: Vec<HostPattern>,
    /// When it ends.
    pub expires: Option<Millis>,
    /// Whether one of this name goes.
    pub replace: bool,
}

/// Which secrets to list.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    /// Those of one owner.
    One(SecretOwner),
    /// Those that could count for the caller, perhaps in a worktree.
    Counting(Option<WorktreeId>),
}

/// What is told of a secret.
#[derive(Clone, Debug)]
pub struct SecretView {
    /// Its name.
    pub name: SecretName,
    /// Where it comes from.
    pub source: SecretSource,
    /// Whether it is the one that counts among those of its name; unknown in the list of one owner.
    pub effective: Option<bool>,
    /// Its row, unless it comes from the environment.
    pub about: Option<SecretRow>,
}

/// What somebody wants to be lent.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Its name.
    pub name: SecretName,
    /// The worktree in which it counts, if any.
    pub worktree: Option<WorktreeId>,
    /// Where it is to go, if that is known: one that may not go to all of these is not lent.
    pub hosts: Vec<HostPattern>,
}

/// A secret that was lent. The value stays where it is.
#[derive(Debug)]
pub struct Lent {
    /// The lease, for the consumer.
    pub lease: LeaseId,
    /// When it ends.
    pub until: Millis,
    /// Where the value comes from.
    pub source: SecretSource,
    /// Where it may be sent.
    pub hosts: Vec<HostPattern>,
}

/// Whether the redactor can know a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masking {
    /// What is lent of it is masked wherever it appears.
    Exact,
    /// It is too short to be told from ordinary text.
    TooShort,
    /// It is too long to be looked for.
    TooLong,
}

impl Runtime {
    /// What there is; values are told by nothing.
    pub async fn secrets(&self, who: &Principal, whose: Whose) -> Result<Vec<SecretView>, ActError> {
        let owners = match whose {
            Whose::One(owner) => vec![owner],
            Whose::Counting(worktree) => {
                let worktree = worktree.map(SecretOwner::Worktree);
                [SecretOwner::User(who.user())].into_iter().chain(worktree).collect()
            }
        };
        let mut all = Vec::new();
        for owner in owners {
            let permit = self.look(who, ListSecrets { owner }).await?;
            all.extend(self.store.list_secrets(permit).await?.into_iter().map(kept));
        }
        if let Whose::Counting(_) = whose {
            // Who may not know what the installation has still sees what is theirs.
            let action = ListSecrets::ACTION;
            if self.gate.would_allow(who, action, Resource::Installation).await {
                let permit = self.look(who, ListSecrets { owner: SecretOwner::Daemon }).await?;
                all.extend(self.store.list_secrets(permit).await?.into_iter().map(kept));
                all.extend(given());
            }
            all.sort_by(|a, b| (&a.name, a.source).cmp(&(&b.name, b.source)));
            let mut seen = BTreeSet::new();
            for one in &mut all {
                one.effective = Some(seen.insert(one.name.clone()));
            }
        }
        Ok(all)
    }

    /// Keeps a value, sealed.
    pub async fn add_secret(
        self: &Arc<Self>,
        who: &Principal,
        new: NewSecret,
        value: Secret<Vec<u8>>,
    ) -> Result<SecretRow, ActError> {
        let secret = SecretId::random();
        // From the sealing to the commit: a rotation must not let the epoch go meanwhile.
        let sealing = Arc::clone(&self.sealing).read_owned().await;
        let place = SecretPlace::new(secret, new.owner, &new.name, &new.hosts, new.expires);
        let sealed = self.ring.seal_record(&place.place(), value.expose());
        let sealed = sealed.map_err(|error| StoreError::Unusable(error.to_string()))?;
        drop(value);
        let NewSecret { owner, name, hosts, expires, replace } = new;
        let epoch = sealed.epoch();
        let sealed = sealed.into_bytes();
        let act = AddSecret { secret, owner, name, hosts, expires, replace, epoch, sealed };
        let this = Arc::clone(self);
        let effect = async move |store: Arc<Store>, permit| {
            let added = store.add_secret(permit).await;
            drop(sealing);
            let (row, replaced) = added?;
            if let Some(replaced) = replaced {
                this.end_leases_on(replaced).await;
            }
            Ok(row)
        };
        self.perform(who, act, effect).await
    }

    /// Whether what is lent of such a value will be masked.
    pub fn masking(&self, value: &Secret<Vec<u8>>) -> Masking {
        match redact::Redactor::fits(value.expose()) {
            // Whether there is room for one more says nothing of this value.
            Ok(()) | Err(LearnError::TooMany) => Masking::Exact,
            Err(LearnError::TooShort) => Masking::TooShort,
            Err(LearnError::TooLong) => Masking::TooLong,
        }
    }

    /// Removes a secret, and ends what was lent of it.
    pub async fn remove_secret(
        self: &Arc<Self>,
        who: &Principal,
        owner: SecretOwner,
        name: SecretName,
    ) -> Result<(), ActError> {
        let this = Arc::clone(self);
        let effect = async move |store: Arc<Store>, permit| {
            this.end_leases_on(store.remove_secret(permit).await?).await;
            Ok(())
        };
        self.perform(who, RemoveSecret { owner, name }, effect).await
    }

    /// Ends what was lent of a secret whose row is gone.
    pub(crate) async fn end_leases_on(&self, secret: SecretId) {
        // Whoever found the row before has lent it when this is had, and nobody finds it any more.
        drop(self.sealing.write().await);
        self.forget(|leases| leases.end_where(|_, lending| lending.secret == Some(secret)));
    }

    /// Lends the secret that counts for the caller to one consumer, which may run for `timeout`: theirs before the
    /// worktree's before the installation's before the environment's. The value is told by [`Self::with_lease`] alone.
    pub async fn lease_secret(
        self: &Arc<Self>,
        who: &Principal,
        wish: Wish,
        consumer: &str,
        timeout: Millis,
    ) -> Result<Lent, ActError> {
        let this = Arc::clone(self);
        let Wish { name, worktree, hosts } = wish;
        let act = LeaseSecret { user: who.user(), worktree, name, consumer: consumer.to_owned(), hosts };
        let (borrower, resource) = (who.clone(), act.resource());
        let before = self.gate.epoch().now();
        let effect = async move |store: Arc<Store>, permit: Permit<LeaseSecret>| {
            let (name, consumer) = (permit.act().name.clone(), permit.act().consumer.clone());
            let _sealing = this.sealing.read().await;
            let (mut secret, mut expires) = (None, None);
            let found = match store.lease_secret(permit).await {
                Err(error @ (StoreError::Expired { owner, .. } | StoreError::Bound { owner, .. })) => {
                    return Err(this.told(&borrower, owner, error).await);
                }
                found => found?,
            };
            let (value, source, hosts) = match found {
                Some(found) => {
                    let value = match open(&this.ring, &found) {
                        Ok(value) => value,
                        Err(error) => {
                            let owner = found.about.owner;
                            let text = format!("the secret `{name}` of {owner} cannot be used: {error}");
                            return Err(this.told(&borrower, owner, StoreError::Unusable(text)).await);
                        }
                    };
                    (secret, expires) = (Some(found.about.id), found.about.expires);
                    (value, found.about.owner.into(), found.about.hosts)
                }
                None => {
                    let value = environment(&name).ok_or(StoreError::Missing("secret"))?;
                    (value, SecretSource::Environment, Vec::new())
                }
            };
            this.end_old_leases();
            let _lending = this.lending.lock().unwrap_or_else(PoisonError::into_inner);
            // Known before it is lent: nothing of it leaves unmasked. One that is too short to be told from
            // ordinary text, or too long, is never learned, and is lent all the same.
            let learned = Secret::new(value.expose().clone());
            match this.redactor.learn(learned.expose()) {
                Ok(()) => {}
                Err(error @ LearnError::TooMany) => return Err(StoreError::Unusable(error.to_string())),
                Err(error @ (LearnError::TooShort | LearnError::TooLong)) => {
                    tracing::warn!(%error, name = %name, "the redactor does not know the value of a secret that is lent");
                }
            }
            let (now, today) = (this.clock.steady(), this.clock.now());
            // A login goes on with its next token; a key or a Pass ends by itself, and what rests on it too.
            let credential = match borrower.via() {
                Via::Login(_) => None,
                Via::Key(_) | Via::Pass(_) => Some(borrower.expires()),
            };
            let ends = expires.into_iter().chain(credential).min();
            let at_most = ends.map(|ends| ends.saturating_sub(today));
            let lending = Lending { who: borrower, resource, secret };
            let term = Term { now, timeout, at_most };
            let (lease, end) = this.leases.grant(&consumer, value, term, lending).map_err(|error| {
                this.redactor.forget(learned.expose());
                StoreError::Unusable(error.to_string())
            })?;
            let until = today.saturating_add(end.saturating_sub(now));
            Ok(Lent { lease, until, source, hosts })
        };
        let source = |lent: &Lent| Some(("source", lent.source.word().to_owned()));
        let lent = self.perform_noting(who, act, effect, source).await?;
        // Rights that changed between the judgement and the lending were looked at before this was lent.
        if self.gate.epoch().now() != before
            && !matches!(self.gate.still_allows(who, LeaseSecret::ACTION, resource).await, Ok(true))
        {
            self.end_lease(lent.lease, consumer);
            return Err(StoreError::Missing("secret").into());
        }
        Ok(lent)
    }

    /// What is wrong with a secret, for somebody who may know that it is there; for others there is none.
    async fn told(&self, who: &Principal, owner: SecretOwner, wrong: StoreError) -> StoreError {
        let resource = ListSecrets { owner }.resource();
        if self.gate.would_allow(who, ListSecrets::ACTION, resource).await {
            return wrong;
        }
        tracing::warn!(%wrong, "a secret could not be lent, and whoever asked may not know of it");
        StoreError::Missing("secret")
    }

    /// Lets a consumer look at what was lent to it, as long as its time lasts.
    pub fn with_lease<T>(
        &self,
        lease: LeaseId,
        consumer: &str,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, LeaseError> {
        self.leases.with(lease, consumer, self.clock.steady(), look)
    }

    /// Ends one lease, because its consumer does not need it any more.
    pub fn end_lease(&self, lease: LeaseId, consumer: &str) {
        self.forget(|leases| leases.end(lease, consumer).into_iter().collect());
    }

    /// Ends everything that was lent to a consumer, because it is over; says how many that were.
    pub fn end_leases_of(&self, consumer: &str) -> usize {
        self.forget(|leases| leases.end_all_of(consumer))
    }

    /// Ends what was lent for longer than its time.
    pub(crate) fn end_old_leases(&self) {
        self.forget(|leases| leases.expire(self.clock.steady()));
    }

    /// Ends some leases. Each was learned once and is forgotten once: the redactor counts, and knows a value as long as
    /// anybody has it.
    pub(crate) fn forget(&self, end: impl FnOnce(&Leases<Lending>) -> Vec<Secret<Vec<u8>>>) -> usize {
        let _lending = self.lending.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = end(&self.leases);
        let gone: Vec<&[u8]> = ended.iter().map(|value| value.expose().as_slice()).collect();
        if !gone.is_empty() {
            self.redactor.forget_all(&gone);
        }
        ended.len()
    }
}

/// Where a secret is sealed for: everything about it that must not change behind its value.
pub(crate) struct SecretPlace {
    record: String,
    owner: String,
    field: String,
}

impl SecretPlace {
    pub(crate) fn new(
        id: SecretId,
        owner: SecretOwner,
        name: &SecretName,
        hosts: &[HostPattern],
        expires: Option<Millis>,
    ) -> Self {
        // None of these holds a line end.
        let hosts = hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let expires = expires.map_or_else(String::new, |at| at.to_string());
        Self {
            record: format!("secrets/{id}"),
            owner: owner.to_string(),
            field: format!("value\n{name}\n{hosts}\n{expires}"),
        }
    }

    pub(crate) fn place(&self) -> Place<'_> {
        Place { record: &self.record, owner: &self.owner, field: &self.field }
    }
}

fn place_of(about: &SecretRow) -> SecretPlace {
    SecretPlace::new(about.id, about.owner, &about.name, &about.hosts, about.expires)
}

fn open(ring: &KeyRing, found: &SealedSecret) -> Result<Secret<Vec<u8>>, OpenError> {
    ring.open_record(&place_of(&found.about).place(), &SealedRecord::parse(found.sealed.clone())?)
}

/// The same value, sealed under the current epoch with another data key.
pub(crate) fn carry_over(ring: &KeyRing, old: &SealedSecret) -> Result<Vec<u8>, String> {
    let value = open(ring, old).map_err(|error| error.to_string())?;
    let sealed = ring.seal_record(&place_of(&old.about).place(), value.expose());
    sealed.map(SealedRecord::into_bytes).map_err(|error| error.to_string())
}

fn kept(row: SecretRow) -> SecretView {
    SecretView { name: row.name.clone(), source: row.owner.into(), effective: None, about: Some(row) }
}

/// What the environment gives, by name.
fn given() -> Vec<SecretView> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let names = names.filter_map(|name| name.strip_prefix(ENVIRONMENT)?.parse::<SecretName>().ok());
    let view = |name| SecretView { name, source: SecretSource::Environment, effective: None, about: None };
    names.map(view).collect()
}

fn environment(name: &SecretName) -> Option<Secret<Vec<u8>>> {
    let value = std::env::var_os(format!("{ENVIRONMENT}{name}"))?;
    Some(Secret::new(value.into_encoded_bytes()))
}
