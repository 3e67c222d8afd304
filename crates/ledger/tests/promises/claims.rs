//! LED-07 and LED-08: claims no stronger than the evidence; trust from outside.

use ledger::verify::{Authorization, BadTrust, Claim, Evidence, Kind, Time, Trust, Verdict, verify};

use crate::kit::{Book, chain_key, draft, keys};

#[test]
fn led_07_sixteen_combinations_of_evidence_give_no_stronger_claim() {
    for bits in 0..16u8 {
        let has = |bit: u8| bits & (1 << bit) != 0;
        let (intact, anchored, signed, attested) = (has(0), has(1), has(2), has(3));
        let evidence = Evidence { intact, anchored, signed, attested };
        let claim = match (intact, anchored, signed) {
            (true, true, true) => Claim::TamperEvident,
            (true, _, _) => Claim::TamperDetecting,
            (false, _, _) => Claim::None,
        };
        assert_eq!(evidence.claim(), claim, "{evidence:?}");
        let time = if intact && anchored && signed && attested { Time::Attested } else { Time::Asserted };
        assert_eq!(evidence.time(), time, "{evidence:?}");
    }
}

#[test]
fn led_07_a_ledger_is_tamper_evident_only_while_anchored_to_its_end() {
    let book = Book::new().written(10, 5);
    assert_eq!((book.check().verdict, book.check().claim), (Verdict::Intact, Claim::TamperDetecting));
    let anchors = book.anchors();
    let report = book.check_with_anchor(&anchors);
    assert_eq!(
        (report.claim, report.time, report.anchored),
        (Claim::TamperEvident, Time::Asserted, Some(10))
    );
    assert_eq!(report.authorization, Authorization::Recorded);

    let timed = format!("{} 1700000000999\n", anchors.trim_end());
    assert_eq!(book.check_with_anchor(&timed).time, Time::Attested);

    let first_only = anchors.lines().next().unwrap();
    let report = book.check_with_anchor(first_only);
    assert_eq!(
        (report.verdict, report.claim, report.anchored),
        (Verdict::Intact, Claim::TamperDetecting, Some(5))
    );

    let ledger = book.open();
    ledger.append(draft("after the anchor")).unwrap();
    assert_eq!(book.check_with_anchor(&anchors).claim, Claim::TamperDetecting);
    drop(ledger);
}

#[test]
fn led_07_an_anchor_of_something_else_is_a_roll_back() {
    let book = Book::new().written(10, 5);
    let report = book.check_with_anchor(&format!("2 {}", "ab".repeat(32)));
    crate::kit::assert_found(&report, Kind::RolledBack, 10);
    assert_eq!(report.claim, Claim::None);
}

#[test]
fn led_08_a_key_shipped_inside_the_bundle_is_ignored() {
    let book = Book::new().written(10, 5);
    let inside = crate::kit::trust().to_json().unwrap();
    for name in ["trust.json", "trust", "keys.json", "segments/trust.json"] {
        std::fs::write(book.dir().join(name), &inside).unwrap();
    }
    let report = verify(&book.dir(), &Trust::default(), Some(&chain_key()), None);
    assert_eq!(report.verdict, Verdict::Unverifiable);
    assert_eq!(report.claim, Claim::None);
}

#[test]
fn led_08_a_trust_root_is_read_strictly() {
    let public = hex::encode(keys().public_key());
    let key = |id: &str, algorithm: &str, public: &str, more: &str| {
        format!(r#"{{"id":"{id}","algorithm":"{algorithm}","public":"{public}","status":"active"{more}}}"#)
    };
    let read = |keys: &[String]| Trust::from_json(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes());
    assert!(read(&[key("a", "ed25519", &public, "")]).is_ok());
    assert!(matches!(read(&[key("a", "rsa", &public, "")]), Err(BadTrust::Algorithm { .. })));
    assert!(matches!(read(&[key("a", "ed25519", "00", "")]), Err(BadTrust::Key(_))));
    assert!(matches!(read(&[key("a", "ed25519", &"00".repeat(32), "")]), Err(BadTrust::Key(_))));
    assert!(matches!(read(&[key("a", "ed25519", &public, r#","extra":1"#)]), Err(BadTrust::Json(_))));
    let twice = key("a", "ed25519", &public, "");
    assert!(matches!(read(&[twice.clone(), twice]), Err(BadTrust::Twice(_))));
}
