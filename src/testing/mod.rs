//! Public, with the feature `testing`: `conformance`, the suites that each pluggable service must pass.
//!
//! The rest is shared by the unit tests of several rooms: databases, commit writers, connections that fail on demand,
//! recorded metrics, and counted instructions. Tests of one room import from here, and from their own room, but never from the tests of another room.

pub mod conformance;
#[cfg(test)]
#[path = "../../tests/it/support/database.rs"]
mod database;
#[cfg(test)]
pub(crate) mod instructions;
#[cfg(test)]
pub(crate) mod metrics;
#[cfg(test)]
mod proxy;
#[cfg(test)]
#[cfg(feature = "redis")]
#[path = "../../tests/it/support/redis.rs"]
mod redis;
#[cfg(test)]
#[cfg(feature = "redis")]
#[path = "../../tests/it/support/redis_cluster.rs"]
mod redis_cluster;
#[cfg(test)]
pub(crate) mod store;

#[cfg(test)]
pub(crate) use database::TestDatabase;
#[cfg(test)]
pub(crate) use proxy::Proxy;
#[cfg(test)]
#[cfg(feature = "redis")]
pub(crate) use redis::RedisProcess;
#[cfg(test)]
#[cfg(feature = "redis")]
pub(crate) use redis_cluster::RedisCluster;

/// Ends all other sessions of the client's database; returns how many there were.
#[cfg(test)]
pub(crate) async fn terminate_others(client: &tokio_postgres::Client) -> i64 {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Compares a page of docs/reference with what a test makes of its own data, and writes it with `MAINSPRING_WRITE_REFERENCE=1`.
#[cfg(test)]
pub(crate) fn reference_has(name: &str, page: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs/reference")
        .join(name);
    if std::env::var_os("MAINSPRING_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).is_ok_and(|written| written == page),
        "write docs/reference/{name} with MAINSPRING_WRITE_REFERENCE=1"
    );
}

/// The processor time of this thread, which other work on a busy machine does not lengthen; elsewhere the time of day.
#[cfg(test)]
pub(crate) fn thread_time() -> std::time::Duration {
    #[cfg(target_os = "linux")]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into();
    #[cfg(not(target_os = "linux"))]
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    time.unwrap()
}
