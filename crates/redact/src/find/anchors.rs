//! The one pass over all text: literals that stand in or before secrets, all searched at once.
//!
//! Three bytes at a time, folded to lower case, are a hash; a table of bits says whether a literal begins with
//! that hash. Nearly all text ends there. The tables are made by the compiler, so that a program which masks a few
//! words in all its life pays nothing for them.

use super::{Kind, field, pem, token};

/// Literals beside those of tokens and of names.
const OTHERS: &[(&str, Kind)] = &[
    ("://", Kind::Url),
    ("bearer ", Kind::Bearer),
    ("basic ", Kind::Basic),
    (pem::BEGIN, Kind::Pem),
    ("-----BEGIN%20", Kind::PemUrl),
    ("-----BEGIN+", Kind::PemUrl),
    // The first bytes of private keys without their first line: PKCS#1, PKCS#8 (RSA, EC, Ed25519, X25519), OpenSSH.
    ("IBAAKCA", Kind::KeyBody),
    ("BADANBgkqhkiG9w0BAQEFAAS", Kind::KeyBody),
    ("AgEAMBMGByqGSM49", Kind::KeyBody),
    ("MC4CAQAwBQYDK2V", Kind::KeyBody),
    ("b3BlbnNzaC1rZXktdjE", Kind::KeyBody),
    // `curl -u name:word`, `--user name:word`
    (" -u ", Kind::Login),
    (" --user ", Kind::Login),
    // `CREATE USER … IDENTIFIED BY '…'`, `sshpass -p …`
    ("identified by '", Kind::Sql),
    ("identified by \"", Kind::Sql),
    ("sshpass -p", Kind::After),
    // Characters that cannot be seen and can stand within a token.
    ("\u{200b}", Kind::Unseen),
    ("\u{200c}", Kind::Unseen),
    ("\u{200d}", Kind::Unseen),
    ("\u{200e}", Kind::Unseen),
    ("\u{200f}", Kind::Unseen),
    ("\u{2060}", Kind::Unseen),
    ("\u{2061}", Kind::Unseen),
    ("\u{2062}", Kind::Unseen),
    ("\u{2063}", Kind::Unseen),
    ("\u{2064}", Kind::Unseen),
    ("\u{2028}", Kind::Unseen),
    ("\u{2029}", Kind::Unseen),
    ("\u{202a}", Kind::Unseen),
    ("\u{202b}", Kind::Unseen),
    ("\u{202c}", Kind::Unseen),
    ("\u{202d}", Kind::Unseen),
    ("\u{202e}", Kind::Unseen),
    ("\u{2066}", Kind::Unseen),
    ("\u{2067}", Kind::Unseen),
    ("\u{2068}", Kind::Unseen),
    ("\u{2069}", Kind::Unseen),
    ("\u{180e}", Kind::Unseen),
    ("\u{fe0e}", Kind::Unseen),
    ("\u{fe0f}", Kind::Unseen),
    ("\u{feff}", Kind::Unseen),
    ("\u{1b}[0", Kind::Unseen),
    ("\u{1b}[1", Kind::Unseen),
    ("\u{1b}[2", Kind::Unseen),
    ("\u{1b}[3", Kind::Unseen),
    ("\u{1b}[4", Kind::Unseen),
    ("\u{1b}[7", Kind::Unseen),
    ("\u{1b}[9", Kind::Unseen),
    ("\u{1b}[K", Kind::Unseen),
    ("\u{1b}[m", Kind::Unseen),
    // Homes.
    ("/home/", Kind::Home),
    ("/users/", Kind::Home),
    ("/root", Kind::Home),
    ("\\users\\", Kind::Home),
    ("\\home\\", Kind::Home),
];

const TOKENS: usize = token::RULES.len();
const NAMES: usize = field::WORDS.len();
const COUNT: usize = TOKENS + NAMES + OTHERS.len();
/// Of the hash.
const BITS: u32 = 16;
const BUCKETS: usize = 1 << (BITS - 4);
/// Makes capitals small; other characters become others, the same everywhere.
const FOLD: u32 = 0x2020_2020;

#[expect(clippy::indexing_slicing, reason = "below the length of each, at compile time")]
const fn literal(index: usize) -> &'static str {
    if index < TOKENS {
        token::RULES[index].prefix
    } else if index < TOKENS + NAMES {
        field::WORDS[index - TOKENS]
    } else {
        OTHERS[index - TOKENS - NAMES].0
    }
}

fn kind(index: usize) -> Option<Kind> {
    if let Some(rule) = token::RULES.get(index) {
        return Some(Kind::Token(rule));
    }
    match index.checked_sub(TOKENS + NAMES) {
        None => Some(Kind::Field),
        Some(other) => OTHERS.get(other).map(|(_, kind)| *kind),
    }
}

const fn hash(four: u32) -> u32 {
    ((four | FOLD) & 0x00ff_ffff).wrapping_mul(0x9e37_79b1) >> (32 - BITS)
}

struct Tables {
    /// Which hashes a literal begins with.
    begins: [u64; 1 << (BITS - 6)],
    /// The first literal of a bucket of hashes, counted from one.
    first: [u16; BUCKETS],
    /// The literal after a literal, counted from one.
    next: [u16; COUNT],
    /// The first four bytes of a literal, folded, and which of their bits count.
    key: [(u32, u32); COUNT],
}

static TABLES: Tables = tables();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "at compile time: out of range is an error of the build"
)]
const fn tables() -> Tables {
    let mut tables =
        Tables { begins: [0; 1 << (BITS - 6)], first: [0; BUCKETS], next: [0; COUNT], key: [(0, 0); COUNT] };
    // From the last to the first, so that a bucket has them in the order of the table.
    let mut index = COUNT;
    while index > 0 {
        index -= 1;
        let bytes = literal(index).as_bytes();
        let is_short = bytes.len() == 3;
        let four = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], if is_short { 0 } else { bytes[3] }]);
        let counts = if is_short { 0x00ff_ffff } else { u32::MAX };
        tables.key[index] = ((four | FOLD) & counts, counts);
        let hash = hash(four);
        tables.begins[(hash >> 6) as usize] |= 1 << (hash & 63);
        let bucket = (hash >> 4) as usize;
        tables.next[index] = tables.first[bucket];
        tables.first[bucket] = index as u16 + 1;
    }
    tables
}

/// Every literal that is searched for.
pub(crate) fn literals() -> Vec<&'static str> {
    (0..COUNT).map(literal).collect()
}

/// The first literal that may begin with these bytes, counted from one.
#[inline]
fn may_begin(four: u32) -> u16 {
    let hash = hash(four);
    let word = usize::try_from(hash >> 6).ok().and_then(|word| TABLES.begins.get(word)).copied().unwrap_or(0);
    if word >> (hash & 63) & 1 == 0 {
        return 0;
    }
    let bucket = usize::try_from(hash >> 4).unwrap_or(0);
    begins_with(four, TABLES.first.get(bucket).copied().unwrap_or(0))
}

/// The first literal from this one on that begins with these bytes, counted from one.
fn begins_with(four: u32, mut literal: u16) -> u16 {
    while let Some(index) = usize::from(literal).checked_sub(1) {
        let (key, counts) = TABLES.key.get(index).copied().unwrap_or_default();
        if (four | FOLD) & counts == key {
            return literal;
        }
        literal = TABLES.next.get(index).copied().unwrap_or(0);
    }
    0
}

/// An anchor that was found: where it starts, where it ends, which finder it wakes.
pub(super) type Found = (usize, usize, Kind);

/// Every anchor from a place on, by where it starts.
pub(super) struct Anchors<'a> {
    text: &'a [u8],
    start: usize,
    /// Where to go on.
    at: usize,
    /// The next literal to compare at `start`, counted from one.
    literal: u16,
}

impl<'a> Anchors<'a> {
    pub(super) const fn new(text: &'a [u8], from: usize) -> Self {
        Self { text, start: from, at: from, literal: 0 }
    }

    /// Goes on from here.
    pub(super) fn skip_to(&mut self, place: usize) {
        if place > self.at {
            (self.at, self.literal) = (place, 0);
        }
    }
}

impl Iterator for Anchors<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            while let Some(index) = usize::from(self.literal).checked_sub(1) {
                self.literal = TABLES.next.get(index).copied().unwrap_or(0);
                let wanted = literal(index).as_bytes();
                let end = self.start + wanted.len();
                let is_there =
                    self.text.get(self.start..end).is_some_and(|found| found.eq_ignore_ascii_case(wanted));
                if is_there && let Some(kind) = kind(index) {
                    return Some((self.start, end, kind));
                }
            }
            let rest = self.text.get(self.at..)?;
            let found = rest.array_windows().enumerate().find_map(|(offset, bytes)| {
                let literal = may_begin(u32::from_le_bytes(*bytes));
                (literal != 0).then_some((offset, literal))
            });
            let (offset, literal) = found?;
            self.start = self.at + offset;
            self.at = self.start + 1;
            self.literal = literal;
        }
    }
}

#[cfg(test)]
mod tests {
    use aho_corasick::AhoCorasick;

    use super::*;

    /// The tables find what an automaton finds.
    #[test]
    fn every_literal_is_found_wherever_an_automaton_finds_it() {
        let literals = literals();
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&literals).unwrap();
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        for _ in 0..4_000 {
            let mut text = Vec::new();
            for _ in 0..next(8) {
                let literal = literals[next(literals.len())].as_bytes();
                let part =
                    &literal[next(2).min(literal.len())..literal.len() - next(3).min(literal.len() - 1)];
                match next(3) {
                    0 => text.extend(part.to_ascii_uppercase()),
                    _ => text.extend(part),
                }
                text.extend(&b"a \n=:/"[..next(4)]);
            }
            // What stands at the very end has nothing after it that could be a secret.
            text.push(b' ');
            let from = next(text.len() + 1);
            let range = aho_corasick::Input::new(&text).range(from..);
            let mut expected: Vec<_> =
                automaton.find_overlapping_iter(range).map(|found| (found.start(), found.end())).collect();
            let mut found: Vec<_> = Anchors::new(&text, from).map(|(start, end, _)| (start, end)).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{} from {from}", text.escape_ascii());
        }
    }

    #[test]
    fn every_literal_has_three_bytes() {
        assert!(literals().iter().all(|literal| literal.len() >= 3));
    }
}
