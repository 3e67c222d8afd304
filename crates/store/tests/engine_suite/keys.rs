//! A wrong key harms nothing, and plain text is not taken for a store.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use store::engine::{Engine, OpenError};

use crate::kit::{self, KEY};

const WRONG: [u8; 32] = [8; 32];

/// Every file below `folder` with its bytes, mode and time of change.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, std::time::SystemTime)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let known = files.map(|path| {
        let about = fs::metadata(&path).unwrap();
        (path.clone(), (fs::read(&path).unwrap(), about.permissions().mode(), about.modified().unwrap()))
    });
    known.collect()
}

async fn with_rows(path: &Path) -> Engine {
    let engine = Engine::open_sqlite(path, &KEY).await.unwrap();
    let mut tx = engine.write().await.unwrap();
    tx.exec("CREATE TABLE t (id BIGINT PRIMARY KEY, body TEXT)", &[]).await.unwrap();
    for id in 0..50_i64 {
        tx.exec("INSERT INTO t VALUES ($1, $2)", &[id.into(), "needle in the store".into()]).await.unwrap();
    }
    tx.commit().await.unwrap();
    engine
}

async fn rows_under(path: &Path) -> usize {
    let engine = Engine::open_sqlite(path, &KEY).await.unwrap();
    let rows = engine.rows("SELECT id FROM t", &[]).await.unwrap().len();
    engine.close().await.unwrap();
    rows
}

async fn refuse_wrong_key(path: &Path) {
    let before = contents(path.parent().unwrap());
    for _ in 0..2 {
        let error = Engine::open_sqlite(path, &WRONG).await.unwrap_err();
        assert!(matches!(error, OpenError::WrongKey(_)), "{error:?}");
    }
    assert!(contents(path.parent().unwrap()) == before, "a wrong key changed something");
}

#[tokio::test]
async fn sec_03_a_wrong_key_changes_no_byte_of_a_closed_store() {
    let folder = kit::folder();
    let path = folder.path().join("store.db");
    with_rows(&path).await.close().await.unwrap();
    refuse_wrong_key(&path).await;
    assert_eq!(rows_under(&path).await, 50);
}

#[tokio::test]
async fn sec_03_a_wrong_key_changes_no_byte_of_a_store_in_use() {
    let folder = kit::folder();
    let path = folder.path().join("store.db");
    let engine = with_rows(&path).await;
    assert!(contents(folder.path()).len() == 3, "database, log and index");
    refuse_wrong_key(&path).await;
    assert_eq!(engine.rows("SELECT id FROM t", &[]).await.unwrap().len(), 50);
}

/// What a crash leaves: the rows are only in the log.
fn crashed_copy(path: &Path, into: &Path) -> PathBuf {
    let copy = into.join("crashed.db");
    for suffix in ["", "-wal"] {
        let with = |base: &Path| PathBuf::from(format!("{}{suffix}", base.display()));
        fs::copy(with(path), with(&copy)).unwrap();
    }
    copy
}

#[tokio::test]
async fn sec_03_a_wrong_key_changes_no_byte_after_a_crash() {
    let (folder, other) = (kit::folder(), kit::folder());
    let engine = with_rows(&folder.path().join("store.db")).await;
    let path = crashed_copy(&folder.path().join("store.db"), other.path());
    refuse_wrong_key(&path).await;
    assert_eq!(rows_under(&path).await, 50, "the right key recovers the log");
    drop(engine);
}

#[tokio::test]
async fn sec_03_the_right_key_is_known_even_if_the_first_page_was_torn_by_a_crash() {
    let (folder, other) = (kit::folder(), kit::folder());
    let engine = with_rows(&folder.path().join("store.db")).await;
    let path = crashed_copy(&folder.path().join("store.db"), other.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[2048..4096].fill(0); // the log has page 1 whole
    fs::write(&path, bytes).unwrap();
    refuse_wrong_key(&path).await;
    assert_eq!(rows_under(&path).await, 50);
    drop(engine);
}

#[tokio::test]
async fn sec_03_no_byte_of_a_row_is_readable_on_the_disk() {
    let folder = kit::folder();
    let engine = with_rows(&folder.path().join("store.db")).await;
    for (path, (bytes, mode, _)) in contents(folder.path()) {
        assert!(!bytes.windows(6).any(|window| window == b"needle"), "{path:?}");
        assert!(!bytes.starts_with(b"SQLite format 3"), "{path:?}");
        assert_eq!(mode & 0o777, 0o600, "{path:?}");
    }
    drop(engine);
}

#[tokio::test]
async fn sec_03_a_planted_plain_store_is_refused_and_the_way_out_is_named() {
    let folder = kit::folder();
    let path = folder.path().join("store.db");
    let plain = rusqlite::Connection::open(&path).unwrap();
    plain.execute_batch("CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    drop(plain);
    let before = contents(folder.path());
    let error = Engine::open_sqlite(&path, &KEY).await.unwrap_err();
    assert!(matches!(error, OpenError::PlainText(_)), "{error:?}");
    assert!(error.to_string().contains("palisade backup encrypt-store"), "{error}");
    assert!(contents(folder.path()) == before);
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_left_alone() {
    let short = b"hello, I am a diary".to_vec();
    let noise: Vec<u8> = (0..40_960_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    let odd = noise[..5000].to_vec();
    for bytes in [Vec::new(), short, noise, odd] {
        let folder = kit::folder();
        let path = folder.path().join("store.db");
        fs::write(&path, &bytes).unwrap();
        let before = contents(folder.path());
        let error = Engine::open_sqlite(&path, &KEY).await.unwrap_err();
        assert!(matches!(error, OpenError::NotAStore(_) | OpenError::WrongKey(_)), "{error:?}");
        assert!(contents(folder.path()) == before);
    }
}

#[tokio::test]
async fn a_log_without_its_database_is_not_thrown_away() {
    let (folder, other) = (kit::folder(), kit::folder());
    let engine = with_rows(&folder.path().join("store.db")).await;
    let path = crashed_copy(&folder.path().join("store.db"), other.path());
    fs::remove_file(&path).unwrap();
    let before = contents(other.path());
    assert!(matches!(Engine::open_sqlite(&path, &KEY).await, Err(OpenError::NotAStore(_))));
    assert!(contents(other.path()) == before);
    drop(engine);
}

#[tokio::test]
async fn sec_02_a_directory_open_to_others_is_refused() {
    let folder = kit::folder();
    let wide = folder.path().join("wide");
    fs::create_dir(&wide).unwrap();
    fs::set_permissions(&wide, fs::Permissions::from_mode(0o750)).unwrap();
    let error = Engine::open_sqlite(&wide.join("store.db"), &KEY).await.unwrap_err();
    assert!(matches!(error, OpenError::OpenDirectory { mode: 0o750, .. }), "{error:?}");
    assert_eq!(fs::read_dir(&wide).unwrap().count(), 0);

    let made = folder.path().join("a/b");
    Engine::open_sqlite(&made.join("store.db"), &KEY).await.unwrap().close().await.unwrap();
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(contents(&made).len(), 1, "a closed store is one file");
}

#[tokio::test]
async fn a_link_in_place_of_the_store_is_refused() {
    let (folder, other) = (kit::folder(), kit::folder());
    with_rows(&other.path().join("store.db")).await.close().await.unwrap();
    let path = folder.path().join("store.db");
    std::os::unix::fs::symlink(other.path().join("store.db"), &path).unwrap();
    assert!(matches!(Engine::open_sqlite(&path, &KEY).await, Err(OpenError::NotAStore(_))));
}

/// A child, because what is looked at is the process' own error stream.
#[test]
fn sec_03_a_wrong_key_prints_nothing() {
    let folder = kit::folder();
    let path = folder.path().join("store.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { with_rows(&path).await.close().await.unwrap() });
    let output = kit::child("keys::child_with_a_wrong_key", &path).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[tokio::test]
async fn child_with_a_wrong_key() {
    if let Some(path) = kit::child_argument() {
        assert!(matches!(Engine::open_sqlite(&path, &WRONG).await, Err(OpenError::WrongKey(_))));
    }
}
