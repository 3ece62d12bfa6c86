//! What an execution sees by name: variables, its own and then those of its ancestors up to the workflow of the instance, and
//! inputs. As in Elsa, a workflow as an activity sees the variables of its consumer, its inputs are variables, too, and the
//! inputs of the instance are visible behind its own.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::program::Program;
use super::state::{Context, InstanceState};
use crate::activity::{ActivityNode, BULK_DISPATCH, CHILD_RESULT, NodeIndex, plain_name};
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

/// What an execution gives to what is inside it, besides its variables.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Given {
    Nothing,
    /// The inputs of a workflow as an activity, with those of a request that has resumed an execution inside it.
    Inputs {
        workflow: u64,
    },
    /// The result of the child instance that a port of a bulk dispatch is about.
    ChildResult,
}

/// An execution whose names an execution inside it sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    number: u64,
    /// The number of workflows as activities between it and the execution that looks.
    outside: usize,
    given: Given,
}

impl Level {
    fn context<'s>(&self, state: &'s InstanceState) -> Option<&'s Context> {
        state.contexts.get(&self.number)
    }

    /// The value of a variable that it holds.
    pub(super) fn variable<'s>(&self, state: &'s InstanceState, name: &str) -> Option<&'s Value> {
        let context = self.context(state)?;
        let own = context.variables.get(name);
        match self.given {
            Given::Inputs { .. } => own.or_else(|| {
                let mut inputs = context.inputs.iter();
                inputs
                    .find(|(property, _)| plain_name(property) == name)
                    .map(|(_, value)| value)
            }),
            Given::Nothing | Given::ChildResult => own,
        }
    }

    /// The variables that it holds.
    fn variables<'s>(&self, state: &'s InstanceState) -> impl Iterator<Item = (&'s str, &'s Value)> {
        let context = self.context(state);
        let is_use = matches!(self.given, Given::Inputs { .. });
        let inputs = context
            .filter(|_| is_use)
            .into_iter()
            .flat_map(|context| &context.inputs);
        let inputs = inputs.map(|(property, value)| (plain_name(property), value));
        let own = context.into_iter().flat_map(|context| &context.variables);
        inputs.chain(own.map(|(name, value)| (name.as_str(), value)))
    }

    /// The inputs that it gives to what is inside it, the newest last.
    fn inputs<'s>(&self, state: &'s InstanceState) -> Vec<(&'s str, &'s Value)> {
        let Some(context) = self.context(state) else {
            return Vec::new();
        };
        match self.given {
            Given::Nothing => Vec::new(),
            Given::ChildResult => {
                let own = context.variables.iter().map(|(name, value)| (name.as_str(), value));
                own.filter(|(name, _)| CHILD_RESULT.contains(name)).collect()
            }
            Given::Inputs { workflow } => {
                let resumed = state.contexts.get(&workflow);
                let resumed = resumed.into_iter().flat_map(|workflow| &workflow.inputs);
                let given = context.inputs.iter().map(|(property, value)| {
                    let name = plain_name(property);
                    (name, context.variables.get(name).unwrap_or(value))
                });
                given
                    .chain(resumed.map(|(name, value)| (name.as_str(), value)))
                    .collect()
            }
        }
    }
}

/// An execution and its ancestors up to the workflow of the instance, innermost first.
pub(super) fn levels(program: &Program, state: &InstanceState, from: u64) -> Vec<Level> {
    let (mut outside, mut inner): (usize, Option<(u64, bool)>) = (0, None);
    let mut levels: Vec<Level> = Vec::new();
    for number in state.chain(from) {
        let context = state.contexts.get(&number);
        let node = context.and_then(|context| program.tree.find(&context.node_id));
        let mut given = Given::Nothing;
        if let Some((workflow, true)) = inner {
            outside += 1;
            given = Given::Inputs { workflow };
        }
        if node.is_some_and(|node| node.type_name == BULK_DISPATCH)
            && let Some(child) = levels.last_mut().filter(|child| child.given == Given::Nothing)
        {
            child.given = Given::ChildResult;
        }
        levels.push(Level { number, outside, given });
        inner = Some((number, node.is_some_and(ActivityNode::is_workflow)));
    }
    levels
}

/// Finds the innermost variable with this id or, if there is none, with this name; those of the workflow that the execution
/// is in before those of its consumers.
pub(super) fn find<'p>(
    program: &'p Program,
    state: &InstanceState,
    from: u64,
    key: &str,
) -> Option<VariableLocation<'p>> {
    let levels = levels(program, state, from);
    let mut workflows = levels.chunk_by(|inner, outer| inner.outside == outer.outside);
    workflows.find_map(|levels| find_in(levels, program, state, key))
}

/// The same of the workflow that the execution is in alone.
pub(super) fn find_beside<'p>(
    program: &'p Program,
    state: &InstanceState,
    from: u64,
    key: &str,
) -> Option<VariableLocation<'p>> {
    let mut levels = levels(program, state, from);
    levels.retain(|level| level.outside == 0);
    find_in(&levels, program, state, key)
}

fn find_in<'p>(
    levels: &[Level],
    program: &'p Program,
    state: &InstanceState,
    key: &str,
) -> Option<VariableLocation<'p>> {
    let by_id = levels.iter().find_map(|level| {
        let mut declared = declared(program, state, level.number).iter();
        Some((level.number, declared.find(|variable| variable.id == key)?))
    });
    if let Some((context, declared)) = by_id {
        return Some(VariableLocation {
            context,
            name: declared.name.clone(),
            declared: Some(declared),
        });
    }
    let level = levels.iter().find(|level| level.variable(state, key).is_some())?;
    let mut declared = declared(program, state, level.number).iter();
    Some(VariableLocation {
        context: level.number,
        name: key.to_owned(),
        declared: declared.find(|variable| variable.name == key),
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

/// The inputs that an execution sees: those of the instance, and before them those of the workflows as activities and of
/// the ports of bulk dispatches around it, the innermost first.
pub(super) fn inputs<'s>(program: &Program, state: &'s InstanceState, from: u64) -> Cow<'s, Map<String, Value>> {
    let mut all = Cow::Borrowed(&state.input);
    for level in levels(program, state, from).iter().rev() {
        for (name, value) in level.inputs(state) {
            all.to_mut().insert(name.to_owned(), value.clone());
        }
    }
    all
}

/// The names, in lower case, of the inputs that an execution sees and that activities around it give.
pub(super) fn inputs_from_inside(program: &Program, state: &InstanceState, from: u64) -> HashSet<String> {
    let levels = levels(program, state, from);
    let given = levels.iter().flat_map(|level| level.inputs(state));
    given.map(|(name, _)| name.to_ascii_lowercase()).collect()
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
    let levels = levels(program, state, from);
    let level = levels.iter().find(|level| level.number == location.context)?;
    level.variable(state, &location.name).cloned()
}

/// All visible variables by name.
pub(super) fn visible(program: &Program, state: &InstanceState, from: u64) -> Map<String, Value> {
    let mut all = Map::new();
    for level in levels(program, state, from).iter().rev() {
        let variables = level.variables(state);
        all.extend(variables.map(|(name, value)| (name.to_owned(), value.clone())));
    }
    all
}

/// The visible variables whose declared type makes more than text of their texts, innermost first.
pub(super) fn kinds(program: &Program, state: &InstanceState, from: u64) -> Vec<(String, (DeclaredKind, bool))> {
    let mut kinds = Vec::new();
    let levels = levels(program, state, from);
    for (depth, level) in levels.iter().enumerate() {
        for variable in declared(program, state, level.number) {
            let Some(kind) = DeclaredKind::of(&variable.type_name, variable.is_array) else {
                continue;
            };
            let mut inner = levels.iter().take(depth);
            if !inner.any(|level| level.variable(state, &variable.name).is_some()) {
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
