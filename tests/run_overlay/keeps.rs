//! What an agent does in a layer is shown, kept or dropped, and nothing of it is on the host before.

use crate::scene::{Scene, everybody, shape, snapshot};

/// What is there, what is done inside, and what `diff` tells.
const STORIES: &[(&str, &str, &[&str])] = &[
    ("echo a > a", "echo b > a", &["changed a"]),
    ("echo a > a", "true", &[]),
    ("echo a > a", "touch a", &[]),
    ("echo a > a", "rm a", &["deleted a"]),
    ("true", "echo a > a", &["added a"]),
    ("true", "mkdir -p d/e", &["added d", "added d/e"]),
    ("echo a > a", "chmod 751 a", &["mode_changed a"]),
    ("mkdir d", "chmod 700 d", &["mode_changed d"]),
    ("mkdir d; chmod 700 d", "chmod 500 d", &["mode_changed d"]),
    ("echo same > a", "mv a b", &["deleted a", "renamed b"]),
    ("mkdir d; echo x > d/x", "mv d e", &["deleted d", "deleted d/x", "added e", "renamed e/x"]),
    ("mkdir d; echo x > d/x", "rm -r d", &["deleted d", "deleted d/x"]),
    ("mkdir d; echo x > d/x", "rm -r d; mkdir d; echo y > d/y", &["deleted d/x", "added d/y"]),
    ("mkdir d; echo x > d/x", "rm -r d; echo f > d", &["type_changed d", "deleted d/x"]),
    ("echo f > f", "rm f; mkdir f; echo x > f/x", &["type_changed f", "added f/x"]),
    ("ln -s a l", "ln -sfn b l", &["changed l"]),
    ("echo a > a", "ln -sf nowhere a", &["type_changed a"]),
    ("echo a > a", "printf '\\000\\001' > a", &["changed a"]),
    ("true", "truncate -s 20G sparse", &["added sparse"]),
    ("echo a > a", "ln a b; echo c >> a", &["changed a", "added b"]),
    (
        "echo a > .gitignore; echo i > ignored",
        "echo j > ignored; rm .gitignore",
        &["deleted .gitignore", "changed ignored"],
    ),
    (
        "git init -q .; echo a > a",
        "git add a && git -c user.name=a -c user.email=a@b commit -qm c; echo b > b",
        &["added b"],
    ),
];

#[test]
fn every_kind_of_change_is_shown_applied_and_undone() {
    for who in everybody() {
        for (before, inside, expected) in STORIES {
            let scene = Scene::new(who, before);
            let was = snapshot(&scene.worktree());
            // What it would be without a layer.
            let direct = scene.copy("direct");
            scene.plain_without_rights(&direct, inside);
            scene.run(inside);
            let story = format!("{who:?}: {before} / {inside}");
            assert_eq!(
                without_git(snapshot(&scene.worktree())),
                without_git(was.clone()),
                "shows on the host: {story}"
            );
            if expected.is_empty() {
                assert_eq!(scene.palisade(&["diff"]).code, 1, "{story}");
                continue;
            }
            assert_eq!(&scene.changes(), expected, "{story}");
            scene.done(&["diff"]);
            scene.done(&["apply"]);
            let applied = snapshot(&scene.worktree());
            assert_eq!(
                without_git(shape(&scene.worktree())),
                without_git(shape(&direct)),
                "applied: {story}"
            );
            let owner =
                was.values().chain(applied.values()).map(|line| line.split('|').nth(1).unwrap().to_owned());
            assert_eq!(owner.collect::<std::collections::BTreeSet<_>>().len(), 1, "owners: {story}");
            scene.done(&["apply", "--undo"]);
            assert_eq!(without_git(snapshot(&scene.worktree())), without_git(was.clone()), "undone: {story}");
            scene.done(&["apply"]);
            assert_eq!(
                without_git(shape(&scene.worktree())),
                without_git(shape(&direct)),
                "applied again: {story}"
            );
            scene.done(&["apply", "--undo"]);
            scene.done(&["discard"]);
            assert_eq!(without_git(snapshot(&scene.worktree())), without_git(was), "discarded: {story}");
        }
    }
}

/// The repository has a layer and a way out of its own.
fn without_git(
    all: std::collections::BTreeMap<String, String>,
) -> std::collections::BTreeMap<String, String> {
    all.into_iter().filter(|(name, _)| !name.starts_with("\".git/") && name != "\".git\"").collect()
}

#[test]
fn the_end_of_a_run_names_the_three_commands() {
    for who in everybody() {
        let scene = Scene::new(who, "echo a > a");
        let said = scene.run("echo b > a; echo c > c; exit 3");
        assert_eq!(said.code, 3);
        for word in ["2 files changed", "palisade diff", "palisade apply", "palisade discard"] {
            assert!(said.err.contains(word), "{}", said.err);
        }
        let listed = scene.json(&["runs"]);
        assert_eq!(listed[0]["state"], "ended");
        assert_eq!(listed[0]["worktree"], scene.worktree().to_str().unwrap());
        scene.done(&["discard"]);
        assert_eq!(scene.json(&["runs"])[0]["state"], "discarded");
        assert!(scene.palisade(&["diff"]).err.contains("discarded"));
        scene.done(&["discard", "--forget"]);
        assert!(scene.json(&["runs"]).as_array().unwrap().is_empty());
    }
}

#[test]
fn paths_choose_what_is_applied() {
    for who in everybody() {
        let scene = Scene::new(who, "echo a > a; mkdir d; echo x > d/x; echo y > d/y");
        scene.run("echo b > a; echo 2 > d/x; rm d/y; mkdir -p n/m; echo z > n/m/z; echo w > n/w");
        scene.done(&["apply", "d/y", "n/m/z"]);
        assert_eq!(scene.changes(), ["changed a", "changed d/x", "added n/w"]);
        let said = scene.palisade(&["apply", "elsewhere"]);
        assert!(said.code == 1 && said.err.contains("nothing changed at `elsewhere`"), "{}", said.err);
        assert_eq!(scene.palisade(&["apply", "../outside"]).code, 2);
        scene.done(&["apply"]);
        assert!(scene.changes().is_empty());
        scene.done(&["apply", "--undo"]);
        assert_eq!(scene.changes().len(), 7);
    }
}

#[test]
fn a_diff_is_a_diff() {
    let scene = Scene::new(everybody()[0], "printf 'one\\ntwo\\nthree\\n' > text");
    scene.run("printf 'one\\n2\\nthree\\n' > text; chmod 600 text");
    let said = scene.palisade(&["diff"]);
    let expected = "M  text  (mode 644 -> 600)\n--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n1 file changed, in run_";
    assert!(said.out.starts_with(expected), "{}", said.out);
}

#[test]
fn what_is_done_with_a_layer_is_on_the_ledger() {
    let scene = Scene::new(everybody()[0], "echo a > a");
    scene.run("echo b > a");
    scene.done(&["apply"]);
    scene.done(&["apply", "--undo"]);
    scene.done(&["discard"]);
    let (mut entries, mut open) = (String::new(), vec![scene.state().join("ledger")]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            entries.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap()));
        }
    }
    for action in ["run.apply", "run.undo", "run.discard"] {
        assert_eq!(entries.matches(&format!("\"{action}\"")).count(), 2, "{action}: {entries}");
    }
}
