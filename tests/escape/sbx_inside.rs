//! SBX-01, 02, 04, 05, 06 on a real kernel: what there is inside, and what processes there are.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use crate::kit::{Output, Stage, Who, both, finish};

const NONE: &str = "0000000000000000";

/// The mount table inside: where, options of the mount, kind of file system; sorted.
fn table(stage: &Stage, output: &Output) -> BTreeSet<String> {
    let mut table = BTreeSet::new();
    for line in output.stdout.lines() {
        let (front, back) = line.split_once(" - ").unwrap();
        let front: Vec<&str> = front.split(' ').collect();
        let options: Vec<&str> = front[5].split(',').filter(|option| *option != "relatime").collect();
        let place = front[4].replace(&stage.path(""), "STAGE/");
        // What a host mounts of its system depends on the host; how does not.
        let own = ["proc", "tmpfs", "devpts"].contains(&back.split(' ').next().unwrap());
        let kind = if own { back.split(' ').next().unwrap() } else { "host" };
        table.insert(format!("{place} {} {kind}", options.join(",")));
    }
    table
}

/// What every sandbox has, whatever the host is.
const GOLDEN: [&str; 13] = [
    "/ ro,nosuid,nodev tmpfs",
    "/dev/full rw,nosuid,noexec host",
    "/dev/null rw,nosuid,noexec host",
    "/dev/pts rw,nosuid,noexec devpts",
    "/dev/random rw,nosuid,noexec host",
    "/dev/shm rw,nosuid,nodev tmpfs",
    "/dev/tty rw,nosuid,noexec host",
    "/dev/urandom rw,nosuid,noexec host",
    "/dev/zero rw,nosuid,noexec host",
    "/proc ro,nosuid,nodev,noexec proc",
    "/tmp rw,nosuid,nodev tmpfs",
    "/usr ro,nosuid,nodev host",
    "/var/tmp rw,nosuid,nodev tmpfs",
];

both! {
    fn sbx_01_a_the_mount_table_is_the_golden_one(stage) {
        let output = stage.run(&["cat", "/proc/self/mountinfo"]).assert_code(0);

        let found = table(stage, &output);
        for line in GOLDEN {
            assert!(found.contains(line), "no `{line}` in {found:#?}");
        }
        let idmapped = if stage.who == Who::Root { ",idmapped" } else { "" };
        for place in ["home", "work"] {
            let line = format!("STAGE/{place} rw,nosuid,nodev{idmapped} host");
            assert!(found.contains(&line), "no `{line}` in {found:#?}");
        }
        // Everything else is the system, read-only; or a mask; or a guard in the worktree.
        let rest = found.iter().filter(|line| !GOLDEN.contains(&line.as_str()));
        for line in rest {
            let (place, what) = line.split_once(' ').unwrap();
            let system = ["/etc/", "/usr", "/opt", "/bin", "/sbin", "/lib", "/nix/store"];
            let is_system = system.iter().any(|system| place.starts_with(system)) && what == "ro,nosuid,nodev host";
            let is_mask = place.starts_with("/proc/") && what == "ro,nosuid,nodev,noexec tmpfs";
            let is_guard = place.starts_with("STAGE/work/.") || place.starts_with("STAGE/work/");
            let is_own = place == "STAGE/work" || place == "STAGE/home";
            assert!(is_system || is_mask || is_own || (is_guard && what == "ro,nosuid,nodev,noexec tmpfs"), "{line}");
        }
        // The control: the host's own table is another one.
        let mut host = stage.command("cat");
        host.arg("/proc/self/mountinfo");
        let host = table(stage, &finish(host).assert_code(0));
        assert!(!GOLDEN.iter().all(|line| host.contains(*line)), "{host:#?}");
    }

    fn sbx_01_b_a_walk_of_the_root_finds_nothing_of_the_host(stage) {
        stage.file("home/of-the-host", "");
        stage.file("state/palisade/of-the-host", "");
        stage.file("config/palisade/of-the-host", "");
        let script = "ls -A / | tr '\\n' ' '; echo; ls -A /home /run /var | tr '\\n' ' '; echo; \
                      find / -xdev \\( -name of-the-host -o -type s \\) 2>/dev/null; ls -A \"$HOME\"; \
                      find $HOME /tmp /run /var /home -name of-the-host";
        let output = stage.run(&["sh", "-c", script]);

        let lines: Vec<&str> = output.stdout.lines().collect();
        let roots: BTreeSet<&str> = lines[0].split_whitespace().collect();
        let known: BTreeSet<&str> = ".empty bin boot dev etc home lib lib32 lib64 libx32 nix opt proc root run sbin tmp usr var srv mnt"
            .split(' ').collect();
        assert!(roots.is_subset(&known), "{roots:?}");
        assert!(!roots.contains("sys") && !roots.contains("boot"), "{roots:?}");
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["/home:", "/run:", "/var:", "run", "tmp"]);
        assert!(!output.stdout.contains("of-the-host"), "{output:?}");
        // The control: on the host the same user finds all three.
        let mut host = stage.command("find");
        host.args([&stage.path(""), "-name", "of-the-host"]);
        assert_eq!(finish(host).stdout.lines().count(), 3);
    }

    fn sbx_01_c_a_worktree_that_holds_our_own_folders_is_refused(stage) {
        stage.file("config/palisade/credentials.toml", "token = \"x\"\n");
        for place in ["config", "config/palisade", "state", ""] {
            let mut run = stage.palisade(&[], &["true"]);
            run.current_dir(stage.at(place));
            assert_eq!(finish(run).code, 125, "in `{place}` of the stage");
        }
        // The control: a folder beside them is none of ours.
        let mut run = stage.palisade(&[], &["true"]);
        run.current_dir(stage.at("outside"));
        finish(run).assert_code(0);
    }

    fn sbx_02_a_sockets_and_signals_stay_in_without_filter_and_read_only_mounts(stage) {
        // Writing, making, renaming, linking and removing are ADV-F01 c. Namespaces refuse these two before Landlock
        // does; devices of a place that is only read cannot be opened at all (nodev), so none can be controlled.
        let name = stage.path("x").replace('/', "-");
        let service = {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
            std::os::unix::net::UnixListener::bind_addr(&address).unwrap()
        };
        let victim = stage.victim();
        let walls = ["read-only", "seccomp"];
        stage.without(&walls, &[], &["abstract", &name]).assert_each(&["EPERM", "ECONNREFUSED"]);
        stage.without(&walls, &[], &["signals", &victim.pid()]).assert_all(&["host kill"], &["ESRCH", "EPERM"]);
        // The control: on the host the service is there. That signals arrive there is ADV-P07 b.
        assert_eq!(stage.uncontrolled(&["abstract", &name]).of("abstract"), "ok");
        drop(service);
    }

    fn sbx_04_a_no_process_of_a_hundred_has_or_gains_privilege(stage) {
        let output = stage.run(&["./attacker", "crowd", "100"]).assert_code(0);

        let report = output.report();
        assert_eq!(report.0.len(), 100);
        let user = if stage.who == Who::Root { 1000 } else { stage.user };
        let same = format!(
            "Uid={user} CapInh={NONE} CapPrm={NONE} CapEff={NONE} CapBnd={NONE} CapAmb={NONE} NoNewPrivs=1 Seccomp=2 \
             env=GIT_CONFIG_SYSTEM,HOME,LOGNAME,PALISADE,PATH,PWD,SHELL,TMPDIR,USER"
        );
        for (who, facts) in &report.0 {
            assert_eq!(*facts, same, "{who}");
        }
        // As the host sees it, nobody of them is root either.
        assert_ne!(user, 0);
        // The control: on the host the same program has no filter and may gain privileges.
        let host = stage.uncontrolled(&["crowd", "1"]);
        assert!(host.of("descendant 1").contains("NoNewPrivs=0 Seccomp=0"), "{host:?}");
    }

    fn sbx_04_b_as_the_host_sees_them_they_are_not_root(stage) {
        let token = format!("linger-{}", stage.path("who"));
        let mut run = stage.palisade(&[], &["./attacker", "linger", &token]);
        let mut run = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
        assert_eq!(crate::kit::read_line(&mut run), "up");

        let tree = crate::kit::Tree::with(&token);

        let launcher = run.id();
        assert!(tree.pids.len() >= 6, "{:?}", tree.pids);
        // The launcher and what watches for it are outside, in the host's number space.
        let space = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let is_inside = |pid: &&u32| space(&pid.to_string()) != space("self");
        for pid in tree.pids.iter().filter(is_inside) {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
            assert!(uid.split_whitespace().skip(1).all(|id| id != "0"), "{uid}");
            assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
        }
        run.kill().unwrap();
        run.wait().unwrap();
        tree.assert_gone(launcher, std::time::Duration::from_secs(5));
    }

    fn sbx_05_a_of_fifty_descriptors_three_go_in(stage) {
        let held: Vec<OwnedFd> = (0..50).map(|_| std::fs::File::open("/").unwrap().into()).collect();
        let open = "for n in $(seq 3 52); do eval \"exec $n</\"; done; exec \"$@\"";
        let mut run = stage.command("bash");
        run.args(["-c", open, "bash", &stage.path("palisade"), "run", "--", "./attacker", "descriptors"]);
        let inside = finish(run).report();
        drop(held);

        assert_eq!(inside.0.keys().map(String::as_str).collect::<Vec<_>>(), ["0", "1", "2", "leads its session"]);
        assert_eq!(inside.of("leads its session"), "true");
        // The control: the attacker itself inherits all of them.
        let mut host = stage.command("bash");
        host.args(["-c", open, "bash", &stage.path("attacker"), "descriptors"]);
        assert!(finish(host).report().0.len() > 50);
    }

    fn sbx_05_b_files_and_sockets_stay_out_and_their_bytes_go_in(stage) {
        let input = stage.file("outside/input", "from a file\n");
        let mut run = stage.palisade(&[], &["sh", "-c", "cat; readlink /proc/self/fd/0"]);
        run.stdin(std::fs::File::open(input).unwrap());
        let output = finish(run).assert_code(0);
        assert!(output.stdout.starts_with("from a file\npipe:"), "{output:?}");
        // The control: on the host the file itself goes in.
        let mut host = stage.command("sh");
        host.args(["-c", "readlink /proc/self/fd/0"]).stdin(std::fs::File::open(stage.at("outside/input")).unwrap());
        assert_eq!(finish(host).stdout.trim_end(), stage.path("outside/input"));
    }

    fn sbx_06_a_all_seven_namespaces_are_new(stage) {
        const NAMES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
        let script = "for name in user mnt pid net ipc uts cgroup; do echo \"$name: $(readlink /proc/self/ns/$name)\"; done; \
                      echo up; read line";
        let start = || {
            let mut run = stage.palisade(&[], &["sh", "-c", script]);
            run.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut run = run.spawn().unwrap();
            let lines: Vec<String> = NAMES.iter().map(|_| crate::kit::read_line(&mut run)).collect();
            (run, lines)
        };

        // Both at once: a number is used again when nobody has it.
        let ((one, first), (two, second)) = (start(), start());

        for (name, (first, second)) in NAMES.iter().zip(first.iter().zip(&second)) {
            let host = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            let host = format!("{name}: {}", host.display());
            assert!(first.contains(&format!("{name}:[")) && *first != host && *second != host && first != second, "{name}");
        }
        for mut run in [one, two] {
            drop(run.stdin.take());
            crate::kit::finished(run);
        }
        assert_ne!(stage.run(&["unshare", "-U", "true"]).code, 0, "a nested user namespace");
        // The control: on the host one can be made.
        let mut host = stage.command("unshare");
        host.args(["-U", "true"]);
        finish(host).assert_code(0);
    }
}
