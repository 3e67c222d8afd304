//! Says which of the bytes after a head are content, and where it ends.

use super::chunked::Chunks;
use super::error::BadBody;
use super::fields::Fields;
use super::framing::Framing;

/// Reads content in whatever pieces it comes.
pub struct Body(State);

enum State {
    Length(u64),
    Chunked(Chunks),
    UntilClose,
    Done,
}

/// What one call found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Content. There may be none in a step.
    pub data: &'a [u8],
    /// How many bytes of the input were used, with what stands around the content.
    pub used: usize,
    /// Whether that was the end. What follows in the input belongs to the next message.
    pub done: bool,
}

impl Body {
    /// For the content of a message with this framing. A tunnel has no content that ends.
    pub fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunks::new()),
            Framing::UntilClose | Framing::Tunnel => State::UntilClose,
        })
    }

    /// Whether the content is over.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            State::Done => true,
            State::Chunked(chunks) => chunks.is_done(),
            State::Length(_) | State::UntilClose => false,
        }
    }

    /// Takes the next bytes. Each call gives one piece of content at most, so it is called until all of the input is used or
    /// the content is over. After a refusal nothing more may be read.
    pub fn read<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, BadBody> {
        let data = match &mut self.0 {
            State::Chunked(chunks) => return chunks.read(input),
            State::Done => &[],
            State::UntilClose => input,
            State::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= count as u64;
                input.get(..count).unwrap_or(input)
            }
        };
        if matches!(self.0, State::Length(0)) {
            self.0 = State::Done;
        }
        Ok(Step { data, used: data.len(), done: self.is_done() })
    }

    /// Told that the connection ended: whether that was the end of the content too.
    pub fn end(&self) -> Result<(), BadBody> {
        let complete = matches!(self.0, State::UntilClose) || self.is_done();
        if complete { Ok(()) } else { Err(BadBody::Truncated) }
    }

    /// The fields after the content, once it is over.
    pub fn trailers(&self) -> Option<&Fields> {
        match &self.0 {
            State::Chunked(chunks) => chunks.trailers(),
            State::Length(_) | State::UntilClose | State::Done => None,
        }
    }
}
