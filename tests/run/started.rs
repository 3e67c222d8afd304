//! `palisade run` as a program starts it: pipes, a report, an end that comes with the parent's.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::room::{Room, everyone};

/// Nobody waits longer than this for anything here.
const PATIENCE: Duration = Duration::from_secs(30);

impl Room {
    fn state(&self) -> PathBuf {
        self.home().join("sessions/one/state")
    }

    fn report(&self) -> PathBuf {
        self.home().join("report.json")
    }

    /// `palisade` with a state of its own, as the daemon starts it for a session.
    fn client(&self, words: &[&str]) -> Command {
        let mut command = self.host(&self.project, self.program());
        command.env("XDG_STATE_HOME", self.state()).args(words);
        command
    }

    /// A run with pipes and a report.
    fn started(&self, options: &[&str], script: &str) -> Child {
        let report = self.report();
        let mut command = self.client(&["run", "--report", report.to_str().unwrap()]);
        command.args(options).args(["--", "sh", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A program that was just written may still be open in a child that another test is starting at this moment.
        for _ in 0..1000 {
            match command.spawn() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => return other.unwrap(),
            }
        }
        panic!("the program stays busy")
    }

    /// The report, once it says this.
    fn told(&self, state: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(self.report()).unwrap_or_default();
            // Never half of one.
            let told: Value =
                if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
            if told["state"] == state {
                return told;
            }
            assert!(Instant::now() < until, "`{state}` was never told: {text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What a command said, and its exit code.
    fn asked(&self, words: &[&str]) -> (Option<i32>, Value) {
        let output = self.client(words).arg("--json").output().unwrap();
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
    }
}

/// The processes whose command line has this in it.
pub fn having(mark: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).replace('\0', " ").contains(mark) {
            found.push(pid);
        }
    }
    found
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Waits until it has said this first.
#[track_caller]
fn said(run: &mut Child, first: &str) {
    let mut bytes = vec![0; first.len()];
    run.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), first);
}

#[test]
fn ses_13_pipes_are_pipes_and_every_line_comes_at_once() {
    for who in everyone() {
        let room = Room::empty(who);
        let script =
            "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] && echo terminal; tty < /dev/tty 2> /dev/null && echo tty;
            while read line; do echo \"$line back\"; echo \"$line aside\" >&2; done; echo ended; exit 7";
        let mut run = room.started(&[], script);
        let (mut to, mut from) = (run.stdin.take().unwrap(), BufReader::new(run.stdout.take().unwrap()));
        for number in 0..100 {
            writeln!(to, "{number}").unwrap();
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            assert_eq!(line, format!("{number} back\n"), "{who:?}");
        }
        // What closes outside closes inside.
        drop(to);
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "ended\n");
        let mut aside = String::new();
        run.stderr.take().unwrap().read_to_string(&mut aside).unwrap();
        assert_eq!(aside.lines().filter(|line| line.ends_with(" aside")).count(), 100);
        assert_eq!(run.wait().unwrap().code(), Some(7));
        let told = room.told("ended");
        assert_eq!((&told["exit"], &told["ended"]), (&Value::from(7), &Value::from("exited")), "{told}");
    }
}

#[test]
fn a_report_names_the_run_while_it_runs_and_what_became_of_it() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let mut run = room.started(&["--overlay"], "read x; echo y > y; git add y; git commit -qm y");
        let begun = room.told("running");
        let id = begun["run"].as_str().unwrap().to_owned();
        assert_eq!(begun["pid"], run.id());
        let receipt = PathBuf::from(begun["receipt"]["file"].as_str().unwrap());
        assert!(receipt.starts_with(room.state()) && receipt.exists(), "{begun}");
        let mode = std::fs::metadata(room.report()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (code, listed) = room.asked(&["ps"]);
        assert_eq!((code, &listed["result"][0]["run"]), (Some(0), &begun["run"]), "{listed}");
        run.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty(), "standard output is the command's own");
        let told = room.told("ended");
        assert_eq!((&told["run"], &told["exit"]), (&begun["run"], &Value::from(0)), "{told}");
        assert_eq!(told["commits"]["branches"][0]["became"], "waits", "{told}");
        assert_eq!(told["layer"]["kept"], id.as_str(), "{told}");
        let (code, applied) = room.asked(&["apply", &id]);
        assert_eq!((code, &applied["result"]["branch"]["became"]), (Some(0), &Value::from("moved")));
        // Homes of agents are below the state: sessions have nothing in common.
        assert!(room.state().join("palisade/homes").is_dir());
        assert!(!room.home().join(".local/state").exists());
    }
}

#[test]
fn a_report_is_written_to_no_link_and_to_no_place_of_the_command() {
    for who in everyone() {
        let room = Room::empty(who);
        let mine = room.home().join("mine");
        std::fs::write(&mine, "mine").unwrap();
        std::os::unix::fs::symlink(&mine, room.report()).unwrap();
        let output = room.started(&[], "touch ran").wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
        std::fs::remove_file(room.report()).unwrap();
        let inside = room.project.join("report.json");
        let output =
            room.client(&["run", "--report", inside.to_str().unwrap(), "--", "touch", "ran"]).output();
        assert_eq!(output.unwrap().status.code(), Some(125));
        assert!(!room.project.join("ran").exists());
        // What does not begin is told there too.
        let output =
            room.started(&["--ro", "/nonexistent/x", "--profile", "none"], "true").wait_with_output();
        assert_eq!(output.unwrap().status.code(), Some(125));
        let told = room.told("failed");
        assert!(told["exit"] == 125 && told["error"]["message"].as_str().unwrap().contains("none"), "{told}");
    }
}

#[test]
fn ses_04_stop_freeze_and_thaw_from_another_process() {
    for who in everyone() {
        let room = Room::empty(who);
        let mark =
            format!("6{}.125", room.state().to_string_lossy().len() + 70_000 + std::process::id() as usize);
        // It ignores the wish, and has left somebody in a session of its own.
        let script = format!("trap '' TERM; setsid sleep {mark} & while :; do sleep 0.1; done");
        let mut run = room.started(&["--grace", "1"], &script);
        let id = room.told("running")["run"].as_str().unwrap().to_owned();
        let until = Instant::now() + PATIENCE;
        while having(&format!("sleep {mark}")).is_empty() {
            assert!(Instant::now() < until);
        }
        for (word, done) in
            [("freeze", "frozen"), ("thaw", "running"), ("freeze", "frozen"), ("stop", "gone")]
        {
            let (code, told) = room.asked(&[word, &id]);
            assert_eq!((code, &told["result"]["done"]), (Some(0), &Value::from(done)), "{told}");
        }
        // Those of ours, which have it among their words, record the end meanwhile; one that ended by now has no words.
        let is_ours = |pid: &i32| {
            let of = |name: &str| format!("/proc/{pid}/{name}");
            std::fs::read_link(of("exe")).is_ok_and(|program| program == room.program())
                || std::fs::read(of("cmdline")).unwrap_or_default().is_empty()
        };
        let mut inside = having(&format!("sleep {mark}"));
        inside.retain(|pid| !is_ours(pid));
        assert_eq!(inside, [] as [i32; 0], "stop means gone");
        run.wait().unwrap();
        let told = room.told("ended");
        assert_eq!(told["exit"], 137, "{told}");
        for word in ["freeze", "thaw", "stop"] {
            let (code, told) = room.asked(&[word, &id]);
            assert_eq!((code, &told["error"]["code"]), (Some(1), &Value::from("not_found")), "{told}");
            let (code, told) = room.asked(&[word, "../x"]);
            assert_eq!((code, &told["error"]["code"]), (Some(2), &Value::from("usage")), "{told}");
        }
    }
}

#[test]
fn ses_04_a_signal_to_the_launcher_is_a_wish_and_then_an_end() {
    for who in everyone() {
        let room = Room::empty(who);
        let mut run =
            room.started(&[], "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
        said(&mut run, "ready\n");
        signal(&run, rustix::process::Signal::TERM);
        let output = run.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"bye\n"[..]));
        let mut run =
            room.started(&["--grace", "1"], "trap '' TERM; echo ready; while :; do sleep 0.05; done");
        said(&mut run, "ready\n");
        let began = Instant::now();
        signal(&run, rustix::process::Signal::TERM);
        assert_eq!(run.wait_with_output().unwrap().status.code(), Some(137));
        assert!(began.elapsed() >= Duration::from_millis(900), "it had its time");
    }
}

#[test]
fn ses_04_whoever_does_not_read_holds_up_nothing_but_the_output() {
    for who in everyone() {
        let room = Room::empty(who);
        let mut run = room.started(&["--grace", "1"], "trap '' PIPE; while :; do yes; done");
        let id = room.told("running")["run"].as_str().unwrap().to_owned();
        // Both pipes are full by then.
        std::thread::sleep(Duration::from_millis(300));
        for word in ["freeze", "thaw", "stop"] {
            let (code, told) = room.asked(&[word, &id]);
            assert_eq!(code, Some(0), "{told}");
        }
        // It ends although nobody read.
        let until = Instant::now() + PATIENCE;
        while run.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the launcher waits for a reader");
            std::thread::sleep(Duration::from_millis(10));
        }
        room.told("ended");
    }
}

/// Reads to the end, however that is told.
fn whole(mut from: impl Read + Send + 'static) -> std::sync::mpsc::Receiver<String> {
    let (tells, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        drop(from.read_to_string(&mut text));
        drop(tells.send(text));
    });
    told
}

#[test]
fn ses_08_whoever_reads_finds_the_end_of_what_the_command_closed() {
    for who in everyone() {
        let room = Room::empty(who);
        let mut run = room.started(&[], "echo one; exec >&-; read x; echo late >&2; exit 7");
        let out = whole(run.stdout.take().unwrap());
        assert_eq!(out.recv_timeout(PATIENCE).as_deref(), Ok("one\n"), "{who:?}: nobody told the reader");
        assert_eq!(run.try_wait().unwrap(), None, "it goes on all the same");
        run.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "late\n");
        assert_eq!(output.status.code(), Some(7));
        // As long as something inside has it open, it is not over.
        let mut run = room.started(&[], "(sleep 1; echo two) & echo one; exec >&-; wait; sleep 1000");
        let out = whole(run.stdout.take().unwrap());
        assert_eq!(out.recv_timeout(PATIENCE).as_deref(), Ok("one\ntwo\n"), "{who:?}");
        signal(&run, rustix::process::Signal::TERM);
        run.wait().unwrap();
    }
}

#[test]
fn ses_13_a_command_ends_soon_after_its_reader_went_away() {
    for who in everyone() {
        for (script, code) in [
            ("exec yes", 141),
            ("while :; do echo y; sleep 0.01; done", 141),
            ("yes | cat; exit 5", 5),
            ("trap '' PIPE; yes 2>/dev/null; exit 6", 6),
            ("exec >&2; yes; exit 8", 8),
        ] {
            let room = Room::empty(who);
            let mut run = room.started(&[], script);
            let is_aside = script.contains(">&2;");
            let mut from: Box<dyn Read> = match is_aside {
                true => Box::new(run.stderr.take().unwrap()),
                false => Box::new(run.stdout.take().unwrap()),
            };
            let mut first = [0; 2];
            from.read_exact(&mut first).unwrap();
            assert_eq!(&first, b"y\n");
            drop(from);
            let began = Instant::now();
            while run.try_wait().unwrap().is_none() {
                assert!(began.elapsed() < Duration::from_secs(10), "{who:?} `{script}` goes on");
                std::thread::sleep(Duration::from_millis(10));
            }
            let told = room.told("ended");
            assert_eq!(told["exit"], code, "{script}: {told}");
        }
    }
}

#[test]
fn a_slow_reader_gets_everything() {
    for who in everyone() {
        let room = Room::empty(who);
        let mut run = room.started(&[], "head -c 400000 /dev/zero; touch over");
        // Longer than what is left in pipes is waited for.
        std::thread::sleep(Duration::from_secs(3));
        let mut out = Vec::new();
        run.stdout.take().unwrap().read_to_end(&mut out).unwrap();
        assert_eq!((out.len(), run.wait().unwrap().code()), (400_000, Some(0)), "{who:?}");
    }
}

#[test]
fn ses_05_a_parent_that_is_killed_takes_everything_along() {
    for who in everyone() {
        let room = Room::empty(who);
        let mark = format!("5{}.375", 80_000 + std::process::id());
        let script = format!(
            "{} run --parent $$ --report {} -- sh -c 'trap \"\" TERM HUP; setsid sleep {mark} & sleep {mark}' & wait",
            room.program().display(),
            room.report().display()
        );
        let mut parent = room.host(&room.project, "sh");
        parent.env("XDG_STATE_HOME", room.state()).args(["-c", &script]).stdin(Stdio::piped());
        let mut parent = parent.spawn().unwrap();
        room.told("running");
        let until = Instant::now() + PATIENCE;
        while having(&format!("sleep {mark}")).len() < 2 {
            assert!(Instant::now() < until);
        }
        parent.kill().unwrap();
        parent.wait().unwrap();
        let began = Instant::now();
        while !having(&mark).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", having(&mark));
            std::thread::sleep(Duration::from_millis(10));
        }
        // The truth is there for whoever comes next.
        let told = room.told("ended");
        assert_eq!((&told["exit"], &told["ended"]), (&Value::from(137), &Value::from("killed")), "{told}");
        // Somebody else's process is nobody to end with.
        let output = room.client(&["run", "--parent", "1", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
