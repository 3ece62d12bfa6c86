//! Keeps what the models of Elsa's client lose of a definition in the custom properties, which they hold as they are.

use serde_json::{Map, Value, json};

use super::client_model::{CUSTOM_PROPERTIES, INPUTS, LISTS, Model, OPTIONS, OUTPUTS, VARIABLES, options};
use super::kept::KEPT;

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

const IS_SYSTEM: &str = "isSystem";

/// Whether the model of a part lacks something of it.
fn is_lossy(fields: &Map<String, Value>, model: Model) -> bool {
    let model = model(fields);
    fields
        .iter()
        .any(|(name, value)| !value.is_null() && model.get(name) != Some(value))
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
        let items = definition.get(list).and_then(Value::as_array);
        let is_lost = |item: &Value| item.as_object().is_some_and(|fields| is_lossy(fields, model));
        // The whole list: what is renamed is what none of the others is.
        if let Some(items) = items.filter(|items| items.iter().any(is_lost)) {
            lost.insert(list.to_owned(), items.clone().into());
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::super::client_model::restore;
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
    fn what_is_renamed_keeps_what_the_models_lack_and_what_is_new_gets_nothing() {
        let mut renamed = sent(&form(sample()));
        renamed["inputs"][0]["name"] = json!("I");
        assert_eq!(
            restored(renamed.clone())["inputs"][0],
            json!({"type": "String", "name": "I", "defaultValue": "x"})
        );
        renamed["inputs"][0]["type"] = json!("Int32");
        assert_eq!(restored(renamed)["inputs"][0].get("defaultValue"), None);
        let own = json!({"mainspringOriginal": {"mine": 1}, "customProperties": {"mainspringOriginal": [1]}});
        assert_eq!(restored(own.as_object().unwrap().clone()), own);
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
        assert_eq!(back["toolVersion"], "next");
        assert!(back.get(KEPT).is_none() && back["customProperties"].get(KEPT).is_none());
    }

    #[test]
    fn nothing_is_kept_of_what_the_models_hold() {
        let plain = json!({"definitionId": "d", "toolVersion": "3.8.0.0", "isSystem": false, "options": {"usableAsActivity": true},
            "customProperties": {}, "variables": [{"id": "a", "name": "a", "typeName": "String", "value": "x", "isArray": true}]});
        assert_eq!(Value::Object(form(plain.clone())), plain);
    }
}
