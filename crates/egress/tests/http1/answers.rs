//! Heads of answers, which cannot be read without knowing what was asked.

use egress::http1::{BadHead, Framing, Response, Upgrade};
use proptest::prelude::*;

use crate::request;

/// The answer to a request with this method.
fn answer(method: &str, text: &str) -> Result<Response, BadHead> {
    let target = if method == "CONNECT" { "a:443" } else { "/" };
    let asked = request(&format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n")).unwrap().asked();
    Response::parse(text.as_bytes(), asked)
}

fn framing(method: &str, text: &str) -> Result<Framing, BadHead> {
    answer(method, text).map(|found| found.framing())
}

fn written(response: &Response, persistent: bool) -> String {
    let mut out = Vec::new();
    response.write(&mut out, persistent);
    String::from_utf8(out).unwrap()
}

#[test]
fn egr_09_what_follows_depends_on_what_was_asked() {
    let of = |status: u16, lines: &str| format!("HTTP/1.1 {status} X\r\n{lines}\r\n");
    let length = "Content-Length: 5\r\n";
    let coded = "Transfer-Encoding: chunked\r\n";
    for (method, status, lines, expected) in [
        ("GET", 200, length, Framing::Length(5)),
        ("GET", 200, coded, Framing::Chunked),
        ("GET", 200, "", Framing::UntilClose),
        ("HEAD", 200, length, Framing::Empty),
        ("HEAD", 200, coded, Framing::Empty),
        ("HEAD", 200, "", Framing::Empty),
        ("GET", 304, length, Framing::Empty),
        ("GET", 204, "", Framing::Empty),
        ("GET", 204, length, Framing::Empty),
        ("GET", 100, "", Framing::Empty),
        ("GET", 103, "Link: x\r\n", Framing::Empty),
        ("CONNECT", 200, "", Framing::Tunnel),
        ("CONNECT", 200, length, Framing::Tunnel),
        ("CONNECT", 403, length, Framing::Length(5)),
        ("CONNECT", 407, "", Framing::UntilClose),
    ] {
        assert_eq!(framing(method, &of(status, lines)), Ok(expected), "{method} {status} {lines}");
    }
    for (method, status, lines, why) in [
        ("GET", 204, coded, BadHead::Content),
        ("GET", 100, coded, BadHead::Content),
        ("CONNECT", 200, coded, BadHead::Content),
        ("GET", 101, "Connection: Upgrade\r\nUpgrade: websocket\r\n", BadHead::Upgrade),
        ("GET", 200, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", BadHead::TwoLengths),
        ("GET", 200, "Content-Length: 5\r\nContent-Length: 5\r\n", BadHead::Length),
        ("HEAD", 200, "Content-Length: -5\r\n", BadHead::Length),
        ("GET", 200, "Transfer-Encoding: gzip, chunked\r\n", BadHead::Coding),
    ] {
        assert_eq!(framing(method, &of(status, lines)), Err(why), "{method} {status} {lines}");
    }
    assert_eq!(framing("GET", &format!("HTTP/1.0 200 OK\r\n{coded}\r\n")), Err(BadHead::Coding));
    let old = request("GET / HTTP/1.0\r\nHost: a\r\n\r\n").unwrap().asked();
    assert_eq!(Response::parse(of(200, coded).as_bytes(), old), Err(BadHead::Coding));
}

#[test]
fn egr_09_an_answer_is_written_from_its_parts() {
    let found =
        answer("GET", "HTTP/1.1 200\r\nA:1\r\nConnection: A, keep-alive\r\nKeep-Alive: 5\r\nB:2\r\n\r\n")
            .unwrap();
    assert!(!found.is_persistent());
    assert_eq!(written(&found, true), "HTTP/1.1 200 \r\nB: 2\r\nConnection: close\r\n\r\n");
    let found =
        answer("GET", "HTTP/1.1 200 OK fine\r\nSet-Cookie: a\r\nset-cookie: b\r\ncontent-length: 3\r\n\r\n")
            .unwrap();
    assert!(found.is_persistent());
    let head = "HTTP/1.1 200 OK fine\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 3\r\n";
    assert_eq!(written(&found, true), format!("{head}\r\n"));
    assert_eq!(written(&found, false), format!("{head}Connection: close\r\n\r\n"));
    let empty = answer("GET", "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n").unwrap();
    assert_eq!(written(&empty, true), "HTTP/1.1 204 No\r\n\r\n", "a length without content is not passed on");
    let head = answer("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
    assert_eq!(written(&head, true), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let interim = answer("GET", "HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    assert!(interim.is_interim());
    assert_eq!(written(&interim, false), "HTTP/1.1 100 Continue\r\n\r\n");
    let tunnel = answer("CONNECT", "HTTP/1.1 200 OK\r\n\r\n").unwrap();
    assert_eq!(written(&tunnel, false), "HTTP/1.1 200 OK\r\n\r\n");
}

#[test]
fn egr_09_content_that_changed_has_its_new_length() {
    for lines in ["Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", ""] {
        let mut found = answer("GET", &format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).unwrap();
        found.set_length(9);
        assert_eq!(written(&found, true), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    }
    let mut none = answer("GET", "HTTP/1.1 304 X\r\n\r\n").unwrap();
    none.set_length(9);
    assert_eq!((none.framing(), &*written(&none, true)), (Framing::Empty, "HTTP/1.1 304 X\r\n\r\n"));
}

#[test]
fn egr_09_content_that_changes_on_its_way_has_no_length_and_an_end_that_both_sides_know() {
    let asked = |version: &str| request(&format!("GET / {version}\r\nHost: a\r\n\r\n")).unwrap().asked();
    let forgot = |server: &str, client: &str, lines: &str| {
        let head = format!("{server} 200 OK\r\n{lines}\r\n");
        let mut found = Response::parse(head.as_bytes(), asked(client)).unwrap();
        found.forget_length(asked(client));
        (found.framing(), found.is_persistent(), found.length())
    };
    for lines in ["Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n"] {
        assert_eq!(forgot("HTTP/1.1", "HTTP/1.1", lines), (Framing::Chunked, true, None));
    }
    for (server, client) in [("HTTP/1.1", "HTTP/1.0"), ("HTTP/1.0", "HTTP/1.1")] {
        let found = forgot(server, client, "Content-Length: 3\r\n");
        assert_eq!(found, (Framing::UntilClose, false, None), "{server} {client}");
    }
    let mut none = answer("GET", "HTTP/1.1 304 X\r\nContent-Length: 3\r\n\r\n").unwrap();
    none.forget_length(asked("HTTP/1.1"));
    assert_eq!((none.framing(), none.length()), (Framing::Empty, Some(3)));
}

#[test]
fn egr_11_a_protocol_changes_only_to_what_was_asked_for() {
    let asked = request(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )
    .unwrap()
    .asked();
    let answer = |lines: &str| Response::parse(format!("HTTP/1.1 101 X\r\n{lines}\r\n").as_bytes(), asked);
    let found = answer("Upgrade: WebSocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: x\r\n").unwrap();
    assert_eq!((found.framing(), found.upgrade()), (Framing::Tunnel, Upgrade::WebSocket));
    let expected =
        "HTTP/1.1 101 X\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(written(&found, true), expected);
    for odd in
        ["", "Upgrade: websocket\r\n", "Connection: upgrade\r\nUpgrade: h2c\r\n", "Connection: upgrade\r\n"]
    {
        assert_eq!(answer(odd), Err(BadHead::Upgrade), "{odd}");
    }
    let refused =
        Response::parse(b"HTTP/1.1 403 No\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", asked)
            .unwrap();
    assert_eq!((refused.upgrade(), refused.framing()), (Upgrade::None, Framing::UntilClose));
}

#[test]
fn odd_first_lines_are_refused() {
    for line in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 +20 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1",
        "",
        "HTTP/2 200 OK",
        "HTTP/1.2 200 OK",
        " HTTP/1.1 200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 200 \0",
        "ICY 200 OK",
        "HTTP/1.1 200 O\rK",
        "HTTP/1.1 20\u{661} OK",
        "http/1.1 200 OK",
    ] {
        assert!(framing("GET", &format!("{line}\r\nContent-Length: 0\r\n\r\n")).is_err(), "{line:?}");
    }
}

proptest! {
    #[test]
    fn egr_09_an_answer_reads_again_as_it_was_judged(
        status in 200_u16..600, reason in "[ -~]{0,12}", value in "[!-~]{1,12}", length in prop::option::of(0_u32..9999),
        method in prop::sample::select(vec!["GET", "HEAD", "POST"]),
    ) {
        let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
        let text = format!("HTTP/1.1 {status} {reason}\r\nX: {value}\r\n{length}\r\n");
        let first = answer(method, &text).unwrap();
        let again = answer(method, &written(&first, true)).unwrap();
        prop_assert_eq!(first.framing(), again.framing());
        prop_assert_eq!(&first.fields, &again.fields);
        prop_assert_eq!(written(&first, true), written(&again, true));
    }

    #[test]
    fn no_bytes_make_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let asked = request("GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().asked();
        let _ = Response::parse(&bytes, asked);
        let _ = Response::parse(&[b"HTTP/1.1 200 OK\r\n", &bytes[..], b"\r\n\r\n"].concat(), asked);
    }
}
