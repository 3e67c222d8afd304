//! The daemon: what is sent to it by HTTP and by the client, and what it says, keeps and hands out afterwards.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Host, PASSWORD};

use crate::search::Search;
use crate::secrets::{Planted, all};

/// A daemon that says everything it can say.
pub fn host() -> tests::HostBuilder {
    Host::builder().set("limits.requests_per_minute", "0").set("log.level", "trace")
}

/// HTTP by hand: no library changes or refuses what is sent.
pub fn send(host: &Host, head: &str, headers: &[String], body: &[u8]) -> Vec<u8> {
    let address = host.base().split_once("://").unwrap().1;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut text = format!("{head} HTTP/1.1\r\nConnection: close\r\nHost: {address}\r\n");
    for header in headers {
        text.push_str(&format!("{header}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    // A daemon that does not like the beginning does not wait for the rest.
    drop(stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(body)));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    answer
}

pub fn percent(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02x}") })
        .collect()
}

/// Bodies with a secret wherever text can stand, for every route that takes one.
fn bodies(repo: &str, n: usize, text: &str, line: &str) -> Vec<(String, Value)> {
    let short: String = line.chars().take(80).collect();
    let post = |path: &str| format!("POST /api/v1/{path}");
    let user = |email: &str, name: &str, role: &str, password: &str| json!({ "email": email, "name": name, "role": role, "password": password });
    let address = format!("u{n}@example.org");
    let (hex, run) = ("0".repeat(32), format!("run_{}", "0".repeat(32)));
    let loan = |name: &str, host: &str, run: &str, line: &str| json!({ "name": name, "hosts": [host], "run": run, "line": line });
    vec![
        (
            post("worktrees"),
            json!({ "repo": repo, "name": format!("w-{n}"), "about": format!("use {text} here") }),
        ),
        (post("worktrees"), json!({ "repo": repo, "name": line, "about": "" })),
        (post("worktrees"), json!({ "repo": repo, "name": format!("v-{n}"), "about": "", "tier": line })),
        (post("worktrees"), json!({ "repo": line, "name": format!("v-{n}"), "about": text })),
        (post("repos"), json!({ "name": line, "origin": "https://forge.example/a" })),
        (post("repos"), json!({ "name": format!("r-{n}"), "origin": line })),
        (
            post("repos"),
            json!({ "name": format!("q-{n}"), "origin": format!("https://u:{line}@forge.example/a") }),
        ),
        (
            post("repos"),
            json!({ "name": format!("p-{n}"), "origin": format!("https://forge.example/{line}") }),
        ),
        (post("users"), user(line, "N", "member", PASSWORD)),
        (post("users"), user(&format!("{short}@example.org"), "N", "member", PASSWORD)),
        (post("users"), user(&format!("a{address}"), &short, "member", PASSWORD)),
        (post("users"), user(&format!("b{address}"), "N", line, PASSWORD)),
        (
            post("users"),
            json!({ "email": format!("c{address}"), "name": "N", "role": "member", "bcrypt": line }),
        ),
        (post("users"), json!({ "email": address, "name": "N", "role": "member", line: text })),
        (post("keys"), json!({ "label": short, "scope": "runs:read" })),
        (post("keys"), json!({ "label": "k", "scope": line })),
        (post("pairings"), json!({ "label": short, "scope": "runs:read" })),
        (post("passes"), json!({ "label": short, "grant": {} })),
        (post("passes"), json!({ "label": "p", "grant": { "tools": [line] } })),
        (post("passes"), json!({ "label": "p", "grant": { line: text } })),
        (post("policies"), json!({ "id": line, "text": "forbid(principal, action, resource);" })),
        (
            post("policies"),
            json!({ "id": format!("p{n}"), "text": format!("// {line}\nforbid(principal, action, resource) when {{ false }};") }),
        ),
        (post("policies"), json!({ "id": format!("q{n}"), "text": text })),
        (post("policies/try"), json!({ "user": line, "action": line, "resource": line })),
        (
            post("policies/try"),
            json!({ "user": "me", "action": "status.read", "resource": "installation", "with": { "id": line, "text": text } }),
        ),
        (post("secrets"), json!({ "name": format!("PLANTED_{n}"), "value": text, "replace": true })),
        (post("secrets"), json!({ "name": line, "value": "x" })),
        (post("secrets"), json!({ "name": format!("P_{n}"), "value": "x", "owner": line })),
        (post("secrets"), json!({ "name": format!("P_{n}"), "value": "x", "hosts": [line] })),
        (post("secrets/lend"), loan(line, "api.example.org", &run, &hex)),
        (post("secrets/lend"), loan("NONE", line, &run, &hex)),
        (
            post("secrets/lend"),
            json!({ "name": "NONE", "worktree": line, "hosts": ["x.org"], "run": run, "line": hex }),
        ),
        (post("secrets/lend"), loan("NONE", "api.example.org", line, &hex)),
        (post("secrets/lend"), loan("NONE", "api.example.org", &run, line)),
        (post("secrets/rotation"), json!({ "resume": true, "new_key_file": format!("/{line}") })),
        (post("auth/bootstrap"), json!({ "secret": line, "email": line, "name": short, "password": text })),
        (post("auth/refresh"), json!({ "refresh_token": text })),
        (post("auth/pair"), json!({ "code": text })),
        (post("auth/totp/confirm"), json!({ "handle": line, "code": line, "password": text })),
        (post("auth/totp/remove"), json!({ "code": line, "password": text })),
        (post("ledger/verify"), json!({ line: text })),
    ]
}

/// Everything that one secret can be in, by HTTP.
fn by_http(host: &Host, search: &mut Search, repo: &str, n: usize, planted: &Planted) {
    let token = format!("Authorization: Bearer {}", host.owner().client.token().unwrap());
    let json_type = "Content-Type: application/json".to_owned();
    let (text, line, family) = (planted.text.as_str(), planted.line(), planted.family);
    let mut heard = |what: &str, answer: Vec<u8>| {
        assert!(answer.starts_with(b"HTTP/1.1 "), "{what}: no answer");
        search.look(&format!("the answer to {what} with {family}"), &answer);
    };
    for (head, body) in bodies(repo, n, text, &line) {
        let bytes = serde_json::to_vec(&body).unwrap();
        heard(&head, send(host, &head, &[token.clone(), json_type.clone()], &bytes));
        // Cut off in the middle it is no JSON, and the secret may stand where the error is.
        heard(&head, send(host, &head, &[token.clone(), json_type.clone()], &bytes[..bytes.len() - 2]));
    }
    // As a body that is nothing, a part of a path, a query, and in headers that somebody reads.
    heard("a text", send(host, "POST /api/v1/repos", &[token.clone(), json_type.clone()], text.as_bytes()));
    let escaped = percent(text);
    for path in ["worktrees", "repos", "users", "keys", "passes", "policies", "nothing"] {
        for method in ["GET", "DELETE", "PATCH"] {
            let head = format!("{method} /api/v1/{path}/{escaped}");
            heard(path, send(host, &head, &[token.clone(), json_type.clone()], b"{}"));
        }
        let head = format!("GET /api/v1/{path}?after={escaped}&limit={escaped}&{escaped}=1");
        heard(path, send(host, &head, std::slice::from_ref(&token), b""));
    }
    for query in ["action", "user", "resource", "decision", "since", "before"] {
        let head = format!("GET /api/v1/ledger?{query}={escaped}");
        heard(query, send(host, &head, std::slice::from_ref(&token), b""));
    }
    heard("setup", send(host, &format!("GET /setup?secret={escaped}"), &[], b""));
    let form = format!("secret=x&email={escaped}&name={escaped}&password={escaped}");
    let kind = "Content-Type: application/x-www-form-urlencoded".to_owned();
    heard("setup", send(host, "POST /setup", &[kind], form.as_bytes()));
    let code = format!("{}: ", api::TOTP_HEADER);
    for name in [
        code.as_str(),
        "Authorization: Bearer ",
        "Authorization: Basic ",
        "Cookie: session=",
        "X-Request-Id: ",
        "Idempotency-Key: ",
        "User-Agent: ",
        "Origin: https://",
        "X-Forwarded-For: ",
        "X-Api-Key: ",
        "Sec-WebSocket-Protocol: palisade.v1, ticket.",
        "Content-Type: ",
        "Last-Event-Id: ",
    ] {
        let header = format!("{name}{line}");
        let own = if name.starts_with("Authorization") { header.clone() } else { token.clone() };
        heard(name, send(host, "POST /api/v1/repos", &[own, header.clone()], b"{\"name\":\"x\"}"));
        heard(
            name,
            send(host, "GET /api/v1/events/socket", &[header.clone(), "Upgrade: websocket".into()], b""),
        );
    }
    let stray = send(host, &format!("{} /x", line.replace(' ', "-")), &[], b"");
    search.look("the answer to a method", &stray);
}

/// Everything that one secret can be typed as.
fn by_client(host: &Host, inputs: &Path, search: &mut Search, n: usize, planted: &Planted) {
    let (text, line) = (planted.text.as_str(), planted.line());
    let file = |name: &str, text: &str| -> String {
        let path = inputs.join(format!("{name}-{n}"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let policy = file("policy", &format!("// {line}\nforbid(principal, action, resource) when {{ false }};"));
    let bad = file("bad", text);
    let (email, secret) = (format!("x{n}@example.org"), format!("TYPED_{n}"));
    let settings = file("env", &format!("export FROM_FILE_{n}='{line}'\n{line}\n"));
    let l = line.as_str();
    let typed: Vec<Vec<&str>> = vec![
        vec!["worktree", "create", "demo", l, "--about", text],
        vec!["worktree", "create", l, "x"],
        vec!["worktree", "show", l],
        vec!["worktree", "list", "--repo", l],
        vec!["repo", "add", l, l],
        vec!["repo", "show", l],
        vec!["user", "show", l],
        vec!["user", "add", "--email", &email, "--name", l, "--password-stdin"],
        vec!["user", "add", "--email", l, "--name", "N", "--role", l, "--password-stdin"],
        vec!["login", "--email", l, "--password-stdin"],
        vec!["key", "create", l],
        vec!["key", "revoke", l],
        vec!["pass", "mint", l, "--grant", &bad],
        vec!["policy", "add", l, &policy],
        vec!["policy", "add", "p", &bad],
        vec!["policy", "explain", "--user", l, "--action", l, "--resource", l],
        vec!["ledger", "search", "--user", l, "--resource", l],
        vec!["ledger", "search", "--since", l],
        vec!["ledger", "search", "--decision", l],
        vec!["ledger", "export", "--about", l],
        vec!["secret", "add", &secret, "--replace"],
        vec!["secret", "add", l],
        vec!["secret", "add", &secret, "--owner", l, "--host", l, "--expires", l],
        vec!["secret", "remove", l],
        vec!["secret", "list", "--owner", l],
        vec!["secret", "import", &settings],
        vec!["secret", "import", &settings, "--yes", "--replace"],
        vec!["secret", "import", &bad, "--yes"],
        vec!["init", l],
        vec!["profile", "check", &bad],
        vec!["receipt", "show", l],
        vec!["receipt", "verify", "--file", &bad],
        vec!["diff", l],
        vec!["stop", l],
        vec!["whoami", "--ca", &bad],
        vec!["--url", l, "whoami"],
        vec![l],
        vec!["user", l],
        vec!["completions", l],
    ];
    for words in typed {
        for json in [false, true] {
            let mut command = host.command("palisade");
            if !words.contains(&"--url") {
                command.args(["--url", host.base()]);
            }
            if json {
                command.arg("--json");
            }
            command.args(&words).env("PALISADE_TEST_NOTE", text);
            let Output { stdout, stderr, .. } = tests::fed(&mut command, &format!("{line}\n{line}\n"));
            let place = format!("what `palisade {}` says with {}", words[0], planted.family);
            search.look(&place, &stdout);
            search.look(&place, &stderr);
        }
    }
    // The daemon's own program, on a command line that it does not take.
    for words in [
        vec![l],
        vec!["up", "--set", l],
        vec!["--set", &format!("server.{l}=1"), "config"],
        vec!["restore", l],
    ] {
        let output = host.command("palisaded").args(&words).output().unwrap();
        search.look("what palisaded says", &[output.stdout, output.stderr].concat());
    }
}

/// What anybody can get out afterwards: lists, streams, exports, a backup; and what lies in files.
pub fn afterwards(host: &mut Host, search: &mut Search) {
    let token = format!("Authorization: Bearer {}", host.owner().client.token().unwrap());
    let lists = [
        "worktrees?archived=true&limit=100",
        "repos?limit=100",
        "users?limit=100",
        "policies",
        "ledger?limit=1000",
        "status",
        "whoami",
        "secrets",
        "ledger/export",
        "ledger/trust",
    ];
    for list in lists {
        search.look(list, &send(host, &format!("GET /api/v1/{list}"), std::slice::from_ref(&token), b""));
    }
    search.look("metrics", &send(host, "GET /metrics", std::slice::from_ref(&token), b""));
    let id = host.owner().id.clone();
    for list in ["keys", "passes"] {
        let head = format!("GET /api/v1/users/{id}/{list}?limit=100");
        search.look(list, &send(host, &head, std::slice::from_ref(&token), b""));
    }
    let mut events = host.owner().client.follow(Some(0)).unwrap();
    let head = host.owner().client.worktrees(&api::WorktreeFilter::default()).unwrap().items.len();
    for _ in 0..head {
        let event = events.next().unwrap().unwrap();
        search.look("an event", format!("{event:?}").as_bytes());
    }
    let mut sealed = Vec::new();
    host.owner().client.backup().unwrap().read_to_end(&mut sealed).unwrap();
    search.look("a backup", &sealed);
    let out = host.place().join("exported");
    let bundle = host.place().join("bundle");
    for words in [
        vec!["ledger", "export", out.to_str().unwrap()],
        vec!["ledger", "export", "--bundle", bundle.to_str().unwrap(), "--about", &id],
        vec!["ledger", "tail"],
        vec!["policy", "show"],
        vec!["worktree", "list"],
        vec!["secret", "list"],
        vec!["config", "show"],
    ] {
        let output = host.command("palisade").args(["--url", host.base()]).args(&words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        search.look(words[1], &output.stdout);
    }
    // The daemon holds the argv and the environment that it was started with, and nothing of what it was sent.
    for name in ["cmdline", "environ"] {
        let path = format!("/proc/{}/{name}", host.pid());
        search.look(&path, &std::fs::read(&path).unwrap());
    }
    host.stop();
    let place: PathBuf = host.place().to_owned();
    search.look_below(&place);
    search.look("the log", host.log().as_bytes());
}

pub fn sign_in(host: &Host) {
    let mut command = host.command("palisade");
    command.args(["--url", host.base(), "login", "--email", "owner@example.org", "--password-stdin"]);
    assert!(tests::fed(&mut command, &format!("{PASSWORD}\n")).status.success());
}

/// SEC-16: forty secrets, sent and typed wherever text can be, come out of no door of the daemon and the client.
#[test]
fn sec_16_what_is_sent_to_the_daemon_comes_out_nowhere() {
    let planted = all();
    let mut search = Search::new(&planted);
    let mut host = host().start();
    sign_in(&host);
    let repo = host.repo("demo");
    // Files that a caller gives: theirs, and outside of what is searched.
    let inputs = tempfile::tempdir().unwrap();
    let some = tests::scale(planted.len(), 4);
    for (n, one) in planted.iter().enumerate() {
        by_http(&host, &mut search, &repo, n, one);
        // A process for every command line is slow: ordinarily every secret is typed somewhere, and some everywhere.
        if n % (planted.len() / some).max(1) == 0 {
            by_client(&host, inputs.path(), &mut search, n, one);
        }
    }
    // Wrong passwords are counted, so these come last.
    for one in &planted {
        let body = json!({ "email": one.line(), "password": one.text, "totp": one.line() });
        let bytes = serde_json::to_vec(&body).unwrap();
        let answer =
            send(&host, "POST /api/v1/auth/login", &["Content-Type: application/json".into()], &bytes);
        search.look("a wrong password", &answer);
    }
    let kept = host
        .owner()
        .client
        .worktrees(&api::WorktreeFilter { limit: Some(100), ..Default::default() })
        .unwrap();
    assert_eq!(kept.items.len(), planted.len(), "notes are kept, without what was secret in them");
    assert!(kept.items.iter().all(|one| one.about.contains("***")), "{kept:?}");
    afterwards(&mut host, &mut search);
    search.assert_clean();
}

/// The same on a database that keeps rows as they are: nothing is in any column.
#[test]
fn sec_16_what_is_sent_to_the_daemon_is_in_no_column_of_a_database() {
    let planted = all();
    let mut search = Search::new(&planted);
    let address = tests::database();
    let host =
        host().set("store.url", &address).variable("PALISADE_MASTER_KEY", &tests::master_key()).start();
    let repo = host.repo("demo");
    for (n, one) in planted.iter().enumerate() {
        by_http(&host, &mut search, &repo, n, one);
    }
    let dump = tests::dump(&address);
    assert!(dump.contains("w-39") && dump.contains("***"), "the dump has rows");
    search.look("the database", dump.as_bytes());
    search.assert_clean();
}

/// Wherever a secret is expected: passwords, codes, tokens, values, credentials in headers.
fn where_secrets_belong(
    host: &Host,
    search: &mut Search,
    n: usize,
    form: &str,
    planted: &Planted,
    is_slow: bool,
) {
    let token = format!("Authorization: Bearer {}", host.owner().client.token().unwrap());
    let json_type = "Content-Type: application/json".to_owned();
    let (text, line, family) = (planted.text.as_str(), planted.line(), planted.family);
    let mut heard = |what: &str, answer: Vec<u8>| {
        assert!(answer.starts_with(b"HTTP/1.1 "), "{what}: no answer");
        search.look(&format!("the answer to {what} with {family} as {form}"), &answer);
    };
    let name = format!("ENCODED_{n}_{}", form.to_uppercase());
    let email = format!("e{n}-{}@example.org", form.to_lowercase());
    // Hashing is slow by intention.
    let hashed = [
        ("users", json!({ "email": email, "name": "N", "role": "member", "password": text })),
        ("auth/totp/remove", json!({ "code": text, "password": text })),
    ];
    let quick = [
        ("secrets", json!({ "name": name, "value": text, "replace": true })),
        ("users", json!({ "email": email, "name": "N", "role": "nothing", "password": text })),
        ("users", json!({ "email": format!("b{email}"), "name": "N", "role": "member", "bcrypt": text })),
        ("auth/bootstrap", json!({ "secret": text, "email": email, "name": "N", "password": text })),
        ("auth/refresh", json!({ "refresh_token": text })),
        ("auth/pair", json!({ "code": text })),
        ("auth/totp/confirm", json!({ "handle": text, "code": text, "password": text })),
    ];
    for (path, body) in quick.into_iter().chain(hashed.into_iter().filter(|_| is_slow)) {
        let (head, bytes) = (format!("POST /api/v1/{path}"), serde_json::to_vec(&body).unwrap());
        heard(&head, send(host, &head, &[token.clone(), json_type.clone()], &bytes));
        heard(&head, send(host, &head, &[token.clone(), json_type.clone()], &bytes[..bytes.len() - 2]));
    }
    let kind = "Content-Type: application/x-www-form-urlencoded".to_owned();
    let filled = format!("secret=x&email=a&name=N&password={}", percent(text));
    heard("setup", send(host, "POST /setup", &[kind], filled.as_bytes()));
    let code = format!("{}: ", api::TOTP_HEADER);
    for header in [
        code.as_str(),
        "Authorization: Bearer ",
        "Authorization: Basic ",
        "Cookie: session=",
        "X-Api-Key: ",
        "Proxy-Authorization: Basic ",
        "Sec-WebSocket-Protocol: palisade.v1, ticket.",
    ] {
        let sent = format!("{header}{line}");
        let own = if header.starts_with("Authorization") { sent.clone() } else { token.clone() };
        heard(header, send(host, "POST /api/v1/repos", &[own, sent.clone()], b"{\"name\":\"x\"}"));
        heard(header, send(host, "GET /api/v1/events/socket", &[sent, "Upgrade: websocket".into()], b""));
    }
}

/// The same by the client: typed at a prompt, piped in, in a file or in a variable.
fn where_secrets_are_typed(host: &Host, inputs: &Path, search: &mut Search, n: usize, planted: &Planted) {
    let settings = inputs.join(format!("encoded-{n}"));
    std::fs::write(&settings, format!("FROM_FILE_{n}='{}'\n", planted.line())).unwrap();
    let (name, email) = (format!("PIPED_{n}"), format!("p{n}@example.org"));
    for words in [
        vec!["secret", "add", &name, "--replace"],
        vec!["secret", "import", settings.to_str().unwrap(), "--yes", "--replace"],
        vec!["user", "add", "--email", &email, "--name", "N", "--password-stdin"],
        vec!["whoami"],
    ] {
        let mut command = host.command("palisade");
        command.args(["--url", host.base()]).args(&words);
        if words[0] == "whoami" {
            command.env("PALISADE_API_KEY", planted.line());
        }
        let Output { stdout, stderr, .. } = tests::fed(&mut command, &format!("{}\n", planted.line()));
        let place = format!("what `palisade {}` says with {}", words[0], planted.family);
        search.look(&place, &[stdout, stderr].concat());
    }
}

/// SEC-16: secrets that were encoded before they were given, wherever one is expected, come out of no door in any form.
#[test]
fn sec_16_what_is_given_encoded_as_a_secret_comes_out_nowhere() {
    let planted = all();
    let mut search = Search::new(&planted);
    let mut host = host().start();
    sign_in(&host);
    let inputs = tempfile::tempdir().unwrap();
    let few = (planted.len() / tests::scale(planted.len(), 4)).max(1);
    for (n, one) in planted.iter().enumerate() {
        for (number, (form, encoded)) in one.encoded().into_iter().enumerate() {
            where_secrets_belong(&host, &mut search, n, form, &encoded, n % few == 0);
            if n % few == 0 {
                where_secrets_are_typed(&host, inputs.path(), &mut search, n * 3 + number, &encoded);
            }
        }
    }
    let secrets = host.owner().client.secrets(None, None).unwrap().items;
    assert!(secrets.len() >= planted.len(), "values were kept: {}", secrets.len());
    afterwards(&mut host, &mut search);
    search.assert_clean();
}
