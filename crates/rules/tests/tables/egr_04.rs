//! No rules means no network; deny beats allow; what a wildcard covers.

use rules::{Decision, Host, Name, Rules, What, Why};

use crate::cases::{faults, hold};

fn asks() -> Vec<(Host, u16)> {
    let hosts =
        ["a.example", "api.x.example", "github.com", "203.0.113.7", "2a00::1", "localhost", "10.0.0.1"];
    let hosts = hosts.iter().map(|host| host.parse::<Host>().unwrap());
    hosts.flat_map(|host| [22, 80, 443, 8443].map(|port| (host.clone(), port))).collect()
}

#[test]
fn egr_04_no_rules_mean_no_network() {
    let nothing = [
        Rules::none(),
        Rules::compile(Vec::new()).unwrap(),
        Rules::from_toml("").unwrap(),
        Rules::from_toml("rule = []").unwrap(),
        Rules::allow(Vec::<String>::new()).unwrap(),
        Rules::none().narrowed_by(&Rules::allow(["a.example"]).unwrap()),
        Rules::allow(["a.example"]).unwrap().narrowed_by(&Rules::none()),
    ];
    for rules in &nothing {
        for (host, port) in asks() {
            assert!(!rules.connect(&host, port).is_allowed(), "{host}:{port}");
            assert!(!rules.dial(&host, port, "203.0.113.9".parse().unwrap()).is_allowed(), "{host}:{port}");
            if let Host::Name(name) = &host {
                assert!(!rules.could_allow(name), "{name}");
            }
        }
    }
    let host = "a.example".parse().unwrap();
    assert_eq!(Rules::none().connect(&host, 443), Decision::Refused(Why::NoRules));
}

#[test]
fn egr_04_a_list_that_cannot_be_read_is_no_list() {
    for text in [
        "rule",
        "[[rule]",
        "[[rule]]",
        "rule = 5",
        "[rule]\nhost = 'a.example'",
        "host = 'a.example'",
        "\0",
        "[[rules]]",
    ] {
        assert!(Rules::from_toml(text).is_err(), "{text}");
    }
}

#[test]
fn egr_04_a_wildcard_covers_what_it_says() {
    let one = "
        + GET a.x.example/
        + GET b.x.example/
        - GET x.example/
        - GET a.b.x.example/
        - GET a.b.c.x.example/
        - GET xx.example/
        - GET ax.example/
        - GET a.x.example.b/
        - GET example/
        ! GET .x.example/
        ! GET *.x.example/
        - GET 203.0.113.7/
    ";
    hold("[[rule]]\nhost = '*.x.example'", one);
    let deep = "
        + GET a.x.example/
        + GET a.b.x.example/
        + GET a.b.c.d.e.f.g.h.x.example/
        - GET x.example/
        - GET xx.example/
        - GET ax.example/
        - GET a.x.example.b/
        - GET a.y.example/
        - GET example/
        ! GET ..x.example/
        ! GET **.x.example/
        - GET [2a00::1]/
    ";
    hold("[[rule]]\nhost = '**.x.example'", deep);
    let both = "
        + GET a.x.example/
        + GET a.b.x.example/
        + GET x.example/
        + GET c.a.b.y.example/
        - GET a.b.y.example/
        - GET c.c.a.b.y.example/
    ";
    hold("[[rule]]\nhost='**.x.example'\n[[rule]]\nhost='x.example'\n[[rule]]\nhost='*.a.b.y.example'", both);
}

#[test]
fn egr_04_a_wildcard_on_a_public_suffix_is_refused_at_load() {
    for suffix in [
        "com",
        "org",
        "net",
        "io",
        "dev",
        "app",
        "de",
        "uk",
        "co.uk",
        "org.uk",
        "com.au",
        "co.jp",
        "github.io",
        "gitlab.io",
        "herokuapp.com",
        "vercel.app",
        "netlify.app",
        "pages.dev",
        "workers.dev",
        "web.app",
        "s3.amazonaws.com",
        "blogspot.com",
        "fly.dev",
        "onrender.com",
        "x.ck",
        "example",
        "internal",
        "local",
        "COM",
        "Co.Uk",
        "github.io.",
    ] {
        for star in ["*", "**"] {
            let host = format!("{star}.{suffix}");
            let found = Rules::allow([&host]).map(|_| ()).unwrap_err();
            let what = found.iter().map(|fault| fault.what.clone()).collect::<Vec<_>>();
            assert_eq!(what, [What::PublicSuffix(host)]);
        }
    }
    for host in [
        "*.x.com",
        "**.x.co.uk",
        "*.me.github.io",
        "**.github.com",
        "*.svc.internal",
        "*.www.ck",
        "*.x.example",
    ] {
        assert!(Rules::allow([host]).is_ok(), "{host}");
    }
    for host in [
        "*",
        "**",
        "*.",
        "**.",
        "*.*.x.example",
        "a.*.example",
        "*a.x.example",
        "a*",
        "***.x.example",
        "*.**.x.example",
    ] {
        assert!(Rules::allow([host]).is_err(), "{host}");
    }
    let found = faults("[[rule]]\nhost = 'a.example'\n\n[[rule]]\nhost = '**.co.uk'\n");
    assert_eq!(
        found,
        "rule 2 (line 4): host `**.co.uk`: anybody can have a name under this suffix; name the hosts"
    );
}

#[test]
fn egr_04_a_deny_beats_every_allow() {
    let set = |rules: &str| rules.split(' ').map(one).collect::<String>();
    fn one(rule: &str) -> String {
        match rule.strip_prefix('!') {
            Some(host) => format!("[[rule]]\nhost = '{host}'\ndeny = true\n"),
            None => format!("[[rule]]\nhost = '{rule}'\n"),
        }
    }
    for (rules, host, allowed) in [
        ("a.x.example !a.x.example", "a.x.example", false),
        ("!a.x.example a.x.example", "a.x.example", false),
        ("a.x.example !*.x.example", "a.x.example", false),
        ("a.x.example !**.x.example", "a.x.example", false),
        ("**.x.example !a.x.example", "a.x.example", false),
        ("**.x.example !a.x.example", "b.x.example", true),
        ("**.x.example !a.x.example", "b.a.x.example", true),
        ("**.x.example !*.x.example", "b.a.x.example", true),
        ("**.x.example !*.x.example", "a.x.example", false),
        ("**.x.example !**.a.x.example", "b.a.x.example", false),
        ("**.x.example !**.a.x.example", "a.x.example", true),
        ("a.b.x.example *.b.x.example **.x.example !**.x.example", "a.b.x.example", false),
        ("203.0.113.7 !203.0.113.7", "203.0.113.7", false),
        ("!a.x.example", "a.x.example", false),
        ("!a.x.example", "b.x.example", false),
    ] {
        let rules = Rules::from_toml(&set(rules)).unwrap_or_else(|found| panic!("{rules}\n{found}"));
        let host: Host = host.parse().unwrap();
        assert_eq!(rules.connect(&host, 443).is_allowed(), allowed, "{rules:?} {host}");
        assert_eq!(rules.dial(&host, 443, "203.0.113.7".parse().unwrap()).is_allowed(), allowed, "{host}");
        if let Host::Name(name) = &host {
            assert_eq!(rules.could_allow(name), allowed, "{host}");
        }
    }
}

#[test]
fn egr_04_a_deny_of_one_port_leaves_the_others() {
    let rules = Rules::from_toml(
        "[[rule]]\nhost = 'a.example'\nports = [80, 443]\n[[rule]]\nhost = 'a.example'\nports = [80]\ndeny = true",
    )
    .unwrap();
    let host: Host = "a.example".parse().unwrap();
    assert!(matches!(rules.connect(&host, 80), Decision::Refused(Why::Denied(id)) if id.index == 1));
    assert!(rules.connect(&host, 443).is_allowed());
    assert_eq!(rules.connect(&host, 22), Decision::Refused(Why::Port));
    assert!(rules.could_allow(&"a.example".parse::<Name>().unwrap()));
}
