//! Secrets: sealed in the store, and lent by rule.

use model::{Clock, Role, SecretName, SecretOwner, SecretSource, Tier, WorktreeId};
use runtime::{ActError, Lent, NewSecret, SecretRow, Whose, Wish};
use store::engine::Value;
use vault::{LeaseError, Secret};

use crate::house::{DAY, House, Kept, MINUTE, SECOND, Someone, on_both_engines};

pub(crate) fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

pub(crate) fn new(owner: SecretOwner, text: &str) -> NewSecret {
    let hosts = vec!["api.example.org".parse().unwrap(), "*.example.com:443".parse().unwrap()];
    NewSecret { owner, name: name(text), hosts, expires: None, replace: false }
}

fn wish(text: &str, worktree: Option<WorktreeId>) -> Wish {
    Wish { name: name(text), worktree, hosts: Vec::new() }
}

pub(crate) fn value(text: &str) -> Secret<Vec<u8>> {
    Secret::new(text.as_bytes().to_vec())
}

pub(crate) async fn add(
    house: &House,
    who: &Someone,
    owner: SecretOwner,
    name: &str,
    text: &str,
) -> SecretRow {
    house.runtime.add_secret(&who.who, new(owner, name), value(text)).await.unwrap()
}

async fn lease(
    house: &House,
    who: &Someone,
    text: &str,
    worktree: Option<WorktreeId>,
    consumer: &str,
) -> Result<Lent, ActError> {
    house.runtime.lease_secret(&who.who, wish(text, worktree), consumer, MINUTE).await
}

/// What a consumer would be given, by lending it and ending that.
pub(crate) async fn given(house: &House, who: &Someone, text: &str) -> Result<Vec<u8>, String> {
    let lent = lease(house, who, text, None, "a probe").await.map_err(|error| error.to_string())?;
    let read = house.runtime.with_lease(lent.lease, "a probe", <[u8]>::to_vec);
    assert_eq!(house.runtime.end_leases_of("a probe"), 1);
    read.map_err(|error| error.to_string())
}

async fn worktree(house: &House, owner: &Someone, label: &str) -> WorktreeId {
    let origin = "https://forge.example/a/b".to_owned();
    let repo = house
        .runtime
        .create_repo(&owner.who, runtime::NewRepo::new(label.parse().unwrap(), origin))
        .await
        .unwrap()
        .id;
    let act = access::CreateWorktree {
        worktree: WorktreeId::random(),
        repo,
        name: label.parse().unwrap(),
        about: String::new(),
        tier: Tier::Session,
        branch: None,
        base: None,
    };
    house.runtime.create_worktree(&owner.who, act).await.unwrap().id
}

/// What the record says of where the last value that was lent came from.
fn last_source(house: &House) -> Option<String> {
    let ledger = house.runtime.gate().ledger();
    let all = ledger::Tail::new(ledger.dir(), 1).more(ledger.head().seq, 1_000_000).unwrap();
    let last = all
        .iter()
        .rev()
        .find(|one| one.entry.action == "secret.lease" && one.entry.decision.word() == "done");
    last.unwrap().entry.detail.get("source").cloned()
}

/// Everything that the store keeps of secrets, as bytes.
async fn dump(house: &House) -> Vec<u8> {
    let sql = "SELECT id, owner, name, hosts, created_by, sealed FROM secrets";
    let mut all = Vec::new();
    for row in house.behind.rows(sql, &[]).await.unwrap() {
        for column in 0..5 {
            all.extend_from_slice(row.text(column).unwrap().as_bytes());
        }
        all.extend_from_slice(row.blob(5).unwrap());
    }
    all
}

async fn sec_01_the_store_shows_none_of_thirty_planted_values(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    for n in 0..30 {
        drop(add(&house, &owner, me, &format!("S_{n}"), &format!("planted-value-{n:04}")).await);
    }
    let all = dump(&house).await;
    assert!(all.len() > 30 * 100, "there is something to look at");
    for n in 0..30 {
        let planted = format!("planted-value-{n:04}");
        assert!(!all.windows(planted.len()).any(|part| part == planted.as_bytes()), "{planted}");
        assert_eq!(given(&house, &owner, &format!("S_{n}")).await.unwrap(), planted.into_bytes());
    }
}

async fn sec_01_whatever_is_changed_behind_a_value_it_does_not_open(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    let expires = Some(1_900_000_000_000);
    let asked = NewSecret { expires, ..new(me, "A") };
    let first = house.runtime.add_secret(&owner.who, asked, value("the value of A")).await.unwrap();
    let second = add(&house, &owner, me, "B", "the value of B").await;
    let sealed = |id: String| {
        let house = &house;
        async move {
            let row = house.behind.row("SELECT sealed FROM secrets WHERE id = $1", &[id.into()]).await;
            row.unwrap().unwrap().blob(0).unwrap().to_vec()
        }
    };
    let (one, two) = (sealed(first.id.to_string()).await, sealed(second.id.to_string()).await);
    let put = |bytes: Vec<u8>| {
        let (house, id) = (&house, first.id.to_string());
        async move { house.sql("UPDATE secrets SET sealed = $2 WHERE id = $1", &[id.into(), bytes.into()]).await }
    };
    let mut flipped = one.clone();
    *flipped.get_mut(90).unwrap() ^= 1;
    for (what, bytes) in [
        ("flipped", flipped),
        ("moved from another row", two),
        ("cut", one.split_last().unwrap().1.to_vec()),
        (
            "plain",
            b"a value that somebody planted, long enough to be taken for a sealed one, which it is not"
                .to_vec(),
        ),
    ] {
        put(bytes).await;
        let refused = given(&house, &owner, "A").await.unwrap_err();
        assert!(refused.contains("the secret `A` of") && !refused.contains("value of"), "{what}: {refused}");
    }
    put(one).await;
    assert_eq!(given(&house, &owner, "A").await.unwrap(), b"the value of A");
    let id: Value = first.id.to_string().into();
    for (what, change, back) in [
        (
            "hosts",
            "UPDATE secrets SET hosts = 'evil.example' WHERE id = $1",
            "UPDATE secrets SET hosts = 'api.example.org *.example.com:443' WHERE id = $1",
        ),
        (
            "its end",
            "UPDATE secrets SET expires = 1950000000000 WHERE id = $1",
            "UPDATE secrets SET expires = 1900000000000 WHERE id = $1",
        ),
        ("its owner", "UPDATE secrets SET owner = 'daemon' WHERE id = $1", ""),
    ] {
        assert_eq!(house.sql(change, std::slice::from_ref(&id)).await, 1);
        assert!(given(&house, &owner, "A").await.is_err(), "{what}");
        if !back.is_empty() {
            house.sql(back, std::slice::from_ref(&id)).await;
            assert_eq!(given(&house, &owner, "A").await.unwrap(), b"the value of A", "{what}");
        }
    }
    house.sql("UPDATE secrets SET name = 'C' WHERE id = $1", &[second.id.to_string().into()]).await;
    assert!(given(&house, &owner, "C").await.is_err(), "its name");
}

async fn sec_05_the_users_own_counts_before_the_worktrees_before_the_daemons(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let (ana, bo) =
        (house.user(&owner, "ana", Role::Member).await, house.user(&owner, "bo", Role::Member).await);
    let tree = worktree(&house, &owner, "demo").await;
    drop(add(&house, &owner, SecretOwner::Daemon, "KEY", "of the daemon").await);
    drop(add(&house, &owner, SecretOwner::Worktree(tree), "KEY", "of the worktree").await);
    drop(add(&house, &ana, SecretOwner::User(ana.id), "KEY", "of ana").await);
    for (who, place, expected, source) in [
        (&ana, Some(tree), "of ana", SecretSource::User),
        (&ana, None, "of ana", SecretSource::User),
        (&bo, Some(tree), "of the worktree", SecretSource::Worktree),
        (&bo, None, "of the daemon", SecretSource::Daemon),
    ] {
        let lent = lease(&house, who, "KEY", place, "run").await.unwrap();
        assert_eq!(lent.source, source);
        let read = house.runtime.with_lease(lent.lease, "run", <[u8]>::to_vec).unwrap();
        assert_eq!(read, expected.as_bytes());
        let listed = house.runtime.secrets(&who.who, Whose::Counting(place)).await.unwrap();
        let counts: Vec<_> = listed.iter().filter(|one| one.effective == Some(true)).collect();
        let counts: Vec<_> = counts.iter().map(|one| one.source).collect();
        assert_eq!(counts, [source], "the list says the same");
        assert_eq!(last_source(&house), Some(source.word().to_owned()), "and so does the record");
    }
    // The second of one name is refused, and nothing changes, unless it is to replace the first.
    let again =
        house.runtime.add_secret(&ana.who, new(SecretOwner::User(ana.id), "KEY"), value("another")).await;
    assert!(again.unwrap_err().to_string().contains("taken"));
    let replacing = NewSecret { replace: true, ..new(SecretOwner::User(ana.id), "KEY") };
    drop(house.runtime.add_secret(&ana.who, replacing, value("another")).await.unwrap());
    assert_eq!(given(&house, &ana, "KEY").await.unwrap(), b"another");
    // What is whose: bo sees nothing of ana's, and takes nothing of anybody's away.
    for (owner, is_hidden) in [(SecretOwner::User(ana.id), false), (SecretOwner::Daemon, false)] {
        let refused = house.runtime.remove_secret(&bo.who, owner, name("KEY")).await.unwrap_err();
        assert!(matches!(refused, ActError::Denied(_)) && !is_hidden, "{refused}");
    }
    assert!(house.runtime.secrets(&bo.who, Whose::One(SecretOwner::User(ana.id))).await.is_err());
    // Who goes leaves none behind.
    house.runtime.delete_user(&owner.who, ana.id).await.unwrap();
    assert_eq!(house.count("SELECT COUNT(*) FROM secrets").await, 2);
    house.runtime.delete_worktree(&owner.who, tree, model::TreeFiles::Removed).await.unwrap();
    assert_eq!(house.count("SELECT COUNT(*) FROM secrets").await, 1);
}

async fn sec_06_a_lease_is_for_one_consumer_and_its_time(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    drop(add(&house, &owner, me, "KEY", "a value that is lent").await);
    let lent = lease(&house, &owner, "KEY", None, "run_a").await.unwrap();
    assert_eq!(lent.until, 1_800_000_000_000 + MINUTE + 300 * SECOND);
    assert_eq!(lent.hosts.len(), 2);
    for n in 0..100 {
        let tried = house.runtime.with_lease(lent.lease, &format!("run_{n}"), <[u8]>::to_vec);
        assert_eq!(tried.unwrap_err(), LeaseError::None);
    }
    // It is on the record, without its value, and the list says when it was used.
    assert_eq!((house.entries("secret.lease", "allowed"), house.entries("secret.lease", "done")), (1, 1));
    let used = house.runtime.secrets(&owner.who, Whose::One(me)).await.unwrap();
    assert_eq!(used.first().unwrap().about.as_ref().unwrap().used_at, Some(1_800_000_000_000));
    house.clock.advance(MINUTE + 300 * SECOND - 1);
    assert_eq!(
        house.runtime.with_lease(lent.lease, "run_a", <[u8]>::to_vec).unwrap(),
        b"a value that is lent"
    );
    house.clock.advance(1);
    assert_eq!(house.runtime.with_lease(lent.lease, "run_a", |_| ()).unwrap_err(), LeaseError::None);
    // A daemon that is started again knows of none.
    let lent = lease(&house, &owner, "KEY", None, "run_a").await.unwrap();
    let house = house.again().await;
    assert_eq!(house.runtime.with_lease(lent.lease, "run_a", |_| ()).unwrap_err(), LeaseError::None);
}

async fn sec_06_who_may_not_have_it_is_refused_on_the_record(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let (vic, bo) =
        (house.user(&owner, "vic", Role::Viewer).await, house.user(&owner, "bo", Role::Member).await);
    let tree = worktree(&house, &owner, "demo").await;
    drop(add(&house, &owner, SecretOwner::Worktree(tree), "KEY", "of the worktree").await);
    house.runtime.set_tier(&owner.who, tree, Tier::View).await.unwrap();
    for (who, place) in
        [(&vic, None), (&vic, Some(tree)), (&bo, Some(tree)), (&bo, Some(WorktreeId::random()))]
    {
        let (head, used) = (house.head(), "SELECT COUNT(*) FROM secrets WHERE used_at IS NOT NULL");
        let refused = lease(&house, who, "KEY", place, "run").await.unwrap_err();
        assert!(matches!(refused, ActError::Denied(_)), "{refused}");
        assert_eq!((house.head(), house.count(used).await), (head + 1, 0), "one entry, and nothing else");
    }
    // What is not there, and what is over, is said so.
    assert!(given(&house, &bo, "ABSENT").await.unwrap_err().contains("no such secret"));
    let ends = NewSecret { expires: Some(1_800_000_000_000 + DAY), ..new(SecretOwner::User(bo.id), "SHORT") };
    drop(house.runtime.add_secret(&bo.who, ends, value("for a day")).await.unwrap());
    assert_eq!(given(&house, &bo, "SHORT").await.unwrap(), b"for a day");
    house.clock.advance(DAY);
    let bo = house
        .someone(&bo.email, house.login(&bo.email, crate::house::PASSWORD, "again").await.unwrap())
        .await;
    assert!(given(&house, &bo, "SHORT").await.unwrap_err().contains("has expired"));
}

/// Who may use what the installation has and may not know what that is, does not learn it from what goes wrong: neither
/// from the answer nor from their part of the record.
#[tokio::test]
async fn sec_05_what_goes_wrong_with_a_secret_tells_nobody_that_it_is_there() {
    let house = House::new().await;
    let owner = house.owner().await;
    let bo = house.user(&owner, "bo", Role::Member).await;
    let soon = NewSecret { expires: Some(house.clock.now() + SECOND), ..new(SecretOwner::Daemon, "OVER") };
    drop(house.runtime.add_secret(&owner.who, soon, value("a value that ends")).await.unwrap());
    let bad = add(&house, &owner, SecretOwner::Daemon, "BAD", "a value that is damaged").await;
    house.sql("UPDATE secrets SET hosts = 'evil.example' WHERE id = $1", &[bad.id.to_string().into()]).await;
    house.clock.advance(SECOND);
    // As long as bo may list them, bo is told what is wrong.
    assert!(given(&house, &bo, "OVER").await.unwrap_err().contains("`OVER` of daemon has expired"));
    assert!(given(&house, &bo, "BAD").await.unwrap_err().contains("`BAD` of daemon cannot be used"));
    let forbid = "forbid (principal, action == Action::\"secret.list\", resource is Installation);";
    house.runtime.add_policy(&owner.who, "no-lists".into(), forbid.into()).await.unwrap();
    let absent = given(&house, &bo, "ABSENT").await.unwrap_err();
    let head = house.head();
    for text in ["OVER", "BAD"] {
        assert_eq!(given(&house, &bo, text).await.unwrap_err(), absent, "{text}");
    }
    let ledger = house.runtime.gate().ledger();
    let all = ledger::Tail::new(ledger.dir(), head + 1).more(ledger.head().seq, 1_000_000).unwrap();
    let failed: Vec<_> = all.iter().filter(|one| one.entry.decision.word() == "failed").collect();
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|one| format!("{:?}", one.entry).contains("no such secret")), "{failed:?}");
    assert!(!format!("{all:?}").contains("daemon"), "{all:?}");
}

/// What is lent leaves nowhere: the ledger masks it in whatever is written down.
#[tokio::test]
async fn sec_16_what_is_lent_is_masked_in_the_ledger() {
    let house = House::new().await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    drop(add(&house, &owner, me, "KEY", "zebra-quilt-marmalade-41").await);
    drop(lease(&house, &owner, "KEY", None, "run_a").await.unwrap());
    // A consumer that calls itself by the value.
    drop(lease(&house, &owner, "KEY", None, "run of zebra-quilt-marmalade-41").await.unwrap());
    let ledger = house.runtime.gate().ledger();
    let mut tail = ledger::Tail::new(ledger.dir(), 1);
    let all = tail.more(ledger.head().seq, 1_000_000).unwrap();
    let text = format!("{all:?}");
    assert!(text.contains("run_a") && text.contains("run of ***"), "{text}");
    assert!(!text.contains("marmalade"));
}

/// The redactor knows a value as long as somebody has it, and no longer.
#[tokio::test]
async fn sec_06_what_was_lent_twice_is_forgotten_with_the_last_lease() {
    let house = House::new().await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    drop(add(&house, &owner, me, "KEY", "zebra-quilt-marmalade-41").await);
    drop(add(&house, &owner, me, "OTHER", "another value that is lent").await);
    for consumer in ["run_a", "run_b"] {
        drop(lease(&house, &owner, "KEY", None, consumer).await.unwrap());
    }
    let told = async |label: &str| {
        let consumer = format!("{label} of zebra-quilt-marmalade-41");
        drop(lease(&house, &owner, "OTHER", None, &consumer).await.unwrap());
        let ledger = house.runtime.gate().ledger();
        let all = ledger::Tail::new(ledger.dir(), 1).more(ledger.head().seq, 1_000_000).unwrap();
        let text = format!("{all:?}");
        (text.contains(&format!("{label} of ***")), text.contains(&consumer))
    };
    assert_eq!(told("both").await, (true, false));
    assert_eq!(house.runtime.end_leases_of("run_a"), 1);
    assert_eq!(told("one").await, (true, false), "run_b still has it");
    assert_eq!(house.runtime.end_leases_of("run_b"), 1);
    assert_eq!(told("none").await, (false, true), "nobody has it");
}

/// Whoever sets the machine's clock neither ends a lease nor makes it last.
#[tokio::test]
async fn sec_06_a_clock_that_is_set_changes_no_lease() {
    let house = House::new().await;
    let owner = house.owner().await;
    drop(add(&house, &owner, SecretOwner::User(owner.id), "KEY", "a value that is lent").await);
    let lent = lease(&house, &owner, "KEY", None, "run_a").await.unwrap();
    let look = || house.runtime.with_lease(lent.lease, "run_a", |_| ());
    house.clock.set(365 * DAY);
    assert_eq!(look(), Ok(()), "set forward");
    house.clock.set(-700 * DAY);
    house.clock.advance(MINUTE + 300 * SECOND - 1);
    assert_eq!(look(), Ok(()), "set back");
    house.clock.advance(1);
    assert_eq!(look(), Err(LeaseError::None), "its time is over all the same");
}

/// A token is short and a run is not: a lease ends with its time or with the right, not with the token that showed it.
async fn sec_06_a_lease_outlives_the_token_and_ends_with_the_login(kept: Kept) {
    let lifetimes = access::Lifetimes { access: MINUTE, ..access::Lifetimes::default() };
    let house = House::with(kept.source(), lifetimes).await;
    let owner = house.owner().await;
    let ana = house.user(&owner, "ana", Role::Member).await;
    let bo = house.user(&owner, "bo", Role::Member).await;
    drop(add(&house, &ana, SecretOwner::User(ana.id), "KEY", "a value that is lent").await);
    let lent = lease(&house, &ana, "KEY", None, "ana").await.unwrap();
    let live = || house.runtime.with_lease(lent.lease, "ana", |_| ()).is_ok();
    house.clock.advance(2 * MINUTE);
    assert!(
        house.runtime.auth().authenticate(ana.tokens.access.expose()).await.is_err(),
        "the token is over"
    );
    let tokens = house.login(&owner.email, crate::house::PASSWORD, "later").await.unwrap();
    let owner = house.someone("owner@example.org", tokens).await;
    house.runtime.disable_user(&owner.who, bo.id).await.unwrap();
    assert!(live(), "everything lent was judged again, and this may go on");
    house.runtime.disable_user(&owner.who, ana.id).await.unwrap();
    assert!(!live(), "the right");
}

/// A store that does not answer takes no right away.
async fn sec_06_a_lease_goes_on_while_nobody_can_tell(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let tree = worktree(&house, &owner, "demo").await;
    let [ana, bo, cy] = ["ana", "bo", "cy"];
    let ana = house.user(&owner, ana, Role::Member).await;
    let bo = house.user(&owner, bo, Role::Member).await;
    let cy = house.user(&owner, cy, Role::Member).await;
    drop(add(&house, &owner, SecretOwner::Worktree(tree), "KEY", "a value that is lent").await);
    let lent = lease(&house, &ana, "KEY", Some(tree), "ana").await.unwrap();
    let others = lease(&house, &bo, "KEY", Some(tree), "bo").await.unwrap();
    let live = |lent: &Lent, consumer: &str| house.runtime.with_lease(lent.lease, consumer, |_| ()).is_ok();
    house.sql("ALTER TABLE worktrees RENAME TO worktrees_away", &[]).await;
    house.runtime.disable_user(&owner.who, bo.id).await.unwrap();
    assert!(!live(&others, "bo"), "who may not is known without it");
    assert!(live(&lent, "ana"), "who may cannot be told");
    house.sql("ALTER TABLE worktrees_away RENAME TO worktrees", &[]).await;
    house.runtime.disable_user(&owner.who, cy.id).await.unwrap();
    assert!(live(&lent, "ana"), "and may");
    house.runtime.set_tier(&owner.who, tree, Tier::None).await.unwrap();
    assert!(!live(&lent, "ana"), "until they may not");
}

/// A lease ends with what it was lent from: the secret that is removed or replaced, and no other.
async fn sec_06_a_lease_ends_with_its_secret(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    for text in ["REMOVED", "REPLACED", "OTHER"] {
        drop(add(&house, &owner, me, text, &format!("the value of {text}")).await);
    }
    let mut lent = Vec::new();
    for text in ["REMOVED", "REPLACED", "OTHER"] {
        lent.push(lease(&house, &owner, text, None, "run_a").await.unwrap().lease);
    }
    let live =
        || lent.iter().map(|lease| house.runtime.with_lease(*lease, "run_a", |_| ()).is_ok()).collect();
    let live: &dyn Fn() -> Vec<bool> = &live;
    assert_eq!(live(), [true, true, true]);
    house.runtime.remove_secret(&owner.who, me, name("REMOVED")).await.unwrap();
    assert_eq!(live(), [false, true, true]);
    let again = NewSecret { replace: true, ..new(me, "REPLACED") };
    drop(house.runtime.add_secret(&owner.who, again, value("another value")).await.unwrap());
    assert_eq!(live(), [false, false, true]);
    assert_eq!(house.runtime.end_leases_of("run_a"), 1, "the others are wiped");
}

/// A lease ends with the right to it, whoever takes that away: the account, the role, the tier, the worktree.
async fn sec_06_a_lease_ends_with_the_right_to_it(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let tree = worktree(&house, &owner, "demo").await;
    drop(add(&house, &owner, SecretOwner::Worktree(tree), "KEY", "a value that is lent").await);
    let live = |lent: &Lent, consumer: &str| house.runtime.with_lease(lent.lease, consumer, |_| ()).is_ok();
    let own = lease(&house, &owner, "KEY", Some(tree), "own").await.unwrap();

    let ana = house.user(&owner, "ana", Role::Member).await;
    let lent = lease(&house, &ana, "KEY", Some(tree), "ana").await.unwrap();
    house.runtime.set_tier(&owner.who, tree, Tier::None).await.unwrap();
    assert!(!live(&lent, "ana"), "the tier");
    assert!(live(&own, "own"), "its owner keeps it");
    house.runtime.set_tier(&owner.who, tree, Tier::Session).await.unwrap();
    assert!(!live(&lent, "ana"), "what ended stays so");

    let lent = lease(&house, &ana, "KEY", Some(tree), "ana").await.unwrap();
    house.runtime.disable_user(&owner.who, ana.id).await.unwrap();
    assert!(!live(&lent, "ana"), "the account");

    let bo = house.user(&owner, "bo", Role::Member).await;
    let lent = lease(&house, &bo, "KEY", Some(tree), "bo").await.unwrap();
    house.runtime.delete_user(&owner.who, bo.id).await.unwrap();
    assert!(!live(&lent, "bo"), "the user");

    assert!(live(&own, "own"));
    house.runtime.delete_worktree(&owner.who, tree, model::TreeFiles::Removed).await.unwrap();
    assert!(!live(&own, "own"), "the worktree");
}

/// Whoever takes a right away waits for few judgements, however much is lent; the daemon's own care does the rest.
#[tokio::test]
async fn sec_06_much_that_is_lent_keeps_nobody_waiting_and_ends_all_the_same() {
    /// What is judged while somebody waits, and some more.
    const AT_ONCE: usize = 64;
    const MORE: usize = 6;
    let house = House::new().await;
    let owner = house.owner().await;
    let ana = house.user(&owner, "ana", Role::Member).await;
    drop(add(&house, &ana, SecretOwner::User(ana.id), "KEY", "a value that is lent").await);
    // One right, shown by one token after the other, and many leases that rest on it: judged once.
    let (mut ana, mut tokens) = (ana, Vec::new());
    for n in 0..AT_ONCE + MORE {
        drop(lease(&house, &ana, "KEY", None, &format!("run {n}")).await.unwrap());
        house.clock.advance(SECOND);
        let next = house.runtime.auth().refresh(ana.tokens.refresh.expose(), "peer of ana").await.unwrap();
        tokens.push(ana.who.expires());
        ana = house.someone("ana@example.org", next).await;
    }
    tokens.dedup();
    assert!(tokens.len() > AT_ONCE);
    let mut trees = Vec::new();
    for n in 0..AT_ONCE + MORE - 1 {
        trees.push(worktree(&house, &owner, &format!("tree-{n}")).await);
    }
    house.runtime.disable_user(&owner.who, ana.id).await.unwrap();
    let live = |consumer: &str| house.runtime.end_leases_of(consumer);
    assert_eq!((0..AT_ONCE + MORE).map(|n| live(&format!("run {n}"))).sum::<usize>(), 0, "one right");

    let bo = house.user(&owner, "bo", Role::Member).await;
    drop(add(&house, &bo, SecretOwner::User(bo.id), "KEY", "another value that is lent").await);
    let mut lent = vec![lease(&house, &bo, "KEY", None, "run").await.unwrap().lease];
    for tree in &trees {
        lent.push(lease(&house, &bo, "KEY", Some(*tree), "run").await.unwrap().lease);
    }
    let live = || lent.iter().filter(|one| house.runtime.with_lease(**one, "run", |_| ()).is_ok()).count();
    assert_eq!(live(), AT_ONCE + MORE);
    house.runtime.disable_user(&owner.who, bo.id).await.unwrap();
    assert_eq!(live(), MORE, "the others wait for the daemon's own care");
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let care = tokio::spawn(house.runtime.clone().keep_house(stopping));
    let all_over = async {
        while live() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), all_over).await.unwrap();
    // And what changes while it watches.
    let cy = house.user(&owner, "cy", Role::Member).await;
    drop(add(&house, &cy, SecretOwner::User(cy.id), "KEY", "a third value that is lent").await);
    let last = lease(&house, &cy, "KEY", None, "run").await.unwrap().lease;
    house.sql("UPDATE users SET enabled = 0 WHERE id = $1", &[cy.id.to_string().into()]).await;
    house.runtime.gate().epoch().bump();
    let over = async {
        while house.runtime.with_lease(last, "run", |_| ()).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), over).await.unwrap();
    stop.send(true).unwrap();
    care.await.unwrap();
}

/// What somebody still works with is lent for longer, as the same value and to those who may have it; whatever else counts by now is not.
#[tokio::test]
async fn sec_06_a_lease_goes_on_for_whoever_still_has_the_right() {
    let house = House::new().await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    drop(add(&house, &owner, me, "KEY", "a value that stays").await);
    // A login does not last so long, a key does.
    let made =
        house.runtime.create_key(&owner.who, "k".parse().unwrap(), access::Scope::Admin, 9 * DAY).await;
    let (_, secret) = made.unwrap().unwrap();
    let who = house.runtime.auth().authenticate(secret.expose()).await.unwrap();
    let lent = house.runtime.lease_secret(&who, wish("KEY", None), "task", DAY).await.unwrap();
    house.clock.advance(DAY);
    let longer = |lease| house.runtime.lend_longer(&who, wish("KEY", None), "task", lease, DAY);
    let next = longer(lent.lease).await.unwrap().unwrap();
    let read = |lease| house.runtime.with_lease(lease, "task", <[u8]>::to_vec);
    assert_eq!(read(lent.lease), Err(LeaseError::None), "one at a time");
    house.clock.advance(DAY);
    assert_eq!(read(next.lease).unwrap(), b"a value that stays", "beyond the time of the first");
    // Another value is not put in the place of what is at work.
    let changed = NewSecret { replace: true, ..new(me, "KEY") };
    drop(house.runtime.add_secret(&who, changed, value("another value")).await.unwrap());
    assert!(longer(next.lease).await.unwrap().is_none());
    assert_eq!(
        house.runtime.end_leases_of("task"),
        usize::from(read(next.lease).is_ok()),
        "nothing was added"
    );
}

/// A value that ends is not lent beyond its end, and no lease is for longer than a day.
#[tokio::test]
async fn sec_06_a_lease_is_no_longer_than_its_value_or_a_day() {
    let house = House::new().await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    let soon = NewSecret { expires: Some(house.clock.now() + 10 * SECOND), ..new(me, "SOON") };
    drop(house.runtime.add_secret(&owner.who, soon, value("a value that ends")).await.unwrap());
    drop(add(&house, &owner, me, "KEY", "a value that stays").await);
    let lent = lease(&house, &owner, "SOON", None, "run_a").await.unwrap();
    assert_eq!(lent.until, house.clock.now() + 10 * SECOND);
    let long = house.runtime.lease_secret(&owner.who, wish("KEY", None), "run_a", 900 * DAY).await.unwrap();
    assert_eq!(long.until, house.clock.now() + DAY + 300 * SECOND);
    house.clock.advance(10 * SECOND);
    assert_eq!(house.runtime.with_lease(lent.lease, "run_a", |_| ()), Err(LeaseError::None));
    assert_eq!(house.runtime.with_lease(long.lease, "run_a", |_| ()), Ok(()));

    // A key ends by itself, and what rests on it no later.
    let made = house.runtime.create_key(&owner.who, "k".parse().unwrap(), access::Scope::Admin, DAY).await;
    let (_, secret) = made.unwrap().unwrap();
    let who = house.runtime.auth().authenticate(secret.expose()).await.unwrap();
    house.clock.advance(DAY - 20 * SECOND);
    let lent = house.runtime.lease_secret(&who, wish("KEY", None), "run_b", 2 * MINUTE).await.unwrap();
    assert_eq!(lent.until, who.expires());
    house.clock.advance(20 * SECOND);
    assert_eq!(house.runtime.with_lease(lent.lease, "run_b", |_| ()), Err(LeaseError::None));
}

on_both_engines! {
    sec_01_the_store_shows_none_of_thirty_planted_values,
    sec_01_whatever_is_changed_behind_a_value_it_does_not_open,
    sec_05_the_users_own_counts_before_the_worktrees_before_the_daemons,
    sec_06_a_lease_is_for_one_consumer_and_its_time,
    sec_06_who_may_not_have_it_is_refused_on_the_record,
    sec_06_a_lease_ends_with_its_secret,
    sec_06_a_lease_ends_with_the_right_to_it,
    sec_06_a_lease_outlives_the_token_and_ends_with_the_login,
    sec_06_a_lease_goes_on_while_nobody_can_tell,
}

/// The weakest source: what nobody keeps is lent from the daemon's own environment, and only then. A process has one
/// environment, so this is a second one.
#[test]
fn sec_05_what_only_the_environment_has_is_lent_from_it() {
    const NAME: &str = "PALISADE_SECRET_ONLY_THERE";
    const VALUE: &str = "a value of the environment";
    if std::env::var_os(NAME).is_none() {
        let this = "secrets::sec_05_what_only_the_environment_has_is_lent_from_it";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", this]).env(NAME, VALUE).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let house = House::new().await;
        let owner = house.owner().await;
        assert_eq!(given(&house, &owner, "ONLY_THERE").await.unwrap(), VALUE.as_bytes());
        assert_eq!(last_source(&house).as_deref(), Some("environment"));
        drop(add(&house, &owner, SecretOwner::Daemon, "ONLY_THERE", "of the daemon").await);
        assert_eq!(given(&house, &owner, "ONLY_THERE").await.unwrap(), b"of the daemon");
        assert_eq!(last_source(&house).as_deref(), Some("daemon"));
    });
}
