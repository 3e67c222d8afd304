//! What a session of the real daemon spends of the network: counted while its task is at work, and a runaway stands still.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::daemon::{Stage, document};
use crate::world::{Certificate, EVERYONE, PUBLIC, World};

const FAKE: &str = "title = \"An agent that runs what it is told\"\ncommand = \"acp-fake\"\nacp = [\"acp-fake\"]\n\
                    presets = [\"anthropic\"]\n[modes]\ndefault = { requests = \"ask\" }\n";

/// A server that takes whatever comes and answers nothing; how much it took.
fn swallows(world: &World) -> Arc<AtomicU64> {
    let (listener, taken) = (world.listen(PUBLIC, 443), Arc::<AtomicU64>::default());
    let tls = world.identity(&["api.anthropic.com"], Certificate { expired: false, trusted: true });
    let count = Arc::clone(&taken);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (tls, count) = (Arc::clone(&tls), Arc::clone(&count));
            std::thread::spawn(move || {
                let mut taker = rustls::StreamOwned::new(rustls::ServerConnection::new(tls).unwrap(), stream);
                let mut piece = vec![0; 64 << 10];
                while let Ok(got @ 1..) = taker.read(&mut piece) {
                    count.fetch_add(got as u64, Ordering::Relaxed);
                }
            });
        }
    });
    taken
}

/// ACC-19, ACC-20: an upload without end stands still when the bytes of its session are spent, while it is under way.
#[test]
fn acc_19_an_upload_without_end_stands_still_when_its_bytes_are_spent() {
    for who in EVERYONE {
        let world = &World::new(who);
        let taken = swallows(world);
        let programs = world.home().join(".npm-global/bin");
        std::fs::create_dir_all(&programs).unwrap();
        std::fs::copy(tests::program("acp-fake"), programs.join("acp-fake")).unwrap();
        let programs = programs.display();
        document(world, "runs", FAKE);
        let stage = Stage::new(world, &format!("agents.path={programs}:/usr/local/bin:/usr/bin:/bin"));
        let session = stage.session(&["--agent", "runs"]);
        stage.palisade(&["budget", "set", "session", &session, "egress", "3000000", "--per", "ever"]);
        let upload = "run head -c 100000000000 /dev/zero | curl -sS --http1.1 --limit-rate 2M -H Expect: -X POST -T - \
                      https://api.anthropic.com/v1/messages";
        let task = stage.asks(&session, upload);
        let end = Instant::now() + Duration::from_secs(60);
        let one = loop {
            if let Some(one) = stage.approvals(&session).pop() {
                break one;
            }
            let now = stage.task(&session, &task);
            assert!(now["ended_at"].is_null(), "{now} {:?}", stage.steps(&session));
            assert!(Instant::now() < end, "{now} {} bytes were taken", taken.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(100));
        };
        assert_eq!(one["asks"]["budget"]["kind"], "egress", "{one}");
        assert!(one["asks"]["budget"]["spent"].as_i64().unwrap() > 3_000_000, "{one}");
        while stage.task(&session, &task)["state"] != "held" {
            assert!(Instant::now() < end, "it does not stand still");
            std::thread::sleep(Duration::from_millis(50));
        }
        // What was on its way arrives; then nothing does.
        std::thread::sleep(Duration::from_secs(2));
        let at = taken.load(Ordering::Relaxed);
        assert!(at < 30_000_000, "soon after it was spent: {at}");
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(taken.load(Ordering::Relaxed), at, "nothing goes out while it stands still");
        stage.palisade(&["approval", "deny", &session, one["id"].as_str().unwrap()]);
        while stage.task(&session, &task)["ended_at"].is_null() {
            assert!(Instant::now() < end + Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(100));
        }
        let usage: Value = stage.palisade(&["session", "usage", &session]);
        let spent = usage["spent"]["egress_bytes"].as_i64().unwrap();
        assert!(spent > 3_000_000 && spent < 40_000_000, "{usage}");
    }
}
