//! How long a search of the ledger's index takes: each filter alone, over many entries.
//!
//! 200,000 entries, or a million with `PALISADE_SCALE=1`, on the embedded database as the daemon opens it. There is
//! no reference: the promise is a time.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use access::ReadWholeLedger;
use model::SystemClock;
use runtime::{IndexedEntry, Source, Store, open_engine};
use store::LedgerFilter;
use vault::{KeyRing, MasterKey};

use crate::ledger_pace::percentile;
use crate::owner::booted;
use crate::report::{Bound, Row};

const USERS: u64 = 500;
const RESOURCES: u64 = 20_000;
const ACTIONS: [&str; 5] =
    ["worktree.update", "worktree.create", "session.prompt", "pass.mint", "key.create"];
const DECISIONS: [&str; 3] = ["allowed", "done", "refused"];
const QUERIES: u64 = 200;

/// The figures, and how to read them.
pub(crate) fn rows(disk: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let full = std::env::var("PALISADE_SCALE").is_ok_and(|scale| scale == "1");
    let count: u64 = if full { 1_000_000 } else { 200_000 };
    let home = tempfile::tempdir_in(disk)?;
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    threads.block_on(async {
        std::fs::DirBuilder::new().mode(0o700).create(home.path().join("store"))?;
        let ring = Arc::new(KeyRing::new(MasterKey::random()?));
        let (runtime, who) = booted(home.path(), &ring).await?;
        let engine = open_engine(home.path(), &Source::Embedded, &ring).await?;
        let store = Store::start(engine, Arc::new(SystemClock)).await?;
        for start in (0..count).step_by(5_000) {
            let batch: Vec<IndexedEntry> = (start..(start + 5_000).min(count)).map(entry).collect();
            store.index_entries(&batch).await?;
        }
        let mut rows = Vec::new();
        let mut every = Vec::new();
        for (name, filter) in FILTERS {
            let mut times = Vec::new();
            for number in 0..QUERIES {
                let wanted = filter(number * 7_919 % count);
                let permit = runtime.gate().authorize(&who, ReadWholeLedger {}).await?;
                let begun = Instant::now();
                let found = store.search_ledger(permit, &wanted, 50).await?;
                times.push(begun.elapsed().as_secs_f64() * 1_000.0);
                anyhow::ensure!(!found.is_empty(), "{name}: nothing found");
            }
            rows.push(Row {
                name: format!("search of {count} entries by {name}, p95"),
                unit: "ms",
                ours: percentile(&mut times, 95),
                reference: None,
                bound: Bound::Information,
            });
            every.extend(times);
        }
        rows.push(Row {
            name: format!("search of {count} entries, all of these, p95"),
            unit: "ms",
            ours: percentile(&mut every, 95),
            reference: None,
            bound: Bound::Below(200.0),
        });
        Ok((rows, Vec::new()))
    })
}

/// A filter for the entry with this number.
type Filter = fn(u64) -> LedgerFilter;

const FILTERS: [(&str, Filter); 6] = [
    ("nothing (newest)", |_| any()),
    ("user", |n| LedgerFilter { user: entry(n).user, ..any() }),
    ("action", |n| LedgerFilter { action: entry(n).action, ..any() }),
    ("resource", |n| LedgerFilter { resource: entry(n).resource, ..any() }),
    ("decision", |n| LedgerFilter { decision: entry(n).decision, ..any() }),
    ("time", |n| LedgerFilter { since: entry(n).at, until: entry(n).at + 60_000, ..any() }),
];

fn any() -> LedgerFilter {
    LedgerFilter { since: i64::MIN, until: i64::MAX, before: i64::MAX, ..LedgerFilter::default() }
}

fn entry(number: u64) -> IndexedEntry {
    let pick = |words: &[&str]| words[usize::try_from(number).unwrap_or(0) % words.len()].to_owned();
    let seq = i64::try_from(number + 1).unwrap_or(i64::MAX);
    let user = format!("usr_{:032x}", number * 2_654_435_761 % USERS);
    let mut found = IndexedEntry {
        seq,
        at: 1_700_000_000_000 + seq * 100,
        who: user.clone(),
        user,
        action: pick(&ACTIONS),
        resource: format!("wt_{:032x}", number * 40_503 % RESOURCES),
        decision: pick(&DECISIONS),
        line: String::new(),
    };
    // As long as a stored line.
    found.line = format!("{{\"seq\":{seq},\"who\":\"{}\",\"rest\":\"{}\"}}", found.who, "x".repeat(340));
    found
}
