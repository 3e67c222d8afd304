//! Words in content on its way to where a model reads it: masked as it passes, however long it is.
//!
//! Invariants: as many bytes go on as came; a word is masked wherever it is cut; what is no plain word of a secret that is
//! bound there, and could be one in disguise, ends the request as everywhere else.

use std::borrow::Cow;

use egress::control::Loan;
use egress::decoys::Scan;

use super::{Astray, Lent, MASK, Towards};

/// Masks words in content that passes by.
pub(crate) struct Hide<'a> {
    lent: &'a Lent,
    towards: Towards<'a>,
    /// What may be the beginning of a word.
    held: Vec<u8>,
    scan: Scan<'a>,
}

impl Lent {
    /// Whether there are words that are masked in content that goes there.
    pub(crate) fn hides(&self, towards: Towards<'_>) -> bool {
        (0..self.loans.len()).any(|whose| self.is_hidden(whose, towards))
    }

    fn is_hidden(&self, whose: usize, towards: Towards<'_>) -> bool {
        let is_hidden = |loan: &Loan| !loan.in_content && !loan.signs && !loan.is_decoy;
        self.loans.get(whose).is_some_and(is_hidden) && self.may_go(whose, towards)
    }

    /// Masks words in content that passes by.
    pub(crate) fn hide<'a>(&'a self, towards: Towards<'a>) -> Hide<'a> {
        Hide { lent: self, towards, held: Vec::new(), scan: self.decoys.scan() }
    }
}

impl Hide<'_> {
    /// The bytes that can be passed on now. At the end, all of them.
    pub(crate) fn pass<'d>(&mut self, data: &'d [u8], is_end: bool) -> Result<Cow<'d, [u8]>, Astray> {
        if let Some(name) = self.scan.look(data) {
            return Err(self.lent.theft(name, "content"));
        }
        if self.held.is_empty() && self.is_clean(data, is_end) {
            return Ok(data.into());
        }
        self.held.extend_from_slice(data);
        let found: Vec<_> = self.lent.words.all(&self.held).collect();
        for (range, whose, is_plain) in found {
            if !is_plain || !self.lent.is_hidden(whose, self.towards) {
                return Err(self.lent.astray(whose, "content"));
            }
            self.held.get_mut(range).into_iter().flatten().for_each(|byte| *byte = MASK);
        }
        if let Some(whose) = self.lent.behind_escapes(&self.held) {
            return Err(self.lent.astray(whose, "content"));
        }
        let keeps = if is_end { 0 } else { self.lent.words.unfinished(&self.held) };
        let goes = self.held.len() - keeps;
        Ok(self.held.drain(..goes).collect::<Vec<u8>>().into())
    }

    /// Whether nothing is in it, and nothing begins in it.
    fn is_clean(&self, data: &[u8], is_end: bool) -> bool {
        let Lent { words, .. } = self.lent;
        words.all(data).next().is_none()
            && self.lent.behind_escapes(data).is_none()
            && (is_end || words.unfinished(data) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SECRET, WORD, host};
    use super::*;
    use egress::control::Value;

    const OTHER: &str = "ghp_0therWordOtherWord0therWord01234";

    fn lent() -> Lent {
        let loan = |name: &str, word: &str, bound: &str| Loan {
            name: name.into(),
            word: word.into(),
            value: Value::new(SECRET.into()),
            hosts: vec![(bound.to_owned(), 443)],
            ..Loan::default()
        };
        Lent::new(vec![loan("KEY", WORD, "api.test"), loan("OTHER", OTHER, "other.test")])
    }

    fn passed(lent: &Lent, pieces: &[&[u8]]) -> Result<String, Astray> {
        let host = host("api.test");
        let mut hide = lent.hide(Towards { host: &host, port: 443, path: "/", is_private: true });
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&hide.pass(piece, false)?);
        }
        out.extend_from_slice(&hide.pass(b"", true)?);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn adv_c03_a_word_for_a_model_is_masked_wherever_it_is_cut_and_the_length_stays() {
        let lent = lent();
        let text = format!("a {WORD}{WORD} sk-ant-api03-none \\n%2f {WORD}");
        let masked = text.replace(WORD, &"*".repeat(WORD.len()));
        for cut in 0..=text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            assert_eq!(passed(&lent, &[one, two]).unwrap(), masked, "cut at {cut}");
        }
        let each: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(passed(&lent, &each).unwrap(), masked);
        // What begins as a word does is not kept at the end.
        assert_eq!(passed(&lent, &[&WORD.as_bytes()[..9]]).unwrap(), &WORD[..9]);
    }

    #[test]
    fn adv_c02_what_is_no_plain_word_of_that_host_is_refused_on_the_way_to_a_model_too() {
        let lent = lent();
        let hex: String = WORD.bytes().map(|byte| format!("{byte:02x}")).collect();
        let escaped = format!("%{:02x}{}", WORD.as_bytes()[0], &WORD[1..]);
        for text in [OTHER.to_owned(), hex, escaped, WORD.chars().rev().collect()] {
            let text = format!("{} {text} x", "y".repeat(100));
            let each: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            for pieces in [&each[..], &[text.as_bytes()]] {
                assert!(passed(&lent, pieces).is_err(), "{text}");
            }
        }
    }
}
