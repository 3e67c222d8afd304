//! ADV-P09: the launcher is killed in mid-run.
//!
//! Left: the daemon's own death, its listeners and bridges.

use std::time::{Duration, Instant};

use crate::kit::{Tree, both, processes_with, read_line};

/// The row says one second; deadlines are asserted at five times.
const SOON: Duration = Duration::from_secs(5);

both! {
    fn adv_p09_a_the_whole_tree_ends_with_its_launcher(stage) {
        for _ in 0..tests::scale(20, 3) {
            let token = format!("linger-{}-{:?}", stage.path("x"), Instant::now());
            let mut run = stage.palisade(&[], &["./attacker", "linger", &token]);
            let mut run = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
            assert_eq!(read_line(&mut run), "up");
            let tree = Tree::with(&token);
            // The launcher, process 1, the command and three daemons.
            assert!(tree.pids.len() >= 6, "{:?}", tree.pids);

            run.kill().unwrap();
            run.wait().unwrap();

            tree.assert_gone(run.id(), SOON);
            assert!(processes_with(&token).is_empty());
        }
        // What a killed launcher left in the worktree does not stop the next one.
        stage.run(&["true"]).assert_code(0);
    }

    fn adv_p09_b_control_without_a_sandbox_the_daemons_stay(stage) {
        let token = format!("linger-{}-host", stage.path("x"));
        let mut host = stage.command(stage.at("attacker"));
        let mut host = host.args(["linger", &token]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        assert_eq!(read_line(&mut host), "up");
        host.kill().unwrap();
        host.wait().unwrap();

        let left = processes_with(&token);

        assert_eq!(left.len(), 3);
        for pid in left {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
    }

    fn adv_p09_c_the_next_run_cleans_up_after_a_killed_one(stage) {
        let token = stage.path("stubs");
        let mut run = stage.palisade(&[], &["./attacker", "linger", &token]);
        let mut run = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
        assert_eq!(read_line(&mut run), "up");
        let tree = Tree::with(&token);
        run.kill().unwrap();
        run.wait().unwrap();
        tree.assert_gone(run.id(), SOON);
        // The control: there is something to clean.
        assert!(stage.at("work/.claude").exists());

        stage.run(&["true"]).assert_code(0);

        assert!(!stage.at("work/.claude").exists(), "stubs are left in the worktree");
        assert!(tree.groups_left().is_empty(), "{:?}", tree.groups_left());
    }
}
