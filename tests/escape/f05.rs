//! ADV-F05: moving what is protected aside, its parents, and other spellings of its name.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::kit::{Snapshot, Stage, both};

const HELD: [&str; 3] = [".claude", ".mcp.json", ".vscode"];

fn fixture(stage: &Stage) {
    for name in [".claude/settings.json", ".claude/hooks/stop.sh", ".mcp.json", ".vscode/tasks.json"] {
        let path = stage.file(&format!("work/{name}"), "the person's\n");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    stage.file("work/own/settings.json", "evil\n");
    stage.file("work/own/settings/deep", "evil\n");
    stage.settle();
}

/// Each line is a way to get a protected name out of the way, or its content changed.
const SCRIPT: &str = r#"
try() { name=$1; shift; "$@" 2>/dev/null && echo "$name: ok" || echo "$name: refused"; }
py() { python3 -c "import ctypes,sys; l=ctypes.CDLL(None); sys.exit(l.renameat2(-100,sys.argv[1].encode(),-100,sys.argv[2].encode(),int(sys.argv[3]))!=0)" "$@"; }
try "move folder" mv -T .claude aside
try "move folder by dot" mv -T ./.claude/ aside
try "move file" mv -T .mcp.json aside
try "exchange folder" perl -e 'exit(syscall(316,-100,".claude",-100,"own",2)!=0)'
try "exchange file" perl -e 'exit(syscall(316,-100,".mcp.json",-100,"own/settings.json",2)!=0)'
try "replace file" mv -fT own/settings.json .mcp.json
try "remove folder" rm -rf .claude
try "remove file" rm -f .mcp.json
try "write in it" sh -c 'echo evil > .claude/settings.json'
try "write deep in it" sh -c 'echo evil > .claude/hooks/stop.sh'
try "append" sh -c 'echo evil >> .mcp.json'
try "truncate" truncate -s 0 .vscode/tasks.json
try "create in it" touch .claude/new
try "link into it" ln own/settings.json .claude/linked
try "link out of it" ln .mcp.json linked-out
try "move out of it" mv .claude/settings.json taken
try "mode" chmod 777 .claude/settings.json
try "mode of folder" chmod 777 .vscode
try "times" touch -d 2001-01-01 .mcp.json
try "by proc" sh -c 'echo evil > /proc/self/cwd/.claude/settings.json'
try "by root" sh -c "echo evil > /proc/self/root$PWD/.claude/settings.json"
try "move worktree" mv -T "$PWD" "$PWD-aside"
try "move above" mv -T "$(dirname "$PWD")" "$(dirname "$PWD")-aside"
try "remove worktree" rmdir "$PWD"
"#;

both! {
    fn adv_f05_a_what_is_protected_cannot_be_moved_aside(stage) {
        fixture(stage);
        let before = HELD.map(|name| Snapshot::of(&stage.at("work").join(name)));

        let report = stage.run(&["sh", "-c", SCRIPT]).report();

        let through = report.through();
        // Above the worktree is the sandbox's own memory: moving it there moves nothing of the host.
        let through: Vec<&&str> = through.iter().filter(|name| **name != "move above").collect();
        assert!(through.is_empty(), "{through:?}");
        for (before, name) in before.iter().zip(HELD) {
            before.assert_same(&stage.at("work").join(name));
        }
        // The control: on the host, the first of them succeed at once.
        let mut host = stage.command("sh");
        host.args(["-c", "mv -T .claude aside && mv -fT own/settings.json .mcp.json && echo 'moved: ok'"]);
        crate::kit::finish(host).report().assert_all(&["moved"], &["ok"]);
    }

    fn adv_f05_b_a_protected_name_below_a_folder_holds_its_folder(stage) {
        stage.file("work/.palisade/profile.toml", "protect = [\"ci/deploy/\", \"tools/run.sh\"]\n");
        stage.file("work/tools/run.sh", "the person's\n");
        stage.file("work/tools/other.sh", "free\n");
        stage.settle();
        let before = Snapshot::of(&stage.at("work/tools/run.sh"));
        let script = r#"
            try() { name=$1; shift; "$@" 2>/dev/null && echo "$name: ok" || echo "$name: refused"; }
            try "move parent" mv -T tools aside
            try "move made parent" mv -T ci aside
            try "replace file" sh -c 'echo evil > new; mv -fT new tools/run.sh'
            try "create" sh -c 'echo evil > ci/deploy/now'
            try "neighbour" sh -c 'echo fine > tools/other.sh'
        "#;

        let report = stage.run(&["sh", "-c", script]).report();

        report.assert_all(&["move parent", "move made parent", "replace file", "create"], &["refused"]);
        assert_eq!(report.of("neighbour"), "ok");
        before.assert_same(&stage.at("work/tools/run.sh"));
        assert!(!stage.at("work/ci").exists(), "stubs are left behind");
        // The control: without the rule it is an ordinary folder.
        fs::remove_file(stage.at("work/.palisade/profile.toml")).unwrap();
        assert_eq!(stage.run(&["sh", "-c", script]).report().of("move parent"), "ok");
    }

    fn adv_f05_f_a_protected_name_opens_nothing_of_a_worktree_that_is_only_read(stage) {
        stage.file("work/.palisade/profile.toml", "protect = [\"ci/deploy/\", \"out/deep/kept\", \"vendor/x/kept\"]\n");
        for name in ["ci", "ci/deploy", "out", "out/deep", "out/deep/kept", "vendor", "vendor/x", "vendor/x/kept"] {
            stage.folder(&format!("work/{name}"), 0o755);
        }
        stage.settle();
        let script = r#"
            try() { name=$1; shift; "$@" 2>/dev/null && echo "$name: ok" || echo "$name: refused"; }
            try "beside what is protected" touch ci/new
            try "in what is protected" touch out/deep/kept/new
            try "move parent" mv -T out/deep out/aside
            try "in what is given" sh -c 'touch out/new out/deep/new'
        "#;
        let flags = ["--profile", "read-only", "--rw", "out"];

        let report = stage.run_with(&flags, &["sh", "-c", script]).report();

        report.assert_all(&["beside what is protected", "in what is protected", "move parent"], &["refused"]);
        assert_eq!(report.of("in what is given"), "ok");
        assert!(!stage.at("work/ci/new").exists());
        // The control: what is given as well can be written.
        let given = stage.run_with(&[&flags[..], &["--rw", "ci"]].concat(), &["sh", "-c", script]).report();
        assert_eq!(given.of("beside what is protected"), "ok");
        // What can only be read of a worktree that can be written stays so.
        let script = "touch vendor/new vendor/x/new 2>/dev/null; touch other && echo written";
        let read = stage.run_with(&["--ro", "vendor"], &["sh", "-c", script]);
        assert!(read.stdout.contains("written"), "{read:?}");
        assert!(!stage.at("work/vendor/new").exists() && !stage.at("work/vendor/x/new").exists());
    }

    fn adv_f05_c_other_spellings_do_not_reach_what_is_protected(stage) {
        fixture(stage);
        let before = HELD.map(|name| Snapshot::of(&stage.at("work").join(name)));
        let script = "mkdir -p .CLAUDE .Vscode; echo evil > .CLAUDE/settings.json; echo evil > .Mcp.json; \
                      echo evil > .claude./settings.json; echo evil > './/.claude//settings.json'; \
                      echo evil > .vscode/../.claude/settings.json; cat .claude/settings.json .mcp.json .vscode/tasks.json";

        let output = stage.run(&["sh", "-c", script]);

        assert_eq!(output.stdout.matches("the person's").count(), 3, "{output:?}");
        assert!(!output.stdout.contains("evil"), "{output:?}");
        for (before, name) in before.iter().zip(HELD) {
            before.assert_same(&stage.at("work").join(name));
        }
        // Some file systems hold capitals equal: the other spellings do not stay either.
        for name in [".CLAUDE", ".Mcp.json", ".Vscode"] {
            assert!(!stage.at("work").join(name).exists(), "{name} stayed");
        }
        // The control: on the host the last spellings reach it, and the others stay.
        let mut host = stage.command("sh");
        host.args(["-c", script]);
        assert!(crate::kit::finish(host).stdout.contains("evil"));
        assert!(stage.at("work/.CLAUDE/settings.json").exists());
    }

    fn adv_f05_e_moving_what_is_above_the_worktree_does_not_outlive_the_run(stage) {
        // The worktree is below the home: above it, inside, is the private home, which stays for the next run.
        stage.folder("home/src", 0o755);
        let worktree = stage.folder("home/src/project", 0o755);
        let run = |script: &str| {
            let mut run = stage.palisade(&[], &["sh", "-c", script]);
            run.current_dir(&worktree);
            crate::kit::finish(run)
        };
        run("cd; mv src aside; ln -s /tmp src; true").assert_code(0);

        run("touch made").assert_code(0);

        assert!(worktree.join("made").exists());
        assert!(stage.at("home/src").is_dir() && !stage.at("home/aside").exists());
        // The control: on the host it is moved.
        let mut host = stage.command("sh");
        host.args(["-c", "cd; mv src aside"]);
        crate::kit::finish(host).assert_code(0);
        assert!(!worktree.exists());
    }

    fn adv_f05_d_what_replaces_a_protected_link_does_not_stay(stage) {
        // A link cannot be covered; the end of the run looks at what is there.
        stage.folder("work/settings-of-the-person", 0o755);
        std::os::unix::fs::symlink("settings-of-the-person", stage.at("work/.claude")).unwrap();
        stage.settle();
        let script = "rm .claude; mkdir .claude; echo evil > .claude/settings.json; true";

        stage.run(&["sh", "-c", script]).assert_code(0);

        assert!(!stage.at("work/.claude/settings.json").exists(), "the planted folder stayed");
        // The control: on the host it stays.
        let mut host = stage.command("sh");
        host.args(["-c", script]);
        crate::kit::finish(host);
        assert!(stage.at("work/.claude/settings.json").exists());
    }
}
