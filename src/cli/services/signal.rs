//! Opens what carries the cache notifications.

use super::redis::Redis;
use crate::cli::settings::SignalName;
use crate::harness::failure::Failure;
use crate::runtime::EngineBuilder;
use crate::signal::LocalSignal;
#[cfg(feature = "redis")]
use crate::{redis_server::RedisServer, signal::RedisSignal};

/// An opened signal. Clones share it.
#[derive(Clone)]
pub(super) enum OpenedSignal {
    Postgres,
    Local(LocalSignal),
    #[cfg(feature = "redis")]
    Redis(RedisServer),
}

impl OpenedSignal {
    pub(super) fn open(name: SignalName, redis: Option<&Redis>) -> Result<Self, Failure> {
        match name {
            SignalName::Postgres => Ok(Self::Postgres),
            SignalName::Local => Ok(Self::Local(LocalSignal::default())),
            SignalName::Redis => over_redis(redis),
            SignalName::Rabbitmq => Err(super::no_rabbitmq("--signal")),
        }
    }

    /// Has the engine use it.
    pub(super) fn apply(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Postgres => builder,
            Self::Local(signal) => builder.signal(signal),
            #[cfg(feature = "redis")]
            Self::Redis(server) => builder.signal(RedisSignal::open(server, "")),
        }
    }
}

#[cfg(not(feature = "redis"))]
fn over_redis(_redis: Option<&Redis>) -> Result<OpenedSignal, Failure> {
    Err(super::redis::missing())
}

#[cfg(feature = "redis")]
fn over_redis(redis: Option<&Redis>) -> Result<OpenedSignal, Failure> {
    let Some(Redis(server)) = redis else {
        return Err(super::redis::missing());
    };
    Ok(OpenedSignal::Redis(server.clone()))
}
