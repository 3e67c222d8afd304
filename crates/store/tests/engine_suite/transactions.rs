//! Whole or not at all, one after the other, numbers in order.

use std::collections::BTreeSet;

use store::engine::{Engine, EngineError, Migration};
use tokio::task::JoinSet;

use crate::kit;

const HISTORY: [Migration; 1] = [Migration {
    number: 1,
    name: "notes",
    sql: "CREATE TABLE notes (seq BIGINT PRIMARY KEY, who BIGINT NOT NULL);
          CREATE TABLE totals (id BIGINT PRIMARY KEY, value BIGINT NOT NULL);
          INSERT INTO totals (id, value) VALUES (1, 0)",
}];

async fn count(engine: &Engine, sql: &'static str) -> i64 {
    engine.row(sql, &[]).await.unwrap().unwrap().int(0).unwrap()
}

#[tokio::test]
async fn a_transaction_that_is_dropped_never_happened() {
    for store in kit::both().await {
        store.engine.ready(&HISTORY, 0).await.unwrap();
        let insert = "INSERT INTO notes (seq, who) VALUES ($1, 1)";
        let mut tx = store.engine.write().await.unwrap();
        tx.exec(insert, &[1.into()]).await.unwrap();
        assert_eq!(tx.rows("SELECT seq FROM notes", &[]).await.unwrap().len(), 1);
        drop(tx);
        let mut tx = store.engine.write().await.unwrap();
        tx.exec(insert, &[2.into()]).await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(count(&store.engine, "SELECT count(*) FROM notes").await, 0);

        let mut tx = store.engine.write().await.unwrap();
        tx.exec(insert, &[3.into()]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(count(&store.engine, "SELECT min(seq) FROM notes").await, 3);
    }
}

#[tokio::test]
async fn a_transaction_that_failed_once_cannot_go_on_on_either_engine() {
    for store in kit::both().await {
        store.engine.ready(&HISTORY, 0).await.unwrap();
        let mut tx = store.engine.write().await.unwrap();
        tx.exec("INSERT INTO notes (seq, who) VALUES (1, 1)", &[]).await.unwrap();
        assert!(tx.exec("INSERT INTO notes (seq, who) VALUES (1, 1)", &[]).await.is_err());
        let again = tx.exec("INSERT INTO notes (seq, who) VALUES (2, 1)", &[]).await;
        assert!(matches!(again, Err(EngineError::Failed)));
        assert!(matches!(tx.commit().await, Err(EngineError::Failed)));
        assert_eq!(count(&store.engine, "SELECT count(*) FROM notes").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_writers_lose_no_update() {
    for store in kit::both().await {
        store.engine.ready(&HISTORY, 0).await.unwrap();
        let mut writers = JoinSet::new();
        for who in 0..64_i64 {
            let engine = store.engine.clone();
            writers.spawn(async move {
                for _ in 0..4 {
                    let mut tx = engine.write().await.unwrap();
                    tx.exec("UPDATE totals SET value = value + 1 WHERE id = 1", &[]).await.unwrap();
                    let seq = tx.next("notes").await.unwrap();
                    tx.exec("INSERT INTO notes (seq, who) VALUES ($1, $2)", &[seq.into(), who.into()])
                        .await
                        .unwrap();
                    tx.commit().await.unwrap();
                }
            });
        }
        writers.join_all().await;
        assert_eq!(count(&store.engine, "SELECT value FROM totals WHERE id = 1").await, 256);
        assert_eq!(count(&store.engine, "SELECT count(*) FROM notes").await, 256);
        assert_eq!(count(&store.engine, "SELECT max(seq) FROM notes").await, 256);
    }
}

/// A watcher who remembers the highest number seen never misses a lower one that comes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn numbers_have_no_gaps_and_appear_in_order_even_with_rollbacks() {
    for store in kit::both().await {
        store.engine.ready(&HISTORY, 0).await.unwrap();
        let mut writers = JoinSet::new();
        for who in 0..16_i64 {
            let engine = store.engine.clone();
            writers.spawn(async move {
                for round in 0..8_i64 {
                    let mut tx = engine.write().await.unwrap();
                    let seq = tx.next("notes").await.unwrap();
                    tx.exec("INSERT INTO notes (seq, who) VALUES ($1, $2)", &[seq.into(), who.into()])
                        .await
                        .unwrap();
                    match (who + round) % 4 {
                        0 => drop(tx),
                        1 => tx.rollback().await.unwrap(),
                        _ => tx.commit().await.unwrap(),
                    }
                }
            });
        }
        let mut seen = BTreeSet::new();
        while seen.len() < 64 {
            let last = seen.last().copied().unwrap_or(0_i64);
            let rows =
                store.engine.rows("SELECT seq FROM notes WHERE seq > $1 ORDER BY seq", &[last.into()]).await;
            seen.extend(rows.unwrap().iter().map(|row| row.int(0).unwrap()));
            assert_eq!(seen.len() as i64, seen.last().copied().unwrap_or(0), "a gap was visible");
            tokio::task::yield_now().await;
        }
        writers.join_all().await;
        assert_eq!(count(&store.engine, "SELECT max(seq) FROM notes").await, 64);
    }
}

#[tokio::test]
async fn readers_do_not_wait_for_a_writer() {
    for store in kit::both().await {
        store.engine.ready(&HISTORY, 0).await.unwrap();
        let mut tx = store.engine.write().await.unwrap();
        tx.exec("UPDATE totals SET value = 5", &[]).await.unwrap();
        assert_eq!(count(&store.engine, "SELECT value FROM totals").await, 0);
        tx.commit().await.unwrap();
        assert_eq!(count(&store.engine, "SELECT value FROM totals").await, 5);
    }
}

#[tokio::test]
async fn a_closed_store_says_it_is_gone() {
    for store in kit::both().await {
        store.engine.ready(&HISTORY, 0).await.unwrap();
        store.engine.ping().await.unwrap();
        store.engine.ping().await.unwrap();
        let other = store.engine.clone();
        store.engine.close().await.unwrap();
        assert!(matches!(other.rows("SELECT 1", &[]).await, Err(EngineError::Gone(_))));
        assert!(matches!(other.write().await, Err(EngineError::Gone(_))));
        assert!(matches!(other.ping().await, Err(EngineError::Gone(_))));
        assert_eq!(count(&store.place.open().await, "SELECT value FROM totals").await, 0);
    }
}
