//! The rules on targets: which hosts a request may name, and to which addresses it may connect.
//!
//! A denied entry always wins. An allowed network lifts the denial of a whole range, and an allowed name does not: the
//! addresses of a name are its owner's choice, at each lookup anew.

use std::net::IpAddr;

use super::address::{AddressRange, faces};
use crate::network::Network;

/// The rules of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct TargetRules {
    allowed: Vec<TargetEntry>,
    denied: Vec<TargetEntry>,
    /// Also loopback and private ranges are denied.
    denies_private: bool,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TargetEntry {
    /// `api.example.com`
    Name(String),
    /// `*.example.com`: all names below it.
    Below(String),
    /// `10.0.0.0/8`, or a single address.
    Network(Network),
}

impl TargetRules {
    /// Reads the lists. Errors: What is wrong with an entry.
    pub(super) fn read(allowed: &[String], denied: &[String], denies_private: bool) -> Result<Self, String> {
        let entries = |texts: &[String]| -> Result<Vec<TargetEntry>, String> {
            texts.iter().map(|text| TargetEntry::read(text)).collect()
        };
        Ok(Self {
            allowed: entries(allowed)?,
            denied: entries(denied)?,
            denies_private,
        })
    }

    /// Whether a request may name this host, which is no address. Errors: Why not.
    pub(super) fn admit_name(&self, name: &str) -> Result<(), String> {
        let name = without_dot(name);
        if self.denied.iter().any(|entry| entry.is_of_name(name)) {
            return Err(format!(
                "the host {name} is denied on this server (the setting http-denied-target)"
            ));
        }
        // An address may be allowed instead.
        let may_match = self.allowed.iter().any(|entry| match entry {
            TargetEntry::Network(..) => true,
            entry => entry.is_of_name(name),
        });
        if self.allowed.is_empty() || may_match {
            return Ok(());
        }
        Err(format!(
            "the host {name} is not among the targets that this server allows (the setting http-allowed-target)"
        ))
    }

    /// Whether a request that names this host may connect to this address of it. Errors: Why not.
    pub(super) fn admit_address(&self, host: &str, address: IpAddr) -> Result<(), String> {
        let host = without_dot(host);
        let shown = match host.parse::<IpAddr>() {
            Ok(_) => format!("the address {address}"),
            Err(_) => format!("the address {address} of the host {host}"),
        };
        if self.lists_address(address) {
            return Err(format!(
                "{shown} is denied on this server (the setting http-denied-target)"
            ));
        }
        if have_address(&self.allowed, address) {
            return Ok(());
        }
        if let Some(range) = AddressRange::of(address)
            && (self.denies_private || range.is_denied_by_default())
        {
            return Err(format!(
                "{shown} is a {} address, which this server denies; the setting http-allowed-target can allow it by its \
                 address or network",
                range.name()
            ));
        }
        if self.allowed.is_empty() || self.allowed.iter().any(|entry| entry.is_of_name(host)) {
            return Ok(());
        }
        Err(format!(
            "{shown} is not among the targets that this server allows (the setting http-allowed-target)"
        ))
    }

    /// Whether the denied entries name an address.
    pub(super) fn lists_address(&self, address: IpAddr) -> bool {
        have_address(&self.denied, address)
    }
}

/// Whether one of the entries names an address, or one inside it.
fn have_address(entries: &[TargetEntry], address: IpAddr) -> bool {
    let inside = faces(address);
    let has = |entry: &TargetEntry| inside.iter().flatten().any(|address| entry.is_of_address(*address));
    entries.iter().any(has)
}

impl TargetEntry {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no target: give a host name, *.name for all names below it, an address, or a network such as \
                 10.0.0.0/8"
            )
        };
        let given = text.trim();
        if let Some(network) = Network::parse(given) {
            return Ok(Self::Network(network));
        }
        if given.contains(['/', ':', '[', ']', '@', '?', '#', '%', '\\']) {
            return Err(wrong());
        }
        let (name, below) = match given.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (given, false),
        };
        if name.contains('*') {
            return Err(wrong());
        }
        // Lower case, and the form of other scripts in which a request names it.
        let url = reqwest::Url::parse(&format!("http://{name}/")).map_err(|_| wrong())?;
        let name = url.host_str().map(without_dot).unwrap_or_default().to_owned();
        if name.is_empty() || (below && name.parse::<IpAddr>().is_ok()) {
            return Err(wrong());
        }
        // `0x7f.1` is an address, too.
        if let Some(network) = Network::parse(&name) {
            return Ok(Self::Network(network));
        }
        Ok(if below { Self::Below(name) } else { Self::Name(name) })
    }

    /// A name in lower case.
    fn is_of_name(&self, name: &str) -> bool {
        match self {
            Self::Name(entry) => name.eq_ignore_ascii_case(entry),
            Self::Below(entry) => {
                let Some(at) = name.len().checked_sub(entry.len()).filter(|at| *at > 1) else {
                    return false;
                };
                let (before, end) = (name.get(..at), name.get(at..));
                before.is_some_and(|before| before.ends_with('.'))
                    && end.is_some_and(|end| end.eq_ignore_ascii_case(entry))
            }
            Self::Network(..) => false,
        }
    }

    fn is_of_address(&self, address: IpAddr) -> bool {
        matches!(self, Self::Network(network) if network.contains(address))
    }
}

/// `example.com.` is `example.com`.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allowed: &[&str], denied: &[&str], denies_private: bool) -> TargetRules {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        TargetRules::read(&owned(allowed), &owned(denied), denies_private).unwrap()
    }

    fn admits(rules: &TargetRules, host: &str, address: &str) -> bool {
        let address = address.parse().unwrap();
        rules.admit_name(host).is_ok() && rules.admit_address(host, address).is_ok()
    }

    #[test]
    fn link_local_and_metadata_addresses_are_denied_by_default() {
        let rules = rules(&[], &[], false);
        assert!(admits(&rules, "a.example", "8.8.8.8"));
        assert!(admits(&rules, "a.example", "127.0.0.1"));
        assert!(admits(&rules, "a.example", "10.0.0.1"));
        for address in ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254"] {
            assert!(!admits(&rules, "a.example", address), "{address}");
        }
    }

    #[test]
    fn a_setting_adds_loopback_and_private_ranges() {
        let strict = rules(&[], &[], true);
        for address in [
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "192.168.0.1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(!admits(&strict, "a.example", address), "{address}");
        }
        let lifted = rules(&["10.1.0.0/16", "*.example"], &[], true);
        assert!(admits(&lifted, "a.example", "10.1.2.3"));
        assert!(admits(&lifted, "a.example", "::ffff:10.1.2.3"));
        assert!(!admits(&lifted, "a.example", "10.2.0.1"), "a name lifts no range");
    }

    #[test]
    fn a_list_of_allowed_targets_denies_all_others() {
        let rules = rules(
            &["api.example.com", "*.Bücher.example", "9.9.9.0/24", "[2620:fe::fe]"],
            &[],
            false,
        );
        for (host, address, expected) in [
            ("api.example.com", "8.8.8.8", true),
            ("API.example.com.", "8.8.8.8", true),
            ("api.example.com", "169.254.169.254", false),
            ("x.api.example.com", "8.8.8.8", false),
            ("a.xn--bcher-kva.example", "8.8.8.8", true),
            ("xn--bcher-kva.example", "8.8.8.8", false),
            ("axn--bcher-kva.example", "8.8.8.8", false),
            ("other.example", "9.9.9.9", true),
            ("2620:fe::fe", "2620:fe::fe", true),
            ("2620:fe::ff", "2620:fe::ff", false),
        ] {
            assert_eq!(admits(&rules, host, address), expected, "{host} {address}");
        }
    }

    #[test]
    fn a_denied_target_is_denied_though_it_is_allowed() {
        let rules = rules(&["10.0.0.0/8"], &["10.1.0.0/16", "*.evil.example", "::/0"], false);
        assert!(admits(&rules, "a.example", "10.2.0.1"));
        assert!(!admits(&rules, "a.example", "10.1.0.1"));
        assert!(!admits(&rules, "a.evil.example", "10.2.0.1"));
        assert!(!admits(&rules, "a.example", "::ffff:10.2.0.1"));
    }

    #[test]
    fn an_entry_that_is_no_target_is_refused() {
        for text in [
            "",
            "*",
            "a.*.example",
            "http://a.example",
            "a.example:80",
            "10.0.0.0/33",
            "10.0.0/8x",
            "*.10.0.0.1",
            "a b",
        ] {
            assert!(TargetRules::read(&[text.to_owned()], &[], false).is_err(), "{text}");
        }
        assert_eq!(
            TargetEntry::read("0x7f.1").unwrap(),
            TargetEntry::Network(Network::parse("127.0.0.1").unwrap())
        );
        assert_eq!(
            TargetEntry::read("0.0.0.0/0").unwrap(),
            TargetEntry::Network(Network::parse("0.0.0.0/0").unwrap())
        );
    }
}
