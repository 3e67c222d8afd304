//! WebSockets are bounded and tidy, and open only from our origin with a ticket.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Clock, FixedClock};
use tests::{Host, Person};
use tungstenite::client::IntoClientRequest;
use tungstenite::{HandshakeError, Message, WebSocket};

use crate::gateway_wire::{authority, connect, psql};

pub type Socket = WebSocket<TcpStream>;

/// Opens a socket with these headers; the error is the status that came instead.
pub fn dial(host: &Host, query: &str, headers: &[(&str, &str)]) -> Result<Socket, u16> {
    let mut request =
        format!("ws://{}/api/v1/events/socket{query}", authority(host)).into_client_request().unwrap();
    for (name, value) in headers {
        let name: tungstenite::http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    match tungstenite::client(request, connect(host)) {
        Ok((socket, _)) => Ok(socket),
        Err(HandshakeError::Failure(tungstenite::Error::Http(response))) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// Opens a socket as a browser would: our origin, a fresh ticket.
pub fn open(host: &Host, who: &Person, query: &str) -> Socket {
    let ticket = who.client.ticket().unwrap().ticket.into_text();
    let protocols = format!("palisade.v1, ticket.{ticket}");
    dial(host, query, &[("origin", host.base()), ("sec-websocket-protocol", &protocols)]).unwrap()
}

/// The next text, past pings.
pub fn text(socket: &mut Socket) -> String {
    loop {
        match socket.read().unwrap() {
            Message::Text(text) => return text.to_string(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Reads until the other side closes, and tells its code (0 when the connection just ended).
pub fn closed(socket: &mut Socket) -> u16 {
    loop {
        match socket.read() {
            Ok(Message::Close(frame)) => return frame.map_or(0, |frame| frame.code.into()),
            Ok(_) => {}
            Err(_) => return 0,
        }
    }
}

/// GTW-05: our own origin or none at all.
#[test]
fn gtw_05_a_socket_opens_only_from_our_origin() {
    let host = Host::start();
    let port = authority(&host).rsplit_once(':').unwrap().1.to_owned();
    let bearer = format!("Bearer {}", host.owner().client.token().unwrap());
    let with = |origin: Option<&str>| {
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        dial(&host, "", &headers)
    };
    let own = [host.base().to_owned(), format!("http://localhost:{port}"), format!("http://[::1]:{port}")];
    for origin in &own {
        assert!(with(Some(origin)).is_ok(), "{origin}");
    }
    let tls = format!("https://127.0.0.1:{port}");
    let long = format!("{}.evil.example", host.base());
    let foreign = [
        "null",
        "https://evil.example",
        "http://127.0.0.1",
        "http://localhost",
        "http://127.0.0.1:1",
        &tls,
        &long,
        "file://",
        "",
    ];
    for origin in foreign {
        assert_eq!(with(Some(origin)).unwrap_err(), 403, "{origin}");
    }
    assert_eq!(with(None).unwrap_err(), 403, "no origin");
}

/// GTW-05: a ticket opens one socket, for its own principal; a token in the URL opens none.
#[test]
fn gtw_05_a_ticket_is_single_use_and_bound_to_its_principal() {
    let host = Host::start();
    let bo = host.user("bo", "member");
    let ticket = bo.client.ticket().unwrap().ticket.into_text();
    let protocols = format!("palisade.v1, ticket.{ticket}");
    let headers = [("origin", host.base()), ("sec-websocket-protocol", protocols.as_str())];
    let mut socket = dial(&host, "", &headers).unwrap();
    assert_eq!(dial(&host, "", &headers).unwrap_err(), 401, "used up");

    // It is bo's socket: what bo may not read does not come.
    let repo = host.repo("demo");
    drop(host.owner().worktree(&repo, "hidden", "none"));
    let shown = host.owner().worktree(&repo, "shown", "view");
    assert!(text(&mut socket).contains(&shown.id));

    for name in ["token", "ticket", "access_token"] {
        let secret = if name == "ticket" {
            bo.client.ticket().unwrap().ticket.into_text()
        } else {
            bo.client.token().unwrap().to_owned()
        };
        assert_eq!(
            dial(&host, &format!("?{name}={secret}"), &[("origin", host.base())]).unwrap_err(),
            401,
            "{name}"
        );
        let fresh = bo.client.ticket().unwrap().ticket.into_text();
        let protocols = format!("palisade.v1, ticket.{fresh}");
        let headers = [("origin", host.base()), ("sec-websocket-protocol", protocols.as_str())];
        assert_eq!(dial(&host, &format!("?{name}={secret}"), &headers).unwrap_err(), 422, "{name}");
    }
    let pass = dial(
        &host,
        "",
        &[("origin", host.base()), ("sec-websocket-protocol", "palisade.v1, ticket.ptk_nonsense")],
    );
    assert_eq!(pass.unwrap_err(), 401);

    let ticket = bo.client.ticket().unwrap().ticket.into_text();
    host.owner().client.disable_user(&bo.id).unwrap();
    let protocols = format!("palisade.v1, ticket.{ticket}");
    let headers = [("origin", host.base()), ("sec-websocket-protocol", protocols.as_str())];
    assert_eq!(dial(&host, "", &headers).unwrap_err(), 401, "a ticket does not outlive its principal");
    let ended = Instant::now();
    assert_eq!(closed(&mut socket), 1008, "and an open socket ends (IDN-07)");
    assert!(ended.elapsed() < Duration::from_secs(5), "{:?}", ended.elapsed());
}

/// GTW-05: a ticket lasts thirty seconds.
#[tokio::test(flavor = "multi_thread")]
async fn gtw_05_a_ticket_lasts_thirty_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FixedClock::at(1_800_000_000_000));
    let master = vault::MasterKey::from_hex_or_base64(&tests::master_key()).unwrap();
    let boot = runtime::Boot {
        data: folder.path().to_owned(),
        source: runtime::Source::Embedded,
        ring: Arc::new(vault::KeyRing::new(master)),
        mode: runtime::Mode::Solo,
        worktree_rbac: true,
        totp_actions: Vec::new(),
        lifetimes: access::Lifetimes::default(),
        clock: Arc::<FixedClock>::clone(&clock) as Arc<dyn Clock>,
        redactor: redact::Redactor::new(),
        ledger: ledger::Options::default(),
        on_loss: runtime::OnLoss::Refuse,
        launcher: std::path::PathBuf::from("palisade"),
        patterns: None,
        agents: agents::Catalog::default(),
        agent_path: String::new(),
        known_hosts: Vec::new(),
        bounds: runtime::SessionBounds::default(),
    };
    let runtime = runtime::Runtime::boot(boot).await.unwrap();
    let auth = runtime.auth();
    let secret = auth.offer_bootstrap().await.unwrap().unwrap();
    let (email, name) = ("o@example.org".parse().unwrap(), "Owner".parse().unwrap());
    let password = vault::Secret::new(tests::PASSWORD.to_owned());
    let tokens = auth.bootstrap(secret.expose(), email, name, password, "127.0.0.1").await.unwrap();
    let who = auth.authenticate(tokens.access.expose()).await.unwrap();

    let (kept, late) = (auth.ticket(&who).unwrap(), auth.ticket(&who).unwrap());
    clock.advance(29_999);
    assert_eq!(auth.redeem(kept.expose()).await.unwrap().user(), who.user());
    assert!(auth.redeem(kept.expose()).await.is_err(), "single use");
    clock.advance(1);
    assert!(auth.redeem(late.expose()).await.is_err(), "too late");
}

/// GTW-04: text only, small enough, not too often.
#[test]
fn gtw_04_messages_are_bounded() {
    let host = Host::start();
    let mut socket = open(&host, host.owner(), "");
    socket.send(Message::Binary(vec![1, 2, 3].into())).unwrap();
    assert!(text(&mut socket).contains(r#""type":"error""#), "binary gets an error frame");
    socket.send(Message::text(r#"{"type":"ping"}"#)).unwrap();
    assert_eq!(text(&mut socket), r#"{"type":"pong"}"#, "and the socket goes on");
    for odd in ["", "[", "{}", r#"{"type":7}"#, &"[".repeat(100_000)] {
        socket.send(Message::text(odd)).unwrap();
        assert!(text(&mut socket).contains("error"), "{odd:.9}");
    }

    let mut large = open(&host, host.owner(), "");
    drop(large.send(Message::text("x".repeat((1 << 20) + 1))));
    let code = closed(&mut large);
    assert!(code == 1009 || code == 0, "{code}");

    let mut hasty = open(&host, host.owner(), "");
    for _ in 0..600 {
        hasty.send(Message::text(r#"{"type":"ping"}"#)).unwrap();
        assert_eq!(text(&mut hasty), r#"{"type":"pong"}"#);
    }
    hasty.send(Message::text(r#"{"type":"ping"}"#)).unwrap();
    assert_eq!(closed(&mut hasty), 1008, "the 601st");
}

/// GTW-04: so many live connections and no more; a place that is free is free at once.
#[test]
fn gtw_04_live_connections_are_counted() {
    let host = Host::builder().set("limits.sockets", "3").start();
    let mut open_ones: Vec<Socket> = (0..3).map(|_| open(&host, host.owner(), "")).collect();
    let bearer = format!("Bearer {}", host.owner().client.token().unwrap());
    let again = || dial(&host, "", &[("origin", host.base()), ("authorization", &bearer)]);
    assert_eq!(again().unwrap_err(), 503);
    assert_eq!(
        host.owner().client.events(None).map(drop).unwrap_err().status(),
        Some(503),
        "streams count too"
    );
    assert!(host.owner().client.metrics().unwrap().contains("palisade_sockets 3"));
    let mut gone = open_ones.pop().unwrap();
    gone.close(None).unwrap();
    closed(&mut gone);
    crate::gateway_wire::until("the place is free", || again().is_ok());
}

/// GTW-04: pings come as often as set.
#[test]
fn gtw_04_pings_come_as_set() {
    let host = Host::builder().set("limits.socket_ping_seconds", "1").start();
    let mut socket = open(&host, host.owner(), "");
    for _ in 0..3 {
        assert!(matches!(socket.read().unwrap(), Message::Ping(_)));
    }
    for bad in ["0", "31"] {
        let mut host = Host::builder().set("limits.socket_ping_seconds", bad).stopped();
        assert!(host.start_daemon().is_err(), "{bad}");
    }
}

/// GTW-04: a reader that does not read is cut, and holds neither memory nor a place.
#[test]
fn gtw_04_a_slow_reader_is_cut() {
    let url = tests::database();
    let host = Host::builder()
        .set("store.url", &url)
        .set("limits.sockets", "1")
        .set("limits.requests_per_minute", "0")
        .variable("PALISADE_MASTER_KEY", &tests::master_key())
        .start();
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "session").id;
    let more = 200_000;
    psql(
        &url,
        &format!(
            "INSERT INTO events SELECT c.value + n, 0, 'worktree.changed', '{worktree}', NULL FROM counters c, generate_series(1, {more}) n WHERE c.name = 'events'; \
         UPDATE counters SET value = value + {more} WHERE name = 'events'"
        ),
    );
    host.owner().client.update_worktree(&worktree, "and one more").unwrap();
    let before = memory(host.pid());
    let socket = open(&host, host.owner(), "?after=0");
    // Thirty megabytes wait for a reader that takes nothing; its place comes free again all the same.
    let bearer = format!("Bearer {}", host.owner().client.token().unwrap());
    let deadline = Instant::now() + Duration::from_secs(120);
    while dial(&host, "", &[("origin", host.base()), ("authorization", &bearer)]).is_err() {
        assert!(Instant::now() < deadline, "the slow reader still has its place");
        std::thread::sleep(Duration::from_millis(100));
    }
    let grown = memory(host.pid()).saturating_sub(before);
    assert!(grown < 30_000, "{grown} KiB more for one slow reader");
    drop(socket);
}

/// Resident memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
