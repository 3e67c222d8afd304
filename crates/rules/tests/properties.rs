//! What holds for all rules, names, paths and addresses, tried with many.
#![expect(clippy::unwrap_used, reason = "strategies make only what parses")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use rules::address::{Kind, kind};
use rules::path::canonical;
use rules::{Decision, Host, Methods, Name, Request, Rule, Rules};

const LABELS: [&str; 3] = ["a", "b", "c"];
const METHODS: [&str; 3] = ["GET", "POST", "DELETE"];
const PORTS: [u16; 2] = [443, 80];

fn label() -> impl Strategy<Value = &'static str> {
    prop::sample::select(LABELS.to_vec())
}

/// Few names, so that rules and questions meet often.
fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(label(), 0..4).prop_map(|mut labels| {
        labels.extend(["x", "example"]);
        labels.join(".")
    })
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(label(), 0..4).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn path_pattern() -> impl Strategy<Value = String> {
    let segment = prop_oneof![4 => label(), 1 => Just("*")];
    (prop::collection::vec(segment, 0..3), any::<bool>()).prop_map(|(mut segments, deep)| {
        if deep {
            segments.push("**");
        }
        format!("/{}", segments.join("/"))
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let host = (prop::sample::select(vec!["", "*.", "**."]), name())
        .prop_map(|(star, name)| format!("{star}{name}"));
    let ports = prop::sample::subsequence(PORTS.to_vec(), 1..=2);
    let methods = prop::option::of(prop::sample::subsequence(METHODS.to_vec(), 1..=2));
    let paths = prop::option::of(prop::collection::btree_set(path_pattern(), 1..3));
    (host, ports, methods, paths, prop::bool::weighted(0.25)).prop_map(
        |(host, ports, methods, paths, deny)| Rule {
            ports,
            methods: methods.map(|list| Methods::These(list.into_iter().map(str::to_owned).collect())),
            paths: paths.map(|list| list.into_iter().collect()),
            deny,
            ..Rule::new(host)
        },
    )
}

/// Rules that can stand together, in the order as drawn.
fn rule_list() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(rule(), 0..8).prop_map(|drawn| {
        let mut kept = Vec::new();
        for rule in drawn {
            kept.push(rule);
            if Rules::compile(kept.clone()).is_err() {
                kept.pop();
            }
        }
        kept
    })
}

#[derive(Clone, Debug)]
struct Asked {
    host: String,
    port: u16,
    method: &'static str,
    path: String,
}

fn asked() -> impl Strategy<Value = Asked> {
    (name(), prop::sample::select(PORTS.to_vec()), prop::sample::select(METHODS.to_vec()), path())
        .prop_map(|(host, port, method, path)| Asked { host, port, method, path })
}

fn ask(rules: &Rules, asked: &Asked) -> Decision {
    let request = Request {
        method: asked.method,
        path: canonical(&asked.path).unwrap(),
        query: None,
        websocket: false,
        git: None,
    };
    rules.request(&asked.host.parse().unwrap(), asked.port, &request)
}

/// The same question, read rule by rule in the plainest way.
fn fits(rule: &Rule, asked: &Asked) -> bool {
    let host = if let Some(base) = rule.host.strip_prefix("**.") {
        asked.host.ends_with(&format!(".{base}"))
    } else if let Some(base) = rule.host.strip_prefix("*.") {
        asked.host.split_once('.').is_some_and(|(_, parent)| parent == base)
    } else {
        asked.host == rule.host
    };
    let method = match &rule.methods {
        Some(Methods::These(list)) => list.iter().any(|one| one == asked.method),
        Some(Methods::Word(_)) => unreachable!("not drawn"),
        None => true,
    };
    let path =
        rule.paths.as_ref().is_none_or(|list| list.iter().any(|one| path_fits(one, &asked.path, rule.deny)));
    host && rule.ports.contains(&asked.port) && method && path
}

fn path_fits(pattern: &str, path: &str, generous: bool) -> bool {
    let (mut wanted, found): (Vec<&str>, Vec<&str>) =
        (pattern.split('/').collect(), path.split('/').collect());
    if wanted.last() == Some(&"**") {
        wanted.pop();
        let enough = found.len() > wanted.len() || generous && (found.len() == wanted.len() || path == "/");
        return enough && wanted.iter().zip(&found).all(|(one, two)| segment_fits(one, two));
    }
    wanted.len() == found.len() && wanted.iter().zip(&found).all(|(one, two)| segment_fits(one, two))
}

fn segment_fits(wanted: &str, found: &str) -> bool {
    wanted == found || wanted == "*" && !found.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn egr_05_a_verdict_is_what_reading_every_rule_gives(list in rule_list(), asked in asked()) {
        let rules = Rules::compile(list.clone()).unwrap();
        let denied = list.iter().any(|rule| rule.deny && fits(rule, &asked));
        let allowed = list.iter().any(|rule| !rule.deny && fits(rule, &asked));
        let decision = ask(&rules, &asked);
        prop_assert_eq!(decision.is_allowed(), allowed && !denied);
        if let Decision::Allowed { rule, .. } = decision {
            prop_assert!(fits(rules.rule(rule).unwrap(), &asked), "the wrong rule is named");
        }
        let any_port = |port: u16| rules.connect(&asked.host.parse().unwrap(), port).is_allowed();
        prop_assert_eq!(rules.could_allow(&asked.host.parse().unwrap()), PORTS.into_iter().any(any_port));
    }

    #[test]
    fn egr_04_a_deny_always_wins(list in rule_list(), asked in asked(), place in any::<prop::sample::Index>()) {
        let mut list = list;
        let deny = Rule { deny: true, ports: vec![asked.port], ..Rule::new(asked.host.clone()) };
        list.retain(|rule| rule.host != deny.host || !rule.deny);
        list.insert(place.index(list.len() + 1), deny);
        let rules = Rules::compile(list).unwrap();
        prop_assert!(!ask(&rules, &asked).is_allowed());
        prop_assert!(!rules.connect(&asked.host.parse().unwrap(), asked.port).is_allowed());
        let public = "203.0.113.7".parse().unwrap();
        prop_assert!(!rules.dial(&asked.host.parse().unwrap(), asked.port, public).is_allowed());
    }

    #[test]
    fn egr_04_a_second_set_only_narrows(one in rule_list(), two in rule_list(), more in rule(), asked in asked()) {
        let (first, second) = (Rules::compile(one).unwrap(), Rules::compile(two.clone()).unwrap());
        let both = first.narrowed_by(&second);
        let expected = ask(&first, &asked).is_allowed() && ask(&second, &asked).is_allowed();
        prop_assert_eq!(ask(&both, &asked).is_allowed(), expected);
        prop_assert_eq!(ask(&second.narrowed_by(&first), &asked).is_allowed(), expected);
        // Whatever else the second set says, it opens nothing that the first does not.
        let wider = Rules::compile(two.into_iter().chain([more]).collect());
        if let Ok(wider) = wider {
            let both = first.narrowed_by(&wider);
            prop_assert!(!ask(&both, &asked).is_allowed() || ask(&first, &asked).is_allowed());
        }
    }

    #[test]
    fn what_is_asked_for_after_a_refusal_is_enough_and_no_more(asked in asked(), other in asked()) {
        let request = Request {
            method: asked.method,
            path: canonical(&asked.path).unwrap(),
            query: None,
            websocket: false,
            git: None,
        };
        let rule = Rule::wanted(&asked.host.parse().unwrap(), asked.port, Some(&request));
        let rules = Rules::compile(vec![rule]).unwrap();
        prop_assert!(ask(&rules, &asked).is_allowed());
        let same = (&asked.host, asked.port, asked.method, &asked.path)
            == (&other.host, other.port, other.method, &other.path);
        prop_assert_eq!(ask(&rules, &other).is_allowed(), same);
    }

    #[test]
    fn adv_n13_a_canonical_path_stays_as_it_is(text in "/[a-c./%25eEfF0-9;@~*\\\\ é]{0,24}") {
        if let Ok(path) = canonical(&text) {
            prop_assert_eq!(path.as_str(), text.as_str());
            prop_assert_eq!(canonical(path.as_str()), Ok(path));
            prop_assert!(!text.contains("//") && !text.contains(';') && text.is_ascii());
            prop_assert!(text.split('/').all(|segment| segment != "." && segment != ".."));
            let lower = text.to_ascii_lowercase();
            prop_assert!(!lower.contains("%2e") && !lower.contains("%5c") && !lower.contains("%00"));
            prop_assert!(!lower.contains("%2f") || lower.starts_with("/@") && lower.matches("%2f").count() == 1);
        }
    }

    #[test]
    fn adv_n13_no_text_makes_a_path_panic(text in any::<String>()) {
        let _ = canonical(&text);
        let _ = canonical(&format!("/{text}"));
    }

    #[test]
    fn adv_n07_a_name_stays_as_it_is(text in "[a-zA-Z0-9._\\-%: \\[\\]xX]{0,40}") {
        if let Ok(host) = text.parse::<Host>() {
            prop_assert_eq!(host.to_string().parse::<Host>(), Ok(host));
        }
        if let Ok(name) = text.parse::<Name>() {
            prop_assert_eq!(name.as_str(), name.as_str().to_ascii_lowercase());
            prop_assert!(!name.as_str().ends_with('.') && name.as_str().parse::<IpAddr>().is_err());
        }
    }

    #[test]
    fn adv_n07_no_text_makes_a_host_or_a_set_panic(text in any::<String>()) {
        let _ = text.parse::<Host>();
        let _ = Rules::allow([&text]);
        let _ = Rules::from_toml(&text);
        let _ = Rules::compile(vec![Rule { paths: Some(vec![text.clone()]), ..Rule::new(text) }]);
    }

    #[test]
    fn egr_06_no_address_inside_another_is_reached(inner in any::<u32>(), rest in any::<u64>()) {
        let v4 = Ipv4Addr::from(inner);
        let low = u128::from(inner);
        let outer = [
            v4.to_ipv6_mapped(),
            Ipv6Addr::from(low),
            Ipv6Addr::from((0xffff_u128 << 48) | low),
            Ipv6Addr::from((0x64_ff9b_u128 << 96) | low),
            Ipv6Addr::from((0x64_ff9b_0001_u128 << 80) | u128::from(rest) | low),
            Ipv6Addr::from((0x2002_u128 << 112) | (low << 80) | u128::from(rest)),
            Ipv6Addr::from((0x2001_0000_u128 << 96) | (low << 64) | u128::from(rest)),
        ];
        for address in outer {
            prop_assert!(matches!(kind(address.into()), Kind::Never(_)), "{}", address);
        }
    }

    #[test]
    fn egr_06_what_is_public_is_in_the_global_space(bits in any::<u128>()) {
        let address = Ipv6Addr::from(bits);
        let public = kind(address.into()) == Kind::Public;
        prop_assert!(!public || address.segments()[0] & 0xe000 == 0x2000);
    }
}
