//! A ledger that was deleted, rolled back or replaced while no daemon ran: refused, named, and left as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::LedgerFilter;
use tests::Host;

use crate::gateway_wire::psql;
use crate::ledger_secrets::files;

/// Everything beside the store, whose engine may tidy its own files.
fn beside_the_store(host: &Host) -> Vec<(PathBuf, Vec<u8>)> {
    let store = host.data().join("store");
    let other = |path: &Path| !path.starts_with(&store) && !path.ends_with("palisaded.lock");
    files(&host.data()).into_iter().filter(|(path, _)| other(path)).collect()
}

fn copy(from: &Path, to: &Path) {
    drop(fs::remove_dir_all(to));
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// A stopped host, its ledger as it was at an earlier stop, and as it is; and the number of its last entry.
fn grown() -> (Host, PathBuf, PathBuf, u64) {
    let mut host = Host::start();
    drop(host.repo("one"));
    host.stop();
    let (early, late) = (host.place().join("early"), host.place().join("late"));
    copy(&host.data().join("ledger"), &early);
    host.start_daemon().unwrap();
    host.rebase();
    for name in ["two", "three"] {
        drop(host.repo(name));
    }
    host.stop();
    copy(&host.data().join("ledger"), &late);
    let head = fs::read_to_string(late.join("segments/00000001.seg")).unwrap().lines().count();
    (host, early, late, u64::try_from(head).unwrap())
}

/// LED-06: deleted, emptied, rolled back with its checkpoints, another one: refused with what to do, and no byte is
/// changed. The right one in its place again, everything goes on.
#[test]
fn led_06_a_ledger_that_lacks_what_the_store_remembers_is_refused() {
    let (mut host, early, late, head) = grown();
    let ledger = host.data().join("ledger");
    let mut other = Host::start();
    for n in 0..20 {
        drop(other.repo(&format!("r-{n}")));
    }
    other.stop();
    let deleted = || drop(fs::remove_dir_all(&ledger));
    let emptied = || {
        deleted();
        fs::create_dir_all(ledger.join("segments")).unwrap();
    };
    let rolled_back = || copy(&early, &ledger);
    let replaced = || copy(&other.data().join("ledger"), &ledger);
    let cases: [(&str, &dyn Fn()); 4] = [
        ("deleted", &deleted),
        ("emptied", &emptied),
        ("rolled back", &rolled_back),
        ("replaced", &replaced),
    ];
    for (what, change) in cases {
        change();
        let before = beside_the_store(&host);
        let error = host.start_daemon().unwrap_err();
        assert!(error.contains(&format!("the store remembers entry {head}")), "{what}: {error}");
        assert!(error.contains("--accept-ledger-loss"), "{what}: {error}");
        assert!(beside_the_store(&host) == before, "{what}");
    }
    copy(&late, &ledger);
    host.start_daemon().unwrap();
    host.rebase();
    assert_eq!(host.owner().client.repos(None).unwrap().items.len(), 3);
    assert_eq!(host.owner().client.verify_ledger().unwrap().verdict, "intact");
}

/// LED-06: users without a ledger are enough, even if the store remembers no line of it.
#[test]
fn led_06_users_without_a_ledger_are_refused() {
    let url = tests::database();
    let mut host =
        Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &tests::master_key()).start();
    host.stop();
    psql(&url, "DELETE FROM ledger_index");
    fs::remove_dir_all(host.data().join("ledger")).unwrap();
    let error = host.start_daemon().unwrap_err();
    assert!(error.contains("the store has users, and it is empty"), "{error}");
}

/// LED-06: a loss that is accepted is on the record with both positions; new acts are found, lost ones are not shown
/// as if they were there, and what the store knew of them is kept aside.
#[test]
fn led_06_an_accepted_loss_is_recorded_and_the_daemon_goes_on() {
    for gone in [false, true] {
        let (mut host, early, late, head) = grown();
        let ledger = host.data().join("ledger");
        let found = match gone {
            true => {
                fs::remove_dir_all(&ledger).unwrap();
                0
            }
            false => {
                copy(&early, &ledger);
                fs::read_to_string(early.join("segments/00000001.seg")).unwrap().lines().count()
            }
        };
        host.up_with(&["--accept-ledger-loss"]);
        host.start_daemon().unwrap();
        host.up_with(&[]);
        host.rebase();
        let entries = host.ledger(&LedgerFilter::default());
        let told: Vec<_> = entries.iter().filter(|entry| entry.action == "ledger.rolled_back").collect();
        assert_eq!(told.len(), 1, "{entries:?}");
        assert_eq!(told[0].decision, "noted");
        let stored = fs::read_to_string(ledger.join("segments/00000001.seg")).unwrap();
        let line = stored.lines().find(|line| line.contains("ledger.rolled_back")).unwrap();
        for detail in [
            format!("\"remembered\":\"{head}\""),
            format!("\"found\":\"{found}\""),
            format!("\"common\":\"{found}\""),
        ] {
            assert!(line.contains(&detail), "{line}");
        }
        let created = |host: &Host| {
            let filter = LedgerFilter {
                action: Some("repo.create".into()),
                decision: Some("done".into()),
                ..LedgerFilter::default()
            };
            host.ledger(&filter).len()
        };
        let before = created(&host);
        assert_eq!(before, usize::from(!gone), "what is lost is not shown");
        drop(host.repo("four"));
        assert_eq!(created(&host), before + 1, "new acts are found");
        assert_eq!(host.owner().client.verify_ledger().unwrap().verdict, "intact");

        let aside: Vec<_> = files(&host.data())
            .into_iter()
            .filter(|(path, _)| path.file_name().unwrap().to_string_lossy().starts_with("ledger-lost-"))
            .collect();
        let lost = fs::read_to_string(late.join("segments/00000001.seg")).unwrap();
        let lost: Vec<_> = lost.lines().skip(found).collect();
        assert_eq!(aside.len(), 1);
        assert_eq!(String::from_utf8(aside[0].1.clone()).unwrap().lines().collect::<Vec<_>>(), lost);
        host.restart();
        assert_eq!(created(&host), before + 1);
        let again = host
            .ledger(&LedgerFilter { action: Some("ledger.rolled_back".into()), ..LedgerFilter::default() });
        assert_eq!(again.len(), 1, "accepted once, told once");
    }
}

/// LED-06: on PostgreSQL another data directory is another ledger.
#[test]
fn led_06_a_database_with_another_data_directory_is_refused() {
    let (url, key) = (tests::database(), tests::master_key());
    let with = || Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &key);
    let mut first = with().start();
    drop(first.repo("one"));
    first.stop();
    let mut second = with().stopped();
    let error = second.start_daemon().unwrap_err();
    assert!(error.contains("the store remembers entry") && error.contains("it is empty"), "{error}");
    assert!(!second.data().join("ledger").exists(), "nothing was made");
    first.start_daemon().unwrap();
}
