//! Commits of a run that keeps its changes: they follow when those are applied, and go back with them.
//!
//! The worktree is a tree of a repository elsewhere, as the daemon makes them.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::scene::{Scene, Who, everybody, snapshot};

/// A repository with a branch of somebody's, and the worktree on a branch of its own.
const LINKED: &str = "set -e
    git config --global user.name Ana; git config --global user.email ana@host.example
    w=$PWD theirs=$HOME/theirs ours=$HOME/ours
    git init -q -b main $theirs; cd $theirs
    echo one > one; echo two > two; mkdir d; echo x > d/x; git add .; git commit -qm first
    git init -q --template= --initial-branch=palisade-none $ours; cd $ours
    git fetch -q $theirs '+refs/heads/*:refs/remotes/origin/*'
    git --git-dir=$ours/.git worktree add -q --no-track -b palisade/a $w refs/remotes/origin/main";

const COMMIT: &str =
    "echo agent >> one; echo new > new; rm two; echo y > d/y; git add -A; git commit -qm second";

/// What a person can see of a repository: its branch, the bytes of the index, what git says of the files.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    branch: String,
    log: String,
    index: Vec<u8>,
    status: String,
}

impl Scene {
    fn linked(who: Who) -> Self {
        Self::new(who, LINKED)
    }

    #[track_caller]
    fn git(&self, arguments: &str) -> String {
        let said = self.plain(&self.worktree(), &format!("git {arguments}"));
        assert!(said.status.success(), "git {arguments}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
    }

    fn seen(&self) -> Seen {
        // Before git looks at the files: it would write down what it saw.
        let index = std::fs::read(self.home().join("ours/.git/worktrees/w/index")).unwrap();
        Seen {
            branch: self.git("rev-parse palisade/a"),
            log: self.git("log --format=%s"),
            index,
            status: self.git("--no-optional-locks status --porcelain"),
        }
    }

    /// A run that waits for a line before it goes on.
    fn waiting(&self, before: &str, after: &str) -> Child {
        let report = self.home().join("report");
        let script = format!("{before}\nread go\n{after}");
        let words = ["run", "--overlay", "--report", report.to_str().unwrap(), "--", "sh", "-ec", &script];
        let child = self.prepared(&words).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while !std::fs::read_to_string(&report).is_ok_and(|text| text.contains("running")) {
            assert!(Instant::now() < until, "the run did not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    /// Lets it go on to its end; the run.
    fn finish(&self, mut waiting: Child) -> String {
        waiting.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let output = waiting.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = std::fs::read_to_string(self.home().join("report")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        report["run"].as_str().unwrap().to_owned()
    }
}

#[test]
fn commits_come_with_the_files_and_go_with_them() {
    for who in everybody() {
        let scene = Scene::linked(who);
        let (before, files) = (scene.seen(), snapshot(&scene.worktree()));
        let told = scene.run(COMMIT);
        assert!(told.err.contains("palisade/a moves to"), "{}", told.err);
        assert_eq!(scene.seen(), before, "until then nothing is different");
        let done = scene.json(&["apply"]);
        assert_eq!(done["branch"]["became"], "moved", "{done}");
        let after = scene.seen();
        assert_eq!((after.log.as_str(), after.status.as_str()), ("second\nfirst", ""), "{who:?}");
        assert_eq!(done["branch"]["now"], after.branch.as_str());
        assert_eq!(scene.git("fsck --strict"), "");
        let done = scene.json(&["apply", "--undo"]);
        assert_eq!(done["branch"]["became"], "moved", "{done}");
        assert_eq!(scene.seen(), before, "{who:?}");
        assert_eq!(snapshot(&scene.worktree()), files, "{who:?}");
        // It can be had again.
        scene.done(&["apply"]);
        assert_eq!(scene.git("log --format=%s"), "second\nfirst");
        assert_eq!(scene.git("status --porcelain"), "");
    }
}

#[test]
fn the_next_run_goes_on_from_there_and_each_goes_back_by_itself() {
    for who in everybody() {
        let scene = Scene::linked(who);
        let mut states = vec![(scene.seen(), snapshot(&scene.worktree()), String::new())];
        for number in 1..=3 {
            scene.run(&format!("echo {number} >> one; git commit -qam task{number}; echo {number} > loose"));
            let run = scene.json(&["apply"])["run"].as_str().unwrap().to_owned();
            states.push((scene.seen(), snapshot(&scene.worktree()), run));
        }
        assert_eq!(states[3].0.log, "task3\ntask2\ntask1\nfirst");
        assert_eq!(states[3].0.status, "?? loose");
        // One that is not the last cannot: others stand on it.
        let said = scene.palisade(&["apply", "--undo", &states[2].2]);
        assert_eq!(said.code, 1, "{}", said.out);
        assert_eq!(scene.seen(), states[3].0);
        for number in (1..=3).rev() {
            scene.done(&["apply", "--undo", &states[number].2]);
            assert_eq!(scene.seen(), states[number - 1].0, "{number} as {who:?}");
            assert_eq!(snapshot(&scene.worktree()), states[number - 1].1, "{number} as {who:?}");
        }
    }
}

#[test]
fn what_was_committed_without_a_change_of_files_comes_too() {
    for who in everybody() {
        let scene = Scene::linked(who);
        scene.plain(&scene.worktree(), "echo mine >> one");
        let before = scene.seen();
        let told = scene.run("git commit -qam mine");
        assert!(told.err.contains("palisade/a moves to"), "{}", told.err);
        scene.done(&["apply"]);
        let after = scene.seen();
        assert_eq!((after.log.as_str(), after.status.as_str()), ("mine\nfirst", ""));
        scene.done(&["apply", "--undo"]);
        assert_eq!(scene.seen(), before);
    }
}

#[test]
fn two_runs_at_once_are_joined_where_they_touch_different_files() {
    for who in everybody() {
        for touched in ["", "git status > /dev/null; git add -A; echo early > early; git add early;"] {
            let scene = Scene::linked(who);
            let other = scene.waiting(touched, "echo b > b; echo b >> d/x; git add -A; git commit -qm other");
            scene.run(COMMIT);
            scene.done(&["apply"]);
            let between = (scene.seen(), snapshot(&scene.worktree()));
            let run = scene.finish(other);
            let done = scene.json(&["apply", &run]);
            assert_eq!(done["branch"]["became"], "joined", "{done}");
            let after = scene.seen();
            assert_eq!(after.status, "", "{who:?} {touched}");
            assert_eq!(scene.git("show HEAD:one"), "one\nagent");
            assert_eq!(scene.git("show HEAD:b"), "b");
            assert_eq!(scene.git("rev-parse HEAD^1"), between.0.branch);
            assert_eq!(scene.git("fsck --strict"), "");
            scene.done(&["apply", "--undo", &run]);
            assert_eq!((scene.seen(), snapshot(&scene.worktree())), between, "{who:?} {touched}");
        }
    }
}

#[test]
fn what_both_changed_is_told_by_path_and_nothing_happens() {
    for who in everybody() {
        let scene = Scene::linked(who);
        let other =
            scene.waiting("", "echo b > b; echo other >> one; echo other >> two; git commit -qam other");
        scene.run(COMMIT);
        scene.done(&["apply"]);
        let before = (scene.seen(), snapshot(&scene.worktree()));
        let run = scene.finish(other);
        let said = scene.palisade(&["apply", &run, "--json"]);
        let told: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!((said.code, &told["error"]["code"]), (1, &Value::from("conflict")), "{told}");
        // The one file that both changed, and the one that the first removed.
        assert_eq!(told["result"]["conflicts"], serde_json::json!(["one", "two"]), "{told}");
        assert_eq!((scene.seen(), snapshot(&scene.worktree())), before, "{who:?}");
        // What is forced brings the files; commits that cannot be joined are kept where they are.
        let done = scene.json(&["apply", &run, "--force"]);
        assert_eq!(done["branch"]["became"], "stays", "{done}");
        assert_eq!(scene.seen().branch, before.0.branch);
        assert_eq!(scene.git(&format!("log -1 --format=%s refs/palisade/{run}/palisade/a")), "other");
        scene.done(&["apply", &run, "--undo"]);
        assert_eq!((scene.seen(), snapshot(&scene.worktree())), before, "{who:?}");
    }
}

#[test]
fn a_branch_that_went_on_since_does_not_go_back() {
    for who in everybody() {
        let scene = Scene::linked(who);
        let files = snapshot(&scene.worktree());
        scene.run(COMMIT);
        scene.done(&["apply"]);
        scene.git("commit -q --allow-empty -m mine");
        let after = scene.seen();
        let said = scene.palisade(&["apply", "--undo"]);
        assert!(said.code == 1 && said.err.contains("it moved since"), "{}", said.err);
        assert_eq!(scene.seen(), after);
        let done = scene.json(&["apply", "--undo", "--force"]);
        assert_eq!(done["branch"]["became"], "stays");
        assert_eq!(snapshot(&scene.worktree()), files);
        assert_eq!(scene.seen().branch, after.branch, "nobody's commit is lost");
    }
}

#[test]
fn what_is_staged_stays_or_is_in_the_way() {
    for who in everybody() {
        let scene = Scene::linked(who);
        scene.run(COMMIT);
        scene.plain(&scene.worktree(), "echo mine > mine; git add mine");
        let before = scene.seen();
        scene.done(&["apply"]);
        assert_eq!(scene.seen().status, "A  mine", "{who:?}");
        scene.done(&["apply", "--undo"]);
        assert_eq!(scene.seen(), before);
        // Staged, and another in the commits; the file itself is as it was when the run began.
        scene
            .plain(&scene.worktree(), "cp one keep; echo staged > one; git add one; cp -p keep one; rm keep");
        let before = scene.seen();
        let said = scene.palisade(&["apply"]);
        assert_eq!(said.code, 1, "{}", said.out);
        assert!(said.err.contains("staged") || said.err.contains("`one`"), "{}", said.err);
        assert_eq!(scene.seen(), before);
        // Staged since the apply, what has nothing to do with it: it stays staged.
        scene.git("reset -q");
        scene.plain(&scene.worktree(), "rm mine");
        scene.run("echo three > three; git add three; git commit -qm third");
        scene.done(&["apply"]);
        scene.plain(&scene.worktree(), "echo late > late; git add late");
        scene.done(&["apply", "--undo"]);
        assert_eq!((scene.seen().status.as_str(), scene.seen().log.as_str()), ("A  late", "first"));
    }
}

#[test]
fn adv_g03_rewritten_and_other_branches_do_not_move_the_hosts() {
    for who in everybody() {
        let scene = Scene::linked(who);
        let before = scene.seen();
        scene.run("echo x >> one; git commit -q --amend -am rewritten");
        let done = scene.json(&["apply"]);
        assert_eq!(done["branch"]["why"], "its history was rewritten", "{done}");
        assert_eq!(scene.seen().branch, before.branch);
        scene.done(&["apply", "--undo"]);
        assert_eq!(scene.seen(), before);
        scene.run("git checkout -q -b elsewhere; echo x > x; git add x; git commit -qm x");
        let done = scene.json(&["apply"]);
        assert_eq!(done["branch"], Value::Null, "{done}");
        assert_eq!((scene.seen().branch, scene.seen().status.as_str()), (before.branch, "?? x"));
    }
}

#[test]
fn some_paths_bring_no_commits() {
    let scene = Scene::linked(everybody()[0]);
    let before = scene.seen();
    scene.run(COMMIT);
    let done = scene.json(&["apply", "new"]);
    assert_eq!(done["branch"]["why"], "only some paths were asked for", "{done}");
    assert_eq!(scene.seen().branch, before.branch);
    scene.done(&["apply"]);
    assert_eq!((scene.seen().log.as_str(), scene.seen().status.as_str()), ("second\nfirst", ""));
    scene.done(&["apply", "--undo"]);
    assert_eq!(scene.seen(), before);
}

#[test]
fn an_apply_that_is_killed_leaves_the_branch_with_the_files() {
    let scene = Scene::linked(everybody()[0]);
    // Not the bytes of the index: where it was cut off, git writes it once more.
    let seen = || {
        let listed = scene.git("ls-files --stage");
        let Seen { branch, log, status, .. } = scene.seen();
        (branch, log, status, listed, snapshot(&scene.worktree()))
    };
    let before = seen();
    scene.run("for i in $(seq 40); do echo $i > f$i; done; git add -A; git commit -qm many");
    scene.done(&["apply"]);
    let after = seen();
    let mut torn = 0;
    for round in 0..u64::try_from(tests::scale(240, 24)).unwrap() {
        scene.done(&["apply", "--undo"]);
        assert_eq!(seen(), before, "round {round}");
        let mut going = scene.prepared(&["apply"]).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(10 + round % 24 * 4));
        let _ = going.kill();
        going.wait().unwrap();
        torn += usize::from(scene.json(&["runs"])[0]["state"] == "apply cut off");
        let said = scene.palisade(&["apply"]);
        assert!(said.code == 0, "round {round}: {}", said.err);
        assert_eq!(seen().0, after.0, "round {round}");
        assert_eq!((seen().1, seen().2), (after.1.clone(), after.2.clone()), "round {round}");
    }
    assert!(torn > 0, "no apply was ever cut off");
}
