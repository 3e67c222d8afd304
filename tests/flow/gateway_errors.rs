//! Errors are uniform and quiet.

use std::sync::atomic::{AtomicUsize, Ordering};

use tests::{Host, scale};

use crate::gateway_wire::{ask, request, speak};

const JSON: (&str, &str) = ("content-type", "application/json");

/// GTW-09: each kind of error has its status and its word, and all have the same shape.
#[test]
fn gtw_09_every_error_is_a_problem_with_a_code_and_a_request_id() {
    let host = Host::start();
    let bo = host.user("bo", "member");
    let repo = host.repo("demo");
    let as_bo = |method: &str, path: &str, body: &[u8]| {
        speak(&host, &request(&host, bo.client.token().unwrap(), method, path, &[JSON], body))
    };
    let taken = r#"{"name":"demo","origin":"https://forge.example/a/b"}"#;
    let none = format!("/api/v1/worktrees/wt_{}", "0".repeat(32));
    let cases = [
        (speak(&host, &request(&host, "", "GET", "/api/v1/whoami", &[], b"")), 401, "auth_required"),
        (speak(&host, &request(&host, "nonsense", "GET", "/api/v1/whoami", &[], b"")), 401, "auth_required"),
        (
            speak(
                &host,
                &request(
                    &host,
                    "",
                    "POST",
                    "/api/v1/auth/login",
                    &[JSON],
                    br#"{"email":"a@b.c","password":"x"}"#,
                ),
            ),
            401,
            "auth_failed",
        ),
        (as_bo("GET", "/api/v1/policies", b""), 403, "forbidden"),
        (as_bo("GET", &none, b""), 404, "not_found"),
        (ask(&host, "GET", "/api/v1/worktrees/..%2f..%2fetc", &[], b""), 404, "not_found"),
        (ask(&host, "GET", "/nowhere", &[], b""), 404, "not_found"),
        (ask(&host, "PATCH", "/api/v1/repos", &[JSON], b"{}"), 405, "bad_request"),
        (ask(&host, "POST", "/api/v1/repos", &[JSON], b"{"), 400, "bad_request"),
        (ask(&host, "POST", "/api/v1/repos", &[("content-type", "text/plain")], b"{}"), 415, "bad_request"),
        (ask(&host, "POST", "/api/v1/repos", &[JSON], b"{}"), 422, "unprocessable"),
        (ask(&host, "POST", "/api/v1/repos", &[JSON], taken.as_bytes()), 409, "conflict"),
        (ask(&host, "DELETE", &format!("/api/v1/repos/{repo}x"), &[], b""), 404, "not_found"),
        (ask(&host, "GET", "/api/v1/worktrees?limit=0", &[], b""), 422, "unprocessable"),
    ];
    for (reply, status, code) in cases {
        assert_eq!(reply.status, status, "{}", reply.text());
        let problem = reply.problem();
        assert_eq!(serde_json::to_value(problem.code).unwrap(), code, "{problem:?}");
        assert_eq!(problem.kind, "about:blank");
        assert!(!problem.title.is_empty() && !problem.detail.is_empty(), "{problem:?}");
        assert_eq!(reply.header("www-authenticate").is_some(), status == 401);
        assert_eq!(reply.header("allow").is_some(), status == 405, "{reply:?}");
    }
}

/// GTW-09: what is not there is not found, whatever was asked about it before. A page that begins after it makes the
/// gate remember an answer, and that answer does not say that it exists.
#[test]
fn gtw_09_what_is_not_there_is_not_found_though_a_page_began_after_it() {
    let host = Host::start();
    let none = "0".repeat(32);
    for (pages, id) in [("repos", format!("rep_{none}")), ("worktrees", format!("wt_{none}"))] {
        let page = ask(&host, "GET", &format!("/api/v1/{pages}?after={id}"), &[], b"");
        assert_eq!(page.status, 200, "{}", page.text());
        for method in ["GET", "DELETE"] {
            let reply = ask(&host, method, &format!("/api/v1/{pages}/{id}"), &[], b"");
            assert_eq!(reply.status, 404, "{method} {pages}: {}", reply.text());
        }
    }
    let user = format!("usr_{none}");
    let page = ask(&host, "GET", &format!("/api/v1/users?after={user}"), &[], b"");
    assert_eq!(page.status, 200, "{}", page.text());
    assert_eq!(ask(&host, "GET", &format!("/api/v1/users/{user}"), &[], b"").status, 404);
    let body = format!(r#"{{"name":"x","repo":"rep_{none}","branch":"b"}}"#);
    let reply = ask(&host, "POST", "/api/v1/worktrees", &[JSON], body.as_bytes());
    assert_eq!(reply.status, 422, "the worktree names a repository that is not there: {}", reply.text());
}

/// A small generator: the same requests every time, from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % below
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.next(from.len())]
    }
}

const ODD: &[&str] = &[
    "",
    "null",
    "true",
    "-1",
    "0",
    "9223372036854775808",
    "1e400",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"a\\nb\"",
    "[]",
    "{}",
    "[[[[]]]]",
    "\"' OR 1=1 --\"",
    "\"../../etc/passwd\"",
    "\"%00\"",
    "\"$(id)\"",
    "\"{{7*7}}\"",
    "\"<script>\"",
    "\"usr_00000000000000000000000000000000\"",
    "\"wt_00000000000000000000000000000000\"",
    "\"\u{202e}x\"",
    "\"\u{1F600}\"",
    "{\"a\":{\"b\":{}}}",
    "\"sk-live-4242424242424242\"",
    "\"runs:read\"",
    "12.5",
];
const FIELDS: &[&str] = &[
    "email",
    "password",
    "name",
    "role",
    "about",
    "tier",
    "repo",
    "origin",
    "label",
    "scope",
    "days",
    "grant",
    "minutes",
    "id",
    "text",
    "user",
    "action",
    "resource",
    "with",
    "current",
    "new",
    "totp",
    "code",
    "handle",
    "refresh_token",
    "secret",
    "bcrypt",
    "enabled",
    "__proto__",
    "",
];

fn fuzzed(dice: &mut Dice, host: &Host, token: &str, paths: &[(String, String)]) -> Vec<u8> {
    let (method, path) = &paths[dice.next(paths.len())];
    let method = if dice.next(12) == 0 {
        dice.pick(&["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"])
    } else {
        method
    };
    let id = ["usr_", "wt_", "rep_", "key_", "pas_", "x", "..%2f", "%00", "%ff", "%F0%9F%98%80", "a%20b", ""]
        [dice.next(12)]
    .to_owned();
    let id = if id.ends_with('_') { format!("{id}{:032x}", dice.next(usize::MAX)) } else { id };
    let mut target = String::new();
    for part in path.split('/').skip(1) {
        target.push('/');
        target.push_str(if part.starts_with('{') { &id } else { part });
    }
    if dice.next(3) == 0 {
        let name = dice.pick(&[
            "after", "limit", "prefix", "name", "repo", "archived", "user", "action", "since", "until",
            "secret", "x",
        ]);
        let value = dice.pick(&[
            "1",
            "-1",
            "0",
            "999999999999999999999",
            "%00",
            "%ff",
            "a%27b",
            "true",
            "%25%5f",
            "",
            "usr_0",
            "wt_x",
        ]);
        target.push_str(&format!("?{name}={value}"));
    }
    let kind = dice.pick(&[
        "application/json",
        "application/json",
        "application/json",
        "text/plain",
        "application/json; charset=utf-16",
        "multipart/form-data",
    ]);
    let mut body = String::from("{");
    for n in 0..dice.next(5) {
        let (field, value) = (dice.pick(FIELDS), dice.pick(ODD));
        body.push_str(&format!("{}\"{field}\":{value}", if n > 0 { "," } else { "" }));
    }
    body.push('}');
    let mut body = body.into_bytes();
    match dice.next(10) {
        0 => body.truncate(body.len() / 2),
        1 => body = vec![0xff; 1 + dice.next(64)],
        2 => body = "[".repeat(1 + dice.next(5_000)).into_bytes(),
        _ => {}
    }
    let mut headers = vec![("content-type", kind)];
    if dice.next(6) == 0 {
        let odd = [
            "idempotency-key",
            "last-event-id",
            "x-forwarded-for",
            "origin",
            "range",
            "if-none-match",
            "accept",
            "upgrade",
        ];
        headers.push((
            odd[dice.next(odd.len())],
            dice.pick(&["1", "a b", "\u{e9}", "../..", "*", "websocket", "9999999999999999999999"]),
        ));
    }
    request(host, if dice.next(10) == 0 { "garbage" } else { token }, method, &target, &headers, &body)
}

/// GTW-09: whatever is sent, no answer is our fault, and none shows a path, a stack, SQL or a secret.
#[test]
fn gtw_09_fuzzed_requests_show_nothing() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let key = api::CreateKeyRequest { label: "fuzz".into(), scope: "admin".into(), days: None };
    let token = host.user("fuzz", "owner").client.create_key(&key).unwrap().secret.into_text();
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut paths = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            // The stream has no end to wait for.
            if path != "/api/v1/events" {
                paths.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    let place = host.place().display().to_string();
    let never = [
        place.as_str(),
        "/work/",
        "src/",
        ".rs:",
        "panicked",
        "stack backtrace",
        "SELECT ",
        "INSERT ",
        "sqlite",
        "SQLITE",
        "postgres",
        "palisade.db",
        token.as_str(),
        tests::PASSWORD,
        "No such file",
        "os error",
        "4242424242424242",
    ];
    let (all, done) = (scale(10_000, 500), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let (host, token, paths, never, done) = (&host, &token, &paths, &never, &done);
            scope.spawn(move || {
                let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
                while done.fetch_add(1, Ordering::Relaxed) < all {
                    let sent = fuzzed(&mut dice, host, token, paths);
                    let reply = speak(host, &sent);
                    let shown = || format!("{}\n---\n{reply:?}", String::from_utf8_lossy(&sent));
                    assert!(reply.status < 500, "{}", shown());
                    if reply.status >= 400 {
                        let text = reply.text();
                        // What a caller sent may come back in a list of theirs; what we say may not hold any of it.
                        assert!(never.iter().all(|word| !text.contains(word)), "{}", shown());
                    }
                }
            });
        }
    });
    assert!(host.owner().client.whoami().is_ok(), "and the daemon is well");
    let log = host.log();
    assert!(!log.contains("failed at") && !log.contains(&token), "{log}");
    assert_eq!(host.owner().client.verify_ledger().unwrap().verdict, "intact");
}
