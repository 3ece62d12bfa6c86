//! What the models of Elsa's client hold of a definition, apart from its activities.
//!
//! Studio reads a definition into these models and sends them back: properties that they lack are gone, and values of
//! variables are text. What would be lost is kept in the custom properties, which the models hold as they are. A client that
//! sends back the mark beside them has lost nothing, so the properties that it left out are deleted.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::kept::{Admit, KEPT, put_back, put_back_list};

pub(super) const CUSTOM_PROPERTIES: &str = "customProperties";
pub(super) const OPTIONS: &str = "options";
pub(super) const VARIABLES: &str = "variables";
pub(super) const TOOL_VERSION: &str = "toolVersion";
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

/// What identifies an item of a list: its id, or else its name.
fn identity(item: &Value) -> Option<String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("id").or_else(|| text("name")).map(str::to_owned)
}

/// Puts back what one item has lost that was renamed: the only one that is new, in the place of the only one that is gone and
/// otherwise as it. One with an id has it under another name, too.
fn put_back_renamed(edited: &mut [Value], was: &[Value], shown: &[Value]) {
    let names = |items: &[Value]| items.iter().filter_map(identity).collect::<HashSet<_>>();
    let (before, after) = (names(shown), names(edited));
    let is_new = |item: &&mut Value| identity(item).is_some_and(|name| !before.contains(&name));
    let is_gone = |(_, shown): &(&Value, &Value)| identity(shown).is_some_and(|name| !after.contains(&name));
    let (mut new, mut gone) = (edited.iter_mut().filter(is_new), was.iter().zip(shown).filter(is_gone));
    let only = (new.next(), new.next(), gone.next(), gone.next());
    if let (Some(Value::Object(edited)), None, Some((Value::Object(was), Value::Object(shown))), None) = only {
        let value = |fields: &Map<String, Value>, name: &str| fields.get(name).cloned().unwrap_or_default();
        let is_kept = |name: &str| name == "name" || name == "displayName" || value(edited, name) == value(shown, name);
        if !was.contains_key("id") && shown.keys().all(|name| is_kept(name)) {
            put_back(edited, was, shown);
        }
    }
}

/// Puts back into a definition what was kept of it.
pub(super) fn restore<E>(definition: &mut Map<String, Value>, admit: Admit<'_, E>) -> Result<(), E> {
    let has_lost_nothing = definition.get(KEPT) == Some(&Value::Bool(true));
    if has_lost_nothing {
        definition.shift_remove(KEPT);
    }
    let custom = definition.get_mut(CUSTOM_PROPERTIES).and_then(Value::as_object_mut);
    let Some(custom) = custom.filter(|custom| custom.get(KEPT).is_some_and(Value::is_string)) else {
        return Ok(());
    };
    let Some(Value::String(text)) = custom.shift_remove(KEPT) else {
        return Ok(());
    };
    admit(&text)?;
    let Ok(Value::Object(kept)) = serde_json::from_str(&text) else {
        return Ok(());
    };
    // What is shown in another form is restored for each client.
    for (name, was) in kept
        .into_iter()
        .filter(|(name, _)| !has_lost_nothing || name == TOOL_VERSION)
    {
        let list = LISTS.iter().find(|(list, _)| *list == name);
        match (definition.get_mut(&name), was, list) {
            (Some(Value::Array(edited)), Value::Array(was), Some((_, model))) => {
                let of = |item: &Value| item.as_object().map_or(Value::Null, model);
                let shown: Vec<Value> = was.iter().map(of).collect();
                put_back_renamed(edited, &was, &shown);
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
