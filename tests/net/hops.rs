//! Where else a client could be led: other ports, other paths, redirects, neighbours, foreign owners.

use std::process::Stdio;
use std::sync::Arc;

use crate::world::{EVERYONE, PRIVATE, PUBLIC, PUBLIC_V6, Request, World, answer, is_left_alone};

const PROXY: &str = "198.18.0.1:3128";

#[test]
fn adv_n10_another_port_of_an_allowed_host_is_refused_by_every_door() {
    for who in EVERYONE {
        let world = World::new(who);
        let ports = [22, 25, 8443, 8080];
        let listeners = ports.map(|port| world.listen(PUBLIC, port));
        let server = world.http(PUBLIC, 80);
        let script = format!(
            "for port in 22 25 8443 8080; do
               for way in '' '-x http://{PROXY}' '-p -x http://{PROXY}' '--socks5-hostname {PROXY}'; do
                 curl -s -m 5 -o /dev/null -w '%{{http_code}} ' $way http://site.test:$port/ || true
               done
               python3 - $port <<'X'
import socket, sys
s = socket.create_connection(('site.test', int(sys.argv[1])), 5); s.settimeout(3)
try: s.sendall(b'SSH-2.0-x\\r\\n'); print('said' if s.recv(10) else 'closed')
except OSError: print('closed')
X
             done; curl -fsS http://site.test/ > /dev/null"
        );
        let said = world.run(&["--allow", "site.test:80"], &script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines, ["403 403 000 000 closed"; 4], "{who:?} {}", said.err);
        assert!(listeners.iter().all(is_left_alone), "{who:?}");
        assert_eq!(server.asked().len(), 1);
        // With the port in a rule it is reached, and only that one.
        drop(listeners);
        let open = world.http(PUBLIC, 8080);
        let said = world.run(&["--allow", "site.test:8080"], &script);
        assert!(said.out.contains("200 200 200 200") && said.out.matches("200").count() == 4, "{}", said.out);
        assert_eq!(open.asked().len(), 4);
    }
}

/// What a server that decodes once, and takes everything for a slash that somebody could, finds behind a path.
fn meant(path: &str) -> Vec<String> {
    let mut bytes = Vec::new();
    let raw = path.as_bytes();
    let mut at = 0;
    while at < raw.len() {
        let code = (raw[at] == b'%').then(|| path.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                at += 3;
            }
            None => {
                bytes.push(raw[at]);
                at += 1;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes).replace('\\', "/");
    let text = text.split('\0').next().unwrap_or_default().to_owned();
    let mut parts: Vec<String> = Vec::new();
    for part in text.split('/') {
        match part.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other.to_lowercase()),
        }
    }
    parts
}

/// Ways to write `/hidden/x` that a rule could fail to see.
const TRICKS: [&str; 56] = [
    "/hidden/x",
    "/hidden",
    "/./hidden/x",
    "/open/../hidden/x",
    "/open/./../hidden/x",
    "//hidden/x",
    "///hidden//x",
    "/open//../hidden/x",
    "/%68idden/x",
    "/%48idden/x",
    "/hidde%6e/x",
    "/%68%69%64%64%65%6e/x",
    "/open/%2e%2e/hidden/x",
    "/open/%2E%2E/hidden/x",
    "/open/.%2e/hidden/x",
    "/open/%2e./hidden/x",
    "/open/%2e%2E/hidden/x",
    "/open/..%2fhidden/x",
    "/open/..%2Fhidden/x",
    "/open/%2e%2e%2fhidden/x",
    "/open%2f..%2fhidden/x",
    "/open/..%5chidden/x",
    "/open/..\\hidden\\x",
    "/open\\..\\hidden/x",
    "\\hidden\\x",
    "/open/..;/hidden/x",
    "/open/..;a=b/hidden/x",
    "/..;/hidden/x",
    "/hidden;a=b/x",
    "/;a/hidden/x",
    "/open/;/../hidden/x",
    "/hidden%00/x",
    "/hidden%00.open/x",
    "/open/%00/../hidden/x",
    "/open%00/hidden",
    "/hidden/x%00",
    "/hidden/x#/open",
    "/open#/../hidden/x",
    "/open?/../hidden/x",
    "/hidden%3fx",
    "/hidden%23x",
    "/hidden%2fx",
    "/%2fhidden/x",
    "/%5chidden/x",
    "/open/%c0%ae%c0%ae/hidden/x",
    "/open/%c0%af../hidden/x",
    "/%c1%a8idden/x",
    "/open/%e0%80%ae%e0%80%ae/hidden/x",
    "/open/%u002e%u002e/hidden/x",
    "/open/%/../hidden/x",
    "/open/%2/../hidden/x",
    "/open/%zz/../hidden/x",
    "/open/.../hidden",
    "/open/%252e%252e/hidden/x",
    "/open/\u{ff0e}\u{ff0e}/hidden/x",
    "/open/..\u{2215}hidden/x",
];

fn asks(paths: &[&str]) -> String {
    let list = serde_json::to_string(paths).unwrap();
    format!(
        "cat > paths.json <<'J'\n{list}\nJ\npython3 - <<'X'
import json, socket
codes = []
for path in json.load(open('paths.json')):
    s = socket.create_connection(('site.test', 80), 5); s.settimeout(5)
    s.sendall(b'GET ' + path.encode() + b' HTTP/1.1\\r\\nHost: site.test\\r\\nConnection: close\\r\\n\\r\\n')
    codes.append(s.recv(12)[9:].decode())
print(' '.join(codes))
X"
    )
}

#[test]
fn adv_n13_no_way_of_writing_a_path_leads_around_a_rule() {
    // Where a few are allowed, and where a few are denied: a trick must fail in both.
    let rules = [
        "[[rule]]\nhost = \"site.test\"\nports = [80]\npaths = [\"/open\", \"/open/**\"]\n",
        "[[rule]]\nhost = \"site.test\"\nports = [80]\npaths = [\"/**\"]\n[[rule]]\nhost = \"site.test\"\nports = [80]\n\
         paths = [\"/hidden\", \"/hidden/**\"]\ndeny = true\n",
    ];
    for who in EVERYONE {
        for (at, rules) in rules.iter().enumerate() {
            let world = World::new(who);
            let server = world.http(PUBLIC, 80);
            world.file("rules.toml", rules);
            let said = world.run(&["--rules", "rules.toml"], &asks(&TRICKS)).ok();
            let codes: Vec<&str> = said.out.split_whitespace().collect();
            assert_eq!(codes.len(), TRICKS.len(), "{}", said.out);
            assert!(codes.iter().all(|code| ["200", "400", "403"].contains(code)), "{}", said.out);
            let asked = server.seen();
            assert_eq!(asked.len(), codes.iter().filter(|code| **code == "200").count(), "{who:?}");
            for request in &asked {
                let parts = meant(request.path());
                let first = parts.first().map_or("", String::as_str);
                // Longer names that begin so are others.
                assert!(first != "hidden", "{who:?} set {at}: {}", request.head);
                assert!(at == 1 || first == "open", "{who:?} set {at}: {}", request.head);
            }
            // What is plain is reached: the test can fail.
            let plain = ["/open/x", "/open/a%20b", "/open/hidden"];
            let said = world.run(&["--rules", "rules.toml"], &asks(&plain)).ok();
            assert_eq!(said.out.trim(), "200 200 200");
            let last: Vec<String> =
                server.seen().iter().rev().take(3).rev().map(|request| request.path().to_owned()).collect();
            assert_eq!(last, plain, "what is judged is what is sent");
        }
    }
}

const SECRET: &str = "sk-Qm9yZWRvbUlzQVZpcnR1ZTEyMzQ1Njc4XyZ0";

#[test]
fn adv_n14_each_hop_of_a_redirect_is_judged_anew_and_no_secret_goes_along() {
    for who in EVERYONE {
        let world = World::new(who);
        let hops = |request: &Request| {
            let to = match request.path() {
                "/other" => "https://other.test/x",
                "/plain" => "http://other.test/x",
                "/port" => "https://site.test:8443/x",
                "/address" => "http://93.184.216.34:8000/x",
                "/loop" => "http://127.0.0.1:8000/x",
                "/meta" => "http://169.254.169.254:8000/latest/meta-data",
                "/private" => "http://10.1.2.3:8000/x",
                "/six" => "http://[::ffff:10.1.2.3]:8000/x",
                "/named" => "http://private.test:8000/x",
                "/allowed" => "https://github.com/x",
                _ => return answer("200 OK", "", b"here"),
            };
            answer("302 Found", &format!("Location: {to}\r\n"), b"")
        };
        let server = world.answering(443, &["site.test", "other.test", "github.com"], Arc::new(hops));
        let listeners =
            [(PUBLIC, 8443), (PUBLIC, 8000), ("127.0.0.1", 8000), ("169.254.169.254", 8000), (PRIVATE, 8000)]
                .map(|(address, port)| world.listen(address, port));
        let plain = world.listen(PUBLIC, 80);
        let script = "
            for to in other plain port address loop meta private six named allowed; do
              curl -s -m 5 -L --location-trusted -H \"x-key: $MY_KEY\" -u \"user:$MY_KEY\" -o got -w '%{http_code} ' https://site.test/$to || true
            done";
        // A name with a private address is allowed: the address is not.
        let options =
            ["--secret", "MY_KEY=site.test", "--preset", "github-read", "--allow", "private.test:8000"];
        let said = world.run_having(&[("MY_KEY", SECRET)], &options, script).ok();
        assert!(!said.out.contains("200"), "{who:?} {} {}", said.out, said.err);
        let codes: Vec<&str> = said.out.split_whitespace().collect();
        assert_eq!((codes.len(), codes[9]), (10, "403"), "{}", said.out);
        // Only first hops came, each with the secret, which was theirs.
        let seen = server.seen();
        assert_eq!(seen.len(), 10, "{:?}", server.asked());
        assert!(
            seen.iter().all(|request| request.field("host") == Some("site.test")),
            "{:?}",
            server.asked()
        );
        assert!(seen.iter().all(|request| request.field("x-key") == Some(SECRET)));
        assert!(listeners.iter().all(is_left_alone) && is_left_alone(&plain), "{who:?}");
        // To a host that is allowed the word was refused and told of.
        let findings = world.entries("network.finding");
        assert!(findings.iter().any(|entry| entry.detail["host"] == "github.com"), "{findings:?}");
        // Nor does an address come into reach for somebody who carries nothing.
        let script = "
            for to in other plain port address loop meta private six named; do
              curl -s -m 5 -L -o got -w '%{http_code} ' https://site.test/$to || true
            done";
        let options = ["--preset", "github-read", "--allow", "site.test", "--allow", "private.test:8000"];
        let said = world.run(&options, script).ok();
        assert!(!said.out.contains("200"), "{who:?} {} {}", said.out, said.err);
        assert_eq!(said.out.split_whitespace().count(), 9, "{}", said.out);
        assert!(listeners.iter().all(is_left_alone) && is_left_alone(&plain), "{who:?}");
        // Without a word that hop is fine: the test can fail.
        let said = world
            .run(&["--preset", "github-read", "--allow", "site.test"], "curl -fsSL https://site.test/allowed")
            .ok();
        assert_eq!(said.out, "here");
    }
}

#[test]
fn adv_n15_tunnels_in_use_end_within_a_second_of_their_rule() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test"]);
        let quiet = world.listen(PUBLIC, 9000);
        // Whoever is there hears and says something all the time.
        let open = Arc::new(std::sync::Mutex::new(Vec::new()));
        let all = Arc::clone(&open);
        std::thread::spawn(move || {
            for stream in quiet.incoming().map_while(Result::ok) {
                let mut writes = stream.try_clone().unwrap();
                all.lock().unwrap().push(stream);
                std::thread::spawn(move || {
                    while std::io::Write::write_all(&mut writes, b"tick").is_ok() {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                    }
                });
            }
        });
        let script = "python3 - <<'X'
import os, socket, ssl, threading, time
def connect(host, port):
    s = socket.create_connection(('198.18.0.1', 3128), 5)
    s.sendall(b'CONNECT %s:%d HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % (host, port, host, port)); s.recv(1000); return s
def socks(host, port):
    s = socket.create_connection(('198.18.0.1', 3128), 5); s.sendall(b'\\x05\\x01\\x00'); s.recv(2)
    s.sendall(b'\\x05\\x01\\x00\\x03' + bytes([len(host)]) + host + port.to_bytes(2, 'big')); s.recv(10); return s
trust = ssl.create_default_context()
tunnels = [socket.create_connection(('site.test', 9000), 5), connect(b'site.test', 9000), socks(b'site.test', 9000)]
for t in tunnels: t.sendall(b'hello\\r\\n')
tunnels += [trust.wrap_socket(s, server_hostname='site.test') for s in (socket.create_connection(('site.test', 443), 5), connect(b'site.test', 443))]
ended = [None] * len(tunnels)
def use(at):
    t = tunnels[at]; t.settimeout(0.2)
    try:
        while True:
            if at > 2: t.sendall(b'GET /x HTTP/1.1\\r\\nHost: site.test\\r\\n\\r\\n')
            else: t.sendall(b'tock')
            try:
                if t.recv(65536) == b'': break
            except (TimeoutError, ssl.SSLWantReadError): pass
            time.sleep(0.02)
    except OSError: pass
    ended[at] = time.time()
threads = [threading.Thread(target=use, args=(at,)) for at in range(len(tunnels))]
for t in threads: t.start()
time.sleep(0.5); print([at for at in ended if at]); open('ready', 'w').close()
while not os.path.exists('cut'): time.sleep(0.005)
begun = time.time()
for t in threads: t.join(5)
print('all' if all(ended) and max(ended) - begun < 1 else [at and at - begun for at in ended])
X";
        let allowed = ["run", "--allow", "site.test", "--allow", "site.test:9000", "--", "sh", "-ec", script];
        let child = world.palisade(&allowed).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        world.awaits("ready");
        let before = server.seen().len();
        let cut = world.palisade(&["offline"]).output().unwrap();
        assert!(cut.status.success(), "{}", String::from_utf8_lossy(&cut.stderr));
        world.file("cut", "");
        let said = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(out, "[]\nall\n", "{who:?} {}", String::from_utf8_lossy(&said.stderr));
        assert!(before > 1, "they were in use");
        assert_eq!(open.lock().unwrap().len(), 3, "{who:?}");
    }
}

#[test]
fn adv_n17_neighbours_the_daemon_and_the_proxys_own_sockets_are_out_of_reach() {
    for who in EVERYONE {
        let world = World::new(who);
        let public = world.http(PUBLIC, 80);
        let daemon = world.within(|| tests::Host::builder().set("metrics.listen", "127.0.0.1:9717").start());
        let port: u16 = daemon.base().rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
        let is_up = || world.within(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(is_up(), "the daemon is where the sandbox looks for it");
        // Somebody else's sandbox, which may reach what this one may not.
        let neighbour = [
            "run",
            "--allow",
            "site.test:80",
            "--",
            "sh",
            "-ec",
            "touch there; curl -fsS http://site.test/neighbour >/dev/null; while [ ! -e over ]; do sleep 0.05; done; curl -fsS http://site.test/still >/dev/null",
        ];
        let mut child = world.palisade(&neighbour).stdin(Stdio::null()).spawn().unwrap();
        world.awaits("there");
        let other = world.home().join("other");
        std::fs::create_dir(&other).unwrap();
        let script = format!(
            "python3 - <<'X'
import glob, os, socket
reached = []
def tries(family, to):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(0.5)
    try: s.connect(to); s.sendall(b'GET /metrics HTTP/1.0\\r\\n\\r\\n'); got = s.recv(100)
    except OSError: return
    finally: s.close()
    if got and b' 403 ' not in got: reached.append((to, got[:40]))
# The daemon and its figures, by every address of this machine that a sandbox could think of.
for to in ('127.0.0.1', '127.0.0.2', '0.0.0.0', '{PUBLIC}', '{PRIVATE}', '198.18.0.1', '198.18.0.2'):
    for port in ({port}, 9717, 7717): tries(socket.AF_INET, (to, port))
for to in ('::1', '{PUBLIC_V6}', '::ffff:127.0.0.1'):
    for port in ({port}, 9717, 7717): tries(socket.AF_INET6, (to, port))
# Every port that anybody listens on here: the listeners that connections are led to answer nobody who was not led.
listens = set()
for name in ('tcp', 'tcp6'):
    for line in open('/proc/net/' + name).readlines()[1:]:
        part = line.split()
        if part[3] == '0A': listens.add(int(part[1].split(':')[1], 16))
for port in listens:
    for to in ('127.0.0.1', '198.18.0.1'): tries(socket.AF_INET, (to, port))
    tries(socket.AF_INET6, ('::1', port))
# The other sandbox's way out, by the addresses that it has there.
for to in ('198.18.1.0', '198.18.1.1', '198.18.0.1'):
    for port in (80, 443): tries(socket.AF_INET, (to, port))
# Sockets with a path or a name in memory.
for line in open('/proc/net/unix').readlines()[1:]:
    part = line.split()
    if len(part) > 7: tries(socket.AF_UNIX, part[7].replace('@', '\\0', 1))
for top in ('/run', '/var/run', '/tmp', os.environ['HOME'], '{home}'):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.path.exists(path) and (os.stat(path).st_mode & 0o170000) == 0o140000: tries(socket.AF_UNIX, path)
print(reached)
# What the proxy is asked to do with itself.
def asked(target):
    s = socket.create_connection(('198.18.0.1', 3128), 5); s.settimeout(5)
    s.sendall(b'CONNECT ' + target + b' HTTP/1.1\\r\\nHost: ' + target + b'\\r\\n\\r\\n')
    return s.recv(100).split(b' ')[1]
targets = [b'198.18.0.1:3128', b'127.0.0.1:{port}', b'127.0.0.1:9717', b'localhost:{port}', b'[::1]:{port}', b'loop.test:{port}', b'198.18.1.0:80', b'0.0.0.0:{port}']
print([(target, asked(target)) for target in targets if asked(target) == b'200'])
X
for path in / /metrics /v1 /state /admin; do curl -s -m 3 -o /dev/null -w '%{{http_code}} ' http://198.18.0.1:3128$path || true; done
curl -s -m 3 http://palisade.local/ | grep -c neighbour || true
curl -s -m 3 -o /dev/null -w '%{{http_code}}' http://loop.test:{port}/ || true",
            home = world.home().display()
        );
        let loops = format!("--allow=loop.test:{port}");
        let said = world.run(&["--allow", "other.test:81", &loops], &script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines[0], "[]", "{who:?} {}", said.err);
        assert!(lines[1] == "[]" || lines[1] == format!("[(b'loop.test:{port}', b'200')]"), "{}", lines[1]);
        assert_eq!(lines[2], "400 400 400 400 400 0", "{}", said.out);
        assert_eq!(lines[3], "403", "{}", said.out);
        assert!(is_up());
        // The other one was not disturbed.
        world.file("over", "");
        assert!(child.wait().unwrap().success(), "{who:?}");
        assert_eq!(public.asked(), ["GET /neighbour HTTP/1.1", "GET /still HTTP/1.1"]);
    }
}

#[test]
fn adv_n18_a_foreign_owner_behind_an_allowed_service_is_refused_by_name() {
    for who in EVERYONE {
        let world = World::new(who);
        let server =
            world.https(PUBLIC, &["github.com", "api.github.com", "site.test", "registry.npmjs.org"]);
        // A bucket of one's own on a host that everybody shares.
        let rules = "[[rule]]\nhost = \"site.test\"\nmethods = [\"GET\", \"PUT\"]\npaths = [\"/mine/**\"]\n\
                     query = { forbid = [\"X-Amz-Signature\", \"X-Amz-Credential\"] }\n";
        world.file("rules.toml", rules);
        let signed = "X-Amz-Credential=them&X-Amz-Signature=0123";
        let script = format!(
            "say() {{ curl -sS -o got -w '%{{http_code}} ' \"$@\"; cat got | tr '\\n' ' '; echo; }}
             say -X POST -d '{{}}' https://api.github.com/gists
             say -X POST -d '{{}}' https://api.github.com/repos/them/theirs/issues
             say -X POST -d '{{}}' https://api.github.com/graphql
             say -X PUT -d '{{}}' https://api.github.com/repos/them/theirs/contents/x
             say -X POST -H 'Content-Type: application/x-git-receive-pack-request' -d x https://github.com/them/theirs.git/git-receive-pack
             say 'https://github.com/them/theirs.git/info/refs?service=git-receive-pack'
             say -X PUT -d x https://registry.npmjs.org/theirs
             say -X PUT -d x 'https://site.test/theirs/x?{signed}'
             say -X PUT -d x 'https://site.test/mine/x?{signed}'
             say -X PUT -d x 'https://site.test/mine/../theirs/x'  --path-as-is
             say -X PUT -d x https://site.test/mine/x
             say https://api.github.com/repos/them/theirs"
        );
        let options = ["--preset", "github-read", "--preset", "npm-install", "--rules", "rules.toml"];
        let said = world.run(&options, &script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines.len(), 12, "{}", said.out);
        for line in &lines[..10] {
            assert!(line.starts_with("403 ") || line.starts_with("400 "), "{who:?} {line}");
        }
        // Whose it is stands in the answer.
        assert!(lines[5].contains("push to the repository `them/theirs`"), "{}", lines[5]);
        assert!(lines[6].contains("the package `theirs`"), "{}", lines[6]);
        assert!(lines[10].starts_with("200 ") && lines[11].starts_with("200 "), "{}", said.out);
        assert_eq!(server.asked(), ["PUT /mine/x HTTP/1.1", "GET /repos/them/theirs HTTP/1.1"], "{who:?}");
    }
}

#[test]
fn egr_02_two_hundred_pairs_of_door_and_destination_get_one_verdict_and_one_record() {
    let rules = "[[rule]]\nhost = \"site.test\"\nports = [80, 8080]\n[[rule]]\nhost = \"*.site.test\"\nports = [80]\n\
                 [[rule]]\nhost = \"denied.site.test\"\nports = [80]\ndeny = true\n[[rule]]\nhost = \"loop.test\"\nports = [80]\n\
                 [[rule]]\nhost = \"mixed.test\"\nports = [80]\n[[rule]]\nhost = \"private.test\"\nports = [80]\n";
    let hosts = [
        "site.test",
        "SITE.Test",
        "site.test.",
        "sub.site.test",
        "denied.site.test",
        "a.b.site.test",
        "xsite.test",
        "site.test.other.test",
        "other.test",
        "private.test",
        "mixed.test",
        "loop.test",
        "meta.test",
        PUBLIC,
        "127.0.0.1",
        PRIVATE,
        "169.254.169.254",
    ];
    let ports = [80, 81, 8080];
    let count = hosts.len() * ports.len();
    for who in EVERYONE {
        let world = World::new(who);
        let servers = ports.map(|port| world.http(PUBLIC, port));
        let listeners = ["127.0.0.1", PRIVATE, "169.254.169.254"].map(|address| world.listen(address, 80));
        world.file("rules.toml", rules);
        let script = |door: &str| {
            format!(
                "python3 - <<'X'
import socket
def lead(): s = socket.create_connection(('198.18.0.1', 3128), 5); s.settimeout(8); return s
def plain(host, port):
    s = socket.create_connection((host, port), 5); s.settimeout(8); return s, '/'
def whole(host, port): return lead(), 'http://%s:%d/' % (host, port)
def connect(host, port):
    s = lead(); s.sendall(b'CONNECT %s:%d HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % (host.encode(), port, host.encode(), port))
    if b' 200 ' not in s.recv(1000).split(b'\\r\\n')[0] + b' ': raise OSError
    return s, '/'
def socks(host, port):
    s = lead(); s.sendall(b'\\x05\\x01\\x00'); s.recv(2)
    try: name = b'\\x01' + socket.inet_aton(host) if host[0].isdigit() else None
    except OSError: name = None
    s.sendall(b'\\x05\\x01\\x00' + (name or b'\\x03' + bytes([len(host)]) + host.encode()) + port.to_bytes(2, 'big'))
    if s.recv(10)[1:2] != b'\\0': raise OSError
    return s, '/'
verdicts = ''
for host in {hosts:?}:
    for port in {ports:?}:
        try:
            s, target = {door}(host, port)
            s.sendall(('GET %s HTTP/1.1\\r\\nHost: %s:%d\\r\\nConnection: close\\r\\n\\r\\n' % (target, host, port)).encode())
            verdicts += 'y' if s.recv(12).endswith(b' 200') else 'n'
        except OSError: verdicts += 'n'
print(verdicts)
X"
            )
        };
        let doors = ["plain", "whole", "connect", "socks"].map(|door| {
            let before = world.entries("network.connect").len();
            let said = world.run(&["--rules", "rules.toml"], &script(door)).ok();
            let entries = world.entries("network.connect").split_off(before);
            let shown = |entry: &ledger::Entry| {
                let part = |key: &str| entry.detail.get(key).cloned().unwrap_or_default();
                (part("host"), part("port"), format!("{:?}", entry.decision), part("rule"))
            };
            let mut record: Vec<_> = entries.iter().map(shown).collect();
            record.sort();
            record.dedup();
            (door, said.out.trim().to_owned(), record)
        });
        let (_, verdicts, record) = doors[1].clone();
        // The three names of one host on two ports.
        assert_eq!((verdicts.len(), verdicts.matches('y').count()), (count, 6), "{who:?} {verdicts}");
        for (door, others, other) in &doors {
            assert_eq!(others, &verdicts, "{who:?} {door}");
            if *door == "plain" {
                // A name that nothing allows is not there, so that no connection can be recorded.
                assert!(other.iter().all(|entry| record.contains(entry)), "{other:#?}\n{record:#?}");
            } else {
                assert_eq!(other, &record, "{who:?} {door}");
            }
        }
        assert!(listeners.iter().all(is_left_alone));
        assert_eq!(servers.map(|server| server.asked().len()), [12, 0, 12], "{who:?}");
    }
}
