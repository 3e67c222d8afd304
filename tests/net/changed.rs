//! Other rules for a run at work: what they forbid ends, what they allow goes on, and a fault in them changes nothing.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::Duration;

use ledger::Decision;

use crate::world::{EVERYONE, PUBLIC, Said, World, is_left_alone};

/// Says something all the time to whoever connects.
fn talks(listener: TcpListener) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                while stream.write_all(b"tick").is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
}

/// Listens to two hosts, and says of which it hears nothing any more, how soon after the change, and what it may reach then.
const SCRIPT: &str = "python3 - <<'X'
import os, socket, time
def connect(host):
    s = socket.create_connection((host, 9000), 5); s.settimeout(3); s.sendall(b'hello\\n'); s.recv(10); return s
def hears(s):
    try: return s.recv(65536) != b''
    except OSError: return False
def reaches(host):
    try: return hears(connect(host))
    except OSError: return False
def wait(name):
    until = time.time() + 60
    while not os.path.exists(name) and time.time() < until: time.sleep(0.005)
kept, lost = connect('site.test'), connect('other.test')
print(hears(kept), hears(lost), reaches('both.test'))
open('ready', 'w').close(); wait('changed')
begun = time.time()
while hears(lost): pass
print('soon' if time.time() - begun < 1 else 'late', hears(kept), reaches('site.test'), reaches('other.test'), reaches('both.test'))
open('seen', 'w').close(); wait('tried')
for _ in range(50): hears(kept); time.sleep(0.01)
print(hears(kept), reaches('site.test'), reaches('other.test'), reaches('both.test'))
X";

fn begun(world: &World, options: &[&str]) -> Child {
    let arguments = [&["run"], options, &["--", "sh", "-ec", SCRIPT]].concat();
    let child = world.palisade(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    world.awaits("ready");
    child
}

fn rules(world: &World, options: &[&str]) -> Said {
    Said::of(&world.palisade(&[&["rules"], options].concat()).output().unwrap())
}

#[test]
fn egr_18_other_rules_end_what_they_forbid_and_one_that_is_wrong_leaves_those_before() {
    for who in EVERYONE {
        let world = World::new(who);
        talks(world.listen(PUBLIC, 9000));
        let child = begun(&world, &["--allow", "site.test:9000", "--allow", "other.test:9000"]);
        let said = rules(&world, &["--allow", "site.test:9000", "--allow", "both.test:9000"]).ok();
        world.file("changed", "");
        assert!(said.out.contains("has 2 rules from now on"), "{}", said.out);
        world.awaits("seen");
        // With one fault nothing changes, and it is told which and where.
        world.file(
            "bad.toml",
            "[[rule]]\nhost = \"other.test\"\nports = [9000]\n\n[[rule]]\nhost = \"*.com\"\n",
        );
        let said = rules(&world, &["--rules", "bad.toml"]);
        assert_eq!(said.code, Some(1), "{}", said.err);
        said.tells("line 5").tells("are as before");
        // Nor with a set that is fine and does not go with what the run was begun with.
        world.file("looks.toml", "[[rule]]\nhost = \"other.test\"\nports = [9000]\npaths = [\"/a\"]\n");
        rules(&world, &["--rules", "looks.toml"]).tells("start it anew").tells("are as before");
        rules(&world, &["--allow", "93.184.216.34:9000"]).tells("named when a run begins");
        let shown = rules(&world, &[]).ok().out;
        assert!(shown.contains("both.test") && !shown.contains("other.test"), "{shown}");
        assert_eq!(shown.matches("not inspected").count(), 2, "{shown}");
        world.file("tried", "");
        let said = Said::of(&child.wait_with_output().unwrap()).ok();
        let expected = "True True False\nsoon True True False True\nTrue True False True\n";
        assert_eq!(said.out, expected, "{who:?} {}", said.err);
        let entries = world.entries("network.rules");
        let decisions: Vec<Decision> = entries.iter().map(|entry| entry.decision).collect();
        assert_eq!(decisions, [Decision::Allowed, Decision::Refused, Decision::Refused], "{entries:?}");
        assert_eq!(entries[0].detail["generation"], "2");
        // What held, first and then, is kept under its hash, which the signed receipt and the ledger name.
        let launch = &world.entries("sandbox.launch")[0];
        let kept = |hash: &str| {
            let path = world.home().join(".local/state/palisade/rules").join(format!("{hash}.json"));
            let text = std::fs::read(path).unwrap();
            assert_eq!(sandbox::receipt::Digest::of(&text).to_string(), hash);
            String::from_utf8(text).unwrap()
        };
        let (first, then) = (kept(&launch.detail["rules_sha256"]), kept(&entries[0].detail["rules_sha256"]));
        assert!(first.contains("other.test") && !first.contains("both.test"), "{first}");
        assert!(then.contains("both.test") && !then.contains("other.test"), "{then}");
        let receipt = Said::of(&world.palisade(&["receipt", "show"]).output().unwrap()).ok().out;
        assert!(receipt.contains(&launch.detail["rules_sha256"]), "{receipt}");
    }
}

#[test]
fn egr_18_a_run_that_was_cut_off_takes_no_other_rules() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.listen(PUBLIC, 80);
        let script = "touch ready; while [ ! -e over ]; do sleep 0.02; done; curl -fsS -m 3 http://site.test/ && exit 9; true";
        let child = world.palisade(&["run", "--allow", "site.test:80", "--", "sh", "-c", script]).spawn();
        let mut child = child.unwrap();
        world.awaits("ready");
        assert!(world.palisade(&["offline"]).output().unwrap().status.success());
        rules(&world, &["--allow", "site.test:80"]).tells("cut off from the network for good");
        world.file("over", "");
        assert!(child.wait().unwrap().success(), "{who:?}");
        assert!(is_left_alone(&server), "{who:?}");
        // Nor is there a way from a run that has no network to one that has.
        world.file("over", "no");
        std::fs::remove_file(world.project().join("over")).unwrap();
        std::fs::remove_file(world.project().join("ready")).unwrap();
        let mut child = world.palisade(&["run", "--", "sh", "-c", script]).spawn().unwrap();
        world.awaits("ready");
        rules(&world, &["--allow", "site.test:80"]).tells("it has no network");
        world.file("over", "");
        assert!(child.wait().unwrap().success(), "{who:?}");
        assert!(is_left_alone(&server), "{who:?}");
    }
}
