//! The proxies whose word on the client of a request counts.
//!
//! A proxy appends the address from which it has a request to a header field. A client can send such a field, too, so the field
//! is read from its end, and only as far as each address belongs to a trusted proxy: the first one that does not is the client.
//! A request that comes from anywhere else is never read for it. What cannot be read ends the reading, and the last proxy that is
//! known counts as the client: a client can hide behind its proxy, and cannot take the address of another one.
//!
//! One field is read, as a proxy that writes the one passes on the other as the client has sent it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::{HeaderMap, header};

use super::peer::{Peer, Scheme};
use crate::network::Network;
use crate::{Error, Result};

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The field in which proxies name clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardingHeader {
    /// `X-Forwarded-For`, with the scheme in `X-Forwarded-Proto`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239), with the scheme in its parameter `proto`.
    Forwarded,
}

/// The proxies in front of a server. By default there are none, and the client is who has opened the connection.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    networks: Arc<[Network]>,
    header: ForwardingHeader,
}

impl TrustedProxies {
    /// The proxies in these networks or at these addresses, as `10.0.0.0/8` or `10.0.0.7`.
    ///
    /// # Errors
    /// `invalid-settings`, if a text is neither.
    pub fn new<'t>(networks: impl IntoIterator<Item = &'t str>, header: ForwardingHeader) -> Result<Self> {
        let parsed = networks.into_iter().map(|text| {
            Network::parse(text).ok_or_else(|| {
                let message =
                    format!("{text:?} is no trusted proxy: give its address, or a network such as 10.0.0.0/8");
                Error::invalid("invalid-settings", message)
            })
        });
        Ok(Self {
            networks: parsed.collect::<Result<_>>()?,
            header,
        })
    }

    #[cfg(feature = "cli")]
    pub(crate) fn of_networks(networks: &[Network], header: ForwardingHeader) -> Self {
        Self {
            networks: networks.into(),
            header,
        }
    }

    fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(address))
    }

    /// The client of a request that came over a connection of this peer, and its scheme.
    pub(super) fn origin(&self, peer: Peer, scheme: Scheme, headers: &HeaderMap) -> (Peer, Scheme) {
        if !self.trust(peer.0.ip()) {
            return (peer, scheme);
        }
        match self.header {
            ForwardingHeader::XForwardedFor => {
                let (client, hops) = self.client(peer, entries(headers, FORWARDED_FOR).map(address_of));
                (client, written_scheme(headers, hops).unwrap_or(scheme))
            }
            ForwardingHeader::Forwarded => {
                let elements: Vec<Element> = elements(headers);
                let (client, hops) = self.client(peer, elements.iter().map(|element| element.client));
                let last = elements.get(hops.saturating_sub(1));
                (client, last.and_then(|element| element.scheme).unwrap_or(scheme))
            }
        }
    }

    /// The client, and how many entries name it and the proxies behind it. `entries`: those of the field from its end; `None` is one
    /// that names no address.
    fn client(&self, peer: Peer, entries: impl Iterator<Item = Option<SocketAddr>>) -> (Peer, usize) {
        let (mut client, mut hops) = (peer, 0);
        for entry in entries {
            let Some(address) = entry else { break };
            client = Peer(address);
            hops += 1;
            if !self.trust(address.ip()) {
                break;
            }
        }
        (client, hops)
    }
}

/// The entries of a list in a field, from the last one on. An empty one counts as none, as in each list of HTTP.
fn entries<'h>(headers: &'h HeaderMap, name: &'static str) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).iter().rev();
    // A value that is no text is one entry that names nothing.
    let texts = values.map(|value| value.to_str().unwrap_or("?"));
    texts
        .flat_map(|text| text.rsplit(',').map(str::trim))
        .filter(|entry| !entry.is_empty())
}

/// The scheme in `X-Forwarded-Proto` that belongs to the entry of the client. A field with fewer entries has been kept by the proxies
/// behind the first one.
fn written_scheme(headers: &HeaderMap, hops: usize) -> Option<Scheme> {
    let schemes = entries(headers, FORWARDED_PROTO).take(hops.max(1));
    schemes.last().and_then(scheme_of)
}

fn scheme_of(text: &str) -> Option<Scheme> {
    let is = |scheme: &str| text.eq_ignore_ascii_case(scheme);
    if is("https") || is("wss") {
        Some(Scheme::Https)
    } else if is("http") || is("ws") {
        Some(Scheme::Http)
    } else {
        None
    }
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn address_of(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address: Option<IpAddr> = bare.unwrap_or(text).parse().ok();
    let address = address.map(|address| SocketAddr::new(address, 0));
    let mut address = address.or_else(|| text.parse().ok())?;
    address.set_ip(address.ip().to_canonical());
    Some(address)
}

/// An element of `Forwarded`: what one proxy has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Element {
    client: Option<SocketAddr>,
    scheme: Option<Scheme>,
}

/// The elements of `Forwarded`, from the last one on.
fn elements(headers: &HeaderMap) -> Vec<Element> {
    let values = headers.get_all(header::FORWARDED).iter().rev();
    let read = values.flat_map(|value| {
        let elements = value.to_str().ok().and_then(read_elements);
        // Where a value cannot be split, no part of it is known to be of the proxy.
        elements.unwrap_or_else(|| vec![Element::default()]).into_iter().rev()
    });
    read.collect()
}

/// The elements of a value in their order. `None`: a quoted text has no end.
fn read_elements(value: &str) -> Option<Vec<Element>> {
    let parts = split(value, ',')?.into_iter().filter(|part| !part.trim().is_empty());
    parts.map(read_element).collect()
}

fn read_element(text: &str) -> Option<Element> {
    let (mut client, mut scheme) = (None, None);
    for pair in split(text, ';')? {
        let Some((name, value)) = pair.split_once('=') else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let value = bare.unwrap_or(value);
        let place = if name.eq_ignore_ascii_case("for") {
            &mut client
        } else if name.eq_ignore_ascii_case("proto") {
            &mut scheme
        } else {
            continue;
        };
        // Of two values none is known to be the right one.
        if place.replace(value).is_some() {
            return Some(Element::default());
        }
    }
    Some(Element {
        client: client.and_then(address_of),
        scheme: scheme.and_then(scheme_of),
    })
}

/// The parts of a text between separators that are in no quoted text. `None`: a quoted text has no end.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    let (mut is_quoted, mut is_escaped) = (false, false);
    // From the start of the rest.
    let mut at = 0;
    for character in text.chars() {
        let length = character.len_utf8();
        if is_escaped {
            is_escaped = false;
        } else if is_quoted && character == '\\' {
            is_escaped = true;
        } else if character == '"' {
            is_quoted = !is_quoted;
        } else if character == separator && !is_quoted {
            let (part, after) = (rest.get(..at)?, rest.get(at + length..)?);
            parts.push(part);
            (rest, at) = (after, 0);
            continue;
        }
        at += length;
    }
    parts.push(rest);
    (!is_quoted).then_some(parts)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    const PROXY: &str = "10.0.0.7:4711";

    fn proxies(header: ForwardingHeader) -> TrustedProxies {
        TrustedProxies::new(["10.0.0.0/8", "fd00::/8", "192.0.2.1"], header).unwrap()
    }

    /// The client's address and the scheme of a request over a plain connection of this peer.
    fn origin(header: ForwardingHeader, peer: &str, fields: &[(&'static str, &str)]) -> (String, Scheme) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let peer = Peer(peer.parse().unwrap());
        let (Peer(client), scheme) = proxies(header).origin(peer, Scheme::Http, &headers);
        (client.ip().to_string(), scheme)
    }

    fn client(values: &[&str]) -> String {
        let fields: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
        origin(ForwardingHeader::XForwardedFor, PROXY, &fields).0
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxy() {
        for (values, expected) in [
            (&["203.0.113.9"][..], "203.0.113.9"),
            (&["203.0.113.9, 10.9.9.9"], "203.0.113.9"),
            // What a client has sent itself stands before what its proxy says.
            (&["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
            (&["10.1.1.1, 203.0.113.9, 10.9.9.9"], "203.0.113.9"),
            (&["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
            (&["203.0.113.9", "10.9.9.9, 192.0.2.1"], "203.0.113.9"),
            (&["203.0.113.9:8080"], "203.0.113.9"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["[2001:db8::1]:8080 ,"], "2001:db8::1"),
            (&["::ffff:203.0.113.9"], "203.0.113.9"),
            (&["203.0.113.9, ::ffff:10.0.0.8"], "203.0.113.9"),
            // A client within the networks of the proxies.
            (&["10.1.1.1"], "10.1.1.1"),
            (&["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
            // Without a word there is nothing else to say than the proxy.
            (&[], "10.0.0.7"),
            (&["", " , "], "10.0.0.7"),
        ] {
            assert_eq!(client(values), expected, "{values:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_hides_a_client_and_never_names_another_one() {
        for (values, expected) in [
            (&["unknown"][..], "10.0.0.7"),
            (&["1.2.3.4, unknown"], "10.0.0.7"),
            (&["1.2.3.4, unknown, 10.9.9.9"], "10.9.9.9"),
            (&["1.2.3.4", "\u{e9}"], "10.0.0.7"),
            (&["1.2.3.4, 203.0.113.9; 5"], "10.0.0.7"),
            (&["1.2.3.4.5"], "10.0.0.7"),
            (&["localhost"], "10.0.0.7"),
        ] {
            assert_eq!(client(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_request_that_comes_from_no_proxy_says_nothing_of_its_client() {
        let fields = [
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=1.2.3.4"),
        ];
        for header in [ForwardingHeader::XForwardedFor, ForwardingHeader::Forwarded] {
            for peer in ["203.0.113.9:1", "[2001:db8::1]:1", "127.0.0.1:1"] {
                let (address, scheme) = origin(header, peer, &fields);
                let expected: SocketAddr = peer.parse().unwrap();
                assert_eq!((address, scheme), (expected.ip().to_string(), Scheme::Http));
            }
        }
        // An IPv4 proxy of a listener on all addresses.
        assert_eq!(
            origin(ForwardingHeader::XForwardedFor, "[::ffff:10.0.0.7]:1", &fields),
            ("1.2.3.4".to_owned(), Scheme::Https)
        );
        let none = TrustedProxies::default();
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_FOR, "1.2.3.4".parse().unwrap());
        let peer = Peer("127.0.0.1:1".parse().unwrap());
        assert_eq!(none.origin(peer, Scheme::Http, &headers), (peer, Scheme::Http));
    }

    #[test]
    fn the_other_field_is_not_read() {
        let fields = [
            ("x-forwarded-for", "203.0.113.9"),
            ("forwarded", "for=198.51.100.1;proto=https"),
        ];
        let of = |header| origin(header, PROXY, &fields);
        assert_eq!(
            of(ForwardingHeader::XForwardedFor),
            ("203.0.113.9".to_owned(), Scheme::Http)
        );
        assert_eq!(
            of(ForwardingHeader::Forwarded),
            ("198.51.100.1".to_owned(), Scheme::Https)
        );
    }

    #[test]
    fn the_scheme_belongs_to_the_connection_of_the_client() {
        for (clients, schemes, expected) in [
            ("203.0.113.9", "https", Scheme::Https),
            ("203.0.113.9", "HTTPS", Scheme::Https),
            ("203.0.113.9", "wss", Scheme::Https),
            ("203.0.113.9", "http", Scheme::Http),
            ("203.0.113.9", "gopher", Scheme::Http),
            // The client of the first proxy used https, the proxy http.
            ("203.0.113.9, 10.1.1.1", "https, http", Scheme::Https),
            ("203.0.113.9, 10.1.1.1", "https", Scheme::Https),
            // The first one is what the client has sent itself.
            ("1.2.3.4, 203.0.113.9", "https, http", Scheme::Http),
            ("", "https", Scheme::Https),
        ] {
            let fields = [("x-forwarded-for", clients), ("x-forwarded-proto", schemes)];
            let (_, scheme) = origin(ForwardingHeader::XForwardedFor, PROXY, &fields);
            assert_eq!(scheme, expected, "{clients} {schemes}");
        }
    }

    #[test]
    fn forwarded_is_read_by_its_elements() {
        for (values, expected, scheme) in [
            (&["for=203.0.113.9"][..], "203.0.113.9", Scheme::Http),
            (
                &["For=203.0.113.9;Proto=https;by=10.0.0.7"],
                "203.0.113.9",
                Scheme::Https,
            ),
            (
                &["for=\"[2001:db8::1]:4711\"; proto=https"],
                "2001:db8::1",
                Scheme::Https,
            ),
            (
                &["for=1.2.3.4, for=203.0.113.9;proto=https"],
                "203.0.113.9",
                Scheme::Https,
            ),
            (&["for=1.2.3.4", "for=203.0.113.9"], "203.0.113.9", Scheme::Http),
            (
                &["for=203.0.113.9;proto=https, for=10.1.1.1;proto=http"],
                "203.0.113.9",
                Scheme::Https,
            ),
            (&["for=unknown, for=10.1.1.1"], "10.1.1.1", Scheme::Http),
            (&["for=1.2.3.4, for=_hidden"], "10.0.0.7", Scheme::Http),
            (&["for=1.2.3.4, by=10.0.0.7"], "10.0.0.7", Scheme::Http),
            (&["for=1.2.3.4;for=5.6.7.8"], "10.0.0.7", Scheme::Http),
            // The host is what the client has sent.
            (
                &["for=203.0.113.9;host=\"x,for=1.2.3.4;a=\""],
                "203.0.113.9",
                Scheme::Http,
            ),
            (
                &["for=203.0.113.9;host=\"x\\\",for=1.2.3.4\""],
                "203.0.113.9",
                Scheme::Http,
            ),
            // A quoted text without an end would take what the proxy has appended.
            (&["for=1.2.3.4;host=\", for=203.0.113.9"], "10.0.0.7", Scheme::Http),
            (
                &["for=1.2.3.4;host=\", for=\"[2001:db8::1]\""],
                "10.0.0.7",
                Scheme::Http,
            ),
            (&["for=1.2.3.4;host=\"", "for=203.0.113.9"], "203.0.113.9", Scheme::Http),
            (&["for=1.2.3.4;host=\"\\, for=203.0.113.9"], "10.0.0.7", Scheme::Http),
            (&[""], "10.0.0.7", Scheme::Http),
        ] {
            let fields: Vec<_> = values.iter().map(|value| ("forwarded", *value)).collect();
            let found = origin(ForwardingHeader::Forwarded, PROXY, &fields);
            assert_eq!(found, (expected.to_owned(), scheme), "{values:?}");
        }
    }

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        for text in ["proxy.internal", "10.0.0.0/40", ""] {
            let error = TrustedProxies::new([text], ForwardingHeader::default()).unwrap_err();
            assert_eq!(error.code(), "invalid-settings");
        }
    }
}
