//! The walking skeleton: up, owner, worktree record, gate, ledger, verify.

use api::{LedgerFilter, WorktreeFilter};
use tests::Host;

#[test]
fn an_owner_makes_a_worktree_and_it_is_on_the_record() {
    let host = Host::start();
    let repo = host.repo("demo");

    let worktree = host.owner().worktree(&repo, "one", "session");

    assert_eq!(worktree.owners, [host.owner().id.clone()]);
    let listed = host.owner().client.worktrees(&WorktreeFilter::default()).unwrap();
    assert_eq!(listed.items, std::slice::from_ref(&worktree));
    let entries = host.ledger(&LedgerFilter { resource: Some(worktree.id), ..LedgerFilter::default() });
    let decisions: Vec<_> =
        entries.iter().map(|entry| (entry.action.as_str(), entry.decision.as_str())).collect();
    assert_eq!(decisions, [("worktree.create", "allowed"), ("worktree.create", "done")]);
    let report = host.owner().client.verify_ledger().unwrap();
    assert_eq!(
        (report.verdict.as_str(), report.findings.as_slice()),
        ("intact", [].as_slice()),
        "{report:?}"
    );
}

#[test]
fn the_same_on_postgresql() {
    let host = Host::builder().on_postgresql().start();
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "none");
    let member = host.user("bo", "member");
    assert_eq!(host.owner().client.status().unwrap().store, "postgres");
    assert_eq!(member.client.worktree(&worktree.id).unwrap_err().status(), Some(404));
    assert_eq!(member.client.worktrees(&WorktreeFilter::default()).unwrap().items, []);
}

#[test]
fn a_second_daemon_on_the_same_database_refuses() {
    let url = tests::database();
    let key = tests::master_key();
    let mut first = Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &key).unclaimed();
    let mut second = Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &key).stopped();
    let said = second.start_daemon().unwrap_err();
    assert!(said.contains("another daemon uses this database"), "{said}");
    first.kill();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    // The server lets go as soon as it notices that the first is gone; the second has another ledger, though.
    while !second.start_daemon().unwrap_err().contains("--accept-ledger-loss") {
        assert!(std::time::Instant::now() < deadline, "the database was not given back");
    }
    first.start_daemon().unwrap();
}
