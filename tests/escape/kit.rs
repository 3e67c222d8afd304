//! A stage for one attack: a worktree, a home, the real programs, and the host around them.
//!
//! Everything of a stage is in one temporary folder of its own, so that attacks run side by side. A stage belongs to
//! root or to a user that nobody is; without root there is only the caller. Attacks are written once with [`both!`].

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::bystanders::Bystanders;
pub(crate) use crate::programs::{
    LONGEST, Output, Report, Tree, Victim, ends_within, finish, finished, processes_with, read_line,
};
pub(crate) use crate::snapshot::Snapshot;

/// Writes a test twice: as root, and as a user. Its name says which row it is.
macro_rules! both {
    ($($(#[$meta:meta])* fn $name:ident($stage:ident) $body:block)*) => { $(
        fn $name($stage: &crate::kit::Stage) $body

        mod $name {
            #[test]
            $(#[$meta])*
            fn as_root() {
                crate::kit::beside_others(crate::kit::Who::Root, super::$name);
            }

            #[test]
            $(#[$meta])*
            fn as_user() {
                crate::kit::beside_others(crate::kit::Who::User, super::$name);
            }
        }
    )* };
}
pub(crate) use both;

/// A test, if it can be one of this one's: when it is over, nobody who stood beside it was harmed.
pub(crate) fn beside_others(who: Who, test: fn(&Stage)) {
    let Some(stage) = Stage::of(who) else {
        return tests::cannot_run("attacks on root's sandboxes need root");
    };
    let bystanders = Bystanders::around(&stage);
    test(&stage);
    bystanders.assert_unharmed();
}

/// Who starts the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    User,
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

    /// A folder of the stage's user beside the stage.
    pub(crate) fn another_folder(&self) -> tempfile::TempDir {
        let folder = tempfile::Builder::new().prefix("palisade-escape-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        self.own_all(folder.path());
        folder
    }

    /// Gives all that is there to the stage's user.
    pub(crate) fn own_all(&self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(path, Some(self.user), Some(self.user)).unwrap();
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            self.own_all(&entry.path());
        }
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
        command.arg("3600").process_group(0);
        Victim(command.spawn().unwrap())
    }
}

impl Drop for Stage {
    /// A layer leaves a folder that its owner may not even list; root does not mind.
    fn drop(&mut self) {
        if !self.is_thrown_away {
            let _ = Command::new("chmod").args(["-R", "u+rwx", "--"]).arg(self.at("state")).status();
        }
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
