//! The options of a workflow: Elsa's commit strategies, and the level of its journal.
//!
//! A commit before the end of a burst is a yield: the state between two work items is consistent, so the burst ends, its
//! state is committed, and another burst goes on. Every burst commits at its end, whatever the strategy.
//!
//! Names are Elsa's; an unknown one means the default, as in Elsa.

use std::time::Duration;

use serde_json::Value;

use crate::activity::ActivityNode;
use crate::definition::WorkflowDefinition;

/// A strategy that a definition can name, for designers: name, display name, description.
pub(crate) type NamedStrategy = (&'static str, &'static str, &'static str);

/// The commit strategies of a workflow, the default first.
pub(crate) const WORKFLOW_COMMIT_STRATEGIES: [NamedStrategy; 5] = [
    (
        "WorkflowExecuted",
        "At the end of the burst",
        "Commits when the instance waits or has ended. Always done.",
    ),
    (
        "WorkflowExecuting",
        "Before the first activity",
        "Also commits before the first activity of a burst.",
    ),
    (
        "ActivityExecuting",
        "Before each activity",
        "Also commits before each activity.",
    ),
    (
        "ActivityExecuted",
        "After each activity",
        "Also commits after each activity.",
    ),
    (
        "Periodic",
        "Periodically",
        "Also commits when the commit period of the node has passed.",
    ),
];

/// The commit strategies of an activity.
pub(crate) const ACTIVITY_COMMIT_STRATEGIES: [NamedStrategy; 4] = [
    ("Executing", "Before", "Commits before the activity executes."),
    ("Executed", "After", "Commits after the activity has executed."),
    (
        "CommitAlways",
        "Before and after",
        "Commits before and after the activity, whatever the workflow's strategy.",
    ),
    (
        "CommitNever",
        "Never",
        "Does not commit because of this activity, whatever the workflow's strategy.",
    ),
];

/// A workflow's `options.commitStrategyName`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CommitStrategy {
    /// At the end of the burst.
    #[default]
    BurstEnd,
    /// Before the first activity of the burst.
    WorkflowExecuting,
    /// Before each activity.
    ActivityExecuting,
    /// After each activity.
    ActivityExecuted,
    /// After each commit period.
    Periodic,
}

impl CommitStrategy {
    pub(super) fn of(definition: &WorkflowDefinition) -> Self {
        match definition.options.get("commitStrategyName").and_then(Value::as_str) {
            Some("WorkflowExecuting") => Self::WorkflowExecuting,
            Some("ActivityExecuting") => Self::ActivityExecuting,
            Some("ActivityExecuted") => Self::ActivityExecuted,
            Some("Periodic") => Self::Periodic,
            _ => Self::BurstEnd,
        }
    }

    /// Whether the burst commits before or after an activity. A container without a strategy of its own is committed with
    /// its children.
    pub(super) fn commit_points(self, node: &ActivityNode, is_container: bool) -> CommitPoints {
        let named = node.property("customProperties").and_then(|properties| {
            let name = properties
                .get("commitStrategyName")
                .or_else(|| properties.get("CommitStrategyName"));
            name.and_then(Value::as_str)
        });
        match named {
            Some("CommitAlways") => CommitPoints {
                before: true,
                after: true,
            },
            Some("CommitNever") => CommitPoints::default(),
            Some("Executing") => CommitPoints {
                before: true,
                after: false,
            },
            Some("Executed") => CommitPoints {
                before: false,
                after: true,
            },
            _ => CommitPoints {
                before: self == Self::ActivityExecuting,
                after: self == Self::ActivityExecuted && !is_container,
            },
        }
    }

    /// Whether a burst that has executed this many activities in this time commits now.
    pub(super) fn is_due(self, executed: usize, elapsed: Duration, period: Duration) -> bool {
        match self {
            Self::WorkflowExecuting => executed == 0,
            Self::Periodic => elapsed >= period,
            _ => false,
        }
    }
}

/// The commits before and after one activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CommitPoints {
    pub(super) before: bool,
    pub(super) after: bool,
}

/// A workflow's `options.journal`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum JournalLevel {
    /// Journal and activity executions.
    #[default]
    Full,
    /// Neither. State, incidents, bookmarks and outputs are kept, and all guarantees hold.
    Off,
}

impl JournalLevel {
    /// An unknown word means the default.
    pub(super) fn of(definition: &WorkflowDefinition) -> Self {
        match definition.options.get("journal").and_then(Value::as_str) {
            Some(word) if word.eq_ignore_ascii_case("off") => Self::Off,
            _ => Self::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_workflow_strategy_for_designers_is_known() {
        let of = |name: &str| {
            let definition = json!({"options": {"commitStrategyName": name}});
            CommitStrategy::of(&WorkflowDefinition::from_value(definition).unwrap())
        };
        let [(default, ..), others @ ..] = WORKFLOW_COMMIT_STRATEGIES;
        assert_eq!(of(default), CommitStrategy::BurstEnd);
        for (at, (name, ..)) in others.iter().enumerate() {
            assert_ne!(of(name), CommitStrategy::BurstEnd, "{name}");
            assert!(
                others.iter().skip(at + 1).all(|(other, ..)| of(other) != of(name)),
                "{name}"
            );
        }
    }
}
