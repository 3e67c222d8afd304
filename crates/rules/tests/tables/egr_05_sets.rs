//! Sets that are refused whole, and what is said about them.

use rules::{Methods, Rule, Rules, What};

use crate::cases::faults;

#[test]
fn egr_05_a_set_with_one_fault_is_refused_whole() {
    for (set, told) in [
        // Fields that there are not, and values of other kinds.
        ("host = 'a.b'\nport = 443", "there is no field `port`"),
        ("host = 'a.b'\nMethods = ['GET']", "there is no field `Methods`"),
        ("host = 'a.b'\nallow = true", "there is no field `allow`"),
        ("ports = [443]", "missing field `host`"),
        ("host = 7", "invalid type"),
        ("host = 'a.b'\nports = 443", "invalid type"),
        ("host = 'a.b'\nports = ['https']", "invalid type"),
        ("host = 'a.b'\nports = [70000]", "invalid value"),
        ("host = 'a.b'\nports = [-1]", "invalid value"),
        ("host = 'a.b'\naccess = 'open'", "unknown variant"),
        ("host = 'a.b'\nmethods = 'all'", "read-only"),
        ("host = 'a.b'\nmethods = 'GET'", "read-only"),
        ("host = 'a.b'\ndeny = 'yes'", "invalid type"),
        ("host = 'a.b'\nhost = 'c.d'", "duplicate key"),
        ("host = 'a.b'\nquery = { deny = ['x'] }", "unknown field"),
        ("host = 'a.b'\ngit = { write = true }", "unknown field"),
        ("host = 'a.b'\nregistry = 'maven'", "npm"),
        ("host = 'a.b'\nregistry = 'install'", "npm"),
        ("host = 'a.b'\naddress = '10.0.0.256'", "IP address"),
        ("host = 'a.b'\naddress = '10.0.0.0/8'", "IP address"),
        // Ports, methods, paths, queries.
        ("host = 'a.b'\nports = []", "`ports` needs"),
        ("host = 'a.b'\nports = [0]", "`ports` needs"),
        ("host = 'a.b'\nports = [443, 443]", "`ports` needs"),
        ("host = 'a.b'\nmethods = []", "`methods` needs"),
        ("host = 'a.b'\nmethods = ['get']", "`methods` needs"),
        ("host = 'a.b'\nmethods = ['GET', 'GET']", "`methods` needs"),
        ("host = 'a.b'\nmethods = ['CONNECT']", "`methods` needs"),
        ("host = 'a.b'\nmethods = ['TRACE']", "`methods` needs"),
        ("host = 'a.b'\nmethods = ['']", "`methods` needs"),
        ("host = 'a.b'\nmethods = ['GET ']", "`methods` needs"),
        ("host = 'a.b'\nmethods = ['*']", "`methods` needs"),
        ("host = 'a.b'\npaths = []", "`paths` needs"),
        ("host = 'a.b'\npaths = ['/a', '/a']", "`paths` needs"),
        ("host = 'a.b'\npaths = ['a']", "begins with `/`"),
        ("host = 'a.b'\npaths = ['']", "begins with `/`"),
        ("host = 'a.b'\npaths = ['/a*']", "one whole segment"),
        ("host = 'a.b'\npaths = ['/**/a']", "one whole segment"),
        ("host = 'a.b'\npaths = ['/a/../b']", "dots"),
        ("host = 'a.b'\npaths = ['/a//b']", "two slashes"),
        ("host = 'a.b'\npaths = ['/a%2fb']", "encoded slash"),
        ("host = 'a.b'\npaths = ['/@a%2fb']", "encoded slash"),
        ("host = 'a.b'\npaths = ['/a?b']", "not allowed in a path"),
        ("host = 'a.b'\nquery = {}", "`query` needs"),
        ("host = 'a.b'\nquery = { forbid = [''] }", "`query` needs"),
        ("host = 'a.b'\nquery = { allow = ['x'], forbid = ['x'] }", "`query` needs"),
        // What does not go together.
        ("host = 'a.b'\naccess = 'pass'\nmethods = ['GET']", "do not go together"),
        ("host = 'a.b'\naccess = 'pass'\npaths = ['/']", "do not go together"),
        ("host = 'a.b'\naccess = 'pass'\nquery = { forbid = ['x'] }", "do not go together"),
        ("host = 'a.b'\naccess = 'pass'\nwebsocket = true", "do not go together"),
        ("host = 'a.b'\naccess = 'pass'\ngit = { read = true }", "do not go together"),
        ("host = 'a.b'\naccess = 'pass'\nregistry = 'npm'", "do not go together"),
        ("host = 'a.b'\ndeny = true\naccess = 'pass'", "do not go together"),
        ("host = 'a.b'\ndeny = true\nquery = { forbid = ['x'] }", "do not go together"),
        ("host = 'a.b'\ndeny = true\nwebsocket = false", "do not go together"),
        ("host = 'a.b'\ndeny = true\nregistry = 'npm'", "do not go together"),
        ("host = 'a.b'\ngit = { read = true }\nmethods = ['GET']", "do not go together"),
        ("host = 'a.b'\ngit = { read = true }\nregistry = 'npm'", "do not go together"),
        ("host = 'a.b'\nregistry = 'npm'\npaths = ['/']", "do not go together"),
        // Texts.
        ("host = 'a.b'\nlabel = \"a\\nb\"", "one line"),
        ("host = 'a.b'\nreason = \"\\u001b[2J\"", "one line"),
    ] {
        let good = "[[rule]]\nhost = 'good.example'\n[[rule]]\n";
        let found = faults(&format!("{good}{set}"));
        assert!(found.contains(told), "{set}\n{found}");
        assert!(found.contains("rule 2") || found.contains("duplicate key"), "{set}\n{found}");
    }
}

#[test]
fn egr_05_rules_that_contradict_each_other_refuse_the_whole_set() {
    for (first, second, told) in [
        ("host = 'a.b.c'", "host = 'a.b.c'", "the same as rule 1"),
        ("host = 'a.b.c'\nlabel = 'x'", "host = 'A.B.C.'\nlabel = 'y'", "the same as rule 1"),
        ("host = 'a.b.c'\nports = [1, 2]", "host = 'a.b.c'\nports = [2, 1]", "the same as rule 1"),
        (
            "host = 'a.b.c'\nmethods = 'read-only'",
            "host = 'a.b.c'\nmethods = ['HEAD', 'OPTIONS', 'GET']",
            "the same as rule 1",
        ),
        (
            "host = 'a.b.c'\npaths = ['/a', '/b']",
            "host = 'a.b.c'\npaths = ['/b', '/a']",
            "the same as rule 1",
        ),
        ("host = '2a00:0::1'", "host = '[2a00::1]'", "the same as rule 1"),
        ("host = 'a.b.c'\naccess = 'pass'", "host = 'a.b.c'\naccess = 'inspect'", "rule 1: passes unopened"),
        ("host = 'a.b.c'\naccess = 'inspect'", "host = 'a.b.c'\naccess = 'pass'", "rule 2: passes unopened"),
        ("host = 'a.b.c'\naccess = 'pass'", "host = 'a.b.c'\nmethods = ['GET']", "rule 1: passes unopened"),
        ("host = '**.b.c'\naccess = 'pass'", "host = 'a.b.c'\nmethods = ['GET']", "rule 1: passes unopened"),
        (
            "host = '*.b.c'\naccess = 'pass'",
            "host = 'a.b.c'\ngit = { read = true }",
            "rule 1: passes unopened",
        ),
        (
            "host = 'a.b.c'\naccess = 'pass'",
            "host = 'a.b.c'\ndeny = true\npaths = ['/x']",
            "rule 1: passes unopened",
        ),
        (
            "host = 'a.b.c'\naccess = 'pass'",
            "host = '**.b.c'\ndeny = true\npaths = ['/x']",
            "rule 1: passes unopened",
        ),
        (
            "host = '**.b.c'\naccess = 'pass'",
            "host = 'a.b.c'\ndeny = true\npaths = ['/x']",
            "rule 1: passes unopened",
        ),
        ("host = 'a.b.c'", "host = 'a.b.c'\nmethods = 'read-only'", "rule 2: its limits mean nothing"),
        ("host = 'a.b.c'\nmethods = 'read-only'", "host = 'a.b.c'", "rule 1: its limits mean nothing"),
        ("host = '**.b.c'", "host = 'a.b.c'\npaths = ['/x']", "rule 2: its limits mean nothing"),
        ("host = '**.b.c'", "host = '*.a.b.c'\npaths = ['/x']", "rule 2: its limits mean nothing"),
        ("host = '**.b.c'", "host = '*.b.c'\npaths = ['/x']", "rule 2: its limits mean nothing"),
        ("host = '**.b.c'", "host = '**.a.b.c'\nregistry = 'npm'", "rule 2: its limits mean nothing"),
        (
            "host = 'a.b.c'\nports = [80, 443]",
            "host = 'a.b.c'\npaths = ['/x']",
            "rule 2: its limits mean nothing",
        ),
        ("host = '203.0.113.7'", "host = '203.0.113.7'\npaths = ['/x']", "rule 2: its limits mean nothing"),
    ] {
        let found = faults(&format!("[[rule]]\n{first}\n[[rule]]\n{second}"));
        let plain = found.replace(" (line 1)", "").replace(" (line 3)", "").replace(" (line 4)", "");
        assert!(plain.contains(told), "{first}\n{second}\n{found}");
    }
}

#[test]
fn egr_05_rules_that_differ_stand_beside_each_other() {
    for (first, second) in [
        ("host = 'a.b.c'", "host = 'a.b.c'\nports = [80]"),
        ("host = 'a.b.c'\nports = [80]", "host = 'a.b.c'\nmethods = ['GET']"),
        ("host = 'a.b.c'\naccess = 'pass'", "host = 'a.b.c'\nports = [80]\nmethods = ['GET']"),
        ("host = 'a.b.c'\naccess = 'pass'", "host = '**.b.c'\nmethods = ['GET']"),
        ("host = 'a.b.c'", "host = '**.b.c'\nmethods = ['GET']"),
        ("host = '*.b.c'", "host = 'b.c'\nmethods = ['GET']"),
        ("host = '*.b.c'", "host = '*.a.b.c'\nmethods = ['GET']"),
        ("host = '**.b.c'", "host = 'b.c'\nmethods = ['GET']"),
        ("host = 'a.b.c'", "host = 'a.b.c'\naccess = 'inspect'"),
        ("host = 'a.b.c'", "host = 'a.b.c'\ndeny = true"),
        ("host = 'a.b.c'", "host = '**.b.c'\ndeny = true"),
        ("host = 'a.b.c'\naccess = 'pass'", "host = '**.b.c'\ndeny = true"),
        ("host = 'a.b.c'\nmethods = ['GET']", "host = 'a.b.c'\nmethods = ['POST']"),
    ] {
        let set = format!("[[rule]]\n{first}\n[[rule]]\n{second}");
        assert!(Rules::from_toml(&set).is_ok(), "{set}\n{}", Rules::from_toml(&set).unwrap_err());
    }
}

#[test]
fn egr_05_all_faults_are_told_at_once_with_their_lines() {
    let set = "# a comment\n\n[[rule]]\nhost = '*.com'\nports = [0]\n\n[[rule]]\nhost = 'ok.example'\n\n\
               [[rule]]\nhost = 'a..b'\nmethods = ['get']\n";
    let faults = Rules::from_toml(set).unwrap_err();
    let told: Vec<_> = faults.iter().map(|fault| (fault.rule, fault.line)).collect();
    let (first, third) = ((Some(0), Some(3)), (Some(2), Some(10)));
    assert_eq!(told, [first, first, third, third], "{faults}");

    let set = "wrong = 1\n[[rule]]\nhost = '*.com'\nprot = 1\nprots = 2\n[[rule]]\nhost = 5\n";
    let faults = Rules::from_toml(set).unwrap_err();
    let told: Vec<_> = faults.iter().map(|fault| (fault.rule, fault.line)).collect();
    let first = (Some(0), Some(2));
    assert_eq!(told, [(None, None), first, first, first, (Some(1), Some(6))], "{faults}");

    let set =
        "[[rule]]\nhost = 5\n[[rule]]\nhost = 'a.b'\n[[rule]]\nhost = 'a.b'\nmethods = ['GET']\nprot = 1\n";
    let told = Rules::from_toml(set).unwrap_err().to_string();
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("rule 1 (line 1): invalid type"), "{told:?}");
    assert_eq!(told[1], "rule 3 (line 5): there is no field `prot` in a rule");
    assert!(told[2].starts_with("rule 3 (line 5): its limits mean nothing: rule 2"), "{told:?}");

    let faults = Rules::from_toml("[[rule]]\nhost = 'a.b'\n\n= 5\n").unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [Some(4)], "{faults}");
}

#[test]
fn a_rule_is_written_as_it_was_read() {
    let set = "[[rule]]\nhost = 'a.b'\nports = [80]\nmethods = 'read-only'\npaths = ['/x']\nlabel = 'l'\nreason = 'r'\n\
               [[rule]]\nhost = 'c.d'\ngit = { read = true, push = [{ repo = 'o/n', refs = ['refs/heads/a'] }] }\n\
               [[rule]]\nhost = 'e.f'\nregistry = { kind = 'npm', publish = ['@a/*'] }\n\
               [[rule]]\nhost = 'g.h'\naddress = '10.0.0.1'\naccess = 'pass'\n";
    let rules = Rules::from_toml(set).unwrap();
    for (_, rule, _) in rules.list() {
        let text = toml::to_string(rule).unwrap();
        assert_eq!(&toml::from_str::<Rule>(&text).unwrap(), rule, "{text}");
    }
    assert_eq!(toml::to_string(&Rule::new("a.b")).unwrap(), "host = \"a.b\"\n");
}

#[test]
fn what_the_command_line_allows_is_one_host_on_one_port() {
    let rules = Rules::allow([
        "a.example",
        "b.example:80",
        "*.c.example",
        "203.0.113.7:22",
        "[2a00::1]:8443",
        "2a00::2",
    ]);
    crate::cases::hold_against(
        &rules.unwrap(),
        "
        + POST a.example/x
        - GET a.example:80/
        + GET b.example:80/
        - GET b.example/
        + GET x.c.example/
        - GET c.example/
        + GET 203.0.113.7:22/
        - GET 203.0.113.7/
        + GET [2a00::1]:8443/
        + GET [2a00::2]/
        ",
    );
    for odd in [
        "",
        ":",
        ":443",
        "a:",
        "a:b",
        "a:0",
        "a:65536",
        "a:+443",
        "a: 443",
        "a:443:443",
        "*.com",
        "*",
        "localhost",
        "127.0.0.1",
        "10.0.0.1",
        "http://a.example",
        "a.example/x",
        "[::1]:80",
        "[::1",
        "169.254.169.254:80",
        "127.1",
        "a b",
    ] {
        assert!(Rules::allow([odd]).is_err(), "{odd}");
    }
    let faults = Rules::allow(["ok.example", "a:b", "*.com"]).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.rule).collect::<Vec<_>>(), [Some(1), Some(2)]);
}

#[test]
fn which_rules_are_for_administrators() {
    assert!(!Rule::new("a.example").is_admin_only());
    assert!(Rule { access: Some(rules::Access::Pass), ..Rule::new("a.example") }.is_admin_only());
    assert!(Rule { address: "10.0.0.1".parse().ok(), ..Rule::new("a.example") }.is_admin_only());
    let odd = Rule { methods: Some(Methods::These(vec!["get".into()])), ..Rule::new("a.example") };
    let faults = Rules::compile(vec![odd]).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.what.clone()).collect::<Vec<_>>(), [What::Methods]);
}
