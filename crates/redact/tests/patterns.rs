//! SEC-17: people add patterns without risk.

use std::io::Write;

use redact::{BadPattern, Flaw, Redactor, Sink};

#[test]
fn sec_17_a_pattern_masks_what_it_matches() {
    let redactor = Redactor::new();
    assert_eq!(redactor.set_patterns(["acme-[0-9]{4}", r"^internal: .*$", r"\bx\w+z\b"]), []);
    let text = "an acme-1234, acme-12\ninternal: all of it\n internal: no\nxyz xy\n";
    assert_eq!(redactor.scrub(text), "an ***, acme-12\n***\n internal: no\n*** xy\n");
}

#[test]
fn sec_17_a_bad_pattern_is_told_by_its_place_and_the_others_hold() {
    let redactor = Redactor::new();
    let long = "a".repeat(5000);
    let list = ["good[0-9]+", "bad-secret-text(", "x*", r"(a)\1", "(?:a{500}){500}", &long, "also-good"];
    let bad = redactor.set_patterns(list);
    let expected = [
        (1, Flaw::Syntax),
        (2, Flaw::MatchesNothing),
        (3, Flaw::Syntax),
        (4, Flaw::TooLarge),
        (5, Flaw::TooLong),
    ];
    assert_eq!(bad, expected.map(|(index, flaw)| BadPattern { index, flaw }));
    for one in &bad {
        assert!(!format!("{one} {one:?}").contains("secret"), "{one}");
        assert!(one.to_string().contains(&one.index.to_string()), "{one}");
    }
    assert_eq!(redactor.scrub("good12 also-good x"), "*** *** x");
    let many: Vec<String> = (0..300).map(|n| format!("word{n}x")).collect();
    let bad = redactor.set_patterns(many.iter().map(String::as_str));
    assert_eq!(bad.len(), 44);
    assert_eq!(bad.first(), Some(&BadPattern { index: 256, flaw: Flaw::TooMany }));
}

#[test]
fn sec_17_a_change_holds_from_the_next_line_on() {
    let redactor = Redactor::new();
    let mut sink = Sink::new(redactor.clone(), Vec::new());
    sink.write_all(b"acme-1 other-1\n").unwrap();
    assert_eq!(redactor.set_patterns(["acme-[0-9]"]), []);
    sink.write_all(b"acme-2 other-2\n").unwrap();
    assert_eq!(redactor.set_patterns(["other-[0-9]"]), []);
    sink.write_all(b"acme-3 other-3\n").unwrap();
    assert_eq!(redactor.set_patterns([]), []);
    sink.write_all(b"acme-4 other-4\n").unwrap();
    let out = String::from_utf8(sink.finish().unwrap()).unwrap();
    assert_eq!(out, "acme-1 other-1\n*** other-2\nacme-3 ***\nacme-4 other-4\n");
}

#[test]
fn sec_17_a_match_longer_than_a_look_is_masked_to_the_next_blank() {
    let redactor = Redactor::new();
    assert_eq!(redactor.set_patterns(["acme-[a-z]+"]), []);
    for lead in [0, 100, 2000, 4090, 6000] {
        let text = format!("{}acme-{} end", "w ".repeat(lead / 2), "ab".repeat(10_000));
        assert!(redactor.scrub(&text) == format!("{}*** end", "w ".repeat(lead / 2)), "{lead}");
    }
}

#[test]
fn sec_15_patterns_do_not_depend_on_how_a_stream_was_cut() {
    let redactor = Redactor::new();
    assert_eq!(redactor.set_patterns(["acme-[0-9]{4}", "^start", "end$"]), []);
    let text = b"start acme-1234 end\nno start end.\nstart acme-9999 end";
    let whole = redactor.scrub_bytes(text).into_owned();
    assert_eq!(whole, b"*** *** ***\nno start end.\n*** *** ***");
    for cut in 0..text.len() {
        let mut sink = Sink::new(redactor.clone(), Vec::new());
        sink.write_all(&text[..cut]).unwrap();
        sink.write_all(&text[cut..]).unwrap();
        assert_eq!(sink.finish().unwrap(), whole, "{cut}");
    }
}
