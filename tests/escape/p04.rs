//! ADV-P04: calls by other conventions, and garbage where the kernel does not look.

use crate::kit::both;

const NEVER: [&str; 6] = ["EPERM", "ENOSYS", "EAFNOSUPPORT", "EINVAL", "killed by 31", "killed by 11"];

both! {
    fn adv_p04_a_no_other_convention_gets_a_call_through(stage) {
        let report = stage.attack(&["conventions"]);

        report.assert_each(&NEVER);
        // The other architectures end the process at once.
        report.assert_all(&["x32-getpid", "x32-ptrace"], &["killed by 31"]);
        report.assert_all(&["int80-getpid", "int80-open", "int80-socketcall", "int80-vm86"], &["killed by 31", "killed by 11"]);

        // The control: without the filter, garbage in the upper half is no hindrance.
        let report = stage.without(&["seccomp"], &[], &["conventions"]);
        report.assert_all(&["garbage-datagram", "garbage-netlink", "clone3-user", "garbage-clone"], &["ok"]);
        assert_ne!(report.of("x32-getpid"), "killed by 31");
        assert_ne!(report.of("int80-getpid"), "killed by 31");
    }
}
