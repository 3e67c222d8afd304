//! A real PostgreSQL server for one test process, stopped however that process ends.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The PostgreSQL server of this process.
pub(crate) struct Server {
    folder: PathBuf,
    port: u16,
    bin: PathBuf,
    count: AtomicU32,
    keeper: Child,
}

/// Runs the server until its input ends. `$AS` is how to become a user PostgreSQL accepts, or empty.
const KEEPER: &str = r#"
trap '' INT TERM HUP
cd / && install -d -m 0700 $OWNER "$DIR/data" "$DIR/run" || exit 1
$AS "$BIN/initdb" -D "$DIR/data" -U admin --auth=trust -E UTF8 --locale-provider=icu --icu-locale=en --locale=C.UTF-8 --no-sync || exit 1
cd "$DIR" && printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' >extensions || exit 1
ec='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 $ec -days 2 -subj /CN=authority -keyout authority.key -out authority.crt &&
openssl req -new $ec -subj /CN=localhost -keyout server.key -out server.csr &&
openssl x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 -extfile extensions \
    -out server.crt || exit 1
chmod 600 server.key; chown --reference=data server.key; chmod 644 server.crt authority.crt; cd /
$AS "$BIN/postgres" -D "$DIR/data" -k "$DIR/run" -p "$PORT" -c listen_addresses=127.0.0.1 -c fsync=off \
    -c max_connections=400 -c ssl=on -c ssl_cert_file="$DIR/server.crt" -c ssl_key_file="$DIR/server.key" &
read -r _
kill -QUIT $!
wait $!
rm -rf "$DIR"
"#;

impl Server {
    /// The server, started at the first call.
    pub(crate) fn shared() -> &'static Self {
        static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
        match SERVER.get_or_init(Self::start) {
            Ok(server) => server,
            Err(why) => panic!("{why}"), // in every test, without trying again
        }
    }

    pub(crate) fn start() -> Result<Self, String> {
        let bin = Self::programs()?;
        let folder = tempfile::Builder::new().prefix("palisade-pg-").tempdir().unwrap().keep();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let root = rustix::process::geteuid().is_root();
        let (become_user, owner) = match root {
            true => ("setpriv --reuid=postgres --regid=postgres --clear-groups", "-o postgres -g postgres"),
            false => ("", ""),
        };
        let log = fs::File::create(folder.join("log")).unwrap();
        let keeper = Command::new("sh")
            .args(["-c", KEEPER])
            .envs([("AS", become_user), ("OWNER", owner), ("PORT", &port.to_string())])
            .envs([("DIR", &folder), ("BIN", &bin)])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self { folder, port, bin, count: AtomicU32::new(0), keeper };
        server.wait_until_ready()?;
        server.sql("postgres", "CREATE ROLE palisade LOGIN PASSWORD 'swordfish'");
        Ok(server)
    }

    fn programs() -> Result<PathBuf, String> {
        let versions = fs::read_dir("/usr/lib/postgresql").map(|all| all.flatten().collect::<Vec<_>>());
        let mut found: Vec<_> =
            versions.unwrap_or_default().iter().map(|one| one.path().join("bin")).collect();
        found.retain(|bin| bin.join("postgres").exists());
        found.sort();
        let advice = "PostgreSQL is not installed; run `apt-get install postgresql openssl` (15 or newer)";
        found.pop().ok_or(advice.to_owned())
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.psql("postgres", "SELECT 1").status.success() {
            if Instant::now() > deadline || self.keeper.try_wait().unwrap().is_some() {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                fs::remove_dir_all(&self.folder).unwrap();
                return Err(format!("PostgreSQL did not start:\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn psql(&self, database: &str, sql: &str) -> std::process::Output {
        let (run, port) = (self.folder.join("run"), self.port.to_string());
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", "admin", "-p", &port, "-d", database, "-c", sql]);
        psql.arg("-h").arg(run).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs SQL as the server's administrator.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        let output = self.psql(database, sql);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The address of a new database, through the server's socket, as an ordinary user.
    pub(crate) fn database(&self) -> String {
        let name = format!("store_{}", self.count.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER palisade"));
        self.sql(&name, "ALTER SCHEMA public OWNER TO palisade");
        let run = self.folder.join("run").to_str().unwrap().replace('/', "%2F");
        format!("postgres://palisade@{run}:{}/{name}", self.port)
    }

    /// The port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Who signed the certificate that the server shows on TCP connections.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("authority.crt")
    }
}
