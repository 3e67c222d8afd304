//! A home with a project in it, for one person: root, or a user that nobody is.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Root,
    User(u32),
}

/// Everyone that this suite can be.
pub fn everyone() -> Vec<Who> {
    static NEXT: AtomicU32 = AtomicU32::new(23_000);
    let own = rustix::process::geteuid().as_raw();
    if own == 0 {
        vec![Who::Root, Who::User(NEXT.fetch_add(1, Ordering::Relaxed))]
    } else {
        vec![Who::User(own)]
    }
}

/// A temporary home.
pub struct Room {
    pub who: Who,
    folder: tempfile::TempDir,
    pub project: PathBuf,
}

/// What a program said.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "out: {}\nerr: {}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn tells(self, text: &str) -> Self {
        assert!(self.err.contains(text), "`{text}` is not in: {}", self.err);
        self
    }

    #[track_caller]
    pub fn tells_nothing_of(self, text: &str) -> Self {
        assert!(!self.err.contains(text), "`{text}` is in: {}", self.err);
        self
    }
}

impl Room {
    /// A home with a repository that has one commit on `main`.
    pub fn with_repository(who: Who) -> Self {
        let room = Self::empty(who);
        room.git(&["init", "-q", "-b", "main"]);
        room.file("one.txt", "one\n");
        room.file("sub/two.txt", "two\n");
        room.git(&["add", "."]);
        room.git(&["commit", "-q", "-m", "first"]);
        room
    }

    /// A home with an empty directory.
    pub fn empty(who: Who) -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let open =
            |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        open(folder.path());
        let program = folder.path().join("palisade");
        std::fs::copy(tests::program("palisade"), &program).unwrap();
        open(&program);
        let project = folder.path().join("home/project");
        std::fs::create_dir_all(&project).unwrap();
        let room = Self { who, project, folder };
        let settings = "[user]\n\tname = Ana B\n\temail = ana@example.com\n[gc]\n\tauto = 0\n";
        std::fs::write(room.home().join(".gitconfig"), settings).unwrap();
        room.own(&room.home());
        room.own(&room.home().join(".gitconfig"));
        room.own(&room.project);
        room
    }

    /// Gives a file to whom this room belongs.
    pub fn own(&self, path: &Path) {
        if let (Who::User(user), true) = (self.who, rustix::process::geteuid().is_root()) {
            std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
        }
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn program(&self) -> PathBuf {
        self.folder.path().join("palisade")
    }

    pub fn runs(&self) -> PathBuf {
        self.home().join(".local/state/palisade/runs")
    }

    /// A file that hostile settings would make.
    pub fn canary(&self) -> PathBuf {
        self.home().join("canary")
    }

    /// Writes a file of the project as its owner.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.project.join(name);
        let mut above: Vec<&Path> = path.ancestors().skip(1).take_while(|above| !above.exists()).collect();
        while let Some(folder) = above.pop() {
            std::fs::create_dir(folder).unwrap();
            self.own(folder);
        }
        std::fs::write(&path, text).unwrap();
        self.own(&path);
        path
    }

    /// A program of the host, as the person, in a directory.
    pub fn host(&self, directory: &Path, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.home());
        command.current_dir(directory).stdin(Stdio::null());
        if let (Who::User(user), true) = (self.who, rustix::process::geteuid().is_root()) {
            command.uid(user).gid(user);
        }
        command
    }

    /// git by the person in the project; what it printed.
    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.project, arguments)
    }

    #[track_caller]
    pub fn git_in(&self, directory: &Path, arguments: &[&str]) -> String {
        let said = Said::of(&self.host(directory, "git").args(arguments).output().unwrap());
        assert_eq!(said.code, Some(0), "git {arguments:?}: {}", said.err);
        said.out.trim_end().to_owned()
    }

    fn palisade(&self, directory: &Path, options: &[&str], script: &str) -> Command {
        let mut command = self.host(directory, self.program());
        command.arg("run").args(options).args(["--", "sh", "-ec", script]);
        command
    }

    /// Runs a script in a sandbox over the project.
    pub fn run(&self, script: &str) -> Said {
        self.run_in(&self.project, &[], script)
    }

    pub fn run_in(&self, directory: &Path, options: &[&str], script: &str) -> Said {
        let mut command = self.palisade(directory, options, script);
        // A program that was just written may still be open in a child that another test is starting at this moment.
        for _ in 0..1000 {
            match command.output() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                other => return Said::of(&other.unwrap()),
            }
        }
        panic!("the program stays busy")
    }

    /// The same by a person who has these variables.
    pub fn run_having(&self, variables: &[(&str, &str)], options: &[&str], script: &str) -> Said {
        let mut command = self.palisade(&self.project, options, script);
        Said::of(&command.envs(variables.iter().copied()).output().unwrap())
    }

    /// Starts a script that then says `ready` by a file and ends when there is a file `go`.
    pub fn while_running(&self, script: &str, meanwhile: impl FnOnce()) -> Said {
        let ready = self.project.join("ready");
        let script = format!("{script}; touch ready; while [ ! -e go ]; do sleep 0.02; done; rm ready go");
        let child = self.at_work(&[], &script, || ready.exists());
        meanwhile();
        self.file("go", "");
        Said::of(&child.wait_with_output().unwrap())
    }

    /// Starts a script and waits until it has come as far as this.
    pub fn at_work(&self, options: &[&str], script: &str, is_ready: impl Fn() -> bool) -> Child {
        let mut command = self.palisade(&self.project, options, script);
        let child: Child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !is_ready() {
            assert!(std::time::Instant::now() < until, "the command did not start");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child
    }

    /// Everything that the host's repository says: references, settings, hooks.
    pub fn repository(&self) -> String {
        let references = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let settings = std::fs::read_to_string(self.project.join(".git/config")).unwrap();
        let mut hooks: Vec<_> = std::fs::read_dir(self.project.join(".git/hooks"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        hooks.sort();
        format!("{references}\n{settings}\n{hooks:?}")
    }

    /// What a person's shell prompt and editor ask git, in every directory of the project.
    pub fn look_around(&self) {
        let mut folders = vec![self.project.clone()];
        while let Some(folder) = folders.pop() {
            let canary = self.canary();
            for arguments in
                [&["status"][..], &["diff", "--stat"], &["log", "-1", "-p"], &["branch"], &["stash", "list"]]
            {
                drop(self.host(&folder, "git").args(arguments).output().unwrap());
                assert!(!canary.exists(), "git {arguments:?} in {} ran a program", folder.display());
            }
            for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() && entry.file_name() != ".git" {
                    folders.push(entry.path());
                }
            }
        }
    }

    /// What is in quarantine, by the names that it had.
    pub fn quarantined(&self) -> Vec<String> {
        let mut found = Vec::new();
        for run in std::fs::read_dir(self.runs()).into_iter().flatten().map(Result::unwrap) {
            let root = run.path().join("quarantine");
            let mut folders = vec![root.clone()];
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(&folder).into_iter().flatten().map(Result::unwrap) {
                    let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
                    if let Some(name) =
                        name.split(".quarantined").next().filter(|_| name.contains(".quarantined"))
                    {
                        let above = path.parent().unwrap().strip_prefix(&root).unwrap().display().to_string();
                        found.push(format!("{above}/{name}").trim_start_matches('/').replace(".in/", "/"));
                    } else if entry.file_type().unwrap().is_dir() {
                        folders.push(path);
                    }
                }
            }
        }
        found.sort();
        found
    }
}
