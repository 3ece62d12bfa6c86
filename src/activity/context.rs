//! The view that an activity has of its instance, and the commands that it can give.
//!
//! An activity never changes state. It reads a snapshot and gives *commands* ([`ActivityCommands`]); the interpreter applies
//! them after the activity has returned, in a fixed order, or drops all of them if it failed. So an activity that panics,
//! fails or is dropped during its I/O leaves the instance unchanged.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::answer::{Answer, AnswerStatus};
use super::bookmark::BookmarkRequest;
use super::console::Console;
use super::descriptor::{case_condition, case_port};
use super::fault::Fault;
use super::flowchart::FlowchartMode;
use super::sent_effects::SentEffects;
use super::tree::{ActivityNode, ActivityTree, NodeIndex};
use crate::expression::{CallLinks, Evaluated, Language, LinkRequest, ResumeLinks, ScriptChanges};
use crate::id::{ActivityExecutionId, InstanceId};
use crate::trace::TraceContext;

pub(crate) type EvaluationFuture<'a> = Pin<Box<dyn Future<Output = Result<Evaluated, Fault>> + Send + 'a>>;

/// Evaluates inputs for a running activity, and finds its children; implemented by the interpreter.
pub(crate) trait InputEvaluator: Sync {
    fn evaluate<'a>(&'a self, node: &'a ActivityNode, input: &'a str) -> EvaluationFuture<'a>;

    /// The same, where scripts see these values as variables, too.
    fn evaluate_with<'a>(
        &'a self,
        node: &'a ActivityNode,
        input: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> EvaluationFuture<'a>;

    /// Runs a script that is the value of an input.
    fn run_script<'a>(&'a self, language: &'static dyn Language, script: &'a str) -> EvaluationFuture<'a>;

    /// The children that are not completed.
    fn children(&self) -> Vec<Child>;

    /// The outputs of a workflow as an activity that something inside has set as variables only.
    fn outputs_set_as_variables(&self) -> Vec<(String, Value)>;
}

/// Knows which definitions are published; implemented by the engine.
pub(crate) trait PublishedDefinitions: Sync {
    /// Whether a version of the definition is published. True if that cannot be read now: the commit decides.
    fn is_published<'a>(&'a self, definition_id: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// Without a database every definition counts as published.
#[derive(Debug)]
pub(crate) struct AllPublished;

impl PublishedDefinitions for AllPublished {
    fn is_published<'a>(&'a self, _definition_id: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(std::future::ready(true))
    }
}

/// What a parent waits for in a child instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildWait {
    /// For nothing.
    None,
    /// Until it waits or ends.
    Rest,
    /// Until it ends.
    End,
}

/// A child instance to start.
#[derive(Clone, Debug)]
pub(crate) struct ChildRequest {
    pub(crate) definition_id: String,
    pub(crate) correlation_id: Option<String>,
    pub(crate) input: Map<String, Value>,
    pub(crate) wait: ChildWait,
    /// Its number among the children of this execution.
    pub(crate) number: u64,
}

/// The state of a child that is not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStatus {
    /// It is scheduled and has not begun.
    Scheduled,
    /// It is running.
    Running,
    /// It has failed.
    Faulted,
}

/// A child of the activity that is not completed.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// The child's node.
    pub index: NodeIndex,
    /// Its state.
    pub status: ChildStatus,
}

/// A child that has completed or was cancelled.
#[derive(Clone, Debug)]
pub struct EndedChild {
    /// The child's node.
    pub index: NodeIndex,
    /// The outcomes with which it completed.
    pub outcomes: Vec<String>,
    /// The tag with which it was scheduled.
    pub tag: Option<Value>,
}

/// The resumption of an activity at a bookmark.
#[derive(Clone, Debug, Default)]
pub struct Resumption {
    /// The payload of the stimulus, such as that of an event.
    pub payload: Option<Value>,
    /// The input of the resume request.
    pub input: Map<String, Value>,
}

/// An event to publish: to every bookmark that waits for it and every published trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPublication {
    /// Its name, compared exactly.
    pub name: String,
    /// Only for instances with this correlation id.
    pub correlation_id: Option<String>,
    /// Only for this instance.
    pub is_local: bool,
    /// What the activities that wait for it receive.
    pub payload: Option<Value>,
}

/// A child to run next, with its variables and tag.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledChild {
    pub(crate) index: NodeIndex,
    pub(crate) variables: Map<String, Value>,
    pub(crate) tag: Option<Value>,
}

/// The commands of one call of an activity.
#[derive(Debug, Default)]
pub(crate) struct ActivityCommands {
    /// Lazy inputs that were evaluated, for the journal.
    pub(crate) inputs: Vec<(String, Value)>,
    pub(crate) outputs: Vec<(String, Value)>,
    /// Names of inputs and outputs that may hold a secret.
    pub(crate) unrecorded: Vec<String>,
    pub(crate) variables: Vec<(String, Value)>,
    pub(crate) workflow_outputs: Vec<(String, Value)>,
    pub(crate) workflow_inputs: Vec<(&'static str, Value)>,
    pub(crate) script: Vec<ScriptChanges>,
    pub(crate) correlation_id: Option<Option<String>>,
    pub(crate) name: Option<Option<String>>,
    pub(crate) schedule: Vec<ScheduledChild>,
    /// Burns the bookmarks that the execution has.
    pub(crate) burns: bool,
    pub(crate) bookmarks: Vec<BookmarkRequest>,
    pub(crate) events: Vec<EventPublication>,
    pub(crate) links: Vec<LinkRequest>,
    /// The answer to the request of this run.
    pub(crate) answer: Option<Arc<Answer>>,
    pub(crate) sent: SentEffects,
    /// The children to start; those that are waited for resume the bookmark without a timer.
    pub(crate) children: Vec<(InstanceId, ChildRequest)>,
    /// A child to run after the call, which has then waited. The activity is resumed with its result.
    pub(crate) executes: Option<ChildRequest>,
    pub(crate) cancel: Vec<NodeIndex>,
    /// Children whose executions that have not begun are dropped.
    pub(crate) unschedule: Vec<NodeIndex>,
    /// Children that are not executed although something waits for them, each with the reason: the journal shows them.
    pub(crate) skipped: Vec<(NodeIndex, String)>,
    pub(crate) breaks: bool,
    pub(crate) complete_workflow: Option<Vec<String>>,
    pub(crate) complete_definition: Option<Vec<String>>,
}

/// An activity's view of its instance while it runs.
pub struct ActivityContext<'a> {
    pub(crate) node: &'a ActivityNode,
    pub(crate) tree: &'a ActivityTree,
    pub(crate) evaluator: &'a dyn InputEvaluator,
    pub(crate) definitions: &'a dyn PublishedDefinitions,
    pub(crate) console: &'a dyn Console,
    pub(crate) inputs: &'a Map<String, Value>,
    pub(crate) instance_id: &'a InstanceId,
    pub(crate) execution_id: &'a ActivityExecutionId,
    /// The idempotency key after the instance; `None` when the id of the execution is the key.
    pub(crate) key: Option<u64>,
    pub(crate) is_key_asked: AtomicBool,
    pub(crate) attempt: u32,
    /// See [`InstanceId::of_child`].
    pub(crate) child_seed: i64,
    /// Counts the resume links of this call.
    pub(crate) call_links: &'a CallLinks,
    pub(crate) resume_links: &'a ResumeLinks,
    /// How many instances above this one wait for their child.
    pub(crate) depth: u32,
    /// See [`InterpreterOptions`](crate::execution::InterpreterOptions).
    pub(crate) max_value_bytes: usize,
    pub(crate) now: DateTime<Utc>,
    pub(crate) trigger_activity_id: Option<&'a str>,
    pub(crate) trigger_payload: Option<Value>,
    pub(crate) is_breaking: bool,
    /// How the flowcharts of this workflow run.
    pub(crate) flowchart_mode: FlowchartMode,
    /// Determined on the first request: a loop over many items has as many children.
    pub(crate) children: OnceLock<Vec<Child>>,
    pub(crate) answer_status: AnswerStatus,
    /// The span of the call, or the trace that the burst belongs to.
    #[cfg_attr(
        not(feature = "http"),
        allow(dead_code, reason = "only requests to servers carry it")
    )]
    pub(crate) trace: Option<TraceContext>,
    pub(crate) pending_notifications: usize,
    pub(crate) properties: Map<String, Value>,
    /// The names of properties that this call has set.
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

    /// A key for side effects, the same at each attempt and in each later call of this execution: pass it to the
    /// services that you call. It is derived from what set the execution off, so it does not depend on what else
    /// happened before, and it differs after a replay or a change of variables from outside.
    pub fn idempotency_key(&self) -> String {
        self.is_key_asked.store(true, Relaxed);
        match self.key {
            Some(key) => format!("{}/{key:016x}", self.instance_id),
            None => self.execution_id.as_str().to_owned(),
        }
    }

    /// The key, if the activity has asked for it.
    pub(crate) fn asked_key(&self) -> Option<u64> {
        self.key.filter(|_| self.is_key_asked.load(Relaxed))
    }

    /// The number of the attempt at this burst, from 1. It is not part of the key. It grows whenever the work of the burst is
    /// claimed again: after a crash, a failed commit, a lost lock or a drain. It may skip numbers, as a claim can be released
    /// before any activity ran; a repetition never has the number 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The time by the clock of the database, which alone decides when something is due. It is never ahead of that clock, and
    /// behind it by at most the time that reading it took.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// An evaluated input by its name in Pascal case; null if it does not exist.
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
    /// If the value has another form; the message names the input.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, Fault> {
        let value = self.input(name);
        serde_json::from_value(value.clone()).map_err(|error| match value {
            Value::Null => {
                let reason = "the definition gives it no value, or its expression returned null";
                Fault::new(format!("The input {name} has no value: {reason}"))
            }
            _ => Fault::new(format!("The input {name} cannot be used: {error}")),
        })
    }

    /// Evaluates a lazy input now.
    ///
    /// # Errors
    /// The fault of the expression.
    pub async fn evaluate(&mut self, input: &str) -> Result<Value, Fault> {
        let value = self.evaluate_input_of(self.node, input).await?;
        self.commands.inputs.push((input.to_owned(), value.clone()));
        Ok(value)
    }

    /// Evaluates an input of another activity as seen from here.
    pub(crate) async fn evaluate_input_of(&mut self, node: &ActivityNode, input: &str) -> Result<Value, Fault> {
        let evaluated = self.evaluator.evaluate(node, input).await?;
        Ok(self.take(input, evaluated))
    }

    /// Evaluates a lazy input where scripts see these values as variables, too. The journal does not show the value.
    pub(crate) async fn evaluate_with(&mut self, input: &str, arguments: &Map<String, Value>) -> Result<Value, Fault> {
        let evaluated = self.evaluator.evaluate_with(self.node, input, arguments).await?;
        Ok(self.take(input, evaluated))
    }

    fn take(&mut self, input: &str, evaluated: Evaluated) -> Value {
        self.commands.script.push(evaluated.changes);
        if evaluated.may_hold_secret {
            self.commands.unrecorded.push(input.to_owned());
        }
        evaluated.value
    }

    /// Runs a script; what it sets becomes part of this call's commands.
    pub(crate) async fn run_script(
        &mut self,
        language: &'static dyn Language,
        script: &str,
    ) -> Result<Evaluated, Fault> {
        let mut ran = self.evaluator.run_script(language, script).await?;
        self.commands.script.push(std::mem::take(&mut ran.changes));
        if ran.may_hold_secret {
            self.commands.unrecorded.push("Result".to_owned());
        }
        Ok(ran)
    }

    /// Whether a version of this definition is published.
    pub(crate) async fn is_published(&self, definition_id: &str) -> bool {
        self.definitions.is_published(definition_id).await
    }

    /// How many instances above this one wait for their child.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The most bytes of one value that an instance keeps.
    pub(crate) fn max_value_bytes(&self) -> usize {
        self.max_value_bytes
    }

    /// Starts a child instance with the commit of this burst, and returns its id. A child that is waited for resumes
    /// the bookmark of this execution that has no timer.
    pub(crate) fn start_child(&mut self, request: ChildRequest) -> InstanceId {
        let id = InstanceId::of_child(self.execution_id, self.child_seed, request.number);
        self.commands.children.push((id.clone(), request));
        id
    }

    /// Runs a child instance within this burst once the call has returned [`Step::Wait`](super::Step::Wait). The execution is
    /// resumed with its result: at once, or as by [`Self::start_child`].
    pub(crate) fn execute_child(&mut self, request: ChildRequest) {
        self.commands.executes = Some(request);
    }

    /// Burns the bookmarks that this execution has, before this call creates new ones.
    pub(crate) fn burn_bookmarks(&mut self) {
        self.commands.burns = true;
    }

    /// A property of this execution, see [`ActivityContext::set_property`]; null if it is not set.
    pub fn property(&self, name: &str) -> &Value {
        self.properties.get(name).unwrap_or(&Value::Null)
    }

    /// Sets a property, which later calls of this execution read (after a child, after a bookmark).
    pub fn set_property(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        let name = name.into();
        self.changed_properties.push(name.clone());
        self.properties.insert(name, value.into());
    }

    /// Sets an output by its name in Pascal case; the variable bound to it is set, too.
    pub fn set_output(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.commands.outputs.push((name.into(), value.into()));
    }

    /// Sets a variable by its id or, if no variable has that id, by its name.
    pub fn set_variable(&mut self, id: impl Into<String>, value: impl Into<Value>) {
        self.commands.variables.push((id.into(), value.into()));
    }

    /// Sets an output of the workflow that the activity is in; inside a workflow as an activity, this is an output of
    /// that activity.
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

    /// Publishes an event with the commit of this burst: once, whichever node crashes, and not if the burst is not committed.
    pub fn publish_event(&mut self, event: EventPublication) {
        self.commands.events.push(event);
    }

    /// Adds an input to those of the instance, as in Elsa a trigger does with what has started or resumed it.
    pub(crate) fn set_workflow_input(&mut self, name: &'static str, value: impl Into<Value>) {
        self.commands.workflow_inputs.push((name, value.into()));
    }

    /// Whether the request of this run can be answered.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP answers"))]
    pub(crate) fn answer_status(&self) -> AnswerStatus {
        match self.commands.answer {
            Some(_) => AnswerStatus::Answered,
            None => self.answer_status,
        }
    }

    /// Answers the request of this run with the commit of this burst. The activity has made sure that it is open.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP answers"))]
    pub(crate) fn answer(&mut self, answer: Answer) {
        self.commands.answer = Some(Arc::new(answer));
    }

    /// The payload of the trigger that started the instance, if this activity is that trigger and executes for the first
    /// time.
    pub fn started_by(&self) -> Option<&Value> {
        self.trigger_payload.as_ref()
    }

    /// The child activity at a port.
    pub fn port(&self, name: &str) -> Option<NodeIndex> {
        self.node
            .ports
            .iter()
            .find(|(port, _)| port == name)
            .map(|(_, index)| *index)
    }

    /// Whether the condition of a case of this switch holds.
    pub(crate) async fn case_matches(&mut self, number: usize) -> Result<bool, Fault> {
        let value = self.evaluate(&case_condition(number)).await?;
        Ok(value == Value::Bool(true))
    }

    /// The child of a case of this switch.
    pub(crate) fn case_activity(&self, number: usize) -> Option<NodeIndex> {
        self.port(&case_port(number))
    }

    /// The activities of a container or a list, in order.
    pub fn activities(&self) -> &'a [NodeIndex] {
        &self.node.activities
    }

    /// The children that are not completed, including those scheduled in this call.
    pub fn children(&self) -> impl Iterator<Item = Child> + '_ {
        let scheduled = self.commands.schedule.iter().map(|schedule| Child {
            index: schedule.index,
            status: ChildStatus::Scheduled,
        });
        let known = self.children.get_or_init(|| self.evaluator.children());
        known.iter().copied().chain(scheduled)
    }

    /// Runs a child; [`Activity::child_completed`](super::Activity::child_completed) is called when it completes.
    pub fn schedule(&mut self, child: NodeIndex) {
        self.schedule_with(child, Map::new(), None);
    }

    /// Records that a child is not executed, and why.
    pub(crate) fn skip(&mut self, child: NodeIndex, reason: String) {
        self.commands.skipped.push((child, reason));
    }

    /// As [`ActivityContext::schedule`], with variables in the scope of the child and its descendants, and a tag that is
    /// returned when it completes.
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

    /// Drops the executions of a child that are scheduled and have not begun.
    pub(crate) fn unschedule(&mut self, child: NodeIndex) {
        self.commands.unschedule.push(child);
    }

    /// Whether a descendant has broken out of a loop that this activity is or is inside.
    pub fn is_breaking(&self) -> bool {
        self.is_breaking
    }

    /// Breaks out of the innermost loop.
    pub fn break_loop(&mut self) {
        self.commands.breaks = true;
    }

    /// Completes the workflow that the activity is in with these outcomes; its running activities are cancelled. Inside a
    /// workflow as an activity, its consumer goes on.
    pub fn complete_definition(&mut self, outcomes: Vec<String>) {
        self.commands.complete_definition = Some(outcomes);
    }

    /// Completes the whole workflow with these outcomes; all running activities are cancelled.
    pub fn complete_workflow(&mut self, outcomes: Vec<String>) {
        self.commands.complete_workflow = Some(outcomes);
    }
}
