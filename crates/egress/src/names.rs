//! Addresses that stand for names, in one sandbox.
//!
//! Invariants: an address stands for one name as long as the sandbox lives, and is never given to another; the first 256
//! are the sandbox's own services and stand for none; whoever asks for more names than there are addresses gets none.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// How addresses of version 4 begin that stand for names.
const V4: [u8; 2] = [198, 18];
/// The same in version 6.
const V6: [u8; 8] = [0xfd, 0x70, 0x61, 0x6c, 0x69, 0x73, 0x61, 0x64];

/// Where names are asked for, and where programs that want a proxy find one.
pub const SERVICE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Where the sandbox is told about itself.
pub const TELLING: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The first address that stands for a name.
const FIRST: u16 = 256;
/// The most names in one sandbox; each costs its length in both processes.
pub const MOST: usize = 16_384;

/// A name and the number of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The name, checked and in small letters.
    pub name: String,
    /// Which address.
    pub number: u16,
}

impl Named {
    /// Its address in version 4.
    #[must_use]
    pub fn v4(&self) -> Ipv4Addr {
        let ([a, b], [c, d]) = (V4, self.number.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    }

    /// Its address in version 6.
    #[must_use]
    pub fn v6(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        let bytes = V6.into_iter().chain([0; 6]).chain(self.number.to_be_bytes());
        octets.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        octets.into()
    }
}

/// The number that an address has, if it is one of these.
#[must_use]
pub fn number(address: IpAddr) -> Option<u16> {
    match address.to_canonical() {
        IpAddr::V4(address) => match address.octets() {
            [a, b, c, d] if [a, b] == V4 => Some(u16::from_be_bytes([c, d])),
            _ => None,
        },
        IpAddr::V6(address) => match address.octets() {
            [rest @ .., c, d] if rest.starts_with(&V6) && rest.iter().skip(8).all(|byte| *byte == 0) => {
                Some(u16::from_be_bytes([c, d]))
            }
            _ => None,
        },
    }
}

/// There are no addresses left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this sandbox has asked for {MOST} names, and gets no more")]
pub struct Full;

/// Which address stands for which name.
#[derive(Debug, Default)]
pub struct Table {
    numbers: HashMap<String, u16>,
    names: Vec<String>,
}

impl Table {
    /// The addresses of a name: those that it has, or new ones. The flag tells whether they are new.
    ///
    /// # Errors
    /// When there are none left.
    pub fn give(&mut self, name: &str) -> Result<(Named, bool), Full> {
        if let Some(number) = self.numbers.get(name) {
            return Ok((Named { name: name.to_owned(), number: *number }, false));
        }
        if self.names.len() >= MOST {
            return Err(Full);
        }
        let number =
            u16::try_from(self.names.len()).ok().and_then(|count| count.checked_add(FIRST)).ok_or(Full)?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok((Named { name: name.to_owned(), number }, true))
    }

    /// Takes one that another table gave.
    pub fn take(&mut self, named: Named) {
        let Some(index) = named.number.checked_sub(FIRST).map(usize::from) else { return };
        // They come in order, each once; another order would be another table's.
        if index == self.names.len() {
            self.numbers.insert(named.name.clone(), named.number);
            self.names.push(named.name);
        }
    }

    /// The name that an address stands for.
    #[must_use]
    pub fn name(&self, address: IpAddr) -> Option<&str> {
        let index = number(address)?.checked_sub(FIRST)?;
        self.names.get(usize::from(index)).map(String::as_str)
    }

    /// All of them, in order.
    pub fn all(&self) -> impl Iterator<Item = Named> + '_ {
        let numbers = FIRST..=u16::MAX;
        self.names.iter().zip(numbers).map(|(name, number)| Named { name: name.clone(), number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egr_03_an_address_stands_for_one_name_and_a_full_table_gives_none() {
        let mut table = Table::default();
        let (first, is_new) = table.give("a.example").unwrap();
        assert!(is_new);
        assert_eq!(first.v4(), Ipv4Addr::new(198, 18, 1, 0));
        assert_eq!(table.give("a.example").unwrap(), (first.clone(), false));
        for number in 1..MOST {
            assert!(table.give(&format!("n{number}.example")).unwrap().1);
        }
        assert_eq!(table.give("more.example"), Err(Full));
        // Those that are there stay as they are.
        assert_eq!(table.name(first.v4().into()), Some("a.example"));
        assert_eq!(table.name(first.v6().into()), Some("a.example"));
        let all: std::collections::HashSet<_> = table.all().map(|named| named.v4()).collect();
        assert_eq!(all.len(), MOST);
    }

    #[test]
    fn egr_03_what_stands_for_nothing_has_no_name() {
        let mut table = Table::default();
        table.give("a.example").unwrap();
        for address in [
            "198.18.0.1",
            "198.18.1.1",
            "198.19.1.0",
            "127.0.0.1",
            "fd70:616c:6973:6164::1",
            "fd70:616c:6973:6164:1::100",
        ] {
            assert_eq!(table.name(address.parse().unwrap()), None, "{address}");
        }
        assert_eq!(table.name("fd70:616c:6973:6164::100".parse().unwrap()), Some("a.example"));
        assert_eq!(table.name("::ffff:198.18.1.0".parse().unwrap()), Some("a.example"));
    }

    #[test]
    fn a_copy_takes_them_in_order_and_nothing_else() {
        let (mut table, mut copy) = (Table::default(), Table::default());
        for name in ["a.example", "b.example"] {
            copy.take(table.give(name).unwrap().0);
        }
        copy.take(Named { name: "evil.example".into(), number: 256 });
        copy.take(Named { name: "evil.example".into(), number: 3 });
        copy.take(Named { name: "evil.example".into(), number: 999 });
        assert_eq!(copy.all().collect::<Vec<_>>(), table.all().collect::<Vec<_>>());
        assert_eq!(copy.name("198.18.3.231".parse().unwrap()), None);
    }
}
