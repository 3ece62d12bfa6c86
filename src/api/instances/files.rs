//! Instances as files: exports, and imports of them.

use axum::Json;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::files::{self, UniqueNames, zip};
use crate::api::path::Id;
use crate::api::upload;
use crate::auth::cross_site;
use crate::compute;
use crate::http::{ApiError, ApiResult, RequestBody, UploadedFiles};
use crate::id::InstanceId;
use crate::runtime::{ExportParts, MAX_INSTANCES};

/// The name of an archive, as Elsa has it.
const ARCHIVE: &str = "workflow-instances.zip";

/// The most bytes of the files of one archive.
const MOST_BYTES: usize = 64 << 20;

/// What a file contains besides the state.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct InstanceExportFields {
    /// The bookmarks as Elsa stores them. An import does not need them.
    include_bookmarks: Option<bool>,
    /// The executions of activities, the newest 1,000, and the whole history.
    include_activity_execution_log: Option<bool>,
    /// The journal, the first 10,000 entries, and the whole history.
    include_workflow_execution_log: Option<bool>,
}

/// Which instances to export.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct InstancesExportFields {
    /// Their ids, at most 100; unknown ones are left out.
    ids: Vec<String>,
    #[serde(flatten)]
    parts: InstanceExportFields,
}

/// The files to import, under any name of a field.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
pub(super) struct InstanceFiles {
    /// JSON files of instances, and zip archives of such files.
    files: Vec<Vec<u8>>,
}

/// The number of instances that were imported.
#[derive(Serialize, ToSchema)]
pub(super) struct InstancesImported {
    /// How many.
    count: u64,
    /// The same, under Elsa's name.
    imported: u64,
}

/// Exports an instance as a file.
#[utoipa::path(get, path = "/workflow-instances/{id}/export", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance."), InstanceExportFields),
    responses(
        (status = 200, description = "The instance as of its last commit; `Content-Disposition` names the file.", body = serde_json::Value),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`instance-busy`: it has not run yet. `instance-holds-secret`: it continues with a value made from a secret."),
        (status = 413, description = "`journal-too-long`: export it without its history."),
    ))]
pub(super) async fn export(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let parts = parts(&mut Fields::from_query(&uri)?)?;
    one(&api, &InstanceId::new(id), parts).await
}

/// Exports an instance as a file.
#[utoipa::path(post, path = "/workflow-instances/{id}/export", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance.")),
    request_body = Option<InstanceExportFields>,
    responses(
        (status = 200, description = "The instance as of its last commit; `Content-Disposition` names the file.", body = serde_json::Value),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`instance-busy`: it has not run yet. `instance-holds-secret`: it continues with a value made from a secret."),
        (status = 413, description = "`journal-too-long`: export it without its history."),
    ))]
pub(super) async fn export_by_post(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let parts = parts(&mut Fields::from_body(body.value)?)?;
    one(&api, &InstanceId::new(id), parts).await
}

/// Exports instances: one as JSON, several as a zip archive.
#[utoipa::path(post, path = "/bulk-actions/export/workflow-instances", tag = "Instances",
    request_body = InstancesExportFields,
    responses(
        (status = 200, description = "The file of one instance, or the archive with a file for each; `Content-Disposition` names it.",
            content((serde_json::Value = "application/json"), (Vec<u8> = "application/zip"))),
        (status = 204, description = "None of several instances exists."),
        (status = 404, description = "`instance-not-found`: the only one does not exist."),
        (status = 409, description = "`instance-busy`: one has not run yet. `instance-holds-secret`: one continues with a value made from a secret."),
        (status = 413, description = "`journal-too-long`, `export-too-large`: export fewer, or without their history."),
    ))]
pub(super) async fn export_many(api: Api, body: RequestBody) -> ApiResult {
    export_all(&api, Fields::from_body(body.value)?).await
}

/// Exports instances: one as JSON, several as a zip archive.
#[utoipa::path(get, path = "/bulk-actions/export/workflow-instances", tag = "Instances",
    params(("ids" = Vec<String>, Query, description = "Their ids, at most 100; unknown ones are left out."), InstanceExportFields),
    responses(
        (status = 200, description = "The file of one instance, or the archive with a file for each; `Content-Disposition` names it.",
            content((serde_json::Value = "application/json"), (Vec<u8> = "application/zip"))),
        (status = 204, description = "None of several instances exists."),
        (status = 404, description = "`instance-not-found`: the only one does not exist."),
        (status = 409, description = "`instance-busy`: one has not run yet. `instance-holds-secret`: one continues with a value made from a secret."),
        (status = 413, description = "`journal-too-long`, `export-too-large`: export fewer, or without their history."),
    ))]
pub(super) async fn export_many_by_get(api: Api, uri: Uri) -> ApiResult {
    export_all(&api, Fields::from_query(&uri)?).await
}

async fn export_all(api: &Api, mut fields: Fields) -> ApiResult {
    let mut ids: Vec<InstanceId> = Vec::new();
    for id in fields.texts("ids")?.into_iter().map(InstanceId::new) {
        if !ids.contains(&id) {
            ids.push(id);
        }
        if ids.len() > MAX_INSTANCES {
            let message = format!("At most {MAX_INSTANCES} instances are exported at once.");
            return Err(ApiError::invalid_field("ids", message));
        }
    }
    let parts = parts(&mut fields)?;
    let Some(first) = ids.first() else {
        let message = "ids must have at least one id.";
        return Err(ApiError::bad_request("missing-field", message).field("ids", message));
    };
    if ids.len() == 1 {
        return one(api, first, parts).await;
    }
    let (mut names, mut packed, mut bytes) = (UniqueNames::default(), Vec::new(), 0);
    for id in &ids {
        let file = match api.engine.export_instance(id, parts).await {
            Ok(file) => text(file).await?,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        bytes += file.len();
        if bytes > MOST_BYTES {
            let message = format!("These instances have more than {MOST_BYTES} bytes together; export fewer at once.");
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "export-too-large",
                message,
            ));
        }
        packed.push((names.take(&stem(id), "json"), file));
    }
    if packed.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let packing = compute::run(true, move || zip::pack(&packed).map_err(|_| ApiError::internal()));
    Ok(files::download(ARCHIVE, files::ZIP, packing.await??))
}

/// Imports files of instances: all of them, or none if any cannot be continued here.
#[utoipa::path(post, path = "/bulk-actions/import/workflow-instances", tag = "Instances",
    request_body(content = InstanceFiles, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "The number of instances that were imported.", body = InstancesImported),
        (status = 409, description = "`instance-exists`: an instance has one of the ids. `cannot-start`: the activation strategy of the workflow allows no unfinished instance to be added."),
        (status = 415, description = "`form-required`: the files must be sent as `multipart/form-data`. `unsupported-encoding`: send them without `Content-Encoding`."),
    ))]
pub(super) async fn import(api: Api, headers: HeaderMap, uploaded: UploadedFiles) -> ApiResult {
    // A page of another origin can send a form without a preflight request.
    if api.is_anonymous() {
        cross_site::reject_forgeable(&headers)?;
    }
    let read = upload::read(&api.body_limits, uploaded, MAX_INSTANCES, |_| true)
        .await?
        .wanted;
    // Their memory stays reserved until all are written.
    let (mut files, mut memory) = (Vec::with_capacity(read.len()), Vec::with_capacity(read.len()));
    for (name, mut parsed) in read {
        files.push((name, parsed.value.take().unwrap_or_default()));
        memory.push(parsed);
    }
    let count = api.engine.import_instances(files).await?;
    drop(memory);
    Ok(Json(InstancesImported { count, imported: count }).into_response())
}

fn parts(fields: &mut Fields) -> Result<ExportParts, ApiError> {
    Ok(ExportParts {
        bookmarks: fields.flag("includeBookmarks")? == Some(true),
        activity_executions: fields.flag("includeActivityExecutionLog")? == Some(true),
        journal: fields.flag("includeWorkflowExecutionLog")? == Some(true),
    })
}

async fn one(api: &Api, id: &InstanceId, parts: ExportParts) -> Result<Response, ApiError> {
    let file = text(api.engine.export_instance(id, parts).await?).await?;
    Ok(files::download(&format!("{}.json", stem(id)), files::JSON, file))
}

fn stem(id: &InstanceId) -> String {
    format!("workflow-instance-{}", files::slug(id.as_str()))
}

async fn text(file: Value) -> Result<Vec<u8>, ApiError> {
    let writing = compute::run(compute::is_large(&file), move || {
        serde_json::to_vec(&file).map_err(|_| ApiError::internal())
    });
    writing.await?
}
