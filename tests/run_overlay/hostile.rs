//! Layers that were made to harm whoever looks at them.

use std::os::unix::fs::MetadataExt;

use crate::scene::{Scene, everybody, snapshot};

#[test]
fn adv_f08_names_and_contents_do_nothing_to_a_terminal_or_a_command_line() {
    for who in everybody() {
        let scene = Scene::new(who, "true");
        scene.run(
            "printf x > \"$(printf 'new\\nline')\"; printf x > \"$(printf 'esc\\033[2J')\"; printf x > ./-rf; \
             printf x > \"$(printf 'bad\\377')\"; printf '\\033]0;title\\007\\r' > contents",
        );
        let said = scene.palisade(&["diff"]);
        assert!(said.out.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()), "{:?}", said.out);
        let told = scene.changes();
        assert_eq!(
            told,
            ["added -rf", "added bad\\xff", "added contents", "added esc\\x1b[2J", "added new\\nline"]
        );
        scene.done(&["apply"]);
        let named: Vec<String> = snapshot(&scene.worktree()).into_keys().collect();
        assert_eq!(named.len(), 5, "{named:?}");
        scene.done(&["apply", "--undo"]);
        scene.done(&["apply", "./-rf"]);
        scene.done(&["discard"]);
    }
}

#[test]
fn adv_f02_links_are_carried_as_links_and_nothing_is_read_through_them() {
    for who in everybody() {
        let scene = Scene::new(who, "mkdir a; echo x > a/passwd");
        scene.run("rm -r a; ln -s /etc a; ln -s /etc/passwd p; ln -s ../home h");
        let said = scene.palisade(&["diff"]);
        assert!(said.out.contains("link to /etc") && !said.out.contains("root:"), "{}", said.out);
        scene.done(&["apply"]);
        assert!(std::fs::symlink_metadata(scene.worktree().join("a")).unwrap().is_symlink());
        scene.done(&["apply", "--undo"]);
        assert_eq!(std::fs::read_to_string(scene.worktree().join("a/passwd")).unwrap(), "x\n");
    }
}

#[test]
fn adv_f09_a_fifo_or_socket_where_a_file_was_is_told_and_left() {
    for who in everybody() {
        let scene = Scene::new(who, "echo c > config");
        scene.run(
            "rm config; mkfifo config; mkfifo .lock; \
             python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")' 2>/dev/null; true",
        );
        let began = std::time::Instant::now();
        let said = scene.palisade(&["diff"]);
        assert!(said.out.contains("T  config  (file -> fifo)  (not applied: a fifo)"), "{}", said.out);
        let applied = scene.json(&["apply"]);
        assert!(began.elapsed().as_secs() < 5);
        assert_eq!(applied["applied"].as_array().unwrap().len(), 0);
        assert_eq!(std::fs::read_to_string(scene.worktree().join("config")).unwrap(), "c\n");
    }
}

#[test]
fn adv_f10_no_set_id_bit_arrives() {
    for who in everybody() {
        let scene = Scene::new(who, "echo a > a");
        scene.run("cp /bin/true t; chmod 4755 t; chmod u+s a; chmod 6755 t; true");
        scene.done(&["apply"]);
        for name in ["a", "t"] {
            assert_eq!(std::fs::metadata(scene.worktree().join(name)).unwrap().mode() & 0o6000, 0);
        }
    }
}

#[test]
fn planted_control_files_are_refused_unless_a_person_says_so() {
    for who in everybody() {
        let scene = Scene::new(who, "mkdir -p sub; echo x > sub/x");
        let said = scene.run(
            "mkdir .claude 2>/dev/null; echo x > .envrc; mkdir -p sub/.git/hooks sub/.vscode; echo evil > sub/.git/config; \
             echo evil > sub/.vscode/tasks.json; echo work > sub/work",
        );
        assert!(said.err.contains("changed, in a layer"), "{}", said.err);
        scene.done(&["apply"]);
        assert!(scene.worktree().join("sub/work").exists());
        for name in [".claude", ".envrc", "sub/.git", "sub/.vscode"] {
            assert!(!scene.worktree().join(name).exists(), "{name}");
        }
        scene.done(&["apply", "--control"]);
        assert!(scene.worktree().join("sub/.vscode/tasks.json").exists());
        scene.done(&["apply", "--undo"]);
        assert!(!scene.worktree().join("sub/.vscode").exists());
    }
}

#[test]
fn adv_f08_a_large_and_odd_layer_goes() {
    for who in everybody() {
        let scene = Scene::new(who, "echo a > a");
        let was = snapshot(&scene.worktree());
        let count = tests::scale(100_000, 3_000);
        scene.run(&format!(
            "mkdir many closed; cd many; seq {count} | xargs touch; cd ..; echo x > closed/x; chmod 000 closed; \
             d=.; for i in $(seq 300); do d=$d/dddddddddd; done; mkdir -p $d 2>/dev/null; truncate -s 1T huge; true"
        ));
        scene.done(&["diff", "--stat"]);
        scene.done(&["discard"]);
        assert_eq!(snapshot(&scene.worktree()), was);
        let run = scene.json(&["runs"])[0]["run"].as_str().unwrap().to_owned();
        assert!(!scene.state().join("runs").join(run).join("worktree").exists());
    }
}
