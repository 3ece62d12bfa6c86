//! Reverts to an earlier version.

use super::{new_definition, not_found};
use crate::definition::WorkflowDefinition;
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::request::{Published, VersionOptions};
use crate::runtime::engine::Engine;
use crate::{Result, compute};

impl Engine {
    /// Makes a new draft with the content of an earlier version; a draft that is the newest version so far stays as it is.
    /// If the newest version is published and equal, nothing is written, and it is returned.
    ///
    /// No such version: [`crate::Error::is_not_found`]. Dropping the future makes the draft or not.
    pub async fn revert(&self, id: &DefinitionId, version: i32) -> Result<Published> {
        let read = self.definition_now(id, VersionOptions::Specific(version)).await;
        let read = read.map_err(|error| if error.is_not_found() { not_found(id) } else { error })?;
        let node = self.node()?;
        let (tenant, interpreter) = (self.inner.tenant.clone(), self.inner.interpreter.clone());
        let preparing = compute::run(compute::is_large(&read), move || {
            let mut definition = WorkflowDefinition::from_value(read)?;
            definition.id = VersionId::default();
            definition.version = 0;
            new_definition(tenant, &interpreter, definition)
        });
        let mut new = preparing.await??;
        new.adds_version = true;
        self.save_new(&node, new).await
    }
}
