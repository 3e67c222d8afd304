//! Lists are cut to what the caller may read: the filter in SQL and the policies say the same.

use std::collections::BTreeSet;

use access::{
    ACTIONS, AddedPolicy, Asks, CreateWorktree, Lifetimes, Policies, Subject, Target, WorktreeFacts,
};
use model::{RepoId, Role, Tier, UserId, WorktreeId};
use runtime::{Source, WorktreeFilter};

use crate::house::server::Server;
use crate::house::{Dice, House, Someone, scale};

async fn repo(house: &House, owner: &Someone) -> RepoId {
    let origin = "https://forge.example/a/b".to_owned();
    house
        .runtime
        .create_repo(&owner.who, runtime::NewRepo::new("demo".parse().unwrap(), origin))
        .await
        .unwrap()
        .id
}

/// What everyone may do, thrown by dice.
struct Table {
    facts: Vec<WorktreeFacts>,
    forbids: Vec<AddedPolicy>,
}

async fn throw(house: &House, dice: &mut Dice, people: &[UserId], all: &[WorktreeId]) -> Table {
    let mut tx = house.behind.write().await.unwrap();
    tx.exec("DELETE FROM worktree_owners", &[]).await.unwrap();
    tx.exec("DELETE FROM added_policies", &[]).await.unwrap();
    let mut facts = Vec::new();
    for id in all {
        let tier = Tier::EVERY.get(usize::try_from(dice.roll(9).min(4)).unwrap()).copied().unwrap();
        let tier = if dice.roll(2) == 0 { Tier::None } else { tier };
        let archived = dice.roll(5) == 0;
        let owners: Vec<UserId> = people.iter().copied().filter(|_| dice.roll(4) == 0).collect();
        let at = archived.then_some(1_i64);
        let sql = "UPDATE worktrees SET tier = $2, archived_at = $3 WHERE id = $1";
        tx.exec(sql, &[id.to_string().into(), tier.word().into(), at.into()]).await.unwrap();
        for owner in &owners {
            let sql = "INSERT INTO worktree_owners (worktree, user_id) VALUES ($1, $2)";
            tx.exec(sql, &[id.to_string().into(), owner.to_string().into()]).await.unwrap();
        }
        facts.push(WorktreeFacts { id: *id, owners, tier, archived, shares: false, deleted: false });
    }
    let mut forbids = Vec::new();
    for n in 0..dice.roll(3) {
        let pick = usize::try_from(dice.roll(u64::try_from(all.len()).unwrap())).unwrap();
        let text = match dice.roll(3) {
            0 => "forbid (principal, action == Action::\"worktree.read\", resource) when { resource.archived };".to_owned(),
            1 => "forbid (principal, action == Action::\"worktree.read\", resource) when { resource.tier == \"view\" };"
                .to_owned(),
            _ => format!("forbid (principal, action, resource == Worktree::\"{}\");", all.get(pick).unwrap()),
        };
        let id = format!("hide-{n}");
        let sql = "INSERT INTO added_policies (id, text, created_by, created_at) VALUES ($1, $2, $3, 0)";
        let by = people.first().unwrap().to_string();
        tx.exec(sql, &[id.as_str().into(), text.as_str().into(), by.into()]).await.unwrap();
        forbids.push(AddedPolicy { id, text });
    }
    tx.commit().await.unwrap();
    house.runtime.gate().reload_policies().await;
    Table { facts, forbids }
}

async fn listed(house: &House, who: &Someone, filter: &WorktreeFilter, limit: i64) -> BTreeSet<WorktreeId> {
    let (mut seen, mut after) = (BTreeSet::new(), None);
    loop {
        let page = house.runtime.worktrees(&who.who, filter, after, limit).await.unwrap();
        for row in &page.items {
            assert!(seen.insert(row.id), "twice on the pages");
        }
        match page.next {
            Some(next) => {
                assert!(seen.contains(&next), "a cursor names only what was shown");
                after = Some(next);
            }
            None => return seen,
        }
    }
}

async fn prove(source: Source, tables: u32, count: u32) {
    let house = House::with(source, Lifetimes::default()).await;
    let owner = house.owner().await;
    let repo = repo(&house, &owner).await;
    let mut people = Vec::new();
    for (name, role) in [
        ("v1", Role::Viewer),
        ("v2", Role::Viewer),
        ("m1", Role::Member),
        ("m2", Role::Member),
        ("a1", Role::Admin),
    ] {
        people.push(house.user(&owner, name, role).await);
    }
    people.push(owner);
    let mut all = Vec::new();
    for n in 0..count {
        let act = CreateWorktree {
            worktree: WorktreeId::random(),
            repo,
            name: format!("wt-{n}").parse().unwrap(),
            about: String::new(),
            tier: Tier::Session,
            branch: None,
            base: None,
        };
        all.push(house.runtime.create_worktree(&people.last().unwrap().who, act).await.unwrap().id);
    }
    let ids: Vec<UserId> = people.iter().map(|one| one.id).collect();
    let read = ACTIONS.iter().find(|action| action.name == "worktree.read").copied().unwrap();
    let mut dice = Dice(0x5eed_1234_abcd_0001);
    for turn in 0..tables {
        let table = throw(&house, &mut dice, &ids, &all).await;
        let policies = Policies::load(&table.forbids, true).unwrap();
        for one in &people {
            let subject = Subject { user: one.id, role: one.who.role(), via: "login" };
            let readable = |facts: &&WorktreeFacts| {
                policies.decide(subject, read, &Target::Worktree(facts), Asks::default()).allowed
            };
            let brute: BTreeSet<WorktreeId> =
                table.facts.iter().filter(readable).map(|facts| facts.id).collect();
            let everything = WorktreeFilter { archived: true, ..WorktreeFilter::default() };
            let limit = 1 + i64::try_from(dice.roll(60)).unwrap();
            let got = listed(&house, one, &everything, limit).await;
            assert_eq!(got, brute, "table {turn}, {}", one.email);
            // By name, and as events that are read again from the beginning.
            let named = WorktreeFilter { name: "wt-1".into(), archived: true, ..WorktreeFilter::default() };
            assert!(listed(&house, one, &named, 50).await.is_subset(&brute), "table {turn}");
            let mut follower = house.runtime.follow(&one.who, Some(0)).await.unwrap();
            let events = follower.next().await.unwrap();
            let told: BTreeSet<WorktreeId> = events.iter().filter_map(|event| event.worktree).collect();
            assert!(told.is_subset(&brute), "table {turn}, events of {}", one.email);
        }
        // One at a time, too.
        let (one, facts) = (people.get(2).unwrap(), table.facts.first().unwrap());
        let subject = Subject { user: one.id, role: one.who.role(), via: "login" };
        let may = policies.decide(subject, read, &Target::Worktree(facts), Asks::default()).allowed;
        assert_eq!(house.runtime.worktree(&one.who, facts.id).await.is_ok(), may);
    }
}

#[tokio::test]
async fn acc_05_the_filter_and_the_policies_agree_on_sqlite() {
    prove(Source::Embedded, scale(1_000, 30), scale(200, 60)).await;
}

#[tokio::test]
async fn acc_05_the_filter_and_the_policies_agree_on_postgresql() {
    prove(Source::Postgres(Server::shared().database()), scale(1_000, 30), scale(200, 60)).await;
}

#[tokio::test]
async fn acc_04_a_hidden_cursor_is_like_an_invented_one_and_no_cursor_names_what_is_hidden() {
    let house = House::new().await;
    let owner = house.owner().await;
    let bo = house.user(&owner, "bo", Role::Member).await;
    let repo = repo(&house, &owner).await;
    let mut ids = Vec::new();
    for (n, tier) in [Tier::View, Tier::None, Tier::View].into_iter().enumerate() {
        let name = format!("wt-{n}").parse().unwrap();
        let act = CreateWorktree {
            worktree: WorktreeId::random(),
            repo,
            name,
            about: String::new(),
            tier,
            branch: None,
            base: None,
        };
        ids.push(house.runtime.create_worktree(&owner.who, act).await.unwrap().id);
    }
    let filter = WorktreeFilter::default();
    let page = async |after| {
        let page = house.runtime.worktrees(&bo.who, &filter, Some(after), 50).await.unwrap();
        page.items.iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let hidden = page(*ids.get(1).unwrap()).await;
    assert_eq!(hidden, page(WorktreeId::random()).await);
    assert_eq!(page(*ids.first().unwrap()).await, [*ids.get(2).unwrap()]);
    // Hidden by a policy, with more hidden rows than a page has room for.
    let text = "forbid (principal in Role::\"viewer\", action == Action::\"worktree.read\", resource) \
                unless { principal in Role::\"admin\" };";
    house.runtime.add_policy(&owner.who, "hide-all".into(), text.into()).await.unwrap();
    let page = house.runtime.worktrees(&bo.who, &filter, None, 1).await.unwrap();
    assert!(page.items.is_empty() && page.next.is_none(), "{page:?}");
}
