//! Activities: the things that a workflow does.
//!
//! An activity type implements [`Activity`] and is registered in a [`Catalogue`]; Elsa's own and a user's are made the
//! same way. One value serves all executions in all instances at once, so it holds no state of its own: what an
//! execution must remember goes into its properties, what it wants done goes through its [`ActivityContext`].
//!
//! Activities know definitions and expressions, never the interpreter: it comes to them only as a context.
//!
//! # Layout
//! - `descriptor`: what a type says about itself; `catalogue`: the registry.
//! - `context`, `node`, `fault`: what an activity is given, where it stands, how it fails.
//! - one file per activity or small family; `flowchart/` is the largest.

mod catalogue;
mod console;
mod context;
mod control_flow;
mod descriptor;
mod fault;
mod flowchart;
mod node;
mod primitives;
mod scheduling;

use std::future::{Future, ready};

use serde_json::{Map, Value};

pub use catalogue::Catalogue;
pub(crate) use catalogue::{ErasedActivity, RegisteredActivity, is_elsa_type, requirement};
#[cfg(feature = "cli")]
pub(crate) use console::printable;
pub use console::{Console, Stdout};
pub(crate) use context::{
    ActivityCommands, Evaluated, EvaluationFuture, InputEvaluator, ScheduledChild, ScriptChanges,
};
pub use context::{ActivityContext, BookmarkRequest, Child, ChildStatus, EndedChild, Resumption};
pub(crate) use control_flow::{WORKFLOW, Workflow};
pub(crate) use descriptor::camel_case;
pub use descriptor::{ActivityKind, BreakBehavior, Descriptor, InputDescriptor, OutputDescriptor};
pub use fault::Fault;
pub(crate) use node::NodeInput;
pub use node::{ActivityNode, NodeIndex, Tree};
pub use primitives::EVENT_PAYLOAD_INPUT;

/// How an activity goes on after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is done, with the outcome `Done`.
    Done,
    /// It is done, with these outcomes.
    Outcomes(Vec<String>),
    /// It has scheduled children or made bookmarks, and waits for them.
    Wait,
}

impl Step {
    /// It is done, with one outcome.
    pub fn outcome(name: impl Into<String>) -> Self {
        Self::Outcomes(vec![name.into()])
    }
}

/// A type of activity.
///
/// All calls are awaited outside of any transaction and may do I/O. A burst is committed as a whole, at its end unless a
/// commit strategy says otherwise: if its process dies, or the burst is handed to another node, before that commit, **all
/// its calls are made again, completed ones included**, in the same order with the same
/// [`ActivityContext::idempotency_key`], and [`ActivityContext::attempt`] has grown. So side effects outside the database
/// happen at least once; a service that is handed the key can tell a repetition. Dropping a call's future must leave
/// nothing behind that matters.
///
/// An error is a [`Fault`]: it is final. The engine does not call the activity again, the instance ends as `Faulted`
/// (unless its incident strategy lets other branches go on), a warning names instance, definition and activity, and
/// `mainspring_incidents_total` counts it. What may pass is to be tried again inside the call.
pub trait Activity: Send + Sync + 'static {
    /// What the type is called, takes, gives and may hold.
    fn descriptor(&self) -> Descriptor;

    /// Begins.
    fn execute(&self, context: &mut ActivityContext<'_>) -> impl Future<Output = Result<Step, Fault>> + Send;

    /// Goes on after a bookmark was met. By default the activity is then done.
    fn resumed(
        &self,
        context: &mut ActivityContext<'_>,
        resumption: Resumption,
    ) -> impl Future<Output = Result<Step, Fault>> + Send {
        let _ = (context, resumption);
        ready(Ok(Step::Done))
    }

    /// Goes on after a child has completed. By default the activity is then done.
    fn child_completed(
        &self,
        context: &mut ActivityContext<'_>,
        child: EndedChild,
    ) -> impl Future<Output = Result<Step, Fault>> + Send {
        let _ = (context, child);
        ready(Ok(Step::Done))
    }

    /// A child was cancelled, by this activity or from outside. By default nothing happens.
    fn child_cancelled(
        &self,
        context: &mut ActivityContext<'_>,
        child: EndedChild,
    ) -> impl Future<Output = Result<Step, Fault>> + Send {
        let _ = (context, child);
        ready(Ok(Step::Wait))
    }

    /// For a trigger: what a stimulus must carry to start an instance here, from the evaluated inputs.
    fn trigger_payload(&self, inputs: &Map<String, Value>) -> Option<Value> {
        let _ = inputs;
        None
    }

    /// For a trigger that time meets: when it starts an instance, from the evaluated inputs. Such a trigger has no
    /// payload; an instance is started with `{"scheduleId", "occurrence", "fireAt", "firedAt", "standsFor"}`.
    fn trigger_schedule(&self, inputs: &Map<String, Value>) -> Option<crate::Result<crate::schedule::Schedule>> {
        let _ = inputs;
        None
    }
}
