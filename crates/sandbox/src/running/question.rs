//! A question to the person at the terminal while a command has it.
//!
//! Flow: somebody has a question -> what the command prints waits, and the terminal is put right -> a line of the person's is
//! the answer -> the command has the terminal again, and draws itself anew. Invariants: what is typed for an answer never
//! reaches the command, and nothing that the command prints, or left in the terminal, changes what the person reads; an
//! answer is to the question that was shown; what was typed before it could be read, or pasted, counts for nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::termios::{QueueSelector, Winsize};

use super::carry::write_all;
use super::{Attendant, Running};
use crate::standard::Kind;

/// Whatever is typed so soon was meant for the command.
const READING: Duration = Duration::from_millis(500);
/// The longest answer.
const MOST: usize = 32;
/// Ends whatever a command has begun (a sequence, a text for the terminal, printing elsewhere), and undoes what would hide or
/// move what is shown: modes, margins, colours, letters, what is on the screen.
const PUT_RIGHT: &str = "\x18\x1b<\x1b\\\x07\x1b[4i\x1b[!p\x1b[?69l\x1b[r\x1b[?6l\x1b[?5l\x1b[4l\x1b[?7h\x1b[?25h\x1b[12h\x1b(B\x1b)B\x0f\
    \x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b[0m\x1b[2J\x1b[H";

/// A question that stands on the terminal.
#[derive(Debug)]
pub(super) struct Question {
    text: String,
    shown_at: Instant,
    typed: String,
    keys: Keys,
}

/// What a key that is not a letter sends, as far as it came.
#[derive(Debug, Default)]
enum Keys {
    #[default]
    Plain,
    /// An escape came.
    Escape,
    /// And a bracket; with its numbers.
    Sequence(Vec<u8>),
    /// Text is pasted, until it is said to be over.
    Pasted(Vec<u8>),
}

impl Keys {
    /// Takes a byte; true if it was typed as a letter.
    fn take(&mut self, byte: u8) -> bool {
        const BEGINS: &[u8] = b"200";
        const ENDS: &[u8] = b"\x1b[201~";
        match self {
            Self::Plain if byte == 0x1b => *self = Self::Escape,
            Self::Plain => return true,
            Self::Escape if byte == b'[' || byte == b'O' => *self = Self::Sequence(Vec::new()),
            Self::Escape => *self = Self::Plain,
            Self::Sequence(numbers) if byte == b'~' && numbers == BEGINS => *self = Self::Pasted(Vec::new()),
            Self::Sequence(_) if (0x40..=0x7e).contains(&byte) => *self = Self::Plain,
            Self::Sequence(numbers) if numbers.len() < MOST => numbers.push(byte),
            Self::Sequence(_) => {}
            Self::Pasted(last) => {
                last.push(byte);
                if last.ends_with(ENDS) {
                    *self = Self::Plain;
                } else if last.len() > ENDS.len() {
                    last.remove(0);
                }
            }
        }
        false
    }
}

impl Question {
    /// Shows it.
    fn show(terminal: &OwnedFd, text: &str) -> io::Result<Self> {
        // What was typed so far was meant for the command; it is not there any more to be read.
        let _ = rustix::termios::tcflush(terminal, QueueSelector::IFlush);
        let lines = text.replace('\n', "\r\n");
        write_all(terminal, format!("{PUT_RIGHT}{lines}").as_bytes())?;
        Ok(Self { text: text.to_owned(), shown_at: Instant::now(), typed: String::new(), keys: Keys::Plain })
    }

    /// Takes what was typed; an answer if it is whole.
    fn take(&mut self, terminal: &OwnedFd, bytes: &[u8]) -> Option<String> {
        let is_early = self.shown_at.elapsed() < READING;
        let echo = |text: &str| {
            let _ = write_all(terminal, text.as_bytes());
        };
        for byte in bytes {
            if !self.keys.take(*byte) || is_early {
                continue;
            }
            match byte {
                b'\r' | b'\n' => {
                    echo("\r\n");
                    return Some(std::mem::take(&mut self.typed));
                }
                // To interrupt, or to end the input, is no.
                3 | 4 => {
                    echo("\r\n");
                    return Some(String::new());
                }
                8 | 0x7f if self.typed.pop().is_some() => echo("\x08 \x08"),
                b' '..=b'~' if self.typed.len() < MOST => {
                    self.typed.push(char::from(*byte));
                    echo(&char::from(*byte).to_string());
                }
                _ => {}
            }
        }
        None
    }
}

impl Running {
    /// Shows the question that there is now; one that nobody asks any more is taken back.
    pub(super) fn ask(&mut self, attendant: &mut Option<&mut dyn Attendant>, alive: bool) {
        if self.own.is_none() || self.standard.kinds[0] != Kind::Terminal {
            return;
        }
        let text = attendant.as_ref().filter(|_| alive).and_then(|one| one.question());
        let Some(text) = text else {
            if self.question.is_some() {
                self.end_question();
            }
            return;
        };
        if self.question.as_ref().is_some_and(|shown| shown.text == text) {
            return;
        }
        self.question = match &self.own {
            Some(own) if !self.input_ended => Question::show(&own.fd, &text).ok(),
            _ => None,
        };
        if self.question.is_none() {
            // Nobody is there to answer.
            let goes_on = attendant.as_mut().is_none_or(|one| one.answered(&text, "").is_continue());
            self.goes_on(goes_on, attendant);
        }
    }

    /// The command has the terminal again; what it draws was disturbed, so it is told of another size.
    fn end_question(&mut self) {
        self.question = None;
        if let (Some(own), Some(terminal)) = (&self.own, &self.terminal)
            && let Some(size) = own.size()
        {
            let smaller = Winsize { ws_row: size.ws_row.saturating_sub(1), ..size };
            let _ = rustix::termios::tcsetwinsize(terminal, smaller);
            let _ = rustix::termios::tcsetwinsize(terminal, size);
        }
    }

    /// Takes what the person types for an answer.
    pub(super) fn take_answer(&mut self, attendant: &mut Option<&mut dyn Attendant>) {
        let mut bytes = [0u8; 256];
        let (Some(question), Some(own)) = (&mut self.question, &self.own) else { return };
        let answer = match rustix::io::read(&self.standard.host[0], &mut bytes) {
            // Nobody is there to answer.
            Ok(0) | Err(rustix::io::Errno::IO) => {
                self.input_ended = true;
                Some(String::new())
            }
            Ok(got) => question.take(&own.fd, bytes.get(..got).unwrap_or_default()),
            Err(_) => return,
        };
        let Some(answer) = answer else { return };
        let shown = std::mem::take(&mut question.text);
        self.end_question();
        let goes_on = attendant.as_mut().is_none_or(|one| one.answered(&shown, &answer).is_continue());
        self.goes_on(goes_on, attendant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn null() -> OwnedFd {
        std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into()
    }

    fn shown() -> Question {
        let shown = Question::show(&null(), "may it?").unwrap();
        Question { shown_at: Instant::now() - READING, ..shown }
    }

    #[test]
    fn egr_20_an_answer_is_a_line_that_was_typed_after_the_question() {
        let null = null();
        let mut early = Question::show(&null, "may it?").unwrap();
        assert_eq!(early.take(&null, b"a\r"), None, "what was typed into the command is no answer");
        let mut question = shown();
        assert_eq!(question.take(&null, b"al\x1b[A"), None, "an arrow is no letter");
        assert_eq!(question.take(&null, b"\x1b"), None);
        assert_eq!(question.take(&null, b"[B\x1bOC"), None, "wherever it is cut");
        assert_eq!(question.take(&null, b"\x7fways\r"), Some("aways".into()));
        assert_eq!(question.take(&null, b"s\x03"), Some(String::new()));
    }

    #[test]
    fn egr_20_what_is_pasted_is_no_answer() {
        let (null, mut question) = (null(), shown());
        let pasted = [b"\x1b[200~".as_slice(), &[b'x'; 600], b"\rs\ralways\r\x1b[20", b"1~"].concat();
        for part in pasted.chunks(7) {
            assert_eq!(question.take(&null, part), None);
        }
        assert_eq!(question.take(&null, b"no\r"), Some("no".into()));
    }
}
