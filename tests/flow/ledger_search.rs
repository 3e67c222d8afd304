//! Searching the ledger, checking it elsewhere, and what each may see.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use api::LedgerFilter;
use tests::{Host, program};

/// LED-12: every filter cuts as it says, alone and together.
#[test]
fn led_12_filters_cut_as_they_say() {
    let host = Host::start();
    let bo = host.user("bo", "member");
    let repo = host.repo("demo");
    let worktree = bo.worktree(&repo, "one", "session");
    assert_eq!(bo.client.policies().unwrap_err().status(), Some(403));
    let all = host.ledger(&LedgerFilter::default());
    assert_eq!(
        all.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
        (1..=host.ledger_head()).collect::<Vec<_>>()
    );
    let check = |filter: LedgerFilter, fits: &dyn Fn(&api::LedgerEntry) -> bool| {
        let found: Vec<u64> = host.ledger(&filter).iter().map(|entry| entry.seq).collect();
        let expected: Vec<u64> = all.iter().filter(|entry| fits(entry)).map(|entry| entry.seq).collect();
        assert!(!expected.is_empty(), "{filter:?}");
        assert_eq!(found, expected, "{filter:?}");
    };
    let any = LedgerFilter::default;
    check(LedgerFilter { user: Some(bo.id.clone()), ..any() }, &|entry| entry.who == bo.id);
    check(LedgerFilter { action: Some("worktree.create".into()), ..any() }, &|entry| {
        entry.action == "worktree.create"
    });
    check(LedgerFilter { resource: Some(worktree.id.clone()), ..any() }, &|entry| {
        entry.resource == worktree.id
    });
    check(LedgerFilter { decision: Some("refused".into()), ..any() }, &|entry| entry.decision == "refused");
    let middle = all[all.len() / 2].at;
    check(LedgerFilter { since: Some(middle), ..any() }, &|entry| entry.at >= middle);
    check(LedgerFilter { until: Some(middle), ..any() }, &|entry| entry.at < middle);
    let both = LedgerFilter { user: Some(bo.id.clone()), decision: Some("done".into()), ..any() };
    check(both, &|entry| entry.who == bo.id && entry.decision == "done");
    assert!(host.ledger(&LedgerFilter { action: Some("no.such".into()), ..any() }).is_empty());

    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = host.owner().client.ledger(&LedgerFilter { after, limit: Some(3), ..any() }).unwrap();
        paged.extend(page.items.iter().map(|entry| entry.seq));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    paged.reverse();
    assert_eq!(paged, all.iter().map(|entry| entry.seq).collect::<Vec<_>>(), "page by page");
    let stored = segments(&host.data().join("ledger"));
    assert!(all.iter().all(|entry| stored.contains(&entry.line)), "what is shown is what is stored");
}

/// LED-12: without the right there is no row of others and no count.
#[test]
fn led_12_without_the_right_there_is_no_row_and_no_count() {
    let host = Host::start();
    let (bo, vi) = (host.user("bo", "member"), host.user("vi", "viewer"));
    let repo = host.repo("demo");
    drop(bo.worktree(&repo, "one", "session"));
    let own = bo.client.ledger(&LedgerFilter::default()).unwrap();
    assert!(!own.items.is_empty() && own.items.iter().all(|entry| entry.who == bo.id), "{own:?}");
    let other = LedgerFilter { user: Some(host.owner().id.clone()), ..LedgerFilter::default() };
    let page = bo.client.ledger(&other).unwrap();
    assert!(page.items.is_empty() && page.next.is_none());
    let beside = LedgerFilter { action: Some("repo.create".into()), ..LedgerFilter::default() };
    assert!(bo.client.ledger(&beside).unwrap().items.is_empty());
    for person in [&bo, &vi] {
        assert_eq!(person.client.export_ledger().map(drop).unwrap_err().status(), Some(403));
        assert_eq!(person.client.verify_ledger().unwrap_err().status(), Some(403));
        assert_eq!(person.client.ledger_trust().unwrap_err().status(), Some(403));
    }
    match vi.client.ledger(&LedgerFilter::default()) {
        Ok(page) => assert!(page.items.iter().all(|entry| entry.who == vi.id)),
        Err(error) => assert_eq!(error.status(), Some(403)),
    }
    assert_eq!(host.anonymous().ledger(&LedgerFilter::default()).unwrap_err().status(), Some(401));
}

/// Everything in the segments of a ledger.
pub fn segments(ledger: &Path) -> String {
    let mut names: Vec<PathBuf> =
        fs::read_dir(ledger.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// Lays an export out again as files.
pub fn lay_out(host: &Host, folder: &Path) {
    for line in BufReader::new(host.owner().client.export_ledger().unwrap()).lines() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let path = folder.join(line["file"].as_str().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut text = fs::read_to_string(&path).unwrap_or_default();
        text.push_str(line["line"].as_str().unwrap());
        text.push('\n');
        fs::write(path, text).unwrap();
    }
}

/// What the stand-alone verifier says of a ledger: its exit code and its words.
pub fn verify(folder: &Path, trust: Option<&Path>) -> (Option<i32>, String) {
    let mut command = Command::new(program("palisade-verify"));
    command.arg(folder).env_clear();
    if let Some(trust) = trust {
        command.arg("--trust").arg(trust);
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// LED-05, LED-06: the export of a live daemon is checked elsewhere: intact, tampered, not checkable.
#[test]
fn led_05_an_export_is_checked_elsewhere() {
    let host = Host::start();
    let repo = host.repo("demo");
    for n in 0..5 {
        drop(host.owner().worktree(&repo, &format!("w-{n}"), "session"));
    }
    let folder = tempfile::tempdir().unwrap();
    let (ledger, trust) = (folder.path().join("ledger"), folder.path().join("trust.json"));
    lay_out(&host, &ledger);
    fs::write(&trust, host.owner().client.ledger_trust().unwrap().trust).unwrap();
    let (code, text) = verify(&ledger, Some(&trust));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("verdict: intact"), "{text}");
    assert_eq!(verify(&ledger, None).0, Some(2), "without trust it cannot be checked");

    let segment = fs::read_dir(ledger.join("segments")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&segment).unwrap();
    for place in (0..whole.len()).step_by(whole.len() / 40) {
        let mut changed = whole.clone();
        changed[place] ^= 1;
        fs::write(&segment, changed).unwrap();
        assert_eq!(verify(&ledger, Some(&trust)).0, Some(1), "byte {place}");
    }
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    fs::write(&segment, lines[..lines.len() - 3].concat()).unwrap();
    assert_eq!(verify(&ledger, Some(&trust)).0, Some(1), "cut");
    fs::write(&segment, [&lines[..2], &lines[3..]].concat().concat()).unwrap();
    assert_eq!(verify(&ledger, Some(&trust)).0, Some(1), "one line gone");
    fs::write(&segment, &whole).unwrap();
    assert_eq!(verify(&ledger, Some(&trust)).0, Some(0));
}

/// LED-06: the daemon's own check finds a change and names its place, as the verifier does.
#[test]
fn led_06_the_daemons_own_check_finds_a_change() {
    let mut host = Host::start();
    drop(host.repo("demo"));
    host.stop();
    let segment = fs::read_dir(host.data().join("ledger/segments")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&segment).unwrap();
    let mut changed = whole.clone();
    let place = changed.len() / 2;
    changed[place] ^= 1;
    fs::write(&segment, &changed).unwrap();
    host.start_daemon().unwrap();
    host.rebase();
    let report = host.owner().client.verify_ledger().unwrap();
    assert_eq!(report.verdict, "tampered");
    assert!(!report.findings.is_empty(), "{report:?}");
    host.stop();

    // What no checkpoint covers is read at every start: there a change is found at once.
    let end = fs::read(&segment).unwrap().len();
    let mut tail = fs::read(&segment).unwrap();
    fs::remove_file(host.data().join("ledger/checkpoints.jsonl")).unwrap();
    tail[end - 100] ^= 1;
    fs::write(&segment, &tail).unwrap();
    let error = host.start_daemon().unwrap_err();
    assert!(error.contains("ledger"), "{error}");
    assert_eq!(fs::read(&segment).unwrap(), tail, "nothing was touched");
}
