//! `palisade shell --join`: a shell in a sandbox that is at work, behind the same walls, and gone with it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::room::{Room, everyone};

/// What a process says of where it is and what it may do.
const WHERE: &str = "for n in user mnt pid net ipc uts cgroup; do echo $n $(readlink /proc/self/ns/$n); done; \
     grep -E '^(Uid|Gid|Cap...|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/self/status; echo pwd $(pwd); echo user $(id -u); \
     echo group $(grep -c . /proc/self/cgroup); ls / | tr '\\n' ' '; ls /proc/1/fd > /dev/null 2>&1 || echo no descriptors of process 1";

fn facts(text: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let (name, value) = line.split_once([' ', ':', '\t']).unwrap_or((line, ""));
        (name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    text.lines().map(line).collect()
}

fn shell(room: &Room, words: &[&str]) -> Command {
    let mut command = room.host(&room.project, room.program());
    command.args(["shell", "--join"]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A script in a sandbox that is at work; what it printed.
fn joined(room: &Room, script: &str) -> String {
    let mut shell = shell(room, &[]).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    said
}

fn ends(child: &mut Child) {
    let until = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn sbx_06_a_shell_that_joins_a_run_is_behind_the_same_walls() {
    for who in everyone() {
        let room = Room::empty(who);
        let script = format!("({WHERE}) > where; touch up; while [ ! -e go ]; do sleep 0.02; done");
        let run = room.at_work(&[], &script, || room.project.join("up").exists());
        let inside = facts(&std::fs::read_to_string(room.project.join("where")).unwrap());
        assert_eq!(inside["NoNewPrivs"], "1");

        let other = facts(&joined(&room, &format!("({WHERE})\n")));

        assert_eq!(other, inside, "{who:?}");
        let host = std::fs::read_link("/proc/self/ns/mnt").unwrap();
        assert_ne!(other["mnt"], host.display().to_string(), "the control: this is not the host");
        let reached =
            joined(&room, "cat /etc/shadow; touch /usr/x; mkdir .vscode/x; unshare -U true; echo $?\n");
        assert_eq!(reached, "1\n", "{who:?}: {reached}");
        room.file("go", "");
        assert!(run.wait_with_output().unwrap().status.success());
        let nobody = shell(&room, &[]).output().unwrap();
        assert!(!nobody.status.success());
        assert!(String::from_utf8_lossy(&nobody.stderr).contains("nothing is running"), "{nobody:?}");
    }
}

#[test]
fn sbx_08_a_shell_that_joined_ends_with_the_run() {
    for who in everyone() {
        let room = Room::empty(who);
        let mut run = room.at_work(&[], "touch up; sleep 1000", || room.project.join("up").exists());
        let mut shell = shell(&room, &[]).spawn().unwrap();
        let mut to = shell.stdin.take().unwrap();
        writeln!(to, "sleep 1000 & echo here").unwrap();
        let mut first = [0; 5];
        shell.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"here\n");

        run.kill().unwrap();
        run.wait().unwrap();

        ends(&mut shell);
        assert!(!shell.wait().unwrap().success(), "{who:?}: it did not end by itself");
    }
}
