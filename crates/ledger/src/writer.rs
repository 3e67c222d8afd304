//! Turns queued entries into durable ones: one buffer, one write, one sync for all that wait.
//!
//! Flow: stage (lines with sequence, predecessor and code) -> write and sync -> take over the new state ->
//! answer. Invariants: nobody is answered before the sync; after a failed write the file ends where it ended
//! before, the chain state is untouched and the next batch may work again. Not here: who queues
//! ([`crate::queue`]), checkpoints ([`crate::sealing`]), how a crash is mended ([`crate::recover`]), when segments go ([`crate::retention`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use model::{Clock, Millis};

use crate::disk::{self, Disk};
use crate::draft::{self, Body, Decision, Draft, own_words};
use crate::entry::{self, Place};
use crate::error::AppendError;
use crate::keys::{Code, Keys};
use crate::ledger::Options;
use crate::merkle::{Tree, leaf};
use crate::open::OpenEntries;
use crate::queue::{Append, Fallback, Recorded, Ticket};
use crate::recover::Resume;
use crate::reserve::{Reserve, Waiting};
use crate::sealing::RecordFile;
use crate::state::Shared;
use crate::{checkpoint, read, segment};

/// The one who writes.
pub(crate) struct Writer {
    pub(crate) dir: PathBuf,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) disk: Disk,
    pub(crate) reserve: Reserve,
    pub(crate) shared: Arc<Mutex<Shared>>,
    pub(crate) current: Segment,
    pub(crate) records: RecordFile,
    pub(crate) seq: u64,
    pub(crate) head: Code,
    pub(crate) open: OpenEntries,
    pub(crate) uncovered_since: Option<Millis>,
    /// Entries could not be written the last time it was tried.
    pub(crate) failing: bool,
    /// The numbers of entries that waited in the reserve and are open.
    pub(crate) tickets: BTreeMap<Ticket, u64>,
    /// Shared with the ledger, and with everyone who needs the segments as they are.
    pub(crate) held: Arc<()>,
    pub(crate) buffer: Vec<u8>,
}

/// The segment being written.
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) first: u64,
    /// When its first entry was written.
    pub(crate) since: Option<Millis>,
    pub(crate) tree: Tree,
    pub(crate) cut_owed: bool,
}

/// A batch as it will be, if the write succeeds.
struct Staged {
    lines: Vec<(usize, usize)>,
    seq: u64,
    head: Code,
    opened: Vec<(u64, bool, Option<u64>)>,
    late: usize,
    /// Numbers of what waited in the reserve.
    tickets: BTreeMap<Ticket, u64>,
    waiting: Vec<(u64, Append)>,
}

/// The files that a writer writes to; their names are durable.
pub(crate) struct Files {
    pub(crate) segment: File,
    pub(crate) records: File,
    /// When the first entry of the segment was written.
    pub(crate) since: Option<Millis>,
}

impl Writer {
    /// Goes on where a directory left off.
    pub(crate) fn new(
        dir: PathBuf,
        keys: Arc<Keys>,
        clock: Arc<dyn Clock>,
        options: Options,
        reserve: Reserve,
        resume: Resume,
    ) -> io::Result<Self> {
        let segment = disk::open_file(&segment::path(&dir, resume.segment))?;
        let records = disk::open_file(&dir.join(checkpoint::FILE))?;
        disk::sync_dir(&dir.join(segment::FOLDER))?;
        disk::sync_dir(&dir)?;
        let files = Files { segment, records, since: read::first_at(&dir, resume.segment) };
        Self::with(files, dir, keys, clock, options, reserve, resume)
    }

    /// The same with files that are open.
    pub(crate) fn with(
        files: Files,
        dir: PathBuf,
        keys: Arc<Keys>,
        clock: Arc<dyn Clock>,
        options: Options,
        reserve: Reserve,
        resume: Resume,
    ) -> io::Result<Self> {
        let disk = Disk::new(options.faults.clone());
        if resume.claimed < resume.records.n {
            // Whoever wrote the last record may have been killed before it was durable. An entry that names it must not
            // outlive it: after a power loss that would look like a record taken away.
            disk.sync(&files.records)?;
        }
        let writer = Self {
            disk,
            current: Segment {
                number: resume.segment,
                file: files.segment,
                bytes: resume.bytes,
                first: resume.first,
                since: files.since,
                tree: resume.tree,
                cut_owed: false,
            },
            records: RecordFile {
                file: files.records,
                bytes: resume.records.bytes,
                n: resume.records.n,
                hash: resume.records.hash,
                from: resume.records.from,
                cut_owed: false,
                failing: false,
            },
            seq: resume.seq,
            head: resume.head,
            open: resume.open,
            uncovered_since: resume.uncovered_since,
            shared: Arc::default(),
            failing: false,
            tickets: BTreeMap::new(),
            held: Arc::default(),
            buffer: Vec::new(),
            dir,
            keys,
            clock,
            options,
            reserve,
        };
        writer.publish(None);
        Ok(writer)
    }

    /// Makes all of `appends` durable, or none, and answers them; what waits in the reserve goes first.
    pub(crate) fn commit(&mut self, appends: &mut Vec<Append>) {
        if appends.is_empty() && self.reserve.waiting.is_empty() {
            return;
        }
        self.rotate_if_full();
        let staged = self.stage(appends);
        if staged.lines.is_empty() {
            return;
        }
        match self.write() {
            Ok(()) => self.take_over(staged),
            Err(error) => self.fall_back(staged, error),
        }
    }

    /// Writes an entry of the ledger's own.
    pub(crate) fn note(&mut self, draft: &Draft, fallback: Fallback) -> Result<Recorded, AppendError> {
        let (answer, answered) = sync_channel(1);
        let done = Box::new(move |result| drop(answer.send(result)));
        let body = draft.encode(&own_words());
        self.commit(&mut vec![Append { body, fallback, done }]);
        answered.recv().unwrap_or(Err(AppendError::Closed))
    }

    /// Chains what waits in the reserve, and wipes what is chained already.
    pub(crate) fn fold_reserve(&mut self) {
        if self.reserve.waiting.is_empty() {
            // If this fails, the records are recognised again at the next start.
            let _ = self.reserve.clear(&self.disk);
        }
        self.commit(&mut Vec::new());
    }

    /// Lays the lines out in the buffer.
    fn stage(&mut self, appends: &mut Vec<Append>) -> Staged {
        self.buffer.clear();
        let now = self.clock.now();
        let mut staged = Staged {
            lines: Vec::with_capacity(appends.len()),
            seq: self.seq,
            head: self.head,
            opened: Vec::new(),
            late: self.reserve.waiting.len(),
            tickets: self.tickets.clone(),
            waiting: Vec::with_capacity(appends.len()),
        };
        for entry in &self.reserve.waiting {
            let closes = entry.closes.and_then(|ticket| staged.tickets.get(&ticket).copied());
            let body = match closes {
                Some(seq) => entry::mark_late(&draft::mark_closes(&entry.body, seq)),
                None => entry::mark_late(&entry.body),
            };
            let span = stage_line(&mut self.buffer, &mut staged, &body, entry.at, self.records.n, &self.keys);
            staged.tickets.insert(entry.ticket, staged.seq);
            let line = self.buffer.get(span.0..span.1).unwrap_or_default();
            if let Ok((entry, _)) = entry::parse(line) {
                staged.opened.push((entry.seq, entry.opens, entry.closes));
            }
        }
        let mut opening = 0;
        for append in appends.drain(..) {
            if append.body.opens && append.fallback == Fallback::None && !self.open.has_room(opening) {
                (append.done)(Err(AppendError::TooManyOpen));
                continue;
            }
            let opens = append.body.opens;
            opening = if opens { opening.saturating_add(1) } else { opening };
            let (closes, body) = numbered(&append.body, &staged.tickets);
            stage_line(&mut self.buffer, &mut staged, &body, now, self.records.n, &self.keys);
            if opens || closes.is_some() {
                staged.opened.push((staged.seq, opens, closes));
            }
            staged.waiting.push((staged.seq, append));
        }
        staged
    }

    /// Puts the buffer on the disk; afterwards the segment holds all of it or nothing of it.
    fn write(&mut self) -> io::Result<()> {
        let current = &mut self.current;
        if current.cut_owed {
            current.file.set_len(current.bytes)?;
            current.cut_owed = false;
        }
        let written = self.disk.append(&current.file, &self.buffer, current.bytes);
        if written.is_err() {
            // The sync makes the cut itself durable: an unanswered entry must not come back after a crash.
            let cut = current.file.set_len(current.bytes).and_then(|()| current.file.sync_all());
            current.cut_owed = cut.is_err();
        }
        written
    }

    fn take_over(&mut self, staged: Staged) {
        let length = u64::try_from(self.buffer.len()).unwrap_or(0);
        self.current.bytes = self.current.bytes.saturating_add(length);
        self.seq = staged.seq;
        self.head = staged.head;
        self.failing = false;
        let now = self.clock.now();
        self.uncovered_since.get_or_insert(now);
        self.current.since.get_or_insert(now);
        if staged.late > 0 {
            // If this fails, the records stay and are recognised as chained at the next start.
            let _ = self.reserve.clear(&self.disk);
        }
        for (seq, opens, closes) in staged.opened {
            self.open.note(seq, opens, closes);
        }
        self.tickets = staged.tickets;
        self.tickets.retain(|_, seq| self.open.contains(*seq));
        self.publish(None);
        for (seq, append) in staged.waiting {
            (append.done)(Ok(Recorded::Entry(seq)));
        }
        // Hashing for the next checkpoint keeps nobody waiting.
        for (start, end) in staged.lines {
            let line = self.buffer.get(start..end).unwrap_or_default();
            self.current.tree.push(leaf(line));
        }
    }

    /// Tells everyone that the write failed; entries of narrowing acts go to the reserve instead.
    fn fall_back(&mut self, staged: Staged, error: io::Error) {
        let error = Arc::new(error);
        self.failing = true;
        let at = self.clock.now();
        for (_, append) in staged.waiting {
            let answer = match append.fallback {
                Fallback::None => Err(AppendError::Storage(Arc::clone(&error))),
                Fallback::Reserve => {
                    let entry = self.waiting(at, &append.body);
                    let ticket = entry.ticket;
                    match self.reserve.keep(&self.disk, &self.keys.chain, entry) {
                        Ok(true) => Ok(Recorded::Reserved(ticket)),
                        Ok(false) => Err(AppendError::ReserveFull(Arc::clone(&error))),
                        Err(second) => Err(AppendError::Storage(Arc::new(second))),
                    }
                }
            };
            (append.done)(answer);
        }
        self.publish(Some(&error));
    }

    /// A record for the reserve. What it closes is named by its number if it has one.
    fn waiting(&mut self, at: Millis, body: &Body) -> Waiting {
        let (closes, bytes) = numbered(body, &self.tickets);
        let closes = match (closes, body.closes) {
            (None, Some(Recorded::Reserved(ticket))) => Some(ticket),
            _ => None,
        };
        let ticket = self.reserve.next_ticket();
        Waiting { after: self.seq, at, ticket, closes, body: bytes.into_owned() }
    }

    /// Starts the next segment when this one is full or long enough; if that does not work now, this one goes on.
    fn rotate_if_full(&mut self) {
        let full = self.current.bytes >= self.options.segment_bytes || self.is_long(self.clock.now());
        if !full || self.checkpoint().is_err() {
            return;
        }
        let number = self.current.number.saturating_add(1);
        let opened = disk::open_file(&segment::path(&self.dir, number)).and_then(|file| {
            disk::sync_dir(&self.dir.join(segment::FOLDER))?;
            Ok(file)
        });
        let Ok(file) = opened else { return };
        let first = self.seq.saturating_add(1);
        let tree = Tree::default();
        self.current = Segment { number, file, bytes: 0, first, since: None, tree, cut_owed: false };
    }

    /// Writes what is due at this time: waiting entries, a checkpoint.
    pub(crate) fn tick(&mut self) {
        self.commit(&mut self.probe());
        self.checkpoint_if_due();
    }

    /// After a failure: a note that writing works again, which is written when it does.
    fn probe(&self) -> Vec<Append> {
        if !self.failing || !self.reserve.waiting.is_empty() {
            return Vec::new(); // late entries tell the same story
        }
        let note = Draft::new("ledger", "ledger.resumed", Decision::Noted)
            .on(segment::name(self.current.number))
            .because("entries could not be written for a while");
        let body = note.encode(&own_words());
        vec![Append { body, fallback: Fallback::None, done: Box::new(|_| {}) }]
    }

    /// Whether the files end where the writer left them.
    pub(crate) fn ends_fit(&self) -> bool {
        let fits = |file: &File, bytes| file.metadata().is_ok_and(|meta| meta.len() == bytes);
        fits(&self.current.file, self.current.bytes) && fits(&self.records.file, self.records.bytes)
    }

    /// Shows the state to those who ask for health and head.
    pub(crate) fn publish(&self, error: Option<&Arc<io::Error>>) {
        let now = self.clock.now();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.seq = self.seq;
        shared.head = self.head;
        shared.segment = self.current.number;
        shared.bytes = self.current.bytes;
        shared.checkpoint = self.records.n;
        shared.record_bytes = self.records.bytes;
        shared.from = self.records.from;
        shared.reserved = self.reserve.waiting.len();
        shared.uncovered_since = self.uncovered_since;
        match error {
            None if self.failing || self.records.failing => {}
            None => shared.failing_since = None,
            Some(error) => {
                shared.failing_since.get_or_insert(now);
                shared.last_error = Some((now, error.to_string()));
            }
        }
    }
}

/// The number of the entry that a body closes, and the body naming it.
fn numbered<'a>(body: &'a Body, tickets: &BTreeMap<Ticket, u64>) -> (Option<u64>, Cow<'a, [u8]>) {
    match body.closes {
        None => (None, Cow::Borrowed(&body.bytes)),
        Some(Recorded::Entry(seq)) => (Some(seq), Cow::Borrowed(&body.bytes)),
        Some(Recorded::Reserved(ticket)) => match tickets.get(&ticket) {
            Some(seq) => (Some(*seq), Cow::Owned(draft::mark_closes(&body.bytes, *seq))),
            None => (None, Cow::Borrowed(&body.bytes)),
        },
    }
}

fn stage_line(
    out: &mut Vec<u8>,
    staged: &mut Staged,
    body: &[u8],
    at: Millis,
    checkpoint: u64,
    keys: &Keys,
) -> (usize, usize) {
    let seq = staged.seq.saturating_add(1);
    let start = out.len();
    staged.head = entry::write_line(out, Place { seq, at, checkpoint, prev: staged.head }, body, &keys.chain);
    staged.seq = seq;
    let span = (start, out.len().saturating_sub(1));
    staged.lines.push(span);
    span
}
