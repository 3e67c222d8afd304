//! Sessions through the public surface: the queue, the stream, stopping, crashes, rights. The agent is `acp-fake`, which does
//! what its prompt says, or a plain program; the sandbox and the worktree are real.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use api::{CreateSessionRequest, Session, Step, Task};
use tests::{Host, Person, scale};

use crate::calls::new_session;

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until there is what is looked for.
#[track_caller]
pub fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("waited in vain: {what}");
}

/// A daemon that does not mind being asked often.
pub fn quiet() -> Host {
    Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("budgets.session_messages_per_minute", "0")
        .start()
}

fn command(worktree: &str, words: &[&str]) -> CreateSessionRequest {
    let command = words.iter().map(|word| (*word).to_owned()).collect();
    CreateSessionRequest { agent: "command".into(), command, ..new_session(worktree) }
}

pub fn tasks(person: &Person, session: &str) -> Vec<Task> {
    person.client.tasks(session, 0).unwrap().items
}

fn task(person: &Person, session: &str, id: &str) -> Task {
    tasks(person, session).into_iter().find(|task| task.id == id).unwrap()
}

/// Waits for the end of a task.
#[track_caller]
pub fn ended(person: &Person, session: &str, id: &str) -> Task {
    until("the end of a task", || {
        let found = task(person, session, id);
        ["done", "failed", "stopped"].contains(&found.state.as_str()).then_some(found)
    })
}

pub fn steps(person: &Person, session: &str) -> Vec<Step> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = person.client.steps(session, after).unwrap();
        all.extend(page.items);
        match page.next {
            Some(next) => after = next,
            None => return all,
        }
    }
}

/// What the agent said, put together.
pub fn said(steps: &[Step]) -> String {
    let said = steps.iter().filter(|step| step.kind == "assistant");
    said.filter_map(|step| step.body["text"].as_str()).collect()
}

/// Processes whose command line has this word, as this machine sees them.
fn processes(word: &str) -> Vec<u32> {
    let has = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|part| part == word)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter(has).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// SES-01: what was asked is kept before it is acknowledged; of many one runs, and the others wait in their order.
#[test]
fn ses_01_of_many_prompts_one_runs_and_the_others_wait_in_order() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let first = owner.client.prompt_session(&session, "stall on it").unwrap();
    assert_eq!((first.state.as_str(), first.prompt.as_str()), ("queued", "stall on it"));
    until("the first at work", || (task(owner, &session, &first.id).state == "running").then_some(()));
    let asked: Vec<Task> = std::thread::scope(|scope| {
        let ask = |n: usize| owner.client.prompt_session(&session, &format!("say {n}")).unwrap();
        let all: Vec<_> = (0..19).map(|n| scope.spawn(move || ask(n))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let all = tasks(owner, &session);
    assert_eq!(all.iter().filter(|task| task.state == "running").count(), 1);
    let waiting: Vec<&Task> = all.iter().filter(|task| task.state == "queued").collect();
    assert_eq!(waiting.len(), 19);
    assert!(waiting.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    let ids = |tasks: &mut dyn Iterator<Item = String>| tasks.collect::<BTreeSet<String>>();
    assert_eq!(
        ids(&mut asked.into_iter().map(|task| task.id)),
        ids(&mut waiting.iter().map(|task| task.id.clone()))
    );

    let before = all.len();
    for bad in ["", "  \n\t ", &"x".repeat(256_001)] {
        assert_eq!(owner.client.prompt_session(&session, bad).unwrap_err().status(), Some(422));
    }
    assert_eq!(tasks(owner, &session).len(), before, "nothing was kept");
    let longest = owner.client.prompt_session(&session, &"x".repeat(256_000)).unwrap();

    // The queue can be thinned out, and what is at work ended; the rest waits for somebody to say so.
    assert_eq!(owner.client.stop_task(&session, &longest.id).unwrap().state, "cancelled");
    assert_eq!(owner.client.stop_session(&session).unwrap().state, "ending");
    assert_eq!(ended(owner, &session, &first.id).state, "stopped");
    assert_eq!(owner.client.session(&session).unwrap().held.as_deref(), Some("stopped"));
    owner.client.resume_session(&session).unwrap();
    let last = waiting.last().unwrap().id.clone();
    assert_eq!(ended(owner, &session, &last).state, "done");
    let begun: Vec<(i64, i64)> =
        tasks(owner, &session).iter().filter_map(|task| Some((task.started_at?, task.seq))).collect();
    assert_eq!(begun.len(), 20);
    assert!(begun.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in their order: {begun:?}");
    let users = steps(owner, &session).into_iter().filter(|step| step.kind == "user").count();
    assert_eq!(users, 20, "each was said once");
}

/// SES-02, SES-05: whenever the daemon is killed, nothing that was asked is lost, done twice or out of order.
#[test]
fn ses_02_a_daemon_that_is_killed_loses_nothing_and_doubles_nothing() {
    let mut host = quiet();
    let worktree = host.tree(host.owner(), "demo", "session").id;
    let owner = host.owner().clone();
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let kills = scale(100, 4);
    for n in 0..kills {
        let owner = host.owner().clone();
        for m in 0..3 {
            owner.client.prompt_session(&session, &format!("say {n}-{m}")).unwrap();
        }
        std::thread::sleep(Duration::from_millis(u64::try_from(n * 137 % 900).unwrap()));
        host.kill();
        host.restart();
        let owner = host.owner().clone();
        until("what was at work has a true end", || {
            let all = tasks(&owner, &session);
            let row = owner.client.session(&session).unwrap();
            // Only what this daemon began is at work.
            (row.held.is_some() || all.iter().all(|task| task.state != "running") || row.queued == 0)
                .then_some(())
        });
        owner.client.resume_session(&session).unwrap();
    }
    let owner = host.owner().clone();
    until("the queue is empty", || {
        let row = owner.client.session(&session).unwrap();
        if row.held.is_some() {
            owner.client.resume_session(&session).unwrap();
        }
        (row.queued == 0 && row.at_work.is_none()).then_some(())
    });
    let all = tasks(&owner, &session);
    assert_eq!(all.len(), kills * 3, "nothing is lost");
    let prompts: Vec<&str> = all.iter().map(|task| task.prompt.as_str()).collect();
    let expected: Vec<String> =
        (0..kills).flat_map(|n| (0..3).map(move |m| format!("say {n}-{m}"))).collect();
    assert_eq!(prompts, expected, "in the order in which they were asked");
    assert!(all.iter().all(|task| ["done", "failed"].contains(&task.state.as_str())), "{all:?}");
    let told = steps(&owner, &session);
    for task in &all {
        let begun =
            told.iter().filter(|step| step.kind == "user" && step.task.as_deref() == Some(&task.id)).count();
        assert!(begun <= 1, "{} was begun {begun} times", task.prompt);
        assert!(begun == 1 || task.state == "failed", "{task:?}");
    }
    assert!(told.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1), "no place is left out");
    assert_eq!(owner.client.verify_ledger().unwrap().verdict, "intact");
}

/// SES-03: whoever is cut off and comes back by the cursor sees each step once, in order, and the pieces joined are the message.
#[test]
fn ses_03_a_stream_that_is_cut_is_resumed_without_gaps() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let words: Vec<String> = (0..200).map(|n| format!("word{n}")).collect();
    let prompt = format!("say {}", words.join(" "));
    let task = owner.client.prompt_session(&session, &prompt).unwrap();
    let (mut seen, mut cuts): (Vec<Step>, usize) = (Vec::new(), 0);
    while seen.last().is_none_or(|step| step.kind != "result") {
        let after = seen.last().map_or(0, |step| step.seq);
        cuts += 1;
        assert!(cuts < 500);
        for step in owner.client.follow_session(&session, after).unwrap().take(3).map(Result::unwrap) {
            seen.push(step);
            if seen.last().is_some_and(|step| step.kind == "result") {
                break;
            }
        }
    }
    assert!(cuts > 50, "{cuts}");
    assert_eq!(seen, steps(owner, &session), "as it is kept");
    assert!(seen.iter().enumerate().all(|(n, step)| step.seq == i64::try_from(n).unwrap() + 1));
    assert_eq!(said(&seen).trim_end(), words.join(" "));
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    assert_eq!(owner.client.steps(&session, 9_999).unwrap().items, [], "nothing is behind the end");
}

/// SES-04: a program that does not want to end, with children that left it, is gone before its task is `stopped`.
#[test]
fn ses_04_stopped_means_that_nothing_is_left() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let script = "trap '' TERM; (trap '' TERM; setsid sleep 54321) & cat >/dev/null; echo up; while :; do sleep 54321; done";
    let session = owner.client.create_session(&command(&worktree, &["sh", "-c", script])).unwrap().id;
    let task = owner.client.prompt_session(&session, "go").unwrap();
    until("it is up", || said(&steps(owner, &session)).contains("up").then_some(()));
    until("its child is there", || (!processes("54321").is_empty()).then_some(()));
    let began = Instant::now();
    assert_eq!(owner.client.stop_session(&session).unwrap().state, "ending");
    let now = self::task(owner, &session, &task.id);
    assert!(now.state != "running" || now.stopping_at.is_some(), "{now:?}");
    let ended = ended(owner, &session, &task.id);
    assert_eq!(processes("54321"), [0; 0], "gone before it is told");
    assert_eq!(ended.state, "stopped");
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    assert_eq!(owner.client.stop_session(&session).unwrap().state, "nothing");
}

/// SES-05: the daemon is killed with many at work: each has a true end, and no process is without an owner.
#[test]
fn ses_05_a_crash_leaves_the_truth_and_no_process() {
    let mut host = quiet();
    let worktree = host.tree(host.owner(), "demo", "session").id;
    let count = scale(10, 4);
    let sessions: Vec<String> = (0..count)
        .map(|_| {
            let owner = host.owner();
            let body = command(&worktree, &["sh", "-c", "cat >/dev/null; echo up; sleep 65432"]);
            let session = owner.client.create_session(&body).unwrap().id;
            owner.client.prompt_session(&session, "go").unwrap();
            session
        })
        .collect();
    let owner = host.owner().clone();
    for session in &sessions {
        until("all are up", || said(&steps(&owner, session)).contains("up").then_some(()));
    }
    assert!(processes("65432").len() >= count);
    host.kill();
    until("nothing is left", || processes("65432").is_empty().then_some(()));
    host.restart();
    let owner = host.owner().clone();
    for session in &sessions {
        let task = until("a true end", || {
            let task = tasks(&owner, session).pop().unwrap();
            (task.state == "failed").then_some(task)
        });
        assert!(task.why.contains("the daemon ended"), "{task:?}");
        assert_eq!(owner.client.session(session).unwrap().held.as_deref(), Some("interrupted"));
    }
    assert_eq!(processes("65432"), [0; 0], "nothing was started again");
}

/// SES-05, ACC-14: ten at work when the daemon is killed, some in the middle of their turn, some that stand still for a question or a budget:
/// half a minute after the restart each has a true end and no process is left; what was asked of a person still waits, what was queued is
/// there in its order, and nothing was begun twice.
#[test]
fn ses_05_ten_of_all_kinds_have_a_true_end_within_half_a_minute() {
    let mut host = quiet();
    let owner = host.owner().clone();
    let worktree = host.tree(&owner, "demo", "session").id;
    let kinds =
        ["ask", "ask", "ask", "calls 900", "calls 900", "pace 90000 20", "pace 90000 20", "run sleep 65433"];
    let mut sessions: Vec<(&str, String, Vec<String>)> = Vec::new();
    for (n, kind) in kinds.iter().copied().chain(["program", "program"]).enumerate() {
        let body = match kind {
            "program" => command(&worktree, &["sh", "-c", "cat >/dev/null; echo up; sleep 65433"]),
            _ => new_session(&worktree),
        };
        let session = owner.client.create_session(&body).unwrap().id;
        if kind.starts_with("calls") {
            owner
                .client
                .set_budget(&crate::sessions_budgets::budget("session", &session, "calls", 0, 3))
                .unwrap();
        }
        let first = if kind == "ask" { format!("ask note{n}") } else { kind.to_owned() };
        let prompts = [first, "say second".into(), "say third".into()];
        let asked = prompts.map(|prompt| owner.client.prompt_session(&session, &prompt).unwrap().id).to_vec();
        sessions.push((kind, session, asked));
    }
    let stands_still = |kind: &str| kind == "ask" || kind.starts_with("calls");
    for (kind, session, asked) in &sessions {
        until("it is at work, or stands still", || {
            let first = task(&owner, session, &asked[0]);
            let speaks = !kind.starts_with("pace") || !said(&steps(&owner, session)).is_empty();
            (first.state == if stands_still(kind) { "held" } else { "running" } && speaks).then_some(())
        });
    }
    let open = |who: &Person, session: &str| who.client.approvals(session, false).unwrap().items;
    let waited: Vec<_> = sessions.iter().map(|(_, session, _)| open(&owner, session)).collect();
    // Each has a launcher that the daemon started, and says whose it is.
    let daemon = host.pid().to_string();
    assert!(processes(&daemon).len() >= sessions.len(), "{:?}", processes(&daemon));
    host.kill();
    let killed = Instant::now();
    host.restart();
    let owner = host.owner().clone();
    for ((kind, session, asked), waited) in sessions.iter().zip(&waited) {
        let first = until("a true end", || {
            let first = task(&owner, session, &asked[0]);
            first.ended_at.is_some().then_some(first)
        });
        assert!(first.state == "failed" && first.why.contains("the daemon ended"), "{kind}: {first:?}");
        assert_eq!(owner.client.session(session).unwrap().held.as_deref(), Some("interrupted"), "{kind}");
        let all = tasks(&owner, session);
        assert_eq!(
            all.iter().map(|task| task.id.clone()).collect::<Vec<_>>(),
            *asked,
            "{kind}: as it was asked"
        );
        assert!(all[1..].iter().all(|task| task.state == "queued"), "{kind}: {all:?}");
        assert_eq!(open(&owner, session), *waited, "{kind}: what waited for somebody still does");
        assert_eq!(waited.len(), usize::from(stands_still(kind)), "{kind}");
    }
    until("nothing is left", || {
        (processes(&daemon).is_empty() && processes("65433").is_empty()).then_some(())
    });
    assert!(killed.elapsed() < Duration::from_secs(30), "it took {:?}", killed.elapsed());
    for (kind, session, asked) in &sessions {
        if let Some(one) = open(&owner, session).pop().filter(|_| *kind == "ask") {
            owner.client.allow_approval(session, &one.id, &crate::calls::allow(&one, None)).unwrap();
        }
        let ends = *kind != "program" && !kind.starts_with("calls");
        owner.client.resume_session(session).unwrap();
        if ends {
            assert_eq!(ended(&owner, session, &asked[2]).state, "done", "{kind}");
            let begun: Vec<_> = steps(&owner, session)
                .into_iter()
                .filter(|step| step.kind == "user")
                .filter_map(|step| step.task)
                .collect();
            assert_eq!(begun, *asked, "{kind}: each once, in its order");
        }
    }
}

/// SES-08: what an agent should never say is an error at its place, and the session goes on.
#[test]
fn ses_08_hostile_output_is_told_at_its_place_and_the_session_goes_on() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    for prompt in ["junk", "long 3000000", "deep 5000", "twice", "unserved"] {
        let task = owner.client.prompt_session(&session, prompt).unwrap();
        let over = ended(owner, &session, &task.id);
        assert_eq!(over.state, "done", "{prompt}: {over:?}");
    }
    let told = steps(owner, &session);
    assert!(told.iter().any(|step| step.kind == "error"), "{told:?}");
    let task = owner.client.prompt_session(&session, "die").unwrap();
    let over = ended(owner, &session, &task.id);
    assert_eq!(over.state, "failed", "{over:?}");
    assert!(over.why.contains("ended before its turn"), "{over:?}");
    // One that closes its output can say nothing any more, and is ended although it lives on.
    let began = Instant::now();
    let task = owner.client.prompt_session(&session, "close").unwrap();
    let over = ended(owner, &session, &task.id);
    assert_eq!(over.state, "failed", "{over:?}");
    assert!(over.why.contains("ended before its turn"), "{over:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // One that says nothing more is ended by whoever has waited long enough.
    let task = owner.client.prompt_session(&session, "mute").unwrap();
    until("it is at work", || (self::task(owner, &session, &task.id).state == "running").then_some(()));
    owner.client.stop_session(&session).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "stopped");
    let task = owner.client.prompt_session(&session, "say still here").unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    assert!(said(&steps(owner, &session)).ends_with("still here"));
}

/// SES-14, WT-05, WT-07: a program's commits are on the branch of the worktree afterwards, and its files in the tree.
#[test]
fn ses_14_what_a_program_commits_is_in_the_worktree() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let script = "read line; echo \"$line\" > asked; git add asked; git -c user.name=a -c user.email=a@b.c commit -qm told; echo loose > loose";
    let session = owner.client.create_session(&command(&worktree, &["sh", "-ec", script])).unwrap().id;
    let task = owner.client.prompt_session(&session, "write it down").unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    let log = owner.client.worktree_log(&worktree, None).unwrap().items;
    assert_eq!(log.iter().map(|one| one.subject.as_str()).collect::<Vec<_>>(), ["told"]);
    let file = |name: &str| owner.client.worktree_files(&worktree, name).unwrap().text;
    assert_eq!(file("asked").as_deref(), Some("write it down\n"));
    assert_eq!(file("loose").as_deref(), Some("loose\n"));

    let failing = owner
        .client
        .create_session(&command(
            &worktree,
            &["sh", "-c", "cat; git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m z; echo 'it is no good' >&2; exit 7"],
        ))
        .unwrap()
        .id;
    let task = owner.client.prompt_session(&failing, "x").unwrap();
    let over = ended(owner, &failing, &task.id);
    assert_eq!(over.state, "failed");
    // In its own words, and not those of what ran it; they are told as well.
    assert_eq!(over.why, "the program ended with 7: it is no good");
    let told = steps(owner, &failing);
    assert!(told.iter().any(|step| step.body.to_string().contains("it is no good")), "{told:?}");
    // What is said on one output does not cut a secret on the other in two.
    let halves = "cat; printf ghp; printf _a1B2c3D4e5F6g7H8i9; sleep 0.2; echo progress >&2; sleep 0.2; echo J0k1L2m3N4o5P6q7R8 end";
    let cut = owner.client.create_session(&command(&worktree, &["sh", "-c", halves])).unwrap().id;
    let task = owner.client.prompt_session(&cut, "x").unwrap();
    assert_eq!(ended(owner, &cut, &task.id).state, "done");
    let told = format!("{:?}", steps(owner, &cut));
    assert!(told.contains("progress") && told.contains(" end") && !told.contains("P6q7R8"), "{told}");
    // Nothing that a program complains of keeps its task from ending.
    let body = command(&worktree, &["sh", "-c", "cat; printf 'x\\0\\033[2Jy\\n' >&2; exit 3"]);
    let odd = owner.client.create_session(&body).unwrap().id;
    let task = owner.client.prompt_session(&odd, "x").unwrap();
    let over = ended(owner, &odd, &task.id);
    assert!(over.state == "failed" && !over.why.contains('\0') && !over.why.contains('\u{1b}'), "{over:?}");

    let missing = owner.client.create_session(&command(&worktree, &["no-such-program-anywhere"])).unwrap().id;
    let task = owner.client.prompt_session(&missing, "x").unwrap();
    assert_eq!(ended(owner, &missing, &task.id).state, "failed");
    let unknown = CreateSessionRequest { agent: "nobody".into(), ..new_session(&worktree) };
    assert_eq!(owner.client.create_session(&unknown).unwrap_err().status(), Some(409));
    for mode in ["yolo", "acceptEdits", "Default"] {
        let body = CreateSessionRequest { mode: Some(mode.into()), ..new_session(&worktree) };
        assert_eq!(owner.client.create_session(&body).unwrap_err().status(), Some(409), "SES-16: {mode}");
    }
}

/// WT-15: whoever works in a worktree ends before it goes. SES-06: what is said without end ends the task.
#[test]
fn wt_15_a_worktree_that_is_deleted_has_nobody_at_work() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let body = command(&worktree, &["sh", "-c", "cat >/dev/null; echo up; sleep 43210"]);
    let session = owner.client.create_session(&body).unwrap().id;
    owner.client.prompt_session(&session, "go").unwrap();
    until("it is up", || said(&steps(owner, &session)).contains("up").then_some(()));
    owner.client.delete_worktree(&worktree).unwrap();
    assert_eq!(processes("43210"), [0; 0], "gone before the worktree is");
    assert_eq!(owner.client.session(&session).unwrap_err().status(), Some(404));
    assert!(!host.data().join("worktrees").join(&worktree).exists());
}

/// What is secret in what was asked or said stays with the agent: it is in no list, step, log or ledger.
#[test]
fn sec_16_what_is_asked_and_said_is_told_without_secrets() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let session = owner
        .client
        .create_session(&command(&worktree, &["sh", "-c", "read l; echo \"$l\" > got; echo \"it is $l\""]))
        .unwrap()
        .id;
    let task = owner.client.prompt_session(&session, &format!("use {secret} now")).unwrap();
    assert!(!task.prompt.contains(secret), "{task:?}");
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    let told = serde_json::to_string(&(tasks(owner, &session), steps(owner, &session))).unwrap();
    assert!(!told.contains("k1L2m3N4") && told.contains("it is"), "{told}");
    // The agent got it as it was.
    let tree = host.data().join("worktrees").join(&worktree).join("got");
    assert_eq!(std::fs::read_to_string(tree).unwrap(), format!("use {secret} now\n"));
    assert!(!host.log().contains("k1L2m3N4"));
    let entries = host.ledger(&api::LedgerFilter::default());
    assert!(entries.iter().all(|entry| !entry.line.contains("k1L2m3N4")));
    no_file_with(&host.data().join("ledger"), "k1L2m3N4");
}

/// A command is shown to everybody who may read its session: no word of it holds a secret, nor do two together.
#[test]
fn sec_16_a_command_with_a_secret_in_it_opens_no_session() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    for words in [
        vec!["curl", "https://a:hunter2horse@b.example"],
        vec!["mysql", "--password", "hunter2horsebattery"],
        vec!["curl", "-u", "me:hunter2horsebattery", "https://a.example"],
    ] {
        let refused = owner.client.create_session(&command(&worktree, &words)).unwrap_err();
        assert_eq!(refused.status(), Some(422), "{words:?}");
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
    assert!(owner.client.sessions(&api::SessionFilter::default()).unwrap().items.is_empty());
    assert!(owner.client.create_session(&command(&worktree, &["mysql", "-p", "3306", "db"])).is_ok());
    let entries = host.ledger(&api::LedgerFilter::default());
    assert!(entries.iter().all(|entry| !entry.line.contains("hunter2")) && !host.log().contains("hunter2"));
}

fn no_file_with(folder: &Path, text: &str) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            no_file_with(&entry.path(), text);
        } else {
            let bytes = std::fs::read(entry.path()).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(text), "{:?}", entry.path());
        }
    }
}

/// ACC-03: the table of tiers, for sessions. The session is a member's own, or somebody else's.
#[test]
fn acc_03_tiers_mean_the_table_for_sessions_too() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let creator = host.user("creator", "member");
    let worktree = host.tree(&creator, "demo", "session").id;
    let theirs = creator.client.create_session(&new_session(&worktree)).unwrap().id;
    let (member, viewer, admin) =
        (host.user("member", "member"), host.user("viewer", "viewer"), host.user("boss", "admin"));
    let own = member.client.create_session(&new_session(&worktree)).unwrap().id;
    for tier in ["none", "view", "session", "prompt", "all"] {
        creator.client.set_tier(&worktree, tier).unwrap();
        let (sees, works, all) =
            (tier != "none", ["session", "prompt", "all"].contains(&tier), tier == "all");
        let refused = if sees { 403 } else { 404 };
        let tried = |person: &Person, what: &str, session: &str| match what {
            "read" => person.client.session(session).map(drop),
            "steps" => person.client.steps(session, 0).map(drop),
            "stream" => person.client.follow_session(session, 0).map(drop),
            "tasks" => person.client.tasks(session, 0).map(drop),
            "approvals" => person.client.approvals(session, true).map(drop),
            "create" => person.client.create_session(&new_session(&worktree)).map(drop),
            "resume" => person.client.resume_session(session).map(drop),
            "stop" => person.client.stop_session(session).map(drop),
            other => panic!("{other}"),
        };
        let rows: [(&str, bool, bool); 8] = [
            ("read", sees, sees),
            ("steps", sees, sees),
            ("stream", sees, sees),
            ("tasks", sees, sees),
            ("approvals", sees, sees),
            ("create", works, works),
            ("resume", works, false),
            ("stop", works, all),
        ];
        for (what, on_own, on_theirs) in rows {
            for (session, allowed) in [(&own, on_own), (&theirs, on_theirs)] {
                let done = tried(&member, what, session);
                let said = format!(
                    "tier {tier}: a member, {what}, {}: {done:?}",
                    if *session == own { "own" } else { "another's" }
                );
                assert_eq!(done.is_ok(), allowed, "{said}");
                if let Err(error) = done {
                    assert_eq!(error.status(), Some(refused), "{said}");
                }
            }
            let done = tried(&viewer, what, &theirs);
            let reads = ["read", "steps", "stream", "tasks", "approvals"].contains(&what);
            assert_eq!(done.is_ok(), sees && reads, "tier {tier}: a viewer, {what}: {done:?}");
            let done = tried(&admin, what, &theirs);
            assert_eq!(done.is_ok(), what != "resume", "tier {tier}: an admin, {what}: {done:?}");
        }
        // What cannot be read is in no list.
        let listed = |person: &Person| -> BTreeSet<String> {
            let page = person
                .client
                .sessions(&api::SessionFilter { limit: Some(100), ..Default::default() })
                .unwrap();
            page.items.into_iter().map(|one: Session| one.id).collect()
        };
        assert_eq!(listed(&member).contains(&theirs), sees, "tier {tier}");
        assert_eq!(listed(&viewer).contains(&theirs), sees, "tier {tier}");
    }
    // Nobody prompts a session of somebody else's, not even an administrator.
    for person in [&member, &admin, host.owner()] {
        assert_eq!(person.client.prompt_session(&theirs, "say x").unwrap_err().status(), Some(403));
    }
    assert_eq!(tasks(&creator, &theirs), [], "nothing was asked");
}

/// A right that is lost ends what runs by it; what waits is kept, and goes on when the right is back.
#[test]
fn acc_06_a_lost_right_ends_what_runs_by_it() {
    let host = quiet();
    let creator = host.user("creator", "member");
    let worktree = host.tree(&creator, "demo", "session").id;
    let member = host.user("member", "member");
    let session = member.client.create_session(&new_session(&worktree)).unwrap().id;
    let first = member.client.prompt_session(&session, "stall here").unwrap();
    let second = member.client.prompt_session(&session, "say later").unwrap();
    until("the first at work", || (task(&member, &session, &first.id).state == "running").then_some(()));
    creator.client.set_tier(&worktree, "view").unwrap();
    let over = ended(&member, &session, &first.id);
    assert_eq!(over.state, "failed");
    assert!(over.why.contains("may not do that any more"), "{over:?}");
    assert_eq!(member.client.session(&session).unwrap().held.as_deref(), Some("refused"));
    assert_eq!(task(&member, &session, &second.id).state, "queued", "what waits is kept");
    assert_eq!(member.client.resume_session(&session).unwrap_err().status(), Some(403));
    creator.client.set_tier(&worktree, "session").unwrap();
    member.client.resume_session(&session).unwrap();
    assert_eq!(ended(&member, &session, &second.id).state, "done");

    // A task that may not be begun leaves one refusal, and waits.
    let policy = format!(
        "forbid (principal == User::\"{}\", action == Action::\"session.start\", resource);",
        member.id
    );
    host.owner().client.add_policy("no-start", &policy).unwrap();
    let head = host.ledger_head();
    let third = member.client.prompt_session(&session, "say never").unwrap();
    until("it is held", || member.client.session(&session).unwrap().held);
    let refusals = host
        .since(head)
        .into_iter()
        .filter(|entry| entry.action == "session.start")
        .map(|entry| entry.decision);
    assert_eq!(refusals.collect::<Vec<_>>(), ["refused"]);
    assert_eq!(task(&member, &session, &third.id).state, "queued");
}

/// What a session that is over does not need is removed: the homes of its agents. Its receipts and layers stay.
#[test]
fn what_a_closed_session_does_not_need_is_removed() {
    let mut host = quiet();
    let owner = host.owner().clone();
    let worktree = host.tree(&owner, "demo", "session").id;
    let other = owner
        .client
        .create_worktree(&crate::trees::wanted(&owner.client.worktree(&worktree).unwrap().repo, "other"));
    let other = other.unwrap().id;
    let make = |worktree: &str| {
        let session = owner.client.create_session(&command(worktree, &["sh"])).unwrap().id;
        let task = owner.client.prompt_session(&session, "echo kept > ~/mine; echo x > made").unwrap();
        assert_eq!(ended(&owner, &session, &task.id).state, "done");
        session
    };
    let [open, closed, left, archived, deleted] =
        [&worktree, &worktree, &worktree, &other, &other].map(|worktree| make(worktree));
    let runs = host.data().join("runs/sessions");
    let home = |session: &str| runs.join(session).join("state/palisade/homes").exists();
    for session in [&open, &closed, &left, &archived, &deleted] {
        assert!(home(session), "{session}");
    }
    owner.client.close_session(&closed).unwrap();
    until("its home is gone", || (!home(&closed)).then_some(()));
    assert!(runs.join(&closed).join("state/palisade/receipts").exists(), "its receipts stay");
    let undone = owner.client.undo_task(&closed, &api::UndoRequest::default());
    assert!(undone.is_ok() || undone.unwrap_err().status() == Some(409), "its layers are there");
    // With an archived worktree it comes back; with a deleted one it does not.
    owner.client.archive_worktree(&other).unwrap();
    owner.client.restore_worktree(&other).unwrap();
    let task = owner.client.prompt_session(&archived, "cat ~/mine").unwrap();
    assert_eq!(ended(&owner, &archived, &task.id).state, "done", "its home was there");
    owner.client.delete_worktree(&other).unwrap();
    until("theirs are gone", || (!home(&archived) && !home(&deleted)).then_some(()));
    // What a daemon that was killed left is found at the next start.
    let spare = host.place().join("spare");
    assert!(
        std::process::Command::new("cp")
            .arg("-a")
            .arg(runs.join(&left))
            .arg(&spare)
            .status()
            .unwrap()
            .success()
    );
    owner.client.close_session(&left).unwrap();
    until("its home is gone", || (!home(&left)).then_some(()));
    host.kill();
    std::fs::remove_dir_all(runs.join(&left)).unwrap();
    std::fs::rename(&spare, runs.join(&left)).unwrap();
    assert!(home(&left));
    host.start_daemon().unwrap();
    until("it is gone again", || (!home(&left)).then_some(()));
    assert!(home(&open), "an open one keeps its home");
}
