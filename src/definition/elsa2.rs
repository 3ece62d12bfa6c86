//! Definitions of Elsa 2 are recognised and refused: Elsa 3 has a different model, with different activities and
//! expressions.
//!
//! They have their activities and connections at the top, instead of a root activity: `{activities: [{activityId, type,
//! properties}], connections: [{sourceActivityId, targetActivityId, outcome}]}`, in camel or Pascal case; written by Newtonsoft.Json,
//! a list may be `{"$values": […]}`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// What wraps definitions in a file or a request.
const ENVELOPES: [&str; 9] = [
    "model",
    "workflowDefinition",
    "workflowDefinitions",
    "definition",
    "definitions",
    "workflow",
    "workflows",
    "items",
    "$values",
];

/// Properties that a definition has in Elsa 2 only.
const OWN: [&str; 3] = ["persistenceBehavior", "contextOptions", "deleteCompletedInstances"];

/// The most activity types that a message names.
const MOST_TYPES: usize = 8;

/// Refuses a definition of Elsa 2, also in a list or an envelope: `elsa-2-definition`.
pub(crate) fn refuse(value: &Value) -> Result<()> {
    let Some(definition) = find(value, 2) else {
        return Ok(());
    };
    let types: BTreeSet<&str> = list(definition, "activities")
        .filter_map(|activity| get(activity.as_object()?, "type")?.as_str())
        .filter(|name| name.len() <= 100)
        .take(1_000)
        .collect();
    let named = types.iter().take(MOST_TYPES).copied().collect::<Vec<_>>().join(", ");
    let uses = match types.len() {
        0 => String::new(),
        count if count > MOST_TYPES => format!(" It uses the activities {named} and others."),
        _ => format!(" It uses the activities {named}."),
    };
    let message = format!(
        "This is a workflow definition of Elsa 2, with its activities and connections at the top; definitions of Elsa 3 have a root \
         activity, and other activities and expressions, so none can be converted.{uses} Build the workflow again in Elsa Studio 3, \
         or export it from an Elsa 3 server, and import that file"
    );
    Err(Error::invalid("elsa-2-definition", message.clone()).field("root", message))
}

/// A definition of Elsa 2 in a value: the value itself, or within this many levels of envelopes and lists.
fn find(value: &Value, levels: usize) -> Option<&Map<String, Value>> {
    match value {
        Value::Object(fields) if is_definition(fields) => Some(fields),
        Value::Object(fields) if get(fields, "root").is_none() && get(fields, "type").is_none() && levels > 0 => {
            let wrapped = ENVELOPES.iter().filter_map(|name| get(fields, name));
            wrapped.into_iter().find_map(|inner| find(inner, levels - 1))
        }
        Value::Array(items) if levels > 0 => items.iter().find_map(|item| find(item, levels - 1)),
        _ => None,
    }
}

/// An object without a root activity, and with activities at the top as only Elsa 2 writes them. An object with a type is an
/// activity of Elsa 3: a flowchart has the same lists.
fn is_definition(fields: &Map<String, Value>) -> bool {
    let is_container = ["root", "type"]
        .iter()
        .any(|name| get(fields, name).is_some_and(|value| !value.is_null()));
    let lists = ["activities", "connections"].map(|name| get(fields, name));
    if is_container || lists.iter().all(Option::is_none) {
        return false;
    }
    let has = |name: &'static str, property: &'static str| {
        let mut items = list(fields, name).filter_map(Value::as_object);
        items.any(|item| get(item, property).is_some())
    };
    OWN.iter().any(|name| get(fields, name).is_some())
        || has("activities", "activityId")
        || has("connections", "sourceActivityId")
        || get(fields, "variables").is_some_and(|variables| variables.get("data").is_some())
}

/// A property, in any case.
fn get<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).or_else(|| {
        let mut fields = fields.iter();
        fields
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    })
}

/// The items of a list.
fn list<'a>(fields: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    let items = match get(fields, name) {
        Some(Value::Object(wrapped)) => wrapped.get("$values"),
        other => other,
    };
    items.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::WorkflowDefinition;

    /// As Elsa 2's designer exports it, in our own words.
    fn export() -> Value {
        json!({
            "$id": "1", "definitionId": "d1", "versionId": "v1", "name": "Orders", "version": 3,
            "variables": {"$id": "2", "data": {}},
            "customAttributes": {"$id": "3", "data": {}},
            "isSingleton": false, "persistenceBehavior": "WorkflowBurst", "deleteCompletedInstances": false,
            "isPublished": true, "isLatest": true,
            "activities": [
                {"$id": "4", "activityId": "a1", "type": "HttpEndpoint", "properties": [
                    {"$id": "5", "name": "Path", "expressions": {"$id": "6", "Literal": "/orders"}}],
                    "propertyStorageProviders": {}},
                {"$id": "7", "activityId": "a2", "type": "WriteLine", "properties": [], "propertyStorageProviders": {}}],
            "connections": [{"$id": "8", "sourceActivityId": "a1", "targetActivityId": "a2", "outcome": "Done"}],
            "id": "x"
        })
    }

    fn pascal(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let renamed = fields.iter().map(|(name, value)| {
                    let mut letters = name.chars();
                    let first = letters.next().unwrap().to_ascii_uppercase();
                    (format!("{first}{}", letters.as_str()), pascal(value))
                });
                Value::Object(renamed.collect())
            }
            Value::Array(items) => items.iter().map(pascal).collect(),
            other => other.clone(),
        }
    }

    fn without(mut value: Value, names: &[&str]) -> Value {
        for name in names {
            value.as_object_mut().unwrap().shift_remove(*name);
        }
        value
    }

    #[test]
    fn every_form_of_an_export_of_elsa_2_is_named() {
        let whole = export();
        let plain = without(
            export(),
            &["variables", "persistenceBehavior", "deleteCompletedInstances"],
        );
        let mut preserved = export();
        preserved["activities"] = json!({"$id": "9", "$values": whole["activities"]});
        let forms = [
            whole.clone(),
            pascal(&whole),
            without(plain.clone(), &["connections"]),
            without(plain, &["activities"]),
            preserved,
            json!({"activities": [], "connections": [], "variables": {"data": {}}}),
            json!([whole]),
            json!({"model": whole}),
            json!({"workflowDefinition": pascal(&whole)}),
            json!({"Items": [whole], "totalCount": 1}),
            json!({"$id": "1", "$values": [whole]}),
        ];
        for form in forms {
            let error = WorkflowDefinition::from_value(form.clone()).unwrap_err();
            assert_eq!(error.code(), "elsa-2-definition", "{form}");
            assert!(
                error.message().contains("Elsa 2") && error.message().contains("Elsa Studio 3"),
                "{error}"
            );
        }
        let error = WorkflowDefinition::from_json(export().to_string().as_bytes()).unwrap_err();
        assert!(
            error
                .message()
                .contains("It uses the activities HttpEndpoint, WriteLine."),
            "{error}"
        );
    }

    #[test]
    fn what_is_of_elsa_3_is_none() {
        let chart = json!({"id": "f", "type": "Elsa.Flowchart", "activities": [{"id": "a", "type": "Elsa.WriteLine"}],
            "connections": [{"source": {"activity": "a"}, "target": {"activity": "a"}}]});
        for other in [
            json!({"root": chart, "activities": [{"activityId": "a"}]}),
            json!({"model": {"root": chart}}),
            json!({"definitionId": "d", "variables": [], "customProperties": {"old": export()}}),
            json!({"definitionId": "d", "activities": [], "connections": []}),
            json!({"definitionId": "d", "activities": [{"id": "a", "type": "Elsa.WriteLine"}]}),
            chart.clone(),
            json!([chart]),
            json!({}),
            json!("Elsa 2"),
        ] {
            assert!(refuse(&other).is_ok(), "{other}");
        }
        // A stored draft is read whatever it has.
        assert!(WorkflowDefinition::from_stored(export()).is_err_and(|error| error.code() == "invalid-definition"));
        assert!(WorkflowDefinition::from_stored(without(export(), &["variables"])).is_ok());
    }
}
