//! ADV-F07: the launcher has `/` open on descriptor 9.

use crate::kit::{both, finish};

both! {
    fn adv_f07_a_an_inherited_descriptor_does_not_go_in(stage) {
        let with_root = |rest: &str| {
            let mut shell = stage.command("sh");
            shell.args(["-c", &format!("exec 9</ && exec {rest}")]);
            finish(shell).report()
        };

        let inside = with_root(&format!("{} run -- ./attacker descriptors", stage.path("palisade")));

        let numbers: Vec<&str> = inside.0.keys().map(String::as_str).filter(|name| *name != "leads its session").collect();
        assert_eq!(numbers, ["0", "1", "2"]);
        // The control: on the host it is there.
        assert_eq!(with_root("./attacker descriptors").of("9"), "/");
    }
}
