//! Looks for planted secrets, for what an encoding makes of them, and for their beginnings.

use std::path::Path;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::secrets::Planted;

/// How much of a value is too much, when the rest was cut off.
const BEGINNING: usize = 24;

/// Knows every form of every secret, and remembers where one was found.
pub struct Search {
    machine: AhoCorasick,
    /// Family and form of each pattern.
    forms: Vec<(&'static str, &'static str)>,
    found: Vec<String>,
    bytes: usize,
}

impl Search {
    pub fn new(planted: &[Planted]) -> Self {
        let (mut patterns, mut forms): (Vec<Vec<u8>>, Vec<_>) = (Vec::new(), Vec::new());
        for one in planted {
            for value in &one.values {
                for (form, pattern) in forms_of(value) {
                    patterns.push(pattern);
                    forms.push((one.family, form));
                }
            }
        }
        Self { machine: AhoCorasick::new(patterns).unwrap(), forms, found: Vec::new(), bytes: 0 }
    }

    /// Looks at what came out of somewhere.
    pub fn look(&mut self, place: &str, bytes: &[u8]) {
        self.bytes += bytes.len();
        for hit in self.machine.find_overlapping_iter(bytes) {
            let (family, form) = self.forms[hit.pattern().as_usize()];
            let told = format!("{family} ({form}) in {place}: {}", around(bytes, hit.start(), hit.end()));
            if !self.found.contains(&told) {
                self.found.push(told);
            }
        }
    }

    /// Looks at every file below a directory, by content and by name.
    pub fn look_below(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            self.look(&format!("the names in {}", folder.display()), entry.file_name().as_encoded_bytes());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                self.look_below(&path);
            } else if kind.is_file() {
                self.look(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
            }
        }
    }

    /// How much was found.
    pub fn found(&self) -> usize {
        self.found.len()
    }

    /// Nothing was found, and there was something to look at.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.bytes > 10_000, "only {} bytes were looked at", self.bytes);
        assert!(self.found.is_empty(), "{} leaks:\n{}", self.found.len(), self.found.join("\n"));
    }
}

/// A value as it is, encoded, and its beginning.
fn forms_of(value: &str) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = value.as_bytes();
    let mut forms = vec![("plain", bytes.to_vec())];
    if value.len() > BEGINNING + 8 {
        forms.push(("its beginning", bytes[..BEGINNING].to_vec()));
    }
    forms.push(("hex", hex::encode(bytes).into_bytes()));
    forms.push(("hex", hex::encode_upper(bytes).into_bytes()));
    // In the middle of something longer a value can begin at any of three places.
    for skipped in 0..3 {
        let Some(rest) = bytes.get(skipped..) else { continue };
        let rest = &rest[..rest.len() / 3 * 3];
        forms.push(("base64", STANDARD_NO_PAD.encode(rest).into_bytes()));
        forms.push(("base64", URL_SAFE_NO_PAD.encode(rest).into_bytes()));
    }
    let escaped = |text: &str| -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
    };
    if escaped(value) != value {
        forms.push(("URL", escaped(value).into_bytes()));
    }
    forms
}

/// What stands around a hit, without the hit.
fn around(bytes: &[u8], start: usize, end: usize) -> String {
    let before = &bytes[start.saturating_sub(60)..start];
    let after = &bytes[end..bytes.len().min(end + 20)];
    format!(
        "{}[here]{}",
        String::from_utf8_lossy(before).escape_debug(),
        String::from_utf8_lossy(after).escape_debug()
    )
}

/// The control: whatever is there in one of the forms is found.
#[test]
fn control_every_form_of_every_secret_is_found() {
    let planted = crate::secrets::all();
    for one in &planted {
        for value in &one.values {
            for text in [
                format!("x {value} y"),
                hex::encode(value),
                STANDARD_NO_PAD.encode(format!("x{value}y")),
                URL_SAFE_NO_PAD.encode(format!("xy{value}")),
                value[..value.len() - 4].to_owned(),
            ] {
                let mut search = Search::new(&planted);
                search.look("here", text.as_bytes());
                // Short ones have no beginning of their own.
                let cut = text.len() == value.len() - 4 && value.len() <= BEGINNING + 8;
                assert!(!search.found.is_empty() || cut, "{}: {text}", one.family);
            }
        }
    }
}
