//! What only a server can do to us: refuse, vanish, hang, be read-only, show a certificate.

use std::time::Instant;

use store::engine::{Engine, EngineError, Hold, OpenError};

use crate::kit::{self, Server, database_of};

fn over_tcp(place: &kit::Place, host: &str, query: &str) -> String {
    format!("postgres://palisade:swordfish@{host}:{}/{}?{query}", Server::shared().port(), database_of(place))
}

async fn uses_tls(engine: &Engine) -> bool {
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    engine.row(sql, &[]).await.unwrap().unwrap().flag(0).unwrap()
}

#[tokio::test]
async fn tls_is_used_and_the_certificate_verified() {
    let store = kit::postgres().await;
    let trusted = format!("sslrootcert={}", Server::shared().authority().display());
    for mode in ["verify-full", "require"] {
        let url = over_tcp(&store.place, "localhost", &format!("sslmode={mode}&{trusted}"));
        let engine = Engine::open_postgres(&url).await.unwrap();
        assert!(uses_tls(&engine).await);
        // The system's authorities did not sign it.
        let url = over_tcp(&store.place, "localhost", &format!("sslmode={mode}"));
        let error = Engine::open_postgres(&url).await.unwrap_err();
        assert!(matches!(error, OpenError::Unreachable(_) | OpenError::NoRoots(_)), "{error:?}");
        assert!(!format!("{error:?}").contains("swordfish"));
        // Right authority, wrong name.
        let url =
            over_tcp(&store.place, "wrong.example", &format!("hostaddr=127.0.0.1&sslmode={mode}&{trusted}"));
        assert!(matches!(Engine::open_postgres(&url).await, Err(OpenError::Unreachable(_))));
    }
    let url = over_tcp(&store.place, "127.0.0.1", "");
    assert!(!uses_tls(&Engine::open_postgres(&url).await.unwrap()).await, "loopback needs none");
}

#[tokio::test]
async fn a_refusal_says_so_without_the_password() {
    let store = kit::postgres().await;
    let url = over_tcp(&store.place, "127.0.0.1", "");
    for bad in [url.replace("/store_", "/nothere_"), url.replace("palisade:", "stranger:")] {
        let error = Engine::open_postgres(&bad).await.unwrap_err();
        assert!(matches!(error, OpenError::Refused(_)), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("swordfish"));
    }
    let started = Instant::now();
    let error = Engine::open_postgres("postgres://u:swordfish@127.0.0.1:9/db").await.unwrap_err();
    assert!(matches!(error, OpenError::Unreachable(_)), "{error:?}");
    assert!(started.elapsed().as_secs() < 20 && !format!("{error:?}").contains("swordfish"));
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused() {
    let store = kit::postgres().await;
    let sql = "CREATE DATABASE latin TEMPLATE template0 ENCODING LATIN1 LOCALE 'C' LOCALE_PROVIDER libc OWNER palisade";
    Server::shared().sql("postgres", sql);
    let url = over_tcp(&store.place, "127.0.0.1", "").replace(database_of(&store.place), "latin");
    assert!(matches!(Engine::open_postgres(&url).await, Err(OpenError::Encoding(name)) if name == "LATIN1"));
}

#[tokio::test]
async fn a_lost_connection_is_gone_and_the_next_call_has_a_new_one() {
    let store = kit::postgres().await;
    let mut tx = store.engine.write().await.unwrap();
    tx.exec("CREATE TABLE t (id BIGINT PRIMARY KEY)", &[]).await.unwrap();
    let name = database_of(&store.place);
    let sql =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = ";
    Server::shared().sql("postgres", &format!("{sql}'{name}'"));
    let error = tx.exec("INSERT INTO t VALUES (1)", &[]).await.unwrap_err();
    assert!(matches!(error, EngineError::Gone(_)), "{error:?}");
    drop(tx);
    store.engine.ping().await.unwrap();
    assert!(store.engine.rows("SELECT * FROM t", &[]).await.is_err(), "the transaction was rolled back");
}

#[tokio::test]
async fn a_server_made_read_only_is_full_for_writes_and_fine_for_reads() {
    let store = kit::postgres().await;
    let name = database_of(&store.place);
    Server::shared()
        .sql("postgres", &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let engine = store.place.open().await;
    assert!(matches!(engine.ping().await, Err(EngineError::Full)));
    let mut tx = engine.write().await.unwrap();
    let error = tx.exec("CREATE TABLE t (id BIGINT PRIMARY KEY)", &[]).await.unwrap_err();
    assert!(matches!(error, EngineError::Full), "{error:?}");
    assert_eq!(engine.rows("SELECT 1", &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_row_somebody_holds_is_busy_after_a_deadline() {
    let store = kit::postgres().await;
    let mut tx = store.engine.write().await.unwrap();
    tx.exec("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)", &[]).await.unwrap();
    tx.exec("INSERT INTO t VALUES (1, 0)", &[]).await.unwrap();
    tx.commit().await.unwrap();
    let mut holder = store.engine.write().await.unwrap();
    holder.exec("UPDATE t SET n = 1", &[]).await.unwrap();
    let mut other = store.engine.write().await.unwrap();
    other.exec("SET LOCAL lock_timeout = '300ms'", &[]).await.unwrap();
    let error = other.exec("UPDATE t SET n = 2", &[]).await.unwrap_err();
    assert!(matches!(error, EngineError::Busy), "{error:?}");
    holder.commit().await.unwrap();
}

/// More waiters than connections: they queue, and none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_calls_do_not_spoil_the_pool() {
    let store = kit::postgres().await;
    for _ in 0..40 {
        let slow = store.engine.rows("SELECT CAST(pg_sleep(5) AS TEXT)", &[]);
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), slow).await.is_err());
    }
    let started = Instant::now();
    let row = store.engine.row("SELECT $1", &[5.into()]).await.unwrap().unwrap();
    assert_eq!(row.int(0), Ok(5));
    assert!(started.elapsed().as_secs() < 5);
}

/// Ends the connections of a database that run, or last ran, a statement like this.
fn terminate(place: &kit::Place, like: &str) {
    let sql = format!(
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND datname = '{}' AND query LIKE '{like}'",
        database_of(place)
    );
    assert_ne!(Server::shared().sql("postgres", &sql), "0");
}

/// A daemon that is started again finds the database held until the server has seen the end of the one before.
#[tokio::test]
async fn the_hold_of_a_daemon_that_just_ended_is_waited_for() {
    let store = kit::postgres().await;
    let other = store.place.open().await;
    assert!(other.hold().await.unwrap());
    let ending = async {
        let asked = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND query LIKE '%pg_try_advisory_lock%'",
            database_of(&store.place)
        );
        let deadline = Instant::now() + std::time::Duration::from_secs(10);
        while Server::shared().sql("postgres", &asked) != "2" {
            assert!(Instant::now() < deadline, "the second one asks as well");
            tokio::task::yield_now().await;
        }
        other.close().await.unwrap();
    };
    let (held, ()) = tokio::join!(store.engine.hold(), ending);
    assert!(held.unwrap());
}

/// AUT-15: a hold that is lost stops writes until it is taken again, and until somebody looked at what was found then;
/// another holder is noticed.
#[tokio::test]
async fn aut_15_a_lost_hold_stops_writes_until_it_is_taken_again() {
    let store = kit::postgres().await;
    let other = store.place.open().await;
    assert_eq!(store.engine.keep_hold().await.unwrap(), Hold::Kept, "nobody asked");
    assert!(store.engine.hold().await.unwrap());
    assert!(!other.hold().await.unwrap());
    assert_eq!(store.engine.keep_hold().await.unwrap(), Hold::Kept);
    for _ in 0..3 {
        terminate(&store.place, "%pg_try_advisory_lock%");
        let deadline = Instant::now() + std::time::Duration::from_secs(10);
        while store.engine.write().await.is_ok() {
            assert!(Instant::now() < deadline, "the end of the connection is noticed");
            tokio::task::yield_now().await;
        }
        assert!(matches!(store.engine.write().await, Err(EngineError::Gone(_))));
        assert!(store.engine.ping().await.is_err(), "and readiness says so");
        assert_eq!(store.engine.rows("SELECT 1", &[]).await.unwrap().len(), 1, "reads go on");
        for _ in 0..2 {
            assert_eq!(store.engine.keep_hold().await.unwrap(), Hold::Retaken);
            assert!(matches!(store.engine.write().await, Err(EngineError::Gone(_))), "nobody looked yet");
            assert!(!other.hold().await.unwrap(), "it is held all the same");
        }
        store.engine.confirm_hold();
        assert_eq!(store.engine.keep_hold().await.unwrap(), Hold::Kept);
        store.engine.write().await.unwrap().rollback().await.unwrap();
    }
    terminate(&store.place, "%pg_try_advisory_lock%");
    assert!(other.hold().await.unwrap());
    assert_eq!(store.engine.keep_hold().await.unwrap(), Hold::Taken);
    store.engine.confirm_hold();
    assert!(matches!(store.engine.write().await, Err(EngineError::Gone(_))));
    other.close().await.unwrap();
}

/// GTW-14: a connection that is lost during COMMIT leaves the outcome open, and the error says so.
#[tokio::test(flavor = "multi_thread")]
async fn gtw_14_a_connection_lost_during_commit_is_an_unknown_outcome() {
    let store = kit::postgres().await;
    let mut tx = store.engine.write().await.unwrap();
    tx.exec("CREATE TABLE t (id BIGINT PRIMARY KEY)", &[]).await.unwrap();
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(20); RETURN NULL; END'";
    tx.exec(slow, &[]).await.unwrap();
    let trigger = "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW \
                   EXECUTE FUNCTION slow()";
    tx.exec(trigger, &[]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.engine.write().await.unwrap();
    tx.exec("INSERT INTO t VALUES (1)", &[]).await.unwrap();
    let commit = tokio::spawn(tx.commit());
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND query = 'COMMIT' AND state = 'active'",
        database_of(&store.place)
    );
    while Server::shared().sql("postgres", &waiting) == "0" {}
    terminate(&store.place, "COMMIT");
    let error = commit.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::Unknown(_)), "{error:?}");
}
