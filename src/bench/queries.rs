//! What benchmarks read of a cluster from outside. No node runs these statements.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_postgres::Client;

use crate::Result;
use crate::db::{ANSWER_TIMEOUT, columns, within};
use crate::id::{InstanceId, NodeId, TenantId};

const HELD: &str = include_str!("../../sql/queries/bench/claimed_instances.sql");
const CLOCK: &str = include_str!("../../sql/queries/bench/clock.sql");
const FINISHED: &str = include_str!("../../sql/queries/bench/finished_count.sql");
const BEGUN: &str = include_str!("../../sql/queries/bench/activity_begun.sql");
const TWICE: &str = include_str!("../../sql/queries/bench/repeated_activities.sql");
const UNCLAIMED_TIMERS: &str = include_str!("../../sql/queries/bench/unclaimed_timers.sql");
const WAITING: &str = include_str!("../../sql/queries/bench/open_bookmarks.sql");
const SET_DUE: &str = include_str!("../../sql/queries/bench/set_due.sql");
const RAN: &str = include_str!("../../sql/queries/bench/timer_latency.sql");
const COST: &str = include_str!("../../sql/queries/bench/wal_cost.sql");
const FLUSHES: &str = include_str!("../../sql/queries/bench/wal_flushes.sql");
const ENDED: &str = include_str!("../../sql/queries/bench/finished_latency.sql");
const LEAVE_DEAD_ROWS: &str = include_str!("../../sql/queries/bench/leave_dead_rows.sql");
const SERVER: &str = include_str!("../../sql/queries/bench/server_settings.sql");

/// The instances whose work a node has claimed.
pub(super) async fn held(client: &Client, node: &NodeId) -> Result<Vec<InstanceId>> {
    let rows = within(ANSWER_TIMEOUT, client.query(HELD, &[&node.as_str()])).await?;
    let at = columns!(rows; instance_id)?;
    Ok(rows
        .iter()
        .map(|row| InstanceId::new(row.get::<_, String>(at.instance_id)))
        .collect())
}

/// The time by the database's clock.
pub(super) async fn clock(client: &Client) -> Result<DateTime<Utc>> {
    Ok(within(ANSWER_TIMEOUT, client.query_one(CLOCK, &[])).await?.get("now"))
}

/// How many of these instances have finished without a fault.
pub(super) async fn finished(client: &Client, tenant: &TenantId, instances: &[InstanceId]) -> Result<usize> {
    let ids = ids(instances);
    let row = within(ANSWER_TIMEOUT, client.query_one(FINISHED, &[&tenant.as_str(), &ids])).await?;
    Ok(usize::try_from(row.get::<_, i64>("count")).unwrap_or(0))
}

/// How many milliseconds after a moment each of these instances began an activity, by what is committed and the
/// database's clock. One that has not begun it is missing; one that began before has a negative number.
pub(super) async fn begun(
    client: &Client,
    tenant: &TenantId,
    instances: &[InstanceId],
    activity: &str,
    since: DateTime<Utc>,
) -> Result<Vec<f64>> {
    let ids = ids(instances);
    let rows = within(
        ANSWER_TIMEOUT,
        client.query(BEGUN, &[&tenant.as_str(), &ids, &activity, &since]),
    )
    .await?;
    let at = columns!(rows; begun_ms)?;
    Ok(rows.iter().map(|row| row.get(at.begun_ms)).collect())
}

/// How many instances have an activity twice in their journal.
pub(super) async fn twice(client: &Client) -> Result<i64> {
    Ok(within(ANSWER_TIMEOUT, client.query_one(TWICE, &[])).await?.get("count"))
}

/// How many timers are unclaimed.
pub(super) async fn unclaimed_timers(client: &Client) -> Result<usize> {
    count(client, UNCLAIMED_TIMERS).await
}

/// How many bookmarks wait for an event.
pub(super) async fn waiting(client: &Client) -> Result<usize> {
    count(client, WAITING).await
}

async fn count(client: &Client, query: &str) -> Result<usize> {
    let row = within(ANSWER_TIMEOUT, client.query_one(query, &[])).await?;
    Ok(usize::try_from(row.get::<_, i64>("count")).unwrap_or(0))
}

/// Sets when each delay is due: the first after `lead`, the others evenly over `span`; all at one instant if that is zero.
/// Returns the instances with their due times.
pub(super) async fn set_due(
    client: &Client,
    lead: Duration,
    span: Duration,
) -> Result<Vec<(InstanceId, DateTime<Utc>)>> {
    let [lead, span] = [lead, span].map(|time| i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
    let rows = within(ANSWER_TIMEOUT, client.query(SET_DUE, &[&lead, &span])).await?;
    let at = columns!(rows; instance_id, due)?;
    let due = |row: &tokio_postgres::Row| {
        let instance = InstanceId::new(row.get::<_, String>(at.instance_id));
        (instance, row.get(at.due))
    };
    Ok(rows.iter().map(due).collect())
}

/// When a due instance continued, by what is committed and the database's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    /// Microseconds from the first due time of all to this one.
    pub(super) due_us: f64,
    /// From there until it began the activity; `None` if it has not begun.
    pub(super) lateness_us: Option<f64>,
    /// From there until the transaction in which it finished; `None` if it has not finished, or finished with a fault.
    pub(super) ended_us: Option<f64>,
}

/// When each of these instances, due at these times, continued, beginning with an activity.
pub(super) async fn ran(
    client: &Client,
    tenant: &TenantId,
    due: &[(InstanceId, DateTime<Utc>)],
    activity: &str,
) -> Result<Vec<Ran>> {
    let ids: Vec<&str> = due.iter().map(|(id, _)| id.as_str()).collect();
    let times: Vec<DateTime<Utc>> = due.iter().map(|(_, time)| *time).collect();
    let rows = within(
        ANSWER_TIMEOUT,
        client.query(RAN, &[&tenant.as_str(), &ids, &times, &activity]),
    )
    .await?;
    let at = columns!(rows; due_us, lateness_us, ended_us)?;
    let ran = |row: &tokio_postgres::Row| Ran {
        due_us: row.get(at.due_us),
        lateness_us: row.get(at.lateness_us),
        ended_us: row.get(at.ended_us),
    };
    Ok(rows.iter().map(ran).collect())
}

/// What the server has written so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerWrites {
    /// The process that serves this session.
    pub(super) backend: i32,
    pub(super) wal_bytes: i64,
    pub(super) flushes: i64,
}

/// What the server has written so far, for all its databases.
pub(super) async fn written(client: &Client) -> Result<ServerWrites> {
    let row = within(ANSWER_TIMEOUT, client.query_one(COST, &[])).await?;
    let flushes = match row.get("wal_flushes") {
        Some(flushes) => flushes,
        None => within(ANSWER_TIMEOUT, client.query_one(FLUSHES, &[]))
            .await?
            .get("wal_flushes"),
    };
    Ok(ServerWrites {
        backend: row.get("backend"),
        wal_bytes: row.get("wal_bytes"),
        flushes,
    })
}

/// How many instances have finished as they should since a moment, and percentiles 50, 95, 99 and 100 of how long after it,
/// in microseconds; none if there is no such instance.
pub(super) async fn ended(client: &Client, since: DateTime<Utc>) -> Result<(u64, Vec<f64>)> {
    let row = within(ANSWER_TIMEOUT, client.query_one(ENDED, &[&since])).await?;
    Ok((
        u64::try_from(row.get::<_, i64>("count")).unwrap_or(0),
        row.get("percentiles"),
    ))
}

/// Holds a snapshot until the end of the session.
pub(super) async fn hold_snapshot(client: &Client) -> Result<()> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL idle_in_transaction_session_timeout = 0";
    within(ANSWER_TIMEOUT, client.batch_execute(begin)).await?;
    // The first statement takes it.
    clock(client).await.map(drop)
}

/// Leaves rows that are dead to every new transaction.
pub(super) async fn leave_dead_rows(client: &Client) -> Result<()> {
    within(ANSWER_TIMEOUT, client.batch_execute("SET statement_timeout = 0")).await?;
    // Millions of index entries.
    within(20 * ANSWER_TIMEOUT, client.batch_execute(LEAVE_DEAD_ROWS)).await
}

/// The settings of the server that decide how fast it is: names and values.
pub(super) async fn server(client: &Client) -> Result<Vec<(String, String)>> {
    let rows = within(ANSWER_TIMEOUT, client.query(SERVER, &[])).await?;
    let at = columns!(rows; name, value)?;
    Ok(rows.iter().map(|row| (row.get(at.name), row.get(at.value))).collect())
}

fn ids(instances: &[InstanceId]) -> Vec<&str> {
    instances.iter().map(InstanceId::as_str).collect()
}
