//! A full disk refuses writes, serves reads, and needs no repair.

use std::fs;
use std::path::Path;
use std::process::Command;

use store::engine::{Engine, EngineError};

use crate::kit::{self, KEY};

/// Runs one of the children below in a mount namespace of its own, so that nothing stays mounted; as an ordinary
/// user also in a user namespace.
fn apart(child: &str) {
    let folder = kit::folder();
    let inside = kit::child(child, folder.path());
    let mut outside = Command::new("unshare");
    outside.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        outside.args(["--user", "--map-root-user"]);
    }
    let run = outside.arg("--").arg(inside.get_program()).args(inside.get_args());
    let output = run.env("PALISADE_CHILD", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// A store with one table on a disk of 16 MiB.
async fn on_a_small_disk(folder: &Path) -> Engine {
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m,mode=700", "none"]).arg(folder).status();
    assert!(mount.unwrap().success());
    let engine = Engine::open_sqlite(&folder.join("store.db"), &KEY).await.unwrap();
    let mut tx = engine.write().await.unwrap();
    tx.exec("CREATE TABLE t (id BIGINT PRIMARY KEY, body BYTEA)", &[]).await.unwrap();
    tx.commit().await.unwrap();
    engine
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    apart("full_disk::child_on_a_small_disk");
}

async fn insert(engine: &Engine, size: usize) -> Result<(), EngineError> {
    let mut tx = engine.write().await?;
    let seq = tx.row("SELECT coalesce(max(id), 0) + 1 FROM t", &[]).await?.unwrap().int(0)?;
    tx.exec("INSERT INTO t VALUES ($1, $2)", &[seq.into(), vec![1; size].into()]).await?;
    tx.commit().await
}

async fn rows(engine: &Engine) -> i64 {
    engine.row("SELECT count(*) FROM t", &[]).await.unwrap().unwrap().int(0).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn child_on_a_small_disk() {
    let Some(folder) = kit::child_argument() else { return };
    let engine = on_a_small_disk(&folder).await;
    engine.ping().await.unwrap();
    fs::write(folder.join("ballast"), vec![0; 8 << 20]).unwrap();

    let mut acknowledged = 0;
    let error = loop {
        match insert(&engine, 64 * 1024).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "the disk never filled");
    };
    assert!(matches!(error, EngineError::Full), "{error:?}");
    for _ in 0..5 {
        assert!(matches!(insert(&engine, 64 * 1024).await, Err(EngineError::Full)));
        assert!(matches!(engine.ping().await, Err(EngineError::Full)));
        assert_eq!(rows(&engine).await, acknowledged);
    }

    fs::remove_file(folder.join("ballast")).unwrap();
    engine.ping().await.unwrap();
    for _ in 0..10 {
        insert(&engine, 64 * 1024).await.unwrap();
    }
    assert_eq!(rows(&engine).await, acknowledged + 10);
    let check = engine.rows("SELECT integrity_check FROM pragma_integrity_check", &[]).await.unwrap();
    assert_eq!(check[0].text(0), Ok("ok"));
    engine.close().await.unwrap();

    let engine = Engine::open_sqlite(&folder.join("store.db"), &KEY).await.unwrap();
    assert_eq!(rows(&engine).await, acknowledged + 10);
}

/// LED-02: room that was kept back is not given to whatever fills the disk, however greedy.
#[test]
fn led_02_room_for_narrowing_is_not_taken_by_others() {
    apart("full_disk::child_beside_a_greedy_neighbour");
}

#[tokio::test(flavor = "multi_thread")]
async fn child_beside_a_greedy_neighbour() {
    let Some(folder) = kit::child_argument() else { return };
    let engine = on_a_small_disk(&folder).await;
    engine.restock();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (full, filled) = std::sync::mpsc::sync_channel(1);
    let greedy = std::thread::spawn({
        let (stop, file) = (stop.clone(), fs::File::create(folder.join("filler")).unwrap());
        move || {
            let piece = [0u8; 4096];
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                if std::io::Write::write_all(&mut &file, &piece).is_err() {
                    let _ = full.try_send(()); // once is enough
                }
            }
        }
    });
    filled.recv().unwrap();
    for number in 0..40 {
        engine.make_room();
        insert(&engine, 8 * 1024).await.unwrap_or_else(|error| panic!("act {number}: {error}"));
        assert!(engine.is_tight(), "what widens is not written");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    greedy.join().unwrap();
    fs::remove_file(folder.join("filler")).unwrap();
    engine.restock();
    assert!(!engine.is_tight(), "and the room is kept back again");
    assert_eq!(fs::metadata(folder.join("room")).unwrap().len(), 4 << 20);
    assert_eq!(rows(&engine).await, 40);
}
