//! Tokens with a prefix of their own: one table.

use super::{Body, Hit, begins_word};
use crate::bytes::{ByteSet, at, mixed, slice};

/// A kind of token. Data: a new kind is a new line in [`RULES`].
pub(super) struct Rule {
    pub(super) prefix: &'static str,
    body: &'static ByteSet,
    /// Fewest bytes of the body, less than the real length, so that a cut token is masked too.
    min: usize,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The prefix is rare: only the body decides.
    Rare,
    /// The prefix occurs within words (`task-`, `my_pat_`): a word must begin there.
    Word,
    /// As `Word`, and exactly `min` capitals and digits.
    Id,
    /// A readable body is fine: the prefix says it all.
    Plain,
    /// As `Word`, and looks like the start of a signed token.
    Jwt,
}

static ALNUM: ByteSet = ByteSet::alphanumeric_and(b"");
static WORD: ByteSet = ByteSet::alphanumeric_and(b"_-");
static DOTTED: ByteSet = ByteSet::alphanumeric_and(b"_-.");
static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/=_-.~");
static HASH: ByteSet = ByteSet::alphanumeric_and(b"+/=,$._-");
static SLASHED: ByteSet = ByteSet::alphanumeric_and(b"/");

const fn rule(prefix: &'static str, body: &'static ByteSet, min: usize, shape: Shape) -> Rule {
    Rule { prefix, body, min, shape }
}

pub(super) static RULES: &[Rule] = &[
    // Our own: API keys, refresh tokens, access tokens, bootstrap secrets, Passes.
    rule("pal_", &DOTTED, 16, Shape::Word),
    rule("prt_", &DOTTED, 16, Shape::Word),
    rule("pat_", &DOTTED, 16, Shape::Word),
    rule("pbs_", &DOTTED, 16, Shape::Word),
    rule("pps_", &DOTTED, 16, Shape::Word),
    // GitHub and GitLab.
    rule("ghp_", &ALNUM, 16, Shape::Rare),
    rule("gho_", &ALNUM, 16, Shape::Rare),
    rule("ghu_", &ALNUM, 16, Shape::Rare),
    rule("ghs_", &ALNUM, 16, Shape::Rare),
    rule("ghr_", &ALNUM, 16, Shape::Rare),
    rule("github_pat_", &WORD, 16, Shape::Rare),
    rule("glpat-", &DOTTED, 16, Shape::Rare),
    // Slack.
    rule("xoxa-", &WORD, 10, Shape::Rare),
    rule("xoxb-", &WORD, 10, Shape::Rare),
    rule("xoxc-", &WORD, 10, Shape::Rare),
    rule("xoxd-", &BASE64, 10, Shape::Rare),
    rule("xoxe-", &WORD, 10, Shape::Rare),
    rule("xoxe.", &DOTTED, 10, Shape::Rare),
    rule("xoxo-", &WORD, 10, Shape::Rare),
    rule("xoxp-", &WORD, 10, Shape::Rare),
    rule("xoxr-", &WORD, 10, Shape::Rare),
    rule("xoxs-", &WORD, 10, Shape::Rare),
    rule("xapp-", &WORD, 10, Shape::Rare),
    rule("hooks.slack.com/services/", &SLASHED, 8, Shape::Rare),
    // Models.
    rule("sk-ant-", &WORD, 10, Shape::Rare),
    rule("sk-", &WORD, 20, Shape::Word),
    rule("hf_", &ALNUM, 20, Shape::Word),
    // Clouds and shops.
    rule("AKIA", &ALNUM, 16, Shape::Id),
    rule("ASIA", &ALNUM, 16, Shape::Id),
    rule("AROA", &ALNUM, 16, Shape::Id),
    rule("AIDA", &ALNUM, 16, Shape::Id),
    rule("AGPA", &ALNUM, 16, Shape::Id),
    rule("ANPA", &ALNUM, 16, Shape::Id),
    rule("ANVA", &ALNUM, 16, Shape::Id),
    rule("AIza", &WORD, 30, Shape::Rare),
    rule("ya29.", &DOTTED, 20, Shape::Word),
    rule("sk_live_", &ALNUM, 10, Shape::Rare),
    rule("rk_live_", &ALNUM, 10, Shape::Rare),
    rule("sk_test_", &ALNUM, 10, Shape::Rare),
    rule("rk_test_", &ALNUM, 10, Shape::Rare),
    rule("whsec_", &BASE64, 16, Shape::Rare),
    rule("SG.", &DOTTED, 30, Shape::Word),
    // Registries.
    rule("npm_", &ALNUM, 20, Shape::Word),
    rule("pypi-", &WORD, 16, Shape::Word),
    // Signed tokens and password hashes.
    rule("eyJ", &DOTTED, 17, Shape::Jwt),
    rule("$argon2", &HASH, 20, Shape::Plain),
    rule("$2a$", &HASH, 20, Shape::Plain),
    rule("$2b$", &HASH, 20, Shape::Plain),
    rule("$2y$", &HASH, 20, Shape::Plain),
    rule("$5$", &HASH, 20, Shape::Plain),
    rule("$6$", &HASH, 20, Shape::Plain),
    rule("$y$", &HASH, 20, Shape::Plain),
    rule("$scrypt$", &HASH, 20, Shape::Plain),
    rule("$pbkdf2", &HASH, 20, Shape::Plain),
];

/// How much of a body is looked at to tell a token from a word.
const LOOK: usize = 32;

pub(super) fn find(text: &[u8], start: usize, rule: &'static Rule) -> Option<Hit> {
    let body = start + rule.prefix.len();
    if slice(text, start, body) != rule.prefix.as_bytes() {
        return None; // The search ignores case, tokens do not.
    }
    let head = slice(text, body, body + LOOK.max(rule.min));
    let run = head.iter().take_while(|byte| rule.body.has(**byte)).count();
    let seen = head.get(..run).unwrap_or_default();
    let fits = match rule.shape {
        Shape::Plain => true,
        Shape::Rare => mixed(seen) || seen.iter().any(u8::is_ascii_digit),
        Shape::Word => mixed(seen) && begins_word(text, start),
        Shape::Id => return id(text, start, body, rule),
        Shape::Jwt => begins_word(text, start) && at_jwt(text, start),
    };
    if run < rule.min || !fits {
        return None;
    }
    Some(Hit { start, end: rule.body.run(text, body), body: Body::Of(rule.body) })
}

fn id(text: &[u8], start: usize, body: usize, rule: &Rule) -> Option<Hit> {
    let end = body + rule.min;
    let is_id = slice(text, body, end).iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let ends = at(text, end).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let fits = end <= text.len() && is_id && ends && begins_word(text, start);
    fits.then_some(Hit { start, end, body: Body::Ended })
}

/// A header that names an algorithm, type or key, or a second part that is also base64 of `{"`.
fn at_jwt(text: &[u8], start: usize) -> bool {
    let head = slice(text, start, start + 8);
    if [b"eyJhbGci", b"eyJ0eXAi", b"eyJraWQi", b"eyJlbmMi", b"eyJqa3Ui", b"eyJ4NXQi"]
        .iter()
        .any(|known| head == *known)
    {
        return true;
    }
    let window = slice(text, start, start + 512);
    let dot = window.iter().position(|byte| *byte == b'.' || !WORD.has(*byte));
    dot.is_some_and(|dot| slice(window, dot, dot + 4) == b".eyJ")
}

/// What follows the word `bearer`, wherever it stands.
pub(super) fn bearer(text: &[u8], start: usize) -> Option<Hit> {
    let head = slice(text, start, start + LOOK);
    let run = head.iter().take_while(|byte| BASE64.has(**byte)).count();
    let fits = run >= 16 && head.get(..run).is_some_and(mixed);
    fits.then(|| Hit { start, end: BASE64.run(text, start), body: Body::Of(&BASE64) })
}
