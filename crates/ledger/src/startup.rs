//! Turns a directory into a running writer, and records what recovery found.
//!
//! Order: lock, read, fold the reserve, mark the break, close interrupted entries. Invariant: the marks are in
//! the chain (or, on a full disk, in the reserve) before anybody can append. Not here: how the state is found
//! ([`crate::recover`]).

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use model::Clock;

use crate::draft::{Decision, Draft, own_words};
use crate::entry::Entry;
use crate::error::{AppendError, OpenError};
use crate::keys::Keys;
use crate::ledger::Options;
use crate::lock::{Lock, NotLocked};
use crate::open::OpenEntries;
use crate::queue::{Append, Fallback};
use crate::recover::{self, Torn};
use crate::reserve::{self, Reserve};
use crate::writer::Writer;
use crate::{read, segment};

/// What opening a ledger found and mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of an unfinished write that were cut off.
    pub torn: Option<Torn>,
    /// Entries whose effect was under way when the last process ended; each is closed as `failed` now.
    pub interrupted: Vec<Entry>,
    /// Entries that waited in the reserve.
    pub late: usize,
}

/// Takes the ledger in `dir` and makes it ready to be written.
pub(crate) fn start(
    dir: &Path,
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    options: Options,
) -> Result<(Lock, Writer, Recovery), OpenError> {
    let io = |source| OpenError::Io { path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir.join(segment::FOLDER)).map_err(io)?;
    let lock = Lock::take(dir, options.lock_wait).map_err(|error| match error {
        NotLocked::Held(pid) => OpenError::Locked { pid },
        NotLocked::Io(source) => io(source),
    })?;
    let mut resume = recover::resume(dir, &keys)?;
    let torn = resume.torn.take();
    let reserve_path = dir.join(reserve::FILE);
    let mut reserve = Reserve::open(dir, options.reserve_bytes, &keys.chain)
        .map_err(|source| OpenError::Io { path: reserve_path, source })?;
    forget_chained(dir, &mut reserve, resume.seq)?;
    let late = reserve.waiting.len();
    let interrupted = interrupted(dir, &resume.open)?;
    let mut writer = Writer::new(dir.to_owned(), keys, clock, options, reserve, resume).map_err(io)?;
    writer.fold_reserve();
    if let Some(torn) = &torn {
        note(&mut writer, &mark_of(torn))?;
    }
    // A late entry may have closed what looked interrupted.
    let still_open: BTreeSet<u64> = writer.open.list().into_iter().collect();
    let interrupted: Vec<Entry> =
        interrupted.into_iter().filter(|entry| still_open.contains(&entry.seq)).collect();
    for entry in &interrupted {
        note(&mut writer, &closing_of(entry))?;
    }
    Ok((lock, writer, Recovery { torn, interrupted, late }))
}

/// Drops records of the reserve that are in the chain already: a crash came before they were cleared.
///
/// Records that follow the same entry were chained together, directly after it, so that the late entries
/// there say how many of them are done.
fn forget_chained(dir: &Path, reserve: &mut Reserve, seq: u64) -> Result<(), OpenError> {
    let groups: BTreeSet<u64> =
        reserve.waiting.iter().map(|entry| entry.after).filter(|after| *after < seq).collect();
    for after in groups {
        let entries = read::read(dir, after.saturating_add(1)).map_err(unreadable)?;
        let mut chained = entries.filter_map(Result::ok).take_while(|stored| stored.entry.is_late()).count();
        reserve.waiting.retain(|entry| {
            let done = entry.after == after && chained > 0;
            chained = chained.saturating_sub(usize::from(done));
            !done
        });
    }
    Ok(())
}

fn unreadable(error: crate::error::ReadError) -> OpenError {
    match error {
        crate::error::ReadError::Io { path, source } => OpenError::Io { path, source },
        crate::error::ReadError::NotAnEntry { segment, .. } => OpenError::Broken { seq: 0, segment },
    }
}

/// The entries that are open, read back from the chain.
fn interrupted(dir: &Path, open: &OpenEntries) -> Result<Vec<Entry>, OpenError> {
    let Some(first) = open.first() else { return Ok(Vec::new()) };
    let wanted: BTreeSet<u64> = open.list().into_iter().collect();
    let entries = read::read(dir, first).map_err(unreadable)?;
    let found = entries.filter_map(Result::ok).map(|stored| stored.entry);
    Ok(found.filter(|entry| wanted.contains(&entry.seq)).take(wanted.len()).collect())
}

fn mark_of(torn: &Torn) -> Draft {
    let kept =
        torn.kept.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    Draft::new("ledger", "ledger.recovered", Decision::Noted)
        .on(segment::name(torn.segment))
        .because("an unfinished write was cut off")
        .with("bytes", torn.bytes.to_string())
        .with("kept", kept.unwrap_or_else(|| "no".into()))
}

fn closing_of(entry: &Entry) -> Draft {
    Draft::new(entry.who.clone(), entry.action.clone(), Decision::Failed)
        .on(entry.resource.clone())
        .because("interrupted: outcome unknown")
        .closes(entry.seq)
}

/// Writes one entry before the writer's thread runs.
fn note(writer: &mut Writer, draft: &Draft) -> Result<(), OpenError> {
    let (answer, answered) = sync_channel(1);
    let done = Box::new(move |result| drop(answer.send(result)));
    writer.commit(&mut vec![Append { body: draft.encode(&own_words()), fallback: Fallback::Reserve, done }]);
    let result = answered.recv().unwrap_or(Err(AppendError::Closed));
    result.map(drop).map_err(OpenError::Unrecorded)
}
