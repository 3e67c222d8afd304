//! Browsers are kept in bounds: origins, hosts, and the headers that bind a page.

use std::io::Write;

use tests::Host;

use crate::gateway_wire::{Reply, ask, authority, connect, request, speak};

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

/// What would be executed if it were taken for a page.
const SCRIPT: &str = "<img src=x onerror=alert(7731)><svg onload=alert(7731)>";

/// What binds whoever shows an answer: it is what it says it is, runs nothing, and is in nobody's frame.
#[track_caller]
fn is_bound(reply: &Reply, kind: &str, what: &str) {
    let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
    assert!(header("content-type").starts_with(kind), "{what}: {reply:?}");
    assert_eq!(header("x-content-type-options"), "nosniff", "{what}");
    let csp = header("content-security-policy");
    assert!(csp.contains("default-src 'none'") && csp.contains("frame-ancestors 'none'"), "{what}: {csp}");
    assert!(!csp.contains("unsafe") && !csp.contains("script-src"), "{what}: {csp}");
    assert_eq!(reply.header("set-cookie"), None, "{what}");
}

/// The answer to a handshake, which asks to keep the connection.
fn shaken(host: &Host, text: &str) -> Reply {
    let mut stream = connect(host);
    stream.write_all(text.as_bytes()).unwrap();
    Reply::read_one(&mut stream).unwrap()
}

/// ADV-A05: nothing that a page elsewhere can have a browser send is done: there is nothing that a browser adds by itself, a form is
/// no request, an address that was made to point here is not ours, and a socket opens for our own origin only.
#[test]
fn adv_a05_what_another_page_sends_is_not_done() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let token = host.owner().client.token().unwrap();
    let count = || host.owner().client.worktrees(&Default::default()).unwrap().items.len();
    let body = format!("{{\"repo\":\"{repo}\",\"name\":\"forged\"}}");
    let origins = [None, Some("null"), Some("https://evil.example"), Some("http://127.0.0.1:1")];
    for origin in origins {
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/json",
        ] {
            let mut headers = vec![("Content-Type", kind), ("Cookie", "session=1; token=1")];
            headers.extend(origin.map(|origin| ("Origin", origin)));
            let forged =
                speak(&host, &request(&host, "", "POST", "/api/v1/worktrees", &headers, body.as_bytes()));
            assert_eq!(forged.status, 401, "{origin:?} {kind}");
            is_bound(&forged, "application/problem+json", "a forged request");
            assert_eq!(forged.header("access-control-allow-origin"), None);
            // Not even with a credential, unless it is what only a program or a page that may can send.
            if kind != "application/json" {
                let sent = speak(
                    &host,
                    &request(&host, token, "POST", "/api/v1/worktrees", &headers, body.as_bytes()),
                );
                assert!((400..500).contains(&sent.status), "{origin:?} {kind}: {}", sent.status);
            }
        }
        let upgrade = [
            ("Upgrade", "websocket"),
            ("Connection", "upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let mut headers = upgrade.to_vec();
        headers.extend(origin.map(|origin| ("Origin", origin)));
        let bytes = request(&host, token, "GET", "/api/v1/events/socket", &headers, b"");
        let bytes = String::from_utf8(bytes).unwrap().replacen("Connection: close\r\n", "", 1);
        assert_eq!(shaken(&host, &bytes).status, 403, "a socket from {origin:?}");
        // The same with a name that was made to point here.
        headers.push(("Host", "evil.example"));
        let bytes = request(&host, token, "GET", "/api/v1/events/socket", &headers, b"");
        let bytes = String::from_utf8(bytes).unwrap().replacen("Connection: close\r\n", "", 1);
        assert_eq!(shaken(&host, &bytes).status, 421, "a socket of another name");
    }
    for (method, path) in
        [("GET", "/api/v1/whoami"), ("POST", "/api/v1/worktrees"), ("GET", "/setup"), ("POST", "/setup")]
    {
        let headers = [("Host", "evil.example"), ("Content-Type", "application/json")];
        let reply = speak(&host, &request(&host, token, method, path, &headers, body.as_bytes()));
        assert_eq!(reply.status, 421, "{method} {path}");
    }
    let by_address = format!("/api/v1/worktrees?access_token={token}");
    let json = [("Content-Type", "application/json")];
    assert_eq!(speak(&host, &request(&host, "", "POST", &by_address, &json, body.as_bytes())).status, 401);
    assert_eq!(count(), 0, "nothing was made");
    assert!(!host.log().contains(token), "and the token of an address is in no log");
}

/// ADV-A05: script in a file's name, its text, a diff, a commit, what an agent says, what somebody asks and how a thing is called is
/// told as data, in answers that no browser takes for a page.
#[test]
fn adv_a05_script_in_what_is_shown_is_plain_data() {
    let host = crate::sessions::quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    owner.client.update_worktree(&worktree, SCRIPT).unwrap();
    let session = owner
        .client
        .create_session(&api::CreateSessionRequest {
            agent: "command".into(),
            command: vec!["sh".into()],
            title: Some(SCRIPT.into()),
            ..crate::calls::new_session(&worktree)
        })
        .unwrap()
        .id;
    let script =
        format!("echo '{SCRIPT}' | tee '{SCRIPT}'; git add -A; git commit -q -m '{SCRIPT}'; echo done");
    let task = owner.client.prompt_session(&session, &script).unwrap();
    assert_eq!(crate::sessions::ended(owner, &session, &task.id).state, "done");
    let (trees, talks) = (format!("/api/v1/worktrees/{worktree}"), format!("/api/v1/sessions/{session}"));
    let name: String = SCRIPT.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let shown = [
        trees.clone(),
        format!("{trees}/files"),
        format!("{trees}/files?path={name}"),
        format!("{trees}/diff"),
        format!("{trees}/log"),
        "/api/v1/worktrees".to_owned(),
        "/api/v1/sessions".to_owned(),
        talks.clone(),
        format!("{talks}/tasks"),
        format!("{talks}/steps"),
    ];
    for path in shown {
        for accept in ["application/json", "text/html,*/*"] {
            let reply = ask(&host, "GET", &path, &[("Accept", accept)], b"");
            assert_eq!(reply.status, 200, "{path}");
            is_bound(&reply, "application/json", &path);
            let value: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
            assert!(holds(&value, "onerror=alert(7731)"), "{path}: {value}");
        }
    }
    // What is told of an error repeats nothing that would act.
    for path in
        [format!("/{name}"), format!("{trees}/files?path={name}x"), format!("/api/v1/worktrees/{name}")]
    {
        let reply = ask(&host, "GET", &path, &[("Accept", "text/html")], b"");
        assert!((400..500).contains(&reply.status), "{path}: {}", reply.status);
        is_bound(&reply, "application/problem+json", &path);
    }
}

/// ADV-A05: the one page there is repeats what it was sent as text only, loads and runs nothing, and is in nobody's frame.
#[test]
fn adv_a05_the_page_that_there_is_runs_nothing() {
    let host = Host::builder().unclaimed();
    let coded: String =
        format!("\" onfocus=alert(7731) x='{SCRIPT}").bytes().map(|byte| format!("%{byte:02x}")).collect();
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let filled = format!("secret=pbs_{coded}&email={coded}&name={coded}&password={coded}");
    let replies = [
        speak(&host, &request(&host, "", "GET", &format!("/setup?secret={coded}"), &[], b"")),
        speak(&host, &request(&host, "", "GET", &format!("/setup?secret=pbs_{coded}%22"), &[], b"")),
        speak(&host, &request(&host, "", "POST", "/setup", &form, filled.as_bytes())),
        speak(
            &host,
            &request(
                &host,
                "",
                "POST",
                "/setup",
                &[("Content-Type", "text/plain"), ("Origin", "null")],
                filled.as_bytes(),
            ),
        ),
    ];
    let known = [
        "!doctype", "html", "head", "meta", "title", "body", "h1", "p", "form", "input", "label", "br",
        "button",
    ];
    for reply in replies {
        is_bound(&reply, "text/html", "the page");
        let page = String::from_utf8(reply.body).unwrap();
        for tag in page.split('<').skip(1) {
            let name: String = tag
                .trim_start_matches('/')
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '!')
                .collect();
            assert!(known.contains(&name.as_str()), "<{name}: {page}");
            // What stands between quotation marks is a value, as long as none of them came from outside.
            let inside: String = tag.split('>').next().unwrap().split('"').step_by(2).collect();
            assert!(
                !inside.contains(" on") && !inside.contains("javascript:") && !inside.contains("src="),
                "{inside}"
            );
        }
    }
    let origin = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "https://evil.example")];
    let forged = b"secret=pbs_guess&email=a%40example.org&name=a&password=a+long+enough+password";
    assert_eq!(
        speak(&host, &request(&host, "", "POST", "/setup", &origin, forged)).status,
        401,
        "without the secret nobody is made"
    );
}

fn holds(value: &serde_json::Value, text: &str) -> bool {
    match value {
        serde_json::Value::String(one) => one.contains(text),
        serde_json::Value::Array(all) => all.iter().any(|one| holds(one, text)),
        serde_json::Value::Object(all) => {
            all.iter().any(|(name, one)| name.contains(text) || holds(one, text))
        }
        _ => false,
    }
}
