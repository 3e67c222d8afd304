//! SEC-14 at the real outlets: what is kept or sent to others does not say whose home a path is in, and nothing that
//! somebody else wrote acts on the terminal of whoever reads it later.

use serde_json::{Value, json};
use tests::Host;

use crate::daemon::{host, percent, send};
use crate::runs::Home;

/// Clipboard, title and its answer-back, hyperlink, device string, and reports: what terminals act on.
const ACTING: &str = "a\u{1b}]52;c;ZWNobw==\u{7}b\u{1b}]2;title\u{1b}\\\u{1b}[21t\u{1b}]8;;https://x.example\u{7}c\u{1b}]8;;\u{7}\u{1b}P+q544e\u{1b}\\\u{9b}6n\u{1b}[6n\u{7f}";
/// Homes as the specification lists them.
const HOMES: [&str; 6] = [
    "/home/ana/keys",
    "/Users/ana/keys",
    "/root/keys",
    "C:\\Users\\ana\\keys",
    "\\\\server\\Users\\ana\\keys",
    "~ana/keys",
];

#[track_caller]
fn assert_still(place: &str, text: &str) {
    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    let at = text.find(acts);
    assert!(at.is_none(), "{place} acts on its reader: {:?}", around(text, at.unwrap_or(0)));
}

#[track_caller]
fn assert_nobodys(place: &str, text: &str) {
    for home in ["/home/ana", "/Users/ana", "/root/keys", "Users\\ana", "Users\\\\ana", "~ana"] {
        assert!(!text.contains(home), "{place} names a home: {}", around(text, text.find(home).unwrap_or(0)));
    }
}

fn around(text: &str, at: usize) -> String {
    let from = (0..=at.saturating_sub(80)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[from..].chars().take(200).collect()
}

fn body(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer).into_owned();
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// Asks as the owner; the body of the answer.
fn ask(host: &Host, head: &str, body_of: &Value) -> String {
    let token = format!("Authorization: Bearer {}", host.owner().client.token().unwrap());
    let headers = [token, "Content-Type: application/json".into(), format!("User-Agent: x/{}", HOMES[0])];
    body(&send(host, head, &headers, &serde_json::to_vec(body_of).unwrap()))
}

#[test]
fn sec_14_what_the_daemon_keeps_and_sends_names_no_home() {
    let mut host = host().start();
    let repo = host.repo("demo");
    for (n, home) in HOMES.iter().enumerate() {
        let about = format!("see {home}/x, and ask");
        let made = ask(
            &host,
            "POST /api/v1/worktrees",
            &json!({ "repo": repo, "name": format!("w-{n}"), "about": about }),
        );
        let made: Value = serde_json::from_str(&made).unwrap();
        let kept = made["about"].as_str().unwrap();
        assert!(kept.starts_with("see ~/keys") && kept.ends_with("x, and ask"), "{home}: {kept}");
        for (head, sent) in [
            ("POST /api/v1/secrets/rotation", json!({ "resume": false, "new_key_file": home })),
            ("POST /api/v1/worktrees", json!({ "repo": repo, "name": home })),
            ("POST /api/v1/worktrees", json!({ "repo": home, "name": "x" })),
            ("POST /api/v1/users", json!({ "email": home, "name": "N", "role": home, "password": "x" })),
            ("POST /api/v1/policies", json!({ "id": home, "text": home })),
            ("POST /api/v1/keys", json!({ "label": "k", "scope": home })),
        ] {
            let said = ask(&host, head, &sent);
            assert!(!said.is_empty(), "{head}: no answer");
            assert_nobodys(&format!("the answer to {head} with {home}"), &said);
        }
        let escaped = percent(home);
        let said = ask(&host, &format!("GET /api/v1/worktrees/{escaped}?after={escaped}"), &json!({}));
        assert_nobodys("an answer", &said);
    }
    assert_nobodys("the ledger", &ask(&host, "GET /api/v1/ledger?limit=1000", &json!({})));
    host.stop();
    let log = host.log();
    assert!(log.len() > 1_000, "something was logged: {log}");
    assert_nobodys("the log", &log);
}

#[test]
fn sec_14_what_is_sent_to_the_daemon_acts_on_no_reader() {
    let mut host = host().start();
    let repo = host.repo("demo");
    for sent in [
        json!({ "repo": repo, "name": ACTING }),
        json!({ "repo": repo, "name": "w", "about": ACTING }),
        json!({ "repo": ACTING, "name": "w" }),
        json!({ ACTING: 1 }),
    ] {
        let said = ask(&host, "POST /api/v1/worktrees", &sent);
        assert!(said.contains("\"code\""), "it is refused: {said}");
        assert_still("a refusal", &said.replace(['\u{9b}', '\u{7f}'], ""));
    }
    for (head, sent) in [
        ("POST /api/v1/keys", json!({ "label": ACTING, "scope": "runs:read" })),
        ("POST /api/v1/passes", json!({ "label": ACTING, "grant": {} })),
        ("POST /api/v1/policies", json!({ "id": ACTING, "text": ACTING })),
        ("POST /api/v1/secrets", json!({ "name": ACTING, "value": "x" })),
    ] {
        let said = ask(&host, head, &sent);
        assert!(said.contains("\"code\""), "{head}: {said}");
    }
    let escaped = percent(ACTING);
    for path in
        [format!("worktrees/{escaped}"), format!("ledger?user={escaped}&action={escaped}"), escaped.clone()]
    {
        ask(&host, &format!("GET /api/v1/{path}"), &json!({}));
    }
    // What a person sees of it at their terminal, also of an answer of the daemon's.
    for words in [
        vec!["worktree", "show", ACTING],
        vec!["worktree", "create", "demo", ACTING],
        vec!["worktree", "create", "demo", "v", "--about", ACTING],
        vec!["policy", "explain", "--user", ACTING, "--action", ACTING, "--resource", ACTING],
        vec!["ledger", "search", "--user", ACTING],
        vec!["ledger", "tail"],
        vec!["secret", "remove", ACTING],
        vec![ACTING],
        vec!["receipt", "verify", "--file", ACTING],
    ] {
        for json in [false, true] {
            let mut command = host.command("palisade");
            command.args(["--url", host.base()]).args(json.then_some("--json")).args(&words);
            let output = tests::fed(&mut command, "");
            for said in [output.stdout, output.stderr] {
                assert_still(&format!("`palisade {}`", words[0]), &String::from_utf8_lossy(&said));
            }
        }
    }
    let output = std::process::Command::new(tests::program("palisade-verify"))
        .args([ACTING, "--trust", ACTING])
        .output()
        .unwrap();
    assert_still("`palisade-verify`", &String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.starts_with(b"cannot check: "), "{output:?}");
    let output = host.command("palisaded").args(["--set", ACTING, "config"]).output().unwrap();
    assert_still("`palisaded`", &String::from_utf8_lossy(&output.stderr));
    host.stop();
    let log = host.log();
    assert_still("the log", &log);
    // A line of ours begins with its time; nobody else begins one.
    let ours = |line: &&str| line.starts_with("20") || line.starts_with('{');
    let stray: Vec<&str> = log.lines().filter(|line| !line.is_empty() && !ours(line)).collect();
    assert!(stray.iter().all(|line| !line.contains("52;c")), "{stray:?}");
}

#[test]
fn sec_14_what_is_kept_of_a_run_names_no_home_and_acts_on_no_reader() {
    let home = Home::new();
    let own = home.project().canonicalize().unwrap();
    let own = own.to_str().unwrap();
    for words in [
        &["run", "--", "true", "/home/ana/keys", own, ACTING][..],
        &["run", "--overlay", "--", "sh", "-c", "echo x >changed", "/home/ana/keys", own, ACTING],
        &["run", "--", "/home/ana/nowhere", ACTING],
    ] {
        tests::fed(&mut home.palisade(words), "");
    }
    let said = |words: &[&str]| {
        let output = tests::fed(&mut home.palisade(words), "");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    for words in [&["receipt", "show"][..], &["runs"], &["--json", "runs"], &["diff"], &["ps"]] {
        assert_still(&words.join(" "), &said(words));
    }
    let (mut receipts, mut records) = (0, 0);
    for (path, text) in home.kept() {
        let name = path.display().to_string();
        assert_still(&name, &text);
        if name.contains("/receipts/") {
            receipts += 1;
            let receipt: Value = serde_json::from_str(&text).unwrap();
            let receipt = receipt.get("receipt").unwrap_or(&receipt).clone();
            let words = receipt["command"].to_string();
            assert_nobodys(&name, &words);
            assert!(
                !words.contains(own) && words.contains("~/keys") && words.contains("~/project"),
                "{words}"
            );
            assert_eq!(receipt["cwd"], "~/project");
            assert_eq!(receipt["worktree"], "~/project");
        } else if name.contains("/ledger/") {
            records += 1;
            assert_nobodys(&name, &text);
            assert!(
                !text.contains(own),
                "{name} names the home: {}",
                around(&text, text.find(own).unwrap_or(0))
            );
        }
    }
    assert!(receipts >= 2 && records >= 1, "{receipts} receipts, {records} files of the record");
}

/// Whoever sets `HOME` does not decide which paths a record hides.
#[test]
fn sec_14_a_home_that_is_none_hides_no_path_of_a_record() {
    let home = Home::new();
    for lie in ["/usr/share", "/opt", "usr", "/usr/share/../share"] {
        let mut command = home.palisade(&["run", "--", "true", "/usr/share/doc/x", "/opt/x", "/etc/hosts"]);
        // Where the record goes is said apart.
        let state = home.project().with_file_name(".local").join("state");
        let output = tests::fed(command.env("HOME", lie).env("XDG_STATE_HOME", state), "");
        assert!(output.status.success(), "{lie}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut receipts = 0;
    for (path, text) in
        home.kept().iter().filter(|(path, _)| path.display().to_string().contains("/receipts/"))
    {
        receipts += 1;
        let receipt: Value = serde_json::from_str(text).unwrap();
        let receipt = receipt.get("receipt").unwrap_or(&receipt);
        let expected = serde_json::json!(["true", "/usr/share/doc/x", "/opt/x", "/etc/hosts"]);
        assert_eq!(receipt["command"], expected, "{}", path.display());
    }
    assert_eq!(receipts, 4);
}
