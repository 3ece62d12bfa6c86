//! Opens the provider of locks that the settings select.

use super::redis::Redis;
use crate::cli::settings::{LockProviderName, LockSettings};
use crate::harness::failure::Failure;
use crate::lock::{FileLocks, LocalLocks};
#[cfg(feature = "redis")]
use crate::lock::{RedisLockOptions, RedisLocks};
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
    pub(super) fn open(settings: &LockSettings, redis: Option<&Redis>) -> Result<Self, Failure> {
        match settings.lock_provider {
            LockProviderName::Postgres => Ok(Self::Session),
            LockProviderName::Local => Ok(Self::Local(LocalLocks::new())),
            LockProviderName::File => match &settings.lock_dir {
                Some(folder) => Ok(Self::File(FileLocks::open(folder)?)),
                None => Err(Failure::usage("--lock-provider file needs a --lock-dir")),
            },
            LockProviderName::Redis => in_redis(settings, redis),
        }
    }

    /// How many files it may have open.
    pub(super) fn files(&self) -> usize {
        match self {
            Self::File(_) => FileLocks::most_files(),
            _ => 0,
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
fn in_redis(_settings: &LockSettings, _redis: Option<&Redis>) -> Result<OpenedLocks, Failure> {
    Err(super::redis::missing())
}

#[cfg(feature = "redis")]
fn in_redis(settings: &LockSettings, redis: Option<&Redis>) -> Result<OpenedLocks, Failure> {
    let Some(Redis(server)) = redis else {
        return Err(super::redis::missing());
    };
    // What must be left of the expiry at a grant stays 90 % of it, the share of DistributedLock.Redis: a smaller one only lets slow
    // servers grant locks that are nearly over.
    let options = RedisLockOptions::default()
        .prefix(&settings.lock_prefix)
        .expiry(settings.lock_expiry);
    Ok(OpenedLocks::Redis(RedisLocks::open(server.clone(), options)?))
}
