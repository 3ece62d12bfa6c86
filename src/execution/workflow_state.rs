//! Elsa's `workflowState`: the state of an instance as its API shows it.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::concealed::conceal;
use super::state::{Context, InstanceState};
use crate::elsa_json::{timestamp_text, without_nulls};
use crate::id::ActivityExecutionId;

/// The times of an instance, which the database keeps outside its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceTimestamps {
    /// When the instance was first committed.
    pub created_at: DateTime<Utc>,
    /// When it was last committed.
    pub updated_at: DateTime<Utc>,
    /// When it finished.
    pub finished_at: Option<DateTime<Utc>>,
}

impl InstanceState {
    /// The state as Elsa's API shows it, between two bursts. Whether its version is the system's, a state does not know.
    pub fn workflow_state(&self, meta: InstanceTimestamps) -> Value {
        let time = |at: DateTime<Utc>| Value::String(timestamp_text(at));
        let holds_secret = self.holds_secret();
        let is_shown = |id: &ActivityExecutionId| {
            let number = self.contexts.iter().find(|(_, context)| context.id == *id);
            number.is_none_or(|(number, _)| self.secret_behind(*number).is_none())
        };
        let bookmarks = self.bookmarks.iter().map(|bookmark| {
            let is_shown = !holds_secret || is_shown(&bookmark.activity_execution_id);
            without_nulls(json!({
                "id": bookmark.id,
                "name": bookmark.name,
                "hash": bookmark.hash,
                "payload": is_shown.then_some(&bookmark.payload),
                "activityId": bookmark.activity_id,
                "activityNodeId": bookmark.node_id,
                "activityInstanceId": bookmark.activity_execution_id,
                "createdAt": time(meta.updated_at),
                "autoBurn": bookmark.auto_burn,
                "autoComplete": true,
            }))
        });
        let incidents = self.incidents.iter().map(|incident| {
            without_nulls(json!({
                "activityId": incident.activity_id,
                "activityNodeId": incident.activity_node_id,
                "activityType": incident.activity_type,
                "activityInstanceId": incident.activity_instance_id,
                "message": incident.message,
                "exception": incident.exception,
                "timestamp": time(meta.finished_at.unwrap_or(meta.updated_at)),
            }))
        });
        let mut properties = Map::new();
        properties.insert("Variables".to_owned(), Value::Object(self.variables()));
        if !self.outcomes.is_empty() {
            properties.insert("Outcomes".to_owned(), self.outcomes.clone().into());
        }
        without_nulls(json!({
            "id": self.instance_id,
            "definitionId": self.definition_id,
            "definitionVersionId": self.version_id,
            "definitionVersion": self.version,
            "parentWorkflowInstanceId": self.parent.as_ref().map(|parent| &parent.instance_id),
            "correlationId": self.correlation_id,
            "name": self.name,
            "status": self.status,
            "subStatus": self.sub_status,
            "isExecuting": false,
            "bookmarks": bookmarks.collect::<Vec<_>>(),
            "incidents": incidents.collect::<Vec<_>>(),
            "completionCallbacks": [],
            "activityExecutionContexts": self.contexts.iter().rev().map(|(number, context)| self.context_state(*number, context)).collect::<Vec<_>>(),
            "scheduledActivities": self.queue.iter().map(|item| without_nulls(json!({
                "activityNodeId": item.node_id,
                "ownerContextId": item.owner.and_then(|owner| self.contexts.get(&owner)).map(|owner| &owner.id),
                "existingActivityExecutionContextId": item.context.and_then(|number| self.contexts.get(&number)).map(|context| &context.id),
                "input": item.input,
            }))).collect::<Vec<_>>(),
            "executionLogSequence": self.sequence,
            "input": self.input,
            "output": self.output,
            "properties": properties,
            "createdAt": time(meta.created_at),
            "updatedAt": time(meta.updated_at),
            "finishedAt": meta.finished_at.map(time),
        }))
    }

    /// Like the journal, this leaves out what may be derived from a secret.
    fn context_state(&self, number: u64, context: &Context) -> Value {
        let parent = context.parent.and_then(|parent| self.contexts.get(&parent));
        let is_below_secret = self.is_below_secret(number);
        let holds_secret = is_below_secret || !context.unrecorded.is_empty();
        let mut inputs = context.inputs.clone();
        let mut properties = Cow::Borrowed(&context.properties);
        if holds_secret {
            inputs.retain(|name, _| !is_below_secret && !context.unrecorded.contains(name));
            properties.to_mut().clear();
        }
        conceal(&mut inputs, None);
        let variables = context.variables.iter().filter(|_| !holds_secret);
        without_nulls(json!({
            "id": context.id,
            "parentContextId": parent.map(|parent| &parent.id),
            "scheduledActivityNodeId": context.node_id,
            "ownerActivityNodeId": parent.map(|parent| &parent.node_id),
            "properties": properties,
            "metadata": {},
            "activityState": inputs,
            "dynamicVariables": variables.map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>(),
            "status": context.status.as_str(),
            "isExecuting": false,
            "faultCount": context.faults,
            "tag": context.tag,
        }))
    }
}
