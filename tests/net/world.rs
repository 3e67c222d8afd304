//! A small internet of the test's own: a network namespace with public-looking addresses, names and certificates in it.
//!
//! Nothing of it reaches beyond this machine: the namespace has a loopback and nothing else. `palisade` runs in it as a
//! person would run it on a host that is connected.

mod forges;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// The one machine of this internet that everybody may reach.
pub const PUBLIC: &str = "93.184.216.34";
/// The same in version 6.
pub const PUBLIC_V6: &str = "2606:2800:220:1::1";
/// A machine of a private network.
pub const PRIVATE: &str = "10.1.2.3";

/// Names, and the machines that they have.
const HOSTS: &[(&str, &[&str])] = &[
    ("localhost", &["127.0.0.1"]),
    ("site.test", &[PUBLIC]),
    ("both.test", &[PUBLIC, PUBLIC_V6]),
    ("other.test", &[PUBLIC]),
    ("private.test", &[PRIVATE]),
    ("mixed.test", &[PUBLIC, PRIVATE]),
    ("loop.test", &["127.0.0.1"]),
    ("meta.test", &["169.254.169.254"]),
    ("registry.npmjs.org", &[PUBLIC]),
    ("pypi.org", &[PUBLIC]),
    ("files.pythonhosted.org", &[PUBLIC]),
    ("index.crates.io", &[PUBLIC]),
    ("static.crates.io", &[PUBLIC]),
    ("crates.io", &[PUBLIC]),
    ("github.com", &[PUBLIC]),
    ("api.github.com", &[PUBLIC]),
    ("api.anthropic.com", &[PUBLIC]),
    ("api.openai.com", &[PUBLIC]),
    ("platform.claude.com", &[PUBLIC]),
    ("auth.openai.com", &[PUBLIC]),
    ("chatgpt.com", &[PUBLIC]),
    ("generativelanguage.googleapis.com", &[PUBLIC]),
];

/// Who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Root,
    User(u32),
}

/// Both, since this suite needs root.
pub const EVERYONE: [Who; 2] = [Who::Root, Who::User(24_001)];

/// What a program said.
#[derive(Debug)]
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
}

/// The internet, and somebody's home beside it.
pub struct World {
    holder: Child,
    pub folder: tempfile::TempDir,
    pub who: Who,
    issuer: Issuer<'static, KeyPair>,
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

impl World {
    /// For one person.
    #[track_caller]
    pub fn new(who: Who) -> Self {
        assert!(rustix::process::geteuid().is_root(), "this suite makes network namespaces, and needs root");
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        open(folder.path());
        let project = folder.path().join("home/project");
        std::fs::create_dir_all(&project).unwrap();
        if let Who::User(user) = who {
            for path in [&folder.path().join("home"), &project] {
                std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
            }
        }
        let key = KeyPair::generate().unwrap();
        let mut root = CertificateParams::default();
        root.distinguished_name.push(rcgen::DnType::CommonName, "The root of a small internet");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = root.self_signed(&key).unwrap();
        let holder = Command::new("unshare")
            .args(["--net", "--mount", "--", "sleep", "1000"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let world = Self { holder, folder, who, issuer: Issuer::new(root, key) };
        ["palisade", "palisade-egress"].into_iter().for_each(|name| world.install(name));
        world.await_holder();
        world.furnish(&certificate.pem());
        world
    }

    /// The same, with a file of rules in the project.
    #[track_caller]
    pub fn with_rules(who: Who, rules: &str) -> Self {
        let world = Self::new(who);
        world.file("rules.toml", rules);
        world
    }

    fn await_holder(&self) {
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        let is_apart = || {
            let process = format!("/proc/{}", self.holder.id());
            let command = std::fs::read_to_string(format!("{process}/comm")).unwrap_or_default();
            command == "sleep\n"
                && std::fs::read_link(format!("{process}/ns/net")).is_ok_and(|net| net != own)
        };
        while !is_apart() {
            assert!(Instant::now() < until, "no namespace was made");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Addresses, names, and what this machine trusts.
    fn furnish(&self, root: &str) {
        let mut hosts = String::new();
        for (name, addresses) in HOSTS {
            for address in *addresses {
                hosts.push_str(&format!("{address} {name}\n"));
            }
        }
        std::fs::write(self.folder.path().join("hosts"), hosts).unwrap();
        let certificates = self.folder.path().join("certs");
        std::fs::create_dir(&certificates).unwrap();
        std::fs::write(certificates.join("ca-certificates.crt"), root).unwrap();
        let folder = self.folder.path().display();
        let script = format!(
            "set -e; mount --make-rprivate /; mount --bind {folder}/hosts /etc/hosts
             mount --bind {folder}/certs /etc/ssl/certs; ip link set lo up
             ip addr add {PUBLIC}/32 dev lo; ip addr add {PRIVATE}/32 dev lo; ip addr add 169.254.169.254/32 dev lo
             ip -6 addr add {PUBLIC_V6}/128 dev lo nodad"
        );
        let made = self.inside("sh").args(["-c", &script]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// Puts another program of ours beside `palisade`.
    pub fn install(&self, name: &str) {
        let program = self.folder.path().join(name);
        std::fs::copy(tests::program(name), &program).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A program in this internet, as root.
    pub fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--target", &self.holder.id().to_string(), "--", program]);
        command.stdin(Stdio::null());
        command
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    /// A profile of the person's own.
    pub fn profile(&self, name: &str, text: &str) {
        self.keep(&self.home().join(".config/palisade/profiles").join(name).with_extension("toml"), text);
    }

    /// The project's file.
    pub fn project_profile(&self, text: &str) {
        self.keep(&self.project().join(".palisade/profile.toml"), text);
    }

    /// A file of the person.
    pub fn keep(&self, path: &Path, text: &str) {
        let script = "mkdir -p \"$(dirname \"$0\")\" && cat > \"$0\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(path).stdin(Stdio::piped());
        if let Who::User(user) = self.who {
            std::os::unix::process::CommandExt::uid(&mut command, user);
        }
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{}", path.display());
    }

    /// Has a directory of this machine in the person's home too, as if it had been installed there.
    pub fn lends(&self, directory: &Path, at: &str) {
        let at = self.home().join(at);
        let mut above = self.home();
        for part in at.strip_prefix(self.home()).unwrap().components() {
            above.push(part);
            if !above.exists() {
                std::fs::create_dir(&above).unwrap();
                if let Who::User(user) = self.who {
                    std::os::unix::fs::chown(&above, Some(user), Some(user)).unwrap();
                }
            }
        }
        let made = self.inside("mount").arg("--bind").arg(directory).arg(&at).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// Waits until the command inside has made this file.
    #[track_caller]
    pub fn awaits(&self, name: &str) {
        let (path, until) = (self.project().join(name), Instant::now() + Duration::from_secs(60));
        while !path.exists() {
            assert!(Instant::now() < until, "`{name}` was not made");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The proxies of this world.
    pub fn proxies(&self) -> Vec<rustix::process::Pid> {
        let program = self.folder.path().join("palisade-egress");
        let is_it = |path: &Path| std::fs::read_link(path.join("exe")).is_ok_and(|exe| exe == program);
        let all = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_it(&entry.path()));
        let number = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().parse().ok();
        all.filter_map(number).filter_map(rustix::process::Pid::from_raw).collect()
    }

    /// Ends the proxies of this world as a crash would; whether there was one.
    pub fn kill_proxy(&self) -> bool {
        let found = self.proxies();
        for pid in &found {
            rustix::process::kill_process(*pid, rustix::process::Signal::KILL).unwrap();
        }
        !found.is_empty()
    }

    /// The memory of the one proxy, in KiB.
    #[track_caller]
    pub fn proxy_memory(&self) -> u64 {
        let [pid] = self.proxies()[..] else { panic!("there is not one proxy") };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The most memory that a proxy of this world has had, in KiB.
    pub fn proxy_peak(&self) -> u64 {
        let peak = |pid: rustix::process::Pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.trim().strip_suffix(" kB")?.parse().ok()
        };
        self.proxies().into_iter().filter_map(peak).max().unwrap_or(0)
    }

    /// `palisade` as the person types it.
    pub fn palisade(&self, arguments: &[&str]) -> Command {
        self.palisade_having(&[], arguments)
    }

    pub fn palisade_having(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let program = self.folder.path().join("palisade");
        let mut command = match self.who {
            Who::Root => self.inside("env"),
            Who::User(user) => {
                let mut command = self.inside("setpriv");
                let user = user.to_string();
                command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--", "env"]);
                command
            }
        };
        let home = format!("HOME={}", self.folder.path().join("home").display());
        command.arg("--ignore-environment").arg(format!("--chdir={}", self.project().display()));
        // Root's would be the whole machine's.
        let config = format!("XDG_CONFIG_HOME={}", self.home().join(".config").display());
        let data = format!("XDG_DATA_HOME={}", self.home().join(".local/share").display());
        command.args(["PATH=/usr/local/bin:/usr/bin:/bin", &home, &config, &data]);
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program).args(arguments);
        command
    }

    /// Runs a script in a sandbox with these options.
    pub fn run(&self, options: &[&str], script: &str) -> Said {
        self.run_having(&[], options, script)
    }

    /// The same by a person who has these variables.
    pub fn run_having(&self, variables: &[(&str, &str)], options: &[&str], script: &str) -> Said {
        let mut arguments = vec!["run"];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-ec", script]);
        Said::of(&self.palisade_having(variables, &arguments).output().unwrap())
    }

    /// Everything that the person's ledger has of an action.
    pub fn entries(&self, action: &str) -> Vec<ledger::Entry> {
        let all = ledger::read(&self.home().join(".local/state/palisade/ledger"), 1).unwrap();
        all.map(|stored| stored.unwrap().entry).filter(|entry| entry.action == action).collect()
    }

    /// Writes a file of the project as its owner.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        std::fs::write(&path, text).unwrap();
        if let Who::User(user) = self.who {
            std::os::unix::fs::chown(&path, Some(user), Some(user)).unwrap();
        }
    }

    /// Does something in a thread that is in this internet.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = std::fs::File::open(format!("/proc/{}/ns/net", self.holder.id())).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                rustix::thread::move_into_link_name_space(namespace.as_fd(), None).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    pub fn listen(&self, address: &str, port: u16) -> TcpListener {
        let address = SocketAddr::new(address.parse().unwrap(), port);
        self.within(|| TcpListener::bind(address).unwrap())
    }

    /// Connects as somebody on this machine would.
    pub fn connect(&self, address: &str, port: u16) -> std::io::Result<TcpStream> {
        let address = SocketAddr::new(address.parse().unwrap(), port);
        self.within(|| TcpStream::connect_timeout(&address, Duration::from_secs(5)))
    }

    /// A web server that answers every request with what it got.
    pub fn http(&self, address: &str, port: u16) -> Server {
        Server::start(self.listen(address, port), None)
    }

    /// One that answers as it is told.
    pub fn answering(&self, port: u16, hosts: &[&str], answers: Answers) -> Server {
        let certificate = Certificate { expired: false, trusted: true };
        let tls = (port != 80).then(|| self.identity(hosts, certificate));
        Server::answering(self.listen(PUBLIC, port), tls, answers)
    }

    /// One that answers as it is told on each connection once, and ends it.
    pub fn breaking(&self, port: u16, answers: Answers) -> Server {
        let (seen, listener) = (Arc::new(Mutex::new(Vec::new())), self.listen(PUBLIC, port));
        let all: Arc<Mutex<Vec<Request>>> = Arc::clone(&seen);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
                while !bytes.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut some) {
                        Ok(got @ 1..) => bytes.extend_from_slice(&some[..got]),
                        _ => break,
                    }
                }
                let request =
                    Request { head: String::from_utf8_lossy(&bytes).into_owned(), body: Vec::new() };
                if request.head.is_empty() {
                    continue;
                }
                drop(stream.write_all(&answers(&request)));
                all.lock().unwrap().push(request);
            }
        });
        Server { seen }
    }

    /// The same with TLS, as these hosts.
    pub fn https(&self, address: &str, hosts: &[&str]) -> Server {
        let certificate = Certificate { expired: false, trusted: true };
        Server::start(self.listen(address, 443), Some(self.identity(hosts, certificate)))
    }

    /// The same with a certificate that nobody should believe.
    pub fn bad_https(&self, address: &str, port: u16, hosts: &[&str], certificate: Certificate) -> Server {
        Server::start(self.listen(address, port), Some(self.identity(hosts, certificate)))
    }

    pub fn identity(&self, hosts: &[&str], certificate: Certificate) -> Arc<rustls::ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut leaf = CertificateParams::new(names).unwrap();
        if certificate.expired {
            leaf.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let signed = match certificate.trusted {
            true => leaf.signed_by(&key, &self.issuer).unwrap(),
            false => leaf.self_signed(&key).unwrap(),
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![signed.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        Arc::new(config)
    }
}

/// What is wrong with a certificate.
#[derive(Clone, Copy)]
pub struct Certificate {
    pub expired: bool,
    pub trusted: bool,
}

/// A web server.
pub struct Server {
    seen: Arc<Mutex<Vec<Request>>>,
}

/// What came to it.
#[derive(Clone, Debug)]
pub struct Request {
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    /// What it asks for, without its query.
    pub fn path(&self) -> &str {
        let target = self.head.split(' ').nth(1).unwrap_or_default();
        target.split('?').next().unwrap_or_default()
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(at, _)| at.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// What a server says to a request: the whole answer, as bytes.
pub type Answers = Arc<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

/// An answer with this status, these further fields (each with its line end) and this content.
pub fn answer(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Says what was asked.
fn echo(request: &Request) -> Vec<u8> {
    let told = format!("{}\n{}", request.head.replace('\r', ""), String::from_utf8_lossy(&request.body));
    answer("200 OK", "", told.as_bytes())
}

impl Server {
    fn start(listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        Self::answering(listener, tls, Arc::new(echo))
    }

    fn answering(listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>, answers: Answers) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        // Ends with the process: whoever listens for nobody harms nobody.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, tls, answers) = (Arc::clone(&all), tls.clone(), Arc::clone(&answers));
                std::thread::spawn(move || match tls {
                    None => serve(stream, &seen, &answers),
                    Some(config) => {
                        let connection = rustls::ServerConnection::new(config).unwrap();
                        serve(rustls::StreamOwned::new(connection, stream), &seen, &answers);
                    }
                });
            }
        });
        Self { seen }
    }

    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// The first line of each request.
    pub fn asked(&self) -> Vec<String> {
        self.seen().iter().map(|request| request.head.lines().next().unwrap().to_owned()).collect()
    }
}

/// Answers requests until there are none.
fn serve(mut stream: impl Read + Write, seen: &Mutex<Vec<Request>>, answers: &Answers) {
    let mut bytes = Vec::new();
    let more = |bytes: &mut Vec<u8>, stream: &mut dyn Read| {
        let mut some = [0; 4096];
        let got = stream.read(&mut some).unwrap_or(0);
        bytes.extend_from_slice(&some[..got]);
        got > 0
    };
    loop {
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if !more(&mut bytes, &mut stream) {
                return;
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        bytes.drain(..end);
        let field = |name: &str| {
            let line = head
                .lines()
                .find_map(|line| line.split_once(": ").filter(|(at, _)| at.eq_ignore_ascii_case(name)));
            line.map(|(_, value)| value.to_owned())
        };
        let length: usize = field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let is_chunked = field("transfer-encoding").is_some();
        let is_whole =
            |bytes: &[u8]| if is_chunked { bytes.ends_with(b"0\r\n\r\n") } else { bytes.len() >= length };
        while !is_whole(&bytes) {
            if !more(&mut bytes, &mut stream) {
                // What was cut came nevertheless.
                seen.lock().unwrap().push(Request { head, body: bytes });
                return;
            }
        }
        let length = if is_chunked { bytes.len() } else { length };
        let body: Vec<u8> = bytes.drain(..length).collect();
        let request = Request { head, body };
        let answer = answers(&request);
        seen.lock().unwrap().push(request);
        if stream.write_all(&answer).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

/// Whether something connects to this, for a while.
pub fn is_left_alone(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    let connected: Option<(TcpStream, _)> = listener.accept().ok();
    connected.is_none()
}
