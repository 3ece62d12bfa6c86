//! How a value becomes the body of a message, by its content type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::body_kind::media_type;
use super::file_value::FileValue;
use super::form::encode_pairs;
use super::header_fields::value_problem;
use super::media_types::is_active;
use crate::activity::{ActivityContext, ActivityNode, ActivityTree, Choice, UiHint};
use crate::expression::{TypeName, to_text};

/// The content types that a designer offers, as Elsa's writers name them.
pub(crate) const CONTENT_TYPES: [&str; 10] = [
    "application/json",
    "application/octet-stream",
    "application/soap+xml",
    "application/x-www-form-urlencoded",
    "application/xml",
    "text/html",
    "text/json",
    "text/plain",
    "text/richtext",
    "text/xml",
];

/// The control for a content type.
pub(crate) fn content_type_hint() -> UiHint {
    let choices = std::iter::once("").chain(CONTENT_TYPES);
    UiHint::Dropdown(choices.map(Choice::from).collect())
}

/// How a value is written under a content type that no writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmatched {
    /// As in Elsa's responses.
    Text,
    /// As in Elsa's requests.
    Json,
}

/// A body with its content type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenContent {
    /// Exactly as it was chosen.
    pub(crate) content_type: String,
    pub(crate) body: WrittenBody,
}

/// The bytes of a body, or the file that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrittenBody {
    Bytes(Vec<u8>),
    File(FileValue),
}

impl WrittenContent {
    /// Writes a value that is not null. Without a content type, bytes and files are octets or what the file says, unless a
    /// browser would run that, text is plain text, and anything else is JSON. Text is sent as it is, under each of these but octets, where it is Base64.
    /// Errors: the content type is none, or the value cannot be written under it.
    pub(crate) fn write(
        content: &Value,
        content_type: Option<&str>,
        is_bytes: bool,
        unmatched: Unmatched,
    ) -> Result<Self, String> {
        let chosen = content_type.map(str::trim).filter(|chosen| !chosen.is_empty());
        if let Some(chosen) = chosen {
            check_content_type(chosen)?;
        }
        if let Some(file) = FileValue::read(content) {
            let own = Some(file.content_type.as_str());
            let own = own.filter(|own| check_content_type(own).is_ok() && !is_active(own));
            return Ok(Self {
                content_type: chosen.or(own).unwrap_or("application/octet-stream").to_owned(),
                body: WrittenBody::File(file),
            });
        }
        let chosen = chosen.unwrap_or(match content {
            Value::String(_) if is_bytes => "application/octet-stream",
            Value::String(_) => "text/plain",
            _ => "application/json",
        });
        let bytes = match (media_type(chosen).as_str(), unmatched) {
            _ if is_bytes => octets(content)?,
            ("application/octet-stream", _) => octets(content)?,
            ("application/json" | "text/json", _) => json(content),
            ("application/x-www-form-urlencoded", _) => form(content)?,
            ("application/xml" | "text/xml" | "application/soap+xml", _) => xml(content)?,
            ("text/plain" | "text/richtext" | "text/html", _) | (_, Unmatched::Text) => text(content),
            (_, Unmatched::Json) => json(content),
        };
        Ok(Self {
            content_type: chosen.to_owned(),
            body: WrittenBody::Bytes(bytes),
        })
    }
}

/// Checks what is to be the value of `Content-Type`.
/// Errors: why it is none.
pub(crate) fn check_content_type(text: &str) -> Result<(), String> {
    if let Some(problem) = value_problem(text) {
        return Err(format!("the content type {problem}"));
    }
    let media_type = text.split(';').next().unwrap_or_default();
    let is_named = |part: &str| super::header_fields::is_token(part.trim());
    match media_type.split_once('/') {
        Some((kind, subtype)) if is_named(kind) && is_named(subtype) => Ok(()),
        _ => Err(format!("{text:?} is no content type; write it as application/json")),
    }
}

fn text(content: &Value) -> Vec<u8> {
    match content {
        Value::String(text) => text.clone().into_bytes(),
        other => to_text(other.clone()).into_bytes(),
    }
}

fn json(content: &Value) -> Vec<u8> {
    match content {
        Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

/// As in Elsa, XML is text that the workflow made: there is no one form of an object in it.
fn xml(content: &Value) -> Result<Vec<u8>, String> {
    match content {
        Value::Object(_) | Value::Array(_) => {
            Err("an object has no one form as XML; make the text in an expression, or use application/json".to_owned())
        }
        other => Ok(text(other)),
    }
}

/// Bytes are Base64 in a workflow.
pub(crate) fn octets(content: &Value) -> Result<Vec<u8>, String> {
    let read = match content {
        Value::String(text) => STANDARD.decode(text.trim()).ok(),
        Value::Array(items) => {
            let byte = |item: &Value| item.as_u64().and_then(|number| u8::try_from(number).ok());
            items.iter().map(byte).collect()
        }
        _ => None,
    };
    read.ok_or_else(|| {
        "the content is no bytes, which are Base64 in a workflow; use a text type for text, or a file".to_owned()
    })
}

fn form(content: &Value) -> Result<Vec<u8>, String> {
    let fields = match content {
        // A form that was encoded already.
        Value::String(text) if !text.trim_start().starts_with('{') => return Ok(text.clone().into_bytes()),
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    };
    let Value::Object(fields) = fields else {
        return Err("the content is no object whose fields a form can have; write {\"name\": \"value\"}".to_owned());
    };
    let mut pairs = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Array(values) => pairs.extend(values.into_iter().map(|value| (name.clone(), to_text(value)))),
            Value::Null => pairs.push((name, String::new())),
            value => pairs.push((name, to_text(value))),
        }
    }
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok(encode_pairs(pairs).into_bytes())
}

/// Whether an input reads a variable of bytes: its value is text, which says nothing of that.
pub(crate) fn reads_bytes(context: &ActivityContext<'_>, input: &str) -> bool {
    let (node, tree) = (context.node, context.tree);
    let Some(input) = node.inputs.iter().find(|it| it.name == input) else {
        return false;
    };
    let referred = match &input.expression {
        Some(expression) if expression.kind == "Variable" => match &expression.value {
            Value::String(name) => Some(name.as_str()),
            other => ["id", "name"].iter().find_map(|key| other.get(key)?.as_str()),
        },
        Some(_) => None,
        None => input.memory_reference.as_deref(),
    };
    referred.is_some_and(|referred| type_of_variable(node, tree, referred) == Some(TypeName::Bytes))
}

/// The type of the variable that the parsed content of a body is bound to.
pub(super) fn wanted_type(context: &ActivityContext<'_>) -> Option<TypeName> {
    let mut bound = context
        .node
        .outputs
        .iter()
        .filter(|output| output.name == "ParsedContent");
    let target = bound.next().map(|output| output.target.as_str())?;
    type_of_variable(context.node, context.tree, target)
}

/// The type of a variable that a node refers to by id or name.
pub(crate) fn type_of_variable(node: &ActivityNode, tree: &ActivityTree, referred: &str) -> Option<TypeName> {
    let nodes = tree.of_workflow(node.workflow);
    let mut variables = nodes.flat_map(|node| &node.variables);
    let found = variables.find(|variable| variable.id == referred || variable.name == referred)?;
    Some(TypeName::parse(&found.full_type_name(), false))
}
