//! What is found by whoever is given a place, and when places and branches come to be known.

use super::*;
use crate::Repository;

fn git(folder: &Path, arguments: &[&str]) -> String {
    let out = tried(folder, arguments);
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

fn tried(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = std::process::Command::new("git");
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(folder);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ana").env(format!("GIT_{who}_EMAIL"), "ana@host.example");
    }
    command.args(arguments).output().unwrap()
}

fn committed(tree: &Path, text: &str) -> String {
    std::fs::write(tree.join("file"), text).unwrap();
    git(tree, &["add", "file"]);
    git(tree, &["commit", "-qm", text.trim_end().get(..80).unwrap_or(text.trim_end())]);
    git(tree, &["rev-parse", "HEAD"])
}

/// A repository of ours with one commit of somebody's, and what made it.
fn fetched(folder: &Path) -> (Repository, PathBuf, String) {
    let theirs = folder.join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    git(&theirs, &["init", "-q", "-b", "main"]);
    committed(&theirs, "one\n");
    let ours = Repository::make(&folder.join("ours")).unwrap();
    let path = theirs.display().to_string();
    ours.in_it(&["fetch", "-q", &path, "+refs/heads/*:refs/palisade/run/up/*"]).unwrap();
    let come = ours.references("refs/palisade/run/up/").unwrap();
    ours.replace(THEIRS, &come, "refs/palisade/run/").unwrap();
    let tip = ours.tip("refs/remotes/origin/main").unwrap().unwrap();
    (ours, theirs, tip)
}

/// Every object that somebody finds who has this place, and those others.
fn found(place: &Path, others: &[&Path]) -> Vec<String> {
    let there = tempfile::tempdir().unwrap();
    git(there.path(), &["init", "-q", "--bare"]);
    let list: String =
        std::iter::once(&place).chain(others).map(|place| format!("{}\n", place.display())).collect();
    std::fs::write(there.path().join("objects/info/alternates"), list).unwrap();
    let all = git(there.path(), &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    all.lines().map(str::to_owned).collect()
}

#[test]
fn adv_g04_who_has_the_base_and_one_place_has_one_history_and_nothing_of_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _, base) = fetched(folder.path());
    let stores = Stores::of(&ours.directory()).unwrap();
    let mut tips = Vec::new();
    for name in ["a", "b"] {
        let tree = folder.path().join(name);
        ours.add_tree(&tree, name, &base).unwrap();
        // On the host, so that it lies where git puts it.
        tips.push(committed(&tree, &format!("of {name}\n")));
        stores.complete_own(name, tips.last().map(String::as_str), std::slice::from_ref(&base)).unwrap();
    }
    assert!(Stores::are_in(&ours.directory()));
    let (base_place, a, b) = (stores.base(), stores.own("a"), stores.own("b"));
    let of_base = found(&base_place, &[]);
    assert!(of_base.contains(&base) && of_base.len() == 3, "{of_base:?}");
    let of_a = found(&a, &[&base_place]);
    assert!(of_a.contains(&tips[0]) && !of_a.contains(&tips[1]) && of_a.len() == 6, "{of_a:?}");
    let of_b = found(&b, &[&base_place]);
    assert!(of_b.contains(&tips[1]) && !of_b.contains(&tips[0]) && of_b.len() == 6, "{of_b:?}");
    // What is there is not looked for again, and a branch that is as the origin's needs nothing.
    let before = std::fs::read_dir(a.join("pack")).unwrap().count();
    stores.complete_own("a", Some(&tips[0]), &[]).unwrap();
    stores.complete_own("c", Some(&base), std::slice::from_ref(&base)).unwrap();
    assert_eq!(std::fs::read_dir(a.join("pack")).unwrap().count(), before);
    assert_eq!(std::fs::read_dir(stores.own("c").join("pack")).unwrap().count(), 0);
    // A known one that nobody has there leaves nothing out.
    stores.complete_own("d", Some(&tips[1]), std::slice::from_ref(&tips[0])).unwrap();
    assert!(found(&stores.own("d"), &[&base_place]).contains(&tips[1]));
    // What is new goes where it is told to, and everything is found meanwhile.
    let said = stores.filling(&a).run(
        &[],
        &[
            &format!("--git-dir={}", ours.directory().display()),
            "commit-tree",
            "-p",
            &tips[1],
            "-m",
            "x",
            &format!("{base}^{{tree}}"),
        ],
        Stdio::null(),
    );
    let said = said.unwrap();
    assert!(said.ok, "{}", said.err);
    let new = String::from_utf8_lossy(&said.out).trim_end().to_owned();
    assert!(found(&a, &[]).contains(&new) && !found(&b, &[&base_place]).contains(&new));
    // The repository has all of it, once, whatever was in its own place before.
    std::fs::remove_dir_all(ours.directory().join("objects")).unwrap();
    std::fs::create_dir_all(ours.directory().join("objects/info")).unwrap();
    std::fs::write(
        ours.directory().join("objects/info/alternates"),
        "../palisade/base\n../palisade/own/a\n../palisade/own/b\n",
    )
    .unwrap();
    for name in ["a", "b"] {
        assert_eq!(ours.log(&base, &format!("refs/heads/{name}"), 9).unwrap().len(), 1);
    }
    git(&ours.directory(), &["fsck", "--full", "--strict"]);
}

#[test]
fn what_becomes_the_origins_is_in_the_base_before_it_is_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs, base) = fetched(folder.path());
    let tree = folder.path().join("a");
    ours.add_tree(&tree, "a", &base).unwrap();
    let pushed = committed(&tree, "pushed\n");
    ours.note("refs/remotes/origin/a", &pushed).unwrap();
    let stores = Stores::of(&ours.directory()).unwrap();
    assert!(found(&stores.base(), &[]).contains(&pushed));
    // What is refused is not written down.
    assert!(ours.note("refs/remotes/origin/b", &"1".repeat(40)).is_err());
    assert_eq!(ours.tip("refs/remotes/origin/b").unwrap(), None);
    // One that had everything in one place gets a base with what the origin has.
    let old = folder.path().join("old");
    git(folder.path(), &["clone", "-q", &theirs.display().to_string(), "old"]);
    let old = Stores::of(&old.join(".git")).unwrap();
    assert_eq!(found(&old.base(), &[]).len(), 3);
}

#[test]
fn places_of_many_trees_are_known_whoever_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _, base) = fetched(folder.path());
    let directory = ours.directory();
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (directory, base) = (&directory, &base);
            scope.spawn(move || {
                let known = std::slice::from_ref(base);
                Stores::of(directory)
                    .unwrap()
                    .complete_own(&format!("t{number}"), Some(base), known)
                    .unwrap();
            });
        }
    });
    let listed = std::fs::read_to_string(directory.join("objects/info/alternates")).unwrap();
    assert_eq!(listed.lines().count(), 21, "{listed}");
}

#[test]
fn adv_g04_many_who_begin_in_one_tree_at_once_do_not_get_in_each_others_way() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _, base) = fetched(folder.path());
    let tree = folder.path().join("t");
    ours.add_tree(&tree, "t", &base).unwrap();
    let tips = ["one more\n", "two more\n"].map(|text| committed(&tree, text));
    let directory = ours.directory();
    let stores = Stores::of(&directory).unwrap();
    stores.complete_own("t", Some(&tips[1]), std::slice::from_ref(&base)).unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (directory, base, tips) = (&directory, &base, &tips);
            scope.spawn(move || {
                let stores = Stores::of(directory).unwrap();
                for round in 0..10 {
                    let tip = &tips[(number + round) % 2];
                    stores.complete_own("t", Some(tip), std::slice::from_ref(base)).unwrap();
                }
            });
        }
    });
    let noted = std::fs::read_to_string(stores.noted("t")).unwrap();
    assert!(tips.contains(&noted), "{noted}");
    assert_eq!(names(&stores.all()).filter(|name| name.starts_with(NEW)).count(), 0);
}

#[test]
fn a_place_is_found_whatever_the_directories_above_it_are_called() {
    let above = tempfile::tempdir().unwrap();
    for name in ["a:b", "\"a", "a\\b", "a b"] {
        let folder = above.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let (ours, _, base) = fetched(&folder);
        let tree = folder.join("t");
        ours.add_tree(&tree, "t", &base).unwrap();
        let tip = committed(&tree, "more\n");
        let stores = Stores::of(&ours.directory()).unwrap();
        stores.complete_own("t", Some(&tip), std::slice::from_ref(&base)).unwrap();
        let own = found(&stores.own("t"), &[]);
        assert!(own.contains(&tip) && !own.contains(&base), "{name}: the base was in sight");
    }
}

#[test]
fn adv_g04_trees_whose_names_differ_behind_a_dot_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _, base) = fetched(folder.path());
    let tree = folder.path().join("t");
    ours.add_tree(&tree, "t", &base).unwrap();
    let tip = committed(&tree, "more\n");
    let stores = Stores::of(&ours.directory()).unwrap();
    for name in ["a", "a.b", "a.c", "a.tip"] {
        stores.complete_own(name, Some(&tip), std::slice::from_ref(&base)).unwrap();
        assert!(found(&stores.own(name), &[&stores.base()]).contains(&tip), "{name}");
    }
}

#[test]
fn who_holds_a_repository_for_too_long_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _, _) = fetched(folder.path());
    let stores = Stores::of(&ours.directory()).unwrap();
    let held = File::options().write(true).open(stores.all().join("lock")).unwrap();
    rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
    let since = Instant::now();
    let refused = stores.complete_own("a", None, &[]).unwrap_err().to_string();
    assert!(refused.contains("takes long"), "{refused}");
    assert!(since.elapsed() >= WAIT, "{:?}", since.elapsed());
    drop(held);
    stores.complete_own("a", None, &[]).unwrap();
}

#[test]
fn wt_15_what_is_empty_goes_with_its_tree_and_what_has_objects_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _, base) = fetched(folder.path());
    let stores = Stores::of(&ours.directory()).unwrap();
    let tree = |name: &str| folder.path().join(name);
    for name in ["empty", "full", "there"] {
        ours.add_tree(&tree(name), name, &base).unwrap();
    }
    let tip = committed(&tree("full"), "more\n");
    for (name, tip) in [("empty", &base), ("full", &tip), ("there", &base)] {
        stores.complete_own(name, Some(tip), std::slice::from_ref(&base)).unwrap();
    }
    let old = stores.all().join("new-left");
    let file = File::create_new(&old).unwrap();
    file.set_modified(std::time::SystemTime::now() - 2 * STALE).unwrap();
    std::fs::write(stores.all().join("new-now"), "").unwrap();
    for name in ["empty", "full"] {
        std::fs::remove_dir_all(tree(name)).unwrap();
        ours.forget_tree(Some((name, &base))).unwrap();
    }
    assert_eq!(["empty", "full", "there"].map(|name| stores.own(name).exists()), [false, true, true]);
    assert_eq!(["new-left", "new-now"].map(|name| stores.all().join(name).exists()), [false, true]);
    let listed = std::fs::read_to_string(ours.directory().join("objects/info/alternates")).unwrap();
    assert_eq!(listed, "../palisade/base\n../palisade/own/full\n../palisade/own/there\n");
    assert_eq!(ours.tip("refs/heads/full").unwrap(), Some(tip));
    git(&ours.directory(), &["fsck", "--full", "--strict"]);
    // One that is made again begins anew.
    ours.add_tree(&tree("empty"), "empty", &base).unwrap();
    stores.complete_own("empty", Some(&base), &[]).unwrap();
    assert!(stores.own("empty").is_dir());
}

#[test]
fn adv_g03_what_git_says_is_all_there_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, _, base) = fetched(folder.path());
    let tree = folder.path().join("t");
    ours.add_tree(&tree, "t", &base).unwrap();
    for (length, fits) in [(1usize << 20, true), ((1 << 20) + 1, false)] {
        committed(&tree, &"x".repeat(length));
        let said = ours.in_it(&["cat-file", "blob", "t:file"]);
        match fits {
            true => assert_eq!(said.unwrap().len(), length),
            false => {
                assert!(
                    matches!(said, Err(RepositoryError::Git(GitError::TooMuch))),
                    "{:?}",
                    said.map(|_| ())
                );
            }
        }
    }
}
