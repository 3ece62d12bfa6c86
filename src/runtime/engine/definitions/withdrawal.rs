//! Withdrawals: what a retract or a delete takes from a definition.

use serde_json::Value;

use super::{announce_change, not_found};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::engine::Engine;
use crate::store::definition::delete::{self, DeleteGuard};
use crate::store::definition::retract::{self, RetractOutcome};
use crate::store::definition::{self, VersionSelector};
use crate::{Error, Result};

impl Engine {
    /// Unpublishes the published version: nothing starts it any longer, because its triggers and schedules are deleted in
    /// the same transaction. Work accepted earlier still runs, and running instances continue. Returns the version.
    ///
    /// # Errors
    /// The code is `not-published` if no version is published; [`Error::is_not_found`] if the definition does not exist.
    /// Dropping the future may or may not retract it; retracting again is safe.
    pub async fn retract(&self, id: &DefinitionId) -> Result<Value> {
        let node = self.node()?;
        let (pool, class) = (&self.changes(&node), node.database.lock_class());
        match retract::retract(pool, class, &self.tenant, id, self.guards_readonly).await? {
            RetractOutcome::Retracted(row) => {
                announce_change(&node, &self.tenant, id);
                self.shown(row).await
            }
            RetractOutcome::NotPublished => Err(Error::invalid(
                "not-published",
                format!("no version of the workflow definition {:?} is published", id.as_str()),
            )),
            RetractOutcome::NotFound => Err(not_found(id)),
        }
    }

    /// Deletes a definition with all its versions, triggers and schedules, in one transaction; nothing starts it any longer.
    /// Its instances stay, and running ones continue: a version with instances can still be read by its own id, and is
    /// purged when they are deleted. Returns the number of versions.
    ///
    /// # Errors
    /// [`Error::is_not_found`] if the definition does not exist. Dropping the future may or may not delete it; deleting
    /// again is safe.
    pub async fn delete_definition(&self, id: &DefinitionId) -> Result<usize> {
        let node = self.node()?;
        let guard = self.delete_guard(DeleteGuard::ReadonlyOrSystem);
        let deleted = self.delete_versions(&node, id, None, guard).await?;
        if deleted == 0 {
            return Err(not_found(id));
        }
        Ok(deleted)
    }

    /// Deletes one version by its own id, as [`Engine::delete_definition`] does. If it was the newest one, the previous one
    /// becomes the newest; if it was published, no version is published any longer.
    pub async fn delete_definition_version(&self, id: &VersionId) -> Result<()> {
        let node = self.node()?;
        let missing = || {
            Error::not_found(
                "definition-not-found",
                format!("no workflow definition has the version id {:?}", id.as_str()),
            )
        };
        let definition = delete::definition_of(&node.database.pool, &self.tenant, id).await?;
        let definition = definition.ok_or_else(missing)?;
        // A read-only one, too: as in Elsa, and the way to get rid of it.
        let guard = self.delete_guard(DeleteGuard::System);
        match self.delete_versions(&node, &definition, Some(id), guard).await? {
            0 => Err(missing()),
            _ => Ok(()),
        }
    }

    /// Deletes one version by its number, as [`Engine::delete_definition_version`] does.
    ///
    /// # Errors
    /// [`Error::is_not_found`] if the definition has no such version.
    pub async fn delete_definition_number(&self, id: &DefinitionId, number: i32) -> Result<()> {
        let node = self.node()?;
        let missing = || Error::not_found("definition-not-found", "the workflow definition has no such version");
        let wanted = VersionSelector {
            definition_id: Some(id.clone()),
            version: Some(number),
            ..VersionSelector::default()
        };
        let found = definition::find(&node.database.pool, &self.tenant, &wanted).await?;
        let version = found.ok_or_else(missing)?.version_id;
        let guard = self.delete_guard(DeleteGuard::ReadonlyOrSystem);
        match self.delete_versions(&node, id, Some(&version), guard).await? {
            0 => Err(missing()),
            _ => Ok(()),
        }
    }

    /// What a client may not delete; a program may delete everything.
    fn delete_guard(&self, of_clients: DeleteGuard) -> DeleteGuard {
        if self.guards_readonly {
            of_clients
        } else {
            DeleteGuard::None
        }
    }

    async fn delete_versions(
        &self,
        node: &NodeContext,
        id: &DefinitionId,
        only: Option<&VersionId>,
        guard: DeleteGuard,
    ) -> Result<usize> {
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        let deleted = delete::delete(pool, node.database.lock_class(), tenant, id, only, guard).await?;
        if !deleted.is_empty() {
            announce_change(node, tenant, id);
            if let Err(error) = delete::purge(pool, tenant, &deleted).await {
                tracing::debug!(workflow = id.as_str(), %error, "deleted versions are purged later, by a cluster job");
            }
        }
        Ok(deleted.len())
    }
}
