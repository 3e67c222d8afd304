//! Guessing is slowed, per account and per address, whatever is restarted.

use access::AuthError;
use model::Role;
use runtime::{AccountError, Proof};
use vault::Secret;

use crate::house::{House, Kept, MINUTE, PASSWORD, SECOND, on_both_engines};

fn throttled(error: &AuthError) -> bool {
    matches!(error, AuthError::Throttled { .. })
}

async fn idn_13_the_sixth_failure_in_a_minute_waits_even_with_the_right_password(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    for n in 0..5 {
        // Each from an address of its own: the account counts.
        let refused = house.login(&owner.email, "wrong", &format!("10.1.0.{n}")).await.unwrap_err();
        assert_eq!(refused, AuthError::Invalid);
    }
    house.clock.advance(SECOND);
    let refused = house.login(&owner.email, PASSWORD, "10.1.0.9").await.unwrap_err();
    assert_eq!(refused, AuthError::Throttled { retry_ms: MINUTE - SECOND });
    let house = house.again().await;
    assert!(
        throttled(&house.login(&owner.email, PASSWORD, "10.1.0.9").await.unwrap_err()),
        "after a restart"
    );
    house.clock.advance(MINUTE);
    house.login(&owner.email, PASSWORD, "10.1.0.9").await.unwrap();
}

async fn idn_13_an_address_is_slowed_across_accounts(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    for n in 0..5 {
        let email = format!("nobody{n}@example.org");
        assert_eq!(house.login(&email, "wrong", "10.2.0.1").await.unwrap_err(), AuthError::Invalid);
    }
    assert!(throttled(&house.login(&owner.email, PASSWORD, "10.2.0.1").await.unwrap_err()));
    house.login(&owner.email, PASSWORD, "10.2.0.2").await.unwrap();
}

async fn idn_13_the_fifty_first_attempt_in_a_quarter_of_an_hour_waits(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    // Attempts that succeeded count too; kept as rows because fifty hashes take long.
    let now = model::Clock::now(house.clock.as_ref());
    house.login(&owner.email, PASSWORD, "10.3.0.1").await.unwrap();
    for n in 0..49 {
        let sql = "INSERT INTO attempts (id, subject, at, failed) VALUES ($1, 'peer:10.3.0.1', $2, 0)";
        house.sql(sql, &[format!("earlier {n}").into(), (now - 14 * MINUTE).into()]).await;
    }
    let refused = house.login(&owner.email, PASSWORD, "10.3.0.1").await.unwrap_err();
    assert_eq!(refused, AuthError::Throttled { retry_ms: MINUTE });
    let house = house.again().await;
    assert!(
        throttled(&house.login(&owner.email, PASSWORD, "10.3.0.1").await.unwrap_err()),
        "after a restart"
    );
    house.clock.advance(MINUTE + SECOND);
    house.login(&owner.email, PASSWORD, "10.3.0.1").await.unwrap();
}

async fn idn_13_parallel_guesses_do_not_slip_past_together(kept: Kept) {
    let house = House::on(kept).await;
    house.owner().await;
    let mut tries = Vec::new();
    for n in 0..12 {
        let runtime = std::sync::Arc::clone(&house.runtime);
        tries.push(tokio::spawn(async move {
            let guess = Secret::new("wrong".to_owned());
            runtime.auth().login("owner@example.org", guess, None, &format!("10.4.0.{n}")).await.unwrap_err()
        }));
    }
    let mut judged = 0;
    for one in tries {
        judged += usize::from(one.await.unwrap() == AuthError::Invalid);
    }
    assert_eq!(judged, 5);
}

async fn idn_13_asking_again_for_the_password_counts_against_the_same_account(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let ana = house.user(&owner, "ana", Role::Member).await;
    let proof = |text: &str| Proof { password: Secret::new(text.to_owned()), totp: None, peer: "10.5.0.1" };
    let new = || Secret::new("another password entirely".to_owned());
    for _ in 0..5 {
        let before = house.head();
        let refused = house.runtime.change_password(&ana.who, proof("wrong"), new()).await.unwrap_err();
        assert!(matches!(refused, AccountError::Auth(AuthError::Invalid)));
        assert_eq!(house.head() - before, 1, "a refusal of someone known is one entry");
    }
    let refused = house.runtime.change_password(&ana.who, proof(PASSWORD), new()).await.unwrap_err();
    assert!(matches!(refused, AccountError::Auth(AuthError::Throttled { .. })));
    assert!(throttled(&house.login(&ana.email, PASSWORD, "10.5.0.2").await.unwrap_err()));
    assert_eq!(house.entries("password.change", "refused"), 6);
    house.clock.advance(MINUTE + SECOND);
    house.runtime.change_password(&ana.who, proof(PASSWORD), new()).await.unwrap();
}

on_both_engines! {
    idn_13_the_sixth_failure_in_a_minute_waits_even_with_the_right_password,
    idn_13_an_address_is_slowed_across_accounts,
    idn_13_the_fifty_first_attempt_in_a_quarter_of_an_hour_waits,
    idn_13_parallel_guesses_do_not_slip_past_together,
    idn_13_asking_again_for_the_password_counts_against_the_same_account,
}
