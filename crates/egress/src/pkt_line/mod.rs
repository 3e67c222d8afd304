//! Turns the beginning of what `git push` sends into the refs that it wants to change, before any object goes on.
//!
//! Flow: the content of a POST to `git-receive-pack`, in pieces -> [`PushReader::read`] -> [`PushReader::finish`] -> [`Push`], and
//! the bytes that were read, to be sent on if the push is allowed. The pack follows them and is not looked at.
//!
//! Invariants: the server reads the same commands in these bytes, since whatever git would forgive (capabilities on a
//! later line, a ref twice, an odd name) is refused; a signed push, whose commands stand within its certificate, is refused
//! as a whole; everything is bounded. Not here: which refs may be changed, compressed content.

mod command;
mod ref_name;

use std::collections::HashSet;

pub use command::{Change, Command, Oid};
pub use ref_name::{BadRef, RefName};

/// The longest line, with its length.
pub const MAX_LINE: usize = 65520;
/// The most commands, and the most lines about shallow commits.
pub const MAX_COMMANDS: usize = 1000;
/// The most bytes before the pack.
pub const MAX_BYTES: usize = 1 << 20;
/// The most options of a push.
pub const MAX_OPTIONS: usize = 64;
/// The longest option of a push.
pub const MAX_OPTION: usize = 1024;
/// What stands before each line: its length in four digits.
const LENGTH: usize = 4;

/// What a push wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Push {
    /// The refs to change. None are in the short request by which git finds out whether it has to log in.
    pub commands: Vec<Command>,
    /// What the client asks of the server besides: `report-status`, `atomic`, `agent=..`.
    pub capabilities: Vec<String>,
    /// The commits at which the client's history ends.
    pub shallow: Vec<Oid>,
    /// What is said to the hooks of the server.
    pub options: Vec<String>,
}

impl Push {
    /// Whether a pack follows. To delete refs none is needed, and then nothing may follow.
    pub fn has_pack(&self) -> bool {
        self.commands.iter().any(|command| command.change() != Change::Delete)
    }
}

/// Why a push is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPush {
    /// A length that is none, or a packet that does not belong here.
    #[error("the push has a line with a malformed length")]
    Line,
    /// Too much of something.
    #[error("the push has more than {MAX_COMMANDS} commands, or is too long; push less at a time")]
    TooLong,
    /// No two ids and a ref.
    #[error("the push has a malformed command")]
    Command,
    /// Ids of another length than was said, or a hash that nobody knows.
    #[error("the push has object ids that do not fit its object format")]
    ObjectFormat,
    /// A name that git does not allow.
    #[error("the push names a ref that cannot be: {0}")]
    Ref(#[source] BadRef),
    /// The same ref in two commands.
    #[error("the push changes one ref twice")]
    Duplicate,
    /// Control characters.
    #[error("the push asks for something malformed")]
    Capability,
    /// A signed push.
    #[error("the push is signed, and what it changes cannot be judged; push without `--signed`")]
    Certificate,
    /// Too long, or control characters.
    #[error("the push has an option that is malformed or too long")]
    Option,
    /// It ended too early.
    #[error("the push ended before its commands did")]
    Truncated,
}

/// What one call found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many bytes of the input were used.
    pub used: usize,
    /// Whether the commands are over. What follows is the pack.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Commands,
    Options,
    Done,
}

/// Reads commands in whatever pieces they come.
pub struct PushReader {
    push: Push,
    part: Part,
    taken: Vec<u8>,
    /// Where the line that is not over begins in what was taken.
    start: usize,
    seen: HashSet<RefName>,
    /// How many digits an id has, once the first command said so.
    digits: usize,
}

impl Default for PushReader {
    fn default() -> Self {
        Self::new()
    }
}

impl PushReader {
    /// For the content of one request.
    pub fn new() -> Self {
        let (push, seen) = (Push::default(), HashSet::new());
        Self { push, part: Part::Commands, taken: Vec::new(), start: 0, seen, digits: 0 }
    }

    /// Takes the next bytes, up to the end of the commands. After a refusal nothing more may be read.
    pub fn read(&mut self, input: &[u8]) -> Result<Step, BadPush> {
        let mut rest = input;
        while self.part != Part::Done {
            rest = self.fill(rest, LENGTH);
            let line = self.taken.get(self.start..).unwrap_or_default();
            let Some((length, _)) = line.split_first_chunk::<LENGTH>() else { break };
            let length = line_length(*length)?;
            if self.start + length > MAX_BYTES {
                return Err(BadPush::TooLong);
            }
            rest = self.fill(rest, length.max(LENGTH));
            if self.taken.len() - self.start < length {
                break;
            }
            let line = self.taken.get(self.start + LENGTH..).unwrap_or_default().to_vec();
            self.start = self.taken.len();
            if length == 0 { self.flush() } else { self.line(&line)? }
        }
        Ok(Step { used: input.len() - rest.len(), done: self.part == Part::Done })
    }

    /// What was read, and the bytes to send on, if it is there as a whole.
    pub fn finish(self) -> Result<(Push, Vec<u8>), BadPush> {
        if self.part == Part::Done { Ok((self.push, self.taken)) } else { Err(BadPush::Truncated) }
    }

    /// Takes bytes until the line that is not over has so many.
    fn fill<'a>(&mut self, input: &'a [u8], until: usize) -> &'a [u8] {
        let missing = (self.start + until).saturating_sub(self.taken.len());
        let (more, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        self.taken.extend_from_slice(more);
        rest
    }

    /// A line of length zero ends a part.
    fn flush(&mut self) {
        let options = self.push.capabilities.iter().any(|it| it == "push-options");
        self.part = match self.part {
            Part::Commands if options => Part::Options,
            Part::Commands | Part::Options | Part::Done => Part::Done,
        };
    }

    fn line(&mut self, line: &[u8]) -> Result<(), BadPush> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match self.part {
            Part::Options => self.option(line),
            Part::Commands | Part::Done if line.starts_with(b"push-cert") => Err(BadPush::Certificate),
            Part::Commands | Part::Done => match line.strip_prefix(b"shallow ") {
                Some(oid) => self.shallow(oid),
                None => self.command(line),
            },
        }
    }

    fn option(&mut self, line: &[u8]) -> Result<(), BadPush> {
        let text = str::from_utf8(line).ok().filter(|text| !text.chars().any(char::is_control));
        let good = line.len() <= MAX_OPTION && self.push.options.len() < MAX_OPTIONS;
        self.push.options.push(text.filter(|_| good).ok_or(BadPush::Option)?.to_owned());
        Ok(())
    }

    /// The end of a history, which stands before the commands.
    fn shallow(&mut self, oid: &[u8]) -> Result<(), BadPush> {
        if !self.push.commands.is_empty() {
            return Err(BadPush::Command);
        }
        if self.push.shallow.len() == MAX_COMMANDS {
            return Err(BadPush::TooLong);
        }
        self.push.shallow.push(Oid::parse(oid).ok_or(BadPush::Command)?);
        Ok(())
    }

    fn command(&mut self, line: &[u8]) -> Result<(), BadPush> {
        let first = self.push.commands.is_empty();
        let (text, capabilities) = match memchr::memchr(0, line).and_then(|nul| line.split_at_checked(nul)) {
            Some((text, rest)) => (text, Some(rest.get(1..).unwrap_or_default())),
            None => (line, None),
        };
        match capabilities {
            Some(capabilities) if first => self.push.capabilities = command::capabilities(capabilities)?,
            Some(_) => return Err(BadPush::Command),
            None => {}
        }
        if first {
            self.digits = command::digits(&self.push.capabilities)?;
        }
        let command = Command::parse(text)?;
        let fits = |oid: &Oid| oid.as_str().len() == self.digits;
        let shallow = !first || self.push.shallow.iter().all(fits);
        if !(shallow && fits(&command.old) && fits(&command.new)) {
            return Err(BadPush::ObjectFormat);
        }
        if self.push.commands.len() == MAX_COMMANDS {
            return Err(BadPush::TooLong);
        }
        if !self.seen.insert(command.name.clone()) {
            return Err(BadPush::Duplicate);
        }
        self.push.commands.push(command);
        Ok(())
    }
}

/// The length of a line with its own four digits, or zero for the end of a part.
fn line_length(digits: [u8; LENGTH]) -> Result<usize, BadPush> {
    let mut length = 0;
    for digit in digits {
        length = length * 16 + char::from(digit).to_digit(16).ok_or(BadPush::Line)? as usize;
    }
    match length {
        0 => Ok(0),
        length if length > LENGTH && length <= MAX_LINE => Ok(length),
        _ => Err(BadPush::Line),
    }
}
