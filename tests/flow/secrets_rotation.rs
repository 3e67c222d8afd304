//! New keys while the daemon works, and while it is killed.

use std::fs;
use std::time::{Duration, Instant};

use api::RotateRequest;
use tests::{Host, scale};
use vault::{KeyRing, MasterKey, Place, RingError, SealedRecord};

use crate::secrets::{palisade, secret};

fn master(host: &Host) -> MasterKey {
    vault::source::read_file(&host.place().join("master.key")).unwrap()
}

/// Every value that the stopped host keeps, opened with this ring, by its name.
pub(crate) fn values(
    host: &Host,
    source: &runtime::Source,
    ring: &KeyRing,
) -> Vec<(String, Result<Vec<u8>, String>)> {
    let threads = tokio::runtime::Runtime::new().unwrap();
    threads.block_on(async {
        let engine = runtime::open_engine(&host.data(), source, ring).await.unwrap();
        let sql = "SELECT id, owner, name, hosts, expires, sealed FROM secrets ORDER BY seq";
        let rows = engine.rows(sql, &[]).await.unwrap();
        let mut all = Vec::new();
        for row in &rows {
            let text = |column| row.text(column).unwrap();
            let (record, owner) = (format!("secrets/{}", text(0)), text(1).to_owned());
            let expires = row.opt_int(4).unwrap().map_or_else(String::new, |at| at.to_string());
            let field = format!("value\n{}\n{}\n{expires}", text(2), text(3));
            let place = Place { record: &record, owner: &owner, field: &field };
            let sealed =
                SealedRecord::parse(row.blob(5).unwrap().to_vec()).map_err(|error| error.to_string());
            let value = sealed
                .and_then(|sealed| ring.open_record(&place, &sealed).map_err(|error| error.to_string()));
            all.push((text(2).to_owned(), value.map(|value| value.expose().clone())));
        }
        all
    })
}

pub(crate) fn assert_all(host: &Host, source: &runtime::Source, ring: &KeyRing, count: usize, what: &str) {
    let all = values(host, source, ring);
    assert_eq!(all.len(), count, "{what}");
    for (name, value) in all {
        assert_eq!(value, Ok(format!("value of {name}").into_bytes()), "{what}: {name}");
    }
}

/// SEC-04: one command; afterwards everything opens under the new key and nothing under the earlier one.
#[test]
fn sec_04_one_command_rotates_master_and_data_keys() {
    let mut host = Host::builder().set("limits.requests_per_minute", "0").start();
    let client = host.owner().client.clone();
    let count = scale(1_000, 250);
    for n in 0..count {
        let name = format!("S_{n}");
        client.add_secret(&secret(&name, &format!("value of {name}"), None)).unwrap();
    }
    let (old, stolen) = (master(&host), fs::read(host.data().join("keyring")).unwrap());
    let before = client.status().unwrap();
    assert_eq!((before.key_epoch, before.key_rotating), (1, false));
    let output = palisade(&host, &client, &["--json", "secret", "rotate"], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!((&told["result"]["epoch"], &told["result"]["values"]), (&2.into(), &count.into()), "{said}");
    let after = client.status().unwrap();
    assert_eq!((after.key_epoch, after.key_rotating), (2, false));
    assert_ne!(after.key, before.key);
    let metrics = client.metrics().unwrap();
    assert!(metrics.contains("\npalisade_key_epoch 2"), "{metrics}");
    assert!(
        client.ready().unwrap().checks.iter().all(|check| check.ok),
        "the key is where the next start finds it"
    );
    // A person sees how far it is.
    let shown = palisade(&host, &client, &["secret", "rotate"], "");
    let progress = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(progress.contains(&format!("epoch 3: {count} of {count} values carried over")), "{progress}");

    host.stop();
    let file = runtime::ring_file(&host.data());
    let new = master(&host);
    assert!(matches!(file.open(&old), Err(RingError::OtherMaster { .. })));
    assert!(!host.place().join("master.key.next").exists());
    assert_all(&host, &runtime::Source::Embedded, &file.open(&new).unwrap(), count, "the new key");
    // The earlier key and everything it opened on the disk of then: no value of now.
    let threads = tokio::runtime::Runtime::new().unwrap();
    let bare = KeyRing::new(vault::MasterKey::from_hex_or_base64(old.to_base64().expose()).unwrap());
    let opened = threads.block_on(runtime::open_engine(&host.data(), &runtime::Source::Embedded, &bare));
    assert!(opened.is_err(), "the earlier master key alone does not open the store");
    let stolen = vault::KeyRing::read(&stolen, &old).unwrap();
    assert!(values(&host, &runtime::Source::Embedded, &stolen).iter().all(|(_, value)| value.is_err()));

    // A start with the earlier key changes nothing and says so; with the new one everything is there.
    let key = host.place().join("master.key");
    let good = fs::read(&key).unwrap();
    fs::write(&key, old.to_base64().expose()).unwrap();
    assert!(host.start_daemon().unwrap_err().contains("the key does not open the store"));
    fs::write(&key, good).unwrap();
    host.start_daemon().unwrap();
    host.rebase();
    assert_eq!(host.owner().client.secrets(None, None).unwrap().items.len(), count);
}

/// SEC-04: killed wherever it is, the daemon starts, and the command goes on.
pub(crate) fn kill_while_rotating(
    mut host: Host,
    source: &runtime::Source,
    ring_of: impl Fn(&Host) -> KeyRing,
    rotate: &RotateRequest,
) {
    let (count, kills) = (scale(1_000, 300), scale(50, 5));
    for n in 0..count {
        let name = format!("S_{n}");
        host.owner().client.add_secret(&secret(&name, &format!("value of {name}"), None)).unwrap();
    }
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut interrupted = 0;
    for kill in 0..kills {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let pause = Duration::from_micros(dice % 120_000);
        let client = host.owner().client.clone();
        let body = rotate.clone();
        let going =
            std::thread::spawn(move || while client.rotate_keys(&body).is_ok_and(|step| !step.finished) {});
        // A random moment, not a synchronisation.
        let end = Instant::now() + pause;
        while Instant::now() < end {
            std::thread::yield_now();
        }
        host.kill();
        going.join().unwrap();
        let ring = ring_of(&host);
        interrupted += usize::from(ring.is_rotating());
        assert_all(&host, source, &ring, count, &format!("kill {kill} after {pause:?}"));
        host.start_daemon().unwrap_or_else(|error| panic!("kill {kill} after {pause:?}: {error}"));
        host.rebase();
    }
    let epoch = loop {
        let step =
            host.owner().client.rotate_keys(&RotateRequest { resume: true, new_key_file: None }).unwrap();
        if step.finished {
            break step.epoch;
        }
    };
    assert_eq!(host.owner().client.verify_ledger().unwrap().verdict, "intact");
    host.stop();
    let ring = ring_of(&host);
    assert!(!ring.is_rotating() && ring.epoch() == epoch);
    assert_all(&host, source, &ring, count, "at the end");
    assert!(epoch > 1 && (interrupted > 0 || kills < 20), "{interrupted} of {kills} found it under way");
}

#[test]
fn sec_04_killed_at_any_point_a_rotation_goes_on() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let ring_of = |host: &Host| {
        let file = runtime::ring_file(&host.data());
        let waiting = runtime::next_file(&host.place().join("master.key"));
        // Between the ring and its key: what a start does.
        file.open(&master(host)).or_else(|_| file.open(&vault::source::read_file(&waiting).unwrap())).unwrap()
    };
    kill_while_rotating(host, &runtime::Source::Embedded, ring_of, &RotateRequest::default());
}

/// The two moments that a clock finds seldom: the key waits and the ring does not know it, and the ring knows it and it
/// waits.
#[test]
fn sec_04_a_key_that_waits_is_used_or_found() {
    let mut host = Host::start();
    host.owner().client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    host.stop();
    let key = host.place().join("master.key");
    let waiting = runtime::next_file(&key);
    let next = vault::source::create_file(&waiting).unwrap();
    host.start_daemon().unwrap();
    assert!(waiting.exists(), "it is of no use yet");
    host.stop();

    let file = runtime::ring_file(&host.data());
    let ring = file.open(&master(&host)).unwrap();
    file.turn(&ring, &next).unwrap();
    host.start_daemon().unwrap();
    assert!(host.log().contains("`palisade secret rotate` finishes it"), "{}", host.log());
    assert!(!waiting.exists(), "it is in its place");
    host.rebase();
    let client = &host.owner().client;
    let status = client.status().unwrap();
    assert_eq!((status.key_epoch, status.key_rotating), (2, true));
    assert!(client.ready().unwrap().checks.iter().all(|check| check.ok));
    let step = client.rotate_keys(&RotateRequest::default()).unwrap();
    assert_eq!((step.begun, step.finished, step.done, step.epoch), (false, true, 1, 2));
    host.stop();
    assert_all(&host, &runtime::Source::Embedded, &file.open(&master(&host)).unwrap(), 1, "found");
}

/// SEC-04: a key that waits and was never used does not become the master; nobody knows who has seen it.
#[test]
fn sec_04_a_stale_key_that_waits_is_not_used() {
    let mut host = Host::start();
    let client = host.owner().client.clone();
    client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    let waiting = runtime::next_file(&host.place().join("master.key"));
    let stale = vault::source::create_file(&waiting).unwrap();
    let step = client.rotate_keys(&api::RotateRequest::default()).unwrap();
    assert!(step.finished);
    let kept = runtime::ring_file(&host.data()).bytes().unwrap();
    assert!(KeyRing::read(&kept, &stale).is_err());
    assert!(!waiting.exists());
    host.stop();
    let ring = KeyRing::read(&kept, &master(&host)).unwrap();
    assert_all(&host, &runtime::Source::Embedded, &ring, 1, "a new one");
}
