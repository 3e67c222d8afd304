//! ADV-F01: changing what is outside the writable roots, in every way there is.
//!
//! The place is shown read-only; every file in it is open to everyone, so that owners and modes cannot be what
//! refuses. Left: the same through a daemon's session.

use crate::kit::{Snapshot, Stage, Who, both};

/// What Landlock governs.
const GOVERNED: [&str; 20] = [
    "write",
    "append",
    "truncate-open",
    "truncate-path",
    "reopen-path",
    "reopen-read",
    "create",
    "create-unnamed",
    "mkdir",
    "symlink",
    "mkfifo",
    "mksocket",
    "link",
    "rename",
    "rename-folder",
    "rename-in",
    "rename-out",
    "exchange",
    "unlink",
    "rmdir",
];

/// What is known to pass it; root's sandboxes do not own the files, so there the owner's check refuses.
const PASSING: [&str; 6] = ["chmod", "fchmod", "chown", "setxattr", "utimens", "futimens"];

const REFUSED: [&str; 4] = ["EACCES", "EROFS", "EPERM", "EXDEV"];

fn fixture(stage: &Stage, name: &str) -> String {
    let place = stage.path(name);
    stage.folder(name, 0o777);
    stage.uncontrolled(&["prepare", &place]);
    place
}

fn landlock_alone(stage: &Stage, place: &str) {
    let report = stage.without(&["read-only", "seccomp"], &["--ro", place], &["change", place]);
    report.assert_all(&GOVERNED, &REFUSED);
    report.assert_all(&["mknod", "setflags"], &["EACCES", "EPERM", "ok"]);
    let passing: &[&str] = if stage.who == Who::Root { &["EPERM", "ok"] } else { &["ok"] };
    report.assert_all(&PASSING, passing);
}

both! {
    fn adv_f01_a_nothing_outside_changes_with_every_wall_up(stage) {
        let place = fixture(stage, "outside/fixture");
        let before = Snapshot::of(&stage.at("outside"));

        let report = stage.attack_with(&["--ro", &place], &["change", &place]);

        report.assert_each(&REFUSED);
        before.assert_same(&stage.at("outside"));
    }

    fn adv_f01_b_the_mounts_alone_hold_for_all_of_it(stage) {
        let place = fixture(stage, "outside/fixture");
        let before = Snapshot::of(&stage.at("outside"));

        let report = stage.without(&["landlock", "seccomp"], &["--ro", &place], &["change", &place]);

        report.assert_each(&REFUSED);
        before.assert_same(&stage.at("outside"));
    }

    fn adv_f01_c_landlock_alone_holds_for_what_it_governs(stage) {
        let place = format!("{}/fixture", stage.elsewhere());
        stage.uncontrolled(&["prepare", &place]);

        landlock_alone(stage, &place);
    }

    #[ignore = "open: Landlock adds up the rules of every folder above, so beneath /tmp or the home it refuses nothing"]
    fn adv_f01_g_landlock_alone_holds_beneath_a_writable_place(stage) {
        let place = fixture(stage, "outside/fixture");

        landlock_alone(stage, &place);
    }

    fn adv_f01_d_control_without_both_walls_it_gets_through(stage) {
        let place = fixture(stage, "outside/fixture");

        let report = stage.without(&["landlock", "seccomp", "read-only"], &["--ro", &place], &["change", &place]);

        // Two mounts of one file system: a rename between them is another matter.
        let within = GOVERNED.into_iter().filter(|name| !["rename-in", "rename-out"].contains(name));
        report.assert_all(&within.collect::<Vec<_>>(), &["ok"]);
    }

    fn adv_f01_e_control_without_a_sandbox_it_gets_through(stage) {
        let place = fixture(stage, "outside/fixture");

        let report = stage.uncontrolled(&["change", &place]);

        report.assert_all(&GOVERNED, &["ok"]);
        report.assert_all(&PASSING, &["ok"]);
    }

    fn adv_f01_f_the_system_itself_cannot_be_changed(stage) {
        let script = "for place in / /usr /etc /dev /proc /run /var /home /opt; do \
                      touch $place/escaped 2>/dev/null && echo \"$place: ok\"; done; \
                      (: > /etc/passwd) && echo '/etc/passwd: ok'; (: >> /usr/bin/env) && echo '/usr/bin/env: ok'; echo 'end: of it'";
        let report = stage.run(&["sh", "-c", script]).report();
        assert!(report.through().is_empty(), "{report:?}");
        // The control is case d: the same on a place that may be harmed. On the system itself it would harm the host.
    }
}
