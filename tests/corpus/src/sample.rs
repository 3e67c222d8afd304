//! Turns marked text into a sample that knows where its secrets are, and judges what a redactor left of them.
//!
//! Generators put secrets between two characters of the private use area. Escapes and indents are then written around
//! and through them without anybody counting bytes; the marks are taken out at the end.

use std::ops::Range;

use crate::dice::Dice;
use crate::families::FAMILIES;
use crate::places::{PLACES, render};
use crate::writings;

pub(crate) const OPEN: char = '\u{e000}';
pub(crate) const CLOSE: char = '\u{e001}';

/// How many samples there are of each family in each place.
const ROUNDS: usize = 4;
/// A longer run of a secret's bytes must not survive, nor a shorter secret as a whole.
const WINDOW: usize = 8;
/// What some put into tokens to get past filters; they show nothing.
const ZERO_WIDTH: [char; 5] = ['\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}'];

/// A text with secrets in it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What kind of secret.
    pub family: &'static str,
    /// What stands around it.
    pub place: &'static str,
    /// The text.
    pub text: String,
    /// Which bytes of it are secret.
    pub secrets: Vec<Range<usize>>,
    /// Where the text is cut when it is given in pieces; mostly nowhere.
    pub cuts: Vec<usize>,
}

/// Marks what must not survive.
pub(crate) fn hidden(secret: &str) -> String {
    format!("{OPEN}{secret}{CLOSE}")
}

/// Every family in every place that fits it, several times.
#[must_use]
pub fn positives(seed: u64) -> Vec<Sample> {
    let mut all = Vec::new();
    for family in FAMILIES {
        for place in PLACES.into_iter().chain(writings::PLACES) {
            for round in 0..ROUNDS {
                let mut dice = Dice::of(seed, &[family.name, place], round);
                if let Some(marked) = render(place, &family.make, &mut dice) {
                    all.push(Sample::from_marked(family.name, place, &marked, &mut dice));
                }
            }
        }
    }
    all
}

/// Clean text with one secret in every so many bytes.
#[must_use]
pub fn salted(seed: u64, clean: &str, every: usize) -> String {
    let secrets = positives(seed);
    let lines: Vec<&Sample> =
        secrets.iter().filter(|one| one.place == "log line" && !one.text.contains('\n')).collect();
    let (mut out, mut due, mut turn) = (String::with_capacity(clean.len() * 2), every, 0);
    for line in clean.split_inclusive('\n') {
        out.push_str(line);
        if out.len() >= due {
            out.push_str(&lines[turn % lines.len()].text);
            out.push('\n');
            turn += 1;
            due += every;
        }
    }
    out
}

impl Sample {
    pub(crate) fn from_marked(
        family: &'static str,
        place: &'static str,
        marked: &str,
        dice: &mut Dice,
    ) -> Self {
        let (mut text, mut secrets, mut start) = (String::with_capacity(marked.len()), Vec::new(), 0);
        for letter in marked.chars() {
            match letter {
                OPEN => start = text.len(),
                CLOSE => secrets.push(start..text.len()),
                _ => text.push(letter),
            }
        }
        assert!(!secrets.is_empty(), "{family} in {place} hides nothing");
        let mut cuts = Vec::new();
        if place == "chunked" {
            let secret = &secrets[dice.below(secrets.len())];
            cuts = vec![dice.between(secret.start, secret.end), dice.between(0, text.len())];
            cuts.push(dice.between(secret.start, secret.end));
            cuts.sort_unstable();
        }
        Self { family, place, text, secrets, cuts }
    }

    /// The pieces in which the text is given.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.cuts.iter().copied());
        let ends = self.cuts.iter().copied().chain([self.text.len()]);
        starts.zip(ends).map(|(start, end)| &self.text.as_bytes()[start..end])
    }

    /// Whether some of a secret is still to be read: eight bytes in a row of it, or all of a shorter one.
    ///
    /// What also stands elsewhere in the text, as a name does, is not counted, and zero-width characters hide nothing.
    #[must_use]
    pub fn survives(&self, output: &str) -> bool {
        let seen = visible(output);
        self.secrets.iter().any(|range| {
            let secret = visible(&self.text[range.clone()]);
            let around = format!("{}\n{}", &self.text[..range.start], &self.text[range.end..]);
            let letters: Vec<char> = secret.chars().collect();
            letters.windows(WINDOW.min(letters.len())).any(|part| {
                let part: String = part.iter().collect();
                seen.contains(&part) && !around.contains(&part)
            })
        })
    }

    /// The lines, counted from one, on which a secret stands: what a scanner that names lines must name one of.
    #[must_use]
    pub fn lines(&self) -> Range<usize> {
        let line = |at: usize| 1 + self.text[..at].matches('\n').count();
        let first = self.secrets.iter().map(|range| line(range.start)).min().unwrap_or(1);
        let last = self.secrets.iter().map(|range| line(range.end)).max().unwrap_or(1);
        first..last + 1
    }
}

/// Without what shows nothing.
pub(crate) fn visible(text: &str) -> String {
    text.chars().filter(|letter| !ZERO_WIDTH.contains(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_says_where_its_secret_is() {
        let marked = format!("a = {}\nb", hidden("12345678901"));
        let one = Sample::from_marked("f", "prose", &marked, &mut Dice::of(0, &[], 0));
        assert_eq!(one.text, "a = 12345678901\nb");
        assert_eq!(&one.text[one.secrets[0].clone()], "12345678901");
        assert_eq!(one.lines(), 1..2);
        assert!(one.survives("a = 12345678901\nb") && one.survives("***34567890***"));
        assert!(!one.survives("a = ***\nb") && !one.survives("a = ***5678901\nb"));
    }

    #[test]
    fn zero_width_characters_hide_nothing() {
        let marked = format!("t {}", hidden("abcdef\u{200b}ghijkl"));
        let one = Sample::from_marked("f", "prose", &marked, &mut Dice::of(0, &[], 0));
        assert!(one.survives(&one.text) && one.survives("t abcdefghijkl") && !one.survives("t ***"));
    }

    #[test]
    fn there_are_enough_of_every_family_and_every_place() {
        let all = positives(crate::TESTED);
        assert!(all.len() >= 2_000, "{}", all.len());
        for family in FAMILIES {
            let places: std::collections::BTreeSet<_> =
                all.iter().filter(|one| one.family == family.name).map(|one| one.place).collect();
            assert!(places.len() >= 3, "{} stands only in {places:?}", family.name);
        }
        for place in PLACES.into_iter().chain(writings::PLACES) {
            assert!(all.iter().filter(|one| one.place == place).count() >= 40, "{place}");
        }
        assert!(all.iter().filter(|one| one.place == "chunked").all(|one| one.pieces().count() == 4));
        let again = positives(crate::TESTED);
        assert!(all.iter().zip(&again).all(|(a, b)| a.text == b.text && a.secrets == b.secrets));
        assert!(positives(crate::HELD_OUT).iter().zip(&all).all(|(a, b)| a.text != b.text));
    }
}
