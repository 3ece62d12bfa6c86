//! Bulk actions on definitions and versions: a few at a time, each in its own transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::Json;
use axum::response::IntoResponse;
use futures_util::{StreamExt, stream};
use serde_json::json;

use super::schema::{BulkPublished, BulkRetracted, DefinitionIds, DefinitionsDeleted, VersionIds};
use crate::api::Api;
use crate::api::fields::Fields;
use crate::definition::{ValidationError, with_id};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::{DefinitionFilter, DefinitionSummary, Page, VersionOptions};
use crate::{Error, Result};

/// The most ids of one action: as many as a page of a list has.
const MOST_IDS: usize = 1_000;

/// How many are processed at once: fewer than there are pooled connections.
const CONCURRENCY: usize = 4;

fn ids(body: RequestBody, name: &str) -> Result<Vec<String>, ApiError> {
    take_ids(&mut Fields::from_body(body.value)?, name)
}

/// The ids of a field, each once and in their order.
pub(super) fn take_ids(fields: &mut Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let mut ids = fields.texts(name)?;
    if ids.len() > MOST_IDS {
        return Err(ApiError::invalid_field(
            name,
            format!("{name} has at most {MOST_IDS} ids."),
        ));
    }
    let mut seen = BTreeSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    Ok(ids)
}

/// The newest versions of these definitions, by definition.
async fn latest(api: &Api, ids: &[String]) -> Result<HashMap<String, DefinitionSummary>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let filter = DefinitionFilter {
        versions: VersionOptions::Latest,
        definition_ids: ids.iter().cloned().map(DefinitionId::new).collect(),
        ..DefinitionFilter::default()
    };
    let page = Page {
        page: 0,
        page_size: Page::MAX_SIZE,
    };
    let items = api.engine.definitions(&filter, page).await?.items.into_iter();
    Ok(items
        .map(|item| (item.definition_id.as_str().to_owned(), item))
        .collect())
}

/// Publishes the latest versions of several definitions.
#[utoipa::path(post, path = "/bulk-actions/publish/workflow-definitions/by-definition-ids", tag = "Definitions",
    request_body = Option<DefinitionIds>,
    responses(
        (status = 200, description = "The result for each.", body = BulkPublished),
    ))]
pub(super) async fn publish(api: Api, body: RequestBody) -> ApiResult {
    let ids = ids(body, "definitionIds")?;
    let latest = latest(&api, &ids).await?;
    let (mut published, mut already, mut not_found, mut skipped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut failed, mut warnings, mut consumers) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    let mut wanted = Vec::new();
    for id in ids {
        match latest.get(&id) {
            None => not_found.push(id),
            Some(item) if item.is_published => already.push(id),
            Some(item) if item.is_system => skipped.push(id),
            // Of what is read-only the publish decides: the first version is published.
            Some(_) => wanted.push(id),
        }
    }
    let publishes = wanted.into_iter().map(|id| {
        let engine = api.engine.clone();
        async move { (engine.publish(&DefinitionId::new(id.clone())).await, id) }
    });
    let mut publishes = stream::iter(publishes).buffered(CONCURRENCY);
    while let Some((outcome, id)) = publishes.next().await {
        match outcome {
            Ok(done) if done.already_published => already.push(id),
            Ok(done) => {
                let messages: Vec<String> = done.warnings.iter().map(ValidationError::message_with_id).collect();
                if !messages.is_empty() {
                    warnings.insert(id.clone(), messages);
                }
                consumers.extend(done.consumers_updated.iter().map(|id| id.as_str().to_owned()));
                published.push(id);
            }
            Err(error) if error.is_not_found() => not_found.push(id),
            Err(error) if error.is_forbidden() => skipped.push(id),
            Err(error) if is_own(&error) => {
                warnings.insert(id.clone(), messages(&error));
                failed.push(id);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let body = json!({
        "published": published, "alreadyPublished": already, "notFound": not_found, "skipped": skipped,
        "updatedConsumers": consumers, "failed": failed, "warnings": warnings,
    });
    Ok(Json(body).into_response())
}

/// Whether clients may not change a version. It is left out before a transaction is begun for it, which would refuse it, too.
fn is_kept(item: &DefinitionSummary) -> bool {
    item.is_readonly || item.is_system
}

/// Whether an error is about one definition, so that the others are not concerned.
fn is_own(error: &Error) -> bool {
    error.is_invalid() || error.is_conflict() || error.is_unprocessable()
}

fn messages(error: &Error) -> Vec<String> {
    let fields = error.fields();
    if fields.is_empty() {
        return vec![error.message().to_owned()];
    }
    fields.iter().map(|(key, message)| with_id(message, key)).collect()
}

/// Ends the publication of several definitions.
#[utoipa::path(post, path = "/bulk-actions/retract/workflow-definitions/by-definition-ids", tag = "Definitions",
    request_body = Option<DefinitionIds>,
    responses(
        (status = 200, description = "The result for each.", body = BulkRetracted),
    ))]
pub(super) async fn retract(api: Api, body: RequestBody) -> ApiResult {
    let ids = ids(body, "definitionIds")?;
    let latest = latest(&api, &ids).await?;
    let (mut retracted, mut already, mut not_found, mut skipped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut wanted = Vec::new();
    for id in ids {
        match latest.get(&id) {
            None => not_found.push(id),
            // Else another version may be published, which decides.
            Some(item) if item.is_published && is_kept(item) => skipped.push(id),
            Some(_) => wanted.push(id),
        }
    }
    let retracts = wanted.into_iter().map(|id| {
        let engine = api.engine.clone();
        async move { (engine.retract(&DefinitionId::new(id.clone())).await, id) }
    });
    let mut retracts = stream::iter(retracts).buffered(CONCURRENCY);
    while let Some((outcome, id)) = retracts.next().await {
        match outcome {
            Ok(_) => retracted.push(id),
            Err(error) if error.is_not_found() => not_found.push(id),
            Err(error) if error.is_forbidden() => skipped.push(id),
            Err(error) if error.is_invalid() => already.push(id),
            Err(error) => return Err(error.into()),
        }
    }
    let body = json!({
        "retracted": retracted, "alreadyRetracted": already, "notFound": not_found, "skipped": skipped,
    });
    Ok(Json(body).into_response())
}

/// Deletes several definitions with all their versions; those that are read-only or belong to the system stay.
#[utoipa::path(post, path = "/bulk-actions/delete/workflow-definitions/by-definition-id", tag = "Definitions",
    request_body = Option<DefinitionIds>,
    responses(
        (status = 200, description = "The number of those that are deleted.", body = DefinitionsDeleted),
    ))]
pub(super) async fn delete(api: Api, body: RequestBody) -> ApiResult {
    let mut ids = ids(body, "definitionIds")?;
    let latest = latest(&api, &ids).await?;
    ids.retain(|id| latest.get(id).is_some_and(|item| !is_kept(item)));
    let deletes = ids.into_iter().map(|id| {
        let engine = api.engine.clone();
        async move { engine.delete_definition(&DefinitionId::new(id)).await.map(drop) }
    });
    deleted(stream::iter(deletes).buffer_unordered(CONCURRENCY)).await
}

/// Deletes several versions, also read-only ones; those of the system stay.
#[utoipa::path(post, path = "/bulk-actions/delete/workflow-definitions/by-id", tag = "Definitions",
    request_body = Option<VersionIds>,
    responses(
        (status = 200, description = "The number of those that are deleted.", body = DefinitionsDeleted),
    ))]
pub(super) async fn delete_versions(api: Api, body: RequestBody) -> ApiResult {
    let deletes = ids(body, "ids")?.into_iter().map(|id| {
        let engine = api.engine.clone();
        async move { engine.delete_definition_version(&VersionId::new(id)).await }
    });
    deleted(stream::iter(deletes).buffer_unordered(CONCURRENCY)).await
}

/// The number of those that are deleted.
async fn deleted(mut outcomes: impl futures_util::Stream<Item = Result<()>> + Unpin) -> ApiResult {
    let mut count = 0;
    while let Some(outcome) = outcomes.next().await {
        match outcome {
            Ok(()) => count += 1,
            Err(error) if error.is_not_found() || error.is_forbidden() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(json!({ "deleted": count })).into_response())
}
