//! A typed input as Elsa writes it: `{typeName, expression: {type, value}, memoryReference: {id}}`.

use serde_json::Value;

/// The expression of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// `Literal`, `Object`, `Variable`, `Input`, `Output`, `JavaScript`, or a type that cannot run here.
    pub kind: String,
    /// The literal, the script, or the reference.
    pub value: Value,
}

/// The value of an activity's property for one of its inputs.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct InputBinding {
    /// Elsa's type name; empty if missing.
    pub type_name: String,
    /// The expression, if it has one.
    pub expression: Option<Expression>,
    /// The variable that is read.
    pub memory_reference: Option<String>,
}

impl InputBinding {
    /// Reads an input. `null` and a missing property bind nothing; a bare value, as in a definition written by
    /// hand, is a literal.
    pub fn parse(value: Option<&Value>) -> Option<Self> {
        let value = value.filter(|value| !value.is_null())?;
        let is_wrapped = value.as_object().is_some_and(|fields| {
            fields.contains_key("expression")
                || fields.contains_key("memoryReference")
                || fields.contains_key("typeName")
        });
        if !is_wrapped {
            return Some(Self {
                type_name: String::new(),
                expression: Some(Expression {
                    kind: "Literal".to_owned(),
                    value: value.clone(),
                }),
                memory_reference: None,
            });
        }
        let expression = value
            .get("expression")
            .filter(|inner| !inner.is_null())
            .map(|inner| Expression {
                kind: match inner.get("type").and_then(Value::as_str) {
                    Some(kind) if !kind.is_empty() => kind.to_owned(),
                    _ => "Literal".to_owned(),
                },
                value: inner.get("value").cloned().unwrap_or_default(),
            });
        let memory_reference = value
            .get("memoryReference")
            .and_then(|inner| inner.get("id"))
            .and_then(Value::as_str);
        Some(Self {
            type_name: value
                .get("typeName")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            expression,
            memory_reference: memory_reference.filter(|id| !id.is_empty()).map(str::to_owned),
        })
    }
}
