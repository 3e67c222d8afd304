//! SBX-05, the terminal; and SBX-15, localhost inside.

use std::time::Duration;

use crate::kit::{both, ends_within, finished, read_line};
use crate::terminal::{Terminal, until};

both! {
    fn sbx_05_c_an_interactive_command_has_a_terminal_of_its_own(stage) {
        let terminal = Terminal::open();
        let before = terminal.settings();
        let shown = terminal.shown();
        let mut run = terminal.start(stage.palisade(&[], &["./attacker", "window"]));

        let first = until(&shown, "size: 80x24");
        assert!(first.contains("is a terminal: true") && first.contains("leads its session: true"), "{first}");
        terminal.resize(132, 50);
        // The new size arrives by a signal to the launcher; what is typed after it comes by another way, so ask again.
        let mut number = 0;
        loop {
            number += 1;
            terminal.type_in(&format!("{number}\n"));
            let said = until(&shown, &format!("typed {number}: "));
            let said = if said.ends_with(": ") { said + &until(&shown, "\n") } else { said };
            if said.contains("132x50") {
                break;
            }
            assert!(number < 1000, "the size did not arrive: {said}");
        }
        // The end of input, as typed.
        terminal.type_in("\u{4}");
        until(&shown, "done: true");
        assert!(ends_within(run.id(), Duration::from_secs(20)));
        assert_eq!(run.wait().unwrap().code(), Some(0));
        assert_eq!(terminal.settings(), before, "the terminal has other settings than before");
    }

    fn sbx_05_d_control_c_reaches_the_command_and_the_terminal_is_given_back(stage) {
        let terminal = Terminal::open();
        let before = terminal.settings();
        let shown = terminal.shown();
        let mut run = terminal.start(stage.palisade(&[], &["sh", "-c", "trap 'echo caught; exit 7' INT; echo up; while :; do read line; done"]));
        until(&shown, "up");
        assert_ne!(terminal.settings(), before, "the launcher passes keys through");

        terminal.type_in("\u{3}");

        until(&shown, "caught");
        assert!(ends_within(run.id(), Duration::from_secs(20)));
        assert_eq!(run.wait().unwrap().code(), Some(7));
        assert_eq!(terminal.settings(), before);
    }

    fn sbx_05_e_control_z_stops_a_job_inside_and_it_goes_on(stage) {
        let terminal = Terminal::open();
        let shown = terminal.shown();
        let mut run = terminal.start(stage.palisade(&[], &["bash", "--norc", "--noprofile", "-i"]));
        // What is typed shows too, so what is waited for is written in another way.
        terminal.type_in("sh -c 'echo re\"\"ady; read word; echo go\"\"t-$word'\n");
        until(&shown, "ready");

        terminal.type_in("\u{1a}");

        until(&shown, "Stopped");
        terminal.type_in("echo sti\"\"ll-here\n");
        until(&shown, "still-here");
        terminal.type_in("fg\nword\n");
        until(&shown, "got-word");
        terminal.type_in("exit 5\n");
        assert!(ends_within(run.id(), Duration::from_secs(20)));
        assert_eq!(run.wait().unwrap().code(), Some(5));
    }

    fn sbx_15_a_localhost_works_inside_and_is_nobody_elses(stage) {
        let report = stage.attack(&["loopback"]);
        assert_eq!(report.through().len(), 10, "{report:?}");

        // A server in one sandbox, and on the host.
        let mut server = stage.palisade(&[], &["./attacker", "serve"]);
        let mut server = server.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let port = read_line(&mut server);
        let port = port.strip_prefix("port: ").unwrap();
        let host = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        host.set_nonblocking(true).unwrap();
        let host_port = host.local_addr().unwrap().port().to_string();

        // Neither another sandbox nor the host gets there; no sandbox gets to the host's.
        stage.attack(&["reach", port, &host_port]).assert_each(&["ECONNREFUSED"]);
        assert_eq!(stage.uncontrolled(&["reach", &host_port]).of(&host_port), "ok");
        assert!(host.accept().is_ok(), "the control came");
        assert!(host.accept().is_err(), "and nobody else");
        drop(server.stdin.take());
        assert_eq!(finished(server).report().of("visited"), "false");
    }
}
