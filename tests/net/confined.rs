//! What the proxy has while it serves: seen from outside, as it runs.

use std::path::Path;

use crate::world::{EVERYONE, PUBLIC, Who, World};

const SECRET: &str = "sk-Qm9y/ZWRvbUlz+QVZpcnR1ZTEy~MzQ1Njc4XyZ0";

/// One field of the status of a process or thread.
#[track_caller]
fn field(status: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(status).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).trim().to_owned()
}

#[test]
fn adv_n17_the_proxy_that_serves_has_no_privilege_no_files_and_no_calls() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test"]);
        let script = "curl -fsS -H \"x: $MY_KEY\" -o /dev/null https://site.test/1; touch ready; while [ ! -e go ]; do sleep 0.01; done
            curl -fsS -o /dev/null https://site.test/2";
        let arguments = ["run", "--secret", "MY_KEY=site.test", "--", "sh", "-ec", script];
        let command = world.palisade_having(&[("MY_KEY", SECRET)], &arguments);
        // As somebody starts it who has a file open and does not know.
        let mut started = std::process::Command::new("sh");
        started.args(["-c", "exec 9</etc/shadow; exec \"$@\"", "sh"]).stdin(std::process::Stdio::null());
        let mut child = started.arg(command.get_program()).args(command.get_args()).spawn().unwrap();
        world.awaits("ready");
        let [pid] = world.proxies()[..] else { panic!("there is not one proxy") };
        let process = Path::new("/proc").join(pid.to_string());
        let threads = std::fs::read_dir(process.join("task")).unwrap().map(|thread| thread.unwrap().path());
        let threads: Vec<_> = threads.collect();
        assert!(threads.len() > 1, "the threads that serve are there");
        for thread in threads {
            let field = |name: &str| field(&thread.join("status"), name);
            assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".into(), "2".into()), "{who:?}");
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(field(set), "0".repeat(16), "{who:?} {set}");
            }
            for kind in ["Uid", "Gid"] {
                let numbers: Vec<u32> = field(kind).split('\t').map(|id| id.parse().unwrap()).collect();
                let expected = |id: &u32| match who {
                    Who::Root => *id != 0 && *id == numbers[0],
                    Who::User(user) => *id == user,
                };
                assert!(numbers.len() == 4 && numbers.iter().all(expected), "{who:?} {kind} {numbers:?}");
            }
            assert_eq!(field("Groups"), "", "{who:?}");
        }
        let mut held = Vec::new();
        for entry in std::fs::read_dir(process.join("fd")).unwrap().map(Result::unwrap) {
            let what = std::fs::read_link(entry.path()).unwrap().display().to_string();
            let is_null = what == "/dev/null" && ["1", "2"].iter().any(|number| entry.file_name() == *number);
            let kinds = ["socket:[", "pipe:[", "anon_inode:[event", "/memfd:authority"];
            if !is_null && !kinds.iter().any(|kind| what.starts_with(kind)) {
                held.push(what);
            }
        }
        assert!(held.is_empty(), "{who:?} {held:?}");
        let limits = std::fs::read_to_string(process.join("limits")).unwrap();
        let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"]);
        let environment = std::fs::read(process.join("environ")).unwrap();
        assert_eq!(String::from_utf8_lossy(&environment), "LOCALDOMAIN=invalid\0");
        world.file("go", "");
        assert!(child.wait().unwrap().success());
        assert_eq!(server.seen().len(), 2);
    }
}

/// Landlock goes by places: a directory that came later where one was is another one. The running proxy has the one that it
/// looks names up in, and no other, so it finds none where everybody else does.
#[test]
fn adv_n17_the_proxy_that_serves_opens_no_file_outside_of_the_places_that_it_was_given() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let script = "
            say() { touch $1-asks; while [ ! -e $1 ]; do sleep 0.01; done; curl -s -o /dev/null -w '%{http_code}\\n' http://$2/$1; }
            curl -s -o /dev/null -w '%{http_code}\\n' http://site.test/first
            say covered other.test; say uncovered both.test";
        let options = ["--allow", "site.test:80", "--allow", "other.test:80", "--allow", "both.test:80"];
        let arguments = [&["run"][..], &options[..], &["--", "sh", "-ec", script][..]].concat();
        let child = world.palisade(&arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
        world.awaits("covered-asks");
        let proxies = world.proxies();
        let cover = format!(
            "set -e; cd {}; mkdir cover; cp /etc/hosts /etc/nsswitch.conf cover; chmod -R a+rX cover
             mount --bind cover /etc; getent hosts other.test",
            world.folder.path().display()
        );
        let found = world.inside("sh").args(["-c", &cover]).output().unwrap();
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        assert!(found.contains(PUBLIC), "whoever else looks finds it: {found}");
        world.file("covered", "");
        world.awaits("uncovered-asks");
        assert!(world.inside("umount").arg("/etc").status().unwrap().success());
        world.file("uncovered", "");
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "200\n502\n200\n", "{who:?}");
        assert_eq!(server.asked(), ["GET /first HTTP/1.1", "GET /uncovered HTTP/1.1"], "{who:?}");
        assert!(proxies.len() == 1, "it was the same all the time");
        let why = &world.entries("network.connect")[1].cause;
        assert!(why.contains("cannot be found"), "{why}");
    }
}
