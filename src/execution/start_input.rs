//! The inputs and variables with which an instance starts. They are checked before the start is accepted, and its first
//! burst converts them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::program::Program;
use crate::activity::{Fault, NodeIndex};
use crate::expression::{TypeName, coerce};
use crate::id::ActivityId;

/// What a start gives, by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartValues<'a> {
    /// The workflow's inputs.
    pub(crate) input: &'a Map<String, Value>,
    /// Its variables.
    pub(crate) variables: &'a Map<String, Value>,
    /// The activity to begin at.
    pub(crate) trigger: Option<&'a ActivityId>,
    /// Its node id, if the caller names one.
    pub(crate) trigger_node_id: Option<&'a str>,
}

impl Program {
    /// The errors of a start with these values: the fields, each with its message.
    pub(crate) fn start_errors(&self, values: StartValues<'_>) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let others = self.in_another_case(values.input).into_iter();
        let others: HashMap<String, String> = others.map(|(given, declared)| (declared, given)).collect();
        for argument in &self.inputs {
            let to = (argument.type_name.as_str(), argument.is_array);
            let name = others.get(&argument.name).unwrap_or(&argument.name);
            let problem = mismatch(values.input.get(name), to);
            problems.extend(problem.map(|problem| (format!("input.{}", argument.name), problem)));
        }
        let workflow = self.tree.iter().next();
        for variable in workflow
            .map(|workflow| workflow.variables.as_slice())
            .unwrap_or_default()
        {
            let to = (variable.type_name.as_str(), variable.is_array);
            let problem = mismatch(values.variables.get(&variable.name), to);
            problems.extend(problem.map(|problem| (format!("variables.{}", variable.name), problem)));
        }
        let problem = self.trigger_problem(values);
        problems.extend(problem.map(|(field, problem)| (field.to_owned(), problem)));
        problems
    }

    fn trigger_problem(&self, values: StartValues<'_>) -> Option<(&'static str, String)> {
        match (values.trigger, values.trigger_node_id) {
            (None, None) => None,
            (Some(trigger), None) => {
                let is_known = |id: &ActivityId| self.tree.of_workflow(NodeIndex(0)).any(|node| node.id == id.as_str());
                let problem = || format!("the workflow has no activity with the id {trigger}");
                (!is_known(trigger)).then(|| ("triggerActivityId", problem()))
            }
            (named, Some(node_id)) => {
                let problem = match (self.activity_at(node_id), named) {
                    (None, _) => format!("the workflow has no activity with the node id {node_id}"),
                    (Some(found), Some(named)) if found != *named => {
                        format!(
                            "the activity with the node id {node_id} is {found}, and triggerActivityId names {named}"
                        )
                    }
                    _ => return None,
                };
                Some(("activityHandle", problem))
            }
        }
    }

    /// The activity with a node id. A node id ends with the id of its activity, but that may have colons of its own.
    pub(crate) fn activity_at(&self, node_id: &str) -> Option<ActivityId> {
        let mut nodes = self.tree.of_workflow(NodeIndex(0));
        let found = nodes.find(|node| node.node_id == node_id)?;
        Some(ActivityId::new(found.id.as_str()))
    }

    /// The declared names of inputs that are given in another case, by the names as given; as in Elsa, a name has any case.
    fn in_another_case(&self, input: &Map<String, Value>) -> HashMap<String, String> {
        let given = self
            .inputs
            .iter()
            .filter(|argument| input.contains_key(&argument.name))
            .count();
        if given == input.len() || given == self.inputs.len() {
            return HashMap::new();
        }
        let missing = self
            .inputs
            .iter()
            .filter(|argument| !input.contains_key(&argument.name));
        let missing = missing.map(|argument| (argument.name.to_ascii_lowercase(), &argument.name));
        let mut missing: HashMap<String, &String> = missing.collect();
        let found = input
            .keys()
            .filter_map(|name| Some((name.clone(), missing.remove(&name.to_ascii_lowercase())?.clone())));
        found.collect()
    }

    /// The same inputs under their declared names, in their order.
    pub(super) fn with_declared_names(&self, input: Map<String, Value>) -> Map<String, Value> {
        let mut declared = self.in_another_case(&input);
        if declared.is_empty() {
            return input;
        }
        let renamed = input
            .into_iter()
            .map(|(name, value)| (declared.remove(&name).unwrap_or(name), value));
        renamed.collect()
    }

    /// The same, with the types that are declared, where a value fits.
    pub(super) fn given_inputs(&self, input: Map<String, Value>) -> Map<String, Value> {
        let mut input = self.with_declared_names(input);
        for argument in &self.inputs {
            if let Some(value) = input.get_mut(&argument.name)
                && let Ok(fits) = coerce(value.clone(), &TypeName::parse(&argument.type_name, argument.is_array))
            {
                *value = fits;
            }
        }
        input
    }

    /// The inputs that are given, converted to their types, and the defaults of the others.
    ///
    /// # Errors
    /// Names the first input whose value cannot be converted.
    pub(super) fn complete_input(&self, input: Map<String, Value>) -> std::result::Result<Map<String, Value>, Fault> {
        let mut input = self.with_declared_names(input);
        for argument in &self.inputs {
            let given = input.get(&argument.name).cloned();
            let is_given = given.as_ref().is_some_and(|value| !value.is_null());
            let Some(value) = given.or_else(|| argument.default.clone()) else {
                continue;
            };
            let to = TypeName::parse(&argument.type_name, argument.is_array);
            let converted = match coerce(value.clone(), &to) {
                Ok(converted) => converted,
                Err(mismatch) if is_given => {
                    let message = format!(
                        "The input {} of the workflow {} has a wrong value: {mismatch}; give it another one, or declare the \
                         input with another type",
                        argument.name, self.definition_id
                    );
                    return Err(Fault::new(message).code("invalid-input"));
                }
                Err(_) => value,
            };
            input.insert(argument.name.clone(), converted);
        }
        Ok(input)
    }
}

/// Why a value from outside does not fit the declared type; `None` when it fits or is absent.
pub(super) fn mismatch(value: Option<&Value>, (type_name, is_array): (&str, bool)) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let mismatch = coerce(value.clone(), &TypeName::parse(type_name, is_array)).err()?;
    let list = if is_array { "[]" } else { "" };
    Some(format!("{mismatch}; the type is {type_name}{list}"))
}
