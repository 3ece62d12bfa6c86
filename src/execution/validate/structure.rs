//! Whether a definition has the structure that compiling expects: other content would be ignored without an error.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::shown::short;
use super::{control_flow, names, state_machine};
use crate::activity::{
    ACTIVITIES, CASE_ACTIVITY, CASES, Catalogue, EXPECTED_STATUS_CODES, ItemChildren, TRANSITIONS, camel_case,
    case_condition, transition_condition,
};
use crate::definition::{ActivityTitle, Problems, RawActivity, ValidationError, WorkflowDefinition, unknown_strategy};
use crate::expression::runnable_types;

pub(super) fn check(catalogue: &Catalogue, definition: &WorkflowDefinition, errors: &mut Problems) {
    activation(definition, errors);
    let are_properties = definition.is_usable_as_activity();
    declarations("variable", "", &definition.variables, false, errors);
    declarations("input", "", &definition.inputs, are_properties, errors);
    declarations("output", "", &definition.outputs, are_properties, errors);
    if let Some(root) = &definition.root {
        activity(catalogue, root, "root", errors);
    }
}

fn activation(definition: &WorkflowDefinition, errors: &mut Problems) {
    if let Some(name) = unknown_strategy(definition) {
        let message = format!(
            "The activation strategy {name} is unknown; use AllowAlwaysStrategy, SingletonStrategy, \
             CorrelatedSingletonStrategy or CorrelationStrategy"
        );
        errors.push(ValidationError::of("", message));
    }
}

/// Variables, inputs and outputs: objects with a name each. The key of an error is as in the answer to a start:
/// `variables.Total`, or `variables[2]` for what has no name. Inputs and outputs of a workflow as an activity are properties,
/// which have any case.
fn declarations(what: &str, owner: &str, entries: &[Value], are_properties: bool, errors: &mut Problems) {
    let (mut names, mut properties) = (HashSet::new(), HashSet::new());
    for (number, entry) in entries.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.trim().is_empty() {
            let message = format!(
                "A {what} is declared as {}; it must be an object with a name",
                short(entry)
            );
            errors.push(ValidationError::of(owner, message).of_field(format!("{what}s[{number}]")));
            continue;
        }
        let report = |message: String| ValidationError::of(owner, message).of_field(format!("{what}s.{name}"));
        // No instance keeps the names of outputs.
        let too_long = names::declared(what, name).filter(|_| what != "output");
        errors.extend(too_long.map(report));
        let is_new_property = !are_properties || properties.insert(name.to_lowercase());
        if !names.insert(name) {
            errors.push(report(format!("The {what} {name} is declared twice")));
        } else if !is_new_property {
            errors.push(report(format!(
                "The {what} {name} is declared twice, the other time in another case: an activity has one property for both; \
                 give one of them another name"
            )));
        }
        let kind = entry
            .get("value")
            .and_then(|value| value.get("type"))
            .and_then(Value::as_str);
        if let Some(kind) = kind.filter(|kind| *kind == "Python") {
            let message =
                format!("The value of the {what} {name} is an expression of type {kind}, which is not supported");
            errors.push(report(message));
        }
    }
}

/// An activity and its children. JSON is at most 128 levels deep, so this may recurse.
fn activity(catalogue: &Catalogue, value: &Value, path: &str, errors: &mut Problems) {
    if errors.is_full() {
        return;
    }
    let Value::Object(fields) = value else {
        errors.push(ValidationError::of(
            path,
            format!("{path} is {}; it must be an activity", short(value)),
        ));
        return;
    };
    let id = match fields.get("id") {
        None | Some(Value::Null) => path,
        Some(Value::String(id)) => id,
        Some(other) => {
            errors.push(ValidationError::of(
                path,
                format!("The id of an activity in {path} is {other}; it must be text"),
            ));
            path
        }
    };
    let whose = ActivityTitle::of(RawActivity::over(fields), id);
    children(catalogue, fields, ACTIVITIES, whose, errors);
    match fields.get("variables") {
        Some(Value::Array(entries)) => declarations("variable", id, entries, false, errors),
        _ => drop(objects(fields, "variables", whose, errors)),
    }
    objects(fields, "connections", whose, errors);
    let Some(type_name) = fields.get("type").and_then(Value::as_str) else {
        return;
    };
    let version = RawActivity::new(value).and_then(|raw| raw.named_version());
    let Some(descriptor) = catalogue.descriptor(type_name, version.unwrap_or(0)) else {
        return;
    };
    for port in &descriptor.ports {
        if let Some(child) = fields.get(&camel_case(port)).filter(|child| !child.is_null()) {
            activity(catalogue, child, &format!("{id}.{}", camel_case(port)), errors);
        }
    }
    for list in &descriptor.lists {
        children(catalogue, fields, &camel_case(list), whose, errors);
    }
    if descriptor.has_cases {
        cases(catalogue, fields, whose, errors);
    }
    for children in &descriptor.item_children {
        items(catalogue, fields, *children, whose, errors);
    }
    if descriptor.type_name == "Elsa.StateMachine" {
        state_machine::check(fields, whose, errors);
    }
    control_flow::check(descriptor, fields, whose, errors);
    for input in descriptor.inputs.iter().filter(|input| !input.is_raw) {
        let given = fields.get(&camel_case(&input.name)).and_then(Value::as_object);
        if let Some(expression) = given.and_then(|given| given.get("expression")) {
            expressions(&input.name, expression, whose, errors);
        }
    }
}

/// The activities in a list.
fn children(
    catalogue: &Catalogue,
    fields: &Map<String, Value>,
    property: &str,
    whose: ActivityTitle<'_>,
    errors: &mut Problems,
) {
    let Some(entries) = objects(fields, property, whose, errors) else {
        return;
    };
    for (number, child) in entries.iter().enumerate().filter(|(_, child)| child.is_object()) {
        activity(
            catalogue,
            child,
            &format!("{}.{property}[{number}]", whose.id()),
            errors,
        );
    }
}

/// The conditions and the activities in the cases of a switch.
fn cases(catalogue: &Catalogue, fields: &Map<String, Value>, whose: ActivityTitle<'_>, errors: &mut Problems) {
    let Some(entries) = objects(fields, CASES, whose, errors) else {
        return;
    };
    for (number, case) in entries.iter().enumerate() {
        if let Some(condition @ Value::Object(_)) = case.get("condition") {
            expressions(&case_condition(number), condition, whose, errors);
        }
        if let Some(child) = case.get(CASE_ACTIVITY).filter(|child| !child.is_null()) {
            activity(
                catalogue,
                child,
                &format!("{}.{CASES}[{number}].{CASE_ACTIVITY}", whose.id()),
                errors,
            );
        }
    }
}

/// The conditions and the activities in the items of a list.
fn items(
    catalogue: &Catalogue,
    fields: &Map<String, Value>,
    (property, names): ItemChildren,
    whose: ActivityTitle<'_>,
    errors: &mut Problems,
) {
    let Some(entries) = objects(fields, property, whose, errors) else {
        return;
    };
    for (number, entry) in entries.iter().enumerate() {
        let condition = entry.get("condition").filter(|_| property == TRANSITIONS);
        if let Some(expression) = condition.and_then(|condition| condition.get("expression")) {
            expressions(&transition_condition(number), expression, whose, errors);
        }
        if property == EXPECTED_STATUS_CODES && entry.is_object() {
            status_code(number, entry.get("statusCode"), whose, errors);
        }
        for name in names {
            if let Some(child) = entry.get(name).filter(|child| !child.is_null()) {
                activity(
                    catalogue,
                    child,
                    &format!("{}.{property}[{number}].{name}", whose.id()),
                    errors,
                );
            }
        }
    }
}

/// The code of a case of a request: a number, also as text.
fn status_code(number: usize, given: Option<&Value>, whose: ActivityTitle<'_>, errors: &mut Problems) {
    let given = given.unwrap_or(&Value::Null);
    let code = given.as_u64().or_else(|| given.as_str()?.trim().parse().ok());
    if !code.is_some_and(|code| (100..=599).contains(&code)) {
        let message = format!(
            "{EXPECTED_STATUS_CODES}[{number}].statusCode of the activity {whose} is {}; it must be a number from 100 to 599",
            short(given)
        );
        errors.push(ValidationError::of(whose.id(), message));
    }
}

/// A list of objects, if there is one; anything else is an error.
fn objects<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
    whose: ActivityTitle<'_>,
    errors: &mut Problems,
) -> Option<&'a [Value]> {
    match fields.get(name)? {
        Value::Null => None,
        Value::Array(entries) => {
            for (number, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_object()) {
                let message = format!(
                    "{name}[{number}] of the activity {whose} is {}; it must be an object",
                    short(entry)
                );
                errors.push(ValidationError::of(whose.id(), message));
            }
            Some(entries)
        }
        other => {
            errors.push(ValidationError::of(
                whose.id(),
                format!("{name} of the activity {whose} is {}; it must be a list", short(other)),
            ));
            None
        }
    }
}

fn expressions(input: &str, expression: &Value, whose: ActivityTitle<'_>, errors: &mut Problems) {
    let kind = match expression {
        Value::Null => return,
        Value::Object(fields) => fields.get("type"),
        other => {
            let message = format!(
                "The expression of the input {input} of the activity {whose} is {}; it must be an object \
                                   {{type, value}}",
                short(other)
            );
            errors.push(ValidationError::of(whose.id(), message));
            return;
        }
    };
    if kind.is_some_and(|kind| !kind.is_string() && !kind.is_null()) {
        let message = format!(
            "The expression of the input {input} of the activity {whose} has no type; use one of {}",
            runnable_types()
        );
        errors.push(ValidationError::of(whose.id(), message));
    }
}
