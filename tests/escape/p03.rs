//! ADV-P03: system calls that nobody needs and that have often been the way out.

use std::os::fd::{FromRawFd, OwnedFd};

use crate::kit::both;

const REFUSED: [&str; 2] = ["EPERM", "ENOSYS"];

/// A ring of the host's, if this kernel makes one.
fn ring() -> Option<OwnedFd> {
    let mut parameters = [0u64; 32];
    // SAFETY: more room than the structure takes, which outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
    // SAFETY: the kernel just gave this number to us.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) })
}

both! {
    fn adv_p03_a_no_ring_is_made_entered_or_inherited(stage) {
        let calls = ["setup", "enter", "register", "register-none"];
        stage.attack(&["rings"]).assert_all(&calls, &REFUSED);

        let Some(held) = ring() else { return };
        let mut inherited = stage.palisade(&[], &["./attacker", "rings"]);
        inherited.stdin(held.try_clone().unwrap());
        let report = crate::kit::finish(inherited).report();
        report.assert_all(&calls, &REFUSED);
        assert_eq!(report.of("input is a ring"), "false");

        // The control: on the host it is there and can be entered.
        let mut host = stage.command(stage.at("attacker"));
        host.arg("rings").stdin(held);
        let report = crate::kit::finish(host).report();
        assert_eq!((report.of("input is a ring"), report.of("enter")), ("true", "ok"));
        assert_eq!(stage.without(&["seccomp"], &[], &["rings"]).of("setup"), "ok");
    }

    fn adv_p03_b_dangerous_calls_are_refused(stage) {
        stage.attack(&["dangerous"]).assert_each(&REFUSED);
        stage.attack_with(&["--profile", "read-only"], &["dangerous"]).assert_each(&REFUSED);

        // The control: without the filter, those that need no privilege get through.
        let report = stage.without(&["seccomp"], &[], &["dangerous"]);
        assert_eq!(report.of("personality"), "ok");
        let known = ["modify_ldt", "kcmp", "userfaultfd", "keyctl", "add_key", "sysfs", "syslog", "memfd_secret"];
        let through = known.iter().filter(|name| report.of(name) == "ok").count();
        assert!(through >= 2, "{report:?}");
    }
}
