//! Who is heard of, and when.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Whoever looks around while runs begin finds them or not, and takes nothing of theirs away.
#[test]
fn a_run_that_is_asked_as_it_begins_keeps_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                Control::sweep(folder.path());
            }
        });
        for _ in 0..2_000 {
            let run = RunId::new().unwrap();
            let control = Control::listen(folder.path(), &run).unwrap();
            let stays = folder.path().join(format!("{run}.sock")).exists();
            if !stays {
                over.store(true, Ordering::Relaxed);
            }
            assert!(stays, "it was taken for one whose launcher is gone");
            drop(control);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays");
}
