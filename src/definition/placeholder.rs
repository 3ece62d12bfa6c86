//! `Elsa.NotFoundActivity`: the placeholder that designers get for what they cannot draw, with the original JSON inside.
//!
//! It is Elsa's: `missingTypeName`, `missingTypeVersion`, and `originalActivityJson`, a text. It shows type and reason, and
//! holds what an author may change: id, name, position and the rest of the metadata, custom properties. A save restores the
//! original with these changes, whichever server wrote the placeholder.

use serde_json::{Map, Value, json};

use super::kept::put_back;
use super::raw_activity::RawActivity;

/// The type of the placeholder.
pub(crate) const PLACEHOLDER: &str = "Elsa.NotFoundActivity";

/// The property with the original, as JSON text.
const ORIGINAL: &str = "originalActivityJson";

/// The property with the reason as it was shown: an author may have written another description.
const REASON: &str = "missingReason";

/// The property with the outcomes that the connections of the original begin at, which designers draw.
const OUTCOMES: &str = "outcomes";

const METADATA: &str = "metadata";
const CUSTOM_PROPERTIES: &str = "customProperties";
const DESIGNER: &str = "designer";
const SIZE: &str = "size";

/// The placeholder of an activity, or of anything else that is in the place of one.
pub(crate) fn placeholder(original: &Value, reason: &str, outcomes: &[String]) -> Value {
    let empty = Map::new();
    let raw = RawActivity::over(original.as_object().unwrap_or(&empty));
    let mut fields = Map::new();
    for name in ["id", "name", "nodeId"] {
        if let Some(text) = raw.get(name).filter(|value| value.is_string()) {
            fields.insert(name.to_owned(), text.clone());
        }
    }
    let version = raw.named_version().unwrap_or(0);
    // What was computed for the answer is no part of the original.
    let mut stored = original.clone();
    if let Some(stored) = stored.as_object_mut() {
        stored.shift_remove("nodeId");
    }
    for (name, value) in [
        ("type", Value::from(PLACEHOLDER)),
        ("version", 1.into()),
        ("missingTypeName", raw.type_name().into()),
        ("missingTypeVersion", version.into()),
        (REASON, reason.into()),
        (ORIGINAL, stored.to_string().into()),
        (METADATA, Value::Object(shown_metadata(raw, Some(reason)))),
    ] {
        fields.insert(name.to_owned(), value);
    }
    if let Some(custom) = raw.get(CUSTOM_PROPERTIES).and_then(Value::as_object) {
        let custom = Value::Object(readable_custom_properties(custom));
        fields.insert(CUSTOM_PROPERTIES.to_owned(), custom);
    }
    if !outcomes.is_empty() {
        let list = Value::from(outcomes.to_vec()).to_string();
        let outcomes = json!({"typeName": "String[]", "expression": {"type": "Object", "value": list}});
        fields.insert(OUTCOMES.to_owned(), outcomes);
    }
    Value::Object(fields)
}

/// The metadata of a placeholder; without our own reason it is Elsa's placeholder.
fn shown_metadata(original: RawActivity<'_>, reason: Option<&str>) -> Map<String, Value> {
    let metadata = original.get(METADATA).and_then(Value::as_object);
    let mut shown = metadata.map(readable_metadata).unwrap_or_default();
    let (type_name, version) = (original.type_name(), original.named_version().unwrap_or(0));
    let of_elsa = format!("Could not find activity type {type_name} with version {version}");
    shown.insert("displayText".to_owned(), format!("Not Found: {type_name}").into());
    shown.insert("description".to_owned(), reason.unwrap_or(&of_elsa).into());
    if reason.is_some() {
        shown.insert("showDescription".to_owned(), true.into());
    }
    shown
}

/// What designers can read of metadata: the rest keeps them from drawing anything.
pub(crate) fn readable_metadata(metadata: &Map<String, Value>) -> Map<String, Value> {
    let mut readable = metadata.clone();
    let is_text = |value: &Value| value.is_string() || value.is_null();
    let is_flag = |value: &Value| value.is_boolean() || value.is_null();
    readable.retain(|name, value| match name.as_str() {
        "displayText" | "description" => is_text(value),
        "showDescription" => is_flag(value),
        DESIGNER => value.is_object() || value.is_null(),
        _ => true,
    });
    if let Some(Value::Object(designer)) = readable.get_mut(DESIGNER) {
        designer.retain(|name, value| match name.as_str() {
            "position" => has_numbers(value, ["x", "y"]),
            SIZE => has_numbers(value, ["width", "height"]),
            _ => false,
        });
    }
    readable
}

/// Whether designers can read a place or a size; what else it has is dropped.
fn has_numbers(value: &mut Value, names: [&str; 2]) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => {
            fields.retain(|name, _| names.contains(&name.as_str()));
            fields.values().all(Value::is_number)
        }
        _ => false,
    }
}

/// What designers can read of custom properties.
pub(crate) fn readable_custom_properties(custom: &Map<String, Value>) -> Map<String, Value> {
    let mut readable = custom.clone();
    readable.retain(|name, value| name != "canStartWorkflow" || value.is_boolean() || value.is_null());
    readable
}

/// The text of the original in a placeholder; `None` if it is not one.
pub(super) fn original_text(fields: &Map<String, Value>) -> Option<&str> {
    let is_placeholder = fields.get("type").and_then(Value::as_str) == Some(PLACEHOLDER);
    fields.get(ORIGINAL).and_then(Value::as_str).filter(|_| is_placeholder)
}

/// The original with what the author changed; none if the text is no JSON, and the placeholder is all that there is.
pub(super) fn original(placeholder: &Map<String, Value>) -> Option<Value> {
    let mut original: Value = serde_json::from_str(original_text(placeholder)?).ok()?;
    let Some(fields) = original.as_object_mut() else {
        return Some(original);
    };
    let reason = placeholder.get(REASON).and_then(Value::as_str);
    let shown = shown_metadata(RawActivity::over(fields), reason);
    if let Some(Value::Object(edited)) = placeholder.get(METADATA) {
        let mut edited = edited.clone();
        // The size is that of the box with the reason.
        if let Some(Value::Object(designer)) = edited.get_mut(DESIGNER) {
            match shown.get(DESIGNER).and_then(|designer| designer.get(SIZE)) {
                Some(size) => drop(designer.insert(SIZE.to_owned(), size.clone())),
                None => drop(designer.shift_remove(SIZE)),
            }
        }
        merge(fields, METADATA, edited, shown);
    }
    if let Some(Value::Object(edited)) = placeholder.get(CUSTOM_PROPERTIES) {
        let custom = fields.get(CUSTOM_PROPERTIES).and_then(Value::as_object);
        let shown = custom.map(readable_custom_properties).unwrap_or_default();
        merge(fields, CUSTOM_PROPERTIES, edited.clone(), shown);
    }
    if let Some(id) = placeholder
        .get("id")
        .filter(|id| id.as_str().is_some_and(|id| !id.is_empty()))
    {
        fields.insert("id".to_owned(), id.clone());
    }
    if let Some(edited) = placeholder.get("name") {
        let name = |value: Option<&Value>| {
            value
                .and_then(Value::as_str)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
        };
        match (name(Some(edited)), name(fields.get("name"))) {
            (edited, known) if edited == known => {}
            (Some(edited), _) => drop(fields.insert("name".to_owned(), edited.into())),
            (None, _) => drop(fields.shift_remove("name")),
        }
    }
    Some(original)
}

/// Applies the author's changes of an object to the original.
fn merge(original: &mut Map<String, Value>, name: &str, mut edited: Map<String, Value>, shown: Map<String, Value>) {
    let was = original.get(name).and_then(Value::as_object).cloned();
    put_back(&mut edited, was.as_ref().unwrap_or(&Map::new()), &shown);
    if was.is_some() || !edited.is_empty() {
        original.insert(name.to_owned(), Value::Object(edited));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Value {
        json!({"id": "a", "name": "A", "type": "Shop.Charge", "version": 3, "amount": 9_007_199_254_740_993_i64,
            "body": {"id": "b", "type": "Shop.Other"}, "customProperties": {"canStartWorkflow": true, "mine": [1]},
            "metadata": {"displayText": "Mine", "designer": {"position": {"x": 1, "y": 2}, "size": {"width": 9, "height": 8}, "color": "red"}}})
    }

    fn shown(original: &Value) -> Value {
        let mut answered = original.clone();
        if let Some(fields) = answered.as_object_mut() {
            fields.insert("nodeId".to_owned(), json!("Workflow1:a"));
        }
        placeholder(&answered, "Could not find it", &["Paid".to_owned()])
    }

    fn back(placeholder: &Value) -> Value {
        original(placeholder.as_object().unwrap()).unwrap()
    }

    #[test]
    fn a_placeholder_shows_type_and_reason_and_has_the_original_inside() {
        let shown = shown(&shop());
        for (name, value) in [
            ("id", json!("a")),
            ("name", json!("A")),
            ("nodeId", json!("Workflow1:a")),
            ("type", json!("Elsa.NotFoundActivity")),
            ("version", json!(1)),
            ("missingTypeName", json!("Shop.Charge")),
            ("missingTypeVersion", json!(3)),
            ("originalActivityJson", shop().to_string().into()),
            (
                "outcomes",
                json!({"typeName": "String[]", "expression": {"type": "Object", "value": "[\"Paid\"]"}}),
            ),
        ] {
            assert_eq!(shown[name], value, "{name}");
        }
        let metadata = json!({"displayText": "Not Found: Shop.Charge", "description": "Could not find it", "showDescription": true,
            "designer": {"position": {"x": 1, "y": 2}, "size": {"width": 9, "height": 8}}});
        assert_eq!(shown["metadata"], metadata);
        assert_eq!(back(&shown), shop());
    }

    #[test]
    fn what_the_author_changes_is_taken_over() {
        let mut edited = shown(&shop());
        edited["id"] = json!("c");
        edited["name"] = json!("C");
        // What Studio writes when the box is moved.
        edited["metadata"]["designer"] =
            json!({"position": {"x": 5, "y": 6}, "size": {"width": 340.9, "height": 87.9}});
        edited["customProperties"]["canStartWorkflow"] = json!(false);
        edited["metadata"]["description"] = json!("Charges a card");
        let mut expected = shop();
        expected["id"] = json!("c");
        expected["name"] = json!("C");
        expected["metadata"]["designer"]["position"] = json!({"x": 5, "y": 6});
        expected["metadata"]["description"] = json!("Charges a card");
        expected["customProperties"]["canStartWorkflow"] = json!(false);
        assert_eq!(back(&edited), expected);
        edited["name"] = Value::Null;
        assert_eq!(back(&edited).get("name"), None);
    }

    #[test]
    fn an_original_without_metadata_gets_its_position_only() {
        let plain = json!({"id": "a", "type": "Shop.Charge"});
        let mut edited = shown(&plain);
        assert_eq!(back(&edited), plain);
        edited["metadata"]["designer"] =
            json!({"position": {"x": 5, "y": 6}, "size": {"width": 340.9, "height": 87.9}});
        let position = json!({"designer": {"position": {"x": 5, "y": 6}}});
        assert_eq!(
            back(&edited),
            json!({"id": "a", "type": "Shop.Charge", "metadata": position})
        );
    }

    #[test]
    fn a_placeholder_of_elsa_is_restored_too() {
        let of_elsa = json!({"id": "a", "nodeId": "Workflow1:a", "name": "A", "type": "Elsa.NotFoundActivity", "version": 1,
            "missingTypeName": "Shop.Charge", "missingTypeVersion": 3, "originalActivityJson": shop().to_string(),
            "customProperties": {"canStartWorkflow": true, "mine": [1]},
            "metadata": {"displayText": "Not Found: Shop.Charge", "description": "Could not find activity type Shop.Charge with version 3",
                "designer": {"position": {"x": 7, "y": 8}, "size": {"width": 1, "height": 1}}}});
        let mut expected = shop();
        expected["metadata"]["designer"]["position"] = json!({"x": 7, "y": 8});
        assert_eq!(back(&of_elsa), expected);
        let bare = json!({"type": "Elsa.NotFoundActivity", "originalActivityJson": shop().to_string()});
        assert_eq!(back(&bare), shop());
    }

    #[test]
    fn anything_in_the_place_of_an_activity_comes_back() {
        for value in [
            json!(null),
            json!("x"),
            json!({}),
            json!({"type": 5, "name": 7, "metadata": "m", "customProperties": null}),
        ] {
            assert_eq!(back(&shown(&value)), value);
        }
        let broken = json!({"type": "Elsa.NotFoundActivity", "originalActivityJson": "{"});
        assert_eq!(original(broken.as_object().unwrap()), None);
    }
}
