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
/// lost before the task began, and not a Pass, whose part of the files no sandbox is cut to yet.
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
    let grant = serde_json::json!({ "tools": { "allow": ["*"] }, "paths": { "allow": ["ro:/"] } });
    let grant = serde_json::from_value(grant).unwrap();
    let pass = bo.client.mint_pass(&api::MintPassRequest { grant, ..new_pass() }).unwrap();
    let by_pass = bo.client.with_token(&pass.token.0);
    assert!(by_pass.prompt_session(&session, "go").unwrap_err().status().is_some_and(|status| status >= 403));
    assert!(
        by_pass.create_session(&shell(&worktree)).unwrap_err().status().is_some_and(|status| status >= 403)
    );
    assert_eq!(runs(), before, "nothing was started");
    assert!(works(&bo), "and it runs again");
    assert_eq!(bo.client.tasks(&session, 0).unwrap().items.len(), 2, "nothing else was asked");
}
