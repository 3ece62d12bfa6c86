//! Opens what carries the cache notifications.

use crate::cli::settings::SignalName;
use crate::harness::failure::Failure;
use crate::runtime::EngineBuilder;
use crate::signal::LocalSignal;

/// An opened signal. Clones share it.
#[derive(Clone)]
pub(super) enum OpenedSignal {
    Postgres,
    Local(LocalSignal),
}

impl OpenedSignal {
    pub(super) fn open(name: SignalName) -> Result<Self, Failure> {
        match name {
            SignalName::Postgres => Ok(Self::Postgres),
            SignalName::Local => Ok(Self::Local(LocalSignal::default())),
            SignalName::Redis => Err(Failure::usage(
                "--signal redis: this version has no cache notifications over Redis; leave --signal out",
            )),
            SignalName::Rabbitmq => Err(super::no_rabbitmq("--signal")),
        }
    }

    /// Has the engine use it.
    pub(super) fn apply(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Postgres => builder,
            Self::Local(signal) => builder.signal(signal),
        }
    }
}
