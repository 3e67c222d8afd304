//! A worktree, a home, and somebody who runs commands there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;

/// Nobody has this number.
const THROW_AWAY: u32 = 23_456;

/// Who tells the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// As the test runs.
    Self_,
    /// A throw-away user; only root can become one.
    User,
}

/// Everybody that this test can be.
pub fn everybody() -> Vec<Who> {
    if rustix::process::geteuid().is_root() { vec![Who::Self_, Who::User] } else { vec![Who::Self_] }
}

/// The program, where everybody can execute it. The scenes that use it keep it; with the last of them it goes.
fn palisade() -> Arc<tempfile::TempDir> {
    static COPY: Mutex<Weak<tempfile::TempDir>> = Mutex::new(Weak::new());
    let mut shared = COPY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(there) = shared.upgrade() {
        return there;
    }
    let folder = tempfile::Builder::new().prefix("overlay-program-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (from, to) = (tests::program("palisade"), folder.path().join("palisade"));
    if std::fs::hard_link(&from, &to).is_err() {
        // By another program, so that no descriptor of ours keeps the copy from being executed.
        assert!(Command::new("cp").arg("--").args([&from, &to]).status().unwrap().success());
    }
    let folder = Arc::new(folder);
    *shared = Arc::downgrade(&folder);
    folder
}

pub struct Scene {
    folder: tempfile::TempDir,
    program: Arc<tempfile::TempDir>,
    pub who: Who,
}

/// What a command said.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Scene {
    /// A worktree that a shell script fills.
    pub fn new(who: Who, script: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("overlay-").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let scene = Self { folder, program: palisade(), who };
        for path in [scene.worktree(), scene.home()] {
            std::fs::create_dir(&path).unwrap();
            scene.own(&path);
        }
        let filled = scene.plain(&scene.worktree(), script);
        assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
        scene
    }

    fn own(&self, path: &Path) {
        if self.who == Who::User {
            std::os::unix::fs::chown(path, Some(THROW_AWAY), Some(THROW_AWAY)).unwrap();
        }
    }

    pub fn worktree(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("w")
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("home")
    }

    pub fn state(&self) -> PathBuf {
        self.home().join(".local/state/palisade")
    }

    /// A copy of the worktree as it is.
    pub fn copy(&self, name: &str) -> PathBuf {
        let copy = self.folder.path().join(name);
        let copied = Command::new("cp").arg("-a").arg(self.worktree()).arg(&copy).status().unwrap();
        assert!(copied.success());
        copy
    }

    /// A command of the person's, without rights of root in the user's story.
    fn command(&self, program: &OsStr) -> Command {
        let mut command = match self.who {
            Who::Self_ => Command::new(program),
            Who::User => {
                let mut command = Command::new("setpriv");
                let id = THROW_AWAY.to_string();
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
                command
            }
        };
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home())
            .stdin(Stdio::null());
        command
    }

    /// A script outside any sandbox.
    pub fn plain(&self, at: &Path, script: &str) -> Output {
        self.command(OsStr::new("sh")).args(["-c", script]).current_dir(at).output().unwrap()
    }

    /// A script outside, by somebody with no rights but those over files of their own, as a sandbox's user is.
    pub fn plain_without_rights(&self, at: &Path, script: &str) {
        let id = THROW_AWAY.to_string();
        if !rustix::process::geteuid().is_root() {
            self.plain(at, script);
            return;
        }
        let owned = Command::new("chown").args(["-R", "-h", &format!("{id}:{id}")]).arg(at).status().unwrap();
        assert!(owned.success());
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--", "sh", "-c", script]);
        command.current_dir(at).stdin(Stdio::null()).output().unwrap();
    }

    /// `palisade …`, to be started.
    pub fn prepared(&self, words: &[&str]) -> Command {
        let mut command = self.command(self.program.path().join("palisade").as_os_str());
        command.args(words).current_dir(self.worktree());
        command
    }

    pub fn palisade(&self, words: &[&str]) -> Said {
        let output = self.prepared(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Runs a script in a sandbox with a layer.
    pub fn run(&self, script: &str) -> Said {
        let said = self.palisade(&["run", "--overlay", "--", "sh", "-c", script]);
        assert!(said.code < 125, "{}", said.err);
        said
    }

    /// The `result` of a command that is done.
    pub fn json(&self, words: &[&str]) -> Value {
        let mut all = words.to_vec();
        all.push("--json");
        let said = self.palisade(&all);
        let value: Value =
            serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{words:?}: {}{}", said.out, said.err));
        assert_eq!(value["ok"], true, "{words:?}: {value}");
        value["result"].clone()
    }

    /// What `diff` tells: kind and path.
    pub fn changes(&self) -> Vec<String> {
        let told = self.json(&["diff", "--stat"]);
        let line =
            |one: &Value| format!("{} {}", one["kind"].as_str().unwrap(), one["path"].as_str().unwrap());
        told["changes"].as_array().unwrap().iter().map(line).collect()
    }

    /// Done, without anything to say against it.
    pub fn done(&self, words: &[&str]) {
        let said = self.palisade(words);
        assert_eq!(said.code, 0, "{words:?} as {:?}: {}{}", self.who, said.out, said.err);
    }
}

/// Everything below a directory: kind, permissions, owner, content and, of files, the time.
pub fn snapshot(root: &Path) -> BTreeMap<String, String> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let data = std::fs::symlink_metadata(&path).unwrap();
            let content = if data.is_symlink() {
                std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if data.is_file() && data.len() < 1 << 20 {
                std::fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            if data.is_dir() {
                open.push(path.clone());
            }
            let time = if data.is_dir() { 0 } else { data.mtime_nsec() };
            let name = format!("{:?}", path.strip_prefix(root).unwrap());
            let line = format!(
                "{:o}|{}:{}|{time}|{:?}",
                data.mode(),
                data.uid(),
                data.gid(),
                String::from_utf8_lossy(&content)
            );
            found.insert(name, line);
        }
    }
    found
}

/// The same without owners and times.
pub fn shape(root: &Path) -> BTreeMap<String, String> {
    let short = |line: String| {
        let parts: Vec<&str> = line.splitn(4, '|').collect();
        format!("{}|{}", parts[0], parts[3])
    };
    snapshot(root).into_iter().map(|(name, line)| (name, short(line))).collect()
}
