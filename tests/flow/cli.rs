//! The client at work: what a person and a script see.

use std::process::{Command, Output};

use tests::{Host, PASSWORD};

struct Cli<'a>(&'a Host);

impl Cli<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.0.command("palisade");
        command.args(["--url", self.0.base()]).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn with_input(&self, words: &[&str], input: &str) -> Output {
        tests::fed(&mut self.command(words), input)
    }

    /// The result of a command that must succeed.
    fn json(&self, words: &[&str]) -> serde_json::Value {
        let mut all = vec!["--json"];
        all.extend(words);
        let output = self.run(&all);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success() && document["ok"] == true, "{words:?}: {document}");
        document["result"].clone()
    }
}

fn signed_in(host: &Host) -> Cli<'_> {
    let cli = Cli(host);
    let login = cli
        .with_input(&["login", "--email", "owner@example.org", "--password-stdin"], &format!("{PASSWORD}\n"));
    assert!(login.status.success(), "{}", String::from_utf8_lossy(&login.stderr));
    cli
}

#[test]
fn aut_14_the_daily_path_works_from_a_terminal() {
    let host = Host::start();
    let cli = signed_in(&host);
    assert_eq!(cli.json(&["whoami"])["user"]["role"], "owner");
    let repo = cli.json(&["repo", "add", "--no-fetch", "demo", "https://forge.example/a/b"]);
    let made = cli.json(&["worktree", "create", "demo", "one", "--tier", "view", "--about", "try it"]);
    assert_eq!((&made["repo"], &made["tier"]), (&repo["id"], &"view".into()));
    assert_eq!(cli.json(&["worktree", "show", "one"])["id"], made["id"]);
    let added = cli.with_input(
        &["--json", "user", "add", "--email", "bo@example.org", "--name", "Bo", "--password-stdin"],
        PASSWORD,
    );
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stdout));
    assert_eq!(cli.json(&["user", "show", "bo@example.org"])["role"], "member");
    cli.json(&["worktree", "add-owner", "one", "bo@example.org"]);
    assert_eq!(cli.json(&["worktree", "show", "one"])["owners"].as_array().unwrap().len(), 2);
    let answer = cli.json(&[
        "policy",
        "explain",
        "--user",
        "bo@example.org",
        "--action",
        "worktree.delete",
        "--resource",
        made["id"].as_str().unwrap(),
    ]);
    assert_eq!(answer["decision"], "allow", "{answer}");
    assert_eq!(answer["policies"][0]["id"], "worktree-owners");
    let key = cli.json(&["key", "create", "ci", "--scope", "runs:read"]);
    let used = cli
        .command(&["--json", "whoami"])
        .env("PALISADE_API_KEY", key["secret"].as_str().unwrap())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&used.stdout).contains("\"via\":\"key\""));
    cli.json(&["key", "revoke", key["key"]["id"].as_str().unwrap()]);
    assert_eq!(cli.json(&["ledger", "verify"])["verdict"], "intact");
    assert!(!cli.json(&["ledger", "search", "--action", "worktree.create"]).as_array().unwrap().is_empty());
    assert_eq!(cli.json(&["status"])["status"]["store"], "sqlite");
    cli.json(&["logout"]);
    let after = cli.run(&["whoami"]);
    assert_eq!(after.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&after.stderr).contains("palisade login"), "it says what to do next");
}

#[test]
fn aut_14_a_ledger_is_checked_elsewhere() {
    let host = Host::start();
    let cli = signed_in(&host);
    let copy = host.place().join("copy");
    let trust = host.place().join("trust.json");
    cli.json(&["ledger", "export", copy.to_str().unwrap()]);
    std::fs::write(&trust, cli.run(&["ledger", "trust"]).stdout).unwrap();
    let verify = |words: &[&str]| {
        Command::new(tests::program("palisade-verify")).args(words).output().unwrap().status.code()
    };
    let (dir, root) = (copy.to_str().unwrap(), trust.to_str().unwrap());
    assert_eq!(verify(&[dir, "--trust", root]), Some(0));
    assert_eq!(cli.run(&["ledger", "verify", "--dir", dir, "--trust", root]).status.code(), Some(0));
    let segment = copy.join("segments/00000001.seg");
    let changed = std::fs::read_to_string(&segment).unwrap().replacen("signin.login", "signin.logim", 1);
    std::fs::write(&segment, changed).unwrap();
    assert_eq!(verify(&[dir, "--trust", root]), Some(1));
    assert_eq!(cli.run(&["ledger", "verify", "--dir", dir, "--trust", root]).status.code(), Some(1));
    std::fs::write(&trust, "{\"keys\":[]}").unwrap();
    assert_eq!(verify(&[dir, "--trust", root]), Some(2), "what cannot be checked is not called tampered");
}

#[test]
fn aut_14_nothing_hangs_or_asks_without_a_terminal() {
    let host = Host::start();
    let cli = Cli(&host);
    for words in [
        &["login"][..],
        &["login", "--email", "a@b.c"],
        &["init", "pbs_x"],
        &["init", "pbs_x", "--email", "a@b.c", "--name", "A"],
    ] {
        let output = cli.run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("there is no terminal"), "{words:?}");
    }
    assert_eq!(cli.run(&["worktree", "lst"]).status.code(), Some(2));
    let usage = cli.run(&["--json", "worktree", "lst"]);
    let document: serde_json::Value = serde_json::from_slice(&usage.stdout).unwrap();
    assert_eq!((usage.status.code(), &document["error"]["code"]), (Some(2), &"usage".into()));
    let away = host
        .command("palisade")
        .args(["--url", "http://127.0.0.1:1", "login", "--email", "a@b.c", "--password-stdin"])
        .output();
    assert_eq!(away.unwrap().status.code(), Some(2), "an empty standard input is said to be empty");
}

#[test]
fn aut_14_an_unreachable_daemon_is_named_with_the_remedy() {
    let host = Host::builder().stopped();
    let output = host
        .command("palisade")
        .env("PALISADE_API_KEY", "pal_x")
        .args(["--url", "http://127.0.0.1:1", "status"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("palisade up"));
}

#[test]
fn a_token_goes_only_to_the_daemon_that_gave_it() {
    let host = Host::start();
    let _ = signed_in(&host);
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let url = format!("http://{}", elsewhere.local_addr().unwrap());
    let output = host.command("palisade").args(["--url", &url, "whoami"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(elsewhere.accept().is_err(), "nobody called there");
}

#[test]
fn credentials_are_private_and_a_wider_file_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::start();
    let cli = signed_in(&host);
    let file = host.place().join("credentials.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = cli.run(&["whoami"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("chmod 600"));
}

#[test]
fn aut_15_the_configuration_is_shown_with_its_origin_and_without_secrets() {
    let host = Host::builder().stopped();
    std::fs::write(host.place().join("config.toml"), "[store]\nurl = \"postgres://u:hunter2hunter2@h/d\"\n")
        .unwrap();
    let output = host.command("palisade").args(["--json", "config", "show"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["result"]["store.url"]["value"], "***");
    assert!(document["result"]["store.url"]["origin"].as_str().unwrap().ends_with("config.toml:2"));
    assert!(!text.contains("hunter2"));
    std::fs::write(host.place().join("config.toml"), "\n\nmod = \"solo\"\n").unwrap();
    let output = host.command("palisade").args(["config", "show"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("config.toml:3: unknown key `mod`"));
}

#[test]
fn aut_15_the_places_told_are_those_that_are_used() {
    let host = Host::builder().stopped();
    let told = |variables: &[(&str, &str)]| -> serde_json::Value {
        let mut command = host.command("palisade");
        let output =
            command.args(["--json", "config", "path"]).envs(variables.iter().copied()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let place = |name: &str| serde_json::Value::from(host.place().join(name).to_str().unwrap());
    let usual = told(&[])["result"].clone();
    for (name, file) in [
        ("config", "config.toml"),
        ("data", "data"),
        ("credentials", "credentials.toml"),
        ("master_key", "master.key"),
    ] {
        assert_eq!(usual[name], place(file), "a path is no secret");
    }
    let file = host.place().join("config.toml");
    std::fs::write(&file, "data_dir = \"elsewhere\"\n[key]\nfile = \"/run/keys/palisade\"\n").unwrap();
    let named = told(&[])["result"].clone();
    assert_eq!((&named["data"], &named["master_key"]), (&place("elsewhere"), &"/run/keys/palisade".into()));
    // What is stronger than the file is stronger here too, and a key that is given is in no file.
    let given =
        told(&[("PALISADE_DATA_DIR", "/srv/palisade"), ("PALISADE_MASTER_KEY", &tests::master_key())]);
    assert_eq!(given["result"]["data"], "/srv/palisade");
    assert_eq!(given["result"]["master_key"], serde_json::Value::Null);
    std::fs::write(&file, "mod = \"solo\"\n").unwrap();
    let refused = told(&[]);
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(refused["ok"] == false && why.contains("config.toml:1: unknown key `mod`"), "{refused}");

    // The daemon really goes there.
    std::fs::write(&file, "data_dir = \"elsewhere\"\n[key]\nfile = \"the.key\"\n").unwrap();
    let key = host.place().join("the.key");
    std::fs::write(&key, tests::master_key()).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let told = told(&[])["result"].clone();
    let mut host = host;
    host.start_daemon().unwrap();
    assert!(std::path::Path::new(told["data"].as_str().unwrap()).join("store/palisade.db").exists());
    assert_eq!(told["master_key"], key.to_str().unwrap());
    assert!(!host.place().join("master.key").exists() && !host.data().exists());
}

#[test]
fn aut_14_a_password_is_changed_without_a_terminal() {
    let host = Host::start();
    let cli = signed_in(&host);
    let words = ["account", "password", "--password-stdin"];
    let alone = cli.run(&["account", "password"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&alone.stderr).contains("use --password-stdin"));
    let head = host.ledger_head();
    assert_eq!(
        cli.with_input(&words, &format!("{PASSWORD}\n")).status.code(),
        Some(2),
        "the new one is missing"
    );
    assert_eq!(host.ledger_head(), head, "nothing was asked of the daemon");
    let new = "another long password";
    assert_eq!(cli.with_input(&words, &format!("not it, really\n{new}\n")).status.code(), Some(1));
    assert_eq!(host.written_since(head), 1, "a refusal is one entry");
    let changed = cli.with_input(&words, &format!("{PASSWORD}\n{new}\n"));
    assert!(changed.status.success(), "{}", String::from_utf8_lossy(&changed.stderr));
    assert!(!host.place().join("credentials.toml").exists(), "every login ended, also this one");
    let login = ["login", "--email", "owner@example.org", "--password-stdin"];
    assert_eq!(cli.with_input(&login, PASSWORD).status.code(), Some(1));
    assert!(cli.with_input(&login, new).status.success());
}

/// LED-09 and AUT-14: what the API can be asked, the command line can ask.
#[test]
fn aut_14_the_ledger_is_searched_by_time() {
    let host = Host::start();
    let cli = signed_in(&host);
    let search = |more: &[&str]| -> Vec<String> {
        let mut words = vec!["ledger", "search", "--action", "repo.create", "--decision", "done"];
        words.extend(more);
        let found = cli.json(&words);
        found.as_array().unwrap().iter().map(|entry| entry["resource"].as_str().unwrap().to_owned()).collect()
    };
    let first = host.repo("first");
    // A time is told to the second; what follows is in another one.
    let second = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let begun = second();
    crate::gateway_wire::until("the next second", || second() > begun);
    let newer = host.repo("newer");
    let entry = &cli.json(&["ledger", "search", "--resource", &newer, "--decision", "allowed"])[0];
    let at = entry["at"].as_i64().unwrap() / 1_000;
    let date = Command::new("date").args(["-u", "-d", &format!("@{at}"), "+%Y-%m-%dT%H:%M:%SZ"]).output();
    let time = String::from_utf8(date.unwrap().stdout).unwrap().trim().to_owned();
    assert_eq!(search(&["--since", &time]), std::slice::from_ref(&newer));
    assert_eq!(search(&["--until", &time]), std::slice::from_ref(&first));
    assert_eq!(search(&["--since", "1h"]), [newer.clone(), first.clone()]);
    assert_eq!(search(&["--since", "2h", "--until", "1h"]), [""; 0]);
    assert_eq!(search(&["--since", "2026-01-01", "--until", "2200-01-01T00:00:00+01:00"]), [newer, first]);
    for bad in ["yesterday", "2026-11-31", "2026-11-15T09:00:00"] {
        let output = cli.run(&["--json", "ledger", "search", "--since", bad]);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"usage".into()), "{bad}");
    }
}

/// IDN-18: an id that could be several is listed, never guessed, and the list is short.
#[test]
fn idn_18_an_ambiguous_beginning_of_an_id_lists_at_most_ten() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let cli = signed_in(&host);
    for n in 0..12 {
        let body = api::CreateUserRequest {
            email: format!("u{n}@example.org"),
            name: format!("U{n}"),
            role: "member".into(),
            password: None,
            // A hash is kept as it is, which is quicker than making one.
            bcrypt: Some(crate::calls::hash()),
        };
        host.owner().client.create_user(&body).unwrap();
    }
    let people = host.owner().client.users(Some("usr_"), None, Some(100)).unwrap().items;
    assert_eq!(people.len(), 13);
    for words in
        [&["user", "show", "usr_"][..], &["user", "delete", "usr_"], &["key", "list", "--user", "usr_"]]
    {
        let head = host.ledger_head();
        let output = cli.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("`usr_` could be any of 13"), "{words:?}: {said}");
        let named = people.iter().filter(|one| said.contains(&one.id)).count();
        assert_eq!((named, said.lines().count()), (10, 11), "{words:?}: {said}");
        assert_eq!(host.ledger_head(), head, "nothing was done: {words:?}");
    }
    // What only one has is enough.
    let one = people.first().unwrap();
    assert_eq!(cli.json(&["user", "show", one.id.get(..20).unwrap()])["email"], one.email.as_str());
}

#[test]
fn completions_and_the_manual_are_printed() {
    let host = Host::builder().stopped();
    for words in [&["completions", "bash"][..], &["completions", "zsh"], &["completions", "fish"], &["man"]] {
        let output = host.command("palisade").args(words).output().unwrap();
        assert!(output.status.success() && output.stdout.len() > 1_000, "{words:?}");
    }
}
