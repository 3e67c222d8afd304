//! ADV-F10: programs that carry their owner's privileges.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::kit::{Stage, Who, both};

/// Makes the attacker a program of root's with every privilege there is; only root can.
fn with_privileges(stage: &Stage) -> bool {
    if !stage.is_thrown_away() {
        return false;
    }
    for name in ["setuid", "capable"] {
        let to = stage.at("work").join(name);
        let copied = std::process::Command::new("cp").arg(stage.at("attacker")).arg(&to).status();
        assert!(copied.unwrap().success());
    }
    fs::set_permissions(stage.at("work/setuid"), fs::Permissions::from_mode(0o6755)).unwrap();
    // In force at once: reading past modes, becoming others.
    let some: [u8; 20] = [1, 0, 0, 2, 0x82, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    rustix::fs::setxattr(
        stage.at("work/capable"),
        "security.capability",
        &some,
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    stage.settle();
    true
}

const NONE: &str = "0000000000000000";

both! {
    fn adv_f10_a_a_program_with_privileges_has_none_inside(stage) {
        if !with_privileges(stage) {
            return;
        }
        for program in ["./setuid", "./capable"] {
            let report = stage.run(&[program, "who"]).report();
            assert_eq!(report.of("gained"), "false", "{program}: {report:?}");
            report.assert_all(&["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"], &[NONE]);
            assert_eq!(report.of("NoNewPrivs"), "1");
        }
        // The mounts alone hold too: without the other walls nothing asks for no_new_privs.
        let walls = ["landlock", "seccomp", "no-new-privs"];
        let mut bare = stage.command(stage.at("bare"));
        stage.folder("bare-home", 0o700);
        for wall in walls {
            bare.args(["--without", wall]);
        }
        bare.args(["--home", &stage.path("bare-home"), "--rw", &stage.path("work"), "--", "./setuid", "who"]);
        let report = crate::kit::finish(bare).report();
        assert_eq!((report.of("gained"), report.of("NoNewPrivs")), ("false", "0"));
        // The control: on the host, a user becomes root by it.
        if stage.who == Who::User {
            let mut host = stage.command("./setuid");
            host.arg("who");
            assert_eq!(crate::kit::finish(host).report().of("gained"), "true");
            let mut host = stage.command("./capable");
            host.arg("who");
            assert_ne!(crate::kit::finish(host).report().of("CapEff"), NONE);
        }
    }

    fn adv_f10_b_no_such_program_can_be_left_behind(stage) {
        let report = stage.attack(&["setuid"]);

        report.assert_each(&["EPERM"]);
        for entry in fs::read_dir(stage.at("work")).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().mode() & 0o4000, 0, "{}", entry.path().display());
        }
        // The control: without the filter, the bit is set, and counts on the host.
        let report = stage.without(&["seccomp"], &[], &["setuid"]);
        report.assert_all(&["chmod", "fchmod", "fchmodat", "openat", "mknod"], &["ok"]);
        assert_ne!(fs::metadata(stage.at("work/suid-chmod")).unwrap().mode() & 0o4000, 0);
        assert_eq!(fs::metadata(stage.at("work/suid-chmod")).unwrap().uid(), stage.user);
    }

    fn adv_f10_c_no_program_of_the_owners_group_can_be_left_behind(stage) {
        // The filter lets the bit of the group pass, for folders' sake: the end of the run puts such programs away.
        let script = "cp attacker program; chmod 2755 program; mkdir -p deep/er; cp attacker deep/er/program; \
                      chmod g+s deep/er/program; mkdir shared; chmod 2775 shared; true";
        stage.run(&["sh", "-c", script]).assert_code(0);

        for name in ["work/program", "work/deep/er/program"] {
            let left = fs::metadata(stage.at(name)).map_or(0, |left| left.mode());
            assert_eq!(left & 0o2000, 0, "{name} stayed");
        }
        // A folder is no program.
        assert!(stage.at("work/shared").is_dir());
        // The control: on the host they stay.
        let mut host = stage.command("sh");
        host.args(["-c", script]);
        crate::kit::finish(host);
        assert_ne!(fs::metadata(stage.at("work/program")).unwrap().mode() & 0o2000, 0);
    }
}
