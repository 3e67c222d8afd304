//! Names that a profile hides, when they appear or are replaced while an agent is at work.

use std::fs;
use std::io::Write;

use rustix::process::{Signal, kill_process};

use crate::scene::{Scene, everyone, reading, until};

const SECRET: &str = "SECRET-CANARY";

#[test]
fn adv_f06_a_secret_that_appears_is_covered_before_it_is_written() {
    for who in everyone() {
        for name in [".env", "app/.env", "later/deep/.env", "app/id_rsa"] {
            let scene = Scene::new(who);
            scene.folder("app");
            let run = scene.start(&[], &reading(name, name));
            // As most programs do: the file is made, and written when it is open.
            let path = scene.file(name, "");
            scene.file("changed", "");
            run.says("COVERED", 1);
            fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(SECRET.as_bytes()).unwrap();
            run.says("COVERED", 5);
            let said = run
                .end()
                .tells(&format!("changed {name} (a hidden name that appeared during the run: hidden "));
            assert!(!said.out.contains(SECRET), "{who:?} {name}: {}", said.out);
            assert_eq!(fs::read_to_string(path).unwrap(), SECRET, "the host's file is as it was");
        }
    }
}

#[test]
fn adv_f06_a_secret_that_is_replaced_is_covered_again() {
    for who in everyone() {
        for name in [".env", "app/.env"] {
            let scene = Scene::new(who);
            scene.file(name, "old");
            let run = scene.start(&[], &reading(name, name));
            for _ in 0..3 {
                let _ = fs::remove_file(scene.at("changed"));
                let before = run.out().lines().filter(|line| *line == "COVERED").count();
                scene.replace(name, SECRET);
                scene.file("changed", "");
                run.says("COVERED", before + 5);
            }
            let said = run.end().tells(&format!(
                "changed {name} (replaced during the run, so its cover was lost: covered again "
            ));
            let last = said.out.rsplit("COVERED\nCOVERED\nCOVERED\n").next().unwrap();
            assert!(!last.contains(SECRET), "{who:?}: read after it was covered: {last}");
            assert_eq!(fs::read_to_string(scene.at(name)).unwrap(), SECRET);
        }
    }
}

#[test]
fn adv_f06_what_a_hidden_link_leads_to_is_covered_when_the_link_appears() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.file("config/real", "");
        let run = scene.start(&[], &reading("config/real", "config/real"));
        std::os::unix::fs::symlink("config/real", scene.at(".env")).unwrap();
        scene.file("changed", "");
        run.says("COVERED", 1);
        fs::write(scene.at("config/real"), SECRET).unwrap();
        run.says("COVERED", 5);
        let said =
            run.end().tells("changed config/real (a hidden name that appeared during the run: hidden ");
        assert!(!said.out.contains(SECRET), "{who:?}: {}", said.out);
    }
}

#[test]
fn adv_f06_a_secret_that_appeared_and_was_moved_to_where_nobody_looks_is_told() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.folder("app");
        let script = "mkdir node_modules; until grep -qs \" $PWD/app/.env \" /proc/self/mountinfo; do :; done; \
                      mv app node_modules/ && echo MOVED; until [ -e changed ]; do sleep 0.01; done; \
                      cat node_modules/app/.env; until [ -e go ]; do sleep 0.01; done";
        let run = scene.start(&[], script);
        scene.file("app/.env", "");
        run.says("MOVED", 1);
        fs::write(scene.at("node_modules/app/.env"), SECRET).unwrap();
        scene.file("changed", "");
        let said = run.end().tells(
            "changed app/.env (a hidden name that appeared during the run, and then its directory was moved",
        );
        assert!(!said.out.contains(SECRET), "{who:?}: {}", said.out);
    }
}

#[test]
fn adv_f06_secrets_in_a_directory_that_is_moved_in_are_covered() {
    for who in everyone() {
        let scene = Scene::new(who);
        let away = scene.home().join("away");
        scene.file("made/a/b/.env", SECRET);
        fs::rename(scene.at("made"), &away).unwrap();
        let run = scene.start(&[], &reading("in/a/b/.env 2>/dev/null | sed s/^/READ/", "in/a/b/.env"));
        fs::rename(&away, scene.at("in")).unwrap();
        scene.file("changed", "");
        run.says("COVERED", 5);
        // Within, the watch goes along.
        fs::remove_file(scene.at("changed")).unwrap();
        fs::rename(scene.at("in/a"), scene.at("in/c")).unwrap();
        let said = run.end().tells("changed in/a/b/.env (a hidden name");
        let after = said.out.split_once("COVERED").unwrap().1;
        assert!(!after.contains(SECRET), "{who:?}: {}", said.out);
    }
}

#[test]
fn adv_f06_the_agents_own_file_of_a_hidden_name_is_hidden_from_it_too() {
    for who in everyone() {
        let scene = Scene::new(who);
        let script = "echo own > .env; while [ -s .env ]; do :; done; echo EMPTY; \
                      (echo more > .env) 2>/dev/null || echo REFUSED; while [ ! -e go ]; do sleep 0.01; done";
        let run = scene.start(&[], script);
        run.says("REFUSED", 1);
        run.end().tells("changed .env (a hidden name");
        assert_eq!(fs::read_to_string(scene.at(".env")).unwrap(), "own\n");
    }
}

#[test]
fn adv_f06_who_opened_a_secret_before_it_was_covered_reads_nothing_from_it() {
    for who in everyone() {
        let scene = Scene::new(who);
        let holder = "until { exec 3<.env; } 2>/dev/null; do :; done; echo OPENED; while :; do cat <&3; done";
        let run = scene
            .start(&[], &format!("bash -c '{holder}'; echo ENDED; while [ ! -e go ]; do sleep 0.01; done"));
        // As slow as can be: it is opened long before anybody looks.
        kill_process(run.guardian(), Signal::STOP).unwrap();
        let path = scene.file(".env", "");
        run.says("OPENED", 1);
        kill_process(run.guardian(), Signal::CONT).unwrap();
        run.says("ENDED", 1);
        fs::write(path, SECRET).unwrap();
        let said = run.end().tells("inside had it open");
        assert!(!said.out.contains(SECRET), "{who:?}: {}", said.out);
    }
}

#[test]
fn adv_f06_when_more_happens_than_can_be_kept_everything_is_checked_anew() {
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    for who in everyone() {
        let scene = Scene::new(who);
        scene.folder("many");
        let run = scene.start(&[], &reading("app/.env", "app/.env"));
        let guardian = run.guardian();
        kill_process(guardian, Signal::STOP).unwrap();
        for number in 0..most / 2 + 100 {
            let path = scene.at("many").join(number.to_string());
            fs::write(&path, "").unwrap();
            fs::remove_file(path).unwrap();
        }
        // Of these nothing is told any more.
        scene.file("app/.env", "");
        scene.file("changed", "");
        kill_process(guardian, Signal::CONT).unwrap();
        run.says("COVERED", 5);
        run.end().tells("changed app/.env (a hidden name");
    }
}

#[test]
fn adv_f06_in_a_layer_a_secret_of_the_host_is_covered_when_it_shows() {
    for who in everyone() {
        let scene = Scene::new(who);
        let script = "until ls -a | grep -qx .env; do :; done; until grep -qs \" $PWD/.env \" /proc/self/mountinfo; do :; done; \
                      while ! ls -a | grep -qx go; do echo COVERED; cat .env; done";
        let run = scene.start(&["--overlay"], script);
        let path = scene.file(".env", "");
        run.says("COVERED", 1);
        fs::write(path, SECRET).unwrap();
        run.says("COVERED", 5);
        let said = run.end().tells("changed .env (a hidden name");
        assert!(!said.out.contains(SECRET), "{who:?}: {}", said.out);
    }
}

#[test]
fn what_is_shown_on_purpose_is_not_covered() {
    for who in everyone() {
        let scene = Scene::new(who);
        let run =
            scene.start(&["--show", ".env"], "while [ ! -e go ]; do grep -s SECRET .env; sleep 0.01; done");
        scene.replace(".env", "SECRET\n");
        run.says("SECRET", 3);
        assert!(!run.end().err.contains(".env"));
    }
}

#[test]
fn what_happened_is_in_the_document_and_on_the_record() {
    for who in everyone() {
        let scene = Scene::new(who);
        let script =
            "while [ ! -s done ]; do grep -qs \" $PWD/.env \" /proc/self/mountinfo && echo x > done; done";
        let mut command =
            scene.palisade(&["--json", "run", "--", "sh", "-c", &format!("touch ready; {script}")]);
        let child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        until("it starts", || scene.at("ready").exists());
        scene.file(".env", "");
        let output = child.wait_with_output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = document["result"]["findings"].as_array().unwrap();
        assert!(
            found.iter().any(|finding| finding["path"] == ".env" && finding["fate"] == "reported"),
            "{document}"
        );
        let mut folders = vec![scene.state()];
        let mut is_recorded = false;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap() {
                    kind if kind.is_dir() => folders.push(entry.path()),
                    kind if kind.is_file() => {
                        let text = fs::read(entry.path()).unwrap();
                        is_recorded |= String::from_utf8_lossy(&text)
                            .contains("a hidden name that appeared during the run");
                    }
                    _ => {}
                }
            }
        }
        assert!(is_recorded, "the finding is not on the ledger");
    }
}
