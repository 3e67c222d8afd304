//! Turns an address or a name into whether it may ever be reached.
//!
//! Invariant: what is not plainly a public unicast address is not [`Kind::Public`]. An address that carries another
//! one inside is never reached: whoever means the inner one can write it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::name::{HOST_LOOPBACK, Name};

/// Whether an address may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By any rule.
    Public,
    /// By a rule with this exact name and address.
    Private(Reason),
    /// Not at all.
    Never(Reason),
}

/// Why an address is special.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// 127/8, ::1.
    #[error("it is the machine itself")]
    Loopback,
    /// 0/8, ::.
    #[error("it is no address of anything")]
    Unspecified,
    /// 169.254/16, fe80::/10.
    #[error("it is link-local")]
    LinkLocal,
    /// Where clouds tell a machine its credentials.
    #[error("it is a cloud's metadata service")]
    Metadata,
    /// 224/4, ff00::/8.
    #[error("it is multicast")]
    Multicast,
    /// 255.255.255.255.
    #[error("it is broadcast")]
    Broadcast,
    /// Set aside for something else than hosts.
    #[error("it is reserved")]
    Reserved,
    /// 198.18/15, where the addresses that we hand out ourselves lie.
    #[error("it is set aside for measurements, and stands for names here")]
    Synthetic,
    /// Another address inside.
    #[error("it carries another address inside")]
    Disguised,
    /// 10/8, 172.16/12, 192.168/16.
    #[error("a private network")]
    PrivateNetwork,
    /// 100.64/10.
    #[error("a network shared behind a carrier")]
    Shared,
    /// fc00::/7.
    #[error("a unique local network")]
    UniqueLocal,
}

/// Says what may become of an address.
#[must_use]
pub fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

/// Whether a name stands for the machine itself or for its metadata, and is never reached.
#[must_use]
pub fn is_never_name(name: &Name) -> bool {
    let name = name.as_str();
    let last = name.rsplit('.').next().unwrap_or(name);
    // Our own names are answered before any rule is asked; of them a rule can only open one.
    let ours = name.strip_suffix("palisade.local").is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    NEVER_NAMES.contains(&name)
        || matches!(last, "localhost" | "localdomain")
        || (ours && name != HOST_LOOPBACK)
}

/// Names of loopback and of metadata services. Their addresses are refused too; the names are, so that the first
/// question is refused already.
const NEVER_NAMES: [&str; 16] = [
    "broadcasthost",
    "instance-data",
    "instance-data.ec2.internal",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-localhost",
    "ip6-loopback",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.internal",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
    "rancher-metadata",
];

fn kind_v4(address: Ipv4Addr) -> Kind {
    match address.octets() {
        [0, ..] => Kind::Never(Reason::Unspecified),
        [127, ..] => Kind::Never(Reason::Loopback),
        // Amazon's, which most clouds took over; Alibaba's; the agent of Azure's machines, at a public address.
        [169, 254, 169, 254] | [169, 254, 170, 2 | 23] | [100, 100, 100, 200] | [168, 63, 129, 16] => {
            Kind::Never(Reason::Metadata)
        }
        [169, 254, ..] => Kind::Never(Reason::LinkLocal),
        [198, 18 | 19, ..] => Kind::Never(Reason::Synthetic),
        // Protocol assignments, two networks for examples, the old relays of 6to4. The third network for examples,
        // 203.0.113/24, is nobody's either, and is the internet of our own tests.
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [192, 88, 99, _] => Kind::Never(Reason::Reserved),
        [255, 255, 255, 255] => Kind::Never(Reason::Broadcast),
        [224..=239, ..] => Kind::Never(Reason::Multicast),
        [240..=255, ..] => Kind::Never(Reason::Reserved),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Kind::Private(Reason::PrivateNetwork),
        [100, 64..=127, ..] => Kind::Private(Reason::Shared),
        _ => Kind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    if address.is_unspecified() {
        return Kind::Never(Reason::Unspecified);
    }
    if address.is_loopback() {
        return Kind::Never(Reason::Loopback);
    }
    match address.segments() {
        // Mapped, compatible and translated addresses of version 4; SIIT; both NAT64 prefixes; 6to4; Teredo; ISATAP.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, ..]
        | [0x2002, ..]
        | [0x2001, 0, ..]
        | [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Kind::Never(Reason::Disguised),
        // Amazon's, Google's and Oracle's.
        [0xfd00, 0xec2, ..] | [0xfd20, 0xce, ..] | [0xfd00, 0xc1, ..] => Kind::Never(Reason::Metadata),
        [0xfc00..=0xfdff, ..] => Kind::Private(Reason::UniqueLocal),
        [0xfe80..=0xfebf, ..] => Kind::Never(Reason::LinkLocal),
        [0xff00..=0xffff, ..] => Kind::Never(Reason::Multicast),
        // Protocol assignments, and both networks for examples.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Kind::Never(Reason::Reserved),
        [0x2000..=0x3fff, ..] => Kind::Public,
        _ => Kind::Never(Reason::Reserved),
    }
}
