//! What it costs to decide: the whole uncached path against a bare Cedar evaluation, and a decision that is
//! remembered.

use std::collections::HashSet;
use std::sync::Arc;

use access::{Asks, CreateWorktree, Policies, ReadWorktree, Subject, Target, WorktreeFacts, action_named};
use anyhow::Context;
use cedar_policy::{ActionConstraint, Authorizer, Entities, Entity, EntityUid, PolicySet};
use model::{Role, Tier, UserId, WorktreeId};
use vault::{KeyRing, MasterKey};

use crate::measure;
use crate::owner::booted;
use crate::report::{Bound, Row};

/// Both figures of item 1.
pub(crate) fn rows() -> anyhow::Result<Vec<Row>> {
    let mut rows = uncached()?;
    rows.push(cached()?);
    Ok(rows)
}

/// A worktree with eight owners, asked for by someone else whom its tier lets read: ten entities.
fn uncached() -> anyhow::Result<Vec<Row>> {
    let policies = Policies::load(&[], true)?;
    let read = action_named("worktree.read").context("no action `worktree.read`")?;
    let who = Subject { user: UserId::random(), role: Role::Member, via: "login" };
    let owners: Vec<UserId> = (0..8).map(|_| UserId::random()).collect();
    let facts = WorktreeFacts {
        id: WorktreeId::random(),
        owners,
        tier: Tier::View,
        archived: false,
        shares: false,
        deleted: false,
    };
    let target = Target::Worktree(&facts);

    let (whole, two, request) = policies.raw(who, read, &target).context("no question")?;
    let ten = with_owners(two.clone(), &facts.owners)?;
    let authorizer = Authorizer::new();
    anyhow::ensure!(policies.decide(who, read, &target, Asks::default()).allowed, "ours refuses");
    anyhow::ensure!(
        authorizer.is_authorized(&request, &whole, &ten).decision() == cedar_policy::Decision::Allow,
        "cedar refuses"
    );

    let ours = || policies.decide(who, read, &target, Asks::default());
    let pair = measure::side_by_side(60, ours, || authorizer.is_authorized(&request, &whole, &ten));
    let with_two = measure::side_by_side(20, ours, || authorizer.is_authorized(&request, &whole, &two));
    let part = relevant(&whole, read.name)?;
    let with_part = measure::side_by_side(20, ours, || authorizer.is_authorized(&request, &part, &ten));
    let row =
        |name: &str, ours, reference, bound| Row { name: name.into(), unit: "ns", ours, reference, bound };
    Ok(vec![
        row(
            "authorize, uncached, 10 entities / raw Cedar",
            pair.ours,
            Some(pair.reference),
            Bound::RatioAtMost(1.3),
        ),
        row(
            "  the same / raw Cedar without the owners' entities",
            with_two.ours,
            Some(with_two.reference),
            Bound::Information,
        ),
        row(
            "  the same / raw Cedar on the policies of this action only",
            with_part.ours,
            Some(with_part.reference),
            Bound::Information,
        ),
    ])
}

/// The owners as entities of their own, so that the set holds ten.
fn with_owners(two: Entities, owners: &[UserId]) -> anyhow::Result<Entities> {
    let uid = |owner: &UserId| anyhow::Ok(format!("User::\"{owner}\"").parse::<EntityUid>()?);
    let uids: Vec<EntityUid> = owners.iter().map(uid).collect::<Result<_, _>>()?;
    let all =
        two.add_entities(uids.into_iter().map(|uid| Entity::new_no_attrs(uid, HashSet::new())), None)?;
    anyhow::ensure!(all.len() == 10, "{} entities instead of 10", all.len());
    Ok(all)
}

/// The policies that name this action, as ours cuts them once at start.
fn relevant(whole: &PolicySet, action: &str) -> anyhow::Result<PolicySet> {
    let is_it = |uid: &EntityUid| AsRef::<str>::as_ref(uid.id()) == action;
    let mut part = PolicySet::new();
    for policy in whole.policies() {
        let names_it = match policy.action_constraint() {
            ActionConstraint::Any => true,
            ActionConstraint::Eq(one) => is_it(&one),
            ActionConstraint::In(many) => many.iter().any(is_it),
        };
        if names_it {
            part.add(policy.clone())?;
        }
    }
    Ok(part)
}

/// The gate on a real store, asked the same thing again.
fn cached() -> anyhow::Result<Row> {
    let home = tempfile::tempdir()?;
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (runtime, who, worktree) = threads.block_on(async {
        let ring = Arc::new(KeyRing::new(MasterKey::random()?));
        let (runtime, who) = booted(home.path(), &ring).await?;
        let worktree = WorktreeId::random();
        let repo = runtime
            .create_repo(&who, runtime::NewRepo::new("repo".parse()?, "https://example.org/repo".into()))
            .await?
            .id;
        let made = CreateWorktree {
            worktree,
            repo,
            name: "one".parse()?,
            about: String::new(),
            tier: Tier::None,
            branch: None,
            base: None,
        };
        runtime.create_worktree(&who, made).await?;
        anyhow::Ok((runtime, who, worktree))
    })?;
    let gate = runtime.gate();
    // One call at a time from a plain thread: what is remembered never waits, so it is polled once.
    let ask = || first_poll(gate.authorize(&who, ReadWorktree { worktree }));
    drop(threads.block_on(gate.authorize(&who, ReadWorktree { worktree }))?);
    let ours = measure::alone(60, || ask().is_some_and(|answer| answer.is_ok()));
    anyhow::ensure!(ask().is_some_and(|answer| answer.is_ok()), "a remembered decision had to wait");
    threads.block_on(runtime.shut_down());
    Ok(Row {
        name: "authorize, the same again (Gate::authorize)".into(),
        unit: "ns",
        ours,
        reference: None,
        bound: Bound::Below(1000.0),
    })
}

/// What a future gives at its first poll.
fn first_poll<F: Future>(future: F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
