//! The registry: what a worker is, set by people. Capabilities, envs and subagents, as versions that stay and names that move.
//!
//! Flow: what somebody wrote -> a normal form, or all its faults -> its hash -> sealed -> [`Runtime::register`], which keeps
//! the version and lets the name stand for it, in one act.
//!
//! Invariants: a version's hash is made of its kind and its normal form alone, so equal content has one hash in whatever order
//! it was written; nothing is kept of what has a fault; a secret that comes along goes into the vault with the version that
//! refers to it, and is in no version; what is given out of a file is what its hash says, or nothing.
//!
//! Not here: who may do it (`access`), rows (`store`), what is made of it (a dispatch).

mod closed;
mod credentials;
mod document;
mod files;
mod inline;

use std::collections::BTreeSet;
use std::sync::Arc;

use access::{
    Act, AddSecret, AssignArtifact, FetchArtifact, ListArtifacts, NewBlob, Principal, ReadArtifact,
    ReadArtifactHistory, RegisterArtifact, Resource, RevokeArtifact,
};
use model::{ArtifactKind, ArtifactName, ContentHash, Reference, SecretOwner};
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::{Artifact, ArtifactChange, NamedArtifact, Registered, Store, StoreError};
use vault::{KeyRing, OpenError, Place, SealedRecord, Secret};

pub use self::closed::{Fault, Faults};
pub use self::credentials::masked_document;
pub use self::files::{NewFile, path_fault};
pub use self::inline::InlineSecret;
use self::inline::{SetApart, told};
use crate::secret::SecretPlace;
use crate::{ActError, Page, Runtime};

/// What the files of a capability may have together, in bytes.
pub const MOST_CAPABILITY: usize = files::MOST_BYTES;
/// Files of a capability.
pub const MOST_CAPABILITY_FILES: usize = files::MOST_FILES;
/// A part of a file, as it is sealed.
const PART: usize = 256 * 1_024;
/// A whole document, as it is sealed.
const MOST_DOCUMENT: usize = 1_000_000;

/// Why an artifact was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// What was written does not do; nothing was kept.
    #[error("{0}")]
    Faults(Faults),
    /// The gate or the store said no.
    #[error(transparent)]
    Act(#[from] ActError),
}

impl From<StoreError> for RegisterError {
    fn from(error: StoreError) -> Self {
        Self::Act(error.into())
    }
}

/// What is to be registered.
#[derive(Debug)]
pub struct NewArtifact {
    /// The name that will stand for it.
    pub name: ArtifactName,
    /// What it says.
    pub content: NewContent,
    /// Whether what looks like a credential is none, as whoever registers it says.
    pub accept_credentials: bool,
    /// Whether nothing is kept, only looked at.
    pub dry_run: bool,
}

/// What it says, by its kind.
#[derive(Debug)]
pub enum NewContent {
    /// A document and files.
    Capability(Value, Vec<NewFile>),
    /// A document, and names of capabilities that would be there by then, which counts in a dry run only.
    Subagent(Value, BTreeSet<String>),
    /// A document, and secrets that come along.
    Env(Value, Vec<InlineSecret>),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The version.
    pub hash: ContentHash,
    /// Its kind.
    pub kind: ArtifactKind,
    /// Bytes of its files.
    pub bytes: i64,
    /// What the name stood for before.
    pub before: Option<ContentHash>,
}

/// One version, as it is told.
#[derive(Clone, Debug)]
pub struct ArtifactView {
    /// What it is.
    pub about: Artifact,
    /// What it says.
    pub document: Value,
    /// The names that stand for it.
    pub names: Vec<ArtifactName>,
}

/// What was read, and has no fault.
struct Ready {
    kind: ArtifactKind,
    document: Vec<u8>,
    hash: ContentHash,
    files: Vec<(NewFile, ContentHash)>,
    accepted: usize,
}

impl Runtime {
    /// Names of a kind, in their order.
    pub async fn artifacts(
        &self,
        who: &Principal,
        kind: ArtifactKind,
        after: Option<ArtifactName>,
        limit: i64,
    ) -> Result<Page<NamedArtifact, String>, ActError> {
        let permit = self.look(who, ListArtifacts { kind }).await?;
        let rows = self.store.list_artifacts(permit, after.as_ref(), limit.saturating_add(1)).await?;
        Ok(Page::cut(rows, limit, |row| row.name.to_string()))
    }

    /// One version.
    pub async fn artifact(
        &self,
        who: &Principal,
        kind: ArtifactKind,
        reference: Reference,
    ) -> Result<ArtifactView, ActError> {
        let permit = self.look(who, ReadArtifact { kind, reference }).await?;
        let found = self.store.read_artifact(permit).await?;
        let text = opened(&self.ring, &document_place(found.about.hash), &found.document)?;
        let document =
            serde_json::from_slice(&text).ok().filter(|_| hash_of(kind, &text) == found.about.hash);
        let document = document.ok_or_else(|| not_whole(&found.about.hash))?;
        Ok(ArtifactView { about: found.about, document, names: found.names })
    }

    /// What a name stood for, the newest first.
    pub async fn artifact_history(
        &self,
        who: &Principal,
        kind: ArtifactKind,
        name: ArtifactName,
    ) -> Result<Vec<ArtifactChange>, ActError> {
        let permit = self.look(who, ReadArtifactHistory { kind, name }).await?;
        Ok(self.store.artifact_history(permit).await?)
    }

    /// One file of a capability, checked against its hash.
    pub async fn capability_file(
        &self,
        who: &Principal,
        reference: Reference,
        path: &str,
    ) -> Result<Vec<u8>, ActError> {
        let act = FetchArtifact { reference: reference.clone(), path: path.to_owned() };
        let permit = self.look(who, act).await?;
        let view = self.artifact(who, ArtifactKind::Capability, reference).await?;
        let file = view.document.get("files").and_then(|files| files.get(path));
        let hash = file.and_then(|file| file.get("hash")?.as_str()?.parse::<ContentHash>().ok());
        let hash = hash.ok_or(StoreError::Missing("file"))?;
        let parts = self.store.artifact_parts(permit, hash).await?;
        let mut content = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            content.extend(opened(&self.ring, &part_place(hash, at), part)?);
        }
        match files::content_hash(&content) == hash {
            true => Ok(content),
            false => Err(not_whole(&hash).into()),
        }
    }

    /// Registers a version, and lets a name stand for it. With a dry run nothing is kept.
    pub async fn register(
        self: &Arc<Self>,
        who: &Principal,
        new: NewArtifact,
    ) -> Result<Outcome, RegisterError> {
        // Before anything costly is done; it is judged again when it is done.
        let (action, on) = (RegisterArtifact::ACTION, Resource::Installation);
        self.gate.check(who, action, on, access::Asks::default()).await.map_err(ActError::from)?;
        let NewArtifact { name, content, accept_credentials, dry_run } = new;
        let mut faults = Faults::default();
        let (content, secrets) = match content {
            NewContent::Env(document, inline) => {
                if !inline.is_empty() {
                    self.gate
                        .check(who, AddSecret::ACTION, on, access::Asks::default())
                        .await
                        .map_err(ActError::from)?;
                }
                let (document, secrets) = self.set_apart(document, inline, &mut faults);
                (NewContent::Env(document, Vec::new()), secrets)
            }
            NewContent::Subagent(document, planned) => {
                let planned = if dry_run { planned } else { BTreeSet::new() };
                (NewContent::Subagent(document, planned), Vec::new())
            }
            content @ NewContent::Capability(..) => (content, Vec::new()),
        };
        let this = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || this.read(content, accept_credentials, faults));
        let (ready, mut faults, named) = reading.await.map_err(|_| ActError::Interrupted)?;
        self.look_for(who, named, &mut faults).await?;
        let Some(ready) = ready.filter(|_| faults.is_empty()) else {
            let text = faults.to_string();
            self.gate.refuse_malformed(who, action, &text).await;
            return Err(RegisterError::Faults(faults));
        };
        if dry_run {
            return self.would_be(who, &name, &ready).await;
        }
        // From the sealing to the commit: a rotation must not let the epoch go meanwhile.
        let sealing = Arc::clone(&self.sealing).read_owned().await;
        let this = Arc::clone(self);
        let sealed = tokio::task::spawn_blocking(move || this.seal(name, ready, secrets));
        let act = sealed.await.map_err(|_| ActError::Interrupted)??;
        let this = Arc::clone(self);
        let effect = async move |store: Arc<Store>, permit| {
            let registered = store.register_artifact(permit).await;
            drop(sealing);
            let registered = registered?;
            for (replaced, _) in &registered.secrets.replaced {
                this.end_leases_on(*replaced).await;
            }
            Ok(registered)
        };
        Ok(outcome(self.perform_noting(who, act, effect, told).await?))
    }

    /// Lets a name stand for a version that was registered before.
    pub async fn assign_artifact(
        self: &Arc<Self>,
        who: &Principal,
        kind: ArtifactKind,
        name: ArtifactName,
        reference: Reference,
    ) -> Result<Outcome, ActError> {
        let effect = async |store: Arc<Store>, permit| Ok(outcome(store.assign_artifact(permit).await?));
        self.perform(who, AssignArtifact { kind, name, reference }, effect).await
    }

    /// Takes a version out of use, for good.
    pub async fn revoke_artifact(
        self: &Arc<Self>,
        who: &Principal,
        kind: ArtifactKind,
        reference: Reference,
    ) -> Result<Artifact, ActError> {
        let effect = async |store: Arc<Store>, permit| store.revoke_artifact(permit).await;
        self.perform(who, RevokeArtifact { kind, reference }, effect).await
    }

    /// Reads what was written: its normal form, or all its faults; and the capabilities that it names.
    fn read(
        &self,
        content: NewContent,
        accept_credentials: bool,
        mut faults: Faults,
    ) -> (Option<Ready>, Faults, BTreeSet<Reference>) {
        let mut named = BTreeSet::new();
        let mut hashed = Vec::new();
        let (kind, document) = match content {
            NewContent::Capability(document, new) => {
                files::judge(new.iter().map(|file| (file.path.as_str(), file.content.len())), &mut faults);
                let paths: BTreeSet<&str> = new.iter().map(|file| file.path.as_str()).collect();
                let mut document = document::capability(document, &paths, &mut faults);
                hashed = new
                    .into_iter()
                    .map(|file| {
                        let hash = files::content_hash(&file.content);
                        (file, hash)
                    })
                    .collect();
                let is_empty = document.as_object().is_none_or(|all| !all.keys().any(|key| key != "about"));
                if hashed.is_empty() && is_empty && faults.is_empty() {
                    faults.add("files", "a capability has files, tool rules, MCP servers or notifications");
                }
                if let Some(fields) = document.as_object_mut().filter(|_| !hashed.is_empty()) {
                    fields.insert("files".into(), files::manifest(&hashed));
                }
                (ArtifactKind::Capability, document)
            }
            NewContent::Subagent(document, planned) => {
                let (document, capabilities) = document::subagent(document, &mut faults);
                named = capabilities;
                named.retain(|one| !planned.contains(&one.to_string()));
                let agent = document.get("agent").and_then(Value::as_str);
                if let Some(agent) = agent.filter(|agent| self.agents.named(agent).is_none()) {
                    faults.add(
                        "agent",
                        format!("no kind of agent is called `{agent}`; `palisade agent list` has them"),
                    );
                }
                (ArtifactKind::Subagent, document)
            }
            NewContent::Env(document, _) => {
                (ArtifactKind::Env, document::env(document, &mut faults).into_value())
            }
        };
        let text = closed::canonical(&document);
        if text.len() > MOST_DOCUMENT {
            faults.add(
                "document",
                format!("it has {} bytes in its normal form; at most {MOST_DOCUMENT} are taken", text.len()),
            );
        }
        let mut found = Faults::default();
        let redactor = &self.redactor;
        let mut accepted: usize =
            hashed.iter().map(|(file, _)| credentials::in_file(redactor, file, &mut found)).sum();
        accepted += credentials::in_document(redactor, kind, &document, &mut found);
        if !accept_credentials {
            for fault in found.iter() {
                faults.add(fault.place.clone(), fault.why.clone());
            }
        }
        let hash = hash_of(kind, &text);
        let ready = Ready { kind, document: text, hash, files: hashed, accepted };
        (Some(ready).filter(|_| faults.is_empty()), faults, named)
    }

    /// The capabilities that a subagent names are there and can be used.
    async fn look_for(
        &self,
        who: &Principal,
        named: BTreeSet<Reference>,
        faults: &mut Faults,
    ) -> Result<(), ActError> {
        for reference in named {
            let kind = ArtifactKind::Capability;
            let permit = self.look(who, ReadArtifact { kind, reference: reference.clone() }).await?;
            match self.store.read_artifact(permit).await {
                Ok(found) if found.about.revoked_at.is_some() => {
                    faults.add("capabilities", format!("`{reference}` was revoked"));
                }
                Ok(_) => {}
                Err(StoreError::Missing(_)) => {
                    faults.add("capabilities", format!("there is no `{reference}`; register it first"));
                }
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// What registering it would do.
    async fn would_be(
        &self,
        who: &Principal,
        name: &ArtifactName,
        ready: &Ready,
    ) -> Result<Outcome, RegisterError> {
        let Ready { kind, hash, .. } = *ready;
        let permit = self.look(who, ReadArtifact { kind, reference: Reference::Pinned(hash) }).await?;
        if let Ok(found) = self.store.read_artifact(permit).await
            && found.about.revoked_at.is_some()
        {
            let mut faults = Faults::default();
            faults.add("document", "this very version was revoked, for good; change it");
            return Err(RegisterError::Faults(faults));
        }
        let permit = self.look(who, ReadArtifact { kind, reference: Reference::Name(name.clone()) }).await?;
        let before = match self.store.read_artifact(permit).await {
            Ok(found) => Some(found.about.hash),
            Err(StoreError::Missing(_)) => None,
            Err(other) => return Err(other.into()),
        };
        Ok(Outcome { hash, kind, bytes: ready.bytes(), before })
    }

    fn seal(
        &self,
        name: ArtifactName,
        ready: Ready,
        secrets: Vec<SetApart>,
    ) -> Result<RegisterArtifact, StoreError> {
        let (kind, hash, bytes, accepted) = (ready.kind, ready.hash, ready.bytes(), ready.accepted);
        let (document, epoch) = sealed(&self.ring, &document_place(hash), &ready.document)?;
        let mut blobs: Vec<NewBlob> = Vec::new();
        let mut seen = BTreeSet::new();
        for (file, hash) in ready.files {
            if !seen.insert(hash) {
                continue;
            }
            let mut parts = Vec::new();
            for (at, part) in file.content.chunks(PART).enumerate() {
                parts.push(sealed(&self.ring, &part_place(hash, at), part)?.0);
            }
            blobs.push(NewBlob { hash, parts });
        }
        let mut kept = Vec::new();
        for (mut new, value) in secrets {
            let place = SecretPlace::new(new.secret, SecretOwner::Daemon, &new.name, &[], new.expires);
            let record = self.ring.seal_record(&place.place(), value.expose());
            new.sealed = record.map_err(|error| StoreError::Unusable(error.to_string()))?.into_bytes();
            kept.push(new);
        }
        Ok(RegisterArtifact { kind, name, hash, bytes, document, epoch, blobs, secrets: kept, accepted })
    }
}

impl Ready {
    fn bytes(&self) -> i64 {
        let all = self.files.iter().map(|(file, _)| file.content.len()).sum::<usize>();
        i64::try_from(all).unwrap_or(i64::MAX)
    }
}

fn outcome(registered: Registered) -> Outcome {
    let Artifact { hash, kind, bytes, .. } = registered.about;
    Outcome { hash, kind, bytes, before: registered.before }
}

/// The hash of a version.
fn hash_of(kind: ArtifactKind, text: &[u8]) -> ContentHash {
    let mut digest = Sha256::new();
    digest.update(b"palisade/artifact/v1\0");
    digest.update(kind.word().as_bytes());
    digest.update([0]);
    digest.update(text);
    ContentHash::new(digest.finalize().into())
}

fn not_whole(hash: &ContentHash) -> StoreError {
    StoreError::Unusable(format!("what is kept of {hash} is not what was registered; it is not used"))
}

/// Where something of the registry is sealed for.
struct Sealing {
    record: String,
    field: String,
}

fn document_place(hash: ContentHash) -> Sealing {
    Sealing { record: format!("artifacts/{hash}"), field: "document".into() }
}

fn part_place(blob: ContentHash, part: usize) -> Sealing {
    Sealing { record: format!("artifact_parts/{blob}"), field: format!("part {part}") }
}

impl Sealing {
    fn place(&self) -> Place<'_> {
        Place { record: &self.record, owner: "daemon", field: &self.field }
    }
}

fn sealed(ring: &KeyRing, place: &Sealing, plain: &[u8]) -> Result<(Vec<u8>, u32), StoreError> {
    let record = ring.seal_record(&place.place(), plain);
    let record = record.map_err(|error| StoreError::Unusable(error.to_string()))?;
    let epoch = record.epoch();
    Ok((record.into_bytes(), epoch))
}

fn open(ring: &KeyRing, place: &Sealing, sealed: &[u8]) -> Result<Secret<Vec<u8>>, OpenError> {
    ring.open_record(&place.place(), &SealedRecord::parse(sealed.to_vec())?)
}

fn opened(ring: &KeyRing, place: &Sealing, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
    let plain = open(ring, place, sealed).map_err(|error| {
        StoreError::Unusable(format!("what is kept in {} cannot be opened: {error}", place.record))
    })?;
    Ok(plain.expose().clone())
}

/// The same document, sealed under the current epoch.
pub(crate) fn carry_document(
    ring: &KeyRing,
    hash: ContentHash,
    old: &[u8],
) -> Result<Option<Vec<u8>>, String> {
    carry(ring, &document_place(hash), old)
}

/// The same part of a file, sealed under the current epoch.
pub(crate) fn carry_part(
    ring: &KeyRing,
    blob: ContentHash,
    part: i64,
    old: &[u8],
) -> Result<Option<Vec<u8>>, String> {
    let part = usize::try_from(part).map_err(|error| error.to_string())?;
    carry(ring, &part_place(blob, part), old)
}

/// None if what is kept cannot be opened: no key that the ring has would ever open it.
fn carry(ring: &KeyRing, place: &Sealing, old: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let plain = match open(ring, place, old) {
        Ok(plain) => plain,
        Err(error) => {
            tracing::error!(%error, record = %place.record, "it cannot be opened, and is not carried over to the new keys");
            return Ok(None);
        }
    };
    sealed(ring, place, plain.expose()).map(|(bytes, _)| Some(bytes)).map_err(|error| error.to_string())
}
