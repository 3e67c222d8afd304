//! A small internet for the benchmark: a network namespace with a loopback, public-looking addresses, names, certificates.
//!
//! Nothing of it reaches beyond this machine. Everything that is measured runs in it: servers, other proxies, and
//! `palisade run` as a person would run it. Only root can make one.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::client::{Figures, Task};

/// The one machine that everybody may reach.
pub(super) const PUBLIC: &str = "93.184.216.34";
/// Its name.
pub(super) const NAME: &str = "site.test";
/// Where `scripts/setup bench` puts other proxies; here they are where everybody may look.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/proxies");
/// Who everything runs as.
const USER: u32 = 24_001;

/// The internet, and what is in it.
pub(super) struct World {
    holder: Child,
    folder: tempfile::TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

impl World {
    /// With copies of these programs and of this one, since not everybody may look into the folders they come from.
    pub(super) fn made(programs: &[PathBuf]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = folder.path();
        std::fs::create_dir_all(at.join("home/project"))?;
        std::fs::create_dir(at.join("certs"))?;
        for path in [at, &at.join("home"), &at.join("home/project")] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))?;
            std::os::unix::fs::chown(path, Some(USER), Some(USER))?;
        }
        for program in programs {
            let name = program.file_name().context("a program without a name")?;
            std::fs::copy(program, at.join(name)).with_context(|| program.display().to_string())?;
        }
        std::fs::copy(std::env::current_exe()?, at.join("home/project/bench"))?;
        std::fs::write(at.join("hosts"), format!("127.0.0.1 localhost\n{PUBLIC} {NAME}\n"))?;
        certificates(at)?;
        let holder = Command::new("unshare")
            .args(["--net", "--mount", "--", "sleep", "3600"])
            .stdin(Stdio::null())
            .spawn()
            .context("`unshare` of util-linux is not installed")?;
        let world = Self { holder, folder };
        world.furnished()?;
        Ok(world)
    }

    fn furnished(&self) -> anyhow::Result<()> {
        let own = std::fs::read_link("/proc/self/ns/net")?;
        let until = Instant::now() + Duration::from_secs(10);
        let process = format!("/proc/{}", self.holder.id());
        let is_apart = || {
            std::fs::read_to_string(format!("{process}/comm")).is_ok_and(|name| name == "sleep\n")
                && std::fs::read_link(format!("{process}/ns/net")).is_ok_and(|net| net != own)
        };
        while !is_apart() {
            ensure!(Instant::now() < until, "no namespace was made");
            std::thread::sleep(Duration::from_millis(5));
        }
        let at = self.folder.path().display();
        let script = format!(
            "set -e; mount --make-rprivate /; mount --bind {at}/hosts /etc/hosts
             mount --bind {at}/certs /etc/ssl/certs; ip link set lo up; ip addr add {PUBLIC}/32 dev lo
             if [ -d {INSTALLED} ]; then mkdir {at}/proxies; mount --bind {INSTALLED} {at}/proxies; fi"
        );
        let made = self.inside("sh").args(["-c", &script]).output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Ok(())
    }

    /// Where its files are.
    pub(super) fn at(&self) -> &Path {
        self.folder.path()
    }

    /// A file of other proxies, if it is there.
    pub(super) fn installed(&self, path: &str) -> anyhow::Result<PathBuf> {
        ensure!(Path::new(INSTALLED).join(path).exists(), "it is not installed");
        Ok(self.folder.path().join("proxies").join(path))
    }

    /// A program in this internet, as root. It has a session of its own, as our proxy has: processors are shared by sessions, so
    /// everybody who is measured has the share of one.
    pub(super) fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([
            "--net",
            "--mount",
            "--target",
            &self.holder.id().to_string(),
            "--",
            "setsid",
            program,
        ]);
        command.stdin(Stdio::null());
        command
    }

    /// The same as somebody who may do nothing special, with these variables and no others.
    pub(super) fn as_user(&self, variables: &[(&str, String)], program: &Path) -> Command {
        let mut command = self.inside("setpriv");
        let (user, at) = (USER.to_string(), self.folder.path());
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--", "env"]);
        command.arg("--ignore-environment").arg(format!("--chdir={}/home/project", at.display()));
        command.arg("PATH=/usr/sbin:/usr/bin:/bin").arg(format!("HOME={}/home", at.display()));
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}"))).arg(program);
        command
    }

    /// A part of this program as root, which says when it is ready.
    pub(super) fn served(&self, part: &str) -> anyhow::Result<Process> {
        let bench = self.folder.path().join("home/project/bench");
        let mut command = self.inside(&bench.display().to_string());
        let mut child =
            command.args(["egress-part", part]).arg(self.folder.path()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line == "ready\n", "the {part} did not start");
        Ok(Process(child))
    }

    /// A client in this internet, without a sandbox.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        let bench = self.folder.path().join("home/project/bench");
        let mut command = self.as_user(&[("KEY", super::SECRET.to_owned())], &bench);
        command.args(["egress-part", "client", "."]);
        Client::start(command)
    }

    /// A client in a sandbox, with a secret that is lent for the one machine.
    pub(super) fn sandboxed(&self) -> anyhow::Result<Client> {
        let palisade = self.folder.path().join("palisade");
        let mut command = self.as_user(&[("KEY", super::SECRET.to_owned())], &palisade);
        let raw = format!("{NAME}:{}", super::RAW);
        let plain = format!("{NAME}:80");
        command.args(["run", "--allow", &raw, "--allow", &plain, "--secret", &format!("KEY={NAME}")]);
        // More than most runs may have at a time: as many as a proxy takes.
        command.args(["--net-limit", "connections=8000", "--"]);
        command.args(["./bench", "egress-part", "client", "."]);
        Client::start(command)
    }
}

/// A process that ends with this value.
pub(super) struct Process(pub(super) Child);

impl Process {
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A load generator, somewhere.
pub(super) struct Client {
    pub(super) process: Process,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Client {
    fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (orders, answers) =
            (child.stdin.take().context("no input")?, child.stdout.take().context("no output")?);
        Ok(Self { process: Process(child), orders, answers: BufReader::new(answers) })
    }

    /// Has something done.
    pub(super) fn ask(&mut self, task: &Task) -> anyhow::Result<Figures> {
        writeln!(self.orders, "{}", serde_json::to_string(task)?)?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Result<Figures, String> =
            serde_json::from_str(&line).with_context(|| format!("{task:?} was answered with `{line}`"))?;
        answer.map_err(|why| anyhow::anyhow!("{task:?}: {why}"))
    }

    /// The proxy of the sandbox that it is in.
    pub(super) fn proxy(&self) -> anyhow::Result<u32> {
        let own = self.process.pid().to_string();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
            if head.ends_with("(palisade-egress") && rest.split(' ').nth(1) == Some(&own) {
                return Ok(entry.file_name().to_string_lossy().parse()?);
            }
        }
        anyhow::bail!("the sandbox has no proxy")
    }
}

/// A root that everything in this internet trusts, also as the authority of other proxies, and the site's own.
fn certificates(at: &Path) -> anyhow::Result<()> {
    let key = KeyPair::generate()?;
    let mut root = CertificateParams::default();
    root.distinguished_name.push(rcgen::DnType::CommonName, "The root of a small internet");
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::DigitalSignature];
    let certificate = root.self_signed(&key)?;
    std::fs::write(at.join("certs/ca-certificates.crt"), certificate.pem())?;
    std::fs::write(at.join("root.pem"), format!("{}{}", key.serialize_pem(), certificate.pem()))?;
    let own = KeyPair::generate()?;
    let site = CertificateParams::new(vec![NAME.to_owned()])?.signed_by(&own, &Issuer::new(root, key))?;
    std::fs::write(at.join("site.pem"), format!("{}{}", own.serialize_pem(), site.pem()))?;
    for file in ["root.pem", "site.pem"] {
        std::os::unix::fs::chown(at.join(file), Some(USER), Some(USER))?;
    }
    Ok(())
}

/// Waits until somebody listens there, in this internet.
pub(super) fn await_listener(world: &World, at: SocketAddr) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    let port = format!(":{:04X} ", at.port());
    let path = format!("/proc/{}/net/tcp", world.holder.id());
    loop {
        let listens = |line: &str| line.contains(&port) && line.contains(" 0A ");
        if std::fs::read_to_string(&path)?.lines().any(listens) {
            return Ok(());
        }
        ensure!(Instant::now() < until, "nobody listens at {at}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
