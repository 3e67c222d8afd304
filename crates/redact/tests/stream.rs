//! SEC-15: cutting a secret does not hide it, and the result does not depend on the cut.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/seeds.rs"]
mod seeds;
#[path = "common/streamed.rs"]
mod streamed;

use std::io::Write;
use std::time::{Duration, Instant};

use common::{KEPT, SECRETS, SHAPES};
use proptest::prelude::*;
use redact::{Redactor, Sink};
use streamed::streamed;

fn samples() -> Vec<String> {
    let alone = SECRETS.iter().map(|(_, secret)| format!("before {secret} after\nnext line\n"));
    alone.chain(SHAPES.iter().map(|(text, ..)| format!("x\n{text}"))).collect()
}

#[test]
fn sec_15_each_secret_split_at_every_byte_is_masked_as_a_whole() {
    let redactor = Redactor::new();
    redactor.learn(b"known-exact-value-0001").unwrap();
    let mut all = samples();
    all.push("x known-exact-value-0001 y".into());
    assert!(all.len() >= 50);
    for text in &all {
        let (text, whole) = (text.as_bytes(), redactor.scrub_bytes(text.as_bytes()));
        for at in 0..=text.len() {
            let (a, b) = text.split_at(at);
            assert_eq!(streamed(&redactor, [a, b]), *whole, "{at}: {}", text.escape_ascii());
        }
    }
}

#[test]
fn sec_15_three_parts_and_single_bytes_give_the_same() {
    let redactor = Redactor::new();
    for text in samples() {
        let (text, whole) = (text.as_bytes(), redactor.scrub_bytes(text.as_bytes()));
        assert_eq!(streamed(&redactor, text.chunks(1)), *whole);
        for first in (0..text.len()).step_by(3) {
            for second in (first..text.len()).step_by(7) {
                let parts = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(streamed(&redactor, parts), *whole);
            }
        }
    }
}

#[test]
fn sec_15_threads_agree() {
    let redactor = Redactor::new();
    let texts = samples();
    let whole: Vec<_> = texts.iter().map(|text| redactor.scrub(text).into_owned()).collect();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (redactor, texts, whole) = (redactor.clone(), &texts, &whole);
            scope.spawn(move || {
                for n in 0..500 {
                    let at = (n * 7 + thread) % texts.len();
                    assert_eq!(redactor.scrub(&texts[at]), whole[at]);
                }
            });
        }
    });
}

#[test]
fn sec_15_a_secret_across_the_border_of_a_long_line_is_masked() {
    const LONG: usize = 64 * 1024;
    let redactor = Redactor::new();
    redactor.learn(b"known-exact-value-0001").unwrap();
    let secrets =
        ["pal_7Hq2ZkX9vBn4LmRtYw8sDfGh3JcQpE6u", "password=\"hunter2 hunter2\"", "known-exact-value-0001"];
    for secret in secrets {
        // Around the first piece's end and the guard before it.
        for border in [LONG, LONG - 6 * 1024] {
            for at in (border - 60..border + 60).step_by(9) {
                let text = format!("{} {secret} {}\n", "w ".repeat(at / 2), "v ".repeat(LONG));
                let whole = redactor.scrub_bytes(text.as_bytes());
                let shown = String::from_utf8_lossy(&whole);
                assert!(
                    !shown.contains("hunter2") && !shown.contains("pal_") && !shown.contains("known-"),
                    "{at}"
                );
                assert_eq!(shown.matches("***").count(), 1, "{at}");
                assert_eq!(streamed(&redactor, text.as_bytes().chunks(4093)), *whole);
            }
        }
    }
}

#[test]
fn sec_15_a_secret_longer_than_a_piece_is_masked_to_its_end() {
    let redactor = Redactor::new();
    let body = "aB3dE5fG".repeat(40 * 1024);
    let cases = [
        (format!("a ghp_{body} z\n"), "a *** z\n".to_owned()),
        (format!("{{\"password\":\"{body} with blanks {body}\"}}\n"), "{\"password\":\"***\"}\n".to_owned()),
        (format!("Authorization: Basic {body}\nz"), "Authorization: ***\nz".to_owned()),
        (format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\nz"), "***\nz".to_owned()),
        (
            format!("-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----\\n!z"),
            "***!z".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        assert!(redactor.scrub(&text) == expected, "{}", &expected);
        assert!(streamed(&redactor, text.as_bytes().chunks(1000)) == expected.as_bytes(), "{}", &expected);
    }
}

#[test]
fn a_sink_passes_whole_lines_on_at_once_and_the_rest_at_the_end() {
    let mut out = Vec::new();
    let mut sink = Sink::new(Redactor::new(), &mut out);
    sink.write_all(b"one\npassword: ").unwrap();
    drop(sink);
    assert_eq!(out, b"one\npassword: ");
}

#[test]
fn sec_20_adversarial_text_takes_linear_time() {
    let redactor = Redactor::new();
    for seed in seeds::SEEDS {
        for (name, newline) in [("one line", ""), ("lines", "\n")] {
            let text = |size: usize| format!("{seed}{newline}").repeat(size / (seed.len() + newline.len()));
            let (small, large) = (time(&redactor, &text(40_000)), time(&redactor, &text(320_000)));
            // Eight times the text; a quadratic finder takes 64 times as long.
            assert!(
                large < small * 24 + Duration::from_millis(200),
                "{seed:?} in {name}: {small:?}, then {large:?}"
            );
        }
    }
}

#[test]
fn sec_14_a_key_below_a_name_is_masked_with_all_of_the_value_and_once() {
    let redactor = Redactor::new();
    let key = "-----BEGIN PRIVATE KEY-----";
    let body = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgw9+0gz02S33aVCEV7GWwk6nyZ5o5T";
    let end = "-----END PRIVATE KEY-----";
    let form = "form-data; name=\"password\"\n\n";
    let cases = [
        (
            format!("secret: |\n  {key}\n  {body}\n  {end}\n  more of it\nnext\n"),
            "secret: |\n  ***\n  ***\nnext\n",
        ),
        (
            format!("secret: |\n  a {key}\n  {body}\n  {end}\n  more\nnext\n"),
            "secret: |\n  ***\n  ***\nnext\n",
        ),
        (
            format!("secret: |\n  a {key}\\n{body}\\n{end} b\n  more\nnext\n"),
            "secret: |\n  ***\n  ***\nnext\n",
        ),
        (
            format!("secret: |\n  {key}\n  {body}\n  {end}\nnext: {key}\n{body}\nsome words after it\n"),
            "secret: |\n  ***\nnext: ***\nsome words after it\n",
        ),
        (
            format!("tokens: [\n  {key}\n  {body}\n  {end}\n  hunter22hunter,\n]\n"),
            "tokens: [\n  ***\n  ***,\n]\n",
        ),
        (format!("tokens:\n  - {key}\\n{body}\\n{end}\n  - hunter22hunter\n"), "tokens:\n  - ***\n  - ***\n"),
        (format!("{form}, {key}\n{body}\n{end}\nnext\n"), &format!("{form}***\nnext\n")),
        (format!("{form}a {key}\\n{}\\n{end} b\nnext\n", body.repeat(20)), &format!("{form}***\nnext\n")),
    ];
    for (text, expected) in cases {
        let once = redactor.scrub(&text).into_owned();
        assert_eq!(once, expected, "{text}");
        assert_eq!(redactor.scrub(&once), once, "{text}");
        assert_eq!(streamed(&redactor, text.as_bytes().chunks(7)), once.as_bytes(), "{text}");
    }
}

#[test]
fn a_known_value_of_one_letter_takes_linear_time() {
    for value in ["a".repeat(64 * 1024), "ab".repeat(3000), "a".repeat(20)] {
        let redactor = Redactor::new();
        redactor.learn(value.as_bytes()).unwrap();
        let text = |size: usize| "a".repeat(size);
        let (small, large) = (time(&redactor, &text(20_000)), time(&redactor, &text(160_000)));
        assert!(
            large < small * 24 + Duration::from_millis(200),
            "{} bytes: {small:?}, then {large:?}",
            value.len()
        );
        // What is longer than a piece has a mark for each.
        let whole = redactor.scrub(&format!("x{value}y")).into_owned();
        assert!(
            whole.len() < 16 && whole.trim_matches(['x', 'y']).bytes().all(|byte| byte == b'*'),
            "{whole}"
        );
    }
}

#[test]
fn sec_15_a_token_parted_where_a_long_line_is_cut_is_masked() {
    let redactor = Redactor::new();
    // It begins before what is left to the next piece, and is parted after.
    for at in 59_370..59_400 {
        let lead = "lorem ipsum ".repeat(6000);
        let text = format!(
            "{} ghp_aB3d\u{1b}[1maB3dE6gH9kaB3dE6gH9kaB3dE6gH9kaB {}",
            &lead[..at - 1],
            "lorem ipsum ".repeat(800)
        );
        let whole = redactor.scrub(&text).into_owned();
        assert!(!whole.contains("ghp_") && !whole.contains("gH9kaB"), "{at}");
        assert_eq!(streamed(&redactor, text.as_bytes().chunks(5000)), whole.as_bytes());
    }
}

/// Found among millions of random texts: the first line of a certificate that something is masked in is no such line when it is
/// read again.
#[test]
fn sec_14_a_certificate_whose_first_line_changed_is_masked_at_once() {
    let redactor = Redactor::new().with_home_paths().with_personal_data();
    let certificate = "----BEGIN CERTIFICATE----\n";
    let public = "----BEGIN PUBLIC KEY----\n";
    let cases: [(&[u8], &str, &[u8]); 12] = [
        (b"0QYIKoZIzj0DAQcDQgAE", certificate, b"MIIDdzCUcnVzdCBSb290"),
        (b"SAa7XVwVh3fGhIj", certificate, b"IBAgIEAgAiG9w0BAQUpl"),
        (b"_6C7e42F292c6912E7710:", certificate, b"IIDdzCCAlgQQQGEw4JKL:"),
        ("92c6912E7710c83\u{200b}".as_bytes(), certificate, b"MzCCAgAwIBAgdCBSb290"),
        (b"basic YW5hOmI=\x8b: B", certificate, b"3LTg5YWItY2RlZi0wMTI=@"),
        (b"h3AbCdEfGhIjKlM", public, b"HKoZIzj0CAQYIKoZIzje"),
        (b"0aBcDeFgHiNoPqR", public, b"EwYHKoZIzj0CAQYIKoZI: "),
        (b"wX4yC7e42F292c6912E7\xe2\x80", public, b"zj0CAQYIKoZIzj0DAKEY\xe2\x8b"),
        (b"zJ8pQ9rStUvestq011CS=", certificate, b"QcmUgQ3liZXJUcnVzdCB"),
        (b"oe0S3JN54KHCE6MUA7LQ ", certificate, b"MIgQ3liZXJUcnVzdCBSb:"),
        (b"gNSAa7XVwVh3b101def0\"", certificate, b"CCAl+gZXJUcnVzdCBSb29:"),
        (b"H0NE8XYXyGNKHfuwvY7n:", certificate, b"aYw8Vu7Ts6Rq5Po4Ng_01"),
    ];
    for (lead, heading, line) in cases {
        let text = [lead, heading.as_bytes(), line, b"\n"].concat();
        let once = redactor.scrub_bytes(&text).into_owned();
        let twice = redactor.scrub_bytes(&once).into_owned();
        assert_eq!(once.escape_ascii().to_string(), twice.escape_ascii().to_string());
        assert!(!once.windows(12).any(|part| part == &line[..12]), "{}", once.escape_ascii());
        for size in 1..text.len() {
            assert_eq!(streamed(&redactor, text.chunks(size)), once, "{}", text.escape_ascii());
        }
        // Alone it stays, and so it does behind a home, which may stand before every line.
        for kept in [heading.to_owned(), format!("/home/ana/a.pem:{heading}/home/ana/a.pem:")] {
            let text =
                [kept.as_bytes(), b"MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n"]
                    .concat();
            let shown = redactor.scrub_bytes(&text).into_owned();
            assert!(shown.ends_with(b"DBaMQswCQYDVQQGEwJJ\n"), "{}", shown.escape_ascii());
        }
    }
}

/// Found among random texts: a long line below a name is a short one once something in it is masked.
#[test]
fn sec_14_a_long_value_below_a_name_is_masked_at_once() {
    let redactor = Redactor::new();
    let known = drawn(400);
    redactor.learn(known.as_bytes()).unwrap();
    let hex = hex::encode(&known);
    for (name, end) in [
        ("password:\n  ", "\n"),
        ("tokens:\n  - ", "\n"),
        ("secret: |\n  ", "\nnext\n"),
        ("tokens: [\n  ", ",\n]\n"),
    ] {
        for line in [format!("x:{hex}:Ab1"), format!("Ab1{}.{hex}", "\\u0044".repeat(100))] {
            let text = format!("{name}{line}{end}");
            let once = redactor.scrub(&text).into_owned();
            assert_eq!(once, format!("{name}***{end}"), "{text}");
            assert_eq!(redactor.scrub(&once), once, "{text}");
        }
    }
}

/// So many letters and digits.
fn drawn(length: usize) -> String {
    let (letters, mut state) = (b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghkmnpqrstuvwxyz23456789", 11_u64);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(*letters.get(usize::try_from(state >> 33).unwrap() % letters.len()).unwrap())
    };
    (0..length).map(|_| next()).collect()
}

/// What it takes of a processor: others may be at work beside us.
fn time(redactor: &Redactor, text: &str) -> Duration {
    let (start, spent) = (Instant::now(), spent());
    std::hint::black_box(redactor.scrub(text));
    match (spent, self::spent()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => start.elapsed(),
    }
}

/// What this thread took so far, where the kernel tells.
fn spent() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

proptest! {
    #![proptest_config(streamed::the_same_each_time(256))]

    #[test]
    fn sec_15_any_text_cut_anywhere_gives_the_same(
        picks in proptest::collection::vec((0..200_usize, 0..40_usize, any::<bool>()), 1..12),
        cuts in proptest::collection::vec(0..400_usize, 0..12),
    ) {
        let redactor = Redactor::new();
        redactor.learn(b"known-exact-value-0001").unwrap();
        let pool: Vec<&str> = SECRETS.iter().map(|(_, s)| *s).chain(SHAPES.iter().map(|(s, ..)| *s)).chain(KEPT.iter().copied())
            .chain(["known-exact-value-0001", "known-exact-", "-----BEGIN PRIVATE KEY-----\n", "\r\n", "é\u{200b}"]).collect();
        let mut text = Vec::new();
        for (pick, take, is_line) in picks {
            let piece = pool[pick % pool.len()].as_bytes();
            text.extend_from_slice(&piece[..piece.len() - take.min(piece.len() / 2)]);
            if is_line { text.push(b'\n'); }
        }
        let whole = redactor.scrub_bytes(&text).into_owned();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        prop_assert_eq!(streamed(&redactor, cuts.windows(2).map(|pair| &text[pair[0]..pair[1]])), whole);
    }

    #[test]
    fn sec_14_masking_twice_is_masking_once(
        picks in proptest::collection::vec((0..300_usize, 0..40_usize, 0..40_usize, 0..6_u8), 1..10),
    ) {
        let redactor = Redactor::new().with_home_paths().with_personal_data();
        redactor.learn(b"known-exact-value-0001").unwrap();
        let pool: Vec<&str> = SECRETS.iter().map(|(_, s)| *s).chain(SHAPES.iter().map(|(s, ..)| *s)).chain(KEPT.iter().copied())
            .chain(["known-exact-value-0001", "***", "/home/ana/", "ana@example.org", "-----BEGIN ", "password", "\"", "\\", "://", "192.0.2.7"]).collect();
        let mut text = Vec::new();
        for (pick, skip, take, join) in picks {
            let piece = pool[pick % pool.len()].as_bytes();
            let piece = &piece[skip.min(piece.len() / 2)..];
            text.extend_from_slice(&piece[..piece.len() - take.min(piece.len() / 2)]);
            text.extend_from_slice([&b""[..], b"\n", b" ", b"=", b": \"", "\u{200b}".as_bytes()][usize::from(join)]);
        }
        let once = redactor.scrub_bytes(&text).into_owned();
        let twice = redactor.scrub_bytes(&once).into_owned();
        prop_assert!(once == twice, "{}\n{}\n{}", text.escape_ascii(), once.escape_ascii(), twice.escape_ascii());
    }

    #[test]
    fn sec_14_non_ascii_text_stays_valid(text in "\\PC{0,200}", secret in 0..33_usize) {
        let redactor = Redactor::new();
        let text = format!("{text} {} {text}", SECRETS[secret % SECRETS.len()].1);
        // Panics inside would be caught here; the result is a `str`, so it is valid.
        let scrubbed = redactor.scrub(&text);
        prop_assert!(!scrubbed.contains(SECRETS[secret % SECRETS.len()].1));
    }

    #[test]
    fn hostile_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let redactor = Redactor::new();
        let whole = redactor.scrub_bytes(&bytes).into_owned();
        prop_assert_eq!(streamed(&redactor, bytes.chunks(3)), whole);
    }
}
