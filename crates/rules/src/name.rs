//! Turns the text of a host into a name or an address, in one writing only.
//!
//! Invariant: what reads as an address to some program and as a name to another is neither here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The name by which a sandbox reaches a port of the host's loopback, if a rule names it.
pub const HOST_LOOPBACK: &str = "host.palisade.local";

const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A DNS name: small letters, no dot at the end, nothing that reads as an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

/// Where a connection goes: a name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name.
    Name(Name),
    /// An address, as written.
    Address(IpAddr),
}

/// Why a text is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    /// Nothing there, or nothing between two dots.
    #[error("a name and each of its labels need at least one character")]
    Empty,
    /// Too long.
    #[error("a name has at most 253 characters, and a label 63")]
    Long,
    /// Anything but letters, digits, hyphen, underscore and dots.
    #[error("a name has only ASCII letters, digits, hyphens, underscores and dots")]
    Character,
    /// Ends like an address, but is not written as one.
    #[error("this reads as an address; write it as four plain numbers, or as IPv6")]
    Numeric,
    /// Brackets or colons around something that is no IPv6 address, or a zone.
    #[error("this is no IPv6 address; a zone cannot be named")]
    Address,
}

impl Name {
    /// As text: small letters, no dot at the end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without its first label, and so on up to the last label.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &str> {
        let mut rest: &str = &self.0;
        std::iter::from_fn(move || {
            rest = rest.split_once('.')?.1;
            Some(rest)
        })
    }
}

impl FromStr for Name {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.len() > LONGEST_NAME {
            return Err(BadHost::Long);
        }
        let mut last = "";
        for label in text.split('.') {
            check_label(label)?;
            last = label;
        }
        if reads_as_number(last) {
            return Err(BadHost::Numeric);
        }
        Ok(Self(text.to_ascii_lowercase().into_boxed_str()))
    }
}

fn check_label(label: &str) -> Result<(), BadHost> {
    if label.is_empty() {
        return Err(BadHost::Empty);
    }
    if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
        return Err(BadHost::Character);
    }
    if label.len() > LONGEST_LABEL { Err(BadHost::Long) } else { Ok(()) }
}

/// Resolvers and URL parsers take a host for an address when its last label is a number, also a hexadecimal one.
fn reads_as_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    let is_hex = hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hex || label.bytes().all(|byte| byte.is_ascii_digit())
}

impl FromStr for Host {
    type Err = BadHost;

    /// Reads what stands in a `Host` header, a CONNECT or a rule, without a port.
    fn from_str(text: &str) -> Result<Self, BadHost> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(BadHost::Address)?;
            return inner
                .parse::<Ipv6Addr>()
                .map(|it| Self::Address(it.into()))
                .map_err(|_| BadHost::Address);
        }
        if text.contains(':') {
            return text.parse::<Ipv6Addr>().map(|it| Self::Address(it.into())).map_err(|_| BadHost::Address);
        }
        // Only the plain writing: four decimal numbers without leading zeros.
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        text.parse().map(Self::Name)
    }
}

impl From<Name> for Host {
    fn from(name: Name) -> Self {
        Self::Name(name)
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(out),
            Self::Address(address) => address.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_the_same_whatever_their_case_or_last_dot() {
        for (text, name) in [
            ("api.x.y", "api.x.y"),
            ("API.X.Y.", "api.x.y"),
            ("localhost", "localhost"),
            ("_dmarc.x.y", "_dmarc.x.y"),
            ("r3---sn-4g5.example", "r3---sn-4g5.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("1.2.3.example", "1.2.3.example"),
            ("0x7f.example", "0x7f.example"),
            ("3com.com", "3com.com"),
        ] {
            assert_eq!(text.parse::<Host>().map(|host| host.to_string()).as_deref(), Ok(name), "{text}");
        }
    }

    #[test]
    fn adv_n07_what_is_no_name_is_refused_before_any_rule_is_read() {
        let long_label = format!("{}.x", "a".repeat(64));
        let long_name = format!("{}x.y", "abcdefgh.".repeat(28));
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a.b",
            "a.b..",
            "a b",
            "a\0.allowed.example",
            "evil.example\0.allowed.example",
            "a\r.b",
            "a\n.b",
            "a\t.b",
            "a%2eb",
            "a%00b",
            "a/b",
            "a\\b",
            "a@b",
            "a?b",
            "a#b",
            "a;b",
            "a,b",
            "a*b",
            "*.b",
            "bücher.example",
            "аpi.example",
            "ａpi.example",
            "１２７.0.0.1",
            "127。0。0。1",
            "a\u{200d}b.c",
            "a:443",
            "[a]",
            "[::1",
            "::1]",
            "[::1]:80",
            "[fe80::1%eth0]",
            "fe80::1%eth0",
            "fe80::1%25eth0",
            "[127.0.0.1]",
            "[]",
            "::g",
            "1:2",
            &long_label,
            &long_name,
        ] {
            assert!(text.parse::<Host>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn adv_n05_odd_writings_of_addresses_are_no_host() {
        for text in [
            "0x7f.1",
            "0x7f000001",
            "0X7F000001",
            "0177.0.0.1",
            "017700000001",
            "2130706433",
            "127.1",
            "127.0.1",
            "1",
            "0",
            "00000000177.0.0.1",
            "127.0.0.01",
            "127.0.0.1.",
            "127.000.000.001",
            "256.0.0.1",
            "1.2.3.4.5",
            "0x7f.0x0.0x0.0x1",
            "127.0.0.0x1",
            "169.254.43518",
            "0xa9fea9fe",
            "0xA9.0xFE.0xA9.0xFE",
            "2852039166",
            "0251.0376.0251.0376",
            "0x",
            "a.0x",
            "a.b.1",
            "a.b.0xff",
            "٢.٢.٢.٢",
            "⑯⑨.254.169.254",
            "127.0.0.1%00",
        ] {
            assert!(text.parse::<Host>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn addresses_in_their_plain_writing_are_addresses() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("8.8.8.8", "8.8.8.8"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("[2001:DB8::1]", "2001:db8::1"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        ] {
            let host: Host = text.parse().unwrap();
            assert!(matches!(host, Host::Address(_)), "{text}");
            assert_eq!(host.to_string(), address);
        }
    }

    #[test]
    fn parents_end_with_the_last_label() {
        let name: Name = "a.b.c.d".parse().unwrap();
        assert_eq!(name.parents().collect::<Vec<_>>(), ["b.c.d", "c.d", "d"]);
    }
}
