//! The ranges of addresses that the rules on targets know.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range that is denied, or can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressRange {
    /// Of one link: the services of a machine's host are there.
    LinkLocal,
    /// Of a service that gives a machine of a cloud its credentials, outside of the other ranges.
    Metadata,
    /// This machine.
    Loopback,
    /// Of private networks.
    Private,
}

impl AddressRange {
    /// The range of an address, also of one that is inside another: `::ffff:169.254.169.254`.
    pub(super) fn of(address: IpAddr) -> Option<Self> {
        faces(address).into_iter().flatten().find_map(|face| match face {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        })
    }

    fn of_v4(address: Ipv4Addr) -> Option<Self> {
        if METADATA_V4.contains(&address) {
            return Some(Self::Metadata);
        }
        match address.octets() {
            [169, 254, ..] => Some(Self::LinkLocal),
            // 0.0.0.0/8: Linux connects to itself.
            [127 | 0, ..] => Some(Self::Loopback),
            // 100.64.0.0/10: of providers, and of networks over others.
            [100, second, ..] if second & 0xc0 == 64 => Some(Self::Private),
            _ if address.is_private() => Some(Self::Private),
            _ => None,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Option<Self> {
        let [first, second, ..] = address.segments();
        match first {
            _ if METADATA_V6.contains(&address) || (first, second) == AMAZON_V6 => Some(Self::Metadata),
            _ if address.is_loopback() || address.is_unspecified() => Some(Self::Loopback),
            _ if first & 0xffc0 == 0xfe80 => Some(Self::LinkLocal),
            // fec0::/10: what came before fc00::/7.
            _ if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Some(Self::Private),
            _ => None,
        }
    }

    /// Whether it is denied where no setting says so.
    pub(super) fn is_denied_by_default(self) -> bool {
        matches!(self, Self::LinkLocal | Self::Metadata)
    }

    /// For a message.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
            Self::Loopback => "loopback",
            Self::Private => "private",
        }
    }
}

/// Alibaba Cloud's (within 100.64.0.0/10), Azure's and Oracle's first; those of all others are link-local.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// Google's, Oracle's and Scaleway's (within fc00::/7).
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// The network in which Amazon has its services of a machine: fd00:ec2::/32.
const AMAZON_V6: (u16, u16) = (0xfd00, 0xec2);

/// An address, and the one of version 4 inside it: a gateway or the system itself connects to that one.
pub(super) fn faces(address: IpAddr) -> [Option<IpAddr>; 2] {
    let IpAddr::V6(outer) = address else {
        return [Some(address), None];
    };
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
    };
    let inner = match outer.segments() {
        // ::ffff:0:0/96 and, of old, ::/96; 64:ff9b::/96 and 64:ff9b:1::/48 of NAT64.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0 | 1, _, _, _, high, low] => v4(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => v4(high, low),
        // 2002::/16 of 6to4.
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    };
    [Some(address), inner]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_range_of_what_it_reaches() {
        use AddressRange::{LinkLocal, Loopback, Metadata, Private};
        for (text, range) in [
            ("169.254.169.254", Some(LinkLocal)),
            ("169.254.0.1", Some(LinkLocal)),
            ("fe80::1", Some(LinkLocal)),
            ("febf::1", Some(LinkLocal)),
            ("::ffff:169.254.169.254", Some(LinkLocal)),
            ("::169.254.169.254", Some(LinkLocal)),
            ("64:ff9b::a9fe:a9fe", Some(LinkLocal)),
            ("64:ff9b:1::a9fe:a9fe", Some(LinkLocal)),
            ("2002:a9fe:a9fe::1", Some(LinkLocal)),
            ("100.100.100.200", Some(Metadata)),
            ("168.63.129.16", Some(Metadata)),
            ("fd00:ec2::254", Some(Metadata)),
            ("127.0.0.1", Some(Loopback)),
            ("127.8.0.1", Some(Loopback)),
            ("0.0.0.0", Some(Loopback)),
            ("::", Some(Loopback)),
            ("::1", Some(Loopback)),
            ("::ffff:127.0.0.1", Some(Loopback)),
            ("10.1.2.3", Some(Private)),
            ("172.16.0.1", Some(Private)),
            ("172.32.0.1", None),
            ("192.168.1.1", Some(Private)),
            ("100.64.0.1", Some(Private)),
            ("100.128.0.1", None),
            ("fd12::1", Some(Private)),
            ("fec0::1", Some(Private)),
            ("8.8.8.8", None),
            ("2001:4860:4860::8888", None),
        ] {
            assert_eq!(AddressRange::of(text.parse().unwrap()), range, "{text}");
        }
    }
}
