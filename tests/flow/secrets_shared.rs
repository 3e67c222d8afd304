//! One ring per store: none is taken from another store, and none is changed behind the daemon that seals under it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use api::RotateRequest;
use runtime::{KeptRing, Source};
use tests::{Host, HostBuilder};
use vault::{KeyRing, MasterKey};

use crate::gateway_wire::{psql, until};
use crate::secrets::{admin_key, secret};
use crate::secrets_rotation::assert_all;

fn kept(data: &Path, source: &Source) -> KeptRing {
    let threads = tokio::runtime::Runtime::new().unwrap();
    threads.block_on(runtime::kept_ring(data, source)).unwrap()
}

fn with(url: &str, key: &str) -> HostBuilder {
    Host::builder()
        .set("store.url", url)
        .set("limits.requests_per_minute", "0")
        .variable("PALISADE_MASTER_KEY", key)
}

fn hold(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// SEC-03: a daemon that is started once on a new database, beside an embedded store, leaves that store its ring.
#[test]
fn sec_03_a_new_database_takes_no_ring_from_an_embedded_store() {
    let (url, key) = (tests::database(), tests::master_key());
    let mut host = Host::builder().variable("PALISADE_MASTER_KEY", &key).start();
    host.owner().client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    host.stop();
    let before = fs::read(host.data().join("keyring")).unwrap();
    let dump = tests::dump(&url);
    let mut other = with(&url, &key).in_folder(host.place()).stopped();
    let refused = other.start_daemon().unwrap_err();
    assert!(refused.contains("holds an embedded store") && refused.contains("of its own"), "{refused}");
    assert_eq!(tests::dump(&url), dump, "and nothing was made there");
    assert_eq!(fs::read(host.data().join("keyring")).unwrap(), before);

    // Nor does a database that has its own ring.
    let mut elsewhere = with(&url, &key).start();
    elsewhere.stop();
    hold(&elsewhere.data().join("keyring"), &before);
    elsewhere.start_daemon().unwrap();
    elsewhere.stop();
    assert_eq!(fs::read(elsewhere.data().join("keyring")).unwrap(), before);

    // Nor one from before rings were kept there, as long as the file may be the ring of the embedded store.
    psql(&url, "DELETE FROM key_ring");
    let refused = other.start_daemon().unwrap_err();
    assert!(refused.contains("was made under master key"), "{refused}");
    assert_eq!(fs::read(host.data().join("keyring")).unwrap(), before);
    assert_eq!(psql(&url, "SELECT count(*) FROM key_ring"), "0");

    host.start_daemon().unwrap();
    host.rebase();
    assert_eq!(host.owner().client.secrets(None, None).unwrap().items.len(), 1);
    host.stop();
    let ring = KeyRing::read(&before, &MasterKey::from_hex_or_base64(&key).unwrap()).unwrap();
    assert_all(&host, &Source::Embedded, &ring, 1, "the embedded store");
}

/// SEC-04: the ring of a database from before rings were kept there is taken over, and what is left of its file goes
/// with the next rotation: the earlier key would open it.
#[test]
fn sec_04_a_ring_in_a_file_is_taken_over_by_its_own_database() {
    let (url, key, new) = (tests::database(), tests::master_key(), tests::master_key());
    let source = Source::Postgres(url.clone());
    let mut host = with(&url, &key).start();
    host.owner().client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    host.stop();
    let KeptRing::Ring(ring) = kept(&host.data(), &source) else { panic!("no ring") };
    let (file, aside) = (host.data().join("keyring"), host.data().join("keyring.before"));
    hold(&file, &ring);
    psql(&url, "DELETE FROM key_ring");

    // A ledger that does not open stops the start; the file stays where it was.
    let (ledger, away) = (host.data().join("ledger"), host.data().join("away"));
    fs::rename(&ledger, &away).unwrap();
    assert!(host.start_daemon().is_err());
    assert_eq!(fs::read(&file).unwrap(), ring);
    drop(fs::remove_dir_all(&ledger));
    fs::rename(&away, &ledger).unwrap();

    host.start_daemon().unwrap();
    host.rebase();
    assert_eq!(psql(&url, "SELECT encode(kept, 'hex') FROM key_ring"), hex::encode(&ring));
    assert!(!file.exists());
    assert_eq!(fs::read(&aside).unwrap(), ring);
    let named = host.place().join("new.key");
    hold(&named, new.as_bytes());
    let body = RotateRequest { resume: false, new_key_file: Some(named.to_str().unwrap().to_owned()) };
    assert!(host.owner().client.rotate_keys(&body).unwrap().finished);
    assert!(!aside.exists() && !file.exists(), "the earlier key opens no ring");
}

/// SEC-04: a daemon that slept while another had its database, and rotated, seals nothing under the keys of before.
#[test]
fn sec_04_a_daemon_that_slept_through_a_rotation_ends_and_loses_nothing() {
    let (url, old, new) = (tests::database(), tests::master_key(), tests::master_key());
    let source = Source::Postgres(url.clone());
    let mut host = with(&url, &old).start();
    let client = host.owner().client.clone();
    client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    let api_key = admin_key(&client);
    let signal = |name: &str| {
        let pid = host.pid().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    psql(
        &url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    until("its connections are gone", || {
        psql(
            &url,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        ) == "0"
    });
    let copy = tempfile::tempdir().unwrap();
    let place = copy.path().join("copy");
    let copied = Command::new("cp").arg("-a").arg(host.place()).arg(&place).status().unwrap();
    assert!(copied.success());
    let mut second = with(&url, &old).in_folder(&place).stopped();
    second.start_daemon().unwrap();
    let other = second.anonymous().with_token(&api_key);
    let file = place.join("new.key");
    hold(&file, new.as_bytes());
    let body = RotateRequest { resume: false, new_key_file: Some(file.to_str().unwrap().to_owned()) };
    assert!(other.rotate_keys(&body).unwrap().finished);
    other.add_secret(&secret("S_1", "value of S_1", None)).unwrap();
    second.stop();
    let KeptRing::Ring(after) = kept(&place, &source) else { panic!("no ring") };

    signal("-CONT");
    assert!(client.add_secret(&secret("S_2", "value of S_2", None)).is_err());
    let mine = host.place().join("mine.key");
    hold(&mine, tests::master_key().as_bytes());
    let body = RotateRequest { resume: false, new_key_file: Some(mine.to_str().unwrap().to_owned()) };
    assert!(client.rotate_keys(&body).is_err());
    until("it ends", || host.anonymous().ready().is_err());
    until("it says why", || host.log().contains("are not those that this daemon has"));
    host.kill();
    assert_eq!(kept(&place, &source), KeptRing::Ring(after.clone()), "the ring of the other");
    let ring = KeyRing::read(&after, &MasterKey::from_hex_or_base64(&new).unwrap()).unwrap();
    assert_all(&second, &source, &ring, 2, "every value");
}
