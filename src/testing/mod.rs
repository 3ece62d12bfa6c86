//! What unit tests of several rooms share: databases, commit writers, and connections that fail on demand.
//!
//! Tests of one room import from here, and from their own room, but never from the tests of another one.

#[path = "../../tests/it/support/database.rs"]
mod database;
mod proxy;
pub(crate) mod store;

pub(crate) use database::TestDatabase;
pub(crate) use proxy::Proxy;
