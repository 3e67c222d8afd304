//! Heads of requests.

use egress::host::BadHost;
use egress::http1::{
    BadHead, Framing, HeadEnd, MAX_FIELDS, MAX_HEAD, Request, Resource, Scheme, Target, Upgrade,
};
use proptest::prelude::*;

use crate::{request, written};

#[test]
fn egr_09_the_parts_are_told_and_written_again() {
    let sent = "POST /v1/x?a=b%20c HTTP/1.1\r\nHost: API.example.com:8443\r\nUser-Agent:  curl \t\r\nsession_id: 1\r\n\
                Content-Length: 12\r\n\r\n";
    let found = request(sent).unwrap();
    assert_eq!(found.method.as_str(), "POST");
    let resource = found.target.resource().unwrap();
    assert_eq!((resource.path(), resource.query()), ("/v1/x", Some("a=b%20c")));
    assert_eq!(found.authority.to_string(), "api.example.com:8443");
    assert_eq!((found.framing(), found.is_persistent()), (Framing::Length(12), true));
    assert_eq!(found.fields.only("user-AGENT"), Some(&b"curl"[..]));
    assert_eq!(
        written(&found),
        "POST /v1/x?a=b%20c HTTP/1.1\r\nHost: api.example.com:8443\r\nUser-Agent: curl\r\nsession_id: 1\r\n\
         Content-Length: 12\r\n\r\n"
    );
}

#[test]
fn egr_02_an_absolute_target_becomes_a_path_and_agrees_with_host() {
    for (target, host, authority, path) in [
        ("http://a.example/x", "a.example", "a.example", "/x"),
        ("http://a.example:80/x", "a.example", "a.example", "/x"),
        ("HTTP://A.example/x?y", "a.EXAMPLE:80", "a.example", "/x?y"),
        ("https://a.example", "a.example:443", "a.example", "/"),
        ("http://a.example?q", "a.example", "a.example", "/?q"),
        ("http://a.example.:8080/", "a.example:8080", "a.example:8080", "/"),
        ("http://[::1]:8080/", "[0::1]:8080", "[::1]:8080", "/"),
    ] {
        let found = request(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
        assert_eq!(found.authority.to_string(), authority);
        let expected = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        assert_eq!(written(&found), expected, "{target}");
        assert!(matches!(found.target, Target::Absolute(Scheme::Http | Scheme::Https, _)));
    }
    for (target, host) in [
        ("http://a.example/", "b.example"),
        ("http://a.example/", "a.example:8080"),
        ("http://a.example:8080/", "a.example"),
        ("https://a.example/", "a.example:80"),
        ("http://a.example/", "a.example.b.example"),
    ] {
        let found = request(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(found, Err(BadHead::HostMismatch), "{target} {host}");
    }
}

#[test]
fn egr_02_connect_needs_a_port_and_agrees_with_host() {
    let connect = |target: &str, rest: &str| request(&format!("CONNECT {target} HTTP/1.1\r\n{rest}\r\n"));
    for host in ["a.example:443", "a.example", "A.example.:443"] {
        let found = connect("a.example:443", &format!("Host: {host}\r\n")).unwrap();
        assert_eq!((found.target, found.authority.to_string()), (Target::Connect, "a.example:443".into()));
    }
    assert_eq!(connect("a.example:443", "Host: b.example:443\r\n"), Err(BadHead::HostMismatch));
    assert_eq!(connect("a.example:443", "Host: a.example:80\r\n"), Err(BadHead::HostMismatch));
    assert_eq!(connect("a.example", "Host: a.example\r\n"), Err(BadHead::Target));
    assert_eq!(connect("a.example:443", ""), Err(BadHead::Hosts));
    assert_eq!(connect("/", "Host: a.example\r\n"), Err(BadHead::Host(BadHost::OddByte)));
    assert!(connect("http://a.example:443/", "Host: a.example:443\r\n").is_err());
    assert_eq!(connect("a.example:443", "Host: a.example\r\nContent-Length: 5\r\n"), Err(BadHead::Content));
    assert_eq!(
        connect("a.example:443", "Host: a.example\r\nTransfer-Encoding: chunked\r\n"),
        Err(BadHead::Content)
    );
    // Python's client of old.
    assert!(request("CONNECT a.example:443 HTTP/1.0\r\n\r\n").is_ok());
}

#[test]
fn adv_n07_hosts_of_connect_are_refused_before_any_rule() {
    for host in [
        "a.example\0.b:443",
        "a%2eb:443",
        "\u{430}.example:443",
        ":443",
        "a_b c:443",
        "a..b:443",
        "user@a:443",
    ] {
        let found = request(&format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(found.is_err(), "{host:?}");
    }
    let long = format!("{}.example:443", "a".repeat(255));
    assert_eq!(
        request(&format!("CONNECT {long} HTTP/1.1\r\nHost: {long}\r\n\r\n")),
        Err(BadHead::Host(BadHost::TooLong))
    );
    for odd in ["0x7f.1:80", "127.1:80", "2130706433:80", "[::ffff:127.0.0.1%1]:80", "0177.0.0.1:80"] {
        assert!(request(&format!("CONNECT {odd} HTTP/1.1\r\nHost: {odd}\r\n\r\n")).is_err(), "{odd}");
    }
}

#[test]
fn adv_n13_a_target_is_visible_and_whole() {
    for good in
        ["/", "/a/%2e%2E/b", "/@scope%2fname", "/a;b=c", "/x?q={a}|[b]&c=^`\\", "/?", "/a//b", "/?a=b?c/d"]
    {
        assert!(request(&format!("GET {good} HTTP/1.1\r\nHost: a\r\n\r\n")).is_ok(), "{good}");
    }
    for bad in [
        "/a#b",
        "/a?b#c",
        "/a b",
        "/a%",
        "/a%2",
        "/a%zz",
        "/?%g0",
        "/a\\b",
        "/a\tb",
        "/\"",
        "/<",
        "/a\u{e4}",
        "a",
        "",
        "?q",
        "*",
        "//\0",
        "ftp://a/",
        "http:/a",
        "http//a",
        "http:///x",
        "http://u:p@a/",
        "http://a:/",
        "http://a#b",
        "http://a/%",
        "http://a\\b/",
        "http://a,b/",
        "\\",
        "/\x7f",
        "a:443",
    ] {
        let found = request(&format!("GET {bad} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(found.is_err(), "{bad:?}");
    }
    assert_eq!(request("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().target, Target::Server);
    assert!(request("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n").is_err());
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(16 * 1024));
    assert_eq!(request(&long), Err(BadHead::TooLong));
}

#[test]
fn egr_09_what_is_about_the_connection_stays_on_it() {
    let sent = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Foo\r\nFoo: 1\r\nfoo: 2\r\nBar: 3\r\nKeep-Alive: 5\r\n\
                TE: trailers\r\nTrailer: X\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n\
                Upgrade: h2c\r\nHTTP2-Settings: AAMA\r\nProxy-Foo: 1\r\n\r\n";
    let found = request(sent).unwrap();
    assert!(!found.is_persistent());
    assert_eq!(written(&found), "GET / HTTP/1.1\r\nHost: a\r\nBar: 3\r\nConnection: close\r\n\r\n");
    let h2c = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
               HTTP2-Settings: AAMA\r\n\r\n";
    assert_eq!(written(&request(h2c).unwrap()), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let old = request("GET / HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    assert!(!old.is_persistent());
    let kept = request("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n").unwrap();
    assert!(kept.is_persistent());
    assert_eq!(written(&kept), "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
}

#[test]
fn egr_11_a_websocket_is_asked_for_in_one_way() {
    let ask = |method: &str, upgrade: &str, more: &str| {
        request(&format!(
            "{method} /s HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: {upgrade}\r\n\
             Sec-WebSocket-Version: 13\r\n{more}\r\n"
        ))
    };
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let found = ask("GET", "WebSocket", key).unwrap();
    assert_eq!(found.upgrade(), Upgrade::WebSocket);
    assert_eq!(
        written(&found),
        "GET /s HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    assert_eq!(ask("POST", "websocket", key), Err(BadHead::Upgrade));
    assert_eq!(ask("GET", "websocket", ""), Err(BadHead::Upgrade));
    assert_eq!(ask("GET", "websocket", &key.repeat(2)), Err(BadHead::Upgrade));
    assert_eq!(ask("GET", "websocket", &format!("{key}Content-Length: 5\r\n")), Err(BadHead::Upgrade));
    // Java's client says that there is nothing.
    assert!(ask("GET", "websocket", &format!("{key}Content-Length: 0\r\n")).is_ok());
    assert_eq!(ask("GET", "websocket, h2c", key).unwrap().upgrade(), Upgrade::None);
    assert_eq!(ask("GET", "h2c", key).unwrap().upgrade(), Upgrade::None);
}

#[test]
fn adv_c04_no_change_of_a_part_breaks_a_line() {
    let mut found = request("GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n").unwrap();
    for bad in [&b"a\r\nX: y"[..], b"a\n", b"\ra", b"a\0", b"\x7f"] {
        assert!(found.fields.set("Authorization", bad).is_err());
        assert!(found.fields.push("X", bad).is_err());
        assert!(found.fields.rewrite(|_, _| Some(bad.to_vec())).is_err());
        assert!(Resource::parse(&[b"/", bad].concat()).is_err());
    }
    assert!(found.fields.push("X Y", b"").is_err() && found.fields.push("X:", b"").is_err());
    found.fields.rewrite(|name, _| (name == "Authorization").then(|| b"Bearer secret".to_vec())).unwrap();
    found.set_resource(Resource::parse(b"/b?key=1").unwrap());
    found.set_length(3);
    assert_eq!(
        written(&found),
        "GET /b?key=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\nContent-Length: 3\r\n\r\n"
    );
    assert!(!format!("{found:?}").contains("secret") && !format!("{found:?}").contains("key=1"));
}

#[test]
fn heads_are_bounded() {
    let with = |count: usize| {
        let fields: String = (1..count).map(|at| format!("X-{at}: y\r\n")).collect();
        request(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    assert!(with(MAX_FIELDS).is_ok());
    assert_eq!(with(MAX_FIELDS + 1), Err(BadHead::TooMany));
    let of = |size: usize| {
        let (start, end) = ("GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n");
        request(&format!("{start}{}{end}", "y".repeat(size - start.len() - end.len())))
    };
    assert!(of(MAX_HEAD).is_ok());
    assert_eq!(of(MAX_HEAD + 1), Err(BadHead::TooLong));
    assert_eq!(HeadEnd::new().find(&vec![b'a'; MAX_HEAD]), Err(BadHead::TooLong));
    let names = "a,".repeat(33);
    assert_eq!(
        request(&format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {names}\r\n\r\n")),
        Err(BadHead::Connection)
    );
}

/// Fields that a client may send, with names that mean nothing to us.
fn some_fields() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(("X-[A-Za-z0-9!#$%&'*+.^`|~-]{1,12}", "[!-~]([ -~\t]{0,20}[!-~])?"), 0..12)
}

proptest! {
    #[test]
    fn egr_09_what_was_written_reads_as_what_was_judged(
        method in "[A-Z]{1,8}", path in "/([a-z0-9/._~-]|%[0-9a-fA-F]{2}){0,30}", query in prop::option::of("[a-z=&?]{0,9}"),
        fields in some_fields(), length in prop::option::of(0_u64..1_000_000), close: bool,
    ) {
        prop_assume!(method != "CONNECT" && method != "TRACE");
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let mut text = format!("{method} {path}{query} HTTP/1.1\r\nHost: a.example\r\n");
        for (name, value) in &fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(length) = length { text.push_str(&format!("content-length:{length}\r\n")); }
        if close { text.push_str("connection: close\r\n"); }
        text.push_str("\r\n");
        let first = request(&text).unwrap();
        let again = request(&written(&first)).unwrap();
        prop_assert_eq!(&first, &again);
        prop_assert_eq!(written(&first), written(&again));
        prop_assert_eq!(first.fields.len(), fields.len());
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_is_cut(
        text in "[a\r\n]{0,20}(\r\n\r\n)?[a\r\n]{0,10}", cuts in prop::collection::vec(0_usize..36, 0..6),
    ) {
        let bytes = text.as_bytes();
        let whole = HeadEnd::new().find(bytes);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let mut end = HeadEnd::new();
        let mut found = Ok(None);
        for cut in cuts {
            found = end.find(&bytes[..cut]);
            if found != Ok(None) { break; }
        }
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn no_bytes_make_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Request::parse(&bytes);
        let _ = Request::parse(&[b"GET / HTTP/1.1\r\nHost: a\r\n", &bytes[..], b"\r\n\r\n"].concat());
    }
}
