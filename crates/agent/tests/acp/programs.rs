//! Programs that the agent starts.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::model::Reply;
use crate::world::{KEY, World};

/// A program that leaves its group and its parent, and would stay.
const LEAVER: &str = r#"
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("pid", "w") as f: f.write(str(os.getpid()))
        time.sleep(120)
    os._exit(0)
while not os.path.exists("pid") or not open("pid").read(): time.sleep(0.01)
if len(sys.argv) > 1: time.sleep(120)
"#;

fn with_python(name: &str) -> World {
    let world = World::new().with("programs", json!(["python3", "sleep", "ls", "pwd", "cat", "echo"]));
    world.file("leaver.py", LEAVER);
    world.file("script.py", name);
    world
}

fn is_alive(pid: &str) -> bool {
    // What is gone but not yet waited for runs no more.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn is_gone_soon(pid: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while is_alive(pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    !is_alive(pid)
}

#[test]
fn ses_30_listed_programs_run_directly_in_the_directory() {
    let world = World::new();
    world.file("a b.txt", "content");
    let shell = |command: &str| ("shell", json!({ "command": command }));
    let results = world.calls(vec![
        shell("pwd"),
        shell("cat 'a b.txt'"),
        shell("echo '$HOME' * ~"),
        shell("cat missing"),
        shell("rm x"),
        shell("sh -c ls"),
        shell("echo a; echo b"),
        shell("echo `ls`"),
        shell("echo a\necho b"),
    ]);
    assert_eq!(results[0].1, format!("[exit code 0]\n{}\n", world.tree().display()));
    assert_eq!(results[1].1, "[exit code 0]\ncontent");
    assert_eq!(results[2].1, "[exit code 0]\n$HOME * ~\n");
    assert!(results[3].1.contains("[exit code 1]") && results[3].1.contains("[standard error]"));
    for refused in &results[4..6] {
        assert!(refused.1.contains("`program`"), "{}", refused.1);
    }
    for refused in &results[6..] {
        assert!(refused.1.contains("`shell_text`"), "{}", refused.1);
    }
}

#[test]
fn ses_30_output_time_and_environment_are_bounded() {
    let world =
        with_python("import sys, os\nsys.stdout.write('x' * 100000 + 'END')\n").limit("shell_ms", 5_000);
    world.file("env.py", "import os\nfor name in sorted(os.environ): print(name)\nprint(repr(input()) if 0 else os.read(0, 1))");
    let shell = |command: &str| ("shell", json!({ "command": command }));
    let before = Instant::now();
    let results = world.calls(vec![shell("python3 script.py"), shell("python3 env.py"), shell("sleep 60")]);
    assert!(
        results[0].1.contains("[91811 bytes before this are left out]") && results[0].1.ends_with("xEND")
    );
    assert!(results[0].1.len() < 8_192 + 100);
    assert!(!results[1].1.contains("MODEL_KEY") && results[1].1.contains("PATH"), "{}", results[1].1);
    assert!(results[1].1.contains("b''"), "standard input is empty: {}", results[1].1);
    assert!(results[2].1.contains("[ended after"), "{}", results[2].1);
    assert!(before.elapsed() < Duration::from_secs(40));
}

#[test]
fn ses_31_a_child_that_forked_twice_is_gone_after_the_deadline_and_after_the_program() {
    for (command, end) in [("python3 leaver.py stay", "[ended after"), ("python3 leaver.py", "[exit code 0]")]
    {
        let world = with_python("").limit("shell_ms", 6_000);
        let result = world.call("shell", json!({ "command": command }));
        assert!(result.1.contains(end), "{}", result.1);
        let pid = world.read("pid");
        assert!(!is_alive(&pid), "{command}: {pid} is still there when the call is over");
    }
}

#[test]
fn ses_31_programs_in_the_background_are_eight_and_say_what_they_say() {
    let world = with_python("print('hello', flush=True)\nimport time\ntime.sleep(60)\n");
    let start = |command: &str| ("start_process", json!({ "command": command }));
    let mut calls: Vec<_> = vec![start("python3 script.py")];
    calls.extend((0..7).map(|_| start("sleep 60")));
    calls.push(start("sleep 60"));
    calls.push(("stop_process", json!({ "number": 2 })));
    calls.push(start("sleep 60"));
    calls.push(("process_output", json!({ "number": 1, "wait_s": 2 })));
    calls.push(("process_output", json!({ "number": 2 })));
    calls.push(("process_output", json!({ "number": 99 })));
    let results = world.calls(calls);
    assert!(results[..8].iter().all(|(state, _)| state == "completed"), "{results:?}");
    assert!(results[8].1.contains("`processes`"), "{}", results[8].1);
    assert_eq!((results[9].0.as_str(), results[10].0.as_str()), ("completed", "completed"));
    assert_eq!(results[11].1, "[running]\nhello\n");
    assert!(results[12].1.starts_with("[ended with code"), "{}", results[12].1);
    assert_eq!(results[13].0, "failed");
}

#[test]
fn ses_31_what_a_background_program_says_is_kept_up_to_512_kib() {
    let world =
        with_python("import sys\nsys.stdout.write('x' * 700000 + 'END')\n").limit("output_bytes", 262_144);
    let results = world.calls(vec![
        ("start_process", json!({ "command": "python3 script.py" })),
        ("process_output", json!({ "number": 1, "wait_s": 20 })),
    ]);
    assert!(results[1].1.contains("[175715 bytes before this are left out]"), "{:.200}", results[1].1);
    assert!(results[1].1.len() < 262_144 + 200);
}

#[test]
fn ses_31_everything_ends_with_the_agent_also_when_it_is_killed() {
    for killed in [false, true] {
        let world = with_python("");
        let mut agent = world.opened();
        world
            .model
            .plays([Reply::Call(vec![("start_process", json!({ "command": "python3 leaver.py stay" }))])]);
        agent.prompt("go").unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        let place = world.tree().join("pid");
        let pid = loop {
            match std::fs::read_to_string(&place) {
                Ok(pid) if !pid.is_empty() => break pid,
                _ => assert!(Instant::now() < until, "it was never started"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(is_alive(&pid));
        if killed {
            drop(agent);
        } else {
            assert_eq!(agent.leave(), 0);
        }
        assert!(is_gone_soon(&pid), "killed: {killed}");
    }
}

#[test]
fn ses_04_a_program_ends_when_its_turn_is_stopped() {
    let world = with_python("");
    world.model.plays([Reply::Call(vec![("shell", json!({ "command": "python3 leaver.py stay" }))])]);
    let mut agent = world.opened();
    let prompt = json!([{ "type": "text", "text": "go" }]);
    let id = agent.begin("session/prompt", json!({ "sessionId": agent.session, "prompt": prompt }));
    let place = world.tree().join("pid");
    let until = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(&place).is_ok_and(|pid| !pid.is_empty()) {
        assert!(Instant::now() < until, "it was never started");
        std::thread::sleep(Duration::from_millis(10));
    }
    agent.cancel();
    assert_eq!(agent.finish(id, "session/prompt").unwrap()["stopReason"], "cancelled");
    assert!(!is_alive(&world.read("pid")));
}

#[test]
fn ses_28_the_agents_own_variables_are_not_to_be_had_through_a_program() {
    let world = World::new();
    let mut agent = world.opened();
    let environ = format!("/proc/{}/environ", agent.pid());
    assert!(Path::new(&environ).exists());
    world.model.plays([Reply::Call(vec![("shell", json!({ "command": format!("cat {environ}") }))])]);
    agent.prompt("go").unwrap();
    let shown = agent.results()[0].1.clone();
    assert!(!shown.contains(KEY) && !world.model.last_result().contains(KEY), "{shown}");
}

/// What code tries: each line says whether it could.
const TRIER: &str = r#"
import os, socket, sys
def tried(name, what):
    try: what(); print(name, "yes")
    except OSError as error: print(name, "no", error.errno)
outside, port = OUTSIDE, PORT
tried("inside", lambda: open("inside.txt").read())
tried("write", lambda: open("made.txt", "w").write("x"))
tried("outside", lambda: open(outside).read())
tried("truncate", lambda: os.truncate(outside, 0))
tried("etc", lambda: open("/etc/passwd").read())
tried("proc", lambda: open("/proc/%d/environ" % os.getppid(), "rb").read())
tried("tcp", lambda: socket.create_connection(("127.0.0.1", port)))
tried("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
tried("unix", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
tried("stdin", lambda: print("stdin is", os.read(0, 1)))
print("cwd", os.getcwd())
"#;

#[test]
fn ses_31_code_has_no_network_and_no_files_outside() {
    for writing in [true, false] {
        let world = World::new().with("interpreters", json!(["python3"])).with("writing", json!(writing));
        world.file("inside.txt", "x");
        let outside = world.home().join("outside.txt");
        std::fs::write(&outside, "private").unwrap();
        let code = TRIER
            .replace("OUTSIDE", &format!("{outside:?}"))
            .replace("PORT", &world.model.address.port().to_string());
        let (state, said) = world.call("run_code", json!({ "interpreter": "python3", "code": code }));
        assert_eq!(state, "completed", "{said}");
        let expected = format!(
            "[exit code 0]\ninside yes\nwrite {}\noutside no 13\ntruncate no 13\netc no 13\nproc no 13\ntcp no 13\nudp no 13\n\
             unix no 13\nstdin is b''\nstdin yes\ncwd {}\n",
            if writing { "yes" } else { "no 13" },
            world.tree().display()
        );
        assert_eq!(said, expected);
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "private");
    }
}

#[test]
fn ses_31_code_is_bounded_in_time_and_output_and_is_off_without_a_word() {
    let code = |code: &str| ("run_code", json!({ "interpreter": "python3", "code": code }));
    let off = World::new().calls(vec![code("print(1)")]);
    assert!(off[0].1.contains("`program`"), "{off:?}");
    let world = World::new().with("interpreters", json!(["python3"])).limit("code_ms", 6_000);
    let results = world.calls(vec![
        code("print('x' * 100000 + 'END')"),
        code(&LEAVER.replace("if len(sys.argv) > 1: ", "")),
        code("raise SystemExit(7)"),
        ("run_code", json!({ "interpreter": "sh", "code": "ls" })),
    ]);
    assert!(results[0].1.contains("[34468 bytes before this are left out]"), "{:.100}", results[0].1);
    assert!(results[1].1.contains("[ended after 6 s]"), "{}", results[1].1);
    assert!(!is_alive(&world.read("pid")));
    assert!(results[2].1.contains("[exit code 7]"));
    assert!(results[3].1.contains("`program`"));
}
