//! One command of a push, and what is asked for beside it.

use std::fmt::{self, Display, Formatter};

use super::{BadPush, RefName};

/// The name of an object: 40 or 64 lower-case digits in base 16.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Oid(Box<str>);

impl Oid {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let plain = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let good = matches!(text.len(), 40 | 64) && text.iter().all(plain);
        str::from_utf8(text).ok().filter(|_| good).map(|text| Self(text.into()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this stands for no object.
    pub fn is_zero(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'0')
    }
}

impl Display for Oid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a command does to its ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It did not exist.
    Create,
    /// It will point to something else, forced or not: that only the server can tell.
    Update,
    /// It will not exist.
    Delete,
}

/// The wish to change one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where the client believes it to point.
    pub old: Oid,
    /// Where it shall point.
    pub new: Oid,
    /// Which.
    pub name: RefName,
}

impl Command {
    pub(super) fn parse(text: &[u8]) -> Result<Self, BadPush> {
        let mut parts = text.splitn(3, |byte| *byte == b' ');
        let mut oid = || parts.next().and_then(Oid::parse).ok_or(BadPush::Command);
        let (old, new) = (oid()?, oid()?);
        let name = parts.next().ok_or(BadPush::Command)?;
        if old.is_zero() && new.is_zero() {
            return Err(BadPush::Command);
        }
        let name = RefName::parse(name).map_err(BadPush::Ref)?;
        Ok(Self { old, new, name })
    }

    /// What it does.
    pub fn change(&self) -> Change {
        match (self.old.is_zero(), self.new.is_zero()) {
            (_, true) => Change::Delete,
            (true, false) => Change::Create,
            (false, false) => Change::Update,
        }
    }
}

/// Words with spaces between them. Git begins with a space.
pub(super) fn capabilities(text: &[u8]) -> Result<Vec<String>, BadPush> {
    let text = str::from_utf8(text).map_err(|_| BadPush::Capability)?;
    if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(BadPush::Capability);
    }
    Ok(text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

/// How many digits an id has in the object format that was asked for.
pub(super) fn digits(capabilities: &[String]) -> Result<usize, BadPush> {
    let mut formats = capabilities.iter().filter_map(|it| it.strip_prefix("object-format="));
    match (formats.next(), formats.next()) {
        (None | Some("sha1"), None) => Ok(40),
        (Some("sha256"), None) => Ok(64),
        _ => Err(BadPush::ObjectFormat),
    }
}
