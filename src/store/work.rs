//! Rows of work: accepts resumes and cancels, and reads the status of a row.

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde_json::Value;
use tokio_postgres::Row;

#[cfg(feature = "http")]
use super::claim;
use super::code::WorkKind;
use super::dead_letter;
use super::link::{self, LinkUse};
use super::request::{IdempotencyKey, find_request};
use crate::db::{ANSWER_TIMEOUT, Pool, columns, is_in_doubt, within};
use crate::failpoint;
use crate::id::{Incarnation, InstanceId, TenantId, WorkId};
use crate::{Error, Result};

const ACCEPT: &str = include_str!("../../sql/queries/work/accept.sql");
const CANCEL: &str = include_str!("../../sql/queries/work/accept_cancel.sql");
const STATUS: &str = include_str!("../../sql/queries/work/status.sql");
const QUEUE: &str = include_str!("../../sql/queries/work/queue.sql");
const DELETE_CANCELLED: &str = include_str!("../../sql/queries/work/delete_cancelled.sql");
const START_STATUS: &str = include_str!("../../sql/queries/start/status.sql");

/// How many rows one statement deletes, which bounds its duration.
const CANCELLED_PAGE: i64 = 1_000;

/// An accepted resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptedResume {
    /// Accepted as this row of work.
    New(WorkId),
    /// Accepted before under its idempotency key, as this row; `None` if that was too long ago to know.
    Existing(Option<WorkId>),
}

/// Accepts a resume, unless one was accepted before under its idempotency key. By a link, the same transaction uses that.
pub(crate) async fn accept_resume(
    pool: &Pool,
    tenant: &TenantId,
    instance: &InstanceId,
    body: &Value,
    request: Option<&IdempotencyKey>,
    link: Option<&LinkUse>,
) -> Result<AcceptedResume> {
    let kind = WorkKind::Resume.number();
    let params: [&(dyn ToSql + Sync); 7] = [
        &tenant.as_str(),
        &instance.as_str(),
        &kind,
        body,
        &request.map(|request| request.route),
        &request.map(|request| request.key.as_str()),
        &request.map(|request| request.fingerprint.as_slice()),
    ];
    // Retried, as the key may expire between the two statements, or as the first attempt is in doubt: the key resolves that,
    // since the former backend holds it until it ends.
    let mut doubt = None;
    for _ in 0..3 {
        match send(pool, instance, ACCEPT, &params, link.map(|link| (link, tenant))).await {
            Ok(Some(row)) => return Ok(AcceptedResume::New(WorkId(row.get("id")))),
            Ok(None) => {}
            Err(error) if doubt.is_none() && request.is_some() && error.is_unknown_outcome() => {
                doubt = Some(error);
                continue;
            }
            // The same request may have used the link up, at once or in doubt.
            Err(error) if request.is_some() && link::refusal(&error).is_some() => {
                let before = accepted_before(pool, tenant, request, doubt.is_some()).await;
                // What cannot be read leaves it in doubt.
                let before = before.map_err(|error| doubt.unwrap_or(error))?;
                return before.ok_or(error);
            }
            Err(error) => return Err(doubt.filter(|_| error.is_transient()).unwrap_or(error)),
        }
        match accepted_before(pool, tenant, request, doubt.is_some()).await {
            Ok(Some(before)) => return Ok(before),
            Ok(None) => {}
            Err(error) => return Err(doubt.unwrap_or(error)),
        }
    }
    Err(Error::unavailable(
        "database-busy",
        "the resume could not be accepted; try again",
    ))
}

/// What was accepted under the key of a request. `in_doubt`: by an earlier attempt of this one.
async fn accepted_before(
    pool: &Pool,
    tenant: &TenantId,
    request: Option<&IdempotencyKey>,
    in_doubt: bool,
) -> Result<Option<AcceptedResume>> {
    let Some(request) = request else { return Ok(None) };
    let before = find_request(pool, tenant, request).await?;
    Ok(before.map(|before| match before.work {
        Some(work) if in_doubt => AcceptedResume::New(work),
        work => AcceptedResume::Existing(work),
    }))
}

/// Whether a statement has accepted a row.
fn is_accepted(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.get::<_, Option<i64>>("id").is_some())
}

/// Runs a statement that accepts a row. In doubt: [`Error::is_unknown_outcome`], not a transient error, as a second resume
/// could match the next bookmark.
async fn send(
    pool: &Pool,
    instance: &InstanceId,
    sql: &'static str,
    params: &[&(dyn ToSql + Sync)],
    link: Option<(&LinkUse, &TenantId)>,
) -> Result<Option<Row>> {
    failpoint::hit("accept.before").await?;
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let statement = within(ANSWER_TIMEOUT, client.prepare_cached(sql)).await?;
    let spend = match link {
        None => None,
        Some(_) => Some(within(ANSWER_TIMEOUT, LinkUse::prepare(client)).await?),
    };
    let answer = match (link, &spend) {
        (Some((link, tenant)), Some(spend)) => {
            within(ANSWER_TIMEOUT, link.around(client, tenant, [spend, &statement], params)).await
        }
        _ if connection.companion().is_some() => {
            let changing = within(ANSWER_TIMEOUT, connection.change(&statement, params, is_accepted)).await;
            changing.and_then(|changed| changed)
        }
        _ => within(ANSWER_TIMEOUT, client.query(&statement, params)).await,
    };
    let answer = failpoint::hit("accept.after").await.and(answer);
    match answer {
        Err(error) if is_in_doubt(&error) => Err(Error::unknown_outcome(
            "the database connection was lost while this was accepted; look the instance up, or try again with the same \
             Idempotency-Key",
        )
        .instance(instance.as_str())
        .caused_by(error)),
        answer => {
            connection.give_back();
            Ok(answer?.into_iter().next())
        }
    }
}

/// The result of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptedCancel {
    /// A burst will cancel it; one that runs now is fenced.
    Accepted(WorkId),
    /// It had finished before.
    Finished,
    /// It does not exist.
    NotFound,
}

/// Accepts a cancel and fences a running burst of the instance, in one statement.
pub(crate) async fn accept_cancel(pool: &Pool, tenant: &TenantId, instance: &InstanceId) -> Result<AcceptedCancel> {
    let params: [&(dyn ToSql + Sync); 2] = [&tenant.as_str(), &instance.as_str()];
    let row = send(pool, instance, CANCEL, &params, None).await?;
    let row = row.ok_or_else(|| Error::internal("a cancel returned no row"))?;
    Ok(
        match (row.get::<_, Option<i64>>("id"), row.get::<_, bool>("is_known")) {
            (Some(work), _) => AcceptedCancel::Accepted(WorkId(work)),
            (None, true) => AcceptedCancel::Finished,
            (None, false) => AcceptedCancel::NotFound,
        },
    )
}

/// What became of a row of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkStatus {
    /// It waits or runs; or, of a start, its instance exists.
    Pending,
    /// It was consumed and matched, or deleted with its instance; or, of an unflushed start, lost in a crash of the server
    /// (see [`start_status`]).
    Consumed,
    /// It was consumed and matched nothing.
    Unmatched,
    /// It was deleted with its request, and had no effect.
    Discarded,
    /// It became a dead letter.
    DeadLettered,
    /// A start that was accepted and deleted since.
    Deleted,
    /// A start that was deleted, or lost in a crash of the server before it was flushed.
    Unknown,
}

/// The status of a row of work.
pub(crate) async fn status(pool: &Pool, tenant: &TenantId, instance: &InstanceId, work: WorkId) -> Result<WorkStatus> {
    let row = pool
        .query_one(STATUS, &[&tenant.as_str(), &work.0, &instance.as_str()])
        .await?;
    Ok(
        match (
            row.get("waits"),
            row.get("unmatched"),
            row.get("discarded"),
            row.get("dead_lettered"),
        ) {
            (true, _, _, _) => WorkStatus::Pending,
            (_, true, _, _) => WorkStatus::Unmatched,
            (_, _, true, _) => WorkStatus::Discarded,
            (_, _, _, true) => WorkStatus::DeadLettered,
            (false, false, false, false) => WorkStatus::Consumed,
        },
    )
}

/// Discards a row of a volatile request that no node has claimed, and of which no burst has begun, with its idempotency key.
#[cfg(feature = "http")]
pub(crate) async fn withdraw(
    pool: &Pool,
    tenant: &TenantId,
    instance: &InstanceId,
    work: WorkId,
    key: Option<&str>,
) -> Result<claim::Withdrawal> {
    claim::discard(pool, (tenant, instance), work, None, key).await
}

/// The status of a start that `incarnation` accepted, or found accepted, and of which neither row nor instance was found.
pub(crate) async fn start_status(
    pool: &Pool,
    tenant: &TenantId,
    instance: &InstanceId,
    incarnation: Incarnation,
) -> Result<WorkStatus> {
    let params: [&(dyn ToSql + Sync); 3] = [&tenant.as_str(), &instance.as_str(), &incarnation.0];
    let row = pool.query_one(START_STATUS, &params).await?;
    Ok(
        match (row.get("there"), row.get("dead_lettered"), row.get("no_crash")) {
            (true, _, _) => WorkStatus::Pending,
            (_, true, _) => WorkStatus::DeadLettered,
            (_, _, true) => WorkStatus::Deleted,
            (false, false, false) => WorkStatus::Unknown,
        },
    )
}

/// The backlog of one kind and state.
#[derive(Clone, Debug)]
pub(crate) struct QueueRow {
    pub(crate) kind: &'static str,
    pub(crate) state: String,
    pub(crate) count: i64,
    pub(crate) oldest_ms: Option<i64>,
    pub(crate) next_at: Option<DateTime<Utc>>,
    /// What kept events weigh.
    pub(crate) bytes: Option<i64>,
}

/// The backlog by kind and state.
pub(crate) async fn queue(pool: &Pool) -> Result<Vec<QueueRow>> {
    let rows = pool.query(QUEUE, &[]).await?;
    let at = columns!(rows; kind, state, count, oldest_ms, next_at, bytes)?;
    let row = |row: &tokio_postgres::Row| QueueRow {
        kind: dead_letter::word(row.get(at.kind)),
        state: row.get(at.state),
        count: row.get(at.count),
        oldest_ms: row.get(at.oldest_ms),
        next_at: row.get(at.next_at),
        bytes: row.get(at.bytes),
    };
    Ok(rows.iter().map(row).collect())
}

/// Deletes a page of the unclaimed rows of a cancelled instance after the row `after`, and returns them in order. They matched
/// nothing, which is recorded for callers. Empty: nothing is left, or the instance has not ended.
pub(crate) async fn delete_cancelled_page(
    pool: &Pool,
    tenant: &TenantId,
    instance: &InstanceId,
    after: WorkId,
) -> Result<Vec<WorkId>> {
    let params: [&(dyn ToSql + Sync); 4] = [&tenant.as_str(), &instance.as_str(), &after.0, &CANCELLED_PAGE];
    let rows = pool.query(DELETE_CANCELLED, &params).await?;
    let at = columns!(rows; id)?;
    Ok(rows.iter().map(|row| WorkId(row.get(at.id))).collect())
}
