//! What an agent asks: shown as an effect, decided once, by a person with the right, and never by silence.

use api::{AllowRequest, Approval, DenyRequest};
use tests::{Host, Person, scale};

use crate::calls::{new_pass, new_session};
use crate::sessions::{ended, quiet, steps, tasks, until};

fn asked(person: &Person, session: &str) -> Approval {
    until("something is asked", || person.client.approvals(session, false).unwrap().items.pop())
}

fn allow(one: &Approval) -> AllowRequest {
    crate::calls::allow(one, None)
}

/// ACC-12, ADV-A01: an answer is for the effect that was shown; the digest on the ledger is that of what was asked.
#[test]
fn acc_12_an_approval_is_for_the_effect_that_was_shown() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "ask first").unwrap();
    let one = asked(owner, &session);
    assert!(one.asks["call"]["title"].as_str().unwrap().contains("first"), "{one:?}");
    let other = "0".repeat(64);
    for (effect, choice) in
        [(other.as_str(), "yes"), (one.effect.as_str(), "no"), (one.effect.as_str(), "maybe")]
    {
        let body = AllowRequest { effect: effect.into(), choice: choice.into(), ..allow(&one) };
        assert_eq!(
            owner.client.allow_approval(&session, &one.id, &body).unwrap_err().status(),
            Some(409),
            "{choice}"
        );
    }
    assert_eq!(asked(owner, &session), one, "it still waits");
    let head = host.ledger_head();
    assert_eq!(owner.client.allow_approval(&session, &one.id, &allow(&one)).unwrap().state, "allowed");
    let entries: Vec<_> =
        host.since(head).into_iter().filter(|entry| entry.action == "approval.allow").collect();
    assert!(entries.iter().any(|entry| entry.line.contains(&one.effect)), "{entries:?}");
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    let file = owner.client.worktree_files(&worktree, "first").unwrap();
    assert!(file.text.is_some(), "what was allowed was done");

    let task = owner.client.prompt_session(&session, "ask second").unwrap();
    let two = asked(owner, &session);
    assert_ne!(one.effect, two.effect, "another effect has another digest");
    let deny = DenyRequest { effect: two.effect.clone() };
    assert_eq!(owner.client.deny_approval(&session, &two.id, &deny).unwrap().state, "denied");
    ended(owner, &session, &task.id);
    assert_eq!(owner.client.worktree_files(&worktree, "second").unwrap_err().status(), Some(404));
    assert_eq!((one.asks.get("hidden"), two.asks.get("hidden")), (None, None));

    // Whoever decides is told when a part of it is masked.
    owner.client.prompt_session(&session, "ask ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8").unwrap();
    let three = asked(owner, &session);
    assert!(three.asks["hidden"] == true && !three.asks.to_string().contains("k1L2m3N4"), "{three:?}");
}

/// ACC-12, ADV-A01: after X was allowed for the session, what differs from it in one byte of anything is another question with another
/// digest, six of six, and is not done; what is done is what was shown, by its digest on the ledger.
#[test]
fn acc_12_one_thing_changed_after_a_yes_is_a_new_question() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let effect = serde_json::json!({
        "title": "run the tests", "kind": "execute", "locations": [{ "path": "/work/src/a" }],
        "content": [{ "type": "diff", "path": "/work/src/a", "newText": "one\n" }],
        "rawInput": { "argv": ["make", "test"], "cwd": "src", "env": { "LEVEL": "1" }, "body": "as asked" },
    });
    let ask = |effect: &serde_json::Value| {
        owner.client.prompt_session(&session, &format!("effect {effect}")).unwrap().id
    };
    let done =
        || owner.client.worktree_files(&worktree, "done").ok().and_then(|file| file.text).unwrap_or_default();
    let allowed = |head| -> Vec<String> {
        let entries = host.since(head).into_iter().filter(|entry| entry.action == "approval.allow");
        entries.map(|entry| entry.line).filter(|line| line.contains("\"decision\":\"allowed\"")).collect()
    };

    let head = host.ledger_head();
    let task = ask(&effect);
    let shown = asked(owner, &session);
    owner.client.allow_approval(&session, &shown.id, &crate::calls::allow(&shown, Some("session"))).unwrap();
    assert_eq!(ended(owner, &session, &task).state, "done");
    // The same again is covered, and what covers it stands under the same digest.
    assert_eq!(ended(owner, &session, &ask(&effect)).state, "done");
    let entries = allowed(head);
    assert!(entries.len() == 2 && entries.iter().all(|line| line.contains(&shown.effect)), "{entries:?}");
    let twice = format!("{effect}\n{effect}\n");
    assert_eq!(done(), twice);

    let mut digests = std::collections::BTreeSet::from([shown.effect.clone()]);
    for (place, changed) in [
        ("/rawInput/argv/1", "tess"),
        ("/rawInput/cwd", "srd"),
        ("/rawInput/env/LEVEL", "2"),
        ("/locations/0/path", "/work/src/b"),
        ("/content/0/newText", "onf\n"),
        ("/rawInput/body", "as askee"),
    ] {
        let mut other = effect.clone();
        *other.pointer_mut(place).unwrap() = changed.into();
        let task = ask(&other);
        let one = asked(owner, &session);
        assert!(digests.insert(one.effect.clone()), "{place}: {one:?}");
        // The digest of what was allowed does not allow it.
        let body = AllowRequest { effect: shown.effect.clone(), ..allow(&one) };
        assert_eq!(owner.client.allow_approval(&session, &one.id, &body).unwrap_err().status(), Some(409));
        owner.client.deny_approval(&session, &one.id, &DenyRequest { effect: one.effect.clone() }).unwrap();
        assert_eq!(ended(owner, &session, &task).state, "done");
        assert_eq!(done(), twice, "{place}: nothing was written");
    }
    assert_eq!(digests.len(), 7);
}

/// ACC-15: what an agent would take for a yes to all that comes is offered to nobody and given by nobody; the agent is answered "once"
/// whoever decides: a person, a mode or a consent.
#[test]
fn acc_15_no_answer_gives_an_agent_a_rule_of_its_own() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    for (verb, offered) in [("ask", vec!["allow_once", "reject_once"]), ("greedy", vec!["reject_once"])] {
        let task = owner.client.prompt_session(&session, &format!("{verb} {verb}")).unwrap();
        let one = asked(owner, &session);
        let kinds: Vec<_> =
            one.asks["choices"].as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
        assert_eq!(kinds, offered, "{one:?}");
        let body = AllowRequest { choice: "always".into(), ..allow(&one) };
        assert_eq!(owner.client.allow_approval(&session, &one.id, &body).unwrap_err().status(), Some(409));
        assert_eq!(asked(owner, &session), one, "it still waits");
        owner.client.deny_approval(&session, &one.id, &DenyRequest { effect: one.effect.clone() }).unwrap();
        assert_eq!(ended(owner, &session, &task.id).state, "done");
    }
    let body = api::CreateSessionRequest { mode: Some("allow-all".into()), ..new_session(&worktree) };
    let free = owner.client.create_session(&body).unwrap().id;
    let task = owner.client.prompt_session(&free, "greedy note").unwrap();
    assert_eq!(ended(owner, &free, &task.id).state, "done");
    let told = steps(owner, &free);
    assert!(crate::sessions::said(&told).contains("\"optionId\":\"no\""), "{told:?}");
    assert!(
        told.iter().any(|step| step.body["text"].as_str().unwrap_or_default().contains("allows it once"))
    );
    assert_eq!(owner.client.worktree_files(&worktree, "note").unwrap_err().status(), Some(404));
}

/// ACC-14: whoever may only read is nobody who could decide: what waits goes on waiting while they look on.
#[test]
fn acc_14_a_viewer_who_looks_on_makes_no_no_of_what_waits() {
    let host =
        Host::builder().set("limits.requests_per_minute", "0").set("sessions.answer_seconds", "2").start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "view").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let viewer = host.user("viewer", "viewer");
    let looks_on = viewer.client.follow_session(&session, 0).unwrap();
    let looking =
        std::thread::spawn(move || looks_on.map_while(Result::ok).find(|step| step.kind == "result"));
    let task = owner.client.prompt_session(&session, "ask note").unwrap();
    until("it stands still", || tasks(owner, &session).iter().any(|task| task.state == "held").then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(6));
    let one = asked(owner, &session);
    assert_eq!(one.state, "open", "nobody who may decide was there");
    assert!(!looking.is_finished(), "the viewer looks on all the while");
    // Somebody comes who may.
    let follows = owner.client.follow_session(&session, 0).unwrap();
    assert!(follows.map_while(Result::ok).any(|step| step.kind == "result"));
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    assert_eq!(owner.client.approvals(&session, true).unwrap().items[0].state, "expired");
    assert!(looking.join().unwrap().is_some());
}

/// ACC-12: whoever allows something by the command line names what they saw; what came in its place is not allowed with it.
#[test]
fn acc_12_nothing_is_allowed_that_nobody_named() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "ask note").unwrap();
    let one = asked(owner, &session);
    let allow = |words: &[&str]| {
        let words = [&["approval", "allow", &session][..], words].concat();
        crate::secrets::palisade(&host, &owner.client, &words, "")
    };
    assert!(!allow(&[]).status.success());
    assert_eq!(asked(owner, &session), one, "it still waits");
    assert!(allow(&[&one.id]).status.success());
    assert_eq!(ended(owner, &session, &task.id).state, "done");
}

/// ACC-13, ADV-A03: only a person with the right decides: no viewer, no stranger to the worktree, no Pass.
#[test]
fn acc_13_only_a_person_with_the_right_decides() {
    let host = quiet();
    let creator = host.user("creator", "member");
    let worktree = host.tree(&creator, "demo", "session").id;
    let session = creator.client.create_session(&new_session(&worktree)).unwrap().id;
    creator.client.prompt_session(&session, "ask first").unwrap();
    let one = asked(&creator, &session);
    let (member, viewer) = (host.user("member", "member"), host.user("viewer", "viewer"));
    let grant = serde_json::from_value(serde_json::json!({ "tools": { "allow": ["*"] } })).unwrap();
    let pass = creator.client.mint_pass(&api::MintPassRequest { grant, ..new_pass() }).unwrap();
    let by_pass = creator.client.with_token(&pass.token.0);
    let deny = DenyRequest { effect: one.effect.clone() };
    for (who, client) in [("a member", &member.client), ("a viewer", &viewer.client), ("a Pass", &by_pass)] {
        let head = host.ledger_head();
        assert_eq!(
            client.allow_approval(&session, &one.id, &allow(&one)).unwrap_err().status(),
            Some(403),
            "{who}"
        );
        assert_eq!(client.deny_approval(&session, &one.id, &deny).unwrap_err().status(), Some(403), "{who}");
        assert_eq!(host.written_since(head), 2, "{who}: one refusal each");
    }
    creator.client.set_tier(&worktree, "none").unwrap();
    assert_eq!(
        member.client.allow_approval(&session, &one.id, &allow(&one)).unwrap_err().status(),
        Some(404)
    );
    assert_eq!(asked(&creator, &session), one, "it still waits");
    creator.client.set_tier(&worktree, "prompt").unwrap();
    member.client.allow_approval(&session, &one.id, &allow(&one)).unwrap();
    // Another session's id does not lead here.
    let other = creator.client.create_session(&new_session(&worktree)).unwrap().id;
    assert_eq!(creator.client.allow_approval(&other, &one.id, &allow(&one)).unwrap_err().status(), Some(422));
}

/// ACC-14, ADV-A03: of many who decide one wins. ACC-14, ACC-20: with nobody there the agent stands still, and goes on when
/// somebody decided.
#[test]
fn acc_14_of_many_decisions_one_wins_and_nobody_s_silence_is_a_yes() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "ask first").unwrap();
    let one = asked(owner, &session);
    until("it stands still", || tasks(owner, &session).iter().any(|task| task.state == "held").then_some(()));
    let won: usize = std::thread::scope(|scope| {
        let decide = |n: usize| match n % 2 {
            0 => owner.client.allow_approval(&session, &one.id, &allow(&one)).map(drop),
            _ => owner
                .client
                .deny_approval(&session, &one.id, &DenyRequest { effect: one.effect.clone() })
                .map(drop),
        };
        let all: Vec<_> = (0..20).map(|n| scope.spawn(move || decide(n))).collect();
        let done = all.into_iter().map(|one| one.join().unwrap());
        done.filter(|done| match done {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.status(), Some(409), "{error}");
                false
            }
        })
        .count()
    });
    assert_eq!(won, 1);
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    let decided = owner.client.approvals(&session, true).unwrap().items.pop().unwrap();
    let written = owner.client.worktree_files(&worktree, "first").is_ok();
    assert_eq!(written, decided.state == "allowed", "what was decided is what was done");
}

/// ACC-14: what was asked before the daemon was killed still waits; whoever allows it is not asked again when the agent comes
/// back to the same effect, once; what nobody decided is over when the conversation went on.
#[test]
fn acc_14_what_was_asked_survives_the_daemon() {
    let many = scale(20, 5);
    let mut host = quiet();
    let owner = host.owner().clone();
    let worktree = host.tree(&owner, "demo", "session").id;
    let open: Vec<(String, Approval)> = (0..many)
        .map(|n| {
            let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
            owner.client.prompt_session(&session, &format!("ask note{n}")).unwrap();
            (session.clone(), asked(&owner, &session))
        })
        .collect();
    host.kill();
    host.restart();
    let owner = host.owner().clone();
    for (session, one) in &open {
        until("the task has a true end", || {
            tasks(&owner, session).iter().all(|task| task.state == "failed").then_some(())
        });
        assert_eq!(
            owner.client.approvals(session, false).unwrap().items,
            std::slice::from_ref(one),
            "it is there again"
        );
    }
    let (session, one) = &open[0];
    owner.client.allow_approval(session, &one.id, &allow(one)).unwrap();
    assert_eq!(owner.client.allow_approval(session, &one.id, &allow(one)).unwrap_err().status(), Some(409));
    assert_eq!(
        owner.client.worktree_files(&worktree, "note0").unwrap_err().status(),
        Some(404),
        "not by itself"
    );
    let again = owner.client.prompt_session(session, "ask note0").unwrap();
    assert_eq!(ended(&owner, session, &again.id).state, "done");
    assert!(owner.client.worktree_files(&worktree, "note0").is_ok(), "it was allowed before");
    let decided = owner.client.approvals(session, true).unwrap().items.remove(0);
    assert!(decided.state == "allowed" && decided.consent.is_some(), "{decided:?}");
    owner.client.prompt_session(session, "ask note0").unwrap();
    assert_eq!(asked(&owner, session).state, "open", "once is once");

    // Not the same effect, and nobody decided: it is asked, and the old question ends with that task.
    let (session, one) = &open[1];
    let task = owner.client.prompt_session(session, "say on").unwrap();
    ended(&owner, session, &task.id);
    let now = owner.client.approvals(session, true).unwrap().items.pop().unwrap();
    assert_eq!((now.id.as_str(), now.state.as_str()), (one.id.as_str(), "expired"));
    assert_eq!(owner.client.allow_approval(session, &one.id, &allow(one)).unwrap_err().status(), Some(409));
    let (session, one) = &open[2];
    owner.client.close_session(session).unwrap();
    assert_eq!(owner.client.allow_approval(session, &one.id, &allow(one)).unwrap_err().status(), Some(409));
}

/// ACC-15, ADV-A02: consent for longer names what it covers: the same effect, or a kind of it beneath a directory; it is listed,
/// counted, and taken back; whoever lost the right to give it gave nothing.
#[test]
fn acc_15_consent_for_longer_is_narrow_counted_and_taken_back() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "prompt").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let run = |session: &str, words: &str| owner.client.prompt_session(session, words).unwrap().id;
    let answered = |session: &str, words: &str| {
        let task = run(session, words);
        ended(owner, session, &task).state
    };

    run(&session, "ask same");
    let one = asked(owner, &session);
    for (beneath, uses) in [(Some("../x"), None), (Some("/etc"), None), (Some(""), None), (None, Some(0))] {
        let body = AllowRequest {
            beneath: beneath.map(str::to_owned),
            uses,
            ..crate::calls::allow(&one, Some("session"))
        };
        assert_eq!(owner.client.allow_approval(&session, &one.id, &body).unwrap_err().status(), Some(422));
    }
    let twice = AllowRequest { uses: Some(1), ..crate::calls::allow(&one, Some("session")) };
    owner.client.allow_approval(&session, &one.id, &twice).unwrap();
    until("the first is over", || {
        tasks(owner, &session).iter().all(|task| task.ended_at.is_some()).then_some(())
    });
    assert_eq!(owner.client.consents(&session).unwrap().items.len(), 1);
    assert_eq!(answered(&session, "ask same"), "done", "nobody was asked");
    assert_eq!(owner.client.consents(&session).unwrap().items, [], "it was good once more");
    let other = run(&session, "ask same");
    let asks = asked(owner, &session);
    owner.client.deny_approval(&session, &asks.id, &DenyRequest { effect: asks.effect.clone() }).unwrap();
    ended(owner, &session, &other);

    // Beneath a directory, in all of this person's sessions here; nowhere else.
    let task = run(&session, "ask docs/a");
    let asks = asked(owner, &session);
    let body = AllowRequest { beneath: Some("docs".into()), ..crate::calls::allow(&asks, Some("worktree")) };
    owner.client.allow_approval(&session, &asks.id, &body).unwrap();
    ended(owner, &session, &task);
    let second = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    assert_eq!(answered(&second, "ask docs/b"), "done");
    for outside in ["ask docsx", "ask docs/../c", "ask d"] {
        let task = run(&second, outside);
        let asks = asked(owner, &second);
        owner.client.deny_approval(&second, &asks.id, &DenyRequest { effect: asks.effect.clone() }).unwrap();
        ended(owner, &second, &task);
    }
    let ana = host.user("ana", "member");
    let theirs = ana.client.create_session(&new_session(&worktree)).unwrap().id;
    ana.client.prompt_session(&theirs, "ask docs/c").unwrap();
    assert_eq!(asked(&ana, &theirs).state, "open", "another person's session is not covered");

    let held = owner.client.consents(&second).unwrap().items.pop().unwrap();
    assert_eq!(
        (held.scope.as_str(), held.kind.as_str(), held.beneath.as_deref()),
        ("worktree", "edit", Some("docs"))
    );
    let head = host.ledger_head();
    owner.client.revoke_consent(&second, &held.id).unwrap();
    assert!(host.since(head).iter().any(|entry| entry.action == "consent.revoke"));
    run(&second, "ask docs/d");
    assert_eq!(asked(owner, &second).state, "open", "taken back is taken back");

    // What somebody allows for longer ends with their right to allow.
    let mine = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    run(&mine, "ask note");
    let asks = asked(owner, &mine);
    ana.client.allow_approval(&mine, &asks.id, &crate::calls::allow(&asks, Some("session"))).unwrap();
    until("it is over", || tasks(owner, &mine).iter().all(|task| task.ended_at.is_some()).then_some(()));
    owner.client.set_tier(&worktree, "view").unwrap();
    run(&mine, "ask note");
    assert_eq!(asked(owner, &mine).state, "open", "who gave it may not any more");
}

/// ACC-13: with four eyes whoever asked for the task does not decide. ACC-14: silence while somebody looks on is a no.
#[test]
fn acc_13_with_four_eyes_somebody_else_decides() {
    let host = tests::Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("sessions.four_eyes", "true")
        .set("sessions.answer_seconds", "2")
        .start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "ask note").unwrap();
    let one = asked(owner, &session);
    let refused = owner.client.allow_approval(&session, &one.id, &allow(&one)).unwrap_err();
    assert!(refused.status() == Some(409) && refused.to_string().contains("somebody else"), "{refused}");
    host.user("ana", "admin").client.allow_approval(&session, &one.id, &allow(&one)).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    assert!(owner.client.worktree_files(&worktree, "note").is_ok());

    let followed = owner.client.follow_session(&session, 0).unwrap();
    let task = owner.client.prompt_session(&session, "ask other").unwrap();
    let end = followed
        .map_while(Result::ok)
        .find(|step| step.kind == "result" && step.task.as_ref() == Some(&task.id));
    assert!(end.is_some(), "it came to an end though nobody said anything");
    assert_eq!(owner.client.worktree_files(&worktree, "other").unwrap_err().status(), Some(404));
    let last = owner.client.approvals(&session, true).unwrap().items.remove(0);
    assert_eq!(last.state, "expired");
}

/// SES-16: a mode that asks nobody.
#[test]
fn ses_16_a_mode_decides_what_nobody_is_asked() {
    let host = quiet();
    let owner = host.owner().clone();
    let worktree = host.tree(&owner, "demo", "session").id;
    for (mode, done) in [("allow-all", true), ("plan", false)] {
        let body = api::CreateSessionRequest { mode: Some(mode.into()), ..new_session(&worktree) };
        let session = owner.client.create_session(&body).unwrap().id;
        let task = owner.client.prompt_session(&session, &format!("ask by-{mode}")).unwrap();
        ended(&owner, &session, &task.id);
        assert_eq!(owner.client.approvals(&session, true).unwrap().items, [], "{mode}: nobody was asked");
        assert_eq!(owner.client.worktree_files(&worktree, &format!("by-{mode}")).is_ok(), done, "{mode}");
        assert!(steps(&owner, &session).iter().any(|step| step.kind == "result"));
    }
}

/// SES-16: an agent that tells that it is in another mode has no other rights by that: who was asked is asked, what was refused is refused, and the
/// session's own mode stays.
#[test]
fn ses_16_an_agent_that_changes_its_mode_changes_nothing_of_what_it_may() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "bold note").unwrap();
    let one = asked(owner, &session);
    assert!(steps(owner, &session).iter().any(|step| step.body["mode"] == "bold"), "it is told");
    assert_eq!(owner.client.worktree_files(&worktree, "note").unwrap_err().status(), Some(404));
    owner.client.deny_approval(&session, &one.id, &DenyRequest { effect: one.effect.clone() }).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    assert_eq!(owner.client.worktree_files(&worktree, "note").unwrap_err().status(), Some(404));
    assert_eq!(owner.client.session(&session).unwrap().mode, None);

    let body = api::CreateSessionRequest { mode: Some("plan".into()), ..new_session(&worktree) };
    let session = owner.client.create_session(&body).unwrap().id;
    let task = owner.client.prompt_session(&session, "bold note").unwrap();
    ended(owner, &session, &task.id);
    assert_eq!(owner.client.approvals(&session, true).unwrap().items, [], "nobody was asked, it was refused");
    assert_eq!(owner.client.worktree_files(&worktree, "note").unwrap_err().status(), Some(404));
    assert_eq!(owner.client.session(&session).unwrap().mode.as_deref(), Some("plan"));
}

/// ACC-14: a decision that is on the disk of the database reaches the agent that waits for it, though the connection that it came on
/// broke before anybody was told.
#[test]
fn acc_14_a_decision_reaches_the_agent_though_the_connection_breaks() {
    let server = tests::Apart::start();
    let host = Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("store.url", &server.database())
        .variable("PALISADE_MASTER_KEY", &tests::master_key())
        .start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    for (file, allows) in [("yes", true), ("no", false)] {
        let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
        let task = owner.client.prompt_session(&session, &format!("ask {file}")).unwrap();
        let one = asked(owner, &session);
        until("it stands still", || {
            (tasks(owner, &session).into_iter().find(|now| now.id == task.id)?.state == "held").then_some(())
        });
        // From now on a commit is on the disk, and whoever waits for it is not told: that waits for a copy elsewhere.
        server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
        server.sql("SELECT pg_reload_conf()");
        let waits = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let told = std::thread::scope(|scope| {
            let deciding = scope.spawn(|| match allows {
                true => owner.client.allow_approval(&session, &one.id, &allow(&one)).map(drop),
                false => {
                    let no = DenyRequest { effect: one.effect.clone() };
                    owner.client.deny_approval(&session, &one.id, &no).map(drop)
                }
            });
            while !deciding.is_finished() {
                server.sql(&format!("SELECT pg_terminate_backend(pid) {waits}"));
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            deciding.join().unwrap()
        });
        server.sql("ALTER SYSTEM RESET synchronous_standby_names");
        server.sql("SELECT pg_reload_conf()");
        assert!(told.is_err(), "whoever decided was not told");
        let kept = until("the database answers", || {
            let all = owner.client.approvals(&session, true).ok()?.items;
            all.into_iter().find(|kept| kept.id == one.id)
        });
        assert_eq!(kept.state, if allows { "allowed" } else { "denied" }, "it was kept");
        let end = ended(owner, &session, &task.id);
        assert_eq!(end.state, "done", "{}", end.why);
        let written = owner.client.worktree_files(&worktree, file).is_ok();
        assert_eq!(written, allows, "the agent got the answer that was given");
    }
}
