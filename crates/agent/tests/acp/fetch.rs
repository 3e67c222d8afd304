//! Pages from the web, from servers of the test's own.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::World;

/// A server that gives everybody these bytes, then perhaps more and more of the last ones.
fn server(answer: Vec<u8>, again: Option<Vec<u8>>, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/page", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4_096]);
            let mut going = stream.write_all(&answer).is_ok();
            while let (true, Some(more)) = (going, &again) {
                std::thread::sleep(pause);
                going = stream.write_all(more).is_ok();
            }
        }
    });
    url
}

fn page(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut page = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{headers}\r\n").into_bytes();
    page.extend(body);
    page
}

fn packed(body: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(body).unwrap();
    packer.finish().unwrap()
}

#[test]
fn egr_15_a_page_is_fetched_plain_and_packed() {
    let world = World::new();
    for url in [
        server(page("", b"<p>hello"), None, Duration::ZERO),
        server(page("content-encoding: gzip\r\n", &packed(b"<p>hello")), None, Duration::ZERO),
    ] {
        assert_eq!(
            world.call("web_fetch", json!({ "url": url })),
            ("completed".into(), "[status 200]\n<p>hello".into())
        );
    }
}

#[test]
fn egr_15_a_body_stops_at_its_limit_with_the_reason_while_it_comes() {
    let world = World::new();
    let fits = server(page("", &vec![b'x'; 1 << 20]), None, Duration::ZERO);
    assert_eq!(world.call("web_fetch", json!({ "url": fits })).0, "completed");
    let chunk = {
        let mut chunk = b"1000\r\n".to_vec();
        chunk.extend(vec![b'x'; 4_096]);
        chunk.extend(b"\r\n");
        chunk
    };
    let bomb = packed(&vec![b'x'; 64 << 20]);
    assert!(bomb.len() * 900 < 64 << 20, "packed a thousand to one");
    for (name, url) in [
        ("long", server(page("", &vec![b'x'; (1 << 20) + 1]), None, Duration::ZERO)),
        (
            "chunked without end",
            server(page("transfer-encoding: chunked\r\n", b""), Some(chunk), Duration::ZERO),
        ),
        ("bomb", server(page("content-encoding: gzip\r\n", &bomb), None, Duration::ZERO)),
    ] {
        let (state, text) = world.call("web_fetch", json!({ "url": url }));
        assert_eq!(state, "failed", "{name}");
        assert!(text.contains("`fetch_size`: the page has more than 1048576 bytes"), "{name}: {text}");
    }
}

#[test]
fn egr_15_a_page_that_comes_too_slowly_stops_with_the_reason() {
    let world = World::new().limit("fetch_ms", 600);
    let dripping = server(page("", b"x"), Some(b"x".to_vec()), Duration::from_millis(20));
    let before = Instant::now();
    let (state, text) = world.call("web_fetch", json!({ "url": dripping }));
    assert_eq!(state, "failed");
    assert!(text.contains("`fetch_time`"), "{text}");
    assert!(before.elapsed() < Duration::from_secs(15));
}

#[test]
fn egr_15_a_redirection_is_told_and_not_followed_and_other_things_are_refused() {
    let world = World::new();
    let target = server(page("", b"secret place"), None, Duration::ZERO);
    let redirect =
        format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let redirect = server(redirect.into_bytes(), None, Duration::ZERO);
    let result = world.call("web_fetch", json!({ "url": redirect }));
    assert_eq!(result, ("completed".into(), format!("[status 302: it leads to {target}]")));
    let image = server(page("content-type: image/png\r\n", b"\x89PNG\0\0"), None, Duration::ZERO);
    assert!(world.call("web_fetch", json!({ "url": image })).1.contains("`binary`"));
    let odd = server(page("content-encoding: br\r\n", b"xx"), None, Duration::ZERO);
    assert!(world.call("web_fetch", json!({ "url": odd })).1.contains("`encoding`"));
    for url in ["file:///etc/passwd", "https://user:word@x.org/", "gopher://x"] {
        assert!(world.call("web_fetch", json!({ "url": url })).1.contains("`url`"), "{url}");
    }
}

#[test]
fn a_host_that_the_grant_does_not_have_is_not_fetched() {
    let budget =
        json!({ "tokens": u64::MAX, "micro_usd": u64::MAX, "tool_calls": u64::MAX, "wall_ms": u64::MAX });
    let grant =
        json!({ "tools": { "allow": ["*"] }, "hosts": { "allow": ["docs.example.org"] }, "budget": budget });
    let world = World::new().with("grant", grant);
    let url = server(page("", b"x"), None, Duration::ZERO);
    assert!(world.call("web_fetch", json!({ "url": url })).1.contains("`grant_hosts`"));
    assert!(world.call("list", json!({})).1.contains("`grant_paths`"), "nor is a path that it does not have");
}
