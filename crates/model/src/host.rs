//! Hosts as a Grant names them: `api.x.org`, `*.x.org` (one label), `**.x.org` (any depth), `**` (all),
//! each with an optional `:port`.

use std::fmt;
use std::str::FromStr;

use crate::grant::Pattern;

/// Text that cannot be a host pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a host like `api.example.org`, `*.example.org`, `**.example.org` or `**`, perhaps with `:port`"
)]
pub struct BadHost;

/// A set of host names and ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPattern {
    reach: Reach,
    /// Lower case, no trailing dot; empty only for "every host".
    name: String,
    /// None is every port.
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Reach {
    Exact,
    OneLabel,
    AnyDepth,
}

impl HostPattern {
    fn names(&self, other: &Self) -> bool {
        let lead = if self.name.is_empty() {
            Some(other.name.as_str())
        } else {
            other
                .name
                .strip_suffix(self.name.as_str())
                .and_then(|lead| if lead.is_empty() { Some("") } else { lead.strip_suffix('.') })
        };
        let Some(lead) = lead else { return false };
        match (self.reach, other.reach) {
            (Reach::Exact, Reach::Exact) => lead.is_empty(),
            (Reach::Exact, _) => false,
            (Reach::OneLabel, Reach::Exact) => !lead.is_empty() && !lead.contains('.'),
            (Reach::OneLabel, Reach::OneLabel) => lead.is_empty(),
            (Reach::OneLabel, Reach::AnyDepth) => false,
            (Reach::AnyDepth, Reach::Exact) => !lead.is_empty(),
            (Reach::AnyDepth, _) => true,
        }
    }
}

impl Pattern for HostPattern {
    fn meet(&self, other: &Self) -> Option<Self> {
        let port = match (self.port, other.port) {
            (None, port) | (port, None) => port,
            (mine, yours) if mine == yours => mine,
            _ => return None,
        };
        let narrow = match (self.names(other), other.names(self)) {
            (true, _) => other,
            (_, true) => self,
            _ => return None,
        };
        Some(Self { port, ..narrow.clone() })
    }

    fn covers(&self, other: &Self) -> bool {
        self.names(other) && (self.port.is_none() || self.port == other.port)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reach, self.name.is_empty()) {
            (_, true) => f.write_str("**")?,
            (Reach::Exact, _) => f.write_str(&self.name)?,
            (Reach::OneLabel, _) => write!(f, "*.{}", self.name)?,
            (Reach::AnyDepth, _) => write!(f, "**.{}", self.name)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for HostPattern {
    type Err = BadHost;
    fn from_str(text: &str) -> Result<Self, BadHost> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port_of(port)?)),
            None => (text, None),
        };
        if host == "**" {
            return Ok(Self { reach: Reach::AnyDepth, name: String::new(), port });
        }
        let (reach, name) = if let Some(rest) = host.strip_prefix("**.") {
            (Reach::AnyDepth, rest)
        } else if let Some(rest) = host.strip_prefix("*.") {
            (Reach::OneLabel, rest)
        } else {
            (Reach::Exact, host)
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let label_fits = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if name.len() > 253 || !name.split('.').all(label_fits) {
            return Err(BadHost);
        }
        Ok(Self { reach, name, port })
    }
}

fn port_of(text: &str) -> Result<u16, BadHost> {
    let plain = !text.starts_with(['+', '0']);
    text.parse().ok().filter(|port| plain && *port != 0).ok_or(BadHost)
}
