//! A person who is asked, and what is learnt of a command.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ledger::Decision;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::world::{EVERYONE, PUBLIC, World};

/// A run on a terminal of its own, and the person in front of it.
struct Person {
    near: std::fs::File,
    run: Child,
    seen: String,
}

impl Person {
    fn starts(world: &World, options: &[&str], script: &str) -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let far = ioctl_tiocgptpeer(&near, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::io::ioctl_fionbio(&near, true).unwrap();
        let copy = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut arguments = vec!["run"];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", script]);
        let mut command = world.palisade(&arguments);
        command.stdin(copy(&far)).stdout(copy(&far)).stderr(copy(&far));
        Self { near: std::fs::File::from(near), run: command.spawn().unwrap(), seen: String::new() }
    }

    fn reads(&mut self) {
        let mut bytes = [0; 4096];
        if let Ok(got) = self.near.read(&mut bytes) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..got]));
        }
    }

    /// Waits until the terminal shows this since the last time.
    #[track_caller]
    fn sees(&mut self, text: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            self.reads();
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            assert!(Instant::now() < until, "`{text}` is not in: {}", self.seen);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Reads the question, and answers.
    #[track_caller]
    fn answers(&mut self, question: &str, answer: &str) {
        self.sees(question);
        self.sees("[n] ");
        std::thread::sleep(Duration::from_millis(700));
        self.near.write_all(answer.as_bytes()).unwrap();
    }

    /// The exit code.
    #[track_caller]
    fn ends(mut self) -> Option<i32> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            self.reads();
            if let Some(status) = self.run.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "it does not end: {}", self.seen);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn egr_20_a_person_is_asked_while_the_connection_waits() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let script = "curl -sS http://site.test/a; curl -fsS http://other.test/b && exit 9
                      curl -fsS http://other.test/c && exit 9; curl -sS http://site.test/d; echo the end";
        let mut person = Person::starts(&world, &["--ask"], script);
        person.sees("wants to reach site.test:80");
        // What was typed into the command is no answer, and nothing goes out before there is one.
        person.near.write_all(b"a\r").unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(server.asked(), Vec::<String>::new());
        person.near.write_all(b"session\r").unwrap();
        // What is refused is not asked about again.
        person.answers("wants to reach other.test:80", "n\r");
        person.sees("the end");
        assert_eq!(person.ends(), Some(0), "{who:?}");
        assert_eq!(server.asked(), ["GET /a HTTP/1.1", "GET /d HTTP/1.1"], "{who:?}");
        let answers: Vec<(Decision, String)> = world
            .entries("network.answer")
            .into_iter()
            .map(|entry| (entry.decision, entry.detail["answer"].clone()))
            .collect();
        assert_eq!(answers, [(Decision::Allowed, "session".into()), (Decision::Refused, "no".into())]);
        // The next run knows nothing of it.
        world.run(&[], "if curl -fsS -m 3 http://site.test/; then exit 1; fi").ok();
    }
}

#[test]
fn egr_20_once_is_once_and_always_is_remembered_and_listed() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let script = "curl -sS http://site.test/1; curl -sS http://site.test/2; curl -sS http://site.test/3; echo the end";
        let mut person = Person::starts(&world, &["--ask"], script);
        person.answers("wants to reach site.test:80", "o\r");
        person.answers("wants to reach site.test:80", "o\r");
        person.answers("wants to reach site.test:80", "always\r");
        person.sees("the end");
        assert_eq!(person.ends(), Some(0), "{who:?}");
        assert_eq!(server.asked().len(), 3, "{who:?}");
        // From now on it may, without being asked, and without a word on the command line.
        world.run(&[], "curl -fsS http://site.test/4").ok();
        let listed = world.palisade(&["profile", "remembered"]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("site.test:80") && listed.contains("/home/project"), "{listed}");
        assert!(world.palisade(&["profile", "forget", "site.test:80"]).status().unwrap().success());
        world.run(&[], "if curl -fsS -m 3 http://site.test/5; then exit 1; fi").ok();
        assert_eq!(server.asked().len(), 4, "{who:?}");
    }
}

#[test]
fn egr_20_a_rule_that_denies_and_an_address_that_is_private_are_never_asked_about() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let deny = "[[rule]]\nhost = \"other.test\"\nports = [80]\ndeny = true\n";
        world.file("deny.toml", deny);
        let script = "curl -fsS http://other.test/ && exit 9; curl -fsS http://localhost:80/ && exit 9
                      curl -fsS -m 3 -px 198.18.0.1:3128 http://host.palisade.local/ && exit 9
                      curl -fsS http://private.test/ && exit 9; echo the end";
        let rules = world.project().join("deny.toml");
        let mut person = Person::starts(&world, &["--ask", "--rules", rules.to_str().unwrap()], script);
        // Whoever allows the name gets it only if its address is a public one.
        person.answers("wants to reach private.test:80", "s\r");
        person.sees("the end");
        assert!(!person.seen.contains("wants to reach"), "{}", person.seen);
        assert_eq!(person.ends(), Some(0), "{who:?}");
        assert_eq!(server.asked(), Vec::<String>::new());
    }
}

#[test]
fn egr_20_whoever_quits_is_not_asked_again_and_without_a_terminal_nobody_is() {
    let world = World::new(EVERYONE[0]);
    let script =
        "curl -fsS http://site.test/ && exit 9; curl -fsS http://other.test/ && exit 9; echo the end";
    let mut person = Person::starts(&world, &["--ask"], script);
    person.answers("wants to reach site.test:80", "q\r");
    person.sees("the end");
    assert!(!person.seen.contains("wants to reach"), "{}", person.seen);
    assert_eq!(person.ends(), Some(0));
    let said = world.run(&["--ask"], "true");
    assert_eq!(said.code, Some(125), "{}", said.err);
    said.tells("--ask needs a terminal");
}

#[test]
fn egr_20_learning_writes_the_smallest_profile_and_it_is_enough() {
    for who in EVERYONE {
        let world = World::new(who);
        let plain = world.http(PUBLIC, 80);
        let secure = world.https(PUBLIC, &["site.test", "registry.npmjs.org"]);
        let script = "curl -fsS http://other.test/a/b >/dev/null; curl -fsS https://site.test/c?token=x >/dev/null
                      curl -fsS -X POST -d x https://site.test/d >/dev/null
                      curl -fsS https://registry.npmjs.org/left-pad >/dev/null; curl -fsS -m 3 http://private.test/ || true";
        world.run(&["--learn", "learnt"], script).ok().tells("palisade run --profile learnt");
        let path = world.home().join(".config/palisade/profiles/learnt.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        for part in
            ["presets = [\"npm-install\"]", "host = \"site.test\"", "[\"GET\", \"POST\"]", "[\"/a/b\"]"]
        {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
        assert!(!text.contains("token") && !text.contains("private.test"), "{text}");
        let before = (plain.asked().len(), secure.asked().len());
        world.run(&["--profile", "learnt"], script).ok();
        assert_eq!((plain.asked().len(), secure.asked().len()), (before.0 * 2, before.1 * 2), "{who:?}");
        let more = "if curl -fsS https://site.test/e || curl -fsS http://other.test/a; then exit 1; fi";
        world.run(&["--profile", "learnt"], more).ok();
        assert_eq!((plain.asked().len(), secure.asked().len()), (before.0 * 2, before.1 * 2), "{who:?}");
        // What is there is not replaced.
        let said = world.run(&["--learn", "learnt"], "true");
        assert_eq!(said.code, Some(125));
        said.tells("there is such a profile already");
    }
}
