//! ADV-P10: `/proc` and `/sys`.

use crate::kit::both;

const CLOSED: [&str; 4] = ["ENOENT", "EROFS", "EACCES", "EPERM"];

both! {
    fn adv_p10_a_the_kernels_trees_are_absent_masked_or_read_only(stage) {
        let mut victim = stage.victim();
        let pattern = std::fs::read("/proc/sys/kernel/core_pattern").unwrap();
        let name = std::fs::read("/proc/sys/kernel/hostname").unwrap();

        let report = stage.attack(&["look", &victim.pid()]);

        for (attempt, verdict) in &report.0 {
            let (what, path) = attempt.split_once(' ').unwrap_or((attempt, ""));
            let fine = match what {
                "write" | "host" => CLOSED.contains(&verdict.as_str()),
                "read" => verdict == "nothing" || CLOSED.contains(&verdict.as_str()),
                // Process 1 is not to be looked into; its arguments are those of the command.
                "first" => path == "cmdline" || verdict == "nothing" || CLOSED.contains(&verdict.as_str()),
                "processes" => verdict.parse::<usize>().unwrap() == 2,
                other => panic!("{other}"),
            };
            assert!(fine, "{attempt}: {verdict}");
        }
        assert_eq!(std::fs::read("/proc/sys/kernel/core_pattern").unwrap(), pattern);
        assert_eq!(std::fs::read("/proc/sys/kernel/hostname").unwrap(), name);
        victim.assert_unharmed();
    }

    fn adv_p10_b_control_without_a_sandbox_much_of_it_is_read(stage) {
        // Writing would harm the host; `attempts.py` writes what was there before.
        let victim = stage.victim();
        let mut host = stage.command("sh");
        host.args(["-c", "cat /proc/$1/environ >/dev/null && echo 'environ: ok'; ls /sys/class >/dev/null && echo 'class: ok'; \
                    test -s /proc/cmdline -o -n \"$(cat /proc/cmdline)\" && echo 'cmdline: ok'", "sh", &victim.pid()]);
        crate::kit::finish(host).report().assert_all(&["environ", "class", "cmdline"], &["ok"]);
    }
}
