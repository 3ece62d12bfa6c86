//! What the history says of the executions that the state of an instance shows: a state depends on no clock, and knows no times.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use super::origin::Origins;
use crate::Result;
use crate::elsa_json::timestamp_text;
use crate::id::{ActivityExecutionId, InstanceId};
use crate::runtime::engine::Engine;
use crate::store::record::execution::{self, Detail, ExecutionQuery, Selection};

/// The longest that the read of a state waits for the history.
const TIMEOUT: Duration = Duration::from_millis(200);

impl Engine {
    /// Adds `startedAt`, `completedAt` and `callStackDepth` to the executions of a `workflowState`. Of a history that is not
    /// read at once, also because lists are busy, nothing is added: clients poll the state, and read the executions
    /// themselves for more.
    pub(in crate::runtime::engine) async fn add_times(&self, id: &InstanceId, workflow_state: &mut Value) {
        match tokio::time::timeout(TIMEOUT, self.read_times(id, workflow_state)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the state of an instance is shown without times"),
            Err(_) => tracing::debug!("the state of an instance is shown without times: the history took too long"),
        }
    }

    async fn read_times(&self, id: &InstanceId, workflow_state: &mut Value) -> Result<()> {
        let contexts = workflow_state.get_mut("activityExecutionContexts");
        let Some(contexts) = contexts.and_then(Value::as_array_mut).filter(|all| !all.is_empty()) else {
            return Ok(());
        };
        let numbers: HashSet<u64> = contexts.iter().filter_map(number).collect();
        let query = ExecutionQuery {
            newest: numbers.len().max(1),
            selection: Selection::Numbers(numbers),
            detail: Detail::Links,
        };
        let node = self.node()?;
        let reading = execution::read_short(node.database.reads.lists(), &self.tenant, id, query);
        let Some(found) = reading.await? else {
            return Ok(());
        };
        let origins = Origins::new(id, &found.links, None);
        for context in contexts {
            let Some(number) = number(context) else { continue };
            let is_running = context.get("status").and_then(Value::as_str) == Some("Running");
            let (Some(fields), Some(row)) = (context.as_object_mut(), found.rows.get(&number)) else {
                continue;
            };
            fields.insert("startedAt".to_owned(), timestamp_text(row.started_at).into());
            // The history may be newer than the state.
            if let Some(at) = row.completed_at.filter(|_| !is_running) {
                fields.insert("completedAt".to_owned(), timestamp_text(at).into());
            }
            if let Some(depth) = origins.of(number).depth {
                fields.insert("callStackDepth".to_owned(), depth.into());
            }
        }
        Ok(())
    }
}

fn number(context: &Value) -> Option<u64> {
    let id = context.get("id").and_then(Value::as_str)?;
    ActivityExecutionId::new(id).parts().map(|(_, number)| number)
}
