//! Versions of a definition: the version that a start names, and reverts to an earlier one.

use serde_json::Value;

use super::{compiled, model, new_definition, not_found, wanted};
use crate::definition::WorkflowDefinition;
use crate::execution::Composition;
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{Published, VersionOptions};
use crate::runtime::engine::Engine;
use crate::store::definition::{self, VersionSelector, draft};
use crate::{Error, Result, compute};

impl Engine {
    /// The id of the version that a start runs; `None` means the one that is published when the start is accepted. A draft
    /// is marked as started before, so that what the instance runs on never changes.
    pub(in crate::runtime::engine) async fn version_to_start(
        &self,
        node: &NodeContext,
        id: &DefinitionId,
        which: Option<VersionOptions>,
    ) -> Result<Option<VersionId>> {
        let which = match which {
            None | Some(VersionOptions::Published) => return Ok(None),
            Some(VersionOptions::All) => {
                let message = "a start names one version, not all of them";
                return Err(Error::invalid("version-not-startable", message).field("versionOptions", message));
            }
            Some(which) => which,
        };
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        let found = draft::startable(pool, tenant, id, &wanted(which)).await?;
        let found = found.ok_or_else(|| not_found(id))?;
        if found.is_published && !matches!(which, VersionOptions::Specific(_)) {
            return Ok(None);
        }
        if found.may_change {
            let by_id = VersionSelector {
                version_id: Some(found.version_id.clone()),
                ..VersionSelector::default()
            };
            let row = definition::find(pool, tenant, &by_id)
                .await?
                .ok_or_else(|| not_found(id))?;
            let interpreter = self.inner.interpreter.clone();
            if !interpreter.references(&model(&row)?).is_empty() {
                self.freeze_composed_draft(node, &found.version_id).await?;
                return Ok(Some(found.version_id));
            }
            let checking = compute::check(compute::is_large(&row.body), move || {
                compiled(&interpreter, &model(&row)?, &Composition::default()).map(drop)
            });
            checking.await??;
            draft::mark_started(pool, node.database.lock_class(), tenant, id, &found.version_id).await?;
        }
        Ok(Some(found.version_id))
    }

    /// Makes a new draft with the content of an earlier version; a draft that is currently the newest version stays as it
    /// is. If the newest version is published and equal, nothing is written, and that version is returned.
    ///
    /// # Errors
    /// [`Error::is_not_found`] if the version does not exist. Dropping the future may or may not create the draft.
    pub async fn revert(&self, id: &DefinitionId, version: i32) -> Result<Published> {
        let read = self.definition_now(id, VersionOptions::Specific(version)).await;
        let read = read.map_err(|error| if error.is_not_found() { not_found(id) } else { error })?;
        if self.guards_readonly {
            let is_set = |name: &str| read.get(name).and_then(Value::as_bool).unwrap_or(false);
            definition::refuse_readonly(id, is_set("isReadonly"), is_set("isSystem"))?;
        }
        let node = self.node()?;
        let (tenant, interpreter) = (self.tenant.clone(), self.inner.interpreter.clone());
        let preparing = compute::run(compute::is_large(&read), move || {
            let mut definition = WorkflowDefinition::from_stored(read)?;
            definition.id = VersionId::default();
            definition.version = 0;
            new_definition(tenant, &interpreter, definition)
        });
        let mut new = preparing.await??;
        new.adds_version = true;
        self.save_new(&node, new).await
    }
}
