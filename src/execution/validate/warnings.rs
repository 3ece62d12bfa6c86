//! What a published definition does although its author hardly intends it. It runs as in Elsa, so a publish only warns.

use std::collections::HashMap;

use serde_json::Value;

use super::shown::short;
use super::unknown_names::UnknownNames;
use super::{flow_connections, quartz_cron, secrets, state_machine};
use crate::activity::{ActivityNode, CASES, FlowchartMode, MergeMode, NodeIndex};
use crate::definition::{Argument, InputBinding, Problems, ValidationError, WorkflowDefinition};
use crate::execution::program::Program;

pub(super) fn of(program: &Program, definition: &WorkflowDefinition) -> Vec<ValidationError> {
    let mut warnings = Problems::default();
    let mode = definition.custom_properties.get(FlowchartMode::PROPERTY);
    if let Some(mode) = mode.filter(|mode| !mode.is_null() && !FlowchartMode::is_known(mode)) {
        let message = format!(
            "The custom property {} is {}, which is unknown, so flowcharts run as the server is set; use {}",
            FlowchartMode::PROPERTY,
            short(mode),
            FlowchartMode::NAMES.join(", ")
        );
        warnings.push(ValidationError::of("", message));
    }
    let name = |argument: Argument| argument.name;
    let inputs: Vec<String> = definition.declared_inputs().into_iter().map(name).collect();
    let outputs: Vec<String> = definition.declared_outputs().into_iter().map(name).collect();
    same_but_for_case("input", "", inputs.iter(), &mut warnings);
    same_but_for_case("output", "", outputs.iter(), &mut warnings);
    let unknown = UnknownNames::of(program, definition);
    for node in program.tree.iter().filter(|node| node.is_own()) {
        if warnings.is_full() {
            break;
        }
        let owner = if node.index == NodeIndex(0) { "" } else { &node.id };
        let variables = node.variables.iter().map(|variable| &variable.name);
        same_but_for_case("variable", owner, variables, &mut warnings);
        warnings.extend(merge_mode(node));
        warnings.extend(branches(node));
        warnings.extend(secrets::stored(node));
        warnings.extend(quartz_cron::warn(node));
        warnings.extend(without_effect(node));
        flow_connections::warn(program, node, &mut warnings);
        unknown.warn(node, &mut warnings);
        if node.type_name == "Elsa.StateMachine" {
            state_machine::warn(node, &mut warnings);
        }
    }
    shadowed(program, &mut warnings);
    warnings.into_list()
}

/// What is declared under names that differ in case only: people take them for one. JavaScript's `getX()` finds the first
/// variable, and a start may give an input in any case.
fn same_but_for_case<'n>(what: &str, owner: &str, names: impl Iterator<Item = &'n String>, warnings: &mut Problems) {
    let mut first: HashMap<String, &str> = HashMap::new();
    for name in names {
        if let Some(other) = first.insert(name.to_lowercase(), name) {
            let rule = match what {
                "input" => ", and a value is given to the one that has its name exactly, if there is one",
                _ => "",
            };
            let message = format!(
                "The {what}s {other} and {name} differ in case only{rule}; give one of them another name if that is not meant"
            );
            let field = format!("{what}s.{name}");
            warnings.push(ValidationError::of(owner, message).of_field(field));
        }
    }
}

/// What the walk through the activities does next.
enum Visit {
    Enter(NodeIndex),
    Leave(NodeIndex),
}

/// Variables that have the name of an outer one, which the activities inside do not see.
fn shadowed<'p>(program: &'p Program, warnings: &mut Problems) {
    let mut in_scope: HashMap<&'p str, Vec<&'p ActivityNode>> = HashMap::new();
    let mut pending = vec![Visit::Enter(NodeIndex(0))];
    while let Some(visit) = pending.pop().filter(|_| !warnings.is_full()) {
        match visit {
            Visit::Enter(index) => {
                let Some(node) = program.tree.get(index).filter(|node| node.is_own()) else {
                    continue;
                };
                pending.push(Visit::Leave(index));
                for variable in &node.variables {
                    let owners = in_scope.entry(&variable.name).or_default();
                    if let Some(outer) = owners.last().filter(|outer| outer.index != index) {
                        let owner = match outer.index {
                            NodeIndex(0) => "the workflow".to_owned(),
                            _ => outer.title().with_id().to_string(),
                        };
                        let message = format!(
                            "The variable {} of the activity {} has the name of a variable of {owner}, which nothing inside {} \
                             can read or set by that name; give one of them another name if that is not meant",
                            variable.name,
                            node.title(),
                            node.title().without_type()
                        );
                        let field = format!("variables.{}", variable.name);
                        warnings.push(ValidationError::of(&node.id, message).of_field(field));
                    }
                    owners.push(node);
                }
                let ports = node.ports.iter().map(|(_, child)| *child);
                pending.extend(ports.chain(node.activities.iter().copied()).map(Visit::Enter));
            }
            Visit::Leave(index) => {
                let variables = program.tree.get(index).map(|node| &node.variables);
                for variable in variables.into_iter().flatten() {
                    if let Some(owners) = in_scope.get_mut(variable.name.as_str()) {
                        owners.pop();
                    }
                }
            }
        }
    }
}

/// What a publish of Elsa accepts, too, and what does nothing or something else here.
fn without_effect(node: &ActivityNode) -> Option<ValidationError> {
    let title = node.title();
    let is_given = |property: &str| node.property(property).is_some_and(|value| !value.is_null());
    let names_variable = || {
        let names = |key: &str| node.property("variable").and_then(|variable| variable.get(key));
        node.property("variable").is_some_and(Value::is_string) || ["id", "name"].iter().any(|key| names(key).is_some())
    };
    let custom = node.property("customProperties").and_then(Value::as_object);
    let mut custom = custom.into_iter().flatten();
    let is_background = custom.any(|(name, value)| name.eq_ignore_ascii_case("runAsynchronously") && *value == true);
    let message = match node.type_name.as_str() {
        "Elsa.Switch" | "Elsa.FlowSwitch"
            if node.property(CASES).and_then(Value::as_array).is_none_or(Vec::is_empty) =>
        {
            format!(
                "The activity {title} has no cases, so it goes on as if none matched; add one to its property cases, or remove it"
            )
        }
        "Elsa.Delay" if node.can_start => format!(
            "The activity {title} is to start the workflow (canStartWorkflow), but as in Elsa a delay only waits and starts \
             nothing; use Elsa.Timer or Elsa.StartAt for that"
        ),
        "Elsa.SetVariable" if !is_given("variable") || !names_variable() => {
            format!(
                "The activity {title} names no variable, so it sets nothing; choose one in its property variable, or remove it"
            )
        }
        _ if is_background => format!(
            "The activity {title} is to run in the background (runAsynchronously), which has no effect here: the workflow goes on \
             when it has ended; start a workflow by Elsa.DispatchWorkflow for what is not to be waited for"
        ),
        _ => return None,
    };
    Some(ValidationError::of(&node.id, message))
}

fn merge_mode(node: &ActivityNode) -> Option<ValidationError> {
    let mode = node.property("customProperties")?.get(MergeMode::PROPERTY)?;
    let message = format!(
        "The {} of the activity {} is {}, which is unknown, so it behaves as Stream; use {}",
        MergeMode::PROPERTY,
        node.title(),
        short(mode),
        MergeMode::NAMES.join(", ")
    );
    (!mode.is_null() && !MergeMode::is_known(mode)).then(|| ValidationError::of(&node.id, message))
}

fn branches(node: &ActivityNode) -> Option<ValidationError> {
    let message = match node.type_name.as_str() {
        "Elsa.Fork" if node.activities.is_empty() => format!(
            "The fork {} has no branches, so it completes at once; add an activity to its property branches, or remove it",
            node.title()
        ),
        "Elsa.FlowFork" if has_no_outcomes(node) => format!(
            "The fork {} has no branches, so nothing after it runs; name an outcome in its input branches, or remove it",
            node.title()
        ),
        _ => return None,
    };
    Some(ValidationError::of(&node.id, message))
}

/// Whether the literal value of `branches` is an empty list.
fn has_no_outcomes(node: &ActivityNode) -> bool {
    let expression = InputBinding::parse(node.property("branches")).and_then(|binding| binding.expression);
    expression.is_some_and(|expression| match &expression.value {
        Value::Array(outcomes) => outcomes.is_empty(),
        Value::String(text) if expression.kind == "Object" => {
            serde_json::from_str(text).is_ok_and(|outcomes: Vec<Value>| outcomes.is_empty())
        }
        _ => false,
    })
}
