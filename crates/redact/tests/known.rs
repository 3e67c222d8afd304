//! Exact values, made known at run time, in every form they travel in.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use redact::{LearnError, Redactor};

const SECRETS: &[&str] = &["correct horse", "aaaa/bbbb+c=d&e", "p\"q\\r-stu", "zwölf Boxkämpfer", "12345678"];

#[test]
fn a_learned_value_is_masked_in_every_form() {
    for secret in SECRETS {
        let redactor = Redactor::new();
        redactor.learn(secret.as_bytes()).unwrap();
        let mut forms = vec![(*secret).to_owned(), hex::encode(secret), hex::encode_upper(secret)];
        for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
            for (before, after) in
                [("", ""), ("u", ""), ("us", ""), ("usr", "x"), ("user:", "xy"), ("me@x.org:", "\n")]
            {
                forms.push(engine.encode(format!("{before}{secret}{after}")));
            }
        }
        for form in &forms {
            let scrubbed = redactor.scrub(form).into_owned();
            assert!(scrubbed.contains("***"), "{form} gave {scrubbed}");
        }
        // Alone, nothing at all is left but padding.
        for form in [
            secret.to_string(),
            STANDARD_NO_PAD.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
            hex::encode(secret),
        ] {
            assert_eq!(redactor.scrub(&form), "***", "{form}");
        }
    }
}

#[test]
fn json_and_url_forms_are_masked() {
    let redactor = Redactor::new();
    redactor.learn(b"p\"q\\r s/t\nu").unwrap();
    for form in
        ["p\\\"q\\\\r s/t\\nu", "p%22q%5Cr%20s%2Ft%0Au", "p%22q%5cr%20s%2ft%0au", "p%22q%5Cr+s%2Ft%0Au"]
    {
        assert_eq!(redactor.scrub(form), "***", "{form}");
    }
    assert_eq!(redactor.scrub("a p\"q\\r s/t b"), "a *** b", "one line of it, alone");
}

#[test]
fn a_long_value_is_masked_whole_wherever_it_starts() {
    let value: String = (0..3000).map(|n| char::from(b'a' + u8::try_from(n * n % 23).unwrap())).collect();
    let redactor = Redactor::new();
    redactor.learn(value.as_bytes()).unwrap();
    for text in [format!("x{value}y"), format!("x{}y", hex::encode(&value))] {
        assert_eq!(redactor.scrub(&text), "x***y");
    }
}

#[test]
fn clones_share_what_is_learned_and_too_short_values_are_refused() {
    let redactor = Redactor::new();
    let clone = redactor.clone();
    assert_eq!(redactor.learn(b"1234567"), Err(LearnError::TooShort));
    assert_eq!(redactor.learn_all(&[b"long enough", b"short"]), Err(LearnError::TooShort));
    assert_eq!(clone.scrub("long enough"), "long enough");
    redactor.learn(b"long enough").unwrap();
    assert_eq!(clone.scrub("is long enough?"), "is ***?");
    assert_eq!(format!("{redactor:?}"), "Redactor(***)");
}

#[test]
fn values_learned_at_once_by_many_threads_are_all_kept() {
    let redactor = Redactor::new();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let redactor = redactor.clone();
            scope.spawn(move || {
                (0..8).for_each(|n| redactor.learn(format!("value-{thread}-{n}-end").as_bytes()).unwrap())
            });
        }
    });
    for (thread, n) in (0..8).flat_map(|thread| (0..8).map(move |n| (thread, n))) {
        assert_eq!(redactor.scrub(&format!("value-{thread}-{n}-end")), "***");
    }
}

#[test]
fn touching_values_become_one_mark() {
    let redactor = Redactor::new();
    redactor.learn_all(&[b"abcdefgh", b"fghijklm"]).unwrap();
    assert_eq!(redactor.scrub("-abcdefghijklm-"), "-***-");
    assert_eq!(redactor.scrub("-abcdefghabcdefgh-"), "-***-");
}

#[test]
fn shell_forms_are_masked() {
    let redactor = Redactor::new();
    redactor.learn(b"it's $5 \"a b\"").unwrap();
    for form in [
        "'it'\\''s $5 \"a b\"'",
        "'it'\"'\"'s $5 \"a b\"'",
        "it\\'s\\ \\$5\\ \\\"a\\ b\\\"",
        "\"it's \\$5 \\\"a b\\\"\"",
    ] {
        let scrubbed = redactor.scrub(form).into_owned();
        assert!(scrubbed.trim_matches(['\'', '"']) == "***", "{form} gave {scrubbed}");
    }
}

#[test]
fn sec_06_a_value_is_forgotten_when_its_last_lease_ends() {
    let redactor = Redactor::new();
    redactor.learn(b"one-lease-value").unwrap();
    redactor.learn_all(&[b"two-leases-value", b"two-leases-value"]).unwrap();
    redactor.forget_all(&[b"one-lease-value", b"two-leases-value", b"never-learned-value"]);
    assert_eq!(redactor.scrub("one-lease-value two-leases-value"), "one-lease-value ***");
    redactor.forget(b"two-leases-value");
    assert_eq!(redactor.scrub("two-leases-value"), "two-leases-value");
}

#[test]
fn sec_15_a_piece_of_a_long_value_is_masked() {
    let redactor = Redactor::new();
    let value = "correct-horse-battery-staple-and-then-some-more-words-to-be-long";
    redactor.learn(value.as_bytes()).unwrap();
    assert_eq!(redactor.scrub(&format!("cut: {}", &value[..value.len() - 5])), "cut: ***");
    assert_eq!(redactor.scrub(&format!("cut: {}!", &value[5..])), "cut: ***!");
    assert_eq!(redactor.scrub("correct-horse"), "correct-horse");
}

#[test]
fn ten_thousand_values_are_all_found_and_nothing_else() {
    let redactor = Redactor::new();
    let values: Vec<String> = (0..10_000).map(|n| format!("shared-beginning-{n:05}-shared-end")).collect();
    let bytes: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
    redactor.learn_all(&bytes).unwrap();
    for value in values.iter().step_by(97) {
        assert_eq!(redactor.scrub(&format!("a {value} b")), "a *** b");
        assert_eq!(redactor.scrub(&hex::encode(value)), "***");
        assert_eq!(redactor.scrub(&STANDARD_NO_PAD.encode(value)), "***");
    }
    assert_eq!(redactor.scrub("shared-beginning- and shared-end"), "shared-beginning- and shared-end");
    redactor.learn(b"8 bytes!").unwrap();
    assert_eq!(redactor.scrub("x8 bytes!y shared-beginning-00007-shared-end"), "x***y ***");
}

#[test]
fn a_value_with_lines_is_found_encoded_as_a_whole() {
    let redactor = Redactor::new();
    let value = "first line\nsecond line\n3rd";
    redactor.learn(value.as_bytes()).unwrap();
    for form in [STANDARD_NO_PAD.encode(value), hex::encode(value), value.replace('\n', "\\n")] {
        assert_eq!(redactor.scrub(&form), "***", "{form}");
    }
    assert_eq!(redactor.learn(&vec![b'a'; 70_000]), Err(LearnError::TooLong));
}
