//! Values that a redactor was told, and texts that hold them in other writings.
//!
//! Apart from the labelled corpus: no scanner can find what only its owner knows.

use crate::dice::{ALNUM, Dice};
use crate::encode::{base64, base64_url, json, markup, url};

/// A value without any shape, and how it comes back.
#[derive(Clone, Debug)]
pub struct Known {
    /// What the redactor is told.
    pub value: String,
    /// How it is written in the text.
    pub form: &'static str,
    /// The text.
    pub text: String,
    /// The part of the text that must be gone.
    pub written: String,
}

/// Each of so many values in every form.
#[must_use]
pub fn known(seed: u64, values: usize) -> Vec<Known> {
    let mut all = Vec::new();
    for round in 0..values {
        let mut dice = Dice::of(seed, &["known"], round);
        let value = value(&mut dice);
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        let before = dice.between(0, 2);
        let pairs: Vec<String> = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let units: String = value.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let bytes: String = value.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        let forms = [
            ("as it is", value.clone()),
            ("base64", base64(&value)),
            ("base64 for URLs", base64_url(&value)),
            // What stands before it moves it by one or two bytes.
            ("base64 inside more", base64(format!("{}{value}:tail", "x".repeat(before)))),
            ("hex", hex.clone()),
            ("upper-case hex", hex.to_uppercase()),
            ("URL", url(&value)),
            ("JSON", json(&value)),
            ("JSON in JSON", json(&json(&value))),
            ("shell", format!("'{}'", value.replace('\'', "'\\''"))),
            ("hex with colons", pairs.join(":")),
            ("hex with blanks", pairs.join(" ")),
            ("bytes of a string", bytes),
            ("all of a URL", percent),
            ("a URL in a URL", url(&url(&value))),
            ("JSON in full", units),
            ("markup", markup(&value)),
            ("base64 of base64", base64(base64(&value))),
        ];
        for (form, written) in forms {
            // None of these words is one that values are made of.
            let text = format!("it said {written} and went on");
            // At both ends of a longer base64 the neighbours share characters with it.
            let written = match form {
                "base64 inside more" => {
                    let last = (written.len() - 8).min((before + value.len()) / 3 * 4);
                    written[4..last].to_owned()
                }
                _ => written,
            };
            all.push(Known { value: value.clone(), form, text, written });
        }
    }
    all
}

/// Like a person's: words, signs, nothing that a pattern would find.
fn value(dice: &mut Dice) -> String {
    let (a, b, c) = (dice.noun(), dice.adjective(), dice.noun());
    let odd = dice.pick(&["\"", "'", "\\", "&", "/", " ", "$", "é"]);
    format!("{a} {b}{odd}{c} {}", dice.run(ALNUM, 3))
}

impl Known {
    /// Whether the value is still to be read: eight characters of it in a row.
    #[must_use]
    pub fn survives(&self, output: &str) -> bool {
        let letters: Vec<char> = self.written.chars().collect();
        letters.windows(8.min(letters.len())).any(|part| output.contains(&part.iter().collect::<String>()))
    }
}

/// So many different values of the usual sizes.
#[must_use]
pub fn known_values(seed: u64, values: usize) -> Vec<String> {
    let one = |round| {
        let mut dice = Dice::of(seed, &["known value"], round);
        let length = dice.between(16, 64);
        dice.mixed(ALNUM, length)
    };
    (0..values).map(one).collect()
}

/// The same, and one of twenty has signs in it, as those have that people make up or that a program draws from all it can type.
#[must_use]
pub fn known_values_with_signs(seed: u64, values: usize) -> Vec<String> {
    const TYPED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&*+-./:;=?@^_~";
    let mut all = known_values(seed, values);
    for (round, value) in all.iter_mut().enumerate().step_by(20) {
        let mut dice = Dice::of(seed, &["known value with signs"], round);
        let length = dice.between(16, 64);
        *value = dice.mixed(TYPED, length);
    }
    all
}
