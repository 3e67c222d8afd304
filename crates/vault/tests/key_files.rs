//! SEC-02: the key comes from a file that only we can read, made exclusively, or nothing starts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use vault::source::{
    Closed, SourceError, create_file, read_credential, read_file, read_passphrase, read_program,
    replace_file, replaceable,
};
use vault::{BadKey, KeyRing};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o700);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn sec_02_a_new_key_file_is_closed_and_reads_back() {
    let folder = folder();
    let path = folder.path().join("keys/master.key");
    let made = KeyRing::new(create_file(&path).unwrap());
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(KeyRing::new(read_file(&path).unwrap()).fingerprint(), made.fingerprint());
    let names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["master.key"], "no draft is left behind");
}

#[test]
fn sec_02_an_existing_file_is_never_replaced() {
    let folder = folder();
    let path = folder.path().join("master.key");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(create_file(&path), Err(SourceError::Exists(_))));
    assert_eq!(fs::read(&path).unwrap(), b"precious");

    let link = folder.path().join("link.key");
    symlink(folder.path().join("nowhere"), &link).unwrap();
    assert!(matches!(create_file(&link), Err(SourceError::Exists(_))));
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn sec_02_of_racing_creators_one_wins_and_all_read_the_same_key() {
    let folder = folder();
    let path = folder.path().join("master.key");
    let prints: Vec<_> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let key = create_file(&path).or_else(|_| read_file(&path)).unwrap();
                    KeyRing::new(key).fingerprint()
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert!(prints.iter().all(|print| *print == prints[0]));
}

#[test]
fn sec_02_an_open_directory_is_refused_for_a_new_key() {
    let folder = folder();
    for open in [0o755, 0o750, 0o701, 0o1777] {
        set_mode(folder.path(), open);
        let made = create_file(&folder.path().join("master.key"));
        assert!(matches!(made, Err(SourceError::TooOpen { wanted: 0o700, .. })), "{open:o}: {made:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn sec_02_a_file_open_to_others_is_refused() {
    let folder = folder();
    let path = folder.path().join("master.key");
    create_file(&path).unwrap();
    for open in [0o640, 0o604, 0o620, 0o602, 0o644, 0o700, 0o601, 0o4600] {
        set_mode(&path, open);
        assert!(matches!(read_file(&path), Err(SourceError::TooOpen { .. })), "{open:o}");
    }
    for closed in [0o600, 0o400] {
        set_mode(&path, closed);
        assert!(read_file(&path).is_ok(), "{closed:o}");
    }
    set_mode(&path, 0o644);
    let told = read_file(&path).unwrap_err().to_string();
    assert_eq!(told, format!("`{0}` has mode 0644; close it with `chmod 600 {0}`", path.display()));
}

#[test]
fn sec_02_what_is_not_a_plain_file_is_refused_without_waiting() {
    let folder = folder();
    let real = folder.path().join("master.key");
    create_file(&real).unwrap();
    let link = folder.path().join("link");
    symlink(&real, &link).unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();

    for path in [link.as_path(), pipe.as_path(), folder.path(), Path::new("/dev/null")] {
        assert!(matches!(read_file(path), Err(SourceError::NotAFile(_))), "{}", path.display());
    }
    assert!(matches!(read_file(&folder.path().join("absent")), Err(SourceError::Missing(_))));
}

#[test]
fn sec_02_another_users_file_is_refused() {
    if !rustix::process::geteuid().is_root() {
        assert!(
            std::env::var("PALISADE_TEST_STRICT").as_deref() != Ok("1"),
            "only root can give a file away"
        );
        drop(writeln!(std::io::stderr(), "skipped: only root can give a file away"));
        return;
    }
    let folder = folder();
    let path = folder.path().join("master.key");
    create_file(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    assert!(matches!(read_file(&path), Err(SourceError::Owner { uid: 65_534, .. })));
}

#[test]
fn sec_02_unusable_content_is_refused_and_not_repeated() {
    let folder = folder();
    let path = folder.path().join("master.key");
    let huge = "A".repeat(1 << 20);
    let cases: [(&[u8], BadKey); 5] = [
        (b"", BadKey::Empty),
        (b"hunter2", BadKey::NotEncoded),
        (b"\xff\xfe\x00", BadKey::NotEncoded),
        (b"c2hvcnQ=", BadKey::TooShort),
        (huge.as_bytes(), BadKey::TooLong),
    ];
    for (content, expected) in cases {
        fs::write(&path, content).unwrap();
        set_mode(&path, 0o600);
        match read_file(&path).unwrap_err() {
            SourceError::BadKey { cause, .. } => assert_eq!(cause, expected),
            other => panic!("{other:?}"),
        }
    }
    fs::write(&path, "hunter2").unwrap();
    let error = read_file(&path).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter2"));
}

fn program(folder: &Path, body: &str) -> Vec<String> {
    let path = folder.join("program");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    set_mode(&path, 0o700);
    vec![path.to_str().unwrap().to_owned(), "an argument; id".to_owned()]
}

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

#[test]
fn sec_02_a_program_prints_the_key_and_no_shell_reads_its_arguments() {
    let folder = folder();
    let key = vault::MasterKey::random().unwrap();
    let text = key.to_base64();
    let body = format!("[ \"$1\" = 'an argument; id' ] && echo '{}' && echo noise >&2", text.expose());
    let read = read_program(&program(folder.path(), &body), PATIENCE).unwrap();
    assert_eq!(KeyRing::new(read).fingerprint(), KeyRing::new(key).fingerprint());
}

#[test]
fn sec_02_a_program_that_gives_no_key_is_named_and_not_repeated() {
    let folder = folder();
    for (body, expected) in [
        ("echo hunter2-the-value >&2; exit 3", "it failed"),
        ("echo hunter2-the-value", "is not a usable key"),
        ("", "is not a usable key"),
        ("while :; do echo hunter2-the-value; done", "gave no master key"),
    ] {
        let error = read_program(&program(folder.path(), body), PATIENCE).unwrap_err();
        let told = format!("{error} {error:?}");
        assert!(told.contains(expected) && !told.contains("hunter2"), "{body}: {told}");
    }
    for argv in [vec![], vec!["/nowhere/at-all".to_owned()]] {
        assert!(matches!(read_program(&argv, PATIENCE), Err(SourceError::Program { .. })));
    }
}

/// A program that goes on is ended, with whatever it started.
#[test]
fn sec_02_a_program_has_a_deadline() {
    let folder = folder();
    let mark = folder.path().join("pid");
    let body = format!("sleep 600 & echo $! > {}; wait", mark.display());
    let error = read_program(&program(folder.path(), &body), std::time::Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("did not end within 1 s"), "{error}");
    let child = fs::read_to_string(mark).unwrap();
    let is_over = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    let deadline = std::time::Instant::now() + PATIENCE;
    while !is_over() {
        assert!(std::time::Instant::now() < deadline, "the child of the program is still there");
        std::thread::yield_now();
    }
}

/// What leaves the program's group and holds its pipe open is not waited for, and keeps no thread of ours: the program
/// has ended, and what it said counts.
#[test]
fn sec_02_a_pipe_that_stays_open_keeps_nobody() {
    let folder = folder();
    let mark = folder.path().join("pid");
    // A thread without a name of its own has that of the one that made it.
    let name = |task: &Path| fs::read_to_string(task.join("comm")).unwrap_or_default();
    let threads = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        tasks.filter(|task| name(task) == name(Path::new("/proc/thread-self"))).count()
    };
    let key = vault::MasterKey::random().unwrap();
    let text = key.to_base64();
    let before = threads();
    let long = std::time::Duration::from_secs(3_600);
    for round in 0..8 {
        let said = if round % 2 == 0 { text.expose().as_str() } else { "" };
        // It ends when the other is in a session of its own, so that it is not ended with the group.
        let body = format!(
            "echo '{said}'; setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600' & \
             while [ ! -e {0} ]; do sleep 0.01; done; exit 0",
            mark.display()
        );
        // Nobody would wait for this deadline.
        let read = read_program(&program(folder.path(), &body), long);
        match read {
            Ok(read) => {
                assert_eq!(KeyRing::new(read).fingerprint(), KeyRing::new(copy(&text)).fingerprint());
                assert_eq!(round % 2, 0);
            }
            Err(error) => {
                assert!(error.to_string().contains("is not a usable key"), "it ended in time: {error}");
                assert_eq!(round % 2, 1);
            }
        }
        let left = fs::read_to_string(&mark).unwrap().trim().parse().ok();
        let left = left.and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
        fs::remove_file(&mark).unwrap();
    }
    assert_eq!(threads(), before);
}

fn copy(text: &vault::Secret<String>) -> vault::MasterKey {
    vault::MasterKey::from_hex_or_base64(text.expose()).unwrap()
}

/// As systemd makes them: root's, of mode 0440, in a directory that others do not get into.
#[test]
fn sec_02_a_credential_of_systemd_is_read_and_an_open_one_is_not() {
    let folder = folder();
    let path = folder.path().join("palisade-master-key");
    let made = KeyRing::new(create_file(&path).unwrap()).fingerprint();
    let reads = |file: u32, directory: u32| {
        set_mode(&path, file);
        set_mode(folder.path(), directory);
        let read = read_credential(&path).map(|key| KeyRing::new(key).fingerprint());
        set_mode(folder.path(), 0o700);
        read.is_ok_and(|found| found == made)
    };
    let as_root = rustix::process::geteuid().is_root();
    assert!(reads(0o400, 0o500) && reads(0o600, 0o700));
    assert_eq!(reads(0o440, 0o550), as_root, "an access list is root's to give");
    for (file, directory) in [(0o444, 0o550), (0o440, 0o555), (0o460, 0o550), (0o440, 0o570), (0o441, 0o550)]
    {
        assert!(!reads(file, directory), "{file:o} in {directory:o}");
    }
    set_mode(&path, 0o440);
    assert!(matches!(read_file(&path), Err(SourceError::TooOpen { .. })), "elsewhere it is refused");
    if as_root {
        std::os::unix::fs::chown(&path, None, Some(65_534)).unwrap();
        assert!(!reads(0o440, 0o550), "a group of people");
    }
}

/// What is wrong with a credential is told by its name, and nobody is sent to a file that systemd makes and takes away.
#[test]
fn sec_02_what_is_wrong_with_a_credential_is_told_for_the_unit_of_its_service() {
    let folder = folder();
    let path = folder.path().join("palisade-master-key");
    let said = || {
        let both = [read_credential(&path).map(drop), read_passphrase(&path, Closed::Credential).map(drop)];
        both.map(|read| read.map_or_else(|error| error.to_string(), |()| "fine".to_owned()))
    };
    let expected = |why: &str| {
        format!(
            "the systemd credential `palisade-master-key` cannot be used: {why}; see LoadCredential= in the unit of the \
             service, and start the service again"
        )
    };
    assert_eq!(said(), [expected("it is not there"), expected("it is not there")]);
    fs::create_dir(&path).unwrap();
    assert_eq!(said(), [expected("it is not a regular file"), expected("it is not a regular file")]);
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "hunter2").unwrap();
    set_mode(&path, 0o644);
    let open = expected("others get at it (mode 0644)");
    assert_eq!(said(), [open.clone(), open]);
    set_mode(&path, 0o600);
    assert_eq!(said(), [expected(&BadKey::NotEncoded.to_string()), "fine".to_owned()]);
    fs::write(&path, b"\xff\xfe").unwrap();
    assert_eq!(said()[1], expected(&BadKey::NotEncoded.to_string()));
}

#[test]
fn sec_02_a_passphrase_file_is_as_closed_as_a_key() {
    let folder = folder();
    let path = folder.path().join("passphrase");
    fs::write(&path, "copper lantern orbit velvet quiet harbour\n").unwrap();
    set_mode(&path, 0o644);
    assert!(matches!(read_passphrase(&path, Closed::Private), Err(SourceError::TooOpen { .. })));
    set_mode(&path, 0o600);
    let text = read_passphrase(&path, Closed::Private).unwrap();
    assert_eq!(text.expose().trim(), "copper lantern orbit velvet quiet harbour");
    for bad in [&b"\xff\xfe"[..], &[b'x'; 5_000]] {
        fs::write(&path, bad).unwrap();
        assert!(matches!(read_passphrase(&path, Closed::Private), Err(SourceError::BadKey { .. })));
    }
}

/// What a killed maker left goes; what another is writing, and what is not ours, stays.
#[test]
fn sec_02_drafts_of_a_killed_maker_are_swept() {
    let folder = folder();
    let (dead, alive) = (".new-key-0123456789abcdef", ".new-key-fedcba9876543210");
    for name in [dead, alive, ".new-key-notes", "master.old"] {
        fs::write(folder.path().join(name), "half a key").unwrap();
    }
    let held = fs::File::open(folder.path().join(alive)).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    create_file(&folder.path().join("master.key")).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".new-key-fedcba9876543210", ".new-key-notes", "master.key", "master.old"]);
}

/// A file that is mounted by itself cannot be replaced, and that is known before anything needs it.
#[test]
fn sec_04_a_key_file_that_cannot_be_replaced_is_told() {
    const MOUNTED: &str = "PALISADE_TEST_MOUNTED_KEY";
    let is_fixed = |path: &Path| matches!(replaceable(path), Err(SourceError::Fixed(_)));
    // The second time, in a mount namespace of its own.
    if let Some(path) = std::env::var_os(MOUNTED) {
        let path = Path::new(&path);
        assert!(is_fixed(path));
        assert!(replace_file(path, &path.with_extension("next")).is_err(), "it is so");
        return;
    }
    let folder = folder();
    let (key, next) = (folder.path().join("master.key"), folder.path().join("master.next"));
    assert!(is_fixed(&key), "there is none");
    for path in [&key, &next] {
        drop(create_file(path).unwrap());
    }
    assert!(replaceable(&key).is_ok());
    let output = std::process::Command::new("unshare")
        .args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            r#"mount --bind "$1" "$1" && exec "$2" --exact "$3""#,
        ])
        .args(["sh".as_ref(), key.as_os_str(), std::env::current_exe().unwrap().as_os_str()])
        .arg("sec_04_a_key_file_that_cannot_be_replaced_is_told")
        .env(MOUNTED, &key)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    assert!(key.exists() && next.exists(), "both are as they were");
}
