//! Tests of single activities; nothing is stored.

use std::sync::Arc;

use chrono::Utc;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::SemaphorePermit;

use super::Engine;
use crate::definition::WorkflowDefinition;
use crate::execution::{ActivityHandle, test_values};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::request::VersionOptions;
use crate::store::pause::{self, PauseMode};
use crate::{Error, Result, compute};

/// Tests of activities and expressions at the same time on one node: each has a definition and scripts.
pub(super) const MOST_TESTS: usize = 16;

/// Names a version of a definition.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionHandle {
    /// By its own id.
    Version(VersionId),
    /// By the definition.
    Definition(DefinitionId, VersionOptions),
}

/// What one activity did in a test.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityTested {
    /// Evaluated inputs by name, in Pascal case (`Text`).
    pub activity_state: Value,
    /// Outputs by name, in Pascal case.
    pub outputs: Value,
    /// The outcomes, once it completed: `{Outcomes}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// The exception of its fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<Value>,
    /// `Running` if it waits or was stopped at a bound of a burst; `Completed`, `Canceled`, `Faulted`.
    pub status: &'static str,
}

impl Engine {
    /// A place among the tests that run at once.
    pub(super) fn test_permit(&self) -> Result<SemaphorePermit<'_>> {
        self.inner.tests.try_acquire().map_err(|_| {
            let message = format!("this node already runs {MOST_TESTS} tests of activities and expressions; try again");
            Error::unavailable("too-many-requests", message)
        })
    }

    /// Runs one activity of a version, and what it contains, in memory: no instance is written, and nothing waits. Inputs
    /// are evaluated as configured; variables of the workflow have Elsa's test values (`VariableTestValues` of the custom
    /// properties), or their defaults. External effects of the activity are real.
    ///
    /// # Errors
    /// [`Error::is_not_found`] if the version or the activity does not exist. Dropping the future ends the test.
    pub async fn test_activity(&self, of: &DefinitionHandle, activity: &ActivityHandle) -> Result<ActivityTested> {
        let node = self.accepting()?;
        // The row, as this node may not know yet.
        if pause::read(&node.database.pool).await?.pause.mode != PauseMode::Running {
            let message = "the cluster is paused: no activity runs until it is resumed";
            return Err(Error::unavailable("runtime-paused", message));
        }
        let _permit = self.test_permit()?;
        let body = match of {
            DefinitionHandle::Version(id) => self.definition_version(id).await?,
            DefinitionHandle::Definition(id, which) => self.definition(id, *which).await?,
        };
        let interpreter = self.inner.interpreter.clone();
        let is_large = compute::is_large(&body);
        let definition = WorkflowDefinition::from_stored(body)?;
        let composition = self.used_by(&node, &definition).await?;
        let compiling = compute::run(is_large, move || {
            let program = interpreter.compile_composed(&definition, &composition)?;
            Ok::<_, Error>((program, test_values(&definition)))
        });
        let (program, variables) = compiling.await??;
        let program = Arc::new(program);
        let node_id = program.node_id_of(activity).ok_or_else(|| {
            let message = "the version has no such activity";
            Error::not_found("activity-not-found", message)
        })?;
        let interpreter = &self.inner.interpreter;
        let done = interpreter
            .test_activity(&program, node_id, variables, Utc::now())
            .await?;
        Ok(ActivityTested {
            activity_state: done.activity_state,
            outputs: done.outputs,
            payload: done.payload,
            exception: done.exception,
            status: done.status,
        })
    }
}
