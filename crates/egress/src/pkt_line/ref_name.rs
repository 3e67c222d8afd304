//! The name of a ref, by git's own rules.

use std::fmt::{self, Display, Formatter};

/// The longest name of a ref.
const MAX_REF: usize = 1024;

/// Why a text is no name of a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRef {
    /// It is not `refs/..`, or there is nothing behind that.
    #[error("it does not begin with `refs/` and a kind of ref")]
    Place,
    /// It is longer than anyone's.
    #[error("it is longer than {MAX_REF} bytes")]
    TooLong,
    /// A control character, a space, or one of `~ ^ : ? * [ \`, or not UTF-8.
    #[error("it has a character that no ref has")]
    Character,
    /// Two slashes in a row, or one at the end.
    #[error("it has an empty part")]
    Empty,
    /// A part that begins with a dot, two dots in a row, or a dot at the end.
    #[error("it has a dot where no ref has one")]
    Dot,
    /// A part that ends with `.lock`.
    #[error("a part of it ends with `.lock`")]
    Lock,
    /// `@{`.
    #[error("it contains `@` followed by a brace")]
    Brace,
}

/// A name that `git check-ref-format` takes: `refs/heads/main`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(Box<str>);

impl RefName {
    /// From the bytes of a command.
    pub fn parse(text: &[u8]) -> Result<Self, BadRef> {
        if text.len() > MAX_REF {
            return Err(BadRef::TooLong);
        }
        let text = str::from_utf8(text).map_err(|_| BadRef::Character)?;
        if text.chars().any(|c| c.is_control() || " ~^:?*[\\".contains(c)) {
            return Err(BadRef::Character);
        }
        let rest = text.strip_prefix("refs/").ok_or(BadRef::Place)?;
        for part in rest.split('/') {
            check_part(part)?;
        }
        // The server takes no ref right beneath `refs/`.
        if !rest.contains('/') {
            return Err(BadRef::Place);
        }
        if text.contains("..") || text.ends_with('.') {
            return Err(BadRef::Dot);
        }
        if text.contains("@{") {
            return Err(BadRef::Brace);
        }
        Ok(Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for RefName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_part(part: &str) -> Result<(), BadRef> {
    if part.is_empty() {
        return Err(BadRef::Empty);
    }
    if part.starts_with('.') {
        return Err(BadRef::Dot);
    }
    if part.ends_with(".lock") { Err(BadRef::Lock) } else { Ok(()) }
}
