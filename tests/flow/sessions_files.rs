//! What may be done to the files of a worktree is a mount: written to, or read and nothing else, or no process at all.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use api::CreateSessionRequest;
use tests::{Host, Person};

use crate::calls::{new_pass, new_session};
use crate::sessions::{ended, quiet, said, steps};

/// Every way to write, each on one line: its name, and what the system said. Only the Python of the system is needed.
const WRITES: &str = r#"
import errno, os
def tried(name, act):
    try:
        act()
        print(name, "done")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
tried("create", lambda: os.open("new", os.O_CREAT | os.O_WRONLY))
tried("write", lambda: os.open("there", os.O_WRONLY))
tried("append", lambda: os.open("there", os.O_WRONLY | os.O_APPEND))
tried("open-truncate", lambda: os.open("there", os.O_WRONLY | os.O_TRUNC))
tried("truncate", lambda: os.truncate("there", 1))
tried("mkdir", lambda: os.mkdir("folder2"))
tried("symlink", lambda: os.symlink("there", "link"))
tried("hardlink", lambda: os.link("there", "hard"))
tried("fifo", lambda: os.mkfifo("fifo"))
tried("chmod", lambda: os.chmod("there", 0o700))
tried("times", lambda: os.utime("there", (1, 1)))
tried("attribute", lambda: os.setxattr("there", "user.note", b"x"))
tried("deep", lambda: os.open("folder/new", os.O_CREAT | os.O_WRONLY))
tried("git", lambda: os.open(".git/config", os.O_WRONLY | os.O_APPEND))
tried("rename", lambda: os.rename("there", "moved"))
tried("exchange", lambda: os.replace("folder/one", "there"))
tried("unlink", lambda: os.unlink("folder/two"))
tried("rmdir", lambda: os.rmdir("empty"))
"#;

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tests::git(at, &["init", "-q", "-b", "main"]);
    for name in ["folder", "empty"] {
        std::fs::create_dir(at.join(name)).unwrap();
    }
    for name in ["there", "folder/one", "folder/two"] {
        std::fs::write(at.join(name), "as it was").unwrap();
    }
    // Open to everybody: what refuses is the mount, and not the owner of a file.
    for (path, _) in everything(at) {
        let mode = if path.is_dir() { 0o777 } else { 0o666 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    folder
}

fn run(host: &Host, at: &Path, options: &[&str]) -> Output {
    let mut command = host.command("palisade");
    command.arg("run").args(options).args(["--", "python3", "-c", WRITES]);
    command.current_dir(at).output().unwrap()
}

/// What became of each way, in order.
fn told(output: &Output) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let all: Vec<_> = pairs.map(|(name, what)| (name.to_owned(), what.to_owned())).collect();
    assert_eq!(all.len(), 18, "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    all
}

/// Names and bytes of everything in a folder.
fn everything(at: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut open = vec![at.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => {
                    all.push((entry.path(), Vec::new()));
                    open.push(entry.path());
                }
                false => all.push((entry.path(), std::fs::read(entry.path()).unwrap_or_default())),
            }
        }
    }
    all.sort();
    all
}

/// ACC-26: write is a mount that is written to; read is one on which every way to write is `EROFS`, and nothing is changed.
#[test]
fn acc_26_write_is_written_to_and_read_is_erofs_for_every_way_to_write() {
    let host = quiet();
    let written = project();
    let all = told(&run(&host, written.path(), &[]));
    // Not every file system has attributes, and what is in `.git` is a matter of its own.
    let refused: Vec<_> = all
        .iter()
        .filter(|(name, what)| what != "done" && !["git", "attribute"].contains(&name.as_str()))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(written.path().join("moved").exists() && written.path().join("folder/new").exists());

    let read = project();
    let before = everything(read.path());
    let all = told(&run(&host, read.path(), &["--profile", "read-only"]));
    let other: Vec<_> = all.iter().filter(|(_, what)| what != "EROFS").collect();
    assert!(other.is_empty(), "{other:?}");
    assert_eq!(everything(read.path()), before, "nothing was changed");
}

/// ACC-26: whoever may not work in a worktree gets no process there, by no way: not a right that is only to read, not one that was
/// lost before the task began, and not a Pass without a file, or without time.
#[test]
fn acc_26_without_a_right_to_write_no_process_of_a_session_is_started() {
    let host = quiet();
    let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
    let worktree = host.tree(&ana, "demo", "session").id;
    let shell = |worktree: &str| CreateSessionRequest {
        agent: "command".into(),
        command: vec!["sh".into(), "-c".into(), "cat > /dev/null; echo here".into()],
        ..new_session(worktree)
    };
    let session = bo.client.create_session(&shell(&worktree)).unwrap().id;
    let runs = || everything(&host.data().join("runs")).len();
    let works = |person: &Person| {
        let task = person.client.prompt_session(&session, "go").unwrap();
        ended(person, &session, &task.id).state == "done" && said(&steps(person, &session)).contains("here")
    };
    assert!(works(&bo), "with the right it runs");
    let before = runs();
    for tier in ["view", "none"] {
        ana.client.set_tier(&worktree, tier).unwrap();
        let status = if tier == "none" { 404 } else { 403 };
        assert_eq!(bo.client.prompt_session(&session, "go").unwrap_err().status(), Some(status), "{tier}");
        assert_eq!(bo.client.create_session(&shell(&worktree)).unwrap_err().status(), Some(status), "{tier}");
    }
    ana.client.set_tier(&worktree, "session").unwrap();
    let tools = serde_json::json!({ "allow": ["api.session.*"] });
    let open = serde_json::json!({ "allow": ["rw:/"] });
    for (grant, why) in [
        (serde_json::json!({ "tools": tools, "budget": PLENTY.parsed() }), "gives no file"),
        (
            serde_json::json!({ "tools": tools, "paths": { "deny": ["rw:/x"] }, "budget": PLENTY.parsed() }),
            "gives no file",
        ),
        (serde_json::json!({ "tools": tools, "paths": open }), "0 s at work of the pass"),
    ] {
        let by_pass = holder(&bo, grant);
        let before = steps(&bo, &session).len();
        let task = by_pass.prompt_session(&session, "go").unwrap();
        crate::sessions::until("it is told why", || {
            let told = serde_json::to_string(&steps(&bo, &session).split_off(before)).unwrap();
            let held = bo.client.session(&session).unwrap().held.is_some();
            (told.contains(why) && held).then_some(())
        });
        bo.client.stop_task(&session, &task.id).unwrap();
        assert!(by_pass.create_session(&shell(&worktree)).is_err(), "nor is a session opened by one");
    }
    let others = serde_json::json!({ "tools": { "allow": ["api.worktree.*"] }, "paths": open, "budget": PLENTY.parsed() });
    assert_eq!(holder(&bo, others).prompt_session(&session, "go").unwrap_err().status(), Some(404));
    assert_eq!(runs(), before, "nothing was started");
    assert!(works(&bo), "and it runs again");
}

/// Budgets of a Pass that nothing here reaches.
struct Plenty;
const PLENTY: Plenty = Plenty;

impl Plenty {
    fn parsed(&self) -> serde_json::Value {
        serde_json::json!({ "tokens": 1_000_000, "micro_usd": 1_000_000, "tool_calls": 1_000, "egress_bytes": 1_000_000, "wall_ms": 600_000 })
    }
}

/// Whoever holds a Pass of somebody's.
fn holder(person: &Person, grant: serde_json::Value) -> api::Client {
    let grant = serde_json::from_value(grant).unwrap();
    let pass = person.client.mint_pass(&api::MintPassRequest { grant, ..new_pass() }).unwrap();
    person.client.with_token(&pass.token.0)
}

/// A session whose agent does what its prompt says, and what came of a script in it.
struct Shell<'a> {
    person: &'a Person,
    session: String,
}

impl Shell<'_> {
    fn told(&self, by: &api::Client, script: &str) -> (api::Task, String) {
        let before = steps(self.person, &self.session).len();
        let task = by.prompt_session(&self.session, script).unwrap();
        let end = ended(self.person, &self.session, &task.id);
        (end, said(&steps(self.person, &self.session).split_off(before)))
    }
}

/// ACC-26, ACC-09: of a worktree a sandbox has what the Grant gives of whoever asked: what is given to be written is written to, what is
/// given to be read is `EROFS` for every way to write, and what is not given is not there. No way leads around it: not git, not a home that
/// others use, not a child.
#[test]
fn acc_26_a_sandbox_has_the_part_of_the_worktree_that_its_grant_gives() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let new = CreateSessionRequest {
        agent: "command".into(),
        command: vec!["sh".into()],
        ..new_session(&worktree)
    };
    let session = owner.client.create_session(&new).unwrap().id;
    let shell = Shell { person: owner, session };
    let (end, text) = shell.told(
        &owner.client,
        "mkdir -p src/deep docs secret folder empty; echo as it was | tee src/one docs/two secret/key there folder/one folder/two; \
         ln -s secret way; git add -A; git commit -qm all; echo mark > ~/mine",
    );
    assert_eq!(end.state, "done", "{} {text}", end.why);
    let tree = host.data().join("worktrees").join(&worktree);
    let by = |paths: serde_json::Value| {
        let tools = serde_json::json!({ "allow": ["api.session.*"] });
        holder(owner, serde_json::json!({ "tools": tools, "paths": paths, "budget": PLENTY.parsed() }))
    };

    // One part to be written, one to be read, one that is a link, and one that is not there.
    let part = by(serde_json::json!({ "allow": ["rw:/src", "ro:/docs", "rw:/way", "rw:/gone"] }));
    let (end, text) = shell.told(
        &part,
        "exec 2>&1; ls -A; echo new > src/new; rm src/one; echo no > docs/new; echo no > top; cat docs/two secret/key; ls /proc/1/root; \
         git log -1; cat ~/mine; echo planted > ~/planted",
    );
    assert_eq!(end.state, "done", "{} {text}", end.why);
    assert!(text.starts_with("docs\nsrc\n"), "nothing else is there: {text}");
    for told in [
        "docs/new: Read-only file system",
        "top: Read-only file system",
        "as it was",
        "secret/key: No such file",
        "not a git repository",
        "mine: No such file",
    ] {
        assert!(text.contains(told), "`{told}` is not in: {text}");
    }
    assert_eq!(std::fs::read_to_string(tree.join("src/new")).unwrap(), "new\n");
    assert!(
        !tree.join("src/one").exists() && tree.join("secret/key").exists() && tree.join("there").exists()
    );
    assert!(!tree.join("docs/new").exists() && !tree.join("top").exists());
    let (_, text) = shell.told(&owner.client, "cat ~/mine ~/planted 2>&1");
    assert!(text.starts_with("mark\n") && text.contains("planted: No such file"), "homes are apart: {text}");

    // All of it, to be read: every way to write is refused, and its history can be read.
    let before = everything(&tree);
    let read = by(serde_json::json!({ "allow": ["ro:/"] }));
    let (end, text) = shell.told(&read, &format!("python3 -c '{WRITES}'; git log -1 --format=%s; cat secret/key; git commit --allow-empty -m no 2>&1"));
    assert_eq!(end.state, "failed", "a commit is not made: {} {text}", end.why);
    let tried: Vec<_> = text.lines().filter_map(|line| line.split_once(' ')).take(18).collect();
    // The tree of a worktree has a file for its `.git`.
    let other: Vec<_> = tried.iter().filter(|(name, what)| *what != "EROFS" && *name != "git").collect();
    assert!(tried.len() == 18 && other.is_empty(), "{other:?} {text}");
    assert!(text.contains("\nall\n") && text.contains("\nas it was\n"), "{text}");
    assert_eq!(everything(&tree), before, "nothing was changed");

    // All but one: that is out, also when it is made anew, and so is the history, which has it.
    let less = by(serde_json::json!({ "allow": ["rw:/"], "deny": ["rw:/secret", "rw:/later/here"] }));
    let (end, text) = shell.told(
        &less,
        "exec 2>&1; ls -A secret; echo top > top; echo no > secret/new; rm -rf secret; mv secret other; mkdir -p later/here; echo no > later/here/x; git log -1; true",
    );
    assert_eq!(end.state, "done", "{} {text}", end.why);
    assert!(!text.contains("key") && !text.contains("all"), "{text}");
    assert_eq!(std::fs::read_to_string(tree.join("top")).unwrap(), "top\n");
    assert_eq!(std::fs::read_to_string(tree.join("secret/key")).unwrap(), "as it was\n");
    assert!(
        !tree.join("other").exists()
            && !tree.join("secret/new").exists()
            && !tree.join("later/here/x").exists()
    );
    assert!(tree.join(".git").exists() && tree.join("folder/one").exists());

    // What is opened for a session by a Pass has no more than the Pass; and what it did can be taken back.
    let child = crate::calls::spawn("ls -A; echo child > src/child; echo no > docs/no");
    let child = api::SpawnRequest { report: false, ..child };
    let spawned = part.spawn_session(&shell.session, &child).unwrap();
    let end = ended(owner, &spawned.session.id, &spawned.task.id);
    assert_eq!(end.state, "failed", "{}", end.why);
    assert!(said(&steps(owner, &spawned.session.id)).starts_with("docs\nsrc\n"));
    assert!(tree.join("src/child").exists() && !tree.join("docs/no").exists());
    owner.client.undo_task(&spawned.session.id, &api::UndoRequest::default()).unwrap();
    assert!(!tree.join("src/child").exists());
    assert!(part.undo_task(&shell.session, &api::UndoRequest::default()).is_err(), "not by the Pass");
}

/// ACC-19, ACC-09: what a Pass may spend is for all that is asked with it and with those that were made from it.
#[test]
fn acc_19_what_a_pass_may_spend_is_spent_once() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let new = CreateSessionRequest {
        agent: "command".into(),
        command: vec!["sh".into()],
        ..new_session(&worktree)
    };
    let session = owner.client.create_session(&new).unwrap().id;
    let mut budget = PLENTY.parsed();
    budget["wall_ms"] = 3_000.into();
    let grant = |depth: u8| {
        serde_json::json!({ "tools": { "allow": ["api.session.*", "api.pass.mint"] }, "paths": { "allow": ["rw:/"] },
                            "budget": budget, "depth": depth })
    };
    let first = holder(owner, grant(2));
    let made = first
        .mint_pass(&api::MintPassRequest { grant: serde_json::from_value(grant(0)).unwrap(), ..new_pass() })
        .unwrap();
    let second = owner.client.with_token(&made.token.0);
    let task = first.prompt_session(&session, "sleep 60").unwrap();
    let asked = crate::sessions::until("it stands still", || {
        owner.client.approvals(&session, false).unwrap().items.into_iter().find(|one| one.state == "open")
    });
    assert!(asked.asks.to_string().contains("3 s at work of the pass"), "{asked:?}");
    owner.client.stop_task(&session, &task.id).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "stopped");
    // Neither that one nor the one that was made from it has anything left.
    for by in [&first, &second] {
        let task = by.prompt_session(&session, "echo more").unwrap();
        crate::sessions::until("it waits", || owner.client.session(&session).unwrap().held);
        owner.client.stop_task(&session, &task.id).unwrap();
    }
    let task = owner.client.prompt_session(&session, "echo mine").unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done", "whoever minted it goes on");
}

/// SES-13: a data directory that is kept in memory is as good as any: an agent works there, commits, and what it did arrives.
#[test]
fn ses_13_sandboxes_are_made_also_where_the_data_is_kept_in_memory() {
    let disk = crate::ledger_full::Disk::small("512m");
    if !disk.is_own() {
        return;
    }
    let host = Host::builder().set("limits.requests_per_minute", "0").in_folder(&disk.folder()).start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let script = "cat >/dev/null; echo words > new.txt; git add new.txt; git commit -qm new; rm README; echo more > kept.txt";
    let new = CreateSessionRequest {
        agent: "command".into(),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        ..new_session(&worktree)
    };
    let session = owner.client.create_session(&new).unwrap().id;
    let task = owner.client.prompt_session(&session, "go").unwrap();
    let end = ended(owner, &session, &task.id);
    assert_eq!(end.state, "done", "{} {}", end.why, said(&steps(owner, &session)));
    let text = |name: &str| owner.client.worktree_files(&worktree, name).ok().and_then(|file| file.text);
    assert_eq!((text("new.txt").as_deref(), text("kept.txt").as_deref()), (Some("words\n"), Some("more\n")));
    let log = owner.client.worktree_log(&worktree, None).unwrap();
    assert!(log.items.iter().any(|commit| commit.subject == "new"), "{log:?}");
    owner.client.undo_task(&session, &api::UndoRequest::default()).unwrap();
    assert_eq!(text("new.txt"), None, "and it is taken back");
}

/// ADV-G05: what an agent left that would act on the host is not carried into the worktree, and whoever reads the session is told which paths
/// that are, and why.
#[test]
fn adv_g05_what_is_not_carried_over_is_told() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let words = "run mkdir sub && echo evil > sub/.envrc && mkfifo sub/pipe && echo x > sub/fine";
    let task = owner.client.prompt_session(&session, words).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "done");
    assert!(owner.client.worktree_files(&worktree, "sub/fine").is_ok());
    assert_eq!(owner.client.worktree_files(&worktree, "sub/.envrc").unwrap_err().status(), Some(404));
    let steps = steps(owner, &session);
    let told = steps.iter().find(|step| step.kind == "error").unwrap_or_else(|| panic!("{steps:?}"));
    let paths = told.body["paths"].as_array().unwrap();
    let why = |path: &str| {
        let found = paths.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{told:?}"));
        found["why"].as_str().unwrap().to_owned()
    };
    assert!(
        why("sub/.envrc").contains("control file") && why("sub/pipe").contains("never applied"),
        "{told:?}"
    );
    assert!(told.body["text"].as_str().unwrap().contains("sub/.envrc: "), "{told:?}");
}
