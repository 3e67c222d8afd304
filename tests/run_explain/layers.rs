//! One real refusal by each layer, and what would allow it.

use crate::scene::{Scene, everyone};

#[test]
fn writing_to_the_system_is_refused_by_its_mount() {
    for who in everyone() {
        let scene = Scene::new(who);
        let said = scene.script(&[], "echo x > /usr/lib/palisade-explain").ends_with(2);
        said.tells("mount", "/usr/lib/palisade-explain", "--rw /usr/lib");
    }
}

#[test]
fn what_is_given_to_be_read_is_given_to_be_written_by_the_flag_that_is_told() {
    for who in everyone() {
        let scene = Scene::new(who);
        let data = scene.home().join("data");
        std::fs::create_dir(&data).unwrap();
        scene.own(&data);
        let script = format!("echo x > {}/new", data.display());
        let said =
            scene.script(&["--ro", "~/data"], &script).ends_with(2).tells("mount", "data/new", "--rw ~/data");
        let flag: Vec<&str> = said.by("mount")["allow"].as_str().unwrap().split(' ').collect();
        scene.script(&flag, &script).ends_with(0);
        assert!(data.join("new").exists());
    }
}

#[test]
fn what_only_the_host_has_can_be_read_with_the_flag_that_is_told() {
    for who in everyone() {
        let scene = Scene::new(who);
        let (one, two) = (scene.outside.path().join("one"), scene.outside.path().join("two"));
        scene.file(&one, "1");
        scene.file(&two, "2");
        let command = ["cat", one.to_str().unwrap(), two.to_str().unwrap()];
        let folder = scene.outside.path().to_str().unwrap().to_owned();
        let said =
            scene.explained(&[], &command).ends_with(1).tells("mount", &folder, &format!("--ro {folder}"));
        let flag: Vec<&str> = said.by("mount")["allow"].as_str().unwrap().split(' ').collect();
        let said = scene.explained(&flag, &command).ends_with(0);
        assert!(said.err.contains("nothing was refused"), "{}", said.err);
        // The person's own home is not the one inside.
        scene.file(&scene.home().join(".netrc"), "x");
        scene.script(&[], "cat ~/.netrc").ends_with(1).tells("mount", ".netrc", "--ro ~/.netrc");
    }
}

#[test]
fn control_files_are_protected_and_the_reason_is_told() {
    for who in everyone() {
        let scene = Scene::new(who);
        let said = scene.script(&[], "echo x > .envrc").ends_with(2);
        let said = said.tells("protected", ".envrc", "unprotect = [\".envrc\"]");
        assert!(said.by("protected")["rule"].as_str().unwrap().contains("direnv"), "{}", said.err);
        scene.script(&[], "mkdir .claude/hooks").ends_with(1).tells("protected", ".claude", "unprotect");
        scene.script(&["--overlay"], "echo x > .envrc").ends_with(2).tells(
            "protected",
            ".envrc",
            "unprotect",
        );
    }
}

#[test]
fn hidden_files_are_told_although_nothing_failed() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.file(&scene.project().join(".env"), "KEY=1\n");
        scene.script(&[], "cat .env").ends_with(0).tells("hidden", ".env", "--show .env");
        let said = scene.script(&["--show", ".env"], "cat .env").ends_with(0);
        assert!(said.err.contains("nothing was refused"), "{}", said.err);
    }
}

#[test]
fn system_calls_are_refused_by_the_filter() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.script(&[], "unshare -U true").ends_with(1).tells("seccomp", "unshare", "nothing allows it");
        let packet = "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)";
        let said = scene.explained(&[], &["python3", "-c", packet]).ends_with(1);
        said.tells("seccomp", "AF_PACKET", "nothing allows it");
    }
}

#[test]
fn the_second_wall_is_named() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.script(&[], "cat /.empty/file").ends_with(1).tells("landlock", "/.empty/file", "");
    }
}

#[test]
fn the_files_own_permissions_are_not_blamed_on_the_sandbox() {
    for who in everyone().into_iter().flatten() {
        let scene = Scene::new(Some(who));
        let secret = scene.project().join("roots");
        std::fs::write(&secret, "x").unwrap();
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        scene.script(&[], "cat roots").ends_with(1).tells("permission", "roots", "same outside");
    }
}

#[test]
fn addresses_of_others_are_out_of_reach() {
    for who in everyone() {
        let scene = Scene::new(who);
        let connect = "import socket; socket.create_connection(('192.0.2.1', 80))";
        let said = scene.explained(&[], &["python3", "-c", connect]).ends_with(1);
        said.tells("network", "192.0.2.1:80", "--allow HOST");
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let connect = format!("import socket; socket.create_connection(('127.0.0.1', {port}))");
        let said = scene.explained(&[], &["python3", "-c", &connect]).ends_with(1);
        said.tells("network", &format!("127.0.0.1:{port}"), "egress");
    }
}

#[test]
fn limits_are_told_with_twice_as_much() {
    for who in everyone() {
        let scene = Scene::new(who);
        let files = "all = [open('/dev/null') for _ in range(100)]";
        let said = scene.explained(&["--limit", "files=32"], &["python3", "-c", files]).ends_with(1);
        said.tells("limit", "/dev/null", "--limit files=64");
        let said = scene
            .script(&["--limit", "file_size=64k"], "head -c 200000 /dev/zero > big; exit 4")
            .ends_with(4);
        said.tells("limit", "big", "--limit file_size=128k");
        let said = scene.script(&["--limit", "tmp=64k"], "head -c 200000 /dev/zero > /tmp/big").ends_with(1);
        said.tells("limit", "/tmp/big", "--limit tmp=128k");
        let forks = "import os, time\nfor _ in range(64):\n  if os.fork() == 0:\n    time.sleep(20)\n";
        let said = scene.explained(&["--limit", "pids=16"], &["python3", "-c", forks]).ends_with(1);
        said.tells("limit", "", "--limit pids=32");
    }
}

#[test]
fn privileges_cannot_be_given() {
    for who in everyone() {
        let scene = Scene::new(who);
        let said = scene.explained(&[], &["python3", "-c", "import os; os.setuid(0)"]).ends_with(1);
        said.tells("privilege", "setuid", "nothing allows it");
    }
}
