//! ADV-F04: planting control files that were absent at the start.
//!
//! Left: `.git/hooks` (the private layer over `.git` has tests of its own), and what is planted below the root, which
//! is row ADV-G05.

use std::fs;
use std::process::Stdio;

use crate::kit::{Snapshot, Stage, both, finished, read_line};

/// The files of the row, as one would write them.
const PLANTED: [&str; 6] = [
    ".claude/settings.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".mcp.json",
    ".vscode/tasks.json",
    ".envrc",
];

/// Tries to plant each in several ways; says `ok` for each that is there afterwards with the attacker's bytes.
fn script() -> String {
    let mut script = String::new();
    for name in PLANTED {
        let folder = name.split('/').next().unwrap();
        script.push_str(&format!(
            "mkdir -p $(dirname {name}); echo evil > {name}; echo evil > staged; mv -f staged {name}; \
             mkdir -p new/x; echo evil > new/x/{base}; mv -T new {folder}; mv -fT new/x {folder}; \
             ln -sfn $PWD/new {folder}; ln -f own {name}; cp -rf new {folder}; rmdir {folder}; rm -rf {folder}; \
             python3 -c 'import os; os.rename(\"new\", \"{folder}\")'; \
             grep -rqs evil {folder} && echo '{name}: ok' || echo '{name}: refused'\n",
            base = name.rsplit('/').next().unwrap(),
        ));
    }
    script
}

/// Two runs in one worktree: the first ends, and with it go its stubs; then the second plants what it can.
fn during_another_runs_end(stage: &Stage) -> String {
    let start = |script: &str| {
        let mut run = stage.palisade(&[], &["sh", "-c", script]);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        assert_eq!(read_line(&mut run), "up");
        run
    };
    let mut first = start("echo up; read line");
    let mut second = start(
        "echo up; read line; mkdir .claude; echo evil > .claude/settings.json; echo evil > .envrc; \
         cat .claude/settings.json .envrc; true",
    );
    drop(first.stdin.take());
    finished(first);
    drop(second.stdin.take());
    finished(second).stdout
}

both! {
    fn adv_f04_a_a_control_file_cannot_be_planted(stage) {
        let before = Snapshot::of(&stage.at("work/attacker"));

        let output = stage.run(&["sh", "-c", &script()]);

        output.report().assert_all(&PLANTED, &["refused"]);
        for name in PLANTED {
            let there = fs::symlink_metadata(stage.at("work").join(name.split('/').next().unwrap()));
            assert!(there.is_err(), "{name} is on the host after the run");
        }
        before.assert_same(&stage.at("work/attacker"));
        // The control: the same script on the host.
        let mut host = stage.command("sh");
        host.args(["-c", &script()]);
        crate::kit::finish(host).report().assert_all(&PLANTED, &["ok"]);
    }

    fn adv_f04_b_every_control_file_of_the_list_is_held(stage) {
        use sandbox::profile::{At, Class, controls};
        let hard = controls().iter().filter(|control| {
            control.class == Class::Hard && matches!(control.at, At::Root | At::Any) && !control.path.contains('*')
        });
        let names: Vec<&str> = hard.map(|control| control.path).collect();
        assert!(names.len() > 20);
        let script: String = names
            .iter()
            .map(|name| format!("(echo evil > {name} || mkdir {name}/x || touch {name}/x) 2>/dev/null && echo '{name}: ok' || echo '{name}: refused'\n"))
            .collect();

        stage.run(&["sh", "-c", &script]).report().assert_all(&names, &["refused"]);

        for name in names {
            assert!(fs::symlink_metadata(stage.at("work").join(name)).is_err(), "{name} is on the host after the run");
        }
        // The control: the same script on the host.
        let mut host = stage.command("sh");
        host.args(["-c", &script]);
        let through = crate::kit::finish(host).report().through().len();
        assert!(through > 20, "{through}");
    }

    fn adv_f04_c_what_two_runs_plant_together_does_not_stay(stage) {
        during_another_runs_end(stage);
        for name in [".claude/settings.json", ".envrc"] {
            assert!(!stage.at("work").join(name).is_file(), "{name} is on the host after both runs");
        }
        // The control is the next case's.
    }

    fn adv_f04_e_the_end_of_one_run_leaves_another_guarded(stage) {
        let inside = during_another_runs_end(stage);
        assert!(!inside.contains("evil"), "planted, and live on the host until the end of the second run: {inside}");
        // The control: on the host what is planted is there.
        let mut host = stage.command("sh");
        host.args(["-c", "mkdir .claude; echo evil > .claude/settings.json; cat .claude/settings.json"]);
        assert_eq!(crate::kit::finish(host).stdout, "evil\n");
    }

    fn adv_f04_d_an_overlay_keeps_them_from_the_host_too(stage) {
        let output = stage.run_with(&["--overlay"], &["sh", "-c", &script()]);

        output.report().assert_all(&PLANTED, &["refused"]);
        for name in PLANTED {
            assert!(fs::symlink_metadata(stage.at("work").join(name.split('/').next().unwrap())).is_err(), "{name}");
        }
        // The control is case a's: the same script on the host.
    }
}
