//! What nodes hear of changes.

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::id::{DefinitionId, TenantId};

/// The published version of a definition, or what is shown of it, has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What the change made of the revision, if whoever announces it knows.
    pub revision: Option<i64>,
    /// Whose definition it is.
    pub tenant: TenantId,
    /// The definition.
    pub definition: DefinitionId,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// This has changed.
    Changed(Change),
    /// Anything may have changed.
    Unsure,
}

/// Signals as they come in.
pub struct Signals(broadcast::Receiver<Heard>);

impl Signals {
    pub(super) fn new(receiver: broadcast::Receiver<Heard>) -> Self {
        Self(receiver)
    }

    /// The next one; none when the provider has ended. Whoever is too slow for its queue hears [`Heard::Unsure`] in
    /// place of what was dropped. Cancellation safe.
    pub async fn recv(&mut self) -> Option<Heard> {
        match self.0.recv().await {
            Ok(heard) => Some(heard),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Heard::Unsure),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
