//! Keeps entries of narrowing acts when the disk is full, and gives them back in order.
//!
//! A file of fixed size whose blocks are written once at creation, so that using it needs no new space. Each
//! record is a line naming the entry it follows (`after`, its sequence), a ticket that stands for its number, the
//! ticket of the record it closes (or 0), and a code under the chain key.
//! Invariant: a record is folded into the chain once: only while the chain still ends where the record says,
//! or directly after records of the same reserve. Not here: what may use it ([`crate::Ledger::append_narrowing`]).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::disk::{self, Disk};
use crate::entry::{self, Entry, Place, from_hex, push_hex, write_line};
use crate::keys::{ChainKey, GENESIS};
use crate::queue::Ticket;

/// The file's name inside a ledger directory.
pub(crate) const FILE: &str = "reserve";

/// One entry that waits to be chained.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The last entry of the chain when this was written.
    pub(crate) after: u64,
    pub(crate) at: i64,
    /// Stands for its number until it has one.
    pub(crate) ticket: Ticket,
    /// The one it closes, if that had no number when this was written.
    pub(crate) closes: Option<Ticket>,
    pub(crate) body: Vec<u8>,
}

impl Waiting {
    /// What it says, as an entry that has no place yet.
    pub(crate) fn entry(&self, key: &ChainKey) -> Option<Entry> {
        let mut line = Vec::new();
        let place = Place { seq: 0, at: self.at, checkpoint: 0, prev: GENESIS };
        write_line(&mut line, place, &self.body, key);
        entry::parse(line.strip_suffix(b"\n")?).ok().map(|(entry, _)| entry)
    }
}

/// The open reserve.
#[derive(Debug)]
pub(crate) struct Reserve {
    pub(crate) file: File,
    pub(crate) size: u64,
    pub(crate) used: u64,
    /// The last ticket given out.
    pub(crate) ticket: u64,
    pub(crate) waiting: Vec<Waiting>,
}

impl Reserve {
    /// Opens or creates the reserve and reads what waits in it.
    pub(crate) fn open(dir: &Path, size: u64, key: &ChainKey) -> io::Result<Self> {
        let path = dir.join(FILE);
        let file = disk::open_file(&path)?;
        let length = file.metadata()?.len();
        if length < size {
            // Real zeros, not a hole and not an unwritten extent: using it must need no new metadata.
            let missing = vec![0; usize::try_from(size.saturating_sub(length)).unwrap_or(0)];
            file.write_all_at(&missing, length)?;
            file.sync_all()?;
            disk::sync_dir(dir)?;
        }
        let size = size.max(length);
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        let (waiting, used) = parse(&bytes, key);
        let ticket = waiting.iter().map(|entry| entry.ticket.0).max().unwrap_or(0);
        Ok(Self { file, size, used, ticket, waiting })
    }

    /// A ticket that no other record has.
    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.ticket = self.ticket.saturating_add(1);
        Ticket(self.ticket)
    }

    /// Records one entry; `Ok(false)` means that the reserve is full.
    pub(crate) fn keep(&mut self, disk: &Disk, key: &ChainKey, entry: Waiting) -> io::Result<bool> {
        let line = encode(&entry, key);
        let end = self.used.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        if end > self.size {
            return Ok(false);
        }
        disk.overwrite(&self.file, &line, self.used)?;
        self.used = end;
        self.waiting.push(entry);
        Ok(true)
    }

    /// Forgets what waited; its entries are in the chain.
    pub(crate) fn clear(&mut self, disk: &Disk) -> io::Result<()> {
        if self.used == 0 {
            return Ok(());
        }
        let zeros = vec![0; usize::try_from(self.used).unwrap_or(0)];
        self.waiting.clear();
        disk.overwrite(&self.file, &zeros, 0)?;
        self.used = 0;
        Ok(())
    }
}

/// `<after> <at> <ticket> <closes> <body> <code>\n`; a body holds no raw line feed.
fn encode(entry: &Waiting, key: &ChainKey) -> Vec<u8> {
    let closes = entry.closes.map_or(0, |ticket| ticket.0);
    let mut line = format!("{} {} {} {closes} ", entry.after, entry.at, entry.ticket.0).into_bytes();
    line.extend_from_slice(&entry.body);
    let code = key.reserve_code(&line);
    line.push(b' ');
    push_hex(&mut line, &code);
    line.push(b'\n');
    line
}

/// Reads records up to the first that is torn or not ours, and the bytes they take.
fn parse(bytes: &[u8], key: &ChainKey) -> (Vec<Waiting>, u64) {
    let mut waiting = Vec::new();
    let mut used = 0usize;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(entry) = line.strip_suffix(b"\n").and_then(|line| parse_record(line, key)) else { break };
        waiting.push(entry);
        used = used.saturating_add(line.len());
    }
    (waiting, u64::try_from(used).unwrap_or(0))
}

fn parse_record(line: &[u8], key: &ChainKey) -> Option<Waiting> {
    let (covered, hex) = line.split_at_checked(line.len().checked_sub(65)?)?;
    let code: [u8; 32] = from_hex(hex.strip_prefix(b" ")?)?;
    if key.reserve_code(covered) != code {
        return None;
    }
    let mut parts = covered.splitn(5, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(parts.next()?).ok();
    let after = number()?.parse().ok()?;
    let at = number()?.parse().ok()?;
    let ticket = Ticket(number()?.parse().ok()?);
    let closes = Some(number()?.parse().ok()?).filter(|ticket| *ticket > 0).map(Ticket);
    Some(Waiting { after, at, ticket, closes, body: parts.next()?.to_vec() })
}
