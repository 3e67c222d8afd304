//! Peers that stop reading, or never end: they hold nothing that others wait for.
//!
//! HTTP/2 by hand: a peer that gives its streams no room and answers pings looks alive for ever.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::{Hidden, LoginRequest};
use tests::{Host, PASSWORD};
use tungstenite::Message;

use crate::gateway_socket::{closed, open};
use crate::gateway_wire::{authority, connect, until};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
/// The window of a stream: no room at all.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A text as HPACK writes it, without compression.
fn literal(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        out.push(u8::try_from(length).unwrap());
    } else {
        out.push(127);
        length -= 127;
        while length >= 128 {
            out.push(u8::try_from(length % 128).unwrap() | 128);
            length /= 128;
        }
        out.push(u8::try_from(length).unwrap());
    }
    out.extend_from_slice(text.as_bytes());
}

/// What is known of one connection.
#[derive(Debug, Default)]
struct Seen {
    /// Whether each stream that was answered was answered with 200.
    answered: HashMap<u32, bool>,
    data: usize,
    over: bool,
}

/// An HTTP/2 connection whose streams have no room.
struct Stalled {
    stream: TcpStream,
    seen: Arc<Mutex<Seen>>,
    next: u32,
}

impl Stalled {
    fn open(host: &Host) -> Self {
        let mut stream = connect(host);
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &NO_WINDOW)).unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (mut reader, shared) = (stream.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            while Self::answer(&mut reader, &shared).is_ok() {}
            shared.lock().unwrap().over = true;
        });
        Self { stream, seen, next: 1 }
    }

    /// Reads one frame; pings and settings are answered, as a peer that is alive does.
    fn answer(stream: &mut TcpStream, seen: &Mutex<Seen>) -> std::io::Result<()> {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = usize::try_from(u32::from_be_bytes([0, head[0], head[1], head[2]])).unwrap();
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match (head[3], head[4] & ACK != 0) {
            (SETTINGS, false) => stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            (PING, false) => stream.write_all(&frame(PING, ACK, 0, &payload))?,
            // `:status: 200` is one byte of the static table.
            (HEADERS, _) => drop(seen.lock().unwrap().answered.insert(id, payload[0] == 0x88)),
            (DATA, _) => seen.lock().unwrap().data += length,
            _ => {}
        }
        Ok(())
    }

    /// Asks for something on a new stream.
    fn get(&mut self, host: &Host, token: &str, path: &str) {
        let mut block = vec![0x82, 0x86, 0x04];
        literal(&mut block, path);
        block.push(0x01);
        literal(&mut block, authority(host));
        block.extend_from_slice(&[0x0f, 0x08]);
        literal(&mut block, &format!("Bearer {token}"));
        const END_STREAM_AND_HEADERS: u8 = 0x05;
        self.stream.write_all(&frame(HEADERS, END_STREAM_AND_HEADERS, self.next, &block)).unwrap();
        self.next += 2;
    }

    fn answers(&self) -> usize {
        self.seen.lock().unwrap().answered.len()
    }

    fn good_answers(&self) -> usize {
        self.seen.lock().unwrap().answered.values().filter(|good| **good).count()
    }

    fn is_over(&self) -> bool {
        self.seen.lock().unwrap().over
    }
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// GTW-02: hundreds of exports that nobody reads leave every thread and every lock to others; they are cut.
#[test]
fn gtw_02_readers_that_stop_do_not_hold_up_writers() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let (ana, bo) = (host.user("ana", "admin"), host.user("bo", "member"));
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "session").id;
    // A ledger that does not fit into the buffers on the way.
    let size = |who: &tests::Person| {
        let mut all = Vec::new();
        who.client.export_ledger().unwrap().read_to_end(&mut all).unwrap();
        all.len()
    };
    for round in 0..40 {
        if size(&ana) > 1 << 20 {
            break;
        }
        let note = "x".repeat(100);
        for n in 0..100 {
            host.owner().client.update_worktree(&worktree, &format!("{round} {n} {note}")).unwrap();
        }
    }
    let whole = size(&ana);
    assert!(whole > 1 << 20, "{whole}");

    let before = threads(host.pid());
    let token = host.owner().client.token().unwrap().to_owned();
    let mut stalled: Vec<Stalled> = (0..9).map(|_| Stalled::open(&host)).collect();
    let start = Instant::now();
    for one in &mut stalled {
        for _ in 0..60 {
            one.get(&host, &token, "/api/v1/ledger/export");
        }
    }
    until("each is answered", || stalled.iter().all(|one| one.answers() == 60));
    let good: usize = stalled.iter().map(Stalled::good_answers).sum();
    assert_eq!(good, 2, "two exports of one user at once");
    assert!(threads(host.pid()) < before + 60, "{} threads", threads(host.pid()));
    let refused = host.owner().client.export_ledger().map(drop).unwrap_err();
    assert_eq!(refused.status(), Some(429), "{refused}");

    // Others write, sign in, lose their rights and export meanwhile.
    host.owner().client.update_worktree(&worktree, "meanwhile").unwrap();
    let login = LoginRequest { email: bo.email.clone(), password: Hidden(PASSWORD.into()), totp: None };
    host.anonymous().login(&login).unwrap();
    host.owner().client.disable_user(&bo.id).unwrap();
    assert!(bo.client.whoami().is_err());
    assert!(size(&ana) > whole, "a reader that reads gets everything");

    // Who takes nothing is let go, pings or not; and the seats are free again.
    let deadline = start + Duration::from_secs(60);
    while !stalled.iter().all(Stalled::is_over) {
        assert!(Instant::now() < deadline, "a connection that stands still is still open");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(start.elapsed() > Duration::from_secs(25), "but not at once: {:?}", start.elapsed());
    assert!(stalled.iter().all(|one| one.seen.lock().unwrap().data == 0), "nothing was taken");
    until("the seats are free", || host.owner().client.export_ledger().is_ok());
    until("the threads are gone", || threads(host.pid()) < before + 30);
}

/// GTW-04, IDN-07: one user has so many live connections, and none that outlives the right to follow, whether
/// or not anyone reads.
#[test]
fn gtw_04_streams_that_nobody_reads_end_with_the_right() {
    let host = Host::builder().set("limits.sockets", "30").start();
    let (bo, cy) = (host.user("bo", "viewer"), host.user("cy", "viewer"));
    let mut stalled = Stalled::open(&host);
    let token = bo.client.token().unwrap().to_owned();
    for _ in 0..25 {
        stalled.get(&host, &token, "/api/v1/events");
    }
    until("each is answered", || stalled.answers() == 25);
    assert_eq!(stalled.good_answers(), 20, "twenty live connections of one user");
    let taken = |count: usize| {
        host.owner().client.metrics().unwrap().contains(&format!("palisade_sockets {count}\n"))
    };
    assert!(taken(20));
    assert_eq!(bo.client.events(None).map(drop).unwrap_err().status(), Some(429));
    let ticket = bo.client.ticket().unwrap().ticket.into_text();
    let protocols = format!("palisade.v1, ticket.{ticket}");
    let headers = [("origin", host.base()), ("sec-websocket-protocol", protocols.as_str())];
    let socket = crate::gateway_socket::dial(&host, "", &headers);
    assert_eq!(socket.unwrap_err(), 429, "sockets and streams are counted together");
    drop(cy.client.events(None).unwrap());

    let start = Instant::now();
    host.owner().client.disable_user(&bo.id).unwrap();
    until("the places are free", || taken(0));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// GTW-04: a stream that stands still while there is something to say is cut, and its place is free.
#[test]
fn gtw_04_a_stream_that_stands_still_is_cut() {
    let host =
        Host::builder().set("limits.sockets_per_user", "1").set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "view").id;
    let bo = host.user("bo", "viewer");
    let mut stalled = Stalled::open(&host);
    stalled.get(&host, bo.client.token().unwrap(), "/api/v1/events?after=0");
    until("it is answered", || stalled.good_answers() == 1);
    for n in 0..5 {
        host.owner().client.update_worktree(&worktree, &format!("{n}")).unwrap();
    }
    assert_eq!(bo.client.events(None).map(drop).unwrap_err().status(), Some(429));
    until("its place is free", || bo.client.events(None).is_ok());
}

/// GTW-04: pongs answer pings; a flood of them closes the socket.
#[test]
fn gtw_04_pongs_that_nobody_asked_for_close_the_socket() {
    let host = Host::start();
    let mut socket = open(&host, host.owner(), "");
    for _ in 0..30 {
        drop(socket.send(Message::Pong(Vec::new().into())));
    }
    assert_eq!(closed(&mut socket), 1008);
}

/// GTW-15: the typed client gives up on an answer that does not end.
#[test]
fn gtw_15_an_answer_that_does_not_end_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(stream.read(&mut [0; 4_096]));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{").unwrap();
        // A byte now and then: there is always something new, and never an end.
        while stopped.recv_timeout(Duration::from_secs(1)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            drop(stream.write_all(b" "));
        }
    });
    let start = Instant::now();
    assert!(api::Client::new(&base, None).unwrap().whoami().is_err());
    assert!((50..90).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    stop.send(()).unwrap();
    server.join().unwrap();
}

/// GTW-01: the program does not send a password in clear over a network, unless it is told to.
#[test]
fn gtw_01_no_password_leaves_without_tls() {
    let host = Host::start();
    let port = authority(&host).rsplit_once(':').unwrap().1;
    // Another way to write the loopback address, so that nothing leaves this machine if the promise is broken.
    let url = format!("http://127.1:{port}");
    let login = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = host.command("palisade");
        command.args(flags).args([
            "--url",
            &url,
            "login",
            "--email",
            "owner@example.org",
            "--password-stdin",
        ]);
        let output = tests::fed(command.envs(variables.iter().copied()), &format!("{PASSWORD}\n"));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let head = host.ledger_head();
    let (code, said) = login(&[], &[]);
    assert!(code == Some(2) && said.contains("--insecure-http"), "{code:?} {said}");
    assert!(!said.contains(PASSWORD));
    assert_eq!(host.ledger_head(), head, "nobody tried to sign in");
    // Told so, it asks; this daemon does not go by that name.
    for (flags, variables) in [(&["--insecure-http"][..], &[][..]), (&[], &[("PALISADE_INSECURE_HTTP", "1")])]
    {
        let (code, said) = login(flags, variables);
        assert!(code == Some(1) && said.contains("not the host"), "{code:?} {said}");
    }
}
