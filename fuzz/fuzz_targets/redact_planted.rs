//! Whatever stands around a secret, it is masked: a token on a line of its own, a known value anywhere and in every form
//! that it travels in. What was masked is not masked again, and where a stream was cut does not matter.
#![no_main]

use std::io::Write;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use corpus::Sample;
use libfuzzer_sys::fuzz_target;
use redact::{LearnError, Redactor, Sink};

/// Of the families that are known by their own shape.
static TOKENS: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let shaped = [
        "JWT",
        "AWS id",
        "Slack token",
        "GitHub token",
        "GitHub fine-grained token",
        "GitLab token",
        "OpenAI key",
        "Anthropic key",
        "Google key",
        "Google OAuth token",
        "Hugging Face token",
        "SendGrid key",
        "Stripe key",
        "npm token",
        "PyPI token",
        "Docker token",
        "age key",
        "private key",
        "private key cut short",
        "PGP private key",
    ];
    let alone = |one: &Sample| one.place == "alone" && shaped.contains(&one.family);
    let tokens: Vec<Sample> = corpus::positives(corpus::HELD_OUT).into_iter().filter(alone).collect();
    assert!(tokens.len() >= shaped.len(), "the corpus has others");
    tokens
});

/// What stands before and after; which token; a value to be known; its form; where the stream is cut.
type Input<'a> = (&'a [u8], &'a [u8], u16, &'a [u8], u8, Vec<u16>);

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

/// One of the forms that are promised: what to write, and what of it nobody may see afterwards.
fn form(value: &[u8], which: u8) -> Option<(Vec<u8>, Vec<u8>)> {
    let whole = |text: String| Some((text.clone().into_bytes(), text.into_bytes()));
    let shift = usize::from(which / 8) % 3;
    let in_base64 = |engine: &base64::engine::GeneralPurpose| {
        let text = engine.encode([&b"xyz"[..shift], value].concat());
        // What other bytes have no part in.
        let (from, to) = ((shift * 4).div_ceil(3), (shift + value.len()) * 4 / 3);
        (text.clone().into_bytes(), text[from..to].as_bytes().to_vec())
    };
    match which % 8 {
        0 => Some((value.to_vec(), value.to_vec())),
        1 => Some(in_base64(&STANDARD_NO_PAD)),
        2 => Some(in_base64(&URL_SAFE_NO_PAD)),
        3 => whole(hex::encode(value)),
        4 => whole(hex::encode_upper(value)),
        5 => {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
            let escaped = |b: &u8| if plain(*b) { char::from(*b).to_string() } else { format!("%{b:02X}") };
            whole(value.iter().map(escaped).collect())
        }
        6 => {
            let text = serde_json::to_string(str::from_utf8(value).ok()?).ok()?;
            whole(text[1..text.len() - 1].to_owned())
        }
        _ => whole(str::from_utf8(value).ok()?.replace('\'', "'\\''")),
    }
}

/// The output, which is the same however it is made.
fn scrubbed(redactor: &Redactor, text: &[u8], cuts: &[u16]) -> Vec<u8> {
    let whole = redactor.scrub_bytes(text).into_owned();
    assert_eq!(redactor.scrub_bytes(&whole), whole, "masked twice is something else");
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % (text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    let mut sink = Sink::new(redactor.clone(), Vec::new());
    for pair in cuts.windows(2) {
        sink.write_all(&text[pair[0]..pair[1]]).expect("a vector takes everything");
    }
    assert_eq!(sink.finish().expect("a vector takes everything"), whole, "cuts matter");
    whole
}

fuzz_target!(|input: Input<'_>| {
    let (before, after, token, value, which, cuts) = input;
    let sample = &TOKENS[usize::from(token) % TOKENS.len()];
    let text = [before, b"\n", sample.text.as_bytes(), b"\n", after].concat();
    let output = scrubbed(&Redactor::new().with_home_paths(), &text, &cuts);
    for range in &sample.secrets {
        let secret = &sample.text.as_bytes()[range.clone()];
        // What the fuzzer wrote itself is no leak.
        let wrote = contains(before, secret) || contains(after, secret);
        assert!(wrote || !contains(&output, secret), "{} survived: {output:?}", sample.family);
    }

    // With a mark in it, a value could come about by masking.
    if value.len() > 256 || value.contains(&b'*') {
        return;
    }
    let redactor = Redactor::new();
    match redactor.learn(value) {
        Ok(()) => {}
        Err(LearnError::TooShort) => return,
        Err(error) => panic!("{error}"),
    }
    let Some((written, unseen)) = form(value, which) else { return };
    let output = scrubbed(&redactor, &[before, &written, after].concat(), &cuts);
    // What the fuzzer wrote itself may be those characters of base64 without the ones at both ends: it is no value then.
    let wrote = matches!(which % 8, 1 | 2) && (contains(before, &unseen) || contains(after, &unseen));
    assert!(wrote || !contains(&output, &unseen), "a known value survived as form {}: {output:?}", which % 8);
});
