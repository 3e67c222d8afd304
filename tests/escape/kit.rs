//! A stage for one attack: a worktree, a home, the real programs, and the host around them.
//!
//! Everything of a stage is in one temporary folder of its own, so that attacks run side by side. A stage belongs to
//! root or to a user that nobody is; without root there is only the caller. Attacks are written once with [`both!`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How long anything here may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// Writes a test twice: as root, and as a user. Its name says which row it is.
macro_rules! both {
    ($($(#[$meta:meta])* fn $name:ident($stage:ident) $body:block)*) => { $(
        mod $name {
            use super::*;

            fn attack($stage: &crate::kit::Stage) $body

            #[test]
            $(#[$meta])*
            fn as_root() {
                if let Some(stage) = crate::kit::Stage::of(crate::kit::Who::Root) {
                    attack(&stage);
                }
            }

            #[test]
            $(#[$meta])*
            fn as_user() {
                if let Some(stage) = crate::kit::Stage::of(crate::kit::Who::User) {
                    attack(&stage);
                }
            }
        }
    )* };
}
pub(crate) use both;

/// Who starts the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    User,
}

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

/// One stage.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    /// For what must lie beneath nothing that is writable inside, such as `/tmp`.
    elsewhere: tempfile::TempDir,
    pub(crate) who: Who,
    pub(crate) user: u32,
    is_thrown_away: bool,
}

static STAGES: AtomicU32 = AtomicU32::new(0);

impl Stage {
    /// A stage of this one's, if the tests may make it.
    pub(crate) fn of(who: Who) -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let user = match (who, is_root) {
            (Who::Root, true) => 0,
            (Who::Root, false) => return None,
            (Who::User, true) => 0x6000_0000 + ((std::process::id() & 0xffff) << 8) + number % 256,
            (Who::User, false) => rustix::process::geteuid().as_raw(),
        };
        let folder = tempfile::Builder::new().prefix("palisade-escape-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let elsewhere = elsewhere();
        let stage = Self { folder, elsewhere, who, user, is_thrown_away: is_root };
        for (name, mode) in
            [("work", 0o755), ("home", 0o700), ("config", 0o700), ("state", 0o700), ("outside", 0o755)]
        {
            stage.folder(name, mode);
        }
        for (name, from) in [
            ("palisade", tests::program("palisade")),
            ("attacker", env!("CARGO_BIN_EXE_attacker").into()),
            ("bare", env!("CARGO_BIN_EXE_bare").into()),
        ] {
            let to = stage.at(name);
            if fs::hard_link(&from, &to).is_err() {
                copy(&from, &to);
            }
        }
        copy(&stage.at("attacker"), &stage.at("work/attacker"));
        stage.own("work/attacker");
        Some(stage)
    }

    /// Whether the user is one that nobody else is.
    pub(crate) fn is_thrown_away(&self) -> bool {
        self.is_thrown_away
    }

    /// A path of the stage.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same, as text.
    pub(crate) fn path(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    /// A place of the host that everyone may reach and that no writable mount is above.
    pub(crate) fn elsewhere(&self) -> String {
        if rustix::process::geteuid().is_root() {
            chown(self.elsewhere.path(), Some(self.user), Some(self.user)).unwrap();
        }
        self.elsewhere.path().to_str().unwrap().to_owned()
    }

    fn own(&self, name: &str) {
        if rustix::process::geteuid().is_root() {
            chown(self.at(name), Some(self.user), Some(self.user)).unwrap();
        }
    }

    /// A folder of the stage's user.
    pub(crate) fn folder(&self, name: &str, mode: u32) -> PathBuf {
        fs::create_dir_all(self.at(name)).unwrap();
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).unwrap();
        self.own(name);
        self.at(name)
    }

    /// A file of the stage's user; folders above it are made.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let mut above = PathBuf::new();
        for part in Path::new(name).parent().into_iter().flat_map(Path::components) {
            above.push(part);
            if !self.at(above.to_str().unwrap()).exists() {
                self.folder(above.to_str().unwrap(), 0o755);
            }
        }
        fs::write(self.at(name), bytes).unwrap();
        self.own(name);
        self.at(name)
    }

    /// Waits until what was put on the stage is older than the start of a run that begins now. The end of a run
    /// cannot tell what was made in the same tick of the clock from what was made in the run.
    pub(crate) fn settle(&self) {
        let mark = self.file("outside/.clock", "");
        let then = fs::metadata(&mark).unwrap().ctime_nsec();
        let until = Instant::now() + LONGEST;
        let mut ticks = 0;
        while ticks < 8 {
            assert!(Instant::now() < until, "the clock stands still");
            fs::write(&mark, "").unwrap();
            let now = fs::metadata(&mark).unwrap().ctime_nsec();
            ticks = (now - then).rem_euclid(1_000_000_000) / 4_000_000;
        }
        fs::remove_file(mark).unwrap();
    }

    /// A program as the stage's user, in the worktree, with nothing of the tests' environment.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.at("home"))
            .env("XDG_CONFIG_HOME", self.at("config"))
            .env("XDG_STATE_HOME", self.at("state"))
            .env("XDG_DATA_HOME", self.at("data"))
            .current_dir(self.at("work"))
            .stdin(Stdio::null());
        if self.is_thrown_away {
            command.uid(self.user).gid(self.user);
        }
        command
    }

    /// `palisade run FLAGS -- CMD`, not started.
    pub(crate) fn palisade(&self, flags: &[&str], command: &[&str]) -> Command {
        let mut palisade = self.command(self.at("palisade"));
        palisade.arg("run").args(flags).arg("--").args(command);
        palisade
    }

    /// `palisade run FLAGS -- CMD`.
    pub(crate) fn run_with(&self, flags: &[&str], command: &[&str]) -> Output {
        finish(self.palisade(flags, command))
    }

    /// `palisade run -- CMD`.
    pub(crate) fn run(&self, command: &[&str]) -> Output {
        self.run_with(&[], command)
    }

    /// `palisade run -- ./attacker WORDS`.
    pub(crate) fn attack(&self, words: &[&str]) -> Report {
        self.attack_with(&[], words)
    }

    /// `palisade run FLAGS -- ./attacker WORDS`.
    pub(crate) fn attack_with(&self, flags: &[&str], words: &[&str]) -> Report {
        let command: Vec<&str> = ["./attacker"].iter().chain(words).copied().collect();
        self.run_with(flags, &command).report()
    }

    /// The same attack on the host, by the same user: what gets through when there is no sandbox.
    pub(crate) fn uncontrolled(&self, words: &[&str]) -> Report {
        let mut command = self.command(self.at("attacker"));
        command.args(words);
        finish(command).report()
    }

    /// The same attack in a sandbox that lacks these parts.
    pub(crate) fn without(&self, parts: &[&str], flags: &[&str], words: &[&str]) -> Report {
        self.folder("bare-home", 0o700);
        let mut command = self.command(self.at("bare"));
        for part in parts {
            command.args(["--without", part]);
        }
        command.args(["--home", &self.path("bare-home"), "--rw", &self.path("work")]).args(flags);
        command.args(["--", "./attacker"]).args(words);
        finish(command).report()
    }

    /// A program of the host's that somebody might want to harm.
    pub(crate) fn victim(&self) -> Victim {
        let mut command = self.command("sleep");
        command.arg("600").process_group(0);
        Victim(command.spawn().unwrap())
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
        assert_eq!(fields[16], "0", "the host's process has another priority");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn elsewhere() -> tempfile::TempDir {
    let places = ["/srv", "/mnt", env!("CARGO_TARGET_TMPDIR")];
    let made = places
        .into_iter()
        .find_map(|place| tempfile::Builder::new().prefix("palisade-escape-").tempdir_in(place).ok());
    let made = made.unwrap();
    fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).unwrap();
    made
}

/// By another program, so that no descriptor of ours keeps the copy from being executed.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("--").args([from, to]).status().unwrap().success());
}

/// Runs to the end, which must come.
pub(crate) fn finish(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    finished(child)
}

/// Waits for a child with piped output.
pub(crate) fn finished(mut child: Child) -> Output {
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

/// What is there of a place: names, bytes, modes, owners, times, attributes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, (Vec<u8>, [i64; 9])>);

impl Snapshot {
    pub(crate) fn of(place: &Path) -> Self {
        let (mut found, mut open) = (BTreeMap::new(), vec![place.to_owned()]);
        while let Some(path) = open.pop() {
            let Ok(data) = fs::symlink_metadata(&path) else { continue };
            let bytes = if data.is_file() {
                fs::read(&path).unwrap_or_default()
            } else if data.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                Vec::new()
            };
            if data.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let attributes = rustix::fs::llistxattr(&path, &mut [0u8; 4096][..]).unwrap_or(0);
            let facts = [
                data.mode().into(),
                data.uid().into(),
                data.gid().into(),
                data.mtime(),
                data.mtime_nsec(),
                data.ctime(),
                data.ctime_nsec(),
                data.nlink().cast_signed(),
                attributes.cast_signed() as i64,
            ];
            found.insert(path, (bytes, facts));
        }
        Self(found)
    }

    /// The same names of the same kinds, whatever their times.
    pub(crate) fn assert_kinds(&self, place: &Path) {
        let kinds = |all: &Self| -> Vec<(PathBuf, i64)> {
            all.0.iter().map(|(path, (_, facts))| (path.clone(), facts[0])).collect()
        };
        assert_eq!(kinds(self), kinds(&Self::of(place)));
    }

    pub(crate) fn assert_same(&self, place: &Path) {
        let now = Self::of(place);
        for (path, facts) in &self.0 {
            assert_eq!(now.0.get(path), Some(facts), "{} changed", path.display());
        }
        for path in now.0.keys() {
            assert!(self.0.contains_key(path), "{} appeared", path.display());
        }
    }
}

/// The next line of a child's piped output.
pub(crate) fn read_line(child: &mut Child) -> String {
    let out = child.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    let mut byte = [0u8; 1];
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).into_owned()
}
