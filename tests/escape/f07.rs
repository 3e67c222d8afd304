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

    fn adv_f07_b_a_pipe_that_goes_in_cannot_be_turned_around(stage) {
        let palisade = format!("{} run --", stage.path("palisade"));
        let pipeline = |sandbox: &str, inside: &str, around: [&str; 2]| {
            let [before, after] = around;
            let mut shell = stage.command("sh");
            shell.args(["-c", &format!("{before} {sandbox} sh -c '{inside}' {after}")]);
            finish(shell).stdout
        };

        // Into what a shell of the host's reads next.
        let (write, around) = ("echo \"echo taken over\" > /proc/self/fd/0", ["printf 'echo fine\\n' | (", "; sh)"]);
        let run = pipeline(&palisade, write, around);
        assert!(!run.contains("taken over"), "{run}");
        // Out of what a program of the host's wrote before.
        let read = "exec 3</proc/self/fd/1 && timeout 2 head -c 6 <&3 > got";
        let got = || std::fs::read_to_string(stage.at("work/got")).unwrap_or_default();
        pipeline(&palisade, read, ["mkfifo gate; (echo secret;", "; echo > gate) | (read wait < gate; cat)"]);
        assert_eq!(got(), "");
        // The control: without a sandbox both are done.
        assert!(pipeline("", write, around).contains("taken over"));
        pipeline("", read, ["(echo secret;", "; echo > gate) | (read wait < gate; cat)"]);
        assert_eq!(got(), "secret");
    }
}
