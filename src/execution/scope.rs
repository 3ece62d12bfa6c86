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
use crate::expression::{DeclaredKind, TypeName, coerce, input_named};

/// Where a variable is stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VariableLocation<'p> {
    /// The execution that holds it.
    pub(super) context: u64,
    pub(super) name: String,
    /// Its declaration; variables of loops have none.
    pub(super) declared: Option<&'p Variable>,
}

/// An execution whose names an execution inside it sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    number: u64,
    /// How many borders between a workflow and its use as an activity lie between it and the execution that reads. The use is
    /// between two of them: its inputs and outputs are variables.
    borders: usize,
    /// The workflow as an activity that it executes, with the node of the use.
    used: Option<(u64, NodeIndex)>,
    /// Whether its variables have the result of the child instance that a port of a bulk dispatch is about.
    has_child_result: bool,
}

impl Level {
    fn context<'s>(&self, state: &'s InstanceState) -> Option<&'s Context> {
        state.contexts.get(&self.number)
    }

    /// Whether it executes a workflow as an activity.
    pub(super) fn is_use(&self) -> bool {
        self.used.is_some()
    }

    /// The value of a variable that it holds.
    pub(super) fn variable<'s>(&self, program: &Program, state: &'s InstanceState, name: &str) -> Option<&'s Value> {
        let context = self.context(state)?;
        let own = context.variables.get(name);
        let Some((_, node)) = self.used else { return own };
        let mut inputs = context.inputs.iter();
        own.or_else(|| Some(inputs.find(|(property, _)| plain_name(property) == name)?.1))
            .or_else(|| {
                outputs(program, node)
                    .any(|output| output == name)
                    .then_some(&Value::Null)
            })
    }

    /// The variables that it holds.
    fn variables<'s>(
        &self,
        program: &'s Program,
        state: &'s InstanceState,
    ) -> impl Iterator<Item = (&'s str, &'s Value)> {
        let context = self.context(state);
        let used = context.filter(|_| self.used.is_some());
        let inputs = used.into_iter().flat_map(|context| &context.inputs);
        let inputs = inputs.map(|(property, value)| (plain_name(property), value));
        let outputs = self.used.into_iter().flat_map(|(_, node)| outputs(program, node));
        let outputs = outputs.map(|name| (name, &Value::Null));
        let own = context.into_iter().flat_map(|context| &context.variables);
        outputs
            .chain(inputs)
            .chain(own.map(|(name, value)| (name.as_str(), value)))
    }

    /// The inputs that it gives to what is inside it, the newest last.
    fn inputs<'s>(&self, state: &'s InstanceState) -> impl Iterator<Item = (&'s str, &'s Value)> {
        let context = self.context(state);
        let result = context.filter(|_| self.has_child_result);
        let result = result.into_iter().flat_map(|context| &context.variables);
        let result = result.map(|(name, value)| (name.as_str(), value));
        let result = result.filter(|(name, _)| CHILD_RESULT.contains(name));
        let given = context.filter(|_| self.used.is_some()).into_iter();
        let given = given.flat_map(|context| {
            context.inputs.iter().map(|(property, value)| {
                let name = plain_name(property);
                (name, context.variables.get(name).unwrap_or(value))
            })
        });
        let workflow = self.used.and_then(|(workflow, _)| state.contexts.get(&workflow));
        let resumed = workflow.into_iter().flat_map(|workflow| &workflow.inputs);
        let resumed = resumed.map(|(name, value)| (name.as_str(), value));
        result.chain(given).chain(resumed)
    }
}

/// The names of the inputs and outputs of an execution that is a workflow as an activity, but those that what is around it
/// gives: they are variables of the execution, too.
pub(super) fn own_names_of_use<'p>(program: &'p Program, state: &InstanceState, number: u64) -> HashSet<&'p str> {
    let descriptor_of = |context: &Context| program.descriptor(program.tree.find(&context.node_id)?.index);
    let Some(context) = state.contexts.get(&number) else {
        return HashSet::new();
    };
    let node = program.tree.find(&context.node_id);
    let mut children = node.into_iter().flat_map(|node| &node.ports);
    let is_use = children.any(|(_, child)| program.tree.get(*child).is_some_and(ActivityNode::is_workflow));
    let Some(descriptor) = descriptor_of(context).filter(|_| is_use) else {
        return HashSet::new();
    };
    let around = context.parent.and_then(|parent| state.contexts.get(&parent));
    let given = around.and_then(descriptor_of).map(|around| &*around.child_variables);
    let is_given = |name: &str| given.unwrap_or_default().iter().any(|(given, _)| given == name);
    let inputs = descriptor.inputs.iter().map(|input| plain_name(&input.name));
    let outputs = descriptor.outputs.iter().map(|output| plain_name(&output.name));
    inputs.chain(outputs).filter(|name| !is_given(name)).collect()
}

/// The names of the outputs of a workflow as an activity.
fn outputs(program: &Program, node: NodeIndex) -> impl Iterator<Item = &str> {
    let descriptor = program.descriptor(node).into_iter();
    let outputs = descriptor.flat_map(|descriptor| &descriptor.outputs);
    outputs.map(|output| plain_name(&output.name))
}

/// An execution and its ancestors up to the workflow of the instance, innermost first.
pub(super) fn levels(program: &Program, state: &InstanceState, from: u64) -> Vec<Level> {
    let (mut borders, mut inside): (usize, Option<u64>) = (0, None);
    let mut levels: Vec<Level> = Vec::new();
    for number in state.chain(from) {
        let context = state.contexts.get(&number);
        let node = context.and_then(|context| program.tree.find(&context.node_id));
        let workflow = inside.take();
        let used = workflow.and_then(|workflow| Some((workflow, node?.index)));
        let is_behind_use = levels.last().is_some_and(|level| level.used.is_some());
        borders += usize::from(used.is_some() || is_behind_use);
        if node.is_some_and(|node| node.type_name == BULK_DISPATCH)
            && let Some(child) = levels.last_mut()
        {
            child.has_child_result = true;
        }
        levels.push(Level {
            number,
            borders,
            used,
            has_child_result: false,
        });
        inside = node.is_some_and(ActivityNode::is_workflow).then_some(number);
    }
    levels
}

/// Finds the innermost variable with this id or, if there is none, with this name; those of the workflow that the execution
/// is in before those of its use and of its consumers.
pub(super) fn find<'p>(
    program: &'p Program,
    state: &InstanceState,
    from: u64,
    key: &str,
) -> Option<VariableLocation<'p>> {
    find_among(&levels(program, state, from), program, state, key)
}

/// The same among levels that are known.
pub(super) fn find_among<'p>(
    levels: &[Level],
    program: &'p Program,
    state: &InstanceState,
    key: &str,
) -> Option<VariableLocation<'p>> {
    let mut workflows = levels.chunk_by(|inner, outer| inner.borders == outer.borders);
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
    levels.retain(|level| level.borders == 0);
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
    let mut levels = levels.iter();
    let level = levels.find(|level| level.variable(program, state, key).is_some())?;
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
pub(super) fn inputs<'s>(levels: &[Level], state: &'s InstanceState) -> Cow<'s, Map<String, Value>> {
    if levels.iter().all(|level| level.inputs(state).next().is_none()) {
        return Cow::Borrowed(&state.input);
    }
    // An inner name covers an outer one in any case.
    let (mut all, mut covered) = (Map::new(), HashSet::new());
    let mut add = |inputs: &mut dyn Iterator<Item = (&str, &Value)>| {
        let mut names = Vec::new();
        for (name, value) in inputs {
            let key = name.to_ascii_lowercase();
            if !covered.contains(&key) {
                all.insert(name.to_owned(), value.clone());
                names.push(key);
            }
        }
        covered.extend(names);
    };
    for level in levels {
        add(&mut level.inputs(state));
    }
    add(&mut state.input.iter().map(|(name, value)| (name.as_str(), value)));
    Cow::Owned(all)
}

/// One of them, under its name or else without case.
pub(super) fn input<'s>(levels: &[Level], state: &'s InstanceState, name: &str) -> Option<&'s Value> {
    let given = levels.iter().find_map(|level| {
        let named = |is_meant: &dyn Fn(&str) -> bool| level.inputs(state).filter(|(name, _)| is_meant(name)).last();
        named(&|given| given == name).or_else(|| named(&|given| given.eq_ignore_ascii_case(name)))
    });
    let of_instance = || input_named(&state.input, name).map(|(_, value)| value);
    given.map(|(_, value)| value).or_else(of_instance)
}

/// The names, in lower case, of the inputs that activities around an execution give.
pub(super) fn inputs_from_inside(levels: &[Level], state: &InstanceState) -> HashSet<String> {
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
    let levels = levels(program, state, from);
    let location = find_among(&levels, program, state, key)?;
    let level = levels.iter().find(|level| level.number == location.context)?;
    level.variable(program, state, &location.name).cloned()
}

/// All visible variables by name.
pub(super) fn visible(levels: &[Level], program: &Program, state: &InstanceState) -> Map<String, Value> {
    let mut all = Map::new();
    for level in levels.iter().rev() {
        let variables = level.variables(program, state);
        all.extend(variables.map(|(name, value)| (name.to_owned(), value.clone())));
    }
    all
}

/// The visible variables whose declared type makes more than text of their texts, innermost first.
pub(super) fn kinds(levels: &[Level], program: &Program, state: &InstanceState) -> Vec<(String, (DeclaredKind, bool))> {
    let kind_of = |variable: &Variable| DeclaredKind::of(&variable.type_name, variable.is_array);
    let typed = |level: &Level| {
        declared(program, state, level.number)
            .iter()
            .any(|it| kind_of(it).is_some())
    };
    let Some(last) = levels.iter().rposition(typed) else {
        return Vec::new();
    };
    let (mut kinds, mut inner) = (Vec::new(), HashSet::new());
    for level in levels.iter().take(last + 1) {
        for variable in declared(program, state, level.number) {
            if let Some(kind) = kind_of(variable).filter(|_| !inner.contains(variable.name.as_str())) {
                kinds.push((variable.name.clone(), kind));
            }
        }
        inner.extend(level.variables(program, state).map(|(name, _)| name));
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
