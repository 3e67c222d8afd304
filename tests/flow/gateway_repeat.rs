//! Writes are repeatable under an `Idempotency-Key`.

use std::io::Write;

use api::{LedgerFilter, WorktreeFilter};
use tests::Host;

use crate::gateway_wire::{Reply, ask, connect, psql, request, until};
use crate::ledger_full::Disk;

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

/// GTW-14: a connection that is lost during the commit says neither yes nor no: the answer tells to look, and the
/// key stays taken.
#[test]
fn gtw_14_an_unknown_outcome_keeps_the_key() {
    let url = tests::database();
    let host =
        Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &tests::master_key()).start();
    let repo = host.repo("demo");
    psql(
        &url,
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON worktrees DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
         EXECUTE FUNCTION slow()",
    );
    let headers = [JSON, ("Idempotency-Key", "lost")];
    let first = std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&host, "POST", "/api/v1/worktrees", &headers, &worktree(&repo, "a")));
        until("it is being committed", || {
            let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                        WHERE datname = current_database() AND state = 'active' AND query = 'COMMIT'";
            psql(&url, kill) == "1"
        });
        asked.join().unwrap()
    });
    assert_eq!(first.status, 500, "{}", first.text());
    assert!(first.problem().detail.contains("it may have happened"), "{}", first.text());
    psql(&url, "DROP TRIGGER slow ON worktrees");
    let again = ask(&host, "POST", "/api/v1/worktrees", &headers, &worktree(&repo, "a"));
    assert!([409, 500].contains(&again.status), "{}", again.text());
    assert_eq!(host.owner().client.worktrees(&WorktreeFilter::default()).unwrap().items.len(), 0);
    let filter = LedgerFilter { action: Some("worktree.create".into()), ..LedgerFilter::default() };
    assert_eq!(host.ledger(&filter).len(), 2, "allowed and failed, once");
}

/// GTW-14, LED-02: a key does not keep what narrows from happening on a full disk.
#[test]
fn gtw_14_a_keyed_narrowing_happens_on_a_full_disk() {
    let disk = Disk::small("32m");
    if !disk.is_own() {
        return; // only root can mount a small disk
    }
    let host = Host::builder().in_folder(&disk.folder()).start();
    let repo = host.repo("demo");
    let made: Vec<_> = (0..5).map(|n| host.user(&format!("u-{n}"), "member")).collect();
    disk.fill();
    for (n, user) in made.iter().enumerate() {
        let key = format!("narrow-{n}");
        let path = format!("/api/v1/users/{}/disable", user.id);
        for _ in 0..2 {
            let reply = ask(&host, "POST", &path, &[("Idempotency-Key", key.as_str())], b"");
            assert!(reply.status < 300, "{n}: {}", reply.text());
        }
        assert_eq!(user.client.whoami().unwrap_err().status(), Some(401));
    }
    let reply =
        ask(&host, "POST", "/api/v1/worktrees", &[JSON, ("Idempotency-Key", "wide")], &worktree(&repo, "a"));
    assert_eq!(reply.status, 503, "{}", reply.text());
}

/// GTW-14: an answer that is too long to be kept is given all the same.
#[test]
fn gtw_14_a_long_answer_is_given_and_not_kept() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    for n in 0..900 {
        let body = format!(r#"{{"repo":"{repo}","name":"w-{n}","about":"{}"}}"#, "y".repeat(900));
        assert_eq!(ask(&host, "POST", "/api/v1/worktrees", &[JSON], body.as_bytes()).status, 201);
    }
    let headers = [("Idempotency-Key", "long")];
    let reply = ask(&host, "POST", "/api/v1/backup", &headers, b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.body.len() > 1 << 20, "it is long: {}", reply.body.len());
    let again = ask(&host, "POST", "/api/v1/backup", &headers, b"");
    assert_eq!(again.status, 409, "{}", again.text());
}
