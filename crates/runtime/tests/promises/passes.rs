//! Passes: narrower, shorter, and gone with what they were made from.

use access::pass::{Caveat, MintError, PassToken};
use access::{AuthError, Principal, Scope};
use model::{Grant, PassId, Role};
use runtime::{ActError, Runtime};
use vault::Secret;

use crate::house::{DAY, House, Kept, MINUTE, on_both_engines, scale};

fn grant(text: &str) -> Grant {
    serde_json::from_str(text).unwrap()
}

async fn mint(runtime: &std::sync::Arc<Runtime>, who: &Principal, depth: u8) -> (PassId, Secret<String>) {
    let asked =
        grant(&format!(r#"{{"tools":{{"allow":["api.pass.mint","api.user.read"]}},"depth":{depth}}}"#));
    let made = runtime.mint_pass(who, "p".parse().unwrap(), &asked, 60 * MINUTE).await.unwrap().unwrap();
    (made.0.id, made.1)
}

async fn acc_11_revoking_the_root_of_a_tree_revokes_all_of_it_also_after_a_restart(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let auth = house.runtime.auth();
    let (root, text) = mint(&house.runtime, &owner.who, 3).await;
    let mut all = vec![text];
    // Three levels below the root, about as wide as they are many.
    let wanted = usize::try_from(scale(1_000, 60)).unwrap();
    let mut next = 0;
    let mut levels = vec![0_u8];
    while all.len() < wanted {
        let parent = auth.authenticate(all.get(next).unwrap().expose()).await.unwrap();
        let level = *levels.get(next).unwrap();
        for _ in 0..11 {
            if level < 3 && all.len() < wanted {
                all.push(mint(&house.runtime, &parent, 3).await.1);
                levels.push(level + 1);
            }
        }
        next += 1;
    }
    let (_, kept) = mint(&house.runtime, &owner.who, 0).await;
    for text in &all {
        auth.authenticate(text.expose()).await.unwrap();
    }

    let revoked = house.runtime.revoke_pass(&owner.who, root).await.unwrap();
    assert_eq!(usize::try_from(revoked).unwrap(), all.len());
    let started = std::time::Instant::now();
    for text in &all {
        assert_eq!(auth.authenticate(text.expose()).await.unwrap_err(), AuthError::Invalid);
    }
    assert!(
        started.elapsed() < std::time::Duration::from_secs(1) || all.len() > 500,
        "{:?}",
        started.elapsed()
    );
    auth.authenticate(kept.expose()).await.unwrap();

    let house = house.again().await;
    let auth = house.runtime.auth();
    for text in &all {
        assert_eq!(auth.authenticate(text.expose()).await.unwrap_err(), AuthError::Invalid);
    }
    auth.authenticate(kept.expose()).await.unwrap();
}

async fn acc_09_a_pass_is_never_wider_longer_or_deeper_than_its_maker(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let runtime = &house.runtime;
    let everything = Grant::everything();
    let label = || "p".parse().unwrap();
    // A login may hand on three times, whatever it asks for.
    let (row, _) = runtime.mint_pass(&owner.who, label(), &everything, MINUTE).await.unwrap().unwrap();
    assert_eq!(row.grant.depth, 3);

    let asked = grant(
        r#"{"tools":{"allow":["api.pass.mint","api.user.read"]},"paths":{"allow":["ro:/w"]},"depth":1}"#,
    );
    let (parent, text) = runtime.mint_pass(&owner.who, label(), &asked, 10 * MINUTE).await.unwrap().unwrap();
    let by_parent = runtime.auth().authenticate(text.expose()).await.unwrap();
    let (child, text) = runtime.mint_pass(&by_parent, label(), &everything, 30 * DAY).await.unwrap().unwrap();
    assert!(parent.grant.contains(&child.grant), "{child:?}");
    assert_eq!((child.grant.depth, child.expires, child.parent), (0, parent.expires, Some(parent.id)));

    let by_child = runtime.auth().authenticate(text.expose()).await.unwrap();
    let (before, count) = (house.head(), house.count("SELECT COUNT(*) FROM passes").await);
    let refused = runtime.mint_pass(&by_child, label(), &everything, MINUTE).await.unwrap_err();
    assert_eq!(refused, MintError::LastDepth);
    assert_eq!((house.head() - before, house.count("SELECT COUNT(*) FROM passes").await), (1, count));
}

async fn idn_12_revoking_a_key_revokes_every_pass_made_with_it(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let made = house.runtime.create_key(&owner.who, "k".parse().unwrap(), Scope::Manage, DAY).await.unwrap();
    let (key, secret) = made.unwrap();
    let auth = house.runtime.auth();
    let by_key = auth.authenticate(secret.expose()).await.unwrap();
    let (_, first) = mint(&house.runtime, &by_key, 2).await;
    let by_first = auth.authenticate(first.expose()).await.unwrap();
    let (_, second) = mint(&house.runtime, &by_first, 1).await;
    let (_, mine) = mint(&house.runtime, &owner.who, 0).await;

    house.runtime.revoke_key(&owner.who, key.id).await.unwrap();
    for text in [&secret, &first, &second] {
        assert_eq!(auth.authenticate(text.expose()).await.unwrap_err(), AuthError::Invalid);
    }
    auth.authenticate(mine.expose()).await.unwrap();
    let refused =
        house.runtime.mint_pass(&by_key, "p".parse().unwrap(), &Grant::nothing(), MINUTE).await.unwrap();
    assert!(matches!(refused, Err(ActError::Denied(_))), "nor does a principal made before");
}

async fn idn_07_what_ends_a_users_logins_ends_their_passes(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let runtime = &house.runtime;
    for (name, what) in [("a", "disable"), ("b", "role"), ("c", "reset"), ("d", "everywhere")] {
        let one = house.user(&owner, name, Role::Member).await;
        let (_, pass) = mint(runtime, &one.who, 0).await;
        runtime.auth().authenticate(pass.expose()).await.unwrap();
        match what {
            "disable" => runtime.disable_user(&owner.who, one.id).await.unwrap(),
            "role" => {
                let act =
                    access::UpdateUser { user: one.id, name: None, role: Some(Role::Viewer), enable: false };
                drop(runtime.update_user(&owner.who, act).await.unwrap());
            }
            "reset" => {
                let new = Secret::new("another password entirely".to_owned());
                runtime.reset_password(&owner.who, one.id, new).await.unwrap();
            }
            _ => runtime.sign_out_everywhere(&owner.who, one.id).await.unwrap(),
        }
        for text in [pass.expose(), one.tokens.access.expose()] {
            assert_eq!(runtime.auth().authenticate(text).await.unwrap_err(), AuthError::Invalid, "{what}");
        }
        assert!(runtime.status(&one.who).await.is_err(), "{what}");
        assert!(runtime.auth().refresh(one.tokens.refresh.expose(), "p").await.is_err(), "{what}");
    }
    // A change of the name ends nothing; giving the same role again neither.
    let one = house.user(&owner, "e", Role::Member).await;
    let act = access::UpdateUser { user: one.id, name: None, role: Some(Role::Member), enable: false };
    runtime.update_user(&owner.who, act).await.unwrap();
    runtime.status(&one.who).await.unwrap();
}

async fn acc_11_an_id_that_a_holder_writes_does_not_change_what_a_pass_was_made_from(kept: Kept) {
    let house = House::on(kept).await;
    let owner = house.owner().await;
    let auth = house.runtime.auth();
    let (mine, text) = mint(&house.runtime, &owner.who, 3).await;
    let (sibling, _) = mint(&house.runtime, &owner.who, 3).await;
    let (child, child_text) = {
        let who = auth.authenticate(text.expose()).await.unwrap();
        mint(&house.runtime, &who, 2).await
    };
    let token = PassToken::parse(text.expose()).unwrap();
    let foreign = token.attenuate(&Caveat::Id(sibling)).unwrap().to_text();
    assert_eq!(auth.authenticate(foreign.expose()).await.unwrap_err(), AuthError::Invalid, "not its child");
    // What really is its child may be named; it stands and falls with both.
    let named = token.attenuate(&Caveat::Id(child)).unwrap().to_text();
    let who = auth.authenticate(named.expose()).await.unwrap();
    let (_, grandchild) = mint(&house.runtime, &who, 0).await;
    house.runtime.revoke_pass(&owner.who, mine).await.unwrap();
    for text in [&text, &child_text, &named, &grandchild] {
        assert_eq!(auth.authenticate(text.expose()).await.unwrap_err(), AuthError::Invalid);
    }
}

on_both_engines! {
    acc_11_revoking_the_root_of_a_tree_revokes_all_of_it_also_after_a_restart,
    acc_09_a_pass_is_never_wider_longer_or_deeper_than_its_maker,
    idn_12_revoking_a_key_revokes_every_pass_made_with_it,
    idn_07_what_ends_a_users_logins_ends_their_passes,
    acc_11_an_id_that_a_holder_writes_does_not_change_what_a_pass_was_made_from,
}
