//! Orders that come before the ones before them stand.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use sandbox::spawner::{Answer, Verb};
use sandbox::{Ended, Permit, RunId};

use super::Stage;

/// Orders without waiting for an answer.
fn ordered(stage: &Stage, command: &[&str]) -> RunId {
    let order = stage.order(command);
    let run = order.run.clone();
    let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    stage.spawner.launch(Permit::own_process(), order, [null.as_fd(), null.as_fd(), null.as_fd()]).unwrap();
    run
}

/// Each is answered once, whatever the others do, and each ends as its own command does.
pub(super) fn orders_wait_for_no_other() {
    let stage = Stage::new(2);
    let codes: Vec<(RunId, u8)> =
        (1..=12_u8).map(|code| (ordered(&stage, &["sh", "-c", &format!("exit {code}")]), code)).collect();
    let (mut ready, mut ended) = (BTreeSet::new(), BTreeSet::new());
    while ended.len() < codes.len() {
        match stage.spawner.hear().unwrap() {
            Answer::Ready { run, account } => {
                assert_eq!(account.differences, Vec::<String>::new());
                stage.spawner.go(run.clone()).unwrap();
                assert!(ready.insert(run), "told twice");
            }
            Answer::Ended { run, ended: Ended::Code(code) } => {
                assert!(ready.contains(&run), "ended before it stood");
                assert!(codes.contains(&(run.clone(), code)), "{run} ended with {code}");
                assert!(ended.insert(run), "ended twice");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What does not stand yet cannot begin, and can be ended.
pub(super) fn what_does_not_stand_yet_does_not_begin() {
    let stage = Stage::new(1);
    // The first shape is attacked before it is used; afterwards orders come one upon the other.
    let (run, _out) = stage.start(stage.order(&["true"])).unwrap();
    assert_eq!(stage.ended(&run), Ended::Code(0));
    let mut refused = 0;
    for _ in 0..20 {
        // The first may have one that stands already; for the other one is begun, and the word comes in the same moment.
        let (first, second) = (ordered(&stage, &["true"]), ordered(&stage, &["true"]));
        stage.spawner.go(second.clone()).unwrap();
        let (mut was_early, mut ended) = (false, 0);
        while ended < 2 {
            match stage.spawner.hear().unwrap() {
                Answer::Refused { run: Some(run), why } if run == second => {
                    assert!(why.contains("does not stand yet"), "{why}");
                    was_early = true;
                }
                Answer::Ready { run, .. } if run == first || was_early => stage.spawner.go(run).unwrap(),
                // It stood when the word came.
                Answer::Ready { .. } => {}
                Answer::Ended { ended: Ended::Code(0), .. } => ended += 1,
                other => panic!("{other:?}"),
            }
        }
        refused += usize::from(was_early);
    }
    assert!(refused > 0, "never was one early");
    for _ in 0..5 {
        let run = ordered(&stage, &["sleep", "1000"]);
        stage.spawner.say(&Verb::Kill { run: run.clone() }).unwrap();
        loop {
            match stage.spawner.hear().unwrap() {
                // It was ended before it stood, or it stood first.
                Answer::Refused { run: Some(which), .. } if which == run => break,
                Answer::Ready { run: which, .. } if which == run => {}
                Answer::Ended { run: which, ended: Ended::Killed } if which == run => break,
                other => panic!("{other:?}"),
            }
        }
    }
}
