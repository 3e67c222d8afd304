//! Somebody swaps directories, files, links and pipes while we read and write: nothing outside is touched.
//!
//! 10,000 turns with `PALISADE_SCALE=1`, a twentieth otherwise. Each race has its control: what follows links, under the
//! same swaps, does get outside.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends here")]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use files::{FileError, Root, Rule};

const TURNS: f64 = 10_000.0;
/// A machine on which they do not meet by then has no two processors for us.
const LONGEST: Duration = Duration::from_secs(120);

fn turns() -> u64 {
    let scale =
        std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.05);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small")]
    let turns = (TURNS * scale) as u64;
    turns.max(200)
}

/// Name, content, inode, mode and times.
type Seen = (String, Vec<u8>, u64, u32, i64, i64, i64);

struct Scene {
    folder: tempfile::TempDir,
    swaps: AtomicU64,
    over: AtomicBool,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["inside/sub", "outside"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for (name, text) in
            [("inside/sub/note", "inside"), ("inside/leaf", "inside"), ("outside/note", "outside")]
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self { folder, swaps: AtomicU64::new(0), over: AtomicBool::new(false) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Everything about what is outside that a touch would change, besides the time of reading.
    fn outside(&self) -> Vec<Seen> {
        let mut found: Vec<_> = fs::read_dir(self.at("outside"))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let text = fs::read(&path).unwrap();
                (name, text, meta.ino(), meta.mode(), meta.mtime(), meta.mtime_nsec(), meta.ctime_nsec())
            })
            .collect();
        found.sort();
        let folder = fs::metadata(self.at("outside")).unwrap();
        found.push((
            ".".into(),
            Vec::new(),
            folder.ino(),
            folder.mode(),
            folder.mtime(),
            folder.mtime_nsec(),
            0,
        ));
        found
    }

    /// Swaps the directory for a link to outside, and back, until it is over.
    fn swap_folder(&self) {
        let (sub, away) = (self.at("inside/sub"), self.at("inside/away"));
        while !self.over.load(Ordering::Relaxed) {
            fs::rename(&sub, &away).unwrap();
            symlink(self.at("outside"), &sub).unwrap();
            self.swaps.fetch_add(1, Ordering::Relaxed);
            fs::remove_file(&sub).unwrap();
            fs::rename(&away, &sub).unwrap();
        }
    }

    /// Puts a link to outside, a pipe, a second name of nothing of ours, and a file in place of the leaf, in turn.
    fn swap_leaf(&self) {
        let (leaf, next) = (self.at("inside/leaf"), self.at("inside/next"));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        for turn in 0u64.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            match turn % 3 {
                0 => symlink(self.at("outside/note"), &next).unwrap(),
                1 => {
                    rustix::fs::mknodat(rustix::fs::CWD, &next, rustix::fs::FileType::Fifo, mode, 0).unwrap()
                }
                _ => fs::write(&next, "inside").unwrap(),
            }
            fs::rename(&next, &leaf).unwrap();
            self.swaps.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Does something while somebody swaps, until enough turns are over, the tree was swapped as often, and both got in
    /// each other's way: `turn` says whether they did.
    fn race(&self, swap: impl Fn(&Self) + Sync, mut turn: impl FnMut(u64) -> bool) {
        let until = Instant::now() + LONGEST;
        std::thread::scope(|scope| {
            scope.spawn(|| swap(self));
            let (mut count, mut met) = (0, false);
            while count < turns() || self.swaps.load(Ordering::Relaxed) < turns() || !met {
                met = turn(count);
                count += 1;
                if Instant::now() > until {
                    break;
                }
            }
            self.over.store(true, Ordering::Relaxed);
            let swaps = self.swaps.load(Ordering::Relaxed);
            assert!(count >= turns() && swaps >= turns(), "{count} turns, {swaps} swaps, {} wanted", turns());
        });
    }
}

/// What came of a turn: did it work, was it refused.
#[derive(Default)]
struct Tally {
    done: u64,
    refused: u64,
}

impl Tally {
    #[track_caller]
    fn count<T>(&mut self, outcome: Result<T, FileError>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.done += 1;
                return Some(value);
            }
            // In the middle of a swap there may be nothing, a link or a pipe.
            Err(FileError::Missing | FileError::NotPlain) => self.refused += 1,
            Err(error) => panic!("{error:?}"),
        }
        None
    }

    fn raced(&self) -> bool {
        self.done > 0 && self.refused > 0
    }

    #[track_caller]
    fn assert_raced(&self) {
        assert!(self.raced(), "no race: {} done, {} refused", self.done, self.refused);
    }
}

#[test]
fn wt_18_racing_swaps_of_a_directory_touch_nothing_outside() {
    let scene = Scene::new();
    let before = scene.outside();
    let root = Root::open(&scene.at("inside")).unwrap();
    let (mut reads, mut writes) = (Tally::default(), Tally::default());
    let path = Path::new("sub/note");
    scene.race(Scene::swap_folder, |turn| {
        if let Some(bytes) = reads.count(root.read(path, 100, Rule::Any)) {
            assert!(bytes.starts_with(b"inside"), "{}", String::from_utf8_lossy(&bytes));
        }
        writes.count(root.write(path, format!("inside {turn}").as_bytes()));
        reads.raced() && writes.raced()
    });
    reads.assert_raced();
    writes.assert_raced();
    assert_eq!(scene.outside(), before);
    assert_eq!(fs::read_dir(scene.at("inside/sub")).unwrap().count(), 1, "no draft is left");
}

#[test]
fn wt_18_racing_swaps_of_a_file_touch_nothing_outside_and_never_wait() {
    let scene = Scene::new();
    let before = scene.outside();
    let root = Root::open(&scene.at("inside")).unwrap();
    let (mut reads, mut writes) = (Tally::default(), Tally::default());
    let path = Path::new("leaf");
    scene.race(Scene::swap_leaf, |turn| {
        if let Some(bytes) = reads.count(root.read(path, 100, Rule::Any)) {
            assert!(bytes.starts_with(b"inside") || bytes.is_empty(), "{}", String::from_utf8_lossy(&bytes));
        }
        writes.count(root.write(path, format!("inside {turn}").as_bytes()));
        reads.raced() && writes.raced()
    });
    reads.assert_raced();
    writes.assert_raced();
    assert_eq!(scene.outside(), before);
}

/// The control: by paths, the same swaps lead a reader outside.
#[test]
fn control_a_reader_that_follows_paths_gets_outside() {
    let scene = Scene::new();
    let mut outside = 0u64;
    let path = scene.at("inside/sub/note");
    scene.race(Scene::swap_folder, |_| {
        outside += u64::from(fs::read(&path).is_ok_and(|text| text == b"outside"));
        outside > 0
    });
    assert!(outside > 0);
}
