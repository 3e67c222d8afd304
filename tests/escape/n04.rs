//! ADV-N04: unusual sockets.

use crate::kit::both;

both! {
    fn adv_n04_a_unusual_sockets_cannot_be_made(stage) {
        let report = stage.attack(&["families"]);

        report.assert_each(&["EPERM", "EAFNOSUPPORT"]);
        for name in ["sctp", "dccp", "udp-lite", "packet", "vsock", "netlink-uevent", "alg", "xdp", "bluetooth"] {
            report.of(name);
        }
        // The control: without the filter, some of them can.
        let report = stage.without(&["seccomp"], &[], &["families"]);
        report.assert_all(&["netlink-uevent", "netlink-generic"], &["ok"]);
    }
}
