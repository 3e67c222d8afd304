//! A backup is one moment of the whole store, and restores equal on either engine.

use super::{DumpError, RestoreError};
use crate::engine::{Engine, EngineError, Kind, MigrateError, Migration, Value};

#[path = "../../tests/kit/mod.rs"]
#[expect(dead_code, reason = "the engines' own tests use more of it")]
pub(crate) mod kit;

/// Tables whose names come before what they point at, a self-reference, a cycle, and a seeded row.
const HISTORY: [Migration; 2] = [
    Migration {
        number: 1,
        name: "first",
        sql: "CREATE TABLE teams (id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE);
              CREATE TABLE agents (id TEXT, part BIGINT, team BIGINT REFERENCES teams (id), body BYTEA,
                                   boss TEXT, boss_part BIGINT, PRIMARY KEY (id, part),
                                   FOREIGN KEY (boss, boss_part) REFERENCES agents (id, part));
              INSERT INTO teams (id, name) VALUES (1, 'seed')",
    },
    Migration { number: 2, name: "second", sql: "ALTER TABLE teams ADD COLUMN note TEXT" },
];
const LATER: Migration =
    Migration { number: 3, name: "third", sql: "ALTER TABLE teams ADD COLUMN more BIGINT" };

/// Names that sort differently in bytes and in a language.
const NAMES: [&str; 8] = ["a", "B", "b", "Z", "ä", "_", "żółć 🦀", "1"];

async fn fill(engine: &Engine, agents: i64) {
    engine.ready(&HISTORY, 42).await.unwrap();
    let mut tx = engine.write().await.unwrap();
    tx.exec("UPDATE teams SET name = 'changed', note = '' WHERE id = 1", &[]).await.unwrap();
    tx.exec("INSERT INTO teams (id, name) VALUES ($1, $2)", &[i64::MIN.into(), "".into()]).await.unwrap();
    for index in 0..agents {
        let name = format!("{}{}", NAMES[index as usize % NAMES.len()], index / 50);
        let body = (index % 3 > 0).then(|| vec![index as u8; index as usize % 40]);
        let args = [name.as_str().into(), index.into(), 1.into(), body.into()];
        tx.exec("INSERT INTO agents (id, part, team, body) VALUES ($1, $2, $3, $4)", &args).await.unwrap();
    }
    let boss = "UPDATE agents SET boss = 'a0', boss_part = 0 WHERE part % 2 = 0";
    tx.exec(boss, &[]).await.unwrap();
    tx.next("agents").await.unwrap();
    tx.commit().await.unwrap();
}

async fn dump(engine: &Engine) -> Vec<u8> {
    let mut bytes = Vec::new();
    engine.dump(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn aut_17_a_backup_restores_equal_on_the_same_and_on_the_other_engine() {
    let mut dumps = Vec::new();
    for store in kit::both().await {
        fill(&store.engine, 700).await;
        let bytes = dump(&store.engine).await;
        for target in kit::both().await {
            let rows = target.engine.restore(&mut &bytes[..], &HISTORY).await.unwrap();
            assert_eq!(rows, 700 + 2 + 2 + 1, "agents, teams, migrations, counters");
            assert!(dump(&target.engine).await == bytes, "{:?} -> {:?}", store.engine, target.engine);
            target.engine.ready(&HISTORY, 0).await.unwrap();
            // It works on: references are enforced again, numbers go on.
            let mut tx = target.engine.write().await.unwrap();
            assert_eq!(tx.next("agents").await.unwrap(), 2);
            assert!(tx.exec("INSERT INTO agents (id, part, team) VALUES ('x', 1, 99)", &[]).await.is_err());
        }
        dumps.push(bytes);
    }
    assert!(dumps[0] == dumps[1], "equal stores give equal bytes");
}

#[tokio::test]
async fn aut_17_a_backup_of_an_older_version_restores_and_then_migrates() {
    for store in kit::both().await {
        fill(&store.engine, 10).await;
        let bytes = dump(&store.engine).await;
        for target in kit::both().await {
            let longer = [HISTORY[0], HISTORY[1], LATER];
            target.engine.restore(&mut &bytes[..], &longer).await.unwrap();
            assert_eq!(target.engine.migrate(&longer, 0).await.unwrap(), 1);
        }
        let target = kit::sqlite().await;
        let error = target.engine.restore(&mut &bytes[..], &HISTORY[..1]).await.unwrap_err();
        assert!(matches!(error, RestoreError::History(MigrateError::Newer { number: 2, .. })), "{error:?}");
    }
}

#[tokio::test]
async fn aut_17_a_store_that_is_not_empty_is_not_restored_into() {
    for store in kit::both().await {
        fill(&store.engine, 3).await;
        let bytes = dump(&store.engine).await;
        let error = store.engine.restore(&mut &bytes[..], &HISTORY).await.unwrap_err();
        assert!(matches!(error, RestoreError::NotEmpty), "{error:?}");
        assert!(dump(&store.engine).await == bytes);
    }
}

#[tokio::test]
async fn aut_17_a_cut_or_lengthened_backup_restores_nothing() {
    for store in kit::both().await {
        fill(&store.engine, 5).await;
        let bytes = dump(&store.engine).await;
        let mut longer = bytes.clone();
        longer.push(0);
        let target = match store.engine.kind() {
            Kind::Sqlite => kit::sqlite().await,
            Kind::Postgres => kit::postgres().await,
        };
        let ends = (0..bytes.len()).step_by(bytes.len() / 12).chain([bytes.len() - 1]);
        for bad in
            ends.map(|end| bytes[..end].to_vec()).chain([longer, b"not a backup at all, sorry".to_vec()])
        {
            let error = target.engine.restore(&mut &bad[..], &HISTORY).await.unwrap_err();
            assert!(matches!(error, RestoreError::Damaged(_)), "{error:?}");
        }
        target.engine.restore(&mut &bytes[..], &HISTORY).await.unwrap();
        assert!(dump(&target.engine).await == bytes);
    }
}

/// Every transaction adds one row to each of two tables; a backup that mixed moments would show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn aut_17_a_backup_during_load_is_one_moment() {
    for store in kit::both().await {
        fill(&store.engine, 300).await;
        let engine = store.engine.clone();
        let load = tokio::spawn(async move {
            for id in 1000..1_000_000_i64 {
                let mut tx = engine.write().await?;
                tx.exec(
                    "INSERT INTO teams (id, name) VALUES ($1, $2)",
                    &[id.into(), format!("t{id}").into()],
                )
                .await?;
                let args: [Value; 2] = ["load".into(), id.into()];
                tx.exec("INSERT INTO agents (id, part) VALUES ($1, $2)", &args).await?;
                tx.commit().await?;
            }
            Ok::<_, EngineError>(())
        });
        let mut last = -1;
        for _ in 0..6 {
            let bytes = dump(&store.engine).await;
            let target = kit::sqlite().await;
            target.engine.restore(&mut &bytes[..], &HISTORY).await.unwrap();
            let sql = "SELECT (SELECT count(*) FROM teams WHERE id >= 1000), (SELECT count(*) FROM agents WHERE id = 'load')";
            let row = target.engine.row(sql, &[]).await.unwrap().unwrap();
            assert_eq!(row.int(0), row.int(1));
            assert!(row.int(0).unwrap() > last, "the load goes on during backups");
            last = row.int(0).unwrap();
        }
        load.abort();
        let _ = load.await;
    }
}

#[tokio::test]
async fn aut_17_a_row_without_a_key_is_an_error_and_not_left_out() {
    let store = kit::sqlite().await;
    fill(&store.engine, 3).await;
    let mut tx = store.engine.write().await.unwrap();
    tx.exec("INSERT INTO agents (id, part) VALUES ('no part', $1)", &[Value::Null]).await.unwrap();
    tx.commit().await.unwrap();
    let error = store.engine.dump(&mut Vec::new()).await.unwrap_err();
    assert!(matches!(&error, DumpError::NoKey(table) if table == "agents"), "{error:?}");
}
