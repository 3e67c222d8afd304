//! What is remembered never outlives its truth.

use access::{CreateWorktree, Scope};
use model::{Role, Tier, WorktreeId};
use runtime::{ActError, EventError, WorktreeFilter};

use crate::house::{DAY, House, Kept, Someone, on_both_engines};

async fn worktree(house: &House, owner: &Someone, tier: Tier) -> WorktreeId {
    let origin = "https://forge.example/a/b".to_owned();
    let repo = house
        .runtime
        .create_repo(&owner.who, runtime::NewRepo::new("demo".parse().unwrap(), origin))
        .await
        .unwrap()
        .id;
    let name = "one".parse().unwrap();
    let act = CreateWorktree {
        worktree: WorktreeId::random(),
        repo,
        name,
        about: String::new(),
        tier,
        branch: None,
        base: None,
    };
    house.runtime.create_worktree(&owner.who, act).await.unwrap().id
}

/// A reader that looked at the facts just before they changed must not leave its answer for those after it.
async fn acc_06_a_decision_on_old_facts_is_not_remembered_for_the_new_epoch(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let bo = house.user(&owner, "bo", Role::Member).await;
    let id = worktree(&house, &owner, Tier::Session).await;
    let gate = house.runtime.gate();

    let as_of = gate.epoch().now();
    let facts = gate.worktree(id).await.unwrap().unwrap();
    house.runtime.set_tier(&owner.who, id, Tier::None).await.unwrap();
    assert!(gate.may_read(&bo.who, &facts, as_of), "that is what these facts say");

    assert!(matches!(house.runtime.worktree(&bo.who, id).await, Err(ActError::Denied(_))));
    let page = house.runtime.worktrees(&bo.who, &WorktreeFilter::default(), None, 50).await.unwrap();
    assert!(page.items.is_empty());
}

/// While readers race with a tier that goes up and down, nobody reads after it went down.
async fn acc_06_racing_readers_never_read_after_the_right_was_taken(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let bo = house.user(&owner, "bo", Role::Member).await;
    let id = worktree(&house, &owner, Tier::Session).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (runtime, who, stopped) = (house.runtime.clone(), bo.who.clone(), stopped.clone());
            tokio::spawn(async move {
                while !*stopped.borrow() {
                    drop(runtime.worktree(&who, id).await);
                    // An answer from memory waits for nothing; let the others run.
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..crate::house::scale(1_000, 20) {
        house.runtime.set_tier(&owner.who, id, Tier::None).await.unwrap();
        assert!(house.runtime.worktree(&bo.who, id).await.is_err());
        house.runtime.set_tier(&owner.who, id, Tier::View).await.unwrap();
        assert!(house.runtime.worktree(&bo.who, id).await.is_ok());
    }
    stop.send_replace(true);
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acc_06_racing_readers_never_read_after_the_right_was_taken_on_sqlite() {
    acc_06_racing_readers_never_read_after_the_right_was_taken(Kept::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acc_06_racing_readers_never_read_after_the_right_was_taken_on_postgresql() {
    acc_06_racing_readers_never_read_after_the_right_was_taken(Kept::Postgres).await;
}

/// A live connection hangs on its very credential, not only on its user.
async fn acc_06_a_stream_ends_with_the_credential_that_opened_it(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let made = house.runtime.create_key(&owner.who, "k".parse().unwrap(), Scope::Read, DAY).await.unwrap();
    let (key, secret) = made.unwrap();
    let by_key = house.runtime.auth().authenticate(secret.expose()).await.unwrap();
    let second = house.login(&owner.email, crate::house::PASSWORD, "p2").await.unwrap();
    let second = house.someone(&owner.email, second).await;

    let mut with_key = house.runtime.follow(&by_key, None).await.unwrap();
    let mut with_login = house.runtime.follow(&second.who, None).await.unwrap();
    let ticket = house.runtime.auth().ticket(&by_key).unwrap();
    let before = house.head();

    house.runtime.revoke_key(&owner.who, key.id).await.unwrap();
    let ended = |error| matches!(error, EventError::Act(ActError::Denied(_)));
    assert!(ended(with_key.next().await.unwrap_err()));
    assert!(house.runtime.auth().redeem(ticket.expose()).await.is_err(), "nor does a ticket outlive it");
    assert_eq!(house.head() - before, 3, "revoked (opened, closed) and one refusal");

    house.runtime.sign_out(&second.who).await.unwrap();
    assert!(ended(with_login.next().await.unwrap_err()));
    house.runtime.status(&owner.who).await.unwrap();
}

async fn idn_12_a_key_ends_on_its_day_and_makes_no_credential_that_outlives_it(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let made = house.runtime.create_key(&owner.who, "k".parse().unwrap(), Scope::Admin, DAY).await.unwrap();
    let (_, secret) = made.unwrap();
    let auth = house.runtime.auth();
    let who = auth.authenticate(secret.expose()).await.unwrap();

    // A key makes no key, and turns no one-time password on.
    let before = house.head();
    let refused = house.runtime.create_key(&who, "k2".parse().unwrap(), Scope::Read, DAY).await.unwrap();
    assert!(matches!(refused, Err(ActError::Denied(_))));
    assert_eq!(house.head() - before, 1);
    let proof = runtime::Proof { password: crate::house::password(), totp: None, peer: "p" };
    let new = vault::Secret::new("another password entirely".to_owned());
    assert!(house.runtime.change_password(&who, proof, new).await.is_err());
    assert_eq!(house.count("SELECT COUNT(*) FROM api_keys").await, 1);

    // A Pass made with it ends no later.
    let grant = model::Grant { depth: 3, ..model::Grant::everything() };
    let minted = house.runtime.mint_pass(&who, "p".parse().unwrap(), &grant, 20 * DAY).await.unwrap();
    let (pass, _) = minted.unwrap();
    assert_eq!(pass.expires, who.expires());

    house.clock.advance(DAY - 1);
    auth.authenticate(secret.expose()).await.unwrap();
    house.clock.advance(1);
    assert!(auth.authenticate(secret.expose()).await.is_err());
}

on_both_engines! {
    acc_06_a_decision_on_old_facts_is_not_remembered_for_the_new_epoch,
    acc_06_a_stream_ends_with_the_credential_that_opened_it,
    idn_12_a_key_ends_on_its_day_and_makes_no_credential_that_outlives_it,
}
