//! The one pass over all text: literals that stand in or before secrets, all searched at once.
//!
//! Three bytes at a time, folded to lower case, are a hash, and a table says whether a literal begins with that hash: mostly
//! none. The hashes of a block are made together, as the processor works on many numbers at once, and what is left of a
//! block is a word with a bit for each place where a literal may begin. The tables are made by the compiler, so that a
//! program which masks a few words in all its life pays nothing for them.

use super::{Kind, field, pem, token};
use crate::bytes::{BLOCK, padded, slice};

/// Literals beside those of tokens and of names.
const OTHERS: &[(&str, Kind)] = &[
    ("://", Kind::Url),
    ("bearer ", Kind::Bearer),
    ("basic ", Kind::Basic),
    (pem::BEGIN, Kind::Pem),
    ("-----BEGIN%20", Kind::PemUrl),
    ("-----BEGIN+", Kind::PemUrl),
    (pem::SPACED, Kind::Pem),
    // The first bytes of private keys without their first line: PKCS#1, PKCS#8 (RSA, EC, Ed25519, X25519), SEC1, OpenSSH.
    ("IBAAKCA", Kind::KeyBody),
    ("BADANBgkqhkiG9w0BAQEFAAS", Kind::KeyBody),
    ("AgEAMBMGByqGSM49", Kind::KeyBody),
    ("MC4CAQAwBQYDK2V", Kind::KeyBody),
    ("MHcCAQEEI", Kind::KeyBody),
    ("b3BlbnNzaC1rZXktdjE", Kind::KeyBody),
    // `curl -u name:word`, `--user name:word`, `--proxy-user name:word`
    (" -u", Kind::Login),
    ("\"-u\"", Kind::Login),
    ("-user ", Kind::Login),
    ("-user=", Kind::Login),
    // `mysql -p…`, `docker login -p …`, `redis-cli -a …`, `ldapsearch -w …`, `curl -b …`
    (" -p", Kind::Option),
    ("\"-p", Kind::Option),
    ("'-p", Kind::Option),
    (" -a ", Kind::Option),
    (" -w ", Kind::Option),
    (" -b ", Kind::Option),
    // `host:5432:database:user:word`
    (":5432:", Kind::Account),
    (":*:", Kind::Account),
    // `CREATE USER … IDENTIFIED BY '…'`
    ("identified by ", Kind::Sql),
    ("identified with ", Kind::Sql),
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
const BITS: u32 = 15;
const HASHES: usize = 1 << BITS;
const BUCKETS: usize = HASHES / 16;
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

/// Six bits of a byte: capitals are small letters, and letters are not signs or digits.
const fn six(byte: u8) -> u16 {
    (byte & 0x1f | (byte & 0x40) >> 1) as u16
}

const fn hash(first: u16, second: u16, third: u16) -> u16 {
    (first ^ second << 5 ^ third << 10) & (HASHES as u16 - 1)
}

struct Tables {
    /// Of every hash, whether a literal begins with it: one or zero.
    begins: [u8; HASHES],
    /// The first literal of a bucket of hashes, counted from one.
    first: [u8; BUCKETS],
    /// The literal after a literal, counted from one.
    next: [u8; COUNT],
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
    const { assert!(COUNT < 256) };
    let mut tables =
        Tables { begins: [0; HASHES], first: [0; BUCKETS], next: [0; COUNT], key: [(0, 0); COUNT] };
    // From the last to the first, so that those of a bucket are in the order of the table.
    let mut index = COUNT;
    while index > 0 {
        index -= 1;
        let bytes = literal(index).as_bytes();
        let is_short = bytes.len() == 3;
        let four = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], if is_short { 0 } else { bytes[3] }]);
        let counts = if is_short { 0x00ff_ffff } else { u32::MAX };
        tables.key[index] = ((four | FOLD) & counts, counts);
        let hash = hash(six(bytes[0]), six(bytes[1]), six(bytes[2])) as usize;
        tables.begins[hash] = 1;
        tables.next[index] = tables.first[hash % BUCKETS];
        tables.first[hash % BUCKETS] = index as u8 + 1;
    }
    tables
}

/// Every literal that is searched for.
pub(crate) fn literals() -> Vec<&'static str> {
    (0..COUNT).map(literal).collect()
}

/// A block and the two bytes after it.
const SEEN: usize = BLOCK + 2;

/// Where in a block a literal may begin.
#[inline]
fn candidates(block: &[u8; SEEN]) -> u64 {
    let mut hashes = [0; BLOCK];
    let bytes = block.iter().zip(block.iter().skip(1)).zip(block.iter().skip(2));
    for (slot, ((a, b), c)) in hashes.iter_mut().zip(bytes) {
        *slot = hash(six(*a), six(*b), six(*c));
    }
    let (eights, _) = hashes.as_chunks::<8>();
    let of_eight = |eight: &[u16; 8]| {
        let begins = |hash: u16| TABLES.begins.get(usize::from(hash) % HASHES).copied().map_or(0, u64::from);
        eight.iter().enumerate().fold(0, |bits, (place, hash)| bits | begins(*hash) << place)
    };
    eights.iter().enumerate().fold(0, |bits, (place, eight)| bits | of_eight(eight) << (8 * place))
}

/// An anchor that was found: where it starts, where it ends, which finder it wakes.
pub(super) type Found = (usize, usize, Kind);

/// Every anchor from a place on, by where it starts.
pub(super) struct Anchors<'a> {
    text: &'a [u8],
    start: usize,
    /// The next literal to compare at `start`, counted from one.
    literal: u8,
    /// Where the block begins that is looked at, and where in it a literal may begin.
    block: usize,
    left: u64,
    /// Where the block after it begins.
    after: usize,
}

impl<'a> Anchors<'a> {
    pub(super) const fn new(text: &'a [u8], from: usize) -> Self {
        Self { text, start: from, literal: 0, block: from, left: 0, after: from }
    }

    /// Goes on from here.
    pub(super) fn skip_to(&mut self, place: usize) {
        if place <= self.start {
            return;
        }
        self.literal = 0;
        if place >= self.after {
            (self.after, self.left) = (place, 0);
        } else {
            self.left &= u64::MAX << (place - self.block);
        }
    }

    /// Looks at the next block; not if there is none.
    fn advance(&mut self) -> Option<()> {
        let rest = self.text.get(self.after..).filter(|rest| !rest.is_empty())?;
        self.left =
            if let Some(block) = rest.first_chunk() { candidates(block) } else { candidates(&padded(rest)) };
        (self.block, self.after) = (self.after, self.after + BLOCK);
        Some(())
    }
}

impl Anchors<'_> {
    /// The first literal that begins as the text does here, counted from one.
    #[inline]
    fn first_at(&self, place: usize) -> u8 {
        let rest = slice(self.text, place, self.text.len());
        let four = rest.first_chunk().copied().unwrap_or_else(|| padded(rest));
        let [a, b, c, _] = four;
        let bucket = usize::from(hash(six(a), six(b), six(c))) % BUCKETS;
        let mut literal = TABLES.first.get(bucket).copied().unwrap_or(0);
        let four = u32::from_le_bytes(four) | FOLD;
        while let Some(index) = usize::from(literal).checked_sub(1) {
            let (key, counts) = TABLES.key.get(index).copied().unwrap_or_default();
            if four & counts == key {
                break;
            }
            literal = TABLES.next.get(index).copied().unwrap_or(0);
        }
        literal
    }
}

impl Iterator for Anchors<'_> {
    type Item = Found;

    #[inline]
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
            while self.left == 0 {
                self.advance()?;
            }
            self.start = self.block + self.left.trailing_zeros() as usize;
            self.left &= self.left - 1;
            self.literal = self.first_at(self.start);
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
