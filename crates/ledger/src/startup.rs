//! Turns a directory into a running writer, and records what recovery found.
//!
//! Order: lock, read, fold the reserve, mark the break, close interrupted entries. Invariant: the marks are in
//! the chain (or, on a full disk, in the reserve) before anybody can append. Not here: how the state is found
//! ([`crate::recover`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use model::Clock;

use crate::draft::{Decision, Draft};
use crate::entry::Entry;
use crate::error::OpenError;
use crate::keys::Keys;
use crate::ledger::Options;
use crate::lock::{Lock, NotLocked};
use crate::queue::{Fallback, Recorded, Ticket};
use crate::recover::{self, Torn};
use crate::reserve::{self, Reserve, Waiting};
use crate::writer::Writer;
use crate::{disk, read, segment};

/// What opening a ledger found and mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of an unfinished write that were cut off.
    pub torn: Option<Torn>,
    /// Entries whose effect was under way when the last process ended; each is closed as `failed` now. One that
    /// still waits in the reserve has the number 0.
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
    disk::make_dirs(dir, segment::FOLDER).map_err(io)?;
    let lock = Lock::take(dir, options.lock_wait).map_err(|error| match error {
        NotLocked::Held(pid) => OpenError::Locked { pid },
        NotLocked::Io(source) => io(source),
    })?;
    let mut resume = recover::resume(dir, &keys)?;
    let torn = resume.torn.take();
    let reserve_path = dir.join(reserve::FILE);
    let mut reserve = Reserve::open(dir, options.reserve_bytes, &keys.chain)
        .map_err(|source| OpenError::Io { path: reserve_path, source })?;
    let tickets = forget_chained(dir, &mut reserve, resume.seq)?;
    let late = reserve.waiting.len();
    let mut writer = Writer::new(dir.to_owned(), keys, clock, options, reserve, resume).map_err(io)?;
    writer.tickets = tickets;
    writer.fold_reserve();
    if let Some(torn) = &torn {
        writer.note(&mark_of(torn), Fallback::Reserve).map_err(OpenError::Unrecorded)?;
    }
    let mut interrupted = Vec::new();
    for (opened, entry) in still_open(dir, &writer)? {
        writer.note(&closing_of(&entry, opened), Fallback::Reserve).map_err(OpenError::Unrecorded)?;
        interrupted.push(entry);
    }
    Ok((lock, writer, Recovery { torn, interrupted, late }))
}

/// Drops records of the reserve that are in the chain already: a crash came before they were cleared. Returns
/// their numbers.
///
/// Records that follow the same entry were chained together, directly after it, so that the late entries
/// there say how many of them are done.
pub(crate) fn forget_chained(
    dir: &Path,
    reserve: &mut Reserve,
    seq: u64,
) -> Result<BTreeMap<Ticket, u64>, OpenError> {
    let mut tickets = BTreeMap::new();
    let groups: BTreeSet<u64> =
        reserve.waiting.iter().map(|entry| entry.after).filter(|after| *after < seq).collect();
    for after in groups {
        let entries = read::read(dir, after.saturating_add(1)).map_err(unreadable)?;
        let late = entries.filter_map(Result::ok).take_while(|stored| stored.entry.is_late());
        let mut chained = late.map(|stored| stored.seq);
        reserve.waiting.retain(|entry| {
            let number = if entry.after == after { chained.next() } else { None };
            tickets.extend(number.map(|seq| (entry.ticket, seq)));
            number.is_none()
        });
    }
    Ok(tickets)
}

fn unreadable(error: crate::error::ReadError) -> OpenError {
    match error {
        crate::error::ReadError::Io { path, source } => OpenError::Io { path, source },
        crate::error::ReadError::NotAnEntry { segment, .. } => OpenError::Broken { seq: 0, segment },
    }
}

/// The entries that nobody will close any more: open in the chain or in a reserve that cannot be chained now,
/// and not closed by what waits there.
fn still_open(dir: &Path, writer: &Writer) -> Result<Vec<(Recorded, Entry)>, OpenError> {
    let waiting: Vec<(&Waiting, Entry)> =
        writer.reserve.waiting.iter().filter_map(|it| Some((it, it.entry(&writer.keys.chain)?))).collect();
    let closed: BTreeSet<u64> = waiting.iter().filter_map(|(_, entry)| entry.closes).collect();
    let numbers: Vec<u64> = writer.open.list().into_iter().filter(|seq| !closed.contains(seq)).collect();
    let mut found: Vec<(Recorded, Entry)> = Vec::new();
    if let Some(first) = numbers.first() {
        let entries = read::read(dir, *first).map_err(unreadable)?;
        let entries = entries.filter_map(Result::ok).map(|stored| stored.entry);
        let open = entries.filter(|entry| numbers.binary_search(&entry.seq).is_ok()).take(numbers.len());
        found.extend(open.map(|entry| (Recorded::Entry(entry.seq), entry)));
    }
    let closed: BTreeSet<Ticket> = waiting.iter().filter_map(|(it, _)| it.closes).collect();
    let open = waiting.into_iter().filter(|(it, entry)| entry.opens && !closed.contains(&it.ticket));
    found.extend(open.map(|(it, entry)| (Recorded::Reserved(it.ticket), entry)));
    Ok(found)
}

pub(crate) fn mark_of(torn: &Torn) -> Draft {
    let kept =
        torn.kept.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    Draft::new("ledger", "ledger.recovered", Decision::Noted)
        .on(segment::name(torn.segment))
        .because("an unfinished write was cut off")
        .with("bytes", torn.bytes.to_string())
        .with("kept", kept.unwrap_or_else(|| "no".into()))
}

fn closing_of(entry: &Entry, opened: Recorded) -> Draft {
    Draft::new(entry.who.clone(), entry.action.clone(), Decision::Failed)
        .on(entry.resource.clone())
        .because("interrupted: outcome unknown")
        .closes_recorded(opened)
}
