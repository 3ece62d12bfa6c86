//! The validation of a definition before it is published.
//!
//! A draft may be anything that parses; a published definition must be able to run. Each error names the activity and
//! the remedy. `warnings` does not keep a definition from being published.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::activity::{ActivityNode, Catalogue};
use crate::definition::{Problems, ValidationError, Variable, WorkflowDefinition};
use crate::execution::bounds::activity_timeout_error;
use crate::execution::evaluate::{named, object};
use crate::execution::id_bounds::short as short_id;
use crate::execution::incident_strategy::{unknown_activity_strategy, unknown_strategy};
use crate::execution::log_persistence::foreign_expressions;
use crate::execution::node_id::WORKFLOW_ID;
use crate::execution::program::Program;
use crate::execution::scripts::script_of;
use crate::expression::{TypeName, coerce, is_runnable, missing_language, script_languages, secret_name_problem};

mod control_flow;
mod converters;
mod flow_connections;
mod guards;
mod input_names;
mod names;
mod quartz_cron;
mod remedies;
mod secrets;
mod shown;
mod state_machine;
mod structure;
mod unknown_names;
mod warnings;

use converters::Targets;
use guards::Guards;

/// What keeps a definition from being published, with the program that was compiled from it.
pub(super) fn validate(
    catalogue: &Catalogue,
    definition: &WorkflowDefinition,
    program: &Program,
) -> Vec<ValidationError> {
    let mut errors = Problems::default();
    structure::check(catalogue, definition, &mut errors);
    persistence("", Some(&definition.custom_properties), &mut errors);
    errors.extend(unknown_strategy(definition).map(|problem| ValidationError::of("", problem)));
    identities(program, &mut errors);
    let targets = Targets::of(program);
    let guards = Guards::of(catalogue, program);
    for node in program.tree.iter().filter(|node| node.is_own()) {
        if errors.is_full() {
            break;
        }
        variables(node, &mut errors);
        let Some(descriptor) = program.descriptor(node.index) else {
            errors.push(ValidationError::of(
                &node.id,
                unknown_workflow(node).unwrap_or_else(|| unknown_type(catalogue, node)),
            ));
            continue;
        };
        input_names::check(node, descriptor, &mut errors);
        names::check(node, &mut errors);
        errors.extend(activity_timeout_error(node).map(|problem| ValidationError::of(&node.id, problem)));
        errors.extend(unknown_activity_strategy(node).map(|problem| ValidationError::of(&node.id, problem)));
        guards.check(node, &mut errors);
        scripts(program, node, &mut errors);
        let known = inputs(node, &mut errors);
        if let Some(activity) = program.activity(node.index) {
            errors.extend(activity.input_problems(&known).into_iter().map(|problem| {
                let message = format!("The activity {} cannot be used: {problem}", node.title());
                ValidationError::of(&node.id, message)
            }));
        }
        converters::check(catalogue, &targets, node, &mut errors);
        let custom = node.property("customProperties").and_then(Value::as_object);
        persistence(&node.id, custom, &mut errors);
    }
    errors.into_list()
}

/// The warnings about a definition that can be published.
pub(super) fn warnings(program: &Program, definition: &WorkflowDefinition) -> Vec<ValidationError> {
    warnings::of(program, definition)
}

/// The problem of an activity that uses a definition without a version that can be used.
fn unknown_workflow(node: &ActivityNode) -> Option<String> {
    let definition = node.property("workflowDefinitionId")?.as_str()?;
    Some(format!(
        "The activity {} uses a workflow as an activity that does not exist, or is not usable as one: its property \
         workflowDefinitionId is {definition}; import and publish that definition with usableAsActivity among its options, \
         or choose another one",
        node.title()
    ))
}

fn unknown_type(catalogue: &Catalogue, node: &ActivityNode) -> String {
    let title = node.title().without_type();
    if let Some(problem) = missing_language(&node.type_name) {
        return format!("The activity {title} is of the type {}: {problem}", node.type_name);
    }
    let versions: Vec<String> = catalogue.versions(&node.type_name).iter().map(i32::to_string).collect();
    if let Some(remedy) = remedies::remedy(&node.type_name).filter(|_| versions.is_empty()) {
        return format!(
            "The activity {title} is of the type {}, which is not supported: {remedy}",
            node.type_name
        );
    }
    if let Some(module) = remedies::module(&node.type_name).filter(|_| versions.is_empty()) {
        return format!(
            "The activity {title} is of the type {}, which is not supported: it is from Elsa's extension module {module}; let a \
             program do it as an Elsa.RunTask, or register an activity of a program",
            node.type_name
        );
    }
    let known = match (node.type_name.as_str(), versions.as_slice()) {
        ("", _) => "it has no type".to_owned(),
        (name, []) => name.to_owned(),
        (name, versions) => {
            return format!(
                "The activity {title} is of the type {name} in version {}, which is unknown; known is {}",
                node.version,
                versions.join(", ")
            );
        }
    };
    format!("The activity {title} is of an unknown type: {known}")
}

fn persistence(owner: &str, settings: Option<&Map<String, Value>>, errors: &mut Problems) {
    for (place, kind) in settings.map(foreign_expressions).unwrap_or_default() {
        let message = format!(
            "The log persistence of {place} is an expression of type {kind}, which is not supported; use a strategy, or a \
             literal Include, Exclude or Inherit"
        );
        errors.push(ValidationError::of(owner, message));
    }
}

fn identities(program: &Program, errors: &mut Problems) {
    let mut seen: HashMap<&str, (usize, &ActivityNode)> = HashMap::new();
    for node in program.tree.iter().filter(|node| node.is_own()) {
        let (count, first) = seen.entry(&node.id).or_insert((0, node));
        *count += 1;
        if *count == 2 {
            errors.push(ValidationError::of(
                &node.id,
                format!(
                    "The id {} is used by more than one activity, {} and {}; each needs an id of its own",
                    short_id(&node.id),
                    first.title(),
                    node.title()
                ),
            ));
        }
    }
    let mut places: HashMap<&str, &ActivityNode> = HashMap::new();
    for node in program.tree.iter() {
        let Some(first) = places.insert(&node.node_id, node).filter(|first| first.id != node.id) else {
            continue;
        };
        let around = |node: &ActivityNode| {
            node.node_id
                .strip_suffix(&node.id)
                .unwrap_or_default()
                .trim_end_matches(':')
                .to_owned()
        };
        errors.push(ValidationError::of(
            &node.id,
            format!(
                "Two activities have the node id {}, as ids within ids are joined by colons: {} in {}, and {} in {}; give one of \
                 them an id without a colon",
                node.node_id,
                first.title().with_id(),
                around(first),
                node.title().with_id(),
                around(node)
            ),
        ));
    }
}

fn variables(node: &ActivityNode, errors: &mut Problems) {
    let owner = if node.id == WORKFLOW_ID { "" } else { &node.id };
    for variable in &node.variables {
        if errors.is_full() {
            return;
        }
        let Variable {
            name,
            type_name,
            is_array,
            default: Some(value),
            ..
        } = variable
        else {
            continue;
        };
        if let Err(mismatch) = coerce(value.clone(), &TypeName::parse(type_name, *is_array)) {
            let message = format!("The value of the variable {name} is invalid: {mismatch}");
            errors.push(ValidationError::of(owner, message).of_field(format!("variables.{name}")));
        }
    }
}

/// The problems of literal inputs. Returns the values that are known: those of literals, and those without an expression.
fn inputs(node: &ActivityNode, errors: &mut Problems) -> Map<String, Value> {
    let mut known = Map::new();
    for input in &node.inputs {
        if errors.is_full() {
            return known;
        }
        let Some(expression) = &input.expression else {
            if input.memory_reference.is_none() {
                known.insert(input.name.clone(), input.default.clone().unwrap_or_default());
            }
            continue;
        };
        let value = match expression.kind.as_str() {
            "Literal" => Ok(expression.value.clone()),
            "Object" => object(&expression.value, &input.convert_to).map_err(|fault| fault.message),
            kind @ ("Configuration" | "Secret") => match named(expression).map_err(|fault| fault.message) {
                Ok(name) if kind == "Secret" => match secret_name_problem(&name) {
                    Some(problem) => Err(problem),
                    None => continue,
                },
                Ok(_) => continue,
                Err(problem) => Err(problem),
            },
            kind if is_runnable(kind) => continue,
            kind => {
                let problem = missing_language(kind).map_or_else(
                    || format!("which is not supported; use {} instead", script_languages()),
                    |problem| format!("and {problem}"),
                );
                let message = format!(
                    "The input {} of the activity {} is an expression of type {kind}, {problem}",
                    input.name,
                    node.title()
                );
                errors.push(ValidationError::of(&node.id, message));
                continue;
            }
        };
        let value = value.and_then(|value| coerce(value, &input.convert_to).map_err(|mismatch| mismatch.to_string()));
        match value {
            Ok(value) => drop(known.insert(input.name.clone(), value)),
            Err(problem) => errors.push(ValidationError::of(
                &node.id,
                format!(
                    "The input {} of the activity {} is invalid: {problem}",
                    input.name,
                    node.title()
                ),
            )),
        }
    }
    known
}

/// The problems of scripts, each with its place.
fn scripts(program: &Program, node: &ActivityNode, errors: &mut Problems) {
    for input in &node.inputs {
        if errors.is_full() {
            return;
        }
        let Some((language, script)) = script_of(&node.type_name, input) else {
            continue;
        };
        let compiled = program.scripts.find(node.workflow, language.name(), script);
        let checked = match compiled {
            Some(Err(problem)) => Err(problem.clone()),
            _ => language.check(script.text),
        };
        if let Err(problem) = checked {
            let message = format!(
                "The input {} of the activity {}{}: {problem}",
                input.name,
                node.title(),
                language.facts().refusal
            );
            errors.push(ValidationError::of(&node.id, message));
        }
    }
}
