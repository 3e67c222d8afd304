//! SBX-09: the receipt is chained into the ledger, and so are refusals and ends.

use std::sync::Arc;

use ledger::{Decision, Draft, Entry, MAX_DETAILS, Once, Seed};

use super::kit::{expected, facts, key, receipt, sealed};
use crate::receipt::*;

fn seed() -> Seed {
    let secret: [u8; 32] = std::array::from_fn(|place| u8::try_from(place).unwrap());
    Seed::new(secret.into()).unwrap()
}

#[test]
fn receipts_and_checkpoints_have_different_keys() {
    let key = signing_key(&seed());
    assert_ne!(key.verifying_key().to_bytes(), seed().keys().public_key());
    receipt().seal(&key).unwrap().verify(&signing_key(&seed()).verifying_key()).unwrap();
}

/// What the ledger makes of drafts.
fn recorded(drafts: &[Draft]) -> Vec<Entry> {
    let home = tempfile::TempDir::new().unwrap();
    let seed = seed();
    let dir = home.path().join("ledger");
    let scrub: ledger::Scrub = Box::new(|text| text.replace("hunter2", "[masked]"));
    let (mut once, _) = Once::open(&dir, &Arc::new(seed.keys()), scrub).unwrap();
    once.append(drafts).unwrap();
    once.close().unwrap();
    ledger::read(&dir, 1).unwrap().map(|stored| stored.unwrap().entry).collect()
}

#[test]
fn sbx_09_the_entry_of_a_launch_names_this_receipt_and_no_other() {
    let it = sealed();
    let entry = recorded(&[launch_draft("uid 1000", &it)]).remove(0);
    assert_eq!((entry.action.as_str(), entry.decision), ("sandbox.launch", Decision::Allowed));
    assert_eq!(entry.detail["receipt"], format!("input:sha256:{}", it.sha256()));
    assert_eq!(entry.detail["degraded"], "cgroup: no delegation");
    assert_eq!(entry.cause, "found as planned, degraded");
    assert!(entry.detail.len() <= MAX_DETAILS && !entry.detail.contains_key("cut"));
    assert!(!entry.opens, "runs overlap");
    check_in_ledger(&entry, &it).unwrap();

    let other = Receipt { at: 1, ..receipt() }.seal(&key()).unwrap();
    assert_eq!(check_in_ledger(&entry, &other), Err(NotInLedger::OtherReceipt(1)));
    let resigned = receipt().seal(&ed25519_dalek::SigningKey::from_bytes(&[6; 32])).unwrap();
    assert_eq!(check_in_ledger(&entry, &resigned), Err(NotInLedger::OtherReceipt(1)));
    let run = Receipt { run: "run_x".parse().unwrap(), ..receipt() }.seal(&key()).unwrap();
    assert!(matches!(check_in_ledger(&entry, &run), Err(NotInLedger::OtherRun { .. })));
    for changed in [
        Entry { decision: Decision::Refused, ..entry.clone() },
        Entry { action: "sandbox.end".into(), ..entry },
    ] {
        assert_eq!(check_in_ledger(&changed, &it), Err(NotInLedger::NotALaunch(1)));
    }
}

#[test]
fn sbx_09_a_launch_that_is_refused_is_recorded_with_every_difference() {
    let mut found = facts();
    found.host_uid.value = 0;
    found.no_new_privs.value = false;
    let list = compare(&expected(), &found).unwrap_err();
    let (run, profile) = (receipt().run, receipt().profile);
    let entries = recorded(&[
        refused_draft("ana", &run, Some(&profile), &Refusal::NotAsPlanned(list.clone())),
        refused_draft("ana", &run, None, &Refusal::Denied("landlock is missing".into())),
        refused_draft("ana", &run, None, &Refusal::Failed("no such file hunter2".into())),
        refused_draft("ana", &run, Some(&profile), &Refusal::NotAsPlanned(vec![list[0].clone(); 50])),
    ]);
    assert_eq!(entries[0].detail["difference.01"], "`host_uid`: planned `100000`, found `0`");
    assert_eq!(entries[0].detail["difference.02"], "`no_new_privs`: planned `true`, found `false`");
    let decisions: Vec<Decision> = entries.iter().map(|entry| entry.decision).collect();
    assert_eq!(decisions, [Decision::Refused, Decision::Refused, Decision::Failed, Decision::Refused]);
    assert_eq!(entries[1].cause, "landlock is missing");
    assert_eq!(entries[2].cause, "no such file [masked]");
    assert_eq!(entries[3].detail["difference.more"], "30");
    assert!(!entries[3].detail.contains_key("cut"));
    for entry in entries {
        assert_eq!(check_in_ledger(&entry, &sealed()), Err(NotInLedger::NotALaunch(entry.seq)));
    }
}

#[test]
fn an_end_is_recorded_with_code_time_and_findings() {
    let run = receipt().run;
    let end = |exit| End { exit, duration_ms: 1234, launch: Some(7), findings: vec!["sub/.git".into()] };
    let entries = recorded(&[
        end_draft("ana", &run, &end(Exit::Code(3))),
        end_draft("ana", &run, &end(Exit::Signal(9))),
        end_draft("ana", &run, &End { launch: None, ..end(Exit::Unknown) }),
    ]);
    let one = &entries[0];
    assert_eq!(
        (one.action.as_str(), one.decision, one.cause.as_str()),
        ("sandbox.end", Decision::Done, "exit code 3")
    );
    assert_eq!((one.resource.as_str(), one.detail["exit_code"].as_str()), ("run_0b5c", "3"));
    assert_eq!((one.detail["launch"].as_str(), one.detail["duration_ms"].as_str()), ("7", "1234"));
    assert_eq!((one.detail["findings"].as_str(), one.detail["finding.01"].as_str()), ("1", "sub/.git"));
    assert_eq!((entries[1].cause.as_str(), entries[1].decision), ("signal 9", Decision::Done));
    assert_eq!((entries[2].cause.as_str(), entries[2].decision), ("outcome unknown", Decision::Failed));
}
