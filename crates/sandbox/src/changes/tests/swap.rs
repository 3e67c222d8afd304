//! Somebody exchanges a directory of the worktree for a link to elsewhere, all the time.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::RenameFlags;

use super::*;

#[test]
fn adv_f03_a_directory_that_is_swapped_for_a_link_leads_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    file(&outside.path().join("a"), "theirs");
    file(&outside.path().join("gone"), "theirs");
    let before = snapshot(outside.path());
    let scene = Scene::new(|w| {
        file(&w.join("d/a"), "a");
        file(&w.join("d/gone"), "g");
        symlink(outside.path(), w.join("trap")).unwrap();
    });
    file(&scene.upper().join("d/a"), "from the layer");
    file(&scene.upper().join("d/new"), "from the layer");
    whiteout(&scene.upper().join("d/gone"));
    let (stop, worktree) = (AtomicBool::new(false), scene.worktree.clone());
    // Set also when the other side fails, or the scope would wait for ever.
    struct Stops<'a>(&'a AtomicBool);
    impl Drop for Stops<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let stops = Stops(&stop);
        scope.spawn(|| {
            let (one, other) = (worktree.join("d"), worktree.join("trap"));
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let (mut refused, mut done) = (0, 0);
        for _ in 0..300 {
            let mut kept = scene.take();
            // Whatever comes of it: refused, applied, or left to be mended.
            match kept.apply(&Apply { force: true, ..everything() }) {
                Ok(_) => done += 1,
                Err(_) => refused += 1,
            }
            let _ = kept.undo(Undo { force: true });
        }
        drop(stops);
        assert!(refused > 0, "the swap never met an apply ({done} were done)");
    });
    assert_eq!(snapshot(outside.path()), before);
}

#[test]
fn adv_f02_a_link_of_the_layer_is_carried_as_a_link() {
    let scene = Scene::new(|w| file(&w.join("a/x"), "x"));
    // `a` became a link to `/etc`, and something pretends to lie behind it.
    symlink("/etc", scene.upper().join("a")).unwrap();
    symlink("/etc/passwd", scene.upper().join("b")).unwrap();
    assert_eq!(scene.told(), ["type_changed a", "deleted a/x", "added b"]);
    scene.apply().unwrap();
    assert_eq!(std::fs::read_link(scene.worktree.join("a")).unwrap(), Path::new("/etc"));
    assert_eq!(std::fs::read_link(scene.worktree.join("b")).unwrap(), Path::new("/etc/passwd"));
    assert!(scene.take().old_content(Path::new("a/passwd")).is_err());
    assert!(scene.take().new_content(Path::new("b")).is_err());
    scene.undo().unwrap();
    assert_eq!(std::fs::read_to_string(scene.worktree.join("a/x")).unwrap(), "x");
}
