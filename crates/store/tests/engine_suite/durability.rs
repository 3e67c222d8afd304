//! What was acknowledged survives the death of the process.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use store::engine::Engine;

use crate::kit::{self, KEY};

#[test]
fn aut_18_every_acknowledged_row_is_there_after_kill_9() {
    let folder = kit::folder();
    let path = folder.path().join("store.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut expected = Vec::new();
    for round in 0..3_i64 {
        let mut child = kit::child("durability::child_writer", &path);
        child.env("PALISADE_FROM", (round * 1_000_000).to_string());
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged =
            lines.filter_map(|line| line.unwrap().strip_prefix("ack ")?.parse::<i64>().ok());
        expected.extend(acknowledged.by_ref().take(100));
        child.kill().unwrap();
        expected.extend(acknowledged); // what it still got out before it died
        child.wait().unwrap();

        runtime.block_on(async {
            let engine = Engine::open_sqlite(&path, &KEY).await.unwrap();
            let rows = engine.rows("SELECT id FROM t", &[]).await.unwrap();
            let ids: std::collections::BTreeSet<_> = rows.iter().map(|row| row.int(0).unwrap()).collect();
            let lost: Vec<_> = expected.iter().filter(|id| !ids.contains(id)).collect();
            assert!(expected.len() as i64 >= 100 * (round + 1) && lost.is_empty(), "lost {lost:?}");
            let check = engine.rows("SELECT integrity_check FROM pragma_integrity_check", &[]).await.unwrap();
            assert_eq!(check[0].text(0), Ok("ok"));
            // Not closed: the next round finds the log as it is.
            drop(engine);
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn child_writer() {
    let Some(path) = kit::child_argument() else { return };
    let from: i64 = std::env::var("PALISADE_FROM").unwrap().parse().unwrap();
    let engine = Engine::open_sqlite(&path, &KEY).await.unwrap();
    let mut tx = engine.write().await.unwrap();
    tx.exec("CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY, body BYTEA)", &[]).await.unwrap();
    tx.commit().await.unwrap();
    for id in from..from + 1_000_000 {
        let mut tx = engine.write().await.unwrap();
        tx.exec("INSERT INTO t VALUES ($1, $2)", &[id.into(), vec![1; 2000].into()]).await.unwrap();
        tx.commit().await.unwrap();
        println!("ack {id}");
    }
}
