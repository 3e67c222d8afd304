//! Forges of a small internet: repositories with one commit each, over HTTP, TLS or SSH.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};

use super::{PUBLIC, World};

impl World {
    fn host_git(&self, arguments: &[&str]) -> String {
        let git = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(git.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&git.stderr));
        String::from_utf8_lossy(&git.stdout).into_owned()
    }

    /// A forge at port 80: repositories with one commit each, served by git's own program, to which anybody may push.
    pub fn forge(&self, repositories: &[&str]) -> Forge {
        self.forge_with(repositories, None)
    }

    /// The same with TLS, as this host.
    pub fn secure_forge(&self, repositories: &[&str], host: &str) -> Forge {
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let identity = leaf.signed_by(&key, &self.issuer).unwrap().pem() + &key.serialize_pem();
        let path = self.folder.path().join("forge.pem");
        std::fs::write(&path, identity).unwrap();
        self.forge_with(repositories, Some(&path))
    }

    /// Repositories with one commit each, and where they are.
    fn repositories(&self, names: &[&str]) -> PathBuf {
        let root = self.folder.path().join("forge");
        for name in names {
            let path = root.join(format!("{name}.git")).display().to_string();
            self.host_git(&["init", "-q", "--bare", &path]);
            self.host_git(&["-C", &path, "config", "http.receivepack", "true"]);
            let tree = self.host_git(&["-C", &path, "hash-object", "-t", "tree", "-w", "/dev/null"]);
            let commit = self.host_git(&["-C", &path, "commit-tree", tree.trim(), "-m", "first"]);
            self.host_git(&["-C", &path, "update-ref", "refs/heads/main", commit.trim()]);
        }
        root
    }

    /// A forge that is reached over SSH, by whoever has this key; what it says its own is.
    pub fn ssh_forge(&self, repositories: &[&str], public: &str) -> (Forge, String) {
        let root = self.repositories(repositories);
        let home = self.folder.path().join("forge-home");
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(home.join(".ssh/authorized_keys"), public).unwrap();
        let users = format!("root:x:0:0:root:/root:/bin/sh\ngit:x:0:0:git:{}:/bin/sh\n", home.display());
        std::fs::write(home.join("passwd"), users).unwrap();
        let script = SSH_FORGE.replace("ROOT", &root.display().to_string());
        std::fs::write(home.join("serve"), script).unwrap();
        let own = home.join("own");
        if !own.exists() {
            let made = Command::new("dropbearkey").args(["-t", "ed25519", "-f"]).arg(&own).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        let told = Command::new("dropbearkey").args(["-y", "-f"]).arg(&own).output().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        let key = told.lines().find(|line| line.starts_with("ssh-ed25519 ")).unwrap().to_owned();
        let place = home.display();
        let script = format!(
            "mount --bind {place}/passwd /etc/passwd && exec dropbear -F -E -s -m -j -k -r {place}/own -P {place}/pid \
             -p {PUBLIC}:22 -c 'sh {place}/serve'"
        );
        let mut command = self.inside("unshare");
        let child = command.args(["--mount", "sh", "-c", &script]).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while self.within(|| std::net::TcpStream::connect((PUBLIC, 22))).is_err() {
            assert!(Instant::now() < until, "no forge answers");
            std::thread::sleep(Duration::from_millis(10));
        }
        (Forge(child), key.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
    }

    fn forge_with(&self, repositories: &[&str], identity: Option<&Path>) -> Forge {
        let root = self.repositories(repositories);
        let program = self.folder.path().join("forge.py");
        std::fs::write(&program, FORGE).unwrap();
        let mut command = self.inside("python3");
        command.arg(program).arg(PUBLIC).arg(root).args(identity).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        let mut forge = Forge(child);
        let mut ready = [0];
        forge.0.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        forge
    }

    /// A file beside the repositories of the forge.
    pub fn forge_file(&self, name: &str) -> PathBuf {
        self.folder.path().join("forge").join(name)
    }

    /// What a ref of one of its repositories names.
    pub fn forge_tip(&self, name: &str, reference: &str) -> String {
        let path = self.forge_file(&format!("{name}.git")).display().to_string();
        self.host_git(&["-C", &path, "rev-parse", reference]).trim().to_owned()
    }

    /// The refs of one of its repositories.
    pub fn forge_refs(&self, name: &str) -> String {
        let path = self.folder.path().join("forge").join(format!("{name}.git")).display().to_string();
        self.host_git(&["-C", &path, "for-each-ref", "--format=%(refname)"])
    }
}

/// A forge at work.
pub struct Forge(Child);

impl Drop for Forge {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Serves git and nothing else, as forges do; waits while it is told to.
const SSH_FORGE: &str = r#"
echo "$SSH_ORIGINAL_COMMAND" >> ROOT/asked
while [ -e ROOT/hold ]; do touch ROOT/held; sleep 0.02; done
what=${SSH_ORIGINAL_COMMAND%% *}
path=$(echo "${SSH_ORIGINAL_COMMAND#* }" | tr -d "'")
case $what in git-upload-pack | git-receive-pack) exec git "${what#git-}" "ROOT$path" ;; esac
exit 1
"#;

/// Gives requests to `git http-backend`, as a web server would.
const FORGE: &str = r#"
import base64, http.server, os, subprocess, sys, time
address, root, *identity = sys.argv[1:]
class Forge(http.server.BaseHTTPRequestHandler):
    def body(self):
        if self.headers.get('Transfer-Encoding') != 'chunked':
            return self.rfile.read(int(self.headers.get('Content-Length') or 0))
        out = b''
        while True:
            size = int(self.rfile.readline(), 16)
            out += self.rfile.read(size); self.rfile.readline()
            if size == 0: return out
    def refuses(self):
        # With a file `password` beside the repositories, only who has it is let in; each who asked is written down.
        try: word = open(os.path.join(root, 'password')).read()
        except FileNotFoundError: return False
        told = self.headers.get('Authorization') or ''
        with open(os.path.join(root, 'asked'), 'a') as log: log.write(told + '\n')
        plain = base64.b64decode(told.removeprefix('Basic ')).decode() if told.startswith('Basic ') else ''
        if plain.partition(':')[2] == word: return False
        self.body(); self.send_response(401); self.send_header('WWW-Authenticate', 'Basic realm="forge"')
        self.send_header('Content-Length', '0'); self.end_headers(); return True
    def answer(self):
        if self.refuses(): return
        if self.command == 'POST' and os.path.exists(os.path.join(root, 'hold')):
            open(os.path.join(root, 'held'), 'w').close()
            while os.path.exists(os.path.join(root, 'hold')): time.sleep(0.02)
        path, _, query = self.path.partition('?')
        env = dict(os.environ, GIT_PROJECT_ROOT=root, GIT_HTTP_EXPORT_ALL='1', PATH_INFO=path, QUERY_STRING=query,
                   REQUEST_METHOD=self.command, CONTENT_TYPE=self.headers.get('Content-Type') or '', REMOTE_ADDR='1.2.3.4',
                   GIT_CONFIG_COUNT='1', GIT_CONFIG_KEY_0='safe.directory', GIT_CONFIG_VALUE_0='*')
        if self.headers.get('Git-Protocol'): env['GIT_PROTOCOL'] = self.headers['Git-Protocol']
        if self.headers.get('Content-Encoding'): env['HTTP_CONTENT_ENCODING'] = self.headers['Content-Encoding']
        out = subprocess.run(['git', 'http-backend'], input=self.body(), env=env, stdout=subprocess.PIPE).stdout
        head, _, content = out.partition(b'\r\n\r\n')
        fields = dict(line.split(': ', 1) for line in head.decode().split('\r\n') if ': ' in line)
        self.send_response(int(fields.pop('Status', '200').split()[0]))
        for name, value in fields.items(): self.send_header(name, value)
        self.send_header('Content-Length', str(len(content))); self.end_headers(); self.wfile.write(content)
    do_GET = do_POST = answer
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer((address, 443 if identity else 80), Forge)
if identity:
    import ssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain(identity[0])
    server.socket = context.wrap_socket(server.socket, server_side=True)
sys.stdout.write('!'); sys.stdout.flush(); server.serve_forever()
"#;
