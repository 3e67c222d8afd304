//! Looking at bytes without indexing: sets of bytes, safe slices, bounded runs.

/// A set of byte values.
pub(crate) struct ByteSet([bool; 256]);

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

    pub(crate) fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).copied().unwrap_or(false)
    }

    /// Where the run of members that starts at `from` ends.
    pub(crate) fn run(&self, text: &[u8], from: usize) -> usize {
        from + slice(text, from, text.len()).iter().take_while(|byte| self.has(**byte)).count()
    }

    /// Every run of at least `least` members in `text[from..]`, where none reaches in from before. Looks at the far end
    /// of the shortest run first: in ordinary text most bytes are never looked at.
    pub(crate) fn runs(&self, text: &[u8], from: usize, least: usize, out: &mut Vec<(usize, usize)>) {
        let mut start = from;
        while let Some(window) = text.get(start..start + least) {
            if let Some(other) = window.iter().rposition(|byte| !self.has(*byte)) {
                start += other + 1;
                continue;
            }
            let end = self.run(text, start + least);
            out.push((start, end));
            start = end + 1;
        }
    }
}

/// `text[from..to]`, or nothing where that is no range.
pub(crate) fn slice(text: &[u8], from: usize, to: usize) -> &[u8] {
    text.get(from..to.min(text.len())).unwrap_or_default()
}

/// The byte at a position, if there is one.
pub(crate) fn at(text: &[u8], position: usize) -> Option<u8> {
    text.get(position).copied()
}

/// The byte before a position, if there is one.
pub(crate) fn before(text: &[u8], position: usize) -> Option<u8> {
    position.checked_sub(1).and_then(|position| at(text, position))
}

/// Whether these bytes stand right before a position.
pub(crate) fn stands_before(text: &[u8], position: usize, wanted: &[u8]) -> bool {
    position.checked_sub(wanted.len()).is_some_and(|from| slice(text, from, position) == wanted)
}

/// Where the blanks (not newlines) that start at `from` end, looking at no more than `most`.
pub(crate) fn skip_blanks(text: &[u8], from: usize, most: usize) -> usize {
    let blanks = slice(text, from, from.saturating_add(most));
    from + blanks.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
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
pub(crate) fn mixed(text: &[u8]) -> bool {
    let kinds: [fn(&u8) -> bool; 3] = [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit];
    kinds.iter().filter(|kind| text.iter().any(*kind)).count() >= 2
}
