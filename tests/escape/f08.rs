//! ADV-F08: filling things up, and names that programs stumble over.
//!
//! Left: the disk quota of the worktree, which the launcher's watchdog is to hold, and a million files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::kit::{Stage, both, finish};

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

    fn adv_f08_b_no_name_is_read_as_an_option_or_breaks_a_run(stage) {
        let names: [&[u8]; 6] =
            [b"new\nline", b"\x1b[31mred\x1b]0;title\x07", b"-rf", b"--", b"* ? $HOME `id`", b"\\"];
        odd_names(stage, &names);
    }

    fn adv_f08_c_a_name_that_is_not_utf_8_does_not_stop_the_next_run(stage) {
        odd_names(stage, &[b"\xff\xfe invalid"]);
    }
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
