//! The typed client covers every operation, and does not mind a server that is newer.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use api::{Client, Code, ShownGrant};
use serde_json::{Value, json};
use tests::{Host, HostBuilder};

use crate::calls::{CALLS, NEEDS_NETWORK, Stage, Who, committed, described, is_final};
use crate::gateway_metrics::operations;
use crate::gateway_wire::{authority, until};

fn host() -> Host {
    builder().unclaimed()
}

fn builder() -> HostBuilder {
    Host::builder().set("metrics.listen", "127.0.0.1:0").set("limits.requests_per_minute", "0")
}

/// GTW-15: every operation of the API has a method of the client. Each is called on a live daemon, whose own
/// counter must say that this operation, and no other, was answered.
#[test]
fn gtw_15_the_client_covers_every_operation() {
    let mut host = host();
    host.claim();
    let live = described(&host.owner().client.openapi().unwrap());
    assert!(live.keys().eq(described(&committed()).keys()), "docs/openapi.json is not what the daemon says");
    let listed: BTreeSet<&str> = CALLS.iter().map(|call| call.operation).collect();
    assert_eq!(listed.len(), CALLS.len(), "each once");
    let missing: Vec<&String> = live.keys().filter(|id| !listed.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "the client has no method for {missing:?}; add it, and its row in calls.rs");
    let gone: Vec<&&str> = listed.iter().filter(|id| !live.contains_key(**id)).collect();
    assert!(gone.is_empty(), "the API has no {gone:?}");
    let methods: BTreeSet<&str> = CALLS.iter().map(|call| call.method).collect();
    assert_eq!(methods.len(), CALLS.len(), "each operation has a method of its own");
    assert!(!methods.contains("send"), "`send` is not typed");
    every_call(&host, self::host);
}

/// The same operations where the store is on PostgreSQL: each does there what it does here.
#[test]
fn gtw_15_the_client_covers_every_operation_on_postgresql() {
    let new = || builder().on_postgresql().unclaimed();
    let mut host = new();
    host.claim();
    assert_eq!(host.owner().client.status().unwrap().store, "postgres");
    every_call(&host, new);
    assert_eq!(host.owner().client.verify_ledger().unwrap().verdict, "intact");
}

fn every_call(host: &Host, new: impl Fn() -> Host) {
    let stage = Stage::new(host);
    let ana = stage.person();
    for call in CALLS {
        // What makes the first owner needs a daemon that has none.
        if ["auth_bootstrap", "setup_submit"].contains(&call.operation) {
            let new = new();
            let nobody = Who { id: String::new(), client: new.anonymous() };
            hit(&Stage::unclaimed(&new), &nobody, call);
            continue;
        }
        let who = if is_final(call.operation) { stage.person() } else { ana.clone() };
        hit(&stage, &who, call);
    }
}

fn hit(stage: &Stage<'_>, who: &Who, call: &crate::calls::Call) {
    let run = (call.prepare)(stage, who);
    let before = operations(stage.host);
    let told = run(&who.client);
    if NEEDS_NETWORK.contains(&call.operation) {
        assert_eq!(told.unwrap_err().status(), Some(409), "{}", call.operation);
    } else {
        told.unwrap_or_else(|error| panic!("{} by `{}`: {error}", call.operation, call.method));
    }
    // A request is counted when its answer begins, which may be a moment after the client has it.
    until("the answer is counted", || operations(stage.host) != before);
    let mut expected = before;
    *expected.entry(call.operation.to_owned()).or_default() += 1;
    assert_eq!(operations(stage.host), expected, "`{}` calls {}, once", call.method, call.operation);
}

/// What a server of some later year would say: other words, and more of everything.
fn of_the_future(value: &mut Value) {
    match value {
        Value::String(text) => text.insert_str(0, "of-the-future "),
        Value::Array(items) => items.iter_mut().for_each(of_the_future),
        Value::Object(fields) => {
            fields.values_mut().for_each(of_the_future);
            fields.insert("x_of_the_future".into(), json!({ "deep": [1, null, "x"] }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A daemon of some later year: passes requests on, and changes what is JSON in the answers.
struct Future {
    base: String,
}

impl Future {
    fn of(host: &Host) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let daemon = authority(host).to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let daemon = daemon.clone();
                std::thread::spawn(move || pass_on(client, &daemon));
            }
        });
        Self { base }
    }

    fn client(&self, token: &str) -> Client {
        Client::new(&self.base, None).unwrap().with_token(token)
    }
}

fn pass_on(mut client: TcpStream, daemon: &str) -> Option<()> {
    client.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let lower = line.to_ascii_lowercase();
        if let Some(text) = lower.strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
        match lower.as_str() {
            "\r\n" | "" => break,
            _ if lower.starts_with("host:") => head.push_str(&format!("Host: {daemon}\r\n")),
            _ if lower.starts_with("connection:") => {}
            // HTTP/1.0: the answer comes as it is and ends with the connection.
            _ => head.push_str(&line.replace("HTTP/1.1", "HTTP/1.0")),
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut upstream = TcpStream::connect(daemon).ok()?;
    upstream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
    upstream.write_all(&body).ok()?;

    let mut answer = BufReader::new(upstream);
    let (mut head, mut json) = (String::new(), false);
    loop {
        let mut line = String::new();
        answer.read_line(&mut line).ok()?;
        let lower = line.to_ascii_lowercase();
        json = json
            || (lower.starts_with("content-type:") && lower.contains("json") && !lower.contains("ndjson"));
        match lower.as_str() {
            "\r\n" | "" => break,
            _ if ["content-length:", "connection:"].iter().any(|name| lower.starts_with(name)) => {}
            _ => head.push_str(&line),
        }
    }
    client.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).ok()?;
    if !json {
        return std::io::copy(&mut answer, &mut client).map(drop).ok();
    }
    let mut body = Vec::new();
    answer.read_to_end(&mut body).ok()?;
    let mut value: Value = serde_json::from_slice(&body).ok()?;
    of_the_future(&mut value);
    client.write_all(value.to_string().as_bytes()).ok()
}

/// GTW-15: an older client reads every answer of a newer server: other words, more fields, a Grant it does not
/// understand, a code it does not know.
#[test]
fn gtw_15_unknown_words_do_not_crash() {
    let mut host = host();
    host.claim();
    let stage = Stage::new(&host);
    let future = Future::of(&host);
    let ana = stage.person();
    for call in CALLS {
        // Sockets are not passed on here: their messages are tried in `api`.
        if call.operation == "events_socket" || NEEDS_NETWORK.contains(&call.operation) {
            continue;
        }
        if ["auth_bootstrap", "setup_submit"].contains(&call.operation) {
            let new = self::host();
            let nobody = Who { id: String::new(), client: new.anonymous() };
            let run = (call.prepare)(&Stage::unclaimed(&new), &nobody);
            run(&Client::new(&Future::of(&new).base, None).unwrap()).unwrap();
            continue;
        }
        let who = if is_final(call.operation) { stage.person() } else { ana.clone() };
        let run = (call.prepare)(&stage, &who);
        let told = run(&future.client(who.client.token().unwrap()));
        told.unwrap_or_else(|error| panic!("{}: {error}", call.operation));
    }

    let client = future.client(ana.client.token().unwrap());
    let me = client.whoami().unwrap();
    assert_eq!((me.user.role.as_str(), me.via.as_str()), ("of-the-future owner", "of-the-future login"));
    let pass = client.mint_pass(&crate::calls::new_pass()).unwrap().pass;
    assert!(matches!(pass.grant, ShownGrant::Newer(_)), "{pass:?}");
    let pass = ana.client.mint_pass(&crate::calls::new_pass()).unwrap().pass;
    assert!(matches!(pass.grant, ShownGrant::Known(_)), "{pass:?}");
    let refused = client.user("usr_0").unwrap_err();
    assert_eq!((refused.code(), refused.status()), (Some(Code::Unknown), Some(404)), "{refused}");
}

/// GTW-15: what answers may do, requests may not: a word or a field that this server does not know is refused,
/// and nothing happens.
#[test]
fn gtw_15_unknown_words_are_never_taken_in_requests() {
    let mut host = host();
    host.claim();
    let stage = Stage::new(&host);
    let (worktree, someone) = (stage.worktree(), stage.someone());
    let owner = stage.owner();
    let state = || {
        let users = serde_json::to_value(owner.users(None, None, None).unwrap().items).unwrap();
        let trees =
            serde_json::to_value(owner.worktrees(&api::WorktreeFilter::default()).unwrap().items).unwrap();
        let keys = owner.keys(&host.owner().id, None).unwrap().items.len();
        let passes = owner.passes(&host.owner().id, None).unwrap().items.len();
        (users, trees, keys, passes)
    };
    let before = state();
    let user =
        json!({ "email": "q@example.org", "name": "Q", "role": "quantum", "password": tests::PASSWORD });
    let tree = json!({ "repo": stage.repo, "name": "q", "about": "", "tier": "quantum" });
    let grant = |grant: Value| json!({ "label": "q", "grant": grant });
    for (method, path, body) in [
        ("POST", "/api/v1/users".to_owned(), user),
        ("PATCH", format!("/api/v1/users/{someone}"), json!({ "role": "quantum" })),
        ("PATCH", format!("/api/v1/users/{someone}"), json!({ "name": "Q", "halo": true })),
        ("POST", "/api/v1/worktrees".to_owned(), tree),
        ("PUT", format!("/api/v1/worktrees/{worktree}/tier"), json!({ "tier": "quantum" })),
        ("POST", "/api/v1/keys".to_owned(), json!({ "label": "q", "scope": "quantum" })),
        ("POST", "/api/v1/passes".to_owned(), grant(json!({ "orbits": { "allow": ["*"] } }))),
        ("POST", "/api/v1/passes".to_owned(), grant(json!({ "paths": { "allow": ["rwx:/work"] } }))),
        ("GET", "/api/v1/ledger?decision=quantum".to_owned(), Value::Null),
    ] {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut answer = owner.send(method, &path, &[("content-type", "application/json")], bytes).unwrap();
        let problem: api::Problem = answer.body_mut().read_json().unwrap();
        assert_eq!((answer.status().as_u16(), problem.code), (422, Code::Unprocessable), "{path} {body}");
    }
    assert_eq!(state(), before, "nothing changed");
}
