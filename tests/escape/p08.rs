//! ADV-P08: bombs and hogs, and ways out of a control group.
//!
//! Left: the sibling's p95 (the bench), CPU, and memory for users without delegation, which the watchdog of the
//! launcher is to hold.

use crate::kit::{Stage, Who, both, finished, read_line};

/// Whether a group can be made that holds memory.
fn has_groups(stage: &Stage) -> bool {
    stage.who == Who::Root
}

both! {
    fn adv_p08_a_a_fork_bomb_is_limited(stage) {
        let report = stage.attack_with(&["--limit", "pids=64"], &["bomb"]);

        assert_eq!(report.of("end"), "EAGAIN");
        assert!(report.of("children").parse::<usize>().unwrap() < 64, "{report:?}");
        // The control: a higher limit lets more through.
        let report = stage.attack_with(&["--limit", "pids=200"], &["bomb"]);
        assert!(report.of("children").parse::<usize>().unwrap() > 100, "{report:?}");
    }

    fn adv_p08_b_a_sibling_works_while_one_is_full(stage) {
        let mut bomb = stage.palisade(&["--limit", "pids=64"], &["sh", "-c", "./attacker bomb; echo full; read line"]);
        bomb.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut bomb = bomb.spawn().unwrap();
        while read_line(&mut bomb) != "full" {}

        stage.run(&["sh", "-c", "true; true & wait"]).assert_code(0);

        drop(bomb.stdin.take());
        finished(bomb);
    }

    fn adv_p08_c_memory_is_limited(stage) {
        if !has_groups(stage) {
            return;
        }
        let report = stage.attack_with(&["--limit", "memory=64m"], &["hog", "256"]);
        assert_eq!(report.of("hog"), "killed by 9");
        // The control: with more, the same is no hog.
        assert_eq!(stage.attack_with(&["--limit", "memory=512m"], &["hog", "256"]).of("hog"), "ok");
    }

    fn adv_p08_d_no_way_out_of_the_control_group(stage) {
        let script = "ls /sys/fs/cgroup 2>/dev/null && echo 'tree: ok'; \
                      grep -v ':/$' /proc/self/cgroup && echo 'place: ok'; \
                      mkdir /tmp/group; mount -t cgroup2 none /tmp/group 2>/dev/null && echo 'mount: ok'; \
                      grep cgroup /proc/self/mountinfo && echo 'mounted: ok'; \
                      find / -name release_agent -not -path '/proc/*' -not -path '/usr/*' 2>/dev/null | grep . && echo 'agent: ok'; \
                      echo 'end: of it'";
        let report = stage.run(&["sh", "-c", script]).report();
        assert!(report.through().is_empty(), "{report:?}");
    }
}
