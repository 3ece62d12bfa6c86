//! The variables that an execution sees: its own, then those of its ancestors, up to its workflow. A workflow as an
//! activity sees no variable of its consumer, only its own inputs.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::program::Program;
use super::state::InstanceState;
use crate::activity::{ActivityNode, NodeIndex, plain_name};
use crate::definition::Variable;
use crate::expression::{DeclaredKind, TypeName, coerce};

/// Where a variable is stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VariableLocation<'p> {
    /// The execution that holds it.
    pub(super) context: u64,
    pub(super) name: String,
    /// Its declaration; variables of loops have none.
    pub(super) declared: Option<&'p Variable>,
}

/// Finds the innermost variable with this id or, if there is none, with this name.
pub(super) fn find<'p>(
    program: &'p Program,
    state: &InstanceState,
    from: u64,
    key: &str,
) -> Option<VariableLocation<'p>> {
    let chain = chain(program, state, from);
    for number in &chain {
        if let Some(declared) = declared(program, state, *number)
            .iter()
            .find(|variable| variable.id == key)
        {
            return Some(VariableLocation {
                context: *number,
                name: declared.name.clone(),
                declared: Some(declared),
            });
        }
    }
    let number = chain.into_iter().find(|number| {
        state
            .contexts
            .get(number)
            .is_some_and(|context| context.variables.contains_key(key))
    })?;
    Some(VariableLocation {
        context: number,
        name: key.to_owned(),
        declared: declared(program, state, number)
            .iter()
            .find(|variable| variable.name == key),
    })
}

/// An execution and its ancestors, innermost first, up to the workflow that it is in.
pub(super) fn chain(program: &Program, state: &InstanceState, from: u64) -> Vec<u64> {
    let mut chain = state.chain(from);
    let is_workflow = |number: &u64| {
        let context = state.contexts.get(number);
        let node = context.and_then(|context| program.tree.find(&context.node_id));
        node.is_some_and(ActivityNode::is_workflow)
    };
    if let Some(end) = chain.iter().position(is_workflow) {
        chain.truncate(end + 1);
    }
    chain
}

/// The execution of the workflow that an execution is in.
pub(super) fn workflow(program: &Program, state: &InstanceState, from: u64) -> Option<u64> {
    chain(program, state, from).last().copied()
}

/// The execution of the workflow as an activity that an execution is in; `None` when it is in the workflow of the
/// instance.
pub(super) fn nested_in(program: &Program, state: &InstanceState, from: u64) -> Option<u64> {
    let workflow = workflow(program, state, from)?;
    state.contexts.get(&workflow)?.parent
}

/// The first node of the workflow that an execution is in.
pub(super) fn workflow_node(program: &Program, state: &InstanceState, from: u64) -> NodeIndex {
    let context = workflow(program, state, from).and_then(|number| state.contexts.get(&number));
    let node = context.and_then(|context| program.tree.find(&context.node_id));
    node.map_or(NodeIndex(0), |node| node.workflow)
}

/// The activities of the definition that an execution is in: ids and names are those of one definition.
pub(super) fn written_beside<'p>(
    program: &'p Program,
    state: &InstanceState,
    from: u64,
) -> impl Iterator<Item = &'p ActivityNode> + use<'p> {
    program.tree.of_workflow(workflow_node(program, state, from))
}

/// The inputs of the workflow that an execution is in.
pub(super) fn inputs<'s>(program: &Program, state: &'s InstanceState, from: u64) -> Cow<'s, Map<String, Value>> {
    let workflow = workflow(program, state, from).and_then(|number| state.contexts.get(&number));
    let activity = workflow.and_then(|workflow| state.contexts.get(&workflow.parent?));
    let (Some(workflow), Some(activity)) = (workflow, activity) else {
        return Cow::Borrowed(&state.input);
    };
    let given = activity.inputs.iter();
    let given = given.map(|(property, value)| (plain_name(property).to_owned(), value.clone()));
    // Those of a request that resumed it are newer.
    let resumed = workflow
        .inputs
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    Cow::Owned(given.chain(resumed).collect())
}

fn declared<'p>(program: &'p Program, state: &InstanceState, number: u64) -> &'p [Variable] {
    let node = state
        .contexts
        .get(&number)
        .and_then(|context| program.tree.find(&context.node_id));
    node.map(|node| node.variables.as_slice()).unwrap_or_default()
}

/// The value of a variable.
pub(super) fn read(program: &Program, state: &InstanceState, from: u64, key: &str) -> Option<Value> {
    let location = find(program, state, from, key)?;
    state
        .contexts
        .get(&location.context)?
        .variables
        .get(&location.name)
        .cloned()
}

/// All visible variables by name.
pub(super) fn visible(program: &Program, state: &InstanceState, from: u64) -> Map<String, Value> {
    let mut all = Map::new();
    for number in chain(program, state, from).into_iter().rev() {
        if let Some(context) = state.contexts.get(&number) {
            all.extend(
                context
                    .variables
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
        }
    }
    all
}

/// The visible variables whose declared type makes more than text of their texts, innermost first.
pub(super) fn kinds(program: &Program, state: &InstanceState, from: u64) -> Vec<(String, (DeclaredKind, bool))> {
    let mut kinds = Vec::new();
    let chain = chain(program, state, from);
    for (depth, number) in chain.iter().enumerate() {
        for variable in declared(program, state, *number) {
            let Some(kind) = DeclaredKind::of(&variable.type_name, variable.is_array) else {
                continue;
            };
            let mut inner = chain.iter().take(depth).filter_map(|number| state.contexts.get(number));
            if !inner.any(|context| context.variables.contains_key(&variable.name)) {
                kinds.push((variable.name.clone(), kind));
            }
        }
    }
    kinds
}

/// The initial values of declared variables.
pub(super) fn defaults<'v>(variables: impl IntoIterator<Item = &'v Variable>) -> Map<String, Value> {
    let begin = |variable: &Variable| {
        let value = variable.default.clone().unwrap_or_default();
        (variable.name.clone(), convert(value, Some(variable)))
    };
    variables.into_iter().map(begin).collect()
}

/// Converts a value that was checked before to the declared type of its variable. One that does not fit is kept unchanged:
/// the value of a definition, or of an instance, of an earlier version. A value of an undeclared variable is unchanged.
pub(super) fn convert(value: Value, declared: Option<&Variable>) -> Value {
    let Some(variable) = declared else { return value };
    let to = TypeName::parse(&variable.type_name, variable.is_array);
    coerce(value.clone(), &to).unwrap_or(value)
}
