//! Sessions that come from others: forked, opened for one another, their ends told; the order of a queue; what is taken back.

use std::collections::BTreeSet;

use api::{CreateSessionRequest, ForkRequest, SpawnRequest, UndoRequest};
use tests::{Host, scale};

use crate::calls::{new_session, spawn};
use crate::sessions::{ended, quiet, said, steps, tasks, until};

/// SES-09: a fork has the history up to its place, the other one stays as it is, the caller is its creator, and its agent is
/// given what was said before.
#[test]
fn ses_09_a_fork_goes_on_from_its_place_and_changes_nothing_else() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let ana = host.user("ana", "member");
    let new = CreateSessionRequest { title: Some("The first".into()), ..new_session(&worktree) };
    let parent = owner.client.create_session(&new).unwrap().id;
    for words in ["say the colour is green", "say the number is seven"] {
        let task = owner.client.prompt_session(&parent, words).unwrap();
        assert_eq!(ended(owner, &parent, &task.id).state, "done");
    }
    let before = steps(owner, &parent);
    let at = before.iter().position(|step| step.kind == "result").unwrap() + 1;
    let at = i64::try_from(at).unwrap();

    let fork = ana.client.fork_session(&parent, &ForkRequest { at: Some(at), title: None }).unwrap();
    assert_eq!((fork.creator.as_str(), fork.title.as_str()), (ana.id.as_str(), "The first"));
    assert_eq!((fork.agent.as_str(), fork.depth), ("fake", 0));
    let origin = fork.origin.clone().unwrap();
    assert_eq!(
        (origin.parent.as_str(), origin.born.as_str(), origin.at),
        (parent.as_str(), "fork", Some(at))
    );
    let task = ana.client.prompt_session(&fork.id, "recall").unwrap();
    assert_eq!(ended(&ana, &fork.id, &task.id).state, "done");
    let after = steps(&ana, &fork.id);
    let bodies = |steps: &[api::Step], most: i64| {
        steps
            .iter()
            .filter(|step| step.seq <= most)
            .map(|step| (step.seq, step.kind.clone(), step.body.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(bodies(&after, at), bodies(&before, at), "the same history up to its place");
    let told = said(&after.into_iter().filter(|step| step.seq > at).collect::<Vec<_>>());
    assert!(told.contains("say the colour is green") && told.contains("the colour is green"), "{told}");
    assert!(!told.contains("seven"), "what came later is not in it: {told}");
    assert_eq!(steps(owner, &parent), before, "the other one is as it was");

    // The whole of it, where no place is named; and places that there are not.
    let whole = owner.client.fork_session(&parent, &ForkRequest::default()).unwrap();
    assert_eq!(whole.origin.unwrap().at, Some(before.last().unwrap().seq));
    for at in [-1, before.last().unwrap().seq + 1] {
        let status = owner
            .client
            .fork_session(&parent, &ForkRequest { at: Some(at), title: None })
            .unwrap_err()
            .status();
        assert!(matches!(status, Some(409 | 422)), "{at}: {status:?}");
    }

    // Another's session is forked by whoever may work there, and its own stays closed to them.
    assert_eq!(ana.client.prompt_session(&parent, "say x").unwrap_err().status(), Some(403));
    host.owner().client.set_tier(&worktree, "view").unwrap();
    assert_eq!(ana.client.fork_session(&parent, &ForkRequest::default()).unwrap_err().status(), Some(403));
    host.owner().client.set_tier(&worktree, "none").unwrap();
    assert_eq!(ana.client.fork_session(&parent, &ForkRequest::default()).unwrap_err().status(), Some(404));
    assert_eq!(ana.client.lineage(&parent).unwrap_err().status(), Some(404));
}

/// SES-09, ACC-09: what is opened for a session asks at least what that asks, so deep and so many; at the last depth the right
/// is gone.
#[test]
fn ses_09_acc_09_a_child_is_within_what_its_parent_may() {
    let host = Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("sessions.depth", "2")
        .set("sessions.fan_out", "2")
        .start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let careful = CreateSessionRequest {
        mode: Some("default".into()),
        model: Some("small".into()),
        ..new_session(&worktree)
    };
    let root = owner.client.create_session(&careful).unwrap().id;
    let wanted = |change: &dyn Fn(&mut SpawnRequest)| {
        let mut request = spawn("say hello");
        change(&mut request);
        owner.client.spawn_session(&root, &request)
    };
    for mode in ["acceptEdits", "bypassPermissions", "allow-all", "auto"] {
        let refused = wanted(&|request| request.mode = Some(mode.into())).unwrap_err();
        assert_eq!(refused.status(), Some(409), "{mode}: {refused}");
    }
    let program = wanted(&|request| {
        request.agent = Some("command".into());
        request.command = vec!["true".into()];
    });
    assert_eq!(program.unwrap_err().status(), Some(409), "a program asks nobody");

    let child = wanted(&|_| {}).unwrap().session;
    assert_eq!(
        (child.mode.as_deref(), child.model.as_deref()),
        (Some("default"), Some("small")),
        "the same agent inherits"
    );
    assert_eq!((child.depth, child.creator.as_str()), (1, owner.id.as_str()));
    let plan = wanted(&|request| request.mode = Some("plan".into())).unwrap().session;
    assert_eq!(plan.mode.as_deref(), Some("plan"), "less is always possible");
    let full = wanted(&|_| {}).unwrap_err();
    assert!(full.status() == Some(409) && full.to_string().contains("2"), "{full}");
    owner.client.close_session(&child.id).unwrap();
    let other = wanted(&|_| {}).unwrap().session;

    let grandchild = owner.client.spawn_session(&other.id, &spawn("say deep")).unwrap().session;
    assert_eq!(grandchild.depth, 2);
    let deeper = owner.client.spawn_session(&grandchild.id, &spawn("say deeper")).unwrap_err();
    assert_eq!(deeper.status(), Some(409), "{deeper}");
    // A fork is as deep as what it was forked from.
    let fork = owner.client.fork_session(&grandchild.id, &ForkRequest::default()).unwrap();
    assert_eq!(fork.depth, 2);
    assert_eq!(owner.client.spawn_session(&fork.id, &spawn("say x")).unwrap_err().status(), Some(409));

    // Nobody opens one for another's session.
    let ana = host.user("ana", "admin");
    assert_eq!(ana.client.spawn_session(&root, &spawn("say x")).unwrap_err().status(), Some(403));

    // SES-11: where each comes from, and what comes from it.
    let all = owner.client.lineage(&root).unwrap();
    assert!(all.ancestors.is_empty() && !all.more);
    assert!(all.descendants.iter().any(|one| one.id == fork.id), "{all:?}");
    let up = owner.client.lineage(&fork.id).unwrap();
    let ids: Vec<&str> = up.ancestors.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, [root.as_str(), other.id.as_str(), grandchild.id.as_str()], "the first of all first");
}

/// SES-10: each child's end is told once, also of those that fail and though the daemon is killed, one at a time; and only where
/// that is wanted.
#[test]
fn ses_10_a_childs_end_is_told_once() {
    let children = scale(100, 8);
    let mut host = Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("sessions.fan_out", "200")
        .set("sessions.notice", "say told {session} {state} {text}")
        .start();
    let owner = host.owner().clone();
    let worktree = host.tree(&owner, "demo", "session").id;
    let parent = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let mut asked = BTreeSet::new();
    for n in 0..children {
        let prompt = if n % 5 == 4 { "die".to_owned() } else { format!("say child {n}") };
        asked.insert(owner.client.spawn_session(&parent, &spawn(&prompt)).unwrap().session.id);
    }
    let silent = SpawnRequest { report: false, ..spawn("say silent") };
    let silent = owner.client.spawn_session(&parent, &silent).unwrap();
    ended(&owner, &silent.session.id, &silent.task.id);
    host.kill();
    host.restart();
    let owner = host.owner().clone();
    let all = until("every child told of", || {
        // What a killed daemon interrupted holds the parent's queue until somebody says so.
        let row = owner.client.session(&parent).unwrap();
        if row.held.is_some() {
            owner.client.resume_session(&parent).unwrap();
        }
        let told = tasks(&owner, &parent);
        let over = told.iter().all(|task| task.ended_at.is_some());
        (told.len() >= asked.len() && over).then_some(told)
    });
    let child = |prompt: &str| prompt.split(' ').nth(2).unwrap().to_owned();
    let told: Vec<String> = all.iter().map(|task| child(&task.prompt)).collect();
    assert_eq!(told.len(), asked.len(), "once each: {told:?}");
    assert_eq!(told.iter().cloned().collect::<BTreeSet<_>>(), asked);
    assert!(!told.contains(&silent.session.id));
    assert!(all.iter().any(|task| task.prompt.contains("done > child 0")), "what it said is told");
    assert!(all.iter().any(|task| task.prompt.contains(" failed ")), "failures as well");
}

/// SES-02: what waits can be put in another order; whoever saw another queue changes nothing.
#[test]
fn ses_02_a_queue_is_put_in_order_by_who_sees_it_as_it_is() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let first = owner.client.prompt_session(&session, "stall on it").unwrap().id;
    until("the first at work", || {
        tasks(owner, &session).iter().any(|t| t.id == first && t.state == "running").then_some(())
    });
    let ids: Vec<String> =
        (0..4).map(|n| owner.client.prompt_session(&session, &format!("say {n}")).unwrap().id).collect();
    let turned: Vec<String> = ids.iter().rev().cloned().collect();
    for stale in [
        ids[..3].to_vec(),
        [ids.clone(), vec![first.clone()]].concat(),
        [ids.clone(), vec![ids[0].clone()]].concat(),
    ] {
        assert_eq!(owner.client.reorder_tasks(&session, stale).unwrap_err().status(), Some(409));
    }
    let now: Vec<String> = owner
        .client
        .reorder_tasks(&session, turned.clone())
        .unwrap()
        .items
        .into_iter()
        .map(|task| task.id)
        .collect();
    assert_eq!(now, turned);
    owner.client.stop_session(&session).unwrap();
    ended(owner, &session, &first);
    owner.client.resume_session(&session).unwrap();
    ended(owner, &session, &ids[0]);
    let mut begun: Vec<(i64, String)> = tasks(owner, &session)
        .into_iter()
        .filter(|task| task.id != first)
        .map(|task| (task.started_at.unwrap(), task.id))
        .collect();
    begun.sort();
    assert_eq!(begun.into_iter().map(|(_, id)| id).collect::<Vec<_>>(), turned, "begun in that order");
}

/// WT-19: what a task changed is taken back and nothing else, and can be brought back.
#[test]
fn wt_19_what_a_task_changed_is_taken_back_and_nothing_else() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let run = |words: &str| {
        let task = owner.client.prompt_session(&session, words).unwrap();
        assert_eq!(ended(owner, &session, &task.id).state, "done");
        task.id
    };
    let read = |name: &str| owner.client.worktree_files(&worktree, name).ok().and_then(|file| file.text);
    let nothing = owner.client.undo_task(&session, &UndoRequest::default()).unwrap_err();
    assert_eq!(nothing.status(), Some(409), "{nothing}");
    run("write one.txt first words");
    let second = run("write one.txt second words");
    let third = run("write two.txt other words");
    // One that changed nothing has nothing that could be taken back, and is in nobody's way.
    let idle = run("say nothing");
    assert_eq!(read("one.txt").as_deref(), Some("second words\n"));

    // The last one, and what is named.
    let undone = owner.client.undo_task(&session, &UndoRequest::default()).unwrap();
    assert_eq!(undone.id, third);
    assert!(undone.undone_at.is_some() && read("two.txt").is_none());
    let undo =
        |task: &str, again| owner.client.undo_task(&session, &UndoRequest { task: Some(task.into()), again });
    let refused = undo(&idle, false).unwrap_err();
    assert!(refused.status() == Some(409) && refused.to_string().contains("nothing"), "{refused}");
    undo(&second, false).unwrap();
    assert_eq!(read("one.txt").as_deref(), Some("first words\n"));

    // It can be brought back, unless somebody changed it since.
    undo(&third, true).unwrap();
    assert_eq!(read("two.txt").as_deref(), Some("other words\n"));
    run("write one.txt third words");
    let refused = undo(&second, true).unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    assert_eq!(read("one.txt").as_deref(), Some("third words\n"), "nobody's work is lost");

    // Not while an agent is at work there.
    owner.client.prompt_session(&session, "stall on it").unwrap();
    until("it at work", || owner.client.session(&session).unwrap().at_work);
    let refused = undo(&third, false).unwrap_err();
    assert!(refused.status() == Some(409) && refused.to_string().contains("at work"), "{refused}");
    assert_eq!(read("two.txt").as_deref(), Some("other words\n"));
}

/// WT-19: while a task is taken back nobody begins anything in that tree, whoever asks in whichever session; elsewhere they do. What was asked
/// meanwhile is begun afterwards.
#[test]
fn wt_19_nothing_is_begun_in_a_tree_in_which_a_task_is_taken_back() {
    let host = quiet();
    let owner = host.owner();
    let (tree, other) = (host.tree(owner, "demo", "session"), host.tree(owner, "other", "session"));
    let ana = host.user("ana", "member");
    let first =
        owner.client.create_session(&shell(&tree.id, "cat >/dev/null; seq 2000 | xargs touch")).unwrap().id;
    let task = owner.client.prompt_session(&first, "go").unwrap();
    assert_eq!(ended(owner, &first, &task.id).state, "done");
    let run = tasks(owner, &first)[0].run.clone().unwrap();
    let place = host.data().join("worktrees").join(&tree.id);
    assert!(place.join("2000").exists());
    let second = ana.client.create_session(&shell(&tree.id, "cat >/dev/null; ls | wc -l")).unwrap().id;
    let third = owner.client.create_session(&shell(&other.id, "cat >/dev/null; echo elsewhere")).unwrap().id;
    std::thread::scope(|scope| {
        let undone = scope.spawn(|| owner.client.undo_task(&first, &UndoRequest::default()));
        // Whoever takes it back stands still in the middle of it.
        let taking = until("it is taken back", || {
            let all = crate::neighbours::processes(&run);
            all.into_iter().find(|number| {
                let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains("--undo")
            })
        });
        let taking = rustix::process::Pid::from_raw(i32::try_from(taking).unwrap()).unwrap();
        rustix::process::kill_process(taking, rustix::process::Signal::STOP).unwrap();
        let waits = ana.client.prompt_session(&second, "go").unwrap();
        let goes = owner.client.prompt_session(&third, "go").unwrap();
        assert_eq!(ended(owner, &third, &goes.id).state, "done", "elsewhere it goes on");
        // Longer than anybody rests who looks for what waits.
        for _ in 0..70 {
            assert_eq!(tasks(&ana, &second)[0].state, "queued", "the tree is somebody's alone");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        rustix::process::kill_process(taking, rustix::process::Signal::CONT).unwrap();
        assert!(undone.join().unwrap().unwrap().undone_at.is_some());
        let end = ended(&ana, &second, &waits.id);
        assert_eq!(end.state, "done", "{}", end.why);
        let (began, over) = (end.started_at.unwrap(), tasks(owner, &first)[0].undone_at.unwrap());
        assert!(began >= over, "it began when the other was over: {began} {over}");
    });
    assert!(!place.join("2000").exists());
    assert!(!said(&steps(&ana, &second)).contains("20"), "it saw none of what was taken back");
}

fn shell(worktree: &str, script: &str) -> CreateSessionRequest {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    CreateSessionRequest { agent: "command".into(), command, ..new_session(worktree) }
}
