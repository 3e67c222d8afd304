//! `palisade redact`: a filter, and a check for hooks and CI.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use tests::{fed, program};

use crate::calls::new_session;
use crate::sessions::{ended, said, steps, until};

const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

fn palisade(words: &[&str]) -> Command {
    let mut command = Command::new(program("palisade"));
    command.args(words).env_clear().env("HOME", "/data/people/ana");
    command
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn sec_12_what_comes_in_leaves_without_secrets() {
    let input = format!(
        "token {TOKEN}\n/home/bo/x /data/people/ana/y\n\x1b]52;c;eA==\x07 \x1b[31mred\x1b[0m\nlast ana@example.org"
    );
    let output = fed(&mut palisade(&["redact"]), &input);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output), "token ***\n~/x ~/y\n␛]52;c;eA==␇ \x1b[31mred\x1b[0m\nlast ana@example.org");
    assert!(output.stderr.is_empty());
    let all = ["redact", "--keep-paths", "--keep-escapes", "--personal"];
    let output = fed(&mut palisade(&all), &input);
    assert_eq!(
        text(&output),
        "token ***\n/home/bo/x /data/people/ana/y\n\x1b]52;c;eA==\x07 \x1b[31mred\x1b[0m\nlast ***"
    );
}

#[test]
fn sec_12_a_check_tells_places_by_its_exit_code_and_by_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let (dirty, clean) = (folder.path().join("dirty.txt"), folder.path().join("clean.txt"));
    std::fs::write(&dirty, format!("one\nüber {TOKEN} x\n/home/ana/x\n")).unwrap();
    std::fs::write(&clean, "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b in /home/ana/x\n").unwrap();
    let (dirty, clean) = (dirty.to_str().unwrap(), clean.to_str().unwrap());

    let output = palisade(&["redact", "--check", clean]).output().unwrap();
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), ""));

    let output = palisade(&["redact", "--check", clean, dirty]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output), format!("{dirty}:2:6: looks like a secret (offset 10, 40 bytes)\n"));

    let output = palisade(&["redact", "--check", "--json", clean, dirty]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let place = serde_json::json!({ "file": dirty, "line": 2, "column": 6, "offset": 10, "length": 40 });
    assert_eq!(document["result"]["found"], serde_json::json!([place]));
    assert_eq!((&document["ok"], &document["error"]["code"]), (&false.into(), &"found".into()));

    let output = palisade(&["redact", "--check", "/nowhere/at/all", dirty]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains(":2:6:") && !output.stderr.is_empty());

    let output = fed(&mut palisade(&["redact", "--check"]), &format!("x={TOKEN}"));
    assert_eq!((output.status.code(), text(&output).contains("-:1:3:")), (Some(1), true));
    assert!(!text(&output).contains("16C7"));
}

#[test]
fn one_json_document_holds_the_text() {
    let output = fed(&mut palisade(&["redact", "--json"]), &format!("a \"{TOKEN}\"\nü\n"));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["result"], serde_json::json!({ "text": "a \"***\"\nü\n", "masked": 1 }));
    assert_eq!(document["ok"], true);
    let mut command = palisade(&["redact", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\xff\xfd\x00 \xc3").unwrap();
    let output = child.wait_with_output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["result"]["text"], "\u{fffd}\u{fffd}␀ \u{fffd}");
}

#[test]
fn sec_17_patterns_are_added_and_a_bad_one_is_refused_by_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("patterns");
    std::fs::write(&list, "# ours\nacme-[0-9]+\n\nticket-\\d+\n").unwrap();
    let list = list.to_str().unwrap();
    let words = ["redact", "--pattern", "zeta[a-z]", "--patterns", list];
    let output = fed(&mut palisade(&words), "acme-12 ticket-3 zetax zeta\n");
    assert_eq!(text(&output), "*** *** *** zeta\n");

    std::fs::write(list, "# ours\nfine\nbroken-text(\n").unwrap();
    let output = fed(&mut palisade(&words), "acme-12\n");
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(2), ""));
    assert!(told.contains("line 3") && !told.contains("broken-text"), "{told}");
    let output = fed(&mut palisade(&["redact", "--pattern", "a", "--pattern", "broken-text("]), "a\n");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("number 2") && !told.contains("broken-text"), "{told}");
}

#[test]
fn a_line_leaves_before_the_input_ends_and_a_reader_that_goes_away_is_no_noise() {
    let mut command = palisade(&["redact"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    input.write_all(b"first password=hunter2\nsecond").unwrap();
    let mut line = [0; 19];
    output.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"first password=***\n");
    drop(output);
    // Until the pipe's end is noticed.
    while input.write_all(&[b'x', b'\n'].repeat(32 * 1024)).is_ok() {}
    drop(input);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn sec_15_bytes_that_are_no_text_pass_and_memory_stays_small() {
    let mut command = palisade(&["redact", "--keep-escapes"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let pid = child.id();
    // One line of 64 MiB without an end, and a secret in it.
    let part: Vec<u8> = (0..65_536_u32).map(|n| [0_u8, 0xff, b' ', 0x80][n as usize % 4]).collect();
    let sent = part.clone();
    let writer = std::thread::spawn(move || {
        for _ in 0..1024 {
            input.write_all(&sent).unwrap();
        }
        input.write_all(format!(" {TOKEN} ").as_bytes()).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
        peak.trim_end_matches(" kB").parse::<u64>().unwrap()
    });
    let output = child.wait_with_output().unwrap();
    let peak = writer.join().unwrap();
    assert_eq!(output.stdout.len(), 1024 * 65_536 + 5);
    assert!(output.stdout.ends_with(b" *** ") && output.stdout.starts_with(&part));
    assert!(peak < 64 * 1024, "{peak} KiB");
}

#[test]
fn sec_12_utf_16_is_refused_and_not_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    for mark in [[0xff, 0xfe], [0xfe, 0xff]] {
        let path = folder.path().join("wide.txt");
        let wide =
            TOKEN.encode_utf16().flat_map(if mark[0] == 0xff { u16::to_le_bytes } else { u16::to_be_bytes });
        std::fs::write(&path, mark.into_iter().chain(wide).collect::<Vec<u8>>()).unwrap();
        for words in [&["redact"][..], &["redact", "--check"], &["redact", "--json"]] {
            let output = palisade(words).arg(&path).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{words:?}");
            let said = format!("{}{}", text(&output), String::from_utf8_lossy(&output.stderr));
            assert!(said.contains("is UTF-16; turn it into UTF-8 first"), "{said}");
            assert!(!said.contains('\0'), "{said}");
        }
    }
    // One byte, and none, are text.
    assert_eq!(text(&fed(&mut palisade(&["redact"]), "a")), "a");
    assert_eq!(text(&fed(&mut palisade(&["redact"]), "")), "");
}

/// SEC-17: patterns of an organisation are in force in all that the daemon keeps and says; a change without a restart, a fault not at all.
#[test]
fn sec_17_patterns_of_a_file_are_in_force_in_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("patterns");
    std::fs::write(&file, "# cards of ours\nPAL-[0-9]{6}\n").unwrap();
    let builder = || tests::Host::builder().set("redact.patterns", &file.display().to_string());
    let host = builder().start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let session = owner.client.create_session(&new_session(&worktree)).unwrap().id;
    let asked = |text: &str| {
        let task = owner.client.prompt_session(&session, text).unwrap();
        assert_eq!(ended(owner, &session, &task.id).state, "done");
        (task.prompt, serde_json::to_string(&steps(owner, &session)).unwrap())
    };
    let (prompt, told) = asked("say PAL-123456 and TEAM-77");
    assert_eq!(prompt, "say *** and TEAM-77");
    assert!(told.contains("TEAM-77") && !told.contains("PAL-123456"), "{told}");

    std::fs::write(&file, "TEAM-[0-9]+\nbad(hunter2horse\n").unwrap();
    until("the fault is told", || host.log().contains("line 2").then_some(()));
    assert!(!host.log().contains("hunter2"), "{}", host.log());
    assert_eq!(asked("say PAL-654321 and TEAM-78").0, "say *** and TEAM-78", "those before stay in force");

    std::fs::write(&file, "TEAM-[0-9]+\n").unwrap();
    until("the change is told", || host.log().contains("are in force").then_some(()));
    let (prompt, told) = asked("say PAL-111111 and TEAM-79");
    assert_eq!(prompt, "say PAL-111111 and ***");
    assert!(!told.contains("TEAM-79"), "{told}");

    // A daemon does not start without what it was told to mask.
    std::fs::write(&file, "bad(hunter2horse\n").unwrap();
    let stopped = tests::Host::builder().stopped();
    let text = format!("[redact]\npatterns = {:?}\n", file.display().to_string());
    std::fs::write(stopped.place().join("config.toml"), text).unwrap();
    let output = stopped.command("palisaded").arg("up").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("line 1") && !said.contains("hunter2"), "{said}");
}

/// What is kept of runs, by its files; not what an agent wrote.
fn kept(folder: &std::path::Path) -> Vec<(std::path::PathBuf, String)> {
    const THEIRS: &[&str] = &["homes", "changes", "quarantine", "worktree", "upper", "work", "cache"];
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !THEIRS.iter().any(|theirs| name == *theirs) {
            found.extend(kept(&path));
        } else if kind.is_file() {
            let text = std::fs::read(&path).unwrap_or_default();
            found.push((path, String::from_utf8_lossy(&text).into_owned()));
        }
    }
    found
}

/// SEC-17: patterns of an organisation are in force in what launchers keep of a session's runs, also after a change.
#[test]
fn sec_17_patterns_of_a_file_are_in_force_in_the_launchers_of_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("patterns");
    std::fs::write(&file, "PAL-[0-9]{6}\n").unwrap();
    let mut host = tests::Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("redact.patterns", &file.display().to_string())
        .start();
    let worktree = host.tree(host.owner(), "demo", "session").id;
    let command = vec!["sh".to_owned()];
    let new = api::CreateSessionRequest { agent: "command".into(), command, ..new_session(&worktree) };
    let session = host.owner().client.create_session(&new).unwrap().id;
    // What was committed beside the branch is named by what ends the run.
    let planted = |name: &str| {
        let has = "echo \"has $(env | grep -c PALISADE_PATTERNS)\"";
        let script = format!("git checkout -q -b {name}; git commit -q --allow-empty -m x; {has}");
        let task = host.owner().client.prompt_session(&session, &script).unwrap();
        assert_eq!(ended(host.owner(), &session, &task.id).state, "done");
        let told = said(&steps(host.owner(), &session));
        assert!(told.trim_end().ends_with("has 0"), "what is ours is not in the sandbox: {told}");
        kept(&host.data().join("runs"))
    };
    let named = |all: &[(std::path::PathBuf, String)], text: &str| -> Vec<String> {
        let with = all.iter().filter(|(_, kept)| kept.contains(text));
        with.map(|(path, _)| path.display().to_string()).collect()
    };
    let all = planted("PAL-123456");
    assert!(!named(&all, "/***\"").is_empty(), "it is told, without its name");
    assert_eq!(named(&all, "PAL-123456"), [""; 0]);
    // The control: what no pattern knows is kept, so it is looked for where it would be.
    let all = planted("TEAM-77");
    assert!(!named(&all, "/TEAM-77\"").is_empty());
    // A fault changes nothing for them either, and a change is in force for the next run.
    std::fs::write(&file, "TEAM-[0-9]+\nbad(hunter2horse\n").unwrap();
    until("the fault is told", || host.log().contains("line 2").then_some(()));
    assert_eq!(named(&planted("PAL-222222"), "PAL-222222"), [""; 0], "those before stay in force");
    std::fs::write(&file, "TEAM-[0-9]+\n").unwrap();
    until("the change is told", || host.log().contains("are in force").then_some(()));
    assert_eq!(named(&planted("TEAM-88"), "TEAM-88"), [""; 0]);
    host.stop();
}

/// SEC-17: by itself, the launcher takes them from a variable, and does nothing with one that has a fault.
#[test]
fn sec_17_a_launcher_does_nothing_without_the_patterns_that_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("patterns");
    let says = |text: &str, words: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut command = palisade(words);
        let output = fed(command.env("PALISADE_PATTERNS", &file).env("HOME", folder.path()), "");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    };
    let (code, said) = says("PAL-[0-9]{6}\n", &["diff", "PAL-123456"]);
    assert!(code == Some(1) && !said.contains("PAL-123456"), "{said}");
    for words in [&["runs"][..], &["--json", "runs"], &["run", "--", "true"], &["redact"]] {
        let (code, said) = says("# ours\nPAL-[0-9]{6}\nbad(hunter2horse\n", words);
        assert_eq!(code, Some(125), "{said}");
        assert!(said.contains("line 3") && !said.contains("hunter2"), "{said}");
    }
}
