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
    assert_eq!(redactor.learn(b"\n1234567\n890"), Err(LearnError::TooShort), "no line of it is long enough");
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

/// Every way in which programs write text that is not plain.
fn writings(value: &str) -> Vec<(&'static str, String)> {
    let each = |write: &dyn Fn(u8) -> String| -> String { value.bytes().map(write).collect() };
    let pairs: Vec<String> = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let some = |keep: &str, write: &dyn Fn(u8) -> String| -> String {
        value
            .bytes()
            .map(|byte| {
                let plain = byte.is_ascii_alphanumeric() || keep.as_bytes().contains(&byte);
                if plain { char::from(byte).to_string() } else { write(byte) }
            })
            .collect()
    };
    let percent = |byte: u8| format!("%{byte:02X}");
    let once = some("-_.~", &percent);
    let units = |unit: fn(u16) -> [u8; 2]| -> String {
        String::from_utf8_lossy(&value.encode_utf16().flat_map(unit).collect::<Vec<u8>>()).into_owned()
    };
    let json: String = value.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let markup = |quote: &str| {
        let text = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', "&quot;").replace('\'', quote)
    };
    let mut all = vec![
        ("hex with colons", pairs.join(":")),
        ("hex with blanks", pairs.join(" ").to_uppercase()),
        ("hex with hyphens", pairs.join("-")),
        (
            "hex in fours",
            hex::encode(value)
                .as_bytes()
                .chunks(4)
                .map(|four| String::from_utf8_lossy(four))
                .collect::<Vec<_>>()
                .join(" "),
        ),
        ("hex of strings", each(&|byte| format!("\\x{byte:02x}"))),
        ("octal", each(&|byte| format!("\\{byte:03o}"))),
        ("all of a URL", each(&percent)),
        ("all of a URL in lower case", each(&|byte| format!("%{byte:02x}"))),
        ("a URL that keeps slashes", some("-_.~/", &percent)),
        ("a URL that keeps more", some("-_.~/!*'();:@&=+$,?#[]", &percent)),
        ("a form", some("-_.~", &|byte| if byte == b' ' { "+".into() } else { percent(byte) })),
        ("a URL in a URL", once.replace('%', "%25")),
        ("JSON in full", json.clone()),
        ("JSON in JSON in full", json.replace('\\', "\\\\")),
        ("markup", markup("&#39;")),
        ("markup of another kind", markup("&#x27;")),
        ("markup with names", markup("&apos;")),
        ("markup in numbers", value.chars().map(|c| format!("&#{};", u32::from(c))).collect()),
        ("a string of a shell", format!("$'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))),
        ("base64 of base64", STANDARD.encode(STANDARD.encode(value))),
        ("base64 of base64 without padding", STANDARD_NO_PAD.encode(STANDARD_NO_PAD.encode(value))),
        (
            "base64 in a URL",
            STANDARD.encode(value).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"),
        ),
    ];
    if value.is_ascii() {
        all.push(("sixteen bits, little end first", units(u16::to_le_bytes)));
        all.push(("sixteen bits, big end first", units(u16::to_be_bytes)));
    }
    all
}

#[test]
fn sec_12_a_learned_value_is_masked_however_it_is_written() {
    let mut missed = Vec::new();
    for secret in
        SECRETS.iter().chain(&["hunter2hunter2", "it's <b>&\"x\\y", "correct-horse-9-battery/staple"])
    {
        let redactor = Redactor::new();
        redactor.learn(secret.as_bytes()).unwrap();
        for (form, written) in writings(secret) {
            for text in [
                written.clone(),
                format!("it said {written} and went on"),
                format!("{{\"a\":\"{written}\"}}\n"),
            ] {
                let scrubbed = redactor.scrub(&text).into_owned();
                let left = text.len() - written.len() + 6 + 3 * usize::from(form.contains("base64"));
                if !scrubbed.contains("***") || scrubbed.len() > left {
                    missed.push(format!("{secret:?} as {form}: {text:?} gave {scrubbed:?}"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{}:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn sec_12_a_learned_value_is_masked_in_base64_that_is_broken_into_lines() {
    let redactor = Redactor::new();
    let value =
        "correct-horse-9-battery/staple-and-then-some-more-words-to-be-longer-than-a-line-of-base64-is";
    redactor.learn(value.as_bytes()).unwrap();
    for width in [64, 76] {
        for lead in ["", "user:", "{\"a\":1,\"key\":\""] {
            let whole = STANDARD_NO_PAD.encode(format!("{lead}{value}"));
            for end in ["\n", "\\n", "\\r\\n"] {
                let lines: Vec<&str> =
                    whole.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
                let text = lines.join(end);
                let scrubbed = redactor.scrub(&text).into_owned();
                let left = scrubbed.split(['\n', '\\', '*']).map(str::len).max().unwrap();
                // What is too short to hold a piece of the value in its own line may stay.
                assert!(
                    left <= 28.max(lead.len() * 2) && scrubbed.contains("***"),
                    "{text:?} gave {scrubbed:?}"
                );
            }
        }
    }
}

/// Values of letters and digits are searched in runs of such only; one with a sign makes the search go everywhere.
#[test]
fn sec_16_a_value_is_found_wherever_it_stands_whatever_others_are_known() {
    for other in [None, Some(&b"with a sign!"[..])] {
        for value in ["k8sWord1", "zQ4vN7xK2mB9tR5w", "correct-horse-battery-staple-once-more", "a-b_c/d+e"] {
            let redactor = Redactor::new();
            redactor.learn(value.as_bytes()).unwrap();
            if let Some(other) = other {
                redactor.learn(other).unwrap();
            }
            for (before, after) in
                [("", ""), ("x", "y"), ("(", ")"), ("é", "é"), ("-------", "\n"), ("a ", ".b")]
            {
                let text = format!("{before}{value}{after}");
                assert_eq!(redactor.scrub(&text), format!("{before}***{after}"), "{text}");
            }
        }
    }
}

/// Values with many equal bytes have base64 of one kind of letter.
#[test]
fn a_learned_value_is_masked_in_base64_of_capitals_alone() {
    for value in
        [&[0x15, 0, 8, 0, 0, 0, 0, 0, 0][..], b"\xff\xff\xff\xff\xff\xff\x5d\x05\x01\0\0\x3f\x01\x41"]
    {
        let redactor = Redactor::new();
        redactor.learn(value).unwrap();
        for form in [STANDARD_NO_PAD.encode(value), STANDARD.encode(value)] {
            let scrubbed = redactor.scrub(&form).into_owned();
            assert!(scrubbed.starts_with("***"), "{form} gave {scrubbed}");
        }
    }
}

/// A few values have base64 without a capital, as names have none.
#[test]
fn sec_12_a_learned_value_is_masked_in_base64_without_capitals() {
    for value in [&[0xff; 8][..], b"jozjozjozjozjoz"] {
        let redactor = Redactor::new();
        redactor.learn(value).unwrap();
        for form in [STANDARD_NO_PAD.encode(value), URL_SAFE_NO_PAD.encode(value)] {
            assert!(!form.contains(|letter: char| letter.is_ascii_uppercase()), "{form}");
            assert_eq!(redactor.scrub(&format!("it said {form} here")), "it said *** here", "{form}");
        }
    }
}

#[test]
fn sec_12_every_line_of_a_learned_value_is_masked_as_a_shell_writes_it() {
    let redactor = Redactor::new();
    redactor.learn(b"first line's\nit's the 2nd").unwrap();
    for form in ["first line'\\''s\nit'\\''s the 2nd", "first\\ line\\'s\nit\\'s\\ the\\ 2nd"] {
        assert_eq!(redactor.scrub(form), "***\n***", "{form}");
    }
}

#[test]
fn sec_12_a_learned_value_is_masked_in_json_with_short_and_with_long_escapes() {
    let redactor = Redactor::new();
    redactor.learn(b"form\x0cfeed\x08and\x01more").unwrap();
    for form in ["form\\ffeed\\band\\u0001more", "form\\u000cfeed\\u0008and\\u0001more"] {
        assert_eq!(redactor.scrub(form), "***", "{form}");
    }
}
