//! Turns the text of a host, with or without a port, into a name or an address that has one spelling only.
//!
//! Invariant: a [`HostName`] is lower case, has no trailing dot, consists of labels of letters, digits, hyphens and
//! underscores, and cannot be taken for an address by any resolver; an address is written in its one usual form. Not here:
//! which hosts are allowed, and which addresses are private.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest name, without its trailing dot.
pub const MAX_NAME: usize = 253;
/// The longest label of a name.
pub const MAX_LABEL: usize = 63;

/// Why a text names no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    /// There is nothing.
    #[error("the host is empty")]
    Empty,
    /// The name or one of its labels is too long.
    #[error("the host name is longer than {MAX_NAME} bytes, or one of its labels longer than {MAX_LABEL}")]
    TooLong,
    /// Two dots in a row, or one at the beginning.
    #[error("the host name has an empty label")]
    EmptyLabel,
    /// Something that stands in no name.
    #[error("the host name has a byte other than letters, digits, hyphens and underscores")]
    OddByte,
    /// A number where a name ends: some programs would read it as an address.
    #[error("the host looks like an address that is not written as four plain decimal numbers")]
    OddAddress,
    /// Brackets around something else, or a zone.
    #[error("the host in brackets is no plain IPv6 address")]
    OddV6,
    /// No number from 1 to 65535, or none where one is needed.
    #[error("the port is missing or is no number from 1 to 65535")]
    BadPort,
    /// A user name or password.
    #[error("the host has a user name before it")]
    UserInfo,
}

/// A name in the one spelling that is judged: `api.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Box<str>);

impl HostName {
    /// From text. Upper case becomes lower case and one trailing dot goes away.
    pub fn parse(text: &[u8]) -> Result<Self, BadHost> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        Self::from_labels(text.split(|byte| *byte == b'.'))
    }

    /// From labels as they stand in a message of the name system.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, BadHost> {
        let mut name = String::new();
        for (at, label) in labels.into_iter().enumerate() {
            if at > 0 {
                name.push('.');
            }
            check_label(label, at)?;
            if name.len() + label.len() > MAX_NAME {
                return Err(BadHost::TooLong);
            }
            name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
        }
        if name.is_empty() {
            return Err(BadHost::Empty);
        }
        if ends_in_number(&name) {
            return Err(BadHost::OddAddress);
        }
        Ok(Self(name.into_boxed_str()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for HostName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_label(label: &[u8], at: usize) -> Result<(), BadHost> {
    if label.is_empty() {
        return Err(if at == 0 { BadHost::Empty } else { BadHost::EmptyLabel });
    }
    if label.len() > MAX_LABEL {
        return Err(BadHost::TooLong);
    }
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if label.iter().all(plain) { Ok(()) } else { Err(BadHost::OddByte) }
}

/// Whether the last label is a number, also in base 16: resolvers of C libraries take `127.1` and `0x7f.1` for addresses.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || last.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name.
    Name(HostName),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// From text as it stands in an address bar: IPv6 in brackets.
    pub fn parse(text: &[u8]) -> Result<Self, BadHost> {
        if let Some(inner) = text.strip_prefix(b"[") {
            return inner.strip_suffix(b"]").and_then(v6).map(Self::from).ok_or(BadHost::OddV6);
        }
        match str::from_utf8(text).ok().and_then(|text| text.parse::<Ipv4Addr>().ok()) {
            Some(v4) => Ok(Self::from(v4)),
            None => HostName::parse(text).map(Self::Name),
        }
    }

    /// From text that has a place of its own, where IPv6 stands without brackets too.
    pub fn parse_bare(text: &[u8]) -> Result<Self, BadHost> {
        if text.contains(&b':') && !text.starts_with(b"[") {
            return v6(text).map(Self::from).ok_or(BadHost::OddV6);
        }
        Self::parse(text)
    }
}

fn v6(text: &[u8]) -> Option<Ipv6Addr> {
    str::from_utf8(text).ok()?.parse().ok()
}

impl From<Ipv4Addr> for Host {
    fn from(address: Ipv4Addr) -> Self {
        Self::Address(address.into())
    }
}

impl From<Ipv6Addr> for Host {
    fn from(address: Ipv6Addr) -> Self {
        Self::Address(address.into())
    }
}

impl Display for Host {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(v4)) => v4.fmt(f),
            Self::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
        }
    }
}

/// A host and perhaps a port: `example.com:8443`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// Who.
    pub host: Host,
    /// Where, if it was said.
    pub port: Option<u16>,
}

impl Authority {
    /// From `host` or `host:port`. A user name before it is refused, and so is a colon without a port.
    pub fn parse(text: &[u8]) -> Result<Self, BadHost> {
        if text.contains(&b'@') {
            return Err(BadHost::UserInfo);
        }
        let (host, port) = match memchr::memrchr(b':', text) {
            Some(colon) if !text.ends_with(b"]") => {
                let (host, port) = text.split_at_checked(colon).ok_or(BadHost::Empty)?;
                (host, Some(parse_port(port.get(1..).unwrap_or_default())?))
            }
            _ => (text, None),
        };
        Ok(Self { host: Host::parse(host)?, port })
    }
}

fn parse_port(text: &[u8]) -> Result<u16, BadHost> {
    let plain =
        (1..=5).contains(&text.len()) && text.iter().all(u8::is_ascii_digit) && !text.starts_with(b"0");
    let number = str::from_utf8(text).ok().filter(|_| plain).and_then(|text| text.parse().ok());
    number.ok_or(BadHost::BadPort)
}

impl Display for Authority {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<String, BadHost> {
        HostName::parse(text.as_bytes()).map(|name| name.to_string())
    }

    #[test]
    fn adv_n07_a_name_is_normalized_or_refused() {
        assert_eq!(name("API.Example.com."), Ok("api.example.com".into()));
        assert_eq!(name("_dmarc.x-y.example"), Ok("_dmarc.x-y.example".into()));
        for (text, why) in [
            ("", BadHost::Empty),
            (".", BadHost::Empty),
            ("..", BadHost::Empty),
            (".com", BadHost::Empty),
            ("a..b", BadHost::EmptyLabel),
            ("a.b..", BadHost::EmptyLabel),
            ("a b", BadHost::OddByte),
            ("evil.example\0.allowed.example", BadHost::OddByte),
            ("a\r.example", BadHost::OddByte),
            ("a\n.example", BadHost::OddByte),
            ("a%2e.example", BadHost::OddByte),
            ("ex\u{0430}mple.com", BadHost::OddByte),
            ("a/b", BadHost::OddByte),
            ("*.example", BadHost::OddByte),
            ("a\u{3002}example", BadHost::OddByte),
        ] {
            assert_eq!(name(text), Err(why), "{text:?}");
        }
        assert_eq!(name(&"a".repeat(64)), Err(BadHost::TooLong));
        assert!(name(&"a".repeat(63)).is_ok());
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "a".repeat(61));
        assert_eq!(longest.len(), MAX_NAME);
        assert_eq!(name(&longest), Ok(longest.clone()));
        assert_eq!(name(&format!("{longest}b")), Err(BadHost::TooLong));
    }

    #[test]
    fn adv_n05_an_address_has_one_spelling() {
        for odd in
            ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5", "0x7f.0.0.1", "0x"]
                .into_iter()
                .chain(["1.2.3.0x4", "256.1.1.1", "1.2.3", "example.1", "127.0.0.1..", "0X7F.1"])
        {
            assert!(Host::parse(odd.as_bytes()).is_err(), "{odd}");
        }
        // A trailing dot makes it neither an address nor a name.
        assert_eq!(Host::parse(b"127.0.0.1."), Err(BadHost::OddAddress));
        for odd in
            ["[::1", "::1]", "[fe80::1%eth0]", "[fe80::1%25eth0]", "[1.2.3.4]", "[]", "[[::1]]", "[::1]x"]
        {
            assert!(Host::parse(odd.as_bytes()).is_err(), "{odd}");
        }
        assert_eq!(Host::parse(b"127.0.0.1").unwrap().to_string(), "127.0.0.1");
        assert_eq!(Host::parse(b"[0:0::1]").unwrap().to_string(), "[::1]");
        assert_eq!(Host::parse_bare(b"::1").unwrap().to_string(), "[::1]");
        assert!(Host::parse(b"::1").is_err());
    }

    #[test]
    fn a_port_is_a_plain_number() {
        let shown = |text: &str| Authority::parse(text.as_bytes()).map(|it| it.to_string());
        for good in ["example.com", "example.com:443", "1.2.3.4:80", "[::1]:80", "[::1]"] {
            assert_eq!(shown(good), Ok(good.to_owned()));
        }
        for bad in
            ["example.com:", "example.com:0", "a:65536", "a:+1", "a:0443", "a: 1", "a:1:2", "u@a", "u:p@a:1"]
                .into_iter()
                .chain([":80", "", "::1", "::1:80", "[::1]:", "[::1]80"])
        {
            assert!(shown(bad).is_err(), "{bad}");
        }
    }
}
