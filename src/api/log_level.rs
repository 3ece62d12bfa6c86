//! The level of the log, which an operator changes while the nodes run.

use axum::Json;
use axum::response::IntoResponse;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use crate::http::{ApiResult, RequestBody};
use crate::id::{DefinitionId, InstanceId};
use crate::runtime::{LogLevel, LogLevelOf, LogLevels};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(level))
        .routes(routes!(set_level))
}

/// The names of the levels.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// A level, and what it is for.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct LogLevelFields {
    /// `error`, `warn`, `info`, `debug` or `trace`; without it the level is that of the settings again.
    level: Option<String>,
    /// Only what bursts of this instance log.
    workflow_instance_id: Option<InstanceId>,
    /// Only what bursts of instances of this definition log.
    definition_id: Option<DefinitionId>,
    /// Only at the node that answers; else at all nodes that run now.
    this_node_only: Option<bool>,
}

/// Gets the levels of the log of the node that answers.
#[utoipa::path(get, path = "/cluster/log-level", tag = "Cluster",
    responses(
        (status = 200, description = "The filter of the settings, and the levels that differ from it.", body = LogLevels),
        (status = 409, description = "`log-elsewhere`: the engine is part of a program with a log of its own."),
    ))]
pub(super) async fn level(api: Api) -> ApiResult {
    Ok(Json(api.engine.log_levels()?).into_response())
}

/// Changes the level of the log, of everything or of one instance or definition.
///
/// It holds until it is set back or the node ends.
#[utoipa::path(put, path = "/cluster/log-level", tag = "Cluster",
    request_body = Option<LogLevelFields>,
    responses(
        (status = 200, description = "The levels of the node that answers.", body = LogLevels),
        (status = 409, description = "`log-elsewhere`; `too-many-log-levels`: set one back first."),
    ))]
pub(super) async fn set_level(api: Api, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let level = fields.keyword("level", &LEVELS)?;
    let of = LogLevelOf {
        workflow_instance_id: fields.id("workflowInstanceId")?.map(InstanceId::new),
        definition_id: fields.id("definitionId")?.map(DefinitionId::new),
        level: level.and_then(LogLevel::named),
    };
    let this_node_only = fields.flag("thisNodeOnly")?.unwrap_or(false);
    let levels = api.engine.set_log_level(of, !this_node_only).await?;
    Ok(Json(levels).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_its_name() {
        for name in LEVELS {
            assert_eq!(LogLevel::named(name).unwrap().to_string(), name);
        }
    }
}
