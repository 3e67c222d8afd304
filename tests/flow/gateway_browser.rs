//! Browsers are kept in bounds: origins, hosts, and the headers that bind a page.

use tests::Host;

use crate::gateway_wire::{ask, authority, request, speak};

/// GTW-08: only listed origins may call; a wildcard is refused at load.
#[test]
fn gtw_08_preflight_follows_the_list() {
    let host = Host::builder().set("server.cors_origins", "https://app.example").start();
    let preflight = |origin: &str| {
        let headers = [("Origin", origin), ("Access-Control-Request-Method", "POST")];
        speak(&host, &request(&host, "", "OPTIONS", "/api/v1/worktrees", &headers, b""))
    };
    let allowed = preflight("https://app.example");
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(allowed.header("access-control-allow-credentials"), None, "no cookies, so none are offered");
    for foreign in
        ["https://evil.example", "null", "https://app.example.evil.example", "http://app.example", "*"]
    {
        let refused = preflight(foreign);
        assert_eq!(refused.status, 403, "{foreign}");
        assert_eq!(refused.header("access-control-allow-origin"), None, "{foreign}");
        let called = ask(&host, "GET", "/api/v1/whoami", &[("Origin", foreign)], b"");
        assert_eq!(called.header("access-control-allow-origin"), None, "a page of {foreign} cannot read it");
    }
    let mut open = Host::builder().set("server.cors_origins", "*").stopped();
    assert!(open.start_daemon().unwrap_err().contains("`*` does not do"));
}

/// GTW-08: a name that was made to resolve to us does not reach us.
#[test]
fn gtw_08_another_hosts_name_is_misdirected() {
    let host = Host::builder().set("server.allowed_hosts", "palisade.example").start();
    let port = authority(&host).rsplit_once(':').unwrap().1;
    let token = host.owner().client.token().unwrap();
    let status = |name: &str| {
        speak(&host, &request(&host, token, "GET", "/api/v1/whoami", &[("Host", name)], b"")).status
    };
    for ours in [
        format!("127.0.0.1:{port}"),
        format!("LOCALHOST:{port}"),
        format!("[::1]:{port}"),
        "palisade.example".into(),
    ] {
        assert_eq!(status(&ours), 200, "{ours}");
    }
    for other in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "127.0.0.1:1",
        "palisade.example.evil",
        "",
        "a b",
    ] {
        let got = status(other);
        assert!(got == 421 || got == 400, "{other}: {got}");
    }
    let twice = format!(
        "GET /livez HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(speak(&host, twice.as_bytes()).status, 400);
    let none = "GET /livez HTTP/1.0\r\nConnection: close\r\n\r\n";
    assert_eq!(speak(&host, none.as_bytes()).status, 421);
    for target in ["http://evil.example/livez", "http://evil.example:80/livez"] {
        let absolute =
            format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
        assert_eq!(speak(&host, absolute.as_bytes()).status, 421, "{target}");
    }
    let absolute = format!(
        "GET http://127.0.0.1:{port}/livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(speak(&host, absolute.as_bytes()).status, 421, "both must be ours");
}

/// GTW-08: every answer, good or bad, binds the page that shows it; and there are no cookies at all.
#[test]
fn gtw_08_every_answer_carries_the_headers() {
    let host = Host::start();
    let anonymous = |path: &str| speak(&host, &request(&host, "", "GET", path, &[], b""));
    let replies = [
        anonymous("/livez"),
        anonymous("/setup"),
        anonymous("/api/v1/whoami"),
        ask(&host, "GET", "/api/v1/whoami", &[], b""),
        ask(&host, "GET", "/nowhere", &[], b""),
        ask(&host, "TRACE", "/api/v1/users", &[], b""),
        ask(&host, "GET", "/api/v1/whoami", &[("Host", "evil.example")], b""),
    ];
    for reply in replies {
        let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
        assert_eq!(header("x-content-type-options"), "nosniff", "{reply:?}");
        assert_eq!(header("referrer-policy"), "no-referrer");
        let csp = header("content-security-policy");
        assert!(csp.contains("default-src 'none'") && csp.contains("frame-ancestors 'none'"), "{csp}");
        assert!(!csp.contains("unsafe") && !csp.contains("script-src"), "{csp}");
        assert_eq!(header("cache-control"), "no-store");
        assert!(header("x-request-id").starts_with("req_"));
        assert_eq!(reply.header("set-cookie"), None);
        assert_eq!(reply.header("strict-transport-security"), None, "not without TLS");
        assert_eq!(reply.header("server"), None);
    }
}

/// A token counts in the header and nowhere else.
#[test]
fn gtw_05_a_token_in_a_path_or_query_is_no_credential() {
    let host = Host::start();
    let token = host.owner().client.token().unwrap();
    let anonymous = |path: &str, headers: &[(&str, &str)]| {
        speak(&host, &request(&host, "", "GET", path, headers, b"")).status
    };
    for name in ["token", "access_token", "authorization", "bearer", "ticket"] {
        assert_eq!(anonymous(&format!("/api/v1/whoami?{name}={token}"), &[]), 401, "{name}");
        assert_eq!(anonymous(&format!("/api/v1/events?{name}={token}"), &[]), 401, "{name}");
    }
    assert_eq!(anonymous("/api/v1/whoami", &[("Cookie", &format!("token={token}"))]), 401);
    assert_eq!(anonymous("/api/v1/whoami", &[("X-Api-Key", token)]), 401);
    let doubled = [("Authorization", format!("Bearer {token}")), ("Authorization", "Bearer x".to_owned())];
    let doubled: Vec<(&str, &str)> = doubled.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(anonymous("/api/v1/whoami", &doubled), 401, "two credentials are none");
    assert_eq!(ask(&host, "GET", &format!("/api/v1/events?access_token={token}"), &[], b"").status, 422);
}
