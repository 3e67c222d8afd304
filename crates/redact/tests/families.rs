//! SEC-12 and SEC-13: every family is masked wherever it stands; what is no secret stays.

mod common;

use std::borrow::Cow;

use common::{KEPT, PLACES, SECRETS, SHAPES};
use redact::Redactor;

#[test]
fn sec_12_every_family_is_masked_in_every_place() {
    let redactor = Redactor::new();
    let mut missed = Vec::new();
    for (kind, secret) in SECRETS {
        for place in PLACES {
            let text = place.replace("{}", secret);
            let scrubbed = redactor.scrub(&text);
            // No eight bytes in a row may survive.
            let leaks = secret
                .as_bytes()
                .windows(8)
                .any(|part| scrubbed.as_bytes().windows(8).any(|seen| seen == part));
            if leaks {
                missed.push(format!("{kind} in `{place}`: {scrubbed}"));
            }
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {}:\n{}",
        missed.len(),
        SECRETS.len() * PLACES.len(),
        missed.join("\n")
    );
}

#[test]
fn sec_12_what_stands_around_a_token_stays() {
    let redactor = Redactor::new();
    for (kind, secret) in SECRETS.iter().filter(|(kind, _)| !kind.contains("without signature")) {
        for place in ["a {} b", "\"{}\"", "({})", "[\"x\",\"{}\"]", "früher {} später"] {
            assert_eq!(redactor.scrub(&place.replace("{}", secret)), place.replace("{}", "***"), "{kind}");
        }
    }
}

#[test]
fn sec_12_shapes_are_masked_exactly() {
    let redactor = Redactor::new();
    let mut wrong = Vec::new();
    for (text, gone, left) in SHAPES {
        let scrubbed = redactor.scrub(text);
        if scrubbed != *left || gone.iter().any(|secret| scrubbed.contains(secret)) {
            wrong.push(format!("{text:?}\n  gave {scrubbed:?}\n  not  {left:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), SHAPES.len(), wrong.join("\n"));
}

#[test]
fn sec_13_what_is_not_secret_stays() {
    let redactor = Redactor::new();
    let mut touched = Vec::new();
    for text in KEPT {
        let scrubbed = redactor.scrub(text);
        if scrubbed != *text {
            touched.push(format!("{text:?}\n  gave {scrubbed:?}"));
        }
    }
    assert!(touched.is_empty(), "{} of {}:\n{}", touched.len(), KEPT.len(), touched.join("\n"));
}

#[test]
fn sec_13_untouched_text_is_not_copied() {
    assert!(matches!(Redactor::new().scrub("nothing to see"), Cow::Borrowed(_)));
}

#[test]
fn sec_14_masking_twice_changes_nothing() {
    let redactor = Redactor::new();
    let places =
        SECRETS.iter().flat_map(|(_, secret)| PLACES.iter().map(move |place| place.replace("{}", secret)));
    for text in places.chain(SHAPES.iter().map(|(text, ..)| (*text).to_owned())) {
        let once = redactor.scrub(&text).into_owned();
        assert_eq!(redactor.scrub(&once), once, "{text:?}");
    }
}

#[test]
fn sec_12_a_token_is_masked_whatever_it_is_glued_to() {
    let token = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GaBcDe.aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA";
    for before in ["/nowhere-", "a_", "dir/x-", "k="] {
        let scrubbed = redact::Redactor::new().scrub(&format!("cat {before}{token} end")).into_owned();
        assert_eq!(scrubbed, format!("cat {before}*** end"));
    }
}
