//! Cuts what is nested too deep out of a record before it is parsed: a mark in its place, and no recursion.

use std::borrow::Cow;

/// The record with everything below so many levels replaced by a mark. It need not be JSON: whoever parses it will say so.
pub(crate) fn cut(record: &[u8], most: usize) -> Cow<'_, [u8]> {
    if deepest(record) <= most {
        return Cow::Borrowed(record);
    }
    let mark = format!("\"[nested deeper than {most}: cut]\"");
    let mut level = Level::default();
    let mut kept = Vec::with_capacity(record.len().min(1 << 20));
    for byte in record {
        let before = level.depth;
        level.step(*byte);
        if before <= most && level.depth > most {
            kept.extend_from_slice(mark.as_bytes());
        } else if before <= most {
            kept.push(*byte);
        }
    }
    Cow::Owned(kept)
}

fn deepest(record: &[u8]) -> usize {
    let mut level = Level::default();
    let depths = record.iter().map(|byte| {
        level.step(*byte);
        level.depth
    });
    depths.max().unwrap_or(0)
}

/// How deep a byte stands.
#[derive(Default)]
struct Level {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Level {
    fn step(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' => self.in_text = !self.in_text,
            _ if self.in_text => {}
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn ses_08_nesting_is_cut_at_its_depth_with_a_mark() {
        for (record, cut_to) in [
            (nested(2), nested(2)),
            (nested(3), "[[\"[nested deeper than 2: cut]\"]]".to_owned()),
            (
                "{\"a\":[{\"b\":1},2],\"c\":3}".to_owned(),
                "{\"a\":[\"[nested deeper than 2: cut]\",2],\"c\":3}".to_owned(),
            ),
            ("[[\"[[[\\\"[[\"]]".to_owned(), "[[\"[[[\\\"[[\"]]".to_owned()),
            ("]]]]".to_owned(), "]]]]".to_owned()),
        ] {
            assert_eq!(String::from_utf8_lossy(&cut(record.as_bytes(), 2)), cut_to);
        }
        let deep = nested(200_000);
        let value: Value = serde_json::from_slice(&cut(deep.as_bytes(), 32)).unwrap();
        assert!(value.to_string().contains("nested deeper than 32"));
    }

    proptest! {
        #[test]
        fn ses_08_no_bytes_are_left_too_deep(bytes in proptest::collection::vec(prop_oneof![
            Just(b'['), Just(b']'), Just(b'{'), Just(b'}'), Just(b'"'), Just(b'\\'), any::<u8>()
        ], 0..400), most in 0usize..6) {
            prop_assert!(deepest(&cut(&bytes, most)) <= most);
        }

        #[test]
        fn ses_08_what_is_json_stays_json(levels in 0usize..60, most in 0usize..40) {
            let record = format!("{{\"a\":{},\"b\":\"}}\"}}", nested(levels));
            let value: Result<Value, _> = serde_json::from_slice(&cut(record.as_bytes(), most));
            prop_assert!(value.is_ok());
        }
    }
}
