//! The execution state of an instance, and its variables: read, and set between two bursts.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::Engine;
use super::alter::{Change, InstanceAtRest, alter, program, refuse_while_paused};
use super::instances::no_instance;
use crate::elsa_json;
use crate::execution::{InstanceState, Program, Status, VariableProblem, WorkflowVariable};
use crate::id::{InstanceId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::worker::effects::{status_number, status_word, sub_status_number, sub_status_word};
use crate::store::commit::Effects;
use crate::store::instance::{self, ExecutionStateRow};
use crate::{Error, Result};

/// How long a set waits until no burst of the instance runs.
const LOCK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The most variables of one set.
const MAX_VARIABLES: usize = 1_000;

/// Whether an instance still runs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceExecutionState {
    /// `Running` or `Finished`.
    pub status: String,
    /// `Pending`, `Executing`, `Suspended`, `Finished`, `Cancelled` or `Faulted`.
    pub sub_status: String,
    /// When it was last committed.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub updated_at: DateTime<Utc>,
}

/// A variable of the workflow in an instance.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceVariable {
    /// Its id in the definition.
    pub id: String,
    /// Its name in scripts.
    pub name: String,
    /// Its value.
    pub value: Value,
}

impl From<WorkflowVariable> for InstanceVariable {
    fn from(variable: WorkflowVariable) -> Self {
        Self {
            id: variable.id,
            name: variable.name,
            value: variable.value,
        }
    }
}

impl Engine {
    /// Reads whether an instance still runs, and when it was last committed; for clients that poll.
    pub async fn instance_execution_state(&self, id: &InstanceId) -> Result<InstanceExecutionState> {
        let node = self.node()?;
        let (pool, tenant) = (node.database.reads.by_key(), &self.tenant);
        // Twice: between the two reads a pending start may have been committed.
        for _ in 0..2 {
            if let Some(row) = instance::execution_state(pool, tenant, id).await? {
                return Ok(shown(&row));
            }
            if let Some(row) = instance::pending(pool, tenant, id).await? {
                return Ok(shown(&ExecutionStateRow {
                    status: row.status,
                    sub_status: row.sub_status,
                    updated_at: row.updated_at,
                }));
            }
        }
        Err(no_instance(id))
    }

    /// Lists the variables that the definition declares for the workflow, with the values of the last commit, or with their
    /// defaults for an instance that has not run yet.
    pub async fn instance_variables(&self, id: &InstanceId) -> Result<Vec<InstanceVariable>> {
        let node = self.node()?;
        let (pool, tenant) = (node.database.reads.by_key(), &self.tenant);
        for _ in 0..2 {
            if let Some((row, state, _)) = instance::find(pool, tenant, id).await? {
                let program = program(&node, tenant, &row.definition.version_id).await?;
                return Ok(listed(&InstanceState::from_bytes(&state)?, &program));
            }
            if let Some(row) = instance::pending(pool, tenant, id).await? {
                let program = program(&node, tenant, &row.definition.version_id).await?;
                return Ok(listed(&program.new_state(id), &program));
            }
        }
        Err(no_instance(id))
    }

    /// Sets variables of a waiting instance by their ids in the definition, and returns all of them. Nothing is set if the
    /// definition does not declare an id (`unknown-variable`), a value does not fit its type (`invalid-input`), a burst runs
    /// (`instance-busy`), or the instance has ended (`instance-finished`).
    pub async fn set_instance_variables(
        &self,
        id: &InstanceId,
        values: Vec<(String, Value)>,
    ) -> Result<Vec<InstanceVariable>> {
        let node = self.accepting()?;
        if values.len() > MAX_VARIABLES {
            let message = format!("at most {MAX_VARIABLES} variables are set at once");
            return Err(Error::invalid("invalid-field", message.clone()).field("variables", message));
        }
        for (_, value) in &values {
            self.checked("variables", value)?;
        }
        refuse_while_paused(&node).await?;
        let (owned, tenant, id) = (Arc::clone(&node), self.tenant.clone(), id.clone());
        // A task of its own: work that the lock kept from its burst is polled for even if the request is dropped.
        let setting = node
            .lifecycle
            .tasks
            .spawn(async move { set(&owned, &tenant, &id, &values).await });
        setting
            .await
            .map_err(|_| Error::internal("setting the variables failed"))?
    }
}

fn shown(row: &ExecutionStateRow) -> InstanceExecutionState {
    InstanceExecutionState {
        status: status_word(row.status).to_owned(),
        sub_status: sub_status_word(row.sub_status).to_owned(),
        updated_at: row.updated_at,
    }
}

fn listed(state: &InstanceState, program: &Program) -> Vec<InstanceVariable> {
    let variables = state.workflow_variables(program);
    variables.into_iter().map(InstanceVariable::from).collect()
}

async fn set(
    node: &NodeContext,
    tenant: &TenantId,
    id: &InstanceId,
    values: &[(String, Value)],
) -> Result<Vec<InstanceVariable>> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let (set, _) = alter(node, tenant, id, deadline, |loaded| changed(loaded, id, values)).await?;
    Ok(set)
}

fn changed(
    loaded: InstanceAtRest,
    id: &InstanceId,
    values: &[(String, Value)],
) -> Result<Change<Vec<InstanceVariable>>> {
    let InstanceAtRest {
        row,
        mut state,
        program,
    } = loaded;
    match state.set_workflow_variables(&program, values) {
        Ok(()) => {}
        Err(VariableProblem::Unknown(unknown)) => {
            let message = "the definition declares no such variables; nothing was set";
            let error = Error::invalid("unknown-variable", message);
            return Err(unknown.into_iter().fold(error, |error, id| {
                error.field("variables", format!("no variable has the id {id:?}"))
            }));
        }
        Err(VariableProblem::Mismatch(problems)) => {
            let error = Error::invalid("invalid-input", "values do not fit their variables; nothing was set");
            let fields = problems.into_iter();
            return Err(fields.fold(error, |error, (name, problem)| {
                error.field(format!("variables.{name}"), problem)
            }));
        }
    }
    if state.status() == Status::Finished {
        let message = "the instance has ended: its variables are its result, and do not change";
        return Err(Error::conflict("instance-finished", message).instance(id.as_str()));
    }
    let effects = Effects {
        status: status_number(state.status()),
        sub_status: sub_status_number(state.sub_status()),
        correlation_id: row.correlation_id,
        name: row.name,
        incident_count: row.incident_count,
        state: state.to_row()?,
        ..Effects::default()
    };
    Ok(Change::Commit(Box::new(effects), listed(&state, &program)))
}
