//! How work leaves a worktree, and how a worktree ends: joined, brought back, archived, deleted, restored; where tasks stood.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use api::{CreateSessionRequest, MergeRequest, PushRequest, UpdateWorktreeRequest, Worktree};
use serde_json::Value;
use tests::{Host, commit, git, scale};

use crate::calls::new_session;
use crate::sessions::{ended, quiet, tasks, until};
use crate::trees::{fetched, inside, ours, tree, wanted};

const WHO: &str = "git config user.name A; git config user.email a@host.example";

fn into(branch: &str) -> MergeRequest {
    MergeRequest { into: Some(branch.to_owned()), bundle: false }
}

/// Commits a file in a worktree, as an agent does.
fn commits(host: &Host, made: &Worktree, file: &str, text: &str) -> String {
    let script =
        format!("{WHO}; printf '{text}\\n' > {file}; git add {file}; git commit -qm 'Set {file} to {text}'");
    inside(host, &tree(host, made), &script);
    tip(host, &made.repo, made.branch.as_deref().unwrap())
}

fn tip(host: &Host, repo: &str, branch: &str) -> String {
    git(&ours(host, repo), &["rev-parse", &format!("refs/heads/{branch}")])
}

/// `palisade` as the owner types it; what it says as a document.
#[track_caller]
fn typed(host: &Host, words: &[&str]) -> Value {
    let mut command = host.command("palisade");
    command.env("PALISADE_URL", host.base()).env("PALISADE_API_KEY", host.owner().client.token().unwrap());
    let out = command.arg("--json").args(words).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{words:?}: {text} {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_str::<Value>(&text).unwrap()["result"].clone()
}

/// A worktree's branch goes into another one forwards, or by a commit that joins both; what both changed changes nothing.
#[test]
fn a_worktree_is_merged_without_a_checkout_and_a_conflict_changes_nothing() {
    let (host, repo) = fetched();
    let client = &host.owner().client;
    let [one, two, three] =
        ["one", "two", "three"].map(|name| client.create_worktree(&wanted(&repo, name)).unwrap());
    let first = commits(&host, &one, "README", "from one");
    let head = host.ledger_head();
    let done = client.merge_worktree(&one.id, &MergeRequest::default()).unwrap();
    assert_eq!((done.into.as_str(), done.how.as_str(), done.before), ("trunk", "forwards", None));
    assert_eq!((done.commit.as_str(), tip(&host, &repo, "trunk")), (first.as_str(), first.clone()));
    let entries: Vec<_> = host.since(head).into_iter().map(|one| (one.action, one.resource)).collect();
    assert!(
        entries.iter().all(|entry| *entry == ("worktree.merge".to_owned(), one.id.clone())),
        "{entries:?}"
    );
    assert_eq!(client.merge_worktree(&one.id, &MergeRequest::default()).unwrap().how, "nothing");

    commits(&host, &two, "other", "from two");
    let done = client.merge_worktree(&two.id, &into("trunk")).unwrap();
    assert_eq!((done.how.as_str(), done.before.as_deref()), ("merged", Some(first.as_str())));
    let shown = git(&ours(&host, &repo), &["show", "-s", "--format=%P %an", &done.commit]);
    assert_eq!(shown, format!("{first} {} palisade", tip(&host, &repo, two.branch.as_deref().unwrap())));
    let files = git(&ours(&host, &repo), &["ls-tree", "--name-only", &done.commit]);
    assert_eq!(files, "README\nother");

    commits(&host, &three, "README", "from three");
    let before = git(&ours(&host, &repo), &["for-each-ref"]);
    let refused = client.merge_worktree(&three.id, &into("trunk")).unwrap_err();
    assert_eq!(refused.status(), Some(409));
    assert!(refused.to_string().contains("both changed `README`"), "{refused}");
    assert_eq!(git(&ours(&host, &repo), &["for-each-ref"]), before);

    // What another tree has, what is our own, and what is no branch.
    let held = client
        .create_worktree(&api::CreateWorktreeRequest { branch: Some("held".into()), ..wanted(&repo, "held") })
        .unwrap();
    let refused = client.merge_worktree(&one.id, &into("held")).unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    for odd in ["-x", "a..b", "palisade/x", "palisade-none"] {
        assert_eq!(client.merge_worktree(&one.id, &into(odd)).unwrap_err().status(), Some(422), "{odd}");
    }
    let refused = client.merge_worktree(&one.id, &into("nowhere")).unwrap_err();
    assert!(refused.to_string().contains("no branch `nowhere`"), "{refused}");
    // One that is hidden is as if it were in use, also after its tree is gone.
    let bo = host.user("bo", "member");
    client.set_tier(&held.id, "none").unwrap();
    commits(&host, &held, "secret", "hidden");
    client.delete_worktree(&held.id).unwrap();
    let theirs = bo.worktree(&repo, "theirs", "session");
    let refused = bo.client.merge_worktree(&theirs.id, &into("held")).unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    // Nobody pushes into a directory.
    let refused = client.push_worktree(&one.id, &PushRequest::default()).unwrap_err();
    assert!(refused.to_string().contains("palisade worktree merge"), "{refused}");
}

/// In solo mode the result comes back into the directory that the repository came from: forwards only, by the person, and
/// without a hook of theirs.
#[test]
fn a_merge_comes_back_into_the_persons_own_directory() {
    let (host, repo) = fetched();
    let client = &host.owner().client;
    let origin = host.origin("demo");
    let mark = host.place().join("mark");
    let hooks = origin.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for name in ["post-merge", "reference-transaction", "post-checkout", "pre-merge-commit"] {
        fs::write(hooks.join(name), format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
        fs::set_permissions(hooks.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let quietly = ["-c", "core.hooksPath=/dev/null"];
    let made = client.create_worktree(&wanted(&repo, "one")).unwrap();
    commits(&host, &made, "README", "from one");
    // Somebody committed in the directory meanwhile: both are joined.
    fs::write(origin.join("mine"), "mine\n").unwrap();
    git(&origin, &[&quietly[..], &["add", "mine"]].concat());
    git(&origin, &[&quietly[..], &["commit", "-qm", "mine"]].concat());
    let told = typed(&host, &["worktree", "merge", "one"]);
    assert_eq!(
        (told["how"].as_str(), told["brought"]["state"].as_str()),
        (Some("merged"), Some("checked-out")),
        "{told}"
    );
    assert_eq!(git(&origin, &["rev-parse", "trunk"]), told["commit"].as_str().unwrap());
    assert_eq!(fs::read_to_string(origin.join("README")).unwrap(), "from one\n");
    assert_eq!(fs::read_to_string(origin.join("mine")).unwrap(), "mine\n");
    assert_eq!(git(&origin, &["status", "--porcelain"]), "");
    assert!(told.get("bundle").is_none(), "what was carried is not shown");
    assert_eq!(typed(&host, &["worktree", "merge", "one"])["brought"]["state"], "there");

    // What is not committed there stays as it is, and the commits wait beside it.
    fs::write(origin.join("README"), "by hand\n").unwrap();
    let second = commits(&host, &made, "README", "again");
    let told = typed(&host, &["worktree", "merge", "one"]);
    assert_eq!(told["brought"]["state"], "left", "{told}");
    let before = git(&origin, &["rev-parse", "trunk"]);
    assert_eq!(fs::read_to_string(origin.join("README")).unwrap(), "by hand\n");
    let waiting = told["brought"]["left"][0].as_str().unwrap();
    assert!(git(&origin, &["rev-list", waiting]).contains(&second));
    assert_ne!(git(&origin, &["rev-parse", waiting]), before);
    // A branch that nobody has checked out goes by itself, and a new one comes to be where the origin has it.
    git(&origin, &[&quietly[..], &["branch", "side", "trunk~1"]].concat());
    let told = typed(&host, &["worktree", "merge", "one", "--into", "side"]);
    assert_eq!(told["brought"]["state"], "moved", "{told}");
    assert_eq!(git(&origin, &["rev-parse", "side"]), told["commit"].as_str().unwrap());
    assert_eq!(git(&origin, &["rev-parse", "trunk"]), before);
    let told = typed(&host, &["worktree", "merge", "one", "--into", "side", "--here"]);
    assert!(told.get("brought").is_none());
    assert!(!mark.exists(), "no hook of theirs ran");
}

fn session(worktree: &str) -> CreateSessionRequest {
    CreateSessionRequest { agent: "command".into(), command: vec!["sh".into()], ..new_session(worktree) }
}

/// What is in a tree, without what names the repository.
fn listed(tree: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(tree).ok()?.flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != ".git").collect();
    names.sort();
    Some(names)
}

/// WT-15: six outcomes; what runs ends first; a failed file step keeps the row and says so; a restored worktree has the sessions
/// that were archived with it and no others; links are pages.
#[test]
fn wt_15_archive_and_delete_do_to_the_files_what_was_said_and_restore_brings_it_back() {
    let host = quiet();
    let owner = host.owner();
    let client = &owner.client;
    let repo = host.local_repo("demo");
    client.fetch_repo(&repo).unwrap();
    fs::write(host.origin("demo").join(".gitignore"), "ignored\n").unwrap();
    commit(&host.origin("demo"), "README", "two\n");
    client.fetch_repo(&repo).unwrap();
    for (deletes, files) in [false, true]
        .into_iter()
        .flat_map(|deletes| ["kept", "cleaned", "removed"].map(|files| (deletes, files)))
    {
        let made = client.create_worktree(&wanted(&repo, &format!("{files}-{deletes}"))).unwrap();
        let place: PathBuf = tree(&host, &made);
        let committed = commits(&host, &made, "kept", "x");
        for name in ["new", "ignored"] {
            fs::write(place.join(name), "x").unwrap();
        }
        fs::create_dir_all(place.join("nested/.git")).unwrap();
        fs::write(place.join("README"), "changed\n").unwrap();
        // One session at work with another task behind it, one that a person closed before.
        let work = client.create_session(&session(&made.id)).unwrap().id;
        let before = client.create_session(&session(&made.id)).unwrap().id;
        client.close_session(&before).unwrap();
        let first = client.prompt_session(&work, "sleep 1000").unwrap().id;
        client.prompt_session(&work, "touch never").unwrap();
        until("the task at work", || tasks(owner, &work)[0].run.clone());
        let head = host.ledger_head();
        match deletes {
            true => client.delete_worktree_and(&made.id, Some(files)).unwrap(),
            false => drop(client.archive_worktree_and(&made.id, Some(files)).unwrap()),
        }
        let action = if deletes { "worktree.delete" } else { "worktree.archive" };
        let entry = host.since(head).into_iter().find(|entry| entry.action == action).unwrap();
        assert_eq!((entry.who.as_str(), entry.resource.as_str()), (owner.id.as_str(), made.id.as_str()));
        assert!(entry.line.contains(files), "{}", entry.line);

        let all = ["README", "ignored", "kept", "nested", "new", ".gitignore"];
        let mut expected = match files {
            "kept" => Some(all.map(str::to_owned).to_vec()),
            "cleaned" => Some([".gitignore", "README", "kept"].map(str::to_owned).to_vec()),
            _ => None,
        };
        expected.iter_mut().for_each(|names| names.sort());
        assert_eq!(listed(&place), expected, "{action} {files}");
        if files != "removed" {
            assert_eq!(fs::read_to_string(place.join("README")).unwrap(), "changed\n", "{action} {files}");
        }
        let branch = made.branch.clone().unwrap();
        assert_eq!(tip(&host, &repo, &branch), committed, "the branch stays");
        if deletes {
            assert_eq!(client.worktree(&made.id).unwrap_err().status(), Some(404));
            assert_eq!(client.session(&work).unwrap_err().status(), Some(404));
            let trees = git(&ours(&host, &repo), &["worktree", "list"]);
            assert!(!trees.contains(&made.id), "{trees}");
            continue;
        }
        let shown = client.worktree(&made.id).unwrap();
        assert!(shown.archived_at.is_some() && shown.archived_by.as_deref() == Some(owner.id.as_str()));
        assert_eq!(shown.files.as_deref(), Some(files));
        let stopped = tasks(owner, &work);
        assert_eq!(
            (stopped[0].state.as_str(), stopped[1].state.as_str()),
            ("stopped", "queued"),
            "{stopped:?}"
        );
        assert_eq!(stopped[0].id, first);
        assert!(client.prompt_session(&work, "true").is_err(), "an archived worktree is finished");
        assert!(client.merge_worktree(&made.id, &into("trunk")).is_err());

        let restored = client.restore_worktree(&made.id).unwrap();
        assert!(restored.archived_at.is_none() && restored.archived_by.is_none() && restored.files.is_none());
        assert!(client.session(&work).unwrap().closed_at.is_none(), "archived with it");
        assert!(client.session(&before).unwrap().closed_at.is_some(), "closed by a person");
        assert_eq!(fs::read_to_string(place.join("kept")).unwrap(), "x\n");
        // What waited goes on when somebody says so.
        client.resume_session(&work).unwrap();
        let second = tasks(owner, &work)[1].id.clone();
        assert_eq!(ended(owner, &work, &second).state, "done");
        assert!(place.join("never").exists());
        assert_eq!(client.restore_worktree(&made.id).unwrap_err().status(), Some(409), "it is not archived");
    }
    a_failed_step_keeps_it(&host, &repo);
    links_are_pages(&host, &repo);
}

fn a_failed_step_keeps_it(host: &Host, repo: &str) {
    let client = &host.owner().client;
    let made = client.create_worktree(&wanted(repo, "stays")).unwrap();
    let work = client.create_session(&session(&made.id)).unwrap().id;
    // Nobody can take this away, not even root.
    let place = tree(host, &made);
    let held = place.join("held");
    fs::create_dir(&held).unwrap();
    let done = std::process::Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&held).status().unwrap();
    assert!(done.success(), "this test needs root");
    for files in ["removed", "cleaned"] {
        for deletes in [false, true] {
            let refused = match deletes {
                true => client.delete_worktree_and(&made.id, Some(files)).unwrap_err(),
                false => client.archive_worktree_and(&made.id, Some(files)).unwrap_err(),
            };
            assert!(refused.to_string().contains("the worktree stays"), "{refused}");
            assert!(client.worktree(&made.id).unwrap().archived_at.is_none());
            assert!(client.session(&work).unwrap().closed_at.is_none(), "and its session is open again");
        }
    }
    assert!(std::process::Command::new("umount").arg(&held).status().unwrap().success());
    client.archive_worktree_and(&made.id, Some("removed")).unwrap();
    assert!(!place.exists());
}

fn links_are_pages(host: &Host, repo: &str) {
    let client = &host.owner().client;
    let made = client.create_worktree(&wanted(repo, "linked")).unwrap();
    let issue = "https://forge.example/team/demo/issues/7";
    let told = typed(host, &["worktree", "link", "linked", "--issue", issue]);
    assert_eq!((told["issue"].as_str(), told["pull_request"].as_str()), (Some(issue), None));
    for bad in
        ["javascript:alert(1)", "file:///etc/passwd", "https://user:word@forge.example/x", "data:text/html,x"]
    {
        let body = UpdateWorktreeRequest { pull_request: Some(bad.into()), ..Default::default() };
        assert_eq!(client.change_worktree(&made.id, &body).unwrap_err().status(), Some(422), "{bad}");
    }
    let body = UpdateWorktreeRequest { issue: Some(String::new()), ..Default::default() };
    assert_eq!(client.change_worktree(&made.id, &body).unwrap().issue, None);
}

/// WT-08: every task has branch, commit and dirtiness from when it began and ended, as git tells them.
#[test]
fn wt_08_every_task_records_where_its_tree_stood() {
    let host = quiet();
    let owner = host.owner();
    let client = &owner.client;
    let made = host.tree(owner, "demo", "session");
    let place = tree(&host, &made);
    let work = client.create_session(&session(&made.id)).unwrap().id;
    let stands = || {
        let dirty = !git(&place, &["status", "--porcelain"]).is_empty();
        (
            Some(git(&place, &["branch", "--show-current"])),
            Some(git(&place, &["rev-parse", "HEAD"])),
            Some(dirty),
        )
    };
    let scripts = [
        ("true", "done"),
        ("echo x > new", "done"),
        ("echo y > README; exit 3", "failed"),
        ("git config user.name A; git config user.email a@b; git add --all; git commit -qm all", "done"),
        ("echo z > late; exec sleep 1000", "stopped"),
        ("rm late", "done"),
        (
            "git config user.name A; git config user.email a@b; git commit -q --allow-empty -m more; exit 1",
            "failed",
        ),
    ];
    for (script, end) in scripts.iter().cycle().take(scale(100, 7)) {
        let before = stands();
        let id = client.prompt_session(&work, script).unwrap().id;
        if *end == "stopped" {
            until("the task at work", || tasks(owner, &work).into_iter().find(|task| task.id == id)?.run);
            // It wrote what it writes, in a layer of its own.
            std::thread::sleep(std::time::Duration::from_millis(500));
            client.stop_session(&work).unwrap();
        }
        let task = ended(owner, &work, &id);
        assert_eq!(task.state, *end, "{script}: {}", task.why);
        let told = |tree: Option<api::TreeState>| tree.map(|tree| (tree.branch, tree.commit, tree.dirty));
        assert_eq!(told(task.tree_before), Some(before), "{script}");
        assert_eq!(told(task.tree_after), Some(stands()), "{script}");
    }
    let shown = typed(&host, &["session", "show", &work]);
    assert!(shown["tasks"][0]["tree_after"]["commit"].is_string(), "{shown}");
}
