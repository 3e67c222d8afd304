//! Writes are repeatable under an `Idempotency-Key`.

use std::io::Write;

use api::{LedgerFilter, WorktreeFilter};
use tests::Host;

use crate::gateway_wire::{Reply, ask, connect, psql, request, until};

const JSON: (&str, &str) = ("content-type", "application/json");

fn worktree(repo: &str, name: &str) -> Vec<u8> {
    format!(r#"{{"repo":"{repo}","name":"{name}"}}"#).into_bytes()
}

/// GTW-14: the first answer is the only one, also after a restart; another request under the key is refused.
#[test]
fn gtw_14_a_repetition_gets_the_first_answer() {
    let mut host = Host::start();
    let repo = host.repo("demo");
    let headers = [JSON, ("Idempotency-Key", "one")];
    let first = ask(&host, "POST", "/api/v1/worktrees", &headers, &worktree(&repo, "a"));
    assert_eq!((first.status, first.header("idempotent-replay")), (201, None));
    host.restart();
    let head = host.ledger_head();
    let second = ask(&host, "POST", "/api/v1/worktrees", &headers, &worktree(&repo, "a"));
    assert_eq!((second.status, second.header("idempotent-replay")), (201, Some("true")));
    assert_eq!(second.body, first.body);
    assert_eq!(host.ledger_head(), head, "nothing happened, so nothing was recorded");

    let other = ask(&host, "POST", "/api/v1/worktrees", &headers, &worktree(&repo, "b"));
    assert_eq!(other.status, 422);
    let elsewhere = ask(&host, "POST", "/api/v1/repos", &headers, &worktree(&repo, "a"));
    assert_eq!(elsewhere.status, 422, "the path is part of the request");
    assert_eq!(host.owner().client.worktrees(&WorktreeFilter::default()).unwrap().items.len(), 1);

    // A refusal is an answer too; and keys belong to their caller.
    let refused = [JSON, ("Idempotency-Key", "two")];
    assert_eq!(ask(&host, "POST", "/api/v1/worktrees", &refused, &worktree(&repo, "a")).status, 409);
    host.owner()
        .client
        .delete_worktree(&serde_json::from_slice::<api::Worktree>(&first.body).unwrap().id)
        .unwrap();
    assert_eq!(ask(&host, "POST", "/api/v1/worktrees", &refused, &worktree(&repo, "a")).status, 409);
    let bo = host.user("bo", "member");
    let sent = bo.client.send("POST", "/api/v1/worktrees", &headers, worktree(&repo, "c")).unwrap();
    assert_eq!(sent.status(), 201);
    for bad in ["", "a b", &"x".repeat(129)] {
        let reply =
            ask(&host, "POST", "/api/v1/worktrees", &[JSON, ("Idempotency-Key", bad)], &worktree(&repo, "d"));
        assert_eq!(reply.status, 400, "{bad:?}");
    }
}

/// GTW-14: fifty at once have one effect and one answer.
#[test]
fn gtw_14_fifty_parallel_requests_have_one_effect() {
    let host = Host::start();
    let repo = host.repo("demo");
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..50)
            .map(|_| {
                let (host, repo) = (&host, &repo);
                scope.spawn(move || {
                    ask(
                        host,
                        "POST",
                        "/api/v1/worktrees",
                        &[JSON, ("Idempotency-Key", "k")],
                        &worktree(repo, "a"),
                    )
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(replies.iter().all(|reply| reply.status == 201 && reply.body == replies[0].body), "{replies:?}");
    assert_eq!(replies.iter().filter(|reply| reply.header("idempotent-replay").is_none()).count(), 1);
    let filter = LedgerFilter { action: Some("worktree.create".into()), ..LedgerFilter::default() };
    assert_eq!(host.ledger(&filter).len(), 2, "allowed and done, once");
}

/// GTW-14: a caller who hangs up comes back for the answer.
#[test]
fn gtw_14_a_caller_who_went_away_finds_the_answer() {
    let host = Host::start();
    let repo = host.repo("demo");
    let token = host.owner().client.token().unwrap();
    let headers = [JSON, ("Idempotency-Key", "gone")];
    for n in 0..20 {
        let key = format!("gone-{n}");
        let headers = [headers[0], ("Idempotency-Key", key.as_str())];
        let bytes =
            request(&host, token, "POST", "/api/v1/worktrees", &headers, &worktree(&repo, &format!("w-{n}")));
        let mut stream = connect(&host);
        stream.write_all(&bytes).unwrap();
        drop(stream);
        let again = ask(&host, "POST", "/api/v1/worktrees", &headers, &worktree(&repo, &format!("w-{n}")));
        assert_eq!(again.status, 201, "{}", again.text());
    }
    let made = host.owner().client.worktrees(&WorktreeFilter::default()).unwrap().items.len();
    assert_eq!(made, 20, "each once");
    until("no record is left open", || {
        let entries =
            host.ledger(&LedgerFilter { action: Some("worktree.create".into()), ..LedgerFilter::default() });
        let count = |word: &str| entries.iter().filter(|entry| entry.decision == word).count();
        count("allowed") == 20 && count("done") == 20
    });
}

/// GTW-14: an answer that holds a secret is kept sealed.
#[test]
fn gtw_14_a_remembered_secret_is_sealed() {
    let url = tests::database();
    let host =
        Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &tests::master_key()).start();
    let headers = [JSON, ("Idempotency-Key", "secret")];
    let body = br#"{"label":"ci","scope":"runs:read"}"#;
    let first = ask(&host, "POST", "/api/v1/keys", &headers, body);
    assert_eq!(first.status, 201);
    let made: api::NewApiKey = serde_json::from_slice(&first.body).unwrap();
    assert_eq!(ask(&host, "POST", "/api/v1/keys", &headers, body).body, first.body);
    let rows = psql(&url, "SELECT count(*) FROM idempotency WHERE status = 201");
    assert_eq!(rows, "1");
    for table in ["idempotency", "api_keys", "ledger_index", "events"] {
        let dump =
            psql(&url, &format!("SELECT encode(convert_to(t::text, 'UTF8'), 'escape') FROM {table} t"));
        let secret = made.secret.0.rsplit('_').next().unwrap();
        assert!(!dump.contains(secret), "{table}");
    }
    let raw = psql(&url, "SELECT encode(answer, 'escape') FROM idempotency");
    assert!(!raw.is_empty() && !raw.contains("pal_") && !raw.contains("label"), "{raw}");
}
