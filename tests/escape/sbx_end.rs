//! SBX-08: the end is complete. And what the end of a command looks like from outside: exit codes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use rustix::process::Signal;

use crate::kit::{Stage, Tree, both, ends_within, finish, processes_with, read_line};

/// The row says one second; deadlines are asserted at five times.
const SOON: Duration = Duration::from_secs(5);

/// What of a stage there is: its processes, and files in its folders.
fn left_now(stage: &Stage) -> (Vec<u32>, BTreeSet<String>) {
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
    (processes_with(&stage.path("")), names)
}

/// What of a stage is left.
fn left(stage: &Stage) -> (usize, BTreeSet<String>) {
    // The process that kept covers has told everything by then, and closes what it watched.
    let deadline = std::time::Instant::now() + SOON;
    while !processes_with(&stage.path("")).is_empty() && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let (processes, names) = left_now(stage);
    (processes.len(), names)
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

    fn sbx_08_c_ten_thousand_starts_leak_nothing(stage) {
        // A copy that no other stage is linked to: a new link makes it another build, which is tested anew.
        let copy = stage.path("copy");
        assert!(std::process::Command::new("cp").args([&stage.path("palisade"), &copy]).status().unwrap().success());
        std::fs::rename(&copy, stage.at("palisade")).unwrap();
        stage.run(&["true"]).assert_code(0);
        left(stage);
        let before = everything(stage);
        // Half as root, half as a user.
        let starts = tests::scale(10_000, 100) / 2;

        for _ in 0..starts {
            stage.run(&["true"]).assert_code(0);
        }

        left(stage);
        let after = everything(stage);
        for (what, count) in &before {
            assert_eq!(after.get(what), Some(count), "{what} after {starts} starts");
        }
        // The control: a run that goes on is counted, by each of these.
        let mut run = stage.palisade(&[], &["sh", "-c", "echo up; read line; true"]);
        let mut run = run.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        assert_eq!(read_line(&mut run), "up");
        let during = everything(stage);
        for what in ["processes", "names in the project", "sockets of runs", "pages of stubs", "namespaces"] {
            assert!(during[what] > before[what], "{what}: {during:?}");
        }
        drop(run.stdin.take());
        crate::kit::finished(run).assert_code(0);
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

/// What of a stage there is on the host that could become more with every run. Receipts and the record do, by intent.
fn everything(stage: &Stage) -> BTreeMap<&'static str, usize> {
    let (processes, names) = left_now(stage);
    let below = |name: &str| names.iter().filter(|path| path.starts_with(&stage.path(name))).count();
    // Groups are named for runs, and runs have receipts.
    let receipts = std::fs::read_dir(stage.at("state/palisade/receipts")).unwrap().flatten();
    let runs: Vec<String> = receipts
        .map(|entry| entry.file_name().into_string().unwrap().trim_end_matches(".json").to_owned())
        .collect();
    let groups = groups().iter().filter(|name| runs.iter().any(|run| name.contains(run.as_str()))).count();
    let of_user = |place: &str| {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        entries.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == stage.user)).count()
    };
    // Root has other things there too.
    let is_alone = stage.who == crate::kit::Who::User && stage.is_thrown_away();
    let temporary =
        if is_alone { ["/tmp", "/var/tmp", "/dev/shm", "/run"].map(of_user).iter().sum() } else { 0 };
    let spaces: BTreeSet<_> = processes
        .iter()
        .flat_map(|pid| {
            ["user", "mnt", "net", "pid"]
                .map(|name| std::fs::read_link(format!("/proc/{pid}/ns/{name}")).ok())
        })
        .flatten()
        .collect();
    BTreeMap::from([
        ("processes", processes.len()),
        ("namespaces", spaces.len()),
        ("mounts", of_the_host(stage)),
        ("control groups", groups),
        ("temporary files", temporary),
        ("names in the project", below("work/")),
        ("names in the home", below("home/")),
        ("sockets of runs", below("state/palisade/live/")),
        ("pages of stubs", below("state/palisade/stubs/")),
        ("folders of runs", below("state/palisade/runs/")),
        ("homes of agents", below("state/palisade/homes/")),
        ("self-tests", below("state/palisade/selftest/")),
    ])
}

/// Every control group of a run there is.
fn groups() -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![std::path::PathBuf::from("/sys/fs/cgroup")]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("palisade-run_") {
                    found.push(name);
                } else {
                    open.push(entry.path());
                }
            }
        }
    }
    found
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
