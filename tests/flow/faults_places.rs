//! Data directories, keys and stores that are not as they should be: refused, named, and left as they were.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tests::Host;

use crate::gateway_wire::psql;
use crate::ledger_secrets::files;

/// AUT-15: two daemons side by side share nothing.
#[test]
fn aut_15_two_daemons_side_by_side_share_nothing() {
    let (one, two) = (Host::start(), Host::start());
    assert_ne!(one.base(), two.base());
    let token = one.owner().client.token().unwrap();
    assert_eq!(
        two.anonymous().with_token(token).whoami().unwrap_err().status(),
        Some(401),
        "a token of the other"
    );
    drop(one.repo("only-here"));
    assert!(two.owner().client.repos(None).unwrap().items.is_empty());
    assert_ne!(one.owner().client.status().unwrap().key, two.owner().client.status().unwrap().key);
    assert_ne!(
        fs::read(one.place().join("master.key")).unwrap(),
        fs::read(two.place().join("master.key")).unwrap()
    );
    assert_eq!(two.owner().client.verify_ledger().unwrap().verdict, "intact");
    for host in [&one, &two] {
        for (path, _) in files(host.place()) {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
        }
    }
}

/// AUT-15: one data directory has one daemon; the second is told which.
#[test]
fn aut_15_a_second_daemon_on_the_same_data_is_refused_by_name() {
    let host = Host::start();
    let output =
        host.command("palisaded").args(["--set", "server.listen=127.0.0.1:0", "up"]).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("process {}", host.pid())), "{said}");
    for command in [vec!["encrypt-store"], vec!["migrate-store"], vec!["restore", "/nowhere"]] {
        let output = host.command("palisaded").args(&command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(&host.pid().to_string()), "{command:?}: {said}");
    }
    assert!(host.owner().client.whoami().is_ok(), "the first does not notice");
}

/// LED-02: another master key, or none, is refused, and every file is as it was.
#[test]
fn led_02_a_wrong_or_lost_key_is_refused_and_nothing_is_touched() {
    let mut host = Host::start();
    drop(host.repo("demo"));
    host.stop();
    let key = host.place().join("master.key");
    let good = fs::read(&key).unwrap();
    let without_lock = |host: &Host| {
        let all = files(&host.data()).into_iter();
        all.filter(|(path, _)| !path.ends_with("palisaded.lock")).collect::<Vec<_>>()
    };
    let before = without_lock(&host);

    fs::write(&key, tests::master_key()).unwrap();
    let error = host.start_daemon().unwrap_err();
    assert!(error.contains("the key does not open the store"), "{error}");
    assert_eq!(without_lock(&host), before, "wrong key");

    fs::remove_file(&key).unwrap();
    let error = host.start_daemon().unwrap_err();
    assert!(error.contains("no master key at"), "{error}");
    assert_eq!(without_lock(&host), before, "no key");
    assert!(!key.exists(), "and no new one was made");

    fs::write(&key, "not a key").unwrap();
    assert!(host.start_daemon().is_err());
    fs::write(&key, &good).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(host.start_daemon().is_err(), "a key that others can read");
    assert_eq!(without_lock(&host), before);

    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    host.start_daemon().unwrap();
    host.rebase();
    assert_eq!(host.owner().client.repos(None).unwrap().items.len(), 1);
}

/// LED-02: the ledger's key is the store's: a store of PostgreSQL with another key is refused too.
#[test]
fn led_02_another_key_on_postgresql_is_refused() {
    let url = tests::database();
    let (good, other) = (tests::master_key(), tests::master_key());
    let mut host = Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &good).start();
    host.stop();
    let place = host.place().to_owned();
    let before = files(&place);
    let mut second = Host::builder()
        .in_folder(&place)
        .set("store.url", &url)
        .variable("PALISADE_MASTER_KEY", &other)
        .stopped();
    let error = second.start_daemon().unwrap_err();
    assert!(error.contains("key"), "{error}");
    // Both locks name the process that tried last.
    let locks = [host.data().join("palisaded.lock"), host.data().join("ledger/lock")];
    let after = files(&place).into_iter().filter(|(path, _)| !locks.contains(path));
    let changed: Vec<_> = after.filter(|file| !before.contains(file)).map(|(path, _)| path).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

/// SEC: a plain-text store is refused with the command that mends it, and the command mends it.
#[test]
fn led_02_a_plain_text_store_is_refused_until_it_is_encrypted() {
    let mut host = Host::builder().stopped();
    let store = host.data().join("store");
    fs::create_dir_all(&store).unwrap();
    for folder in [host.data(), store.clone()] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::write(host.place().join("master.key"), tests::master_key()).unwrap();
    fs::set_permissions(host.place().join("master.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let file = store.join("palisade.db");
    let script = "import sqlite3,sys;c=sqlite3.connect(sys.argv[1]);c.execute('CREATE TABLE migrations (x)');c.execute('DROP TABLE migrations');c.commit()";
    assert!(
        std::process::Command::new("python3").args(["-c", script]).arg(&file).status().unwrap().success()
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let plain = fs::read(&file).unwrap();
    assert!(plain.starts_with(b"SQLite format 3"));

    let error = host.start_daemon().unwrap_err();
    assert!(error.contains("encrypt-store"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), plain, "nothing was touched");
    let done = host.command("palisaded").arg("encrypt-store").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!fs::read(&file).unwrap().starts_with(b"SQLite format 3"));
    host.start_daemon().unwrap();
    host.claim();
    assert!(host.owner().client.whoami().is_ok());
    host.stop();
    let again = host.command("palisaded").arg("encrypt-store").output().unwrap();
    assert!(!again.status.success(), "there is nothing left to encrypt");
}

/// AUT-15: a data directory that others can enter, or that is somebody else's, is refused.
#[test]
fn aut_15_an_open_data_directory_is_refused() {
    let mut host = Host::builder().stopped();
    fs::create_dir(host.data()).unwrap();
    fs::set_permissions(host.data(), fs::Permissions::from_mode(0o755)).unwrap();
    let error = host.start_daemon().unwrap_err();
    assert!(error.contains("chmod 700"), "{error}");
    assert!(files(&host.data()).is_empty());
    fs::set_permissions(host.data(), fs::Permissions::from_mode(0o700)).unwrap();
    host.start_daemon().unwrap();
}

/// LED-02: on PostgreSQL another key is refused also with a new data directory, and nothing is changed.
#[test]
fn led_02_another_key_with_a_new_data_directory_is_refused() {
    let url = tests::database();
    let with = |key: &str| Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", key);
    let (good, other) = (tests::master_key(), tests::master_key());
    let mut host = with(&good).unclaimed();
    host.stop();
    let dump = || {
        let tables = ["users", "bootstrap", "counters", "ledger_index", "installation", "migrations"];
        tables.map(|table| psql(&url, &format!("SELECT t::text FROM {table} t ORDER BY 1")))
    };
    let before = dump();
    let mut second = with(&other).stopped();
    let error = second.start_daemon().unwrap_err();
    assert!(error.contains("the key does not open the store"), "{error}");
    assert_eq!(dump(), before);
    assert!(!second.data().join("ledger").exists(), "nothing was made");
    host.start_daemon().unwrap();
}

/// What a start says when it fails: once, and about the right thing.
#[test]
fn aut_15_a_refused_start_says_why_once() {
    let said = |host: &Host, variables: &[(&str, &std::ffi::OsStr)], more: &[&str]| {
        let mut command = host.command("palisaded");
        command.envs(variables.iter().copied()).args(more).arg("up");
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let host = Host::builder().stopped();
    let text = said(&host, &[], &["--set", "store.url=postgres://u@127.0.0.1:9/db"]);
    assert!(text.contains("a store on PostgreSQL (`store.url`) needs a master key"), "{text}");
    let text = said(&host, &[], &["--set", "mode=team"]);
    assert!(text.contains("mode `team` needs a master key"), "{text}");
    let text = said(&host, &[], &["--set", "no.such=1"]);
    assert!(text.contains("`palisade config show`"), "{text}");

    let bad = std::os::unix::ffi::OsStrExt::from_bytes(&b"\xff\xfe"[..]);
    let text = said(&host, &[("PALISADE_MASTER_KEY", bad)], &[]);
    assert!(text.contains("PALISADE_MASTER_KEY is not text"), "{text}");
    assert!(!host.place().join("master.key").exists(), "and no other key was made");

    let key = tests::master_key();
    let key = [("PALISADE_MASTER_KEY", key.as_ref())];
    let store = host.data().join("store");
    fs::create_dir_all(&store).unwrap();
    fs::set_permissions(host.data(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
    let text = said(&host, &key, &["--set", "server.listen=127.0.0.1:0"]);
    assert_eq!(text.matches("is open to other accounts").count(), 1, "{text}");
    fs::remove_dir_all(&store).unwrap();
    fs::create_dir_all(host.data().join("ledger")).unwrap();
    fs::write(host.data().join("ledger/segments"), "no folder").unwrap();
    let text = said(&host, &key, &["--set", "server.listen=127.0.0.1:0"]);
    assert!(text.contains("ledger"), "{text}");
    let (one, two) = text.trim().rsplit_once(": ").unwrap_or_default();
    assert!(!one.ends_with(two), "{text}");
}
