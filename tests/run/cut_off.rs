//! Runs whose launcher was killed: the next one in the same place, or `palisade doctor`, does what it would have done.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::room::{Room, Said, everyone};

/// Commits, plants, and goes on until somebody ends it.
const WORK: &str = "echo two >> one.txt; git commit -qam second; mkdir -p deep/nest; git init -q deep/nest
    git -C deep/nest config core.fsmonitor 'touch CANARY'; echo x > deep/.envrc; touch ready; sleep 60";

/// Whom a kill hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Launcher,
    /// The same, and nobody waits for anything.
    AndGoOn,
    /// The process that keeps covers as well: as when a machine goes down.
    Both,
}

fn kill(child: &mut Child, hit: Hit) {
    let launcher = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children: Vec<Pid> = std::fs::read_to_string(children)
        .unwrap()
        .split_whitespace()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .collect();
    if hit == Hit::Both {
        // First it cannot see anything any more.
        for pid in &children {
            let _ = kill_process(*pid, Signal::STOP);
        }
    }
    kill_process(launcher, Signal::KILL).unwrap();
    if hit == Hit::Both {
        for pid in &children {
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
    child.wait().unwrap();
    if hit == Hit::AndGoOn {
        return;
    }
    // ADV-P09: nothing of it is there any more.
    let until = Instant::now() + Duration::from_secs(5);
    while children.iter().any(|pid| is_there(*pid)) {
        assert!(Instant::now() < until, "something of the run is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Not a zombie that nobody waits for.
fn is_there(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()))
        .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

fn killed(room: &Room, options: &[&str], hit: Hit) {
    killed_at(room, options, WORK, hit);
}

fn killed_at(room: &Room, options: &[&str], work: &str, hit: Hit) {
    // In a layer nothing of it shows; the agent's home is the host's as well.
    let script = work.replace("CANARY", room.canary().to_str().unwrap());
    let script = script.replace("touch ready", "touch ready ~/ready");
    let homes = room.home().join(".local/state/palisade/homes");
    let mut child = room.at_work(options, &script, || find(&homes, "ready").is_some());
    std::fs::remove_file(find(&homes, "ready").unwrap()).unwrap();
    kill(&mut child, hit);
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().find_map(|entry| {
        if entry.file_name() == name {
            return Some(entry.path());
        }
        entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| find(&entry.path(), name))?
    })
}

fn doctor(room: &Room) -> Said {
    let output = room.host(&room.project, room.program()).args(["doctor", "--json"]).output().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn is_open(room: &Room) -> bool {
    let folder = room.home().join(".local/state/palisade/open");
    std::fs::read_dir(folder).into_iter().flatten().next().is_some()
}

#[test]
fn adv_g05_what_a_killed_launcher_left_is_taken_over_and_put_away_by_the_next_run() {
    for who in everyone() {
        let room = Room::with_repository(who);
        killed(&room, &[], Hit::Launcher);
        assert!(room.project.join("deep/nest/.git").exists() && is_open(&room), "{who:?}");
        assert_eq!(room.git(&["log", "--format=%s"]), "first");
        let said = room.run("git log --format=%s | head -1").ok();
        assert_eq!(said.out, "second\n", "it is there before the next run begins: {}", said.err);
        said.tells("was killed; what it left is seen to first")
            .tells("main moved from")
            .tells("quarantined deep/nest/.git (git runs")
            .tells("quarantined deep/.envrc (direnv");
        assert_eq!(room.quarantined(), ["deep/.envrc", "deep/nest/.git"], "{who:?}");
        room.look_around();
        assert_eq!(room.git(&["status", "--porcelain"]), "?? ready");
        assert!(!room.project.join(".vscode").exists(), "its stubs are gone");
        assert!(!is_open(&room));
        room.run("true").ok().tells_nothing_of("killed");
    }
}

#[test]
fn adv_g05_doctor_ends_what_was_cut_off_and_says_so() {
    for who in everyone() {
        let room = Room::with_repository(who);
        killed(&room, &[], Hit::Launcher);
        let said = doctor(&room);
        let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let result = if told["ok"] == true { &told["result"] } else { &told["error"]["detail"] };
        let result = if result.is_null() { &told["result"] } else { result };
        let ended = result["ended"].as_array().unwrap_or_else(|| panic!("{}", said.out));
        assert_eq!(ended.len(), 1, "{}", said.out);
        assert_eq!(ended[0]["commits"]["branches"][0]["became"], "moved");
        assert_eq!(ended[0]["findings"].as_array().unwrap().len(), 2);
        assert_eq!(room.git(&["log", "--format=%s"]), "second\nfirst");
        room.look_around();
        assert!(!is_open(&room));
    }
}

#[test]
fn what_the_person_wrote_after_the_kill_stays_and_is_named() {
    for who in everyone() {
        let room = Room::with_repository(who);
        killed(&room, &[], Hit::Launcher);
        std::thread::sleep(Duration::from_millis(50));
        let own = room.file("sub/.envrc", "mine\n");
        let again = room.file("deep/.envrc", "mine as well\n");
        let said = room.run("true").ok().tells("not quarantined: sub/.envrc").tells("it may be yours");
        said.tells("not quarantined: deep/.envrc").tells("quarantined deep/nest/.git");
        assert_eq!(std::fs::read_to_string(own).unwrap(), "mine\n");
        assert_eq!(std::fs::read_to_string(again).unwrap(), "mine as well\n");
        assert_eq!(room.quarantined(), ["deep/nest/.git"], "{who:?}");
    }
}

#[test]
fn where_nobody_saw_the_end_commits_leave_and_nothing_is_moved_but_all_of_it_is_named() {
    for who in everyone() {
        let room = Room::with_repository(who);
        killed(&room, &[], Hit::Both);
        let said = room.run("true").ok().tells("nobody saw when its launcher was killed");
        let kept = room.git(&["for-each-ref", "--format=%(refname)", "refs/palisade"]);
        assert_eq!(room.git(&["log", "--format=%s", &kept]), "second\nfirst", "{who:?}");
        said.tells("not quarantined: deep/nest/.git").tells("nobody saw when the run was over");
        assert_eq!(room.quarantined(), [] as [&str; 0], "{who:?}");
        assert!(room.project.join("deep/nest/.git").exists());
        assert!(!is_open(&room));
    }
}

#[test]
fn a_layer_whose_launcher_was_killed_can_be_applied_with_its_commits() {
    for (who, by_a_run) in everyone().into_iter().flat_map(|who| [(who, false), (who, true)]) {
        let room = Room::with_repository(who);
        killed(&room, &["--overlay"], Hit::Launcher);
        if by_a_run {
            room.run("true").ok().tells("main moves to").tells("when the changes are applied");
        }
        assert_eq!(room.git(&["log", "--format=%s"]), "first");
        let applied = room.host(&room.project, room.program()).arg("apply").output().unwrap();
        assert!(applied.status.success(), "{who:?}: {}", String::from_utf8_lossy(&applied.stderr));
        assert_eq!(room.git(&["log", "--format=%s"]), "second\nfirst", "{who:?} {by_a_run}");
        assert_eq!(std::fs::read_to_string(room.project.join("one.txt")).unwrap(), "one\ntwo\n");
        assert!(!is_open(&room));
    }
}

#[test]
fn the_end_of_a_run_that_was_cut_off_is_on_the_record() {
    for who in everyone() {
        let room = Room::with_repository(who);
        killed(&room, &[], Hit::Launcher);
        room.run("true").ok();
        let entries = ledger::read(&room.home().join(".local/state/palisade/ledger"), 1).unwrap();
        let entries: Vec<ledger::Entry> = entries.map(|stored| stored.unwrap().entry).collect();
        let launch = entries.iter().find(|entry| entry.action == "sandbox.launch").unwrap();
        let ends: Vec<_> = entries.iter().filter(|entry| entry.action == "sandbox.end").collect();
        let end = ends.iter().find(|end| end.resource == launch.resource).unwrap();
        assert_eq!(
            (end.decision, end.cause.as_str()),
            (ledger::Decision::Failed, "outcome unknown"),
            "{who:?}"
        );
        assert_eq!(end.detail["launch"], launch.seq.to_string());
        assert_eq!(end.detail["findings"], "2");
    }
}

/// Has a program started by the git that makes the bundle, which keeps what it sees of the worktree as a branch.
const LOOK: &str = r#"echo x > new.txt; git add new.txt; git commit -qm hostile
    git config core.repositoryformatversion 1; git config extensions.partialClone evil
    git config remote.evil.url "ext::sh $PWD/.git/h.sh %S"; git config remote.evil.promisor true
    git config remote.evil.fetch '+refs/heads/*:refs/remotes/evil/*'; git config protocol.ext.allow always
    c=$(git rev-parse HEAD); p=.git/objects/$(echo $c | cut -c1-2)/$(echo $c | cut -c3-)
    cp $p .git/commit; echo $p > .git/path; chmod u+w $p; rm -f $p
    cat > .git/h.sh <<'X'
cd "$(dirname "$0")/.." || exit 1
p=$(cat .git/path); [ -e $p ] && exit 0
mkdir -p $(dirname $p); cp .git/commit $p
(ls -A; cat .env) > .git/seen 2>/dev/null
b=$(git hash-object -w .git/seen); t=$(printf '100644 blob %s\tseen\n' $b | git mktree)
k=$(GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b git commit-tree -m seen $t)
git update-ref refs/heads/zseen $k
X
    "#;

#[test]
fn adv_f06_whoever_makes_the_bundle_sees_the_repository_and_nothing_else() {
    for (who, is_killed) in everyone().into_iter().flat_map(|who| [(who, false), (who, true)]) {
        let room = Room::with_repository(who);
        room.file(".env", "SECRET=hunter2\n");
        if is_killed {
            killed_at(&room, &[], &format!("{LOOK}\ntouch ready; sleep 60"), Hit::Launcher);
            room.run("true").ok();
        } else {
            room.run(LOOK).ok();
        }
        let kept = room.git(&["for-each-ref", "--format=%(refname)", "refs/palisade"]);
        let seen = kept.lines().find(|name| name.ends_with("/zseen"));
        let seen = seen.unwrap_or_else(|| panic!("the program did not run: {kept}"));
        assert_eq!(room.git(&["show", &format!("{seen}:seen")]), ".git", "{who:?} {is_killed}");
    }
}

#[test]
fn a_run_that_starts_at_once_waits_for_the_rest_of_the_killed_one() {
    for who in everyone() {
        let room = Room::with_repository(who);
        killed(&room, &[], Hit::AndGoOn);
        assert_eq!(room.run("git log --format=%s | head -1").ok().out, "second\n", "{who:?}");
    }
}

#[test]
fn a_worktree_that_is_away_is_waited_for() {
    for who in everyone() {
        let room = Room::with_repository(who);
        killed(&room, &[], Hit::Launcher);
        let away = room.home().join("away");
        for from in [room.project.join(".git"), room.project.clone()] {
            std::fs::rename(&from, &away).unwrap();
            let output = room.host(&room.home(), room.program()).args(["doctor", "--json"]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("put it back"), "{who:?}: {said}");
            std::fs::rename(&away, &from).unwrap();
            assert!(is_open(&room));
        }
        room.run("true").ok().tells("main moved from");
    }
}

#[test]
fn what_the_person_threw_away_with_git_does_not_come_back_by_itself() {
    for who in everyone() {
        let room = Room::with_repository(who);
        killed(&room, &[], Hit::Launcher);
        std::thread::sleep(Duration::from_millis(50));
        room.git(&["reset", "-q", "--hard"]);
        room.run("true").ok().tells("git was used here after its launcher was killed");
        assert_eq!(room.git(&["log", "--format=%s"]), "first");
        let kept = room.git(&["for-each-ref", "--format=%(refname)", "refs/palisade"]);
        assert_eq!(room.git(&["log", "--format=%s", &kept]), "second\nfirst", "{who:?}");
    }
}

#[test]
fn another_directory_in_the_place_of_one_is_not_looked_into() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let (data, other) = (room.home().join("data"), room.home().join("other"));
        for folder in [&data, &other] {
            std::fs::create_dir(folder).unwrap();
            room.own(folder);
        }
        killed(&room, &["--rw", data.to_str().unwrap()], Hit::Launcher);
        let own = other.join(".envrc");
        std::fs::write(&own, "mine\n").unwrap();
        std::fs::remove_dir(&data).unwrap();
        std::os::unix::fs::symlink(&other, &data).unwrap();
        room.run("true").ok().tells("another directory is there now");
        assert!(own.exists(), "{who:?}");
        // And the worktree itself.
        killed(&room, &[], Hit::Launcher);
        std::fs::remove_dir_all(&room.project).unwrap();
        std::fs::create_dir(&room.project).unwrap();
        room.own(&room.project);
        room.git(&["init", "-q", "-b", "main"]);
        let mine = room.file("sub/.envrc", "mine\n");
        room.git(&["commit", "-q", "--allow-empty", "-m", "anew"]);
        room.run("true").ok().tells("another directory is in the place").tells("`.git` was replaced");
        assert!(mine.exists() && room.git(&["log", "--format=%s"]) == "anew", "{who:?}");
    }
}

#[test]
fn sec_19_commits_of_a_killed_run_that_had_decoys_are_not_taken_over() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let proxy = room.program().with_file_name("palisade-egress");
        std::fs::copy(tests::program("palisade-egress"), &proxy).unwrap();
        std::fs::set_permissions(&proxy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        killed(&room, &["--decoy", "API_KEY"], Hit::Launcher);
        room.run("true").ok().tells("commits were not taken over: it had decoys").tells("is kept in");
        assert_eq!(room.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main", "{who:?}");
        assert_eq!(room.quarantined(), ["deep/.envrc", "deep/nest/.git"], "{who:?}");
        assert!(!is_open(&room));
    }
}
