//! Opens the provider that carries cache notifications.

use super::rabbitmq::{self, Rabbit};
use super::redis::Redis;
use crate::cli::settings::SignalName;
use crate::harness::failure::Failure;
use crate::runtime::EngineBuilder;
use crate::signal::LocalSignal;
#[cfg(feature = "rabbitmq")]
use crate::signal::RabbitSignal;
#[cfg(feature = "redis")]
use crate::{redis_server::RedisServer, signal::RedisSignal};

/// An opened signal. Clones share it.
#[derive(Clone)]
pub(super) enum OpenedSignal {
    Postgres,
    Local(LocalSignal),
    #[cfg(feature = "redis")]
    Redis(RedisServer),
    #[cfg(feature = "rabbitmq")]
    Rabbitmq(RabbitSignal),
}

impl OpenedSignal {
    pub(super) fn open(name: SignalName, redis: Option<&Redis>, rabbit: Option<&Rabbit>) -> Result<Self, Failure> {
        match (name, rabbit) {
            (SignalName::Postgres, _) => Ok(Self::Postgres),
            (SignalName::Local, _) => Ok(Self::Local(LocalSignal::default())),
            (SignalName::Redis, _) => over_redis(redis),
            #[cfg(feature = "rabbitmq")]
            (SignalName::Rabbitmq, Some(rabbit)) => {
                let signal = RabbitSignal::open(rabbit.server.clone(), &rabbit.prefix)?;
                Ok(Self::Rabbitmq(signal))
            }
            (SignalName::Rabbitmq, _) => Err(rabbitmq::missing()),
        }
    }

    /// Has the engine use it.
    pub(super) fn apply(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Postgres => builder,
            Self::Local(signal) => builder.signal(signal),
            #[cfg(feature = "redis")]
            Self::Redis(server) => builder.signal(RedisSignal::open(server, "")),
            #[cfg(feature = "rabbitmq")]
            Self::Rabbitmq(signal) => builder.signal(signal),
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
