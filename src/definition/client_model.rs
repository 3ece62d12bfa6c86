//! What the models of Elsa's client hold of a definition, beside its activities.
//!
//! Studio reads a definition into these models and sends them back: properties that they lack are gone, and values of
//! variables are text. What would be lost is kept in the custom properties, which the models hold as they are. A client that
//! sends back the mark beside them has lost nothing, so what it left out is deleted.

use serde_json::{Map, Value, json};

use super::kept::{Admit, KEPT, put_back, put_back_list};

/// The properties of the model of a definition.
const DEFINITION: [&str; 18] = [
    "id",
    "definitionId",
    "name",
    "description",
    "createdAt",
    "version",
    "toolVersion",
    VARIABLES,
    INPUTS,
    OUTPUTS,
    "outcomes",
    CUSTOM_PROPERTIES,
    "isReadonly",
    "isLatest",
    "isPublished",
    OPTIONS,
    "root",
    "links",
];

const CUSTOM_PROPERTIES: &str = "customProperties";
const OPTIONS: &str = "options";
const VARIABLES: &str = "variables";
const INPUTS: &str = "inputs";
const OUTPUTS: &str = "outputs";
const IS_SYSTEM: &str = "isSystem";

/// A part of a definition as the model sends it back, if nothing was changed.
type Model = fn(&Map<String, Value>) -> Value;

/// The lists of a definition that have models.
const LISTS: [(&str, Model); 3] = [(VARIABLES, variable), (INPUTS, input), (OUTPUTS, output)];

fn model(fields: &Map<String, Value>, properties: &[(&str, Value)]) -> Value {
    let of = |(name, default): &(&str, Value)| {
        let value = fields.get(*name).filter(|value| !value.is_null());
        ((*name).to_owned(), value.unwrap_or(default).clone())
    };
    properties.iter().map(of).collect()
}

fn options(fields: &Map<String, Value>) -> Value {
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

/// Whether the model of a part lacks something of it.
fn is_lossy(fields: &Map<String, Value>, model: Model) -> bool {
    let model = model(fields);
    fields
        .iter()
        .any(|(name, value)| !value.is_null() && model.get(name) != Some(value))
}

/// What an item of a list is recognized by: its id, else its name.
fn identity(item: &Value) -> Option<String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("id").or_else(|| text("name")).map(str::to_owned)
}

/// Whether the text of a version can be read by the model.
fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    (2..=4).contains(&parts.len())
        && parts
            .iter()
            .all(|part| part.parse::<u32>().is_ok_and(|n| n <= i32::MAX as u32))
}

/// Keeps in the form of a definition for designers what their models would lose.
pub(crate) fn keep(definition: &mut Map<String, Value>) {
    let mut lost = Map::new();
    for (name, value) in definition.iter() {
        let is_lost = match name.as_str() {
            IS_SYSTEM => *value == json!(true),
            "toolVersion" => value.as_str().is_some_and(|text| !is_version(text)),
            OPTIONS => value.as_object().is_some_and(|fields| is_lossy(fields, options)),
            known => !DEFINITION.contains(&known) && !value.is_null(),
        };
        if is_lost {
            lost.insert(name.clone(), value.clone());
        }
    }
    for (list, model) in LISTS {
        let items = definition.get(list).and_then(Value::as_array).into_iter().flatten();
        let is_lost = |item: &&Value| item.as_object().is_some_and(|fields| is_lossy(fields, model));
        let items: Vec<Value> = items.filter(is_lost).cloned().collect();
        if !items.is_empty() {
            lost.insert(list.to_owned(), items.into());
        }
    }
    if lost.is_empty() {
        return;
    }
    if lost.contains_key("toolVersion") {
        definition.insert("toolVersion".to_owned(), Value::Null);
    }
    if let Some(Value::Object(custom)) = definition.get_mut(CUSTOM_PROPERTIES) {
        custom.insert(KEPT.to_owned(), Value::Object(lost).to_string().into());
    }
    // The mark, which the model lacks, too.
    definition.insert(KEPT.to_owned(), true.into());
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn form(definition: Value) -> Map<String, Value> {
        let mut form = definition.as_object().unwrap().clone();
        keep(&mut form);
        form
    }

    /// What Studio sends back of a definition in which nothing was changed.
    fn sent(form: &Map<String, Value>) -> Map<String, Value> {
        let mut sent: Map<String, Value> = form.clone();
        sent.retain(|name, _| DEFINITION.contains(&name.as_str()));
        for (list, model) in LISTS {
            for item in sent[list].as_array_mut().unwrap() {
                *item = model(item.as_object().unwrap());
            }
        }
        sent.insert(OPTIONS.to_owned(), options(sent[OPTIONS].as_object().unwrap()));
        sent
    }

    fn sample() -> Value {
        json!({
            "definitionId": "d", "isSystem": true, "toolVersion": "next", "metadata": {"k": 1}, "customProperties": {"z": [1]},
            "options": {"usableAsActivity": true, "mine": 1},
            "variables": [{"id": "a", "name": "a", "typeName": "Int32", "value": 5, "extra": 1},
                {"id": "b", "name": "b", "typeName": "Boolean", "value": true}, {"name": "c", "type": "String", "value": {"x": [1.5]}}],
            "inputs": [{"name": "i", "type": "String", "defaultValue": "x"}, {"name": "j"}],
            "outputs": [{"name": "o", "type": "String", "more": null}, {"name": "p", "more": 1}],
        })
    }

    fn restored(mut sent: Map<String, Value>) -> Value {
        restore(&mut sent, &mut |_| Ok::<_, Infallible>(())).unwrap();
        Value::Object(sent)
    }

    #[test]
    fn what_the_models_lack_is_put_back() {
        let back = restored(sent(&form(sample())));
        for name in [
            "isSystem",
            "toolVersion",
            "metadata",
            "customProperties",
            "options",
            "variables",
        ] {
            assert_eq!(back[name], sample()[name], "{name}");
        }
        assert_eq!(back["inputs"][0], sample()["inputs"][0]);
        assert_eq!(back["outputs"][1], sample()["outputs"][1]);
    }

    #[test]
    fn what_the_author_changes_or_deletes_stays_so() {
        let mut sent = sent(&form(sample()));
        sent["variables"][0]["value"] = json!("6");
        sent["variables"][0]["name"] = json!("A");
        sent["variables"].as_array_mut().unwrap().remove(1);
        sent["options"]["usableAsActivity"] = json!(false);
        sent["inputs"] = json!([]);
        let back = restored(sent);
        assert_eq!(
            back["variables"],
            json!([{"id": "a", "name": "A", "typeName": "Int32", "value": "6", "extra": 1}, sample()["variables"][2]])
        );
        assert_eq!(back["options"], json!({"usableAsActivity": false, "mine": 1}));
        assert_eq!(back["inputs"], json!([]));
    }

    #[test]
    fn a_client_that_holds_everything_deletes_what_it_leaves_out() {
        let mut sent = form(sample());
        sent.shift_remove("metadata");
        sent["inputs"] = json!([{"name": "i"}]);
        let back = restored(sent);
        assert_eq!(
            (&back["metadata"], &back["inputs"]),
            (&Value::Null, &json!([{"name": "i"}]))
        );
        assert!(back.get(KEPT).is_none() && back["customProperties"].get(KEPT).is_none());
    }

    #[test]
    fn nothing_is_kept_of_what_the_models_hold() {
        let plain = json!({"definitionId": "d", "toolVersion": "3.8.0.0", "isSystem": false, "options": {"usableAsActivity": true},
            "customProperties": {}, "variables": [{"id": "a", "name": "a", "typeName": "String", "value": "x", "isArray": true}]});
        assert_eq!(Value::Object(form(plain.clone())), plain);
    }
}
