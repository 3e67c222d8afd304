//! WT-18: the writer publishes whole files or nothing, on the disk before it says so, and leaves no draft behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use files::Root;

/// Where a child of this test is to write, and how much.
const PLACE: &str = "PALISADE_TEST_PLACE";
const BYTES: &str = "PALISADE_TEST_BYTES";

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What the tests here start: writes the file `note` twice and a new one, and ends with 3 if it cannot.
#[test]
fn writes_where_it_is_told() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let bytes = std::env::var(BYTES).ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(1);
    let root = Root::open(Path::new(&place)).unwrap();
    let text = vec![b'x'; bytes];
    let written = root.write(Path::new("note"), &text).and_then(|()| root.create(Path::new("new"), &text));
    if written.is_err() {
        std::process::exit(3);
    }
}

/// This test's program, started anew to write, by a shell that settles what it may.
fn writer(place: &Path, bytes: usize, before: &str) -> Output {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before} \"$@\"")).arg("sh").arg(this);
    command.args(["--exact", "writes_where_it_is_told", "--nocapture", "--test-threads=1"]);
    command.env(PLACE, place).env(BYTES, bytes.to_string()).output().unwrap()
}

/// Whoever reads by the name while it is written sees one whole text or another, never a part.
#[test]
fn wt_18_a_reader_never_sees_a_part() {
    const LENGTH: usize = 256 << 10;
    let folder = tempfile::tempdir().unwrap();
    let root = Root::open(folder.path()).unwrap();
    root.write(Path::new("note"), &vec![b'a'; LENGTH]).unwrap();
    let over = AtomicBool::new(false);
    let (seen, changes) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut seen, mut changes, mut last) = (0u64, 0u64, b'a');
            while !over.load(Ordering::Relaxed) || changes == 0 {
                let text = fs::read(folder.path().join("note")).unwrap();
                let first = text[0];
                assert!(text.len() == LENGTH && text.iter().all(|byte| *byte == first), "a part was seen");
                changes += u64::from(first != last);
                (last, seen) = (first, seen + 1);
            }
            (seen, changes)
        });
        for turn in 0..500u32 {
            let letter = b'a' + u8::try_from(turn % 26).unwrap();
            root.write(Path::new("note"), &vec![letter; LENGTH]).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(seen > 0 && changes > 0, "{seen} reads, {changes} changes");
    assert_eq!(names(folder.path()), ["note"], "no draft is left");
}

/// A write that fails in the middle leaves what was there, and no draft.
#[test]
fn wt_18_a_write_that_fails_leaves_what_was_there_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("note"), "as it was").unwrap();
    // More than a file may have: told by an error, since the signal is turned off.
    let output = writer(folder.path(), 1 << 20, "trap '' XFSZ; ulimit -f 8; exec");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(names(folder.path()), ["note"]);
    assert_eq!(fs::read(folder.path().join("note")).unwrap(), b"as it was");
    // The control: without that bound the same is written.
    let output = writer(folder.path(), 1 << 20, "exec");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(names(folder.path()), ["new", "note"]);
    assert_eq!(fs::read(folder.path().join("note")).unwrap().len(), 1 << 20);
}

/// The bytes are on the disk before they have the name, and the name is before it is said: by the system calls.
#[test]
fn wt_18_file_and_directory_are_synced_in_order() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("note"), "as it was").unwrap();
    let log = folder.path().with_extension("calls");
    let trace = format!(
        "exec strace -f -qq -y -e trace=fsync,fdatasync,renameat2,renameat,rename -o {}",
        log.display()
    );
    let output = writer(folder.path(), 10, &trace);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls = fs::read_to_string(&log).unwrap();
    fs::remove_file(&log).unwrap();
    let place = folder.path().display().to_string();
    let steps: Vec<&str> = calls
        .lines()
        .filter(|line| line.contains(&place) && line.ends_with("= 0"))
        .filter_map(|line| match () {
            () if line.contains("sync(") && line.contains(".palisade-draft-") => Some("file"),
            () if line.contains("rename") && line.contains(".palisade-draft-") => Some("name"),
            () if line.contains("sync(") => Some("directory"),
            () => None,
        })
        .collect();
    assert_eq!(steps, ["file", "name", "directory", "file", "name", "directory"], "{calls}");
}
