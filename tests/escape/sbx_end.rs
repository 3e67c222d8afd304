//! SBX-08: the end is complete. And what the end of a command looks like from outside: exit codes.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;

use crate::kit::{Stage, Tree, both, ends_within, finish, processes_with, read_line};

/// The row says one second; deadlines are asserted at five times.
const SOON: Duration = Duration::from_secs(5);

/// What of a stage could be left: its processes, and files in its folders.
fn left(stage: &Stage) -> (usize, BTreeSet<String>) {
    let mut names = BTreeSet::new();
    let mut open = vec![stage.at("work"), stage.at("home"), stage.at("state")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
            names.insert(entry.path().display().to_string());
        }
    }
    // The process that kept covers has told everything by then, and closes what it watched.
    let deadline = std::time::Instant::now() + SOON;
    let mut processes = processes_with(&stage.path("")).len();
    while processes > 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(1));
        processes = processes_with(&stage.path("")).len();
    }
    (processes, names)
}

/// Mounts of the host that show something of the stage.
fn of_the_host(stage: &Stage) -> usize {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.matches(&stage.path("")).count()
}

both! {
    fn sbx_08_a_launches_and_kills_leave_nothing(stage) {
        let token = stage.path("linger");
        stage.run(&["true"]).assert_code(0);
        let (processes, mut files) = left(stage);
        let mounts = of_the_host(stage);

        for round in 0..tests::scale(1000, 30) {
            let mut run = stage.palisade(&[], &["./attacker", "linger", &token]);
            let mut run = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
            assert_eq!(read_line(&mut run), "up");
            let tree = Tree::with(&token);
            assert!(tree.pids.len() >= 6, "{:?}", tree.pids);
            if round % 2 == 0 {
                // The command ends by a signal that the launcher passes on.
                end(run.id(), Signal::TERM);
            } else {
                // The command is killed; its daemons are not.
                end(command_of(&tree.pids), Signal::KILL);
            }
            tree.assert_gone(run.id(), SOON);
            assert!(ends_within(run.id(), SOON));
            run.wait().unwrap();
            assert!(tree.groups_left().is_empty(), "{:?}", tree.groups_left());
        }

        let (now, mut found) = left(stage);
        for names in [&mut files, &mut found] {
            names.retain(|name| !is_recorded(stage, name));
        }
        assert_eq!(now, processes);
        assert_eq!(found, files);
        assert_eq!(of_the_host(stage), mounts);
    }

    fn sbx_08_b_a_killed_launcher_leaves_no_group(stage) {
        let token = stage.path("linger");
        let mut run = stage.palisade(&[], &["./attacker", "linger", &token]);
        let mut run = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
        assert_eq!(read_line(&mut run), "up");
        let tree = Tree::with(&token);

        run.kill().unwrap();
        run.wait().unwrap();
        tree.assert_gone(run.id(), SOON);
        stage.run(&["true"]).assert_code(0);

        assert!(tree.groups_left().is_empty(), "{:?}", tree.groups_left());
    }

    fn exit_codes_are_the_commands_own(stage) {
        stage.file("work/not-executable", "#!/bin/sh\n");
        stage.folder("work/folder", 0o755);
        let broken = stage.file("work/broken", "no program\n");
        std::fs::set_permissions(broken, std::fs::Permissions::from_mode(0o755)).unwrap();
        let cases: [(&[&str], i32); 11] = [
            (&["true"], 0),
            (&["false"], 1),
            (&["sh", "-c", "exit 3"], 3),
            (&["sh", "-c", "exit 255"], 255),
            (&["there-is-no-such-program"], 127),
            (&["./there-is-no-such-file"], 127),
            (&["./not-executable"], 126),
            (&["./folder"], 126),
            (&["./broken"], 126),
            (&["sh", "-c", "kill -TERM $$"], 143),
            (&["sh", "-c", "kill -KILL $$"], 137),
        ];
        for (command, code) in cases {
            assert_eq!(stage.run(command).code, code, "{command:?}");
        }
    }

    fn exit_code_125_says_that_the_sandbox_could_not_be_made(stage) {
        let mut at_home = stage.palisade(&[], &["true"]);
        at_home.current_dir(stage.at("home"));
        let output = finish(at_home).assert_code(125);
        assert!(output.stderr.contains("home directory"), "{output:?}");
        for place in ["/", "/tmp", "/usr", "/etc"] {
            let mut run = stage.palisade(&[], &["true"]);
            run.current_dir(place);
            assert_eq!(finish(run).code, 125, "{place}");
        }
        stage.run_with(&["--profile", "there-is-none"], &["true"]).assert_code(125);
        stage.run_with(&["--rw", "relative/../path"], &["true"]).assert_code(125);
    }
}

/// Receipts, runs and the record stay, by intent.
fn is_recorded(stage: &Stage, name: &str) -> bool {
    name.starts_with(&stage.path("state"))
}

fn end(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// The command itself: the first that process 1 started.
fn command_of(tree: &[u32]) -> u32 {
    let inside = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers =
            status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default().to_owned();
        let numbers: Vec<u32> = numbers.split_whitespace().filter_map(|text| text.parse().ok()).collect();
        (numbers.len() > 1).then(|| numbers[numbers.len() - 1])
    };
    let command = tree
        .iter()
        .copied()
        .filter_map(|pid| Some((inside(pid)?, pid)))
        .filter(|(number, _)| *number > 1)
        .min();
    command.unwrap_or_else(|| panic!("no command in {tree:?}")).1
}
