//! Reads of instances.

use serde_json::{Value, json};

use super::Engine;
use crate::definition::WorkflowDefinition;
use crate::elsa_json::{timestamp_text, without_nulls};
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
    /// Reads an instance with its state. An accepted instance that has not run yet is `Pending`. The executions in the state
    /// have times if the history is short, and can be read at once.
    pub async fn instance(&self, id: &InstanceId) -> Result<InstanceDetail> {
        let mut detail = self.instance_by_key(id).await?;
        self.add_times(id, &mut detail.workflow_state).await;
        Ok(detail)
    }

    /// The same without what the history says: no list delays it, so callers that wait for an instance read it so.
    pub(super) async fn instance_by_key(&self, id: &InstanceId) -> Result<InstanceDetail> {
        let node = self.node()?;
        let shown = instance::show(node.database.reads.by_key(), &self.tenant, id).await?;
        let shown = shown.ok_or_else(|| no_instance(id))?;
        let (is_executing, is_system) = (shown.is_executing, shown.is_system);
        let mut workflow_state = match shown.state {
            None => pending_state(&shown.row),
            Some(state) => InstanceState::from_bytes(&state)?.workflow_state(InstanceTimestamps {
                created_at: shown.row.created_at,
                updated_at: shown.row.updated_at,
                finished_at: shown.row.finished_at,
            }),
        };
        // What a node does now, and what the definition says, no state says.
        if let Some(fields) = workflow_state.as_object_mut() {
            fields.insert("isExecuting".to_owned(), is_executing.into());
            fields.insert("isSystem".to_owned(), is_system.into());
        }
        Ok(InstanceDetail {
            summary: summary(shown.row),
            is_executing,
            is_system,
            workflow_state,
        })
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

fn pending_state(row: &InstanceRow) -> Value {
    without_nulls(json!({
        "id": row.id,
        "definitionId": row.definition.definition_id,
        "definitionVersionId": row.definition.version_id,
        "definitionVersion": row.definition.version,
        "parentWorkflowInstanceId": row.parent,
        "correlationId": row.correlation_id,
        "name": row.name,
        "status": status_word(row.status),
        "subStatus": sub_status_word(row.sub_status),
        "bookmarks": [],
        "incidents": [],
        "createdAt": timestamp_text(row.created_at),
        "updatedAt": timestamp_text(row.updated_at),
    }))
}
