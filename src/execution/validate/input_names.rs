//! Inputs whose name the activity type does not describe, and required inputs that are missing.
//!
//! A custom type that describes inputs has no other properties than those and [`COMMON`]. Elsa's types have other
//! inputs in other releases, whose definitions must still be published: for them only a name that is similar to a
//! missing input is refused.

use crate::activity::{ActivityNode, Descriptor, InputDescriptor, camel_case, is_elsa_type};
use crate::definition::{Problems, ValidationError};
use crate::execution::bindings::property;
use crate::schedule::similar_names;

/// The properties that any activity may have in Elsa's JSON, over its releases.
const COMMON: [&str; 26] = [
    "activities",
    "applicationProperties",
    "canStartWorkflow",
    "commitStrategy",
    "connections",
    "customProperties",
    "description",
    "displayName",
    "displayText",
    "id",
    "line",
    "logPersistenceConfig",
    "logPersistenceMode",
    "mergeMode",
    "metadata",
    "name",
    "nodeId",
    "notes",
    "resilienceStrategy",
    "runAsynchronously",
    "source",
    "start",
    "synthetic",
    "systemProperties",
    "type",
    "variables",
];

pub(super) fn check(node: &ActivityNode, descriptor: &Descriptor, errors: &mut Problems) {
    // The inputs of a workflow as an activity may have changed since its consumer was written: what it lacks is ignored.
    if descriptor.inputs.is_empty() || node.property("workflowDefinitionId").is_some_and(|id| id.is_string()) {
        return;
    }
    let is_given = |input: &&InputDescriptor| property(&node.properties, &input.name).is_some_and(|it| !it.is_null());
    let missing: Vec<&InputDescriptor> = descriptor.inputs.iter().filter(|input| !is_given(input)).collect();
    for (name, value) in &node.properties {
        if value.is_null() || name == "version" || name.starts_with('$') || COMMON.contains(&name.as_str()) {
            continue;
        }
        if !is_described(descriptor, name) {
            report_unknown(node, descriptor, name, &missing, errors);
        }
    }
    for input in missing
        .iter()
        .filter(|input| input.is_required && input.default.is_none())
    {
        let message = format!(
            "The activity {} requires the input {}, which is missing",
            node.title(),
            camel_case(&input.name)
        );
        errors.push(ValidationError::of(&node.id, message));
    }
}

fn is_described(descriptor: &Descriptor, name: &str) -> bool {
    let inputs = descriptor.inputs.iter().map(|input| &input.name);
    let outputs = descriptor.outputs.iter().map(|output| &output.name);
    let mut names = inputs.chain(outputs).chain(&descriptor.ports);
    names.any(|described| described == name || camel_case(described) == name)
}

fn report_unknown(
    node: &ActivityNode,
    descriptor: &Descriptor,
    name: &str,
    missing: &[&InputDescriptor],
    errors: &mut Problems,
) {
    let near = similar_names(name, missing.iter().map(|input| camel_case(&input.name)));
    let hint = match near.first() {
        Some(meant) => format!("did you mean {meant}?"),
        None if is_elsa_type(&node.type_name) => return,
        None => {
            let all: Vec<String> = descriptor.inputs.iter().map(|input| camel_case(&input.name)).collect();
            format!("it has {}", all.join(", "))
        }
    };
    let message = format!("The activity {} has no input {name}; {hint}", node.title());
    errors.push(ValidationError::of(&node.id, message));
}
