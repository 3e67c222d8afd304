//! Prompting another person's session: refused unless two switches are on, and then with everything of whoever asks.

use std::os::unix::fs::FileExt;
use std::path::Path;

use api::{
    AddSecretRequest, CreateSessionRequest, ForkRequest, Hidden, LedgerEntry, SpawnRequest, UndoRequest,
};
use tests::{Host, HostBuilder, Person};

use crate::calls::{new_session, spawn};
use crate::sessions::{ended, said, steps, tasks, until};

const SWITCH: &str = "sessions.dangerously_allow_session_sharing";

/// An agent that remembers its conversations in its home and knows a secret.
const KEEPER: &str = r#"title = "An agent that remembers"
command = "acp-fake"
acp = ["acp-fake"]
[environment]
ACP_FAKE_HOME = "~"
[modes]
default = { requests = "ask" }
[[secret]]
name = "KEEPER_TOKEN"
hosts = ["model.example.org"]
"#;

fn builder(daemon: bool) -> HostBuilder {
    Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("budgets.session_messages_per_minute", "0")
        .set(SWITCH, if daemon { "true" } else { "false" })
}

fn shared() -> Host {
    let mut host = builder(true).stopped();
    std::fs::write(host.place().join("agents/fake.toml"), KEEPER).unwrap();
    host.start_daemon().unwrap();
    host.claim();
    host
}

fn warned<'a>(entries: &'a [LedgerEntry], action: &str) -> Vec<&'a LedgerEntry> {
    entries.iter().filter(|entry| entry.action == action && entry.line.contains("\"warning\"")).collect()
}

/// ACC-07: without both switches nobody prompts a session of somebody else's, nor has one opened for it, and is told which is off; with
/// both those do whom the table of tiers names.
#[test]
fn acc_07_three_of_four_combinations_are_refused() {
    for daemon in [false, true] {
        let host = builder(daemon).start();
        let boot = host.ledger(&Default::default());
        assert_eq!(
            warned(&boot, "session.sharing").len(),
            usize::from(daemon),
            "the daemon's switch is on the ledger"
        );
        let ana = host.user("ana", "member");
        let (bo, boss) = (host.user("bo", "member"), host.user("boss", "admin"));
        let viewer = host.user("viewer", "viewer");
        let worktree = host.tree(&ana, "demo", "prompt").id;
        let session = ana.client.create_session(&new_session(&worktree)).unwrap().id;
        for sharing in [false, true] {
            // Owners of the worktree and administrators turn it on, and nobody by the tier.
            assert_eq!(bo.client.set_sharing(&worktree, true).unwrap_err().status(), Some(403));
            let head = host.ledger_head();
            assert_eq!(ana.client.set_sharing(&worktree, sharing).unwrap().shares, sharing);
            let entries = host.since(head);
            assert_eq!(warned(&entries, "worktree.set_sharing").len(), usize::from(sharing), "{entries:?}");

            let before = tasks(&ana, &session).len();
            let head = host.ledger_head();
            let tried = |person: &Person| {
                let prompted = person.client.prompt_session(&session, "say from another");
                let opened = person
                    .client
                    .spawn_session(&session, &SpawnRequest { report: false, ..spawn("say child") });
                (prompted, opened)
            };
            if daemon && sharing {
                for person in [&bo, &boss, host.owner()] {
                    let head = host.ledger_head();
                    let (prompted, opened) = tried(person);
                    let (task, child) = (prompted.unwrap(), opened.unwrap().session);
                    assert_eq!(task.asked_by, person.id, "it is the caller's");
                    assert_eq!(child.creator, person.id, "a child is the caller's");
                    assert_eq!(ended(&ana, &session, &task.id).state, "done");
                    let entries = host.since(head);
                    for action in ["session.prompt", "session.start", "session.spawn"] {
                        let warnings = warned(&entries, action);
                        assert_eq!(warnings.len(), 1, "{action}: {entries:?}");
                        assert!(warnings.iter().all(|entry| entry.who.contains(&person.id)), "{warnings:?}");
                    }
                }
                continue;
            }
            for person in [&bo, &boss, host.owner()] {
                let (prompted, opened) = tried(person);
                for refused in [prompted.unwrap_err(), opened.unwrap_err()] {
                    assert_eq!(refused.status(), Some(403));
                    let text = refused.to_string();
                    let reason = if daemon { "its worktree lets nobody" } else { SWITCH };
                    assert!(text.contains(reason) && text.contains("palisade session fork"), "{text}");
                }
            }
            assert_eq!(tasks(&ana, &session).len(), before, "nothing was asked");
            let refused = host.since(head).into_iter().filter(|entry| entry.decision == "refused").count();
            assert_eq!(refused, 6, "each refusal is on the ledger once");
        }
        // Who opened it asks as ever, and that is nothing to be warned of.
        let head = host.ledger_head();
        let own = ana.client.prompt_session(&session, "say mine").unwrap();
        assert_eq!(ended(&ana, &session, &own.id).state, "done");
        assert_eq!(
            warned(&host.since(head), "session.prompt").len()
                + warned(&host.since(head), "session.start").len(),
            0
        );
        // The table of tiers holds with both switches on.
        for (tier, person, status) in
            [("session", &bo, 403), ("view", &bo, 403), ("none", &bo, 404), ("prompt", &viewer, 403)]
        {
            ana.client.set_tier(&worktree, tier).unwrap();
            let refused = person.client.prompt_session(&session, "say no").unwrap_err();
            assert_eq!(refused.status(), Some(status), "{tier}: {refused}");
        }
    }
}

/// ACC-07: `production = true` does not start with the daemon's switch on.
#[test]
fn acc_07_production_refuses_the_switch() {
    let mut host = builder(true).set("limits.requests_per_minute", "600").set("production", "true").stopped();
    let refused = host.start_daemon().unwrap_err();
    assert!(refused.contains(SWITCH), "{refused}");
}

/// What a program prints for a prompt, in a session whose program is a shell.
fn told(asks: &Person, session: &str, script: &str) -> String {
    let before = steps(asks, session).last().map_or(0, |step| step.seq);
    let task = asks.client.prompt_session(session, script).unwrap();
    let done = ended(asks, session, &task.id);
    assert_eq!(done.state, "done", "{done:?}");
    said(&steps(asks, session).into_iter().filter(|step| step.seq > before).collect::<Vec<_>>())
}

/// ACC-07: what runs has the home and the variables of whoever asked, and finds nothing that it had for another; what each changed in
/// the tree is there for both, and is taken back from where it was done.
#[test]
fn acc_07_each_has_a_home_and_variables_of_their_own() {
    let host = shared();
    let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
    let worktree = host.tree(&ana, "demo", "prompt").id;
    ana.client.set_sharing(&worktree, true).unwrap();
    let shell = CreateSessionRequest {
        agent: "command".into(),
        command: vec!["sh".into()],
        ..new_session(&worktree)
    };
    let session = ana.client.create_session(&shell).unwrap().id;
    let hers = told(
        &ana,
        &session,
        "echo ana-was-here > ~/left; echo from ana > shared.txt; echo $HOME $GIT_AUTHOR_EMAIL",
    );
    assert!(hers.contains("ana@example.org"), "{hers}");
    let look = "ls -A ~; cat ~/left; echo $HOME $GIT_AUTHOR_EMAIL $GIT_COMMITTER_NAME; cat shared.txt; echo from bo > bo.txt; \
                echo bo-was-here > ~/left; env; find / -xdev -name left 2>/dev/null";
    let his = told(&bo, &session, look);
    assert!(!his.contains("ana-was-here"), "her home is not there: {his}");
    assert!(
        his.contains("bo@example.org") && !his.contains("ana@example.org"),
        "the caller's variables: {his}"
    );
    assert!(his.contains("from ana"), "the tree is one: {his}");
    let (a, b) = (hers.split_whitespace().next().unwrap(), home(&his));
    assert_ne!(a, b, "two homes");
    // Nor does she find what he left, when she asks again; her own is as it was.
    let again = told(&ana, &session, "cat ~/left; ls -A ~; find / -xdev -name left 2>/dev/null; cat bo.txt");
    assert!(again.contains("ana-was-here") && !again.contains("bo-was-here"), "{again}");
    assert!(!again.contains(&bo.id) && again.contains("from bo"), "{again}");
    let his = told(&bo, &session, "cat ~/left");
    assert!(his.contains("bo-was-here"), "a home is there for the next task of the same person: {his}");

    // A task of his is taken back by her who opened the session, from where it was done.
    let change = bo.client.prompt_session(&session, "echo x > undone.txt").unwrap();
    assert_eq!(ended(&bo, &session, &change.id).state, "done");
    assert!(ana.client.worktree_files(&worktree, "undone.txt").is_ok());
    let undo = UndoRequest { task: Some(change.id.clone()), again: false };
    assert_eq!(bo.client.undo_task(&session, &undo).unwrap_err().status(), Some(403), "the session is hers");
    ana.client.undo_task(&session, &undo).unwrap();
    assert_eq!(ana.client.worktree_files(&worktree, "undone.txt").unwrap_err().status(), Some(404));

    // With the session both homes go.
    let own = host.data().join("runs/sessions").join(&session);
    let homes =
        [own.clone(), own.join("others").join(&bo.id)].map(|state| state.join("state/palisade/homes"));
    assert!(homes.iter().all(|home| home.exists()), "{homes:?}");
    ana.client.close_session(&session).unwrap();
    crate::gateway_wire::until("a home is still there", || !homes.iter().any(|home| home.exists()));
}

/// The home in what was printed.
fn home(told: &str) -> &str {
    told.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap()
}

/// Which of these values the launcher of a task was lent: it has it in its memory, and nobody has it in their arguments or environment.
fn lent(task: &str, values: &[&'static str]) -> Option<&'static str> {
    let mut held = None;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let line = read("cmdline");
        for said in [&line, &read("environ")] {
            let is_told = values.iter().any(|value| find(said, value));
            assert!(!is_told, "SEC-16: {}", String::from_utf8_lossy(&line));
        }
        if String::from_utf8_lossy(&line).contains(&format!("{task}.json")) {
            held = held.or_else(|| values.iter().copied().find(|value| holds(&entry.path(), value)));
        }
    }
    held
}

fn find(bytes: &[u8], value: &str) -> bool {
    bytes.windows(value.len()).any(|part| part == value.as_bytes())
}

/// Whether a process has this in memory that it can write.
fn holds(process: &Path, value: &str) -> bool {
    let Ok(memory) = std::fs::File::open(process.join("mem")) else { return false };
    let places = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
    places.lines().filter(|line| line.split(' ').nth(1).is_some_and(|may| may.starts_with("rw"))).any(
        |line| {
            let (from, to) = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
            let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(to - from).unwrap().min(64 << 20)];
            memory.read_at(&mut bytes, from).is_ok_and(|count| find(&bytes[..count], value))
        },
    )
}

fn keep(person: &Person, owner: Option<&str>, value: &str) {
    let secret = AddSecretRequest {
        name: "KEEPER_TOKEN".into(),
        value: Hidden(value.into()),
        owner: owner.map(str::to_owned),
        hosts: vec!["model.example.org".into()],
        expires: None,
        replace: false,
    };
    person.client.add_secret(&secret).unwrap();
}

/// ACC-07: what is lent is the caller's, in the usual order of owners; the agent goes on with its own conversation only for whoever
/// it was at work for; forks are the caller's.
#[test]
fn acc_07_secrets_conversations_and_forks_are_the_callers() {
    let host = shared();
    let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
    let worktree = host.tree(&ana, "demo", "prompt").id;
    ana.client.set_sharing(&worktree, true).unwrap();
    const VALUES: [&str; 3] = ["the-value-of-ana-41", "the-value-of-all-42", "the-value-of-bo-43"];
    keep(&ana, None, "the-value-of-ana-41");
    keep(host.owner(), Some("daemon"), "the-value-of-all-42");
    let new = new_session(&worktree);
    let session = ana.client.create_session(&new).unwrap().id;
    let run = |who: &Person, prompt: &str, value: &str| {
        let head = host.ledger_head();
        let task = who.client.prompt_session(&session, &format!("stall {prompt}")).unwrap();
        assert_eq!(until("the launcher is there", || lent(&task.id, &VALUES)), value, "{prompt}");
        until("it is heard", || said(&steps(who, &session)).contains(prompt).then_some(()));
        let leased: Vec<LedgerEntry> =
            host.since(head).into_iter().filter(|entry| entry.action == "secret.lease").collect();
        assert!(!leased.is_empty() && leased.iter().all(|entry| entry.who.contains(&who.id)), "{leased:?}");
        ana.client.stop_session(&session).unwrap();
        ended(&ana, &session, &task.id);
    };
    run(&ana, "one", "the-value-of-ana-41");
    // He has none: what counts is the daemon's, and never hers.
    run(&bo, "two", "the-value-of-all-42");
    keep(&bo, None, "the-value-of-bo-43");
    run(&bo, "three", "the-value-of-bo-43");
    run(&ana, "four", "the-value-of-ana-41");

    // Hers begins anew with what was said, since his came between; then it is gone on with.
    let recalled = |who: &Person| {
        let before = steps(who, &session).last().unwrap().seq;
        let task = who.client.prompt_session(&session, "recall").unwrap();
        assert_eq!(ended(who, &session, &task.id).state, "done");
        let new: Vec<_> = steps(who, &session).into_iter().filter(|step| step.seq > before).collect();
        let anew =
            new.iter().any(|step| step.body["text"].as_str().unwrap_or_default().contains("begins anew"));
        (said(&new), anew)
    };
    let (his, anew) = recalled(&bo);
    assert!(anew && his.contains("stall four"), "he is told what she asked: {his}");
    let (his, anew) = recalled(&bo);
    assert!(!anew && his.is_empty(), "his own is gone on with: {his}");
    let (hers, anew) = recalled(&ana);
    assert!(anew && hers.contains("recall"), "{hers}");

    let fork = bo.client.fork_session(&session, &ForkRequest::default()).unwrap();
    assert_eq!(fork.creator, bo.id);
    let before = Path::new(&host.data()).join("runs/sessions").join(&fork.id);
    let task = bo.client.prompt_session(&fork.id, "stall five").unwrap();
    assert_eq!(until("the launcher of the fork", || lent(&task.id, &VALUES)), "the-value-of-bo-43");
    assert!(!before.join("others").exists(), "a fork is his own");
    bo.client.stop_session(&fork.id).unwrap();
}

/// ACC-07: a switch that is turned off ends what runs by it, and what waits is not begun; a consent for one is none for another.
#[test]
fn acc_07_a_switch_turned_off_ends_what_runs_by_it() {
    let mut host = shared();
    let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
    let worktree = host.tree(&ana, "demo", "prompt").id;
    ana.client.set_sharing(&worktree, true).unwrap();
    let session = ana.client.create_session(&new_session(&worktree)).unwrap().id;

    // She consents to an effect for her session; the same effect of a task of his is asked about.
    let asked = |person: &Person| {
        until("something is asked", || person.client.approvals(&session, false).unwrap().items.pop())
    };
    let first = ana.client.prompt_session(&session, "ask same.txt").unwrap();
    let one = asked(&ana);
    let body = crate::calls::allow(&one, Some("session"));
    ana.client.allow_approval(&session, &one.id, &body).unwrap();
    assert_eq!(ended(&ana, &session, &first.id).state, "done");
    let second = ana.client.prompt_session(&session, "ask same.txt").unwrap();
    assert_eq!(ended(&ana, &session, &second.id).state, "done", "hers is covered");
    let third = bo.client.prompt_session(&session, "ask same.txt").unwrap();
    let two = asked(&bo);
    assert_eq!(two.task, third.id, "his is asked about");
    bo.client.allow_approval(&session, &two.id, &crate::calls::allow(&two, None)).unwrap();
    assert_eq!(ended(&bo, &session, &third.id).state, "done");

    let running = bo.client.prompt_session(&session, "stall here").unwrap();
    let waiting = bo.client.prompt_session(&session, "say later").unwrap();
    let state = |id: &str| tasks(&ana, &session).into_iter().find(|task| task.id == id).unwrap().state;
    until("it is at work", || (state(&running.id) == "running").then_some(()));
    ana.client.set_sharing(&worktree, false).unwrap();
    let over = ended(&ana, &session, &running.id);
    assert!(over.state == "failed" && over.why.contains("may not do that any more"), "{over:?}");
    assert_eq!(state(&waiting.id), "queued", "what waits is kept");
    ana.client.resume_session(&session).unwrap();
    until("it is held again", || {
        let text = steps(&ana, &session).last()?.body["text"].as_str()?.to_owned();
        text.contains("its worktree lets nobody").then_some(())
    });
    assert_eq!(state(&waiting.id), "queued");

    // The worktree's switch alone is not enough after a start without the daemon's.
    ana.client.set_sharing(&worktree, true).unwrap();
    host.stop();
    host.set(SWITCH, "false");
    host.start_daemon().unwrap();
    let (ana, bo) = (ana.at(&host), bo.at(&host));
    ana.client.resume_session(&session).unwrap();
    until("it is held for the daemon's", || {
        let text = steps(&ana, &session).last()?.body["text"].as_str()?.to_owned();
        text.contains(SWITCH).then_some(())
    });
    assert_eq!(bo.client.prompt_session(&session, "say no").unwrap_err().status(), Some(403));
}
