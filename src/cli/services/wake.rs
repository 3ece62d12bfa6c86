//! Opens what carries the wake notifications.

use crate::cli::settings::WakeName;
use crate::harness::failure::Failure;
use crate::runtime::EngineBuilder;
use crate::wake::LocalWake;

/// An opened transport. Clones share it.
#[derive(Clone)]
pub(super) enum OpenedWake {
    Postgres,
    Local(LocalWake),
}

impl OpenedWake {
    pub(super) fn open(name: WakeName) -> Result<Self, Failure> {
        match name {
            WakeName::Postgres => Ok(Self::Postgres),
            WakeName::Local => Ok(Self::Local(LocalWake::default())),
            WakeName::Rabbitmq => Err(super::no_rabbitmq("--wake")),
        }
    }

    /// Has the engine use it.
    pub(super) fn apply(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Postgres => builder,
            Self::Local(transport) => builder.wake(transport.member()),
        }
    }
}
