//! A gate whose policies cannot be loaded is shut, and says so.

use access::{CreateWorktree, Denied, Reason, Resource};
use model::{Role, Tier, WorktreeId};
use runtime::{ActError, WorktreeFilter};

use crate::house::{DAY, House};

fn unavailable(error: ActError) -> bool {
    matches!(error, ActError::Denied(denied) if denied.reason() == Reason::Unavailable)
}

#[tokio::test]
async fn acc_02_a_policy_that_cannot_be_read_refuses_everything_and_says_so() {
    let house = House::new().await;
    let owner = house.owner().await;
    let origin = "https://forge.example/a/b".to_owned();
    let repo = house
        .runtime
        .create_repo(&owner.who, runtime::NewRepo::new("demo".parse().unwrap(), origin.clone()))
        .await
        .unwrap()
        .id;
    for (n, text) in [
        "this is not Cedar",
        "permit (principal, action, resource);",
        "forbid (principal, action == Action::\"no.such\", resource);",
        "forbid (principal, action, resource) when { resource.nonsense };",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        let sql = "INSERT INTO added_policies (id, text, created_by, created_at) VALUES ($1, $2, $3, 0)";
        house.sql(sql, &[format!("bad-{n}").into(), text.into(), owner.id.to_string().into()]).await;
        house.runtime.gate().reload_policies().await;
        let shut = house.runtime.checks().await.into_iter().find(|check| check.name == "policies").unwrap();
        assert!(shut.fault.is_some_and(|fault| fault.contains("everything is refused")), "{text}");
        refuses_everything(&house, &owner, repo).await;
        house.sql("DELETE FROM added_policies", &[]).await;
        house.runtime.gate().reload_policies().await;
        house.runtime.status(&owner.who).await.unwrap();
    }
    // Also when it is found at start.
    let sql = "INSERT INTO added_policies (id, text, created_by, created_at) VALUES ('bad', 'no', $1, 0)";
    house.sql(sql, &[owner.id.to_string().into()]).await;
    let house = house.again().await;
    assert!(house.runtime.gate().shut().is_some());
    refuses_everything(&house, &owner, repo).await;
}

async fn refuses_everything(house: &House, owner: &crate::house::Someone, repo: model::RepoId) {
    let (runtime, who) = (&house.runtime, &owner.who);
    let before = (house.count("SELECT COUNT(*) FROM worktrees").await, house.head());
    let name = "one".parse().unwrap();
    let act = CreateWorktree {
        worktree: WorktreeId::random(),
        repo,
        name,
        about: String::new(),
        tier: Tier::All,
        branch: None,
        base: None,
    };
    assert!(unavailable(runtime.create_worktree(who, act).await.unwrap_err()));
    assert!(unavailable(runtime.status(who).await.unwrap_err()));
    assert!(unavailable(runtime.users(who, "", None, 10).await.unwrap_err()));
    assert!(unavailable(runtime.worktrees(who, &WorktreeFilter::default(), None, 10).await.unwrap_err()));
    assert!(unavailable(runtime.disable_user(who, owner.id).await.unwrap_err()));
    let key = runtime.create_key(who, "k".parse().unwrap(), access::Scope::Read, DAY).await.unwrap();
    assert!(unavailable(key.unwrap_err()));
    assert!(runtime.follow(who, None).await.is_err());
    let after = (house.count("SELECT COUNT(*) FROM worktrees").await, house.head());
    assert_eq!((after.0, after.1), (before.0, before.1 + 7), "nothing changed, seven refusals on the record");
}

#[tokio::test]
async fn acc_28_a_policy_that_does_not_do_is_refused_with_its_reason_and_one_entry() {
    let house = House::new().await;
    let owner = house.owner().await;
    let member = house.user(&owner, "bo", Role::Member).await;
    let forbid = "forbid (principal, action == Action::\"repo.list\", resource);";
    house.runtime.add_policy(&owner.who, "no-repos".into(), forbid.into()).await.unwrap();
    for (id, text, says) in [
        ("x", "permit (principal, action, resource);", "may only forbid"),
        ("x", "nonsense", "cannot be read"),
        ("x", "", "exactly one"),
        ("x", &format!("{forbid}{forbid}"), "exactly one"),
        ("x", "forbid (principal, action == Action::\"no.such\", resource);", "does not fit the schema"),
        ("no-repos", forbid, "already a policy"),
        ("owners", forbid, "already a policy"),
        ("Not An Id", forbid, "1 to 64 characters"),
    ] {
        let before = house.head();
        let refused = house.runtime.add_policy(&owner.who, id.into(), text.into()).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{id} {text}: {refused}");
        assert_eq!(house.head() - before, 1, "{id} {text}");
    }
    assert_eq!(house.count("SELECT COUNT(*) FROM added_policies").await, 1);
    // Who may not add policies learns nothing about theirs.
    let refused =
        house.runtime.add_policy(&member.who, "no-repos".into(), "nonsense".into()).await.unwrap_err();
    assert!(!refused.to_string().contains("cannot be read"), "{refused}");
    let gate = house.runtime.gate();
    let denied: Denied = gate
        .check(
            &member.who,
            access::action_named("repo.list").unwrap(),
            Resource::Installation,
            Default::default(),
        )
        .await
        .unwrap_err();
    assert_eq!(denied.policies(), ["no-repos"]);
}
