//! ADV-P12: a layer is missing: nothing starts, and the message names it.
//!
//! The kernel is made to lack a layer by a filter around the launcher. Left: degraded by an administrator's setting,
//! changed helper binaries (process 1 is inside the launcher), and `doctor`.

use crate::kit::{both, finish};

/// What is taken away: a name, the calls, and a word that the message must have.
const LAYERS: [(&str, &str, &str); 7] = [
    ("namespaces", "435=EPERM", "user namespaces: "),
    ("landlock", "444=ENOSYS", "landlock: "),
    ("landlock in force", "446=EPERM", "landlock: "),
    ("mounts", "430=EPERM", "mounts: "),
    ("read-only mounts", "442=EPERM", "mounts: "),
    ("seccomp", "317=EPERM", "seccomp: "),
    ("no_new_privs", "157:38=EPERM", "no_new_privs: "),
];

both! {
    fn adv_p12_a_without_a_layer_nothing_starts(stage) {
        for (name, calls, word) in LAYERS {
            let mut run = stage.command(stage.at("attacker"));
            run.args(["deny", calls, "--"]).arg(stage.at("palisade")).args(["run", "--", "touch", "started"]);

            let output = finish(run).assert_code(125);

            assert!(!stage.at("work/started").exists(), "started without {name}");
            assert!(output.stderr.starts_with("palisade: "), "{name}: {}", output.stderr);
            assert!(output.stderr.contains(word), "{name}: {}", output.stderr);
        }
        // The control: the same with a call that nobody needs.
        let mut run = stage.command(stage.at("attacker"));
        run.args(["deny", "212=ENOSYS", "--"]).arg(stage.at("palisade")).args(["run", "--", "touch", "started"]);
        finish(run).assert_code(0);
        assert!(stage.at("work/started").exists());
    }

    fn adv_p12_b_a_profile_that_requires_a_group_gets_one_or_nothing_starts(stage) {
        if stage.who == crate::kit::Who::Root {
            return;
        }
        let output = stage.run_with(&["--profile", "strict"], &["touch", "started"]);

        // A user without delegation: there is no group, so there is no run.
        assert_eq!(output.code, 125, "{output:?}");
        assert!(output.stderr.contains("control groups"), "{output:?}");
    }
}
