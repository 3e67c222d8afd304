//! What the ledger keeps of acts on a full disk, and for how long it keeps anything.

use ledger::verify::{Kind, Trust, Verdict, verify};
use ledger::{Entry, Fault, Tail};
use model::{Clock, Role};
use runtime::LedgerQuery;

use crate::house::{DAY, House, PASSWORD};

fn all(house: &House) -> Vec<Entry> {
    let ledger = house.runtime.gate().ledger();
    let found = Tail::new(ledger.dir(), 1).more(ledger.head().seq, 1_000_000).unwrap();
    found.into_iter().map(|stored| stored.entry).collect()
}

/// What the entries about `resource` by this action say: decision, cause, and whether the last closes the first.
fn story(house: &House, action: &str, resource: &str) -> (Vec<&'static str>, String, bool) {
    let about: Vec<Entry> =
        all(house).into_iter().filter(|it| it.action == action && it.resource == resource).collect();
    let words = about.iter().map(|it| it.decision.word()).collect();
    let (first, last) = (about.first().unwrap(), about.last().unwrap());
    (words, last.cause.clone(), last.closes == Some(first.seq))
}

#[tokio::test]
async fn led_02_a_narrowing_act_on_a_full_ledger_is_recorded_as_it_ended() {
    let house = House::new().await;
    let owner = house.owner().await;
    let bo = house.user(&owner, "bo", Role::Member).await;
    let begun = house.head();

    house.faults.set(Some(Fault::NoSpace));
    house.runtime.disable_user(&owner.who, bo.id).await.unwrap();
    // The last owner stays: this is allowed, and the store does not do it.
    house.runtime.disable_user(&owner.who, owner.id).await.unwrap_err();
    assert_eq!(house.head(), begun, "all of it waits in the reserve");

    house.faults.set(None);
    house.runtime.gate().ledger().tick();
    assert_eq!(house.head(), begun + 4);
    let assert_told = |house: &House| {
        let (words, cause, closes) = story(house, "user.disable", &bo.id.to_string());
        assert_eq!((words, cause.as_str(), closes), (vec!["allowed", "done"], "", true));
        let (words, cause, closes) = story(house, "user.disable", &owner.id.to_string());
        assert_eq!((words, closes), (vec!["allowed", "failed"], true));
        assert!(!cause.is_empty(), "the store said why");
        assert!(all(house).iter().all(|entry| !entry.cause.contains("interrupted")));
    };
    assert_told(&house);
    assert_told(&house.again().await);
}

#[tokio::test]
async fn led_02_a_narrowing_act_that_no_reserve_holds_is_recorded_when_it_ended() {
    let house = House::new().await;
    let owner = house.owner().await;
    let bo = house.user(&owner, "bo", Role::Member).await;
    let who = owner.who.clone();
    house.faults.set(Some(Fault::Everything));
    let permit = house.runtime.gate().authorize(&who, access::DisableUser { user: bo.id }).await.unwrap();
    let record = permit.record();
    drop(permit);
    house.faults.set(None);
    house.runtime.gate().close(record, Err("not done".into())).await;
    let (words, cause, _) = story(&house, "user.disable", &bo.id.to_string());
    assert_eq!((words, cause.as_str()), (vec!["failed"], "not done"));
}

#[tokio::test]
async fn led_13_what_is_older_than_a_year_goes_from_the_ledger_and_the_search() {
    let house = House::new().await;
    let owner = house.owner().await;
    let action = access::action_named("user.create").unwrap();
    for _ in 0..14 {
        house.clock.advance(31 * DAY);
        house.runtime.refuse_malformed(&owner.who, action, "once a month").await;
    }
    assert!(all(&house).first().unwrap().seq == 1 && house.clock.now() > all(&house)[0].at + 400 * DAY);

    let dropped = house.runtime.drop_old_entries().await.unwrap();
    let kept = all(&house);
    assert_eq!(kept[0].seq, dropped + 1);
    let oldest = house.clock.now() - 365 * DAY;
    assert!(dropped > 0 && kept[0].at > oldest - 31 * DAY, "whole segments of at most 30 days");
    assert_eq!(house.count("SELECT MIN(seq) FROM ledger_index").await, i64::try_from(dropped).unwrap() + 1);
    let told: Vec<&Entry> = kept.iter().filter(|it| it.action == "ledger.retention").collect();
    assert_eq!(told.iter().map(|it| it.decision.word()).collect::<Vec<_>>(), ["allowed", "done"]);
    assert_eq!(told[0].detail["last"], dropped.to_string());
    assert_eq!(house.runtime.drop_old_entries().await.unwrap(), 0, "nothing more");

    let tokens = house.login(&owner.email, PASSWORD, "10.0.1.1").await.unwrap();
    let again = house.someone(&owner.email, tokens).await;
    let query = LedgerQuery { action: "ledger.retention".into(), ..LedgerQuery::default() };
    let found = house.runtime.search_ledger(&again.who, query, 10).await.unwrap();
    assert_eq!(found.items.len(), 2, "and that can be found");
    let report = house.runtime.verify_ledger(&again.who).await.unwrap();
    assert_eq!(report.verdict, Verdict::Intact, "{:#?}", report.findings);
    let trust = house.runtime.ledger_trust(&again.who).await.unwrap();
    let dir = house.runtime.gate().ledger().dir().to_owned();
    let house = house.again().await;
    let report = verify(&dir, &Trust::from_json(trust.as_bytes()).unwrap(), None, None);
    assert!(report.findings.iter().all(|it| it.kind == Kind::ClockJump), "{:#?}", report.findings);
    let gap = &report.gaps[0];
    assert_eq!((gap.first, gap.last, gap.reason), (1, dropped, "retention"));
    assert_eq!(house.runtime.drop_old_entries().await.unwrap(), 0);
}
