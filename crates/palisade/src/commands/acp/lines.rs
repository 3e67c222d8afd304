//! What an editor says, line by line: JSON-RPC 2.0, one message a line, each within a bound.

use std::io::{BufRead, Read};

use serde_json::Value;

/// Bytes of a line.
const LINE: u64 = 8 << 20;
/// Bytes of an id or the name of a method.
const NAME: usize = 1024;

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    Request(Value, String, Value),
    Notice(String, Value),
    /// The answer to a request of ours; nothing if it was refused.
    Answer(u64, Option<Value>),
    Bad(&'static str),
}

/// The next message; none when nothing more comes. A line that is too long is read to its end and dropped.
pub(super) fn next(from: &mut impl BufRead) -> Option<Incoming> {
    loop {
        let mut line = Vec::new();
        let read = from.by_ref().take(LINE).read_until(b'\n', &mut line).ok()?;
        if read == 0 {
            return None;
        }
        if line.len() as u64 == LINE && line.last() != Some(&b'\n') {
            drop(line);
            pass_over(from)?;
            return Some(Incoming::Bad("the line is too long"));
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            return Some(message(&line));
        }
    }
}

/// Drops the rest of a line, holding none of it.
fn pass_over(from: &mut impl BufRead) -> Option<()> {
    loop {
        let piece = from.fill_buf().ok()?;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(piece.len(), |end| end + 1);
        from.consume(taken);
        if end.is_some() || taken == 0 {
            return Some(());
        }
    }
}

fn message(line: &[u8]) -> Incoming {
    // How deep it may be nested has a bound there.
    let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else {
        return Incoming::Bad("the line is no JSON object");
    };
    let params = message.remove("params").unwrap_or(Value::Null);
    let is_id = |id: &Value| match id {
        Value::Number(_) => true,
        Value::String(text) => text.len() <= NAME,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    match (message.remove("method"), message.remove("id")) {
        (Some(Value::String(method)), None) if method.len() <= NAME => Incoming::Notice(method, params),
        (Some(Value::String(method)), Some(id)) if method.len() <= NAME && is_id(&id) => {
            Incoming::Request(id, method, params)
        }
        (None, Some(id)) => match id.as_u64() {
            Some(id) => Incoming::Answer(id, message.remove("result")),
            None => Incoming::Bad("an answer to nothing that was asked"),
        },
        (Some(_), _) | (None, None) => Incoming::Bad("the line is no message"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<Incoming> {
        let mut from = std::io::BufReader::with_capacity(7, text);
        std::iter::from_fn(|| next(&mut from)).collect()
    }

    #[test]
    fn what_is_no_message_is_told_and_the_next_is_read() {
        let deep = "[".repeat(100_000);
        let lines = format!(
            "\n  \n{{\"id\":1,\"method\":\"a\",\"params\":[]}}\nnonsense\n[1]\n{{\"method\":7}}\n{{\"id\":[],\"method\":\"a\"}}\n{deep}\n{{\"id\":\"x\"}}\n{{\"id\":3,\"error\":{{}}}}\n{{\"method\":\"b\"}}"
        );
        let heard = all(lines.as_bytes());
        assert_eq!(heard[0], Incoming::Request(1.into(), "a".into(), serde_json::json!([])));
        assert!(heard[1..7].iter().all(|one| matches!(one, Incoming::Bad(_))), "{heard:?}");
        assert_eq!(heard[7..], [Incoming::Answer(3, None), Incoming::Notice("b".into(), Value::Null)]);
    }

    #[test]
    fn a_line_without_end_is_held_up_to_its_bound_and_dropped() {
        let long = usize::try_from(LINE).unwrap() + 10;
        let mut text = vec![b'x'; long];
        text.extend_from_slice(b"\n{\"method\":\"b\"}\n");
        text.extend(vec![b'y'; long]);
        let heard = all(&text);
        assert_eq!(heard.len(), 3);
        assert!(matches!(heard[0], Incoming::Bad("the line is too long")));
        assert_eq!(heard[1], Incoming::Notice("b".into(), Value::Null));
        assert!(matches!(heard[2], Incoming::Bad("the line is too long")));
    }
}
