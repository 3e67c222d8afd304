//! Exact values that were made known at run time, and the forms they travel in.
//!
//! Invariant: every byte of every occurrence of every form is masked, wherever the search starts. The
//! values stay in memory in the clear as long as the redactor lives: that is the price of finding them.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, Input};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::bytes::{ByteSet, at, before};

/// Shortest value that can be learned: shorter ones occur by chance.
const MIN_VALUE: usize = 8;
/// Longer values are learned in parts of this size, so that what must be held back stays bounded.
const PART: usize = 512;
/// No form is longer: three characters for each byte of a part, and six for a control character in JSON.
pub(crate) const MAX_FORM: usize = 6 * PART;

static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/-_");

/// Why a value was not learned. It will not be masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LearnError {
    /// Too short to be told from ordinary text.
    #[error("a value of fewer than {MIN_VALUE} bytes cannot be masked; use a longer secret")]
    TooShort,
    /// More values than one automaton can hold.
    #[error("too many values are known; none was added")]
    TooMany,
}

#[derive(Default)]
pub(crate) struct Known {
    forms: BTreeSet<Form>,
    finder: Option<AhoCorasick>,
    /// Which pattern of the finder is base64, whose ends may share characters with its neighbours.
    is_base64: Vec<bool>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Form {
    text: Vec<u8>,
    is_base64: bool,
}

impl Known {
    /// This set and further values.
    pub(crate) fn with(&self, values: &[&[u8]]) -> Result<Self, LearnError> {
        let mut forms = self.forms.clone();
        for value in values {
            if value.len() < MIN_VALUE {
                return Err(LearnError::TooShort);
            }
            forms.extend(forms_of(value));
        }
        let finder =
            AhoCorasick::new(forms.iter().map(|form| &form.text)).map_err(|_| LearnError::TooMany)?;
        let is_base64 = forms.iter().map(|form| form.is_base64).collect();
        Ok(Self { forms, finder: Some(finder), is_base64 })
    }

    /// Every occurrence in `text[from..]`, in order of their ends.
    pub(crate) fn find<'a>(
        &'a self,
        text: &'a [u8],
        from: usize,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let found = self
            .finder
            .iter()
            .flat_map(move |finder| finder.find_overlapping_iter(Input::new(text).range(from..)));
        found.map(|hit| {
            let is_base64 = self.is_base64.get(hit.pattern().as_usize()).copied().unwrap_or(false);
            if is_base64 { with_shared_ends(text, hit.start(), hit.end()) } else { (hit.start(), hit.end()) }
        })
    }
}

/// The characters at both ends may carry bits of the value too.
fn with_shared_ends(text: &[u8], start: usize, end: usize) -> (usize, usize) {
    let is_more = |byte: Option<u8>| byte.is_some_and(|byte| BASE64.has(byte));
    let start = if is_more(before(text, start)) { start - 1 } else { start };
    let end = if is_more(at(text, end)) { end + 1 } else { end };
    (start, end)
}

fn forms_of(value: &[u8]) -> Vec<Form> {
    let mut forms = Vec::new();
    // A line of a value shows up alone in line-wise output.
    for line in value.split(|byte| *byte == b'\n' || *byte == b'\r') {
        forms.extend(parts(line).map(|part| Form { text: part.to_vec(), is_base64: false }));
    }
    for part in parts(value) {
        let plain = [hex::encode(part), hex::encode_upper(part), json(part), percent(part, "%20", false)];
        let more = [percent(part, "+", false), percent(part, "%20", true)];
        let texts = plain.into_iter().chain(more);
        forms.extend(texts.map(|text| Form { text: text.into_bytes(), is_base64: false }));
        for lead in 0..3 {
            forms.extend(base64_core(part, lead).map(|text| Form { text, is_base64: true }));
        }
    }
    forms.retain(|form| form.text.len() >= MIN_VALUE && !form.text.contains(&b'\n'));
    forms
}

/// Parts of equal size, the last one overlapping the one before so that none is short.
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let last = value.len().checked_sub(PART).and_then(|from| value.get(from..));
    let whole = value.chunks(PART).filter(move |part| part.len() == PART || last.is_none());
    whole.chain(last)
}

/// The characters that a value alone decides when it stands `lead` bytes into a base64 group.
fn base64_core(part: &[u8], lead: usize) -> impl Iterator<Item = Vec<u8>> {
    let padded: Vec<u8> = std::iter::repeat_n(0, lead).chain(part.iter().copied()).collect();
    let (skip, keep) = ((lead * 8).div_ceil(6), padded.len() * 8 / 6);
    let encoded = [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)];
    encoded.into_iter().filter_map(move |text| text.as_bytes().get(skip..keep).map(<[u8]>::to_vec))
}

fn json(part: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(part).chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control.is_control() && control.is_ascii() => {
                text.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => text.push(other),
        }
    }
    text
}

fn percent(part: &[u8], blank: &str, is_lower: bool) -> String {
    let mut text = String::new();
    for byte in part {
        match byte {
            b' ' => text.push_str(blank),
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte if is_lower => text.push_str(&format!("%{byte:02x}")),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
