//! The shipped templates: they fit the schema, only forbid, and each is as strict as its name says.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::collections::BTreeSet;
use std::path::Path;

use access::{ACTIONS, AddedPolicy, Asks, Policies, Subject, Target, WorktreeFacts};
use cedar_policy::{Effect, PolicySet};
use model::{KeyId, PassId, RepoId, Role, Tier, UserId, WorktreeId};

/// Strictest first.
const NAMES: [&str; 3] = ["strict", "balanced", "permissive"];

/// The policies of a template, as Cedar itself reads the file; each under the name that it gets in force.
fn template(name: &str) -> Vec<AddedPolicy> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/templates");
    let text = std::fs::read_to_string(folder.join(format!("{name}.cedar"))).unwrap();
    let set: PolicySet = text.parse().unwrap();
    let mut all = Vec::new();
    for policy in set.policies() {
        assert_eq!(policy.effect(), Effect::Forbid, "{policy}");
        let id = policy.annotation("id").unwrap();
        all.push(AddedPolicy { id: format!("{name}-{id}"), text: policy.to_string() });
    }
    let ids: BTreeSet<&String> = all.iter().map(|one| &one.id).collect();
    assert_eq!(ids.len(), all.len(), "{name}: each name once");
    all
}

#[test]
fn acc_28_every_file_is_a_template_and_fits_the_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/templates");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, NAMES.iter().map(|name| format!("{name}.cedar")).collect());
    for name in NAMES {
        // With the shipped ones, as the daemon would take them: read, checked against the schema, only forbidding.
        Policies::load(&template(name), true).unwrap();
    }
    assert!(template("permissive").is_empty(), "it forbids nothing");
    let all: Vec<AddedPolicy> = NAMES.iter().flat_map(|name| template(name)).collect();
    Policies::load(&all, true).unwrap(); // all at once do not get in each other's way
}

/// Everyone, by every way, everything, on everything.
fn decisions(policies: &Policies) -> Vec<(String, bool)> {
    let (me, other) = (UserId::random(), UserId::random());
    let tree = |owners: Vec<UserId>| WorktreeFacts {
        id: WorktreeId::random(),
        owners,
        tier: Tier::All,
        archived: false,
        shares: false,
        deleted: false,
    };
    let (own, others) = (tree(vec![me]), tree(vec![other]));
    let mut all = Vec::new();
    for role in Role::EVERY {
        for via in ["login", "key", "pass"] {
            let who = Subject { user: me, role: *role, via };
            let targets = [
                ("installation", Target::Installation),
                ("self", Target::User { id: me, role: *role }),
                ("member", Target::User { id: other, role: Role::Member }),
                ("key", Target::Key { id: KeyId::random(), owner: me }),
                ("pass", Target::Pass { id: PassId::random(), owner: me }),
                ("repo", Target::Repo(RepoId::random())),
                ("own", Target::Worktree(&own)),
                ("other", Target::Worktree(&others)),
            ];
            for action in ACTIONS {
                for (name, target) in targets.iter().filter(|(_, target)| Policies::fits(action, target)) {
                    for asked in [None, Some(Role::Member)] {
                        let asks = Asks { role: asked };
                        let label = format!("{role} by {via}: {} on {name}, asking {asked:?}", action.name);
                        all.push((label, policies.decide(who, action, target, asks).allowed));
                    }
                }
            }
        }
    }
    all
}

#[test]
fn acc_28_each_template_allows_no_more_than_the_next_and_the_strictest_wins() {
    let load = |added: &[AddedPolicy]| decisions(&Policies::load(added, true).unwrap());
    let shipped = load(&[]);
    let of: Vec<_> = NAMES.iter().map(|name| load(&template(name))).collect();
    assert_eq!(of[2], shipped, "permissive changes nothing");
    for pair in of.windows(2) {
        let (narrow, wide) = (&pair[0], &pair[1]);
        for ((label, allowed), (same, widely)) in narrow.iter().zip(wide) {
            assert_eq!(label, same);
            assert!(!allowed || *widely, "{label}: allowed by the stricter one only");
        }
        let lost = narrow.iter().zip(wide).filter(|((_, a), (_, b))| a != b).count();
        assert!(lost > 0, "one is stricter than the other");
    }
    let every: Vec<AddedPolicy> = NAMES.iter().flat_map(|name| template(name)).collect();
    assert_eq!(load(&every), of[0], "all of them together are the strictest");
}

#[test]
fn acc_28_the_templates_forbid_what_they_say() {
    let of: Vec<_> =
        NAMES.iter().map(|name| decisions(&Policies::load(&template(name), true).unwrap())).collect();
    let allowed = |number: usize, label: &str| {
        let found: Vec<bool> =
            of[number].iter().filter(|(one, _)| one == label).map(|(_, allowed)| *allowed).collect();
        assert_eq!(found.len(), 1, "{label}");
        found[0]
    };
    for (label, strict, balanced, permissive) in [
        ("owner by key: user.create on installation, asking Some(Member)", false, false, true),
        ("owner by login: user.create on installation, asking Some(Member)", true, true, true),
        ("admin by key: policy.remove on installation, asking None", false, false, true),
        ("owner by key: backup.create on installation, asking None", false, false, true),
        ("owner by key: user.disable on member, asking None", true, true, true),
        ("admin by login: key.create on self, asking None", false, true, true),
        ("member by login: key.create on self, asking None", true, true, true),
        ("admin by login: worktree.delete on other, asking None", false, true, true),
        ("member by login: worktree.delete on own, asking None", true, true, true),
        ("admin by login: worktree.read on other, asking None", true, true, true),
    ] {
        let found = (allowed(0, label), allowed(1, label), allowed(2, label));
        assert_eq!(found, (strict, balanced, permissive), "{label}");
    }
}
