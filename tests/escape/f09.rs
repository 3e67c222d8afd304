//! ADV-F09: a pipe, socket or device where a file is expected.
//!
//! Left: locks and artifacts of the daemon. The launcher expects files in the worktree and in its own folders.

use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::kit::{Snapshot, Stage, both};

/// The row says 100 ms; deadlines are asserted at five times, and a start of a debug build is in it.
const SOON: Duration = Duration::from_secs(2);

fn pipe_at(stage: &Stage, name: &str) {
    assert!(Command::new("mkfifo").arg("-m").arg("666").arg(stage.at(name)).status().unwrap().success());
}

both! {
    fn adv_f09_a_a_pipe_in_place_of_a_profile_is_refused_at_once(stage) {
        for place in ["work/.palisade/profile.toml", "config/palisade/profiles/own.toml", "config/palisade/consents"] {
            let folder = place.rsplit_once('/').unwrap().0;
            stage.file(&format!("{folder}/.x"), "");
            pipe_at(stage, place);
            let started = Instant::now();

            let output = stage.run_with(&["--profile", "own"], &["true"]).assert_code(125);

            assert!(started.elapsed() < SOON, "{place}: {:?}", started.elapsed());
            assert!(output.stderr.contains("palisade:"), "{output:?}");
            std::fs::remove_file(stage.at(place)).unwrap();
            let socket = UnixListener::bind(stage.at(place)).unwrap();
            stage.run_with(&["--profile", "own"], &["true"]).assert_code(125);
            drop(socket);
            std::fs::remove_file(stage.at(place)).unwrap();
        }
        // The control: a file there is read.
        stage.file("config/palisade/profiles/own.toml", "name = \"own\"\nbase = \"dev\"\n");
        stage.run_with(&["--profile", "own"], &["true"]).assert_code(0);
    }

    fn adv_f09_b_pipes_and_sockets_at_guarded_names_do_not_stop_the_launcher(stage) {
        for name in [".env", ".envrc", ".mcp.json"] {
            pipe_at(stage, &format!("work/{name}"));
        }
        let socket = UnixListener::bind(stage.at("work/.netrc")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let before = Snapshot::of(&stage.at("work"));
        let started = Instant::now();

        stage.run(&["sh", "-c", "ls -la >/dev/null; test ! -p .env"]).assert_code(0);

        assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
        assert!(socket.accept().is_err(), "somebody connected");
        before.assert_kinds(&stage.at("work"));
        // The control: whoever opens one as a file waits for ever.
        let mut host = stage.command("timeout");
        host.args(["0.2", "cat", ".env"]);
        crate::kit::finish(host).assert_code(124);
    }
}
