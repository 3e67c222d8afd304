//! Stopping: soon, for certain, whatever the agent, its launcher, the tree and the disk are like; and agents that say nothing.

use std::time::{Duration, Instant};

use api::{CreateSessionRequest, Task};
use tests::{Host, Person};

use crate::calls::new_session;
use crate::ledger_full::Disk;
use crate::sessions::{ended, quiet, said, steps, tasks, until};
use crate::sessions_budgets::budget;

fn program(worktree: &str, script: &str) -> CreateSessionRequest {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    CreateSessionRequest { agent: "command".into(), command, ..new_session(worktree) }
}

/// Processes one of whose words has this in it: number and words.
fn processes(word: &str) -> Vec<(i32, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let read = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&line).replace('\0', " ");
        words.contains(word).then_some((number, words))
    };
    entries.filter_map(read).collect()
}

/// Processes that are nothing but this sleep.
fn sleepers(mark: &str) -> usize {
    let words = format!("sleep {mark}");
    processes(&words).into_iter().filter(|(_, all)| all.trim() == words).count()
}

fn signal(number: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(number).unwrap(), signal).unwrap();
}

fn with_grace(seconds: &str) -> Host {
    let start = Host::builder().set("limits.requests_per_minute", "0");
    start.set("sessions.stop_seconds", seconds).set("budgets.session_messages_per_minute", "0").start()
}

/// A program that ignores what it is told, at work; its mark is in the words of a process inside.
fn stubborn(host: &Host, mark: &str) -> (String, Task) {
    let worktree = host.tree(host.owner(), "demo", "session").id;
    stubborn_in(host.owner(), &worktree, mark)
}

fn stubborn_in(owner: &Person, worktree: &str, mark: &str) -> (String, Task) {
    let script = format!(
        "trap '' TERM; (trap '' TERM; setsid sleep {mark}) & echo up; while :; do sleep {mark}; done"
    );
    let session = owner.client.create_session(&program(worktree, &script)).unwrap().id;
    let task = owner.client.prompt_session(&session, "go").unwrap();
    until("it is up", || said(&steps(owner, &session)).contains("up").then_some(()));
    until("its child is there", || (sleepers(mark) > 1).then_some(()));
    (session, task)
}

/// When nothing of it is there any more; and that it is told afterwards.
fn absent_after(owner: &Person, session: &str, task: &Task, mark: &str) -> Duration {
    let began = Instant::now();
    owner.client.stop_session(session).unwrap();
    let absent = until("nothing of it is there", || (sleepers(mark) == 0).then(|| began.elapsed()));
    let end = ended(owner, session, &task.id);
    assert_eq!(end.state, "stopped", "{}", end.why);
    absent
}

/// SES-04: told to end, five seconds, killed: absent within ten, with all that it started, before it is `stopped`. How long it has is a
/// setting of up to ten seconds, and five more until nothing is left.
#[test]
fn ses_04_a_program_has_its_grace_and_is_gone_after_it() {
    for (seconds, mark) in [(1, "71001"), (5, "71005"), (10, "71010")] {
        let host = with_grace(&seconds.to_string());
        let (session, task) = stubborn(&host, mark);
        let absent = absent_after(host.owner(), &session, &task, mark);
        assert!(absent >= Duration::from_secs(seconds) - Duration::from_millis(100), "{seconds}: {absent:?}");
        assert!(absent <= Duration::from_secs(seconds + 5), "{seconds}: {absent:?}");
    }
    for bad in ["0", "11"] {
        let mut host = Host::builder().set("sessions.stop_seconds", bad).stopped();
        assert!(host.start_daemon().is_err(), "{bad}");
    }
}

/// SES-04: also an agent that hears no `cancel`, and no word to end, is absent within ten seconds.
#[test]
fn ses_04_a_deaf_agent_is_gone_within_ten_seconds() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "mute").unwrap();
    until("it is at work", || tasks(owner, &session)[0].run.clone());
    let home = host.data().display().to_string();
    let agents = || processes("acp-fake").into_iter().filter(|(_, words)| words.contains(&home)).count();
    until("its sandbox is there", || (agents() > 0).then_some(()));
    let began = Instant::now();
    owner.client.stop_session(&session).unwrap();
    until("nothing of it is there", || (agents() == 0).then_some(()));
    assert!(began.elapsed() <= Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(ended(owner, &session, &task.id).state, "stopped");
}

/// SES-04: where what makes sandboxes does nothing any more, the daemon ends what is inside and looks whether it is gone.
#[test]
fn ses_04_a_launcher_that_hangs_keeps_nothing_alive() {
    let host = with_grace("1");
    let (session, task) = stubborn(&host, "72001");
    let launcher = until("its launcher", || {
        let own = |(_, words): &(i32, String)| words.contains("--report") && words.contains(&task.id);
        processes("palisade").into_iter().find(own)
    });
    signal(launcher.0, rustix::process::Signal::STOP);
    let absent = absent_after(host.owner(), &session, &task, "72001");
    assert!(absent <= Duration::from_secs(10), "{absent:?}");
    assert!(processes(&task.id).is_empty(), "nor is the launcher there");
}

/// SES-04, WT-08: nobody who stops a task waits for a look at its tree; that it was not looked at is told.
#[test]
fn ses_04_a_look_at_the_tree_ends_when_somebody_stops_the_task() {
    let host = quiet();
    let owner = host.owner();
    let made = host.tree(owner, "demo", "session");
    let session = owner.client.create_session(&program(&made.id, "touch never")).unwrap().id;
    let place = host.data().join("worktrees").join(&made.id).display().to_string();
    // A look that takes as long as one at a tree without end.
    let is_look = |(number, words): &(i32, String)| {
        let at = std::fs::read_link(format!("/proc/{number}/cwd"));
        words.contains("--untracked-files=normal") && at.is_ok_and(|at| at.display().to_string() == place)
    };
    let task = owner.client.prompt_session(&session, "go").unwrap();
    let look = until("the look", || processes(" status ").into_iter().find(|one| is_look(one)));
    signal(look.0, rustix::process::Signal::STOP);
    let began = Instant::now();
    owner.client.stop_session(&session).unwrap();
    let cancelled = until("the look ends", || {
        (!processes(" status ").iter().any(|(number, _)| *number == look.0)).then(|| began.elapsed())
    });
    assert!(cancelled <= Duration::from_millis(500), "{cancelled:?}");
    let end = ended(owner, &session, &task.id);
    assert_eq!(end.state, "stopped");
    assert!(began.elapsed() <= Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(end.run.is_none(), "no sandbox was made for it");
    let before = end.tree_before.unwrap();
    assert!(before.commit.is_some() && before.dirty.is_none(), "{before:?}");
    assert_eq!(end.tree_after.unwrap().dirty, Some(false), "there was time for this one");
    assert!(!std::path::Path::new(&place).join("never").exists());
}

/// SES-04, LED-02: stopping works on a full disk, and is told when there is room.
#[test]
fn ses_04_stop_works_on_a_full_disk() {
    let disk = Disk::ordinary(300);
    if !disk.is_own() {
        return;
    }
    let host = Host::builder().set("limits.requests_per_minute", "0").in_folder(&disk.folder()).start();
    let owner = host.owner();
    let (session, task) = stubborn(&host, "73001");
    disk.fill();
    let began = Instant::now();
    assert_eq!(owner.client.stop_session(&session).unwrap().state, "ending");
    let absent = until("nothing of it is there", || (sleepers("73001") == 0).then(|| began.elapsed()));
    assert!(absent <= Duration::from_secs(10), "{absent:?}");
    let end = ended(owner, &session, &task.id);
    assert_eq!(end.state, "stopped", "{}", end.why);
    disk.free();
    let again = until("it goes on", || owner.client.prompt_session(&session, "more").ok());
    owner.client.stop_task(&session, &again.id).unwrap();
    assert_eq!(ended(owner, &session, &again.id).state, "stopped");
}

/// SES-04, LED-02: where others write all that they can, the end of each task that was stopped is kept all the same, and soon: it has room
/// that is kept back, which nobody else takes.
#[test]
fn ses_04_ends_are_kept_on_a_disk_that_others_fill() {
    let disk = Disk::ordinary(300);
    if !disk.is_own() {
        return;
    }
    let start = Host::builder().set("limits.requests_per_minute", "0").set("sessions.stop_seconds", "3");
    let host = start.in_folder(&disk.folder()).start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    // Each says more than there is room for, and goes on with it while it is being ended.
    let noisy = "trap '' TERM; while :; do head -c 4000 /dev/urandom | od -An -tx1; sleep 0.02; done";
    let sessions: Vec<(String, Task)> = (0..4)
        .map(|_| {
            let session = owner.client.create_session(&program(&worktree, noisy)).unwrap().id;
            let task = owner.client.prompt_session(&session, "go").unwrap();
            (session, task)
        })
        .collect();
    for (session, _) in &sessions {
        until("it speaks", || (owner.client.session(session).unwrap().steps > 2).then_some(()));
    }
    disk.fill();
    // What is being written takes what others leave, also what was given for the first of them.
    for (session, task) in &sessions {
        let began = Instant::now();
        owner.client.stop_session(session).unwrap();
        let end = ended(owner, session, &task.id);
        assert_eq!(end.state, "stopped", "{}", end.why);
        assert!(began.elapsed() <= Duration::from_secs(30), "{:?}", began.elapsed());
        disk.fill_again();
    }
    disk.free();
    let (session, _) = &sessions[0];
    let again = until("it goes on", || owner.client.prompt_session(session, "more").ok());
    owner.client.stop_task(session, &again.id).unwrap();
    assert_eq!(ended(owner, session, &again.id).state, "stopped");
}

/// SES-06: an agent that says nothing is noticed.
#[test]
fn ses_06_an_agent_that_says_nothing_is_ended() {
    let start = Host::builder().set("limits.requests_per_minute", "0");
    let host = start.set("sessions.silence_seconds", "10").start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    for (prompt, dead) in [("mute", true), ("pace 70 200", false)] {
        let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
        let task = owner.client.prompt_session(&session, prompt).unwrap();
        let end = ended(owner, &session, &task.id);
        match dead {
            true => assert!(end.state == "failed" && end.why.contains("nothing was heard"), "{end:?}"),
            false => assert_eq!(end.state, "done", "what is said in time keeps it alive: {}", end.why),
        }
    }
    // A program without a protocol as well, whichever output it says something on.
    for (script, dead) in [
        ("sleep 76001", true),
        ("exec >&-; sleep 76001", true),
        ("for n in 1 2 3 4 5 6 7; do sleep 2; echo $n; done", false),
        ("for n in 1 2 3 4 5 6 7; do sleep 2; echo $n >&2; done", false),
    ] {
        let session = owner.client.create_session(&program(&worktree, script)).unwrap().id;
        let task = owner.client.prompt_session(&session, "go").unwrap();
        let end = ended(owner, &session, &task.id);
        match dead {
            true => assert!(
                end.state == "failed" && end.why.contains("nothing was heard of the program for 10 s"),
                "{end:?}"
            ),
            false => assert_eq!(end.state, "done", "{script}: {}", end.why),
        }
        assert_eq!(sleepers("76001"), 0, "nothing of it is left");
    }
    // While it stands still, because its budget is spent and nobody says anything, it is not silent.
    let session = owner.client.create_session(&program(&worktree, "echo up; sleep 76001")).unwrap().id;
    let spent = budget("session", &session, "wall", 0, 1_000);
    owner.client.set_budget(&spent).unwrap();
    let task = owner.client.prompt_session(&session, "go").unwrap();
    let one = until("it is asked about", || owner.client.approvals(&session, false).unwrap().items.pop());
    std::thread::sleep(Duration::from_secs(12));
    let now = tasks(owner, &session).into_iter().find(|now| now.id == task.id).unwrap();
    assert_eq!(now.state, "held", "{now:?}");
    owner.client.deny_approval(&session, &one.id, &api::DenyRequest { effect: one.effect.clone() }).unwrap();
    let end = ended(owner, &session, &task.id);
    assert!(end.state == "failed" && end.why.contains("are spent"), "{end:?}");
}

/// SES-06, SES-08: what is said without end ends the task, at a bound, and the session goes on.
#[test]
fn ses_06_what_is_said_without_end_ends_the_task() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let script = "read word; [ \"$word\" = go ] || { echo there; exit; }; tr '\\0' 'x' </dev/zero | fold -w 16000; sleep 78001";
    let session = owner.client.create_session(&program(&worktree, script)).unwrap().id;
    let task = owner.client.prompt_session(&session, "go").unwrap();
    let end = ended(owner, &session, &task.id);
    assert!(end.state == "failed" && end.why.contains("it said more than 64 MiB"), "{end:?}");
    assert_eq!(sleepers("78001"), 0);
    let task = owner.client.prompt_session(&session, "again").unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
}

/// SES-06: an agent that is never ready is noticed, and a launcher that gives no sign of life.
#[test]
fn ses_06_an_agent_that_never_begins_and_a_launcher_that_hangs_are_noticed() {
    let start = Host::builder().set("limits.requests_per_minute", "0");
    let host = start.set("sessions.begin_seconds", "3").stopped();
    let document = "title = \"Sleeps\"\ncommand = \"sleep\"\nacp = [\"sleep\", \"1000\"]\n[modes]\ndefault = { requests = \"ask\" }\n";
    let path = host.place().join("agents/sleeps.toml");
    std::fs::write(&path, document).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut host = host;
    host.start_daemon().unwrap();
    host.claim();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let new = CreateSessionRequest { agent: "sleeps".into(), ..new_session(&worktree) };
    let session = owner.client.create_session(&new).unwrap().id;
    let task = owner.client.prompt_session(&session, "wake up").unwrap();
    let end = ended(owner, &session, &task.id);
    assert!(end.state == "failed" && end.why.contains("did not begin within 3 s"), "{end:?}");

    let (session, task) = stubborn_in(owner, &worktree, "74001");
    let launcher = until("its launcher", || {
        let own = |(_, words): &(i32, String)| words.contains("--report") && words.contains(&task.id);
        processes("palisade").into_iter().find(own)
    });
    let began = Instant::now();
    signal(launcher.0, rustix::process::Signal::STOP);
    let end = ended(owner, &session, &task.id);
    assert!(end.state == "failed" && end.why.contains("no sign of life"), "{end:?}");
    assert!(began.elapsed() >= Duration::from_secs(20), "not at once: {:?}", began.elapsed());
    assert_eq!(sleepers("74001"), 0, "and nothing of it is left");
}

/// SES-06: what comes when a task is over changes nothing of it.
#[test]
fn ses_06_late_reports_change_no_ended_task() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let task = owner.client.prompt_session(&session, "late 1000").unwrap();
    let end = ended(owner, &session, &task.id);
    assert_eq!(end.state, "done", "{}", end.why);
    let before = steps(owner, &session);
    assert!(said(&before).matches("late").count() < 1_000, "it is not waited for what comes too late");
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(tasks(owner, &session)[0], end, "what is over stays so");
    assert_eq!(steps(owner, &session), before);
    let next = owner.client.prompt_session(&session, "say more").unwrap();
    assert_eq!(ended(owner, &session, &next.id).state, "done", "and the session goes on");
}

/// An agent that removes all that it sees, leaves programs behind, or fills the disk: that is contained and told, and the session goes on.
#[test]
fn ses_08_what_an_agent_destroys_leaves_or_fills_is_contained() {
    let disk = Disk::ordinary(400);
    if !disk.is_own() {
        return;
    }
    let host = Host::builder().set("limits.requests_per_minute", "0").in_folder(&disk.folder()).start();
    let owner = host.owner();
    let made = host.tree(owner, "demo", "session");
    let session = owner.client.create_session(&program(&made.id, "exec sh")).unwrap().id;
    let tree = host.data().join("worktrees").join(&made.id);
    let run = |script: &str| {
        let task = owner.client.prompt_session(&session, script).unwrap();
        ended(owner, &session, &task.id)
    };
    // All that it sees: the repository is not its to remove, and what it removed comes back.
    let end = run("cd ..; rm -rf * .[!.]* 2>/dev/null; cd /; rm -rf /* 2>/dev/null; true");
    assert!(["done", "failed"].contains(&end.state.as_str()), "{end:?}");
    assert!(!tree.join("README").exists() && tree.join(".git").exists());
    owner.client.undo_task(&session, &api::UndoRequest::default()).unwrap();
    assert_eq!(std::fs::read_to_string(tree.join("README")).unwrap(), "one\n");
    // Programs that it leaves behind.
    let end = run(
        "for n in 1 2 3; do setsid sh -c 'trap \"\" TERM HUP; sleep 75001' >/dev/null 2>&1 & done; sleep 0.2; echo left",
    );
    assert_eq!((end.state.as_str(), sleepers("75001")), ("done", 0), "{}", end.why);
    // The disk: it ends for that, is told why, and nobody else has to end.
    let end = run("echo words > kept; cat /dev/zero > big; echo not reached");
    assert_eq!(end.state, "failed", "{end:?}");
    assert!(!said(&steps(owner, &session)).contains("not reached"));
    let end = run("echo again");
    assert_eq!(end.state, "done", "{}", end.why);
    assert!(said(&steps(owner, &session)).contains("again"));
}
