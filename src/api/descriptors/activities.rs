//! The activity types that a definition may hold.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use serde_json::Value;

use super::activity_json::{activity, workflow};
use super::{json_response, written};
use crate::activity::{Catalogue, Descriptor};
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::Counted;
use crate::api::path::Id;
use crate::http::{ApiError, ApiResult};

/// The activity types of one node, written when they are first requested.
#[derive(Default)]
pub(in crate::api) struct ActivityDescriptors(OnceLock<WrittenDescriptors>);

struct WrittenDescriptors {
    items: Vec<Value>,
    list: Bytes,
    /// By type and version.
    each: BTreeMap<String, BTreeMap<i32, Bytes>>,
}

impl ActivityDescriptors {
    fn of(&self, catalogue: &Catalogue) -> &WrittenDescriptors {
        self.0.get_or_init(|| {
            let placeholder = Descriptor::placeholder();
            let mut descriptors = catalogue.descriptors();
            // The list has a pair of type and version at most once; a program may have its own placeholder.
            if catalogue.descriptor(&placeholder.type_name, 0).is_none() {
                descriptors.push(&placeholder);
            }
            let mut items = Vec::with_capacity(descriptors.len());
            let mut each: BTreeMap<String, BTreeMap<i32, Bytes>> = BTreeMap::new();
            for descriptor in descriptors {
                let item = activity(descriptor);
                let versions = each.entry(descriptor.type_name.clone()).or_default();
                versions.insert(descriptor.version, written(&item));
                items.push(item);
            }
            WrittenDescriptors {
                list: super::list_of(&items),
                items,
                each,
            }
        })
    }
}

/// Lists the activity types that a definition may contain, including usable definitions.
#[utoipa::path(get, path = "/descriptors/activities", tag = "For designers",
    params(("refresh" = Option<bool>, Query, description = "Changes nothing: definitions are read each time.")),
    responses((status = 200, description = "All types of this node.", body = Counted<Value>)))]
pub(super) async fn list(api: Api, uri: Uri) -> ApiResult {
    // The types of the program never change, and those of definitions are read each time.
    Fields::from_query(&uri)?.flag("refresh")?;
    let written = api.descriptors.of(api.engine.catalogue());
    let workflows = api.engine.workflow_activities().await?;
    if workflows.is_empty() {
        return Ok(json_response(&written.list));
    }
    let workflows = workflows.iter().map(workflow);
    let items: Vec<Value> = written.items.iter().cloned().chain(workflows).collect();
    Ok(json_response(&super::list_of(&items)))
}

/// Gets an activity type.
#[utoipa::path(get, path = "/descriptors/activities/{type}", tag = "For designers",
    params(
        ("type" = String, Path, description = "The name of the type."),
        ("version" = Option<i32>, Query, description = "The version; the newest if absent.", minimum = 0),
    ),
    responses(
        (status = 200, description = "The type.", body = Value),
        (status = 404, description = "`activity-type-not-found`: this node does not know it."),
    ))]
pub(super) async fn get(api: Api, Id(type_name): Id, uri: Uri) -> ApiResult {
    let version = version(&mut Fields::from_query(&uri)?)?;
    let written = api.descriptors.of(api.engine.catalogue());
    let Some(versions) = written.each.get(&type_name) else {
        let workflows = api.engine.workflow_activities().await?;
        let of_type = workflows.iter().filter(|descriptor| descriptor.type_name == type_name);
        let mut found = of_type.filter(|descriptor| version.is_none_or(|version| descriptor.version == version));
        let found = found.next().ok_or_else(|| unknown_type(&type_name))?;
        return Ok(json_response(&super::written(&workflow(found))));
    };
    let found = match version {
        Some(version) => versions.get(&version),
        None => versions.values().next_back(),
    };
    found.map(json_response).ok_or_else(|| unknown_type(&type_name))
}

/// The version of a type that a query names.
pub(super) fn version(fields: &mut Fields) -> Result<Option<i32>, ApiError> {
    let version = fields.number("version", 0)?;
    Ok(version.and_then(|version| i32::try_from(version).ok()))
}

pub(super) fn unknown_type(type_name: &str) -> ApiError {
    let message = format!("This node does not know the activity type {type_name}, or not in this version.");
    ApiError::new(StatusCode::NOT_FOUND, "activity-type-not-found", message)
}
