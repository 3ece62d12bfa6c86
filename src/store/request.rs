//! Idempotency keys: a request that is repeated under its key gets its first result.

use postgres_types::ToSql;

use crate::db::Pool;
use crate::id::{InstanceId, TenantId, WorkId};
use crate::{Error, Result};

const READ: &str = include_str!("../../sql/queries/request/read.sql");

/// The route of the requests to HTTP endpoints; their keys begin with the scope, which has the endpoint.
pub(crate) const HTTP_ROUTE: &str = "http";

/// An idempotency key: of a client, a route, and the fingerprint of the request that it was sent with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdempotencyKey {
    pub(crate) route: &'static str,
    pub(crate) key: String,
    pub(crate) fingerprint: Vec<u8>,
}

impl IdempotencyKey {
    /// A key that no client knows, for a request that is only repeated while its outcome is in doubt.
    pub(crate) fn random(route: &'static str) -> Self {
        Self {
            route,
            key: format!("~{}", uuid::Uuid::new_v4().simple()),
            fingerprint: NO_FINGERPRINT.to_vec(),
        }
    }

    pub(crate) fn is_random(&self) -> bool {
        self.fingerprint == NO_FINGERPRINT
    }
}

/// No request has this hash.
const NO_FINGERPRINT: [u8; 32] = [0; 32];

/// A request that was accepted under an idempotency key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestRecord {
    /// The instance that it created or addressed, if any.
    pub(crate) instance: Option<InstanceId>,
    /// The row of work of a resume.
    pub(crate) work: Option<WorkId>,
}

/// Whether any request was accepted under a key.
#[cfg(feature = "http")]
pub(crate) async fn is_known(pool: &Pool, tenant: &TenantId, route: &str, key: &str) -> Result<bool> {
    let params: [&(dyn ToSql + Sync); 3] = [&tenant.as_str(), &route, &key];
    Ok(pool.query_opt(READ, &params).await?.is_some())
}

/// The request that was accepted under a key, if any. Another fingerprint is an error.
pub(crate) async fn find_request(
    pool: &Pool,
    tenant: &TenantId,
    request: &IdempotencyKey,
) -> Result<Option<RequestRecord>> {
    let params: [&(dyn ToSql + Sync); 3] = [&tenant.as_str(), &request.route, &request.key];
    let Some(row) = pool.query_opt(READ, &params).await? else {
        return Ok(None);
    };
    if row.get::<_, Vec<u8>>("fingerprint") != request.fingerprint {
        return Err(Error::unprocessable(
            "idempotency-key-reused",
            "this Idempotency-Key was used with another request; use a new key",
        ));
    }
    Ok(Some(RequestRecord {
        instance: row.get::<_, Option<String>>("instance_id").map(InstanceId::from),
        work: row.get::<_, Option<i64>>("work_id").map(WorkId),
    }))
}
