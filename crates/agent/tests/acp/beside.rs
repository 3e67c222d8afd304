//! Files and terminals, served to another agent from inside. The test is both sides: the client, and the agent that is stood beside.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::schema;

/// No test waits longer for one line.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads and writes what its test says, by two pipes with names.
const AGENT: &str = "cat from_agent & exec cat > to_agent";

struct Between {
    folder: tempfile::TempDir,
    child: Child,
    client: Option<ChildStdin>,
    told_client: Receiver<Vec<u8>>,
    agent: Option<File>,
    told_agent: Receiver<Vec<u8>>,
    last: u64,
}

fn lines(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (told, lines) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            if from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) && told.send(line).is_ok() {
                continue;
            }
            return;
        }
    });
    lines
}

impl Between {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tree")).unwrap();
        for name in ["from_agent", "to_agent"] {
            let made = Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap();
            assert!(made.success());
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-agent"));
        let agent = format!("cd ..; {AGENT}");
        command.args(["beside", "--", "sh", "-c", &agent]).current_dir(folder.path().join("tree"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HIDDEN", "do not pass this on");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (client, told_client) = (child.stdin.take(), lines(child.stdout.take().unwrap()));
        // Both ways at once: so nobody waits for the other end to be opened.
        let pipe =
            |name: &str| File::options().read(true).write(true).open(folder.path().join(name)).unwrap();
        let (agent, told_agent) = (Some(pipe("from_agent")), lines(pipe("to_agent")));
        Self { folder, child, client, told_client, agent, told_agent, last: 0 }
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("tree")
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.tree().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn client_says(&mut self, line: &[u8]) {
        self.client.as_mut().unwrap().write_all(line).unwrap();
    }

    fn agent_says(&mut self, line: &[u8]) {
        self.agent.as_mut().unwrap().write_all(line).unwrap();
    }

    fn agent_hears(&self) -> Vec<u8> {
        self.told_agent.recv_timeout(PATIENCE).expect("the agent hears nothing")
    }

    fn client_hears(&self) -> Vec<u8> {
        self.told_client.recv_timeout(PATIENCE).expect("the client hears nothing")
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.agent_says(format!("{request}\n").as_bytes());
        id
    }

    /// The agent asks, and is answered; the client hears nothing of it.
    fn ask(&mut self, method: &str, mut params: Value) -> Result<Value, String> {
        params["sessionId"] = json!("s");
        let id = self.begin(method, params);
        let answer: Value = serde_json::from_slice(&self.agent_hears()).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        match answer.get("result") {
            Some(result) => {
                schema::check_served(method, result);
                Ok(result.clone())
            }
            None => Err(answer["error"]["message"].as_str().unwrap().to_owned()),
        }
    }

    fn read(&mut self, path: &Path) -> Result<String, String> {
        let result = self.ask("fs/read_text_file", json!({ "path": path }));
        result.map(|result| result["content"].as_str().unwrap().to_owned())
    }

    fn write(&mut self, path: &Path, content: &str) -> Result<Value, String> {
        self.ask("fs/write_text_file", json!({ "path": path, "content": content }))
    }

    fn terminal(&mut self, command: &str, args: &[&str]) -> String {
        let made = self.ask("terminal/create", json!({ "command": command, "args": args })).unwrap();
        made["terminalId"].as_str().unwrap().to_owned()
    }

    fn of(&mut self, what: &str, terminal: &str) -> Result<Value, String> {
        self.ask(&format!("terminal/{what}"), json!({ "terminalId": terminal }))
    }

    /// The code it ends with, soon.
    fn ends(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn lines_pass_byte_for_byte_and_the_greeting_offers_what_is_served() {
    let mut between = Between::start();
    between.client_says(b"{\"id\":0, \"method\":\"ping\"}\r\n");
    assert_eq!(between.agent_hears(), b"{\"id\":0, \"method\":\"ping\"}\r\n");
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": 1, "clientCapabilities": { "fs": { "readTextFile": false }, "terminal": false, "x": 1 }, "_meta": {} } });
    between.client_says(format!("{greeting}\n").as_bytes());
    let heard: Value = serde_json::from_slice(&between.agent_hears()).unwrap();
    let able = json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true, "x": 1 });
    let mut expected = greeting.clone();
    expected["params"]["clientCapabilities"] = able;
    assert_eq!(heard, expected);
    // Only the first is the greeting.
    between.client_says(format!("{greeting}\n").as_bytes());
    assert_eq!(between.agent_hears(), format!("{greeting}\n").into_bytes());

    let long = [vec![b'x'; 12 << 20], b"\n".to_vec()].concat();
    for line in [
        b"{ \"jsonrpc\" : \"2.0\" }\n".as_slice(),
        b"no JSON at all\n",
        b"\n",
        b"\xff\xfe \"fs/read_text_file\"\n",
        b"{\"method\":\"fs/read_text_file\"}\n",
        b"{\"id\":null,\"method\":\"terminal/create\"}\n",
        b"{\"id\":1,\"method\":\"session/update\",\"params\":\"fs/write_text_file\"}\n",
        b"{\"id\":1,\"method\":\"terminal/paint\"}\n",
        &long,
    ] {
        between.agent_says(line);
        assert!(between.client_hears() == line, "{}", String::from_utf8_lossy(&line[..line.len().min(80)]));
        between.client_says(line);
        assert!(between.agent_hears() == line);
    }
}

#[test]
fn files_are_served_beneath_the_directory_and_nowhere_else() {
    let mut between = Between::start();
    let tree = between.tree();
    let path = between.file("src/a.txt", "one\ntwo\nthree\n");
    assert_eq!(between.read(&path).unwrap(), "one\ntwo\nthree\n");
    let some = between.ask("fs/read_text_file", json!({ "path": path, "line": 2, "limit": 1 })).unwrap();
    assert_eq!(some["content"], "two\n");
    between.write(&path, "new\n").unwrap();
    between.write(&tree.join("made/deep/b.txt"), "b").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(tree.join("made/deep/b.txt")).unwrap(), "b");

    let outside = between.folder.path().canonicalize().unwrap().join("outside.txt");
    std::fs::write(&outside, "outside").unwrap();
    symlink(&outside, tree.join("link")).unwrap();
    symlink(outside.parent().unwrap(), tree.join("links")).unwrap();
    std::fs::hard_link(&outside, tree.join("hard")).unwrap();
    between.file(".env", "KEY=1");
    between.file("id_rsa", "key");
    between.file("binary", b"a\0b");
    between.file("large", "x".repeat(262_145));
    for name in [
        "../outside.txt",
        "link",
        "links/outside.txt",
        "hard",
        ".env",
        "id_rsa",
        "binary",
        "large",
        "missing",
        "src",
        "",
    ] {
        assert!(between.read(&tree.join(name)).is_err(), "{name} is read");
    }
    for path in ["/etc/passwd", "src/a.txt", "/", "", "/proc/self/environ"] {
        assert!(between.read(Path::new(path)).is_err(), "{path} is read");
    }
    for name in [
        "../outside.txt",
        "link",
        "links/new.txt",
        ".env",
        ".git/config",
        "sub/.git/hooks/x",
        "deploy.pem",
        "src",
    ] {
        assert!(between.write(&tree.join(name), "attack").is_err(), "{name} is written");
    }
    assert!(between.write(&tree.join("long"), &"x".repeat(65_537)).is_err());
    assert!(between.write(Path::new("/tmp/palisade-beside-attack"), "attack").is_err());
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "outside");
    assert!(!tree.join("long").exists() && !tree.join(".git").exists());
    assert!(between.ask("fs/read_text_file", json!({})).is_err());
    // None of it reached the client.
    between.agent_says(b"{}\n");
    assert_eq!(between.client_hears(), b"{}\n");
}

#[test]
fn terminals_run_programs_and_tell_what_they_said() {
    let mut between = Between::start();
    between.file("sub/x", "");
    let one = between.terminal("sh", &["-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!(between.of("wait_for_exit", &one).unwrap(), json!({ "exitCode": 3 }));
    for _ in 0..2 {
        let told = between.of("output", &one).unwrap();
        assert_eq!((&told["truncated"], &told["exitStatus"]["exitCode"]), (&json!(false), &json!(3)));
        let output = told["output"].as_str().unwrap();
        assert!(output.contains("out\n") && output.contains("err\n"), "{output}");
    }
    between.of("release", &one).unwrap();
    assert!(between.of("output", &one).is_err() && between.of("release", &one).is_err());

    let sub = between.tree().join("sub");
    let env = json!([{ "name": "GIVEN", "value": "é".repeat(40) }]);
    let made = json!({ "command": "sh", "args": ["-c", "pwd; printf %s \"$HIDDEN$GIVEN\""], "cwd": sub, "env": env, "outputByteLimit": 33 });
    let two = between.ask("terminal/create", made).unwrap()["terminalId"].as_str().unwrap().to_owned();
    between.of("wait_for_exit", &two).unwrap();
    let told = between.of("output", &two).unwrap();
    assert_eq!(
        told["output"],
        "é".repeat(16),
        "cut where a character begins, and nothing of our environment"
    );
    assert_eq!(told["truncated"], true);

    let three = between.terminal("sleep", &["300"]);
    assert_eq!(between.of("output", &three).unwrap()["exitStatus"], Value::Null);
    let waiting = between.begin("terminal/wait_for_exit", json!({ "sessionId": "s", "terminalId": three }));
    let killing = between.begin("terminal/kill", json!({ "sessionId": "s", "terminalId": three }));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer: Value = serde_json::from_slice(&between.agent_hears()).unwrap();
        if answer["id"] == waiting {
            assert_eq!(answer["result"]["signal"], "SIGKILL", "{answer}");
        }
        ids.push(answer["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [waiting, killing]);
}

#[test]
fn terminals_are_bounded_and_refuse_what_is_never_read() {
    let mut between = Between::start();
    between.file(".env", "KEY=1");
    let many: Vec<&str> = vec!["x"; 33];
    let long = "x".repeat(4_097);
    for params in [
        json!({ "command": "cat", "args": [".env"] }),
        json!({ "command": "cat", "args": many }),
        json!({ "command": "cat", "args": [long] }),
        json!({ "command": "" }),
        json!({ "command": "-x" }),
        json!({ "command": "ls", "cwd": "/etc" }),
        json!({ "command": "ls", "cwd": "sub" }),
        json!({ "command": "ls", "env": [{ "name": "A=B", "value": "" }] }),
        json!({ "args": [] }),
    ] {
        assert!(between.ask("terminal/create", params.clone()).is_err(), "{params}");
    }
    let missing = between.terminal("no-such-program", &[]);
    assert_eq!(between.of("wait_for_exit", &missing).unwrap()["exitCode"], 127);
    for _ in 0..8 {
        between.terminal("sleep", &["300"]);
    }
    assert!(between.ask("terminal/create", json!({ "command": "ls" })).unwrap_err().contains("too many"));
}

#[test]
fn it_ends_with_its_agent_and_so_does_what_terminals_left() {
    let mut between = Between::start();
    let leaves = "setsid sh -c 'echo $$ > pid; exec sleep 300' & sleep 300";
    between.terminal("sh", &["-c", leaves]);
    let file = between.tree().join("pid");
    let until = Instant::now() + PATIENCE;
    let pid = loop {
        let pid = std::fs::read_to_string(&file).unwrap_or_default().trim().to_owned();
        if !pid.is_empty() {
            break pid;
        }
        assert!(Instant::now() < until, "the program does not start");
        std::thread::sleep(Duration::from_millis(5));
    };
    // Its output ends, so it is ended.
    drop(between.agent.take());
    assert_eq!(between.ends(), 128 + 9);
    let is_alive =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while is_alive() {
        assert!(Instant::now() < until, "what a terminal left is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_ends_with_its_client() {
    let mut between = Between::start();
    drop(between.client.take());
    // The agent's input ended, and with it the agent; the rest of its output is nobody's.
    assert_eq!(between.ends(), 0);
}

#[test]
fn the_code_of_the_agent_is_its_own_and_an_agent_that_is_not_there_is_an_error() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-agent"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    assert_eq!(run(&["beside", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["beside", "--", "echo", "-x", "--config"]).stdout, b"-x --config\n");
    for wrong in [&["beside", "--", "no-such-program"][..], &["beside"], &["beside", "--"], &["beside", "ls"]]
    {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(!output.stderr.is_empty());
    }
}
