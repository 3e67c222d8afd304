//! What people register for workers: versions that stay, names that move, and content of files in sealed parts.
//!
//! Invariants: a version is kept whole, with its files and its secrets, or not at all; what is kept is never changed but for
//! being revoked, which is for good; a name that moves leaves a line of history. Not here: what a document means (`runtime`).

use access::{
    AssignArtifact, FetchArtifact, ListArtifacts, NewBlob, NewEnvSecret, Permit, ReadArtifact,
    ReadArtifactHistory, RegisterArtifact, RevokeArtifact,
};
use model::{ArtifactKind, ArtifactName, ContentHash, Millis, Reference, SecretId, SecretName, UserId};

use crate::engine::{EngineError, Row, Tx};
use crate::secrets::room_for_secret;
use crate::store::{odd, parsed, taken};
use crate::{Store, StoreError};

/// Most versions of one kind, and lines of history that are told.
const MOST: i64 = 10_000;
const MOST_TOLD: i64 = 1_000;
/// What is damaged and told by its name: few enough that an entry of the ledger names each.
const MOST_DAMAGED: i64 = 40;

/// A version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Which.
    pub hash: ContentHash,
    /// Of which kind.
    pub kind: ArtifactKind,
    /// Bytes of its files.
    pub bytes: i64,
    /// Who registered it.
    pub created_by: UserId,
    /// When.
    pub created_at: Millis,
    /// When it was taken out of use.
    pub revoked_at: Option<Millis>,
}

/// A version with its document.
#[derive(Clone, Debug)]
pub struct SealedArtifact {
    /// What is told of it.
    pub about: Artifact,
    /// Its document, sealed for its row.
    pub document: Vec<u8>,
    /// The names that stand for it.
    pub names: Vec<ArtifactName>,
}

/// A name, and the version that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedArtifact {
    /// The name.
    pub name: ArtifactName,
    /// The version.
    pub about: Artifact,
    /// Since when.
    pub moved_at: Millis,
}

/// What happened to a name, or to the version it stood for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactChange {
    /// The version.
    pub hash: ContentHash,
    /// `register`, `assign` or `revoke`.
    pub change: String,
    /// Who.
    pub by: UserId,
    /// When.
    pub at: Millis,
}

/// What became of a registration.
#[derive(Clone, Debug)]
pub struct Registered {
    /// The version.
    pub about: Artifact,
    /// What the name stood for before, if it stood for anything.
    pub before: Option<ContentHash>,
    /// What became of the secrets that came along.
    pub secrets: KeptSecrets,
}

/// What became of secrets that came along with an env. Those that were there already are in neither list.
#[derive(Clone, Debug, Default)]
pub struct KeptSecrets {
    /// Those that the vault did not have.
    pub added: Vec<SecretName>,
    /// Those that were replaced, with the row that is gone.
    pub replaced: Vec<(SecretId, SecretName)>,
}

macro_rules! artifact_columns {
    ($rest:literal) => {
        concat!(
            "SELECT a.hash, a.kind, a.bytes, a.created_by, a.created_at, a.revoked_at, a.document FROM artifacts a ",
            $rest
        )
    };
}

impl Store {
    /// The names of a kind after a cursor, each with what it stands for.
    pub async fn list_artifacts(
        &self,
        permit: Permit<ListArtifacts>,
        after: Option<&ArtifactName>,
        limit: i64,
    ) -> Result<Vec<NamedArtifact>, StoreError> {
        let sql = "SELECT a.hash, a.kind, a.bytes, a.created_by, a.created_at, a.revoked_at, n.name, n.moved_at \
                   FROM artifact_names n JOIN artifacts a ON a.hash = n.hash \
                   WHERE n.kind = $1 AND n.name > $2 ORDER BY n.name LIMIT $3";
        let after = after.map_or("", ArtifactName::as_str);
        let args = [permit.into_act().kind.word().into(), after.into(), limit.into()];
        let rows = self.engine.rows(sql, &args).await?;
        let named = |row: &Row| -> Result<NamedArtifact, EngineError> {
            Ok(NamedArtifact { name: parsed(row, 6)?, about: about(row)?, moved_at: row.int(7)? })
        };
        Ok(rows.iter().map(named).collect::<Result<_, _>>()?)
    }

    /// One version with its document; also one that was revoked.
    pub async fn read_artifact(&self, permit: Permit<ReadArtifact>) -> Result<SealedArtifact, StoreError> {
        let ReadArtifact { kind, reference } = permit.into_act();
        let row = match &reference {
            Reference::Pinned(hash) => {
                let sql = artifact_columns!("WHERE a.kind = $1 AND a.hash = $2");
                self.engine.row(sql, &[kind.word().into(), hash.to_string().into()]).await?
            }
            Reference::Name(name) => {
                let sql = artifact_columns!(
                    "JOIN artifact_names n ON n.hash = a.hash WHERE n.kind = $1 AND n.name = $2"
                );
                self.engine.row(sql, &[kind.word().into(), name.as_str().into()]).await?
            }
        };
        let row = row.ok_or(StoreError::Missing(kind.word()))?;
        let about = about(&row)?;
        let sql = "SELECT name FROM artifact_names WHERE kind = $1 AND hash = $2 ORDER BY name";
        let names = self.engine.rows(sql, &[kind.word().into(), about.hash.to_string().into()]).await?;
        let names = names.iter().map(|row| parsed(row, 0)).collect::<Result<_, _>>()?;
        Ok(SealedArtifact { about, document: row.blob(6)?.to_vec(), names })
    }

    /// What a name stood for, the newest first.
    pub async fn artifact_history(
        &self,
        permit: Permit<ReadArtifactHistory>,
    ) -> Result<Vec<ArtifactChange>, StoreError> {
        let ReadArtifactHistory { kind, name } = permit.into_act();
        let sql = "SELECT hash, change, changed_by, changed_at FROM artifact_history \
                   WHERE kind = $1 AND name = $2 ORDER BY seq DESC LIMIT $3";
        let args = [kind.word().into(), name.as_str().into(), MOST_TOLD.into()];
        let rows = self.engine.rows(sql, &args).await?;
        if rows.is_empty() {
            return Err(StoreError::Missing(kind.word()));
        }
        let change = |row: &Row| -> Result<ArtifactChange, EngineError> {
            let (hash, change) = (parsed(row, 0)?, row.text(1)?.to_owned());
            Ok(ArtifactChange { hash, change, by: parsed(row, 2)?, at: row.int(3)? })
        };
        Ok(rows.iter().map(change).collect::<Result<_, _>>()?)
    }

    /// The content of a file in its sealed parts, which is for whoever may fetch of the capability that has it.
    pub async fn artifact_parts(
        &self,
        _permit: Permit<FetchArtifact>,
        blob: ContentHash,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let sql = "SELECT sealed FROM artifact_parts WHERE blob = $1 ORDER BY part";
        let rows = self.engine.rows(sql, &[blob.to_string().into()]).await?;
        Ok(rows.iter().map(|row| Ok(row.blob(0)?.to_vec())).collect::<Result<_, EngineError>>()?)
    }

    /// Keeps a version, unless it is there, and lets the name stand for it.
    pub async fn register_artifact(
        &self,
        permit: Permit<RegisterArtifact>,
    ) -> Result<Registered, StoreError> {
        let (by, now) = (permit.user(), self.clock.now());
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        self.hold_ring(&mut tx).await?;
        let is_mended = forget_damaged(&mut tx, &act.blobs).await?;
        let kept = match version(&mut tx, act.kind, act.hash).await? {
            Some(kept) => {
                let kept = usable(kept)?;
                // What could not be opened any more is whole again.
                let sql = "UPDATE artifacts SET document = $2, epoch = $3, damaged = NULL \
                           WHERE hash = $1 AND damaged IS NOT NULL";
                let args = [act.hash.to_string().into(), act.document.into(), i64::from(act.epoch).into()];
                tx.exec(sql, &args).await?;
                if is_mended {
                    keep_blobs(&mut tx, act.epoch, act.blobs).await?;
                }
                kept
            }
            None => {
                let count = tx
                    .row("SELECT COUNT(*) FROM artifacts WHERE kind = $1", &[act.kind.word().into()])
                    .await?;
                if count.map_or(Ok(0), |row| row.int(0))? >= MOST {
                    return Err(StoreError::Full("versions", MOST));
                }
                let seq = tx.next("artifacts").await?;
                let sql = "INSERT INTO artifacts (hash, seq, kind, bytes, created_by, created_at, epoch, document) \
                           VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
                let args = [
                    act.hash.to_string().into(),
                    seq.into(),
                    act.kind.word().into(),
                    act.bytes.into(),
                    by.to_string().into(),
                    now.into(),
                    i64::from(act.epoch).into(),
                    act.document.into(),
                ];
                tx.exec(sql, &args).await.map_err(taken("artifact"))?;
                keep_blobs(&mut tx, act.epoch, act.blobs).await?;
                let (hash, kind, bytes) = (act.hash, act.kind, act.bytes);
                Artifact { hash, kind, bytes, created_by: by, created_at: now, revoked_at: None }
            }
        };
        let secrets = keep_secrets(&mut tx, act.epoch, by, now, act.secrets).await?;
        let before = point(&mut tx, "register", act.kind, &act.name, act.hash, by, now).await?;
        tx.commit().await?;
        Ok(Registered { about: kept, before, secrets })
    }

    /// Lets a name stand for a version; what it stood for before.
    pub async fn assign_artifact(&self, permit: Permit<AssignArtifact>) -> Result<Registered, StoreError> {
        let (by, now) = (permit.user(), self.clock.now());
        let AssignArtifact { kind, name, reference } = permit.into_act();
        let mut tx = self.engine.write().await?;
        let about = usable(referred(&mut tx, kind, &reference).await?)?;
        let before = point(&mut tx, "assign", kind, &name, about.hash, by, now).await?;
        tx.commit().await?;
        Ok(Registered { about, before, secrets: KeptSecrets::default() })
    }

    /// Takes a version out of use; one that was taken out before stays as it is.
    pub async fn revoke_artifact(&self, permit: Permit<RevokeArtifact>) -> Result<Artifact, StoreError> {
        let (by, now) = (permit.user(), self.clock.now());
        let RevokeArtifact { kind, reference } = permit.into_act();
        let mut tx = self.engine.write().await?;
        let mut about = referred(&mut tx, kind, &reference).await?;
        let hash = about.hash.to_string();
        let sql =
            "UPDATE artifacts SET revoked_at = $2, revoked_by = $3 WHERE hash = $1 AND revoked_at IS NULL";
        if tx.exec(sql, &[hash.as_str().into(), now.into(), by.to_string().into()]).await? > 0 {
            about.revoked_at = Some(now);
            let sql = "SELECT name FROM artifact_names WHERE kind = $1 AND hash = $2 ORDER BY name";
            for row in tx.rows(sql, &[kind.word().into(), hash.into()]).await? {
                let name = parsed(&row, 0)?;
                tell(&mut tx, "revoke", kind, &name, about.hash, by, now).await?;
            }
        }
        tx.commit().await?;
        Ok(about)
    }
}

/// A version that may be used.
fn usable(found: Artifact) -> Result<Artifact, StoreError> {
    match found.revoked_at {
        None => Ok(found),
        Some(_) => Err(StoreError::Unusable(format!(
            "{} {} was revoked, for good; register changed content, or assign the name to another version",
            found.kind, found.hash
        ))),
    }
}

async fn version(
    tx: &mut Tx,
    kind: ArtifactKind,
    hash: ContentHash,
) -> Result<Option<Artifact>, EngineError> {
    let sql = artifact_columns!("WHERE a.kind = $1 AND a.hash = $2");
    let row = tx.row(sql, &[kind.word().into(), hash.to_string().into()]).await?;
    row.as_ref().map(about).transpose()
}

async fn pointed(
    tx: &mut Tx,
    kind: ArtifactKind,
    name: &ArtifactName,
) -> Result<Option<ContentHash>, EngineError> {
    let sql = "SELECT hash FROM artifact_names WHERE kind = $1 AND name = $2";
    let row = tx.row(sql, &[kind.word().into(), name.as_str().into()]).await?;
    row.map(|row| parsed(&row, 0)).transpose()
}

async fn referred(tx: &mut Tx, kind: ArtifactKind, to: &Reference) -> Result<Artifact, StoreError> {
    let hash = match to {
        Reference::Pinned(hash) => Some(*hash),
        Reference::Name(name) => pointed(tx, kind, name).await?,
    };
    let Some(hash) = hash else { return Err(StoreError::Missing(kind.word())) };
    version(tx, kind, hash).await?.ok_or(StoreError::Missing(kind.word()))
}

/// Lets a name stand for a version. One that does already stays, and nothing is told.
async fn point(
    tx: &mut Tx,
    change: &'static str,
    kind: ArtifactKind,
    name: &ArtifactName,
    hash: ContentHash,
    by: UserId,
    now: Millis,
) -> Result<Option<ContentHash>, StoreError> {
    let before = pointed(tx, kind, name).await?;
    if before == Some(hash) {
        return Ok(before);
    }
    let sql = "INSERT INTO artifact_names (kind, name, hash, moved_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (kind, name) DO UPDATE SET hash = excluded.hash, moved_at = excluded.moved_at";
    let args = [kind.word().into(), name.as_str().into(), hash.to_string().into(), now.into()];
    tx.exec(sql, &args).await?;
    tell(tx, change, kind, name, hash, by, now).await?;
    Ok(before)
}

async fn tell(
    tx: &mut Tx,
    change: &'static str,
    kind: ArtifactKind,
    name: &ArtifactName,
    hash: ContentHash,
    by: UserId,
    now: Millis,
) -> Result<(), EngineError> {
    let seq = tx.next("artifact_history").await?;
    let args = [
        seq.into(),
        kind.word().into(),
        name.as_str().into(),
        hash.to_string().into(),
        change.into(),
        by.to_string().into(),
        now.into(),
    ];
    let sql = "INSERT INTO artifact_history (seq, kind, name, hash, change, changed_by, changed_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    tx.exec(sql, &args).await.map(drop)
}

/// Keeps content that is not there yet; equal content is kept once.
async fn keep_blobs(tx: &mut Tx, epoch: u32, blobs: Vec<NewBlob>) -> Result<(), EngineError> {
    for blob in blobs {
        let hash = blob.hash.to_string();
        let sql = "SELECT 1 FROM artifact_parts WHERE blob = $1 LIMIT 1";
        if tx.row(sql, &[hash.as_str().into()]).await?.is_some() {
            continue;
        }
        for (part, sealed) in blob.parts.into_iter().enumerate() {
            let part = i64::try_from(part).unwrap_or(i64::MAX);
            let sql = "INSERT INTO artifact_parts (blob, part, epoch, sealed) VALUES ($1, $2, $3, $4) \
                       ON CONFLICT (blob, part) DO NOTHING";
            let args = [hash.as_str().into(), part.into(), i64::from(epoch).into(), sealed.into()];
            tx.exec(sql, &args).await?;
        }
    }
    Ok(())
}

/// Lets go of content that could not be opened any more and was brought again; whether there was any.
async fn forget_damaged(tx: &mut Tx, brought: &[NewBlob]) -> Result<bool, EngineError> {
    let mut any = false;
    for row in tx.rows("SELECT DISTINCT blob FROM artifact_parts WHERE damaged IS NOT NULL", &[]).await? {
        let blob: ContentHash = parsed(&row, 0)?;
        if brought.iter().any(|new| new.hash == blob) {
            tx.exec("DELETE FROM artifact_parts WHERE blob = $1", &[blob.to_string().into()]).await?;
            any = true;
        }
    }
    Ok(any)
}

/// Keeps the secrets of an env in the vault, as the installation's. One of the same value stays as it is: its end comes nearer
/// by itself, and is put off only where somebody asks for that.
async fn keep_secrets(
    tx: &mut Tx,
    epoch: u32,
    by: UserId,
    now: Millis,
    secrets: Vec<NewEnvSecret>,
) -> Result<KeptSecrets, StoreError> {
    let mut kept = KeptSecrets::default();
    for new in secrets {
        let sql = "SELECT id, expires FROM secrets WHERE owner = 'daemon' AND name = $1";
        if let Some(row) = tx.row(sql, &[new.name.as_str().into()]).await? {
            let ends = row.opt_int(1)?;
            let is_over = ends.is_some_and(|ends| ends <= now);
            if is_over && !new.renew {
                return Err(StoreError::Unusable(format!(
                    "the secret `{}` has this value, and its time is over; bring another value, or ask for it to be renewed",
                    new.name
                )));
            }
            let is_nearer = new.expires.is_some_and(|new| ends.is_none_or(|ends| new < ends));
            let is_put_off = new.renew && new.expires != ends;
            if !is_nearer && !is_put_off {
                continue;
            }
            let old: SecretId = parsed(&row, 0)?;
            tx.exec("DELETE FROM secrets WHERE id = $1", &[old.to_string().into()]).await?;
            kept.replaced.push((old, new.name.clone()));
        } else {
            room_for_secret(tx, "daemon").await?;
            kept.added.push(new.name.clone());
        }
        let seq = tx.next("secrets").await?;
        let args = [
            new.secret.to_string().into(),
            seq.into(),
            new.name.as_str().into(),
            by.to_string().into(),
            now.into(),
            new.expires.into(),
            i64::from(epoch).into(),
            new.sealed.into(),
        ];
        let sql = "INSERT INTO secrets (id, seq, owner, name, hosts, created_by, created_at, expires, epoch, sealed) \
                   VALUES ($1, $2, 'daemon', $3, '', $4, $5, $6, $7, $8)";
        tx.exec(sql, &args).await.map_err(taken("name"))?;
    }
    Ok(kept)
}

/// Carries what is sealed here over to another epoch, at most so much; how many, and how many are left. What cannot be opened
/// is left as it is and noted, so that it keeps nothing else from being carried over; the next rotation tries it again.
pub(crate) async fn reseal_artifacts(
    tx: &mut Tx,
    epoch: i64,
    most: i64,
    seal: &dyn crate::Reseal,
) -> Result<(u64, u64), StoreError> {
    let unusable = |what: &str, why: String| {
        StoreError::Unusable(format!("the content of {what} cannot be carried over: {why}"))
    };
    let mut done = 0;
    let sql = "SELECT hash, document FROM artifacts \
               WHERE epoch < $1 AND (damaged IS NULL OR damaged < $1) ORDER BY seq LIMIT $2";
    for row in tx.rows(sql, &[epoch.into(), most.into()]).await? {
        let hash: ContentHash = parsed(&row, 0)?;
        let name = hash.to_string();
        match seal.document(hash, row.blob(1)?).map_err(|why| unusable(&name, why))? {
            Some(sealed) => {
                let sql = "UPDATE artifacts SET document = $2, epoch = $3, damaged = NULL WHERE hash = $1";
                done += tx.exec(sql, &[name.into(), sealed.into(), epoch.into()]).await?;
            }
            None => {
                let sql = "UPDATE artifacts SET damaged = $2 WHERE hash = $1";
                tx.exec(sql, &[name.into(), epoch.into()]).await?;
            }
        }
    }
    let sql = "SELECT blob, part, sealed FROM artifact_parts \
               WHERE epoch < $1 AND (damaged IS NULL OR damaged < $1) ORDER BY blob, part LIMIT $2";
    let room = most.saturating_sub(i64::try_from(done).unwrap_or(most));
    for row in tx.rows(sql, &[epoch.into(), room.into()]).await? {
        let (blob, part): (ContentHash, i64) = (parsed(&row, 0)?, row.int(1)?);
        let name = blob.to_string();
        match seal.part(blob, part, row.blob(2)?).map_err(|why| unusable(&name, why))? {
            Some(sealed) => {
                let sql = "UPDATE artifact_parts SET sealed = $3, epoch = $4, damaged = NULL WHERE blob = $1 AND part = $2";
                done += tx.exec(sql, &[name.into(), part.into(), sealed.into(), epoch.into()]).await?;
            }
            None => {
                let sql = "UPDATE artifact_parts SET damaged = $3 WHERE blob = $1 AND part = $2";
                tx.exec(sql, &[name.into(), part.into(), epoch.into()]).await?;
            }
        }
    }
    let sql = "SELECT (SELECT COUNT(*) FROM artifacts WHERE epoch < $1 AND (damaged IS NULL OR damaged < $1)) \
               + (SELECT COUNT(*) FROM artifact_parts WHERE epoch < $1 AND (damaged IS NULL OR damaged < $1))";
    let left = tx.row(sql, &[epoch.into()]).await?;
    Ok((done, u64::try_from(left.map_or(Ok(0), |row| row.int(0))?).unwrap_or(0)))
}

/// What of the registry could not be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damaged {
    /// How many documents, and contents of files.
    pub count: u64,
    /// The first of them: `env sha256:…`, `content sha256:…`.
    pub first: Vec<String>,
}

/// What could not be carried over to this epoch.
pub(crate) async fn damaged(tx: &mut Tx, epoch: i64) -> Result<Damaged, StoreError> {
    let sql = "SELECT what, named, COUNT(*) OVER () FROM (\
                 SELECT kind AS what, hash AS named FROM artifacts WHERE damaged = $1 \
                 UNION SELECT 'content', blob FROM artifact_parts WHERE damaged = $1\
               ) AS damaged ORDER BY what, named LIMIT $2";
    let rows = tx.rows(sql, &[epoch.into(), MOST_DAMAGED.into()]).await?;
    let count = rows.first().map_or(Ok(0), |row| row.int(2))?;
    let named = |row: &Row| Ok(format!("{} {}", row.text(0)?, row.text(1)?));
    Ok(Damaged {
        count: u64::try_from(count).unwrap_or(0),
        first: rows.iter().map(named).collect::<Result<_, EngineError>>()?,
    })
}

fn about(row: &Row) -> Result<Artifact, EngineError> {
    Ok(Artifact {
        hash: parsed(row, 0)?,
        kind: row.text(1)?.parse().map_err(|_| odd(1))?,
        bytes: row.int(2)?,
        created_by: parsed(row, 3)?,
        created_at: row.int(4)?,
        revoked_at: row.opt_int(5)?,
    })
}
