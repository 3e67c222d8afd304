//! Which hosts a rule is about.

use std::net::IpAddr;

use crate::address::{self, Kind};
use crate::fault::What;
use crate::name::{Host, Name};

/// Which hosts a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HostPattern {
    Exact(Name),
    /// Names with one label more.
    One(Name),
    /// Names with one or more labels more.
    Deep(Name),
    Address(IpAddr),
}

impl HostPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, What> {
        if let Some(base) = text.strip_prefix("**.") {
            return base_of(text, base).map(Self::Deep);
        }
        if let Some(base) = text.strip_prefix("*.") {
            return base_of(text, base).map(Self::One);
        }
        if text.contains('*') {
            return Err(What::Star(text.to_owned()));
        }
        match text.parse::<Host>() {
            Ok(Host::Name(name)) if address::is_never_name(&name) => Err(What::NeverHost(text.to_owned())),
            Ok(Host::Name(name)) => Ok(Self::Exact(name)),
            Ok(Host::Address(address)) => match address::kind(address) {
                Kind::Never(_) => Err(What::NeverHost(text.to_owned())),
                Kind::Public | Kind::Private(_) => Ok(Self::Address(address)),
            },
            Err(why) => Err(What::Host { host: text.to_owned(), why }),
        }
    }
}

fn base_of(text: &str, base: &str) -> Result<Name, What> {
    if base.contains('*') {
        return Err(What::Star(text.to_owned()));
    }
    let name: Name = base.parse().map_err(|why| What::Host { host: text.to_owned(), why })?;
    if address::is_never_name(&name) {
        return Err(What::NeverHost(text.to_owned()));
    }
    // Beyond the list itself, a last label that nobody listed counts as a suffix as well.
    let name_bytes = name.as_str().as_bytes();
    if psl::suffix(name_bytes).is_none_or(|suffix| suffix.as_bytes() == name_bytes) {
        return Err(What::PublicSuffix(text.to_owned()));
    }
    Ok(name)
}
