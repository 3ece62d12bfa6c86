//! An output as Elsa writes it: `{typeName, memoryReference: {id}, converter: {id, settings}}`.

use serde_json::Value;

/// The value of an activity's property for one of its outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputBinding {
    /// The id of the variable, or the name of the workflow's output, that receives it.
    pub target: String,
    /// What converts the value for its target.
    pub converter: Option<ConverterReference>,
}

/// The converter of an output, as a definition names it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConverterReference {
    /// The id under which a program has registered it; empty if the definition names none.
    pub id: String,
    /// Its settings for this output: an object, if the definition is valid.
    pub settings: Option<Value>,
}

impl OutputBinding {
    /// Reads an output. `null`, a missing property and an empty reference bind nothing; with a converter but without a target
    /// the target is empty, which cannot be published.
    pub fn parse(value: Option<&Value>) -> Option<Self> {
        let value = value?;
        let reference = value.get("memoryReference").and_then(|inner| inner.get("id"));
        let target = reference.and_then(Value::as_str).unwrap_or_default();
        let present = |name: &str| value.get(name).filter(|inner| !inner.is_null());
        let converter = present("converter").map(|converter| ConverterReference {
            id: converter
                .get("id")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            settings: converter
                .get("settings")
                .filter(|settings| !settings.is_null())
                .cloned(),
        });
        (!target.is_empty() || converter.is_some()).then(|| Self {
            target: target.to_owned(),
            converter,
        })
    }
}
