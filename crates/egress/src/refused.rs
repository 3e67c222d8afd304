//! Packets that the kernel refused, as its log tells of them: where they were going.
//!
//! Invariant: what is cut or strange is passed over; it was refused all the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A packet's destination, and how it was to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Where to; port 0 where there are no ports.
    pub to: SocketAddr,
    /// The number of the protocol.
    pub protocol: u8,
    /// It was refused because too many came at once, wherever they were going.
    pub is_flood: bool,
}

impl Packet {
    /// What it was, in a word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.protocol {
            6 => "TCP",
            17 => "UDP",
            1 | 58 => "ICMP",
            _ => "another protocol",
        }
    }
}

/// All packets in one answer of the kernel.
#[must_use]
pub fn packets(mut bytes: &[u8]) -> Vec<Packet> {
    const PACKET: u16 = 4 << 8;
    let mut found = Vec::new();
    while let Some(([l0, l1, l2, l3, k0, k1], _)) = bytes.split_first_chunk::<6>() {
        let length = usize::try_from(u32::from_ne_bytes([*l0, *l1, *l2, *l3])).unwrap_or(usize::MAX);
        // Both headers before the attributes.
        let attributes = bytes.get(20..length).filter(|_| u16::from_ne_bytes([*k0, *k1]) == PACKET);
        found.extend(attributes.and_then(|all| packet(value(all, PAYLOAD)?, is_flood(all))));
        bytes = bytes.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The attributes that are read: the bytes of the packet, and the word that the rule has for it.
const PAYLOAD: u16 = 9;
const WORD: u16 = 10;

/// As the rule that refuses too many calls them, with the zero at its end.
const FLOOD: &[u8] = b"flood\0";

fn is_flood(attributes: &[u8]) -> bool {
    value(attributes, WORD) == Some(FLOOD)
}

/// The value of one attribute.
fn value(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let ([l0, l1, k0, k1], _) = attributes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([*l0, *l1]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([*k0, *k1]) & 0x3fff == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn packet(bytes: &[u8], is_flood: bool) -> Option<Packet> {
    let (address, protocol, rest): (IpAddr, u8, &[u8]) = match bytes.first()? >> 4 {
        4 => {
            let header = usize::from(bytes.first()? & 15) * 4;
            let to = <[u8; 4]>::try_from(bytes.get(16..20)?).ok()?;
            (Ipv4Addr::from(to).into(), *bytes.get(9)?, bytes.get(header.max(20)..)?)
        }
        6 => {
            let to = <[u8; 16]>::try_from(bytes.get(24..40)?).ok()?;
            (Ipv6Addr::from(to).into(), *bytes.get(6)?, bytes.get(40..)?)
        }
        _ => return None,
    };
    let port = match (protocol, rest) {
        (6 | 17, [_, _, high, low, ..]) => u16::from_be_bytes([*high, *low]),
        _ => 0,
    };
    Some(Packet { to: SocketAddr::new(address, port), protocol, is_flood })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(word: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut attributes = vec![8, 0, 1, 0, 1, 2, 3, 4];
        if !word.is_empty() {
            attributes.extend(u16::try_from(word.len() + 4).unwrap().to_ne_bytes());
            attributes.extend(10u16.to_ne_bytes());
            attributes.extend(word);
            attributes.resize(attributes.len().next_multiple_of(4), 0);
        }
        attributes.extend(u16::try_from(payload.len() + 4).unwrap().to_ne_bytes());
        attributes.extend(9u16.to_ne_bytes());
        attributes.extend(payload);
        attributes.resize(attributes.len().next_multiple_of(4), 0);
        let mut all = u32::try_from(attributes.len() + 20).unwrap().to_ne_bytes().to_vec();
        all.extend((4u16 << 8).to_ne_bytes());
        all.extend([0; 14]);
        all.extend(attributes);
        all
    }

    #[test]
    fn adv_n01_where_a_packet_was_going_is_read_and_cut_ones_are_passed_over() {
        let mut v4 = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 1, 1, 1, 1, 93, 184, 216, 34];
        v4.extend([0x80, 1, 0x01, 0xbb, 0]);
        let mut v6 = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        v6.extend([0; 31]);
        v6.push(1);
        v6.extend([0, 1, 0, 53]);
        let both = [message(b"flood\0", &v4), message(b"", &v6)].concat();
        let found = packets(&both);
        let packet = |to: &str, protocol, is_flood| Packet { to: to.parse().unwrap(), protocol, is_flood };
        assert_eq!(found[0], packet("93.184.216.34:443", 6, true));
        assert_eq!(found[1], packet("[::1]:53", 17, false));
        for cut in 0..both.len() {
            assert!(packets(&both[..cut]).len() <= 2);
        }
        assert_eq!(packets(&message(b"", &v4[..18])), []);
        assert_eq!(packets(&[0xff; 64]), []);
    }
}
