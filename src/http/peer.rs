//! Who a request comes from, and over which scheme, as handlers see it.

use std::net::SocketAddr;

/// The address of the client, in the extensions of each of its requests. Behind a trusted proxy it is the one that the proxy
/// names, with port 0 where the proxy names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The scheme by which the client has sent a request, in its extensions: that of the connection, or of the client's connection to a
/// trusted proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// As a URL begins.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}
