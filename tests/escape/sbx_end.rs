//! SBX-08: the end is complete. And what the end of a command looks like from outside: exit codes.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::kit::{Stage, both, ends_within, finish, processes_with, read_line};

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
    (processes_with(&stage.path("")).len(), names)
}

/// Control groups of ours, and mounts of the host.
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
            let tree = processes_with(&token);
            match round % 3 {
                // The command ends by a signal that the launcher passes on.
                0 => terminate(run.id()),
                // The command is killed; its daemons are not.
                1 => kill_command(&tree, &token),
                // The launcher is killed.
                _ => run.kill().unwrap(),
            }
            let until = Instant::now() + Duration::from_secs(12);
            for pid in tree.into_iter().filter(|pid| *pid != run.id()) {
                assert!(ends_within(pid, until.saturating_duration_since(Instant::now())), "{pid} is left");
            }
            assert!(ends_within(run.id(), Duration::from_secs(5)));
            run.wait().unwrap();
        }

        // A killed launcher cannot remove its stubs; the next one finds them (ADV-P09 c).
        stage.run(&["true"]).assert_code(0);
        let (now, mut found) = left(stage);
        for names in [&mut files, &mut found] {
            names.retain(|name| !is_recorded(stage, name));
        }
        assert_eq!(now, processes);
        assert_eq!(found, files);
        assert_eq!(of_the_host(stage), mounts);
        assert_eq!(groups_of(&stage.path("")), 0);
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

/// Receipts and the record stay, by intent.
fn is_recorded(stage: &Stage, name: &str) -> bool {
    let stubs = name.strip_prefix(&stage.path("work/")).is_some();
    name.starts_with(&stage.path("state")) || stubs
}

fn terminate(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

/// Ends the command itself: the child of process 1 that leads the first session.
fn kill_command(tree: &[u32], token: &str) {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let field = |pid: u32, number: usize| {
        stat(pid).rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(number)?.parse::<u32>().ok()).unwrap_or(0)
    };
    let inside = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default().to_owned();
        numbers.split_whitespace().last().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0)
    };
    let command = tree.iter().copied().find(|pid| inside(*pid) == 2 && field(*pid, 1) != 0);
    let command = command.unwrap_or_else(|| panic!("no command of {token} in {tree:?}"));
    let pid = rustix::process::Pid::from_raw(command.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Control groups that no process is in any more and that are still there.
fn groups_of(_stage: &str) -> usize {
    let mut count = 0;
    let mut open: Vec<(std::path::PathBuf, usize)> = vec![("/sys/fs/cgroup".into(), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let events = std::fs::read_to_string(entry.path().join("cgroup.events")).unwrap_or_default();
            if name.starts_with("palisade-run_") && events.contains("populated 0") {
                count += 1;
            }
            if depth < 6 {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    count
}
