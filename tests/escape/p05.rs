//! ADV-P05: new worlds: namespaces and mounts of one's own.

use crate::kit::both;

const REFUSED: [&str; 4] = ["EPERM", "ENOSYS", "ENOSPC", "EACCES"];

both! {
    fn adv_p05_a_no_new_namespace(stage) {
        let mut report = stage.attack(&["worlds"]);

        assert_eq!(report.0.remove("capabilities").unwrap(), "none");
        report.assert_each(&REFUSED);
        // The control: without the filter, a user namespace and all others in it can be had.
        let report = stage.without(&["seccomp"], &[], &["worlds"]);
        report.assert_all(&["unshare-user", "clone-user", "clone3-user"], &["ok"]);
    }

    fn adv_p05_b_no_mount(stage) {
        let mut report = stage.attack(&["mounts"]);

        assert_eq!(report.0.remove("mount table").unwrap(), "unchanged");
        report.assert_each(&REFUSED);
        // The control: without filter and Landlock, in a user namespace of its own.
        let report = stage.without(&["seccomp", "landlock"], &[], &["mounts"]);
        report.assert_all(&["own-mounts", "mount-tmpfs", "fsopen", "fspick", "mount_setattr"], &["ok"]);
    }

    fn adv_p05_c_no_sandbox_in_the_sandbox(stage) {
        let copied = std::process::Command::new("cp").arg(stage.at("palisade")).arg(stage.at("work/palisade")).status();
        assert!(copied.unwrap().success());

        let output = stage.run(&["./palisade", "run", "--", "touch", "made"]);

        assert_eq!(output.code, 125, "{output:?}");
        assert!(!stage.at("work/made").exists());
        for command in [["unshare", "-Ur", "true"], ["unshare", "-m", "true"], ["chroot", "/tmp", "true"]] {
            assert_ne!(stage.run(&command).code, 0, "{command:?}");
        }
        // The control: on the host the same program makes one.
        let mut host = stage.command("./palisade");
        host.args(["run", "--", "touch", "made"]);
        crate::kit::finish(host).assert_code(0);
        assert!(stage.at("work/made").exists());
    }
}
