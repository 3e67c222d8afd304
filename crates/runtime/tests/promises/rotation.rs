//! A rotation of keys: interrupted anywhere, at once with others, beside what is sealed meanwhile.

use std::sync::Arc;

use access::TotpSeed;
use model::{Clock, Role, SecretName, SecretOwner};
use runtime::{NextMaster, Proof, Rotation};
use vault::{KeyRing, MasterKey, RingError, SealedRecord};

use crate::house::{Dice, House, Kept, Someone, on_both_engines, scale};
use crate::secrets::{add, given, name, new, value};

async fn rotate(house: &House, who: &Someone, next: Option<NextMaster>) -> Rotation {
    let begins = next.is_some();
    house.runtime.rotate_keys(&who.who, next, begins).await.unwrap()
}

fn copy(key: &MasterKey) -> MasterKey {
    MasterKey::from_hex_or_base64(key.to_base64().expose()).unwrap()
}

/// Interrupted after every step, with a new start in between, and once more from the beginning.
async fn sec_04_a_rotation_that_is_interrupted_goes_on(kept: Kept) {
    let mut house = House::on(kept).await;
    let mut owner = house.owner().await;
    let values = scale(1_000, 450);
    let me = SecretOwner::User(owner.id);
    for n in 0..values {
        drop(add(&house, &owner, me, &format!("S_{n}"), &format!("value {n}")).await);
    }
    let seed = TotpSeed::random().unwrap();
    let other = house.user(&owner, "ana", Role::Member).await;
    let sealed = seed.seal(&house.ring, other.id).unwrap();
    house
        .sql("UPDATE users SET totp = $2 WHERE id = $1", &[other.id.to_string().into(), sealed.into()])
        .await;
    let mut old = MasterKey::random().unwrap();
    for round in 2..4 {
        let master = MasterKey::random().unwrap();
        let mut step = rotate(&house, &owner, Some(NextMaster::Given(copy(&master)))).await;
        assert!(step.begun && step.epoch == round && !step.finished, "{step:?}");
        let mut steps = 1_u32;
        while !step.finished {
            // As if killed: the ring is read again from its file, under the new key.
            let kept = house.kept_ring().await;
            assert!(matches!(KeyRing::read(&kept, &old), Err(RingError::OtherMaster { .. })));
            house = house.again_under(&master).await;
            let tokens = house.login(&owner.email, crate::house::PASSWORD, &format!("{round} {steps}")).await;
            owner = house.someone("owner@example.org", tokens.unwrap()).await;
            let some = Dice(u64::from(steps) + 7).roll(u64::from(values));
            assert_eq!(
                given(&house, &owner, &format!("S_{some}")).await.unwrap(),
                format!("value {some}").into_bytes()
            );
            step = rotate(&house, &owner, None).await;
            assert!(!step.begun);
            steps += 1;
        }
        assert!(steps > 2, "{steps}");
        house = house.again_under(&master).await;
        let tokens = house.login(&owner.email, crate::house::PASSWORD, &format!("{round} end")).await;
        owner = house.someone("owner@example.org", tokens.unwrap()).await;
        assert!(!house.ring.is_rotating() && house.ring.epoch() == round);
        // All of them in the full run; lending one is two entries on the disk.
        for n in (0..values).step_by(if values < 1_000 { 9 } else { 1 }) {
            assert_eq!(
                given(&house, &owner, &format!("S_{n}")).await.unwrap(),
                format!("value {n}").into_bytes()
            );
        }
        let sql = "SELECT sealed FROM secrets UNION ALL SELECT totp FROM users WHERE totp IS NOT NULL";
        for row in house.behind.rows(sql, &[]).await.unwrap() {
            assert_eq!(SealedRecord::parse(row.blob(0).unwrap().to_vec()).unwrap().epoch(), round);
        }
        let idle = rotate(&house, &owner, None).await;
        assert!(idle.finished && !idle.begun && idle.epoch == round, "nothing to go on with");
        old = master;
    }
}

/// A value that cannot be opened stops a rotation before anything is lost, and is named.
async fn sec_04_a_rotation_lets_no_key_go_that_is_needed(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    drop(add(&house, &owner, me, "GOOD", "value").await);
    let bad = add(&house, &owner, me, "BAD", "value").await;
    house.sql("UPDATE secrets SET hosts = 'evil.example' WHERE id = $1", &[bad.id.to_string().into()]).await;
    let next = || Some(NextMaster::Given(MasterKey::random().unwrap()));
    let refused = house.runtime.rotate_keys(&owner.who, next(), true).await.unwrap_err();
    assert!(refused.to_string().contains("the secret `BAD` of"), "{refused}");
    assert!(house.ring.is_rotating());
    assert_eq!(given(&house, &owner, "GOOD").await.unwrap(), b"value");
    house.runtime.remove_secret(&owner.who, me, name("BAD")).await.unwrap();
    let step = rotate(&house, &owner, None).await;
    assert!(step.finished && step.epoch == 2);
    assert_eq!(given(&house, &owner, "GOOD").await.unwrap(), b"value");
    assert!(
        house
            .runtime
            .rotate_keys(&owner.who, None, true)
            .await
            .unwrap_err()
            .to_string()
            .contains("--new-key-file")
    );
}

/// Begins a rotation that a value which does not open keeps from its end; gives its new master, and that value's name.
async fn begin_and_stop(house: &House, owner: &Someone) -> (MasterKey, SecretName) {
    let bad = add(house, owner, SecretOwner::User(owner.id), "BAD", "value").await;
    house.sql("UPDATE secrets SET hosts = 'evil.example' WHERE id = $1", &[bad.id.to_string().into()]).await;
    let master = MasterKey::random().unwrap();
    let next = Some(NextMaster::Given(copy(&master)));
    house.runtime.rotate_keys(&owner.who, next, true).await.unwrap_err();
    assert!(house.ring.is_rotating());
    (master, bad.name)
}

/// Whoever names a new key is not told that it is in use when another is.
async fn sec_04_going_on_with_another_new_key_is_refused(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let (master, bad) = begin_and_stop(&house, &owner).await;
    house.runtime.remove_secret(&owner.who, SecretOwner::User(owner.id), bad).await.unwrap();
    for may_begin in [true, false] {
        let other = Some(NextMaster::Given(MasterKey::random().unwrap()));
        let refused = house.runtime.rotate_keys(&owner.who, other, may_begin).await.unwrap_err();
        assert!(refused.to_string().contains("finish it without --new-key-file"), "{refused}");
        let kept = KeyRing::read(&house.kept_ring().await, &master).unwrap();
        assert!(house.ring.is_rotating() && kept.is_rotating());
    }
    let step = rotate(&house, &owner, Some(NextMaster::Given(copy(&master)))).await;
    assert!(step.finished && !step.begun, "the one that it was begun with is no other");
}

/// A seed that was offered before a rotation and confirmed during it is not lost with the earlier epoch.
async fn sec_04_a_seed_that_is_confirmed_meanwhile_is_kept(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let (_, offered) = house.runtime.offer_totp(&owner.who).await.unwrap();
    let seed = TotpSeed::open(&house.ring, owner.id, offered.clone()).unwrap();
    drop(begin_and_stop(&house, &owner).await);
    let code = seed.code_at(house.clock.now());
    let proof = Proof { password: crate::house::password(), totp: Some(&code), peer: "10.0.0.2" };
    house.runtime.confirm_totp(&owner.who, proof, offered, &code).await.unwrap();
    let row = house.behind.row("SELECT totp FROM users WHERE totp IS NOT NULL", &[]).await.unwrap().unwrap();
    let kept = row.blob(0).unwrap().to_vec();
    assert_eq!(SealedRecord::parse(kept.clone()).unwrap().epoch(), house.ring.epoch(), "of the new epoch");
    let kept = TotpSeed::open(&house.ring, owner.id, kept).unwrap();
    assert_eq!(kept.code_at(house.clock.now()), code);
}

/// Two that rotate at once: one of them waits its turn, and every value opens.
async fn sec_04_rotations_at_once_lose_nothing(kept: Kept) {
    let house = Arc::new(House::on(kept).await);
    let owner = Arc::new(house.owner().await);
    let me = SecretOwner::User(owner.id);
    for n in 0..10 {
        drop(add(&house, &owner, me, &format!("S_{n}"), &format!("value {n}")).await);
    }
    let rotating = (0..6).map(|_| {
        let (house, owner) = (Arc::clone(&house), Arc::clone(&owner));
        tokio::spawn(async move {
            let mut refused = Vec::new();
            for _ in 0..scale(60, 12) {
                let next = Some(NextMaster::Given(MasterKey::random().unwrap()));
                if let Err(error) = house.runtime.rotate_keys(&owner.who, next, true).await {
                    refused.push(error.to_string());
                }
            }
            refused
        })
    });
    let mut refused = Vec::new();
    for one in rotating.collect::<Vec<_>>() {
        refused.extend(one.await.unwrap());
    }
    assert!(refused.iter().all(|text| text.contains("a rotation is under way")), "{refused:?}");
    assert!(!refused.is_empty() && house.ring.epoch() > 2 && !house.ring.is_rotating());
    for n in 0..10 {
        let value = given(&house, &owner, &format!("S_{n}")).await;
        assert_eq!(value, Ok(format!("value {n}").into_bytes()));
    }
}

/// Values that are added while keys are rotated are not lost with the earlier epoch.
async fn sec_04_what_is_added_meanwhile_is_kept(kept: Kept) {
    let house = Arc::new(House::on(kept).await);
    let owner = Arc::new(house.owner().await);
    let me = SecretOwner::User(owner.id);
    let count = scale(200, 20);
    let adding = {
        let (house, owner) = (Arc::clone(&house), Arc::clone(&owner));
        tokio::spawn(async move {
            for n in 0..count {
                drop(add(&house, &owner, me, &format!("S_{n}"), &format!("value {n}")).await);
            }
        })
    };
    while !adding.is_finished() {
        let next = Some(NextMaster::Given(MasterKey::random().unwrap()));
        assert!(rotate(&house, &owner, next).await.finished);
        tokio::task::yield_now().await;
    }
    adding.await.unwrap();
    for n in 0..count {
        assert_eq!(
            given(&house, &owner, &format!("S_{n}")).await.unwrap(),
            format!("value {n}").into_bytes()
        );
    }
    assert!(house.ring.epoch() > 1);
}

/// Another daemon had the database and changed its keys: whatever this one would seal is refused, and so is its rotation.
#[tokio::test]
async fn sec_04_nothing_is_sealed_under_a_ring_that_is_not_there_any_more() {
    let house = House::on(Kept::Postgres).await;
    let owner = house.owner().await;
    let me = SecretOwner::User(owner.id);
    drop(add(&house, &owner, me, "KEY", "value").await);
    let (_, offered) = house.runtime.offer_totp(&owner.who).await.unwrap();
    let seed = TotpSeed::open(&house.ring, owner.id, offered.clone()).unwrap();
    let mut rows = Vec::new();
    for round in 0..2 {
        let before = house.ring.kept();
        let other = MasterKey::random().unwrap();
        let theirs = match &before {
            // As long as there is none, whoever rotates first makes it.
            None => KeyRing::with_own_root(&other).unwrap().kept().unwrap(),
            Some(_) => house.ring.turn(&other).unwrap().bytes().to_vec(),
        };
        match &before {
            None => {
                house.sql("INSERT INTO key_ring (id, kept) VALUES (1, $1)", &[theirs.clone().into()]).await
            }
            Some(_) => house.sql("UPDATE key_ring SET kept = $1", &[theirs.clone().into()]).await,
        };
        let there = house.count("SELECT COUNT(*) FROM secrets").await;
        let refused = house.runtime.add_secret(&owner.who, new(me, "LATE"), value("late")).await.unwrap_err();
        assert!(refused.to_string().contains("were changed by another daemon"), "{refused}");
        let code = seed.code_at(house.clock.now());
        let proof = Proof { password: crate::house::password(), totp: Some(&code), peer: "10.0.0.2" };
        let refused = house.runtime.confirm_totp(&owner.who, proof, offered.clone(), &code).await;
        assert!(refused.is_err(), "a seed is sealed too");
        let next = Some(NextMaster::Given(MasterKey::random().unwrap()));
        let refused = house.runtime.rotate_keys(&owner.who, next, true).await.unwrap_err();
        assert!(refused.to_string().contains("start the daemon"), "{refused}");
        assert_eq!(house.kept_ring().await, theirs, "their ring stays");
        assert_eq!(house.count("SELECT COUNT(*) FROM secrets").await, there);
        assert_eq!(house.count("SELECT COUNT(*) FROM users WHERE totp IS NOT NULL").await, 0);
        rows.push(theirs);
        // And without them it goes on: with a ring of its own for the second round.
        match before {
            None => house.sql("DELETE FROM key_ring", &[]).await,
            Some(before) => house.sql("UPDATE key_ring SET kept = $1", &[before.into()]).await,
        };
        if round == 0 {
            let next = Some(NextMaster::Given(MasterKey::random().unwrap()));
            assert!(rotate(&house, &owner, next).await.finished);
        }
    }
    assert_eq!(given(&house, &owner, "KEY").await.unwrap(), b"value");
    assert_eq!(rows.len(), 2);
}

on_both_engines! {
    sec_04_a_rotation_that_is_interrupted_goes_on,
    sec_04_a_rotation_lets_no_key_go_that_is_needed,
    sec_04_what_is_added_meanwhile_is_kept,
    sec_04_going_on_with_another_new_key_is_refused,
    sec_04_a_seed_that_is_confirmed_meanwhile_is_kept,
    sec_04_rotations_at_once_lose_nothing,
}
