//! Attacks on the names and paths that rules are held against.

use rules::path::{Odd, canonical};

use crate::cases::hold;

#[test]
fn adv_n08_no_name_that_is_like_an_allowed_one_is_taken_for_it() {
    let set = "[[rule]]\nhost = 'api.good.example'\n[[rule]]\nhost = '*.one.example'\n[[rule]]\nhost = '**.deep.example'";
    let count = hold(
        set,
        "
        + GET api.good.example/
        + GET a.one.example/
        + GET a.b.deep.example/
        - GET apigood.example/
        - GET good.example/
        - GET evilapi.good.example/
        - GET evil-api.good.example/
        - GET evil.api.good.example/
        - GET api.good.example.evil.example/
        - GET api.good.example-evil.example/
        - GET api.good.exampleevil/
        - GET api.good.evil.example/
        - GET api.evil.good.example/
        - GET api.good.com/
        - GET api_good.example/
        - GET api-good.example/
        - GET example/
        - GET api/
        - GET one.example/
        - GET evilone.example/
        - GET a.evilone.example/
        - GET a.b.one.example/
        - GET a.one.example.evil/
        - GET one.example.evil.example/
        - GET a.one.examples/
        - GET a-one.example/
        - GET deep.example/
        - GET evildeep.example/
        - GET a.evildeep.example/
        - GET a.deep.example.evil/
        - GET deep.example.a.evil/
        - GET a.deep.examples/
        - GET a.deep-example/
        - GET 203.0.113.7/
        - GET 1.2.3.4/
        - GET [2a00::1]/
        - GET xn--pi-6kc.good.example/
        ! GET api.good.example..evil/
        ! GET .one.example/
        ! GET *.one.example/
        ! GET 127.0.0.1.1/
        ! GET a.deep.example.1/
        ! GET 1.one.example.0x7f/
        ! GET аpi.good.example/
        ! GET api。good.example/
        ! GET evil.example%00.one.example/
        ! GET evil.example%23.one.example/
        ! GET evil@api.good.example/
        ! GET api.good.example\\.evil/
        ",
    );
    assert!(count >= 40);
}

#[test]
fn adv_n10_another_port_of_an_allowed_host_is_refused() {
    let table: String = (1..=65535_u16)
        .filter(|port| *port != 8443)
        .step_by(7)
        .chain([22, 25, 80, 443, 8080, 8442, 8444])
        .map(|port| format!("- GET api.good.example:{port}/\n"))
        .collect();
    hold("[[rule]]\nhost = 'api.good.example'\nports = [8443]", &table);
}

#[test]
fn adv_n13_a_path_reads_in_one_way_only_or_is_refused() {
    for (path, odd) in [
        ("", Odd::NotAbsolute),
        ("*", Odd::NotAbsolute),
        ("a", Odd::NotAbsolute),
        ("http://x/", Odd::NotAbsolute),
        ("\\a", Odd::NotAbsolute),
        ("//", Odd::EmptySegment),
        ("//a", Odd::EmptySegment),
        ("/a//b", Odd::EmptySegment),
        ("/a//", Odd::EmptySegment),
        ("/.", Odd::Dots),
        ("/..", Odd::Dots),
        ("/a/../b", Odd::Dots),
        ("/a/./b", Odd::Dots),
        ("/a/..;/b", Odd::Dots),
        ("/a/..;x=y/b", Odd::Dots),
        ("/a/.;/b", Odd::Dots),
        ("/a;b", Odd::Parameter),
        ("/a/b;c/d", Odd::Parameter),
        ("/a%3Bb", Odd::Parameter),
        ("/a%2e", Odd::Needless),
        ("/%2e%2e/a", Odd::Needless),
        ("/.%2E/a", Odd::Needless),
        ("/%61", Odd::Needless),
        ("/%5A", Odd::Needless),
        ("/%39", Odd::Needless),
        ("/a%2Db", Odd::Needless),
        ("/a%5fb", Odd::Needless),
        ("/a%2fb", Odd::EncodedSlash),
        ("/a%2Fb", Odd::EncodedSlash),
        ("/a%5cb", Odd::EncodedSlash),
        ("/@a%2f", Odd::EncodedSlash),
        ("/@%2fa", Odd::EncodedSlash),
        ("/@a%2fb%2fc", Odd::EncodedSlash),
        ("/@a%2f.b", Odd::EncodedSlash),
        ("/@a/b%2fc", Odd::EncodedSlash),
        ("/@a%2fb/c%2fd", Odd::EncodedSlash),
        ("/x/@a%2fb", Odd::EncodedSlash),
        ("/%00", Odd::Control),
        ("/a%0D%0Ab", Odd::Control),
        ("/%7F", Odd::Control),
        ("/%", Odd::Escape),
        ("/%2", Odd::Escape),
        ("/%g0", Odd::Escape),
        ("/%0x", Odd::Escape),
        ("/%u2215", Odd::Escape),
        ("/%-1", Odd::Escape),
        ("/%+1", Odd::Escape),
        ("/%252e", Odd::Twice),
        ("/%2561", Odd::Twice),
        ("/%25%32", Odd::Needless),
        ("/a b", Odd::Character),
        ("/a\\b", Odd::Character),
        ("/a?b", Odd::Character),
        ("/a#b", Odd::Character),
        ("/a\0b", Odd::Character),
        ("/a\tb", Odd::Character),
        ("/a\nb", Odd::Character),
        ("/\u{e9}", Odd::Character),
        ("/\u{ff0f}", Odd::Character),
        ("/%C0%AF", Odd::Text),
        ("/%C0%AE%C0%AE", Odd::Text),
        ("/%E0%80%AF", Odd::Text),
        ("/%F8%80%80%80%AF", Odd::Text),
        ("/%C3", Odd::Text),
        ("/%C3/%A9", Odd::Text),
        ("/%EF%BC%8F", Odd::Text),
        ("/%EF%BC%AE", Odd::Text),
        ("/%E2%80%A4", Odd::Text),
        ("/%C2%80", Odd::Text),
    ] {
        assert_eq!(canonical(path), Err(odd), "{path:?}");
    }
    assert_eq!(canonical(&format!("/{}", "a".repeat(8192))), Err(Odd::Long));
    for path in [
        "/",
        "/a",
        "/a/",
        "/a/b.c",
        "/...",
        "/..a",
        "/a..",
        "/.well-known/x",
        "/a%20b",
        "/caf%C3%A9",
        "/%F0%9F%A6%80",
        "/100%25",
        "/a:b",
        "/@a",
        "/@a%2fb",
        "/@a%2fb/c",
        "/a=b&c",
        "/~a",
        "/%7Ea",
        "/%3Fa",
        "/a+b",
        "/a*b",
        "/%E4%B8%AD",
    ] {
        assert_eq!(canonical(path).map(|path| path.as_str()), Ok(path));
    }
}
