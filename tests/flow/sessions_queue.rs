//! The queue at its edges: how many of one person are at work, what a failure holds, what closing drops, how far a fork reaches,
//! and a disk that is nearly full.

use std::io::Write;
use std::time::Duration;

use api::{ForkRequest, Session};
use serde_json::Value;
use tests::{Host, HostBuilder, Person};

use crate::calls::new_session;
use crate::sessions::{ended, quiet, steps, tasks, until};

fn builder() -> HostBuilder {
    Host::builder().set("limits.requests_per_minute", "0").set("budgets.session_messages_per_minute", "0")
}

fn state(person: &Person, session: &str) -> String {
    tasks(person, session).pop().unwrap().state
}

fn stalls(person: &Person, worktree: &str) -> String {
    let session = person.client.create_session(&new_session(worktree)).unwrap().id;
    person.client.prompt_session(&session, "stall here").unwrap();
    session
}

/// SES-01: `sessions.per_person` tasks of one person are at work at once and the others wait; nobody else waits for that.
#[test]
fn ses_01_so_many_tasks_of_one_person_are_at_work() {
    let host = builder().set("sessions.per_person", "2").start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let ana = host.user("ana", "member");
    let mut hers: Vec<String> = (0..4).map(|_| stalls(&ana, &worktree)).collect();
    let at_work = |sessions: &[String]| sessions.iter().filter(|one| state(&ana, one) == "running").count();
    until("two are at work", || (at_work(&hers) == 2).then_some(()));
    let his = stalls(owner, &worktree);
    until("another's is at work, too", || (state(owner, &his) == "running").then_some(()));
    // Longer than the desk waits between its looks.
    let look = Duration::from_millis(100);
    for _ in 0..70 {
        assert_eq!(at_work(&hers), 2);
        std::thread::sleep(look);
    }
    let over = hers.iter().position(|one| state(&ana, one) == "running").unwrap();
    let over = hers.remove(over);
    ana.client.stop_session(&over).unwrap();
    until("the next has its turn", || (at_work(&hers) == 2).then_some(()));
}

/// SES-01: however many wait for a place in one worktree, what is asked in another has its turn.
#[test]
fn ses_01_many_that_wait_for_a_place_keep_nobody_else_from_theirs() {
    // More than the desk looks at together.
    const MANY: usize = 270;
    let host = builder().set("sessions.per_worktree", "1").start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let other = host.tree(owner, "other", "session").id;
    let first = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    owner.client.prompt_session(&first, "pace 100000 1000").unwrap();
    until("it is at work", || (state(owner, &first) == "running").then_some(()));
    for _ in 0..MANY {
        stalls(owner, &worktree);
    }
    let session = owner.client.create_session(&new_session(&other)).unwrap().id;
    let task = owner.client.prompt_session(&session, "say here").unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    assert_eq!(state(owner, &first), "running", "and the place there was taken all the while");
}

/// SES-01: however many tasks a session had, the command line shows all of them, the last one too.
#[test]
fn ses_01_every_task_of_a_session_is_shown() {
    let host = builder().start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = stalls(owner, &worktree);
    let all: Vec<String> =
        (0..60).map(|n| owner.client.prompt_session(&session, &format!("say {n}")).unwrap().id).collect();
    for more in [&[][..], &["--json"][..]] {
        let words = [more, &["session", "show", &session]].concat();
        let output = crate::secrets::palisade(&host, &owner.client, &words, "");
        let text = String::from_utf8(output.stdout).unwrap();
        let missing: Vec<_> = all.iter().filter(|id| !text.contains(*id)).collect();
        assert!(missing.is_empty(), "{missing:?}\n{text}");
    }
}

/// SES-01: a task that failed holds what waits behind it, unless `sessions.goes_on` says otherwise.
#[test]
fn ses_01_what_a_failure_holds_is_settled() {
    for goes_on in [false, true] {
        let host = builder().set("sessions.goes_on", if goes_on { "true" } else { "false" }).start();
        let owner = host.owner();
        let worktree = host.tree(owner, "demo", "session").id;
        let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
        let first = owner.client.prompt_session(&session, "die").unwrap();
        let second = owner.client.prompt_session(&session, "say more").unwrap();
        assert_eq!(ended(owner, &session, &first.id).state, "failed");
        match goes_on {
            true => {
                assert_eq!(ended(owner, &session, &second.id).state, "done");
                assert_eq!(owner.client.session(&session).unwrap().held, None);
            }
            false => {
                assert_eq!(owner.client.session(&session).unwrap().held.as_deref(), Some("failed"));
                std::thread::sleep(Duration::from_secs(6));
                assert_eq!(state(owner, &session), "queued", "it waits for somebody to say so");
                owner.client.resume_session(&session).unwrap();
                assert_eq!(ended(owner, &session, &second.id).state, "done");
            }
        }
    }
}

/// SES-03: a session that is closed says of each task that it drops, and of the one at work, how it ended: by one step each.
#[test]
fn ses_03_what_closing_drops_is_told_by_a_step_each() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = stalls(owner, &worktree);
    until("it is at work", || (tasks(owner, &session)[0].state == "running").then_some(()));
    for n in 0..3 {
        owner.client.prompt_session(&session, &format!("say {n}")).unwrap();
    }
    owner.client.close_session(&session).unwrap();
    let all = until("everything is over", || {
        let all = tasks(owner, &session);
        all.iter().all(|task| task.ended_at.is_some()).then_some(all)
    });
    assert!(all.len() == 4 && all.iter().all(|task| task.state == "stopped"), "{all:?}");
    until("each is told", || {
        let steps = steps(owner, &session);
        let told = |id: &String| {
            let of = steps.iter().filter(|step| step.kind == "result" && step.task.as_ref() == Some(id));
            of.map(|step| (step.body["state"].clone(), step.body["text"].clone())).collect::<Vec<_>>()
        };
        let results: Vec<_> = all.iter().map(|task| told(&task.id)).collect();
        let is_told = results.iter().all(|one| one.len() == 1 && one[0].0 == "stopped");
        let dropped = results[1..]
            .iter()
            .all(|one| one.len() == 1 && one[0].1 == "the session was closed before its turn came");
        (is_told && dropped).then_some(())
    });
    assert_eq!(owner.client.prompt_session(&session, "say x").unwrap_err().status(), Some(409));
}

/// SES-09: a fork takes 50,000 steps along and not one more; an earlier place can be named.
#[test]
fn ses_09_a_fork_is_bounded() {
    let host = quiet();
    let owner = host.owner();
    drop(host.tree(owner, "demo", "session"));
    let path = host.place().join("long.jsonl");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for n in 0..50_001 {
        writeln!(
            file,
            "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{n}\"}}]}}}}"
        )
        .unwrap();
    }
    file.into_inner().unwrap();
    let mut command = host.command("palisade");
    command
        .args(["--json", "--url", host.base(), "session", "import"])
        .arg(&path)
        .args(["--worktree", "demo"]);
    let out = command.env("PALISADE_API_KEY", owner.client.token().unwrap()).output().unwrap();
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    let parent: Session = serde_json::from_value(document["result"].clone()).unwrap();
    assert!(parent.steps > 50_000, "{parent:?}");
    let refused = owner.client.fork_session(&parent.id, &ForkRequest::default()).unwrap_err();
    assert!(
        refused.status() == Some(409) && refused.to_string().contains("50000 steps at most"),
        "{refused}"
    );
    let fork = |at: i64| owner.client.fork_session(&parent.id, &ForkRequest { at: Some(at), title: None });
    assert_eq!(fork(50_001).unwrap_err().status(), Some(409));
    let whole = fork(50_000).unwrap();
    assert_eq!(whole.origin.unwrap().at, Some(50_000));
    let first = owner.client.steps(&whole.id, 49_999).unwrap().items.remove(0);
    assert_eq!(first.seq, 50_000, "the last of them is there");
}

/// A file system of its own in a file, if we may mount one. Sandboxes are made on it as on any disk.
struct Loop {
    folder: tempfile::TempDir,
    mounted: bool,
}

impl Loop {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (image, at) = (folder.path().join("image"), folder.path().join("disk"));
        std::fs::create_dir(&at).unwrap();
        std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let does = |program: &str, words: &[&str], last: &[&std::path::Path]| {
            let output = std::process::Command::new(program).args(words).args(last).output();
            output.is_ok_and(|output| output.status.success())
        };
        let mounted = does("mkfs.ext4", &["-q", "-m", "0"], &[&image])
            && does("mount", &["-o", "loop"], &[&image, &at]);
        if !mounted {
            tests::cannot_run(
                "a small disk cannot be mounted, so nothing is tried on one that is nearly full",
            );
        }
        Self { folder, mounted }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("disk").join(name)
    }

    /// Leaves half a megabyte free.
    fn fill(&self) {
        rustix::fs::sync();
        let mut filler = std::fs::File::create(self.at("filler")).unwrap();
        let piece = vec![0u8; 64 << 10];
        while filler.write_all(&piece).is_ok() {}
        let length = filler.metadata().unwrap().len();
        filler.set_len(length - (512 << 10)).unwrap();
        rustix::fs::sync();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if self.mounted {
            drop(
                std::process::Command::new("umount").arg("-l").arg(self.folder.path().join("disk")).status(),
            );
        }
    }
}

/// SES-01, LED-02: on a disk that is nearly full no task is begun and none is lost; what waits is begun when there is room again.
#[test]
fn ses_01_on_a_nearly_full_disk_no_task_begins() {
    let disk = Loop::new();
    if !disk.mounted {
        return;
    }
    let mut host = builder().in_folder(&disk.at("home")).set("sessions.per_person", "1").start();
    let owner = host.owner().clone();
    let worktree = host.tree(&owner, "demo", "session").id;
    let first = stalls(&owner, &worktree);
    until("it is at work", || (state(&owner, &first) == "running").then_some(()));
    let second = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let waits = owner.client.prompt_session(&second, "say at last").unwrap();
    assert_eq!(state(&owner, &second), "queued", "one at a time of one person");
    // The next daemon has nobody at work, so that it is the disk alone that keeps the second from its turn. What the first had is free
    // only when it is gone.
    let task = tasks(&owner, &first).pop().unwrap().id;
    host.kill();
    until("nothing of it is left", || {
        crate::neighbours::processes(&format!("{task}.json")).is_empty().then_some(())
    });
    for _ in 0..2 {
        std::thread::sleep(Duration::from_secs(1));
        disk.fill();
    }
    host.start_daemon().unwrap();
    let owner = owner.at(&host);
    let refused = owner.client.prompt_session(&second, "say no").unwrap_err();
    assert_eq!(refused.status(), Some(503), "{refused}");
    for _ in 0..120 {
        assert_eq!(state(&owner, &second), "queued", "nothing is begun that could not be kept");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::fs::remove_file(disk.at("filler")).unwrap();
    let done = ended(&owner, &second, &waits.id);
    assert_eq!(done.state, "done", "{done:?}");
    assert_eq!(state(&owner, &first), "failed", "and of the other one it is said what became of it");
}

/// Carries requests to the daemon, and breaks the first connections: before the daemon had the request, or before its answer is given.
fn breaking(host: &Host, listener: std::net::TcpListener, breaks: &'static [bool]) -> api::Client {
    use std::io::Read;
    let owner = &host.owner().client;
    let daemon = owner.base().trim_start_matches("http://").to_owned();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let (mut client, mut bytes) = (stream, vec![0; 64 << 10]);
            if breaks.get(n) == Some(&false) {
                // The head is read, and nothing is done with it.
                let _ = client.read(&mut bytes);
                continue;
            }
            let mut server = std::net::TcpStream::connect(&daemon).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
            if breaks.get(n) == Some(&true) {
                // The answer is there, so it was done; nobody is told.
                assert!(server.read(&mut bytes).unwrap() > 0);
                let _ = client.shutdown(std::net::Shutdown::Both);
                continue;
            }
            while let Ok(got @ 1..) = server.read(&mut bytes) {
                if client.write_all(&bytes[..got]).is_err() {
                    break;
                }
            }
        }
    });
    api::Client::new(&base, None).unwrap().with_token(owner.token().unwrap())
}

/// SES-01: what a person typed is kept once, wherever the connection breaks: the client asks again under the same key, and is told the answer
/// that was given before.
#[test]
fn ses_01_a_prompt_whose_connection_breaks_is_queued_once() {
    let listeners = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let names = listeners.each_ref().map(|one| one.local_addr().unwrap().to_string());
    let host = builder().set("server.allowed_hosts", &names.join(",")).start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let [one, two, three] = listeners;
    for (listener, breaks) in [(one, &[true][..]), (two, &[false])] {
        let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
        let task = breaking(&host, listener, breaks).prompt_session(&session, "say it once").unwrap();
        assert_eq!(ended(owner, &session, &task.id).state, "done");
        let all: Vec<String> = tasks(owner, &session).into_iter().map(|one| one.id).collect();
        assert_eq!(all, [task.id], "{breaks:?}");
    }
    // Whoever is cut off twice is told so, and nothing was queued.
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let told = breaking(&host, three, &[false, false]).prompt_session(&session, "say it");
    assert!(matches!(told, Err(api::ClientError::Unreachable { .. })), "{told:?}");
    assert_eq!(tasks(owner, &session), []);
    // The same words twice are two tasks.
    owner.client.prompt_session(&session, "say it").unwrap();
    owner.client.prompt_session(&session, "say it").unwrap();
    assert_eq!(tasks(owner, &session).len(), 2);
}
