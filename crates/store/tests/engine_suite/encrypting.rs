//! From a plain file to an encrypted store, interrupted everywhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rusqlite::Connection;
use store::engine::{EncryptError, EncryptStep, Engine, OpenError, encrypt_plain, encrypt_plain_reporting};

use crate::kit::{self, KEY};

const STEPS: [EncryptStep; 6] = [
    EncryptStep::Locked,
    EncryptStep::Copied,
    EncryptStep::Checked,
    EncryptStep::Durable,
    EncryptStep::Replaced,
    EncryptStep::Done,
];

/// A plain store in WAL mode whose last rows are only in the log, as a crash leaves it.
fn plain_store(folder: &Path) -> PathBuf {
    let (made, path) = (folder.join("made.db"), folder.join("store.db"));
    let plain = Connection::open(&made).unwrap();
    plain
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE t (id BIGINT PRIMARY KEY, body TEXT); CREATE INDEX by_body ON t (body);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO t SELECT i, 'row ' || i FROM n",
        )
        .unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(format!("{}{suffix}", made.display()), format!("{}{suffix}", path.display())).unwrap();
    }
    drop(plain);
    fs::remove_file(made).unwrap();
    path
}

async fn assert_whole(path: &Path) {
    let engine = Engine::open_sqlite(path, &KEY).await.unwrap();
    let row = engine.row("SELECT count(*), min(id), max(id) FROM t WHERE body = 'row ' || id", &[]).await;
    let row = row.unwrap().unwrap();
    assert_eq!((row.int(0), row.int(1), row.int(2)), (Ok(2000), Ok(1), Ok(2000)));
    engine.close().await.unwrap();
}

#[tokio::test]
async fn sec_03_a_plain_store_is_encrypted_in_place() {
    let folder = kit::folder();
    let path = plain_store(folder.path());
    encrypt_plain(&path, &KEY).await.unwrap();
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["store.db"]);
    assert!(!fs::read(&path).unwrap().windows(4).any(|window| window == b"row "));
    assert_whole(&path).await;
    assert!(matches!(encrypt_plain(&path, &KEY).await, Err(EncryptError::NotPlain(_))));
}

#[test]
fn sec_03_killed_after_any_step_the_store_is_whole_old_or_whole_new() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (index, step) in STEPS.iter().enumerate() {
        let folder = kit::folder();
        let path = plain_store(folder.path());
        let mut child = kit::child("encrypting::child_that_dies", &path);
        let status = child.env("PALISADE_STEP", index.to_string()).stdout(Stdio::null()).status().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(6), "died at {step:?}");
        let replaced = index >= 4;
        runtime.block_on(async {
            match Engine::open_sqlite(&path, &KEY).await {
                Err(OpenError::PlainText(_)) if !replaced => {
                    let plain = Connection::open(&path).unwrap();
                    let count: i64 = plain.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
                    assert_eq!(count, 2000, "{step:?}");
                    drop(plain);
                    encrypt_plain(&path, &KEY).await.unwrap(); // started again, it ends well
                }
                Ok(engine) if replaced => engine.close().await.unwrap(),
                other => panic!("{step:?}: {other:?}"),
            }
            assert_whole(&path).await;
        });
    }
}

#[tokio::test]
async fn child_that_dies() {
    let Some(path) = kit::child_argument() else { return };
    let step: usize = std::env::var("PALISADE_STEP").unwrap().parse().unwrap();
    let die = move |done| {
        if done == STEPS[step] {
            std::process::abort();
        }
    };
    encrypt_plain_reporting(&path, &KEY, die).await.unwrap();
}

#[tokio::test]
async fn a_plain_store_in_use_is_refused() {
    let folder = kit::folder();
    let path = plain_store(folder.path());
    let daemon = Connection::open(&path).unwrap();
    let count = || daemon.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    assert_eq!(count(), Ok(2000));
    assert!(matches!(encrypt_plain(&path, &KEY).await, Err(EncryptError::InUse)));
    assert_eq!(count(), Ok(2000));
    drop(daemon);
    encrypt_plain(&path, &KEY).await.unwrap();
    assert_whole(&path).await;
}
