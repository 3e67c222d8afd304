//! ADV-F08: filling things up, and names that programs stumble over.
//!
//! How near to its limit a run is ended is measured in `tests/run/limits.rs`; here, that no way around it gets through,
//! and that nobody else pays for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use crate::kit::{Output, Snapshot, Stage, both, finish, finished, read_line};

/// Ways to take room on disk: as such, without a name, the same where nobody may list what is open, where nobody may look,
/// without a length, without even a descriptor, and in a file that was there before.
///
/// With how far each may get. The last two are known by the free space alone, so as much more as other tests free.
const WAYS: [(&str, u32); 7] = [
    ("plain", 192),
    ("nameless", 192),
    ("undumped-nameless", 192),
    ("locked", 192),
    ("reserved", 192),
    ("mapped", 560),
    ("grown", 560),
];

both! {
    fn adv_f08_a_memory_for_files_and_the_size_of_a_file_are_limited(stage) {
        let report = stage.attack_with(&["--limit", "tmp=8m,file_size=64m"], &["grow", "/tmp"]);

        assert_eq!(report.of("full"), "ENOSPC");
        assert!(report.of("mebibytes").parse::<u32>().unwrap() <= 8, "{report:?}");
        assert_eq!(report.of("sparse"), "EFBIG");
        // The control: with other limits, both get further. The disk's own limit for one file is below a tebibyte
        // on some hosts, so only the first is asked.
        let report = stage.attack_with(&["--limit", "tmp=24m,file_size=64m"], &["grow", "/tmp"]);
        assert!(report.of("mebibytes").parse::<u32>().unwrap() > 16, "{report:?}");
        // And the next sandbox has a room of its own.
        stage.run(&["sh", "-c", "echo fine > /tmp/x"]).assert_code(0);
    }

    fn adv_f08_j_memory_for_files_holds_so_many_and_no_more(stage) {
        let script = "for place in /tmp /var/tmp /dev/shm; do cd $place; seq 5000 | xargs touch 2>/dev/null && echo \"$place: ok\" || \
                      echo \"$place: full\"; done";
        let places = ["/tmp", "/var/tmp", "/dev/shm"];

        let report = stage.run_with(&["--limit", "tmp=8m"], &["sh", "-c", script]).report();

        report.assert_all(&places, &["full"]);
        // The control: where there is more room, there is room for as many.
        let report = stage.run_with(&["--limit", "tmp=64m"], &["sh", "-c", script]).report();
        report.assert_all(&places, &["ok"]);
    }

    fn adv_f08_b_no_name_is_read_as_an_option_or_breaks_a_run(stage) {
        let names: [&[u8]; 6] =
            [b"new\nline", b"\x1b[31mred\x1b]0;title\x07", b"-rf", b"--", b"* ? $HOME `id`", b"\\"];
        odd_names(stage, &names);
    }

    fn adv_f08_c_a_name_that_is_not_utf_8_does_not_stop_the_next_run(stage) {
        odd_names(stage, &[b"\xff\xfe invalid"]);
    }

    fn adv_f08_d_no_way_to_fill_the_disk_goes_on_beyond_the_quota(stage) {
        // What others free meanwhile hides what is added: not beside each other.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        stage.file("outside/note", "of the host");
        let before = Snapshot::of(&stage.at("outside"));
        for (way, most) in WAYS {
            stage.file("work/old", "");

            let output = fill(stage, "disk=128m", way, 600);

            over(&output, "disk", "128m");
            let filled = output.report().of("filled").parse::<u32>().unwrap();
            assert!((96..most).contains(&filled), "{way}: {filled}");
            // What is left is the person's to remove, and the next run has a quota of its own.
            let script = "chmod -R u+rwx ~/locked-*; rm -rf fill-* ~/locked-* old; ls . ~";
            let removed = stage.run(&["sh", "-c", script]);
            let left = removed.assert_code(0).stdout;
            assert!(!left.contains("fill") && !left.contains("locked"), "{left}");
        }
        before.assert_same(&stage.at("outside"));
        // The control: without the quota, the same goes on to the end.
        let output = fill(stage, "disk=1g", "plain", 256).assert_code(0);
        assert_eq!(output.report().of("end"), "reached");
    }

    fn adv_f08_e_what_takes_no_room_is_let_through(stage) {
        for (way, amount) in [("sparse", 100), ("linked", 24)] {
            let output = fill(stage, "disk=32m", way, amount).assert_code(0);
            assert_eq!(output.report().of("end"), "reached", "{way}");
        }
    }

    fn adv_f08_f_files_on_disk_are_limited(stage) {
        let output = fill(stage, "inodes=2000", "many", 200_000);

        over(&output, "inodes", "2000");
        // The control: the same number as a quota lets as many through.
        let output = fill(stage, "inodes=2000", "files", 1_500).assert_code(0);
        assert_eq!(output.report().of("filled"), "1500");
    }

    fn adv_f08_g_a_second_sandbox_works_while_the_first_is_at_its_quota(stage) {
        let script = "./attacker fill plain 28; echo full; read line; mkdir more; cd more; ../attacker fill plain 60";
        let mut first = stage.palisade(&["--limit", "disk=32m"], &["sh", "-c", script]);
        first.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut first = first.spawn().unwrap();
        while read_line(&mut first) != "full" {}

        let second = stage.another_folder();
        let mut beside = stage.palisade(&["--limit", "disk=32m"], &["dd", "if=/dev/zero", "of=x", "bs=1M", "count=24"]);
        beside.current_dir(second.path());
        finish(beside).assert_code(0);

        drop(first.stdin.take());
        over(&finished(first), "disk", "32m");
        assert_eq!(std::fs::metadata(second.path().join("x")).unwrap().len(), 24 << 20);
    }

    fn adv_f08_h_very_many_files_are_no_trouble(stage) {
        // In parts: some disks take a minute for all.
        const PART: usize = 50_000;
        for part in 0..tests::scale(1_000_000, 20_000).div_ceil(PART) {
            let script = format!("mkdir part-{part} && cd part-{part} && exec ../attacker fill many {PART}");
            let output = stage.run(&["sh", "-c", &script]).assert_code(0);
            assert_eq!(output.report().of("end"), "reached");
        }
        stage.run(&["sh", "-c", "rm part-0/file-1; echo fine > part-0/x"]).assert_code(0);
        assert!(!stage.at("work/part-0/file-1").exists());
        std::fs::remove_dir_all(stage.at("work")).unwrap();
    }

    fn adv_f08_i_a_tree_that_is_too_deep_ends_only_its_own_run(stage) {
        // It may be ended because what is in there cannot be guarded.
        let output = fill(stage, "disk=32m", "deep", 64);
        assert_ne!(output.code, 0, "{output:?}");

        stage.run(&["sh", "-c", "echo fine > x; ls"]).assert_code(0);

        assert_eq!(std::fs::read_to_string(stage.at("work/x")).unwrap(), "fine\n");
        std::fs::remove_dir_all(stage.at("work")).unwrap();
    }
}

fn fill(stage: &Stage, limit: &str, way: &str, amount: usize) -> Output {
    // What is locked in the worktree cannot be guarded, which ends a run as well: in the home, nothing is guarded.
    let at = if way == "locked" { "$HOME" } else { "." };
    let script = format!("cd {at} && exec \"$0\" fill {way} {amount}");
    stage.run_with(&["--limit", limit], &["sh", "-c", &script, &stage.path("work/attacker")])
}

#[track_caller]
fn over(output: &Output, name: &str, most: &str) {
    let told = format!("the limit `{name}` of {most} allows; `--limit {name}=…` gives more");
    assert!(output.code == 137 && output.stderr.contains(&told), "{output:?}");
}

fn odd_names(stage: &Stage, names: &[&[u8]]) {
    for name in names {
        std::fs::write(stage.at("work").join(OsStr::from_bytes(name)), "x").unwrap();
        let folder = [*name, b".d"].concat();
        stage.folder("work/x", 0o755);
        std::fs::rename(stage.at("work/x"), stage.at("work").join(OsStr::from_bytes(&folder))).unwrap();
        // A hidden name in each: the launcher has to go there.
        std::fs::write(stage.at("work").join(OsStr::from_bytes(&folder)).join(".env"), "CANARY").unwrap();
    }
    let script = "mkdir -p $(printf 'd/%.0s' $(seq 200)); echo in > $(printf 'd/%.0s' $(seq 200))file; \
                      cat */.env; find . -name .env | wc -l";

    for _ in 0..2 {
        let output = stage.run(&["bash", "-c", script]).assert_code(0);
        assert!(!output.stdout.contains("CANARY"), "{output:?}");
        assert!(!output.stderr.contains('\u{1b}'), "{output:?}");
    }
    for name in names {
        assert!(stage.at("work").join(OsStr::from_bytes(name)).exists());
    }
    // The control: on the host they are read.
    let mut host = stage.command("bash");
    host.args(["-c", "cat ./*/.env"]);
    assert_eq!(finish(host).stdout.matches("CANARY").count(), names.len());
}
