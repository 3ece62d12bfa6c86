//! What a script sees of its run.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::script::{CompiledScript, ScriptError, ScriptScope, ScriptText, WorkflowFacts};

/// What a script sees of its run. Only what it names is read.
pub(crate) trait ScriptView: Sync {
    /// The innermost visible variable of exactly this name.
    fn variable(&self, name: &str) -> Option<&Value>;

    /// The names of all visible variables.
    fn variable_names(&self) -> Vec<String>;

    /// The declared type of a variable: Elsa's name of the type, and whether the variable is an array of it.
    fn variable_type(&self, name: &str) -> Option<(&str, bool)>;

    /// The declared type of an input of the workflow, by its name in any case.
    fn input_type(&self, _name: &str) -> Option<(&str, bool)> {
        None
    }

    /// The inputs of the workflow.
    fn inputs(&self) -> &Map<String, Value>;

    /// An output of an activity, by the id or name of the activity.
    fn output(&self, activity: &str, output: &str) -> Option<&Value>;

    /// The result of the activity that completed last.
    fn last_result(&self) -> Option<&Value>;

    /// Facts about the instance.
    fn facts(&self) -> &WorkflowFacts;

    /// All of it.
    fn scope(&self) -> ScriptScope;

    /// Returns a script as compiled with its definition, or `None` when another expression has made its text.
    fn compiled(
        &self,
        _language: &'static str,
        _script: ScriptText<'_>,
    ) -> Option<&Result<CompiledScript, ScriptError>> {
        None
    }
}

/// The given input of a workflow by its name: in exactly this case, or in any, as in Elsa. With its name as it was given.
pub(crate) fn input_named<'m>(inputs: &'m Map<String, Value>, name: &str) -> Option<(&'m String, &'m Value)> {
    let mut others = inputs.iter();
    let exact = inputs.get_key_value(name);
    exact.or_else(|| others.find(|(known, _)| known.eq_ignore_ascii_case(name)))
}

/// What a script sees, for another thread.
#[derive(Debug)]
pub(super) struct ViewSnapshot {
    scope: ScriptScope,
    types: HashMap<String, (String, bool)>,
    /// Of the inputs.
    input_types: HashMap<String, (String, bool)>,
}

impl ViewSnapshot {
    pub(super) fn of(view: &dyn ScriptView) -> Self {
        let scope = view.scope();
        let typed = |name: &String| {
            let (type_name, is_array) = view.variable_type(name)?;
            Some((name.clone(), (type_name.to_owned(), is_array)))
        };
        let types = scope.variables.keys().filter_map(typed).collect();
        let typed = |name: &String| {
            let (type_name, is_array) = view.input_type(name)?;
            Some((name.to_ascii_lowercase(), (type_name.to_owned(), is_array)))
        };
        let input_types = scope.inputs.keys().filter_map(typed).collect();
        Self {
            scope,
            types,
            input_types,
        }
    }
}

#[cfg(test)]
impl From<ScriptScope> for ViewSnapshot {
    fn from(scope: ScriptScope) -> Self {
        Self {
            scope,
            types: HashMap::new(),
            input_types: HashMap::new(),
        }
    }
}

impl ScriptView for ViewSnapshot {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.scope.variables.get(name)
    }

    fn variable_names(&self) -> Vec<String> {
        self.scope.variables.keys().cloned().collect()
    }

    fn variable_type(&self, name: &str) -> Option<(&str, bool)> {
        let (type_name, is_array) = self.types.get(name)?;
        Some((type_name, *is_array))
    }

    fn input_type(&self, name: &str) -> Option<(&str, bool)> {
        let (type_name, is_array) = self.input_types.get(&name.to_ascii_lowercase())?;
        Some((type_name, *is_array))
    }

    fn inputs(&self) -> &Map<String, Value> {
        &self.scope.inputs
    }

    fn output(&self, activity: &str, output: &str) -> Option<&Value> {
        self.scope.outputs.get(activity)?.get(output)
    }

    fn last_result(&self) -> Option<&Value> {
        self.scope.last_result.as_ref()
    }

    fn facts(&self) -> &WorkflowFacts {
        &self.scope.workflow
    }

    fn scope(&self) -> ScriptScope {
        self.scope.clone()
    }
}
