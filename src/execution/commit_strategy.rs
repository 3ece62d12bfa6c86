//! When a burst commits before its end: Elsa's commit strategies.
//!
//! A commit in the middle is a yield: the state between two work items is whole, so the burst hands it to the writer and
//! goes on from there. Every burst commits at its end, whatever the strategy, as nothing else would keep it.
//!
//! Names are Elsa's; one that is not known here means the default, as there.

use std::time::Duration;

use serde_json::Value;

use crate::activity::ActivityNode;
use crate::definition::WorkflowDefinition;

/// What a workflow's `options.commitStrategyName` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WorkflowStrategy {
    /// At the end of the burst.
    #[default]
    BurstEnd,
    /// Before anything of the burst is executed.
    WorkflowExecuting,
    /// Before each activity.
    ActivityExecuting,
    /// After each activity.
    ActivityExecuted,
    /// Whenever so much time has passed.
    Periodic,
}

impl WorkflowStrategy {
    pub(super) fn of(definition: &WorkflowDefinition) -> Self {
        match definition.options.get("commitStrategyName").and_then(Value::as_str) {
            Some("WorkflowExecuting") => Self::WorkflowExecuting,
            Some("ActivityExecuting") => Self::ActivityExecuting,
            Some("ActivityExecuted") => Self::ActivityExecuted,
            Some("Periodic") => Self::Periodic,
            _ => Self::BurstEnd,
        }
    }

    /// Whether to commit before an activity, or, of several steps, after it. A container has done nothing by itself: unless
    /// it has a strategy of its own, it is committed with its children.
    pub(super) fn around(self, node: &ActivityNode, is_container: bool) -> Around {
        let named = node.property("customProperties").and_then(|properties| {
            let name = properties
                .get("commitStrategyName")
                .or_else(|| properties.get("CommitStrategyName"));
            name.and_then(Value::as_str)
        });
        match named {
            Some("CommitAlways") => Around {
                before: true,
                after: true,
            },
            Some("CommitNever") => Around::default(),
            Some("Executing") => Around {
                before: true,
                after: false,
            },
            Some("Executed") => Around {
                before: false,
                after: true,
            },
            _ => Around {
                before: self == Self::ActivityExecuting,
                after: self == Self::ActivityExecuted && !is_container,
            },
        }
    }

    /// Whether a burst that has run for so long, and executed so much, commits now.
    pub(super) fn is_due(self, executed: usize, elapsed: Duration, period: Duration) -> bool {
        match self {
            Self::WorkflowExecuting => executed == 0,
            Self::Periodic => elapsed >= period,
            _ => false,
        }
    }
}

/// Where a commit stands around one activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Around {
    pub(super) before: bool,
    pub(super) after: bool,
}
