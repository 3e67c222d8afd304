//! A process that watches and is stopped by somebody: nobody waits for it for ever.

use rustix::process::{Signal, kill_process, test_kill_process};

use crate::scene::{Scene, everyone, until};

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
