//! What the models of Elsa's client hold of a definition, beside its activities.
//!
//! Studio reads a definition into these models and sends them back: properties that they lack are gone, and values of
//! variables are text. What would be lost is kept in the custom properties, which the models hold as they are. A client that
//! sends back the mark beside them has lost nothing, so what it left out is deleted.

use serde_json::{Map, Value};

use super::kept::{Admit, KEPT, put_back, put_back_list};

pub(super) const CUSTOM_PROPERTIES: &str = "customProperties";
pub(super) const OPTIONS: &str = "options";
pub(super) const VARIABLES: &str = "variables";
pub(super) const INPUTS: &str = "inputs";
pub(super) const OUTPUTS: &str = "outputs";

/// A part of a definition as the model sends it back, if nothing was changed.
pub(super) type Model = fn(&Map<String, Value>) -> Value;

/// The lists of a definition that have models.
pub(super) const LISTS: [(&str, Model); 3] = [(VARIABLES, variable), (INPUTS, input), (OUTPUTS, output)];

fn model(fields: &Map<String, Value>, properties: &[(&str, Value)]) -> Value {
    let of = |(name, default): &(&str, Value)| {
        let value = fields.get(*name).filter(|value| !value.is_null());
        ((*name).to_owned(), value.unwrap_or(default).clone())
    };
    properties.iter().map(of).collect()
}

pub(super) fn options(fields: &Map<String, Value>) -> Value {
    let texts = [
        "activationStrategyType",
        "activityCategory",
        "incidentStrategyType",
        "commitStrategyName",
    ];
    let mut properties = texts.map(|name| (name, Value::Null)).to_vec();
    properties.push(("usableAsActivity", Value::Null));
    properties.push(("autoUpdateConsumingWorkflows", false.into()));
    model(fields, &properties)
}

fn variable(fields: &Map<String, Value>) -> Value {
    let value = match fields.get("value") {
        None | Some(Value::Null) => Value::Null,
        Some(Value::String(text)) => text.as_str().into(),
        // As .NET writes it.
        Some(Value::Bool(flag)) => if *flag { "True" } else { "False" }.into(),
        Some(other) => other.to_string().into(),
    };
    let texts = ["id", "name", "typeName", "storageDriverTypeName"];
    let mut properties = texts.map(|name| (name, Value::Null)).to_vec();
    properties.push(("isArray", false.into()));
    let mut model = model(fields, &properties);
    if let Some(model) = model.as_object_mut() {
        model.insert("value".to_owned(), value);
    }
    model
}

fn output(fields: &Map<String, Value>) -> Value {
    let texts = ["type", "name", "displayName", "description", "category"];
    let mut properties = texts.map(|name| (name, Value::Null)).to_vec();
    properties.push(("isArray", false.into()));
    model(fields, &properties)
}

fn input(fields: &Map<String, Value>) -> Value {
    let own = model(fields, &["uiHint", "storageDriverType"].map(|name| (name, Value::Null)));
    let parts = [output(fields), own].into_iter().filter_map(|part| match part {
        Value::Object(part) => Some(part),
        _ => None,
    });
    Value::Object(parts.flatten().collect())
}

/// What an item of a list is recognized by: its id, else its name.
fn identity(item: &Value) -> Option<String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("id").or_else(|| text("name")).map(str::to_owned)
}

/// Puts back into a definition what was kept of it.
pub(super) fn restore<E>(definition: &mut Map<String, Value>, admit: Admit<'_, E>) -> Result<(), E> {
    let has_lost_nothing = definition.shift_remove(KEPT).is_some();
    let custom = definition.get_mut(CUSTOM_PROPERTIES).and_then(Value::as_object_mut);
    let Some(Value::String(text)) = custom.and_then(|custom| custom.shift_remove(KEPT)) else {
        return Ok(());
    };
    if has_lost_nothing {
        return Ok(());
    }
    admit(&text)?;
    let Ok(Value::Object(kept)) = serde_json::from_str(&text) else {
        return Ok(());
    };
    for (name, was) in kept {
        let list = LISTS.iter().find(|(list, _)| *list == name);
        match (definition.get_mut(&name), was, list) {
            (Some(Value::Array(edited)), Value::Array(was), Some((_, model))) => {
                let of = |item: &Value| item.as_object().map_or(Value::Null, model);
                let shown: Vec<Value> = was.iter().map(of).collect();
                put_back_list(edited, &was, &shown, identity);
            }
            (Some(Value::Object(edited)), Value::Object(was), None) if name == OPTIONS => {
                if let Value::Object(shown) = options(&was) {
                    put_back(edited, &was, &shown);
                }
            }
            (None | Some(Value::Null), was, None) => drop(definition.insert(name, was)),
            _ => {}
        }
    }
    Ok(())
}
