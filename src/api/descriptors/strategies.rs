//! Strategies that a definition or an activity can name.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::response::Response;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{json_response, list_of};
use crate::api::openapi::Counted;
use crate::execution::{ACTIVITY_COMMIT_STRATEGIES, INCIDENT_STRATEGIES, NamedStrategy, WORKFLOW_COMMIT_STRATEGIES};

/// Display name, description, and the type name in definitions. `definition::publication` has the same names.
const ACTIVATION_STRATEGIES: [(&str, &str, &str); 4] = [
    (
        "Always",
        "Every start is accepted.",
        "Elsa.Workflows.ActivationValidators.AllowAlwaysStrategy, Elsa.Workflows.Core",
    ),
    (
        "Singleton",
        "A start is rejected while an instance of the workflow is unfinished.",
        "Elsa.Workflows.Runtime.ActivationValidators.SingletonStrategy, Elsa.Workflows.Runtime",
    ),
    (
        "Correlated singleton",
        "A start is rejected while an instance of the workflow with the same correlation id is unfinished.",
        "Elsa.Workflows.Runtime.ActivationValidators.CorrelatedSingletonStrategy, Elsa.Workflows.Runtime",
    ),
    (
        "Correlation",
        "A start is rejected while an instance of any workflow with the same correlation id is unfinished.",
        "Elsa.Workflows.Runtime.ActivationValidators.CorrelationStrategy, Elsa.Workflows.Runtime",
    ),
];

/// Everything is recorded, unless the workflow's own journal is off.
const LOG_PERSISTENCE: [(&str, &str, &str); 4] = [
    (
        "Include",
        "The value is recorded.",
        "Elsa.Workflows.LogPersistence.Strategies.Include, Elsa.Workflows.Core",
    ),
    (
        "Exclude",
        "The value is not recorded.",
        "Elsa.Workflows.LogPersistence.Strategies.Exclude, Elsa.Workflows.Core",
    ),
    (
        "Inherit",
        "Like the values of its container; those of a workflow are recorded.",
        "Elsa.Workflows.LogPersistence.Strategies.Inherit, Elsa.Workflows.Core",
    ),
    (
        "Configuration",
        "As the server is configured: values are recorded.",
        "Elsa.Workflows.LogPersistence.Strategies.Configuration, Elsa.Workflows.Core",
    ),
];

/// A strategy that a definition names by its type.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct TypedStrategy {
    display_name: String,
    description: String,
    type_name: String,
}

/// A strategy that a definition names.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct CommitStrategyView {
    name: String,
    display_name: String,
    description: String,
}

fn by_type(strategies: &[(&str, &str, &str)]) -> Bytes {
    let strategies = strategies.iter();
    let items = strategies.map(|(display_name, description, type_name)| {
        json!({"displayName": display_name, "description": description, "typeName": type_name})
    });
    list_of(&items.collect::<Vec<Value>>())
}

fn by_name(strategies: &[NamedStrategy]) -> Bytes {
    let strategies = strategies.iter();
    let items = strategies.map(|(name, display_name, description)| {
        json!({"name": name, "displayName": display_name, "description": description})
    });
    list_of(&items.collect::<Vec<Value>>())
}

/// Lists the activation strategies.
#[utoipa::path(get, path = "/descriptors/workflow-activation-strategies", tag = "For designers",
    responses((status = 200, description = "All strategies.", body = Counted<TypedStrategy>)))]
pub(super) async fn activation() -> Response {
    static LIST: LazyLock<Bytes> = LazyLock::new(|| by_type(&ACTIVATION_STRATEGIES));
    json_response(&LIST)
}

/// Lists the incident strategies.
#[utoipa::path(get, path = "/descriptors/incident-strategies", tag = "For designers",
    responses((status = 200, description = "All strategies.", body = Counted<TypedStrategy>)))]
pub(super) async fn incident() -> Response {
    static LIST: LazyLock<Bytes> = LazyLock::new(|| {
        let by_type_name = INCIDENT_STRATEGIES.map(|(type_name, name, description)| (name, description, type_name));
        by_type(&by_type_name)
    });
    json_response(&LIST)
}

/// Lists the strategies for what is recorded of an activity.
#[utoipa::path(get, path = "/descriptors/log-persistence-strategies", tag = "For designers",
    responses((status = 200, description = "All strategies.", body = Counted<TypedStrategy>)))]
pub(super) async fn log_persistence() -> Response {
    static LIST: LazyLock<Bytes> = LazyLock::new(|| by_type(&LOG_PERSISTENCE));
    json_response(&LIST)
}

/// Lists the commit strategies of workflows.
#[utoipa::path(get, path = "/descriptors/commit-strategies/workflows", tag = "For designers",
    responses((status = 200, description = "All strategies.", body = Counted<CommitStrategyView>)))]
pub(super) async fn workflow_commit() -> Response {
    static LIST: LazyLock<Bytes> = LazyLock::new(|| by_name(&WORKFLOW_COMMIT_STRATEGIES));
    json_response(&LIST)
}

/// Lists the commit strategies of activities.
#[utoipa::path(get, path = "/descriptors/commit-strategies/activities", tag = "For designers",
    responses((status = 200, description = "All strategies.", body = Counted<CommitStrategyView>)))]
pub(super) async fn activity_commit() -> Response {
    static LIST: LazyLock<Bytes> = LazyLock::new(|| by_name(&ACTIVITY_COMMIT_STRATEGIES));
    json_response(&LIST)
}
