//! Activities: the steps of a workflow.
//!
//! An activity type implements [`Activity`] and is registered in a [`Catalogue`], Elsa's own types as well as a user's. One
//! value serves all executions in all instances at once, so it holds no state of its own: the state of an execution is in
//! its properties, and its effects are commands to its [`ActivityContext`].
//!
//! Activities know definitions and expressions, never the interpreter, which they see only as a context.
//!
//! # Layout
//! - `descriptor/`: the metadata of a type; `catalogue`: the registry; `placeholder`: a type that stands for unknown ones.
//! - `route`: the route of an HTTP endpoint.
//! - `enumeration`: values of Elsa's enumerations, by name or number.
//! - `answer`: the answer to an HTTP request; `sent_effects`: what a request to another server leaves behind.
//! - `context`, `tree`, `fault`: the input of an activity, its place in the definition, its failure. `bookmark`, `resume_url`: what
//!   it waits at, and the links that resume it.
//! - `output_converter`: what a program converts outputs with; `settings_schema`: the form of its settings.
//! - the catalogue, one file per family: `control_flow`, `switch`, `parallel`, `try_catch`, `flowchart/`, `state_machine`,
//!   `primitives`, `scheduling`, `publish_event`, `run_task`, `scripting`, `composition`; `nested`: a workflow as an
//!   activity; `http/`: endpoints, responses and requests; `mail/`: mails; `webhook_event`: the events of webhook sources; `console` is
//!   the sink of `Elsa.WriteLine`; `generic`: the names of Elsa's generic types.

mod answer;
mod bookmark;
mod catalogue;
mod composition;
mod console;
mod context;
mod control_flow;
mod descriptor;
mod enumeration;
mod fault;
mod flowchart;
mod generic;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(feature = "http")]
mod mail;
mod nested;
mod output_converter;
mod parallel;
mod placeholder;
mod primitives;
mod publish_event;
mod resume_url;
mod route;
mod run_task;
mod scheduling;
mod scripting;
mod sent_effects;
mod settings_schema;
mod state_machine;
mod switch;
#[cfg(test)]
mod tests;
mod tree;
mod try_catch;
#[cfg(feature = "http")]
mod webhook_event;

use std::future::{Future, ready};

use serde_json::{Map, Value};

pub(crate) use answer::{Answer, AnswerBody, AnswerStatus};
pub use bookmark::BookmarkRequest;
pub use catalogue::Catalogue;
pub(crate) use catalogue::{ErasedActivity, RegisteredActivity, converter_requirement, is_elsa_type, requirement};
pub(crate) use composition::{
    BULK_DISPATCH, CHILD_INSTANCE_ID, CHILD_RESULT, EXECUTE_WORKFLOW, is_recorded, not_published, started_children,
    waits_for_children,
};
#[cfg(feature = "cli")]
pub(crate) use console::printable;
pub use console::{Console, Stdout};
pub(crate) use context::{
    ActivityCommands, AllPublished, ChildRequest, ChildWait, EvaluationFuture, InputEvaluator, PublishedDefinitions,
    ScheduledChild,
};
pub use context::{ActivityContext, Child, ChildStatus, EndedChild, EventPublication, Resumption};
pub(crate) use control_flow::{WORKFLOW, Workflow};
pub(crate) use descriptor::{
    ACTIVITIES, AddedOutcomes, CASE_ACTIVITY, CASES, ChildProperty, EXPECTED_STATUS_CODES, ItemChildren, STATES,
    TRANSITIONS, camel_case, case_condition, case_port, item_port, transition_condition,
};
pub use descriptor::{ActivityKind, BreakBehavior, Choice, Descriptor, InputDescriptor, OutputDescriptor, UiHint};
pub use fault::Fault;
pub use flowchart::FlowchartMode;
pub(crate) use flowchart::MergeMode;
#[cfg(feature = "http")]
pub use http::HttpOptions;
pub(crate) use nested::{NestedWorkflow, WorkflowAsActivity, describe, plain_name, safe_name};
pub(crate) use output_converter::{ConversionStage, RegisteredConverter};
pub use output_converter::{ConverterDescriptor, OutputConversion, OutputConverter};
pub use primitives::EVENT_PAYLOAD_INPUT;
pub use resume_url::ResumeLinkOptions;
pub(crate) use route::HTTP_ENDPOINT;
#[cfg(feature = "http")]
pub(crate) use route::{ENDPOINT_METHODS, EndpointRoute, RESERVED};
pub use run_task::{RUN_TASK, TASK_RESULT_INPUT};
pub(crate) use scheduling::inputs_of_trigger;
pub(crate) use sent_effects::SentFailure;
pub use tree::{ActivityNode, ActivityTree, NodeIndex};
pub(crate) use tree::{NodeInput, NodeOutput, SCRIPT};
pub(crate) use try_catch::{Guarding, TRY, guards, known_categories};
#[cfg(feature = "http")]
pub(crate) use webhook_event::webhook_key;

/// The result of a call: whether the activity has completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Completed, with the outcome `Done`.
    Done,
    /// Completed, with these outcomes.
    Outcomes(Vec<String>),
    /// It has scheduled children or created bookmarks, and waits for them.
    Wait,
}

impl Step {
    /// Completed, with one outcome.
    pub fn outcome(name: impl Into<String>) -> Self {
        Self::Outcomes(vec![name.into()])
    }
}

/// A stimulus that starts an instance at a trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerStimulus {
    /// What a stimulus must have, of which the hash is made.
    pub key: Value,
    /// What the trigger keeps: the key, or more than that.
    pub payload: Value,
}

/// An activity type.
///
/// # Calls
/// All calls are awaited outside of any transaction and may do I/O. A burst is committed as a whole, at its end unless a
/// commit strategy says otherwise. If its process crashes before that commit, or another node takes the burst over, **all its
/// calls are made again, completed ones included**, in the same order, with the same
/// [`ActivityContext::idempotency_key`] and a larger [`ActivityContext::attempt`]. So side effects outside the database
/// happen at least once; a service that receives the key can recognise a repetition. A call's future may be dropped: it
/// must be cancellation safe.
///
/// # Errors
/// An error is a [`Fault`], and it is final. The engine does not call the activity again, the instance ends as `Faulted`
/// (unless its incident strategy lets other branches continue), a warning names instance, definition and activity, and
/// `mainspring_incidents_total` counts it. An activity retries transient errors itself, inside the call.
pub trait Activity: Send + Sync + 'static {
    /// The metadata of the type: its name, inputs, outputs and ports.
    fn descriptor(&self) -> Descriptor;

    /// Begins an execution.
    fn execute(&self, context: &mut ActivityContext<'_>) -> impl Future<Output = Result<Step, Fault>> + Send;

    /// Continues after a bookmark was resumed. By default the activity then completes.
    fn resumed(
        &self,
        context: &mut ActivityContext<'_>,
        resumption: Resumption,
    ) -> impl Future<Output = Result<Step, Fault>> + Send {
        let _ = (context, resumption);
        ready(Ok(Step::Done))
    }

    /// Continues after a child has completed. By default the activity then completes.
    fn child_completed(
        &self,
        context: &mut ActivityContext<'_>,
        child: EndedChild,
    ) -> impl Future<Output = Result<Step, Fault>> + Send {
        let _ = (context, child);
        ready(Ok(Step::Done))
    }

    /// Reacts to the cancellation of a child, by this activity or from outside. By default nothing happens.
    fn child_cancelled(
        &self,
        context: &mut ActivityContext<'_>,
        child: EndedChild,
    ) -> impl Future<Output = Result<Step, Fault>> + Send {
        let _ = (context, child);
        ready(Ok(Step::Wait))
    }

    /// For a trigger: the payload that a stimulus must have to start an instance here, from the evaluated inputs.
    fn trigger_payload(&self, inputs: &Map<String, Value>) -> Option<Value> {
        let _ = inputs;
        None
    }

    /// For a trigger: every stimulus that starts an instance here, from the evaluated inputs. By default the one of
    /// [`Self::trigger_payload`], whose payload is its key.
    ///
    /// # Errors
    /// Why there is none, each a sentence that goes on after "The trigger cannot be used: ".
    fn trigger_stimuli(&self, inputs: &Map<String, Value>) -> Result<Vec<TriggerStimulus>, Vec<String>> {
        match self.trigger_payload(inputs) {
            Some(payload) => Ok(vec![TriggerStimulus {
                key: payload.clone(),
                payload,
            }]),
            None => Err(vec!["it names no stimulus to wait for".to_owned()]),
        }
    }

    /// For a trigger by time: the schedule of its starts, from the evaluated inputs. Such a trigger has no payload; it
    /// starts an instance with `{"scheduleId", "occurrence", "fireAt", "firedAt", "standsFor"}`.
    fn trigger_schedule(&self, inputs: &Map<String, Value>) -> Option<crate::Result<crate::schedule::Schedule>> {
        let _ = inputs;
        None
    }

    /// What is wrong with inputs beyond their types, each as a clause: "the input Limit is below zero". A publish is refused with
    /// it. `inputs` has those whose value is known then: literal ones, and those without an expression.
    fn input_problems(&self, inputs: &Map<String, Value>) -> Vec<String> {
        let _ = inputs;
        Vec::new()
    }

    /// For an input that is [refreshed](InputDescriptor::refreshed): the choices that a designer offers now. `values` has the
    /// literal values of the other inputs so far, by their names in Pascal case. A designer waits for five seconds.
    fn choices(
        &self,
        input: &str,
        values: &Map<String, Value>,
    ) -> impl Future<Output = Result<Vec<Choice>, Fault>> + Send {
        let _ = (input, values);
        ready(Ok(Vec::new()))
    }
}
