//! Turns the bytes of a WebSocket, in one direction, into messages that can be judged, and messages into bytes again.
//!
//! Flow: bytes -> [`Reader::read`] -> [`Event`] -> [`Event::write`].
//!
//! Invariants: a client's frames are masked and a server's are not; a length is written in the shortest way; control
//! frames are short and whole; a text is given as a whole, in UTF-8 and up to a bound, everything else in the pieces in
//! which it comes; after the word to close nothing more is taken. A reserved bit is refused unless compression was agreed
//! on, and then a compressed message is told as one that cannot be judged.
//!
//! Not here: the handshake (`http1`), compression, rules about messages.

mod frame;

use frame::{Decoded, Frame, Head, Header, Opcode};

/// The longest content of a control frame.
pub const MAX_CONTROL: usize = 125;

/// Who sent the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The client: each frame is masked.
    Client,
    /// The server: none is.
    Server,
}

/// Whether messages may be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nobody agreed to it.
    None,
    /// It was agreed on in the handshake.
    Agreed,
}

/// What a message consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Bytes.
    Binary,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole text, from however many frames.
    Text(String),
    /// A piece of a message that is not kept: bytes, or anything that is compressed.
    Piece {
        /// Of what kind of message.
        kind: Kind,
        /// Whether it is compressed.
        compressed: bool,
        /// Whether it is the message's first piece.
        first: bool,
        /// Whether the message ends with it.
        last: bool,
        /// Unmasked content.
        bytes: Vec<u8>,
    },
    /// Are you there?
    Ping(Vec<u8>),
    /// Yes.
    Pong(Vec<u8>),
    /// The end, perhaps with its reason.
    Close(Option<(u16, String)>),
}

impl Event {
    /// Writes it as one frame. A client gives a key to mask it with that nobody can guess, a server none. What is longer than
    /// its kind allows (a reason of more than 123 bytes, a ping of more than 125) is cut.
    pub fn write(&self, out: &mut Vec<u8>, key: Option<[u8; 4]>) {
        let control = |opcode, bytes: &[u8], out: &mut Vec<u8>| {
            let content = bytes.get(..MAX_CONTROL).unwrap_or(bytes);
            Frame { opcode, fin: true, compressed: false, content }.write(out, key);
        };
        match self {
            Self::Text(text) => {
                let content = text.as_bytes();
                Frame { opcode: Opcode::Text, fin: true, compressed: false, content }.write(out, key);
            }
            Self::Piece { kind, compressed, first, last, bytes } => {
                let opcode = match (first, kind) {
                    (false, _) => Opcode::Continuation,
                    (true, Kind::Text) => Opcode::Text,
                    (true, Kind::Binary) => Opcode::Binary,
                };
                // The bit stands on the first frame of a message only.
                let compressed = *compressed && *first;
                Frame { opcode, fin: *last, compressed, content: bytes }.write(out, key);
            }
            Self::Ping(bytes) => control(Opcode::Ping, bytes, out),
            Self::Pong(bytes) => control(Opcode::Pong, bytes, out),
            Self::Close(None) => control(Opcode::Close, &[], out),
            Self::Close(Some((code, reason))) => {
                let end = reason.floor_char_boundary(MAX_CONTROL - 2);
                let reason = reason.get(..end).unwrap_or_default();
                control(Opcode::Close, &[&code.to_be_bytes(), reason.as_bytes()].concat(), out);
            }
        }
    }
}

/// Why a stream of frames is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// A bit that means nothing here.
    #[error("a frame has a reserved bit set that nobody agreed on")]
    Reserved,
    /// A kind of frame that does not exist.
    #[error("a frame has an unknown kind")]
    Opcode,
    /// Masked by a server, or not masked by a client.
    #[error("a frame is masked by a server or not masked by a client")]
    Mask,
    /// A length in a longer way than needed, or above the bound.
    #[error("the length of a frame is too large or written in a longer way than needed")]
    Length,
    /// A control frame that is long or in parts.
    #[error("a control frame is longer than {MAX_CONTROL} bytes or in parts")]
    Control,
    /// A message within another, or the middle of none.
    #[error("a frame continues no message, or begins one within another")]
    Order,
    /// Text that is too long to be judged.
    #[error("a text message is longer than can be judged")]
    TextTooLong,
    /// Text that is none.
    #[error("a text message or the reason of a close is not in UTF-8")]
    Utf8,
    /// A close with half a code, or with one that is never sent.
    #[error("the code of a close is malformed")]
    CloseCode,
    /// Anything after a close.
    #[error("a frame follows the one that closes")]
    AfterClose,
}

/// Reads the frames of one direction.
pub struct Reader {
    sender: Sender,
    compression: Compression,
    max_text: usize,
    max_frame: u64,
    state: State,
    /// The message that is not over: its kind, whether it is compressed.
    message: Option<(Kind, bool)>,
    /// Content of the text that is not over.
    text: Vec<u8>,
    /// Content of the control frame that is not over.
    control: Vec<u8>,
}

enum State {
    Head(Header),
    /// A frame whose content is not over: its head, how much of it was read, and whether its first piece is still to come.
    Content {
        head: Head,
        read: u64,
        first: bool,
    },
    Closed,
}

/// What one call found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was read, if anything is there as a whole.
    pub event: Option<Event>,
    /// How many bytes of the input were used.
    pub used: usize,
}

impl Reader {
    /// A reader of what `sender` sends. Texts up to `max_text` bytes are judged, longer ones refused, and so are frames longer
    /// than `max_frame`.
    pub fn new(sender: Sender, compression: Compression, max_text: usize, max_frame: u64) -> Self {
        Self {
            sender,
            compression,
            max_text,
            max_frame,
            state: State::Head(Header::default()),
            message: None,
            text: Vec::new(),
            control: Vec::new(),
        }
    }

    /// Whether the sender said that it is over.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Takes the next bytes, up to the end of one event. It is called until all of the input is used. After a refusal nothing
    /// more may be read.
    pub fn read(&mut self, input: &[u8]) -> Result<Step, BadFrame> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            match &mut self.state {
                State::Closed if rest.is_empty() => return Ok(Step { event: None, used }),
                State::Closed => return Err(BadFrame::AfterClose),
                State::Head(header) => {
                    let (count, decoded) = header.take(rest)?;
                    used += count;
                    let Decoded::Whole(head) = decoded else { return Ok(Step { event: None, used }) };
                    let first = self.admit(&head)?;
                    self.state = State::Content { head, read: 0, first };
                }
                State::Content { .. } => {
                    let (count, event) = self.content(rest)?;
                    used += count;
                    let more = event.is_none() && used < input.len();
                    if !more {
                        return Ok(Step { event, used });
                    }
                }
            }
        }
    }

    /// Whether a frame may stand here, and whether it begins a message.
    fn admit(&mut self, head: &Head) -> Result<bool, BadFrame> {
        if head.mask.is_some() != (self.sender == Sender::Client) {
            return Err(BadFrame::Mask);
        }
        if head.opcode.is_control() {
            let good = head.fin && head.length <= MAX_CONTROL as u64;
            let bit = head.compressed;
            return if bit {
                Err(BadFrame::Reserved)
            } else if good {
                Ok(false)
            } else {
                Err(BadFrame::Control)
            };
        }
        if head.compressed && (self.compression == Compression::None || head.opcode == Opcode::Continuation) {
            return Err(BadFrame::Reserved);
        }
        if head.length > self.max_frame {
            return Err(BadFrame::Length);
        }
        let kind = match head.opcode {
            Opcode::Text => Some(Kind::Text),
            Opcode::Binary => Some(Kind::Binary),
            Opcode::Continuation | Opcode::Close | Opcode::Ping | Opcode::Pong => None,
        };
        if kind.is_some() == self.message.is_some() {
            return Err(BadFrame::Order);
        }
        if let Some(kind) = kind {
            self.message = Some((kind, head.compressed));
        }
        let is_text = self.message == Some((Kind::Text, false));
        if is_text && head.length > self.max_text.saturating_sub(self.text.len()) as u64 {
            return Err(BadFrame::TextTooLong);
        }
        Ok(kind.is_some())
    }

    /// Takes content of the frame that is not over.
    fn content(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), BadFrame> {
        let State::Content { head, read, first } = &mut self.state else { return Ok((0, None)) };
        let left = usize::try_from(head.length - *read).unwrap_or(usize::MAX);
        let piece = input.get(..left.min(input.len())).unwrap_or(input);
        let mut bytes = piece.to_vec();
        frame::mask(&mut bytes, head.mask, *read);
        *read += piece.len() as u64;
        let (head, begins, over) = (*head, *first, *read == head.length);
        // A piece that is empty says something only if the frame is.
        if piece.is_empty() && !over {
            return Ok((0, None));
        }
        *first = false;
        if over {
            self.state = State::Head(Header::default());
        }
        let event = if head.opcode.is_control() {
            self.control.append(&mut bytes);
            if over { Some(self.control_event(head.opcode)?) } else { None }
        } else {
            self.data_event(bytes, begins, over && head.fin)?
        };
        Ok((piece.len(), event))
    }

    fn control_event(&mut self, opcode: Opcode) -> Result<Event, BadFrame> {
        let bytes = std::mem::take(&mut self.control);
        match opcode {
            Opcode::Ping => Ok(Event::Ping(bytes)),
            Opcode::Pong => Ok(Event::Pong(bytes)),
            Opcode::Close | Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                self.state = State::Closed;
                close(&bytes).map(Event::Close)
            }
        }
    }

    fn data_event(&mut self, mut bytes: Vec<u8>, first: bool, last: bool) -> Result<Option<Event>, BadFrame> {
        let (kind, compressed) = self.message.ok_or(BadFrame::Order)?;
        if last {
            self.message = None;
        }
        if (kind, compressed) != (Kind::Text, false) {
            // An empty frame in the middle says nothing.
            let silent = bytes.is_empty() && !first && !last;
            return Ok((!silent).then_some(Event::Piece { kind, compressed, first, last, bytes }));
        }
        self.text.append(&mut bytes);
        if !last {
            return Ok(None);
        }
        let text = String::from_utf8(std::mem::take(&mut self.text)).map_err(|_| BadFrame::Utf8)?;
        Ok(Some(Event::Text(text)))
    }
}

/// The code and the reason of a close.
fn close(bytes: &[u8]) -> Result<Option<(u16, String)>, BadFrame> {
    let Some((code, reason)) = bytes.split_first_chunk() else {
        return if bytes.is_empty() { Ok(None) } else { Err(BadFrame::CloseCode) };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(BadFrame::CloseCode);
    }
    let reason = str::from_utf8(reason).map_err(|_| BadFrame::Utf8)?;
    Ok(Some((code, reason.to_owned())))
}
