//! Whether a definition has the structure that compiling expects: other content would be ignored without an error.

use std::collections::HashSet;
use std::io;

use serde_json::{Map, Value};

use crate::activity::{Catalogue, camel_case};
use crate::definition::{RawActivity, ValidationError, WorkflowDefinition, unknown_strategy};
use crate::expression::EXPRESSION_TYPES;

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
            "The activation strategy {name} is unknown; use AllowAlwaysStrategy, SingletonStrategy, \
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
                format!("The value of the {what} {name} is an expression of type {kind}, which is not supported");
            errors.push(ValidationError::of(owner, message));
        }
    }
}

/// An activity and its children. JSON is at most 128 levels deep, so this may recurse.
fn activity(catalogue: &Catalogue, value: &Value, path: &str, errors: &mut Vec<ValidationError>) {
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
                format!("The mode {mode} of the activity {id} is unknown; use WaitAll, WaitAllActive or WaitAny");
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

/// A list of objects, if there is one; anything else is an error.
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
            EXPRESSION_TYPES.map(|known| known.name).join(", ")
        );
        errors.push(ValidationError::of(id, message));
    }
}

/// A value for a message, cut to [`MAX_SHOWN`] bytes.
fn short(value: &Value) -> String {
    let mut writer = BoundedWriter(Vec::new());
    // Serialization stops after enough bytes: the value may be most of a definition, at each level.
    let is_cut = serde_json::to_writer(&mut writer, value).is_err();
    let text = String::from_utf8_lossy(&writer.0);
    let end = (0..=text.len().min(MAX_SHOWN))
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
const MAX_SHOWN: usize = 40;

/// Keeps the beginning of a text, a few bytes more than are shown.
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let left = MAX_SHOWN + 4 - self.0.len().min(MAX_SHOWN + 4);
        self.0.extend(piece.iter().take(left));
        if self.0.len() > MAX_SHOWN {
            return Err(io::Error::other("the text is cut"));
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
        let mut writer = BoundedWriter(Vec::new());
        assert!(serde_json::to_writer(&mut writer, &vec!["long"; 100_000]).is_err());
        assert!(writer.0.len() <= MAX_SHOWN + 4);
    }
}
