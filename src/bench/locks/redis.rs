//! Redis: its provider, and the plain use of it with which it is compared.

use std::sync::Arc;
use std::time::Duration;

use crate::bench::settings::BenchLocks;
use crate::harness::failure::Failure;
use crate::lock::LockProvider;

#[cfg(feature = "redis")]
pub(super) use with_redis::{plain, provider};

#[cfg(not(feature = "redis"))]
pub(super) use without_redis::{plain, provider};

#[cfg(feature = "redis")]
mod with_redis {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    use std::time::Instant;

    use redis::aio::MultiplexedConnection;

    use super::*;
    use crate::harness::secret::Secret;
    use crate::lock::{RedisLockOptions, RedisLocks};
    use crate::redis_server::RedisServer;

    /// Deletes a key whose value is that of its holder.
    const RELEASE: &str =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

    fn url(settings: &BenchLocks) -> Result<&str, Failure> {
        let url = settings.redis_url.as_ref().map(Secret::reveal);
        url.ok_or_else(|| Failure::usage("--provider redis and --plain-redis need a --redis-url"))
    }

    pub(in crate::bench::locks) async fn provider(settings: &BenchLocks) -> Result<Arc<dyn LockProvider>, Failure> {
        let options = RedisLockOptions::default()
            .prefix("bench:")
            .most_locks(settings.clients.max(16_384));
        Ok(Arc::new(RedisLocks::connect(url(settings)?, options).await?))
    }

    /// The pairs per second of all tasks over one connection, in two round trips each.
    pub(in crate::bench::locks) async fn plain(settings: &BenchLocks, warm_up: Duration) -> Result<f64, Failure> {
        let server = RedisServer::parse(url(settings)?)?;
        if server.is_cluster() {
            return Err(Failure::usage("--plain-redis measures one server: name no cluster"));
        }
        let connection = server.connect().await?;
        let (pairs, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = Vec::new();
        for _ in 0..settings.clients {
            let (connection, pairs, stop) = (connection.clone(), Arc::clone(&pairs), Arc::clone(&stop));
            tasks.push(tokio::spawn(async move {
                let key = format!("bench:plain:{:x}", rand::random::<u64>());
                while !stop.load(Relaxed) {
                    pair(connection.clone(), &key).await?;
                    pairs.fetch_add(1, Relaxed);
                }
                Ok::<_, redis::RedisError>(())
            }));
        }
        tokio::time::sleep(warm_up).await;
        let (before, began) = (pairs.load(Relaxed), Instant::now());
        tokio::time::sleep(Duration::from_secs(settings.seconds as u64)).await;
        let (after, took) = (pairs.load(Relaxed), began.elapsed());
        stop.store(true, Relaxed);
        for task in tasks {
            let ended = task.await.map_err(|error| Failure::failed(error.to_string()))?;
            ended.map_err(|_| Failure::failed("plain Redis refused a command, or did not answer"))?;
        }
        Ok((after - before) as f64 / took.as_secs_f64())
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
}

#[cfg(not(feature = "redis"))]
#[allow(clippy::unused_async, reason = "the form that they have with Redis")]
mod without_redis {
    use super::*;

    fn missing(_: &BenchLocks) -> Failure {
        Failure::usage("this program was built without Redis: build it with `--features program`")
    }

    pub(in crate::bench::locks) async fn provider(settings: &BenchLocks) -> Result<Arc<dyn LockProvider>, Failure> {
        Err(missing(settings))
    }

    pub(in crate::bench::locks) async fn plain(settings: &BenchLocks, _warm_up: Duration) -> Result<f64, Failure> {
        Err(missing(settings))
    }
}
