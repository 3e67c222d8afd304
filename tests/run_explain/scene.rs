//! A home with a project in it, for one person, and what an explained run in it said.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A user that nobody is.
const USER: u32 = 61_234;

/// Everyone that this suite can be; none is whoever runs it.
pub fn everyone() -> Vec<Option<u32>> {
    if rustix::process::geteuid().is_root() { vec![None, Some(USER)] } else { vec![None] }
}

/// A temporary home.
pub struct Scene {
    who: Option<u32>,
    folder: tempfile::TempDir,
    /// What the host has and nobody gives.
    pub outside: tempfile::TempDir,
}

/// What a run said.
pub struct Said {
    pub code: Option<i32>,
    pub err: String,
    pub took: Duration,
    /// What was explained, as `--json` has it; nothing without.
    pub explained: Vec<Value>,
}

impl Scene {
    pub fn new(who: Option<u32>) -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        // A sandbox has a /tmp of its own: this is not in it.
        let outside = tempfile::tempdir_in("/tmp").unwrap();
        for path in [folder.path(), outside.path()] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        // By another process: a file that is open for writing here would be so in whatever another test starts, too.
        let copied =
            Command::new("cp").arg(tests::program("palisade")).arg(folder.path().join("palisade")).status();
        assert!(copied.unwrap().success());
        std::fs::create_dir_all(folder.path().join("home/project")).unwrap();
        let scene = Self { who, folder, outside };
        scene.own(&scene.home());
        scene.own(&scene.project());
        scene
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn project(&self) -> PathBuf {
        self.folder.path().join("home/project")
    }

    pub fn own(&self, path: &Path) {
        if let Some(user) = self.who {
            std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
        }
    }

    /// A file of the host that belongs to the person.
    pub fn file(&self, path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        self.own(path);
    }

    fn command(&self, program: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.home()).current_dir(self.project());
        command.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(user) = self.who {
            command.uid(user).gid(user);
        }
        command
    }

    /// Runs a command explained, with and without `--json`; what both said.
    #[track_caller]
    pub fn explained(&self, options: &[&str], command: &[&str]) -> Said {
        let palisade = self.folder.path().join("palisade");
        let run = [&["run", "--explain"], options, &["--"], command].concat();
        let (text, took) = finish(self.command(&palisade, &run));
        let (json, _) = finish(self.command(&palisade, &[&["--json"], &run[..]].concat()));
        assert_eq!(text.status.code(), json.status.code(), "{json:?}");
        let value: Value =
            serde_json::from_slice(&json.stdout).unwrap_or_else(|error| panic!("{error}: {json:?}"));
        let explained = value["result"]["explained"].as_array().cloned().unwrap_or_default();
        Said {
            code: text.status.code(),
            err: String::from_utf8_lossy(&text.stderr).into_owned(),
            took,
            explained,
        }
    }

    /// The same where a container around us forbids tracing.
    pub fn untraceable(&self, command: &[&str]) -> (Option<i32>, String) {
        let forbid = "
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 101), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)]
bytes = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in code))
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_void_p)]
program, c = Program(len(code), ctypes.addressof(bytes)), ctypes.CDLL(None)
assert c.prctl(38, 1, 0, 0, 0) == 0 and c.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
";
        let palisade = self.folder.path().join("palisade");
        let run = [&["-c", forbid, palisade.to_str().unwrap(), "run", "--explain", "--"], command].concat();
        let python = self.command(Path::new("/usr/bin/python3"), &run);
        let (output, _) = finish(python);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Runs a script explained.
    #[track_caller]
    pub fn script(&self, options: &[&str], script: &str) -> Said {
        self.explained(options, &["sh", "-c", script])
    }
}

/// Waits for the end, with a deadline: what hangs is killed and told.
fn finish(mut command: Command) -> (Output, Duration) {
    let begun = Instant::now();
    let mut child = command.spawn().unwrap();
    let pid = child.id();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let hangs = is_done.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if let (true, Some(pid)) = (hangs, rustix::process::Pid::from_raw(pid.cast_signed())) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        hangs
    });
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    drop(done);
    assert!(!watch.join().unwrap(), "it hangs: {output:?}");
    (output, begun.elapsed())
}

impl Said {
    /// The first denial by this layer.
    #[track_caller]
    pub fn by(&self, layer: &str) -> &Value {
        let found =
            self.explained.iter().find(|denial| denial["layer"] == layer && denial["weight"] != "harmless");
        found.unwrap_or_else(|| panic!("nothing by {layer}: {:?}\n{}", self.explained, self.err))
    }

    /// There is a denial by this layer of this target, and both tellings have these words that allow it.
    #[track_caller]
    pub fn tells(self, layer: &str, target: &str, allow: &str) -> Self {
        let denial = self.by(layer);
        let text = |key: &str| denial[key].as_str().unwrap_or_default().to_owned();
        assert!(text("target").contains(target), "{denial}");
        assert!(format!("{} {}", text("allow"), text("advice")).contains(allow), "{denial}");
        let line =
            self.err.lines().find(|line| line.starts_with("palisade: refused: ") && line.contains(target));
        let line = line.unwrap_or_else(|| panic!("no line about {target}: {}", self.err));
        assert!(line.contains(allow), "{line}");
        self
    }

    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.err);
        self
    }
}
