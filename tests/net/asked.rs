//! A person who is asked, and what is learnt of a command.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ledger::Decision;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::world::{EVERYONE, PRIVATE, PUBLIC, World};

/// A run on a terminal of its own, and the person in front of it.
struct Person {
    near: std::fs::File,
    run: Child,
    seen: String,
}

impl Person {
    fn starts(world: &World, options: &[&str], script: &str) -> Self {
        Self::starts_with(world, options, script, None)
    }

    /// The same with standard output elsewhere.
    fn starts_with(world: &World, options: &[&str], script: &str, out: Option<Stdio>) -> Self {
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
        command.stdin(copy(&far)).stdout(out.unwrap_or_else(|| copy(&far))).stderr(copy(&far));
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

    /// Waits until the terminal shows this, and not the other before it.
    #[track_caller]
    fn sees_first(&mut self, text: &str, other: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.seen.contains(text) {
            self.reads();
            assert!(Instant::now() < until, "`{text}` is not in: {}", self.seen);
            std::thread::sleep(Duration::from_millis(10));
        }
        let before = self.seen.split(text).next().unwrap_or_default();
        assert!(!before.contains(other), "`{other}` is in: {before}");
    }

    /// Reads the question, and answers.
    #[track_caller]
    fn answers(&mut self, destination: &str, answer: &str) {
        self.sees("wants to reach");
        self.sees(&format!("    {destination}\r\n"));
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
        person.sees("    site.test:80\r\n");
        // What was typed into the command is no answer, and nothing goes out before there is one.
        person.near.write_all(b"a\r").unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(server.asked(), Vec::<String>::new());
        person.near.write_all(b"session\r").unwrap();
        // What is refused is not asked about again.
        person.answers("other.test:80", "n\r");
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
        person.answers("site.test:80", "o\r");
        person.answers("site.test:80", "o\r");
        person.answers("site.test:80", "always\r");
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
fn egr_20_a_rule_that_denies_is_never_asked_about_and_a_yes_opens_no_private_address() {
    for who in EVERYONE {
        let world = World::new(who);
        let (server, private) = (world.http(PUBLIC, 80), world.http(PRIVATE, 80));
        let deny = "[[rule]]\nhost = \"other.test\"\nports = [80]\ndeny = true\n";
        world.file("deny.toml", deny);
        let script = "curl -fsS http://other.test/ && exit 9; curl -fsS http://localhost:80/ && exit 9
                      curl -fsS -m 3 -px 198.18.0.1:3128 http://host.palisade.local/ && exit 9
                      curl -fsS http://private.test/ && exit 9; echo the end";
        let rules = world.project().join("deny.toml");
        let mut person = Person::starts(&world, &["--ask", "--rules", rules.to_str().unwrap()], script);
        // Whoever allows the name gets it only if its address is a public one.
        person.answers("private.test:80", "s\r");
        person.sees_first("the end", "wants to reach");
        assert_eq!(person.ends(), Some(0), "{who:?}");
        assert_eq!((server.asked(), private.asked()), (Vec::new(), Vec::new()));
    }
}

#[test]
fn egr_20_whoever_quits_is_not_asked_again_and_without_a_terminal_nobody_is() {
    let world = World::new(EVERYONE[0]);
    let script =
        "curl -fsS http://site.test/ && exit 9; curl -fsS http://other.test/ && exit 9; echo the end";
    let mut person = Person::starts(&world, &["--ask"], script);
    person.answers("site.test:80", "q\r");
    person.sees_first("the end", "wants to reach");
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
            ["presets = [\"npm-install\"]", "host = \"site.test\"", "[\"/c\"]", "[\"/d\"]", "[\"/a/b\"]"]
        {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
        assert!(!text.contains("token") && !text.contains("private.test"), "{text}");
        let before = (plain.asked().len(), secure.asked().len());
        world.run(&["--profile", "learnt"], script).ok();
        assert_eq!((plain.asked().len(), secure.asked().len()), (before.0 * 2, before.1 * 2), "{who:?}");
        let more = "if curl -fsS https://site.test/e || curl -fsS -X POST -d x https://site.test/c || curl -fsS http://other.test/a; then exit 1; fi";
        world.run(&["--profile", "learnt"], more).ok();
        assert_eq!((plain.asked().len(), secure.asked().len()), (before.0 * 2, before.1 * 2), "{who:?}");
        // What is there is not replaced.
        let said = world.run(&["--learn", "learnt"], "true");
        assert_eq!(said.code, Some(125));
        said.tells("there is such a profile already");
    }
}

#[test]
fn egr_20_nothing_that_a_command_prints_changes_what_is_read() {
    let world = World::new(EVERYONE[0]);
    let server = world.http(PUBLIC, 80);
    // A text for the terminal that never ends, and a part of the screen that nobody sees.
    let script = "printf '\\033[21;22r\\033]0;'; curl -fsS http://site.test/; echo the end";
    let mut person = Person::starts(&world, &["--ask"], script);
    person.sees("\x18\x1b<\x1b\\");
    person.sees("\x1b[r");
    person.sees("\x1b[2J\x1b[H");
    person.answers("site.test:80", "n\r");
    person.sees("the end");
    assert_eq!(person.ends(), Some(0));
    // What goes through somebody else's hands waits as well.
    let (reads, writes) = std::io::pipe().unwrap();
    let script = "(sleep 0.5; printf 'over it all') & curl -fsS http://site.test/; wait; echo the end >&2";
    let mut person = Person::starts_with(&world, &["--ask"], script, Some(writes.into()));
    person.sees("    site.test:80\r\n");
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(rustix::io::ioctl_fionread(&reads).unwrap(), 0, "it was printed while the person was asked");
    person.near.write_all(b"n\r").unwrap();
    person.sees("the end");
    assert_eq!(person.ends(), Some(0));
    assert!(rustix::io::ioctl_fionread(&reads).unwrap() > 0);
    assert!(server.asked().is_empty());
}

#[test]
fn egr_20_a_question_that_nobody_waits_for_is_taken_back() {
    let world = World::new(EVERYONE[1]);
    let server = world.http(PUBLIC, 80);
    let script =
        "curl -sS -m 1 http://site.test/; echo gone; sleep 3; curl -fsS http://site.test/; echo the end";
    let mut person = Person::starts(&world, &["--ask"], script);
    person.sees("    site.test:80\r\n");
    person.sees("gone");
    // An answer to it is no answer to the next.
    person.near.write_all(b"once\r").unwrap();
    person.answers("site.test:80", "n\r");
    person.sees("the end");
    assert_eq!(person.ends(), Some(0));
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}

#[test]
fn egr_20_whoever_is_cut_off_while_asked_about_stays_cut_off() {
    let world = World::new(EVERYONE[0]);
    let server = world.http(PUBLIC, 80);
    let script = "curl -fsS http://site.test/; curl -fsS http://other.test/; echo the end";
    let mut person = Person::starts(&world, &["--ask"], script);
    person.sees("    site.test:80\r\n");
    std::thread::sleep(Duration::from_millis(700));
    assert!(world.palisade(&["offline"]).output().unwrap().status.success());
    person.near.write_all(b"session\r").unwrap();
    person.sees_first("the end", "    other.test:80");
    assert_eq!(person.ends(), Some(0));
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}

#[test]
fn egr_20_what_was_allowed_once_ends_with_its_proxy() {
    let world = World::new(EVERYONE[0]);
    let server = world.http(PUBLIC, 80);
    let script =
        "(exec 3<>/dev/tcp/site.test/80; sleep 4) & sleep 3; curl -fsS http://site.test/; echo the end";
    let script = format!("bash -c '{script}'");
    let mut person = Person::starts(&world, &["--ask"], &script);
    person.answers("site.test:80", "once\r");
    std::thread::sleep(Duration::from_millis(500));
    assert!(world.kill_proxy());
    person.answers("site.test:80", "n\r");
    person.sees("the end");
    assert_eq!(person.ends(), Some(0));
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}

#[test]
fn egr_20_what_is_remembered_breaks_nothing_and_gives_nothing_where_nothing_is_given() {
    let world = World::new(EVERYONE[0]);
    let server = world.http(PUBLIC, 80);
    let mut person = Person::starts(&world, &["--ask"], "curl -sS http://site.test/1; echo the end");
    // The letter is not enough for what holds for good.
    person.answers("site.test:80", "a\r");
    person.answers("site.test:80", "always\r");
    person.sees("the end");
    assert_eq!(person.ends(), Some(0));
    // A rule that says more exactly what may go there counts.
    world.file("read.toml", "[[rule]]\nhost = \"site.test\"\nports = [80]\npaths = [\"/2\"]\n");
    let rules = world.project().join("read.toml");
    let script = "curl -fsS http://site.test/2 >/dev/null; if curl -fsS http://site.test/3; then exit 1; fi";
    world.run(&["--rules", rules.to_str().unwrap()], script).ok();
    // A profile that gives nothing gives this neither.
    let script = "if curl -fsS -m 3 http://site.test/4; then exit 1; fi";
    world.run(&["--profile", "strict", "--allow", "other.test:80"], script).ok();
    let mut person = Person::starts(
        &world,
        &["--profile", "strict", "--ask"],
        "curl -fsS http://site.test/5; echo the end",
    );
    person.answers("site.test:80", "n\r");
    person.sees("the end");
    assert_eq!(person.ends(), Some(0));
    assert_eq!(server.asked(), ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1"]);
}

#[test]
fn egr_20_a_request_that_no_rule_can_name_costs_learning_nothing_else() {
    let world = World::new(EVERYONE[0]);
    let _server = world.http(PUBLIC, 80);
    let script =
        "curl -sS http://site.test/@types%2Fnode >/dev/null; curl -sS http://other.test/a >/dev/null; exit 3";
    let said = world.run(&["--learn", "some"], script);
    assert_eq!(said.code, Some(3), "{}", said.err);
    let text = std::fs::read_to_string(world.home().join(".config/palisade/profiles/some.toml")).unwrap();
    assert!(text.contains("other.test") && !text.contains("site.test"), "{text}");
    said.tells("no rule can name by itself");
}
