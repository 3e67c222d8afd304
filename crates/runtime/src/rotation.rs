//! New keys for everything that is sealed: a new master, a new epoch, a new data key for every value.
//!
//! Order: the new master is on the disk; the ring is sealed under it and has a new epoch, in one step; the values are
//! carried over, some at a time; the earlier epoch goes. Each call does one step and says what is left, and each step
//! begins where the disk says the last one ended: whoever is interrupted, anywhere, calls again.
//!
//! Invariants: at every moment the ring opens under exactly one master, and every value under the ring; what is sealed
//! for the earlier epoch is committed before the new one begins; the epoch goes only when nothing needs it; one step is
//! done at a time, from the look at the ring to the end of the earlier epoch. What of the registry cannot be opened is told and
//! left as it is; a secret, a seed or a prompt that cannot be opened stops the rotation where it is.
//!
//! Not here: where the ring is kept (`keeper`), rows (`store`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use access::{Permit, Principal, RotateKeys, TotpSeed};
use model::{ContentHash, SessionId, TaskId, UserId};
use store::{Carried, Damaged, Reseal, SealedSecret, Store, StoreError};
use vault::source::{SourceError, create_file, read_file, replace_file, replaceable};
use vault::{Change, KeyRing, Master, MasterKey, Secret};

use crate::keeper::Keeper;
use crate::{ActError, Runtime, secret};

/// Values that are carried over in one step.
const STEP: i64 = 200;

/// What is said where the daemon cannot put a new master key in the place of the present one.
const NO_PLACE: &str = "the master key does not come from a file that the daemon could replace; make one with \
    `openssl rand -base64 32` in a file of mode 0600, name it with --new-key-file, and give it to the daemon \
    from its next start on";

/// What is said to the second of two that rotate at once.
const UNDER_WAY: &str = "a rotation is under way; run it again when that one is done";

/// What is said to whoever goes on with another new master key than it was begun with.
const OTHER_KEY: &str = "a rotation to another new master key is not finished, and the one that was named is not used; \
    finish it without --new-key-file, then rotate again";

/// What is said where the passphrase that the daemon was given does not open the ring any more.
const OTHER_PASSPHRASE: &str = "the passphrase that the daemon finds is not the one that opens its keys: they were rotated to \
    another since; give the daemon that one (`key.passphrase_file`, PALISADE_MASTER_PASSPHRASE or the credential) and start \
    it again, or name a new one with --new-key-file; nothing was changed";

/// What is said to whoever names the present passphrase as the new one.
const SAME_PASSPHRASE: &str = "the new passphrase is the present one; take another, of six random words or more, or leave \
    --new-key-file out to give the present one a new salt";

/// What is said where the ring that is kept is not the one in memory.
const OTHER_RING: &str = "the key ring that is kept is not the one that this daemon has; nothing was changed: start the daemon \
    again, then rotate";

/// Where a new master key comes from.
#[derive(Debug)]
pub enum NextMaster {
    /// It is made, and takes the place of the present one in this file.
    InPlace(PathBuf),
    /// It was made by somebody, who gives it to the daemon at its next start.
    Given(MasterKey),
    /// It is made from this passphrase, which somebody gives to the daemon at its next start.
    GivenPassphrase(Secret<String>),
    /// It is made, with another salt, from the passphrase that the daemon has already.
    SamePassphrase(Secret<String>),
}

/// How far a rotation came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The epoch that values are carried over to.
    pub epoch: u32,
    /// Whether this call began it.
    pub begun: bool,
    /// Values carried over by this call.
    pub done: u64,
    /// Values that wait.
    pub left: u64,
    /// What of the registry could not be opened so far, and is left as it is.
    pub damaged: Damaged,
    /// Whether the earlier keys are gone.
    pub finished: bool,
    /// Whether no earlier master key derives anything any more; false where the first one is the root of the others.
    pub own_root: bool,
    /// Whether this call began it with the passphrase of before, and another salt.
    pub same_passphrase: bool,
}

impl Runtime {
    /// Does one step of a rotation: goes on with the one that was begun, or begins one if that is asked for.
    pub async fn rotate_keys(
        self: &Arc<Self>,
        who: &Principal,
        next: Option<NextMaster>,
        may_begin: bool,
    ) -> Result<Rotation, ActError> {
        let this = Arc::clone(self);
        let effect = async move |store: Arc<Store>, permit| this.step(&store, permit, next, may_begin).await;
        let note = |step: &Rotation| {
            let Damaged { count, first } = &step.damaged;
            (*count > 0).then(|| ("damaged", format!("{count}: {}", first.join(", "))))
        };
        self.perform_noting(who, RotateKeys {}, effect, note).await
    }

    async fn step(
        self: Arc<Self>,
        store: &Store,
        permit: Permit<RotateKeys>,
        next: Option<NextMaster>,
        may_begin: bool,
    ) -> Result<Rotation, StoreError> {
        let _turn = self.rotating.try_lock().map_err(|_| StoreError::Unusable(UNDER_WAY.into()))?;
        let own_root = self.ring.has_own_root();
        let begun = !self.ring.is_rotating();
        let same_passphrase = begun && matches!(next, Some(NextMaster::SamePassphrase(_)));
        let permit = match (begun, next) {
            (true, _) if !may_begin => {
                let epoch = self.ring.epoch();
                return Ok(Rotation {
                    epoch,
                    begun: false,
                    done: 0,
                    left: 0,
                    damaged: Damaged::default(),
                    finished: true,
                    own_root,
                    same_passphrase: false,
                });
            }
            (true, None) => return Err(StoreError::Unusable(NO_PLACE.into())),
            (true, Some(next)) => self.begin(store, permit, next).await?,
            (false, next) => self.go_on(permit, next).await?,
        };
        let epoch = self.ring.epoch();
        let (carried, permit) = store.reseal(permit, epoch, STEP, &Carrier(&self.ring)).await?;
        let finished = carried.left == 0;
        if finished {
            let _still = self.still().await?;
            let change = self.ring.settle(epoch).map_err(unusable)?;
            drop(self.keep(store, permit, change).await?);
        }
        let Carried { done, left, damaged } = carried;
        Ok(Rotation { epoch, begun, done, left, damaged, finished, own_root, same_passphrase })
    }

    /// Makes the new master, and lets the ring be sealed under it.
    async fn begin(
        self: &Arc<Self>,
        store: &Store,
        permit: Permit<RotateKeys>,
        next: NextMaster,
    ) -> Result<Permit<RotateKeys>, StoreError> {
        let present = match &next {
            NextMaster::InPlace(present) => Some(present.clone()),
            NextMaster::Given(_) | NextMaster::GivenPassphrase(_) | NextMaster::SamePassphrase(_) => None,
        };
        let _still = self.still().await?;
        // Before a key that waits is looked at: it may be the one of a change whose end was not seen.
        if !self.keeper.is_kept(store, &self.ring).await? {
            return Err(StoreError::Unusable(OTHER_RING.into()));
        }
        let this = Arc::clone(self);
        let change = aside(move || this.ring.turn(&next.master(&this.ring)?).map_err(unusable)).await?;
        let permit = self.keep(store, permit, change).await?;
        // A start, or the next step, finds the key waiting if we do not come to this.
        if let Some(present) = present {
            let this = Arc::clone(self);
            aside(move || put_in_place(&this.ring, &present)).await?;
        }
        Ok(permit)
    }

    /// What was begun goes on: with its key in its place, and with no other.
    async fn go_on(
        self: &Arc<Self>,
        permit: Permit<RotateKeys>,
        next: Option<NextMaster>,
    ) -> Result<Permit<RotateKeys>, StoreError> {
        let this = Arc::clone(self);
        let given = match next {
            // Begun and interrupted before the key was in its place.
            Some(NextMaster::InPlace(present)) => {
                aside(move || put_in_place(&this.ring, &present)).await?;
                return Ok(permit);
            }
            None | Some(NextMaster::SamePassphrase(_)) => return Ok(permit),
            Some(NextMaster::Given(key)) => Master::Key(key),
            Some(NextMaster::GivenPassphrase(text)) => Master::Passphrase(text),
        };
        let opens = move || match given.open(&this.ring.kept().unwrap_or_default()) {
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::Unusable(OTHER_KEY.into())),
        };
        aside(opens).await?;
        Ok(permit)
    }

    /// Nothing is being sealed and no copy is being made, as long as this is held.
    async fn still(&self) -> Result<impl Sized + '_, StoreError> {
        let busy = |_| StoreError::Unusable("a backup is being made; rotate again when it is done".into());
        let copying = self.copying.try_write().map_err(busy)?;
        Ok((copying, self.sealing.write().await))
    }

    /// Makes a change of the ring durable, and then uses it. What is not surely durable is not used: nothing is sealed
    /// under it, and the next step makes it again.
    async fn keep(
        self: &Arc<Self>,
        store: &Store,
        permit: Permit<RotateKeys>,
        change: Change,
    ) -> Result<Permit<RotateKeys>, StoreError> {
        match &self.keeper {
            Keeper::Store { aside } => {
                let before = self.ring.kept();
                let permit = store.keep_key_ring(permit, before.as_deref(), change.bytes()).await?;
                self.ring.adopt(change);
                forget_file(aside);
                Ok(permit)
            }
            Keeper::File(file) => {
                let (this, file) = (Arc::clone(self), file.clone());
                aside(move || file.keep(&this.ring, change).map_err(unusable)).await?;
                Ok(permit)
            }
        }
    }
}

/// Does what waits for a disk, or for Argon2id, away from the runtime's threads.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let interrupted = |_| Err(StoreError::Unusable("the rotation was interrupted; run it again".into()));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(interrupted)
}

/// The file in which the next master key waits, beside the present one.
#[must_use]
pub fn next_file(file: &Path) -> PathBuf {
    let mut name = OsString::from(file.as_os_str());
    name.push(".next");
    name.into()
}

/// Where a key goes that waited and was never used.
fn unused_file(waiting: &Path) -> PathBuf {
    let mut name = OsString::from(waiting.as_os_str());
    name.push(".unused");
    name.into()
}

/// Removes a ring of earlier: the earlier master would open it.
fn forget_file(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = %path.display(), "a key ring of earlier is still there; remove it");
        }
        Ok(()) | Err(_) => {}
    }
}

impl NextMaster {
    /// The key itself, durable where that is ours to do.
    fn master(self, ring: &KeyRing) -> Result<MasterKey, StoreError> {
        let opens = |master: &Master| ring.kept().is_some_and(|kept| master.open(&kept).is_ok());
        match self {
            Self::Given(master) => Ok(master),
            Self::GivenPassphrase(text) => {
                let master = Master::Passphrase(text);
                if opens(&master) {
                    return Err(StoreError::Unusable(SAME_PASSPHRASE.into()));
                }
                master.into_next().map_err(unusable)
            }
            Self::SamePassphrase(text) => {
                let master = Master::Passphrase(text);
                if !opens(&master) {
                    return Err(StoreError::Unusable(OTHER_PASSPHRASE.into()));
                }
                master.into_next().map_err(unusable)
            }
            Self::InPlace(present) => {
                // Before the ring needs it: a key that cannot come to its place is one that the next start does not find.
                replaceable(&present).map_err(unusable)?;
                // One that waits since the last rotation is the present one.
                put_in_place(ring, &present)?;
                let waiting = next_file(&present);
                match create_file(&waiting) {
                    // The ring was never sealed under it, and nobody knows who has seen it since.
                    Err(SourceError::Exists(_)) => {
                        std::fs::rename(&waiting, unused_file(&waiting)).map_err(unusable)?;
                        create_file(&waiting).map_err(unusable)
                    }
                    made => made.map_err(unusable),
                }
            }
        }
    }
}

/// Lets the key that waits take the place of the present one, if the ring is sealed under it.
fn put_in_place(ring: &KeyRing, present: &Path) -> Result<(), StoreError> {
    let waiting = next_file(present);
    match read_file(&waiting).map(|master| KeyRing::new(master).fingerprint()) {
        Ok(master) if master == ring.master() => replace_file(present, &waiting).map_err(unusable),
        Ok(_) | Err(SourceError::Missing(_)) => Ok(()),
        Err(error) => Err(unusable(error)),
    }
}

fn unusable(error: impl std::error::Error) -> StoreError {
    let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
    StoreError::Unusable(format!("{error}{cause}"))
}

/// Seals what was sealed under an earlier epoch for the current one.
struct Carrier<'a>(&'a KeyRing);

impl Reseal for Carrier<'_> {
    fn secret(&self, old: &SealedSecret) -> Result<Vec<u8>, String> {
        secret::carry_over(self.0, old)
    }

    fn seed(&self, user: UserId, old: &[u8]) -> Result<Option<Vec<u8>>, String> {
        TotpSeed::carry_over(self.0, user, old).map_err(|error| error.to_string())
    }

    fn prompt(&self, task: TaskId, session: SessionId, old: &[u8]) -> Result<Vec<u8>, String> {
        crate::session::carry_over(self.0, task, session, old)
    }

    fn document(&self, hash: ContentHash, old: &[u8]) -> Result<Option<Vec<u8>>, String> {
        crate::registry::carry_document(self.0, hash, old)
    }

    fn part(&self, blob: ContentHash, part: i64, old: &[u8]) -> Result<Option<Vec<u8>>, String> {
        crate::registry::carry_part(self.0, blob, part, old)
    }
}
