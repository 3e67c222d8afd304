//! One installation: a private folder, a configuration, and the daemon that runs on it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::{BootstrapRequest, Client, Hidden, LedgerEntry, LedgerFilter};

use crate::{PASSWORD, Person, program};

const PATIENCE: Duration = Duration::from_secs(30);

/// How a host is set up.
#[derive(Debug, Default)]
pub struct HostBuilder {
    settings: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    folder: Option<PathBuf>,
    through: Option<&'static str>,
}

/// A running installation.
#[derive(Debug)]
pub struct Host {
    folder: Option<tempfile::TempDir>,
    place: PathBuf,
    settings: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    through: &'static str,
    up_with: Vec<String>,
    child: Option<Child>,
    base: String,
    secret: Option<String>,
    owner: Option<Person>,
    log: Arc<Mutex<String>>,
}

/// What the daemon is told of `acp-fake`.
const FAKE_AGENT: &str = r#"title = "An agent that does what its prompt says"
command = "acp-fake"
acp = ["acp-fake"]
[modes]
default = { requests = "ask" }
plan = { requests = "refuse" }
allow-all = { requests = "allow" }
"#;

impl HostBuilder {
    /// Sets a configuration key.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Keeps the store in a new database of PostgreSQL.
    #[must_use]
    pub fn on_postgresql(self) -> Self {
        self.set("store.url", &crate::database()).variable("PALISADE_MASTER_KEY", &crate::master_key())
    }

    /// Sets an environment variable of the daemon.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses this existing, private folder instead of a new one; it stays when the host ends.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Starts the daemon by `up` of this program instead of its own.
    #[must_use]
    pub fn through(mut self, program: &'static str) -> Self {
        self.through = Some(program);
        self
    }

    /// Starts the daemon; nobody owns it yet.
    #[must_use]
    pub fn unclaimed(self) -> Host {
        let mut host = self.stopped();
        host.start_daemon().expect("the daemon starts");
        host
    }

    /// Starts the daemon with an owner, `owner@example.org`.
    #[must_use]
    pub fn start(self) -> Host {
        let mut host = self.unclaimed();
        host.claim();
        host
    }

    /// An installation whose daemon was not started.
    #[must_use]
    pub fn stopped(self) -> Host {
        let (folder, place) = match self.folder {
            Some(place) => (None, place),
            None => {
                let folder = tempfile::Builder::new()
                    .prefix("palisade-")
                    .permissions(fs::Permissions::from_mode(0o700))
                    .tempdir()
                    .unwrap();
                let place = folder.path().to_owned();
                (Some(folder), place)
            }
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&place).unwrap();
        // An agent that does what its prompt says.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(place.join("agents")).unwrap();
        let fake = place.join("agents/fake.toml");
        fs::write(&fake, FAKE_AGENT).unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o600)).unwrap();
        Host {
            folder,
            place,
            settings: self.settings,
            variables: self.variables,
            through: self.through.unwrap_or("palisaded"),
            up_with: Vec::new(),
            child: None,
            base: String::new(),
            secret: None,
            owner: None,
            log: Arc::default(),
        }
    }
}

impl Host {
    /// How a host is set up.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// A daemon with an owner, on the embedded database.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// The folder of configuration and data.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.place.join("data")
    }

    /// Where the daemon listens.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The daemon's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the daemon runs").id()
    }

    /// The set-up secret that the daemon printed, if it did.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// Everything the daemon has said so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// A client without a credential.
    #[must_use]
    pub fn anonymous(&self) -> Client {
        Client::new(&self.base, None).unwrap()
    }

    /// The owner.
    #[must_use]
    pub fn owner(&self) -> &Person {
        self.owner.as_ref().expect("the host has an owner")
    }

    /// A new person with this role, signed in.
    #[must_use]
    pub fn user(&self, name: &str, role: &str) -> Person {
        Person::create(self, name, role)
    }

    /// A new repository.
    #[must_use]
    pub fn repo(&self, name: &str) -> String {
        let body = api::CreateRepoRequest {
            name: name.to_owned(),
            origin: "https://forge.example/a/b".to_owned(),
            ..Default::default()
        };
        self.owner().client.create_repo(&body).unwrap().id
    }

    /// A repository of this machine with one commit on `trunk`, registered and not fetched.
    #[must_use]
    pub fn local_repo(&self, name: &str) -> String {
        let folder = self.origin(name);
        fs::create_dir_all(&folder).unwrap();
        // Whoever fetches is nobody in particular.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        git(&folder, &["init", "-q", "-b", "trunk"]);
        commit(&folder, "README", "one\n");
        let origin = folder.to_str().unwrap().to_owned();
        let body = api::CreateRepoRequest { name: name.to_owned(), origin, ..Default::default() };
        self.owner().client.create_repo(&body).unwrap().id
    }

    /// A worktree with a tree, of a repository of this machine.
    #[must_use]
    pub fn tree(&self, who: &Person, name: &str, tier: &str) -> api::Worktree {
        let repo = self.local_repo(name);
        self.owner().client.fetch_repo(&repo).unwrap();
        who.worktree(&repo, name, tier)
    }

    /// Where a repository of this machine lies.
    #[must_use]
    pub fn origin(&self, name: &str) -> PathBuf {
        self.place().join("origins").join(name)
    }

    /// Makes the owner.
    pub fn claim(&mut self) {
        let secret = self.secret.clone().expect("the daemon printed a set-up secret");
        let body = BootstrapRequest {
            secret: Hidden(secret),
            email: "owner@example.org".into(),
            name: "Owner".into(),
            password: Hidden(PASSWORD.into()),
        };
        let tokens = self.anonymous().bootstrap(&body).unwrap();
        self.owner = Some(Person::signed_in(self, "owner@example.org", tokens));
    }

    /// A command that runs a program of this installation.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program(name));
        command.arg("--config").arg(self.place.join("config.toml"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.place);
        command.stdin(Stdio::null());
        command
    }

    fn daemon(&self) -> Command {
        let mut command = self.command(self.through);
        command.arg("up");
        let programs = program("acp-fake").parent().unwrap().display().to_string();
        command.arg("--set").arg(format!("agents.path={programs}:/usr/bin:/bin"));
        if !self.settings.iter().any(|(key, _)| key == "server.listen") {
            command.args(["--set", "server.listen=127.0.0.1:0"]);
        }
        for (key, value) in &self.settings {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command.args(&self.up_with);
        command
    }

    /// Starts the daemon with these arguments from now on.
    pub fn up_with(&mut self, arguments: &[&str]) {
        self.up_with = arguments.iter().map(|&one| one.to_owned()).collect();
    }

    /// Changes a setting for the next start.
    pub fn set(&mut self, key: &str, value: &str) {
        self.settings.retain(|(name, _)| name != key);
        self.settings.push((key.to_owned(), value.to_owned()));
    }

    /// Starts the daemon and waits until it listens; the error is what it said.
    pub fn start_daemon(&mut self) -> Result<(), String> {
        assert!(self.child.is_none(), "the daemon runs already");
        let mut child = self.daemon().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = gather(&mut child, &self.log);
        let deadline = Instant::now() + PATIENCE;
        let mut listening = false;
        loop {
            let line = lines.recv_timeout(Duration::from_millis(200));
            if let Ok(line) = &line {
                if let Some(base) = line.strip_prefix("Palisade is listening on ") {
                    self.base = base.trim().to_owned();
                    listening = true;
                }
                if let Some((_, secret)) = line.split_once("/setup?secret=") {
                    self.secret = Some(secret.trim().to_owned());
                }
            }
            if listening && self.answers() {
                // What was printed before the first answer is all there is; take what is queued.
                while let Ok(line) = lines.recv_timeout(Duration::from_millis(20)) {
                    if let Some((_, secret)) = line.split_once("/setup?secret=") {
                        self.secret = Some(secret.trim().to_owned());
                    }
                }
                self.child = Some(child);
                return Ok(());
            }
            if let Some(status) = child.try_wait().unwrap() {
                std::thread::sleep(Duration::from_millis(50));
                return Err(format!("{status}: {}", self.log()));
            }
            assert!(Instant::now() < deadline, "the daemon did not start in time: {}", self.log());
        }
    }

    fn answers(&self) -> bool {
        self.anonymous().send("GET", "/livez", &[], Vec::new()).is_ok_and(|answer| answer.status() == 200)
    }

    /// Kills the daemon at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Asks the daemon to stop, and waits until it did, in order.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        signal(child.id(), rustix::process::Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the daemon did not stop in time: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Stops and starts again; people get clients for the new address.
    pub fn restart(&mut self) {
        self.stop();
        self.start_daemon().expect("the daemon starts again");
        self.rebase();
    }

    /// Points the owner's client at the present address.
    pub fn rebase(&mut self) {
        if let Some(owner) = self.owner.take() {
            self.owner = Some(owner.at(self));
        }
    }

    /// Ledger entries that match, oldest first, as the owner sees them (at most 1,000).
    #[must_use]
    pub fn ledger(&self, filter: &LedgerFilter) -> Vec<LedgerEntry> {
        let filter = LedgerFilter { limit: Some(1_000), ..filter.clone() };
        let mut entries = self.owner().client.ledger(&filter).unwrap().items;
        entries.reverse();
        entries
    }

    /// The number of the last entry.
    #[must_use]
    pub fn ledger_head(&self) -> u64 {
        self.owner().client.status().unwrap().ledger_head
    }

    /// How many entries were written after entry `head` by those whom the daemon knows. Refused strangers are
    /// counted for a minute and written down when it is over, in the middle of whatever happens then.
    #[must_use]
    pub fn written_since(&self, head: u64) -> u64 {
        if self.ledger_head() == head {
            return 0;
        }
        self.since(head).iter().filter(|entry| entry.who != "nobody").count() as u64
    }

    /// What was written after entry `head`: `who action decision` each.
    #[must_use]
    pub fn since(&self, head: u64) -> Vec<LedgerEntry> {
        self.ledger(&LedgerFilter::default()).into_iter().filter(|entry| entry.seq > head).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
        drop(self.folder.take());
    }
}

/// Sends a signal to a process that we started.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Reads what a child says, line by line, on threads of its own.
fn gather(child: &mut Child, log: &Arc<Mutex<String>>) -> std::sync::mpsc::Receiver<String> {
    let (send, receive) = std::sync::mpsc::channel();
    let streams: [Box<dyn std::io::Read + Send>; 2] =
        [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
    for stream in streams {
        let (send, log) = (send.clone(), Arc::clone(log));
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let mut all = log.lock().unwrap();
                all.push_str(&line);
                all.push('\n');
                drop(all);
                drop(send.send(line));
            }
        });
    }
    receive
}

/// Runs git as a person would, and gives what it says.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(folder);
    command
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ana").env(format!("GIT_{who}_EMAIL"), "ana@host.example");
    }
    let out = command.args(arguments).output().unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

/// Writes a file of a repository and commits it; the commit.
pub fn commit(folder: &Path, file: &str, text: &str) -> String {
    fs::write(folder.join(file), text).unwrap();
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "-qm", text.trim_end()]);
    git(folder, &["rev-parse", "HEAD"])
}
