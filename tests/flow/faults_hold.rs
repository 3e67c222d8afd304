//! One daemon per PostgreSQL database, also when the connection that says so is lost.

use std::process::{Command, Stdio};

use api::CreateRepoRequest;
use tests::Host;

use crate::gateway_wire::{psql, until};

const HOLDERS: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted \
                       AND (CAST(classid AS BIGINT) << 32 | CAST(objid AS BIGINT)) = 7083771718 \
                       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

fn host(url: &str, key: &str) -> Host {
    Host::builder().set("store.url", url).variable("PALISADE_MASTER_KEY", key).start()
}

/// AUT-15: the lock is taken again when its connection dies, and a second daemon is refused as before.
#[test]
fn aut_15_a_lost_hold_is_taken_again() {
    let (url, key) = (tests::database(), tests::master_key());
    let host = host(&url, &key);
    let bo = host.user("bo", "member");
    for round in 0..3 {
        let before = psql(&url, HOLDERS);
        assert!(!before.is_empty());
        psql(&url, &format!("SELECT pg_terminate_backend({before})"));
        until("the database is held again", || {
            let now = psql(&url, HOLDERS);
            !now.is_empty() && now != before
        });
        until("and ready", || host.anonymous().ready().unwrap().status == "ok");
        drop(host.repo(&format!("r-{round}")));
    }
    let mut second = Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &key).stopped();
    let said = second.start_daemon().unwrap_err();
    assert!(said.contains("another daemon uses this database"), "{said}");
    host.owner().client.disable_user(&bo.id).unwrap();
    assert_eq!(bo.client.whoami().unwrap_err().status(), Some(401));
}

/// AUT-15: what was changed behind the daemon's back while nobody held the database is seen afterwards.
#[test]
fn aut_15_what_is_remembered_ends_with_the_hold() {
    let (url, key) = (tests::database(), tests::master_key());
    let host = host(&url, &key);
    let bo = host.user("bo", "member");
    assert!(bo.client.whoami().is_ok(), "the gate remembers them");
    psql(&url, &format!("UPDATE users SET enabled = 0, version = version + 1 WHERE id = '{}'", bo.id));
    let holder = psql(&url, HOLDERS);
    psql(&url, &format!("SELECT pg_terminate_backend({holder})"));
    until("the change is seen", || bo.client.whoami().is_err());
}

/// AUT-15: if somebody else took the database, nothing more is written, and the daemon ends and says why.
#[test]
fn aut_15_a_daemon_that_lost_its_database_to_another_ends() {
    let (url, key) = (tests::database(), tests::master_key());
    let mut host = host(&url, &key);
    let pid = psql(&url, HOLDERS);
    let other = format!(
        "SELECT pg_terminate_backend({pid}); SELECT pg_advisory_lock(7083771718); SELECT pg_sleep(600)"
    );
    let mut other = Command::new("psql")
        .args(["-XqAt", "-d", &url, "-c", &other])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("somebody else has it", || {
        let now = psql(&url, HOLDERS);
        !now.is_empty() && now != pid
    });
    let count = psql(&url, "SELECT count(*) FROM repos");
    let body = CreateRepoRequest {
        name: "late".into(),
        origin: "https://forge.example/a/b".into(),
        ..Default::default()
    };
    assert!(host.owner().client.create_repo(&body).is_err());
    assert_eq!(psql(&url, "SELECT count(*) FROM repos"), count, "nothing is written any more");
    until("it ends", || host.anonymous().ready().is_err());
    until("it says why", || host.log().contains("another daemon uses the database now"));
    other.kill().unwrap();
    other.wait().unwrap();
    psql(
        &url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()",
    );
    host.kill();
    host.start_daemon().unwrap();
}

/// AUT-15: what works on the store while no daemon does takes the database too.
#[test]
fn aut_15_offline_commands_are_refused_while_a_daemon_has_the_database() {
    let (url, key) = (tests::database(), tests::master_key());
    let host = host(&url, &key);
    let other = Host::builder().stopped();
    let setting = format!("store.url={url}");
    let mut command = other.command("palisaded");
    command.env("PALISADE_MASTER_KEY", &key).args(["--set", &setting, "migrate-store"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("another daemon uses this database"), "{said}");
    assert!(host.owner().client.whoami().is_ok());
}
