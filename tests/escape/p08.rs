//! ADV-P08: bombs and hogs, and ways out of a control group.
//!
//! Left: how fast a sibling is beside a hog (the bench); here it answers, within a wide bound. Processor time is not limited
//! for users without delegation.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::kit::{LONGEST, Stage, Tree, Victim, Who, both, ends_within, finish, finished, read_line};

/// The row says twice; deadlines are asserted at five times. On a machine that does other things too, an answer within
/// this is no sign of a hog.
const TIMES: u32 = 10;
const NO_SIGN: Duration = Duration::from_millis(250);

/// A sandbox that answers.
fn sibling(stage: &Stage) -> Victim {
    let folder = stage.folder("sibling", 0o755);
    let mut run = stage.palisade(&[], &["cat"]);
    run.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    Victim(run.spawn().unwrap())
}

/// How long its answers take: of a hundred, the ninety-fifth.
fn answers(sibling: &mut Child) -> Duration {
    let mut all: Vec<Duration> = (0..tests::scale(2000, 100))
        .map(|_| {
            let asked = Instant::now();
            sibling.stdin.as_mut().unwrap().write_all(b"ping\n").unwrap();
            assert_eq!(read_line(sibling), "ping");
            asked.elapsed()
        })
        .collect();
    all.sort();
    all[all.len() * 95 / 100]
}

/// What hogs: a limit, and a script that says `up` when it is at it.
const HOGS: [(&str, &str, &str); 3] = [
    ("processor", "pids=64", "for n in 1 2 3 4; do (while :; do :; done) & done; echo up; read line"),
    (
        "processes",
        "pids=48",
        "(bomb() { bomb | bomb & bomb; }; bomb) 2>/dev/null & (while :; do ./attacker bomb; done) >/dev/null 2>&1 & echo up; read line",
    ),
    (
        "memory",
        "memory=96m,pids=64",
        "(while :; do ./attacker hog 512; done) >/dev/null 2>&1 & echo up; read line",
    ),
];

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

        // The control is the bomb's own word: it was refused another process.
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
        let looks = "ls /sys/fs/cgroup 2>/dev/null && echo 'tree: ok'; \
                     grep -v ':/$' /proc/self/cgroup && echo 'place: ok'; \
                     grep cgroup /proc/self/mountinfo && echo 'mounted: ok'; \
                     find / -name release_agent -not -path '/proc/*' -not -path '/usr/*' 2>/dev/null | grep . && echo 'agent: ok'; ";
        let tries = "for kind in cgroup cgroup2; do mkdir -p /tmp/$kind; \
                     mount -t $kind none /tmp/$kind 2>/dev/null && echo \"mount $kind: ok\"; \
                     unshare -UrmC mount -t $kind none /tmp/$kind 2>/dev/null && echo \"own mount $kind: ok\"; \
                     mkdir /sys/fs/cgroup/$kind /proc/1/root/sys/fs/cgroup/$kind 2>/dev/null && echo \"child $kind: ok\"; done; \
                     for file in cgroup.procs tasks release_agent notify_on_release; do for place in /sys/fs/cgroup /sys/fs/cgroup/memory /sys/fs/cgroup/unified /proc/1/root/sys/fs/cgroup; do \
                     (echo 0 > $place/$file) 2>/dev/null && echo \"$place/$file: ok\"; done; done; \
                     (echo 0::/ > /proc/self/cgroup) 2>/dev/null && echo 'own place: ok'; ";
        let token = stage.path("groups");
        let mut run = stage.palisade(&[], &["sh", "-c", &format!("echo up; read line; {looks} {tries} echo 'end: of it'; echo; read line"), &token]);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        assert_eq!(read_line(&mut run), "up");
        // From outside: the groups that its processes are in, before and after.
        let (before, groups) = (places(&token), Tree::with(&token));
        run.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut said = Vec::new();
        while said.last().is_none_or(|line: &String| !line.is_empty()) {
            said.push(read_line(&mut run));
        }

        assert!(said.contains(&"end: of it".to_owned()) && !said.iter().any(|line| line.ends_with(": ok")), "{said:?}");
        assert_eq!(places(&token), before);
        drop(run.stdin.take());
        finished(run);
        assert!(groups.groups_left().is_empty(), "{:?}", groups.groups_left());
        // The control: on the host the same looks find them. Trying there would move the tests themselves.
        let mut host = stage.command("sh");
        host.args(["-c", &looks.replace("find /", "find /sys/fs/cgroup -maxdepth 2")]);
        assert_eq!(finish(host).report().of("tree"), "ok");
    }

    fn adv_p08_e_a_sibling_answers_beside_every_hog(stage) {
        let mut sibling = sibling(stage);
        let idle = answers(&mut sibling.0);
        for (what, limit, script) in HOGS {
            let token = format!("{}-{what}", stage.path("hog"));
            let mut hog = stage.palisade(&["--limit", limit], &["bash", "-c", script, &token]);
            hog.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut hog = Victim(hog.spawn().unwrap());
            assert_eq!(read_line(&mut hog.0), "up");

            let beside = answers(&mut sibling.0);

            let most = (idle * TIMES).max(NO_SIGN);
            assert!(beside < most, "beside a hog of {what}: {beside:?}, idle {idle:?}");
            // One kill removes all of it.
            let tree = Tree::with(&token);
            // Without a group the launcher itself may have ended it by now.
            assert!(!tree.pids.is_empty() || what == "memory");
            hog.0.kill().unwrap();
            tree.assert_gone(hog.0.id(), Duration::from_secs(5));
            println!("beside a hog of {what}: {beside:?}, idle {idle:?}");
        }
        drop(sibling.0.stdin.take());
        assert!(ends_within(sibling.0.id(), LONGEST));
        assert_eq!(sibling.0.wait().unwrap().code(), Some(0));
    }
}

/// The control groups of processes with this on their command line, inside a sandbox.
fn places(token: &str) -> std::collections::BTreeSet<String> {
    let mut places = std::collections::BTreeSet::new();
    for pid in crate::kit::processes_with(token) {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        places.extend(text.lines().filter(|line| line.contains("/palisade-run_")).map(str::to_owned));
    }
    places
}
