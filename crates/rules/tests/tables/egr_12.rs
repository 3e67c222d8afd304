//! A host may be passed through unopened, knowingly; what is looked into otherwise.

use rules::{Decision, Host, Look, Rules};

fn look(set: &str, host: &str, port: u16) -> Option<Look> {
    let rules = Rules::from_toml(set).unwrap_or_else(|faults| panic!("{set}\n{faults}"));
    match rules.connect(&host.parse::<Host>().unwrap(), port) {
        Decision::Allowed { look, .. } => Some(look),
        Decision::Refused(_) => None,
    }
}

#[test]
fn egr_12_tls_is_opened_only_where_a_rule_has_to_see_inside() {
    let (pass, inspect) = (Some(Look::Pass), Some(Look::Inspect));
    for (set, host, found) in [
        ("[[rule]]\nhost = 'a.b.c'", "a.b.c", pass),
        ("[[rule]]\nhost = 'a.b.c'\naccess = 'pass'", "a.b.c", pass),
        ("[[rule]]\nhost = 'a.b.c'\naccess = 'inspect'", "a.b.c", inspect),
        ("[[rule]]\nhost = 'a.b.c'\nmethods = ['GET']", "a.b.c", inspect),
        ("[[rule]]\nhost = 'a.b.c'\npaths = ['/x']", "a.b.c", inspect),
        ("[[rule]]\nhost = 'a.b.c'\nquery = { forbid = ['x'] }", "a.b.c", inspect),
        ("[[rule]]\nhost = 'a.b.c'\nwebsocket = false", "a.b.c", inspect),
        ("[[rule]]\nhost = 'a.b.c'\ngit = { read = true }", "a.b.c", inspect),
        ("[[rule]]\nhost = 'a.b.c'\nregistry = 'npm'", "a.b.c", inspect),
        ("[[rule]]\nhost = 'a.b.c'\n[[rule]]\nhost = 'a.b.c'\ndeny = true\npaths = ['/x']", "a.b.c", inspect),
        (
            "[[rule]]\nhost = 'a.b.c'\n[[rule]]\nhost = '**.b.c'\ndeny = true\nmethods = ['PUT']",
            "a.b.c",
            inspect,
        ),
        (
            "[[rule]]\nhost = 'a.b.c'\naccess = 'pass'\n[[rule]]\nhost = '**.b.c'\nmethods = ['PUT']",
            "a.b.c",
            pass,
        ),
        (
            "[[rule]]\nhost = 'a.b.c'\naccess = 'pass'\n[[rule]]\nhost = '**.b.c'\nmethods = ['PUT']",
            "x.b.c",
            inspect,
        ),
        ("[[rule]]\nhost = 'a.b.c'\n[[rule]]\nhost = '*.b.c'\naccess = 'inspect'", "a.b.c", inspect),
        (
            "[[rule]]\nhost = 'a.b.c'\n[[rule]]\nhost = 'a.b.c'\nports = [8443]\nmethods = ['GET']",
            "a.b.c",
            pass,
        ),
        ("[[rule]]\nhost = 'a.b.c'\ndeny = true\npaths = ['/x']", "a.b.c", None),
        (
            "[[rule]]\nhost = '**.b.c'\naccess = 'pass'\n[[rule]]\nhost = 'a.b.c'\naddress = '10.0.0.5'\npaths = ['/x']",
            "a.b.c",
            inspect,
        ),
    ] {
        assert_eq!(look(set, host, 443), found, "{set}");
    }
}

#[test]
fn egr_12_what_is_not_inspected_shows_in_the_list() {
    let set = "[[rule]]\nhost = 'a.b.c'\naccess = 'pass'\n[[rule]]\nhost = 'd.b.c'\n[[rule]]\nhost = 'e.b.c'\nmethods = ['GET']\n\
               [[rule]]\nhost = 'f.b.c'\ndeny = true\n";
    let rules = Rules::from_toml(set).unwrap();
    let list: Vec<_> = rules.list().map(|(id, rule, look)| (id.index, rule.host.as_str(), look)).collect();
    let (pass, inspect) = (Some(Look::Pass), Some(Look::Inspect));
    assert_eq!(list, [(0, "a.b.c", pass), (1, "d.b.c", pass), (2, "e.b.c", inspect), (3, "f.b.c", None)]);
}

#[test]
fn egr_12_of_two_sets_the_one_that_has_to_look_decides() {
    let passes = Rules::from_toml("[[rule]]\nhost = 'a.b.c'\naccess = 'pass'\nlabel = 'mine'").unwrap();
    let looks = Rules::from_toml("[[rule]]\nhost = '**.b.c'\nmethods = ['GET']").unwrap();
    let host: Host = "a.b.c".parse().unwrap();
    for both in [passes.narrowed_by(&looks), looks.narrowed_by(&passes)] {
        assert!(matches!(both.connect(&host, 443), Decision::Allowed { look: Look::Inspect, .. }));
    }
    let both = passes.narrowed_by(&looks);
    let Decision::Allowed { rule, .. } = both.connect(&host, 443) else { panic!("refused") };
    assert_eq!(both.rule(rule).unwrap().label.as_deref(), Some("mine"));
}
