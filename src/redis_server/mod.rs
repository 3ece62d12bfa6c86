//! A Redis server: where it is, and connections to it that are known to serve.
//!
//! # Layout
//!
//! - `address`: URLs and connection strings.
//! - `connection`: connects, and checks what answers.

mod address;
mod connection;

pub(crate) use connection::{RedisServer, away, is_answer};
