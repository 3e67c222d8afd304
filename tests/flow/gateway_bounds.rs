//! What arrives is bounded: bodies, headers, rates, and the patience for peers that say nothing.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use api::LedgerFilter;
use tests::Host;

use crate::gateway_wire::{ask, chunks, connect, request, speak, told};

const JSON: (&str, &str) = ("content-type", "application/json");

/// GTW-02: too large is 413 while it arrives, announced or not; nothing changes and it is on the record.
#[test]
fn gtw_02_a_body_is_bounded_while_it_arrives() {
    let host = Host::start();
    let large = vec![b' '; (1 << 20) + 1];
    let chunked = chunks(1 << 21);
    let expect = [("Expect", "100-continue"), JSON];
    type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, &'a [u8], u16);
    let cases: [Case<'_>; 5] = [
        ("announced", vec![JSON], &large, 413),
        ("announced and never sent", vec![JSON, ("content-length", "99999999999")], b"", 413),
        ("chunked without a length", vec![JSON, ("transfer-encoding", "chunked")], &chunked, 413),
        ("compressed", vec![JSON, ("content-encoding", "gzip")], b"\x1f\x8b", 415),
        ("asked for first", expect.to_vec(), &large, 413),
    ];
    for (what, headers, body, status) in cases {
        let head = host.ledger_head();
        let reply = ask(&host, "POST", "/api/v1/repos", &headers, body);
        assert_eq!(reply.status, status, "{what}");
        reply.problem();
        let entries = host.since(head);
        assert_eq!(told(&entries), [("repo.create".to_owned(), "refused".to_owned())], "{what}");
    }
    assert!(host.owner().client.repos(None).unwrap().items.is_empty(), "nothing was made");

    let stranger = speak(&host, &request(&host, "", "POST", "/api/v1/repos", &[JSON], &large));
    assert_eq!(stranger.status, 401, "who is nobody learns no limit");
}

/// GTW-02: just under the limit passes, and the limit can be set up to 10 MiB.
#[test]
fn gtw_02_the_limit_is_where_it_is_set() {
    let host = Host::builder().set("limits.body_bytes", "10485760").start();
    let mut body = br#"{"name":"big","origin":"https://forge.example/a/b"}"#.to_vec();
    body.resize(5 << 20, b' ');
    let reply = ask(&host, "POST", "/api/v1/repos", &[JSON], &body);
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(ask(&host, "POST", "/api/v1/repos", &[JSON], &vec![b' '; (10 << 20) + 1]).status, 413);
}

/// GTW-02: headers are bounded too.
#[test]
fn gtw_02_headers_have_at_most_16_kib() {
    let host = Host::start();
    let fits = "a".repeat(8 * 1024);
    assert_eq!(ask(&host, "GET", "/api/v1/whoami", &[("x-filler", &fits)], b"").status, 200);
    let too_long = "a".repeat(17 * 1024);
    let reply = ask(&host, "GET", "/api/v1/whoami", &[("x-filler", &too_long)], b"");
    assert_eq!(reply.status, 431);
    let many: Vec<(String, &str)> = (0..400).map(|n| (format!("x-{n}-{}", "b".repeat(40)), "c")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(ask(&host, "GET", "/api/v1/whoami", &many, b"").status, 431);
}

/// GTW-03: the 601st request of a minute, per caller; and the record says so once.
#[test]
fn gtw_03_the_601st_request_waits() {
    let host = Host::start();
    let (ana, bo) = (host.user("ana", "admin"), host.user("bo", "member"));
    for n in 1..=600 {
        let answer = bo.client.send("GET", "/api/v1/whoami", &[], Vec::new()).unwrap();
        assert_eq!(answer.status(), 200, "request {n}");
        assert_eq!(answer.headers()["x-ratelimit-remaining"], (600 - n).to_string());
    }
    for _ in 0..5 {
        let answer = bo.client.send("GET", "/api/v1/whoami", &[], Vec::new()).unwrap();
        assert_eq!(answer.status(), 429);
        let number = |name: &str| answer.headers()[name].to_str().unwrap().parse::<u64>().unwrap();
        assert_eq!((number("x-ratelimit-limit"), number("x-ratelimit-remaining")), (600, 0));
        assert!(
            (1..=60).contains(&number("retry-after")) && number("x-ratelimit-reset") == number("retry-after")
        );
    }
    assert!(ana.client.whoami().is_ok(), "others are not touched");
    let filter = LedgerFilter { action: Some("request.limited".into()), ..LedgerFilter::default() };
    let entries = ana.client.ledger(&filter).unwrap().items;
    assert_eq!(entries.len(), 1, "one entry per caller and minute");
    assert_eq!((entries[0].who.as_str(), entries[0].decision.as_str()), (bo.id.as_str(), "refused"));
}

/// GTW-03: who is nobody counts by address, and 0 turns it off outside production only.
#[test]
fn gtw_03_strangers_count_by_address() {
    let host = Host::start();
    let statuses: Vec<u16> = (0..620)
        .map(|_| host.anonymous().send("GET", "/api/v1/whoami", &[], Vec::new()).unwrap().status().as_u16())
        .collect();
    let first = statuses.iter().position(|status| *status == 429).unwrap();
    assert!(first <= 600 && first > 550, "{first}");
    assert!(statuses[..first].iter().all(|status| *status == 401));
    assert!(host.owner().client.whoami().is_ok(), "the owner is counted by name");
    let filter = |action: &str| LedgerFilter { action: Some(action.into()), ..LedgerFilter::default() };
    assert!((1..=2).contains(&host.ledger(&filter("request.limited")).len()), "one per address and minute");
    assert!((1..=2).contains(&host.ledger(&filter("signin.refused")).len()), "one per address and minute");

    let free = Host::builder().set("limits.requests_per_minute", "0").start();
    for _ in 0..650 {
        free.owner().client.whoami().unwrap();
    }
    let status = free.owner().client.status().unwrap();
    assert_eq!(status.degraded.len(), 1, "{status:?}");
    let mut production =
        Host::builder().set("limits.requests_per_minute", "0").set("production", "true").stopped();
    let error = production.start_daemon().unwrap_err();
    assert!(error.contains("production"), "{error}");
}

/// Nobody holds a connection by saying nothing, too little, or half a body; others are served meanwhile.
#[test]
fn gtw_02_a_peer_that_says_nothing_is_let_go() {
    let host = Host::start();
    let token = host.owner().client.token().unwrap().to_owned();
    let mut half_body =
        request(&host, &token, "POST", "/api/v1/repos", &[JSON, ("content-length", "1000")], b"{");
    half_body.retain(|byte| *byte != 0);
    let cases: [(&str, Vec<u8>, Option<u16>); 4] = [
        ("nothing at all", Vec::new(), None),
        ("the beginning of HTTP/2", b"PRI * HT".to_vec(), None),
        ("half a header", b"GET /livez HTTP/1.1\r\nHost: loc".to_vec(), None),
        ("half a body", half_body, Some(408)),
    ];
    let head = host.ledger_head();
    let waiting: Vec<_> = cases
        .into_iter()
        .map(|(what, bytes, status)| {
            let mut stream = connect(&host);
            stream.write_all(&bytes).unwrap();
            std::thread::spawn(move || {
                let start = Instant::now();
                let mut said = Vec::new();
                let ended = stream.read_to_end(&mut said);
                assert!(start.elapsed() < Duration::from_secs(40), "{what}: {ended:?}");
                assert!(
                    ended.is_ok()
                        || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
                );
                if let Some(status) = status {
                    let text = String::from_utf8_lossy(&said).into_owned();
                    assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{what}: {text}");
                }
            })
        })
        .collect();
    host.owner().client.whoami().unwrap();
    for one in waiting {
        one.join().unwrap();
    }
    assert_eq!(told(&host.since(head)), [("repo.create".to_owned(), "refused".to_owned())]);
}
