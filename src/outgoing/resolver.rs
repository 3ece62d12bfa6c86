//! The lookup of hosts: a request connects only to addresses that the rules admit.
//!
//! The addresses that are checked are those that are then connected to, at each connection anew: an answer that changes
//! between two lookups reaches nothing that is denied.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use super::rules::TargetRules;

type Addresses = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Finds the addresses of a host.
pub(super) trait Lookup: Send + Sync {
    fn lookup(&self, name: &str) -> Addresses;
}

/// How many lookups of a node run at once. Each takes a thread until the system has answered, also when nothing waits for it
/// any more.
const LOOKUPS: usize = 64;

/// Asks the system.
pub(super) struct SystemLookup(Arc<Semaphore>);

impl Default for SystemLookup {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS)))
    }
}

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> Addresses {
        let (name, room) = (name.to_owned(), Arc::clone(&self.0));
        Box::pin(async move {
            let permit = room.acquire_owned().await.map_err(io::Error::other)?;
            let ask = move || {
                let _permit = permit;
                let found = (name.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            };
            tokio::task::spawn_blocking(ask).await.map_err(io::Error::other)?
        })
    }
}

/// The resolver of a client.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) rules: Arc<TargetRules>,
}

impl CheckedResolver {
    /// The addresses of a host that the rules admit; an error if there is none.
    pub(super) async fn resolve_checked(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let found = self.lookup.lookup(name).await.map_err(LookupError::Failed)?;
        let mut refusal = None;
        let admitted: Vec<IpAddr> = found
            .into_iter()
            .filter(|address| match self.rules.admit_address(name, *address) {
                Ok(()) => true,
                Err(reason) => {
                    refusal.get_or_insert(reason);
                    false
                }
            })
            .collect();
        match refusal {
            Some(reason) if admitted.is_empty() => Err(LookupError::Refused(TargetRefused(reason))),
            _ => Ok(admitted),
        }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            match resolver.resolve_checked(name.as_str()).await {
                Ok(found) => Ok(as_sockets(found)),
                Err(LookupError::Failed(error)) => Err(error.into()),
                Err(LookupError::Refused(refused)) => Err(refused.into()),
            }
        })
    }
}

/// The resolver of the connections to a proxy, which an administrator has named.
pub(super) struct ProxyResolver(pub(super) Arc<dyn Lookup>);

impl Resolve for ProxyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = self.0.lookup(name.as_str());
        Box::pin(async move { Ok(as_sockets(addresses.await?)) })
    }
}

/// The port is that of the URL.
fn as_sockets(addresses: Vec<IpAddr>) -> Addrs {
    Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)))
}

/// Why a host has no address to connect to.
pub(super) enum LookupError {
    Failed(io::Error),
    Refused(TargetRefused),
}

/// The rules deny a target.
#[derive(Debug)]
pub(super) struct TargetRefused(pub(super) String);

impl fmt::Display for TargetRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TargetRefused {}
