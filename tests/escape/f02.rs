//! ADV-F02: links in the worktree that point at what is outside.
//!
//! Left: export, upload, diff and cleanup by the daemon. What the launcher itself does with a worktree's links (it
//! reads a project's profile, guards names, looks for hidden ones) is here.

use std::os::unix::fs::symlink;

use crate::kit::{Snapshot, both};

const CANARY: &str = "CANARY-OF-THE-HOST";

both! {
    fn adv_f02_a_a_link_leads_to_nothing_outside(stage) {
        let key = stage.file("home/.ssh/id_ed25519", CANARY);
        let store = stage.file("data/palisade/store.db", CANARY);
        let other = stage.file("outside/worktree/secret.txt", CANARY);
        let config = stage.file("config/palisade/credentials.toml", "");
        for (name, to) in [("key", &key), ("store", &store), ("other", &other), ("config", &config)] {
            symlink(to, stage.at(&format!("work/{name}"))).unwrap();
        }
        symlink("/etc/shadow", stage.at("work/shadow")).unwrap();
        symlink("/etc/passwd", stage.at("work/passwd")).unwrap();
        symlink("/", stage.at("work/root")).unwrap();
        let before = [&key, &store, &other].map(|path| Snapshot::of(path.parent().unwrap()));

        let script = "for name in key store other config shadow; do \
                      cat $name && echo \"read $name: ok\"; echo taken > $name && echo \"wrote $name: ok\"; done; \
                      cat passwd; ls root; echo x > passwd && echo 'wrote passwd: ok'; echo 'end: of it'";
        let output = stage.run(&["sh", "-c", script]);

        assert!(output.report().through().is_empty(), "{output:?}");
        assert!(!output.stdout.contains(CANARY));
        // The sandbox's own list of people, with nobody of the host's in it.
        assert_eq!(output.stdout.lines().filter(|line| line.contains(":x:")).count(), 3, "{output:?}");
        for (before, path) in before.iter().zip([&key, &store, &other]) {
            before.assert_same(path.parent().unwrap());
        }
        // The control: the same links on the host.
        let mut cat = stage.command("cat");
        cat.args(["key", "store", "other"]);
        assert_eq!(crate::kit::finish(cat).assert_code(0).stdout.matches(CANARY).count(), 3);
    }

    fn adv_f02_b_the_launcher_follows_no_link_to_a_profile(stage) {
        // A foreign file that would be read as the project's profile, and told of in a message.
        stage.file("outside/profile.toml", format!("name = \"{CANARY}\"\n"));
        symlink(stage.at("outside/profile.toml"), stage.at("work/profile")).unwrap();
        stage.folder("work/.palisade", 0o755);
        symlink(stage.at("outside/profile.toml"), stage.at("work/.palisade/profile.toml")).unwrap();

        let output = stage.run(&["true"]).assert_code(125);

        assert!(!output.stderr.contains(CANARY), "{output:?}");
        // The control: the same file in its place is read.
        std::fs::remove_file(stage.at("work/.palisade/profile.toml")).unwrap();
        stage.file("work/.palisade/profile.toml", format!("name = \"{CANARY}\"\n"));
        let output = stage.run(&["true"]).assert_code(125);
        assert!(output.stderr.contains("profile.toml:1"), "{output:?}");
    }

    fn adv_f02_c_the_launcher_guards_no_name_behind_a_link(stage) {
        // `protect` of a project narrows; through a link it must not make folders elsewhere.
        stage.file("work/.palisade/profile.toml", "protect = [\"link/planted/\"]\n");
        symlink(stage.at("outside"), stage.at("work/link")).unwrap();
        let before = Snapshot::of(&stage.at("outside"));

        let output = stage.run(&["sh", "-c", "ls link/ link/planted"]);

        assert_ne!(output.code, 0, "{output:?}");
        before.assert_same(&stage.at("outside"));
        // The control: in a folder of the worktree's own the name is made, and held.
        std::fs::remove_file(stage.at("work/link")).unwrap();
        stage.folder("work/link", 0o755);
        let output = stage.run(&["sh", "-c", "test -d link/planted && ! touch link/planted/x"]);
        assert_eq!(output.code, 0, "{output:?}");
    }

    fn adv_f02_d_hidden_names_are_not_looked_for_behind_links(stage) {
        stage.file("outside/tree/.env", CANARY);
        symlink(stage.at("outside/tree"), stage.at("work/tree")).unwrap();
        symlink(stage.at("work"), stage.at("work/loop")).unwrap();
        symlink(stage.at("outside/tree/.env"), stage.at("work/.env")).unwrap();
        let before = Snapshot::of(&stage.at("outside"));

        let output = stage.run(&["sh", "-c", "cat .env tree/.env loop/.env; true"]).assert_code(0);

        assert!(!output.stdout.contains(CANARY));
        before.assert_same(&stage.at("outside"));
        // The control: the same links on the host.
        let mut host = stage.command("cat");
        host.args([".env", "tree/.env", "loop/.env"]);
        assert_eq!(crate::kit::finish(host).assert_code(0).stdout.matches(CANARY).count(), 3);
    }
}
