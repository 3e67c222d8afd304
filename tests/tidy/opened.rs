//! What the daemon, the proxy and their libraries open by a path: each file that does so by itself, and why that path is nobody's who is
//! less trusted. Everything else goes through `files`.

use crate::house::{text, tracked};

/// The crates that are asked.
const ASKED: [&str; 7] = ["server", "runtime", "store", "access", "ledger", "vault", "egressd"];

/// What lies in the data directory, which is ours alone (0700, looked at before anything else).
const OURS: &str = "in the daemon's own data directory, which nobody else can enter";
/// What the ledger keeps, by its own primitives: plain files, no links, private folders.
const RECORD: &str = "the ledger's own folder, by the rules of `ledger::disk`";
/// What whoever runs the installation names.
const NAMED: &str = "a path that whoever runs this names themselves";

/// Files that use the system's calls by themselves, and why.
const OPENERS: [(&str, &str); 36] = [
    ("crates/server/src/data.rs", "makes the data directory and looks whether it is ours alone"),
    ("crates/server/src/export.rs", RECORD),
    (
        "crates/server/src/patterns.rs",
        "when the file of patterns, which the settings name, was changed; and a copy in the data directory",
    ),
    ("crates/runtime/src/backup.rs", RECORD),
    (
        "crates/runtime/src/backup/restore.rs",
        "a new installation, where nothing is yet, from a file that is named",
    ),
    ("crates/runtime/src/backup/sealed.rs", OURS),
    ("crates/runtime/src/keeper.rs", "puts a ring aside, beside itself"),
    ("crates/runtime/src/rotation.rs", "the key file of the settings, and what waits beside it"),
    ("crates/runtime/src/session/agents.rs", "in the state of a session's runs, outside of every sandbox"),
    ("crates/runtime/src/session/programs.rs", "programs in the folders that the settings name"),
    (
        "crates/runtime/src/session/sandbox.rs",
        "reports of the launcher, in the state of a session's runs, which no sandbox may write",
    ),
    ("crates/runtime/src/session/sandbox/absence.rs", "what the kernel says, in `/proc`"),
    ("crates/runtime/src/session/tidy.rs", "the names of sessions that have state"),
    ("crates/runtime/src/standing.rs", RECORD),
    (
        "crates/runtime/src/trees.rs",
        "the names of worktrees, and notes beside trees, where no sandbox writes",
    ),
    ("crates/runtime/src/trees/launcher.rs", "the state of runs, which no sandbox may write"),
    (
        "crates/runtime/src/trees/ssh.rs",
        "known hosts that the settings name, and a folder of its own for each run",
    ),
    ("crates/store/src/engine/encrypt.rs", OURS),
    ("crates/store/src/engine/sqlite/ballast.rs", OURS),
    ("crates/store/src/engine/sqlite/connect.rs", OURS),
    ("crates/store/src/engine/sqlite/place.rs", "looks whether the store's place is ours alone"),
    ("crates/ledger/src/bin/palisade-verify.rs", NAMED),
    ("crates/ledger/src/bundle/layout.rs", "a new folder for a bundle, where nothing is yet"),
    ("crates/ledger/src/disk.rs", RECORD),
    ("crates/ledger/src/lock.rs", RECORD),
    ("crates/ledger/src/once/resting.rs", RECORD),
    ("crates/ledger/src/recover.rs", RECORD),
    ("crates/ledger/src/reserve.rs", RECORD),
    ("crates/ledger/src/retention.rs", RECORD),
    ("crates/ledger/src/sealing.rs", RECORD),
    ("crates/ledger/src/segment.rs", RECORD),
    (
        "crates/ledger/src/verify/bundle.rs",
        "lists what is in a bundle; what is read of it goes through `ledger::disk`",
    ),
    (
        "crates/ledger/src/verify/folder.rs",
        "lists what is in a ledger; what is read of it goes through `ledger::disk`",
    ),
    ("crates/ledger/src/writer.rs", RECORD),
    (
        "crates/vault/src/source.rs",
        "key files that the settings name, with stricter rules than those of `files`",
    ),
    (
        "crates/egressd/src/confine.rs",
        "the root, which must not open any more, and where the system's own files in `/etc` lead to",
    ),
];

/// The first line with which a file opens something by itself.
fn opens(name: &str) -> Option<String> {
    let calls = ["std::fs", "tokio::fs", "File::open", "OpenOptions"];
    let text = text(name);
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_call =
        |line: &&str| !line.trim_start().starts_with("//") && calls.iter().any(|call| line.contains(call));
    product.lines().find(is_call).map(str::to_owned)
}

#[test]
fn what_is_opened_by_a_path_is_opened_through_files_or_listed_with_its_reason() {
    let is_asked = |name: &&String| {
        let asked = ASKED.iter().any(|one| name.starts_with(&format!("crates/{one}/src/")));
        asked && name.ends_with(".rs") && !name.contains("/tests/") && !name.ends_with("tests.rs")
    };
    for name in tracked().iter().filter(is_asked) {
        let is_listed = OPENERS.iter().any(|(file, _)| file == name);
        match opens(name) {
            Some(line) => {
                assert!(is_listed, "{name} opens a path by itself: `{}`; whose is it?", line.trim())
            }
            None => assert!(!is_listed, "{name} is listed and opens nothing by itself any more"),
        }
    }
    for (file, _) in OPENERS {
        assert!(!text(file).is_empty(), "{file} is not there any more");
    }
}
