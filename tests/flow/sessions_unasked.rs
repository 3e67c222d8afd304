//! Where nobody can be asked, "ask" means no: at once, and with the way named that is missing.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use api::{Approval, CreateSessionRequest, SpawnRequest};
use tests::{Host, Person};

use crate::calls::{new_session, spawn};
use crate::sessions::{ended, quiet, steps, tasks, until};

/// How long a no may take.
const SOON: i64 = 1_000;

fn last(person: &Person, session: &str) -> Approval {
    person.client.approvals(session, true).unwrap().items.remove(0)
}

/// `palisade session prompt --follow` where there is no terminal.
fn prompts(host: &Host, who: &Person, session: &str, prompt: &str, more: &[&str]) -> Output {
    let mut command = host.command("palisade");
    command.args(["--url", host.base()]).args(more).args(["session", "prompt", session, prompt, "--follow"]);
    command.env("PALISADE_API_KEY", who.client.token().unwrap());
    command.stdin(Stdio::null()).output().unwrap()
}

/// ACC-16: a program without a terminal that asks for a task denies what that asks, and says what is missing; what other tasks ask,
/// and what is left to others, it does not touch.
#[test]
fn acc_16_a_command_line_without_a_terminal_is_a_no() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    for (file, more) in [("first", &[][..]), ("second", &["--json"][..])] {
        let output = prompts(&host, owner, &session, &format!("ask {file}"), more);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("there is no terminal") && told.contains("--leave-questions"), "{told}");
        let one = last(owner, &session);
        assert_eq!((one.state.as_str(), one.decided_by.as_deref()), ("denied", Some(owner.id.as_str())));
        let took = one.decided_at.unwrap() - one.created_at;
        assert!(took < SOON, "it took {took} ms");
        assert_eq!(owner.client.worktree_files(&worktree, file).unwrap_err().status(), Some(404));
    }
    // Left to others, somebody else says yes.
    let ana = host.user("ana", "admin");
    let output = std::thread::scope(|scope| {
        let mut command = host.command("palisade");
        command.args([
            "--url",
            host.base(),
            "session",
            "prompt",
            &session,
            "ask third",
            "--follow",
            "--leave-questions",
        ]);
        command.env("PALISADE_API_KEY", owner.client.token().unwrap());
        let run = scope.spawn(move || command.stdin(Stdio::null()).output().unwrap());
        let one = until("it is asked", || ana.client.approvals(&session, false).unwrap().items.pop());
        ana.client.allow_approval(&session, &one.id, &crate::calls::allow(&one, None)).unwrap();
        run.join().unwrap()
    });
    assert!(output.status.success(), "{output:?}");
    assert!(owner.client.worktree_files(&worktree, "third").is_ok());
    // One who only looks on decides nothing.
    let mut command = host.command("palisade");
    command.args(["--url", host.base(), "--json", "session", "attach", &session, "--after", "0"]);
    command.env("PALISADE_API_KEY", owner.client.token().unwrap());
    let mut looks = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let task = owner.client.prompt_session(&session, "ask fourth").unwrap();
    let one = until("it is asked", || ana.client.approvals(&session, false).unwrap().items.pop());
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(last(owner, &session).state, "open");
    ana.client.allow_approval(&session, &one.id, &crate::calls::allow(&one, None)).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    looks.kill().unwrap();
    looks.wait().unwrap();

    // The network of a run is asked about at a terminal, too. Starting a program takes a moment on a machine that is busy.
    let project = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let run =
        host.command("palisade").args(["run", "--ask", "--", "true"]).current_dir(project.path()).output();
    let output = run.unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("--ask needs a terminal"), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// ACC-16, ACC-14: what nobody looks on to is held, or denied at once where the daemon is set to that; a consent still counts.
#[test]
fn acc_16_where_nothing_waits_an_unattended_question_is_a_no() {
    let host = Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("budgets.session_messages_per_minute", "0")
        .set("sessions.unattended", "deny")
        .start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "ask first").unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    let one = last(owner, &session);
    assert_eq!((one.state.as_str(), one.decided_by.as_deref()), ("expired", None));
    let took = one.decided_at.unwrap() - one.created_at;
    assert!(took < SOON, "it took {took} ms");
    assert_eq!(owner.client.worktree_files(&worktree, "first").unwrap_err().status(), Some(404));
    let named = steps(owner, &session).into_iter().any(|step| {
        let text = step.body["text"].as_str().unwrap_or_default();
        text.contains("nobody looks on") && text.contains("sessions.unattended")
    });
    assert!(named, "the way that is missing is named");

    // While somebody looks on they are asked, and what they consent to holds when nobody does.
    let mut followed = owner.client.follow_session(&session, 0).unwrap();
    let task = owner.client.prompt_session(&session, "ask second").unwrap();
    let asks = followed
        .by_ref()
        .map_while(Result::ok)
        .find(|step| step.task.as_ref() == Some(&task.id) && step.body.get("approval").is_some());
    assert!(asks.is_some());
    let one = until("it is asked", || owner.client.approvals(&session, false).unwrap().items.pop());
    owner.client.allow_approval(&session, &one.id, &crate::calls::allow(&one, Some("session"))).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    drop(followed);
    let task = owner.client.prompt_session(&session, "ask second").unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    assert_eq!(last(owner, &session).state, "allowed");
}

/// ACC-16: a program that knows no protocol has no way to ask: a mode that asks is refused for it, and it is not opened for a session
/// that has to ask.
#[test]
fn acc_16_an_agent_without_a_way_to_ask_is_refused_where_somebody_must_be() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let begun = Instant::now();
    for mode in ["ask", "default", "plan"] {
        let new = CreateSessionRequest {
            agent: "command".into(),
            command: vec!["true".into()],
            mode: Some(mode.into()),
            ..new_session(&worktree)
        };
        let refused = owner.client.create_session(&new).unwrap_err();
        assert_eq!(refused.status(), Some(409), "{mode}: {refused}");
        assert!(refused.to_string().contains("no way to ask"), "{mode}: {refused}");
    }
    let parent = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let child = SpawnRequest { agent: Some("command".into()), command: vec!["true".into()], ..spawn("go") };
    let refused = owner.client.spawn_session(&parent, &child).unwrap_err();
    assert!(
        refused.status() == Some(409) && refused.to_string().contains("a program asks nobody"),
        "{refused}"
    );
    assert!(begun.elapsed() < Duration::from_secs(4), "each within a second: {:?}", begun.elapsed());
    assert!(tasks(owner, &parent).is_empty());
}
