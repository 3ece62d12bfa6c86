//! A network of addresses, as settings name it.

use std::net::IpAddr;

/// `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network of a text, in which an address may be in brackets. `None`: it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let address: IpAddr = bare.unwrap_or(address).parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= most)?,
            None => most,
        };
        Some(Self { address, prefix })
    }

    /// Whether an address is in the network. An IPv4 address within an IPv6 one is an IPv6 address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let prefix = u32::from(self.prefix);
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(32 - prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(128 - prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Whether every address of its kind is in the network.
    #[cfg(feature = "cli")]
    pub(crate) fn is_all(&self) -> bool {
        self.prefix == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_network_of_its_kind_by_the_first_bits() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("10.128.0.0/9", "10.127.0.1", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("[::1]", "::1", true),
            ("::/0", "2001:db8::1", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", false),
        ] {
            let network = Network::parse(network).unwrap();
            assert_eq!(
                network.contains(address.parse().unwrap()),
                expected,
                "{network:?} {address}"
            );
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "proxy",
            "10.0.0.0/33",
            "10.0.0/8",
            "10.0.0.0/",
            "::/129",
            "10.0.0.0/-1",
            "10.0.0.1:80",
            "*",
        ] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
