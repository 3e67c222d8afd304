//! Programs that a test starts, what they said, and the processes that the host has of them.
//!
//! Invariant: every wait has an end.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How long anything here may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// What a program did.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// The lines `name: verdict` that the attacker printed.
    pub(crate) fn report(&self) -> Report {
        let lines = self.stdout.lines().filter_map(|line| line.rsplit_once(": "));
        let report = Report(lines.map(|(name, verdict)| (name.to_owned(), verdict.to_owned())).collect());
        assert!(!report.0.is_empty(), "the attack said nothing: {self:?}");
        report
    }

    pub(crate) fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// What came of each attempt.
#[derive(Debug)]
pub(crate) struct Report(pub(crate) BTreeMap<String, String>);

impl Report {
    pub(crate) fn of(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("no attempt `{name}` in {:?}", self.0))
    }

    /// Every one of these attempts failed in one of these ways.
    pub(crate) fn assert_all(&self, names: &[&str], allowed: &[&str]) {
        for name in names {
            assert!(allowed.contains(&self.of(name)), "{name}: {} of {:?}", self.of(name), self.0);
        }
    }

    /// Every attempt failed in one of these ways.
    pub(crate) fn assert_each(&self, allowed: &[&str]) {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        self.assert_all(&names, allowed);
    }

    /// The attempts that got through.
    pub(crate) fn through(&self) -> Vec<&str> {
        self.0.iter().filter(|(_, verdict)| *verdict == "ok").map(|(name, _)| name.as_str()).collect()
    }
}

/// A process of the host that ends with the value.
pub(crate) struct Victim(pub(crate) Child);

impl Victim {
    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// It lives, is not stopped, and has the priority that it had.
    pub(crate) fn assert_unharmed(&mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "the host's process was ended");
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        assert!(["S", "R"].contains(&fields[0]), "the host's process is in state {}", fields[0]);
        let own = rustix::process::getpriority_process(None).unwrap();
        assert_eq!(fields[16], own.to_string(), "the host's process has another priority");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs to the end, which must come.
pub(crate) fn finish(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A program that was just written may still be open in a child that another test is starting at this moment.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let child = loop {
        match command.spawn() {
            Err(error)
                if error.kind() == std::io::ErrorKind::ExecutableFileBusy
                    && std::time::Instant::now() < deadline =>
            {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            other => break other,
        }
    };
    finished(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Waits for a child with piped output.
pub(crate) fn finished(mut child: impl std::borrow::BorrowMut<Child>) -> Output {
    let child = child.borrow_mut();
    let reading = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = reading(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let err = reading(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    if !ends_within(child.id(), LONGEST) {
        let _ = child.kill();
        let _ = child.wait();
        panic!("not ended after {LONGEST:?}");
    }
    let status = child.wait().unwrap();
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Output { code, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

/// Whether a process ends in this time.
pub(crate) fn ends_within(pid: u32, time: Duration) -> bool {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return true };
    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&left)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(_) => {}
        }
    }
}

/// Processes of the host whose command line has this in it.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(text.len()).any(|part| part == text.as_bytes())
    };
    numbers.filter(has).collect()
}

/// A sandbox as the host sees it: its processes, and the control groups that they are in.
pub(crate) struct Tree {
    pub(crate) pids: Vec<u32>,
    groups: std::collections::BTreeSet<PathBuf>,
}

impl Tree {
    /// All with this text on their command line, the launcher too.
    pub(crate) fn with(text: &str) -> Self {
        let pids = processes_with(text);
        let mut groups = std::collections::BTreeSet::new();
        for pid in &pids {
            let lines = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            for line in lines.lines().filter(|line| line.contains("/palisade-run_")) {
                let (controllers, place) = line.split_once(':').unwrap().1.split_once(':').unwrap();
                let roots = [
                    format!("/sys/fs/cgroup/{controllers}"),
                    "/sys/fs/cgroup/unified".into(),
                    "/sys/fs/cgroup".into(),
                ];
                let found = roots
                    .iter()
                    .map(|root| PathBuf::from(format!("{root}{place}")))
                    .find(|path| path.is_dir());
                groups.extend(found);
            }
        }
        Self { pids, groups }
    }

    /// Everyone but this one ends in this time.
    pub(crate) fn assert_gone(&self, except: u32, time: Duration) {
        let until = Instant::now() + time;
        for pid in self.pids.iter().filter(|pid| **pid != except) {
            assert!(ends_within(*pid, until.saturating_duration_since(Instant::now())), "{pid} is left");
        }
    }

    /// The control groups that are still there.
    pub(crate) fn groups_left(&self) -> Vec<&PathBuf> {
        self.groups.iter().filter(|path| path.is_dir()).collect()
    }
}

impl Drop for Tree {
    /// A launcher that was killed removes no groups: the test does not leave them to the host.
    fn drop(&mut self) {
        for path in &self.groups {
            let _ = fs::remove_dir(path);
        }
    }
}

/// The next line of a child's piped output.
pub(crate) fn read_line(child: &mut Child) -> String {
    let out = child.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    let mut byte = [0u8; 1];
    let until = Instant::now() + LONGEST;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let ready = poll(&mut [PollFd::new(&*out, PollFlags::IN)], Some(&left));
        assert_ne!(ready, Ok(0), "no line came, only `{}`", String::from_utf8_lossy(&line));
        if ready.is_ok() && (out.read(&mut byte).unwrap() == 0 || byte[0] == b'\n') {
            break;
        }
        if ready.is_ok() {
            line.push(byte[0]);
        }
    }
    String::from_utf8_lossy(&line).into_owned()
}
