//! A process that watches and is stopped by somebody: nobody waits for it for ever.

use rustix::process::{Signal, kill_process, test_kill_process};

use crate::scene::{Scene, everyone, until};

#[test]
fn adv_f06_a_run_does_not_go_on_when_what_watches_it_is_ended() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.file(".env", "secret");
        let mut run = scene.start(&[], "while :; do sleep 0.01; done");

        kill_process(run.guardian(), Signal::KILL).unwrap();

        let mut ended = None;
        until("the run ends by itself", || {
            ended = run.child.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().code(), Some(137), "{who:?}");
        run.end_unwatched().tells("the process that watches was ended, and the run with it");
    }
}

#[test]
fn adv_f06_a_run_ends_although_what_watches_it_is_stopped() {
    let scenes: Vec<Scene> = everyone().into_iter().map(Scene::new).collect();
    std::thread::scope(|threads| {
        for scene in &scenes {
            threads.spawn(|| {
                scene.file(".env", "secret");
                let run = scene.start(&[], "while [ ! -e go ]; do :; done; echo OVER");
                let guardian = run.guardian();
                kill_process(guardian, Signal::STOP).unwrap();
                let said = run.end_unwatched().tells("were not watched to the end");
                assert!(said.out.ends_with("OVER\n"), "{}", said.out);
                until("it is gone too", || test_kill_process(guardian).is_err());
            });
        }
    });
}
