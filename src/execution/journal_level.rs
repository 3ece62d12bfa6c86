//! How much of what a workflow did is written down, beside its state.

use serde_json::Value;

use crate::definition::WorkflowDefinition;

/// What a workflow's `options.journal` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum JournalLevel {
    /// Journal and activity executions.
    #[default]
    Full,
    /// Neither. State, incidents, bookmarks and outputs are kept all the same, and with them every promise.
    Off,
}

impl JournalLevel {
    /// A word that is not known here means the default, as with commit strategies.
    pub(super) fn of(definition: &WorkflowDefinition) -> Self {
        match definition.options.get("journal").and_then(Value::as_str) {
            Some(word) if word.eq_ignore_ascii_case("off") => Self::Off,
            _ => Self::Full,
        }
    }
}
