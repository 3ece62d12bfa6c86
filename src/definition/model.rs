//! One version of a workflow definition, as Elsa's API and designer exchange it.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

use super::elsa2;
use super::json_limits::{JsonLimitError, MAX_DEPTH, check_json};
use super::kept::Admit;
use super::restore::restore;
use super::variable::{Argument, Variable};
use crate::id::{DefinitionId, VersionId};
use crate::{Error, Result};

const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// The largest version that is accepted. Versions increase by one, so this leaves room below the limit of an `i32`.
const MAX_VERSION: i32 = 1_000_000_000;

/// One version of a workflow definition.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowDefinition {
    /// The id of this version; empty if the server is to assign it.
    pub id: VersionId,
    /// The id that all versions share; empty if the server is to assign it.
    pub definition_id: DefinitionId,
    /// The number of the version, from 1; 0 if the server is to assign it.
    pub version: i32,
    /// The display name.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// Whether the sender considers it the latest version.
    pub is_latest: bool,
    /// Whether the sender considers it the published version.
    pub is_published: bool,
    /// Whether editing it is disabled.
    pub is_readonly: bool,
    /// Whether it belongs to the system and is hidden from lists.
    pub is_system: bool,
    /// The version of the tool that created it.
    pub tool_version: Option<String>,
    /// The declared variables, as JSON.
    pub variables: Vec<Value>,
    /// The declared inputs, as JSON.
    pub inputs: Vec<Value>,
    /// The declared outputs, as JSON.
    pub outputs: Vec<Value>,
    /// The outcomes if it is used as an activity.
    pub outcomes: Vec<String>,
    /// Data of tools and extensions.
    pub custom_properties: Map<String, Value>,
    /// Activation strategy, incident strategy and other options.
    pub options: Map<String, Value>,
    /// The activity at the root of the tree, as JSON.
    pub root: Option<Value>,
    /// When the version was created.
    pub created_at: Option<DateTime<Utc>>,
    /// Properties that this crate does not know; they are written back.
    pub extra: Map<String, Value>,
}

impl WorkflowDefinition {
    /// Reads a definition from JSON text, with or without a byte order mark.
    ///
    /// # Errors
    /// `elsa-2-definition` if it is a definition of Elsa 2, `invalid-json` if it is not JSON, `nesting-too-deep` if it nests
    /// more than [`MAX_DEPTH`] levels, `invalid-text` if it contains U+0000 or half a surrogate pair, `invalid-definition`
    /// if a property has the wrong type.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let value: Value = serde_json::from_slice(bytes).map_err(|error| {
            let text = error.to_string();
            if text.contains("recursion limit") {
                too_deep()
            } else if text.contains("surrogate") || text.contains("hex escape") {
                Error::invalid("invalid-text", format!("The JSON holds half a surrogate pair: {text}"))
            } else {
                Error::invalid("invalid-json", format!("The body is not valid JSON: {text}"))
            }
        })?;
        Self::from_value(value)
    }

    /// Reads a definition from a JSON value. Placeholders of activities that a designer could not draw are restored.
    ///
    /// # Errors
    /// As [`WorkflowDefinition::from_json`].
    pub fn from_value(value: Value) -> Result<Self> {
        Self::from_value_with(value, &mut |_| Ok::<_, Error>(()))
    }

    /// The same; `admit` is asked about each JSON text inside before it is parsed. What a text brings in is not restored again.
    pub(crate) fn from_value_with<E: From<Error>>(mut value: Value, admit: Admit<'_, E>) -> Result<Self, E> {
        elsa2::refuse(&value)?;
        if let Value::Object(fields) = &mut value {
            restore(fields, admit)?;
        }
        Ok(Self::from_stored(value)?)
    }

    /// Reads a definition that was read before it was stored.
    pub(crate) fn from_stored(value: Value) -> Result<Self> {
        match check_json(&value, MAX_DEPTH) {
            Ok(_) => {}
            Err(JsonLimitError::TooDeep) => return Err(too_deep()),
            Err(JsonLimitError::Nul) => {
                return Err(Error::invalid(
                    "invalid-text",
                    "The definition holds the character U+0000",
                ));
            }
        }
        let Value::Object(mut fields) = value else {
            return Err(Error::invalid(
                "invalid-definition",
                "A workflow definition is a JSON object",
            ));
        };
        let fields = &mut fields;
        let definition = Self {
            id: VersionId::new(text(fields, "id")?.unwrap_or_default()),
            definition_id: DefinitionId::new(text(fields, "definitionId")?.unwrap_or_default()),
            version: version(fields)?,
            name: text(fields, "name")?,
            description: text(fields, "description")?,
            is_latest: flag(fields, "isLatest")?,
            is_published: flag(fields, "isPublished")?,
            is_readonly: flag(fields, "isReadonly")?,
            is_system: flag(fields, "isSystem")?,
            tool_version: text(fields, "toolVersion")?,
            variables: list(fields, "variables")?,
            inputs: list(fields, "inputs")?,
            outputs: list(fields, "outputs")?,
            outcomes: outcomes(fields)?,
            custom_properties: object(fields, "customProperties")?,
            options: object(fields, "options")?,
            root: root(fields)?,
            created_at: created_at(fields)?,
            extra: std::mem::take(fields),
        };
        Ok(definition)
    }

    /// The definition as Elsa's JSON, including the properties that this crate does not know.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        put("id", self.id.as_str().into());
        put("definitionId", self.definition_id.as_str().into());
        put("name", self.name.clone().into());
        put("description", self.description.clone().into());
        put(
            "createdAt",
            self.created_at
                .map(|at| at.to_rfc3339_opts(SecondsFormat::Micros, false))
                .into(),
        );
        put("version", self.version.into());
        put("toolVersion", self.tool_version.clone().into());
        put("variables", Value::Array(self.variables.clone()));
        put("inputs", Value::Array(self.inputs.clone()));
        put("outputs", Value::Array(self.outputs.clone()));
        put("outcomes", self.outcomes.clone().into());
        put("customProperties", Value::Object(self.custom_properties.clone()));
        put("isReadonly", self.is_readonly.into());
        put("isSystem", self.is_system.into());
        put("isLatest", self.is_latest.into());
        put("isPublished", self.is_published.into());
        put("options", Value::Object(self.options.clone()));
        put("root", self.root.clone().unwrap_or_default());
        for (name, value) in &self.extra {
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(fields)
    }

    /// Whether other definitions can use it as an activity. Older definitions have the flag at the top.
    pub fn is_usable_as_activity(&self) -> bool {
        self.has_flag("usableAsActivity")
    }

    /// Whether a publish updates the definitions that use it as an activity.
    pub fn updates_consumers(&self) -> bool {
        self.has_flag("autoUpdateConsumingWorkflows")
    }

    fn has_flag(&self, name: &str) -> bool {
        let flag = |fields: &Map<String, Value>| fields.get(name).and_then(Value::as_bool).unwrap_or(false);
        flag(&self.options) || flag(&self.extra)
    }

    /// The declared variables of the workflow.
    pub fn declared_variables(&self) -> Vec<Variable> {
        Variable::list(Some(&Value::Array(self.variables.clone())))
    }

    /// The declared inputs of the workflow.
    pub fn declared_inputs(&self) -> Vec<Argument> {
        Argument::list(&self.inputs)
    }

    /// The declared outputs of the workflow.
    pub fn declared_outputs(&self) -> Vec<Argument> {
        Argument::list(&self.outputs)
    }
}

fn too_deep() -> Error {
    Error::invalid(
        "nesting-too-deep",
        format!("The definition nests deeper than {MAX_DEPTH} levels of JSON; move inner parts to a separate workflow"),
    )
}

fn invalid(field: &str, expected: &str) -> Error {
    let message = format!("The property {field} must be {expected}");
    Error::invalid("invalid-definition", message.clone()).field(field, message)
}

fn take(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    fields.shift_remove(name).filter(|value| !value.is_null())
}

fn text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>> {
    match take(fields, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(name, "text")),
    }
}

fn flag(fields: &mut Map<String, Value>, name: &str) -> Result<bool> {
    match take(fields, name) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(_) => Err(invalid(name, "true or false")),
    }
}

fn list(fields: &mut Map<String, Value>, name: &str) -> Result<Vec<Value>> {
    match take(fields, name) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(invalid(name, "a list")),
    }
}

fn object(fields: &mut Map<String, Value>, name: &str) -> Result<Map<String, Value>> {
    match take(fields, name) {
        None => Ok(Map::new()),
        Some(Value::Object(inner)) => Ok(inner),
        Some(_) => Err(invalid(name, "an object")),
    }
}

fn version(fields: &mut Map<String, Value>) -> Result<i32> {
    match take(fields, "version") {
        None => Ok(0),
        Some(value) => value
            .as_i64()
            .and_then(|version| i32::try_from(version).ok())
            .filter(|version| (0..=MAX_VERSION).contains(version))
            .ok_or_else(|| invalid("version", "a whole number from 0 to 1,000,000,000")),
    }
}

fn outcomes(fields: &mut Map<String, Value>) -> Result<Vec<String>> {
    list(fields, "outcomes")?
        .into_iter()
        .map(|outcome| match outcome {
            Value::String(name) => Ok(name),
            _ => Err(invalid("outcomes", "a list of names")),
        })
        .collect()
}

fn root(fields: &mut Map<String, Value>) -> Result<Option<Value>> {
    match take(fields, "root") {
        None => Ok(None),
        Some(root @ Value::Object(_)) => Ok(Some(root)),
        Some(_) => Err(invalid("root", "an activity")),
    }
}

fn created_at(fields: &mut Map<String, Value>) -> Result<Option<DateTime<Utc>>> {
    let Some(text) = text(fields, "createdAt")? else {
        return Ok(None);
    };
    let at = DateTime::parse_from_rfc3339(&text).map_err(|_| invalid("createdAt", "a date and time with an offset"))?;
    Ok(Some(at.with_timezone(&Utc)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_properties_are_kept() {
        let text = json!({"definitionId": "d", "$schema": "s", "root": {"type": "Elsa.Start", "weird": [1]}});
        let definition = WorkflowDefinition::from_value(text).unwrap();
        let back = definition.to_value();
        assert_eq!(back["$schema"], "s");
        assert_eq!(back["root"]["weird"][0], 1);
        assert_eq!(WorkflowDefinition::from_value(back).unwrap(), definition);
    }

    #[test]
    fn a_byte_order_mark_is_accepted() {
        assert!(WorkflowDefinition::from_json(b"\xEF\xBB\xBF{}").is_ok());
    }

    #[test]
    fn invalid_text_has_its_own_code() {
        let code = |bytes: &[u8]| WorkflowDefinition::from_json(bytes).unwrap_err().code();
        assert_eq!(code(b"{"), "invalid-json");
        assert_eq!(code(br#"{"name": "a\u0000"}"#), "invalid-text");
        assert_eq!(code(br#"{"name": "\ud800"}"#), "invalid-text");
        assert_eq!(code(br#"{"name": 1}"#), "invalid-definition");
        assert_eq!(code(b"[]"), "invalid-definition");
        let deep = format!("{{\"root\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(code(deep.as_bytes()), "nesting-too-deep");
    }
}
