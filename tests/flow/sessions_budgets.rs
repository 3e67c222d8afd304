//! Budgets: kept over restarts, shared by what is opened for one another; one that is spent stops the work where it stands.

use api::{Approval, DenyRequest, SetBudgetRequest};
use tests::{Host, Person};

use crate::calls::{allow, new_session, spawn};
use crate::sessions::{ended, steps, tasks, until};

/// An agent whose conversations go on.
const REMEMBERS: &str = r#"title = "An agent that remembers"
command = "acp-fake"
acp = ["acp-fake"]
[environment]
ACP_FAKE_HOME = "~"
[modes]
default = { requests = "ask" }
"#;

fn host(settings: &[(&str, &str)]) -> Host {
    let start = Host::builder().set("limits.requests_per_minute", "0");
    settings.iter().fold(start, |builder, (key, value)| builder.set(key, value)).start()
}

pub fn budget(scope: &str, owner: &str, kind: &str, seconds: i64, most: i64) -> SetBudgetRequest {
    SetBudgetRequest {
        scope: scope.into(),
        owner: owner.into(),
        kind: kind.into(),
        seconds,
        most: Some(most),
    }
}

fn asked(person: &Person, session: &str) -> Approval {
    until("somebody is asked", || person.client.approvals(session, false).unwrap().items.pop())
}

fn extend(one: &Approval) -> api::AllowRequest {
    api::AllowRequest { choice: "extend".into(), ..allow(one, None) }
}

/// ACC-19, ACC-20: what is spent stops the task where it stands, with an entry and a question; after an extension it goes on without
/// a gap, and whoever says no ends it.
#[test]
fn acc_20_a_spent_budget_pauses_and_cuts_nothing_in_half() {
    let host = host(&[]);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    owner.client.set_budget(&budget("session", &session, "calls", 3_600, 10)).unwrap();
    let head = host.ledger_head();
    let task = owner.client.prompt_session(&session, "calls 40").unwrap();
    let one = asked(owner, &session);
    assert_eq!(one.asks["budget"]["kind"], "calls", "{one:?}");
    assert!(one.asks["budget"]["spent"].as_i64().unwrap() > 10);
    let held = tasks(owner, &session).into_iter().find(|now| now.id == task.id).unwrap();
    assert_eq!(held.state, "held");
    let noted = host.since(head).iter().filter(|entry| entry.action == "budget.reached").count();
    assert_eq!(noted, 1, "one entry");
    let before = steps(owner, &session).len();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let calls =
        |from: usize| steps(owner, &session).iter().skip(from).filter(|step| step.kind == "tool_use").count();
    assert_eq!(calls(before), 0, "it stands still");

    // As much again, until that is spent as well.
    owner.client.allow_approval(&session, &one.id, &extend(&one)).unwrap();
    let two = asked(owner, &session);
    assert_ne!(two.id, one.id);
    owner.client.allow_approval(&session, &two.id, &extend(&two)).unwrap();
    let three = until("the end, or a question", || {
        let open = owner.client.approvals(&session, false).unwrap().items.pop();
        let over = tasks(owner, &session).into_iter().find(|now| now.id == task.id && now.ended_at.is_some());
        (open.is_some() || over.is_some()).then_some(open)
    });
    if let Some(three) = three {
        owner.client.allow_approval(&session, &three.id, &extend(&three)).unwrap();
    }
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    let counted = owner.client.worktree_files(&worktree, "count").unwrap().text.unwrap();
    let expected: String = (0..40).map(|n| format!("{n:08}\n")).collect();
    assert_eq!(counted, expected, "no gap, nothing cut in half");
    assert_eq!(owner.client.session_usage(&session).unwrap().spent.calls, 40);

    // Spent before it begins: it is waited out, or held; here the time is an hour, so it waits.
    let later = owner.client.prompt_session(&session, "say later").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(tasks(owner, &session).into_iter().find(|now| now.id == later.id).unwrap().state, "queued");
    owner.client.set_budget(&budget("session", &session, "calls", 3_600, 1_000)).unwrap();
    assert_eq!(ended(owner, &session, &later.id).state, "done", "there is more now");

    // Nobody allows more: it ends.
    let other = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    owner.client.set_budget(&budget("session", &other, "calls", 0, 5)).unwrap();
    let task = owner.client.prompt_session(&other, "calls 100").unwrap();
    let one = asked(owner, &other);
    owner.client.deny_approval(&other, &one.id, &DenyRequest { effect: one.effect.clone() }).unwrap();
    let end = ended(owner, &other, &task.id);
    assert!(end.state == "failed" && end.why.contains("spent"), "{end:?}");
    assert_eq!(owner.client.session(&other).unwrap().held.as_deref(), Some("budget"));
}

/// ACC-19: money of a person is counted over all their sessions and restarts, what is opened for a session is counted to it, and
/// only an administrator extends what is not a session's own.
#[test]
fn acc_19_budgets_hold_over_sessions_and_restarts() {
    let mut host = host(&[("budgets.user_cents_per_day", "100"), ("sessions.fan_out", "20")]);
    let ana = host.user("ana", "member");
    let worktree = host.tree(&ana, "demo", "session").id;
    let first = ana.client.create_session(&new_session(&worktree)).unwrap().id;
    let second = ana.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = ana.client.prompt_session(&first, "spend 60").unwrap();
    assert_eq!(ended(&ana, &first, &task.id).state, "done");
    host.restart();
    let (owner, ana) = (host.owner().clone(), ana.at(&host));
    let task = ana.client.prompt_session(&second, "spend 60").unwrap();
    let one = asked(&ana, &second);
    assert_eq!(one.asks["budget"]["scope"], "user", "{one:?}");
    assert_eq!(one.asks["budget"]["spent"].as_i64(), Some(1_200_000), "a restart forgets nothing");
    let refused = ana.client.allow_approval(&second, &one.id, &extend(&one)).unwrap_err();
    assert!(refused.status() == Some(409) && refused.to_string().contains("administrator"), "{refused}");
    owner.client.allow_approval(&second, &one.id, &extend(&one)).unwrap();
    assert_eq!(ended(&ana, &second, &task.id).state, "done");

    // A day is not waited out: what is asked now stays, behind a hold.
    let third = ana.client.prompt_session(&first, "say more").unwrap();
    until("it is held", || {
        (ana.client.session(&first).unwrap().held.as_deref() == Some("budget")).then_some(())
    });
    owner.client.set_budget(&budget("user", &ana.id, "cost", 86_400, 10_000_000)).unwrap();
    ana.client.resume_session(&first).unwrap();
    assert_eq!(ended(&ana, &first, &third.id).state, "done");

    // What is opened for a session is spent by it.
    let root = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    owner.client.set_budget(&budget("session", &root, "cost", 0, 500_000)).unwrap();
    for n in 0..2 {
        let child = owner
            .client
            .spawn_session(&root, &api::SpawnRequest { report: false, ..spawn("spend 20") })
            .unwrap();
        assert_eq!(ended(&owner, &child.session.id, &child.task.id).state, "done", "{n}");
    }
    let child =
        owner.client.spawn_session(&root, &api::SpawnRequest { report: false, ..spawn("spend 20") }).unwrap();
    let one = asked(&owner, &child.session.id);
    assert_eq!(one.asks["budget"]["owner"].as_str(), Some(root.as_str()), "shared, not copied: {one:?}");
    owner.client.stop_session(&child.session.id).unwrap();
    assert_eq!(ended(&owner, &child.session.id, &child.task.id).state, "stopped");

    // Roll-ups, and who may see them.
    let by = owner.client.usage(Some("user"), None).unwrap().items;
    let anas = by.iter().find(|one| one.by == ana.id).unwrap();
    assert_eq!(anas.spent.cost_micro_usd, 1_200_000);
    assert!(owner.client.usage(Some("agent"), Some(1)).unwrap().items.iter().any(|one| one.by == "fake"));
    assert_eq!(ana.client.usage(None, None).unwrap_err().status(), Some(403));
    assert_eq!(
        ana.client.set_budget(&budget("user", &ana.id, "cost", 86_400, 1)).unwrap_err().status(),
        Some(403)
    );
}

/// ACC-19, ACC-20: time of the processor is counted while a task is at work; when it is spent, the task stands still.
#[test]
fn acc_19_time_of_the_processor_is_a_budget() {
    let host = host(&[]);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    for (scope, program) in [("session", false), ("worktree", true), ("user", false)] {
        let new = match program {
            true => api::CreateSessionRequest {
                agent: "command".into(),
                command: vec!["sh".into()],
                ..new_session(&worktree)
            },
            false => new_session(&worktree),
        };
        let session = owner.client.create_session(&new).unwrap().id;
        let whose = match scope {
            "session" => session.clone(),
            "worktree" => worktree.clone(),
            _ => owner.id.clone(),
        };
        let before = owner.client.session_usage(&session).unwrap();
        let used = before.budgets.iter().find(|one| one.kind == "cpu").and_then(|one| one.spent).unwrap_or(0);
        // What was spent in the rounds before counts for the worktree and the person.
        owner.client.set_budget(&budget(scope, &whose, "cpu", 0, used + 20_000)).unwrap();
        let used = owner.client.session_usage(&session).unwrap();
        let used = used.budgets.iter().find(|one| one.kind == "cpu" && one.scope == scope).unwrap();
        owner.client.set_budget(&budget(scope, &whose, "cpu", 0, used.spent.unwrap() + 2_000)).unwrap();
        let head = host.ledger_head();
        let busy = "(while :; do :; done) & while :; do :; done";
        let prompt = if program { busy.to_owned() } else { format!("run {busy}") };
        let task = owner.client.prompt_session(&session, &prompt).unwrap();
        let one = asked(owner, &session);
        assert_eq!(
            (one.asks["budget"]["kind"].as_str(), one.asks["budget"]["scope"].as_str()),
            (Some("cpu"), Some(scope))
        );
        until("it stands still", || {
            (tasks(owner, &session).into_iter().find(|now| now.id == task.id)?.state == "held").then_some(())
        });
        let noted = host.since(head).iter().filter(|entry| entry.action == "budget.reached").count();
        assert_eq!(noted, 1, "one entry");
        let spent = || owner.client.session_usage(&session).unwrap().spent.cpu_ms;
        let at = spent();
        assert!((2_000..12_000).contains(&at), "soon after it was spent: {at}");
        std::thread::sleep(std::time::Duration::from_secs(3));
        assert!(spent() <= at + 2_500, "it stands still: {at} {}", spent());
        owner.client.stop_session(&session).unwrap();
        assert_eq!(ended(owner, &session, &task.id).state, "stopped");
        let end = spent();
        assert!(end >= at, "the rest is kept at the end");
        owner
            .client
            .set_budget(&api::SetBudgetRequest { most: None, ..budget(scope, &whose, "cpu", 0, 0) })
            .unwrap();
    }
}

/// ACC-19: what a task spent counts though somebody stopped it before its agent came to its end.
#[test]
fn acc_19_what_a_stopped_task_spent_is_spent() {
    let host = host(&[]);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "tab 30").unwrap();
    until("it is at work", || {
        let wanted = |step: &api::Step| step.kind == "assistant";
        steps(owner, &session).iter().any(wanted).then_some(())
    });
    owner.client.stop_session(&session).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "stopped");
    let spent = owner.client.session_usage(&session).unwrap().spent;
    assert_eq!((spent.cost_micro_usd, spent.tokens), (300_000, 1_030));
}

/// ACC-19: an agent that goes on with a conversation tells what all of it cost; what was counted with an earlier task is not counted again,
/// also after the daemon was killed in between.
#[test]
fn acc_19_money_of_a_conversation_that_goes_on_is_counted_once() {
    let mut host = Host::builder().set("limits.requests_per_minute", "0").stopped();
    std::fs::write(host.place().join("agents/fake.toml"), REMEMBERS).unwrap();
    host.start_daemon().unwrap();
    host.claim();
    let owner = host.owner().clone();
    let worktree = host.tree(&owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let cost = |who: &Person| who.client.session_usage(&session).unwrap().spent.cost_micro_usd;
    // The last one tells less than was told: it counts anew.
    for (cents, sum) in [(20, 200_000), (50, 500_000), (50, 500_000), (10, 600_000)] {
        let task = owner.client.prompt_session(&session, &format!("spend {cents}")).unwrap();
        assert_eq!(ended(&owner, &session, &task.id).state, "done");
        assert_eq!(cost(&owner), sum, "{cents}");
    }
    owner.client.prompt_session(&session, "spend 70").unwrap();
    until("it is counted", || (cost(&owner) == 1_200_000).then_some(()));
    host.kill();
    host.restart();
    let owner = host.owner().clone();
    until("the task has a true end", || {
        tasks(&owner, &session).iter().all(|task| task.ended_at.is_some()).then_some(())
    });
    let task = owner.client.prompt_session(&session, "spend 80").unwrap();
    assert_eq!(ended(&owner, &session, &task.id).state, "done");
    assert_eq!(cost(&owner), 1_300_000);
}

/// ACC-19: a fork, and what is opened for a fork, is no way around what its session may spend.
#[test]
fn acc_19_a_fork_does_not_escape_its_sessions_budget() {
    let host = host(&[]);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let root = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    owner.client.set_budget(&budget("session", &root, "cost", 0, 500_000)).unwrap();
    let task = owner.client.prompt_session(&root, "spend 20").unwrap();
    assert_eq!(ended(owner, &root, &task.id).state, "done");
    let fork = owner.client.fork_session(&root, &api::ForkRequest::default()).unwrap().id;
    let task = owner.client.prompt_session(&fork, "spend 20").unwrap();
    assert_eq!(ended(owner, &fork, &task.id).state, "done");
    let again = owner.client.fork_session(&fork, &api::ForkRequest::default()).unwrap().id;
    let child = owner
        .client
        .spawn_session(&again, &api::SpawnRequest { report: false, ..spawn("spend 20") })
        .unwrap();
    let one = asked(owner, &child.session.id);
    assert_eq!(one.asks["budget"]["owner"].as_str(), Some(root.as_str()), "{one:?}");
    assert_eq!(one.asks["budget"]["spent"].as_i64(), Some(600_000));
    owner.client.stop_session(&child.session.id).unwrap();
    assert_eq!(ended(owner, &child.session.id, &child.task.id).state, "stopped");
    // Nor is a fresh one begun, nor the root itself.
    for session in [&again, &root] {
        let late = owner.client.prompt_session(session, "say late").unwrap();
        until("it is held", || {
            (owner.client.session(session).unwrap().held.as_deref() == Some("budget")).then_some(())
        });
        assert_eq!(tasks(owner, session).into_iter().find(|now| now.id == late.id).unwrap().state, "queued");
    }
    // One beside them is not concerned.
    let other = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&other, "spend 20").unwrap();
    assert_eq!(ended(owner, &other, &task.id).state, "done");
}

/// ACC-19: so many sessions of a person, in a worktree, or that come from a session are at work at once; the next waits.
#[test]
fn acc_19_sessions_at_work_at_once_are_bounded() {
    let host = host(&[("sessions.per_worktree", "3"), ("sessions.fan_out", "20")]);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let at_work = |sessions: &[String]| {
        let is = |session: &&String| tasks(owner, session).iter().any(|task| task.state == "running");
        sessions.iter().filter(is).count()
    };
    let stalled = |count: usize| -> Vec<String> {
        (0..count)
            .map(|_| {
                let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
                owner.client.prompt_session(&session, "stall a while").unwrap();
                session
            })
            .collect()
    };
    let ends = |sessions: &[String]| {
        for session in sessions {
            owner.client.close_session(session).unwrap();
        }
        until("all are over", || (at_work(sessions) == 0).then_some(()));
    };
    // What is usual in a worktree, what was set for it, and for a person.
    for (scope, most) in [(None, 3), (Some("worktree"), 2), (Some("user"), 1)] {
        let whose = if scope == Some("user") { owner.id.clone() } else { worktree.clone() };
        if let Some(scope) = scope {
            owner.client.set_budget(&budget(scope, &whose, "sessions", 0, most as i64)).unwrap();
        }
        let sessions = stalled(5);
        until("as many as may be", || (at_work(&sessions) == most).then_some(()));
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert_eq!(at_work(&sessions), most, "{scope:?}");
        // A place that becomes free is taken by the next.
        let first = sessions.iter().find(|session| at_work(&[(*session).clone()]) == 1).unwrap().clone();
        owner.client.close_session(&first).unwrap();
        let rest: Vec<String> = sessions.iter().filter(|one| **one != first).cloned().collect();
        until("the next", || (at_work(&rest) == most).then_some(()));
        ends(&rest);
    }
    for (scope, whose) in [("user", &owner.id), ("worktree", &worktree)] {
        owner
            .client
            .set_budget(&api::SetBudgetRequest { most: None, ..budget(scope, whose, "sessions", 0, 0) })
            .unwrap();
    }
    // What comes from a session, with itself.
    let root = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    owner.client.set_budget(&budget("session", &root, "sessions", 0, 1)).unwrap();
    let fork = owner.client.fork_session(&root, &api::ForkRequest::default()).unwrap().id;
    let both = [root.clone(), fork.clone()];
    for session in &both {
        owner.client.prompt_session(session, "stall a while").unwrap();
    }
    until("one of them", || (at_work(&both) == 1).then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(at_work(&both), 1);
    let odd = budget("session", &root, "sessions", 60, 1);
    assert_eq!(owner.client.set_budget(&odd).unwrap_err().status(), Some(422), "it is no matter of time");
    ends(&both);
}

/// ACC-19: prompts of one session in a minute, and the one that is too many.
#[test]
fn acc_19_prompts_of_a_minute_are_bounded() {
    let host = host(&[("budgets.session_messages_per_minute", "3")]);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    for n in 0..3 {
        owner.client.prompt_session(&session, &format!("say {n}")).unwrap();
    }
    let refused = owner.client.prompt_session(&session, "say more").unwrap_err();
    assert!(refused.status() == Some(409) && refused.to_string().contains("minute"), "{refused}");
    assert_eq!(tasks(owner, &session).len(), 3);
}

/// ACC-19, ACC-20: tokens and time at work are budgets as well, of agents and of programs without a protocol; what nobody decides about in the time that
/// is set for it ends the task.
#[test]
fn acc_20_tokens_and_time_freeze_and_nobody_s_silence_ends_the_task() {
    let host = host(&[("budgets.patience_minutes", "1")]);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let program = api::CreateSessionRequest {
        agent: "command".into(),
        command: ["sh", "-c", "cat; sleep 77001"].map(str::to_owned).to_vec(),
        ..new_session(&worktree)
    };
    let all: Vec<_> = [
        ("tokens", 500, new_session(&worktree), "spend 1"),
        ("wall", 2_000, new_session(&worktree), "pace 10000 100"),
        ("wall", 2_000, program, "go"),
    ]
    .into_iter()
    .map(|(kind, most, new, prompt)| {
        let session = owner.client.create_session(&new).unwrap().id;
        owner.client.set_budget(&budget("session", &session, kind, 0, most)).unwrap();
        let task = owner.client.prompt_session(&session, prompt).unwrap();
        (kind, session, task.id)
    })
    .collect();
    for (kind, session, task) in &all {
        let one = asked(owner, session);
        assert_eq!(one.asks["budget"]["kind"], *kind, "{one:?}");
        until("it stands still", || {
            (tasks(owner, session).into_iter().find(|now| now.id == *task)?.state == "held").then_some(())
        });
    }
    for (kind, session, task) in &all {
        let end = ended(owner, session, task);
        assert!(end.state == "failed" && end.why.contains("nobody allowed more"), "{kind}: {end:?}");
        assert_eq!(owner.client.session(session).unwrap().held.as_deref(), Some("budget"));
        assert_eq!(owner.client.approvals(session, true).unwrap().items[0].state, "expired");
    }
}
