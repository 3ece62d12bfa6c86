//! The variables of the workflow itself, as they are read and set from outside between two bursts.

use serde_json::Value;

use super::program::Program;
use super::scope;
use super::start_input::mismatch;
use super::state::InstanceState;
use crate::definition::Variable;

/// A variable of the workflow with its present value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkflowVariable {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// Why variables cannot be set.
#[derive(Debug)]
pub(crate) enum VariableProblem {
    /// The definition does not declare these ids.
    Unknown(Vec<String>),
    /// Values do not fit: each variable, and why.
    Mismatch(Vec<(String, String)>),
}

impl InstanceState {
    /// The variables that the definition declares for the workflow, in its order; with their defaults before the first burst.
    pub(crate) fn workflow_variables(&self, program: &Program) -> Vec<WorkflowVariable> {
        let root = self.root().and_then(|number| self.contexts.get(&number));
        let defaults = scope::defaults(declared(program));
        let value = |variable: &Variable| {
            let kept = root.and_then(|root| root.variables.get(&variable.name));
            kept.or_else(|| defaults.get(&variable.name))
                .cloned()
                .unwrap_or_default()
        };
        let shown = declared(program).iter().map(|variable| WorkflowVariable {
            id: variable.id.clone(),
            name: variable.name.clone(),
            value: value(variable),
        });
        shown.collect()
    }

    /// Sets variables of the workflow by their ids, each converted to its type.
    ///
    /// # Errors
    /// The ids that the definition does not declare, or the problems of values that do not fit; nothing is set then.
    pub(crate) fn set_workflow_variables(
        &mut self,
        program: &Program,
        values: &[(String, Value)],
    ) -> Result<(), VariableProblem> {
        let find = |id: &str| declared(program).iter().find(|variable| variable.id == id);
        let unknown: Vec<String> = values
            .iter()
            .filter(|(id, _)| find(id).is_none())
            .map(|(id, _)| id.clone())
            .collect();
        if !unknown.is_empty() {
            return Err(VariableProblem::Unknown(unknown));
        }
        let problems = values.iter().filter_map(|(id, value)| {
            let variable = find(id)?;
            let problem = mismatch(Some(value), (&variable.type_name, variable.is_array))?;
            Some((variable.name.clone(), problem))
        });
        let problems: Vec<(String, String)> = problems.collect();
        if !problems.is_empty() {
            return Err(VariableProblem::Mismatch(problems));
        }
        let root = self.root().and_then(|number| self.contexts.get_mut(&number));
        let Some(root) = root else { return Ok(()) };
        self.alterations += 1;
        let left = self.queue.iter_mut().filter_map(|item| item.cause.as_mut());
        left.for_each(|cause| *cause = cause.after(self.alterations));
        for (id, value) in values {
            if let Some(variable) = find(id) {
                let value = scope::convert(value.clone(), Some(variable));
                root.variables.insert(variable.name.clone(), value);
            }
        }
        Ok(())
    }
}

/// The variables of the first node of the tree: the workflow.
fn declared(program: &Program) -> &[Variable] {
    let workflow = program.tree.iter().next();
    workflow.map(|node| node.variables.as_slice()).unwrap_or_default()
}
