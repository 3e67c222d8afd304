//! A ledger in a temporary directory, with known keys and a clock that stands still.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ledger::verify::{Anchors, Finding, Kind, Report, Trust, TrustedKey, Verdict, verify};
use ledger::{ChainKey, Decision, Draft, Faults, Keys, Ledger, OpenError, Options, Recovery, Scrub};
use model::{Clock, FixedClock};
use tempfile::TempDir;
use zeroize::Zeroizing;

pub(crate) const START: i64 = 1_700_000_000_000;

pub(crate) struct Book {
    home: TempDir,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) options: Options,
}

pub(crate) fn keys() -> Keys {
    Keys::new(Zeroizing::new([7; 32]), &Zeroizing::new([9; 32]), "signer-1")
}

pub(crate) fn chain_key() -> ChainKey {
    ChainKey::new(Zeroizing::new([7; 32]))
}

pub(crate) fn trust() -> Trust {
    Trust::from_keys([TrustedKey::active("signer-1", keys().public_key())]).unwrap()
}

pub(crate) fn unscrubbed() -> Scrub {
    Box::new(str::to_owned)
}

pub(crate) fn draft(text: impl std::fmt::Display) -> Draft {
    Draft::new("ana", "session.prompt", Decision::Allowed).on(format!("ses_{text}")).because("grant")
}

/// The part of a full-size run that `PALISADE_SCALE` asks for (1 is all of it), or the usual size without it.
pub(crate) fn scaled(full: usize, usual: usize) -> usize {
    let scale = std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse::<f64>().ok());
    scale.map_or(usual, |scale| ((full as f64 * scale) as usize).max(1))
}

/// A small file system that goes away with the test.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where it cannot be mounted; that is told, and with `PALISADE_TEST_STRICT=1` it fails.
    pub(crate) fn mount(at: &Path, size: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at).output();
        let disk = done.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()));
        if disk.is_none() {
            assert!(std::env::var("PALISADE_TEST_STRICT").as_deref() != Ok("1"), "a tmpfs cannot be mounted");
            // Not by a macro of the test harness, which keeps what tests print that pass.
            drop(writeln!(std::io::stderr(), "skipped: a tmpfs cannot be mounted, so no disk gets full"));
        }
        disk
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

impl Book {
    /// In memory where there is such a place: a sync costs nothing there, and no test cuts the power.
    pub(crate) fn new() -> Self {
        Self::in_dir(TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap())
    }

    pub(crate) fn on_disk() -> Self {
        Self::in_dir(TempDir::new().unwrap())
    }

    pub(crate) fn in_dir(home: TempDir) -> Self {
        let faults = Arc::<Faults>::default();
        let options =
            Options { reserve_bytes: 64 * 1024, faults: Some(Arc::clone(&faults)), ..Options::default() };
        Self { home, clock: Arc::new(FixedClock::at(START)), faults, options }
    }

    /// Segments of a few entries.
    pub(crate) fn with_small_segments() -> Self {
        let mut book = Self::new();
        book.options.segment_bytes = 2048;
        book
    }

    /// A closed ledger of `count` entries, with a checkpoint after every `every`.
    pub(crate) fn written(self, count: usize, every: usize) -> Self {
        let ledger = self.open();
        for number in 1..=count {
            self.clock.advance(10);
            ledger.append(draft(number)).unwrap();
            if number % every == 0 {
                ledger.checkpoint_now().unwrap();
            }
        }
        ledger.close().unwrap();
        self
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.home.path().join("ledger")
    }

    pub(crate) fn try_open(&self) -> Result<(Ledger, Recovery), OpenError> {
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        Ledger::open(&self.dir(), keys(), clock, unscrubbed(), self.options.clone())
    }

    pub(crate) fn open(&self) -> Ledger {
        self.try_open().unwrap().0
    }

    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.dir().join(format!("segments/{number:08}.seg"))
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.dir().join("checkpoints.jsonl")
    }

    pub(crate) fn entries(&self) -> Vec<ledger::Entry> {
        ledger::read(&self.dir(), 1).unwrap().map(|stored| stored.unwrap().entry).collect()
    }

    /// Checks with everything that is known.
    pub(crate) fn check(&self) -> Report {
        verify(&self.dir(), &trust(), Some(&chain_key()), None)
    }

    /// Checks without the chain key.
    pub(crate) fn check_by_signature(&self) -> Report {
        verify(&self.dir(), &trust(), None, None)
    }

    pub(crate) fn check_with_anchor(&self, anchors: &str) -> Report {
        verify(&self.dir(), &trust(), Some(&chain_key()), Some(&Anchors::from_lines(anchors).unwrap()))
    }

    /// `<number> <sha256>` of every record there is.
    pub(crate) fn anchors(&self) -> String {
        use sha2::Digest as _;
        let text = std::fs::read_to_string(self.checkpoints()).unwrap();
        let lines = text.lines().enumerate();
        lines
            .map(|(place, line)| format!("{} {}\n", place + 1, hex::encode(sha2::Sha256::digest(line))))
            .collect()
    }
}

/// Changes the lines of a file.
pub(crate) fn change_lines(path: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    std::fs::write(path, text).unwrap();
}

#[track_caller]
pub(crate) fn assert_intact(report: &Report) {
    assert_eq!(report.verdict, Verdict::Intact, "{:#?}", report.findings);
}

/// The report names this kind at this entry, and nothing else is called tampering.
#[track_caller]
pub(crate) fn assert_found(report: &Report, kind: Kind, index: u64) {
    assert_eq!(report.verdict, Verdict::Tampered, "{report:#?}");
    let found: Vec<(Kind, Option<u64>)> =
        report.findings.iter().map(|it: &Finding| (it.kind, it.index)).collect();
    assert!(found.contains(&(kind, Some(index))), "wanted {kind:?} at {index}: {found:?}");
    assert_eq!(found.len(), 1, "one change, one finding: {:#?}", report.findings);
}

#[track_caller]
pub(crate) fn assert_kind(report: &Report, kind: Kind) {
    assert!(report.findings.iter().any(|it| it.kind == kind), "wanted {kind:?}: {:#?}", report.findings);
}
