//! ADV-F03, ADV-F05: a sandbox holds directories open, or moves them, while another run's launcher makes and removes
//! stubs in them.
//!
//! One sandbox sees a project from above, or the same project. It holds what a run made there until that run is over,
//! and then tries to plant through what it holds: into stubs that later runs make, into what is kept of runs, or above.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::kit::{Snapshot, Stage, both, finish, finished, read_line};

/// Holds, moves and plants as it is told, line by line.
const HOLDER: &str = r#"
import os, sys
held = []
def planted(fd, name, highest):
    done = 0
    for path in ["../" * above + name for above in range(highest + 1)]:
        for way in (lambda p: os.close(os.open(p + "-file", os.O_CREAT | os.O_WRONLY, dir_fd=fd)),
                    lambda p: os.mkdir(p + "-folder", dir_fd=fd),
                    lambda p: os.symlink("/", p + "-link", dir_fd=fd),
                    lambda p: os.mkdir(f"/proc/self/fd/{fd}/{p}-by-number")):
            try:
                way(path)
                done += path == name
            except OSError:
                pass
    return done
print("up", flush=True)
for line in sys.stdin:
    word, *names = line.split()
    if word == "hold":
        for name in names:
            try:
                held.append(os.open(name, os.O_RDONLY | os.O_DIRECTORY))
            except OSError:
                pass
        print("held", len(held), flush=True)
    elif word == "plant":
        print("planted", sum(planted(fd, names[0], int(names[1])) for fd in held), flush=True)
    elif word == "swap":
        os.rename(names[0], names[0] + "-aside")
        os.symlink(names[1], names[0])
        print("swapped", flush=True)
"#;

/// A run whose command waits, in this directory of the stage.
fn start(stage: &Stage, place: &str, command: &[&str]) -> Child {
    let mut run = stage.palisade(&[], command);
    run.current_dir(stage.at(place)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let first = read_line(&mut run);
    assert_eq!(first, "up", "{:?}", (first != "up").then(|| finished(&mut run)));
    run
}

const WAITING: [&str; 3] = ["sh", "-c", "echo up; read line; ls -A .claude .vscode .envrc; true"];

fn tell(holder: &mut Child, line: &str) -> String {
    holder.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    read_line(holder)
}

fn end(mut run: Child) -> crate::kit::Output {
    drop(run.stdin.take());
    finished(run).assert_code(0)
}

/// The stubs that a run made there, as the host sees them.
fn stubs(place: &Path) -> Vec<String> {
    let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.') && place.join(name).is_dir()).collect()
}

/// What the stage's things are called, and nobody else's.
fn name(stage: &Stage) -> String {
    format!("planted-{}", stage.path("").trim_end_matches('/').rsplit('-').next().unwrap())
}

/// The order to plant in all that is held and in so many folders above each.
fn plant(stage: &Stage, highest: usize) -> String {
    format!("plant {} {highest}", name(stage))
}

/// Everything of the stage that was planted, also above it.
fn planted(stage: &Stage) -> BTreeSet<PathBuf> {
    let above =
        |place: &str| fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let is_ours =
        |path: &PathBuf| path.file_name().is_some_and(|own| own.to_string_lossy().starts_with(&name(stage)));
    let mut found: BTreeSet<PathBuf> =
        [above("/"), above("/tmp")].concat().into_iter().filter(is_ours).collect();
    let mut open = vec![stage.at("")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if is_ours(&entry.path()) {
                found.insert(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    found
}

both! {
    fn adv_f03_c_what_is_held_from_above_leads_to_no_later_stub(stage) {
        stage.folder("work/sub", 0o755);
        stage.folder("outside/other", 0o755);
        let mut holder = start(stage, "work", &["python3", "-c", HOLDER]);
        let first = start(stage, "work/sub", &WAITING);
        let names = stubs(&stage.at("work/sub"));
        assert!(names.len() > 10, "{names:?}");
        let all: Vec<String> = names.iter().map(|name| format!("sub/{name}")).collect();

        assert_eq!(tell(&mut holder, &format!("hold {}", all.join(" "))), format!("held {}", all.len()));
        end(first);
        assert!(stubs(&stage.at("work/sub")).is_empty(), "stubs are left");
        // Two later runs: in the same project, and in another.
        let (second, third) = (start(stage, "work/sub", &WAITING), start(stage, "outside/other", &WAITING));
        let said = tell(&mut holder, &plant(stage, 6));

        assert_eq!(said, "planted 0", "what was removed takes nothing in");
        for run in [second, third] {
            assert!(!end(run).stdout.contains("planted"));
        }
        end(holder);
        // By `..` it gets to its own project, which it may write to, and no further.
        let outside: Vec<PathBuf> = planted(stage).into_iter().filter(|path| !path.starts_with(stage.at("work"))).collect();
        assert!(outside.is_empty(), "{outside:?}");
        let inside = planted(stage).into_iter().find(|path| path.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.')));
        assert_eq!(inside, None);
    }

    fn adv_f03_d_control_what_is_held_and_stays_takes_things_in(stage) {
        stage.folder("work/sub/.claude", 0o755);
        let mut host = stage.command("python3");
        host.args(["-c", HOLDER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut host = host.spawn().unwrap();
        read_line(&mut host);
        assert_eq!(tell(&mut host, "hold sub/.claude"), "held 1");

        // No higher than the stage: without a sandbox it would go on to the host's root.
        assert_eq!(tell(&mut host, &plant(stage, 3)), "planted 4");

        drop(host.stdin.take());
        finished(host).assert_code(0);
        let file = format!("{}-file", name(stage));
        assert!(stage.at("work/sub/.claude").join(&file).exists());
        // The stage's own folder is root's.
        assert_eq!(stage.at(&file).exists(), stage.who == crate::kit::Who::Root || !stage.is_thrown_away());
    }

    fn adv_f03_e_a_moved_project_sends_the_removal_of_stubs_nowhere(stage) {
        stage.folder("work/sub", 0o755);
        let mut holder = start(stage, "work", &["python3", "-c", HOLDER]);
        let run = start(stage, "work/sub", &WAITING);
        // Empty folders of the host with the names of the stubs.
        let names = stubs(&stage.at("work/sub"));
        for name in &names {
            stage.folder(&format!("outside/{name}"), 0o755);
        }
        stage.settle();
        let before = Snapshot::of(&stage.at("outside"));

        assert_eq!(tell(&mut holder, &format!("swap sub {}", stage.path("outside"))), "swapped");
        let output = end(run);

        before.assert_same(&stage.at("outside"));
        assert!(output.stderr.contains("palisade: "), "not told: {output:?}");
        end(holder);
        before.assert_same(&stage.at("outside"));
        // The control: whoever goes by the path removes them.
        assert!(stage.at("work/sub").is_symlink());
        let mut host = stage.command("rmdir");
        host.arg(format!("sub/{}", names[0]));
        finish(host).assert_code(0);
        assert!(!stage.at("outside").join(&names[0]).exists());
    }

    fn adv_f03_f_what_is_held_in_the_same_project_takes_nothing_in(stage) {
        let mut holder = start(stage, "work", &["python3", "-c", HOLDER]);
        let run = start(stage, "work", &WAITING);
        let names = stubs(&stage.at("work"));
        assert!(names.len() > 10, "{names:?}");
        assert_eq!(tell(&mut holder, &format!("hold {} . ..", names.join(" "))), format!("held {}", names.len() + 2));
        end(run);

        tell(&mut holder, &plant(stage, 6));
        let live: Vec<String> = stubs(&stage.at("work")).into_iter().filter(|name| fs::read_dir(stage.at("work").join(name)).unwrap().count() > 0).collect();

        assert!(live.is_empty(), "planted while the run went on: {live:?}");
        end(holder);
        assert!(stubs(&stage.at("work")).is_empty(), "stubs are left");
        // In the project itself it may make what it likes.
        let elsewhere: Vec<PathBuf> = planted(stage).into_iter().filter(|path| path.parent() != Some(&stage.at("work"))).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }
}
