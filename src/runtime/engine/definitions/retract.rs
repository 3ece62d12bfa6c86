//! Retracts.

use serde_json::Value;

use super::{announce_change, not_found};
use crate::id::DefinitionId;
use crate::runtime::engine::Engine;
use crate::store::definition::retract::{self, RetractOutcome};
use crate::{Error, Result};

impl Engine {
    /// Unpublishes the published version: nothing starts it any more, as its triggers and schedules are deleted in the same
    /// transaction. What was accepted before runs, and running instances go on. Returns the version.
    ///
    /// No version is published: code `not-published`. No such definition: [`Error::is_not_found`]. Dropping the future
    /// retracts it or not; retracting again is safe.
    pub async fn retract(&self, id: &DefinitionId) -> Result<Value> {
        let node = self.node()?;
        let (pool, class) = (&node.database.pool, node.database.lock_class());
        match retract::retract(pool, class, &self.inner.tenant, id).await? {
            RetractOutcome::Retracted(row) => {
                announce_change(&node, &self.inner.tenant, id);
                self.shown(row).await
            }
            RetractOutcome::NotPublished => Err(Error::invalid(
                "not-published",
                format!("no version of the workflow definition {:?} is published", id.as_str()),
            )),
            RetractOutcome::NotFound => Err(not_found(id)),
        }
    }
}
