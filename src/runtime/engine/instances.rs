//! Reads of instances.

use serde_json::{Value, json};

use super::Engine;
use crate::definition::WorkflowDefinition;
use crate::execution::{InstanceState, InstanceTimestamps};
use crate::id::InstanceId;
use crate::runtime::context::instance_list::{InstanceDetail, InstanceSummary};
use crate::runtime::worker::effects::{status_word, sub_status_word};
use crate::store::instance::{self, InstanceRow};
use crate::{Error, Result};

pub(crate) fn no_instance(id: &InstanceId) -> Error {
    Error::not_found(
        "instance-not-found",
        format!("no workflow instance has the id {:?}", id.as_str()),
    )
}

impl Engine {
    /// Reads an instance with its state. An accepted instance that has not run yet is `Pending`.
    pub async fn instance(&self, id: &InstanceId) -> Result<InstanceDetail> {
        let node = self.node()?;
        let tenant = &self.inner.tenant;
        // Twice: between the two reads a pending start may have been committed.
        for _ in 0..2 {
            if let Some((row, state, _)) = instance::find(node.database.reads.by_key(), tenant, id).await? {
                let state = InstanceState::from_bytes(&state)?;
                let meta = InstanceTimestamps {
                    created_at: row.created_at,
                    updated_at: row.updated_at,
                    finished_at: row.finished_at,
                };
                return Ok(InstanceDetail {
                    workflow_state: state.workflow_state(meta),
                    summary: summary(row),
                });
            }
            if let Some(row) = instance::pending(node.database.reads.by_key(), tenant, id).await? {
                return Ok(pending(row));
            }
        }
        Err(no_instance(id))
    }

    /// Everything that prevents a definition from being published; empty if it can be published.
    pub fn validate(&self, definition: &WorkflowDefinition) -> Vec<crate::definition::ValidationError> {
        self.inner.interpreter.validate(definition)
    }
}

pub(super) fn summary(row: InstanceRow) -> InstanceSummary {
    InstanceSummary {
        id: row.id,
        definition_id: row.definition.definition_id,
        definition_version_id: row.definition.version_id,
        version: row.definition.version,
        status: status_word(row.status).to_owned(),
        sub_status: sub_status_word(row.sub_status).to_owned(),
        parent_workflow_instance_id: row.parent,
        correlation_id: row.correlation_id,
        name: row.name,
        incident_count: row.incident_count,
        created_at: row.created_at,
        updated_at: row.updated_at,
        finished_at: row.finished_at,
    }
}

fn pending(row: InstanceRow) -> InstanceDetail {
    let summary = summary(row);
    let workflow_state: Value = json!({
        "id": summary.id,
        "definitionId": summary.definition_id,
        "definitionVersionId": summary.definition_version_id,
        "definitionVersion": summary.version,
        "parentWorkflowInstanceId": summary.parent_workflow_instance_id,
        "correlationId": summary.correlation_id,
        "name": summary.name,
        "status": summary.status,
        "subStatus": summary.sub_status,
        "bookmarks": [],
        "incidents": [],
        "createdAt": summary.created_at,
        "updatedAt": summary.updated_at,
    });
    InstanceDetail {
        summary,
        workflow_state,
    }
}
