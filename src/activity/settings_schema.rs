//! The schema of a converter's settings: the part of JSON Schema from which a designer makes fields.

use serde_json::{Map, Number, Value};

/// Keywords of the object itself.
const OF_OBJECT: &[&str] = &[
    "$schema",
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
];

/// Keywords of a property.
const OF_PROPERTY: &[&str] = &["type", "title", "description", "default", "enum", "minimum", "maximum"];

/// A schema that was read.
#[derive(Debug, Default)]
pub(super) struct SettingsSchema {
    properties: Vec<(String, Property)>,
    required: Vec<String>,
    /// Names other than those of the properties are refused.
    is_closed: bool,
}

#[derive(Debug)]
struct Property {
    kind: Option<Kind>,
    choices: Option<Vec<Value>>,
    least: Option<Number>,
    most: Option<Number>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Number,
    Integer,
    Boolean,
}

impl Kind {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "string" => Self::Text,
            "number" => Self::Number,
            "integer" => Self::Integer,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Number => value.is_number(),
            // As in JSON Schema, 2.0 is an integer.
            Self::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Boolean => value.is_boolean(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Integer => "an integer",
            Self::Boolean => "a boolean",
        }
    }
}

impl SettingsSchema {
    /// Reads a schema; without a schema every object is accepted. The error is the problem of a keyword that is not
    /// supported.
    pub(super) fn read(schema: Option<&Value>) -> Result<Self, String> {
        let Some(schema) = schema else {
            return Ok(Self::default());
        };
        let fields = schema
            .as_object()
            .ok_or("the schema of its settings is not an object")?;
        known(fields, OF_OBJECT, "the schema of its settings")?;
        if fields.get("type").is_some_and(|kind| kind != "object") {
            return Err("the schema of its settings is not that of an object".to_owned());
        }
        let mut properties = Vec::new();
        if let Some(given) = fields.get("properties") {
            let given = given
                .as_object()
                .ok_or("the properties of its settings are not an object")?;
            for (name, property) in given {
                properties.push((name.clone(), Property::read(name, property)?));
            }
        }
        let required = match fields.get("required") {
            None => Vec::new(),
            Some(names) => serde_json::from_value(names.clone())
                .map_err(|_| "the required names of its settings are not a list of strings".to_owned())?,
        };
        let is_closed = match fields.get("additionalProperties") {
            None | Some(Value::Bool(true)) => false,
            Some(Value::Bool(false)) => true,
            Some(_) => return Err("additionalProperties of its settings is true or false here".to_owned()),
        };
        Ok(Self {
            properties,
            required,
            is_closed,
        })
    }

    /// What is wrong with settings; missing ones are an empty object.
    pub(super) fn problems(&self, settings: Option<&Value>) -> Vec<String> {
        let none = Map::new();
        let fields = match settings {
            None => &none,
            Some(Value::Object(fields)) => fields,
            Some(_) => return vec!["they are not a JSON object".to_owned()],
        };
        let mut problems = Vec::new();
        for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
            problems.push(format!("{name} is missing"));
        }
        for (name, value) in fields {
            match self.properties.iter().find(|(known, _)| known == name) {
                Some((_, property)) => problems.extend(property.problem(value).map(|it| format!("{name} is not {it}"))),
                None if self.is_closed => problems.push(format!("{name} is unknown")),
                None => {}
            }
        }
        problems
    }
}

impl Property {
    fn read(name: &str, schema: &Value) -> Result<Self, String> {
        let place = format!("the setting {name}");
        let fields = schema
            .as_object()
            .ok_or_else(|| format!("the schema of {place} is not an object"))?;
        known(fields, OF_PROPERTY, &place)?;
        let kind = match fields.get("type") {
            None => None,
            Some(kind) => Some(
                kind.as_str()
                    .and_then(Kind::read)
                    .ok_or_else(|| format!("the type of {place} is not one of string, number, integer and boolean"))?,
            ),
        };
        let choices = match fields.get("enum") {
            None => None,
            Some(Value::Array(choices)) => Some(choices.clone()),
            Some(_) => return Err(format!("enum of {place} is not a list")),
        };
        let bound = |keyword: &str| match fields.get(keyword) {
            None => Ok(None),
            Some(Value::Number(bound)) => Ok(Some(bound.clone())),
            Some(_) => Err(format!("{keyword} of {place} is not a number")),
        };
        Ok(Self {
            kind,
            choices,
            least: bound("minimum")?,
            most: bound("maximum")?,
        })
    }

    /// What a value should be but is not.
    fn problem(&self, value: &Value) -> Option<String> {
        if let Some(kind) = self.kind.filter(|kind| !kind.accepts(value)) {
            return Some(kind.name().to_owned());
        }
        if let Some(choices) = self.choices.as_ref().filter(|choices| !choices.contains(value)) {
            return Some(format!("one of {}", Value::Array(choices.clone())));
        }
        // Bounds are those of numbers; other values have none.
        let number = value.as_f64()?;
        if let Some(least) = self
            .least
            .as_ref()
            .filter(|least| least.as_f64().is_some_and(|least| number < least))
        {
            return Some(format!("at least {least}"));
        }
        let most = self.most.as_ref()?;
        most.as_f64()
            .is_some_and(|most| number > most)
            .then(|| format!("at most {most}"))
    }
}

fn known(fields: &Map<String, Value>, keywords: &[&str], place: &str) -> Result<(), String> {
    match fields.keys().find(|name| !keywords.contains(&name.as_str())) {
        Some(name) => Err(format!(
            "{place} has the keyword {name}, which is not supported; use {}, and check the rest in validate_settings",
            keywords.join(", ")
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_fulfil_their_schema_or_their_problems_are_named() {
        let schema = SettingsSchema::read(Some(&json!({
            "type": "object",
            "required": ["digits"],
            "additionalProperties": false,
            "properties": {
                "digits": {"type": "integer", "minimum": 0, "maximum": 9, "default": 2},
                "style": {"type": "string", "enum": ["plain", "grouped"]},
                "share": {"type": "number"},
                "isSigned": {"type": "boolean", "title": "Signed"},
            },
        })))
        .unwrap();
        let good = json!({"digits": 2.0, "style": "plain", "share": 0.5, "isSigned": true});
        assert_eq!(schema.problems(Some(&good)), Vec::<String>::new());
        for (settings, problem) in [
            (json!({}), "digits is missing"),
            (json!([]), "they are not a JSON object"),
            (json!({"digits": 2.5}), "digits is not an integer"),
            (json!({"digits": -1}), "digits is not at least 0"),
            (json!({"digits": 10}), "digits is not at most 9"),
            (
                json!({"digits": 1, "style": "odd"}),
                "style is not one of [\"plain\",\"grouped\"]",
            ),
            (json!({"digits": 1, "share": "x"}), "share is not a number"),
            (json!({"digits": 1, "isSigned": 0}), "isSigned is not a boolean"),
            (json!({"digits": 1, "other": 0}), "other is unknown"),
        ] {
            assert_eq!(schema.problems(Some(&settings)), [problem], "{settings}");
        }
        assert_eq!(schema.problems(None), ["digits is missing"]);
        let open = SettingsSchema::read(None).unwrap();
        assert!(open.problems(Some(&json!({"any": [1]}))).is_empty() && open.problems(None).is_empty());
    }

    #[test]
    fn a_keyword_that_would_not_be_checked_is_refused() {
        for schema in [
            json!([]),
            json!({"type": "array"}),
            json!({"oneOf": []}),
            json!({"required": [1]}),
            json!({"additionalProperties": {}}),
            json!({"properties": []}),
            json!({"properties": {"a": {"pattern": "x"}}}),
            json!({"properties": {"a": {"type": "object"}}}),
            json!({"properties": {"a": {"enum": 1}}}),
            json!({"properties": {"a": {"maximum": "1"}}}),
        ] {
            assert!(SettingsSchema::read(Some(&schema)).is_err(), "{schema}");
        }
    }
}
