//! Joins the bytes of a stream into records, one a line, within a bound. A line that is too long is not kept: only whom it is from
//! and to is looked for in it, so that nobody waits for an answer that was in it.
//!
//! Invariant: what is kept is at most one record, and where the stream is cut into pieces changes nothing.

use serde_json::Value;

/// Bytes of a name or an id that is looked for in a line that is too long.
const WORD: usize = 256;

/// What the bytes made.
#[derive(Debug)]
pub(crate) enum Found {
    Record(Vec<u8>),
    /// A line of spaces.
    Blank,
    /// The line is too long from here on.
    TooLong,
    /// A line that was too long has ended.
    Passed(Outline),
}

/// A line that is being read.
#[derive(Debug)]
pub(crate) struct Joiner {
    most: usize,
    record: Vec<u8>,
    passing: Option<Outline>,
}

impl Joiner {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, record: Vec::new(), passing: None }
    }

    /// Whether the bytes that come next are kept by nobody.
    pub(crate) fn is_passing(&self) -> bool {
        self.passing.is_some()
    }

    /// Takes bytes, at most to the end of a line; how many it took, and what they made.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> (usize, Option<Found>) {
        let end = memchr::memchr(b'\n', bytes);
        let (line, taken) = match end {
            Some(end) => (bytes.get(..end).unwrap_or_default(), end + 1),
            None => (bytes, bytes.len()),
        };
        if let Some(outline) = &mut self.passing {
            outline.look(line);
            return (taken, end.map(|_| self.finish()));
        }
        if self.record.len() + line.len() > self.most {
            let mut outline = Outline::default();
            outline.look(&std::mem::take(&mut self.record));
            self.passing = Some(outline);
            return (0, Some(Found::TooLong));
        }
        self.record.extend_from_slice(line);
        (taken, end.map(|_| self.finish()))
    }

    /// Ends the line.
    pub(crate) fn finish(&mut self) -> Found {
        if let Some(outline) = self.passing.take() {
            return Found::Passed(outline);
        }
        let record = std::mem::take(&mut self.record);
        if record.iter().all(u8::is_ascii_whitespace) { Found::Blank } else { Found::Record(record) }
    }
}

/// The outermost `id` and `method` of a record that nobody keeps.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// What stands before the next `:` or `,`, and whether it is no plain word.
    word: Vec<u8>,
    spoiled: bool,
    key: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
    method: Option<Vec<u8>>,
}

impl Outline {
    pub(crate) fn id(&self) -> Option<Value> {
        self.id.as_deref().and_then(|id| serde_json::from_slice(id).ok())
    }

    pub(crate) fn is_request(&self) -> bool {
        self.method.is_some()
    }

    fn look(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_text {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_text = true;
                self.keep(byte);
            }
            b'[' | b'{' => {
                self.spoiled |= self.depth == 1;
                self.depth += 1;
            }
            b']' | b'}' => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key = Some(std::mem::take(&mut self.word)),
            b',' => self.end_member(),
            byte if !byte.is_ascii_whitespace() => self.keep(byte),
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth != 1 || self.spoiled {
            return;
        }
        if self.word.len() < WORD {
            self.word.push(byte);
        } else {
            self.spoiled = true;
        }
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let is_plain = !std::mem::take(&mut self.spoiled);
        match self.key.take().as_deref() {
            Some(b"\"id\"") => self.id = is_plain.then_some(word),
            Some(b"\"method\"") => self.method = Some(word),
            Some(_) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What a stream makes, cut into pieces of that size.
    fn joined(bytes: &[u8], most: usize, piece: usize) -> Vec<String> {
        let (mut joiner, mut found) = (Joiner::new(most), Vec::new());
        let told = |one: Found| match one {
            Found::Record(record) => format!("record {}", String::from_utf8_lossy(&record)),
            Found::Blank => "blank".to_owned(),
            Found::TooLong => "too long".to_owned(),
            Found::Passed(outline) => format!("passed {:?} {}", outline.id(), outline.is_request()),
        };
        for mut rest in bytes.chunks(piece.max(1)) {
            while !rest.is_empty() {
                let (taken, one) = joiner.take(rest);
                rest = &rest[taken..];
                found.extend(one.map(told));
            }
        }
        found.push(told(joiner.finish()));
        found
    }

    #[test]
    fn ses_08_a_record_at_the_bound_is_whole_and_one_above_it_is_not() {
        let record = |length: usize| [vec![b'x'; length], b"\n".to_vec()].concat();
        assert!(joined(&record(1 << 20), 1 << 20, 64 << 10)[0].starts_with("record xxx"));
        assert_eq!(
            joined(&record((1 << 20) + 1), 1 << 20, 64 << 10),
            ["too long", "passed None false", "blank"]
        );
    }

    #[test]
    fn ses_08_the_id_is_found_in_a_line_that_is_too_long() {
        let long = "x".repeat(500);
        for (line, id, is_request) in [
            (format!("{{\"id\":7,\"result\":\"{long}\"}}"), Some(json!(7)), false),
            (
                format!("{{\"params\":{{\"id\":1,\"a\":[\"{long}\\\"\"]}},\"method\":\"m\",\"id\":\"a,b\"}}"),
                Some(json!("a,b")),
                true,
            ),
            (format!("{{ \"method\" : \"{long}\" , \"id\" : 3 }}"), Some(json!(3)), true),
            (format!("{{\"id\":\"{long}\",\"method\":\"m\"}}"), None, true),
            (format!("{{\"id\":[1],\"method\":\"{long}\"}}"), None, true),
            (format!("[{long}]"), None, false),
        ] {
            let found = joined(line.as_bytes(), 40, 16);
            assert_eq!(found, ["too long".to_owned(), format!("passed {id:?} {is_request}")], "{line}");
        }
    }

    proptest! {
        #[test]
        fn ses_08_where_a_stream_is_cut_changes_nothing(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'"'), Just(b'{'), any::<u8>()], 0..600),
            most in 1usize..80,
            piece in 1usize..70,
        ) {
            prop_assert_eq!(joined(&bytes, most, piece), joined(&bytes, most, 1));
        }
    }
}
