//! What a Pass looks like, and what is none.

use super::*;

#[test]
fn acc_10_flipping_any_byte_refuses() {
    let passes: Vec<_> = (0..scaled(1000)).map(|_| pass()).collect();
    for (n, token) in passes.iter().enumerate() {
        let bytes = raw(token);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << ((at + n) % 8);
            assert!(check_raw(&flipped).is_err(), "byte {at}");
        }
        let text = text(token);
        for at in (0..text.len()).step_by(7) {
            let mut flipped = text.clone().into_bytes();
            flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
            assert!(check(&String::from_utf8(flipped).unwrap()).is_err(), "character {at}");
        }
        assert!(check(&text).is_ok());
    }
}

#[test]
fn acc_10_dropping_adding_and_reordering_caveats_refuses() {
    let token = pass().attenuate(&"tool build".parse().unwrap()).unwrap();
    let bytes = raw(&token);
    let raw = Raw::parse(&bytes).unwrap();
    let caveats: Vec<&[u8]> = raw.caveats().collect();
    let rebuilt = |caveats: &[&[u8]]| {
        let begun = wire::begin(raw.identifier, raw.signature);
        check_raw(&caveats.iter().fold(begun, |bytes, caveat| wire::append(&bytes, caveat, raw.signature)))
    };
    assert!(rebuilt(&caveats).is_ok(), "the untouched one");
    for at in 0..caveats.len() {
        let mut fewer = caveats.clone();
        fewer.remove(at);
        assert_eq!(rebuilt(&fewer).unwrap_err(), PassError::Forged, "without {at}");
        for to in 0..=caveats.len() {
            let mut more = caveats.clone();
            more.insert(to, b"tool build");
            assert_eq!(rebuilt(&more).unwrap_err(), PassError::Forged, "one more at {to}");
        }
        for other in at + 1..caveats.len() {
            let mut swapped = caveats.clone();
            swapped.swap(at, other);
            assert_eq!(rebuilt(&swapped).unwrap_err(), PassError::Forged, "{at} and {other} swapped");
        }
    }
    let other = Mint::new(&Secret::new([8; 32]));
    assert_eq!(other.verify(&token, NOW).unwrap_err(), PassError::Forged);
}

#[test]
fn what_is_not_understood_is_refused() {
    let token = pass();
    let cases = [
        "",
        " ",
        "path",
        "path ",
        "PATH ro:/work",
        "path  ro:/work",
        "path ../x",
        "before",
        "before -1",
        "before +5",
        "before 05",
        "before 1e3",
        "before 99999999999999999999",
        "depth 256",
        "depth 01",
        "time < 2030",
        "grant {}x",
        "grant {\"x\":1}",
        "grant {\"depth\":1,\"depth\":1}",
        "grant null",
        "tool a b",
        "host exa mple.org",
        "epoch 1",
        "user me",
        "id usr_0123456789abcdef0123456789abcdef",
        "budget {\"tokens\":-1}",
    ];
    for case in cases {
        assert!(case.parse::<Caveat>().is_err(), "{case}");
        assert_eq!(check_raw(&forced(&token, &[case])).unwrap_err(), PassError::UnknownCaveat, "{case}");
    }
    let signature = chain::step(Raw::parse(&raw(&token)).unwrap().signature, b"\xff");
    assert_eq!(
        check_raw(&wire::append(&raw(&token), b"\xff", &signature)).unwrap_err(),
        PassError::UnknownCaveat
    );
}

#[test]
fn nothing_is_read_before_the_signature_holds() {
    let bytes = wire::append(&raw(&pass()), b"no such caveat", &[0; 32]);
    assert_eq!(check_raw(&bytes).unwrap_err(), PassError::Forged);
}

#[test]
fn a_pass_must_say_for_whom_until_when_and_for_what() {
    let id = PassId::random().to_string();
    let identifier = format!("v1 {id}");
    let signature = chain::Root::new(&Secret::new([7; 32])).begin(id.as_bytes(), identifier.as_bytes());
    let bare = PassToken::begin(identifier.as_bytes(), &signature);
    let (user, end, all) = (format!("user {}", UserId::random()), format!("before {}", NOW + 1), "grant {}");
    let (user, end) = (user.as_str(), end.as_str());
    for missing in [&[][..], &[user, end], &[user, all], &[end, all], &["path ro:/work"]] {
        assert_eq!(check_raw(&forced(&bare, missing)).unwrap_err(), PassError::Incomplete, "{missing:?}");
    }
    assert!(check_raw(&forced(&bare, &[user, end, all])).is_ok());
    for identifier in [
        "",
        "v1",
        "v1 ",
        "v2 pas_0123456789abcdef0123456789abcdef",
        "v1 usr_0123456789abcdef0123456789abcdef",
    ] {
        assert!(check_raw(&wire::begin(identifier.as_bytes(), &[0; 32])).is_err(), "{identifier}");
    }
}

#[test]
fn foreign_forms_are_refused() {
    let bytes = raw(&pass());
    let insert = |at: usize, more: &[u8]| [&bytes[..at], more, &bytes[at..]].concat();
    assert!(check_raw(&insert(1, &[1, 0])).is_ok(), "an empty location, as some libraries write it");
    assert_eq!(
        check_raw(&insert(1, &[1, 1, b'x'])).unwrap_err(),
        PassError::Malformed,
        "an unsigned location"
    );
    let caveats = bytes.len() - 35;
    assert_eq!(
        check_raw(&insert(caveats, &[1, 1, b'x', 2, 1, b'y', 4, 1, b'z', 0])).unwrap_err(),
        PassError::ThirdParty
    );
    assert_eq!(check_raw(&insert(caveats, &[2, 1, b'y', 4, 1, b'z', 0])).unwrap_err(), PassError::ThirdParty);
    assert_eq!(
        check_raw(&insert(bytes.len(), &[0])).unwrap_err(),
        PassError::Malformed,
        "something after the end"
    );
    assert_eq!(
        check_raw(&insert(caveats, &[2, 0x81, 0, b'y', 0])).unwrap_err(),
        PassError::Malformed,
        "a long spelling"
    );
    for length in 0..bytes.len() {
        assert!(check_raw(&bytes[..length]).is_err(), "cut to {length}");
    }
    for text in [
        "",
        "pps_",
        "pps",
        "pat_AAAA",
        &text(&pass())[4..],
        &format!("{} ", text(&pass())),
        &format!("{}=", text(&pass())),
    ] {
        assert_eq!(check(text).unwrap_err(), PassError::Malformed, "{text}");
    }
}

#[test]
fn size_and_number_of_caveats_are_limited() {
    let mut token = pass();
    for _ in 3..MAX_CAVEATS {
        token = token.attenuate(&"tool build".parse().unwrap()).unwrap();
    }
    assert!(mint().verify(&token, NOW).is_ok());
    assert_eq!(token.attenuate(&"tool build".parse().unwrap()).unwrap_err(), AttenuateError::Full);
    assert_eq!(check_raw(&forced(&token, &["tool build"])).unwrap_err(), PassError::TooLarge);
    assert_eq!(check(&format!("pps_{}", "A".repeat(MAX_TEXT))).unwrap_err(), PassError::TooLarge);
    let many: Vec<String> = (0..900).map(|n| format!("\"tool-number-{n}\"")).collect();
    let huge = grant(&format!("{{\"tools\":{{\"allow\":[{}]}}}}", many.join(",")));
    assert_eq!(mint().mint(spec(huge), NOW).unwrap_err(), MintError::TooLarge);
}

#[test]
fn a_grant_is_written_without_what_it_leaves_out() {
    let json = r#"grant {"tools":{"allow":["git.*"]}}"#;
    assert_eq!(json.parse::<Caveat>().unwrap().to_string(), json);
    for grant in [Grant::nothing(), Grant::everything(), some()] {
        let caveat = Caveat::Grant(Box::new(grant));
        assert_eq!(caveat.to_string().parse::<Caveat>().unwrap(), caveat);
    }
    assert_eq!(Caveat::Grant(Box::new(Grant::nothing())).to_string(), "grant {}");
}

#[test]
fn a_pass_that_was_read_before_still_expires_and_still_needs_its_signature() {
    let (mint, token) = (mint(), pass());
    for _ in 0..3 {
        assert!(mint.verify(&token, NOW).is_ok());
        assert_eq!(mint.verify(&token, NOW + DEFAULT_LIFE).unwrap_err(), PassError::Expired);
    }
    let mut bytes = raw(&token);
    bytes[10] ^= 1;
    let changed = PassToken::parse(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))).unwrap();
    assert_eq!(mint.verify(&changed, NOW).unwrap_err(), PassError::Forged);
}

#[test]
fn nothing_secret_is_printed() {
    let token = pass();
    assert_eq!(format!("{token:?} {:?}", mint()), "PassToken(***) Mint(***)");
    assert_eq!(redact::Redactor::new().scrub(&format!("got {}", text(&token))), "got ***");
}
