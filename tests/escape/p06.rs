//! ADV-P06: services of the host behind unix sockets.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use crate::kit::both;

/// Where services listen on most hosts.
const SERVICES: [&str; 10] = [
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/notify",
    "/tmp/.X11-unix/X0",
    "/run/user/0/bus",
    "/run/user/1000/bus",
    "/dev/log",
];

const REFUSED: [&str; 4] = ["ECONNREFUSED", "EPERM", "ENOENT", "EACCES"];

both! {
    fn adv_p06_a_a_service_without_a_path_is_not_reached(stage) {
        let name = format!("palisade-escape-{}", stage.path("x").replace('/', "-"));
        let service = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        service.set_nonblocking(true).unwrap();

        stage.attack(&["abstract", &name]).assert_each(&REFUSED);

        assert!(service.accept().is_err(), "somebody was let in");
        // The control: on the host, the same user is let in.
        assert_eq!(stage.uncontrolled(&["abstract", &name]).of("abstract"), "ok");
        assert!(service.accept().is_ok());
    }

    fn adv_p06_b_services_at_paths_are_not_there(stage) {
        let own = stage.path("outside/agent.sock");
        let service = UnixListener::bind(&own).unwrap();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
        service.set_nonblocking(true).unwrap();
        let mut words = vec!["connect", &own];
        words.extend(SERVICES);

        let mut run = stage.palisade(&[], &["./attacker"]);
        run.args(&words).env("SSH_AUTH_SOCK", &own).env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={own}"));
        crate::kit::finish(run).report().assert_each(&["ENOENT"]);

        assert!(service.accept().is_err(), "somebody was let in");
        assert_eq!(stage.uncontrolled(&["connect", &own]).of(&own), "ok");
        assert!(service.accept().is_ok());
    }

    fn adv_p06_c_datagrams_are_aimed_at_nobody(stage) {
        let name = format!("palisade-escape-{}", stage.path("d").replace('/', "-"));
        let service = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        service.set_nonblocking(true).unwrap();

        stage.attack(&["datagrams", &name]).assert_each(&["EPERM"]);

        // Without the filter a pair can be made and aimed; then the namespace, and Landlock, still refuse.
        let report = stage.without(&["seccomp"], &[], &["datagrams", &name]);
        assert_eq!(report.of("pair-datagram"), "ok");
        report.assert_all(&["aimed-datagram"], &REFUSED);
        assert!(service.recv(&mut [0; 16]).is_err(), "something arrived");
        // The control: on the host it arrives.
        assert_eq!(stage.uncontrolled(&["datagrams", &name]).of("aimed-datagram"), "ok");
        assert_eq!(service.recv(&mut [0; 16]).unwrap(), 5);
    }

    fn adv_p06_d_a_service_in_a_place_that_is_shown_is_not_reached(stage) {
        let paths = [stage.path("work/service.sock"), stage.path("outside/service.sock")];
        let services = paths.each_ref().map(|path| {
            let service = UnixListener::bind(path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
            service.set_nonblocking(true).unwrap();
            service
        });

        let report = stage.attack_with(&["--ro", &stage.path("outside")], &["connect", &paths[0], &paths[1]]);

        report.assert_each(&REFUSED);
        assert!(services.iter().all(|service| service.accept().is_err()), "somebody was let in");
        // The control: given by its name it is reached.
        let report = stage.attack_with(&["--rw", &paths[1]], &["connect", &paths[1]]);
        report.assert_each(&["ok"]);
        assert!(services[1].accept().is_ok());
    }
}
