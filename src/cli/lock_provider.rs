//! Opens the provider of locks that the settings select.

use super::elsa::ElsaEnvironment;
use super::settings::{LockProviderName, LockSettings};
use crate::harness::failure::Failure;
#[cfg(feature = "redis")]
use crate::lock::RedisLocks;
use crate::lock::{FileLocks, LocalLocks};
use crate::runtime::EngineBuilder;

/// An opened provider. Clones share it.
#[derive(Clone)]
pub(super) enum OpenedLocks {
    Session,
    Local(LocalLocks),
    File(FileLocks),
    #[cfg(feature = "redis")]
    Redis(RedisLocks),
}

impl OpenedLocks {
    /// Opens the provider. Waits for Redis for `--service-wait`.
    pub(super) async fn open(settings: &LockSettings, elsa: &ElsaEnvironment) -> Result<Self, Failure> {
        match settings.lock_provider {
            LockProviderName::Postgres => {
                if settings.redis_url.is_some() || settings.redis_url_file.is_some() {
                    tracing::info!("--redis-url is not needed: --lock-provider selects PostgreSQL");
                }
                Ok(Self::Session)
            }
            LockProviderName::Local => Ok(Self::Local(LocalLocks::new())),
            LockProviderName::File => match &settings.lock_dir {
                Some(folder) => Ok(Self::File(FileLocks::open(folder)?)),
                None => Err(Failure::usage("--lock-provider file needs a --lock-dir")),
            },
            LockProviderName::Redis => redis(settings, elsa).await,
        }
    }

    /// Has the engine use it.
    pub(super) fn apply(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Session => builder,
            Self::Local(locks) => builder.locks(locks),
            Self::File(locks) => builder.locks(locks),
            #[cfg(feature = "redis")]
            Self::Redis(locks) => builder.locks(locks),
        }
    }
}

#[cfg(not(feature = "redis"))]
#[allow(clippy::unused_async, reason = "the form that it has with Redis")]
async fn redis(_settings: &LockSettings, _elsa: &ElsaEnvironment) -> Result<OpenedLocks, Failure> {
    Err(Failure::usage(
        "this program was built without Redis: build it with `--features program`, or leave --lock-provider out",
    ))
}

#[cfg(feature = "redis")]
async fn redis(settings: &LockSettings, elsa: &ElsaEnvironment) -> Result<OpenedLocks, Failure> {
    use std::time::{Duration, Instant};

    use crate::lock::RedisLockOptions;
    use crate::redis_server::RedisServer;

    /// The interval of the tries while the server is away.
    const RETRY: Duration = Duration::from_millis(500);

    let given = settings.redis_url.as_ref().or_else(|| elsa.redis_url());
    let server = match (&settings.redis_url_file, given) {
        (Some(file), _) => RedisServer::from_file(file)?,
        (None, Some(url)) => RedisServer::parse(url.reveal())?,
        (None, None) => {
            return Err(Failure::usage(
                "--lock-provider redis needs a --redis-url, a --redis-url-file, or CONNECTIONSTRINGS__REDIS",
            ));
        }
    };
    let options = RedisLockOptions::default()
        .prefix(&settings.lock_prefix)
        .expiry(settings.lock_expiry);
    let options = match settings.lock_min_validity {
        Some(validity) => options.min_validity(validity),
        None => options,
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
            tracing::warn!(%error, "the node starts without Redis (abortConnect=false); what needs a lock waits for it");
            break;
        }
        tracing::warn!(%error, seconds_left = left.as_secs(), "waiting for Redis");
        tokio::time::sleep(RETRY.min(left)).await;
    }
    Ok(OpenedLocks::Redis(RedisLocks::open(server, options)?))
}
