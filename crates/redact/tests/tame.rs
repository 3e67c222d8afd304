//! What acts on the viewer's terminal is taken out of output that is kept; colours stay.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::borrow::Cow;
use std::io::Write;

use proptest::prelude::*;
use redact::{Redactor, Sink, Tame, tame};

use common::{PLACES, SECRETS, SHAPES};

const ACTS: &[(&str, &str)] = &[
    // Clipboard, title, hyperlink.
    ("a\x1b]52;c;aGVsbG8=\x07b", "a␛]52;c;aGVsbG8=␇b"),
    ("\x1b]0;title\x07", "␛]0;title␇"),
    ("\x1b]8;;http://x.org\x1b\\text\x1b]8;;\x1b\\", "␛]8;;http://x.org␛\\text␛]8;;␛\\"),
    // Answers: title, device, status, enquiry.
    ("\x1b[21t", ""),
    ("\x1b[c\x1b[6n\x05", "␅"),
    ("\x1bP+q544e\x1b\\", "␛P+q544e␛\\"),
    ("\x1b_x\x1b\\\x1b^y\x1b\\\x1bXz\x1b\\", "␛_x␛\\␛^y␛\\␛Xz␛\\"),
    // Cursor and erasing: what was shown stays to be seen.
    ("gone\x1b[2K\x1b[1A\x1b[2J", "gone"),
    ("\x1bc\x1b7\x1b(0", "␛c␛7␛(0"),
    ("\x08\x0e\x7f\0", "␈␎␡␀"),
    // The same in one character above ASCII.
    ("\u{9d}52;c;x\u{9c}\u{9b}2J", "\u{fffd}52;c;x\u{fffd}\u{fffd}2J"),
    // Cut or hidden in each other.
    ("\x1b", "␛"),
    ("\x1b[31", "␛[31"),
    ("\x1b\x1b[2K]52;c;x", "␛]52;c;x"),
    ("\x1b[\x1b[0m", "␛[\x1b[0m"),
];

const STAYS: &[&str] = &[
    "plain\ttext\r\n",
    "\x1b[31mred\x1b[0m \x1b[1;38;5;12mblue\x1b[m \x1b[38:2::1:2:3mtrue",
    "früher, © 2026, 中文, \u{a0}",
    "",
];

fn streamed(text: &[u8], size: usize) -> Vec<u8> {
    let mut writer = Tame::new(Vec::new());
    for part in text.chunks(size) {
        writer.write_all(part).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn what_acts_on_a_terminal_is_neutral_and_colours_stay() {
    for (text, expected) in ACTS {
        assert_eq!(String::from_utf8_lossy(&tame(text.as_bytes())), *expected, "{text:?}");
        for size in 1..6 {
            assert_eq!(
                String::from_utf8_lossy(&streamed(text.as_bytes(), size)),
                *expected,
                "{text:?} by {size}"
            );
        }
    }
    for text in STAYS {
        assert_eq!(String::from_utf8_lossy(&tame(text.as_bytes())), *text);
    }
    assert!(matches!(tame("nothing to do".as_bytes()), Cow::Borrowed(_)));
}

#[test]
fn a_token_with_cursor_movements_in_it_is_seen_whole_by_the_sink() {
    let text = "a ghp_16C7e42F\x1b[2K292c6912\x1b[1CE7710c838347Ae178B4a b";
    let mut writer = Tame::new(Sink::new(Redactor::new(), Vec::new()));
    writer.write_all(text.as_bytes()).unwrap();
    let out = writer.finish().and_then(Sink::finish).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "a *** b");
}

/// SEC-16: whoever masks first and tames afterwards leaves nothing together that was apart.
#[test]
fn a_token_with_any_sequence_in_it_is_masked_before_it_is_joined() {
    for sequence in
        ["\x1b[1C", "\x1b[J", "\x1b[?25l", "\x1b[2 q", "\x1b[;H", "\x1b[>4;1m", "\x1b[!p\x1b[C", "\x1b[~"]
    {
        let text = format!("a ghp_16C7e42F{sequence}292c6912E7710c838347Ae178B4a b");
        let masked = Redactor::new().scrub(&text).into_owned();
        assert_eq!(String::from_utf8_lossy(&tame(masked.as_bytes())), "a *** b", "{sequence:?}");
    }
}

proptest! {
    #[test]
    fn nothing_that_acts_is_left_however_it_came(
        text in proptest::collection::vec(prop_oneof![
            Just(0x1b_u8), Just(b'['), Just(b'm'), Just(b'1'), Just(b';'), Just(b']'), Just(0xc2), Just(0x9b), Just(b'K'), any::<u8>(),
        ], 0..200),
        size in 1..9_usize,
    ) {
        let once = tame(&text).into_owned();
        prop_assert_eq!(&streamed(&text, size), &once);
        prop_assert_eq!(tame(&once).into_owned(), once.clone());
        for (place, byte) in once.iter().enumerate() {
            let is_control = *byte < 0x20 && !b"\t\n\r".contains(byte) || *byte == 0x7f;
            if !is_control {
                continue;
            }
            prop_assert_eq!(*byte, 0x1b);
            let rest = &once[place + 1..];
            let length = rest.iter().skip(1).take_while(|byte| b"0123456789;:".contains(byte)).count();
            prop_assert!(rest[0] == b'[' && rest[1 + length] == b'm');
        }
        prop_assert!(!once.windows(2).any(|pair| pair[0] == 0xc2 && (0x80..0xa0).contains(&pair[1])));
    }
}

/// What is masked beside a colour leaves the colour whole or takes all of it: else what is left would act.
#[test]
fn no_colour_is_torn_by_a_mark() {
    let redactor = Redactor::new();
    let key = "MIIEowIBAAKCAQEAxgNSAa7XVwVh3b1zJ8pQ9rStUvWxYzAbCdEfGhIjKlMnOpQr";
    let all =
        SECRETS.iter().map(|(_, secret)| *secret).chain(SHAPES.iter().map(|(text, ..)| *text)).chain([key]);
    for secret in all {
        for (colour, end) in [("\x1b[31m", "\x1b[0m"), ("\x1b[1;31m", "\x1b[m"), ("\x1b[38;5;12m", "\x1b[0m")]
        {
            for place in PLACES {
                let text = place.replace("{}", &format!("{colour}{secret}{end}"));
                let once = redactor.scrub(&text).into_owned();
                assert_eq!(tame(once.as_bytes()), once.as_bytes(), "{text:?}");
            }
        }
    }
}
