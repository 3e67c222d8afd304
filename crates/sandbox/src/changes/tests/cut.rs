//! An apply that is killed at any moment leaves a worktree that the next command makes whole again.

use super::*;

/// One of everything.
fn lower(w: &Path) {
    file(&w.join("changed"), "old");
    file(&w.join("gone"), "gone");
    file(&w.join("tree/a/b"), "deep");
    file(&w.join("tree/c"), "c");
    file(&w.join("dir-to-file/x"), "x");
    file(&w.join("file-to-dir"), "f");
    file(&w.join("mode"), "m");
    file(&w.join("closed/inner"), "i");
    mode(&w.join("closed"), 0o555);
    symlink("changed", w.join("link")).unwrap();
    file(&w.join("replaced/one"), "1");
}

fn upper(u: &Path) {
    file(&u.join("changed"), "new");
    whiteout(&u.join("gone"));
    whiteout(&u.join("tree"));
    file(&u.join("dir-to-file"), "now a file");
    file(&u.join("file-to-dir/inner"), "now in a directory");
    file(&u.join("mode"), "m");
    mode(&u.join("mode"), 0o700);
    file(&u.join("closed/inner"), "changed in there");
    mode(&u.join("closed"), 0o555);
    symlink("elsewhere", u.join("link")).unwrap();
    opaque(&u.join("replaced"));
    file(&u.join("replaced/two"), "2");
    file(&u.join("new/deep/file"), "n");
    std::fs::hard_link(u.join("new/deep/file"), u.join("new/deep/same")).unwrap();
    mode(&u.join("new/deep"), 0o500);
}

fn cut_everywhere(state: &Path) {
    let whole = Scene::with_state_in(state, lower);
    upper(&whole.upper());
    whole.apply().unwrap();
    let after = shape(&whole.worktree);
    for lives in 0.. {
        let scene = Scene::with_state_in(state, lower);
        upper(&scene.upper());
        let before = snapshot(&scene.worktree);
        let mut kept = scene.take();
        kept.lives = Some(lives);
        let outcome = kept.apply(&everything());
        drop(kept);
        if outcome.is_ok() {
            assert!(lives > 20, "it was cut at too few moments: {lives}");
            break;
        }
        assert!(runs(&scene.state).unwrap()[0].is_torn, "cut at {lives}");
        let mut kept = scene.take();
        let host = kept.worktree().unwrap();
        assert!(kept.mend(&host).unwrap());
        drop(kept);
        assert_eq!(snapshot(&scene.worktree), before, "rolled back after a cut at {lives}");
        let applied = scene.apply().unwrap();
        assert!(!applied.rolled_back);
        assert_eq!(shape(&scene.worktree), after, "applied after a cut at {lives}");
        scene.undo().unwrap();
        assert_eq!(snapshot(&scene.worktree), before, "undone after a cut at {lives}");
    }
}

#[test]
fn an_apply_that_is_cut_at_any_moment_is_rolled_back() {
    cut_everywhere(&std::env::temp_dir());
}

#[test]
fn an_apply_over_two_file_systems_that_is_cut_is_rolled_back() {
    if Path::new("/dev/shm").is_dir() {
        cut_everywhere(Path::new("/dev/shm"));
    }
}

#[test]
fn discarding_rolls_back_first_and_keeps_what_can_be_undone() {
    let scene = Scene::new(lower);
    upper(&scene.upper());
    let before = snapshot(&scene.worktree);
    let mut kept = scene.take();
    kept.lives = Some(9);
    kept.apply(&everything()).unwrap_err();
    drop(kept);
    assert!(scene.take().discard().unwrap());
    assert_eq!(snapshot(&scene.worktree), before);

    let scene = Scene::new(lower);
    upper(&scene.upper());
    scene.apply().unwrap();
    scene.take().discard().unwrap();
    scene.undo().unwrap();
    assert_eq!(shape(&scene.worktree), {
        let other = Scene::new(lower);
        shape(&other.worktree)
    });
}

#[test]
fn an_undo_does_not_lose_what_was_written_since() {
    let scene = Scene::new(lower);
    upper(&scene.upper());
    scene.apply().unwrap();
    file(&scene.worktree.join("changed"), "and I worked on it");
    let UndoError::Changed(paths) = scene.undo().unwrap_err() else { panic!("another error") };
    assert_eq!(paths, [Path::new("changed")]);
    scene.take().undo(Undo { force: true }).unwrap();
    assert_eq!(std::fs::read_to_string(scene.worktree.join("changed")).unwrap(), "old");
    let kept = folder(&scene.state, &scene.run).join("applies/1/after");
    let texts: Vec<_> =
        snapshot(&kept).into_values().filter(|line| line.contains("I worked on it")).collect();
    assert_eq!(texts.len(), 1);
}

#[test]
fn what_the_host_changed_is_a_conflict_and_nothing_happens() {
    let scene = Scene::new(lower);
    upper(&scene.upper());
    std::thread::sleep(std::time::Duration::from_millis(12));
    file(&scene.worktree.join("changed"), "by hand");
    file(&scene.worktree.join("tree/a/untracked"), "mine");
    let before = snapshot(&scene.worktree);
    let ApplyError::Conflicts(conflicts) = scene.apply().unwrap_err() else { panic!("another error") };
    let paths: Vec<_> = conflicts.into_iter().map(|one| one.path).collect();
    assert_eq!(paths, [Path::new("changed"), Path::new("tree/a/untracked")]);
    assert_eq!(snapshot(&scene.worktree), before);

    let only = Apply { paths: vec!["gone".into(), "new".into()], ..everything() };
    scene.take().apply(&only).unwrap();
    assert!(!scene.worktree.join("gone").exists() && scene.worktree.join("new/deep/file").exists());
    scene.undo().unwrap();
    assert_eq!(snapshot(&scene.worktree), before);

    scene.take().apply(&Apply { force: true, ..everything() }).unwrap();
    assert!(!scene.worktree.join("tree").exists());
    scene.undo().unwrap();
    assert_eq!(snapshot(&scene.worktree), before);
}
