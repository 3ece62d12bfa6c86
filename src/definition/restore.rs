//! Turns what a designer sends back into what it was made from: placeholders become the originals inside them, and kept
//! parts are put back. Unreadable parts stay as they are.

use serde_json::{Map, Value};

use super::client_model;
use super::json_limits::MAX_DEPTH;
use super::kept::{Admit, KEPT, Kept};
use super::placeholder::{original, original_text};

/// How many placeholders are unpacked in one place: each is inside the text of the one before.
const MOST_LEVELS: usize = 16;

/// Restores a definition that a designer may have sent.
///
/// # Errors
/// Those of `admit`.
pub(crate) fn restore<E>(definition: &mut Map<String, Value>, admit: Admit<'_, E>) -> Result<(), E> {
    client_model::restore(definition, admit)?;
    match definition.get_mut("root") {
        Some(root) => walk(root, 1, admit),
        None => Ok(()),
    }
}

/// A placeholder may be anywhere, because the properties of an unknown activity are not known. Values nested deeper than a
/// definition may be are refused afterwards.
fn walk<E>(value: &mut Value, depth: usize, admit: Admit<'_, E>) -> Result<(), E> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    for _ in 0..MOST_LEVELS {
        let Some(text) = value.as_object().and_then(original_text) else {
            break;
        };
        admit(text)?;
        let Some(restored) = value.as_object().and_then(original) else {
            break;
        };
        *value = restored;
    }
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get(KEPT) {
                let text = text.clone();
                admit(&text)?;
                Kept::restore(fields, &text);
            }
            fields.values_mut().try_for_each(|field| walk(field, depth + 1, admit))
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| walk(item, depth + 1, admit)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::WorkflowDefinition;

    fn placeholder_of(original: &Value) -> Value {
        json!({"type": "Elsa.NotFoundActivity", "originalActivityJson": original.to_string()})
    }

    fn root_of(root: Value) -> crate::Result<Value> {
        Ok(WorkflowDefinition::from_value(json!({"root": root}))?.root.unwrap())
    }

    #[test]
    fn placeholders_are_restored_wherever_they_are() {
        let charge = json!({"id": "c", "type": "Shop.Charge"});
        let inside = |child: &Value| json!({"id": "f", "type": "Shop.Loop", "steps": [{"do": child}], "body": child});
        let sent = placeholder_of(&inside(&placeholder_of(&charge)));
        let flow = |child: &Value| json!({"type": "Elsa.Flowchart", "activities": [child, {"type": "Elsa.If", "then": child}]});
        assert_eq!(root_of(flow(&sent)).unwrap(), flow(&inside(&charge)));
        assert_eq!(root_of(placeholder_of(&sent)).unwrap(), inside(&charge));
    }

    #[test]
    fn what_cannot_be_read_stays() {
        let mut deep = json!({"type": "X"});
        for _ in 0..MOST_LEVELS {
            deep = placeholder_of(&deep);
        }
        assert_eq!(root_of(deep.clone()).unwrap(), json!({"type": "X"}));
        let too_deep = placeholder_of(&deep);
        assert_eq!(root_of(too_deep).unwrap(), placeholder_of(&json!({"type": "X"})));
        let long = "[".repeat(1_000_000);
        for text in ["", "{", "nul", r#"{"a": "\ud800"}"#, long.as_str()] {
            let sent = json!({"type": "Elsa.NotFoundActivity", "originalActivityJson": text, KEPT: text});
            let mut expected = sent.clone();
            expected.as_object_mut().unwrap().shift_remove(KEPT);
            assert_eq!(root_of(sent).unwrap(), expected);
        }
        let other = json!({"type": "Shop.Mine", "originalActivityJson": "{\"type\": \"X\"}"});
        assert_eq!(root_of(other.clone()).unwrap(), other);
        let no_text = json!({"type": "Elsa.NotFoundActivity", "originalActivityJson": {"type": "X"}, KEPT: 7});
        assert_eq!(root_of(no_text.clone()).unwrap(), no_text);
    }

    /// It was not admitted.
    #[test]
    fn what_a_kept_text_brings_in_is_not_restored_again() {
        let placeholder = placeholder_of(&json!({"type": "X"}));
        let kept = json!({"was": placeholder, "shown": {"type": "Elsa.Sequence"}}).to_string();
        let mut left = placeholder;
        left["id"] = json!("s");
        let sent = json!({"id": "s", "type": "Elsa.Sequence", KEPT: kept});
        assert_eq!(root_of(sent).unwrap(), left);
    }

    #[test]
    fn what_is_restored_has_the_limits_of_definitions() {
        let nested = |levels: usize| (0..levels).fold(json!({"type": "X"}), |inner, _| json!({"body": inner}));
        let code = |root: Value| root_of(root).unwrap_err().code();
        let mut sent = placeholder_of(&nested(100));
        for _ in 0..100 {
            sent = json!({"body": sent});
        }
        assert_eq!(code(sent), "nesting-too-deep");
        assert_eq!(code(placeholder_of(&json!({"text": "\0"}))), "invalid-text");
        let refuse = &mut |text: &str| Err::<(), usize>(text.len());
        let mut definition = json!({"root": placeholder_of(&json!({"type": "X"}))});
        assert_eq!(restore(definition.as_object_mut().unwrap(), refuse), Err(12));
    }
}
