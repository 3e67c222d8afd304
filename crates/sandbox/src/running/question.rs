//! A question to the person at the terminal while a command has it.
//!
//! Flow: somebody has a question -> what the command prints waits -> a line of the person's is the answer -> the command has
//! the terminal again, and draws itself anew. Invariants: what is typed for an answer never reaches the command, and nothing
//! that the command prints comes between question and answer; what was typed before the question could be read counts for
//! nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::termios::Winsize;

use super::{Attendant, Running, write_all};
use crate::standard::Kind;

/// Whatever is typed so soon was meant for the command.
const READING: Duration = Duration::from_millis(500);
/// The longest answer.
const MOST: usize = 32;

/// A question that stands on the terminal.
#[derive(Debug)]
pub(super) struct Question {
    shown_at: Instant,
    typed: String,
}

impl Question {
    /// Shows it.
    pub(super) fn show(terminal: &OwnedFd, text: &str) -> io::Result<Self> {
        let lines = text.replace('\n', "\r\n");
        write_all(terminal, format!("\r\n{lines}").as_bytes())?;
        Ok(Self { shown_at: Instant::now(), typed: String::new() })
    }

    /// Takes what was typed; an answer if it is whole.
    pub(super) fn take(&mut self, terminal: &OwnedFd, bytes: &[u8]) -> Option<String> {
        if self.shown_at.elapsed() < READING {
            return None;
        }
        let echo = |text: &str| {
            let _ = write_all(terminal, text.as_bytes());
        };
        for byte in bytes {
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
                // A key that is not a letter sends several bytes, letters among them.
                0x1b => return None,
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
    /// Shows a question, if there is one and none stands yet; one that nobody asks any more is taken back.
    pub(super) fn ask(&mut self, attendant: Option<&dyn Attendant>) {
        let Some(own) = self.own.as_ref().filter(|_| self.standard.kinds[0] == Kind::Terminal) else {
            return;
        };
        let text = attendant.and_then(Attendant::question);
        match (&self.question, text) {
            (None, Some(text)) => self.question = Question::show(&own.fd, &text).ok(),
            (Some(_), None) => self.end_question(),
            (Some(_), Some(_)) | (None, None) => {}
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
        self.end_question();
        let goes_on = attendant.as_mut().is_none_or(|one| one.answered(&answer).is_continue());
        self.goes_on(goes_on, attendant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egr_20_an_answer_is_a_line_that_was_typed_after_the_question() {
        let null: OwnedFd = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into();
        let mut early = Question::show(&null, "may it?").unwrap();
        assert_eq!(early.take(&null, b"a\r"), None, "what was typed into the command is no answer");
        let mut question = Question { shown_at: Instant::now() - READING, typed: String::new() };
        assert_eq!(question.take(&null, b"al\x1b[A"), None, "an arrow is no letter");
        assert_eq!(question.take(&null, b"\x7fways\r"), Some("aways".into()));
        assert_eq!(question.take(&null, b"s\x03"), Some(String::new()));
    }
}
