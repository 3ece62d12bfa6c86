//! Schedules, which start instances at computed times.
//!
//! Nothing here computes a time: rows are read, the scheduler decides, and its decision is written if the rows are unchanged.
//!
//! # Invariants
//!
//! - `version` grows with each change of a row. Firing, pausing, resuming, a changed expression and new time zone data are a
//!   compare-and-set on it: a decision from an older row writes nothing.
//! - One statement advances a schedule and inserts the starts that are due, or neither. `last_occurrence` never decreases, and
//!   a start is unique by its instance, whose id is derived from schedule and occurrence.
//! - Schedules are locked before activation rows, by a publish and by firing; firing waits for no locked schedule.

use chrono::{DateTime, Utc};
use deadpool_postgres::Object;
use postgres_types::ToSql;
use serde_json::Value;

use crate::db::{Pool, column, columns};
use crate::failpoint;
use crate::id::{ActivityId, DefinitionId, InstanceId, NodeId, TenantId};
use crate::{Error, Result};

const LOCK: &str = include_str!("../../sql/queries/schedule/lock.sql");
const LIST_OF_DEFINITION: &str = include_str!("../../sql/queries/schedule/list_of_definition.sql");
const CLOCK: &str = include_str!("../../sql/queries/schedule/clock.sql");
const CLEAR: &str = include_str!("../../sql/queries/schedule/clear.sql");
const PLAN: &str = include_str!("../../sql/queries/schedule/plan.sql");
const DUE: &str = include_str!("../../sql/queries/schedule/list_due.sql");
const QUEUED: &str = include_str!("../../sql/queries/schedule/list_queued.sql");
const NEXT: &str = include_str!("../../sql/queries/schedule/next.sql");
const FIRE: &str = include_str!("../../sql/queries/schedule/fire.sql");
const FIND: &str = include_str!("../../sql/queries/schedule/find.sql");
const SET: &str = include_str!("../../sql/queries/schedule/set.sql");
const STALE: &str = include_str!("../../sql/queries/schedule/list_stale.sql");
const LIST: &str = include_str!("../../sql/queries/schedule/list.sql");

/// A stored schedule, as a publish of its definition reads it.
#[derive(Clone, Debug)]
pub(crate) struct StoredSchedule {
    pub(crate) id: String,
    pub(crate) activity_type: String,
    pub(crate) spec: Value,
    pub(crate) last_occurrence: Option<DateTime<Utc>>,
}

/// A schedule as a publish writes it.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "schedule_plan")]
pub(crate) struct PlanRow {
    pub(crate) id: String,
    pub(crate) activity_id: String,
    pub(crate) activity_type: String,
    pub(crate) spec: Value,
    pub(crate) overlap: i16,
    pub(crate) anchor: DateTime<Utc>,
    pub(crate) tz_version: String,
    pub(crate) next_occurrence: Option<DateTime<Utc>>,
    pub(crate) next_fire: Option<DateTime<Utc>>,
}

/// Computes the schedules of a version that is being published.
pub(crate) trait Planner: Sync {
    /// The ids of all its schedules.
    fn ids(&self, definition: &DefinitionId) -> Vec<String>;

    /// The new and changed ones, given the stored ones and the database's time.
    fn plan(&self, definition: &DefinitionId, stored: &[StoredSchedule], now: DateTime<Utc>) -> Vec<PlanRow>;
}

/// A version without schedules.
pub(crate) struct NoSchedules;

impl Planner for NoSchedules {
    fn ids(&self, _: &DefinitionId) -> Vec<String> {
        Vec::new()
    }

    fn plan(&self, _: &DefinitionId, _: &[StoredSchedule], _: DateTime<Utc>) -> Vec<PlanRow> {
        Vec::new()
    }
}

/// Replaces the schedules of a definition by those of the version that is being published, in its transaction.
pub(super) async fn publish(
    client: &Object,
    tenant: &TenantId,
    definition: &DefinitionId,
    planner: &dyn Planner,
) -> Result<()> {
    let (tenant, id) = (tenant.as_str(), definition.as_str());
    let rows = client.query(LOCK, &[&tenant, &id]).await?;
    let ids = planner.ids(definition);
    if rows.is_empty() && ids.is_empty() {
        return Ok(());
    }
    let stored = stored_schedules(&rows)?;
    client.execute(CLEAR, &[&tenant, &id, &ids]).await?;
    // Not the transaction's time: it may have waited for locks while later occurrences fired.
    let now: DateTime<Utc> = client.query_one(CLOCK, &[]).await?.get("now");
    let plans = planner.plan(definition, &stored, now);
    if !plans.is_empty() {
        client.execute(PLAN, &[&tenant, &id, &plans]).await?;
    }
    Ok(())
}

fn stored_schedules(rows: &[tokio_postgres::Row]) -> Result<Vec<StoredSchedule>> {
    let at = columns!(*rows; id, activity_type, spec, last_occurrence)?;
    let read = |row: &tokio_postgres::Row| {
        Ok(StoredSchedule {
            id: row.get(at.id),
            activity_type: row.get(at.activity_type),
            spec: json(row, at.spec)?,
            last_occurrence: row.get(at.last_occurrence),
        })
    };
    rows.iter().map(read).collect()
}

/// Whether the stored schedules of a definition are those that a publish would write.
pub(super) async fn are_planned(
    client: &Object,
    tenant: &TenantId,
    definition: &DefinitionId,
    planner: &dyn Planner,
) -> Result<bool> {
    let rows = client
        .query(LIST_OF_DEFINITION, &[&tenant.as_str(), &definition.as_str()])
        .await?;
    let stored = stored_schedules(&rows)?;
    let ids = planner.ids(definition);
    let is_known = |schedule: &StoredSchedule| ids.contains(&schedule.id);
    // Only whether anything changes counts, so any time serves.
    let plans = planner.plan(definition, &stored, DateTime::UNIX_EPOCH);
    Ok(stored.len() == ids.len() && stored.iter().all(is_known) && plans.is_empty())
}

/// The error for a start of a schedule whose overlap policy allows one instance, while another one runs.
pub(crate) fn is_running() -> Error {
    Error::conflict(
        "schedule-running",
        "an earlier instance of the schedule still runs, and its overlap policy allows no other beside it",
    )
}

/// A schedule as the scheduler reads it.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleRow {
    pub(crate) tenant: TenantId,
    pub(crate) id: String,
    pub(crate) definition_id: DefinitionId,
    pub(crate) activity_id: ActivityId,
    /// `None` if it nests too deep for serde_json.
    pub(crate) spec: Option<Value>,
    pub(crate) anchor: DateTime<Utc>,
    pub(crate) version: i64,
    pub(crate) last_occurrence: Option<DateTime<Utc>>,
    pub(crate) next_occurrence: Option<DateTime<Utc>>,
    pub(crate) next_fire: Option<DateTime<Utc>>,
    /// The payload of an occurrence that waits.
    pub(crate) queued: Option<Value>,
    /// An instance of it runs; only read where that matters.
    pub(crate) is_running: bool,
    /// The database's time.
    pub(crate) now: DateTime<Utc>,
}

fn json(row: &tokio_postgres::Row, place: usize) -> Result<Value> {
    row.try_get(place)
        .map_err(|error| Error::internal("a schedule cannot be read").caused_by(error))
}

columns!(struct ScheduleColumns { tenant_id, id, definition_id, activity_id, spec, anchor, version, last_occurrence, next_occurrence, next_fire, queued, is_running, now });

fn schedule_row(at: ScheduleColumns, row: &tokio_postgres::Row) -> ScheduleRow {
    ScheduleRow {
        tenant: TenantId::new(row.get::<_, String>(at.tenant_id)),
        id: row.get(at.id),
        definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
        activity_id: ActivityId::new(row.get::<_, String>(at.activity_id)),
        spec: row.try_get(at.spec).ok(),
        anchor: row.get(at.anchor),
        version: row.get(at.version),
        last_occurrence: row.get(at.last_occurrence),
        next_occurrence: row.get(at.next_occurrence),
        next_fire: row.get(at.next_fire),
        queued: row.try_get(at.queued).ok().flatten(),
        is_running: row.get(at.is_running),
        now: row.get(at.now),
    }
}

/// Due schedules, oldest first.
pub(crate) async fn due(pool: &Pool, limit: i64) -> Result<Vec<ScheduleRow>> {
    failpoint::hit("fire.poll").await?;
    let rows = pool.query(DUE, &[&limit]).await?;
    let at = ScheduleColumns::of(&rows)?;
    Ok(rows.iter().map(|row| schedule_row(at, row)).collect())
}

/// Schedules with a waiting occurrence and no running instance.
pub(crate) async fn queued(pool: &Pool, limit: i64) -> Result<Vec<ScheduleRow>> {
    let rows = pool.query(QUEUED, &[&limit]).await?;
    let at = ScheduleColumns::of(&rows)?;
    Ok(rows.iter().map(|row| schedule_row(at, row)).collect())
}

/// Microseconds until the next schedule is due, negative if it is late; and whether occurrences wait for a running instance.
pub(crate) async fn next(pool: &Pool) -> Result<(Option<i64>, bool)> {
    let row = pool.query_one(NEXT, &[]).await?;
    Ok((row.get("next_due"), row.get("queued")))
}

/// The next state of a schedule that fires.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "schedule_firing")]
pub(crate) struct FiringRow {
    pub(crate) no: i32,
    pub(crate) tenant_id: String,
    pub(crate) id: String,
    /// The version of the row by which it was decided.
    pub(crate) version: i64,
    pub(crate) tz_version: String,
    pub(crate) last_occurrence: Option<DateTime<Utc>>,
    pub(crate) next_occurrence: Option<DateTime<Utc>>,
    pub(crate) next_fire: Option<DateTime<Utc>>,
    pub(crate) queued: Option<Value>,
    pub(crate) misfired: i64,
    pub(crate) skipped: i64,
    pub(crate) lateness: Option<i64>,
}

/// An instance that a schedule starts.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "schedule_start")]
pub(crate) struct StartRow {
    /// The number of its schedule in the statement.
    pub(crate) no: i32,
    pub(crate) instance_id: String,
    pub(crate) activity_id: String,
    pub(crate) payload: Value,
    /// Microseconds until it may be claimed.
    pub(crate) delay: i64,
}

/// A schedule that this node fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fired {
    pub(crate) no: i32,
    /// How many instances should start, and how many were accepted: the activation strategy refuses others, or they were
    /// started before.
    pub(crate) requested: i64,
    pub(crate) accepted: i64,
}

/// Fires those schedules that are unchanged since they were read. `forced`: paused ones too.
pub(crate) async fn fire(
    pool: &Pool,
    node: &NodeId,
    firings: &[FiringRow],
    starts: &[StartRow],
    forced: bool,
) -> Result<Vec<Fired>> {
    failpoint::hit("fire.decided").await?;
    let params: [&(dyn ToSql + Sync); 4] = [&firings, &starts, &forced, &node.as_str()];
    let rows = pool.change(FIRE, &params, |rows| rows.iter().any(has_started)).await?;
    let at = columns!(rows; no, asked, made)?;
    failpoint::hit("fire.fired").await?;
    Ok(rows
        .iter()
        .map(|row| Fired {
            no: row.get(at.no),
            requested: row.get(at.asked),
            accepted: row.get(at.made),
        })
        .collect())
}

/// Whether a firing has accepted a start.
fn has_started(row: &tokio_postgres::Row) -> bool {
    row.try_get::<_, i64>("made").is_ok_and(|made| made > 0)
}

/// Reads one schedule, and whether it is paused.
pub(crate) async fn find(pool: &Pool, tenant: &TenantId, id: &str) -> Result<Option<(ScheduleRow, bool)>> {
    let row = pool.query_opt(FIND, &[&tenant.as_str(), &id]).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some((
        schedule_row(ScheduleColumns::of(&row)?, &row),
        row.get("paused"),
    )))
}

/// The new state of a schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewPlan<'a> {
    pub(crate) paused: bool,
    pub(crate) tz_version: &'a str,
    pub(crate) last_occurrence: Option<DateTime<Utc>>,
    pub(crate) next_occurrence: Option<DateTime<Utc>>,
    pub(crate) next_fire: Option<DateTime<Utc>>,
}

/// Writes the new state if the schedule is unchanged since it was read; returns whether it was written.
pub(crate) async fn set(pool: &Pool, row: &ScheduleRow, plan: NewPlan<'_>) -> Result<bool> {
    let params: [&(dyn ToSql + Sync); 8] = [
        &row.tenant.as_str(),
        &row.id,
        &row.version,
        &plan.paused,
        &plan.tz_version,
        &plan.last_occurrence,
        &plan.next_occurrence,
        &plan.next_fire,
    ];
    Ok(pool.change_opt(SET, &params, |rows| !rows.is_empty()).await?.is_some())
}

/// A page of the schedules that were computed with an older time zone database, after a given one, and whether each is paused.
pub(crate) async fn stale(
    pool: &Pool,
    tz_version: &str,
    after: (&str, &str),
    limit: i64,
) -> Result<Vec<(ScheduleRow, bool)>> {
    let rows = pool.query(STALE, &[&tz_version, &after.0, &after.1, &limit]).await?;
    let (at, paused) = (ScheduleColumns::of(&rows)?, column(&rows, "paused")?);
    Ok(rows
        .iter()
        .map(|row| (schedule_row(at, row), row.get(paused)))
        .collect())
}

/// A filter for schedules.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScheduleListFilter<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) definition_id: Option<&'a str>,
    pub(crate) activity_type: Option<&'a str>,
    pub(crate) state: Option<&'a str>,
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

/// A schedule as operators see it.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleListRow {
    pub(crate) id: String,
    pub(crate) definition_id: DefinitionId,
    pub(crate) activity_id: ActivityId,
    pub(crate) activity_type: String,
    pub(crate) spec: Value,
    pub(crate) state: String,
    pub(crate) next_occurrence: Option<DateTime<Utc>>,
    pub(crate) next_fire: Option<DateTime<Utc>>,
    pub(crate) last_occurrence: Option<DateTime<Utc>>,
    pub(crate) queued: Option<Value>,
    pub(crate) fired: i64,
    pub(crate) misfired: i64,
    pub(crate) skipped: i64,
    pub(crate) last_fired_at: Option<DateTime<Utc>>,
    pub(crate) last_lateness: Option<i64>,
    pub(crate) last_node: Option<NodeId>,
    pub(crate) last_instance: Option<InstanceId>,
}

/// Lists a page, with the total number; zero if the page is behind the last one.
pub(crate) async fn list(
    pool: &Pool,
    tenant: &TenantId,
    filter: &ScheduleListFilter<'_>,
) -> Result<(u64, Vec<ScheduleListRow>)> {
    let params: [&(dyn ToSql + Sync); 7] = [
        &tenant.as_str(),
        &filter.definition_id,
        &filter.activity_type,
        &filter.state,
        &filter.id,
        &filter.limit,
        &filter.offset,
    ];
    let rows = pool.query(LIST, &params).await?;
    let at = columns!(rows; id, definition_id, activity_id, activity_type, spec, state, next_occurrence, next_fire, last_occurrence, queued, fired, misfired, skipped, last_fired_at, last_lateness, last_node, last_instance)?;
    let listed = rows.iter().map(|row| ScheduleListRow {
        id: row.get(at.id),
        definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
        activity_id: ActivityId::new(row.get::<_, String>(at.activity_id)),
        activity_type: row.get(at.activity_type),
        spec: row.try_get(at.spec).unwrap_or_default(),
        state: row.get(at.state),
        next_occurrence: row.get(at.next_occurrence),
        next_fire: row.get(at.next_fire),
        last_occurrence: row.get(at.last_occurrence),
        queued: row.try_get(at.queued).ok().flatten(),
        fired: row.get(at.fired),
        misfired: row.get(at.misfired),
        skipped: row.get(at.skipped),
        last_fired_at: row.get(at.last_fired_at),
        last_lateness: row.get(at.last_lateness),
        last_node: row.get::<_, Option<String>>(at.last_node).map(NodeId::new),
        last_instance: row.get::<_, Option<String>>(at.last_instance).map(InstanceId::new),
    });
    Ok((super::total(&rows), listed.collect()))
}
