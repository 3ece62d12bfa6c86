//! A plain use of Redis, all tasks over one connection, in two round trips for each pair.

use std::time::Duration;

use mainspring::internals::Failure;
use redis::aio::MultiplexedConnection;

use super::pairs_per_second;
use crate::settings::Locks;

/// Deletes a key whose value is that of its holder.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// The pairs per second.
pub(super) async fn rate(url: &str, settings: &Locks) -> Result<f64, Failure> {
    let client = redis::Client::open(url).map_err(refused)?;
    let connection = client.get_multiplexed_async_connection().await.map_err(refused)?;
    let tasks = (0..settings.clients).map(|_| {
        let (connection, key) = (connection.clone(), format!("bench:plain:{:x}", rand::random::<u64>()));
        move || {
            let (connection, key) = (connection.clone(), key.clone());
            async move { pair(connection, &key).await.map_err(refused) }
        }
    });
    let time = Duration::from_secs(settings.seconds as u64);
    pairs_per_second(tasks.collect(), Duration::from_secs(1), time).await
}

async fn pair(mut connection: MultiplexedConnection, key: &str) -> redis::RedisResult<()> {
    let value = format!("{:x}", rand::random::<u128>());
    let mut take = redis::cmd("SET");
    take.arg(key).arg(&value).arg("NX").arg("PX").arg(30_000);
    take.query_async::<Option<String>>(&mut connection).await?;
    let mut release = redis::cmd("EVAL");
    release.arg(RELEASE).arg(1).arg(key).arg(&value);
    release.query_async::<i64>(&mut connection).await?;
    Ok(())
}

/// Without the error of the client, which may contain a password.
fn refused(_: redis::RedisError) -> Failure {
    Failure::failed("plain Redis refused a command, or did not answer")
}
