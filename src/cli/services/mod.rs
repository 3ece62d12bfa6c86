//! Opens the services that the settings select.
//!
//! # Layout
//!
//! `locks`, `signal` and `wake`: the providers; `redis` and `rabbitmq`: the servers that some of them share. A service whose
//! server this version does not support is refused here, before anything connects.

mod locks;
mod rabbitmq;
mod redis;
mod signal;
mod wake;

use super::elsa::ElsaEnvironment;
use super::settings::ServiceSettings;
use crate::harness::failure::Failure;
use crate::runtime::EngineBuilder;
use locks::OpenedLocks;
use signal::OpenedSignal;
use wake::OpenedWake;

/// The opened services. Clones share them.
#[derive(Clone)]
pub(super) struct OpenedServices {
    locks: OpenedLocks,
    signal: OpenedSignal,
    wake: OpenedWake,
}

impl OpenedServices {
    /// Opens the services. Waits for their servers for `service-wait`.
    pub(super) async fn open(
        settings: &ServiceSettings,
        elsa: &ElsaEnvironment,
        schema: &str,
    ) -> Result<Self, Failure> {
        let uses_redis = settings.uses_redis();
        let has_redis = settings.redis.redis_url.is_some() || settings.redis.redis_url_file.is_some();
        if has_redis && !uses_redis {
            tracing::info!("--redis-url is not needed: neither --lock-provider nor --signal selects Redis");
        }
        let redis = match uses_redis {
            true => Some(redis::open(settings, elsa).await?),
            false => None,
        };
        let uses_rabbitmq = settings.uses_rabbitmq();
        let has_rabbitmq = settings.rabbitmq.rabbitmq_url.is_some() || settings.rabbitmq.rabbitmq_url_file.is_some();
        if has_rabbitmq && !uses_rabbitmq {
            tracing::info!("--rabbitmq-url is not needed: neither --signal nor --wake selects RabbitMQ");
        }
        let rabbit = match uses_rabbitmq {
            true => Some(rabbitmq::open(settings, elsa, schema).await?),
            false => None,
        };
        Ok(Self {
            locks: OpenedLocks::open(&settings.locks, redis.as_ref())?,
            signal: OpenedSignal::open(settings.signal, redis.as_ref(), rabbit.as_ref())?,
            wake: OpenedWake::open(settings.wake, rabbit.as_ref())?,
        })
    }

    /// How many files they may have open.
    pub(super) fn files(&self) -> usize {
        self.locks.files()
    }

    /// Has the engine use them.
    pub(super) fn apply(self, builder: EngineBuilder) -> EngineBuilder {
        self.wake.apply(self.signal.apply(self.locks.apply(builder)))
    }
}
