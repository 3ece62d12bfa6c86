//! The links that Elsa hangs on definitions. Its designer takes a definition without a `publish` link as read only.
//!
//! Only routes that exist here are linked.

use serde_json::{Value, json};

/// The property that holds them; it is ours to write, so what a client sends under it is dropped.
pub(super) const PROPERTY: &str = "links";

/// The definition with its links.
pub(super) fn linked(mut definition: Value) -> Value {
    let id = definition
        .get("definitionId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let readonly = definition.get("isReadonly").and_then(Value::as_bool).unwrap_or(false);
    if let Some(fields) = definition.as_object_mut() {
        fields.insert(PROPERTY.to_owned(), of(&id, readonly));
    }
    definition
}

fn of(id: &str, readonly: bool) -> Value {
    let link = |path: String, rel: &str, method: &str| json!({"href": path, "rel": rel, "method": method});
    let own = |rest: &str| format!("/workflow-definitions/{id}{rest}");
    let mut links = vec![
        link(own(""), "self", "GET"),
        link(format!("/workflow-definitions/by-definition-id/{id}"), "self", "GET"),
        link(own("/dispatch"), "dispatch", "POST"),
        link(own("/execute"), "execute", "POST"),
    ];
    if !readonly {
        links.push(link(own("/publish"), "publish", "POST"));
        links.push(link(own("/import"), "import", "PUT"));
    }
    links.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_may_be_edited_can_be_published() {
        let links = |readonly: bool| linked(json!({"definitionId": "d", "isReadonly": readonly}))["links"].to_string();
        assert!(links(false).contains("/workflow-definitions/d/publish"));
        assert!(!links(true).contains("publish"));
    }
}
