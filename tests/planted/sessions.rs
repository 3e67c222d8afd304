//! An agent at work: what it is asked, says, complains of, writes and commits, and who can see it while it is at work.

use std::path::Path;
use std::time::{Duration, Instant};

use api::CreateSessionRequest;
use tests::{Host, Person};

use crate::daemon::host;
use crate::described::{Known, read_everything};
use crate::search::Search;
use crate::secrets::{Planted, all};

/// What a shell is asked: to say a text on both outputs, to write it, and to commit it with it.
fn script(name: &str, text: &str) -> String {
    format!(
        "cat > {name} <<'THE-END'\n{text}\nTHE-END\ncat {name}; echo; cat {name} >&2; git add {name}; git commit -qF {name}; echo over"
    )
}

#[track_caller]
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ended(person: &Person, session: &str, task: &str) -> api::Task {
    until("the end of a task", || {
        let mut tasks = person.client.tasks(session, 0).unwrap().items;
        tasks.retain(|one| one.id == task && ["done", "failed", "stopped"].contains(&one.state.as_str()));
        tasks.pop()
    })
}

/// Looks at the arguments and the environment of every process.
fn look_at_processes(search: &mut Search) {
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let is_process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        // Other tests of this program give secrets to processes of their own.
        if !is_process || entry.path().join("exe").read_link().ok() == std::env::current_exe().ok() {
            continue;
        }
        for name in ["cmdline", "environ"] {
            let path = entry.path().join(name);
            search.look(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
        }
    }
}

/// Looks below a folder, but not at what an agent wrote: its files are its own.
fn look_below(search: &mut Search, folder: &Path) {
    const THEIRS: &[&str] = &["worktrees", "repos", "homes", "changes", "quarantine"];
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        search.look("a name", name.as_encoded_bytes());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() && THEIRS.iter().any(|theirs| *theirs == name) => {}
            kind if kind.is_dir() => look_below(search, &path),
            kind if kind.is_file() => {
                search.look(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
            }
            _ => {}
        }
    }
}

fn shell(host: &Host, worktree: &str) -> String {
    let new = CreateSessionRequest {
        worktree: worktree.to_owned(),
        agent: "command".into(),
        title: None,
        mode: None,
        model: None,
        command: vec!["sh".into()],
    };
    host.owner().client.create_session(&new).unwrap().id
}

fn text_of(planted: &[Planted]) -> String {
    planted.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

/// SEC-16: what is asked of an agent and what it says, writes and commits with it is seen by nobody through the product: no step, list,
/// log, diff, file, argument, environment, column, export or record has it.
#[test]
fn sec_16_what_an_agent_is_asked_and_says_comes_out_nowhere() {
    let planted = all();
    let mut search = Search::new(&planted);
    let address = tests::database();
    let mut host = host()
        .set("store.url", &address)
        .set("budgets.session_messages_per_minute", "0")
        .variable("PALISADE_MASTER_KEY", &tests::master_key())
        .start();
    let worktree = host.tree(host.owner(), "demo", "session");
    let session = shell(&host, &worktree.id);
    for (n, one) in planted.iter().enumerate() {
        let task =
            host.owner().client.prompt_session(&session, &script(&format!("said-{n}"), &one.text)).unwrap();
        search.look("the answer to a prompt", format!("{task:?}").as_bytes());
        let end = ended(host.owner(), &session, &task.id);
        assert_eq!(end.state, "done", "{}: {end:?}", one.family);
    }
    // One that stays, to be looked at from beside it.
    let stays = format!("{}; sleep 1000", script("all", &text_of(&planted)));
    let task = host.owner().client.prompt_session(&session, &stays).unwrap();
    until("it said what it was asked", || {
        let steps = host.owner().client.steps(&session, 0).unwrap();
        let steps = std::iter::successors(Some(steps), |page| {
            page.next.map(|next| host.owner().client.steps(&session, next).unwrap())
        });
        let said = steps.flat_map(|page| page.items).filter(|step| step.task.as_deref() == Some(&task.id));
        said.map(|step| step.body.to_string()).any(|body| body.contains("over")).then_some(())
    });
    look_at_processes(&mut search);
    host.owner().client.stop_session(&session).unwrap();
    assert_eq!(ended(host.owner(), &session, &task.id).state, "stopped");

    let known = Known::of(&host, &session, &worktree.id, &worktree.repo);
    assert!(read_everything(&host, &known, &mut search) >= 25, "answers that were read");
    for words in [
        vec!["session", "show", &session],
        vec!["session", "list"],
        vec!["session", "export", &session],
        vec!["worktree", "log", &worktree.id],
        vec!["worktree", "diff", &worktree.id],
        vec!["worktree", "files", &worktree.id, "said-1"],
        vec!["ledger", "tail"],
    ] {
        let mut command = host.command("palisade");
        command.env("PALISADE_API_KEY", host.owner().client.token().unwrap());
        let output = command.args(["--url", host.base()]).args(&words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{words:?}");
        search.look(&words.join(" "), &[output.stdout, output.stderr].concat());
    }
    let dump = tests::dump(&address);
    assert!(dump.contains(&session) && dump.contains("***"), "the dump has rows");
    search.look("the database", dump.as_bytes());
    host.stop();
    look_below(&mut search, &host.data());
    search.look("the log", host.log().as_bytes());
    search.assert_clean();
}
