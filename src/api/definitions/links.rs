//! The links of a definition and of a list, from which Elsa's designer decides what to offer.
//!
//! Without a `publish` link a definition is read-only there, and without `bulk-publish` the whole list is. Every client of
//! this API may call all of it, so only definitions that are read-only or belong to the system have fewer links. Only existing
//! routes are linked.

use serde_json::{Map, Value, json};

use crate::http::ApiError;
use crate::runtime::DefinitionSummary;

/// The property with the links. The server writes it, so a client's value is dropped.
pub(super) const LINKS: &str = "links";

/// The properties of a definition that may have no value, and are then left out. Any other null is its author's.
const OPTIONAL: [&str; 5] = ["name", "description", "createdAt", "toolVersion", "root"];

/// Leaves out what a definition does not have.
pub(super) fn leave_out_absent(definition: &mut Map<String, Value>) {
    definition.retain(|name, value| !value.is_null() || !OPTIONAL.contains(&name.as_str()));
}

/// Adds the links of a definition.
pub(super) fn linked(mut definition: Value) -> Value {
    let id = definition
        .get("definitionId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let is_set = |name: &str| definition.get(name).and_then(Value::as_bool).unwrap_or(false);
    let readonly = is_set("isReadonly") || is_set("isSystem");
    if let Some(fields) = definition.as_object_mut() {
        leave_out_absent(fields);
        fields.insert(LINKS.to_owned(), of_definition(&id, readonly));
    }
    definition
}

/// A definition in a list, with Elsa's properties about its origin.
pub(super) fn summary(item: &DefinitionSummary) -> Result<Value, ApiError> {
    let mut item = linked(serde_json::to_value(item).map_err(|_| ApiError::internal())?);
    if let Some(fields) = item.as_object_mut() {
        fields.insert("materializerName".to_owned(), "Json".into());
        fields.insert("isMaterializerAvailable".to_owned(), true.into());
    }
    Ok(item)
}

fn link(path: &str, rel: &str, method: &str) -> Value {
    json!({"href": path, "rel": rel, "method": method})
}

fn of_definition(id: &str, readonly: bool) -> Value {
    let own = |rest: &str, rel: &str, method: &str| link(&format!("/workflow-definitions/{id}{rest}"), rel, method);
    let mut links = vec![
        own("", "self", "GET"),
        link(&format!("/workflow-definitions/by-definition-id/{id}"), "self", "GET"),
        own("/versions", "versions", "GET"),
        own("/bulk-dispatch", "bulk-dispatch", "POST"),
        own("/dispatch", "dispatch", "POST"),
        own("/execute", "execute", "POST"),
        own("/export", "export", "POST"),
    ];
    if !readonly {
        links.push(own("/publish", "publish", "POST"));
        links.push(own("/retract", "retract", "POST"));
        links.push(own("", "delete", "DELETE"));
        links.push(own("/import", "import", "PUT"));
        links.push(own("/update-references", "update-references", "POST"));
    }
    links.into()
}

/// The links of a list of definitions.
pub(super) fn of_list() -> Value {
    let bulk = |action: &str, by: &str, rel: &str| {
        link(
            &format!("/bulk-actions/{action}/workflow-definitions/{by}"),
            rel,
            "POST",
        )
    };
    let own = |rest: &str, rel: &str, method: &str| link(&format!("/workflow-definitions{rest}"), rel, method);
    json!([
        own("", "self", "GET"),
        own("/validation/is-name-unique", "is-name-unique", "GET"),
        own("/query/count", "count", "GET"),
        own("/many-by-id", "many-by-id", "GET"),
        bulk("delete", "by-definition-id", "bulk-delete-by-definition-id"),
        bulk("delete", "by-id", "bulk-delete-by-id"),
        bulk("publish", "by-definition-ids", "bulk-publish"),
        bulk("retract", "by-definition-ids", "bulk-retract"),
        own("/import", "import", "POST"),
        own("/import-files", "import-files", "POST"),
        own("", "create", "POST"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_definition_lacks_is_left_out_and_a_null_of_its_author_stays() {
        let shown =
            linked(json!({"definitionId": "d", "name": null, "root": null, "mine": null, "options": {"a": null}}));
        assert!(shown.get("name").is_none() && shown.get("root").is_none(), "{shown}");
        assert!(shown.get("mine").is_some_and(Value::is_null), "{shown}");
        assert_eq!(shown["options"], json!({"a": null}));
    }

    #[test]
    fn a_definition_that_may_be_edited_can_be_published() {
        let links = |flag: &str| linked(json!({"definitionId": "d", flag: true}))["links"].to_string();
        assert!(links("isLatest").contains("/workflow-definitions/d/publish"));
        for flag in ["isReadonly", "isSystem"] {
            assert!(
                !links(flag).contains("publish") && !links(flag).contains("retract"),
                "{flag}"
            );
        }
    }
}
