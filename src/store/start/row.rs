//! A start as a row of the statement that accepts it.

use postgres_types::ToSql;
use serde_json::Value;

use super::NewStart;
use crate::id::VersionId;
use crate::store::audit::OriginRow;

/// The composite type of the schema.
#[derive(Debug, ToSql)]
#[postgres(name = "start_request")]
pub(super) struct StartRow<'a> {
    no: i32,
    tenant_id: &'a str,
    instance_id: &'a str,
    definition_id: &'a str,
    body: &'a Value,
    route: Option<&'a str>,
    key: Option<&'a str>,
    fingerprint: Option<&'a [u8]>,
    claimed: bool,
    version_id: Option<&'a str>,
    checked_version: Option<&'a str>,
    trigger_activity_id: Option<&'a str>,
    trigger_hash: Option<&'a [u8]>,
    trigger_revision: Option<i64>,
    origin: Option<OriginRow>,
}

impl<'a> StartRow<'a> {
    /// The row of a start, by its place in the batch.
    pub(super) fn of(no: i32, start: &'a NewStart) -> Self {
        let request = start.request.as_ref();
        let route = start.route.as_ref();
        Self {
            no,
            tenant_id: start.tenant.as_str(),
            instance_id: start.instance.as_str(),
            definition_id: start.definition_id.as_str(),
            body: &start.body,
            route: request.map(|request| request.route),
            key: request.map(|request| request.key.as_str()),
            fingerprint: request.map(|request| request.fingerprint.as_slice()),
            claimed: start.claimed,
            version_id: start.version_id.as_ref().map(VersionId::as_str),
            checked_version: start.checked_version.as_ref().map(VersionId::as_str),
            trigger_activity_id: route.map(|route| route.activity_id.as_str()),
            trigger_hash: route.map(|route| route.hash.0.as_slice()),
            trigger_revision: route.map(|route| route.revision),
            origin: start.origin.as_deref().map(OriginRow::of),
        }
    }
}
