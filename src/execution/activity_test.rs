//! Tests of single activities: the interface of [`Interpreter`] for them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::bounds;
use super::interpreter::Interpreter;
use super::journal::{ActivityExecution, Recorder};
use super::node_id::WORKFLOW_ID;
use super::program::Program;
use super::request::OpenRequest;
use super::run::{BurstLinks, BurstRun};
use super::scope;
use super::state::InstanceState;
use super::workflow_options::JournalLevel;
use crate::activity::AllPublished;
use crate::definition::{Variable, WorkflowDefinition};
use crate::id::{ActivityExecutionId, ActivityId, InstanceId};
use crate::{Error, Result};

/// The property of a definition with Elsa's values of variables for tests, by the id of the variable.
const TEST_VALUES: &str = "VariableTestValues";

/// Names an activity of a definition.
#[derive(Clone, Debug, PartialEq)]
pub enum ActivityHandle {
    /// By its id; the first one, if several have it.
    Id(ActivityId),
    /// By its node id.
    NodeId(String),
}

/// The values that the variables of a workflow have in a test of one of its activities, by name.
pub(crate) fn test_values(definition: &WorkflowDefinition) -> Map<String, Value> {
    let mut properties = definition.custom_properties.iter();
    let given = properties.find(|(name, _)| name.eq_ignore_ascii_case(TEST_VALUES));
    let given = given.and_then(|(_, values)| values.as_object());
    let declared = definition.declared_variables();
    let mut by_id: HashMap<&str, &Variable> = HashMap::new();
    for variable in &declared {
        by_id.entry(&variable.id).or_insert(variable);
    }
    let values = given.into_iter().flatten().filter_map(|(id, value)| {
        let variable = *by_id.get(id.as_str())?;
        Some((variable.name.clone(), scope::convert(value.clone(), Some(variable))))
    });
    values.collect()
}

impl Program {
    /// The node id of an activity.
    pub(crate) fn node_id_of(&self, activity: &ActivityHandle) -> Option<&str> {
        let node = match activity {
            ActivityHandle::NodeId(node_id) => self.tree.find(node_id),
            ActivityHandle::Id(id) => self.tree.iter().find(|node| node.id == id.as_str()),
        };
        // The workflow itself is no activity of it.
        node.filter(|node| node.node_id != WORKFLOW_ID)
            .map(|node| node.node_id.as_str())
    }
}

impl Interpreter {
    /// Runs one activity and what it contains alone, in an instance that exists only for it. The activity has its
    /// configured inputs and these values of variables; all other variables have their defaults. An answer is written,
    /// and no client receives it. An activity that waits stays `Running`, and nothing resumes its bookmarks. The bounds of a
    /// burst apply, and the timeout of the activity limits the whole test.
    ///
    /// # Errors
    /// `scripts-busy` when no slot for a script was free.
    ///
    /// Cancellation safe.
    pub(crate) async fn test_activity(
        &self,
        program: &Arc<Program>,
        node_id: &str,
        variables: Map<String, Value>,
        now: DateTime<Utc>,
    ) -> Result<ActivityExecution> {
        let mut state = InstanceState::new(
            InstanceId::random(),
            program.definition_id.clone(),
            program.version_id.clone(),
            program.version,
        );
        state.input = program.complete_input(Map::new()).unwrap_or_default();
        // A response can be tried without a client: no client receives it.
        state.requests.push(OpenRequest::of_test());
        let mut run = BurstRun {
            program,
            options: self.options(),
            // A pause of the cluster does not end it half-way.
            stops: &AtomicBool::new(false),
            session: self.script_session(),
            state,
            definitions: &AllPublished,
            attempt: 1,
            is_followed: false,
            child_seed: 0,
            cause: None,
            set_off: (0, 0),
            // They are not started.
            children: Vec::new(),
            awaited: Vec::new(),
            stop: None,
            began_at: now,
            notifications: VecDeque::new(),
            ended: None,
            recorder: Recorder::new(JournalLevel::Full),
            executed: 0,
            is_dirty: false,
            commits_now: false,
            yielded: false,
            has_cancel: false,
            events: Vec::new(),
            links: BurstLinks::default(),
            ended_requests: Vec::new(),
            files: Vec::new(),
            trace: None,
            call_span: None,
        };
        let time_limit = program.tree.find(node_id).map(|node| {
            let descriptor = program.descriptor(node.index);
            bounds::activity_timeout(node, descriptor, run.options.activity_timeout)
        });
        let time_limit = time_limit.unwrap_or(run.options.activity_timeout);
        let number = run.run_alone(node_id, variables, time_limit).await;
        if run.session.deferral().is_some() {
            let message = "no slot for scripts is free now; try again later";
            return Err(Error::unavailable("scripts-busy", message));
        }
        let BurstRun { recorder, state, .. } = run;
        let id = ActivityExecutionId::of(state.instance_id.as_str(), number);
        let (_, executions) = recorder.finish(program, &state);
        let found = executions.into_iter().find(|execution| execution.id == id);
        found.ok_or_else(|| Error::internal("the activity of a test was not executed"))
    }
}
