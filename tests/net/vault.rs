//! Secrets from the vault of a daemon: used by a command, and never in it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::world::{EVERYONE, PUBLIC, Said, Who, World};

const SECRET: &str = "sk-Vm9ydG9uR2VoZWlt/bmlzIQzQ1Njc4XyZ0abcdEF";
const PASSWORD: &str = "a long password of the owner";
const FETCH: &str = "curl -sS -o /dev/null -w '%{http_code}\\n' -H \"x-key: $KEY\"";

/// A daemon of the person, in their internet.
pub struct Daemon<'a> {
    world: &'a World,
    pub child: Child,
    log: Arc<Mutex<String>>,
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl<'a> Daemon<'a> {
    /// Started, and owned by the person, who is signed in.
    pub fn start(world: &'a World) -> Self {
        Self::with(world, &[])
    }

    pub fn with(world: &'a World, options: &[&str]) -> Self {
        world.install("palisaded");
        let arguments: Vec<&str> =
            ["up", "--set", "log.level=trace"].iter().chain(options).copied().collect();
        let mut command = world.palisade(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::<Mutex<String>>::default();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    log.lock().unwrap().push_str(&(line + "\n"));
                }
            });
        }
        let daemon = Self { world, child, log };
        let secret = daemon.awaits(|log| {
            let (_, rest) = log.split_once("/setup?secret=")?;
            log.contains("Palisade is listening on ")
                .then(|| rest.split_whitespace().next().unwrap().to_owned())
        });
        let who = ["init", &secret, "--email", "a@example.org", "--name", "A", "--password-stdin"];
        daemon.types(&who, PASSWORD).ok();
        daemon
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    #[track_caller]
    fn awaits<T>(&self, found: impl Fn(&str) -> Option<T>) -> T {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = found(&self.log()) {
                return found;
            }
            assert!(Instant::now() < until, "{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs `palisade` with this on its standard input.
    pub fn types(&self, arguments: &[&str], input: &str) -> Said {
        Said::of(&tests::fed(self.world.palisade(arguments).stdin(Stdio::piped()), input))
    }

    fn keeps(&self, name: &str, hosts: &[&str]) {
        let mut arguments = vec!["secret", "add", name];
        hosts.iter().for_each(|host| arguments.extend(["--host", host]));
        self.types(&arguments, SECRET).ok();
    }

    /// What the daemon's ledger has of lending, as its lines.
    pub fn loans(&self) -> Vec<serde_json::Value> {
        let said = self.types(&["--json", "ledger", "search", "--action", "secret.lease"], "").ok();
        let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let items = document["result"].as_array().unwrap_or_else(|| panic!("{document}")).clone();
        items.iter().map(|one| serde_json::from_str(one["line"].as_str().unwrap()).unwrap()).collect()
    }
}

/// Everything below a folder, in one.
pub fn everything(folder: &std::path::Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => all.extend(everything(&entry.path())),
            kind if kind.is_file() => all.extend(std::fs::read(entry.path()).unwrap_or_default()),
            _ => {}
        }
    }
    all
}

pub fn is_in(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn egr_13_a_secret_of_the_vault_reaches_its_host_and_is_nowhere_else() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test"]);
        let daemon = Daemon::start(&world);
        daemon.keeps("KEY", &["site.test"]);
        let script = format!(
            "echo \"word $KEY\"
             {FETCH} https://site.test/
             env > all; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline >> all 2>/dev/null || true
             find / -xdev -type f -size -200k -newer /proc/1/stat 2>/dev/null | head -200 | xargs cat >> all 2>/dev/null || true
             touch ready; while ! [ -e go ]; do sleep 0.05; done"
        );
        let arguments = ["run", "--secret", "KEY", "--", "sh", "-ec", &script];
        let child = world.palisade(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        world.awaits("ready");
        // While it runs: in no arguments, and in no environment of any process of the run.
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            for name in ["cmdline", "environ"] {
                let told = std::fs::read(entry.path().join(name)).unwrap_or_default();
                assert!(!is_in(&told, SECRET), "{who:?} {:?}/{name}", entry.path());
            }
        }
        world.file("go", "");
        let said = Said::of(&child.wait_with_output().unwrap()).ok();
        let (word, code) = said.out.strip_prefix("word ").unwrap().split_once('\n').unwrap();
        assert!(word.starts_with("sk-") && word.len() == SECRET.len() && word != SECRET, "{word}");
        assert_eq!(code, "200\n", "{who:?} {}", said.err);
        let seen = server.seen();
        assert_eq!(seen.iter().map(|one| one.field("x-key").unwrap()).collect::<Vec<_>>(), [SECRET]);
        let inside = std::fs::read(world.project().join("all")).unwrap();
        assert!(is_in(&inside, word) && !is_in(&inside, SECRET));
        // Nor on the disk, in the log, or on the record, which says who was lent what, for which run and hosts.
        let loans = daemon.loans();
        let decisions: Vec<&str> = loans.iter().map(|one| one["decision"].as_str().unwrap()).collect();
        assert_eq!(decisions.len(), 2, "{loans:?}");
        assert!(decisions.contains(&"allowed") && decisions.contains(&"done"), "{loans:?}");
        let opened = loans.iter().find(|one| one["decision"] == "allowed").unwrap();
        assert!(opened["who"].as_str().unwrap().starts_with("usr_"), "{opened}");
        let detail = &opened["detail"];
        assert_eq!((&detail["name"], &detail["hosts"]), (&"KEY".into(), &"site.test:443".into()), "{opened}");
        let run = detail["consumer"].as_str().unwrap();
        assert!(world.entries("sandbox.launch").iter().any(|entry| entry.resource == run), "{opened}");
        assert!(!daemon.log().contains(SECRET) && !format!("{loans:?}").contains(SECRET));
        assert!(!is_in(&everything(&world.home()), SECRET));
    }
}

#[test]
fn sec_06_a_secret_that_is_bound_in_the_vault_is_lent_for_no_other_host() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test", "other.test"]);
        let daemon = Daemon::start(&world);
        daemon.keeps("KEY", &["site.test"]);
        let fetch = format!("{FETCH} https://other.test/");
        let said = world.run(&["--secret", "KEY=other.test"], &fetch);
        assert_eq!(said.code, Some(125), "{}", said.err);
        said.tells("is bound to `site.test`, so it is not lent for `other.test:443`");
        let loans = daemon.loans();
        let failed = loans.iter().find(|one| one["decision"] == "failed").unwrap();
        assert!(failed["cause"].as_str().unwrap().contains("is bound to `site.test`"), "{failed}");
        // What goes to its host goes to no other, whatever else is allowed.
        let said = world.run(&["--secret", "KEY", "--preset", "npm-install"], &format!("{fetch} || true"));
        assert!(!said.out.contains("200"), "{} {}", said.out, said.err);
        let said = world.run(&["--secret", "vault:KEY", "--allow", "other.test:80"], &fetch);
        assert!(!said.out.contains("200"), "{} {}", said.out, said.err);
        assert!(server.seen().iter().all(|one| one.field("x-key") != Some(SECRET)));
    }
}

#[test]
fn sec_05_the_environment_goes_before_the_vault_unless_somebody_insists() {
    const HERE: &str = "sk-SGllclN0ZWh0RWluQW5kZXJlcjEyMzQ1Njc4";
    let world = World::new(Who::User(24_001));
    let server = world.https(PUBLIC, &["site.test"]);
    let daemon = Daemon::start(&world);
    daemon.keeps("KEY", &[]);
    let fetch = format!("{FETCH} https://site.test/");
    let got = |variables: &[(&str, &str)], secret: &str| {
        let said = world.run_having(variables, &["--secret", secret], &fetch);
        let last = server.seen().last().and_then(|one| one.field("x-key").map(str::to_owned));
        (said, last.unwrap_or_default())
    };
    let set = [("KEY", HERE)];
    for (variables, secret, expected) in [
        (&set[..], "KEY=site.test", HERE),
        (&[][..], "KEY=site.test", SECRET),
        (&set[..], "vault:KEY=site.test", SECRET),
        (&set[..], "env:KEY=site.test", HERE),
    ] {
        let (said, key) = got(variables, secret);
        assert_eq!((said.out.as_str(), key.as_str()), ("200\n", expected), "{secret}: {}", said.err);
    }
    let before = server.seen().len();
    let (said, _) = got(&[], "env:KEY=site.test");
    assert_eq!(said.code, Some(125));
    said.tells("cannot lend `KEY`, because it is not set here; set it, and run this again");
    let options = ["--secret", "env:KEY=site.test", "--secret", "vault:KEY=site.test"];
    world.run_having(&set, &options, &fetch).tells("its value here and its value in the vault differ");
    assert_eq!(server.seen().len(), before);
}

#[test]
fn sec_05_what_cannot_be_had_from_the_vault_says_why_and_what_to_do() {
    let world = World::new(Who::User(24_001));
    let server = world.https(PUBLIC, &["site.test"]);
    let refused = |options: &[&str], told: &[&str]| {
        let said = world.run(options, "true");
        assert_eq!(said.code, Some(125), "{options:?}: {}", said.err);
        told.iter().for_each(|text| assert!(said.err.contains(text), "{options:?}: {}", said.err));
    };
    let bound = ["--secret", "KEY=site.test"];
    refused(&bound, &["it is not set here, and you are not signed in", "palisade login"]);
    refused(&["--secret", "vault:KEY=site.test"], &["because you are not signed in"]);
    let mut daemon = Daemon::start(&world);
    refused(&bound, &["it is not set here, and the vault has no such secret", "palisade secret add KEY"]);
    refused(&["--secret", "KEY"], &["it is not set here, and the vault has no such secret"]);
    daemon.keeps("KEY", &[]);
    refused(
        &["--secret", "KEY"],
        &["nothing says where it goes; say it behind the name, as `NAME=HOST[:PORT]`"],
    );
    daemon.keeps("WIDE", &["*.test"]);
    refused(
        &["--secret", "WIDE"],
        &["the vault binds it to *.test; name one of these hosts, as `NAME=HOST[:PORT]`"],
    );
    daemon.types(&["secret", "add", "SHORT"], "tiny").ok();
    refused(&["--secret", "SHORT=site.test"], &["its value is too short"]);
    daemon.types(&["secret", "add", "LINES"], "a value\nwith: a header").ok();
    refused(&["--secret", "LINES=site.test"], &["has a line end or another control character"]);
    daemon.types(&["secret", "add", "OLD", "--expires", "1s"], SECRET).ok();
    std::thread::sleep(Duration::from_millis(1_100));
    refused(&["--secret", "OLD=site.test"], &["`OLD`", "has expired; add it again"]);
    // A value that does not fit is not kept lent either.
    daemon.types(&["secret", "remove", "KEY"], "").ok();
    refused(&bound, &["the vault has no such secret"]);
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    refused(&bound, &["it is not set here, and `http://127.0.0.1:7717` does not answer", "palisade up"]);
    assert!(server.seen().is_empty());
}

/// Whether a request that comes again and again is answered so.
fn again(world: &World, name: &str, script: &str) -> Child {
    // One that is on its way when the secret is taken back is cut off, which is no answer.
    let script = format!("while ! [ -e {name} ]; do {script} >> codes || true; sleep 0.05; done");
    let arguments = ["run", "--secret", "KEY", "--", "sh", "-ec", &script];
    world.palisade(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[track_caller]
fn until(world: &World, found: impl Fn(&str) -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let codes = std::fs::read_to_string(world.project().join("codes")).unwrap_or_default();
        if found(&codes) {
            return;
        }
        assert!(Instant::now() < until, "{codes}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn sec_06_what_was_lent_ends_with_the_secret_and_with_the_daemon() {
    for who in EVERYONE {
        for ends in ["secret removed", "daemon killed"] {
            let world = World::new(who);
            let server = world.https(PUBLIC, &["site.test"]);
            let mut daemon = Daemon::start(&world);
            daemon.keeps("KEY", &["site.test"]);
            let child = again(&world, "over", &format!("{FETCH} https://site.test/"));
            until(&world, |codes| codes.contains("200"));
            match ends {
                "secret removed" => drop(daemon.types(&["secret", "remove", "KEY"], "").ok()),
                _ => {
                    daemon.child.kill().unwrap();
                    daemon.child.wait().unwrap();
                }
            }
            until(&world, |codes| codes.contains("403"));
            world.file("over", "");
            let said = Said::of(&child.wait_with_output().unwrap()).ok();
            let said = said.tells("`KEY` is not lent any more");
            let codes = std::fs::read_to_string(world.project().join("codes")).unwrap();
            let after = codes.split_once("403").unwrap().1;
            assert!(!after.contains("200"), "{who:?} {ends}: {codes} {}", said.err);
            assert_eq!(world.entries("network.taken_back").len(), 1, "{who:?} {ends}");
            assert!(server.seen().iter().all(|one| one.field("x-key") == Some(SECRET)));
            // Nothing is lent after it, and a new run says why.
            world.run(&["--secret", "KEY"], "true").tells("cannot lend `KEY`, because it is not set here");
        }
    }
}

#[test]
fn sec_06_a_lease_ends_with_its_run_also_when_that_is_killed() {
    let world = World::new(Who::User(24_001));
    let _server = world.https(PUBLIC, &["site.test"]);
    let daemon = Daemon::start(&world);
    daemon.keeps("KEY", &["site.test"]);
    // The daemon's own ends of sockets that are no connections over a network.
    let lines = || {
        let pid = daemon.child.id();
        let local = std::fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap();
        let local: Vec<String> = local
            .lines()
            .filter_map(|line| line.split_whitespace().nth(6))
            .map(|inode| format!("socket:[{inode}]"))
            .collect();
        let all = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let is_local = |to: std::path::PathBuf| local.iter().any(|one| to.as_os_str() == one.as_str());
        all.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(is_local)).count()
    };
    let rest = lines();
    let settles = |expected: usize| {
        let until = Instant::now() + Duration::from_secs(30);
        while lines() != expected {
            assert!(Instant::now() < until, "{} lines, not {expected}", lines());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut child = again(&world, "over", &format!("{FETCH} https://site.test/"));
    until(&world, |codes| codes.contains("200"));
    settles(rest + 1);
    child.kill().unwrap();
    child.wait().unwrap();
    settles(rest);
    world.run(&["--secret", "KEY"], "true").ok();
    settles(rest);
}

#[test]
fn egr_13_an_agent_that_is_known_has_its_key_from_the_vault() {
    let world = World::new(Who::User(24_001));
    let server = world.https(PUBLIC, &["api.anthropic.com"]);
    let daemon = Daemon::start(&world);
    let ask = "curl -sS -o /dev/null -w '%{http_code}\\n' -H \"x-api-key: $ANTHROPIC_API_KEY\" https://api.anthropic.com/v1/models";
    // The name of the command says what it needs.
    let bin = world.home().join("bin");
    world.keep(&bin.join("claude"), &format!("#!/bin/sh\n{ask}\n"));
    std::fs::set_permissions(bin.join("claude"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let run = || {
        let ro = bin.display().to_string();
        let mut command = world.palisade_having(&[("PATH", &path)], &["run", "--ro", &ro, "--", "claude"]);
        Said::of(&command.output().unwrap())
    };
    daemon.keeps("ANTHROPIC_API_KEY", &["elsewhere.test"]);
    let said = run();
    assert!(server.seen().iter().all(|one| one.field("x-api-key") != Some(SECRET)), "{}", said.err);
    daemon
        .types(&["secret", "add", "ANTHROPIC_API_KEY", "--host", "*.anthropic.com", "--replace"], SECRET)
        .ok();
    let said = run().ok();
    assert_eq!(said.out, "200\n", "{}", said.err);
    assert_eq!(server.seen().last().unwrap().field("x-api-key"), Some(SECRET));
}

#[test]
fn sec_06_the_daemon_of_another_user_lends_nothing_to_a_run() {
    // Root's daemon, and somebody else who has a key for it.
    let world = World::new(Who::Root);
    let _server = world.https(PUBLIC, &["site.test"]);
    let daemon = Daemon::start(&world);
    daemon.keeps("KEY", &["site.test"]);
    let key = daemon.types(&["--json", "key", "create", "k", "--scope", "admin"], "").ok();
    let key: serde_json::Value = serde_json::from_str(&key.out).unwrap();
    let key = key["result"]["secret"].as_str().unwrap_or_else(|| panic!("{key}")).to_owned();
    let home = world.folder.path().join("other");
    for path in [&home, &home.join("project")] {
        std::fs::create_dir(path).unwrap();
        std::os::unix::fs::chown(path, Some(24_001), Some(24_001)).unwrap();
    }
    let mut other = world.inside("setpriv");
    other.args([
        "--reuid",
        "24001",
        "--regid",
        "24001",
        "--clear-groups",
        "--",
        "env",
        "--ignore-environment",
    ]);
    other.arg(format!("--chdir={}/project", home.display())).arg(format!("HOME={}", home.display()));
    other.args(["PATH=/usr/bin:/bin", &format!("PALISADE_API_KEY={key}")]);
    other.arg(world.folder.path().join("palisade")).args(["run", "--secret", "KEY=site.test", "--", "true"]);
    let said = Said::of(&other.output().unwrap());
    assert_eq!(said.code, Some(125));
    said.tells("nobody of the user that this daemon runs as listens on `line`");
    let loans = daemon.loans();
    assert_eq!(loans.len(), 1, "{loans:?}");
    assert_eq!(loans[0]["decision"], "refused", "{loans:?}");
}
