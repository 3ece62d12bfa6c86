//! Instructions for instances that exist: resume and cancel.

use postgres_types::ToSql;
use serde_json::Value;

use super::accept::{RequestKey, read_request};
use crate::Result;
use crate::db::Pool;
use crate::failpoint;
use crate::id::{InstanceId, TenantId, WorkId};

const ACCEPT: &str = include_str!("../../sql/queries/work_accept.sql");
const CANCEL: &str = include_str!("../../sql/queries/work_accept_cancel.sql");
const EXISTS: &str = include_str!("../../sql/queries/work_exists.sql");

/// What an instruction tells the burst to do; the numbers are those of `work.kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    Start = 0,
    Resume = 1,
    Stimulus = 2,
    Cancel = 3,
    Continue = 4,
}

impl WorkKind {
    pub(crate) fn from_number(number: i16) -> Option<Self> {
        [Self::Start, Self::Resume, Self::Stimulus, Self::Cancel, Self::Continue]
            .into_iter()
            .find(|kind| *kind as i16 == number)
    }
}

/// Accepts a resume; none when its idempotency key stands for one that was accepted before.
pub(crate) async fn accept_resume(
    pool: &Pool,
    tenant: &TenantId,
    instance: &InstanceId,
    body: &Value,
    request: Option<&RequestKey>,
) -> Result<Option<WorkId>> {
    failpoint::hit("accept.before").await?;
    let kind = WorkKind::Resume as i16;
    let params: [&(dyn ToSql + Sync); 7] = [
        &tenant.as_str(),
        &instance.as_str(),
        &kind,
        body,
        &request.map(|request| request.route),
        &request.map(|request| request.key.as_str()),
        &request.map(|request| request.fingerprint.as_slice()),
    ];
    let row = pool.query_opt(ACCEPT, &params).await?;
    failpoint::hit("accept.after").await?;
    if let (None, Some(request)) = (&row, request) {
        read_request(pool, tenant, request).await?;
    }
    Ok(row.map(|row| WorkId(row.get(0))))
}

/// What became of the wish to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelAccepted {
    /// A burst will cancel it; the one that may be running has lost already.
    Accepted(WorkId),
    /// It had finished before.
    Finished,
    /// Nobody knows it.
    NotFound,
}

/// Accepts a cancel and fences the burst that may be running the instance, in one statement.
pub(crate) async fn accept_cancel(pool: &Pool, tenant: &TenantId, instance: &InstanceId) -> Result<CancelAccepted> {
    failpoint::hit("accept.before").await?;
    let row = pool.query_one(CANCEL, &[&tenant.as_str(), &instance.as_str()]).await?;
    failpoint::hit("accept.after").await?;
    Ok(match (row.get::<_, Option<i64>>(0), row.get::<_, bool>(1)) {
        (Some(work), _) => CancelAccepted::Accepted(WorkId(work)),
        (None, true) => CancelAccepted::Finished,
        (None, false) => CancelAccepted::NotFound,
    })
}

/// Whether an instruction still waits or runs.
pub(crate) async fn exists(pool: &Pool, tenant: &TenantId, work: WorkId) -> Result<bool> {
    Ok(pool.query_one(EXISTS, &[&tenant.as_str(), &work.0]).await?.get(0))
}
