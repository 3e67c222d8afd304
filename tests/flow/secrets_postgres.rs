//! New keys where the database is shared: the ring lies in it, and the earlier master key is worth nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use api::RotateRequest;
use runtime::{KeptRing, Source};
use tests::Host;
use vault::{KeyRing, MasterKey, Purpose, RingError};

use crate::gateway_wire::psql;
use crate::secrets::{admin_key, palisade, secret};
use crate::secrets_rotation::{assert_all, kill_while_rotating, values};

/// The ring that the database holds, sealed.
fn kept(host: &Host, source: &Source) -> Vec<u8> {
    let threads = tokio::runtime::Runtime::new().unwrap();
    match threads.block_on(runtime::kept_ring(&host.data(), source)).unwrap() {
        KeptRing::Ring(kept) => kept,
        other @ (KeptRing::New | KeptRing::Older) => panic!("{other:?}"),
    }
}

fn key(text: &str) -> MasterKey {
    MasterKey::from_hex_or_base64(text).unwrap()
}

/// SEC-04 on PostgreSQL, with a master key that is given by its environment: the new one is named, and given at the
/// next start. The earlier one opens nothing and derives nothing; what people hold goes on working.
#[test]
fn sec_04_on_postgresql_the_earlier_key_is_worth_nothing() {
    let (url, old, new) = (tests::database(), tests::master_key(), tests::master_key());
    let source = Source::Postgres(url.clone());
    let with = |key: &str| {
        Host::builder()
            .set("store.url", &url)
            .set("limits.requests_per_minute", "0")
            .variable("PALISADE_MASTER_KEY", key)
    };
    let mut host = with(&old).start();
    let place = host.place().to_owned();
    let client = host.owner().client.clone();
    client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    let api_key = admin_key(&client);
    assert!(!host.data().join("keyring").exists(), "it lies where the rows are");
    let before = kept(&host, &source);
    let refused = client.rotate_keys(&RotateRequest::default()).unwrap_err();
    assert!(refused.to_string().contains("--new-key-file"), "{refused}");
    let file = place.join("new.key");
    let named =
        |file: &Path| RotateRequest { resume: false, new_key_file: Some(file.to_str().unwrap().to_owned()) };
    for (content, mode, expected) in [
        ("not a key", 0o600, "not a usable key"),
        (new.as_str(), 0o644, "close it with"),
        (old.as_str(), 0o600, "is the present one"),
    ] {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let refused = client.rotate_keys(&named(&file)).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
        assert_eq!(kept(&host, &source), before, "nothing was changed");
    }
    // Who may not rotate does not learn what files there are.
    let admin = host.user("ada", "admin").client;
    for path in [file.as_path(), Path::new("/etc/shadow"), Path::new("/nowhere")] {
        assert_eq!(admin.rotate_keys(&named(path)).unwrap_err().status(), Some(403));
    }
    fs::write(&file, &new).unwrap();
    let output =
        palisade(&host, &client, &["secret", "rotate", "--new-key-file", file.to_str().unwrap()], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("before its next start"), "{output:?}");
    assert!(!said.contains("stays the root"), "{said}");
    host.stop();

    let after = kept(&host, &source);
    assert!(matches!(KeyRing::read(&after, &key(&old)), Err(RingError::OtherMaster { .. })));
    let ring = KeyRing::read(&after, &key(&new)).unwrap();
    assert!(ring.has_own_root() && ring.epoch() == 2 && !ring.is_rotating());
    let bare = KeyRing::new(key(&old));
    for purpose in Purpose::ALL {
        assert!(!bare.subkey(purpose).matches(ring.subkey(purpose).expose()), "{purpose:?}");
    }
    assert!(values(&host, &source, &bare).iter().all(|(_, value)| value.is_err()));

    let dump = tests::dump(&url);
    let mut stale = with(&old).in_folder(&place).stopped();
    assert!(stale.start_daemon().unwrap_err().contains("the key does not open the store"));
    assert_eq!(tests::dump(&url), dump, "a wrong key changes no row");
    let mut again = with(&new).in_folder(&place).stopped();
    again.start_daemon().unwrap();
    let keyed = again.anonymous().with_token(&api_key);
    assert!(keyed.whoami().is_ok(), "API keys are those of before");
    let report = keyed.verify_ledger().unwrap();
    assert_eq!((report.verdict.as_str(), report.findings.len()), ("intact", 0));
    again.stop();
    assert_all(&again, &source, &ring, 1, "PostgreSQL");
    // The database and the key are enough: another data directory finds the same ring, and misses only its ledger.
    let mut elsewhere = with(&new).stopped();
    let missing = elsewhere.start_daemon().unwrap_err();
    assert!(missing.contains("--accept-ledger-loss"), "{missing}");
}

/// SEC-04: killed wherever it is, also where the ring is a row. The key is a file that the daemon replaces.
#[test]
fn sec_04_killed_at_any_point_on_postgresql_a_rotation_goes_on() {
    let url = tests::database();
    let source = Source::Postgres(url.clone());
    let mut host = Host::builder()
        .set("store.url", &url)
        .set("key.file", "given.key")
        .set("limits.requests_per_minute", "0")
        .stopped();
    let file = host.place().join("given.key");
    fs::write(&file, tests::master_key()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    host.start_daemon().unwrap();
    host.claim();
    let of = source.clone();
    let ring_of = move |host: &Host| {
        let kept = kept(host, &of);
        let file = host.place().join("given.key");
        let present = KeyRing::read(&kept, &vault::source::read_file(&file).unwrap());
        // Between the ring and its key: what a start does.
        let waiting = || vault::source::read_file(&runtime::next_file(&file)).unwrap();
        present.or_else(|_| KeyRing::read(&kept, &waiting())).unwrap()
    };
    kill_while_rotating(host, &source, ring_of, &RotateRequest::default());
}

/// The ring is sealed and the key waits, on PostgreSQL: the next start puts it in its place and the rotation goes on.
#[test]
fn sec_04_on_postgresql_a_key_that_waits_is_found() {
    let url = tests::database();
    let source = Source::Postgres(url.clone());
    let mut host = Host::builder().set("store.url", &url).set("key.file", "given.key").stopped();
    let file = host.place().join("given.key");
    fs::write(&file, tests::master_key()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    host.start_daemon().unwrap();
    host.claim();
    host.owner().client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    host.stop();
    let waiting = runtime::next_file(&file);
    let next = vault::source::create_file(&waiting).unwrap();
    let ring = KeyRing::read(&kept(&host, &source), &vault::source::read_file(&file).unwrap()).unwrap();
    let turned = hex::encode(ring.turn(&next).unwrap().bytes());
    psql(&url, &format!("UPDATE key_ring SET kept = decode('{turned}', 'hex')"));
    host.start_daemon().unwrap();
    assert!(host.log().contains("`palisade secret rotate` finishes it"), "{}", host.log());
    assert!(!waiting.exists(), "it is in its place");
    host.rebase();
    let step = host.owner().client.rotate_keys(&RotateRequest::default()).unwrap();
    assert_eq!((step.begun, step.finished, step.done, step.epoch, step.own_root), (false, true, 1, 2, true));
    host.stop();
    let ring = KeyRing::read(&kept(&host, &source), &vault::source::read_file(&file).unwrap()).unwrap();
    assert_all(&host, &source, &ring, 1, "found");
}
