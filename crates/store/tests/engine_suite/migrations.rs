//! Upgrades are explicit.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use store::engine::{Engine, MigrateError, Migration};

use crate::kit::{self, Place};

const ONE: Migration = Migration {
    number: 1,
    name: "people",
    sql: "CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT NOT NULL); CREATE INDEX by_name ON people (name)",
};
const TWO: Migration = Migration {
    number: 2,
    name: "ages",
    sql: "ALTER TABLE people ADD COLUMN age BIGINT; UPDATE people SET age = 1",
};
const THREE: Migration =
    Migration { number: 3, name: "pets", sql: "CREATE TABLE pets (id BIGINT PRIMARY KEY)" };
const BROKEN: Migration = Migration {
    number: 3,
    name: "pets",
    sql: "CREATE TABLE pets (id BIGINT PRIMARY KEY); SELECT nothing FROM nowhere",
};
/// Takes long enough to be killed in the middle.
const SLOW: Migration = Migration {
    number: 2,
    name: "slow",
    sql: "CREATE TABLE many (id BIGINT PRIMARY KEY);
          WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000000)
          INSERT INTO many SELECT i FROM n",
};

async fn applied(engine: &Engine) -> Vec<i64> {
    let rows = engine.rows("SELECT number FROM migrations ORDER BY number", &[]).await.unwrap();
    rows.iter().map(|row| row.int(0).unwrap()).collect()
}

#[tokio::test]
async fn aut_18_a_fresh_store_is_made_and_a_current_one_is_left_alone() {
    for store in kit::both().await {
        assert_eq!(store.engine.pending(&[ONE, TWO]).await.unwrap().len(), 2);
        store.engine.ready(&[ONE, TWO], 123).await.unwrap();
        store.engine.ready(&[ONE, TWO], 456).await.unwrap();
        assert!(store.engine.pending(&[ONE, TWO]).await.unwrap().is_empty());
        let rows =
            store.engine.rows("SELECT number, name, at FROM migrations ORDER BY number", &[]).await.unwrap();
        let seen: Vec<_> =
            rows.iter().map(|row| (row.int(0).unwrap(), row.text(1).unwrap(), row.int(2).unwrap())).collect();
        assert_eq!(seen, [(1, "people", 123), (2, "ages", 123)]);
    }
}

#[tokio::test]
async fn aut_18_a_pending_migration_is_refused_until_asked_for() {
    for store in kit::both().await {
        store.engine.ready(&[ONE], 0).await.unwrap();
        let mut tx = store.engine.write().await.unwrap();
        tx.exec("INSERT INTO people (id, name) VALUES (1, 'ana')", &[]).await.unwrap();
        tx.commit().await.unwrap();
        // Prepared for the old table, to be forgotten.
        assert_eq!(store.engine.rows("SELECT * FROM people", &[]).await.unwrap()[0].width(), 2);

        let error = store.engine.ready(&[ONE, TWO, THREE], 0).await.unwrap_err();
        assert!(matches!(error, MigrateError::Pending { count: 2, number: 2, .. }), "{error:?}");
        assert!(error.to_string().contains("palisade backup migrate-store"), "{error}");
        assert_eq!(applied(&store.engine).await, [1]);

        assert_eq!(store.engine.migrate(&[ONE, TWO, THREE], 9).await.unwrap(), 2);
        assert_eq!(store.engine.migrate(&[ONE, TWO, THREE], 9).await.unwrap(), 0);
        store.engine.ready(&[ONE, TWO, THREE], 0).await.unwrap();
        let rows = store.engine.rows("SELECT * FROM people", &[]).await.unwrap();
        assert_eq!((rows[0].width(), rows[0].int(2)), (3, Ok(1)));
    }
}

#[tokio::test]
async fn aut_18_a_changed_skipped_or_newer_migration_is_refused() {
    for store in kit::both().await {
        store.engine.ready(&[ONE, THREE], 0).await.unwrap();
        let edited = Migration { sql: "CREATE TABLE people (id BIGINT PRIMARY KEY)", ..ONE };
        for history in [&[edited, THREE][..], &[ONE], &[ONE, TWO, THREE], &[THREE, ONE]] {
            let (ready, migrate) =
                (store.engine.ready(history, 0).await, store.engine.migrate(history, 0).await);
            let pending = store.engine.pending(history).await.map(|pending| pending.len());
            let errors = [ready.unwrap_err(), migrate.map(drop).unwrap_err(), pending.map(drop).unwrap_err()];
            for error in errors {
                let expected = match history {
                    [edited, _] if edited.sql.len() < ONE.sql.len() && edited.number == 1 => {
                        matches!(error, MigrateError::Changed { number: 1, .. })
                    }
                    [_] => matches!(error, MigrateError::Newer { number: 3, .. }),
                    [_, _, _] => matches!(error, MigrateError::Skipped { number: 2, .. }),
                    _ => matches!(error, MigrateError::Disorder(1)),
                };
                assert!(expected, "{error:?}");
            }
        }
        assert_eq!(applied(&store.engine).await, [1, 3]);
    }
}

#[tokio::test]
async fn aut_18_a_migration_that_fails_leaves_nothing_behind() {
    for store in kit::both().await {
        store.engine.ready(&[ONE], 0).await.unwrap();
        let error = store.engine.migrate(&[ONE, TWO, BROKEN], 0).await.unwrap_err();
        assert!(matches!(error, MigrateError::Step { number: 3, .. }), "{error:?}");
        assert_eq!(applied(&store.engine).await, [1, 2]);
        assert!(store.engine.rows("SELECT * FROM pets", &[]).await.is_err());
        assert_eq!(store.engine.migrate(&[ONE, TWO, THREE], 0).await.unwrap(), 1);
    }
    for store in kit::both().await {
        // A first start is one transaction.
        assert!(store.engine.ready(&[ONE, TWO, BROKEN], 0).await.is_err());
        assert_eq!(store.engine.pending(&[ONE]).await.unwrap().len(), 1);
        store.engine.ready(&[ONE], 0).await.unwrap();
    }
}

#[test]
fn aut_18_a_migration_that_is_killed_rolls_back_and_can_be_done_again() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for store in runtime.block_on(kit::both()) {
        runtime.block_on(store.engine.ready(&[ONE], 0)).unwrap();
        let argument = match &store.place {
            Place::File(path) => path.clone(),
            Place::Url(url) => url.into(),
        };
        let mut child = kit::child("migrations::child_that_migrates", &argument);
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().ends_with("migrating")).unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(500)); // well inside; any moment would do
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "it ended before it was killed");
        runtime.block_on(async {
            let engine = store.place.open().await;
            assert_eq!(applied(&engine).await, [1]);
            assert!(engine.rows("SELECT * FROM many", &[]).await.is_err());
            assert_eq!(engine.migrate(&[ONE, TWO], 0).await.unwrap(), 1);
        });
    }
}

#[tokio::test]
async fn child_that_migrates() {
    let Some(argument) = kit::child_argument() else { return };
    let text = argument.to_str().unwrap().to_owned();
    let place = if text.starts_with("postgres:") { Place::Url(text) } else { Place::File(argument) };
    let engine = place.open().await;
    println!("migrating");
    engine.migrate(&[ONE, SLOW], 0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn aut_18_of_two_processes_that_migrate_at_once_one_wins() {
    for store in kit::both().await {
        store.engine.ready(&[ONE], 0).await.unwrap();
        let others = [store.place.open().await, store.place.open().await, store.place.open().await];
        let tasks =
            others.map(|engine| tokio::spawn(async move { engine.migrate(&[ONE, TWO, THREE], 0).await }));
        let mut done = 0;
        for task in tasks {
            done += task.await.unwrap().unwrap();
        }
        assert_eq!(done, 2);
        assert_eq!(applied(&store.engine).await, [1, 2, 3]);
    }
}

#[tokio::test]
async fn a_database_with_tables_of_somebody_else_is_refused() {
    for store in kit::both().await {
        let mut tx = store.engine.write().await.unwrap();
        tx.exec("CREATE TABLE guests (id BIGINT PRIMARY KEY)", &[]).await.unwrap();
        tx.commit().await.unwrap();
        assert!(matches!(store.engine.ready(&[ONE], 0).await, Err(MigrateError::Foreign)));
        assert!(matches!(store.engine.migrate(&[ONE], 0).await, Err(MigrateError::Foreign)));
    }
}
