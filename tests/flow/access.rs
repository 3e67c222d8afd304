//! What may be done: tiers, hidden things, live rights, added policies.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use api::{Client, ClientError, Code, LedgerFilter, TryPolicyRequest, WorktreeFilter};
use serde_json::Value;
use tests::{Host, Person};

use crate::calls::described;

/// Every route to a worktree, what it is called here, and the row of the tier table (`spec/access.md`) that it
/// belongs to. Sessions, prompts, approvals and environments add theirs.
const OPERATIONS: &[(&str, &str, Row)] = &[
    ("GET /api/v1/worktrees/{worktree}", "read", Row::Know),
    ("GET /api/v1/worktrees", "list", Row::Know),
    ("GET /api/v1/worktrees/{worktree}/log", "log", Row::Know),
    ("GET /api/v1/worktrees/{worktree}/diff", "diff", Row::Know),
    ("GET /api/v1/worktrees/{worktree}/files", "files", Row::Know),
    ("PATCH /api/v1/worktrees/{worktree}", "update", Row::Change),
    ("PUT /api/v1/worktrees/{worktree}/tier", "tier", Row::Change),
    ("PUT /api/v1/worktrees/{worktree}/sharing", "sharing", Row::Own),
    ("PUT /api/v1/worktrees/{worktree}/owners/{user}", "add owner", Row::Own),
    ("DELETE /api/v1/worktrees/{worktree}/owners/{user}", "remove owner", Row::Own),
    ("POST /api/v1/worktrees/{worktree}/archive", "archive", Row::Own),
    ("POST /api/v1/worktrees/{worktree}/merge", "merge", Row::Change),
    ("POST /api/v1/worktrees/{worktree}/push", "push", Row::Change),
    ("POST /api/v1/worktrees/{worktree}/restore", "restore", Row::Own),
    ("DELETE /api/v1/worktrees/{worktree}", "delete", Row::Own),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// know that the Worktree exists
    Know,
    /// change, stop, archive any Session; change the Tier
    Change,
    /// start and stop environments; add and remove owners; archive or delete the Worktree
    Own,
}

/// The table itself, for members who do not own.
fn tier_allows(tier: &str, row: Row) -> bool {
    match row {
        Row::Know => tier != "none",
        Row::Change => tier == "all",
        Row::Own => false,
    }
}

fn expected(who: &str, tier: &str, row: Row) -> bool {
    match who {
        "owner of it" | "admin" | "owner of all" => true,
        "member" => tier_allows(tier, row),
        // A viewer never gets more than `view`, by a tier or by owning.
        "viewer" => row == Row::Know && tier != "none",
        "viewing owner" => row == Row::Know,
        other => panic!("{other}"),
    }
}

fn operate(client: &Client, what: &str, id: &str, bo: &str) -> Result<(), ClientError> {
    match what {
        "read" => client.worktree(id).map(drop),
        "list" => {
            let all = client.worktrees(&WorktreeFilter {
                archived: true,
                limit: Some(100),
                ..Default::default()
            })?;
            let listed = all.items.iter().any(|one| one.id == id);
            if listed { Ok(()) } else { Err(ClientError::Unexpected("not listed".into())) }
        }
        "update" => client.update_worktree(id, "changed").map(drop),
        "tier" => client.set_tier(id, "prompt").map(drop),
        "sharing" => client.set_sharing(id, true).map(drop),
        "add owner" => client.add_owner(id, bo).map(drop),
        "remove owner" => client.remove_owner(id, bo).map(drop),
        "archive" => client.archive_worktree(id).map(drop),
        "merge" => reached(client.merge_worktree(id, &api::MergeRequest::default()).map(drop)),
        "push" => reached(client.push_worktree(id, &api::PushRequest::default()).map(drop)),
        "restore" => reached(client.restore_worktree(id).map(drop)),
        "log" => reached(client.worktree_log(id, None).map(drop)),
        "diff" => reached(client.worktree_diff(id).map(drop)),
        "files" => reached(client.worktree_files(id, "").map(drop)),
        "delete" => client.delete_worktree(id),
        other => panic!("{other}"),
    }
}

/// These worktrees have no tree to show: whoever is told so was let through.
fn reached(done: Result<(), ClientError>) -> Result<(), ClientError> {
    done.or_else(|error| if error.status() == Some(409) { Ok(()) } else { Err(error) })
}

/// ACC-03: a route to a worktree that has no row of the table is a gap in what is proved below.
#[test]
fn acc_03_every_route_to_a_worktree_has_its_row() {
    let host = Host::start();
    let routes: BTreeSet<String> = described(&host.owner().client.openapi().unwrap())
        .into_values()
        .map(|one| format!("{} {}", one.method, one.path))
        .filter(|route| route.contains("{worktree}") || route == "GET /api/v1/worktrees")
        .collect();
    let rows: BTreeSet<String> = OPERATIONS.iter().map(|(route, ..)| (*route).to_owned()).collect();
    assert_eq!(rows, routes, "what the daemon serves is on the right");
    assert_eq!(rows.len(), OPERATIONS.len(), "each once");
}

#[test]
fn acc_03_tiers_mean_exactly_the_table() {
    prove_the_table(true);
}

/// ACC-23: one trusted circle is the same table, in which every worktree stands under `all`.
#[test]
fn acc_23_without_the_division_the_table_is_that_of_tier_all() {
    prove_the_table(false);
}

fn prove_the_table(divided: bool) {
    let setting = if divided { "true" } else { "false" };
    let host =
        Host::builder().set("limits.requests_per_minute", "0").set("access.worktree_rbac", setting).start();
    let repo = host.repo("demo");
    let creator = host.user("creator", "member");
    let bo = host.user("bo", "member");
    let callers = [
        ("owner of it", creator.clone()),
        ("admin", host.user("boss", "admin")),
        ("owner of all", host.user("chief", "owner")),
        ("member", host.user("member", "member")),
        ("viewer", host.user("viewer", "viewer")),
        ("viewing owner", host.user("viewing", "viewer")),
    ];
    let viewing = callers.last().unwrap().1.id.clone();
    // A new worktree has its creator as owner and tier `session`.
    let body = api::CreateWorktreeRequest {
        repo: repo.clone(),
        name: "plain".into(),
        about: String::new(),
        tier: None,
        branch: None,
        base: None,
    };
    let plain = creator.client.create_worktree(&body).unwrap();
    assert_eq!((plain.tier.as_str(), plain.owners.as_slice()), ("session", [creator.id.clone()].as_slice()));
    creator.client.delete_worktree(&plain.id).unwrap();
    let mut n = 0;
    for tier in ["none", "view", "session", "prompt", "all"] {
        let counts = if divided { tier } else { "all" };
        for (who, caller) in &callers {
            let make = |n: usize| {
                let made = creator.worktree(&repo, &format!("wt-{n}"), tier);
                for owner in [&bo.id, &viewing] {
                    creator.client.add_owner(&made.id, owner).unwrap();
                }
                made.id
            };
            n += 1;
            let mut id = make(n);
            for &(_, what, row) in OPERATIONS {
                let before = creator.client.worktree(&id).unwrap();
                let head = host.ledger_head();
                let done = operate(&caller.client, what, &id, &bo.id);
                let written = host.ledger_head() - head;
                let said = format!("tier {tier}, {who}, {what}: {done:?}");
                assert_eq!(done.is_ok(), expected(who, counts, row), "{said}");
                if let Err(error) = &done
                    && what != "list"
                {
                    let known = expected(who, counts, Row::Know);
                    assert_eq!(error.status(), Some(if known { 403 } else { 404 }), "{said}");
                    assert_eq!(written, 1, "one entry: {said}");
                    assert_eq!(creator.client.worktree(&id).unwrap(), before, "nothing changed: {said}");
                }
                if done.is_ok() && !matches!(what, "read" | "list" | "update" | "log" | "diff" | "files") {
                    // Each on a worktree that is as it was.
                    if what != "delete" {
                        host.owner().client.delete_worktree(&id).unwrap();
                    }
                    n += 1;
                    id = make(n);
                }
            }
            host.owner().client.delete_worktree(&id).unwrap();
        }
    }
}

pub fn without_request_id(client: &Client, method: &str, path: &str, body: &str) -> (u16, Value, Duration) {
    let headers: &[_] = if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
    let started = Instant::now();
    let mut answer = client.send(method, path, headers, body.as_bytes().to_vec()).unwrap();
    let took = started.elapsed();
    let mut value: Value = serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("request_id");
    (answer.status().as_u16(), value, took)
}

#[test]
fn acc_04_tier_none_cannot_be_told_from_absence() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let bo = host.user("bo", "member");
    let cursor = host.owner().client.events(None);
    drop(cursor);
    let hidden = host.owner().worktree(&repo, "hidden-one", "none");
    let invented = "wt_0123456789abcdef0123456789abcdef";
    let gone = host.owner().worktree(&repo, "gone", "session");
    host.owner().client.delete_worktree(&gone.id).unwrap();
    for (method, rest, body) in [
        ("GET", "", ""),
        ("PATCH", "", r#"{"about":"x"}"#),
        ("PATCH", "", r#"{"nonsense":"x"}"#),
        ("DELETE", "", ""),
        ("PUT", "/tier", r#"{"tier":"all"}"#),
        ("PUT", "/owners/usr_0123456789abcdef0123456789abcdef", ""),
        ("DELETE", "/owners/usr_0123456789abcdef0123456789abcdef", ""),
        ("POST", "/archive", ""),
        ("POST", "/restore", ""),
        ("POST", "/merge", "{}"),
        ("POST", "/push", "{}"),
        ("GET", "/log", ""),
        ("GET", "/diff", ""),
        ("GET", "/files?path=x", ""),
    ] {
        let ask = |id: &str| {
            let head = host.ledger_head();
            let told = without_request_id(&bo.client, method, &format!("/api/v1/worktrees/{id}{rest}"), body);
            (told.0, told.1, host.ledger_head() - head)
        };
        let (there, not, deleted, malformed) = (ask(&hidden.id), ask(invented), ask(&gone.id), ask("wt_x"));
        assert_eq!(there, not, "{method} {rest}");
        assert_eq!(there, deleted, "{method} {rest}");
        assert_eq!(there.2, 1, "one entry, whether or not it exists");
        // A body that makes no sense is told apart first, for any id that could be one.
        if !body.contains("nonsense") {
            assert_eq!((there.0, &there.1), (malformed.0, &malformed.1), "{method} {rest} {body}");
        }
    }
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..tests::scale(200, 20) {
        for (id, times) in [hidden.id.as_str(), invented].iter().zip(&mut times) {
            times.push(without_request_id(&bo.client, "GET", &format!("/api/v1/worktrees/{id}"), "").2);
        }
    }
    let [there, not] = times.map(|mut times| {
        times.sort();
        *times.get(times.len() / 2).unwrap()
    });
    assert!(there.abs_diff(not) < Duration::from_millis(20), "{there:?} {not:?}");
    // No list, search, count or ledger of theirs names it.
    for filter in [
        WorktreeFilter::default(),
        WorktreeFilter { name: Some("hidden".into()), ..Default::default() },
        WorktreeFilter { repo: Some(repo.clone()), archived: true, ..Default::default() },
        WorktreeFilter { after: Some(hidden.id.clone()), ..Default::default() },
    ] {
        assert!(bo.client.worktrees(&filter).unwrap().items.is_empty(), "{filter:?}");
    }
    let theirs =
        bo.client.ledger(&LedgerFilter { resource: Some(hidden.id.clone()), ..Default::default() }).unwrap();
    assert!(theirs.items.iter().all(|entry| entry.who == bo.id), "only their own attempts");
    // No event names it: of what happens, only what they may know arrives.
    let stream = bo.client.events(Some(0)).unwrap();
    let open = host.owner().worktree(&repo, "open-one", "view");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let seen: Vec<String> = lines.by_ref().take_while(|line| !line.contains(&open.id)).collect();
    assert!(seen.iter().all(|line| !line.contains(&hidden.id)), "{seen:?}");
}

/// Lines of a stream as they come, from a thread of its own.
fn follow(person: &Person) -> std::sync::mpsc::Receiver<String> {
    let stream = person.client.events(None).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    told
}

#[test]
fn acc_06_a_lost_right_stops_delivery() {
    let host = Host::start();
    let repo = host.repo("demo");
    let bo = host.user("bo", "member");
    let (one, mark) =
        (host.owner().worktree(&repo, "one", "view"), host.owner().worktree(&repo, "mark", "view"));
    let lines = follow(&bo);
    let owner = &host.owner().client;
    let wait_for = |id: &str| -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let line = lines.recv_timeout(Duration::from_secs(5)).unwrap();
            let found = line.contains(id);
            seen.push(line);
            if found {
                return seen;
            }
        }
    };
    owner.update_worktree(&one.id, "first").unwrap();
    wait_for(&one.id);
    owner.set_tier(&one.id, "none").unwrap();
    owner.update_worktree(&one.id, "second").unwrap();
    let started = Instant::now();
    owner.update_worktree(&mark.id, "mark").unwrap();
    let seen = wait_for(&mark.id);
    assert!(seen.iter().all(|line| !line.contains(&one.id)), "{seen:?}");
    assert!(started.elapsed() < Duration::from_secs(1));
    // The same by an added policy, and back.
    let text = format!(
        "forbid (principal, action, resource == Worktree::\"{}\") when {{ !(principal in Role::\"owner\") }};",
        mark.id
    );
    owner.add_policy("hide-mark", &text).unwrap();
    owner.update_worktree(&mark.id, "hidden").unwrap();
    owner.set_tier(&one.id, "view").unwrap();
    let seen = wait_for(&one.id);
    assert!(seen.iter().all(|line| !line.contains(&mark.id)), "{seen:?}");
    // Without a credential there is no stream at all.
    assert_eq!(host.anonymous().events(None).map(drop).unwrap_err().status(), Some(401));
}

#[test]
fn acc_03_an_admin_under_tier_none_is_marked_as_overriding() {
    let host = Host::start();
    let repo = host.repo("demo");
    let bo = host.user("bo", "member");
    let marked = |id: &str, who: &str| -> Vec<(String, bool)> {
        let entries = host.ledger(&LedgerFilter {
            resource: Some(id.into()),
            user: Some(who.into()),
            ..Default::default()
        });
        let opened = entries.into_iter().filter(|entry| entry.decision == "allowed");
        opened.map(|entry| (entry.action, entry.line.contains("\"override\""))).collect()
    };
    let (hidden, seen) = (bo.worktree(&repo, "hidden", "none"), bo.worktree(&repo, "seen", "session"));
    bo.client.update_worktree(&hidden.id, "own").unwrap();
    for id in [&hidden.id, &seen.id] {
        host.owner().client.update_worktree(id, "by an owner").unwrap();
    }
    let owner = &host.owner().id;
    assert_eq!(marked(&hidden.id, owner), [("worktree.update".into(), true)]);
    assert_eq!(marked(&seen.id, owner), [("worktree.update".into(), false)]);
    assert!(marked(&hidden.id, &bo.id).iter().all(|(_, overrides)| !overrides));
}

#[test]
fn acc_23_without_the_division_every_worktree_counts_as_tier_all() {
    let host = Host::builder().set("access.worktree_rbac", "false").start();
    assert!(!host.owner().client.status().unwrap().worktree_rbac);
    let repo = host.repo("demo");
    let (member, viewer) = (host.user("bo", "member"), host.user("vi", "viewer"));
    let made = host.owner().worktree(&repo, "one", "none");
    for one in [&member, &viewer] {
        assert_eq!(one.client.worktree(&made.id).unwrap().id, made.id);
        assert_eq!(one.client.worktrees(&WorktreeFilter::default()).unwrap().items.len(), 1);
    }
    member.client.update_worktree(&made.id, "changed").unwrap();
    member.client.set_tier(&made.id, "none").unwrap();
    for refused in [
        member.client.archive_worktree(&made.id).unwrap_err(),
        member.client.add_owner(&made.id, &member.id).unwrap_err(),
        member.client.delete_worktree(&made.id).unwrap_err(),
        viewer.client.update_worktree(&made.id, "x").unwrap_err(),
    ] {
        assert_eq!(refused.status(), Some(403));
    }
    let entries = host.ledger(&LedgerFilter { user: Some(member.id.clone()), ..Default::default() });
    assert!(entries.iter().all(|entry| !entry.line.contains("\"override\"")), "nothing is overridden here");
}

#[test]
fn acc_22_solo_mode_is_authenticated() {
    let host = Host::builder().set("mode", "solo").start();
    assert_eq!(host.owner().client.status().unwrap().mode, "solo");
    assert_eq!(host.anonymous().status().unwrap_err().code(), Some(Code::AuthRequired));
}

#[test]
fn acc_01_a_refusal_is_the_same_by_hand_and_by_the_client_and_is_one_entry() {
    let host = Host::start();
    let bo = host.user("bo", "member");
    let head = host.ledger_head();
    let body = r#"{"name":"x","origin":"https://forge.example/a/b"}"#;
    let (status, by_hand, _) = without_request_id(&bo.client, "POST", "/api/v1/repos", body);
    assert_eq!((status, host.ledger_head() - head), (403, 1));
    let head = host.ledger_head();
    let request = api::CreateRepoRequest {
        name: "x".into(),
        origin: "https://forge.example/a/b".into(),
        ..Default::default()
    };
    let ClientError::Problem(problem) = bo.client.create_repo(&request).unwrap_err() else {
        panic!("no problem")
    };
    assert_eq!(host.ledger_head() - head, 1);
    assert_eq!(by_hand.get("code").unwrap(), &serde_json::to_value(problem.code).unwrap());
    assert_eq!(by_hand.get("detail").unwrap(), &Value::from(problem.detail.clone()));
    // And by the socket's door: a ticket is refused to whom the stream is refused.
    host.owner().client.add_policy("no-stream", "forbid (principal in Role::\"viewer\", action == Action::\"event.follow\", resource) unless { principal in Role::\"owner\" };").unwrap();
    let head = host.ledger_head();
    let codes =
        [bo.client.ticket().unwrap_err().code(), bo.client.events(None).map(drop).unwrap_err().code()];
    assert_eq!(codes, [Some(Code::Forbidden), Some(Code::Forbidden)]);
    assert_eq!(host.ledger_head() - head, 2);
    assert!(host.owner().client.repos(None).unwrap().items.is_empty(), "nothing was made");
}

#[test]
fn acc_02_what_is_not_known_is_refused() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let owner = &host.owner().client;
    let before = (owner.users(None, None, None).unwrap().items, owner.repos(None).unwrap().items.len());
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut word = |letters: usize| -> String {
        let mut text = String::new();
        for _ in 0..letters {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push(char::from(b'a' + u8::try_from((seed >> 33) % 26).unwrap()));
        }
        text
    };
    for _ in 0..tests::scale(500, 40) {
        let path = format!("/api/v1/{}/{}", word(6), word(4));
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let answer =
                owner.send(method, &path, &[("content-type", "application/json")], b"{}".to_vec()).unwrap();
            assert_eq!(answer.status(), 404, "{method} {path}");
        }
        let question = TryPolicyRequest {
            user: host.owner().id.clone(),
            action: format!("{}.{}", word(5), word(4)),
            resource: "installation".into(),
            role: None,
            with: None,
        };
        assert_eq!(owner.try_policy(&question).unwrap_err().status(), Some(422));
        let odd = format!("{}_{}", word(3), word(32));
        for path in [format!("/api/v1/worktrees/{odd}"), format!("/api/v1/users/{odd}")] {
            assert_eq!(owner.send("DELETE", &path, &[], Vec::new()).unwrap().status(), 404);
        }
    }
    let after = (owner.users(None, None, None).unwrap().items, owner.repos(None).unwrap().items.len());
    assert_eq!(after, before, "nothing happened");
}

#[test]
fn acc_28_a_policy_can_be_tried_added_and_removed_and_is_named_in_its_refusals() {
    let host = Host::start();
    let owner = &host.owner().client;
    let bo = host.user("bo", "member");
    let text = "forbid (principal in Role::\"viewer\", action == Action::\"repo.list\", resource) unless { principal in Role::\"admin\" };";
    let question = |with: bool| TryPolicyRequest {
        user: bo.id.clone(),
        action: "repo.list".into(),
        resource: "installation".into(),
        role: None,
        with: with.then(|| api::AddPolicyRequest { id: "no-repos".into(), text: text.into() }),
    };
    let head = host.ledger_head();
    let now = owner.try_policy(&question(false)).unwrap();
    assert_eq!(
        (now.decision.as_str(), now.policies.first().unwrap().id.as_str()),
        ("allow", "everyone"),
        "{now:?}"
    );
    let then = owner.try_policy(&question(true)).unwrap();
    assert_eq!(
        (then.decision.as_str(), then.policies.first().unwrap().id.as_str()),
        ("deny", "no-repos"),
        "{then:?}"
    );
    assert!(
        then.because.contains("no-repos") && then.policies.first().unwrap().text.contains("forbid"),
        "{then:?}"
    );
    assert_eq!(host.ledger_head(), head, "trying has no effect");
    bo.client.repos(None).unwrap();

    owner.add_policy("no-repos", text).unwrap();
    let ClientError::Problem(problem) = bo.client.repos(None).unwrap_err() else { panic!("no problem") };
    assert_eq!((problem.status, problem.policies.as_slice()), (403, ["no-repos".to_owned()].as_slice()));
    assert!(problem.detail.contains("no-repos"), "{}", problem.detail);
    owner.repos(None).unwrap();
    for (id, text, says) in [
        ("x", "permit (principal, action, resource);", "may only forbid"),
        ("x", "nonsense", "cannot be read"),
        ("x", "forbid (principal, action == Action::\"no.such\", resource);", "does not fit the schema"),
        ("owners", text, "already a policy"),
    ] {
        let head = host.ledger_head();
        let refused = owner.add_policy(id, text).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
        assert!(matches!(refused.status(), Some(409 | 422)));
        assert_eq!(host.ledger_head() - head, 1, "{id} {text}");
    }
    owner.remove_policy("no-repos").unwrap();
    bo.client.repos(None).unwrap();
    // What is shipped stays.
    assert_eq!(owner.remove_policy("a-pass-defines-nothing").unwrap_err().status(), Some(404));
    assert!(owner.policies().unwrap().items.iter().any(|one| one.id == "a-pass-defines-nothing"));
}

#[test]
fn acc_11_a_revoked_pass_and_what_was_made_from_it_stay_refused_after_a_restart() {
    let mut host = Host::start();
    let grant: model::Grant =
        serde_json::from_str(r#"{"tools":{"allow":["api.pass.mint","api.user.read"]},"depth":3}"#).unwrap();
    let body = api::MintPassRequest { label: "p".into(), grant, minutes: None };
    let root = host.owner().client.mint_pass(&body).unwrap();
    let mut tokens = vec![root.token.0.clone()];
    for _ in 0..3 {
        let parent = host.anonymous().with_token(tokens.last().unwrap());
        tokens.push(parent.mint_pass(&body).unwrap().token.into_text());
    }
    let last = host.anonymous().with_token(tokens.last().unwrap());
    let head = host.ledger_head();
    assert_eq!(last.mint_pass(&body).unwrap_err().status(), Some(403), "handed on three times");
    assert_eq!(host.ledger_head() - head, 1);
    for token in &tokens {
        host.anonymous().with_token(token).whoami().unwrap();
    }
    let started = Instant::now();
    assert_eq!(host.owner().client.revoke_pass(&root.pass.id).unwrap().count, 4);
    for token in &tokens {
        assert_eq!(host.anonymous().with_token(token).whoami().unwrap_err().status(), Some(401));
    }
    assert!(started.elapsed() < Duration::from_secs(1));
    host.restart();
    for token in &tokens {
        assert_eq!(host.anonymous().with_token(token).whoami().unwrap_err().status(), Some(401));
    }
}
