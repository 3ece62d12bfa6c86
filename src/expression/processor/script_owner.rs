//! Whose script it is.

use crate::expression::script::WorkflowFacts;

/// The instance that runs a script, with its definition and version.
#[derive(Clone, Debug)]
pub(in crate::expression) struct ScriptOwner {
    pub(in crate::expression) definition: String,
    pub(in crate::expression) version: String,
    pub(in crate::expression) instance: String,
}

impl ScriptOwner {
    pub(in crate::expression) fn of(facts: &WorkflowFacts) -> Self {
        Self {
            definition: facts.definition_id.clone(),
            version: facts.definition_version_id.clone(),
            instance: facts.instance_id.clone(),
        }
    }
}
