//! The served routes are the documented ones, and the document is complete and consistent.

use std::collections::{BTreeMap, BTreeSet};

use axum::Router;
use serde_json::Value;

use super::document;
use crate::api::{Api, routes};

const METHODS: [&str; 9] = [
    "get", "head", "delete", "options", "patch", "post", "put", "trace", "connect",
];

/// `METHOD path` of every route. A router shows its routes only in its debug form; a form that is not understood yields
/// no route, which no assertion here survives.
fn served(routes: &Router<Api>) -> BTreeSet<String> {
    let text = format!("{routes:?}");
    let (text, _) = text.split_once("fallback_router:").unwrap();
    let (routes, paths) = text.split_once("node: Node").unwrap();
    fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.split("RouteId(")
            .skip(1)
            .filter_map(|entry| entry.split_once("): "))
    }
    let paths: BTreeMap<&str, &str> = entries(paths)
        .map(|(id, rest)| (id, rest.split('"').nth(1).unwrap()))
        .collect();
    let mut served = BTreeSet::new();
    for (id, handlers) in entries(routes) {
        let taken = |method: &&str| {
            let (_, handler) = handlers.split_once(&format!(" {method}: ")).unwrap_or(("", "any"));
            !handler.starts_with("None")
        };
        let methods = METHODS.iter().filter(|method| taken(method));
        served.extend(methods.map(|method| format!("{method} {}", paths[id])));
    }
    assert_eq!(entries(routes).count(), paths.len());
    served
}

fn document() -> Value {
    document::of(routes().into_openapi())
}

fn operations(document: &Value) -> Vec<(String, &Value)> {
    let items = document["paths"].as_object().unwrap().iter();
    items
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(move |(method, form)| (format!("{method} {path}"), form))
        })
        .collect()
}

#[test]
fn the_routes_served_are_the_routes_documented() {
    let served = served(&routes().into());
    let document = document();
    let documented: BTreeSet<String> = operations(&document).into_iter().map(|(route, _)| route).collect();
    assert!(
        documented.contains("post /elsa/api/events/{id}/trigger"),
        "{documented:?}"
    );
    let not_served: Vec<_> = documented.difference(&served).collect();
    assert!(not_served.is_empty(), "documented and not served: {not_served:#?}");
    let missing: Vec<_> = served.difference(&documented).collect();
    assert!(missing.is_empty(), "served and not documented: {missing:#?}");
}

/// Every reference of a value.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_operation_is_described() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for (route, form) in operations(&document) {
        let id = form["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{route}: the operation id {id} occurs twice");
        let summary = form["summary"].as_str().unwrap_or_default();
        assert!(
            !summary.is_empty() && !summary.contains('\n'),
            "{route} has the summary {summary:?}"
        );
        assert_eq!(form["tags"].as_array().map(Vec::len), Some(1), "{route} has one tag");
        let parameters = form["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        let in_path = parameters.iter().filter(|one| one["in"] == "path");
        let named: BTreeSet<_> = in_path
            .map(|one| format!("{{{}}}", one["name"].as_str().unwrap()))
            .collect();
        let expected: BTreeSet<_> = route
            .split('/')
            .filter(|part| part.starts_with('{'))
            .map(str::to_owned)
            .collect();
        assert_eq!(named, expected, "{route}: the parameters in the path");
        for parameter in parameters {
            assert!(
                parameter["description"].is_string(),
                "{route}: {parameter} has no description"
            );
        }
        let responses = form["responses"].as_object().unwrap();
        assert!(
            responses.keys().any(|status| status.starts_with('2')),
            "{route} has no success"
        );
        for (status, response) in responses {
            let described = response["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(
                described || response["$ref"].is_string(),
                "{route}: {status} has no description"
            );
        }
    }
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for target in found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
    }
}

/// The path and the text of each source file below a folder.
fn sources(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            found.push((path.display().to_string(), text));
        }
    }
}

/// The names of all types with a schema, with those that share one.
fn schema_names(sources: &[(String, String)]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources {
        for (at, _) in text.match_indices("ToSchema)") {
            let head = text[at..]
                .split(['{', '(', ';'])
                .find(|part| part.contains("struct ") || part.contains("enum "));
            let name = head
                .and_then(|head| head.trim_end().rsplit(' ').next())
                .unwrap_or_default();
            let renamed = text[at..]
                .split('{')
                .next()
                .and_then(|head| head.split_once("schema(as = "));
            let name = renamed.map_or(name, |(_, rest)| rest.split(')').next().unwrap());
            found.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    found
}

/// The names of everything that the document describes.
fn described(value: &Value, found: &mut BTreeSet<String>) {
    if let Some(fields) = value["properties"].as_object() {
        found.extend(fields.keys().cloned());
    }
    if value["in"] == "query" {
        found.extend(value["name"].as_str().map(str::to_owned));
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| described(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| described(field, found)),
        _ => {}
    }
}

/// The other half, that what is described is read as its type, is shown by requests.
#[test]
fn every_field_that_is_read_is_described() {
    let (mut known, mut files) = (BTreeSet::new(), Vec::new());
    described(&document(), &mut known);
    // Of the WebSocket, which no document describes.
    known.insert("access_token".to_owned());
    sources(
        &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api"),
        &mut files,
    );
    let mut unknown = BTreeSet::new();
    let mut read = 0;
    for (path, text) in &files {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let readers = [
            "any",
            "text",
            "id",
            "texts",
            "texts_or_null",
            "texts_if_any",
            "object",
            "number",
            "flag",
            "keyword",
            "keywords",
            "member",
            "members",
        ];
        for reader in readers {
            for rest in code.split(&format!("ields.{reader}(\"")).skip(1) {
                let name = rest.split('"').next().unwrap();
                read += 1;
                if !known.contains(name) {
                    unknown.insert(format!("{path}: {name}"));
                }
            }
        }
    }
    assert!(read > 80, "{read}");
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// What has no value is left out of a response.
#[test]
fn only_schemas_of_requests_have_null() {
    let document = document();
    let has_null = |name: &str| {
        document["components"]["schemas"][name]
            .to_string()
            .contains(r#""null""#)
    };
    assert!(has_null("EventFields"));
    for name in [
        "InstanceSummary",
        "JournalRecord",
        "DeadLetter",
        "Definition",
        "WorkflowState",
        "Schedule",
    ] {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
        assert!(!has_null(name), "{name}");
    }
}

/// Of two types with one name, the document would have the schema of one.
#[test]
fn no_two_schemas_have_one_name() {
    let mut files = Vec::new();
    sources(
        &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let mut found = schema_names(&files);
    assert!(
        found.contains_key("EventFields") && found.contains_key("Schedule"),
        "{found:?}"
    );
    found.remove("$name");
    found.remove("");
    let twice: Vec<_> = found.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}

#[test]
fn an_operation_id_is_one_word() {
    let ids: Vec<_> = [
        "/elsa/api/events/{id}/trigger",
        "/elsa/api/bulk-actions/cancel/workflow-instances/",
        "/openapi.json",
    ]
    .map(|path| document::operation_id(path, "get"))
    .into();
    assert_eq!(
        ids,
        [
            "getEventsWithIdTrigger",
            "getBulkActionsCancelWorkflowInstancesSlash",
            "getOpenapiJson"
        ]
    );
}

#[test]
fn the_page_shows_every_operation_and_schema() {
    let document = document();
    let page = super::page::ReadingPage::of(&document).html;
    for (route, form) in operations(&document) {
        let id = form["operationId"].as_str().unwrap();
        assert!(page.contains(&format!("<details id=\"{id}\">")), "{route}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
    }
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
}
