//! What unit tests of several rooms share: databases, commit writers, connections that fail on
//! demand, and recorded metrics.
//!
//! Tests of one room import from here, and from their own room, but never from the tests of another one.

#[path = "../../tests/it/support/database.rs"]
mod database;
pub(crate) mod metrics;
mod proxy;
pub(crate) mod store;

pub(crate) use database::TestDatabase;
pub(crate) use proxy::Proxy;

/// Ends all other sessions of the client's database; returns how many there were.
pub(crate) async fn terminate_others(client: &tokio_postgres::Client) -> i64 {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.query_one(sql, &[]).await.unwrap().get(0)
}
