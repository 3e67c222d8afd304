//! Shutdown is orderly: what was acknowledged stays, what is new is refused, a second signal does not wait.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::{CreateWorktreeRequest, WorktreeFilter};
use tests::{Host, scale};

use crate::gateway_wire::{connect, request};

/// The names of all worktrees.
pub fn names(host: &Host) -> BTreeSet<String> {
    let (mut all, mut after) = (BTreeSet::new(), None);
    loop {
        let filter = WorktreeFilter { after, limit: Some(100), ..WorktreeFilter::default() };
        let page = host.owner().client.worktrees(&filter).unwrap();
        all.extend(page.items.into_iter().map(|item| item.name));
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

/// Ends the load however its test goes on.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Four clients create worktrees until told to stop; what was acknowledged is noted before anything else.
pub fn load(
    host: &mut Host,
    repo: &str,
    next: &AtomicUsize,
    kept: &Mutex<BTreeSet<String>>,
    end: impl FnOnce(&mut Host),
) {
    let (client, stop) = (host.owner().client.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (client, stop) = (client.clone(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let name = format!("w-{}", next.fetch_add(1, Ordering::Relaxed));
                    let body = CreateWorktreeRequest {
                        repo: repo.to_owned(),
                        name: name.clone(),
                        about: String::new(),
                        tier: None,
                        branch: None,
                        base: None,
                    };
                    match client.create_worktree(&body) {
                        Ok(_) => drop(kept.lock().unwrap().insert(name)),
                        // The daemon is gone, or says that it is going.
                        Err(error) if error.status().is_none_or(|status| status == 503) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        end(host);
    });
}

/// GTW-13: no acknowledged write is lost over restarts under load.
#[test]
fn gtw_13_restarts_under_load_lose_nothing() {
    let mut host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let (next, kept) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    for round in 0..scale(100, 5) {
        let before = kept.lock().unwrap().len();
        load(&mut host, &repo, &next, &kept, |host| {
            let deadline = Instant::now() + Duration::from_secs(20);
            while kept.lock().unwrap().len() < before + 5 + round % 7 {
                assert!(Instant::now() < deadline, "nothing is written");
                std::thread::yield_now();
            }
            host.stop();
        });
        host.start_daemon().unwrap();
        host.rebase();
        let there = names(&host);
        let lost: Vec<String> = kept.lock().unwrap().difference(&there).cloned().collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        assert_eq!(host.owner().client.verify_ledger().unwrap().verdict, "intact");
    }
    assert!(!host.log().contains("interrupted by the last end"), "an orderly end leaves nothing open");
}

/// GTW-13: a request under way is answered, a stream is told, and nobody new is let in.
#[test]
fn gtw_13_a_stop_lets_what_is_under_way_finish() {
    let mut host = Host::start();
    let mut stream = BufReader::new(host.owner().client.events(None).unwrap()).lines();
    let body = br#"{"name":"late","origin":"https://forge.example/a/b"}"#;
    let token = host.owner().client.token().unwrap();
    let whole = request(&host, token, "POST", "/api/v1/repos", &[("content-type", "application/json")], body);
    let mut under_way = connect(&host);
    under_way.write_all(&whole[..whole.len() - 10]).unwrap();
    drop(host.owner().client.whoami()); // by now the daemon has begun to read it
    let pid = host.pid();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| host.stop());
        let told = stream.find(|line| line.as_ref().is_ok_and(|line| line == "event: ended"));
        assert!(told.is_some(), "the stream is told");
        under_way.write_all(&whole[whole.len() - 10..]).unwrap();
        let mut said = String::new();
        drop(under_way.read_to_string(&mut said));
        assert!(said.starts_with("HTTP/1.1 201"), "{said}");
        ending.join().unwrap();
    });
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    assert!(!std::path::Path::new(&format!("/proc/{pid}/exe")).exists());
    host.start_daemon().unwrap();
    host.rebase();
    assert_eq!(host.owner().client.repos(None).unwrap().items.len(), 1);
}

/// GTW-13: grace is five seconds, and a second signal does not wait for it.
#[test]
fn gtw_13_a_second_signal_forces() {
    for (signals, least, most) in [(1, 4, 8), (2, 0, 3)] {
        let mut host = Host::start();
        let token = host.owner().client.token().unwrap();
        let headers = [("content-type", "application/json"), ("content-length", "100")];
        let mut stuck = connect(&host);
        stuck.write_all(&request(&host, token, "POST", "/api/v1/repos", &headers, b"{")).unwrap();
        drop(host.owner().client.whoami());
        let start = Instant::now();
        let pid = rustix::process::Pid::from_raw(host.pid().cast_signed()).unwrap();
        if signals == 2 {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            crate::gateway_wire::until("it has begun to stop", || host.log().contains("stopping"));
        }
        host.stop();
        let took = start.elapsed().as_secs();
        assert!((least..=most).contains(&took), "{signals} signals: {took} s");
    }
}
