//! What an agent asks: shown as an effect, decided once, by a person with the right, and never by silence.

use api::{AllowRequest, Approval, DenyRequest};
use tests::Person;

use crate::calls::{new_pass, new_session};
use crate::sessions::{ended, quiet, steps, tasks, until};

fn asked(person: &Person, session: &str) -> Approval {
    until("something is asked", || person.client.approvals(session, false).unwrap().items.pop())
}

fn allow(one: &Approval) -> AllowRequest {
    AllowRequest { effect: one.effect.clone(), choice: "yes".into() }
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
        let body = AllowRequest { effect: effect.into(), choice: choice.into() };
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

/// ACC-14: what was asked before the daemon was killed is over, and decides nothing any more. SES-16: a mode that asks nobody.
#[test]
fn acc_14_what_nobody_waits_for_any_more_is_over() {
    let mut host = quiet();
    let worktree = host.tree(host.owner(), "demo", "session").id;
    let owner = host.owner().clone();
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    owner.client.prompt_session(&session, "ask first").unwrap();
    let one = asked(&owner, &session);
    host.kill();
    host.restart();
    let owner = host.owner().clone();
    let now = until("it is over", || {
        owner.client.approvals(&session, true).unwrap().items.into_iter().find(|now| now.state != "open")
    });
    assert_eq!((now.id.as_str(), now.state.as_str()), (one.id.as_str(), "expired"));
    assert_eq!(owner.client.allow_approval(&session, &one.id, &allow(&one)).unwrap_err().status(), Some(409));
    assert_eq!(owner.client.worktree_files(&worktree, "first").unwrap_err().status(), Some(404));

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
