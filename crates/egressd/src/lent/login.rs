//! Whether a request uses a login.

use aho_corasick::AhoCorasickKind;
use egress::control::Loan;
use egress::http1::Request;
use zeroize::Zeroizing;

use super::{Lent, is_content};

/// More than this would take too long and too much memory for the fastest way to find it.
const MANY: usize = 16 * 1024;

/// How these are found: tokens may be as long as a hundred keys. By default the search chooses for itself.
pub(super) fn kind(patterns: &[Zeroizing<Vec<u8>>]) -> Option<AhoCorasickKind> {
    let length: usize = patterns.iter().map(|pattern| pattern.len()).sum();
    (length > MANY).then_some(AhoCorasickKind::ContiguousNFA)
}

/// What has no value goes nowhere; but in what a model reads it is masked, and that is sent.
pub(super) fn has_value(loan: &Loan, place: &str) -> bool {
    is_content(place) || !loan.value.reveal().is_empty()
}

impl Lent {
    /// Whether the word of this loan stands plainly in a field of a request.
    pub(crate) fn is_used(&self, name: &str, request: &Request) -> bool {
        let is_it = |whose: usize| self.loans.get(whose).is_some_and(|loan| loan.name == name);
        let carries =
            |value: &[u8]| self.words.all(value).any(|(_, whose, is_plain)| is_plain && is_it(whose));
        request.fields.iter().any(|(_, value)| carries(value))
    }
}
