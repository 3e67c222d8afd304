//! Lists are paged in the store, and a page does not move under the reader.

use std::collections::BTreeSet;

use api::{LedgerFilter, WorktreeFilter};
use tests::Host;

/// GTW-10: what was there when reading began is seen once, whatever is added meanwhile.
#[test]
fn gtw_10_a_cursor_is_stable_under_inserts_and_removals() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let first: Vec<String> =
        (0..120).map(|n| host.owner().worktree(&repo, &format!("w-{n}"), "session").id).collect();
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let filter = WorktreeFilter { after: after.clone(), limit: Some(25), ..WorktreeFilter::default() };
        let page = host.owner().client.worktrees(&filter).unwrap();
        assert!(page.items.len() <= 25);
        seen.extend(page.items.into_iter().map(|item| item.id));
        pages += 1;
        // Between two pages: one more at the end, and the one that the cursor names goes.
        drop(host.owner().worktree(&repo, &format!("new-{pages}"), "session"));
        if pages == 2 {
            host.owner().client.delete_worktree(seen.last().unwrap()).unwrap();
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "none twice");
    assert!(first.iter().all(|id| distinct.contains(id)), "none missed");
}

/// GTW-10: 50 unless told, 100 at most, 1,000 for the ledger.
#[test]
fn gtw_10_pages_have_bounds() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    for n in 0..60 {
        drop(host.owner().worktree(&repo, &format!("w-{n}"), "session"));
    }
    let count = |query: &str| {
        let mut answer =
            host.owner().client.send("GET", &format!("/api/v1/worktrees{query}"), &[], Vec::new()).unwrap();
        let value: serde_json::Value = answer.body_mut().read_json().unwrap();
        (answer.status().as_u16(), value["items"].as_array().map(Vec::len))
    };
    assert_eq!(count(""), (200, Some(50)));
    assert_eq!(count("?limit=100"), (200, Some(60)));
    for bad in
        ["?limit=0", "?limit=101", "?limit=-1", "?limit=x", "?after=x", "?unknown=1", "?limit=1&limit=2"]
    {
        assert_eq!(count(bad), (422, None), "{bad}");
    }
    let ledger =
        |limit| host.owner().client.ledger(&LedgerFilter { limit: Some(limit), ..LedgerFilter::default() });
    assert_eq!(ledger(1_000).unwrap().items.len(), usize::try_from(host.ledger_head()).unwrap());
    assert_eq!(ledger(1_001).unwrap_err().status(), Some(422));
}
