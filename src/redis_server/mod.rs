//! A Redis server: where it is, and connections to it that are known to serve.
//!
//! # Layout
//!
//! - `address`: URLs and connection strings; `tls`: files of certificates.
//! - `connection`: connects to one server, and checks what answers; `sentinel`: which one is the master.
//! - `server`: both together, with the nonce by which nodes know that they share one.
//! - `channel`: pub/sub; `availability`: what readiness, metrics and logs have of an outage.

mod address;
mod availability;
mod channel;
mod connection;
mod sentinel;
mod server;
mod tls;

pub(crate) use availability::Availability;
pub(crate) use channel::{ChannelEvent, follow};
pub(crate) use connection::{away, is_answer};
pub(crate) use server::RedisServer;
#[cfg(feature = "cli")]
pub(crate) use tls::RedisTlsFiles;
