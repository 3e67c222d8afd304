//! TLS by the daemon itself, client certificates, and where it listens.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use api::Client;
use tests::Host;

use crate::gateway_wire::until;

/// An authority, a server certificate and a client certificate, made by `openssl`.
fn certificates(folder: &Path) {
    let script = r#"
        set -e
        ec='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' >server.ext
        printf 'extendedKeyUsage=clientAuth\nbasicConstraints=CA:FALSE\n' >client.ext
        for ca in ca other; do openssl req -x509 $ec -days 2 -subj /CN=$ca -keyout $ca.key -out $ca.crt; done
        sign() { openssl req -new $ec -subj /CN=$1 -keyout $1.key -out $1.csr
                 openssl x509 -req -in $1.csr -CA $2.crt -CAkey $2.key -CAcreateserial -days 2 -extfile $3.ext -out $1.crt; }
        sign server ca server; sign client ca client; sign stranger other client
    "#;
    let done = Command::new("sh").arg("-c").arg(script).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A daemon over TLS; the kit's own client does not know our authority.
struct Secure {
    child: Child,
    base: String,
    folder: PathBuf,
    _home: Host,
}

impl Secure {
    fn start(more: &[&str]) -> Self {
        let home = Host::builder().stopped();
        let folder = home.place().to_owned();
        certificates(&folder);
        let (log, says) = (folder.join("log"), folder.join("says"));
        let mut command = home.command("palisaded");
        for set in ["server.listen=127.0.0.1:0", "server.tls_cert=server.crt", "server.tls_key=server.key"]
            .iter()
            .chain(more)
        {
            command.args(["--set", set]);
        }
        let out = std::fs::File::create(&says).unwrap();
        let child =
            command.arg("up").stdout(out).stderr(std::fs::File::create(log).unwrap()).spawn().unwrap();
        let said = || std::fs::read_to_string(&says).unwrap();
        until("the daemon listens", || said().contains("secret="));
        let base = said()
            .lines()
            .find_map(|line| line.strip_prefix("Palisade is listening on "))
            .unwrap()
            .to_owned();
        Self { child, base, folder, _home: home }
    }

    fn curl(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let url = format!("{}/livez", self.base);
        let output = Command::new("curl")
            .args(["-sS", "-i", "--max-time", "10", "--noproxy", "*", "--cacert", "ca.crt"])
            .args(arguments)
            .arg(url)
            .current_dir(&self.folder)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// GTW-01: its own certificate, HSTS, HTTP/2 and HTTP/1.1; nothing in clear on that port.
#[test]
fn gtw_01_tls_with_its_own_certificate_and_hsts() {
    let secure = Secure::start(&[]);
    assert!(secure.base.starts_with("https://127.0.0.1:"));
    for version in ["--http1.1", "--http2"] {
        let (code, text) = secure.curl(&[version]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.to_lowercase().contains("strict-transport-security: max-age=31536000"), "{text}");
    }
    assert_ne!(secure.curl(&["--tls-max", "1.1"]).0, Some(0), "old TLS is refused");
    let plain = Client::new(&secure.base.replace("https", "http"), None).unwrap();
    assert!(plain.send("GET", "/livez", &[], Vec::new()).is_err(), "nothing in clear");
    let authority = std::fs::read(secure.folder.join("ca.crt")).unwrap();
    assert!(
        Client::new(&secure.base, Some(&authority)).unwrap().ready().is_ok(),
        "the typed client, told whom to trust"
    );
    assert!(Client::new(&secure.base, None).unwrap().ready().is_err(), "and not otherwise");
}

/// GTW-15: the typed client's socket speaks TLS too, and trusts only whom it was told to.
#[test]
fn gtw_15_the_clients_socket_speaks_tls() {
    let secure = Secure::start(&[]);
    let said = std::fs::read_to_string(secure.folder.join("says")).unwrap();
    let secret = said.split_once("secret=").unwrap().1.split_whitespace().next().unwrap().to_owned();
    let authority = std::fs::read(secure.folder.join("ca.crt")).unwrap();
    let client = Client::new(&secure.base, Some(&authority)).unwrap();
    let tokens = client
        .bootstrap(&api::BootstrapRequest {
            secret: api::Hidden(secret),
            email: "owner@example.org".into(),
            name: "Owner".into(),
            password: api::Hidden(tests::PASSWORD.into()),
        })
        .unwrap();
    let client = client.with_token(&tokens.access_token.0);
    let mut socket = client.socket(None).unwrap();
    socket.ping().unwrap();
    let origin = "https://forge.example/a/b".to_owned();
    let repo = client
        .create_repo(&api::CreateRepoRequest { name: "demo".into(), origin, ..Default::default() })
        .unwrap()
        .id;
    let body = api::CreateWorktreeRequest {
        repo,
        name: "one".into(),
        about: String::new(),
        tier: None,
        branch: None,
        base: None,
    };
    let worktree = client.create_worktree(&body).unwrap().id;
    let event = socket.event().unwrap().unwrap();
    assert_eq!(event.worktree.as_ref(), Some(&worktree), "{event:?}");
    socket.close().unwrap();
    let stranger = Client::new(&secure.base, None).unwrap().with_token(&tokens.access_token.0);
    assert!(stranger.socket(None).is_err(), "nobody told it whom to trust");
    let refused = Client::new(&secure.base, Some(&authority)).unwrap().socket(None).unwrap_err();
    assert_eq!(refused.code(), Some(api::Code::AuthRequired), "{refused}");
}

/// GTW-01: with a client authority, who has no certificate of it is refused.
#[test]
fn gtw_01_a_client_without_certificate_is_refused() {
    let secure = Secure::start(&["server.tls_client_ca=ca.crt"]);
    assert_ne!(secure.curl(&[]).0, Some(0), "none");
    assert_ne!(
        secure.curl(&["--cert", "stranger.crt", "--key", "stranger.key"]).0,
        Some(0),
        "of another authority"
    );
    let (code, text) = secure.curl(&["--cert", "client.crt", "--key", "client.key"]);
    assert_eq!(code, Some(0), "{text}");
}

/// GTW-01: loopback unless told; a network needs TLS or an explicit word, and production needs TLS.
#[test]
fn gtw_01_a_network_is_never_served_in_clear_by_accident() {
    let config = Host::builder().stopped();
    let shown = config.command("palisaded").args(["config", "--json"]).output().unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["server.listen"]["value"], "127.0.0.1:7717");
    let start = |settings: &[(&str, &str)]| {
        let builder = settings.iter().fold(Host::builder(), |builder, (key, value)| builder.set(key, value));
        builder.stopped().start_daemon()
    };
    assert!(start(&[("server.listen", "0.0.0.0:0")]).unwrap_err().contains("no TLS"));
    assert!(start(&[("server.listen", "[::]:0")]).unwrap_err().contains("no TLS"));
    let careless =
        [("server.listen", "0.0.0.0:0"), ("server.allow_plaintext", "true"), ("production", "true")];
    assert!(start(&careless).unwrap_err().contains("production"));
    assert!(start(&[("server.tls_cert", "nowhere.crt"), ("server.tls_key", "nowhere.key")]).is_err());
    assert!(start(&[("server.tls_client_ca", "ca.crt")]).unwrap_err().contains("tls_cert"));
}
