//! Whether a definition has the shape that compiling reads: what has another one would be left out without a word.
//!
//! A draft may look like anything; these are complaints of a publish.

use std::collections::HashSet;
use std::io;

use serde_json::{Map, Value};

use super::evaluate::RUNNABLE;
use crate::activity::{Catalogue, camel_case};
use crate::definition::{RawActivity, ValidationError, WorkflowDefinition, unknown_strategy};

pub(super) fn check(catalogue: &Catalogue, definition: &WorkflowDefinition, errors: &mut Vec<ValidationError>) {
    activation(definition, errors);
    declarations("variable", "", &definition.variables, errors);
    declarations("input", "", &definition.inputs, errors);
    declarations("output", "", &definition.outputs, errors);
    if let Some(root) = &definition.root {
        activity(catalogue, root, "root", errors);
    }
}

fn activation(definition: &WorkflowDefinition, errors: &mut Vec<ValidationError>) {
    if let Some(name) = unknown_strategy(definition) {
        let message = format!(
            "The activation strategy {name} is not known; use AllowAlwaysStrategy, SingletonStrategy, \
             CorrelatedSingletonStrategy or CorrelationStrategy"
        );
        errors.push(ValidationError::of("", message));
    }
}

/// Variables, inputs and outputs: objects with a name each.
fn declarations(what: &str, owner: &str, entries: &[Value], errors: &mut Vec<ValidationError>) {
    let mut names = HashSet::new();
    for entry in entries {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.trim().is_empty() {
            let message = format!(
                "A {what} is declared as {}; it must be an object with a name",
                short(entry)
            );
            errors.push(ValidationError::of(owner, message));
            continue;
        }
        if !names.insert(name.to_lowercase()) {
            errors.push(ValidationError::of(
                owner,
                format!("The {what} {name} is declared twice"),
            ));
        }
        let kind = entry
            .get("value")
            .and_then(|value| value.get("type"))
            .and_then(Value::as_str);
        if let Some(kind) = kind.filter(|kind| ["CSharp", "Python", "Liquid"].contains(kind)) {
            let message =
                format!("The value of the {what} {name} is an expression of type {kind}, which cannot run here");
            errors.push(ValidationError::of(owner, message));
        }
    }
}

/// An activity and what it holds. JSON is at most 128 levels deep, so this may recurse.
fn activity(catalogue: &Catalogue, value: &Value, place: &str, errors: &mut Vec<ValidationError>) {
    let Value::Object(fields) = value else {
        errors.push(ValidationError::of(
            place,
            format!("{place} holds {} where an activity must be", short(value)),
        ));
        return;
    };
    let id = match fields.get("id") {
        None | Some(Value::Null) => place,
        Some(Value::String(id)) => id,
        Some(other) => {
            errors.push(ValidationError::of(
                place,
                format!("The id of an activity in {place} is {other}; it must be text"),
            ));
            place
        }
    };
    children(catalogue, fields, id, errors);
    for name in ["variables", "connections"] {
        let Some(entries) = objects(fields, name, id, errors) else {
            continue;
        };
        if name == "variables" {
            declarations("variable", id, entries, errors);
        }
    }
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
    for input in descriptor.inputs.iter().filter(|input| !input.is_raw) {
        let given = fields.get(&camel_case(&input.name)).and_then(Value::as_object);
        if let Some(expression) = given.and_then(|given| given.get("expression")) {
            expressions(&input.name, expression, id, errors);
        }
    }
    if type_name == "Elsa.SetVariable" {
        let names = |variable: &Value| {
            ["id", "name"]
                .iter()
                .any(|key| variable.get(key).is_some_and(Value::is_string))
        };
        if !fields.get("variable").is_some_and(names) {
            errors.push(ValidationError::of(
                id,
                format!("The activity {id} names no variable to set"),
            ));
        }
    }
    if type_name == "Elsa.FlowJoin" {
        let mode = fields.get("mode").and_then(|mode| mode.get("expression"));
        let literal = mode.filter(|mode| mode.get("type").and_then(Value::as_str) == Some("Literal"));
        let known = ["WaitAll", "WaitAllActive", "WaitAny"];
        if let Some(mode) = literal.and_then(|mode| mode.get("value")).and_then(Value::as_str)
            && !known.iter().any(|known| known.eq_ignore_ascii_case(mode))
        {
            let message =
                format!("The mode {mode} of the activity {id} is not known; use WaitAll, WaitAllActive or WaitAny");
            errors.push(ValidationError::of(id, message));
        }
    }
}

fn children(catalogue: &Catalogue, fields: &Map<String, Value>, id: &str, errors: &mut Vec<ValidationError>) {
    let Some(entries) = objects(fields, "activities", id, errors) else {
        return;
    };
    for (number, child) in entries.iter().enumerate().filter(|(_, child)| child.is_object()) {
        activity(catalogue, child, &format!("{id}.activities[{number}]"), errors);
    }
}

/// A list of objects, if there is one; complains about anything else.
fn objects<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
    id: &str,
    errors: &mut Vec<ValidationError>,
) -> Option<&'a [Value]> {
    match fields.get(name)? {
        Value::Null => None,
        Value::Array(entries) => {
            for (number, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_object()) {
                let message = format!(
                    "{name}[{number}] of the activity {id} is {}; it must be an object",
                    short(entry)
                );
                errors.push(ValidationError::of(id, message));
            }
            Some(entries)
        }
        other => {
            errors.push(ValidationError::of(
                id,
                format!("{name} of the activity {id} is {}; it must be a list", short(other)),
            ));
            None
        }
    }
}

fn expressions(input: &str, expression: &Value, id: &str, errors: &mut Vec<ValidationError>) {
    let kind = match expression {
        Value::Null => return,
        Value::Object(fields) => fields.get("type"),
        other => {
            let message = format!(
                "The expression of the input {input} of the activity {id} is {}; it must be an object \
                                   {{type, value}}",
                short(other)
            );
            errors.push(ValidationError::of(id, message));
            return;
        }
    };
    if kind.is_some_and(|kind| !kind.is_string() && !kind.is_null()) {
        let message = format!(
            "The expression of the input {input} of the activity {id} has no type; use one of {}",
            RUNNABLE.join(", ")
        );
        errors.push(ValidationError::of(id, message));
    }
}

/// A value for a message.
fn short(value: &Value) -> String {
    let mut start = Start(Vec::new());
    // It ends with an error as soon as there is enough: what stands here may be most of a definition, at each level.
    let is_cut = serde_json::to_writer(&mut start, value).is_err();
    let text = String::from_utf8_lossy(&start.0);
    let end = (0..=text.len().min(SHOWN))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let shown = text.get(..end.unwrap_or(0)).unwrap_or_default();
    if is_cut {
        format!("{shown}…")
    } else {
        shown.to_owned()
    }
}

/// How many bytes of a value a message shows.
const SHOWN: usize = 40;

/// The beginning of a text, and no more than a piece beyond what is shown.
struct Start(Vec<u8>);

impl io::Write for Start {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = SHOWN + 4 - self.0.len().min(SHOWN + 4);
        self.0.extend(piece.iter().take(room));
        if self.0.len() > SHOWN {
            return Err(io::Error::other("that is enough"));
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_beginning_of_a_value_is_shown() {
        assert_eq!(short(&json!([1, "a"])), r#"[1,"a"]"#);
        assert_eq!(short(&json!("x".repeat(38))), format!("\"{}\"", "x".repeat(38)));
        assert_eq!(short(&json!("x".repeat(39))), format!("\"{}…", "x".repeat(39)));
        assert_eq!(short(&json!("é".repeat(30))), format!("\"{}…", "é".repeat(19)));
        let mut start = Start(Vec::new());
        assert!(serde_json::to_writer(&mut start, &vec!["long"; 100_000]).is_err());
        assert!(start.0.len() <= SHOWN + 4);
    }
}
