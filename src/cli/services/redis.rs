//! The Redis server of the services that use it.

#[cfg(feature = "redis")]
use std::time::{Duration, Instant};

use crate::cli::elsa::ElsaEnvironment;
use crate::cli::settings::ServiceSettings;
use crate::harness::failure::Failure;
#[cfg(feature = "redis")]
use crate::redis_server::{RedisServer, RedisTlsFiles};

/// The retry interval while the server is away.
#[cfg(feature = "redis")]
const RETRY: Duration = Duration::from_millis(500);

/// A server that has answered, or need not answer (`abortConnect=false`).
#[cfg(feature = "redis")]
pub(super) struct Redis(pub(super) RedisServer);

/// It has no values without the feature.
#[cfg(not(feature = "redis"))]
pub(super) enum Redis {}

/// The error of a program that cannot use Redis.
pub(super) fn missing() -> Failure {
    Failure::usage(
        "this program was built without Redis: build it with `--features program`, or leave out --lock-provider and \
         --signal",
    )
}

#[cfg(not(feature = "redis"))]
#[allow(clippy::unused_async, reason = "the form that it has with Redis")]
pub(super) async fn open(_settings: &ServiceSettings, _elsa: &ElsaEnvironment) -> Result<Redis, Failure> {
    Err(missing())
}

/// Finds the server, and waits for it for `service-wait`.
#[cfg(feature = "redis")]
pub(super) async fn open(settings: &ServiceSettings, elsa: &ElsaEnvironment) -> Result<Redis, Failure> {
    let tls_files = RedisTlsFiles {
        ca: settings.redis.redis_ca_file.clone(),
        cert: settings.redis.redis_cert_file.clone(),
        key: settings.redis.redis_key_file.clone(),
    };
    let given = settings.redis.redis_url.as_ref().or_else(|| elsa.redis_url());
    let server = match (&settings.redis.redis_url_file, given) {
        (Some(file), _) => RedisServer::from_file(file, tls_files)?,
        (None, Some(url)) => RedisServer::parse_with(url.reveal(), tls_files)?,
        (None, None) => {
            return Err(Failure::usage(
                "Redis is selected: give a --redis-url, set redis-url-file, or give CONNECTIONSTRINGS__REDIS",
            ));
        }
    };
    let began = Instant::now();
    loop {
        let error = match server.connect().await {
            Ok(_) => break,
            Err(error) => error,
        };
        let left = settings.service_wait.saturating_sub(began.elapsed());
        if !error.is_unavailable() {
            return Err(error.into());
        }
        if left.is_zero() {
            if server.aborts_without() {
                return Err(error.into());
            }
            tracing::warn!(%error, "the node starts without Redis (abortConnect=false)");
            break;
        }
        tracing::warn!(%error, seconds_left = left.as_secs(), "waiting for Redis");
        tokio::time::sleep(RETRY.min(left)).await;
    }
    Ok(Redis(server))
}
