//! Values, rows and errors of single statements.

use std::error::Error;

use store::engine::{Engine, EngineError, Value};

use crate::kit;

const TABLE: &str = "CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT UNIQUE, body BYTEA, amount BIGINT,
                     parent BIGINT REFERENCES things (id), CHECK (amount > 0))";
const INSERT: &str = "INSERT INTO things (id, name, body, amount) VALUES ($1, $2, $3, $4)";
const SELECT: &str = "SELECT id, name, body, amount FROM things WHERE id = $1";

async fn with_table(engine: &Engine) {
    let mut tx = engine.write().await.unwrap();
    tx.exec(TABLE, &[]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn insert(engine: &Engine, args: &[Value]) -> Result<u64, EngineError> {
    let mut tx = engine.write().await?;
    let count = tx.exec(INSERT, args).await?;
    tx.commit().await?;
    Ok(count)
}

#[tokio::test]
async fn values_come_back_as_they_went_in() {
    for store in kit::both().await {
        let mut tx = store.engine.write().await.unwrap();
        tx.exec("CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT, body BYTEA, amount BIGINT)", &[])
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let large: Vec<u8> = (0..1024 * 1024).map(|i: u32| i.wrapping_mul(2_654_435_761) as u8).collect();
        let cases: [[Value; 4]; 6] = [
            [1.into(), "plain".into(), b"bytes".as_slice().into(), 1.into()],
            [2.into(), Value::Null, Value::Null, Value::Null],
            [3.into(), "".into(), Vec::new().into(), i64::MAX.into()],
            [4.into(), "żółć 🦀 \u{200b}'\"\\%_;--".into(), vec![0, 255, 0].into(), true.into()],
            [i64::MIN.into(), "12".into(), b"34".as_slice().into(), Option::<i64>::None.into()],
            [5.into(), "x".repeat(1024 * 1024).into(), large.into(), 9.into()],
        ];
        for case in &cases {
            assert_eq!(insert(&store.engine, case).await.unwrap(), 1);
            let row = store.engine.row(SELECT, &case[..1]).await.unwrap().unwrap();
            assert!(row.values() == case, "{:?}: {row:?}", store.engine);
        }
        assert!(store.engine.row(SELECT, &[99.into()]).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn placeholders_mean_their_number_not_their_order() {
    for store in kit::both().await {
        let sql = "SELECT $2, $1, $2, CAST($3 AS BIGINT)";
        let row = store.engine.row(sql, &["a".into(), 2.into(), Value::Null]).await.unwrap().unwrap();
        assert!(row.values() == [2.into(), "a".into(), 2.into(), Value::Null]);
        for args in [&["a".into(), 2.into()][..], &["a".into(), 2.into(), Value::Null, 4.into()]] {
            assert!(store.engine.row(sql, args).await.is_err(), "wrong number of arguments");
        }
    }
}

#[tokio::test]
async fn both_engines_compare_text_alike() {
    for store in kit::both().await {
        let sql = "SELECT CASE WHEN 'a' = 'A' THEN 1 ELSE 0 END, CASE WHEN 'Abc' LIKE 'a%' THEN 1 ELSE 0 END, count(*)
                   FROM (SELECT 1) AS one";
        let row = store.engine.row(sql, &[]).await.unwrap().unwrap();
        assert_eq!((row.int(0), row.int(1), row.int(2)), (Ok(0), Ok(0), Ok(1)), "{:?}", store.engine);
    }
}

#[tokio::test]
async fn a_second_row_with_the_same_key_is_unique_and_names_the_columns() {
    for store in kit::both().await {
        with_table(&store.engine).await;
        let mut tx = store.engine.write().await.unwrap();
        tx.exec("CREATE TABLE pairs (a BIGINT, b TEXT, PRIMARY KEY (a, b))", &[]).await.unwrap();
        tx.exec("INSERT INTO pairs (a, b) VALUES (1, 'x')", &[]).await.unwrap();
        tx.commit().await.unwrap();
        insert(&store.engine, &[1.into(), "n".into(), Value::Null, Value::Null]).await.unwrap();

        for (args, expected) in [
            ([1.into(), "other".into(), Value::Null, Value::Null], "things.id"),
            ([2.into(), "n".into(), Value::Null, Value::Null], "things.name"),
        ] {
            let error = insert(&store.engine, &args).await.unwrap_err();
            assert!(matches!(&error, EngineError::Unique { what } if what == expected), "{error:?}");
        }
        let mut tx = store.engine.write().await.unwrap();
        let error = tx.exec("INSERT INTO pairs (a, b) VALUES (1, 'x')", &[]).await.unwrap_err();
        assert!(matches!(&error, EngineError::Unique { what } if what == "pairs.a, pairs.b"), "{error:?}");
    }
}

#[tokio::test]
async fn a_row_that_points_nowhere_is_a_reference_error() {
    for store in kit::both().await {
        with_table(&store.engine).await;
        let mut tx = store.engine.write().await.unwrap();
        let sql = "INSERT INTO things (id, parent) VALUES (1, 77)";
        assert!(matches!(tx.exec(sql, &[]).await, Err(EngineError::Reference)), "{:?}", store.engine);
    }
}

#[tokio::test]
async fn reading_cannot_write() {
    for store in kit::both().await {
        with_table(&store.engine).await;
        let sneaky = "WITH x AS (SELECT 1) INSERT INTO things (id) SELECT 1 FROM x";
        assert!(matches!(store.engine.rows("DELETE FROM things", &[]).await, Err(EngineError::Other(_))));
        if store.engine.kind() == store::engine::Kind::Sqlite {
            assert!(matches!(store.engine.rows(sneaky, &[]).await, Err(EngineError::Other(_))));
        }
    }
}

/// Everything an error says, to the last cause.
fn told(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (String::new(), Some(error));
    while let Some(error) = cause {
        text += &format!("{error} {error:?}\n");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn an_error_never_quotes_a_parameter() {
    const SECRET: &str = "hunter2hunter2";
    const NUMBER: i64 = -424_242_424_242;
    for store in kit::both().await {
        with_table(&store.engine).await;
        let row = [1.into(), SECRET.into(), SECRET.as_bytes().into(), 5.into()];
        insert(&store.engine, &row).await.unwrap();

        let mut errors = Vec::new();
        let mut second = row.clone();
        second[0] = 2.into();
        let nul: Value = format!("{SECRET}\0").into();
        for args in [
            &row[..],                                                // primary key
            &second,                                                 // unique
            &[3.into(), nul, Value::Null, Value::Null],              // not storable
            &[4.into(), Value::Null, Value::Null, NUMBER.into()],    // check
            &[Value::Null, SECRET.into(), Value::Null, Value::Null], // not null in PostgreSQL
            &[SECRET.into(), Value::Null, Value::Null, Value::Null], // wrong type
            &[5.into(), SECRET.as_bytes().into(), Value::Null, Value::Null],
            &[SECRET.into()], // too few
        ] {
            errors.extend(insert(&store.engine, args).await.err());
        }
        for sql in [
            "SELECT CAST(CAST($1 AS TEXT) AS BIGINT)",
            "SELECT no_such_column FROM things WHERE name = $1",
            "SELECT json_extract($1, '$.x')",
            "SELECT * FROM things WHERE name = $1 ORDER BY",
        ] {
            errors.extend(store.engine.rows(sql, &[SECRET.into()]).await.err());
        }
        assert!(errors.len() >= 8, "{}: {errors:?}", errors.len());
        for error in &errors {
            let told = told(error);
            let leaks = [SECRET, "424242", "hunter"].iter().any(|secret| told.contains(secret));
            assert!(!leaks, "{told}");
            assert!(!told.contains(&format!("{:?}", SECRET.as_bytes())), "{told}");
        }
        assert!(!format!("{row:?}").contains(SECRET));
    }
}
