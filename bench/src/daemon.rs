//! The real daemon, as a process of its own in a directory of its own.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;

use crate::wire::{Connection, request};

const EMAIL: &str = "ana@example.org";
const PASSWORD: &str = "correct horse battery";

/// An installation: the binary and its directory.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) binary: PathBuf,
    pub(crate) home: PathBuf,
}

impl Installation {
    pub(crate) fn new(binary: &Path, home: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(home)?;
        std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o700))?;
        let binary = binary.canonicalize().with_context(|| {
            format!("`{}` is missing; run `cargo build --release -p server`", binary.display())
        })?;
        Ok(Self { binary, home: home.to_owned() })
    }

    /// Starts the daemon on a free port and waits for its first answer.
    pub(crate) fn start(&self) -> anyhow::Result<Daemon> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let said = self.home.join("said");
        let started = Instant::now();
        let child = Command::new(&self.binary)
            .env_clear()
            .arg("--config")
            .arg(self.home.join("config.toml"))
            .args(["--set", &format!("server.listen={address}")])
            .args([
                "--set",
                "limits.requests_per_minute=0",
                "--set",
                "budgets.session_messages_per_minute=0",
                "--set",
                "sessions.per_person=256",
                "--set",
                "access.token_minutes=10080",
                "--set",
                "log.level=warn",
            ])
            .arg("up")
            .stdout(std::fs::File::create(&said)?)
            .spawn()?;
        let mut daemon = Daemon { child, address, answered_after: Duration::ZERO, secret: None };
        daemon.answered_after = first_answer(address, started)?;
        daemon.secret = secret(&std::fs::read_to_string(said)?);
        Ok(daemon)
    }
}

/// A running daemon; it ends with this value.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process to the first answer of `/healthz`.
    pub(crate) answered_after: Duration,
    secret: Option<String>,
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Signs in; on a new installation, makes its owner.
    pub(crate) async fn sign_in(&self) -> anyhow::Result<String> {
        let mut connection = Connection::open(self.address).await?;
        let (path, body) = match &self.secret {
            Some(secret) => (
                "/api/v1/auth/bootstrap",
                json!({ "secret": secret, "email": EMAIL, "name": "Ana", "password": PASSWORD }),
            ),
            None => ("/api/v1/auth/login", json!({ "email": EMAIL, "password": PASSWORD })),
        };
        let tokens = connection.call("POST", path, "", Some(&body)).await?;
        Ok(tokens["access_token"].as_str().context("no token")?.to_owned())
    }

    /// Resident memory in MiB.
    pub(crate) fn resident(&self) -> anyhow::Result<f64> {
        self.memory("VmRSS:")
    }

    /// The most resident memory that it has had so far, in MiB.
    pub(crate) fn peak(&self) -> anyhow::Result<f64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, what: &str) -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(what)).context("no such memory")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1024.0)
    }

    /// Ends it in order and waits for that.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.terminate();
        let until = Instant::now() + Duration::from_secs(15);
        while self.child.try_wait()?.is_none() {
            anyhow::ensure!(Instant::now() < until, "the daemon does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn terminate(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            // Whoever is gone already needs no signal.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Asks every millisecond until there is a 200.
fn first_answer(address: SocketAddr, started: Instant) -> anyhow::Result<Duration> {
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ask = request("GET", "/healthz", "", "");
    loop {
        let answered =
            one.block_on(async { Connection::open(address).await.ok()?.exchange(&ask).await.ok() });
        if answered.is_some_and(|(status, _)| status == 200) {
            return Ok(started.elapsed());
        }
        anyhow::ensure!(started.elapsed() < Duration::from_secs(30), "the daemon does not answer");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The set-up secret, if one was told: all of it is said before the first answer.
fn secret(told: &str) -> Option<String> {
    told.lines()
        .find_map(|line| line.trim().split_once("/setup?secret="))
        .map(|(_, secret)| secret.to_owned())
}
