//! The variables that an execution sees: its own, then those of its ancestors.

use serde_json::{Map, Value};

use super::program::Program;
use super::state::InstanceState;
use crate::definition::Variable;
use crate::expression::{TypeName, coerce};

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
    let chain = state.chain(from);
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
pub(super) fn visible(state: &InstanceState, from: u64) -> Map<String, Value> {
    let mut all = Map::new();
    for number in state.chain(from).into_iter().rev() {
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

/// The initial values of declared variables.
pub(super) fn defaults(variables: &[Variable]) -> Map<String, Value> {
    let begin = |variable: &Variable| {
        let value = variable.default.clone().unwrap_or_default();
        (variable.name.clone(), convert(value, Some(variable)))
    };
    variables.iter().map(begin).collect()
}

/// Converts a value to the declared type of its variable. A value that does not fit is kept unchanged: Elsa's variables
/// accept any value, and definitions rely on it. A value of an undeclared variable is unchanged.
pub(super) fn convert(value: Value, declared: Option<&Variable>) -> Value {
    let Some(variable) = declared else { return value };
    let to = TypeName::parse(&variable.type_name, variable.is_array);
    coerce(value.clone(), &to).unwrap_or(value)
}
