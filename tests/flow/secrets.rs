//! The vault through its commands and its API: values go in and do not come out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use api::{AddSecretRequest, Client, Hidden, LedgerFilter};
use base64::Engine as _;
use serde_json::Value;
use tests::Host;

use crate::calls::{CALLS, Stage, Who, is_final};

/// A value of no known shape, so that only its being secret keeps it away.
pub(crate) const VALUE: &str = "marmalade-quilt-zebra-4711";

/// A key that may do everything its owner may.
pub(crate) fn admin_key(client: &Client) -> String {
    let asked = api::CreateKeyRequest { label: "for the test".into(), scope: "admin".into(), days: None };
    client.create_key(&asked).unwrap().secret.into_text()
}

pub(crate) fn secret(name: &str, value: &str, owner: Option<&str>) -> AddSecretRequest {
    AddSecretRequest {
        name: name.into(),
        value: Hidden(value.into()),
        owner: owner.map(str::to_owned),
        hosts: vec!["api.example.org".into()],
        expires: None,
        replace: false,
    }
}

/// Runs `palisade` as someone, with this on standard input.
pub(crate) fn palisade(host: &Host, client: &Client, words: &[&str], input: &str) -> Output {
    let mut command = host.command("palisade");
    command.args(["--url", host.base()]).args(words).env("PALISADE_API_KEY", client.token().unwrap());
    tests::fed(&mut command, input)
}

fn told(output: &Output) -> (bool, Value) {
    let text = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.success(), document)
}

fn encodings(value: &str) -> Vec<String> {
    let base64 = base64::engine::general_purpose::STANDARD_NO_PAD.encode(value);
    vec![value.to_owned(), base64, hex::encode(value), value.chars().rev().collect()]
}

pub(crate) fn is_in(value: &str, bytes: &[u8]) -> bool {
    encodings(value).iter().any(|form| bytes.windows(form.len()).any(|part| part == form.as_bytes()))
}

fn every_file(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(every_file(&path));
        } else {
            let bytes = fs::read(&path).unwrap_or_default();
            all.push((path, bytes));
        }
    }
    all
}

#[test]
fn sec_05_the_commands_keep_list_and_remove_and_show_no_value() {
    let mut host = Host::builder().set("log.level", "trace").start();
    let client = host.owner().client.clone();
    let mut said = Vec::new();
    let mut run = |words: &[&str], input: &str| {
        let output = palisade(&host, &client, words, input);
        said.extend_from_slice(&output.stdout);
        said.extend_from_slice(&output.stderr);
        output
    };
    let line = format!("{VALUE}\n");
    let add = ["secret", "add", "OPENAI_API_KEY", "--host", "api.openai.com", "--host", "*.example.org:443"];
    let (good, kept) = told(&run(&[&["--json"], &add[..], &["--expires", "30d"]].concat(), &line));
    assert!(good && kept["result"]["name"] == "OPENAI_API_KEY", "{kept}");
    assert_eq!(kept["result"]["hosts"], serde_json::json!(["api.openai.com", "*.example.org:443"]));

    let again = run(&add, &line);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("taken"), "{again:?}");
    assert!(run(&[&add[..], &["--replace"]].concat(), &line).status.success());

    let (_, list) = told(&run(&["--json", "secret", "list"], ""));
    let row = &list["result"][0];
    assert_eq!(
        (&row["name"], &row["source"], &row["effective"]),
        (&"OPENAI_API_KEY".into(), &"user".into(), &true.into())
    );
    let text = run(&["secret", "list"], "");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("OPENAI_API_KEY") && text.contains("never used") && text.contains("api.openai.com"),
        "{text}"
    );

    // What makes no sense says what to do, and is on the record.
    let head = host.ledger_head();
    for (words, input, expected) in [
        (vec!["secret", "add", "1BAD"], VALUE, "`name`: expected 1 to 128 characters"),
        (vec!["secret", "add", "A"], "", "standard input was empty"),
        (vec!["secret", "add", "A", "--host", "not a host"], VALUE, "expected a host like"),
        (vec!["secret", "add", "A", "--owner", "no-such-worktree"], VALUE, "there is no"),
        (vec!["secret", "add", "A", "--expires", "2001-01-01"], VALUE, "is over already"),
        (vec!["secret", "remove", "ABSENT"], "", ""),
    ] {
        let output = run(&words, input);
        assert!(!output.status.success(), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{words:?}: {output:?}");
    }
    assert!(host.written_since(head) >= 4);

    assert!(run(&["secret", "remove", "OPENAI_API_KEY"], "").status.success());
    assert!(client.secrets(None, None).unwrap().items.is_empty());
    said.extend_from_slice(host.log().as_bytes());
    assert!(!is_in(VALUE, &said), "{}", String::from_utf8_lossy(&said));
    host.stop();
    for (path, bytes) in every_file(host.place()) {
        assert!(!is_in(VALUE, &bytes), "{}", path.display());
    }
}

/// SEC-05: every role calls everything there is, and no answer holds a value.
#[test]
fn sec_05_no_role_and_no_route_tells_a_value() {
    let host = Host::builder().set("limits.requests_per_minute", "0").set("log.level", "trace").start();
    let stage = Stage::new(&host);
    let owner = &host.owner().client;
    owner.add_secret(&secret("OF_THE_DAEMON", VALUE, Some("daemon"))).unwrap();
    owner.add_secret(&secret("MINE", VALUE, None)).unwrap();
    let tree = stage.worktree();
    let session = stage.session(&Who { id: String::new(), client: owner.clone() });
    let artifact = stage.capability();
    owner.add_secret(&secret("OF_THE_WORKTREE", VALUE, Some(&tree))).unwrap();
    let reads: Vec<String> = crate::calls::described(&crate::calls::committed())
        .into_values()
        .filter(|one| one.method == "GET" && !["text/event-stream", "socket"].contains(&one.kind.as_str()))
        .map(|one| one.path)
        .collect();
    assert!(reads.len() > 15, "{}", reads.len());
    for role in ["viewer", "member", "admin", "owner"] {
        let who = stage.of_role(role);
        who.client.add_secret(&secret("MINE", VALUE, None)).unwrap();
        let more = ["/api/v1/secrets?owner=daemon".to_owned(), format!("/api/v1/secrets?worktree={tree}")];
        for path in reads.iter().chain(&more) {
            let there = [
                ("{worktree}", tree.as_str()),
                ("{repo}", &stage.repo),
                ("{user}", &who.id),
                ("{session}", &session),
                ("{kind}", "capability"),
                ("{artifact}", &artifact),
            ];
            let path = there.iter().fold(path.clone(), |path, (place, id)| path.replace(place, id));
            assert!(!path.contains('{'), "{path} names what is there");
            let mut answer = who.client.send("GET", &path, &[], Vec::new()).unwrap();
            let bytes = answer.body_mut().read_to_vec().unwrap();
            assert!(!is_in(VALUE, &bytes), "{role} {path}");
        }
        // Everything that does something, too; what it answers is read by the client and thrown away, so the log
        // and the record are looked at below.
        for call in CALLS
            .iter()
            .filter(|call| call.operation.starts_with("secrets_") || call.operation == "backup_create")
        {
            assert!(!is_final(call.operation));
            let caller = Who { id: who.id.clone(), client: who.client.clone() };
            drop((call.prepare)(&stage, &caller)(&caller.client));
        }
        // Asked for as a value, in every way one could think of.
        for path in ["/api/v1/secrets/daemon/OF_THE_DAEMON", "/api/v1/secrets/daemon/OF_THE_DAEMON/value"] {
            for method in ["GET", "POST", "PUT", "PATCH"] {
                let mut answer = who.client.send(method, path, &[], Vec::new()).unwrap();
                assert!(answer.status().is_client_error(), "{method} {path}");
                assert!(!is_in(VALUE, &answer.body_mut().read_to_vec().unwrap()), "{method} {path}");
            }
        }
    }
    let entries = host.ledger(&LedgerFilter { limit: Some(1_000), ..LedgerFilter::default() });
    assert!(
        entries.iter().any(|entry| entry.action == "secret.add" && entry.line.contains("OF_THE_WORKTREE"))
    );
    assert!(entries.iter().all(|entry| !is_in(VALUE, entry.line.as_bytes())));
    assert!(!is_in(VALUE, host.log().as_bytes()), "the log");
    let mut backup = Vec::new();
    std::io::copy(&mut owner.backup().unwrap(), &mut backup).unwrap();
    assert!(!is_in(VALUE, &backup), "a backup");
}

/// SEC-05: what counts, down to the environment of the daemon.
#[test]
fn sec_05_the_list_says_which_source_counts() {
    let host = Host::builder()
        .variable("PALISADE_SECRET_KEY", VALUE)
        .variable("PALISADE_SECRET_ONLY_THERE", VALUE)
        .start();
    let (owner, tree) = (&host.owner().client, Stage::new(&host).worktree());
    owner.add_secret(&secret("KEY", "of the daemon", Some("daemon"))).unwrap();
    owner.add_secret(&secret("KEY", "of the worktree", Some(&tree))).unwrap();
    owner.add_secret(&secret("KEY", "mine", None)).unwrap();
    let listed = |client: &Client, worktree: Option<&str>| -> Vec<(String, String, bool)> {
        let all = client.secrets(None, worktree).unwrap().items;
        all.into_iter().map(|one| (one.name, one.source, one.effective.unwrap())).collect()
    };
    let row = |name: &str, source: &str, counts| (name.to_owned(), source.to_owned(), counts);
    assert_eq!(
        listed(owner, Some(&tree)),
        [
            row("KEY", "user", true),
            row("KEY", "worktree", false),
            row("KEY", "daemon", false),
            row("KEY", "environment", false),
            row("ONLY_THERE", "environment", true),
        ]
    );
    owner.remove_secret(&host.owner().id, "KEY").unwrap();
    assert_eq!(listed(owner, Some(&tree))[0], row("KEY", "worktree", true));
    assert_eq!(listed(owner, None)[0], row("KEY", "daemon", true));
    owner.remove_secret("daemon", "KEY").unwrap();
    assert_eq!(listed(owner, None)[0], row("KEY", "environment", true));
    // A viewer sees the own ones and nothing of the installation's.
    let viewer = host.user("vic", "viewer");
    viewer.client.add_secret(&secret("MINE", VALUE, None)).unwrap();
    assert_eq!(listed(&viewer.client, None), [row("MINE", "user", true)]);
    assert_eq!(viewer.client.secrets(Some("daemon"), None).unwrap_err().status(), Some(403));
}

#[test]
fn sec_08_a_dry_run_lists_names_and_an_import_leaves_handles() {
    let host = Host::start();
    let client = &host.owner().client;
    let file = host.place().join("project.env");
    let text =
        format!("# the project\nexport API_TOKEN='{VALUE}'\nDB_PASSWORD=\"{VALUE} two\" # why\nPORT=8080\n");
    fs::write(&file, &text).unwrap();
    let path = file.to_str().unwrap();
    let dry = palisade(&host, client, &["secret", "import", path], "");
    let said = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(dry.status.success() && said.contains("API_TOKEN") && said.contains("DB_PASSWORD"), "{dry:?}");
    assert!(!is_in(VALUE, &dry.stdout) && said.contains("Nothing was changed"), "{said}");
    assert!(client.secrets(None, None).unwrap().items.is_empty());
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    let words = [
        "--json",
        "secret",
        "import",
        path,
        "--only",
        "API_TOKEN",
        "--only",
        "DB_PASSWORD",
        "--yes",
        "--rewrite",
    ];
    let done = palisade(&host, client, &words, "");
    let (good, document) = told(&done);
    assert!(good && document["result"]["rewritten"] == true, "{document}");
    let names: Vec<_> = client.secrets(None, None).unwrap().items.into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["API_TOKEN", "DB_PASSWORD"]);
    let left = fs::read_to_string(&file).unwrap();
    assert_eq!(
        left,
        "# the project\nexport API_TOKEN=secret://API_TOKEN\nDB_PASSWORD=secret://DB_PASSWORD # why\nPORT=8080\n"
    );
    // Handles are not taken for values.
    let (_, again) = told(&palisade(&host, client, &["--json", "secret", "import", path], ""));
    let names: Vec<_> =
        again["result"]["names"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["PORT"]);
    assert!(!is_in(VALUE, &done.stdout) && !is_in(VALUE, &done.stderr));
    let bad = host.place().join("bad.env");
    fs::write(&bad, format!("A=1\n{VALUE} no line\n")).unwrap();
    let refused = palisade(&host, client, &["secret", "import", bad.to_str().unwrap(), "--yes"], "");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("line 2") && !is_in(VALUE, said.as_bytes()), "{said}");
}

/// SEC-02: a program that prints the key, and nothing without one.
#[test]
fn sec_02_a_team_starts_with_a_key_from_a_program_and_not_without() {
    let mut host = Host::builder().set("mode", "team").stopped();
    let refused = host.start_daemon().unwrap_err();
    assert!(refused.contains("key.command") && refused.contains("PALISADE_MASTER_KEY"), "{refused}");
    assert!(!host.data().join("keyring").exists() && !host.data().join("store").exists());
    let program = host.place().join("print-key");
    let script = |body: &str| {
        fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    };
    let key = tests::master_key();
    host.set("key.command", &format!("{},show", program.display()));
    script("echo the-vault-is-shut-hunter2 >&2; exit 1");
    let refused = host.start_daemon().unwrap_err();
    assert!(refused.contains("gave no master key") && !refused.contains("hunter2"), "{refused}");
    script(&format!("[ \"$1\" = show ] && echo {key}"));
    host.start_daemon().unwrap();
    host.claim();
    host.owner().client.add_secret(&secret("KEY", VALUE, None)).unwrap();
    assert!(!host.place().join("master.key").exists(), "none was made");
    // The new key has no place of the daemon's own: it must be named.
    let refused = host.owner().client.rotate_keys(&api::RotateRequest::default()).unwrap_err();
    assert!(refused.to_string().contains("--new-key-file"), "{refused}");
    host.stop();
    script(&format!("echo {}", tests::master_key()));
    let refused = host.start_daemon().unwrap_err();
    assert!(refused.contains("the key does not open the store"), "{refused}");
}

/// SEC-02, SEC-14: a service whose credential is missing is sent to its unit and not to a file that it never had; what it
/// says at its start is kept by the journal, which names nobody's home.
#[test]
fn sec_02_a_service_without_its_credential_is_sent_to_its_unit() {
    use std::os::unix::fs::MetadataExt;
    let mut host = Host::start();
    host.stop();
    let (key, credentials) = (host.place().join("master.key"), host.place().join("credentials"));
    std::fs::create_dir(&credentials).unwrap();
    let journal = host.place().join("journal");
    let start = |as_service: bool| {
        let out = std::fs::File::create(&journal).unwrap();
        let meta = out.metadata().unwrap();
        let mut command = host.command("palisaded");
        command.arg("up").stdout(out.try_clone().unwrap()).stderr(out);
        if as_service {
            command.env("CREDENTIALS_DIRECTORY", &credentials);
            command.env("JOURNAL_STREAM", format!("{}:{}", meta.dev(), meta.ino()));
        }
        assert!(!command.status().unwrap().success());
        std::fs::read_to_string(&journal).unwrap()
    };
    let moved = credentials.join("elsewhere");
    std::fs::rename(&key, &moved).unwrap();
    let data = host.data().display().to_string();
    let said = start(false);
    assert!(said.contains(&key.display().to_string()) && said.contains(&data), "{said}");
    let said = start(true);
    assert!(said.contains("LoadCredential=") && said.contains("no key at `~/master.key`"), "{said}");
    assert!(said.contains("a store in `~/data`") && !said.contains(&data), "{said}");
    // One that is there and open to all is told by its name.
    let credential = credentials.join("palisade-master-key");
    std::fs::rename(&moved, &credential).unwrap();
    let closed = std::fs::metadata(&credential).unwrap().permissions();
    let mut open = closed.clone();
    std::os::unix::fs::PermissionsExt::set_mode(&mut open, 0o644);
    std::fs::set_permissions(&credential, open).unwrap();
    let said = start(true);
    assert!(
        said.contains("the systemd credential `palisade-master-key` cannot be used: others get at it"),
        "{said}"
    );
    assert!(!said.contains("chmod"), "{said}");
    std::fs::set_permissions(&credential, closed).unwrap();
    std::fs::rename(&credential, &key).unwrap();
    host.start_daemon().unwrap();
}
