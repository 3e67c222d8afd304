//! A home with a project in it, for one person, and runs that go on while the host does something.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take.
const LONGEST: Duration = Duration::from_secs(30);

/// Who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Root,
    User(u32, u32),
}

/// Everyone that this suite can be.
pub fn everyone() -> Vec<Who> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if user == 0 { vec![Who::Root, Who::User(61_234, 12_345)] } else { vec![Who::User(user, group)] }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONGEST;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A temporary home.
pub struct Scene {
    pub who: Who,
    folder: tempfile::TempDir,
    pub project: PathBuf,
}

impl Scene {
    pub fn new(who: Who) -> Self {
        let folder = tempfile::Builder::new().prefix("masks-").tempdir_in("/tmp").unwrap();
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(folder.path());
        let (from, program) = (tests::program("palisade"), folder.path().join("palisade"));
        // A program that is being written cannot be executed, and a test beside this one may hold it open.
        if fs::hard_link(&from, &program).is_err() {
            fs::copy(&from, &program).unwrap();
            open(&program);
        }
        let project = folder.path().join("home/project");
        fs::create_dir_all(&project).unwrap();
        let scene = Self { who, project, folder };
        scene.own(&scene.home());
        scene.own(&scene.project);
        scene
    }

    fn own(&self, path: &Path) {
        if let (Who::User(user, group), true) = (self.who, rustix::process::geteuid().is_root()) {
            std::os::unix::fs::lchown(path, Some(user), Some(group)).unwrap();
        }
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn state(&self) -> PathBuf {
        self.home().join(".local/state/palisade")
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.project.join(name)
    }

    /// A directory of the project, as its owner makes it.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        let mut above: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
        while let Some(folder) = above.pop() {
            fs::create_dir(folder).unwrap();
            self.own(folder);
        }
        path
    }

    /// A file of the project, as its owner writes it.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        if let Some(above) = Path::new(name).parent().and_then(Path::to_str).filter(|above| !above.is_empty())
        {
            self.folder(above);
        }
        fs::write(&path, text).unwrap();
        self.own(&path);
        path
    }

    /// Replaces a file as editors and git do: a new one beside it, then a rename.
    pub fn replace(&self, name: &str, text: &str) {
        let new = self.file(&format!("{name}.lock~"), text);
        fs::rename(new, self.at(name)).unwrap();
    }

    /// A program of the host, as the person.
    pub fn host(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.home());
        command.current_dir(&self.project).stdin(Stdio::null());
        if let (Who::User(user, group), true) = (self.who, rustix::process::geteuid().is_root()) {
            command.uid(user).gid(group);
        }
        command
    }

    pub fn palisade(&self, arguments: &[&str]) -> Command {
        let mut command = self.host(self.folder.path().join("palisade"));
        command.args(arguments);
        command
    }

    /// Starts a script inside, which begins when this comes back.
    pub fn start(&self, options: &[&str], script: &str) -> Run<'_> {
        let number = fs::read_dir(self.folder.path()).unwrap().count();
        let file = |kind: &str| self.folder.path().join(format!("{kind}-{number}"));
        let (out, err) = (file("out"), file("err"));
        let mut command = self.palisade(&["run"]);
        command.args(options).args(["--", "sh", "-c", &format!("echo READY; {script}")]);
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
        let mut child = None;
        until("it can be executed", || match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => false,
            other => child.replace(other.unwrap()).is_none(),
        });
        let mut child = child.unwrap();
        until("the command starts", || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", fs::read_to_string(&err).unwrap());
            fs::read(&out).unwrap().starts_with(b"READY\n")
        });
        Run { scene: self, child, out, err }
    }

    /// Runs something short.
    pub fn run(&self, script: &str) -> String {
        let output = self.palisade(&["run", "--", "sh", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A run at work.
pub struct Run<'a> {
    scene: &'a Scene,
    pub child: Child,
    out: PathBuf,
    err: PathBuf,
}

/// What a run said.
pub struct Said {
    pub out: String,
    pub err: String,
}

impl Run<'_> {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.out).unwrap()).into_owned()
    }

    /// Waits until the script has said a line so often.
    #[track_caller]
    pub fn says(&self, line: &str, times: usize) {
        until(&format!("`{line}` {times} times, not {}", self.out()), || {
            self.out().lines().filter(|said| *said == line).count() >= times
        });
    }

    /// The process that watches: a child of the launcher that sees the host's files.
    pub fn guardian(&self) -> rustix::process::Pid {
        let own = self.child.id();
        let view = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
        let found = children.split_whitespace().find(|pid| view(pid) == view("self")).unwrap();
        rustix::process::Pid::from_raw(found.parse().unwrap()).unwrap()
    }

    /// Lets the script end and gives what was said.
    pub fn end(self) -> Said {
        let said = self.end_unwatched();
        assert!(!said.err.contains("not watched to the end"), "{}", said.err);
        said
    }

    /// The same where the process that watches may be lost.
    pub fn end_unwatched(mut self) -> Said {
        self.scene.file("go", "");
        until("the run ends", || self.child.try_wait().unwrap().is_some());
        fs::remove_file(self.scene.at("go")).unwrap();
        Said { out: self.out(), err: fs::read_to_string(&self.err).unwrap() }
    }
}

impl Said {
    #[track_caller]
    pub fn tells(self, text: &str) -> Self {
        assert!(self.err.contains(text), "`{text}` is not in: {}", self.err);
        self
    }
}

/// Reads files over and over; once there is a file `changed` and this one is covered, says so each time.
pub fn reading(files: &str, covered: &str) -> String {
    format!(
        "while [ ! -e go ]; do cat {files} 2>/dev/null; \
         [ -e changed ] && grep -qs \" $PWD/{covered} \" /proc/self/mountinfo && echo COVERED; done; true"
    )
}

/// Whether two paths are one file.
pub fn number(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}
