//! ADV-P02: looking into process 1, helpers and the host's processes with a debugger's means.

use crate::kit::both;

const WAYS: [&str; 7] =
    ["attach", "seize", "read memory", "write memory", "compare", "take descriptor", "open memory"];

both! {
    fn adv_p02_a_nobody_inside_looks_into_process_1_or_the_host(stage) {
        let mut victim = stage.victim();

        // The default profile lets processes trace their own children: that is the harder case.
        for profile in ["dev", "own"] {
            stage.file("config/palisade/profiles/own.toml", "name = \"own\"\nbase = \"dev\"\ntrace = false\n");
            let report = stage.attack_with(&["--profile", profile], &["debug", &victim.pid()]);
            for way in WAYS {
                report.assert_all(&[&format!("host {way}")], &["EPERM", "ESRCH", "ENOENT", "ENOSYS"]);
                report.assert_all(&[&format!("first {way}")], &["EPERM", "EACCES", "ENOSYS"]);
            }
        }

        victim.assert_unharmed();
        let status = std::fs::read_to_string(format!("/proc/{}/status", victim.pid())).unwrap();
        assert!(status.contains("TracerPid:\t0"), "{status}");
    }

    fn adv_p02_b_tracing_ones_own_child_works_where_the_profile_says_so(stage) {
        // The control of the profile's switch, by the same call.
        let script = "use POSIX; my $p = fork; if (!$p) { exit(syscall(101, 0, 0, 0, 0) == 0 ? 0 : $!+0) } \
                      waitpid($p, 0); print 'traced: ', ($? >> 8), qq(\\n);";
        stage.file("config/palisade/profiles/own.toml", "name = \"own\"\nbase = \"dev\"\ntrace = false\n");
        assert_eq!(stage.run(&["perl", "-e", script]).report().of("traced"), "0");
        let refused = stage.run_with(&["--profile", "own"], &["perl", "-e", script]);
        assert_eq!(refused.report().of("traced"), "1", "EPERM");
    }

    fn adv_p02_c_control_without_a_sandbox_it_gets_through(stage) {
        if !stage.is_thrown_away() {
            return;
        }
        let victim = stage.victim();
        let report = stage.uncontrolled(&["debug", &victim.pid(), "only"]);
        // One attaches or seizes; the addresses are the attacker's own, so reading them elsewhere may find nothing there.
        report.assert_all(&["host attach", "host compare", "host take descriptor", "host open memory"], &["ok"]);
        report.assert_all(&["host read memory", "host write memory"], &["ok", "EFAULT"]);
    }
}
