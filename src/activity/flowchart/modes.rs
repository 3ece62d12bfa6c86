//! How a flowchart decides what runs next, and how several paths come together: two modes that do not depend on each other.
//!
//! Both are read as Elsa reads its enumerations: a name in any case, or its number as text. Any other value counts as
//! absent, and a publish warns of it.

use serde_json::Value;

use crate::activity::enumeration::{number_of, number_of_text};

/// How a flowchart decides which activity is due. A workflow names it by the custom property `Flowchart:ExecutionMode`;
/// otherwise the engine's setting applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowchartMode {
    /// By counts: an activity is due when all paths to it have been decided and one of them was taken.
    #[default]
    Counter,
    /// By tokens, with a merge mode for each activity.
    Token,
}

impl FlowchartMode {
    /// The custom property of a workflow.
    pub(crate) const PROPERTY: &str = "Flowchart:ExecutionMode";

    /// Elsa's names, by their numbers.
    pub(crate) const NAMES: [&str; 3] = ["Default", "TokenBased", "CounterBased"];

    /// The mode that a workflow names; `None` if it names none, or `Default`.
    pub(crate) fn read(value: Option<&Value>) -> Option<Self> {
        match number_of(&Self::NAMES, value?)? {
            1 => Some(Self::Token),
            2 => Some(Self::Counter),
            _ => None,
        }
    }

    /// Whether the value names a mode.
    pub(crate) fn is_known(value: &Value) -> bool {
        number_of(&Self::NAMES, value).is_some()
    }
}

/// When an activity of a flowchart with tokens is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeMode {
    /// With each completed source, unless another one is still to run.
    Stream,
    /// When all forward connections have a token.
    Merge,
    /// When all connections have a token, also those that lead back.
    Converge,
    /// With the first token of each round; the others are blocked.
    Cascade,
    /// As [`MergeMode::Cascade`], and what still runs before it is cancelled.
    Race,
}

impl MergeMode {
    /// The custom property of an activity.
    pub(crate) const PROPERTY: &str = "mergeMode";

    /// Elsa's names, by their numbers.
    pub(crate) const NAMES: [&str; 6] = ["None", "Stream", "Merge", "Converge", "Cascade", "Race"];

    /// The mode that an activity names.
    pub(crate) fn read(value: Option<&Value>) -> Self {
        match value.and_then(|value| number_of_text(&Self::NAMES, value)) {
            Some(2) => Self::Merge,
            Some(3) => Self::Converge,
            Some(4) => Self::Cascade,
            Some(5) => Self::Race,
            _ => Self::Stream,
        }
    }

    /// Whether the value names a mode.
    pub(crate) fn is_known(value: &Value) -> bool {
        number_of_text(&Self::NAMES, value).is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_mode_is_a_name_or_its_number_as_text() {
        for (value, mode) in [
            (json!("merge"), MergeMode::Merge),
            (json!(" RACE "), MergeMode::Race),
            (json!("3"), MergeMode::Converge),
            (json!("Cascade"), MergeMode::Cascade),
            (json!("None"), MergeMode::Stream),
            (json!("Stream"), MergeMode::Stream),
            // As in Elsa, a number that is none of text means nothing.
            (json!(2), MergeMode::Stream),
            (json!("17"), MergeMode::Stream),
            (json!("Mergers"), MergeMode::Stream),
            (json!(null), MergeMode::Stream),
        ] {
            assert_eq!(MergeMode::read(Some(&value)), mode, "{value}");
        }
        assert_eq!(MergeMode::read(None), MergeMode::Stream);
        assert!(MergeMode::is_known(&json!("none")) && !MergeMode::is_known(&json!("Mergers")));
    }

    #[test]
    fn an_execution_mode_is_a_name_or_its_number() {
        for (value, mode) in [
            (json!("TokenBased"), Some(FlowchartMode::Token)),
            (json!("tokenbased"), Some(FlowchartMode::Token)),
            (json!(1), Some(FlowchartMode::Token)),
            (json!("1"), Some(FlowchartMode::Token)),
            (json!("CounterBased"), Some(FlowchartMode::Counter)),
            (json!(2), Some(FlowchartMode::Counter)),
            (json!("Default"), None),
            (json!(3), None),
            (json!(-1), None),
            (json!("Tokens"), None),
            (json!(true), None),
        ] {
            assert_eq!(FlowchartMode::read(Some(&value)), mode, "{value}");
        }
        assert_eq!(FlowchartMode::read(None), None);
    }
}
