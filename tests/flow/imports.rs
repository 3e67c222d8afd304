//! Transcripts of Claude Code that become sessions: everything in its order, hostile lines at their places, nothing of it begun.

use std::io::Write;
use std::path::PathBuf;

use api::{ImportRequest, Session, Step};
use serde_json::{Value, json};
use tests::{Host, Person, scale};

use crate::calls::{new_import, new_session};
use crate::sessions::{quiet, steps};

fn written(host: &Host, name: &str, lines: &[Vec<u8>]) -> PathBuf {
    let path = host.place().join(name);
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for line in lines {
        file.write_all(line).unwrap();
        file.write_all(b"\n").unwrap();
    }
    path
}

/// What `palisade session import` made of a file.
fn imported(host: &Host, who: &Person, file: &PathBuf) -> Session {
    let mut command = host.command("palisade");
    command
        .args(["--json", "--url", host.base(), "session", "import"])
        .arg(file)
        .args(["--worktree", "demo"]);
    command.args(["--title", "an old talk"]).env("PALISADE_API_KEY", who.client.token().unwrap());
    let out = command.output().unwrap();
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["ok"], true, "{document}");
    serde_json::from_value(document["result"].clone()).unwrap()
}

fn all_tasks(who: &Person, session: &str) -> Vec<api::Task> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = who.client.tasks(session, after).unwrap();
        all.extend(page.items);
        match page.next {
            Some(next) => after = next,
            None => return all,
        }
    }
}

/// SES-12: a long transcript has its order and its tasks afterwards.
#[test]
fn ses_12_a_transcript_of_ten_thousand_messages_keeps_its_order_and_its_tasks() {
    let host = quiet();
    let owner = host.owner();
    let _worktree = host.tree(owner, "demo", "session");
    let turns = scale(10_000, 2_000) / 4;
    let mut lines = Vec::new();
    for n in 0..turns {
        let at = format!("2026-01-02T{:02}:{:02}:{:02}.000Z", n / 3_600, n / 60 % 60, n % 60);
        let record = |who: &str, content: Value| {
            json!({ "type": who, "uuid": format!("u{n}"), "parentUuid": null, "isSidechain": false, "timestamp": at, "sessionId": "s", "cwd": "/w",
                "message": { "role": who, "content": content } }).to_string().into_bytes()
        };
        lines.push(record("user", json!(format!("ask {n}"))));
        lines.push(record("assistant", json!([{ "type": "text", "text": format!("say {n}") }])));
        lines.push(record("assistant", json!([{ "type": "tool_use", "id": format!("t{n}"), "name": "Read", "input": { "file_path": format!("/w/{n}") } }])));
        lines.push(record(
            "user",
            json!([{ "type": "tool_result", "tool_use_id": format!("t{n}"), "content": format!("got {n}") }]),
        ));
    }
    let head = host.ledger_head();
    let session = imported(&host, owner, &written(&host, "long.jsonl", &lines));
    assert_eq!(session.imported, Some(i64::try_from(lines.len()).unwrap()));
    assert!(session.closed_at.is_some() && session.title == "an old talk");
    let tasks = all_tasks(owner, &session.id);
    let asked: Vec<String> = tasks.iter().map(|task| task.prompt.clone()).collect();
    assert_eq!(asked, (0..turns).map(|n| format!("ask {n}")).collect::<Vec<_>>());
    assert!(tasks.iter().all(|task| task.state == "done"));
    let told = steps(owner, &session.id);
    assert_eq!(told.len(), lines.len());
    for (n, turn) in told.chunks(4).enumerate() {
        let kinds: Vec<&str> = turn.iter().map(|step| step.kind.as_str()).collect();
        assert_eq!(kinds, ["user", "assistant", "tool_use", "tool_result"]);
        assert_eq!(
            (&turn[0].body["text"], &turn[1].body["text"]),
            (&json!(format!("ask {n}")), &json!(format!("say {n}")))
        );
        assert_eq!(
            (&turn[2].body["call"], &turn[3].body["content"][0]["text"]),
            (&json!(format!("t{n}")), &json!(format!("got {n}")))
        );
        assert!(turn.iter().all(|step| step.task.as_deref() == Some(&tasks[n].id)), "also across pages");
    }
    assert!(told.iter().enumerate().all(|(n, step)| step.seq == i64::try_from(n).unwrap() + 1));
    let entries: Vec<_> =
        host.since(head).into_iter().filter(|entry| entry.action == "session.import").collect();
    assert_eq!(entries.len(), 2 * lines.len().div_ceil(500), "each page is on the ledger");

    // It is for reading: nothing is begun in it, and it says so.
    let error = owner.client.prompt_session(&session.id, "go on").unwrap_err();
    assert_eq!(error.status(), Some(409), "{error}");
    assert!(error.to_string().contains("closed"), "{error}");
    assert_eq!(owner.client.verify_ledger().unwrap().verdict, "intact");
}

/// SES-12, SES-08: hostile lines are errors at their places; what is secret is nowhere.
#[test]
fn ses_12_hostile_lines_are_errors_at_their_places() {
    let host = quiet();
    let owner = host.owner();
    let _worktree = host.tree(owner, "demo", "session");
    let secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let says =
        |text: &str| json!({ "type": "user", "message": { "content": text } }).to_string().into_bytes();
    let deep = format!(
        "{{\"type\":\"user\",\"message\":{{\"content\":{}{}}}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let lines = vec![
        says("one"),
        b"{\"type\":\"user\",".to_vec(),
        vec![b'x'; 100 << 20],
        says(&format!("use {secret} \u{1b}]52;c;AAAA\u{7}")),
        deep.into_bytes(),
        vec![0xff, 0xfe, b'{'],
        Vec::new(),
        says(&"\"".repeat(600 << 10)),
        says("last"),
    ];
    let session = imported(&host, owner, &written(&host, "hostile.jsonl", &lines));
    let told: Vec<Step> = steps(owner, &session.id);
    let seen: Vec<(i64, &str)> =
        told.iter().map(|step| (step.body["line"].as_i64().unwrap(), step.kind.as_str())).collect();
    let expected = [
        (1, "user"),
        (2, "error"),
        (3, "error"),
        (4, "user"),
        (5, "error"),
        (6, "error"),
        (8, "error"),
        (9, "user"),
    ];
    assert_eq!(seen, expected);
    assert!(told[2].body["text"].as_str().unwrap().contains("104857600"), "{:?}", told[2]);
    let all = serde_json::to_string(&(&told, all_tasks(owner, &session.id))).unwrap();
    assert!(!all.contains("k1L2m3N4") && !all.contains("\\u001b") && !all.contains("\\u0007"), "{all}");
    assert!(!host.log().contains("k1L2m3N4"));
    assert!(host.ledger(&api::LedgerFilter::default()).iter().all(|entry| !entry.line.contains("k1L2m3N4")));
}

/// SES-12: the same on the other database.
#[test]
fn ses_12_transcripts_are_kept_on_postgresql_too() {
    let host = Host::builder().set("limits.requests_per_minute", "0").on_postgresql().start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let first = owner.client.import_session(&ImportRequest { last: false, ..new_import(&worktree) }).unwrap();
    let lines: Vec<api::Hidden> = [
        json!({ "type": "assistant", "timestamp": "2026-01-02T03:04:05Z", "message": { "content": "a\u{0}b" } }).to_string(),
        "junk\u{0}".to_owned(),
    ]
    .map(api::Hidden)
    .to_vec();
    let page = ImportRequest { session: Some(first.id.clone()), after: 1, lines, ..new_import(&worktree) };
    assert_eq!(owner.client.import_session(&page).unwrap().imported, Some(3));
    let kinds: Vec<String> = steps(owner, &first.id).into_iter().map(|step| step.kind).collect();
    assert_eq!(kinds, ["user", "assistant", "error"]);
    assert_eq!(all_tasks(owner, &first.id).len(), 1);
}

/// A page is kept once, behind those before it, by whoever brought them, and nowhere else.
#[test]
fn ses_12_pages_are_kept_once_and_in_order() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let (member, viewer) = (host.user("member", "member"), host.user("viewer", "viewer"));
    let page = |session: Option<&str>, after: i64, last: bool| ImportRequest {
        session: session.map(str::to_owned),
        after,
        last,
        ..new_import(&worktree)
    };
    let status = |who: &Person, page: &ImportRequest| who.client.import_session(page).unwrap_err().status();
    assert_eq!(status(&viewer, &page(None, 0, true)), Some(403));
    assert_eq!(status(owner, &page(None, 1, true)), Some(409), "a first page has nothing before it");
    assert_eq!(status(owner, &page(None, -1, true)), Some(422));
    let many = ImportRequest { lines: vec![api::Hidden(String::new()); 501], ..page(None, 0, true) };
    assert_eq!(status(owner, &many), Some(422));
    let id = member.client.import_session(&page(None, 0, false)).unwrap().id;
    for (who, after, expected) in [(&member, 0, 409), (&member, 2, 409), (owner, 1, 422)] {
        let head = host.ledger_head();
        assert_eq!(status(who, &page(Some(&id), after, false)), Some(expected), "{after}");
        assert!(host.ledger_head() > head, "it is on the record");
    }
    let other = member.client.create_session(&new_session(&worktree)).unwrap().id;
    assert_eq!(status(&member, &page(Some(&other), 0, false)), Some(409), "a session is no transcript");
    assert_eq!(member.client.import_session(&page(Some(&id), 1, true)).unwrap().imported, Some(2));
    assert_eq!(status(&member, &page(Some(&id), 2, true)), Some(409), "it is whole");
    assert_eq!(steps(&member, &id).len(), 2);
    let secret = ImportRequest {
        title: Some("ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8".into()),
        ..page(None, 0, true)
    };
    assert_eq!(status(&member, &secret), Some(422), "a title is shown to everyone");
}
