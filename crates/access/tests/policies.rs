//! The shipped policies: they know the same actions as the program, and cutting them changes no decision.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::collections::BTreeSet;

use access::{
    ACTIONS, Act, AddOwner, AddedPolicy, Asks, Class, Policies, PolicyError, RemoveOwner, SHIPPED, SetTier,
    Subject, Target, UpdateUser, WorktreeFacts,
};
use cedar_policy::{Authorizer, Decision, Schema};
use model::{KeyId, PassId, RepoId, Role, Tier, UserId, WorktreeId};

fn schema() -> Schema {
    let text = include_str!("../../../policies/palisade.cedarschema");
    Schema::from_cedarschema_str(text).unwrap().0
}

#[test]
fn acc_01_the_schema_and_the_table_hold_the_same_actions() {
    let schema = schema();
    let in_schema: BTreeSet<String> =
        schema.actions().map(|uid| AsRef::<str>::as_ref(uid.id()).to_owned()).collect();
    let in_table: BTreeSet<String> = ACTIONS.iter().map(|action| action.name.to_owned()).collect();
    assert_eq!(in_schema, in_table);
    assert_eq!(in_table.len(), ACTIONS.len(), "each once");
}

#[test]
fn acc_01_what_takes_rights_away_is_a_narrowing_that_moves_the_epoch() {
    for action in ACTIONS {
        if action.class == Class::Read {
            assert!(!action.changes_access, "{}", action.name);
        }
        let ends = [".revoke", ".disable", ".delete", ".end", ".end_all", ".archive"];
        if ends.iter().any(|end| action.name.ends_with(end)) {
            assert!(action.class == Class::Narrows && action.changes_access, "{}", action.name);
        }
    }
}

/// LED-02: on a full disk only what narrows is done. An act of an action that widens counts as that only when no
/// earlier state could make it a raise.
#[test]
fn led_02_an_act_narrows_by_what_it_asks_and_never_by_what_stands() {
    let (user, worktree) = (UserId::random(), WorktreeId::random());
    for tier in Tier::EVERY {
        let narrows = SetTier { worktree, tier: *tier }.class() == Class::Narrows;
        assert_eq!(narrows, Tier::EVERY.iter().all(|other| tier <= other), "{tier}");
    }
    let update = |role, name: Option<&str>, enable| {
        let name = name.map(|name| name.parse().unwrap());
        UpdateUser { user, name, role, enable }.class()
    };
    for role in Role::EVERY {
        let lowest = Role::EVERY.iter().all(|other| role <= other);
        assert_eq!(update(Some(*role), None, false) == Class::Narrows, lowest, "{role}");
        assert_eq!(update(Some(*role), None, true), Class::Widens, "{role}, and enabled");
        assert_eq!(update(Some(*role), Some("n"), false), Class::Widens, "{role}, and named");
    }
    assert_eq!(update(None, None, false), Class::Widens);
    assert_eq!(AddOwner { worktree, owner: user }.class(), Class::Widens);
    assert_eq!(RemoveOwner { worktree, owner: user }.class(), Class::Narrows);
    // What is asked before the act is known (by a key that repeats it) rests on the table.
    let some: Vec<&str> = ACTIONS.iter().filter(|it| it.may_narrow).map(|it| it.name).collect();
    assert_eq!(some, ["user.update", "worktree.set_tier", "worktree.set_owners", "worktree.set_sharing"]);
    assert!(ACTIONS.iter().all(|it| !it.may_narrow || (it.class == Class::Widens && it.changes_access)));
}

/// Everyone, everything, every tier: the question as (subject, target).
fn matrix() -> (Vec<Subject>, Vec<UserId>, Vec<WorktreeFacts>) {
    let people: Vec<UserId> = (0..5).map(|_| UserId::random()).collect();
    let mut subjects = Vec::new();
    for (user, role) in people.iter().zip(Role::EVERY) {
        for via in ["login", "key", "pass"] {
            subjects.push(Subject { user: *user, role: *role, via });
        }
    }
    let mut trees = Vec::new();
    for tier in Tier::EVERY {
        for archived in [false, true] {
            for owners in [people.clone(), people.iter().skip(4).copied().collect()] {
                trees.push(WorktreeFacts {
                    id: WorktreeId::random(),
                    owners,
                    tier: *tier,
                    archived,
                    shares: false,
                    deleted: false,
                });
            }
        }
    }
    (subjects, people, trees)
}

#[test]
fn acc_02_a_cut_set_decides_like_the_whole_set() {
    let (subjects, people, trees) = matrix();
    let authorizer = Authorizer::new();
    let mut asked = 0;
    for rbac in [true, false] {
        let policies = Policies::load(&[], rbac).unwrap();
        // Without the division only worktrees are judged otherwise.
        for who in subjects.iter().filter(|who| rbac || who.via == "login") {
            let mut targets = vec![Target::Installation, Target::Repo(RepoId::random())];
            for (other, role) in people.iter().zip(Role::EVERY).filter(|_| rbac) {
                targets.push(Target::User { id: *other, role: *role });
                targets.push(Target::Key { id: KeyId::random(), owner: *other });
                targets.push(Target::Pass { id: PassId::random(), owner: *other });
            }
            targets.extend(trees.iter().map(Target::Worktree));
            for target in &targets {
                for action in ACTIONS {
                    let cut = policies.decide(*who, action, target, Asks::default());
                    let (whole, entities, request) = policies.raw(*who, action, target).unwrap();
                    let full = authorizer.is_authorized(&request, &whole, &entities);
                    let allowed =
                        full.decision() == Decision::Allow && full.diagnostics().errors().next().is_none();
                    assert_eq!(cut.allowed, allowed, "{} {who:?} {target:?}", action.name);
                    assert!(!cut.allowed || Policies::fits(action, target), "{} on {target:?}", action.name);
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 15_000, "{asked}");
}

#[test]
fn idn_10_no_policy_lets_anyone_change_the_own_role_or_reset_the_own_password() {
    let policies = Policies::load(&[], true).unwrap();
    let action = |name: &str| access::action_named(name).unwrap();
    for role in Role::EVERY {
        for via in ["login", "key", "pass"] {
            let who = Subject { user: UserId::random(), role: *role, via };
            let me = Target::User { id: who.user, role: *role };
            for asked in Role::EVERY {
                let asks = Asks { role: Some(*asked) };
                assert!(!policies.decide(who, action("user.update"), &me, asks).allowed, "{role} {asked}");
            }
            assert!(!policies.decide(who, action("user.reset"), &me, Asks::default()).allowed, "{role}");
            let makes = policies.decide(who, action("key.create"), &me, Asks::default()).allowed;
            assert_eq!(makes, via == "login", "{role} {via}");
        }
    }
}

#[test]
fn acc_02_every_shipped_policy_has_a_name_and_permits_only_in_the_shipped_files() {
    let policies = Policies::load(&[], true).unwrap();
    let listed = policies.list();
    let written: usize = SHIPPED.iter().map(|(_, text)| text.matches("@id(").count()).sum();
    assert_eq!(listed.len(), written);
    assert!(listed.iter().all(|(id, _, _)| !id.is_empty()));
}

fn added(text: &str) -> Vec<AddedPolicy> {
    vec![AddedPolicy { id: "added".into(), text: text.into() }]
}

#[test]
fn idn_10_no_added_policy_takes_the_owners_way_back_or_anyones_sign_out() {
    let named = |name: &str| access::action_named(name).unwrap();
    for text in [
        "forbid (principal, action, resource);",
        "forbid (principal in Role::\"owner\", action, resource);",
        "forbid (principal, action in [Action::\"policy.remove\", Action::\"signin.end\"], resource);",
    ] {
        let policies = Policies::load(&added(text), true).unwrap();
        let (owner, member) = (UserId::random(), UserId::random());
        let as_owner = |via| Subject { user: owner, role: Role::Owner, via };
        let admin = Target::User { id: UserId::random(), role: Role::Admin };
        for (action, target) in [
            ("policy.read", &Target::Installation),
            ("policy.remove", &Target::Installation),
            ("user.disable", &admin),
            ("user.update", &admin),
        ] {
            let decided = policies.decide(as_owner("login"), named(action), target, Asks::default());
            assert!(decided.allowed, "{text} {action}: {decided:?}");
        }
        let me = Target::User { id: member, role: Role::Member };
        let myself = Subject { user: member, role: Role::Member, via: "login" };
        assert!(policies.decide(myself, named("signin.end"), &me, Asks::default()).allowed, "{text}");
        assert!(policies.decide(myself, named("signin.end_all"), &me, Asks::default()).allowed, "{text}");
        // And nothing more than that.
        let removes =
            policies.decide(as_owner("key"), named("policy.remove"), &Target::Installation, Asks::default());
        assert!(text.contains("policy.remove") || !removes.allowed, "a key is not the owner: {text}");
        let shipped = Policies::load(&[], true).unwrap();
        let other = policies.decide(myself, named("policy.remove"), &Target::Installation, Asks::default());
        assert!(!other.allowed);
        assert!(
            !shipped.decide(myself, named("policy.remove"), &Target::Installation, Asks::default()).allowed
        );
    }
    let everything = Policies::load(&added("forbid (principal, action, resource);"), true).unwrap();
    let owner = Subject { user: UserId::random(), role: Role::Owner, via: "login" };
    let decided = everything.decide(owner, named("worktree.create"), &Target::Installation, Asks::default());
    assert!(!decided.allowed, "the rest is forbidden as it says");
}

#[test]
fn acc_02_a_policy_cannot_exhaust_the_stack() {
    let when = |inner: &str| format!("forbid (principal, action, resource) when {{ {inner} }};");
    for (what, text) in [
        ("brackets", when(&format!("{}true{}", "(".repeat(4_000), ")".repeat(4_000)))),
        ("brackets behind a string", when(&format!("\"{}\" == {}true", ")".repeat(90), "(".repeat(90)))),
        ("not", when(&format!("{}true", "!".repeat(500)))),
        ("and", when(&vec!["true"; 1_000].join("&&"))),
        ("if", when(&format!("{}true{}", "if true then ".repeat(40), " else true".repeat(40)))),
        ("sets", when(&format!("{}1{} == [1]", "[".repeat(500), "]".repeat(500)))),
        ("text", when(&format!("\"{}\" == \"a\"", "x".repeat(9_000)))),
    ] {
        let refused = Policies::load(&added(&text), true).unwrap_err();
        assert!(matches!(refused, PolicyError::TooLarge(_)), "{what}: {refused}");
    }
    // The most that is let through is read and asked on a thread as small as a server's.
    let most = [
        when(&format!("{}true{}", "(".repeat(60), ")".repeat(60))),
        when(&format!("{}true", "!".repeat(4))),
        when(&vec!["context.worktree_rbac"; 60].join("&&")),
        when(&format!("{}true{}", "if true then ".repeat(15), " else true".repeat(15))),
    ];
    let small = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || {
        for text in most {
            let policies = match Policies::load(&added(&text), true) {
                Ok(policies) => policies,
                // Cedar may have limits of its own; what counts is that it says so.
                Err(PolicyError::Unreadable { .. } | PolicyError::Misfit { .. }) => continue,
                Err(other) => panic!("{other}: {text}"),
            };
            let who = Subject { user: UserId::random(), role: Role::Member, via: "login" };
            let action = access::action_named("worktree.create").unwrap();
            drop(policies.decide(who, action, &Target::Installation, Asks::default()));
        }
    });
    small.unwrap().join().unwrap();
}
