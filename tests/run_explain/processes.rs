//! A traced command goes on as it would untraced: threads, forks, signals, stops, exit codes, time.

use std::time::Duration;

use crate::scene::{Scene, everyone};

const QUIET: &str = "nothing was refused";

#[test]
fn the_exit_code_is_the_commands_own() {
    for who in everyone() {
        let scene = Scene::new(who);
        for code in [0, 1, 42, 127] {
            let said = scene.script(&[], &format!("exit {code}")).ends_with(code);
            assert!(said.err.contains(QUIET), "{}", said.err);
        }
        scene.script(&[], "kill -TERM $$").ends_with(143);
        scene.script(&[], "kill -KILL $$").ends_with(137);
        scene.script(&[], "kill -SEGV $$").ends_with(139);
        scene.explained(&[], &["./nothing-here"]).ends_with(127);
    }
}

#[test]
fn threads_and_forks_are_followed() {
    let threads = "
import threading, os
def look(n):
    for _ in range(50):
        try: open(f'/usr/lib/thread-{n}', 'w')
        except OSError: pass
all = [threading.Thread(target=look, args=(n,)) for n in range(8)]
[t.start() for t in all]; [t.join() for t in all]
for n in range(20):
    if os.fork() == 0:
        try: open(f'/usr/share/fork-{n}', 'w')
        except OSError: os._exit(7)
        os._exit(0)
codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(20)]
assert codes == [7] * 20, codes
";
    for who in everyone() {
        let scene = Scene::new(who);
        let said = scene.explained(&[], &["python3", "-c", threads]).ends_with(0);
        for (folder, count) in [("/usr/lib", 400), ("/usr/share", 20)] {
            let found = said
                .explained
                .iter()
                .find(|one| one["target"] == folder)
                .unwrap_or_else(|| panic!("{:?}", said.explained));
            assert_eq!((found["count"].as_u64(), &found["layer"]), (Some(count), &"mount".into()), "{found}");
        }
    }
}

#[test]
fn vfork_exec_from_a_thread_and_orphans_end_well() {
    let program = "
import subprocess, threading, os
def start(): assert subprocess.run(['sh', '-c', 'exit 5']).returncode == 5
all = [threading.Thread(target=start) for _ in range(6)]
[t.start() for t in all]; [t.join() for t in all]
subprocess.Popen(['sh', '-c', 'sleep 100 & sleep 100'], start_new_session=True)
threading.Thread(target=lambda: os.execvp('sh', ['sh', '-c', 'exit 9'])).start()
threading.Event().wait()
";
    for who in everyone() {
        Scene::new(who).explained(&[], &["python3", "-c", program]).ends_with(9);
    }
}

#[test]
fn signals_are_delivered_and_stops_are_stops() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.script(&[], "trap 'exit 21' USR1; kill -USR1 $$; exit 1").ends_with(21);
        // Stopped by itself, and continued by another, who says so again: whoever is traced stands still for moments, too.
        let stops = "(for n in $(seq 200); do sleep 0.05; kill -CONT $$; done) & kill -STOP $$; exit 6";
        scene.script(&[], stops).ends_with(6);
        // A child that its parent waits for as stopped.
        let waits = "
import os, signal
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(3)
_, status = os.waitpid(child, os.WUNTRACED)
assert os.WIFSTOPPED(status), status
os.kill(child, signal.SIGCONT)
_, status = os.waitpid(child, 0)
os._exit(os.WEXITSTATUS(status))
";
        scene.explained(&[], &["python3", "-c", waits]).ends_with(3);
        scene.script(&[], "sleep 60 & kill -KILL $!; wait $!; exit 8").ends_with(8);
    }
}

#[test]
fn what_traces_by_itself_is_told_why_it_cannot() {
    let traces = "import ctypes; c = ctypes.CDLL(None, use_errno=True); exit(c.ptrace(0, 0, 0, 0) != 0)";
    for who in everyone() {
        let said = Scene::new(who).explained(&[], &["python3", "-c", traces]).ends_with(1);
        said.tells("privilege", "ptrace", "without `--explain`");
    }
}

#[test]
fn a_run_that_is_ended_from_outside_is_explained_as_well() {
    for who in everyone() {
        let said =
            Scene::new(who).script(&["--limit", "wall=1s"], "echo x > /usr/lib/x; sleep 60").ends_with(137);
        said.tells("mount", "/usr/lib/x", "--rw /usr/lib");
    }
}

#[test]
fn names_from_inside_do_not_reach_the_terminal_as_they_are() {
    for who in everyone() {
        let said = Scene::new(who).script(&[], "mkdir \"/usr/lib/a$(printf '\\033')[2J\" 2>/dev/null");
        assert!(!said.err.contains('\u{1b}') && said.err.contains("/usr/lib/a\u{fffd}[2J"), "{}", said.err);
    }
}

#[test]
fn where_tracing_is_forbidden_nothing_runs_unexplained() {
    for who in everyone() {
        let scene = Scene::new(who);
        let (code, err) = scene.untraceable(&["touch", "ran"]);
        assert_eq!(code, Some(125), "{err}");
        assert!(err.contains("does not allow it") && err.contains("without `--explain`"), "{err}");
        assert!(!scene.project().join("ran").exists());
    }
}

#[test]
fn it_takes_no_more_than_moments() {
    for who in everyone() {
        let said = Scene::new(who).explained(&[], &["python3", "-c", "pass"]).ends_with(0);
        assert!(said.took < Duration::from_secs(5), "{:?}", said.took);
    }
}
