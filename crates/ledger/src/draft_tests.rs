//! Drafts are bounded and readable back, whatever they hold.

use proptest::prelude::*;

use super::*;
use crate::entry::{Place, parse, write_line};
use crate::keys::{ChainKey, GENESIS};

fn line_of(draft: &Draft) -> Vec<u8> {
    let key = ChainKey::new(zeroize::Zeroizing::new([1; 32]));
    let body = draft.encode(&own_words());
    let mut out = Vec::new();
    write_line(
        &mut out,
        Place { seq: u64::MAX, at: i64::MIN, checkpoint: u64::MAX, prev: GENESIS },
        &body.bytes,
        &key,
    );
    assert_eq!(out.pop(), Some(b'\n'));
    out
}

proptest! {
    #[test]
    fn any_texts_make_one_line_that_reads_back(who in ".*", resource in "\\PC*", cause in "(?s).*", name in ".*", value in "(?s).*") {
        let draft = Draft::new(who.clone(), "act", Decision::Done).on(resource).because(cause.clone()).with(name, value.clone());
        let line = line_of(&draft);
        prop_assert!(!line.contains(&b'\n') && !line.iter().any(u8::is_ascii_control));
        let (entry, _) = parse(&line).unwrap();
        prop_assert_eq!(entry.who, who);
        prop_assert_eq!(entry.cause, cause);
        prop_assert!(entry.detail.values().any(|it| *it == value));
    }

    #[test]
    fn however_large_a_draft_its_line_fits_and_reads_back(size in 0usize..200_000, letter in prop::sample::select(vec!['a', '"', '\u{1}', 'é', '😀'])) {
        let text: String = std::iter::repeat_n(letter, size.min(30_000)).collect();
        let mut draft = Draft::new(text.clone(), text.clone(), Decision::Noted).on(text.clone()).because(text.clone());
        for number in 0..60 {
            draft = draft.with(format!("{number}{}", &text.chars().take(100).collect::<String>()), text.clone());
        }
        let line = line_of(&draft);
        prop_assert!(line.len() <= MAX_LINE, "{}", line.len());
        let (entry, _) = parse(&line).unwrap();
        prop_assert!(entry.detail.contains_key("cut"));
    }
}

#[test]
fn a_long_text_is_cut_visibly_at_a_whole_character() {
    for (text, max, expected) in [
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghijk", 10, "abcde[cut]"),
        ("ééééééé", 10, "éé[cut]"),
        ("", 10, ""),
    ] {
        let mut out = Vec::new();
        escape(&mut out, text, max);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn what_cannot_be_seen_is_written_out_and_reads_back() {
    let text = "a\u{200b}b\u{e0041}c\u{2764}\u{fe0f}\u{3164}";
    let mut out = Vec::new();
    escape(&mut out, text, 100);
    let written = String::from_utf8(out).unwrap();
    assert_eq!(written, "a\\u200bb\\udb40\\udc41c\u{2764}\\ufe0f\\u3164");
    assert_eq!(serde_json::from_str::<String>(&format!("\"{written}\"")).unwrap(), text);
}

/// Who and what stay readable, whatever somebody calls a secret; what callers wrote does not.
#[test]
fn sec_16_no_value_takes_our_own_words_away() {
    let mask: Scrub = Box::new(|_| "***".to_owned());
    let id = |kind: &str| format!("{kind}_{}", "0a".repeat(16));
    let who = format!("{}/{}", id("usr"), id("pas"));
    let draft = Draft::new(who.clone(), "secret.add", Decision::Refused).on(id("wt")).because("said so");
    let body = String::from_utf8(draft.encode(&mask).bytes).unwrap();
    for kept in [who.as_str(), "\"secret.add\"", &id("wt"), Decision::Refused.word()] {
        assert!(body.contains(kept), "{body}");
    }
    assert!(!body.contains("said so"), "{body}");
    for other in ["someone@a.example", "usr_0a", &id("USR"), &format!("npm_{}", "aB3".repeat(12)), ""] {
        let body = String::from_utf8(Draft::new(other, "act", Decision::Done).encode(&mask).bytes).unwrap();
        assert!(body.contains("\"who\":\"***\""), "{body}");
    }
}
