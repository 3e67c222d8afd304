//! While a worktree is being archived, deleted or brought back: nothing is begun there, one of many wins, and a daemon that is killed
//! meanwhile leaves nothing half done that nobody tells of.

use std::fs;
use std::path::Path;
use std::time::Duration;

use api::{CreateSessionRequest, ImportRequest, Worktree};
use tests::{Host, Person};

use crate::calls::{new_import, new_session, spawn};
use crate::sessions::{ended, quiet, steps, tasks, until};
use crate::trees::{tree, wanted};

fn shell(worktree: &str) -> CreateSessionRequest {
    CreateSessionRequest { agent: "command".into(), command: vec!["sh".into()], ..new_session(worktree) }
}

/// A session with a task at work that takes its time to end.
fn slow_to_end(person: &Person, worktree: &str) -> String {
    let session = person.client.create_session(&shell(worktree)).unwrap().id;
    person.client.prompt_session(&session, "trap '' TERM; touch begun; while :; do sleep 1; done").unwrap();
    until("the task at work", || tasks(person, &session)[0].run.clone());
    // It is past its first words: they are ignored from now on.
    std::thread::sleep(Duration::from_millis(500));
    session
}

/// What refused this, with the words for it.
#[track_caller]
fn is_refused<T: std::fmt::Debug>(what: &str, result: Result<T, api::ClientError>, word: &str) {
    let error = result.expect_err(what);
    assert_eq!(error.status(), Some(409), "{what}: {error}");
    assert!(error.to_string().contains(word), "{what}: {error}");
}

/// WT-15: while a worktree is being archived or deleted nobody opens a session there, asks for something, forks, spawns, takes back,
/// imports, archives, deletes or restores it.
#[test]
fn wt_15_nothing_is_begun_in_a_worktree_that_is_being_ended() {
    let host = quiet();
    let owner = host.owner();
    let client = &owner.client;
    let repo = host.local_repo("demo");
    client.fetch_repo(&repo).unwrap();
    for (deletes, word) in [(false, "being archived"), (true, "being deleted")] {
        let made = client.create_worktree(&wanted(&repo, &format!("ends-{deletes}"))).unwrap();
        let idle = client.create_session(&shell(&made.id)).unwrap().id;
        let first = client.prompt_session(&idle, "echo x > made").unwrap().id;
        assert_eq!(ended(owner, &idle, &first).state, "done");
        // One of which a page came before, and more is to come.
        let begun = ImportRequest { last: false, ..new_import(&made.id) };
        let begun = client.import_session(&begun).unwrap().id;
        let next = ImportRequest { session: Some(begun.clone()), after: 1, ..new_import(&made.id) };
        let slow = slow_to_end(owner, &made.id);
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| match deletes {
                true => client.delete_worktree_and(&made.id, Some("kept")),
                false => client.archive_worktree_and(&made.id, Some("kept")).map(drop),
            });
            until("its sessions are closed", || client.session(&slow).unwrap().closed_at);
            is_refused("new", client.create_session(&shell(&made.id)), word);
            is_refused("prompt", client.prompt_session(&idle, "true"), word);
            is_refused("fork", client.fork_session(&idle, &api::ForkRequest::default()), word);
            is_refused("spawn", client.spawn_session(&idle, &spawn("true")), word);
            is_refused("resume", client.resume_session(&idle), word);
            is_refused("import", client.import_session(&new_import(&made.id)), word);
            is_refused("import more", client.import_session(&next), word);
            is_refused("archive", client.archive_worktree_and(&made.id, Some("removed")), word);
            is_refused("delete", client.delete_worktree_and(&made.id, Some("removed")), word);
            is_refused("restore", client.restore_worktree(&made.id), "");
            let undone = client.undo_task(&idle, &api::UndoRequest::default());
            assert_eq!(undone.expect_err("undo").status(), Some(409));
            assert!(!ending.is_finished(), "all of this came while it was at work");
            ending.join().unwrap().unwrap();
        });
        assert!(tree(&host, &made).join("made").exists(), "nobody else touched its files");
        if deletes {
            assert_eq!(client.worktree(&made.id).unwrap_err().status(), Some(404));
            continue;
        }
        let kept = client.worktree(&made.id).unwrap();
        assert_eq!(kept.files.as_deref(), Some("kept"));
        assert!(client.create_session(&shell(&made.id)).is_err(), "it is archived");
        assert_eq!(client.session(&begun).unwrap().imported, Some(1), "what came of the transcript is kept");
        assert!(client.import_session(&next).is_err(), "nothing is added to what is archived");
        client.restore_worktree(&made.id).unwrap();
        assert_eq!(client.import_session(&next).unwrap().imported, Some(2), "and the rest of it comes later");
        let again = client.prompt_session(&idle, "true").unwrap().id;
        assert_eq!(ended(owner, &idle, &again).state, "done", "and everything goes on");
    }
}

/// WT-15: of many who end one worktree at once one wins, and the others are told.
#[test]
fn wt_15_of_many_who_end_a_worktree_one_wins() {
    one_wins(&quiet());
}

#[test]
fn wt_15_of_many_who_end_a_worktree_one_wins_on_postgresql() {
    one_wins(&on_postgresql());
}

fn on_postgresql() -> Host {
    Host::builder().set("limits.requests_per_minute", "0").on_postgresql().start()
}

fn one_wins(host: &Host) {
    let client = &host.owner().client;
    let repo = host.local_repo("demo");
    client.fetch_repo(&repo).unwrap();
    for round in 0..3 {
        let made = client.create_worktree(&wanted(&repo, &format!("round-{round}"))).unwrap();
        for n in 0..2_000 {
            fs::write(tree(host, &made).join(format!("file-{n}")), "x").unwrap();
        }
        let head = host.ledger_head();
        let ends: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|n| {
                    let made = &made;
                    scope.spawn(move || match n % 2 {
                        0 => client.delete_worktree_and(&made.id, Some("removed")),
                        _ => client.delete_worktree_and(&made.id, Some("cleaned")),
                    })
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1, "{ends:?}");
        for lost in ends.iter().filter_map(|end| end.as_ref().err()) {
            let told = lost.status() == Some(404) || lost.to_string().contains("being deleted");
            assert!(told, "{lost}");
        }
        let files = host.since(head).into_iter().filter(|entry| entry.action == "worktree.delete");
        assert!(files.count() >= 8, "each attempt is on the ledger");
        assert_eq!(client.worktree(&made.id).unwrap_err().status(), Some(404));
    }
}

/// WT-15: a session is opened before its worktree ends, and ends with it, or not at all.
#[test]
fn wt_15_no_session_is_left_open_in_a_worktree_that_ended() {
    for host in [quiet(), on_postgresql()] {
        let client = &host.owner().client;
        let repo = host.local_repo("demo");
        client.fetch_repo(&repo).unwrap();
        for round in 0..4 {
            let made = client.create_worktree(&wanted(&repo, &format!("round-{round}"))).unwrap();
            let parent = client.create_session(&shell(&made.id)).unwrap().id;
            let opened = std::thread::scope(|scope| {
                let open = |n: usize| match n % 2 {
                    0 => client.create_session(&shell(&made.id)).map(|session| session.id),
                    _ => client.fork_session(&parent, &api::ForkRequest::default()).map(|session| session.id),
                };
                let all: Vec<_> = (0..12)
                    .map(|n| {
                        scope.spawn(move || {
                            std::thread::sleep(Duration::from_millis(5 * n as u64));
                            open(n).ok()
                        })
                    })
                    .collect();
                std::thread::sleep(Duration::from_millis(30));
                client.archive_worktree_and(&made.id, Some("removed")).unwrap();
                all.into_iter().filter_map(|one| one.join().unwrap()).collect::<Vec<_>>()
            });
            for id in opened.iter().chain([&parent]) {
                assert!(
                    client.session(id).unwrap().closed_at.is_some(),
                    "{id} is open, and its worktree is gone"
                );
            }
            client.restore_worktree(&made.id).unwrap();
            for id in opened.iter().chain([&parent]) {
                assert!(client.session(id).unwrap().closed_at.is_none(), "{id} comes back");
            }
        }
    }
}

fn grown(place: &Path, files: usize) {
    for n in 0..files {
        let folder = place.join(format!("folder-{}", n % 50));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(n.to_string()), "x").unwrap();
    }
}

fn count(place: &Path) -> usize {
    let folders = fs::read_dir(place).into_iter().flatten().flatten();
    folders.map(|entry| fs::read_dir(entry.path()).into_iter().flatten().count() + 1).sum()
}

/// Kills the daemon while it removes files of this worktree.
fn killed_amid(host: &mut Host, made: &Worktree, deletes: bool, files: &'static str) {
    let place = tree(host, made);
    let before = count(&place);
    let client = host.owner().client.clone();
    let id = made.id.clone();
    let ending = std::thread::spawn(move || match deletes {
        true => client.delete_worktree_and(&id, Some(files)),
        false => client.archive_worktree_and(&id, Some(files)).map(drop),
    });
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while count(&place) == before {
        assert!(std::time::Instant::now() < end, "nothing is removed");
    }
    host.kill();
    ending.join().unwrap().unwrap_err();
    let left = count(&place);
    assert!(left > 0 && left < before, "it was killed amid it: {left} of {before}");
}

/// WT-15: a daemon that is killed while files are removed goes on with that at its next start, and the record says so.
#[test]
fn wt_15_an_interrupted_end_is_brought_to_its_end() {
    let mut host = quiet();
    let repo = host.local_repo("demo");
    host.owner().client.fetch_repo(&repo).unwrap();
    for (deletes, files) in [(false, "removed"), (false, "cleaned"), (true, "removed")] {
        let name = format!("{files}-{deletes}");
        let made = host.owner().client.create_worktree(&wanted(&repo, &name)).unwrap();
        let place = tree(&host, &made);
        grown(&place, 30_000);
        let session = host.owner().client.create_session(&shell(&made.id)).unwrap().id;
        let head = host.ledger_head();
        killed_amid(&mut host, &made, deletes, files);
        host.start_daemon().unwrap();
        host.rebase();
        let owner = host.owner();
        let client = &owner.client;
        let noted = until("it is told on the ledger", || {
            host.since(head).into_iter().find(|entry| entry.action == "worktree.ending")
        });
        assert!(noted.line.contains("brought to its end") && noted.line.contains(&made.id), "{}", noted.line);
        if deletes {
            assert_eq!(client.worktree(&made.id).unwrap_err().status(), Some(404));
            assert!(!place.exists());
            continue;
        }
        let shown = client.worktree(&made.id).unwrap();
        assert!(shown.archived_at.is_some());
        assert_eq!(shown.archived_by.as_deref(), Some(owner.id.as_str()), "by whose act it was");
        assert_eq!(shown.files.as_deref(), Some(files));
        match files {
            "removed" => assert!(!place.exists()),
            _ => {
                let mut left: Vec<_> =
                    fs::read_dir(&place).unwrap().flatten().map(|entry| entry.file_name()).collect();
                left.sort();
                assert_eq!(left, [".git", "README"]);
            }
        }
        client.restore_worktree(&made.id).unwrap();
        assert_eq!(fs::read_to_string(place.join("README")).unwrap(), "one\n");
        let task = client.prompt_session(&session, "true").unwrap().id;
        assert_eq!(ended(owner, &session, &task).state, "done");
    }
}

/// WT-15: what cannot be brought to its end at the next start is told of, and the worktree is in use again.
#[test]
fn wt_15_an_interrupted_end_that_fails_is_told_of() {
    let mut host = quiet();
    let repo = host.local_repo("demo");
    host.owner().client.fetch_repo(&repo).unwrap();
    let made = host.owner().client.create_worktree(&wanted(&repo, "stays")).unwrap();
    let place = tree(&host, &made);
    grown(&place, 30_000);
    let session = host.owner().client.create_session(&shell(&made.id)).unwrap().id;
    let head = host.ledger_head();
    killed_amid(&mut host, &made, false, "removed");
    // Nobody can take this away, not even root.
    let held = place.join("held");
    fs::create_dir_all(&held).unwrap();
    let done = std::process::Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&held).status().unwrap();
    assert!(done.success(), "this test needs root");
    host.start_daemon().unwrap();
    host.rebase();
    let owner = host.owner();
    let noted = until("it is told on the ledger", || {
        host.since(head).into_iter().find(|entry| entry.action == "worktree.ending")
    });
    assert!(noted.line.contains("some of its files may be gone"), "{}", noted.line);
    assert!(owner.client.worktree(&made.id).unwrap().archived_at.is_none());
    assert!(owner.client.session(&session).unwrap().closed_at.is_none(), "its session is open again");
    until("its session says so", || {
        let told =
            |step: &api::Step| step.body["text"].as_str().is_some_and(|text| text.contains("may be gone"));
        steps(owner, &session).iter().any(told).then_some(())
    });
    assert!(std::process::Command::new("umount").arg(&held).status().unwrap().success());
    owner.client.archive_worktree_and(&made.id, Some("removed")).unwrap();
    assert!(!place.exists());
}

/// WT-15: a daemon that is killed while a tree is made again leaves no half of one: the worktree stays archived, the record says so, and it can be
/// brought back as if nothing had happened.
#[test]
fn wt_15_an_interrupted_restore_leaves_no_half_of_a_tree() {
    let mut host = quiet();
    let repo = host.local_repo("demo");
    let origin = host.origin("demo");
    grown(&origin, 12_000);
    tests::git(&origin, &["add", "-A"]);
    tests::git(
        &origin,
        &["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "many"],
    );
    host.owner().client.fetch_repo(&repo).unwrap();
    let made = host.owner().client.create_worktree(&wanted(&repo, "back")).unwrap();
    let place = tree(&host, &made);
    let whole = count(&place);
    let session = host.owner().client.create_session(&shell(&made.id)).unwrap().id;
    host.owner().client.archive_worktree_and(&made.id, Some("removed")).unwrap();
    assert!(!place.exists());
    let head = host.ledger_head();
    let (client, id) = (host.owner().client.clone(), made.id.clone());
    let restoring = std::thread::spawn(move || client.restore_worktree(&id));
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while count(&place) < 100 {
        assert!(std::time::Instant::now() < end, "nothing is made");
    }
    host.kill();
    restoring.join().unwrap().unwrap_err();
    let half = count(&place);
    assert!(half > 0 && half < whole, "it was killed amid it: {half} of {whole}");
    host.start_daemon().unwrap();
    host.rebase();
    let owner = host.owner();
    let noted = until("it is told on the ledger", || {
        host.since(head).into_iter().find(|entry| entry.action == "worktree.ending")
    });
    assert!(noted.line.contains("stays archived") && noted.line.contains(&made.id), "{}", noted.line);
    let shown = owner.client.worktree(&made.id).unwrap();
    assert!(shown.archived_at.is_some() && shown.files.as_deref() == Some("removed"), "{shown:?}");
    assert!(!place.exists(), "nothing of it is left");
    assert!(owner.client.session(&session).unwrap().closed_at.is_some());
    owner.client.restore_worktree(&made.id).unwrap();
    assert_eq!(count(&place), whole);
    let task = owner.client.prompt_session(&session, "git status --porcelain; true").unwrap().id;
    let end = ended(owner, &session, &task);
    assert_eq!((end.state.as_str(), end.tree_before.unwrap().dirty), ("done", Some(false)));
}

/// WT-15: however deep a tree is, it is cleaned and removed.
#[test]
fn wt_15_very_deep_trees_are_cleaned_and_removed() {
    let host = quiet();
    let client = &host.owner().client;
    let repo = host.local_repo("demo");
    client.fetch_repo(&repo).unwrap();
    for files in ["cleaned", "removed"] {
        let made = client.create_worktree(&wanted(&repo, files)).unwrap();
        let place = tree(&host, &made);
        // Deeper than a path can be long: a step at a time.
        let dig = "import os, sys\nos.chdir(sys.argv[1])\nfor n in range(5000):\n    os.mkdir('d'); os.chdir('d')\n";
        let done = std::process::Command::new("python3").args(["-c", dig]).arg(&place).status().unwrap();
        assert!(done.success());
        client.archive_worktree_and(&made.id, Some(files)).unwrap();
        match files {
            "cleaned" => assert!(!place.join("d").exists() && place.join("README").exists()),
            _ => assert!(!place.exists()),
        }
    }
}
