//! The inputs and variables with which an instance starts. They are checked before the start is accepted, and its first
//! burst converts them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::program::Program;
use crate::activity::{Fault, NodeIndex};
use crate::definition::Argument;
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
}

impl Program {
    /// The errors of a start with these values: the fields, each with its message.
    pub(crate) fn start_errors(&self, values: StartValues<'_>) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let others = self.in_another_case(values.input);
        for argument in &self.inputs {
            let to = (argument.type_name.as_str(), argument.is_array);
            let name = others
                .get(argument.name.as_str())
                .map_or(argument.name.as_str(), String::as_str);
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
        if let Some(trigger) = values.trigger
            && !self
                .tree
                .of_workflow(NodeIndex(0))
                .any(|node| node.id == trigger.as_str())
        {
            let problem = format!("the workflow has no activity with the id {trigger}");
            problems.push(("triggerActivityId".to_owned(), problem));
        }
        problems
    }

    /// The declared inputs that are given under a name in another case, as Elsa takes them, with that name. A name that is declared
    /// itself is that of its own input.
    fn in_another_case(&self, input: &Map<String, Value>) -> HashMap<&str, String> {
        let is_missing = |argument: &&Argument| !input.contains_key(&argument.name);
        let missing: Vec<&Argument> = self.inputs.iter().filter(is_missing).collect();
        if missing.len() == self.inputs.len().saturating_sub(input.len()) || input.is_empty() {
            return HashMap::new();
        }
        let declared: HashSet<&str> = self.inputs.iter().map(|argument| argument.name.as_str()).collect();
        let others = input.keys().filter(|name| !declared.contains(name.as_str()));
        let mut others: HashMap<String, &String> = others.map(|name| (name.to_lowercase(), name)).collect();
        let found = missing.into_iter().filter_map(|argument| {
            let given = others.remove(&argument.name.to_lowercase())?;
            Some((argument.name.as_str(), given.clone()))
        });
        found.collect()
    }

    /// The inputs that are given, converted to their types, and the defaults of the others.
    ///
    /// # Errors
    /// Names the first input whose value cannot be converted.
    pub(super) fn complete_input(
        &self,
        mut input: Map<String, Value>,
    ) -> std::result::Result<Map<String, Value>, Fault> {
        for (declared, given) in self.in_another_case(&input) {
            if let Some(value) = input.shift_remove(&given) {
                input.insert(declared.to_owned(), value);
            }
        }
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
