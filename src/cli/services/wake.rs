//! Opens the provider that carries wake notifications.

use super::rabbitmq::{self, Rabbit};
use crate::cli::settings::WakeName;
use crate::harness::failure::Failure;
use crate::runtime::EngineBuilder;
use crate::wake::LocalWake;
#[cfg(feature = "rabbitmq")]
use crate::wake::RabbitWake;

/// An opened transport. Clones share it.
#[derive(Clone)]
pub(super) enum OpenedWake {
    Postgres,
    Local(LocalWake),
    #[cfg(feature = "rabbitmq")]
    Rabbitmq(RabbitWake),
}

impl OpenedWake {
    pub(super) fn open(name: WakeName, rabbit: Option<&Rabbit>) -> Result<Self, Failure> {
        match (name, rabbit) {
            (WakeName::Postgres, _) => Ok(Self::Postgres),
            (WakeName::Local, _) => Ok(Self::Local(LocalWake::default())),
            #[cfg(feature = "rabbitmq")]
            (WakeName::Rabbitmq, Some(rabbit)) => {
                let wake = RabbitWake::open(rabbit.server.clone(), &rabbit.prefix)?;
                Ok(Self::Rabbitmq(wake))
            }
            (WakeName::Rabbitmq, _) => Err(rabbitmq::missing()),
        }
    }

    /// Has the engine use it.
    pub(super) fn apply(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Postgres => builder,
            Self::Local(transport) => builder.wake(transport.member()),
            #[cfg(feature = "rabbitmq")]
            Self::Rabbitmq(transport) => builder.wake(transport),
        }
    }
}
