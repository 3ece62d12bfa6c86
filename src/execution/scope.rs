//! Variables as an execution sees them: its own, then those of what it is a part of.

use serde_json::{Map, Value};

use super::program::Program;
use super::state::InstanceState;
use crate::definition::Variable;
use crate::expression::{TypeName, coerce};

/// Where a variable lives.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place<'p> {
    /// The execution that holds it.
    pub(super) context: u64,
    pub(super) name: String,
    /// How it was declared; those of loops are not.
    pub(super) declared: Option<&'p Variable>,
}

/// Finds a variable by its id or, failing that, its name; the innermost wins.
pub(super) fn find<'p>(program: &'p Program, state: &InstanceState, from: u64, key: &str) -> Option<Place<'p>> {
    let chain = state.chain(from);
    for number in &chain {
        if let Some(declared) = declared(program, state, *number)
            .iter()
            .find(|variable| variable.id == key)
        {
            return Some(Place {
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
    Some(Place {
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
    let place = find(program, state, from, key)?;
    state.contexts.get(&place.context)?.variables.get(&place.name).cloned()
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

/// The values that declared variables begin with.
pub(super) fn defaults(variables: &[Variable]) -> Map<String, Value> {
    let begin = |variable: &Variable| {
        let value = variable.default.clone().unwrap_or_default();
        (variable.name.clone(), fit(value, Some(variable)))
    };
    variables.iter().map(begin).collect()
}

/// Converts a value to the declared type of its variable. One that does not fit is kept as it is: Elsa's variables
/// take what they are given, and definitions rely on it.
pub(super) fn fit(value: Value, declared: Option<&Variable>) -> Value {
    let Some(variable) = declared else { return value };
    let to = TypeName::parse(&variable.type_name, variable.is_array);
    coerce(value.clone(), &to).unwrap_or(value)
}
