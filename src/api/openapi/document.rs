//! What follows from the form of an operation: its id, its security, and the errors that any such request may receive.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::{Map, Value, json};
use utoipa::PartialSchema;
use utoipa::openapi::OpenApi;

use crate::api::access::{self, Access, Found};
use crate::api::path;
use crate::http::{ErrorBody, PROBLEM_JSON};

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

const DESCRIPTION: &str = "Routes, casing and envelopes are those of Elsa Workflows 3. Any node of a cluster serves any \
    request.\n\nThe case of a field's name does not matter, `null` counts as absent, unknown fields are ignored, and a known \
    field of the wrong type is an error that names it. A field of a response that has no value is left out, and \
    its times have the offset `+00:00`. Bodies are JSON in UTF-8 of at most 10,485,760 bytes, nested at most 128 levels; a body that needs no field may be empty. A 2xx of a call that changes something means that the change is \
    committed.\n\nErrors have one shape (`Error`) and the type `application/problem+json`; programs use its \
    `code`. Another method of a path that exists gets 405 `method-not-allowed`, a path that does not exist 404 `no-such-route`. A GET route also answers HEAD, unless the GET \
    starts or resumes an instance.";

/// An error that a request may get whatever its operation does.
struct Shared {
    status: &'static str,
    name: &'static str,
    description: &'static str,
    retry: bool,
}

const SHARED: [Shared; 11] = [
    shared(
        "400",
        "BadRequest",
        "The request is invalid, and nothing was done: `invalid-field`, `invalid-json`, `invalid-body`, \
        `invalid-query`, `invalid-path`, `invalid-text`, `nesting-too-deep`, `missing-field`, …; `errors` names the fields.",
    ),
    shared(
        "401",
        "Unauthorized",
        "`unauthorized`: the credential is missing, wrong, expired, revoked, or for another use.",
    ),
    shared(
        "403",
        "Forbidden",
        "`host-not-allowed`: the name in `Host` is not admitted. `cross-site-request`: a web page of \
        another origin may not call this server. `permission-required`: the caller lacks the permission of the route. `header-required`: a GET with side effects or a form with files needs `X-Requested-With`. \
        `definition-readonly`: the definition is read-only, or belongs to the system.",
    ),
    shared("404", "NotFound", "No object has this id."),
    shared(
        "408",
        "RequestTimeout",
        "`body-timeout`: the body did not arrive in time.",
    ),
    shared(
        "413",
        "ContentTooLarge",
        "`body-too-large`, `too-many-values`, `value-too-large`.",
    ),
    shared(
        "415",
        "UnsupportedMediaType",
        "`json-required`: the body must be `application/json` in UTF-8. \
        `unsupported-encoding`: send it without `Content-Encoding`.",
    ),
    shared(
        "421",
        "MisdirectedRequest",
        "`no-api-here`: this node does not have the role `api`.",
    ),
    shared(
        "422",
        "UnprocessableContent",
        "`idempotency-key-reused`: the key was used with another request.",
    ),
    shared(
        "500",
        "InternalServerError",
        "`internal-error`: a defect; the log has the details. `given-up`: the work was \
        accepted and became a dead letter.",
    ),
    Shared {
        status: "503",
        name: "ServiceUnavailable",
        description: "Try again after `Retry-After`, at this node or at another one: `too-many-requests`, `draining`, \
            `database-unavailable`, `database-busy`, `outcome-unknown` (read `workflowInstanceId` first), …",
        retry: true,
    },
];

const fn shared(status: &'static str, name: &'static str, description: &'static str) -> Shared {
    Shared {
        status,
        name,
        description,
        retry: false,
    }
}

/// The whole document.
pub(super) fn of(collected: OpenApi) -> Value {
    let collected = serde_json::to_value(collected).unwrap_or_default();
    let mut paths = taken(&collected, "/paths");
    for (path, item) in &mut paths {
        for method in METHODS {
            if let Some(Value::Object(operation)) = item.get_mut(method) {
                complete(path, method, operation);
            }
        }
    }
    let mut schemas = taken(&collected, "/components/schemas");
    schemas.insert("Error".to_owned(), json!(ErrorBody::schema()));
    schemas.sort_keys();
    responses_without_null(&paths, &mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Mainspring",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": {"name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE")},
        },
        // Relative to the document, so that it holds below any path of a proxy.
        "servers": [{"url": "."}],
        "security": [{"bearer": []}, {"apiKey": []}],
        "tags": tags(&paths),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": SHARED.iter().map(component).collect::<Map<_, _>>(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "The `accessToken` of a login, or a token of an OpenID provider that the server trusts.",
                },
                "apiKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`ApiKey KEY`: the key of an application, or that of the server (`--api-key`). No credential is \
                        needed while there is no key, no user, no application and no provider.",
                },
            },
        },
    })
}

fn taken(value: &Value, pointer: &str) -> Map<String, Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

fn component(shared: &Shared) -> (String, Value) {
    let mut response = json!({"description": shared.description, "content": error_content()});
    if let Some(response) = response.as_object_mut().filter(|_| shared.retry) {
        let seconds = json!({"description": "Seconds until the next attempt.", "schema": {"type": "integer"}});
        response.insert("headers".to_owned(), json!({"Retry-After": seconds}));
    }
    (shared.name.to_owned(), response)
}

fn error_content() -> Value {
    json!({PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}})
}

/// The tags in use, in the order of their names.
fn tags(paths: &Map<String, Value>) -> Value {
    let items = paths.values().filter_map(Value::as_object).flat_map(Map::values);
    let tags = items.filter_map(|operation| operation.pointer("/tags/0").and_then(Value::as_str));
    let tags: BTreeSet<&str> = tags.collect();
    tags.into_iter().map(|name| json!({"name": name})).collect()
}

/// Who may call an operation; no caller, where the table lacks it.
fn access_of(path: &str, method: &str) -> Access {
    let method = method.to_ascii_uppercase();
    match Method::from_bytes(method.as_bytes()).map(|method| access::find(&method, path)) {
        Ok(Found::Route(route)) => route.access,
        _ => Access::Root(&[]),
    }
}

/// Adds the permissions of which a caller needs one, for programs as `x-permission` and for readers to the description.
fn name_permissions(access: Access, operation: &mut Map<String, Value>) {
    let names: Vec<&str> = access.permissions().iter().map(|one| one.name()).collect();
    if names.is_empty() {
        return;
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let mut sentence = format!("Permission: {}", quoted.join(" or "));
    if matches!(access, Access::Root(_)) {
        sentence.push_str(", of a caller who has every other one, too");
        operation.insert("x-security-root".to_owned(), true.into());
    }
    sentence.push('.');
    let before = operation.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = match before {
        "" => sentence,
        before => format!("{before}\n\n{sentence}"),
    };
    operation.insert("description".to_owned(), description.into());
    operation.insert("x-permission".to_owned(), names.into());
}

/// Adds what follows from the form of an operation.
fn complete(path: &str, method: &str, operation: &mut Map<String, Value>) {
    operation.insert("operationId".to_owned(), operation_id(path, method).into());
    if let Some(Value::String(summary)) = operation.get_mut("summary") {
        *summary = summary.trim_end_matches('.').to_owned();
    }
    let health = path::is_health(path);
    let access = access_of(path, method);
    if access.is_open() {
        operation.insert("security".to_owned(), json!([]));
    }
    name_permissions(access, operation);
    // A handler of several methods has one description, and a GET needs no body.
    if method == "get" {
        operation.shift_remove("requestBody");
    }
    for parameter in operation
        .get_mut("parameters")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        without_null(parameter.get_mut("schema"));
    }
    let has_body = operation.contains_key("requestBody");
    let parameters = operation.get("parameters").and_then(Value::as_array);
    let has_input = has_body || parameters.is_some_and(|list| !list.is_empty());
    let has_key = parameters.is_some_and(|list| list.iter().any(|one| one["name"] == "Idempotency-Key"));
    let Some(Value::Object(responses)) = operation.get_mut("responses") else {
        return;
    };
    for (status, response) in responses.iter_mut() {
        if let Some(response) = response.as_object_mut().filter(|_| status.as_str() >= "400") {
            response.entry("content").or_insert_with(error_content);
        }
        let headers = response.get_mut("headers").and_then(Value::as_object_mut);
        for header in headers.into_iter().flat_map(Map::values_mut) {
            without_null(header.get_mut("schema"));
        }
    }
    if health {
        return;
    }
    for shared in &SHARED {
        let applies = match shared.status {
            "400" => has_input,
            "401" => !access.is_open(),
            "404" => false,
            "408" | "413" | "415" => has_body,
            "422" => has_key,
            _ => true,
        };
        if applies && !responses.contains_key(shared.status) {
            let reference = format!("#/components/responses/{}", shared.name);
            responses.insert(shared.status.to_owned(), json!({"$ref": reference}));
        }
    }
    responses.sort_keys();
}

/// What is optional in a response is absent, not null; only a request may have both.
fn responses_without_null(paths: &Map<String, Value>, schemas: &mut Map<String, Value>) {
    let mut of_requests = BTreeSet::new();
    let operations = paths.values().filter_map(Value::as_object).flat_map(Map::values);
    let mut open: Vec<&Value> = operations.filter_map(|form| form.get("requestBody")).collect();
    while let Some(value) = open.pop() {
        open.extend(value.as_array().into_iter().flatten());
        open.extend(value.as_object().into_iter().flat_map(Map::values));
        let target = value.get("$ref").and_then(Value::as_str);
        let name = target.and_then(|target| target.strip_prefix("#/components/schemas/"));
        if let Some(name) = name.filter(|name| of_requests.insert((*name).to_owned())) {
            open.extend(schemas.get(name));
        }
    }
    let of_responses = schemas.iter_mut().filter(|(name, _)| !of_requests.contains(*name));
    for (_, schema) in of_responses {
        properties_without_null(schema);
    }
}

fn properties_without_null(schema: &mut Value) {
    for part in schema
        .get_mut("allOf")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        properties_without_null(part);
    }
    // What is always there is null without a value, as the tokens of a login that fails.
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &String| {
        required
            .as_array()
            .is_some_and(|names| names.iter().any(|one| one == name))
    };
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if !is_required(name) {
            without_null(Some(property));
        }
    }
}

/// What is optional in a path, a query or a head is absent, never null.
fn without_null(schema: Option<&mut Value>) {
    let Some(schema) = schema else { return };
    let is_null = |kind: &Value| kind.as_str() == Some("null");
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| !is_null(kind));
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            schema["type"] = only;
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("oneOf") {
        choices.retain(|choice| !choice.get("type").is_some_and(is_null));
    }
}

/// Method and path as one word: `postEventsWithIdTrigger`.
pub(super) fn operation_id(path: &str, method: &str) -> String {
    let mut id = method.to_owned();
    let path = path.strip_prefix(crate::api::PREFIX).unwrap_or(path);
    for segment in path.split('/').skip(1) {
        let parameter = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        id.push_str(if parameter.is_some() { "With" } else { "" });
        for word in parameter.unwrap_or(segment).split(|c: char| !c.is_ascii_alphanumeric()) {
            let mut characters = word.chars();
            id.extend(characters.next().map(|first| first.to_ascii_uppercase()));
            id.extend(characters);
        }
        // A path that ends with a slash is another path.
        id.push_str(if segment.is_empty() { "Slash" } else { "" });
    }
    id
}
