//! HTTP requests to other servers: the client of a node.
//!
//! All workflows of a node share one pool of connections. Where a request may go is decided on the address that it connects to
//! and not on what its URL says: each lookup is checked, and so is each redirect, which is followed here and not by the client
//! below. An answer has a limit of bytes and a time, whatever its server sends.
//!
//! # Layout
//! `client`: sends a request · `message`: a request, and its answer · `redirect`: where an answer leads · `rules`, `address`:
//! allowed and denied targets · `resolver`: the lookup that checks them · `tls`: roots and protocols · `options`: the settings ·
//! `send_error`: why there is no answer.

mod address;
mod client;
mod message;
mod options;
mod redirect;
mod resolver;
mod rules;
mod send_error;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use client::OutgoingClient;
pub(crate) use message::{OutgoingBody, OutgoingRequest, OutgoingResponse};
pub use options::OutgoingOptions;
pub(crate) use send_error::SendError;
pub(crate) use tls::{check_roots, tls_config};
