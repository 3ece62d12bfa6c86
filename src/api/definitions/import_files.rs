//! Imports of files: definitions as JSON, and zip archives of them.
//!
//! All files are read and checked before the first one is saved: if one is invalid, it is named and nothing is imported.
//! Of several files of one definition only the last makes it read-only, so that the others can be saved, also by a retry.
//!
//! Unpacked data is bounded whatever an archive declares, and parsed data shares the memory of all bodies.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{SCHEMA, draft_of};
use crate::api::Api;
use crate::api::upload;
use crate::auth::cross_site;
use crate::definition::elsa2;
use crate::http::{ApiError, ApiResult, UploadedFiles};
use crate::id::DefinitionId;
use crate::runtime::{DefinitionFilter, Page, PreparedDraft, VersionOptions};

/// The most definitions of one import.
const MOST_FILES: usize = 1_000;

/// The most files that an error names.
const NAMED: usize = 100;

/// How the schema of every version of Elsa's definitions begins.
const SCHEMA_PREFIX: &str = "https://elsaworkflows.io/schemas/workflow-definition/";

/// The files to import, under any name of a field.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
pub(super) struct ImportFiles {
    /// JSON files of definitions, and zip archives of such files.
    files: Vec<Vec<u8>>,
}

/// What was imported.
#[derive(Serialize, ToSchema)]
struct Imported {
    /// How many definitions.
    count: usize,
    /// What became of each file.
    files: Vec<ImportedFile>,
}

/// What became of a file.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ImportedFile {
    /// Its name; in an archive, behind that of the archive.
    name: String,
    /// Whether it was imported.
    is_imported: bool,
    /// The definition, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition_id: Option<DefinitionId>,
    /// Why it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Why a file is dropped.
const NO_WORKFLOW: &str = "it is no workflow definition: it has no root activity";

/// Imports files: each definition becomes a draft.
///
/// JSON files that are not workflows are dropped, unless there are no others. If any file cannot be read, nothing is imported.
/// Importing the same files again is safe, also after an error in between.
#[utoipa::path(post, path = "/workflow-definitions/import-files", tag = "Definitions",
    request_body(content = ImportFiles, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "What became of each file.", body = Imported),
        (status = 400, description = "`invalid-file`: a file cannot be read, or none is a workflow definition; nothing is imported."),
        (status = 403, description = "`definition-readonly`: a definition belongs to the system, or is read-only and other than its last file; nothing is imported."),
        (status = 409, description = "`newer-version-published` or `definition-changing`; the message names the file. Others may be imported; importing all again is safe."),
        (status = 415, description = "`form-required`: the files must be sent as `multipart/form-data`. `unsupported-encoding`: send them without `Content-Encoding`."),
    ))]
pub(super) async fn import_files(api: Api, headers: HeaderMap, uploaded: UploadedFiles) -> ApiResult {
    // A page of another origin can send a form without a preflight request.
    if api.is_anonymous() {
        cross_site::reject_forgeable(&headers)?;
    }
    let read = upload::read(&api.body_limits, uploaded, MOST_FILES, is_workflow).await?;
    if read.wanted.is_empty() && !read.dropped.is_empty() {
        let error = ApiError::bad_request(
            "invalid-file",
            "None of the files is a workflow definition; nothing was imported.",
        );
        let dropped = read.dropped.into_iter().take(NAMED);
        return Err(dropped.fold(error, |error, name| error.field(name, NO_WORKFLOW)));
    }
    let mut drafts = Vec::with_capacity(read.wanted.len());
    for (name, mut parsed) in read.wanted {
        let draft = draft_of(&api, parsed.value.take().unwrap_or_default()).await;
        let (draft, memory) = draft.map_err(|error| error.of_file(&name))?;
        // Its memory stays reserved until all are saved.
        drafts.push((name, draft, (parsed, memory)));
    }
    let mut last: HashMap<DefinitionId, usize> = HashMap::new();
    for (at, (_, draft, _)) in drafts.iter_mut().enumerate().rev() {
        if *last.entry(draft.definition_id().clone()).or_insert(at) != at {
            draft.stay_writable();
        }
    }
    let imported = refuse_readonly(&api, &drafts, &last).await?;
    let count = drafts.len();
    let mut files = Vec::with_capacity(count + read.dropped.len());
    for (name, draft, _memory) in drafts {
        let definition_id = draft.definition_id().clone();
        if !imported.contains(&definition_id) {
            let saved = api.engine.save_prepared(draft).await;
            saved.map_err(|error| ApiError::from(error).of_file(&name))?;
        }
        files.push(ImportedFile {
            name,
            is_imported: true,
            definition_id: Some(definition_id),
            reason: None,
        });
    }
    files.extend(read.dropped.into_iter().map(|name| ImportedFile {
        name,
        is_imported: false,
        definition_id: None,
        reason: Some(NO_WORKFLOW),
    }));
    Ok(Json(Imported { count, files }).into_response())
}

/// Refuses all files if one would change a definition that is read-only or belongs to the system; its save would, too, after
/// those before it. Returns the read-only ones that are as their last file wants them: an earlier import has saved them.
async fn refuse_readonly<M>(
    api: &Api,
    drafts: &[(String, PreparedDraft, M)],
    last: &HashMap<DefinitionId, usize>,
) -> Result<HashSet<DefinitionId>, ApiError> {
    let mut imported = HashSet::new();
    let filter = DefinitionFilter {
        versions: VersionOptions::Latest,
        definition_ids: drafts
            .iter()
            .map(|(_, draft, _)| draft.definition_id().clone())
            .collect(),
        ..DefinitionFilter::default()
    };
    if filter.definition_ids.is_empty() {
        return Ok(imported);
    }
    let page = Page {
        page: 0,
        page_size: Page::MAX_SIZE,
    };
    let existing = api.engine.definitions(&filter, page).await?.items;
    for item in existing.iter().filter(|item| item.is_readonly || item.is_system) {
        let file = last.get(&item.definition_id).and_then(|at| drafts.get(*at));
        let Some((name, draft, _)) = file else { continue };
        let is_saved = api.engine.is_saved(draft).await;
        if is_saved.map_err(|error| ApiError::from(error).of_file(name))? {
            imported.insert(item.definition_id.clone());
        }
    }
    Ok(imported)
}

/// Whether a value is meant to be a workflow: an object with a root activity, or with Elsa's schema; one of Elsa 2 is refused by name.
fn is_workflow(value: &Value) -> bool {
    let schema = value.get(SCHEMA).and_then(Value::as_str).unwrap_or_default();
    value.get("root").is_some_and(|root| !root.is_null())
        || schema.starts_with(SCHEMA_PREFIX)
        || elsa2::refuse(value).is_err()
}
