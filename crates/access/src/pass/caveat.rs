//! What a caveat can say: a closed grammar, one narrowing each.
//!
//! ```text
//! user usr_<32 hex>     before <milliseconds>   grant <json>        id pas_<32 hex>
//! path ro:/a/b          host *.example.org      tool git.*          secret NAME
//! budget <json>         depth <number>
//! ```

use std::fmt;
use std::str::FromStr;

use model::{Budget, Grant, GrantPath, HostPattern, Millis, PassId, Patterns, UserId};
use serde_json::Value;

/// One narrowing of a Pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// Whose authority it is; cannot change.
    User(UserId),
    /// Over at this time.
    Before(Millis),
    /// At most this authority.
    Grant(Box<Grant>),
    /// Handed on: from here on also known, and revocable, under this id.
    Id(PassId),
    /// Only this path.
    Path(GrantPath),
    /// Only these hosts.
    Host(HostPattern),
    /// Only these tools.
    Tool(Patterns),
    /// Only these secrets.
    Secret(Patterns),
    /// At most this budget.
    Budget(Budget),
    /// May be handed on at most so often.
    Depth(u8),
}

/// Text that is no caveat of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a caveat like `path ro:/srv`, `tool git.*` or `before 1760000000000`")]
pub struct BadCaveat;

impl FromStr for Caveat {
    type Err = BadCaveat;
    fn from_str(text: &str) -> Result<Self, BadCaveat> {
        let (word, rest) = text.split_once(' ').ok_or(BadCaveat)?;
        match word {
            "user" => parsed(rest).map(Self::User),
            "before" => number(rest).map(Self::Before),
            "grant" => json(rest).map(Self::Grant),
            "id" => parsed(rest).map(Self::Id),
            "path" => parsed(rest).map(Self::Path),
            "host" => parsed(rest).map(Self::Host),
            "tool" => parsed(rest).map(Self::Tool),
            "secret" => parsed(rest).map(Self::Secret),
            "budget" => json(rest).map(Self::Budget),
            "depth" => number(rest).map(Self::Depth),
            _ => Err(BadCaveat),
        }
    }
}

fn parsed<T: FromStr>(text: &str) -> Result<T, BadCaveat> {
    text.parse().map_err(|_| BadCaveat)
}

/// Digits only, without signs and leading zeros.
fn number<T: FromStr>(text: &str) -> Result<T, BadCaveat> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { parsed(text) } else { Err(BadCaveat) }
}

fn json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, BadCaveat> {
    serde_json::from_str(text).map_err(|_| BadCaveat)
}

impl Caveat {
    /// What it narrows, in one word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Before(_) => "before",
            Self::Grant(_) => "grant",
            Self::Id(_) => "id",
            Self::Path(_) => "path",
            Self::Host(_) => "host",
            Self::Tool(_) => "tool",
            Self::Secret(_) => "secret",
            Self::Budget(_) => "budget",
            Self::Depth(_) => "depth",
        }
    }
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.word())?;
        match self {
            Self::User(user) => user.fmt(f),
            Self::Before(end) => end.fmt(f),
            Self::Grant(grant) => f.write_str(&compact(grant)?),
            Self::Id(id) => id.fmt(f),
            Self::Path(path) => path.fmt(f),
            Self::Host(host) => host.fmt(f),
            Self::Tool(name) | Self::Secret(name) => name.fmt(f),
            Self::Budget(budget) => f.write_str(&compact(budget)?),
            Self::Depth(depth) => depth.fmt(f),
        }
    }
}

/// JSON without what an absent field means anyway: nothing and zero.
fn compact(value: &impl serde::Serialize) -> Result<String, fmt::Error> {
    let mut value = serde_json::to_value(value).map_err(|_| fmt::Error)?;
    prune(&mut value);
    Ok(value.to_string())
}

fn prune(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.values_mut().for_each(prune);
        fields.retain(|_, field| match field {
            Value::Number(number) => number.as_u64() != Some(0),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Null | Value::Bool(_) | Value::String(_) => true,
        });
    }
}
