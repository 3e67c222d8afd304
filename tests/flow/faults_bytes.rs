//! Requests that make no sense are a clear 4xx, change nothing, and are on the record if they tried something.

use api::WorktreeFilter;
use tests::Host;

use crate::gateway_wire::{ask, told};

const JSON: (&str, &str) = ("content-type", "application/json");

/// GTW-09, LED-01: each kind of bad body.
#[test]
fn gtw_09_malformed_bodies_are_refused_and_recorded_once() {
    let host = Host::start();
    let repo = host.repo("demo");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = format!(r#"{{"repo":{}1{}}}"#, r#"{"a":"#.repeat(5_000), "}".repeat(5_000));
    let long = format!(r#"{{"repo":"{repo}","name":"{}"}}"#, "a".repeat(500_000));
    let with = |more: &str| format!(r#"{{"repo":"{repo}","name":"x"{more}}}"#).into_bytes();
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        ("nothing", Vec::new(), 400),
        ("cut", br#"{"repo":"#.to_vec(), 400),
        ("no JSON", b"hello".to_vec(), 400),
        ("two documents", b"{} {}".to_vec(), 422),
        ("bad UTF-8", b"{\"repo\":\"\xff\xfe\"}".to_vec(), 400),
        ("a lone surrogate", br#"{"repo":"\ud800"}"#.to_vec(), 400),
        ("a byte order mark", "\u{feff}{}".into(), 400),
        ("deep", deep.into_bytes(), 422),
        ("a list of the values", format!(r#"["{repo}","x","",null]"#).into_bytes(), 422),
        ("deep inside", deep_object.into_bytes(), 422),
        ("an array", b"[]".to_vec(), 422),
        ("null", b"null".to_vec(), 422),
        ("a number for a text", br#"{"repo":7,"name":"x"}"#.to_vec(), 422),
        ("a missing field", br#"{"name":"x"}"#.to_vec(), 422),
        ("an unknown field", with(r#","admin":true"#), 422),
        ("a field twice", with(r#","name":"y""#), 422),
        ("null where nothing may be", with(r#","about":null"#), 422),
        ("a name too long", long.into_bytes(), 422),
        ("a NUL", with(r#","about":"\u0000""#), 422),
        ("an escape", with(r#","about":"\u001b[2J""#), 422),
        ("an unknown word", with(r#","tier":"root""#), 422),
        (
            "another kind of id",
            format!(r#"{{"repo":"usr_{}","name":"x"}}"#, "0".repeat(32)).into_bytes(),
            422,
        ),
        ("a number too large", br#"{"repo":1e999,"name":"x"}"#.to_vec(), 400),
    ];
    for (what, body, status) in cases {
        let head = host.ledger_head();
        let reply = ask(&host, "POST", "/api/v1/worktrees", &[JSON], &body);
        let close = reply.status == status || (status == 422 && reply.status == 400);
        assert!(close, "{what}: {} {}", reply.status, reply.text());
        assert!(reply.problem().detail.len() < 400, "{what}: {}", reply.text());
        assert_eq!(told(&host.since(head)), [("worktree.create".to_owned(), "refused".to_owned())], "{what}");
    }
    assert!(host.owner().client.worktrees(&WorktreeFilter::default()).unwrap().items.is_empty());
}

/// GTW-09, LED-01: the same for every other route that takes a body or an id.
#[test]
fn gtw_09_every_writing_route_records_a_malformed_attempt() {
    let host = Host::start();
    let head = host.ledger_head();
    let zero = "0".repeat(32);
    let routes = [
        ("POST", "/api/v1/users".to_owned(), "user.create"),
        ("PATCH", format!("/api/v1/users/usr_{zero}"), "user.update"),
        ("POST", format!("/api/v1/users/usr_{zero}/password"), "user.reset"),
        ("POST", "/api/v1/keys".to_owned(), "key.create"),
        ("POST", "/api/v1/pairings".to_owned(), "pairing.offer"),
        ("POST", "/api/v1/passes".to_owned(), "pass.mint"),
        ("POST", "/api/v1/repos".to_owned(), "repo.create"),
        ("PATCH", format!("/api/v1/worktrees/wt_{zero}"), "worktree.update"),
        ("PUT", format!("/api/v1/worktrees/wt_{zero}/tier"), "worktree.set_tier"),
        ("PUT", format!("/api/v1/worktrees/wt_{zero}/sharing"), "worktree.set_sharing"),
        ("POST", format!("/api/v1/worktrees/wt_{zero}/merge"), "worktree.merge"),
        ("POST", format!("/api/v1/worktrees/wt_{zero}/push"), "worktree.push"),
        ("POST", "/api/v1/policies".to_owned(), "policy.add"),
        ("POST", "/api/v1/auth/password".to_owned(), "password.change"),
        ("POST", "/api/v1/auth/totp/confirm".to_owned(), "totp.change"),
        ("POST", "/api/v1/auth/totp/remove".to_owned(), "totp.change"),
        ("DELETE", "/api/v1/users/x".to_owned(), "user.delete"),
        ("POST", "/api/v1/users/x/disable".to_owned(), "user.disable"),
        ("POST", "/api/v1/users/x/sign-out".to_owned(), "signin.end_all"),
        ("DELETE", "/api/v1/keys/x".to_owned(), "key.revoke"),
        ("DELETE", "/api/v1/passes/x".to_owned(), "pass.revoke"),
        ("DELETE", "/api/v1/repos/x".to_owned(), "repo.delete"),
        ("POST", "/api/v1/repos/x/fetch".to_owned(), "repo.fetch"),
        ("DELETE", "/api/v1/worktrees/x".to_owned(), "worktree.delete"),
        ("POST", "/api/v1/worktrees/x/archive".to_owned(), "worktree.archive"),
        ("POST", "/api/v1/worktrees/x/restore".to_owned(), "worktree.restore"),
        ("PUT", "/api/v1/worktrees/x/owners/y".to_owned(), "worktree.set_owners"),
    ];
    let mut expected = Vec::new();
    for (method, path, action) in routes {
        let reply = ask(&host, method, &path, &[JSON], b"{");
        assert!([400, 404].contains(&reply.status), "{method} {path}: {}", reply.text());
        reply.problem();
        expected.push((action.to_owned(), "refused".to_owned()));
    }
    assert_eq!(told(&host.since(head)), expected);
    let quiet = host.ledger_head();
    assert_eq!(ask(&host, "POST", "/api/v1/policies/try", &[JSON], b"{").status, 400);
    assert_eq!(ask(&host, "GET", "/api/v1/users/x", &[], b"").status, 404);
    assert_eq!(host.ledger_head(), quiet, "a read that makes no sense tried nothing");
}

/// LED-01: values that are well formed and do not do are attempts as well.
#[test]
fn led_01_values_that_do_not_do_are_recorded_once() {
    let host = Host::start();
    let password = tests::PASSWORD;
    let cases = [
        (
            "/api/v1/users",
            r#"{"email":"a","name":"b","role":"member","password":"correct horse battery"}"#.to_owned(),
            "user.create",
        ),
        (
            "/api/v1/users",
            r#"{"email":"a@b.c","name":"b","role":"king","password":"correct horse battery"}"#.to_owned(),
            "user.create",
        ),
        (
            "/api/v1/users",
            r#"{"email":"a@b.c","name":"b","role":"member","password":"short"}"#.to_owned(),
            "user.create",
        ),
        ("/api/v1/users", r#"{"email":"a@b.c","name":"b","role":"member"}"#.to_owned(), "user.create"),
        ("/api/v1/keys", r#"{"label":"x","scope":"root"}"#.to_owned(), "key.create"),
        ("/api/v1/keys", r#"{"label":"x","scope":"admin","days":0}"#.to_owned(), "key.create"),
        ("/api/v1/passes", r#"{"label":"x","grant":{},"minutes":0}"#.to_owned(), "pass.mint"),
        ("/api/v1/repos", r#"{"name":"x","origin":"file:///etc"}"#.to_owned(), "repo.create"),
        (
            "/api/v1/policies",
            r#"{"id":"x","text":"permit(principal, action, resource);"}"#.to_owned(),
            "policy.add",
        ),
        (
            "/api/v1/policies",
            r#"{"id":"X Y","text":"forbid(principal, action, resource);"}"#.to_owned(),
            "policy.add",
        ),
        ("/api/v1/auth/password", format!(r#"{{"current":"{password}","new":"short"}}"#), "password.change"),
        (
            "/api/v1/auth/totp/confirm",
            format!(r#"{{"handle":"zz","code":"123456","password":"{password}"}}"#),
            "totp.change",
        ),
    ];
    for (path, body, action) in cases {
        let head = host.ledger_head();
        let reply = ask(&host, "POST", path, &[JSON], body.as_bytes());
        assert_eq!(reply.status, 422, "{path} {body}: {}", reply.text());
        assert_eq!(told(&host.since(head)), [(action.to_owned(), "refused".to_owned())], "{path} {body}");
    }
}

/// LED-05: a ledger that was tampered with is exported as it is, whatever bytes stand in it, and fails elsewhere too.
#[test]
fn led_05_a_ledger_with_bytes_that_are_no_text_is_exported_as_it_is() {
    let host = Host::start();
    drop(host.repo("demo"));
    let segment = host.data().join("ledger/segments/00000001.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    let place = bytes.len() / 2;
    bytes[place] = 0xff;
    let line_end = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // And a line that is longer than any entry.
    drop(bytes.splice(line_end..line_end, vec![b'x'; 200_000].into_iter().chain([b'\n'])));
    std::fs::write(&segment, &bytes).unwrap();
    let copy = host.place().join("copy");
    let mut command = host.command("palisade");
    command
        .env("PALISADE_URL", host.base())
        .env("PALISADE_API_KEY", host.owner().client.token().unwrap())
        .args(["ledger", "export"])
        .arg(&copy);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(copy.join("segments/00000001.seg")).unwrap() == bytes, "byte for byte");
}
