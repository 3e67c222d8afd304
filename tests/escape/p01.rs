//! ADV-P01: typing into the person's terminal, and reaching other terminals.

use crate::kit::{Stage, Who, both};
use crate::terminal::Terminal;

const REFUSED: [&str; 5] = ["EPERM", "ENXIO", "ENOENT", "ENOTTY", "EACCES"];

/// Kernels that no longer take it from users say EIO; root still can.
fn still_taken(stage: &Stage) -> bool {
    let legacy = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_else(|_| "1".into());
    legacy.trim() == "1" || stage.who == Who::Root
}

both! {
    fn adv_p01_a_nothing_is_typed_into_the_persons_terminal(stage) {
        let terminal = Terminal::open();
        let before = terminal.settings();
        let report = terminal.run(stage.palisade(&[], &["./attacker", "terminal"])).report();

        assert_eq!(report.of("is a terminal"), "true");
        for name in ["input", "output"] {
            for way in ["TIOCSTI", "TIOCLINUX", "TIOCSTI with garbage"] {
                report.assert_all(&[&format!("{name} {way}")], &["EPERM"]);
            }
        }
        // Its own terminal is there; no other is.
        assert_eq!((report.of("/dev/tty"), report.of("/dev/tty TIOCSTI")), ("ok", "EPERM"));
        report.assert_all(&["/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/vcs"], &["ENOENT"]);
        assert_eq!(report.of("terminals"), "0 ptmx");
        assert_eq!(terminal.waiting(), 0, "something is in the input of the person's terminal");
        assert_eq!(terminal.settings(), before);
    }

    fn adv_p01_b_control_without_a_sandbox_it_is_typed(stage) {
        if !still_taken(stage) {
            return;
        }
        let terminal = Terminal::open();
        terminal.silence();
        let mut command = stage.command(stage.at("attacker"));
        // Its own terminal only: the host has others, and they are not the test's.
        command.args(["terminal", "own"]);
        let report = terminal.run(command).report();

        report.assert_all(&["input TIOCSTI", "input TIOCSTI with garbage", "/dev/tty TIOCSTI"], &["ok"]);
        assert!(terminal.waiting() > 0);
    }

    fn adv_p01_c_without_a_terminal_there_is_none_to_open(stage) {
        let report = stage.attack(&["terminal"]);

        assert_eq!(report.of("is a terminal"), "false");
        report.assert_all(&["/dev/tty"], &["ENXIO"]);
        report.assert_all(&["input TIOCSTI", "output TIOCSTI", "/dev/console", "/dev/tty0"], &REFUSED);
        assert_eq!(report.of("terminals"), "ptmx");
        // The control is case b: with a terminal of the host's, the same gets through.
    }
}
