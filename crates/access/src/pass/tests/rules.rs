//! What a Pass may and may not become.

use model::Budget;

use super::*;

#[test]
fn a_pass_carries_what_it_was_minted_for() {
    let (mint, spec) = (mint(), spec(some()));
    let (id, user) = (spec.id, spec.user);
    let verified = check(&text(&mint.mint(spec, NOW).unwrap())).unwrap();
    assert_eq!((verified.ids(), verified.id(), verified.user()), (&[id][..], id, user));
    assert_eq!((verified.grant(), verified.expires()), (&some(), NOW + DEFAULT_LIFE));
}

#[test]
fn acc_10_widening_is_refused_at_mint_and_at_use() {
    let token = pass();
    let later = format!("before {}", NOW + DEFAULT_LIFE + 1);
    let user = format!("user {}", UserId::random());
    let cases = [
        "path rw:/",
        "path rw:/usr",
        "path ro:/etc",
        "path rw:/work/.git",
        "host **",
        "host **.example.org",
        "host evil.org",
        "tool *",
        "tool deploy",
        "secret *",
        "secret prod.key",
        "depth 3",
        "budget {\"tokens\":1001}",
        "budget {\"wall_ms\":1001}",
        r#"grant {"tools":{"allow":["*"]}}"#,
        r#"grant {"paths":{"allow":["rw:/work"]}}"#,
        r#"grant {"depth":3}"#,
        &later,
        &user,
    ];
    for case in cases {
        let caveat: Caveat = case.parse().unwrap();
        let refused = AttenuateError::WouldWiden(caveat.word());
        assert_eq!(token.attenuate(&caveat).unwrap_err(), refused, "{case}");
        assert_eq!(check_raw(&forced(&token, &[case])).unwrap_err(), PassError::WouldWiden, "{case}");
    }
    // Narrow first, then take it back.
    let pairs = [
        ("path ro:/work/src", "path rw:/work/src"),
        ("host a.example.org", "host *.example.org"),
        ("tool build", "tool git.*"),
        ("depth 0", "depth 1"),
        ("budget {\"tokens\":5}", "budget {\"tokens\":6}"),
        ("before 1760000000002", "before 1760000000003"),
    ];
    for (narrow, wide) in pairs {
        let narrowed = token.attenuate(&narrow.parse().unwrap()).unwrap();
        assert!(narrowed.attenuate(&wide.parse().unwrap()).is_err(), "{wide}");
        assert_eq!(check_raw(&forced(&token, &[narrow, wide])).unwrap_err(), PassError::WouldWiden, "{wide}");
    }
}

#[test]
fn every_narrowing_counts() {
    let token = pass();
    let cases = [
        ("path ro:/work/src", r#"{"paths":{"allow":["ro:/work/src"],"deny":["rw:/work/.git"]}}"#),
        ("host api.example.org:443", r#"{"hosts":{"allow":["api.example.org:443"]}}"#),
        ("tool git.read", r#"{"tools":{"allow":["git.read"]}}"#),
        ("secret ci.token", r#"{"secrets":{"allow":["ci.token"]}}"#),
    ];
    for (caveat, expected) in cases {
        let caveat: Caveat = caveat.parse().unwrap();
        let verified = mint().verify(&token.attenuate(&caveat).unwrap(), NOW).unwrap();
        let (got, expected) = (verified.grant(), grant(expected));
        match caveat.word() {
            "path" => assert_eq!(*got, Grant { paths: expected.paths, ..some() }),
            "host" => assert_eq!(*got, Grant { hosts: expected.hosts, ..some() }),
            "tool" => assert_eq!(*got, Grant { tools: expected.tools, ..some() }),
            _ => assert_eq!(*got, Grant { secrets: expected.secrets, ..some() }),
        }
    }
    let budget = Budget { tokens: 5, ..Budget::default() };
    let token = token.attenuate(&Caveat::Budget(budget)).unwrap().attenuate(&Caveat::Depth(0)).unwrap();
    let token = token.attenuate(&Caveat::Before(NOW + 5)).unwrap();
    let verified = mint().verify(&token, NOW).unwrap();
    assert_eq!((verified.grant().budget, verified.grant().depth, verified.expires()), (budget, 0, NOW + 5));
    assert_eq!(mint().verify(&token, NOW + 5).unwrap_err(), PassError::Expired);
}

#[test]
fn acc_10_a_pass_lives_an_hour_unless_told_and_thirty_days_at_most() {
    let mint = mint();
    let token = pass();
    assert!(mint.verify(&token, NOW + DEFAULT_LIFE - 1).is_ok());
    assert_eq!(mint.verify(&token, NOW + DEFAULT_LIFE).unwrap_err(), PassError::Expired);
    let until = |expires| mint.mint(PassSpec { expires: Some(expires), ..spec(some()) }, NOW);
    assert!(until(NOW + MAX_LIFE).is_ok());
    assert_eq!(until(NOW + MAX_LIFE + 1).unwrap_err(), MintError::TooLong);
    assert_eq!(until(Millis::MAX).unwrap_err(), MintError::TooLong);
    assert_eq!(until(NOW).unwrap_err(), MintError::AlreadyOver);
    assert_eq!(until(-1).unwrap_err(), MintError::AlreadyOver);
}

#[test]
fn acc_11_a_derived_pass_names_all_it_was_made_from() {
    let mint = mint();
    let root = mint.mint(spec(some()), NOW).unwrap();
    let user = mint.verify(&root, NOW).unwrap().user();
    let made = |parent, grant, expires| PassSpec {
        id: PassId::random(),
        user,
        grant,
        expires,
        parent: Some(parent),
    };
    let at_depth = |depth| Grant { depth, ..some() };

    let child = mint.mint(made(&root, at_depth(1), None), NOW + 1000).unwrap();
    let grandchild = mint.mint(made(&child, at_depth(0), None), NOW + 1000).unwrap();
    let (a, b, c) = (
        mint.verify(&root, NOW).unwrap(),
        mint.verify(&child, NOW).unwrap(),
        mint.verify(&grandchild, NOW).unwrap(),
    );
    assert_eq!(c.ids(), [a.id(), b.id(), c.id()]);
    assert_eq!(b.ids(), [a.id(), b.id()]);
    assert_eq!(
        (c.user(), c.expires(), c.grant().depth),
        (user, NOW + DEFAULT_LIFE, 0),
        "cut to its parent's end"
    );

    let refused = |parent, grant, expires| mint.mint(made(parent, grant, expires), NOW).unwrap_err();
    assert_eq!(refused(&grandchild, at_depth(0), None), MintError::LastDepth);
    assert_eq!(refused(&root, at_depth(2), None), MintError::WouldWiden, "as deep as its parent");
    assert_eq!(refused(&root, Grant::everything(), None), MintError::WouldWiden);
    assert_eq!(refused(&root, at_depth(1), Some(NOW + DEFAULT_LIFE + 1)), MintError::WouldWiden);
    let stranger = PassSpec { parent: Some(&root), ..spec(at_depth(1)) };
    assert_eq!(mint.mint(stranger, NOW).unwrap_err(), MintError::WouldWiden, "another user");
    assert_eq!(
        mint.mint(made(&root, at_depth(1), None), NOW + DEFAULT_LIFE).unwrap_err(),
        MintError::Parent(PassError::Expired)
    );
    let alien = Mint::new(&Secret::new([8; 32])).mint(spec(some()), NOW).unwrap();
    assert_eq!(refused(&alien, at_depth(1), None), MintError::Parent(PassError::Forged));

    // By hand, as a foreign library would.
    let id = format!("id {}", PassId::random());
    assert_eq!(check_raw(&forced(&grandchild, &[&id])).unwrap_err(), PassError::LastDepth);
    let again = format!("id {}", a.id());
    assert_eq!(check_raw(&forced(&root, &[&again])).unwrap_err(), PassError::WouldWiden);
}
