//! The choices that an input offers, given the values of the other inputs.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::activities::{unknown_type, version};
use super::activity_json::ui_specifications;
use crate::activity::{Descriptor, UiHint, camel_case};
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::IdPair;
use crate::definition::InputBinding;
use crate::http::{ApiError, ApiResult, RequestBody};

/// What the designer has.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct OptionsFields {
    /// The inputs by their names in camel case, as in a definition.
    #[schema(value_type = Option<Object>)]
    context: Option<Map<String, Value>>,
}

/// What the control of the input needs.
#[derive(Serialize, ToSchema)]
struct Options {
    #[schema(value_type = Object)]
    items: Map<String, Value>,
}

/// How long an activity type may take for its choices.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The most choices that are sent.
const MOST: usize = 10_000;

/// The choices of an input now, by the values of the other inputs.
#[utoipa::path(post, path = "/descriptors/activities/{type}/options/{input}", tag = "For designers",
    params(
        ("type" = String, Path, description = "The name of the activity type."),
        ("input" = String, Path, description = "The name of the input."),
        ("version" = Option<i32>, Query, description = "The version of the type.", minimum = 0),
    ),
    request_body = Option<OptionsFields>,
    responses(
        (status = 200, description = "The specifications of the control.", body = Options),
        (status = 404, description = "`activity-type-not-found`, `input-not-found`."),
    ))]
pub(super) async fn options(
    api: Api,
    IdPair(type_name, name): IdPair,
    uri: Uri,
    headers: HeaderMap,
    body: RequestBody,
) -> ApiResult {
    let version = version(&mut Fields::from_query(&uri)?)?.unwrap_or(0);
    let context = Fields::from_body(body.value)?.object("context")?.unwrap_or_default();
    let catalogue = api.engine.catalogue();
    let descriptor = catalogue.descriptor(&type_name, version);
    let descriptor = descriptor.ok_or_else(|| unknown_type(&type_name))?;
    let inputs = descriptor.inputs.iter();
    let mut named = inputs.filter(|input| input.name.eq_ignore_ascii_case(&name));
    let Some(input) = named.next() else {
        let message = format!("The activity type {type_name} has no input {name}.");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "input-not-found", message));
    };
    let mut hint = input.ui_hint.clone();
    if input.is_refreshed {
        let values = values(descriptor, &context);
        let choosing = catalogue.choices(&type_name, version, &input.name, &values);
        let choices = tokio::time::timeout(TIMEOUT, choosing).await.map_err(|_| {
            let message = format!(
                "The choices of {type_name}.{name} took more than {} s.",
                TIMEOUT.as_secs()
            );
            ApiError::unavailable("choices-timeout", message)
        })?;
        let choices = choices.ok_or_else(|| unknown_type(&type_name))?;
        let mut choices = choices.map_err(|fault| {
            tracing::warn!(
                type_name,
                input = name,
                fault = fault.message,
                "an activity type has no choices"
            );
            ApiError::unavailable("choices-failed", format!("The choices failed: {}", fault.message))
        })?;
        choices.truncate(MOST);
        hint = hint.with_choices(choices);
    }
    let mut items = ui_specifications(&hint, input.is_refreshed);
    complete_url(&mut items, &headers);
    Ok(Json(Options { items }).into_response())
}

/// Puts the address under which the client knows the server before a URL that is shown without one.
fn complete_url(items: &mut Map<String, Value>, headers: &HeaderMap) {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(host) = text(header::HOST) else { return };
    // A page has the scheme in its origin, which a proxy may have ended TLS for.
    let origin = text(header::ORIGIN).filter(|origin| origin.split_once("://").is_some_and(|(_, own)| own == host));
    let origin = origin.map_or_else(|| format!("http://{host}"), str::to_owned);
    let line = items.get_mut(UiHint::SingleLine.as_str());
    if let Some(Value::String(shown)) = line.and_then(|line| line.get_mut("adornmentText"))
        && shown.starts_with('/')
    {
        shown.insert_str(0, &origin);
    }
}

/// The literal values among what a designer has for the inputs, by their names in Pascal case.
fn values(descriptor: &Descriptor, context: &Map<String, Value>) -> Map<String, Value> {
    let mut values = Map::new();
    for input in &descriptor.inputs {
        let given = context
            .get(&camel_case(&input.name))
            .or_else(|| context.get(&input.name));
        let value = match given {
            Some(given) if input.is_raw => Some(given.clone()),
            given => InputBinding::parse(given)
                .and_then(|binding| binding.expression)
                .filter(|expression| expression.kind == "Literal" || expression.kind == "Object")
                .map(|expression| expression.value),
        };
        if let Some(value) = value.or_else(|| input.default.clone()) {
            values.insert(input.name.clone(), value);
        }
    }
    values
}
