//! SBX-07 and ADV-P08: limits are what was asked, measured within a twentieth, as root and as a user.
//!
//! For root a control group holds memory, processes and processor time; for a user without one the launcher watches, or
//! nobody does and the receipt says so. Disk, files on disk and time are watched for everyone. What fills goes as fast as
//! a disk, since between two looks of a watch a hog is free.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::room::{Room, Said, Who, everyone};

/// The numbers of `strict`, for somebody who may not divide control groups and so may not have it.
const STRICT: &str = "memory=512m,cpu=1,pids=128,files=1024,file_size=10m,disk=2g,tmp=64m";

fn room(who: Who) -> Room {
    let room = Room::empty(who);
    std::fs::copy(env!("CARGO_BIN_EXE_attacker"), room.project.join("attacker")).unwrap();
    room.own(&room.project.join("attacker"));
    room.file("old", "");
    room
}

/// One at a time: what others free or fill on the same disk hides what a run adds, and is measured elsewhere.
fn alone_on_the_disk() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `strict` where it is to be had, else its numbers.
fn strict(who: Who) -> Vec<&'static str> {
    match who {
        Who::Root => vec!["--profile", "strict"],
        Who::User(_) => vec!["--limit", STRICT],
    }
}

fn run(room: &Room, options: &[&str], script: &str) -> Said {
    room.run_in(&room.project, options, script)
}

fn palisade(room: &Room, arguments: &[&str]) -> Command {
    let mut command = room.host(&room.project, room.home().with_file_name("palisade"));
    command.args(arguments);
    command
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// The receipt of the last run, as people see it.
fn receipt(room: &Room) -> String {
    said(&palisade(room, &["receipt", "show"]).output().unwrap()).ok().out
}

/// The last number that was said under this name.
#[track_caller]
fn last(said: &Said, name: &str) -> u64 {
    let mut lines = said.out.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let number = lines.next_back().and_then(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("no `{name}` in out: {}\nerr: {}", said.out, said.err))
}

#[track_caller]
fn within_a_twentieth(found: u64, of: u64) {
    assert!(found * 20 >= of * 19 && found * 20 <= of * 21, "{found} is not within 5 % of {of}");
}

#[track_caller]
fn is_over(said: Said, name: &str, most: &str) -> Said {
    assert_eq!(said.code, Some(137), "out: {}\nerr: {}", said.out, said.err);
    said.tells(&format!("the limit `{name}` of {most} allows; `--limit {name}=…` gives more"))
}

#[test]
fn sbx_07_disk_is_what_was_asked() {
    let _alone = alone_on_the_disk();
    for who in everyone() {
        let room = room(who);
        let said = run(&room, &["--limit", "disk=256m"], "./attacker fill plain 400");
        within_a_twentieth(last(&is_over(said, "disk", "256m"), "filled"), 256);
        // The control: with more, the same is done to the end. What the first left was there before.
        let said = run(&room, &["--limit", "disk=256m"], "rm fill-*; ./attacker fill plain 230").ok();
        assert_eq!(last(&said, "filled"), 230);
    }
}

#[test]
fn sbx_07_files_on_disk_are_what_was_asked() {
    let _alone = alone_on_the_disk();
    for who in everyone() {
        let room = room(who);
        let said = run(&room, &["--limit", "inodes=10000"], "./attacker fill files 20000");
        within_a_twentieth(last(&is_over(said, "inodes", "10000"), "filled"), 10_000);
        let said = run(&room, &["--limit", "inodes=10000"], "rm -r file-*; ./attacker fill files 9000").ok();
        assert_eq!(last(&said, "filled"), 9_000);
    }
}

/// Also in the home inside, and in a layer over the worktree or its `.git`.
#[test]
fn sbx_07_disk_counts_in_every_place_that_can_be_written_to() {
    let _alone = alone_on_the_disk();
    for who in everyone() {
        let room = Room::with_repository(who);
        std::fs::copy(env!("CARGO_BIN_EXE_attacker"), room.project.join("attacker")).unwrap();
        room.own(&room.project.join("attacker"));
        let given = room.home().join("given");
        std::fs::create_dir(&given).unwrap();
        room.own(&given);
        let (work, given) = (room.project.display().to_string(), given.display().to_string());
        for (options, at) in [
            (vec!["--overlay"], "."),
            (vec![], ".git"),
            (vec![], "$HOME"),
            (vec!["--rw", given.as_str()], given.as_str()),
        ] {
            let options: Vec<&str> = ["--limit", "disk=128m"].into_iter().chain(options).collect();
            let said = run(&room, &options, &format!("cd {at} && {work}/attacker fill plain 200"));
            let filled = last(&is_over(said, "disk", "128m"), "filled");
            within_a_twentieth(filled, 128);
        }
        assert!(!room.project.join("fill-0").exists(), "a layer keeps what it has");
    }
}

/// A run stands still while it is counted, and no shell takes that for a stop of its job.
#[test]
fn sbx_07_nobody_inside_sees_a_count() {
    let _alone = alone_on_the_disk();
    for who in everyone() {
        let room = room(who);
        let outside = tempfile::tempdir_in(room.home()).unwrap();
        let script = "set -m; echo ready; for n in $(seq 40); do sleep 0.02 || echo \"stopped: $?\"; done";
        let mut beside = palisade(&room, &["run", "--limit", "disk=16m", "--", "bash", "-c", script]);
        let mut child = beside.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "ready"));
        // Each is more than the run has left, and so a reason to count.
        for number in 0..8 {
            std::fs::write(outside.path().join(number.to_string()), vec![7u8; 32 << 20]).unwrap();
        }
        let rest: Vec<String> = lines.collect();
        let said = said(&child.wait_with_output().unwrap()).ok();
        assert!(rest.is_empty() && said.err.is_empty(), "{rest:?} {}", said.err);
    }
}

#[test]
fn sbx_07_whoever_else_fills_the_disk_does_not_end_a_run() {
    let _alone = alone_on_the_disk();
    for who in everyone() {
        let room = room(who);
        let outside = tempfile::tempdir_in(room.home()).unwrap();
        let fill = |mebibytes: usize| {
            for number in 0..mebibytes {
                let file = outside.path().join(number.to_string());
                std::fs::write(file, vec![7u8; 1 << 20]).unwrap();
            }
            rustix::fs::sync();
        };
        let script = "./attacker fill plain 8; echo ready; read line; ./attacker fill linked 8";
        let mut run_beside = palisade(&room, &["run", "--limit", "disk=32m", "--", "sh", "-ec", script]);
        let pipes = run_beside.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "ready"));
        // Five times what it may have is missing now.
        fill(160);
        child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        assert!(lines.any(|line| line == "end: reached"));
        said(&child.wait_with_output().unwrap()).ok().tells_nothing_of("limit");
        // The control: the run itself.
        is_over(run(&room, &["--limit", "disk=32m"], "./attacker fill grown 160"), "disk", "32m");
    }
}

#[test]
fn sbx_07_strict_holds_its_small_numbers() {
    for who in everyone() {
        let room = room(who);
        let options = strict(who);
        let script = "exec 2>&1; trap '' XFSZ; set +e
            head -c 20m /dev/zero > big; echo \"file_size: $(stat -c %s big)\"; rm big
            n=0; while head -c 1m /dev/zero > /tmp/$n 2>/dev/null; do n=$((n+1)); done
            echo \"tmp: $n\"; rm /tmp/*
            bash -c 'n=3; while exec {fd}</dev/null; do n=$((n+1)); done 2>/dev/null; echo \"files: $n\"' || true
            ./attacker bomb";
        let said = run(&room, &options, script);
        within_a_twentieth(last(&said, "file_size"), 10 << 20);
        within_a_twentieth(last(&said, "tmp"), 64);
        within_a_twentieth(last(&said, "files"), 1_024);
        within_a_twentieth(last(&said, "children"), 128);
    }
}

/// Ways to have memory: of its own, in a file of memory, the same where nobody may list what is open, in common, in a
/// memory file system.
const WAYS: [&str; 5] = ["memory", "memfd", "undumped-memfd", "shared", "tmp"];

#[test]
fn sbx_07_memory_is_what_was_asked() {
    for who in everyone() {
        let room = room(who);
        for way in WAYS {
            let options = ["--limit", "memory=256m,tmp=1g,pids=1000"];
            let said = run(&room, &options, &format!("exec ./attacker fill {way} 500"));
            match who {
                // The kernel ends one process, which need not be the one that said so.
                Who::Root => assert!(last(&said, "filled") * 20 <= 256 * 21, "{way}: {}", said.out),
                Who::User(_) => {
                    within_a_twentieth(last(&is_over(said, "memory", "256m"), "filled"), 256);
                }
            }
            // The control: less is let through.
            assert_eq!(
                last(&run(&room, &options, &format!("./attacker fill {way} 200")), "filled"),
                200,
                "{way}"
            );
        }
    }
}

/// With many to look at, the launcher looks less often; they are added up all the same.
#[test]
fn adv_p08_memory_of_many_processes_is_added_up() {
    for who in everyone() {
        let room = room(who);
        let options = ["--limit", "memory=256m,pids=1000"];
        let said = run(&room, &options, "exec ./attacker fill forked 600");
        if who != Who::Root {
            let said = is_over(said, "memory", "256m");
            assert!(last(&said, "filled") < 512, "{}", said.out);
        }
        assert_eq!(last(&run(&room, &options, "./attacker fill forked 100"), "filled"), 100);
    }
}

/// What children have in common with their parent is there once.
#[test]
fn adv_p08_memory_in_common_is_counted_once() {
    for who in everyone() {
        let room = room(who);
        let said = run(&room, &["--limit", "memory=256m"], "./attacker family 100 8").ok();
        assert_eq!(last(&said, "children"), 8);
    }
}

#[test]
fn sbx_07_processor_time_is_what_was_asked() {
    let Some(who) = everyone().into_iter().find(|who| *who == Who::Root) else {
        tests::cannot_run("only root has a control group for processor time");
        return;
    };
    let room = room(who);
    let script = "TIMEFORMAT='used: %U %S
real: %R'; time (for n in 1 2 3 4; do (end=$((SECONDS+3)); while [ $SECONDS -lt $end ]; do :; done) & done; wait)";
    let said =
        run(&room, &["--profile", "strict"], &format!("bash -c \"{}\" 2>&1", script.replace('$', "\\$")));
    let numbers = |name: &str| -> f64 {
        let line = said.out.lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("{} {}", said.out, said.err));
        line.split_whitespace().map(|word| word.parse::<f64>().unwrap()).sum()
    };
    let (used, real) = (numbers("used:"), numbers("real:"));
    assert!(used <= real * 1.05, "{used} s of one processor in {real} s");
}

#[test]
fn sbx_07_time_is_what_was_asked() {
    for who in everyone() {
        let room = room(who);
        let begun = Instant::now();
        is_over(run(&room, &["--limit", "wall=2s"], "trap '' TERM; sleep 60"), "wall", "2s");
        assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&begun.elapsed()));
    }
}

#[test]
fn sbx_07_the_receipt_says_who_sees_to_what() {
    for who in everyone() {
        let room = room(who);
        run(&room, &["--limit", "disk=64m,inodes=500,wall=1h"], "true").ok();
        let shown = receipt(&room);
        for (name, value) in
            [("disk", "67108864 (watched)"), ("inodes", "500 (watched)"), ("wall_seconds", "3600 (watched)")]
        {
            let line = shown.lines().find(|line| line.starts_with(&format!("limits.{name} ")));
            assert!(line.is_some_and(|line| line.ends_with(value)), "{name}: {shown}");
        }
        let memory = shown.lines().find(|line| line.starts_with("limits.memory ")).unwrap();
        let by = if who == Who::Root { "(enforced)" } else { "(watched)" };
        assert!(memory.ends_with(by), "{memory}");
    }
}

/// Root here has `blkio` or `io`; somebody without any gets nothing rather than a limit that nobody holds.
#[test]
fn sbx_07_the_speed_of_the_disk_is_held_or_nothing_starts() {
    for who in everyone() {
        let room = room(who);
        let said =
            run(&room, &["--limit", "io=8m"], "dd if=/dev/zero of=x bs=1M count=16 oflag=direct 2>&1; rm x");
        if said.code == Some(125) {
            assert!(!room.project.join("x").exists());
            said.tells("the limit `io` cannot be held here");
            continue;
        }
        let shown = receipt(&room);
        let line = shown.lines().find(|line| line.starts_with("limits.io "));
        assert!(line.is_some_and(|line| line.ends_with("8388608 (enforced)")), "{shown}");
        let words: Vec<&str> = said.out.split_whitespace().collect();
        let seconds =
            words.iter().position(|word| *word == "s,").and_then(|at| words[at - 1].parse::<f64>().ok());
        // 16 MiB at 8 in a second; some are let through at once.
        assert!(seconds.unwrap_or_else(|| panic!("{}", said.out)) >= 1.0, "{}", said.out);
    }
}
