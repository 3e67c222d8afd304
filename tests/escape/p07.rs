//! ADV-P07: signals and priorities, aimed outside.
//!
//! Left: Landlock's scope of signals by itself. The pid namespace refuses first, and it is no part that can be left out.

use crate::kit::both;

const NOBODY: [&str; 2] = ["ESRCH", "EPERM"];

both! {
    fn adv_p07_a_signals_stay_in_the_sandbox(stage) {
        let mut victim = stage.victim();

        let output = stage.run(&["./attacker", "signals", &victim.pid()]).assert_code(0);

        let report = output.report();
        report.assert_all(&["host stop", "host kill", "host priority", "host limit", "host group"], &NOBODY);
        // Process 1 takes no signal from inside: the run went on to its end.
        report.assert_all(&["first stop", "first kill"], &["ok", "EPERM"]);
        assert!(report.of("reachable").parse::<usize>().unwrap() <= 3, "{report:?}");
        victim.assert_unharmed();
        // A second sandbox is as it was, too.
        stage.run(&["true"]).assert_code(0);
    }

    fn adv_p07_b_control_without_a_sandbox_the_same_user_ends_it(stage) {
        let mut victim = stage.victim();
        let mut host = stage.command("sh");
        host.args(["-c", "renice -n 19 -p $1 >/dev/null && prlimit --pid $1 --cpu=100:100 && kill -STOP $1 && kill -KILL $1 && echo 'killed: ok'", "sh", &victim.pid()]);

        assert_eq!(crate::kit::finish(host).report().of("killed"), "ok");
        assert!(!victim.0.wait().unwrap().success());
    }
}
