//! What an activity sees of its instance, and what it may ask for.
//!
//! An activity never touches state. It reads a snapshot and leaves *commands* ([`ActivityCommands`]); the interpreter carries them
//! out after the activity has returned, in a fixed order, or drops them all if it failed. So an activity that panics,
//! errs or is dropped in the middle of its I/O leaves the instance as it was.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::console::Console;
use super::fault::Fault;
use super::node::{ActivityNode, NodeIndex, Tree};
use crate::id::{ActivityExecutionId, InstanceId};

/// What a lazily evaluated input gave, and what its script asked for.
#[derive(Debug, Default)]
pub(crate) struct Evaluated {
    pub(crate) value: Value,
    pub(crate) changes: ScriptChanges,
}

/// What a script asked for besides returning a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptChanges {
    pub(crate) variables: Vec<(String, Value)>,
    pub(crate) correlation_id: Option<Option<String>>,
    pub(crate) name: Option<Option<String>>,
}

pub(crate) type EvaluationFuture<'a> = Pin<Box<dyn Future<Output = Result<Evaluated, Fault>> + Send + 'a>>;

/// The interpreter, as far as a running activity needs it.
pub(crate) trait InputEvaluator: Sync {
    fn evaluate<'a>(&'a self, node: &'a ActivityNode, input: &'a str) -> EvaluationFuture<'a>;
}

/// How far a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStatus {
    /// It waits for its turn.
    Scheduled,
    /// It has begun.
    Running,
    /// It has failed.
    Faulted,
}

/// A child of the activity that is not done.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// Which one.
    pub index: NodeIndex,
    /// How far it is.
    pub status: ChildStatus,
}

/// A child that has completed or was cancelled.
#[derive(Clone, Debug)]
pub struct EndedChild {
    /// Which one.
    pub index: NodeIndex,
    /// With what outcomes it completed.
    pub outcomes: Vec<String>,
    /// What was given along when it was scheduled.
    pub tag: Option<Value>,
}

/// What woke an activity that waited.
#[derive(Clone, Debug, Default)]
pub struct Resumption {
    /// The payload of the stimulus, such as that of an event.
    pub payload: Option<Value>,
    /// What the one who resumed it gave along.
    pub input: Map<String, Value>,
}

/// A point at which an activity waits.
#[derive(Clone, Debug)]
pub struct BookmarkRequest {
    /// The name of the stimulus; the activity's type unless another is given.
    pub name: Option<String>,
    /// What a stimulus must carry to match.
    pub payload: Value,
    /// A stimulus of the same name and payload published by anybody wakes it.
    pub publishable: bool,
    /// Wakes by itself after that time, counted from the commit.
    pub delay: Option<Duration>,
    /// Wakes by itself at that time, by the clock of [`ActivityContext::now`].
    pub due: Option<DateTime<Utc>>,
    /// Gone once used. Default: true.
    pub auto_burn: bool,
}

impl BookmarkRequest {
    /// Waits for a stimulus with this payload.
    pub fn new(payload: impl Into<Value>) -> Self {
        Self {
            name: None,
            payload: payload.into(),
            publishable: true,
            delay: None,
            due: None,
            auto_burn: true,
        }
    }

    /// Waits for time to pass.
    pub fn delay(delay: Duration, payload: impl Into<Value>) -> Self {
        Self {
            publishable: false,
            delay: Some(delay),
            ..Self::new(payload)
        }
    }

    /// Waits for a point in time. One that has passed is over at once, but still after the commit.
    pub fn at(due: DateTime<Utc>, payload: impl Into<Value>) -> Self {
        Self {
            publishable: false,
            due: Some(due),
            ..Self::new(payload)
        }
    }
}

/// A child to run next.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledChild {
    pub(crate) index: NodeIndex,
    pub(crate) variables: Map<String, Value>,
    pub(crate) tag: Option<Value>,
}

/// All that an activity asked for.
#[derive(Debug, Default)]
pub(crate) struct ActivityCommands {
    /// Lazy inputs as they were evaluated, for the journal.
    pub(crate) inputs: Vec<(String, Value)>,
    pub(crate) outputs: Vec<(String, Value)>,
    pub(crate) variables: Vec<(String, Value)>,
    pub(crate) workflow_outputs: Vec<(String, Value)>,
    pub(crate) script: Vec<ScriptChanges>,
    pub(crate) correlation_id: Option<Option<String>>,
    pub(crate) name: Option<Option<String>>,
    pub(crate) schedule: Vec<ScheduledChild>,
    pub(crate) bookmarks: Vec<BookmarkRequest>,
    pub(crate) cancel: Vec<NodeIndex>,
    pub(crate) breaks: bool,
    pub(crate) complete_workflow: Option<Vec<String>>,
}

/// An activity's view of its instance while it runs.
pub struct ActivityContext<'a> {
    pub(crate) node: &'a ActivityNode,
    pub(crate) tree: &'a Tree,
    pub(crate) evaluator: &'a dyn InputEvaluator,
    pub(crate) console: &'a dyn Console,
    pub(crate) inputs: &'a Map<String, Value>,
    pub(crate) instance_id: &'a InstanceId,
    pub(crate) execution_id: &'a ActivityExecutionId,
    pub(crate) attempt: u32,
    pub(crate) now: DateTime<Utc>,
    pub(crate) trigger_activity_id: Option<&'a str>,
    pub(crate) trigger_payload: Option<Value>,
    pub(crate) is_breaking: bool,
    pub(crate) children: Vec<Child>,
    pub(crate) pending_notices: usize,
    pub(crate) properties: Map<String, Value>,
    /// Names of properties that were set in this call.
    pub(crate) changed_properties: Vec<String>,
    pub(crate) commands: ActivityCommands,
}

impl<'a> ActivityContext<'a> {
    /// The activity in its definition.
    pub fn node(&self) -> &'a ActivityNode {
        self.node
    }

    /// Another activity of the definition.
    pub fn find(&self, index: NodeIndex) -> Option<&'a ActivityNode> {
        self.tree.get(index)
    }

    /// The instance that runs.
    pub fn instance_id(&self) -> &InstanceId {
        self.instance_id
    }

    /// This execution of the activity.
    pub fn execution_id(&self) -> &ActivityExecutionId {
        self.execution_id
    }

    /// A key for side effects, the same each time this execution is tried: hand it to the services that you call, so
    /// that a repetition after a crash is recognised. It is `instance id:activity execution id`.
    pub fn idempotency_key(&self) -> String {
        format!("{}:{}", self.instance_id, self.execution_id)
    }

    /// Which attempt at this burst runs, from 1. It is no part of the key.
    ///
    /// It grows whenever the burst's instructions are claimed again: after a crash, a failed commit, a lost lock, or a drain
    /// that handed them to another node. It may skip numbers, as a claim can be given back before any activity ran; it
    /// is never 1 for a repetition.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What time it is by the clock of the database, which alone says when something is due: never later than it is,
    /// and earlier by no more than it took to hear of it.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// An evaluated input by its name in Pascal case; null when there is none.
    pub fn input(&self, name: &str) -> &'a Value {
        self.inputs.get(name).unwrap_or(&Value::Null)
    }

    /// All evaluated inputs, by their names in Pascal case.
    pub fn inputs(&self) -> &'a Map<String, Value> {
        self.inputs
    }

    /// An evaluated input as text; `None` when it is null.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.input(name) {
            Value::Null => None,
            value => Some(crate::expression::to_text(value.clone())),
        }
    }

    /// An evaluated input as any type that can be read from JSON.
    ///
    /// # Errors
    /// When the value has another form; the message names the input.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, Fault> {
        let value = self.input(name);
        serde_json::from_value(value.clone()).map_err(|error| match value {
            Value::Null => {
                let why = "the definition gives it no value, or its expression gave null";
                Fault::new(format!("The input {name} has no value: {why}"))
            }
            _ => Fault::new(format!("The input {name} cannot be used: {error}")),
        })
    }

    /// Evaluates a lazy input now.
    ///
    /// # Errors
    /// What the expression failed with.
    pub async fn evaluate(&mut self, input: &str) -> Result<Value, Fault> {
        let value = self.evaluate_of(self.node, input).await?;
        self.commands.inputs.push((input.to_owned(), value.clone()));
        Ok(value)
    }

    /// Evaluates an input of another activity as seen from here.
    pub(crate) async fn evaluate_of(&mut self, node: &ActivityNode, input: &str) -> Result<Value, Fault> {
        let evaluated = self.evaluator.evaluate(node, input).await?;
        self.commands.script.push(evaluated.changes);
        Ok(evaluated.value)
    }

    /// A value that this execution has put aside, see [`ActivityContext::set_property`].
    pub fn property(&self, name: &str) -> &Value {
        self.properties.get(name).unwrap_or(&Value::Null)
    }

    /// Puts a value aside for later calls of this execution (after children, after a wait).
    pub fn set_property(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        let name = name.into();
        self.changed_properties.push(name.clone());
        self.properties.insert(name, value.into());
    }

    /// Sets an output by its name in Pascal case; it also goes to the variable bound to it.
    pub fn set_output(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.commands.outputs.push((name.into(), value.into()));
    }

    /// Sets a variable by its id or, failing that, its name.
    pub fn set_variable(&mut self, id: impl Into<String>, value: impl Into<Value>) {
        self.commands.variables.push((id.into(), value.into()));
    }

    /// Sets an output of the workflow.
    pub fn set_workflow_output(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.commands.workflow_outputs.push((name.into(), value.into()));
    }

    /// Sets or clears the correlation id of the instance.
    pub fn set_correlation_id(&mut self, id: Option<String>) {
        self.commands.correlation_id = Some(id);
    }

    /// Sets or clears the name of the instance.
    pub fn set_instance_name(&mut self, name: Option<String>) {
        self.commands.name = Some(name);
    }

    /// Writes a line to the console of the engine.
    pub fn write_line(&self, line: &str) {
        self.console.write_line(line);
    }

    /// Waits: the activity is resumed at this bookmark. Return [`Step::Wait`](super::Step::Wait) afterwards.
    pub fn bookmark(&mut self, request: BookmarkRequest) {
        self.commands.bookmarks.push(request);
    }

    /// The payload with which the instance was started, if this very activity is what started it and it runs for the
    /// first time.
    pub fn started_by(&self) -> Option<&Value> {
        self.trigger_payload.as_ref()
    }

    /// The activity that hangs on a port.
    pub fn port(&self, name: &str) -> Option<NodeIndex> {
        self.node
            .ports
            .iter()
            .find(|(port, _)| port == name)
            .map(|(_, index)| *index)
    }

    /// The activities of a container, in order.
    pub fn activities(&self) -> &'a [NodeIndex] {
        &self.node.activities
    }

    /// The children that are not done, those asked for in this call included.
    pub fn children(&self) -> impl Iterator<Item = Child> + '_ {
        let asked = self.commands.schedule.iter().map(|schedule| Child {
            index: schedule.index,
            status: ChildStatus::Scheduled,
        });
        self.children.iter().copied().chain(asked)
    }

    /// Runs a child; [`Activity::child_completed`](super::Activity::child_completed) is called when it is done.
    pub fn schedule(&mut self, child: NodeIndex) {
        self.schedule_with(child, Map::new(), None);
    }

    /// As [`ActivityContext::schedule`], with variables that the child and all within it see, and a tag that comes
    /// back when it is done.
    pub fn schedule_with(&mut self, child: NodeIndex, variables: Map<String, Value>, tag: Option<Value>) {
        self.commands.schedule.push(ScheduledChild {
            index: child,
            variables,
            tag,
        });
    }

    /// Cancels all running executions of a child, and their bookmarks.
    pub fn cancel(&mut self, child: NodeIndex) {
        self.commands.cancel.push(child);
    }

    /// Whether something inside has broken out of a loop that this activity is (in).
    pub fn is_breaking(&self) -> bool {
        self.is_breaking
    }

    /// Breaks out of the innermost loop.
    pub fn break_loop(&mut self) {
        self.commands.breaks = true;
    }

    /// Completes the whole workflow with these outcomes; all that still runs is cancelled.
    pub fn complete_workflow(&mut self, outcomes: Vec<String>) {
        self.commands.complete_workflow = Some(outcomes);
    }
}
