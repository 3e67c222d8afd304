//! Backups restore equal and cannot be forged.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use api::{Hidden, LedgerFilter, LoginRequest, WorktreeFilter};
use tests::{Host, PASSWORD};

use crate::gateway_stop::{load, names};
use crate::gateway_wire::told;
use crate::ledger_search::segments;
use crate::ledger_secrets::files;

fn taken(host: &Host) -> Vec<u8> {
    let mut bytes = Vec::new();
    host.owner().client.backup().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// A new home with the key, and the backup beside it.
fn new_home(key: &[u8], backup: &[u8]) -> (Host, PathBuf) {
    let host = Host::builder().stopped();
    fs::write(host.place().join("master.key"), key).unwrap();
    fs::set_permissions(host.place().join("master.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let file = host.place().join("all.backup");
    fs::write(&file, backup).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    (host, file)
}

fn restore(host: &Host, file: &Path, more: &[&str]) -> Result<String, String> {
    let output = host.command("palisaded").args(more).arg("restore").arg(file).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

fn sign_in(host: &Host, email: &str) -> api::Client {
    let body = LoginRequest { email: email.into(), password: Hidden(PASSWORD.into()), totp: None };
    host.anonymous().with_token(&host.anonymous().login(&body).unwrap().access_token.0)
}

/// AUT-17: a backup under load restores equal: rows, ledger, keys; and its making is on the record.
#[test]
fn aut_17_a_backup_under_load_restores_equal() {
    let mut host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let bo = host.user("bo", "owner");
    let policy =
        format!("forbid (principal == User::\"{}\", action == Action::\"backup.create\", resource);", bo.id);
    host.owner().client.add_policy("no-backup", &policy).unwrap();
    let key = host
        .owner()
        .client
        .create_key(&api::CreateKeyRequest { label: "k".into(), scope: "admin".into(), days: None })
        .unwrap();
    let (next, kept) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let (mut before, mut backup) = (BTreeSet::new(), Vec::new());
    load(&mut host, &repo, &next, &kept, |host| {
        crate::gateway_wire::until("there is load", || kept.lock().unwrap().len() > 20);
        before = kept.lock().unwrap().clone();
        backup = taken(host);
    });
    let during = names(&host);
    let head = host.ledger_head();
    let all = host
        .owner()
        .client
        .worktrees(&WorktreeFilter { limit: Some(100), ..WorktreeFilter::default() })
        .unwrap();
    for secret in [&b"no-backup"[..], b"owner@example.org", b"SQLite", b"worktree.create"] {
        assert!(!backup.windows(secret.len()).any(|window| window == secret), "it is sealed");
    }
    let entries =
        host.ledger(&LedgerFilter { action: Some("backup.create".into()), ..LedgerFilter::default() });
    assert_eq!(
        told(&entries).into_iter().map(|(_, decision)| decision).collect::<Vec<_>>(),
        ["allowed", "done"]
    );
    let old_segments = segments(&host.data().join("ledger"));
    host.stop();

    let (mut new, file) = new_home(&fs::read(host.place().join("master.key")).unwrap(), &backup);
    let said = restore(&new, &file, &[]).unwrap();
    assert!(said.contains("restored"), "{said}");
    new.start_daemon().unwrap();
    let owner = sign_in(&new, "owner@example.org");
    assert_eq!(
        sign_in(&new, "bo@example.org").backup().map(drop).unwrap_err().status(),
        Some(403),
        "policies too"
    );
    assert!(new.anonymous().with_token(&key.secret.0).whoami().is_ok(), "keys too");
    let restored =
        owner.worktrees(&WorktreeFilter { limit: Some(100), ..WorktreeFilter::default() }).unwrap();
    let restored_all: BTreeSet<String> = {
        let (mut all, mut after) = (BTreeSet::new(), restored.next.clone());
        all.extend(restored.items.iter().map(|item| item.name.clone()));
        while let Some(cursor) = after {
            let page = owner
                .worktrees(&WorktreeFilter {
                    after: Some(cursor),
                    limit: Some(100),
                    ..WorktreeFilter::default()
                })
                .unwrap();
            all.extend(page.items.into_iter().map(|item| item.name));
            after = page.next;
        }
        all
    };
    assert!(before.is_subset(&restored_all), "all that was acknowledged before it began");
    assert!(restored_all.is_subset(&during), "and nothing that never was");
    for item in &restored.items {
        if let Some(original) = all.items.iter().find(|original| original.id == item.id) {
            assert_eq!(item, original);
        }
    }
    let report = owner.verify_ledger().unwrap();
    assert_eq!((report.verdict.as_str(), report.findings.as_slice()), ("intact", [].as_slice()));
    let new_segments = segments(&new.data().join("ledger"));
    let shared = new_segments.lines().zip(old_segments.lines()).take_while(|(new, old)| new == old).count();
    assert!(
        shared > 40 && u64::try_from(shared).unwrap() <= head,
        "the same chain, up to the moment of the copy: {shared}"
    );
    assert!(new_segments.contains("backup.restored"), "and the restoration is on it");
    let made = owner
        .create_worktree(&api::CreateWorktreeRequest {
            repo,
            name: "after".into(),
            about: String::new(),
            tier: None,
            branch: None,
            base: None,
        })
        .unwrap();
    assert!(!restored.items.iter().any(|item| item.id == made.id), "and life goes on");
}

/// AUT-17: altered, cut, lengthened, foreign: refused, and the new home is as empty as before.
#[test]
fn aut_17_a_backup_that_is_not_whole_or_not_ours_is_refused() {
    let host = Host::start();
    drop(host.repo("demo"));
    let backup = taken(&host);
    let key = fs::read(host.place().join("master.key")).unwrap();
    let end = backup.len();
    let flip = |place: usize| {
        let mut changed = backup.clone();
        changed[place] ^= 1;
        changed
    };
    let mut bad: Vec<(String, Vec<u8>)> = vec![
        ("empty".into(), Vec::new()),
        ("cut".into(), backup[..end - 1].to_vec()),
        ("cut in half".into(), backup[..end / 2].to_vec()),
        (
            "only its first line".into(),
            backup[..backup.iter().position(|byte| *byte == b'\n').unwrap() + 1].to_vec(),
        ),
        ("longer".into(), [&backup[..], b"x"].concat()),
        ("twice".into(), [&backup[..], &backup[..]].concat()),
        ("no line end".into(), vec![b'p'; 1 << 20]),
    ];
    bad.extend((0..end).step_by(end / 25).map(|place| (format!("byte {place} changed"), flip(place))));
    for (what, bytes) in bad {
        let (new, file) = new_home(&key, &bytes);
        let error = restore(&new, &file, &[]).unwrap_err();
        assert!(error.contains("damaged, cut, or was made under another master key"), "{what}: {error}");
        let left: Vec<_> = files(&new.data())
            .into_iter()
            .map(|(path, _)| path)
            .filter(|path| !path.ends_with("palisaded.lock"))
            .collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }
    let (stranger, file) = new_home(tests::master_key().as_bytes(), &backup);
    assert!(restore(&stranger, &file, &[]).unwrap_err().contains("another master key"), "foreign");
    let (keyless, file) = new_home(&key, &backup);
    fs::remove_file(keyless.place().join("master.key")).unwrap();
    assert!(restore(&keyless, &file, &[]).unwrap_err().contains("needs the master key"));
    assert!(!keyless.place().join("master.key").exists(), "none was made");
}

/// AUT-17: only into an empty home, and only by those who may.
#[test]
fn aut_17_a_home_that_is_not_empty_is_left_alone() {
    let mut host = Host::start();
    drop(host.repo("demo"));
    let bo = host.user("bo", "admin");
    let denied = host.user("cy", "member").client.backup().map(drop).unwrap_err();
    assert_eq!(denied.status(), Some(403));
    drop(bo);
    let backup = taken(&host);
    host.stop();
    let file = host.place().join("all.backup");
    fs::write(&file, backup).unwrap();
    let quiet = |host: &Host| {
        files(&host.data())
            .into_iter()
            .filter(|(path, _)| !path.ends_with("palisaded.lock"))
            .collect::<Vec<_>>()
    };
    let before = quiet(&host);
    assert!(restore(&host, &file, &[]).unwrap_err().contains("not empty"));
    assert_eq!(quiet(&host), before);
}

/// AUT-17: what SQLite wrote PostgreSQL reads, and the other way round.
#[test]
fn aut_17_a_backup_moves_between_databases() {
    let mut host = Host::start();
    let repo = host.repo("demo");
    for n in 0..10 {
        drop(host.owner().worktree(&repo, &format!("w-{n}"), "session"));
    }
    let expected = host.owner().client.worktrees(&WorktreeFilter::default()).unwrap().items;
    let key = fs::read(host.place().join("master.key")).unwrap();
    let backup = taken(&host);
    host.stop();

    let url = tests::database();
    let (mut new, file) = new_home(&key, &backup);
    let setting = format!("store.url={url}");
    restore(&new, &file, &["--set", &setting]).unwrap();
    new.set("store.url", &url);
    new.start_daemon().unwrap();
    let owner = sign_in(&new, "owner@example.org");
    assert_eq!(owner.status().unwrap().store, "postgres");
    assert_eq!(owner.worktrees(&WorktreeFilter::default()).unwrap().items, expected);
    assert_eq!(owner.verify_ledger().unwrap().verdict, "intact");
    let again = restore_into_same(&key, &backup, &setting);
    assert!(again.contains("another daemon uses this database"), "{again}");

    let mut back = Vec::new();
    owner.backup().unwrap().read_to_end(&mut back).unwrap();
    let (mut home, file) = new_home(&key, &back);
    restore(&home, &file, &[]).unwrap();
    home.start_daemon().unwrap();
    let owner = sign_in(&home, "owner@example.org");
    assert_eq!(owner.status().unwrap().store, "sqlite");
    assert_eq!(owner.worktrees(&WorktreeFilter::default()).unwrap().items, expected);
    new.stop();
    let again = restore_into_same(&key, &backup, &setting);
    assert!(again.contains("not empty"), "{again}");
}

/// Another home on a database that is in use: refused, and nothing is left behind.
fn restore_into_same(key: &[u8], backup: &[u8], setting: &str) -> String {
    let (other, file) = new_home(key, backup);
    let error = restore(&other, &file, &["--set", setting]).unwrap_err();
    let left: Vec<_> =
        files(&other.data()).into_iter().filter(|(path, _)| !path.ends_with("palisaded.lock")).collect();
    assert!(left.is_empty(), "{left:?}");
    error
}

/// A host with a few megabytes of ledger, so that a restore takes a while; its key and a backup of it.
fn long_backup() -> (Vec<u8>, Vec<u8>) {
    let mut host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let (next, kept) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let mut backup = Vec::new();
    load(&mut host, &repo, &next, &kept, |host| {
        crate::gateway_wire::until("there is load", || kept.lock().unwrap().len() > 200);
        backup = taken(host);
    });
    (fs::read(host.place().join("master.key")).unwrap(), backup)
}

/// Begins a restore and kills it when `now` says so; true if it was still running then.
fn kill_restore(host: &Host, file: &Path, more: &[&str], mut now: impl FnMut() -> bool) -> bool {
    let mut child = host.command("palisaded").args(more).arg("restore").arg(file).spawn().unwrap();
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if now() {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        std::thread::yield_now();
    }
}

/// After a killed restore: a start is refused with what to do, or it is nothing that began, or it is whole. And a
/// second restore makes it whole.
fn whole_or_refused(host: &mut Host, file: &Path, more: &[&str], what: &str) {
    let begun =
        |host: &Host| ["restoring", "ledger", "store"].iter().any(|name| host.data().join(name).exists());
    if begun(host) {
        match host.start_daemon() {
            Err(error) => assert!(error.contains("did not come to its end"), "{what}: {error}"),
            Ok(()) => {
                let owner = sign_in(host, "owner@example.org");
                assert_eq!(owner.verify_ledger().unwrap().verdict, "intact", "{what}");
                assert!(segments(&host.data().join("ledger")).contains("backup.restored"), "{what}");
                host.stop();
                return;
            }
        }
    }
    restore(host, file, more).unwrap_or_else(|error| panic!("{what}: {error}"));
    host.start_daemon().unwrap_or_else(|error| panic!("{what}: {error}"));
    let owner = sign_in(host, "owner@example.org");
    assert_eq!(owner.verify_ledger().unwrap().verdict, "intact", "{what}");
    host.stop();
    assert!(!host.data().join("restoring").exists(), "{what}");
}

/// AUT-17: a restore that is killed anywhere leaves nothing that starts as if it were an installation.
#[test]
fn aut_17_a_restore_that_is_killed_is_whole_or_refused() {
    let (key, backup) = long_backup();
    // At each step that can be seen from outside, as soon as it is seen.
    for step in [
        "restoring",
        "restoring/store/palisade.db",
        "restoring/ledger/segments/00000001.seg",
        "restoring/ledger/lock",
        "ledger",
        "store",
        "store/palisade.db",
        "restored",
    ] {
        let (mut new, file) = new_home(&key, &backup);
        let seen = new.data().join(step);
        kill_restore(&new, &file, &[], || seen.exists());
        whole_or_refused(&mut new, &file, &[], step);
    }
    // As it goes, with half of it gone: the new installation is whole, and can be started or made again.
    let (mut new, file) = new_home(&key, &backup);
    restore(&new, &file, &[]).unwrap();
    fs::create_dir(new.data().join("restored")).unwrap();
    whole_or_refused(&mut new, &file, &[], "half gone");
    // And at points that nobody chose.
    let (new, file) = new_home(&key, &backup);
    let began = std::time::Instant::now();
    restore(&new, &file, &[]).unwrap();
    let whole = began.elapsed();
    let rounds = tests::scale(100, 4);
    for round in 0..rounds {
        let (mut new, file) = new_home(&key, &backup);
        let end = std::time::Instant::now() + whole.mul_f64((round as f64 + 0.5) / rounds as f64);
        kill_restore(&new, &file, &[], || std::time::Instant::now() > end);
        whole_or_refused(&mut new, &file, &[], &format!("round {round}"));
    }
}

/// AUT-17: the same on PostgreSQL, where the rows are committed last.
#[test]
fn aut_17_a_restore_that_is_killed_on_postgresql_is_whole_or_refused() {
    let (key, backup) = long_backup();
    for step in ["restoring", "restoring/ledger/segments/00000001.seg", "restoring/ledger/lock", "ledger"] {
        let url = tests::database();
        let setting = format!("store.url={url}");
        let more = ["--set", setting.as_str()];
        let (mut new, file) = new_home(&key, &backup);
        new.set("store.url", &url);
        let seen = new.data().join(step);
        kill_restore(&new, &file, &more, || seen.exists());
        if new.data().join("restoring").exists() {
            let error = new.start_daemon().unwrap_err();
            assert!(error.contains("did not come to its end"), "{step}: {error}");
            let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
            // The server notices a moment later that the one who was writing is gone.
            let idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
            crate::gateway_wire::until("the server noticed", || crate::gateway_wire::psql(&url, idle) == "0");
            if crate::gateway_wire::psql(&url, tables) != "0" {
                assert!(restore(&new, &file, &more).unwrap_err().contains("not empty"), "{step}");
                crate::gateway_wire::psql(&url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
            }
        }
        whole_or_refused(&mut new, &file, &more, step);
    }
}

/// AUT-17: files that are not the ledger's keep no backup from being restored.
#[test]
fn aut_17_stray_files_beside_the_segments_do_not_spoil_a_backup() {
    let host = Host::start();
    drop(host.repo("demo"));
    let folder = host.data().join("ledger/segments");
    for stray in ["stray.seg", "1.seg", "+0000001.seg", "00000001.seg.seg", "000000001.seg", "00000001.bak"] {
        fs::write(folder.join(stray), "not ours").unwrap();
    }
    let backup = taken(&host);
    let (mut new, file) = new_home(&fs::read(host.place().join("master.key")).unwrap(), &backup);
    restore(&new, &file, &[]).unwrap();
    new.start_daemon().unwrap();
    let owner = sign_in(&new, "owner@example.org");
    assert_eq!(owner.repos(None).unwrap().items.len(), 1);
    let mut export = String::new();
    host.owner().client.export_ledger().unwrap().read_to_string(&mut export).unwrap();
    assert!(!export.contains("not ours"));
}

/// AUT-17: the systemd credential is a place for the master key, also for a restore.
#[test]
fn aut_17_a_restore_takes_the_key_from_a_credential() {
    let host = Host::start();
    let backup = taken(&host);
    let (new, file) = new_home(&fs::read(host.place().join("master.key")).unwrap(), &backup);
    let credentials = new.place().join("credentials");
    fs::create_dir(&credentials).unwrap();
    fs::rename(new.place().join("master.key"), credentials.join("palisade-master-key")).unwrap();
    let mut command = new.command("palisaded");
    command.env("CREDENTIALS_DIRECTORY", &credentials).arg("restore").arg(&file);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
