//! Types and storage of variables, and converters of outputs.

use std::sync::LazyLock;

use axum::Json;
use axum::body::Bytes;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::{json_response, list_of};
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::Counted;
use crate::elsa_json::without_nulls;
use crate::http::{ApiError, ApiResult};

/// Category, type name and description. The first one is what a designer proposes, and what it falls back to: a type of
/// Elsa's that is missing here would change in a definition that has it.
const VARIABLE_TYPES: [(&str, &str, &str); 25] = [
    ("Primitives", "Object", "Any value."),
    ("Primitives", "String", "Text."),
    ("Primitives", "Boolean", "True or false."),
    ("Primitives", "Int16", "A whole number of 16 bits."),
    ("Primitives", "Int32", "A whole number of 32 bits."),
    ("Primitives", "Int64", "A whole number of 64 bits."),
    ("Primitives", "Single", "A number."),
    ("Primitives", "Double", "A number."),
    ("Primitives", "Decimal", "A number, kept as a double."),
    ("Primitives", "Guid", "A globally unique identifier, kept as text."),
    ("Primitives", "DateTime", "A point in time."),
    (
        "Primitives",
        "DateTimeOffset",
        "A point in time with its offset from UTC.",
    ),
    ("Primitives", "TimeSpan", "A length of time, such as 1.12:00:00."),
    ("Lookups", "StringDictionary", "Texts by name."),
    ("Lookups", "ObjectDictionary", "Values by name."),
    ("Lookups", "StringMap", "Texts by name."),
    ("Lookups", "ObjectMap", "Values by name."),
    ("Dynamic", "JSON", "A JSON object."),
    ("Dynamic", "JsonElement", "Any JSON."),
    ("Dynamic", "JsonNode", "Any JSON."),
    ("Dynamic", "JsonObject", "A JSON object."),
    ("Dynamic", "JsonArray", "A JSON list."),
    ("Data", "ByteArray", "Bytes, kept as Base64."),
    ("Lists", "String[]", "A list of texts."),
    ("Lists", "Object[]", "A list of values."),
];

static VARIABLES: LazyLock<Bytes> = LazyLock::new(|| {
    let types = VARIABLE_TYPES.map(|(category, type_name, description)| {
        json!({"typeName": type_name, "displayName": type_name, "category": category, "description": description})
    });
    list_of(&types)
});

/// Lists the types of variables.
#[utoipa::path(get, path = "/descriptors/variables", tag = "For designers",
    responses((status = 200, description = "All types.", body = Counted<Value>)))]
pub(super) async fn variables() -> Response {
    json_response(&VARIABLES)
}

/// Lists where variables are stored: with their instance, or in memory until it waits.
#[utoipa::path(get, path = "/descriptors/storage-drivers", tag = "For designers",
    responses((status = 200, description = "The drivers, the default first.", body = Counted<Value>)))]
pub(super) async fn storage_drivers() -> Json<Value> {
    let driver = |type_name: &str, display_name: &str, priority: f64, deprecated: bool| {
        json!({
            "typeName": format!("Elsa.Workflows.{type_name}, Elsa.Workflows.Core"),
            "displayName": display_name,
            "priority": priority,
            "deprecated": deprecated,
        })
    };
    let drivers = [
        driver("WorkflowInstanceStorageDriver", "Workflow Instance", 5.0, false),
        driver("MemoryStorageDriver", "Memory", 0.0, false),
    ];
    Json(json!({"count": drivers.len(), "items": drivers}))
}

/// Lists the converters that fit between an output and what it is bound to.
///
/// This program has none; a program that embeds the engine can have some.
#[utoipa::path(get, path = "/descriptors/output-converters", tag = "For designers",
    params(
        ("sourceType" = String, Query, description = "The type of the output."),
        ("destinationType" = String, Query, description = "The type of the variable or of the workflow's output."),
    ),
    responses((status = 200, description = "The converters, by id.", body = Counted<Value>)))]
pub(super) async fn output_converters(api: Api, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let mut required = |name: &str| -> Result<String, ApiError> {
        let given = fields.id(name)?;
        given.ok_or_else(|| ApiError::invalid_field(name, format!("{name} is required.")))
    };
    let (source, target) = (required("sourceType")?, required("destinationType")?);
    let catalogue = api.engine.catalogue();
    let compatible = catalogue
        .converters()
        .filter(|converter| converter.is_compatible(&source, &target));
    let items: Vec<Value> = compatible
        .map(|converter| {
            without_nulls(json!({
                "id": converter.id,
                "sourceTypeName": converter.source_type,
                "resultTypeName": converter.result_type,
                "displayName": converter.display_name,
                "description": converter.description,
                "settingsSchema": converter.settings_schema,
            }))
        })
        .collect();
    Ok(Json(json!({"count": items.len(), "items": items})).into_response())
}
