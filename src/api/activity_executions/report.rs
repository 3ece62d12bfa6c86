//! How often the activities of an instance were executed: the counts on the canvas of Elsa Studio.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use super::list::missing;
use crate::api::Api;
use crate::api::fields::Fields;
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;

/// `POST /activity-executions/report`: an entry for each node that was executed.
pub(super) async fn report(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let instance = fields
        .id("workflowInstanceId")?
        .ok_or_else(|| missing("workflowInstanceId"))?;
    let nodes = fields.texts_or_null("activityNodeIds")?;
    let id = InstanceId::new(instance);
    let stats = api.engine.activity_execution_report(&id, nodes).await?;
    Ok(Json(json!({"stats": stats})).into_response())
}
