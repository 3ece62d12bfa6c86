//! What this server supports, by the names of Elsa's features: a designer shows what belongs to them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::openapi::Counted;
use crate::api::path::Id;
use crate::http::{ApiError, ApiResult};

/// The hub; Studio polls where it is not listed.
const REAL_TIME: &str = "RealTimeWorkflowUpdates";

type FeatureText = (&'static str, &'static str, &'static str);

/// Name, display name and description, all in Elsa's namespace. Only what is served is here: Elsa Studio asks a feature that
/// is listed.
const FEATURES: [FeatureText; 7] = [
    (
        "WorkflowManagement",
        "Workflow Management",
        "Definitions and their versions, and instances.",
    ),
    (
        REAL_TIME,
        "Real Time Workflow Updates",
        "The hub that reports the commits of an instance to a designer.",
    ),
    ("WorkflowRuntime", "Workflow Runtime", "Runs instances, in a cluster."),
    ("WorkflowsApi", "Workflows API", "This REST API."),
    ("Flowchart", "Flowchart", "Activities and the connections between them."),
    ("JavaScript", "JavaScript", "JavaScript expressions."),
    (
        "Scheduling",
        "Scheduling",
        "Delays, timers, cron expressions and points in time.",
    ),
];

const NAMESPACE: &str = "Elsa";

/// A feature.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Feature {
    name: &'static str,
    namespace: &'static str,
    full_name: String,
    display_name: &'static str,
    description: &'static str,
}

/// The version of the program.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PackageVersion {
    package_version: &'static str,
}

/// What is listed.
fn features(api: &Api) -> impl Iterator<Item = &'static FeatureText> {
    let polls = api.studio_polls;
    FEATURES.iter().filter(move |(name, ..)| !polls || *name != REAL_TIME)
}

fn feature(&(name, display_name, description): &FeatureText) -> Feature {
    Feature {
        name,
        namespace: NAMESPACE,
        full_name: format!("{NAMESPACE}.{name}"),
        display_name,
        description,
    }
}

/// Lists the features of Elsa that are served.
#[utoipa::path(get, path = "/features/installed", tag = "For designers",
    responses((status = 200, description = "All features.", body = Counted<Feature>)))]
pub(super) async fn list(api: Api) -> Json<Value> {
    let items: Vec<Feature> = features(&api).map(feature).collect();
    Json(json!({"items": items, "count": items.len()}))
}

/// Gets a feature of Elsa that is served.
#[utoipa::path(get, path = "/features/installed/{name}", tag = "For designers",
    params(("name" = String, Path, description = "Its full name, such as `Elsa.Scheduling`.")),
    responses(
        (status = 200, description = "The feature.", body = Feature),
        (status = 404, description = "`feature-not-found`: this server does not have it."),
    ))]
pub(super) async fn get(api: Api, Id(full_name): Id) -> ApiResult {
    let name = full_name
        .strip_prefix(NAMESPACE)
        .and_then(|name| name.strip_prefix('.'));
    let found = features(&api).find(|(known, ..)| Some(*known) == name);
    let found = found.ok_or_else(|| {
        let message = format!("This server does not have the feature {full_name}.");
        ApiError::new(StatusCode::NOT_FOUND, "feature-not-found", message)
    })?;
    Ok(Json(feature(found)).into_response())
}

/// Gets the version of this program, not of Elsa.
#[utoipa::path(get, path = "/package/version", tag = "For designers",
    responses((status = 200, description = "The version.", body = PackageVersion)))]
pub(super) async fn package_version() -> Response {
    let package_version = env!("CARGO_PKG_VERSION");
    Json(PackageVersion { package_version }).into_response()
}
