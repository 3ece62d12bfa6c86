//! Descriptors: what a designer needs to know to show and edit a definition.
//!
//! # Layout
//! - `activities`: the activity types of this node, with `activity_json` for their form; `choices`: what an input offers now.
//! - `expressions`: expression types, and what scripts can name; `types`: types and storage of variables, converters.
//! - `strategies`: activation, commits, incidents, log persistence; `features`: what this server has.
//! - `empty`: lists of what does not exist here.
//!
//! Nothing here changes while a node runs, so each list is written once. The activity types are those of the node; the other
//! lists are those of the program.

mod activities;
mod activity_json;
mod choices;
mod empty;
mod expressions;
mod features;
mod strategies;
mod types;

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use activities::ActivityDescriptors;

use super::Api;

/// The routes of this folder.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(activities::list))
        .routes(routes!(activities::get))
        .routes(routes!(choices::options))
        .routes(routes!(expressions::list))
        .routes(routes!(expressions::type_definitions))
        .routes(routes!(types::variables))
        .routes(routes!(types::storage_drivers))
        .routes(routes!(types::output_converters))
        .routes(routes!(strategies::activation))
        .routes(routes!(strategies::incident))
        .routes(routes!(strategies::log_persistence))
        .routes(routes!(strategies::workflow_commit))
        .routes(routes!(strategies::activity_commit))
        .routes(routes!(features::list))
        .routes(routes!(features::get))
        .routes(routes!(features::package_version))
        .routes(routes!(empty::workflow_contexts))
        .routes(routes!(empty::resilience_strategies))
        .routes(routes!(empty::retries))
}

/// A list as it is sent: `{items, count}`.
fn list_of(items: &[Value]) -> Bytes {
    written(&json!({"items": items, "count": items.len()}))
}

fn written(value: &Value) -> Bytes {
    value.to_string().into_bytes().into()
}

/// JSON that was written before.
fn json_response(body: &Bytes) -> Response {
    let mut response = body.clone().into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
