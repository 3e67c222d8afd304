//! The one pass over all text: literals that stand in or before secrets, all searched at once.
//!
//! Three bytes at every other place, folded to lower case, are a hash, and a table says whether the first bytes of a literal or
//! those from its second on have that hash: mostly none has. So a literal is noticed wherever it begins. The hashes of a block
//! are made together, as the processor works on many numbers at once, and what is left of a block is a word with a bit for each
//! place where a literal may stand. The tables are made by the compiler, so that a program which masks a few words in all
//! its life pays nothing for them.

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
/// For every two letters.
const BUCKETS: usize = 1 << 10;
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

#[expect(clippy::indexing_slicing, reason = "below the length of each, at compile time")]
const fn kind(index: usize) -> Kind {
    if index < TOKENS {
        Kind::Token(&token::RULES[index])
    } else if index < TOKENS + NAMES {
        Kind::Field
    } else {
        OTHERS[index - TOKENS - NAMES].1
    }
}

/// Of the pair of bytes at a place and the pair after it: capitals are small letters, and what counts least is left out.
const fn hash(pair: u16, next: u16) -> u16 {
    pair & 0x1f | (pair & 0x40) >> 1 | (pair & 0x1f00) >> 2 | (next & 0x0f) << 11
}

/// Of the pair of bytes at a place.
const fn bucket(first: u8, second: u8) -> usize {
    (first & 0x1f) as usize | ((second & 0x1f) as usize) << 5
}

/// A literal at a place, or one that begins before it.
#[derive(Clone, Copy)]
struct Entry {
    /// Up to eight bytes from before the place on, in small letters, which of their bits count, and which bits make letters
    /// small.
    key: u64,
    counts: u64,
    fold: u64,
    literal: &'static str,
    kind: Kind,
    /// How many bytes of the literal stand before the place: none or one.
    back: u8,
}

/// How many bytes of a literal are among those eight.
const fn shown(back: usize) -> usize {
    7 + back
}

struct Tables {
    /// Of every hash, whether a literal has it: one or zero.
    begins: [u8; HASHES],
    /// The first entry of a bucket; those of the next begin where its own end.
    first: [u16; BUCKETS + 1],
    /// Bucket by bucket, so that the processor need not read one to know where the next is.
    entries: [Entry; 2 * COUNT],
}

static TABLES: Tables = tables();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "at compile time: out of range is an error of the build"
)]
const fn tables() -> Tables {
    let none = Entry { key: 0, counts: 0, fold: 0, literal: "", kind: Kind::Field, back: 0 };
    let mut tables = Tables { begins: [0; HASHES], first: [0; BUCKETS + 1], entries: [none; 2 * COUNT] };
    // How many there are in each bucket, and then where the next one of it goes.
    let (mut free, mut index) = ([0_u16; BUCKETS + 1], 0);
    while index < 2 * COUNT {
        let bytes = literal(index % COUNT).as_bytes();
        free[bucket(bytes[index / COUNT], bytes[index / COUNT + 1]) + 1] += 1;
        index += 1;
    }
    let mut number = 1;
    while number <= BUCKETS {
        free[number] += free[number - 1];
        tables.first[number] = free[number];
        number += 1;
    }
    // Those of a bucket are in the order of their start and of the table.
    let mut back = 2;
    while back > 0 {
        back -= 1;
        let mut index = 0;
        while index < COUNT {
            let bytes = literal(index).as_bytes();
            let pair = u16::from_le_bytes([bytes[back], bytes[back + 1]]);
            if back + 2 < bytes.len() {
                tables.begins[hash(pair, bytes[back + 2] as u16) as usize] = 1;
            } else {
                // Whatever follows.
                let mut next = 0;
                while next < 16 {
                    tables.begins[hash(pair, next) as usize] = 1;
                    next += 1;
                }
            }
            let (mut key, mut counts, mut fold, mut at) = (0, 0, 0, 0);
            while at < bytes.len() && at < shown(back) {
                let shift = 8 * (at + 1 - back);
                key |= (bytes[at].to_ascii_lowercase() as u64) << shift;
                counts |= 0xff << shift;
                fold |= (if bytes[at].is_ascii_alphabetic() { 0x20 } else { 0 }) << shift;
                at += 1;
            }
            let (literal, kind) = (literal(index), kind(index));
            let bucket = bucket(bytes[back], bytes[back + 1]);
            tables.entries[free[bucket] as usize] =
                Entry { key, counts, fold, literal, kind, back: back as u8 };
            free[bucket] += 1;
            index += 1;
        }
    }
    tables
}

/// Every literal that is searched for.
pub(crate) fn literals() -> Vec<&'static str> {
    (0..COUNT).map(literal).collect()
}

/// A block and the two bytes after it.
const SEEN: usize = BLOCK + 2;

/// Where in a block a literal may stand: a bit for every other place.
#[inline]
fn candidates(block: &[u8; SEEN]) -> u64 {
    let mut hashes = [0; BLOCK / 2];
    let (pairs, _) = block.as_chunks();
    for (slot, (pair, next)) in hashes.iter_mut().zip(pairs.iter().zip(pairs.iter().skip(1))) {
        *slot = hash(u16::from_le_bytes(*pair), u16::from_le_bytes(*next));
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
    /// None that starts before this is told.
    from: usize,
    /// The place that is looked at, the eight bytes from the one before it on, and the entries left to compare with them.
    place: usize,
    eight: u64,
    entries: &'static [Entry],
    /// Where the block begins that is looked at, and where in it a literal may stand.
    block: usize,
    left: u64,
    /// Where the block after it begins.
    after: usize,
}

impl<'a> Anchors<'a> {
    pub(super) const fn new(text: &'a [u8], from: usize) -> Self {
        Self { text, from, place: from, eight: 0, entries: &[], block: from, left: 0, after: from }
    }

    /// Goes on from here.
    pub(super) fn skip_to(&mut self, place: usize) {
        self.from = self.from.max(place);
        if place >= self.after {
            (self.after, self.left) = (place, 0);
        } else if place > self.block {
            self.left &= u64::MAX << ((place - self.block) / 2);
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

    /// Looks at a place: the eight bytes from the one before it on, and the entries of its bucket.
    #[inline]
    fn look(&mut self, place: usize) {
        let rest = slice(self.text, place.saturating_sub(1), self.text.len());
        let eight = u64::from_le_bytes(rest.first_chunk().copied().unwrap_or_else(|| padded(rest)));
        let eight = if place == 0 { eight << 8 } else { eight };
        let [_, first, second, ..] = eight.to_le_bytes();
        let bucket = bucket(first, second);
        let entries = match TABLES.first.get(bucket..bucket + 2) {
            Some([first, last]) => TABLES.entries.get(usize::from(*first)..usize::from(*last)),
            _ => None,
        };
        (self.place, self.eight, self.entries) = (place, eight, entries.unwrap_or_default());
    }
}

impl Iterator for Anchors<'_> {
    type Item = Found;

    #[inline]
    fn next(&mut self) -> Option<Found> {
        loop {
            while let Some((entry, rest)) = self.entries.split_first() {
                self.entries = rest;
                if (self.eight | entry.fold) & entry.counts != entry.key {
                    continue;
                }
                let back = usize::from(entry.back);
                let Some(start) = self.place.checked_sub(back).filter(|start| *start >= self.from) else {
                    continue;
                };
                let (end, seen) = (start + entry.literal.len(), shown(back));
                let more = || entry.literal.as_bytes().get(seen..).unwrap_or_default();
                if end <= start + seen || slice(self.text, start + seen, end).eq_ignore_ascii_case(more()) {
                    return Some((start, end, entry.kind));
                }
            }
            while self.left == 0 {
                self.advance()?;
            }
            let place = self.block + 2 * self.left.trailing_zeros() as usize;
            self.left &= self.left - 1;
            self.look(place);
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
    fn what_is_skipped_is_not_told_and_what_follows_is() {
        let text = "token=secret=AKIA".repeat(20);
        let all: Vec<_> = Anchors::new(text.as_bytes(), 0).map(|(start, end, _)| (start, end)).collect();
        for place in 0..text.len() {
            for told in 0..4 {
                let mut anchors = Anchors::new(text.as_bytes(), 0);
                let before: Vec<_> =
                    anchors.by_ref().take(told).map(|(start, end, _)| (start, end)).collect();
                anchors.skip_to(place);
                let after: Vec<_> = anchors.map(|(start, end, _)| (start, end)).collect();
                let expected: Vec<_> =
                    all[told..].iter().filter(|(start, _)| *start >= place).copied().collect();
                assert_eq!((before.as_slice(), after), (&all[..told], expected), "{place} after {told}");
            }
        }
    }

    #[test]
    fn every_literal_has_three_bytes() {
        assert!(literals().iter().all(|literal| literal.len() >= 3));
    }
}
