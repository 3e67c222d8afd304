//! kill -9 at any moment: the store opens, the ledger is intact, and what was acknowledged is there with its entry.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use api::LedgerFilter;
use tests::{Host, scale};

use crate::gateway_stop::{load, names};
use crate::gateway_wire::psql;

/// Names whose creation the ledger says was done: every entry, page by page.
fn recorded(host: &Host) -> BTreeSet<String> {
    let (mut done, mut after) = (BTreeSet::new(), None);
    loop {
        let filter = LedgerFilter {
            action: Some("worktree.create".into()),
            limit: Some(1_000),
            after,
            ..LedgerFilter::default()
        };
        let page = host.owner().client.ledger(&filter).unwrap();
        done.extend(
            page.items.iter().filter(|entry| entry.decision == "done").map(|entry| entry.resource.clone()),
        );
        after = page.next;
        if after.is_none() {
            return done;
        }
    }
}

fn ids(host: &Host, kept: &BTreeSet<String>) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let filter = api::WorktreeFilter { after, limit: Some(100), ..api::WorktreeFilter::default() };
        let page = host.owner().client.worktrees(&filter).unwrap();
        all.extend(page.items.into_iter().filter(|item| kept.contains(&item.name)).map(|item| item.id));
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

fn kill_again_and_again(mut host: Host, rounds: usize) {
    let repo = host.repo("demo");
    let (next, kept) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..rounds {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let pause = Duration::from_micros(20_000 + dice % 250_000);
        load(&mut host, &repo, &next, &kept, |host| {
            // A random moment, not a synchronisation.
            let end = Instant::now() + pause;
            while Instant::now() < end {
                std::thread::yield_now();
            }
            host.kill();
        });
        host.start_daemon().unwrap_or_else(|error| panic!("round {round}: {error}"));
        host.rebase();
        let report = host.owner().client.verify_ledger().unwrap();
        assert_eq!(
            (report.verdict.as_str(), report.findings.as_slice()),
            ("intact", [].as_slice()),
            "round {round}"
        );
        let kept = kept.lock().unwrap();
        let lost: Vec<String> = kept.difference(&names(&host)).cloned().collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and gone: {lost:?}");
        let done = recorded(&host);
        let ids = ids(&host, &kept);
        assert_eq!(ids.len(), kept.len());
        assert!(ids.iter().all(|id| done.contains(id)), "round {round}: acknowledged without its entry");
    }
    assert!(kept.lock().unwrap().len() >= rounds, "there was load");
}

/// LED-03, GTW-13: two hundred random points under load.
#[test]
fn led_03_kill_at_random_points_under_load() {
    kill_again_and_again(Host::builder().set("limits.requests_per_minute", "0").start(), scale(200, 10));
}

/// The same on PostgreSQL, fewer times: the ledger is the same, only the store differs.
#[test]
fn led_03_kill_at_random_points_on_postgresql() {
    let url = tests::database();
    let host = Host::builder().set("store.url", &url).set("limits.requests_per_minute", "0");
    kill_again_and_again(host.variable("PALISADE_MASTER_KEY", &tests::master_key()).start(), scale(40, 3));
    assert_ne!(psql(&url, "SELECT count(*) FROM worktrees"), "0");
}
