//! Secrets that come along with an env: referred to, bounded, named on the ledger, and with an end that nobody puts off by accident.

use serde_json::json;
use tests::Host;

use crate::gateway_wire::until;
use crate::registry::{VALUE, env, on_both, standing};

/// REG-04: `secrets` that are said to be nothing are as not said: what comes along is referred to all the same.
#[test]
fn reg_04_an_inline_secret_is_referred_to_where_secrets_are_null() {
    let host = Host::start();
    let client = &host.owner().client;
    let plain = client.register_env(&env("plain", json!({}), &[("TOKEN", VALUE, None)])).unwrap();
    let null =
        client.register_env(&env("null", json!({"secrets": null}), &[("TOKEN", VALUE, None)])).unwrap();
    assert_eq!(null.hash, plain.hash);
    let shown = client.artifact("env", "null").unwrap().document.unwrap();
    assert!(shown["secrets"]["TOKEN"].as_str().unwrap().starts_with("ENV_TOKEN_"), "{shown}");
}

/// REG-04: what comes along is bounded, in one registration and in all; what is over the bound keeps nothing.
#[test]
fn reg_04_inline_secrets_are_bounded_and_each_is_named_on_the_ledger() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let client = &host.owner().client;
    let kept = || client.secrets(Some("daemon"), None).unwrap().items;
    let many = |round: usize, count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("{}_{round}_{n}", "V".repeat(50))).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), VALUE, None)).collect();
        env("many", json!({"values": {"ROUND": round.to_string()}}), &all)
    };
    let refused = client.register_env(&many(0, 33)).unwrap_err();
    assert!(
        refused.status() == Some(422) && refused.to_string().contains("`inline`: at most 32"),
        "{refused}"
    );
    assert!(kept().is_empty());
    let head = host.ledger_head();
    client.register_env(&many(0, 32)).unwrap();
    let entries = host.since(head);
    let [opening, closing] = &entries[..] else { panic!("{entries:?}") };
    for one in kept() {
        assert!(
            opening.line.contains(&one.name) && closing.line.contains(&one.name),
            "{opening:?} {closing:?}"
        );
    }
    assert!(closing.line.contains(r#""secrets":"added ENV_"#), "{closing:?}");

    // As many as anybody may have, and none more.
    for round in 1..31 {
        client.register_env(&many(round, 32)).unwrap();
    }
    assert_eq!(kept().len(), 992);
    let before = standing(&host, "env");
    let refused = client.register_env(&many(31, 9)).unwrap_err();
    assert!(refused.status() == Some(409) && refused.to_string().contains("1000 secrets"), "{refused}");
    assert_eq!((kept().len(), standing(&host, "env")), (992, before), "all or nothing");
    client.register_env(&many(31, 8)).unwrap();
    client.register_env(&many(31, 8)).unwrap();
    assert_eq!(kept().len(), 1_000, "what is there already takes no room");
}

/// REG-04: the same again does not put off the end of a secret, unless somebody asks for that; an end comes nearer by itself. What
/// is over is a clear error. What was replaced is on the ledger by its name.
#[test]
fn reg_04_deploying_again_does_not_put_off_the_end_of_a_secret() {
    on_both(|host| {
        let client = host.owner().client.clone();
        let register = |ttl: Option<i64>, renew: bool| {
            let mut body = env("staging", json!({}), &[("TOKEN", VALUE, ttl)]);
            body.inline.get_mut("TOKEN").unwrap().renew = renew;
            client.register_env(&body)
        };
        let kept = || {
            let one = client.secrets(Some("daemon"), None).unwrap().items.remove(0);
            (one.id.unwrap(), one.expires)
        };
        let hash = register(Some(1_000), false).unwrap().hash;
        let first = kept();
        for ttl in [Some(1_000), Some(9_000), None] {
            let again = register(ttl, false).unwrap();
            assert!(again.hash == hash && !again.changed);
            assert_eq!(kept(), first, "{ttl:?}");
        }
        register(Some(500), false).unwrap();
        let nearer = kept();
        assert!(nearer.1 < first.1 && nearer.0 != first.0, "{nearer:?} {first:?}");
        let head = host.ledger_head();
        register(Some(2_000), true).unwrap();
        let put_off = kept();
        assert!(put_off.1 > first.1, "{put_off:?} {first:?}");
        let entries = host.since(head);
        let [opening, closing] = &entries[..] else { panic!("{entries:?}") };
        assert!(opening.line.contains(" renewed\""), "{opening:?}");
        assert!(closing.line.contains(r#""secrets":"replaced ENV_TOKEN_"#), "{closing:?}");
        register(None, true).unwrap();
        assert_eq!(kept().1, None);
        let endless = kept();
        register(None, true).unwrap();
        assert_eq!(kept(), endless, "nothing to put off");

        register(Some(1), false).unwrap();
        let over = kept().1.unwrap();
        until("the end of the secret", || client.secrets(Some("daemon"), None).unwrap().items[0].expired);
        let refused = register(Some(1_000), false).unwrap_err();
        assert!(
            refused.status() == Some(409) && refused.to_string().contains("its time is over"),
            "{refused}"
        );
        assert_eq!(kept().1, Some(over));
        register(Some(1_000), true).unwrap();
        assert!(kept().1.unwrap() > over);
    });
}
