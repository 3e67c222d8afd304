//! An answer while it comes in, within bounds.

use serde_json::Value;

use super::{Answer, Call, Stop, Trouble};
use crate::prices::Usage;

/// Bytes of text, of one call's input, and number of calls that an answer may have.
const TEXT: usize = 1 << 20;
const INPUT: usize = 1 << 18;
const CALLS: usize = 32;
const NAME: usize = 64;

/// A call of which pieces come in.
#[derive(Debug, Default)]
struct Piece {
    /// What the provider calls it while it streams.
    index: u64,
    name: String,
    input: String,
    signature: Option<String>,
}

/// What has come so far.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    text: String,
    calls: Vec<Piece>,
    pub(crate) usage: Usage,
    pub(crate) stop: Option<Stop>,
    /// The provider said that this was all.
    pub(crate) ended: bool,
}

impl Draft {
    pub(crate) fn say(&mut self, text: &str) -> Result<(), Trouble> {
        if self.text.len() + text.len() > TEXT {
            return Err(Trouble::TooLong);
        }
        self.text.push_str(text);
        Ok(())
    }

    /// Begins a call, or goes on with the one of that index.
    pub(crate) fn call(&mut self, index: u64, name: &str, input: &str) -> Result<(), Trouble> {
        if !self.calls.iter().any(|one| one.index == index) {
            if self.calls.len() == CALLS {
                return Err(Trouble::TooLong);
            }
            self.calls.push(Piece { index, ..Piece::default() });
        }
        let Some(piece) = self.calls.iter_mut().find(|one| one.index == index) else { return Ok(()) };
        if piece.name.len() + name.len() > NAME || piece.input.len() + input.len() > INPUT {
            return Err(Trouble::TooLong);
        }
        piece.name.push_str(name);
        piece.input.push_str(input);
        Ok(())
    }

    /// A call that comes whole.
    pub(crate) fn whole(
        &mut self,
        name: &str,
        input: Option<&Value>,
        signature: Option<&str>,
    ) -> Result<(), Trouble> {
        let index = u64::try_from(self.calls.len()).unwrap_or(u64::MAX);
        self.call(index, name, &input.map_or_else(|| "{}".to_owned(), Value::to_string))?;
        if let (Some(last), Some(signature)) = (self.calls.last_mut(), signature) {
            if signature.len() > INPUT {
                return Err(Trouble::TooLong);
            }
            last.signature = Some(signature.to_owned());
        }
        Ok(())
    }

    /// The answer, if it is whole. Calls have no names of their own yet: the conversation gives them.
    pub(crate) fn finish(self, provider: &str, model: &str) -> Result<Answer, Trouble> {
        if !self.ended {
            return Err(Trouble::CutOff);
        }
        if self.text.is_empty() && self.calls.is_empty() && self.stop != Some(Stop::Refusal) {
            return Err(Trouble::Garbage("an answer with nothing in it".to_owned()));
        }
        let calls: Vec<Call> = self.calls.into_iter().map(called).collect();
        let stop = match self.stop {
            _ if !calls.is_empty() && self.stop != Some(Stop::Length) => Stop::Tools,
            Some(stop) => stop,
            None => Stop::Done,
        };
        Ok(Answer {
            text: self.text,
            calls,
            stop,
            usage: self.usage,
            provider: provider.to_owned(),
            model: model.to_owned(),
        })
    }
}

fn called(piece: Piece) -> Call {
    let input = if piece.input.trim().is_empty() { "{}" } else { &piece.input };
    // What is no document stays a text, which no tool takes: the model is told so.
    let input = serde_json::from_str(input).unwrap_or_else(|_| Value::String(input.to_owned()));
    Call { id: String::new(), name: piece.name, input, signature: piece.signature }
}
