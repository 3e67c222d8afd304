//! Whatever stands around a secret, it is masked: a token on a line of its own, a known value anywhere.
#![no_main]

use std::sync::LazyLock;

use corpus::Sample;
use libfuzzer_sys::fuzz_target;
use redact::Redactor;

const KNOWN: &str = "a staple & a horse of 9";

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    let redactor = Redactor::new().with_home_paths();
    redactor.learn(KNOWN.as_bytes()).expect("a value to learn");
    redactor
});

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
    corpus::positives(corpus::HELD_OUT).into_iter().filter(alone).collect()
});

fuzz_target!(|input: (&str, &str, u16)| {
    let (before, after, which) = input;
    let sample = &TOKENS[usize::from(which) % TOKENS.len()];
    let output = REDACTOR.scrub(&format!("{before}\n{}\n{after}", sample.text)).into_owned();
    // What the fuzzer wrote itself is no leak.
    let wrote = |text: &str| before.contains(text) || after.contains(text);
    let token = sample.secrets.iter().map(|range| &sample.text[range.clone()]);
    for secret in token.filter(|secret| !wrote(secret)) {
        assert!(!output.contains(secret), "{} survived: {output:?}", sample.family);
    }
    let output = REDACTOR.scrub(&format!("{before}{KNOWN}{after}")).into_owned();
    assert!(!output.contains(KNOWN), "a known value survived: {output:?}");
});
