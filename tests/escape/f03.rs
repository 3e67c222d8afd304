//! ADV-F03: a folder and a link change places in a tight loop while the launcher looks at the tree, makes and removes
//! stubs in it, and puts away what was planted.
//!
//! Left: reading, changing owners and removing by the daemon, which does not handle worktrees yet.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::kit::{Snapshot, Stage, both, finished, read_line};

const CANARY: &str = "CANARY-BEHIND-THE-LINK";

/// The folder and the link that change places.
const PLACES: [&str; 2] = ["work/tree", "work/other"];

/// Swaps the two as fast as it can while something happens; how often, and what came of it.
fn while_swapping<T>(stage: &Stage, happens: impl FnOnce() -> T) -> (usize, T) {
    let [one, two] = PLACES.map(|name| stage.at(name));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut swaps = 0;
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            swaps
        });
        // However it ends, the other must end too.
        let came = std::panic::catch_unwind(std::panic::AssertUnwindSafe(happens));
        done.store(true, Ordering::Relaxed);
        let swaps = swapping.join().unwrap();
        (swaps, came.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// How often this text is in files below a place.
fn copies(place: &Path, text: &str) -> usize {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let count = |path: &Path| match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => copies(path, text),
        Ok(found) if found.is_file() => {
            let bytes = fs::read(path).unwrap_or_default();
            usize::from(bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        }
        _ => 0,
    };
    entries.map(|entry| count(&entry.path())).sum()
}

both! {
    fn adv_f03_a_a_swapped_folder_sends_the_launcher_nowhere(stage) {
        stage.file("outside/tree/.env", CANARY);
        stage.file("outside/tree/deep/.env", CANARY);
        stage.file("work/tree/deep/.env", "own");
        symlink(stage.at("outside/tree"), stage.at("work/other")).unwrap();
        let before = Snapshot::of(&stage.at("outside"));

        let (swaps, ()) = while_swapping(stage, || {
            for _ in 0..tests::scale(400, 8) {
                let output = stage.run(&["sh", "-c", "cat tree/.env tree/deep/.env other/.env other/deep/.env; true"]);
                // Either it stood still for a moment, or nothing was started.
                assert!([0, 125].contains(&output.code), "{output:?}");
                assert!(!output.stdout.contains(CANARY), "{output:?}");
            }
        });

        assert!(swaps > 1000, "only {swaps} swaps");
        before.assert_same(&stage.at("outside"));
        // The control: on the host the link leads there.
        let read = PLACES.map(|name| fs::read_to_string(stage.at(name).join(".env")).unwrap_or_default());
        assert!(read.iter().any(|text| text == CANARY));
    }

    fn adv_f03_b_a_swapped_folder_sends_the_end_of_a_run_nowhere(stage) {
        stage.file("work/tree/deep/own.txt", "own");
        stage.folder("outside/tree/held", 0o755);
        symlink(stage.at("outside/tree"), stage.at("work/other")).unwrap();
        let names = [".envrc", "deep/.envrc", "deep/er/.vscode/tasks.json"];
        let refresh = || for name in names {
            stage.file(&format!("outside/tree/{name}"), CANARY);
        };
        refresh();
        let kinds = Snapshot::of(&stage.at("outside"));
        let script = "for name in .envrc deep/.envrc deep/er/.vscode/tasks.json; do mkdir -p $(dirname tree/$name); \
                      echo planted > tree/$name; done; echo up; read line";
        let [folder, link] = PLACES.map(|name| stage.at(name));
        let (mut swaps, mut runs, mut away) = (0, 0, 0);

        while swaps < tests::scale(100_000, 5_000) || runs < tests::scale(200, 10) {
            // Every other run has stubs in the folder: an empty one of the same name is outside, another would be new.
            match runs % 2 {
                0 => drop(stage.file("work/.palisade/profile.toml", "protect = [\"tree/held/\", \"tree/made/\"]\n")),
                _ => fs::remove_file(stage.at("work/.palisade/profile.toml")).unwrap(),
            }
            let mut run = stage.palisade(&[], &["sh", "-c", script]);
            run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut run = run.spawn().unwrap();
            assert_eq!(read_line(&mut run), "up");
            // As new as what is planted: nothing but the link keeps it from being put away.
            refresh();
            let (more, output) = while_swapping(stage, || {
                drop(run.stdin.take());
                finished(run)
            });
            // Ended by the guardian, if it could not cover what was swapped.
            assert!([0, 1, 137].contains(&output.code), "{output:?}");
            away += output.stderr.matches("quarantined ").count();
            (swaps, runs) = (swaps + more, runs + 1);
            kinds.assert_kinds(&stage.at("outside"));
            assert_eq!(copies(&stage.at("outside"), CANARY), names.len());
            assert_eq!(copies(&stage.at("outside"), "planted"), 0);
            if folder.is_symlink() {
                renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        }

        assert_eq!(copies(&stage.at("state"), CANARY), 0, "something of the host was put away");
        // The control: the end of a run was at work there.
        assert!(away > 0, "nothing was put away in {runs} runs");
        println!("{swaps} swaps, {runs} runs, {away} things put away");
    }
}
