//! Tokens with a prefix of their own: one table.

use super::dull::Dull;
use super::{Body, Hit, begins_word};
use crate::bytes::{ByteSet, at, mixed, slice};

/// A kind of token. Data: a new kind is a new line in [`RULES`].
pub(super) struct Rule {
    pub(super) prefix: &'static str,
    /// Its first eight bytes, and which bits of eight bytes count.
    first: u64,
    counts: u64,
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
    /// The digits of a bot stand before it.
    Bot,
    /// Three characters stand before it.
    Azure,
}

static ALNUM: ByteSet = ByteSet::alphanumeric_and(b"");
static WORD: ByteSet = ByteSet::alphanumeric_and(b"_-");
static DOTTED: ByteSet = ByteSet::alphanumeric_and(b"_-.");
static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/=_-.~");
static HASH: ByteSet = ByteSet::alphanumeric_and(b"+/=,$._-");
static SLASHED: ByteSet = ByteSet::alphanumeric_and(b"/_-");
static HOOK: ByteSet = ByteSet::alphanumeric_and(b"/_-@:");
static PADDED: ByteSet = ByteSet::alphanumeric_and(b"_-=");
static TILDE: ByteSet = ByteSet::alphanumeric_and(b"_-.~");

const fn rule(prefix: &'static str, body: &'static ByteSet, min: usize, shape: Shape) -> Rule {
    let (mut first, mut counts, mut rest) = (0, 0, prefix.as_bytes());
    let mut shift = 0;
    while shift < u64::BITS
        && let [byte, more @ ..] = rest
    {
        first |= (*byte as u64) << shift;
        counts |= 0xff << shift;
        (rest, shift) = (more, shift + 8);
    }
    Rule { prefix, first, counts, body, min, shape }
}

impl Rule {
    /// Whether its prefix stands here.
    #[inline]
    fn is_at(&self, text: &[u8], start: usize) -> bool {
        let rest = slice(text, start, text.len());
        match rest.first_chunk() {
            Some(eight) if u64::from_le_bytes(*eight) & self.counts != self.first => false,
            Some(_) if self.prefix.len() <= 8 => true,
            _ => rest.starts_with(self.prefix.as_bytes()),
        }
    }

    /// Whether a byte of its body may stand here.
    #[inline]
    fn has(&self, text: &[u8], place: usize) -> bool {
        at(text, place).is_some_and(|byte| self.body.has(byte))
    }
}

pub(super) const RULES: &[Rule] = &[
    // Our own: API keys, refresh tokens, access tokens, bootstrap secrets, Passes.
    rule("pal_", &DOTTED, 16, Shape::Word),
    rule("prt_", &DOTTED, 16, Shape::Word),
    rule("pat_", &DOTTED, 16, Shape::Word),
    rule("pbs_", &DOTTED, 16, Shape::Word),
    rule("pps_", &DOTTED, 16, Shape::Word),
    // Forges.
    rule("ghp_", &ALNUM, 16, Shape::Rare),
    rule("gho_", &ALNUM, 16, Shape::Rare),
    rule("ghu_", &ALNUM, 16, Shape::Rare),
    rule("ghs_", &DOTTED, 16, Shape::Rare),
    rule("ghr_", &ALNUM, 16, Shape::Rare),
    rule("github_pat_", &WORD, 16, Shape::Rare),
    rule("glpat-", &DOTTED, 16, Shape::Rare),
    rule("gldt-", &WORD, 16, Shape::Rare),
    rule("glrt-", &DOTTED, 16, Shape::Rare),
    rule("glcbt-", &WORD, 16, Shape::Rare),
    rule("glptt-", &WORD, 16, Shape::Rare),
    rule("glft-", &WORD, 16, Shape::Rare),
    rule("glsoat-", &WORD, 16, Shape::Rare),
    rule("glimt-", &WORD, 16, Shape::Rare),
    rule("glagent-", &WORD, 16, Shape::Rare),
    rule("gloas-", &WORD, 16, Shape::Rare),
    rule("GR1348941", &WORD, 16, Shape::Rare),
    rule("ATBB", &ALNUM, 24, Shape::Word),
    rule("ATATT3", &PADDED, 30, Shape::Word),
    rule("ATCTT3", &PADDED, 30, Shape::Word),
    // Chat.
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
    rule("hooks.slack.com/workflows/", &SLASHED, 8, Shape::Rare),
    rule("hooks.slack.com/triggers/", &SLASHED, 8, Shape::Rare),
    rule("discord.com/api/webhooks/", &SLASHED, 16, Shape::Rare),
    rule("discordapp.com/api/webhooks/", &SLASHED, 16, Shape::Rare),
    rule("webhook.office.com/", &HOOK, 16, Shape::Rare),
    rule("telegram.org/bot", &HOOK, 20, Shape::Rare),
    rule(":AA", &WORD, 30, Shape::Bot),
    // Models.
    rule("sk-ant-", &WORD, 10, Shape::Rare),
    rule("sk-", &WORD, 20, Shape::Word),
    rule("hf_", &ALNUM, 20, Shape::Word),
    rule("gsk_", &ALNUM, 20, Shape::Word),
    rule("xai-", &ALNUM, 20, Shape::Word),
    rule("pplx-", &ALNUM, 20, Shape::Word),
    rule("r8_", &ALNUM, 24, Shape::Word),
    rule("lsv2_", &WORD, 20, Shape::Word),
    // Clouds.
    rule("AKIA", &ALNUM, 16, Shape::Id),
    rule("ASIA", &ALNUM, 16, Shape::Id),
    rule("AROA", &ALNUM, 16, Shape::Id),
    rule("AIDA", &ALNUM, 16, Shape::Id),
    rule("AGPA", &ALNUM, 16, Shape::Id),
    rule("ANPA", &ALNUM, 16, Shape::Id),
    rule("ANVA", &ALNUM, 16, Shape::Id),
    rule("ABIA", &ALNUM, 16, Shape::Id),
    rule("ACCA", &ALNUM, 16, Shape::Id),
    rule("AIza", &WORD, 30, Shape::Rare),
    rule("ya29.", &DOTTED, 20, Shape::Word),
    rule("1//0", &WORD, 24, Shape::Word),
    rule("GOCSPX-", &WORD, 16, Shape::Rare),
    rule("0Q~", &TILDE, 24, Shape::Azure),
    rule("1Q~", &TILDE, 24, Shape::Azure),
    rule("2Q~", &TILDE, 24, Shape::Azure),
    rule("3Q~", &TILDE, 24, Shape::Azure),
    rule("4Q~", &TILDE, 24, Shape::Azure),
    rule("5Q~", &TILDE, 24, Shape::Azure),
    rule("6Q~", &TILDE, 24, Shape::Azure),
    rule("7Q~", &TILDE, 24, Shape::Azure),
    rule("8Q~", &TILDE, 24, Shape::Azure),
    rule("9Q~", &TILDE, 24, Shape::Azure),
    rule("dop_v1_", &ALNUM, 20, Shape::Rare),
    rule("doo_v1_", &ALNUM, 20, Shape::Rare),
    rule("dor_v1_", &ALNUM, 20, Shape::Rare),
    rule("hvs.", &WORD, 20, Shape::Word),
    rule("hvb.", &WORD, 20, Shape::Word),
    rule("dapi", &ALNUM, 32, Shape::Word),
    rule("tskey-", &WORD, 16, Shape::Rare),
    rule("sbp_", &ALNUM, 20, Shape::Word),
    rule("dp.pt.", &ALNUM, 20, Shape::Word),
    rule("dp.st.", &DOTTED, 20, Shape::Word),
    rule("pul-", &ALNUM, 30, Shape::Word),
    rule("nfp_", &ALNUM, 20, Shape::Word),
    rule("pscale_tkn_", &DOTTED, 16, Shape::Rare),
    rule("pscale_pw_", &DOTTED, 16, Shape::Rare),
    rule("HRKU-", &WORD, 20, Shape::Word),
    rule("glsa_", &WORD, 20, Shape::Word),
    rule("glc_", &BASE64, 24, Shape::Word),
    rule("sntrys_", &BASE64, 20, Shape::Word),
    rule("sntryu_", &ALNUM, 20, Shape::Word),
    rule("NRAK-", &ALNUM, 20, Shape::Word),
    rule("lin_api_", &ALNUM, 20, Shape::Rare),
    rule("ntn_", &ALNUM, 24, Shape::Word),
    rule("PMAK-", &WORD, 20, Shape::Word),
    rule("figd_", &WORD, 20, Shape::Word),
    rule("AGE-SECRET-KEY-1", &ALNUM, 16, Shape::Plain),
    // Money, shops, mail.
    rule("sk_live_", &ALNUM, 10, Shape::Rare),
    rule("rk_live_", &ALNUM, 10, Shape::Rare),
    rule("sk_test_", &ALNUM, 10, Shape::Rare),
    rule("rk_test_", &ALNUM, 10, Shape::Rare),
    rule("whsec_", &BASE64, 16, Shape::Rare),
    rule("sq0atp-", &WORD, 16, Shape::Rare),
    rule("sq0csp-", &WORD, 16, Shape::Rare),
    rule("shpat_", &ALNUM, 16, Shape::Word),
    rule("shpca_", &ALNUM, 16, Shape::Word),
    rule("shppa_", &ALNUM, 16, Shape::Word),
    rule("shpss_", &ALNUM, 16, Shape::Word),
    rule("SG.", &DOTTED, 30, Shape::Word),
    rule("key-", &ALNUM, 32, Shape::Word),
    rule("xkeysib-", &WORD, 20, Shape::Rare),
    // Registries.
    rule("npm_", &ALNUM, 20, Shape::Word),
    rule("pypi-", &WORD, 16, Shape::Word),
    rule("dckr_pat_", &WORD, 16, Shape::Rare),
    rule("dckr_oat_", &WORD, 16, Shape::Rare),
    rule("rubygems_", &ALNUM, 24, Shape::Word),
    rule("AKCp", &ALNUM, 40, Shape::Word),
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

pub(super) fn find(text: &[u8], start: usize, rule: &'static Rule, dull: &mut Dull) -> Option<Hit> {
    let body = start + rule.prefix.len();
    let is_always_mixed = matches!(rule.shape, Shape::Word | Shape::Bot | Shape::Azure);
    if is_always_mixed && dull.has(body, body + LOOK.max(rule.min)) {
        return None;
    }
    // The search ignores case, tokens do not.
    if !rule.is_at(text, start) {
        return None;
    }
    if rule.shape == Shape::Id {
        return id(text, start, body, rule);
    }
    // A few bytes tell most often that there is none.
    if ![rule.min - 1, rule.min / 2, 0, 3].iter().all(|place| rule.has(text, body + place)) {
        return None;
    }
    let head = slice(text, body, body + LOOK.max(rule.min));
    // What is not in all that is looked at is not in the body either. Looking at all is cheaper.
    let is_mixed = || match slice(text, body, text.len()).first_chunk::<LOOK>() {
        Some(first) if head.len() == LOOK => mixed(first),
        _ => mixed(head),
    };
    let may_fit = match rule.shape {
        Shape::Plain | Shape::Id => true,
        Shape::Jwt => begins_word(text, start) && at_jwt(text, start, dull),
        Shape::Rare => is_mixed() || head.iter().any(u8::is_ascii_digit),
        Shape::Word => begins_word(text, start) && is_mixed(),
        Shape::Bot | Shape::Azure => is_mixed(),
    };
    if !may_fit {
        if is_always_mixed {
            dull.is(text, body, body + head.len());
        }
        return None;
    }
    let run = head.iter().take_while(|byte| rule.body.has(**byte)).count();
    let seen = head.get(..run).unwrap_or_default();
    let fits = match rule.shape {
        Shape::Plain | Shape::Id | Shape::Jwt => true,
        Shape::Rare => mixed(seen) || seen.iter().any(u8::is_ascii_digit),
        Shape::Word => mixed(seen),
        Shape::Bot | Shape::Azure => mixed(seen),
    };
    if run < rule.min || !fits {
        return None;
    }
    let start = match rule.shape {
        Shape::Bot => {
            let digits = slice(text, start.saturating_sub(12), start).iter().rev();
            let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
            (8..=11).contains(&digits).then_some(start - digits)?
        }
        Shape::Azure => {
            let lead = start.checked_sub(3)?;
            let is_lead = slice(text, lead, start).iter().all(|byte| TILDE.has(*byte));
            (is_lead && begins_word(text, lead)).then_some(lead)?
        }
        Shape::Rare | Shape::Word | Shape::Id | Shape::Plain | Shape::Jwt => start,
    };
    Some(Hit::of(start, rule.body.run(text, body), Body::Of(rule.body)))
}

fn id(text: &[u8], start: usize, body: usize, rule: &Rule) -> Option<Hit> {
    let end = body + rule.min;
    let ends = at(text, end).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    if end > text.len() || !ends {
        return None;
    }
    let is_id = slice(text, body, end).iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    (is_id && begins_word(text, start)).then_some(Hit::ended(start, end))
}

/// A header that names an algorithm, type or key, or a second part that is also base64 of `{"`.
fn at_jwt(text: &[u8], start: usize, dull: &mut Dull) -> bool {
    let head = slice(text, start, start + 8);
    if [b"eyJhbGci", b"eyJ0eXAi", b"eyJraWQi", b"eyJlbmMi", b"eyJqa3Ui", b"eyJ4NXQi"]
        .iter()
        .any(|known| head == *known)
    {
        return true;
    }
    // Many bytes are looked at together first: most often there is none, or another part follows.
    let end = start + 512;
    let dot = dull.dot(text, start, end).filter(|dot| slice(text, *dot, end.min(dot + 4)) == b".eyJ");
    dot.is_some_and(|dot| slice(text, start, dot).iter().all(|byte| WORD.has(*byte)))
}

/// What follows the word `bearer`, wherever it stands.
pub(super) fn bearer(text: &[u8], start: usize) -> Option<Hit> {
    let head = slice(text, start, start + LOOK);
    let run = head.iter().take_while(|byte| BASE64.has(**byte)).count();
    let fits = run >= 16 && head.get(..run).is_some_and(mixed);
    fits.then(|| Hit::of(start, BASE64.run(text, start), Body::Of(&BASE64)))
}
