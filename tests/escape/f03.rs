//! ADV-F03: a folder and a link change places in a tight loop while the launcher looks at the tree.
//!
//! Left: reading, changing owners and removing by the daemon, which does not handle worktrees yet.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::kit::{Snapshot, both};

const CANARY: &str = "CANARY-BEHIND-THE-LINK";

both! {
    fn adv_f03_a_a_swapped_folder_sends_the_launcher_nowhere(stage) {
        stage.file("outside/tree/.env", CANARY);
        stage.file("outside/tree/deep/.env", CANARY);
        stage.file("work/tree/deep/.env", "own");
        symlink(stage.at("outside/tree"), stage.at("work/other")).unwrap();
        let before = Snapshot::of(&stage.at("outside"));
        let (one, two, done) = (stage.at("work/tree"), stage.at("work/other"), AtomicBool::new(false));

        let swaps = std::thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                let mut swaps = 0u64;
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
                    swaps += 1;
                }
                swaps
            });
            for _ in 0..tests::scale(400, 8) {
                let output = stage.run(&["sh", "-c", "cat tree/.env tree/deep/.env other/.env other/deep/.env; true"]);
                // Either it stood still for a moment, or nothing was started.
                assert!([0, 125].contains(&output.code), "{output:?}");
                assert!(!output.stdout.contains(CANARY), "{output:?}");
            }
            done.store(true, Ordering::Relaxed);
            swapping.join().unwrap()
        });

        assert!(swaps > 1000, "only {swaps} swaps");
        before.assert_same(&stage.at("outside"));
        // The control: on the host the link leads there.
        let read = [&one, &two].map(|path| std::fs::read_to_string(path.join(".env")).unwrap_or_default());
        assert!(read.iter().any(|text| text == CANARY));
    }
}
