//! How many durable entries a second the ledger takes from 64 writers, against what the disk itself takes.
//!
//! The reference is one thread that appends 4 KiB and syncs, over and over. It counts as so many entries as fit
//! into 4 KiB at the size the ledger's own lines have. The ledger may do better than that: it writes all that
//! waits at once, so a batch can be larger than 4 KiB.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use ledger::{Decision, Draft, Keys, Ledger, Options};
use model::{SystemClock, UserId, WorktreeId};
use redact::Redactor;
use zeroize::Zeroizing;

use crate::measure::median;
use crate::report::{Bound, Row};

const WRITERS: usize = 64;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(1200);
const BATCH: usize = 4096;

/// The figures of item 4, and how to read them.
pub(crate) fn rows(disk: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let home = tempfile::tempdir_in(disk)?;
    let dir = home.path().join("ledger");
    std::fs::create_dir(&dir)?;
    let keys = Keys::new(Zeroizing::new([1; 32]), &Zeroizing::new([2; 32]), "bench");
    let redactor = Redactor::new();
    let scrub = Box::new(move |text: &str| redactor.scrub(text).into_owned());
    let (ledger, _) = Ledger::open(&dir, keys, Arc::new(SystemClock), scrub, Options::default())?;
    let (mut entries, mut ledger_batches, mut disk_batches) = (Vec::new(), Vec::new(), Vec::new());
    let mut lines = 0.0;
    for _ in 0..ROUNDS {
        let (before, seq) = (written_by_us()?, ledger.head().seq);
        let bytes = segment_bytes(&dir)?;
        let seconds = from_many(&ledger);
        let count = (ledger.head().seq - seq) as f64;
        lines = (segment_bytes(&dir)? - bytes) as f64 / count;
        entries.push(count / seconds);
        ledger_batches.push((written_by_us()? - before) as f64 / seconds);
        disk_batches.push(bare(home.path())?);
    }
    ledger.close()?;
    let per_batch = (BATCH as f64 / lines).floor();
    let (ours, batches, bare) =
        (median(&mut entries), median(&mut ledger_batches), median(&mut disk_batches));
    let rows = vec![
        Row {
            name: format!("durable entries, {WRITERS} writers / 4 KiB appends x {per_batch:.0}"),
            unit: "/s",
            ours,
            reference: Some(bare * per_batch),
            bound: Bound::RatioAtLeast(0.5),
        },
        Row {
            name: "  write+fdatasync batches".into(),
            unit: "/s",
            ours: batches,
            reference: Some(bare),
            bound: Bound::Information,
        },
    ];
    let note = format!(
        "ledger: a line has {lines:.0} bytes, so a bare 4 KiB append+fdatasync counts as {per_batch:.0} entries; the ledger \
         wrote {:.0} entries ({:.0} bytes) per batch",
        ours / batches,
        ours / batches * lines
    );
    Ok((rows, vec![note]))
}

/// Entries like those the gate makes, from many threads for a while; gives the seconds it took.
fn from_many(ledger: &Ledger) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                let (who, worktree) = (UserId::random(), WorktreeId::random());
                while start.elapsed() < ROUND {
                    let draft = Draft::new(who.to_string(), "worktree.create", Decision::Allowed);
                    ledger
                        .append(draft.on(worktree.to_string()).with("tier", "session"))
                        .expect("an entry is recorded");
                }
            });
        }
    });
    start.elapsed().as_secs_f64()
}

/// Appends and syncs by one thread; gives how many a second.
fn bare(home: &Path) -> anyhow::Result<f64> {
    let path = home.join("bare");
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    let (block, start, mut count) = ([b'x'; BATCH], Instant::now(), 0_u32);
    while start.elapsed() < ROUND {
        file.write_all(&block)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

/// Write calls of this process so far: the ledger makes one per batch, and nobody else writes meanwhile.
fn written_by_us() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("syscw: ")).context("no `syscw` in /proc/self/io")?;
    Ok(line.parse()?)
}

fn segment_bytes(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for item in std::fs::read_dir(dir.join("segments"))? {
        sum += item?.metadata()?.len();
    }
    Ok(sum)
}
