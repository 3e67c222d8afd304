//! The laws of `Grant::meet`, on random grants (ACC-08).
#![expect(clippy::unwrap_used, reason = "strategies make only what parses")]

use model::{Budget, Grant, GrantPath, HostPattern, Patterns, Rights};
use proptest::prelude::*;

fn path() -> impl Strategy<Value = GrantPath> {
    let part = prop_oneof![Just("a"), Just("b"), Just("ab")];
    ("r[ow]", proptest::collection::vec(part, 0..4))
        .prop_map(|(access, parts)| format!("{access}:/{}", parts.join("/")).parse().unwrap())
}

fn host() -> impl Strategy<Value = HostPattern> {
    let part = prop_oneof![Just("a"), Just("b")];
    let lead = prop_oneof![Just(""), Just("*."), Just("**.")];
    let port = prop_oneof![Just(""), Just(":443"), Just(":22")];
    (lead, proptest::collection::vec(part, 1..4), port, 0..12u8).prop_map(|(lead, parts, port, all)| {
        let text = if all == 0 { format!("**{port}") } else { format!("{lead}{}{port}", parts.join(".")) };
        text.parse().unwrap()
    })
}

fn name() -> impl Strategy<Value = Patterns> {
    prop_oneof!["[ab]{1,3}", "[ab]{0,2}\\*"].prop_map(|text| text.parse().unwrap())
}

fn rights<P: model::Pattern + std::fmt::Debug>(
    one: impl Strategy<Value = P> + Clone,
) -> impl Strategy<Value = Rights<P>> {
    let many = proptest::collection::vec(one.clone(), 0..4);
    (many, proptest::collection::vec(one, 0..2)).prop_map(|(allow, deny)| Rights::new(allow, deny))
}

fn grant() -> impl Strategy<Value = Grant> {
    let number = prop_oneof![Just(0u64), 0..10u64, Just(u64::MAX)];
    let budget = (number.clone(), number.clone(), number.clone(), number.clone(), number).prop_map(
        |(tokens, micro_usd, tool_calls, egress_bytes, wall_ms)| Budget {
            tokens,
            micro_usd,
            tool_calls,
            egress_bytes,
            wall_ms,
        },
    );
    let path = path().boxed();
    let host = host().boxed();
    let name = name().boxed();
    (rights(path), rights(host), rights(name.clone()), rights(name), budget, 0..4u8).prop_map(
        |(paths, hosts, tools, secrets, budget, depth)| Grant { paths, hosts, tools, secrets, budget, depth },
    )
}

fn cases() -> u32 {
    let scale =
        std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.05);
    (100_000.0 * scale).max(500.0) as u32
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn acc_08_meet_is_commutative_associative_idempotent(a in grant(), b in grant(), c in grant()) {
        prop_assert_eq!(a.meet(&b), b.meet(&a));
        prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
        prop_assert_eq!(a.meet(&a), a.clone());
    }

    #[test]
    fn acc_08_empty_absorbs_and_everything_is_neutral(a in grant()) {
        prop_assert_eq!(a.meet(&Grant::nothing()), Grant::nothing());
        prop_assert_eq!(a.meet(&Grant::everything()), a.clone());
        prop_assert!(Grant::everything().contains(&a));
        prop_assert!(a.contains(&Grant::nothing()));
        prop_assert!(a.contains(&a));
    }

    #[test]
    fn acc_08_meet_is_never_wider_than_either_side(
        a in grant(), b in grant(),
        paths in proptest::collection::vec(path(), 10),
        hosts in proptest::collection::vec(host(), 10),
        names in proptest::collection::vec(name(), 10),
    ) {
        let both = a.meet(&b);
        prop_assert!(a.contains(&both) && b.contains(&both));
        for path in &paths {
            prop_assert_eq!(both.paths.allows(path), a.paths.allows(path) && b.paths.allows(path), "{}", path);
        }
        for host in &hosts {
            prop_assert_eq!(both.hosts.allows(host), a.hosts.allows(host) && b.hosts.allows(host), "{}", host);
        }
        for name in &names {
            prop_assert!(!both.tools.allows(name) || (a.tools.allows(name) && b.tools.allows(name)));
            prop_assert!(!both.secrets.allows(name) || (a.secrets.allows(name) && b.secrets.allows(name)));
        }
    }

    #[test]
    fn acc_08_what_contains_allows_at_least_as_much(a in grant(), b in grant(), paths in proptest::collection::vec(path(), 10)) {
        if a.contains(&b) {
            for path in &paths {
                prop_assert!(!b.paths.allows(path) || a.paths.allows(path));
            }
        }
    }

    #[test]
    fn a_grant_survives_json(a in grant()) {
        let text = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(serde_json::from_str::<Grant>(&text).unwrap(), a);
    }

    #[test]
    fn acc_09_a_child_is_an_intersection_with_one_step_less(a in grant(), b in grant()) {
        match a.child(&b) {
            None => prop_assert_eq!(a.depth, 0),
            Some(child) => {
                prop_assert!(a.contains(&child) && b.contains(&child));
                prop_assert!(child.depth < a.depth);
            }
        }
    }
}

#[test]
fn a_grant_is_a_closed_document() {
    for bad in [
        r#"{"paths":{"allow":["/x"]}}"#,
        r#"{"paths":{"allow":["rw:/a/../b"]}}"#,
        r#"{"paths":{"allow":["rw:relative"]}}"#,
        r#"{"hosts":{"allow":["*"]}}"#,
        r#"{"hosts":{"allow":["a b"]}}"#,
        r#"{"hosts":{"allow":["a:0"]}}"#,
        r#"{"hosts":{"allow":["a:65536"]}}"#,
        r#"{"extra":1}"#,
        r#"{"budget":{"wishes":3}}"#,
        r#"{"budget":{"tokens":-1}}"#,
    ] {
        assert!(serde_json::from_str::<Grant>(bad).is_err(), "{bad}");
    }
    assert_eq!(serde_json::from_str::<Grant>("{}").unwrap(), Grant::nothing(), "empty means nothing");
}
