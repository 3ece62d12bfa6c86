//! The inputs with which an instance starts: checked for the one who asks for the start, and converted by its first burst.

use serde_json::{Map, Value};

use super::program::Program;
use crate::activity::{Fault, NodeIndex};
use crate::expression::{TypeName, coerce};
use crate::id::ActivityId;

impl Program {
    /// The errors of a start with this input and trigger: the fields, each with its message.
    pub fn start_errors(&self, input: &Map<String, Value>, trigger: Option<&ActivityId>) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for argument in &self.inputs {
            let Some(value) = input.get(&argument.name).filter(|value| !value.is_null()) else {
                continue;
            };
            if let Err(mismatch) = coerce(value.clone(), &TypeName::parse(&argument.type_name, argument.is_array)) {
                problems.push((format!("input.{}", argument.name), mismatch.to_string()));
            }
        }
        if let Some(trigger) = trigger
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

    /// The inputs that are given, converted to their types, and the defaults of the others.
    ///
    /// # Errors
    /// Names the first input whose value cannot be converted.
    pub(super) fn complete_input(
        &self,
        mut input: Map<String, Value>,
    ) -> std::result::Result<Map<String, Value>, Fault> {
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
