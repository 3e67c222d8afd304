//! Compares what the store remembers of the ledger with the ledger itself, before anything is started.
//!
//! The search index follows the ledger and takes only what is durable there, so the store is never ahead of the
//! ledger by itself. If it is, somebody deleted, rolled back or replaced the ledger (or gave the store another
//! data directory), and new entries would take the numbers of lost ones.
//! Invariant: looking changes nothing; a loss is accepted only when asked for, and is then on the record.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ledger::{Decision, Draft, Ledger, ReadError, read};
use store::{RememberedLine, Store, StoreError};

const PAGE: i64 = 1_000;
/// How much of the end is searched before everything is read.
const WINDOW: u64 = 1024 * 1024;

/// What to do when the ledger is not what the store remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// Nothing is started.
    Refuse,
    /// The loss is recorded, and the ledger as it is goes on.
    Accept,
}

/// How the ledger falls short of what the store remembers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the ledger in `{}` was deleted, rolled back or replaced: {}, and it {}. Nothing was changed. Put the ledger's \
     files back (or restore a backup into a new data directory), or go on without what is lost by \
     `palisade up --accept-ledger-loss`, which is recorded",
    .dir.display(),
    .remembered.map_or("the store has users".to_owned(), |seq| format!("the store remembers entry {seq}")),
    match (.found, .differs) {
        (0, _) => "is empty".to_owned(),
        (_, true) => "has another entry in that place".to_owned(),
        (found, false) => format!("ends at entry {found}"),
    }
)]
pub struct Loss {
    /// The ledger's directory.
    pub dir: PathBuf,
    /// The last entry that the store remembers.
    pub remembered: Option<i64>,
    /// The last entry that the ledger has.
    pub found: u64,
    /// The ledger has that entry, and it says something else.
    pub differs: bool,
}

/// Why nobody can tell.
#[derive(Debug, thiserror::Error)]
pub enum StandingError {
    /// The store could not be asked.
    #[error("what the store remembers of the ledger could not be read")]
    Store(#[from] StoreError),
    /// The ledger could not be read.
    #[error("the ledger could not be compared with what the store remembers")]
    Ledger(#[from] ReadError),
    /// The loss could not be recorded.
    #[error("the loss could not be recorded; nothing was changed")]
    Record(#[from] ledger::AppendError),
    /// What is lost could not be kept aside.
    #[error("what the store remembers of the lost entries could not be kept aside")]
    Aside(#[source] io::Error),
}

/// What is missing in the ledger at `dir`, if anything is.
pub(crate) async fn loss(store: &Store, dir: &Path) -> Result<Option<Loss>, StandingError> {
    let (last, users) = (store.last_line().await?, store.has_users().await?);
    let lost = |remembered, found, differs| Some(Loss { dir: dir.to_owned(), remembered, found, differs });
    let Some(last) = last else {
        return Ok(if users && read(dir, 1)?.next().is_none() { lost(None, 0, false) } else { None });
    };
    if ends_with(dir, &last.line) {
        return Ok(None);
    }
    let seq = u64::try_from(last.seq).unwrap_or(0);
    match read(dir, seq)?.next().transpose()? {
        Some(there) if there.seq == seq && there.line == last.line.as_bytes() => Ok(None),
        // Retention took it.
        Some(there) if there.seq > seq && first(dir)? == Some(there.seq) => Ok(None),
        Some(there) => Ok(lost(Some(last.seq), there.seq, true)),
        None => Ok(lost(Some(last.seq), end(dir)?, false)),
    }
}

/// Records a loss, keeps what the store remembers of it in a file beside the ledger, and forgets it.
pub(crate) async fn accept(
    store: &Store,
    ledger: &Ledger,
    lost: &Loss,
) -> Result<Option<PathBuf>, StandingError> {
    let common = common(store, ledger.dir()).await?;
    let remembered = lost.remembered.unwrap_or(0);
    let draft = Draft::new("local", "ledger.rolled_back", Decision::Noted)
        .because("started with --accept-ledger-loss")
        .with("remembered", remembered.to_string())
        .with("found", lost.found.to_string())
        .with("common", common.to_string());
    let seq = ledger.append(draft)?;
    if store.lines_after(common, 1).await?.is_empty() {
        return Ok(None);
    }
    // Named by the entry that tells of it: a second loss does not overwrite the first.
    let aside = lost.dir.with_file_name(format!("ledger-lost-{seq}-{}.jsonl", model::RequestId::random()));
    let mut made = private(&aside).map_err(StandingError::Aside)?;
    let mut after = common;
    loop {
        let page = store.lines_after(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        page.iter().try_for_each(|one| writeln!(made, "{}", one.line)).map_err(StandingError::Aside)?;
    }
    made.into_inner()
        .map_err(|error| error.into_error())
        .and_then(|file| file.sync_all())
        .map_err(StandingError::Aside)?;
    store.forget_lines_after(common).await?;
    Ok(Some(aside))
}

/// The last entry up to which the store and the ledger say the same.
async fn common(store: &Store, dir: &Path) -> Result<i64, StandingError> {
    let mut entries = read(dir, 1)?.peekable();
    let (mut common, mut begun) = (0, false);
    loop {
        let page = store.lines_after(common, PAGE).await?;
        if page.is_empty() {
            return Ok(common);
        }
        for RememberedLine { seq, line } in page {
            let number = u64::try_from(seq).unwrap_or(0);
            while entries.next_if(|entry| entry.as_ref().is_ok_and(|entry| entry.seq < number)).is_some() {}
            match entries.peek() {
                Some(Ok(entry)) if entry.seq == number && entry.line == line.as_bytes() => begun = true,
                // Before the ledger begins: retention took it, and the store may remember it.
                Some(Ok(entry)) if entry.seq > number && !begun && entry.seq > 1 => {}
                Some(_) | None => return Ok(common),
            }
            common = seq;
        }
    }
}

/// Whether the last segment has this line near its end.
fn ends_with(dir: &Path, line: &str) -> bool {
    let last = std::fs::read_dir(dir.join("segments")).ok().and_then(|all| {
        let names = all.filter_map(|one| one.ok().and_then(|one| one.file_name().into_string().ok()));
        names.filter(|name| ledger::is_segment(name)).max()
    });
    let Some(name) = last else { return false };
    let window = || -> io::Result<Vec<u8>> {
        let mut file = files::Root::open(dir)?.file(&Path::new("segments").join(name), files::Rule::Any)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.take(WINDOW).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    window().is_ok_and(|bytes| {
        bytes
            .split_inclusive(|byte| *byte == b'\n')
            .any(|one| one.strip_suffix(b"\n") == Some(line.as_bytes()))
    })
}

fn first(dir: &Path) -> Result<Option<u64>, ReadError> {
    Ok(read(dir, 1)?.next().transpose()?.map(|entry| entry.seq))
}

/// The last entry that can be read.
fn end(dir: &Path) -> Result<u64, ReadError> {
    let mut last = 0;
    for entry in read(dir, 1)? {
        last = entry?.seq;
    }
    Ok(last)
}

fn private(path: &Path) -> io::Result<BufWriter<File>> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(BufWriter::new(file))
}
