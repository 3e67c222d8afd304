//! Looking at bytes without indexing: sets of bytes, many at once, safe slices, bounded runs.

/// A set of byte values.
pub(crate) struct ByteSet([bool; 256]);

/// Hex digits.
pub(crate) static HEX: ByteSet = ByteSet::of(b"0123456789abcdefABCDEF");

impl ByteSet {
    /// ASCII letters and digits and these.
    pub(crate) const fn alphanumeric_and(more: &[u8]) -> Self {
        let mut set = [false; 256];
        let mut byte = 0;
        while byte < 128_usize {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::indexing_slicing,
                reason = "below 128, at compile time"
            )]
            {
                set[byte] = (byte as u8).is_ascii_alphanumeric();
            }
            byte += 1;
        }
        Self(set).and(more)
    }

    /// These.
    pub(crate) const fn of(these: &[u8]) -> Self {
        Self([false; 256]).and(these)
    }

    const fn and(mut self, more: &[u8]) -> Self {
        let mut at = 0;
        while at < more.len() {
            #[expect(clippy::indexing_slicing, reason = "within both, at compile time")]
            {
                self.0[more[at] as usize] = true;
            }
            at += 1;
        }
        self
    }

    #[inline]
    pub(crate) fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).copied().unwrap_or(false)
    }

    /// Where the run of members that starts at `from` ends.
    #[inline]
    pub(crate) fn run(&self, text: &[u8], from: usize) -> usize {
        from + slice(text, from, text.len()).iter().take_while(|byte| self.has(**byte)).count()
    }
}

/// Bytes that are looked at together.
pub(crate) const BLOCK: usize = 64;

/// Which bytes of a block are members: a bit for each, the first one lowest. The processor compares many at once.
#[inline]
pub(crate) fn members(block: &[u8; BLOCK], is_member: impl Fn(u8) -> bool) -> u64 {
    let mut flags = [0; BLOCK];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(is_member(*byte));
    }
    let (eights, _) = flags.as_chunks();
    // Eight bytes that are 0 or 1 become eight bits.
    let gathered =
        eights.iter().map(|eight| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56);
    gathered.enumerate().fold(0, |bits, (place, eight)| bits | eight << (8 * place))
}

/// All bits of the first bytes of a block, and none of as many more.
static FIRST: [u8; 2 * BLOCK] = {
    let mut bytes = [0; 2 * BLOCK];
    let mut place = 0;
    while place < BLOCK {
        #[expect(clippy::indexing_slicing, reason = "within it, at compile time")]
        {
            bytes[place] = u8::MAX;
        }
        place += 1;
    }
    bytes
};

/// Whether one of the first so many bytes of a block is a member: half the work of telling which.
#[inline]
pub(crate) fn has_member(block: &[u8; BLOCK], length: usize, is_member: impl Fn(u8) -> bool) -> bool {
    let first = FIRST.get(BLOCK - length.min(BLOCK)..).and_then(<[u8]>::first_chunk::<BLOCK>);
    let all = block.iter().zip(first.unwrap_or(&[u8::MAX; BLOCK]));
    all.fold(0, |has, (byte, counts)| has | if is_member(*byte) { *counts } else { 0 }) != 0
}

/// The first bytes of a text, and zeros where it has no more.
#[inline]
pub(crate) fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut block = [0; N];
    let length = text.len().min(N);
    if let (Some(to), Some(from)) = (block.get_mut(..length), text.get(..length)) {
        to.copy_from_slice(from);
    }
    block
}

/// What `of` says of every block of a text. What the last block lacks is zero, and not told.
#[inline]
fn blocks(text: &[u8], of: impl Fn(&[u8; BLOCK]) -> u64) -> impl Iterator<Item = u64> {
    let (whole, rest) = text.as_chunks::<BLOCK>();
    let last = (!rest.is_empty()).then(|| of(&padded(rest)) & ((1 << rest.len()) - 1));
    whole.iter().map(of).chain(last)
}

/// Every place in `text[from..]` that `of` says a bit for.
#[inline]
pub(crate) fn each_block(
    text: &[u8],
    from: usize,
    of: impl Fn(&[u8; BLOCK]) -> u64,
) -> impl Iterator<Item = usize> {
    let (whole, rest) = slice(text, from, text.len()).as_chunks::<BLOCK>();
    let (mut whole, mut rest) = (whole.iter(), Some(rest).filter(|rest| !rest.is_empty()));
    let (mut word, mut base, mut next) = (0_u64, from, from);
    std::iter::from_fn(move || {
        // A short loop, as most blocks have none.
        while word == 0 {
            word = match whole.next() {
                Some(block) => of(block),
                None => rest.take().map(|rest| of(&padded(rest)) & first_bits(rest.len()))?,
            };
            (base, next) = (next, next + BLOCK);
        }
        let place = base + length(word.trailing_zeros());
        word &= word - 1;
        Some(place)
    })
}

/// Adds every run of at least `least` members in `text[from..]`, where none reaches in from before. `least` is no more
/// than a block.
#[inline]
pub(crate) fn runs(
    text: &[u8],
    from: usize,
    least: usize,
    is_member: impl Fn(u8) -> bool,
    out: &mut Vec<(usize, usize)>,
) {
    let mut words = blocks(slice(text, from, text.len()), |block| members(block, &is_member));
    let (mut base, mut open, mut next) = (from, None, words.next());
    while let Some(mut word) = next {
        next = words.next();
        if let Some(start) = open {
            let ones = word.trailing_ones();
            if ones < u64::BITS {
                out.push((start, base + length(ones)));
                (word, open) = (word & (u64::MAX << ones), None);
            }
        }
        if open.is_none() {
            let mut starts = followed(word, next.unwrap_or(0), least);
            while starts != 0 {
                let start = starts.trailing_zeros();
                let end = start + (word >> start).trailing_ones();
                if end >= u64::BITS {
                    open = Some(base + length(start));
                    break;
                }
                out.push((base + length(start), base + length(end)));
                starts &= u64::MAX << end;
            }
        }
        base += BLOCK;
    }
    out.extend(open.map(|start| (start, text.len())));
}

/// A bit for each of the first so many bytes of a block.
#[inline]
pub(crate) fn first_bits(length: usize) -> u64 {
    u32::try_from(BLOCK - length.min(BLOCK)).ok().and_then(|rest| u64::MAX.checked_shr(rest)).unwrap_or(0)
}

/// Where at least `least` members stand from there on, within this word and the next.
#[inline]
pub(crate) fn followed(word: u64, next: u64, least: usize) -> u64 {
    // Without a way out, as the processor cannot guess where there is none; the usual lengths by numbers that it knows.
    let mut all = u128::from(word) | u128::from(next) << u64::BITS;
    match least {
        USUAL => [1, 2, 4, 8, USUAL - 16].into_iter().for_each(|step| all &= all >> step),
        16 => [1, 2, 4, 8].into_iter().for_each(|step| all &= all >> step),
        8 => [1, 2, 4].into_iter().for_each(|step| all &= all >> step),
        17..=32 => [1, 2, 4, 8, least - 16].into_iter().for_each(|step| all &= all >> step),
        _ => {
            let mut have = 1;
            while have < least {
                let step = have.min(least - have);
                all &= all >> step;
                have += step;
            }
        }
    }
    low(all)
}

/// Fewest characters of most runs that are looked for.
const USUAL: usize = 20;

/// The first of two words.
#[expect(clippy::cast_possible_truncation, reason = "the other word is left out on purpose")]
const fn low(words: u128) -> u64 {
    words as u64
}

const fn length(bits: u32) -> usize {
    bits as usize
}

/// `text[from..to]`, or nothing where that is no range.
#[inline]
pub(crate) fn slice(text: &[u8], from: usize, to: usize) -> &[u8] {
    text.get(from..to.min(text.len())).unwrap_or_default()
}

/// The byte at a position, if there is one.
#[inline]
pub(crate) fn at(text: &[u8], position: usize) -> Option<u8> {
    text.get(position).copied()
}

/// Whether a byte is one of these in a row, both ends included: for many at once, where a match would part ways.
#[inline]
pub(crate) const fn within(byte: u8, first: u8, last: u8) -> bool {
    byte.wrapping_sub(first) <= last - first
}

/// Whether a byte is one of a few; a set is for more.
#[inline]
pub(crate) fn is_one_of<const N: usize>(byte: u8, these: &[u8; N]) -> bool {
    // Without a way out, which is shorter than a search.
    these.iter().fold(false, |is_one, this| is_one | (*this == byte))
}

/// The byte before a position, if there is one.
#[inline]
pub(crate) fn before(text: &[u8], position: usize) -> Option<u8> {
    position.checked_sub(1).and_then(|position| at(text, position))
}

/// Whether these bytes stand right before a position.
#[inline]
pub(crate) fn stands_before(text: &[u8], position: usize, wanted: &[u8]) -> bool {
    position.checked_sub(wanted.len()).is_some_and(|from| slice(text, from, position) == wanted)
}

/// Where the blanks (not newlines) that start at `from` end, looking at no more than `most`.
#[inline]
pub(crate) fn skip_blanks(text: &[u8], from: usize, most: usize) -> usize {
    let blanks = slice(text, from, from.saturating_add(most));
    from + blanks.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// How many bytes stand before the first blank, newlines among them; all, if there is none. Words are short: so many are looked
/// at one by one, and then a block at once.
pub(crate) fn until_blank(text: &[u8]) -> usize {
    const FEW: usize = 16;
    if let Some(few) = slice(text, 0, FEW).iter().position(u8::is_ascii_whitespace) {
        return few;
    }
    let is_blank = |byte: u8| (byte == b' ') | within(byte, b'\t', b'\n') | within(byte, 0x0c, b'\r');
    let of = |block: &[u8; BLOCK]| members(block, is_blank);
    // Most that is looked at has a block, which is not copied for it.
    let from = match text.first_chunk().map(of) {
        Some(0) => BLOCK,
        Some(blanks) => return length(blanks.trailing_zeros()),
        None => FEW.min(text.len()),
    };
    each_block(text, from, of).next().unwrap_or(text.len())
}

/// Where the line that `from` is in begins, looking back no more than `most`.
pub(crate) fn line_start(text: &[u8], from: usize, most: usize) -> usize {
    let first = from.saturating_sub(most);
    memchr::memrchr(b'\n', slice(text, first, from)).map_or(first, |newline| first + newline + 1)
}

/// Where the line that `from` is in ends: its newline, or the end of the text.
pub(crate) fn line_end(text: &[u8], from: usize) -> usize {
    let rest = slice(text, from, text.len());
    from + memchr::memchr(b'\n', rest).unwrap_or(rest.len())
}

/// Whether random text could look so: at least two of lower case, upper case and digits.
#[inline]
pub(crate) fn mixed(text: &[u8]) -> bool {
    // Without a way out: so the processor looks at many at once.
    let (mut small, mut capitals, mut digits) = (false, false, false);
    for byte in text {
        small |= within(*byte, b'a', b'z');
        capitals |= within(*byte, b'A', b'Z');
        digits |= within(*byte, b'0', b'9');
    }
    u8::from(small) + u8::from(capitals) + u8::from(digits) >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers, the same every time.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 3_u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        }
    }

    #[test]
    fn runs_are_found_as_one_by_one() {
        let mut next = numbers();
        for _ in 0..4_000 {
            // Long and short runs, within a block and over its end.
            let rare = 2 + next(60);
            let text: Vec<u8> = (0..next(400)).map(|_| if next(rare) == 0 { b' ' } else { b'a' }).collect();
            let (from, least) = (next(text.len() + 1), 1 + next(BLOCK));
            let mut expected = Vec::new();
            let mut start = from;
            for part in text[from..].split(|byte| *byte == b' ') {
                if part.len() >= least {
                    expected.push((start, start + part.len()));
                }
                start += part.len() + 1;
            }
            let mut found = Vec::new();
            runs(&text, from, least, |byte| byte == b'a', &mut found);
            assert_eq!(found, expected, "{least} from {from}: {}", text.escape_ascii());
        }
    }

    #[test]
    fn a_word_ends_at_the_first_blank() {
        for length in 0..200 {
            for byte in 0..=u8::MAX {
                let text = [b"x".repeat(length), vec![byte], b"y z".to_vec()].concat();
                let expected = text.iter().position(u8::is_ascii_whitespace).unwrap();
                assert_eq!(until_blank(&text), expected, "{}", text.escape_ascii());
            }
            assert_eq!(until_blank(&b"x".repeat(length)), length);
        }
    }

    #[test]
    fn every_place_of_a_block_is_told() {
        let mut next = numbers();
        for _ in 0..1_000 {
            let text: Vec<u8> = (0..next(300)).map(|_| u8::try_from(next(256)).unwrap()).collect();
            let from = next(text.len() + 1);
            let expected: Vec<usize> = (from..text.len()).filter(|place| text[*place] >= 0x80).collect();
            let found = each_block(&text, from, |block| members(block, |byte| byte >= 0x80));
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
