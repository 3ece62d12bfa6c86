//! A Redis server or cluster: where it is, and checked connections to it.
//!
//! # Layout
//!
//! - `address`: URLs and connection strings; `tls`: files of certificates.
//! - `connection`: connects to one server, and checks what answers; `sentinel`: which one is the master.
//! - `cluster`: what the nodes of a cluster report about it; `topology`: which master has which hash slots; `hash_slot`: the
//!   slots of keys.
//! - `server`: both together, with the nonce by which nodes know that they share one.
//! - `channel`: pub/sub; `availability`: what readiness, metrics and logs show of an outage.

mod address;
mod availability;
mod channel;
mod cluster;
mod connection;
mod hash_slot;
mod sentinel;
mod server;
mod tls;
mod topology;

pub(crate) use availability::Availability;
pub(crate) use channel::{ChannelEvent, follow};
pub(crate) use cluster::{ClusterView, view};
pub(crate) use connection::{away, is_answer, is_refusal, lacks};
pub(crate) use hash_slot::HashSlot;
pub(crate) use server::RedisServer;
#[cfg(feature = "cli")]
pub(crate) use tls::RedisTlsFiles;
pub(crate) use topology::{ClusterTopology, NodeAddress};
