//! A passphrase as the source of the master key.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use api::RotateRequest;
use runtime::Source;
use tests::Host;
use vault::{KeyRing, Master, Secret};

use crate::secrets::secret;
use crate::secrets_rotation::assert_all;

const PHRASE: &str = "copper lantern orbit velvet quiet harbour";
const OTHER: &str = "seven maple ladders under a grey evening";

fn hold(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn ring(host: &Host, phrase: &str) -> KeyRing {
    let kept = runtime::ring_file(&host.data()).bytes().unwrap();
    Master::Passphrase(Secret::new(phrase.to_owned())).open(&kept).unwrap()
}

/// Every file of the data directory, but for those that name the process that tried last.
fn every_file(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(every_file(&path));
        } else if !path.ends_with("palisaded.lock") && !path.ends_with("lock") {
            let bytes = fs::read(&path).unwrap();
            all.push((path, bytes));
        }
    }
    all.sort();
    all
}

/// SEC-02, SEC-03: team mode starts with a passphrase and with no key; a wrong one changes no file.
#[test]
fn sec_02_a_passphrase_opens_an_installation_and_a_wrong_one_changes_nothing() {
    let mut host = Host::builder().set("mode", "team").set("key.passphrase_file", "phrase").stopped();
    let file = host.place().join("phrase");
    let refused = host.start_daemon().unwrap_err();
    assert!(refused.contains("there is no key file at"), "{refused}");
    hold(&file, "hunter2 hunter2");
    let refused = host.start_daemon().unwrap_err();
    assert!(refused.contains("take six random words") && !refused.contains("hunter2"), "{refused}");
    assert!(!host.data().join("keyring").exists() && !host.data().join("store").exists(), "nothing was made");
    hold(&file, PHRASE);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(host.start_daemon().unwrap_err().contains("close it with"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    host.start_daemon().unwrap();
    host.claim();
    host.owner().client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    assert!(!host.place().join("master.key").exists(), "no key was made");
    host.stop();

    let before = every_file(&host.data());
    hold(&file, OTHER);
    let refused = host.start_daemon().unwrap_err();
    assert!(refused.contains("the key does not open the store"), "{refused}");
    hold(&file, &format!("{PHRASE} "));
    assert_eq!(every_file(&host.data()), before, "a wrong passphrase changes no file");
    for bytes in [PHRASE, OTHER].map(str::as_bytes) {
        assert!(before.iter().all(|(_, file)| !file.windows(bytes.len()).any(|part| part == bytes)));
    }
    host.start_daemon().unwrap();
    host.rebase();
    assert_eq!(host.owner().client.secrets(None, None).unwrap().items.len(), 1);
    host.stop();

    // A key where a passphrase belongs is told, and the other way round.
    let mut keyed = Host::builder()
        .in_folder(host.place())
        .set("mode", "team")
        .variable("PALISADE_MASTER_KEY", &tests::master_key())
        .stopped();
    let refused = keyed.start_daemon().unwrap_err();
    assert!(refused.contains("sealed under a passphrase, and a key was given"), "{refused}");
    assert_all(&host, &Source::Embedded, &ring(&host, PHRASE), 1, "its passphrase");
}

/// SEC-04: a rotation gives the same passphrase another salt, or takes a new passphrase that is named.
#[test]
fn sec_04_a_passphrase_is_rotated() {
    let mut host = Host::builder().variable("PALISADE_MASTER_PASSPHRASE", PHRASE).start();
    let client = host.owner().client.clone();
    client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    let before = runtime::ring_file(&host.data()).bytes().unwrap();
    let step = client.rotate_keys(&RotateRequest::default()).unwrap();
    assert_eq!((step.begun, step.finished, step.epoch, step.own_root), (true, true, 2, true));
    assert!(step.same_passphrase, "only the salt is new");
    let after = runtime::ring_file(&host.data()).bytes().unwrap();
    assert_ne!(KeyRing::stretch_of(&before).unwrap(), KeyRing::stretch_of(&after).unwrap());

    let file = host.place().join("new-phrase");
    hold(&file, "too short");
    let body = RotateRequest { resume: false, new_key_file: Some(file.to_str().unwrap().to_owned()) };
    let refused = client.rotate_keys(&body).unwrap_err();
    assert!(refused.to_string().contains("take six random words"), "{refused}");
    hold(&file, OTHER);
    let step = client.rotate_keys(&body).unwrap();
    assert_eq!((step.begun, step.finished, step.epoch), (true, true, 3));
    assert!(!step.same_passphrase);
    host.stop();
    assert!(host.start_daemon().unwrap_err().contains("the key does not open the store"), "the earlier one");
    assert_all(&host, &Source::Embedded, &ring(&host, OTHER), 1, "the new one");
    let mut again =
        Host::builder().in_folder(host.place()).variable("PALISADE_MASTER_PASSPHRASE", OTHER).stopped();
    again.start_daemon().unwrap();
}

/// SEC-04: after a rotation to a new passphrase the earlier one, which the daemon was started with, does not come back;
/// and the daemon says that the next start would not find the right one.
#[test]
fn sec_04_an_earlier_passphrase_does_not_come_back() {
    let mut host = Host::builder().set("key.passphrase_file", "phrase").stopped();
    let (file, named) = (host.place().join("phrase"), host.place().join("new-phrase"));
    hold(&file, PHRASE);
    host.start_daemon().unwrap();
    host.claim();
    let client = host.owner().client.clone();
    client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    let keys = |host: &Host| {
        let health = host.anonymous().ready().unwrap();
        health.checks.into_iter().find(|check| check.name == "keys").unwrap().ok
    };
    assert!(keys(&host));

    // The present one is no new one.
    let body = RotateRequest { resume: false, new_key_file: Some(named.to_str().unwrap().to_owned()) };
    hold(&named, &format!(" {PHRASE}\n"));
    let before = runtime::ring_file(&host.data()).bytes().unwrap();
    let refused = client.rotate_keys(&body).unwrap_err();
    assert!(refused.to_string().contains("is the present one"), "{refused}");
    hold(&named, "correct horse battery staple");
    let refused = client.rotate_keys(&body).unwrap_err();
    assert!(refused.to_string().contains("everybody would try first"), "{refused}");
    assert_eq!(runtime::ring_file(&host.data()).bytes().unwrap(), before);

    hold(&named, OTHER);
    assert!(client.rotate_keys(&body).unwrap().finished);
    assert!(!keys(&host), "the next start would find the earlier one");
    let refused = client.rotate_keys(&RotateRequest::default()).unwrap_err();
    assert!(refused.to_string().contains("is not the one that opens its keys"), "{refused}");
    assert_eq!(ring(&host, OTHER).epoch(), 2);
    assert!(!keys(&host), "and still");

    fs::rename(&named, &file).unwrap();
    assert!(keys(&host), "now it is the right one");
    let output = crate::secrets::palisade(&host, &client, &["secret", "rotate"], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("epoch 3") && said.contains("only its salt is new"),
        "{output:?}"
    );
    assert!(keys(&host));
    host.stop();
    assert_all(&host, &Source::Embedded, &ring(&host, OTHER), 1, "the new one");
}

/// A backup needs its passphrase and nothing besides: the salt is in it.
#[test]
fn sec_02_a_backup_is_restored_by_its_passphrase() {
    let mut host = Host::builder().variable("PALISADE_MASTER_PASSPHRASE", PHRASE).start();
    let client = host.owner().client.clone();
    client.add_secret(&secret("S_0", "value of S_0", None)).unwrap();
    let file = host.place().join("copy.backup");
    let made = crate::secrets::palisade(&host, &client, &["backup", "create", file.to_str().unwrap()], "");
    assert!(made.status.success(), "{made:?}");
    host.stop();
    for (phrase, good) in [(OTHER, false), (PHRASE, true)] {
        let new = Host::builder().variable("PALISADE_MASTER_PASSPHRASE", phrase).stopped();
        let mut command = new.command("palisaded");
        let output =
            command.env("PALISADE_MASTER_PASSPHRASE", phrase).arg("restore").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), good, "{said}");
        if good {
            assert_all(&new, &Source::Embedded, &ring(&new, PHRASE), 1, "restored");
        } else {
            assert!(said.contains("another master key"), "{said}");
        }
    }
}
