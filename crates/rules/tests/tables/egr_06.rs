//! Private and special addresses are out of reach, as literals and as answers.

use std::net::IpAddr;

use rules::address::{Kind, Reason, is_never_name, kind};
use rules::{Decision, Host, Name, Rule, Rules, Why};

use Reason::{
    Broadcast, Disguised, LinkLocal, Loopback, Metadata, Multicast, PrivateNetwork, Reserved, Shared,
    Synthetic, UniqueLocal, Unspecified,
};

const NEVER: [(&str, Reason); 74] = [
    ("0.0.0.0", Unspecified),
    ("0.0.0.1", Unspecified),
    ("0.255.255.255", Unspecified),
    ("127.0.0.1", Loopback),
    ("127.0.0.53", Loopback),
    ("127.255.255.255", Loopback),
    ("169.254.0.0", LinkLocal),
    ("169.254.1.1", LinkLocal),
    ("169.254.255.255", LinkLocal),
    ("169.254.169.254", Metadata),
    ("169.254.170.2", Metadata),
    ("169.254.170.23", Metadata),
    ("100.100.100.200", Metadata),
    ("168.63.129.16", Metadata),
    ("192.0.0.0", Reserved),
    ("192.0.0.192", Reserved),
    ("192.0.0.255", Reserved),
    ("192.0.2.1", Reserved),
    ("192.88.99.1", Reserved),
    ("198.18.0.0", Synthetic),
    ("198.18.0.1", Synthetic),
    ("198.19.255.255", Synthetic),
    ("198.51.100.7", Reserved),
    ("224.0.0.0", Multicast),
    ("224.0.0.251", Multicast),
    ("239.255.255.255", Multicast),
    ("240.0.0.0", Reserved),
    ("250.1.2.3", Reserved),
    ("255.255.255.254", Reserved),
    ("255.255.255.255", Broadcast),
    ("::", Unspecified),
    ("::1", Loopback),
    ("::2", Disguised),
    ("::127.0.0.1", Disguised),
    ("::8.8.8.8", Disguised),
    ("::a9fe:a9fe", Disguised),
    ("::ffff:127.0.0.1", Disguised),
    ("::ffff:169.254.169.254", Disguised),
    ("::ffff:10.0.0.1", Disguised),
    ("::ffff:8.8.8.8", Disguised),
    ("::ffff:0:8.8.8.8", Disguised),
    ("::ffff:0:127.0.0.1", Disguised),
    ("64:ff9b::127.0.0.1", Disguised),
    ("64:ff9b::8.8.8.8", Disguised),
    ("64:ff9b::a9fe:a9fe", Disguised),
    ("64:ff9b:1::a00:1", Disguised),
    ("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Disguised),
    ("2002:7f00:1::", Disguised),
    ("2002:a9fe:a9fe::1", Disguised),
    ("2002:808:808::1", Disguised),
    ("2001::1", Disguised),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Disguised),
    ("2a00:1:2:3:0:5efe:a00:1", Disguised),
    ("2a00:1:2:3:200:5efe:7f00:1", Disguised),
    ("fd00:ec2::254", Metadata),
    ("fd00:ec2::23", Metadata),
    ("fd20:ce::254", Metadata),
    ("fd00:c1::a9fe:a9fe", Metadata),
    ("fe80::", LinkLocal),
    ("fe80::1", LinkLocal),
    ("fe80::a9fe:a9fe", LinkLocal),
    ("febf:ffff::1", LinkLocal),
    ("fec0::1", Reserved),
    ("feff::1", Reserved),
    ("ff00::", Multicast),
    ("ff02::1", Multicast),
    ("ff0e::1", Multicast),
    ("2001:db8::1", Reserved),
    ("2001:2::1", Reserved),
    ("2001:20::1", Reserved),
    ("3fff::1", Reserved),
    ("100::1", Reserved),
    ("1fff::1", Reserved),
    ("4000::1", Reserved),
];

const PRIVATE: [(&str, Reason); 13] = [
    ("10.0.0.0", PrivateNetwork),
    ("10.0.0.1", PrivateNetwork),
    ("10.255.255.255", PrivateNetwork),
    ("172.16.0.0", PrivateNetwork),
    ("172.31.255.255", PrivateNetwork),
    ("192.168.0.1", PrivateNetwork),
    ("192.168.255.255", PrivateNetwork),
    ("100.64.0.0", Shared),
    ("100.100.100.201", Shared),
    ("100.127.255.255", Shared),
    ("fc00::", UniqueLocal),
    ("fd12:3456::1", UniqueLocal),
    ("fdff:ffff::1", UniqueLocal),
];

const PUBLIC: [&str; 27] = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "140.82.121.3",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.0.3.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "203.0.113.7",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2606:4700::1111",
    "2a00:1450:4001::5",
    "3ffe::1",
];

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A rule that allows a name, and any address of it that a rule without `address` can.
fn named() -> (Rules, Host) {
    (Rules::allow(["api.x.example"]).unwrap(), "api.x.example".parse().unwrap())
}

#[test]
fn egr_06_every_special_address_is_known() {
    for (text, reason) in NEVER {
        assert_eq!(kind(address(text)), Kind::Never(reason), "{text}");
    }
    for (text, reason) in PRIVATE {
        assert_eq!(kind(address(text)), Kind::Private(reason), "{text}");
    }
    for text in PUBLIC {
        assert_eq!(kind(address(text)), Kind::Public, "{text}");
    }
}

#[test]
fn egr_06_special_addresses_are_refused_as_literal_and_as_answer() {
    let (rules, host) = named();
    for (text, reason) in NEVER {
        let refused = Decision::Refused(Why::Never(reason));
        assert_eq!(rules.connect(&Host::Address(address(text)), 443), refused, "{text}");
        assert_eq!(rules.dial(&host, 443, address(text)), refused, "{text}");
    }
    for (text, reason) in PRIVATE {
        let refused = Decision::Refused(Why::Private(reason));
        assert_eq!(rules.connect(&Host::Address(address(text)), 443), refused, "{text}");
        assert_eq!(rules.dial(&host, 443, address(text)), refused, "{text}");
    }
    for text in PUBLIC {
        assert!(!rules.connect(&Host::Address(address(text)), 443).is_allowed(), "{text}");
        assert!(rules.dial(&host, 443, address(text)).is_allowed(), "{text}");
    }
}

#[test]
fn egr_06_an_address_that_is_denied_is_not_reached_by_a_name_of_it() {
    let deny = |host: &str| Rule { deny: true, ..Rule::new(host) };
    let all = |denied: Rule| Rules::compile(vec![Rule::new("**.x.example"), denied]).unwrap();
    let host: Host = "a.x.example".parse().unwrap();
    for (denied, to, is_allowed) in [
        ("203.0.113.7", "203.0.113.7", false),
        ("203.0.113.7", "203.0.113.8", true),
        ("[2606:4700:0::1]", "2606:4700::1", false),
        ("2606:4700::1", "2606:4700::2", true),
    ] {
        let rules = all(deny(denied));
        assert_eq!(rules.dial(&host, 443, address(to)).is_allowed(), is_allowed, "{denied} {to}");
    }
    let elsewhere = all(Rule { ports: vec![80], ..deny("203.0.113.7") });
    assert!(elsewhere.dial(&host, 443, address("203.0.113.7")).is_allowed());
}

#[test]
fn egr_06_what_is_never_reached_cannot_be_listed() {
    for (text, _) in NEVER {
        assert!(Rules::compile(vec![Rule::new(text)]).is_err(), "{text}");
        let own = Rule { address: Some(address(text)), ..Rule::new(text) };
        assert!(Rules::compile(vec![own]).is_err(), "{text}");
        let named = Rule { address: Some(address(text)), ..Rule::new("db.x.example") };
        assert!(Rules::compile(vec![named]).is_err(), "{text}");
    }
}

#[test]
fn egr_06_a_private_host_needs_its_exact_name_and_address() {
    for (text, reason) in PRIVATE {
        assert!(Rules::compile(vec![Rule::new(text)]).is_err(), "{text} without `address`");
        let own = Rule { address: Some(address(text)), ..Rule::new(text) };
        let rules = Rules::compile(vec![own.clone()]).unwrap();
        assert!(rules.connect(&Host::Address(address(text)), 443).is_allowed(), "{text}");
        assert!(rules.dial(&Host::Address(address(text)), 443, address(text)).is_allowed(), "{text}");
        assert!(!rules.connect(&Host::Address(address(text)), 80).is_allowed(), "{text}");
        assert!(own.is_admin_only());

        let named = Rule { address: Some(address(text)), ports: vec![5432], ..Rule::new("db.x.example") };
        let rules = Rules::compile(vec![
            named,
            Rule::new("**.x.example"),
            Rule { ports: vec![5432], ..Rule::new("*.x.example") },
        ]);
        let rules = rules.unwrap();
        let (db, other): (Host, Host) = ("db.x.example".parse().unwrap(), "b.x.example".parse().unwrap());
        assert!(rules.dial(&db, 5432, address(text)).is_allowed(), "{text}");
        let private = Decision::Refused(Why::Private(reason));
        assert_eq!(rules.dial(&db, 443, address(text)), private, "{text} on another port");
        assert_eq!(rules.dial(&other, 5432, address(text)), private, "{text} by another name");
        assert!(!rules.dial(&db, 5432, address("10.9.9.9")).is_allowed(), "another address");
    }
}

#[test]
fn egr_06_an_address_that_is_named_is_the_only_one() {
    let rule = Rule { address: Some(address("10.0.0.5")), ..Rule::new("db.x.example") };
    let rules = Rules::compile(vec![rule]).unwrap();
    let host: Host = "db.x.example".parse().unwrap();
    assert!(rules.dial(&host, 443, address("10.0.0.5")).is_allowed());
    assert_eq!(rules.dial(&host, 443, address("203.0.113.7")), Decision::Refused(Why::OtherAddress));
    assert!(!rules.dial(&host, 443, address("10.0.0.6")).is_allowed());
    for wrong in ["*.x.example", "**.x.example", "10.0.0.6"] {
        let rule = Rule { address: Some(address("10.0.0.5")), ..Rule::new(wrong) };
        assert!(Rules::compile(vec![rule]).is_err(), "{wrong}");
    }
    let deny = Rule { address: Some(address("10.0.0.5")), deny: true, ..Rule::new("db.x.example") };
    assert!(Rules::compile(vec![deny]).is_err());
    // A literal is dialled as it stands, whatever somebody resolved it to.
    let rules = Rules::allow(["203.0.113.7"]).unwrap();
    let literal: Host = "203.0.113.7".parse().unwrap();
    assert!(rules.dial(&literal, 443, address("203.0.113.7")).is_allowed());
    assert!(!rules.dial(&literal, 443, address("203.0.113.8")).is_allowed());
}

#[test]
fn egr_06_what_is_opened_of_a_private_host_no_other_rule_opens_further() {
    let set = "[[rule]]\nhost = 'db.x.example'\naddress = '10.0.0.5'\nmethods = ['GET']\npaths = ['/health']\n\
               [[rule]]\nhost = '*.x.example'\npaths = ['/**']\n[[rule]]\nhost = '**.x.example'\nports = [443, 80]\nmethods = ['POST']\n\
               [[rule]]\nhost = '**.x.example'\ndeny = true\npaths = ['/health/secret', '/admin']";
    crate::cases::hold(
        set,
        "
        + GET db.x.example/health
        - GET db.x.example/
        - POST db.x.example/health
        - POST db.x.example/
        - GET db.x.example/admin
        + POST db.x.example:80/
        + GET b.x.example/
        + POST a.b.x.example/
        ",
    );
    let rules = Rules::from_toml(set).unwrap();
    let host: Host = "db.x.example".parse().unwrap();
    assert!(rules.dial(&host, 443, address("10.0.0.5")).is_allowed());
    assert_eq!(rules.dial(&host, 443, address("203.0.113.7")), Decision::Refused(Why::OtherAddress));
    assert!(!rules.dial(&host, 80, address("10.0.0.5")).is_allowed());
    assert!(rules.dial(&host, 80, address("203.0.113.7")).is_allowed());

    let mixed = "[[rule]]\nhost = 'db.x.example'\naddress = '10.0.0.5'\npaths = ['/health']\n";
    for other in ["", "\npaths = ['/x']", "\naccess = 'pass'", "\nports = [80, 443]"] {
        let set = format!("{mixed}[[rule]]\nhost = 'db.x.example'{other}\n");
        let faults = Rules::from_toml(&set).unwrap_err().to_string();
        assert!(faults.contains("rule 2 (line 5): needs an `address`, since rule 1 has one"), "{faults}");
    }
    for beside in [
        "host = '**.x.example'",
        "host = '**.x.example'\naccess = 'pass'",
        "host = 'db.x.example'\nports = [80]",
    ] {
        let set = format!("{mixed}[[rule]]\n{beside}\n");
        assert!(Rules::from_toml(&set).is_ok(), "{set}\n{}", Rules::from_toml(&set).unwrap_err());
    }
    let deny = format!("{mixed}[[rule]]\nhost = 'db.x.example'\ndeny = true\n");
    assert!(!Rules::from_toml(&deny).unwrap().connect(&host, 443).is_allowed());
}

#[test]
fn egr_06_names_of_the_machine_and_its_metadata_are_refused_even_if_listed() {
    for text in [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "a.b.localhost",
        "localhost.localdomain",
        "ip6-localhost",
        "ip6-loopback",
        "metadata",
        "metadata.google.internal",
        "Metadata.Google.Internal.",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "rancher-metadata",
        "palisade.local",
        "x.palisade.local",
        "a.host.palisade.local",
    ] {
        let name: Name = text.parse().unwrap();
        assert!(is_never_name(&name), "{text}");
        assert!(Rules::allow([text]).is_err(), "{text}");
        let wide = "[[rule]]\nhost = '**.google.internal'\n[[rule]]\nhost = '**.ec2.internal'\n[[rule]]\nhost = '*.tencentyun.com'\n\
                    [[rule]]\nhost = '**.azure.internal'";
        let rules = Rules::from_toml(wide).unwrap();
        assert!(!rules.could_allow(&name), "{text}");
        assert_eq!(rules.connect(&Host::Name(name), 443), Decision::Refused(Why::NeverName), "{text}");
    }
    for text in
        ["localhost.example", "mylocalhost", "metadata.example", "notpalisade.local", "google.internal"]
    {
        assert!(!is_never_name(&text.parse().unwrap()), "{text}");
    }
    assert!(Rules::allow(["**.palisade.local"]).is_err());
    assert!(Rules::allow(["*.localhost"]).is_err());
}

#[test]
fn egr_06_the_hosts_loopback_is_reached_by_one_name_on_named_ports_only() {
    let rules = Rules::allow(["host.palisade.local:5432", "api.x.example:5432"]).unwrap();
    let (own, other): (Host, Host) =
        ("host.palisade.local".parse().unwrap(), "api.x.example".parse().unwrap());
    for loopback in ["127.0.0.1", "::1"] {
        assert!(rules.dial(&own, 5432, address(loopback)).is_allowed());
        assert!(!rules.dial(&own, 5433, address(loopback)).is_allowed());
        assert!(!rules.dial(&own, 443, address(loopback)).is_allowed());
        assert!(!rules.dial(&other, 5432, address(loopback)).is_allowed());
    }
    for elsewhere in ["127.0.0.2", "203.0.113.7", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"] {
        assert!(!rules.dial(&own, 5432, address(elsewhere)).is_allowed(), "{elsewhere}");
    }
    let (rules, _) = named();
    assert!(!rules.dial(&own, 443, address("127.0.0.1")).is_allowed());
}
