//! ADV-P11: overwriting the launcher.

use std::process::Command;

use crate::kit::{Snapshot, both, finish};

both! {
    fn adv_p11_a_the_launcher_cannot_be_overwritten(stage) {
        // A copy that the user owns and may write, so that only the sandbox can be what refuses.
        let own = stage.folder("bin", 0o755).join("palisade");
        assert!(Command::new("cp").arg(stage.at("palisade")).arg(&own).status().unwrap().success());
        if stage.is_thrown_away() {
            std::os::unix::fs::chown(&own, Some(stage.user), Some(stage.user)).unwrap();
        }
        let before = Snapshot::of(&own);
        let script = format!(
            "try() {{ name=$1; shift; \"$@\" 2>/dev/null && echo \"$name: ok\" || echo \"$name: refused\"; }}
             try 'write process 1' sh -c 'echo evil > /proc/1/exe'
             try 'read process 1' sh -c 'cat /proc/1/exe > stolen && test -s stolen'
             try 'append' sh -c 'echo evil >> /proc/1/exe'
             try 'its path' sh -c 'echo evil > {own}'
             try 'link' ln /proc/1/exe linked
             try 'descriptors' sh -c 'ls -l /proc/1/fd/ | grep .'
             try 'map' sh -c 'cat /proc/1/maps | grep .'
             printf '#!/proc/1/exe\\n' > script; chmod +x script
             try 'interpreter' ./script
             try 'parent' sh -c 'echo evil > /proc/$PPID/../1/exe'
             for fd in /proc/self/fd/* /proc/[0-9]*/fd/*; do case $(readlink $fd) in *memfd*|*palisade) echo 'leaked: ok';; esac; done
             echo 'end: of it'",
            own = own.display()
        );
        let mut run = stage.command(&own);
        run.args(["run", "--", "sh", "-c", &script]);

        let report = finish(run).report();

        assert!(report.through().is_empty(), "{report:?}");
        before.assert_same(&own);
        // The control: on the host the same user can.
        let mut host = stage.command("sh");
        host.args(["-c", "echo evil >> $1 && echo 'written: ok'", "sh", own.to_str().unwrap()]);
        assert_eq!(finish(host).report().of("written"), "ok");
    }
}
