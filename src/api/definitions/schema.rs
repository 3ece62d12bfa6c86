//! Definitions as the OpenAPI document shows them. They are composed JSON, which keeps properties unknown to the engine.
#![allow(dead_code, clippy::large_enum_variant, reason = "schemas")]

use std::collections::HashMap;

use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use crate::runtime::DefinitionSummary;

/// Which definitions to list, and how.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(super) struct DefinitionQuery {
    /// `Latest`, `Published`, `LatestOrPublished`, `LatestAndPublished`, `Draft`, `AllVersions` (if absent), or the number of
    /// a version.
    version_options: Option<String>,
    /// Only these versions, by their own ids; repeatable.
    ids: Option<Vec<String>>,
    /// Only of these definitions; repeatable.
    definition_ids: Option<Vec<String>>,
    /// Only with this text in the name, the description or an id, in any case.
    search_term: Option<String>,
    /// Only of the system, or only others.
    is_system: Option<bool>,
    /// `Name`, `Created` or `Version`.
    order_by: Option<String>,
    /// `Ascending` or `Descending`.
    order_direction: Option<String>,
    /// `Json`: another value finds nothing.
    materializer: Option<String>,
    /// Any value finds nothing.
    label: Option<Vec<String>>,
}

/// What a client may do.
#[derive(ToSchema)]
struct Link {
    /// Below the prefix of the API.
    href: String,
    /// What it does.
    rel: String,
    /// The method.
    method: String,
}

/// A version of a workflow definition. Properties that the engine does not know are kept.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definition {
    /// The id of the version.
    id: String,
    /// The id that all versions share.
    definition_id: String,
    /// Its name.
    name: Option<String>,
    /// Its description.
    description: Option<String>,
    /// When the version was created.
    created_at: Option<String>,
    /// Counts from 1.
    version: i32,
    /// The version of the tool that created it.
    tool_version: Option<String>,
    /// Its variables.
    variables: Vec<Value>,
    /// Its inputs.
    inputs: Vec<Value>,
    /// Its outputs.
    outputs: Vec<Value>,
    /// Its outcomes.
    outcomes: Vec<String>,
    /// What clients keep with it.
    custom_properties: Map<String, Value>,
    /// It may not be edited.
    is_readonly: bool,
    /// It belongs to the system.
    is_system: bool,
    /// The newest version.
    is_latest: bool,
    /// The published version.
    is_published: bool,
    /// Strategies and other options.
    options: Map<String, Value>,
    /// The root activity; each activity has its `nodeId`.
    root: Option<Map<String, Value>>,
    /// What the client may do.
    links: Vec<Link>,
}

/// A workflow definition as clients send it; `nodeId` and `links` are ignored.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionFields {
    /// The id of the definition; a new one if absent.
    definition_id: Option<String>,
    /// The number of the version that was edited.
    version: Option<i32>,
    /// No client can change it any more; only an import takes it.
    is_readonly: Option<bool>,
    /// Its name.
    name: Option<String>,
    /// Its description.
    description: Option<String>,
    /// The version of the tool that created it.
    tool_version: Option<String>,
    /// Its variables.
    variables: Option<Vec<Value>>,
    /// Its inputs.
    inputs: Option<Vec<Value>>,
    /// Its outputs.
    outputs: Option<Vec<Value>>,
    /// Its outcomes.
    outcomes: Option<Vec<String>>,
    /// What clients keep with it.
    custom_properties: Option<Map<String, Value>>,
    /// Strategies and other options.
    options: Option<Map<String, Value>>,
    /// The root activity; an empty sequence if absent, but for a `PUT` of a definition, whose publish needs one.
    root: Option<Map<String, Value>>,
}

/// A definition to save.
#[derive(ToSchema)]
pub(super) struct SaveFields {
    /// The definition.
    model: DefinitionFields,
    /// Also publishes it.
    publish: Option<bool>,
}

/// A definition, bare or in the form of a save.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum DefinitionOrSave {
    /// A definition.
    Definition(DefinitionFields),
    /// The form of a save.
    Save(SaveFields),
}

/// The result of a save or a publish.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedDefinition {
    /// The version.
    workflow_definition: Definition,
    /// It was published before, and nothing was written.
    already_published: bool,
    /// 0: workflows are not activities yet.
    consuming_workflow_count: u64,
    /// The warnings of a publish; it is still published.
    validation_errors: Vec<String>,
}

/// A version in a list.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionItem {
    #[serde(flatten)]
    summary: DefinitionSummary,
    /// What the client may do.
    links: Vec<Link>,
    /// `Json`.
    materializer_name: Option<String>,
    /// True.
    is_materializer_available: Option<bool>,
}

/// A page of versions.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionList {
    /// The versions of this page.
    items: Vec<DefinitionItem>,
    /// How many match.
    total_count: u64,
    /// What the client may do.
    links: Vec<Link>,
}

/// Whether a name is unique.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Uniqueness {
    /// No other definition has it.
    is_unique: bool,
}

/// An activity with those that it contains.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActivityTreeSchema {
    /// The activity.
    activity: Map<String, Value>,
    /// Its place in the definition.
    node_id: String,
    /// The port of its container that holds it.
    port: Option<String>,
    /// The activities in it, each in the same form.
    #[schema(no_recursion)]
    children: Option<Vec<ActivityTreeSchema>>,
}

/// The containers around an activity.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PathSegments {
    /// The activity.
    child_node: ActivityTreeSchema,
    /// The container that holds it.
    container: ActivityTreeSchema,
    /// The containers, outermost first.
    path_segments: Vec<Map<String, Value>>,
}

/// The definitions that use another one.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Consumers {
    /// Their ids.
    consuming_workflow_definition_ids: Vec<String>,
}

/// The definitions that were updated.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpdatedConsumers {
    /// Their names.
    affected_workflows: Vec<String>,
}

/// The definitions of a bulk action, at most 1,000.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionIds {
    /// Their ids.
    definition_ids: Option<Vec<String>>,
}

/// The versions of a bulk action, at most 1,000.
#[derive(ToSchema)]
pub(super) struct VersionIds {
    /// Their own ids.
    ids: Option<Vec<String>>,
}

/// The result for each definition, by id.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BulkPublished {
    /// They are published.
    published: Vec<String>,
    /// They were published before.
    already_published: Vec<String>,
    /// They do not exist.
    not_found: Vec<String>,
    /// They are read-only.
    skipped: Vec<String>,
    /// They use one of the published ones as an activity, and were updated with it.
    updated_consumers: Vec<String>,
    /// They cannot be published; `warnings` says why.
    failed: Vec<String>,
    /// By id: why it cannot be published, or the warnings of its publish.
    warnings: HashMap<String, Vec<String>>,
}

/// The result for each definition, by id.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BulkRetracted {
    /// They are no longer published.
    retracted: Vec<String>,
    /// They were not published.
    already_retracted: Vec<String>,
    /// They do not exist.
    not_found: Vec<String>,
    /// They are read-only.
    skipped: Vec<String>,
}

/// The number of deleted items.
#[derive(ToSchema)]
pub(super) struct DefinitionsDeleted {
    /// How many are deleted.
    deleted: u64,
}
