//! ADV-P12: a layer is missing: nothing starts, and the message names it.
//!
//! The kernel is made to lack a layer by a filter around the launcher. Process 1 is the one helper there is: it is part of
//! the launcher and goes into a sealed memory file, so a changed one is a changed launcher. Left: degraded by an
//! administrator's setting, and `doctor`.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::kit::{Stage, Who, both, finish, finished, processes_with, read_line};

/// What is taken away: a name, the calls, and a word that the message must have.
const LAYERS: [(&str, &str, &str); 17] = [
    ("namespaces", "435=EPERM", "user namespaces: "),
    ("landlock", "444=ENOSYS", "landlock: "),
    ("landlock in force", "446=EPERM", "landlock: "),
    ("mounts", "430=EPERM", "mounts: "),
    ("read-only mounts", "442=EPERM", "mounts: "),
    ("seccomp", "317=EPERM", "seccomp: "),
    ("no_new_privs", "157:38=EPERM", "no_new_privs: "),
    ("capability sets", "126=EPERM", "`capabilities`"),
    ("the bounding set", "157:24=EPERM", "`bounding set`"),
    ("the ambient set", "157:47=EPERM", "`ambient set`"),
    ("the mount namespace", "272=EPERM", "mount namespace: "),
    ("the uts namespace", "170=EPERM", "uts namespace: "),
    ("the network namespace", "16=EPERM", "network namespace: "),
    ("a root of its own", "155=EPERM", "mounts: "),
    ("landlock's rules", "445=EPERM", "landlock: "),
    ("a session of its own", "112=EPERM", "`session`"),
    ("sealed memory", "319=EPERM", "process 1"),
];

/// Process 1 of a run, as the host's root sees its program: the bytes, and what the kernel lets nobody do with them.
fn process_1(stage: &Stage) -> (Vec<u8>, i32, Option<i32>) {
    let mut run = stage.palisade(&[], &["sh", "-c", "echo up; read line", &stage.path("x")]);
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    assert_eq!(read_line(&mut run), "up");
    let is_first = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.starts_with(b"palisade-init\0")
    };
    let pid = processes_with(&stage.path("x")).into_iter().find(is_first).unwrap();
    let path = format!("/proc/{pid}/exe");
    let file = fs::File::open(&path).unwrap();
    // SAFETY: no pointers.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let written = fs::OpenOptions::new().write(true).open(&path).err().and_then(|error| error.raw_os_error());
    drop(run.stdin.take());
    finished(run);
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut &file, &mut bytes).unwrap();
    (bytes, seals, written)
}

both! {
    fn adv_p12_a_without_a_layer_nothing_starts(stage) {
        for (name, calls, word) in LAYERS {
            let mut run = stage.command(stage.at("attacker"));
            run.args(["deny", calls, "--"]).arg(stage.at("palisade")).args(["run", "--", "touch", "started"]);

            let output = finish(run).assert_code(125);

            assert!(!stage.at("work/started").exists(), "started without {name}");
            assert!(output.stderr.starts_with("palisade: "), "{name}: {}", output.stderr);
            assert!(output.stderr.contains(word), "{name}: {}", output.stderr);
        }
        // The control: the same with a call that nobody needs.
        let mut run = stage.command(stage.at("attacker"));
        run.args(["deny", "212=ENOSYS", "--"]).arg(stage.at("palisade")).args(["run", "--", "touch", "started"]);
        finish(run).assert_code(0);
        assert!(stage.at("work/started").exists());
    }

    fn adv_p12_b_a_profile_that_requires_a_group_gets_one_or_nothing_starts(stage) {
        let output = stage.run_with(&["--profile", "strict"], &["touch", "started"]);

        if stage.who == Who::Root {
            // The control: root has one.
            assert_eq!(output.code, 0, "{output:?}");
            return;
        }
        // A user without delegation: there is no group, so there is no run.
        assert!(!stage.at("work/started").exists());
        assert_eq!(output.code, 125, "{output:?}");
        assert!(output.stderr.contains("control groups"), "{output:?}");
    }

    fn adv_p12_c_process_1_is_sealed_and_a_changed_one_starts_nothing(stage) {
        // Only root may look at process 1 of somebody else, or at what it was started from.
        if !stage.is_thrown_away() {
            return tests::cannot_run("process 1 of a sandbox can only be looked at by root");
        }
        let (init, seals, written) = process_1(stage);
        let all = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
        assert_eq!(seals & all, all);
        assert!([Some(libc::ETXTBSY), Some(libc::EPERM)].contains(&written), "opened for writing: {written:?}");

        let launcher = fs::read(stage.at("palisade")).unwrap();
        let found: Vec<usize> = launcher.windows(init.len()).enumerate().filter(|(_, part)| *part == init).map(|(at, _)| at).collect();
        let [at] = found[..] else { panic!("process 1 is in the launcher {} times", found.len()) };
        // The header tells where the program begins; it is loaded from its first byte.
        let number = |from: usize| usize::try_from(u64::from_le_bytes(init[from..from + 8].try_into().unwrap())).unwrap();
        let (entry, base) = (number(24), number(64 + 16) - number(64 + 8));
        let changes: [(&str, usize, &[u8]); 4] = [
            // The control: a byte that nobody reads changes nothing.
            ("nothing", 9, &[0]),
            ("no program", 0, &[0]),
            ("one that leaves at once, content", entry - base, &[0x31, 0xff, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05]),
            ("one that breaks", entry - base, &[0x0f, 0x0b]),
        ];
        for (what, from, bytes) in changes {
            let mut changed = launcher.clone();
            changed[at + from..at + from + bytes.len()].copy_from_slice(bytes);
            let path = stage.file("bin/changed", &changed);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            let mut run = stage.command(&path);
            run.args(["run", "--", "touch", "started"]);
            let output = finish(run);
            let started = fs::remove_file(stage.at("work/started")).is_ok();
            if what == "nothing" {
                assert_eq!((output.code, started), (0, true), "{output:?}");
            } else {
                assert_eq!((output.code, started), (125, false), "{what}: {output:?}");
                assert!(output.stderr.starts_with("palisade: "), "{what}: {output:?}");
            }
        }
    }
}
