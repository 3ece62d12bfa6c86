//! Dead letters: rows that crashed three processes, rows that failed too often, and stimuli that expired (`stimulus`).
//!
//! The statements that release claims write them. A dead letter keeps everything that a replay needs; its instance waits,
//! and the other rows of the instance continue.

pub(crate) mod stimulus;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde_json::Value;

use super::code::DeadLetterKind;
use super::schedule;
use super::start::cannot_start;
use crate::db::{Pool, columns};
use crate::id::{InstanceId, TenantId, WorkId};
use crate::{Error, Result};

const LIST: &str = include_str!("../../../sql/queries/dead_letter/list.sql");
const SELECT: &str = include_str!("../../../sql/queries/dead_letter/pick.sql");
const REPLAY: &str = include_str!("../../../sql/queries/dead_letter/replay.sql");
const REPLAY_MANY: &str = include_str!("../../../sql/queries/dead_letter/replay_many.sql");
const DELETE: &str = include_str!("../../../sql/queries/dead_letter/delete.sql");

/// A dead letter.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetterRow {
    pub(crate) id: i64,
    /// `None` for a stimulus without a target instance.
    pub(crate) instance: Option<InstanceId>,
    /// The name of the kind of work.
    pub(crate) kind: &'static str,
    /// Why it is a dead letter.
    pub(crate) reason: String,
    /// When, by the database's clock.
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) failures: i32,
    pub(crate) crashes: i32,
    /// Null for a timer.
    pub(crate) body: Value,
    /// The id of its row of work; `None` if it was a timer.
    pub(crate) work: Option<i64>,
    /// The bookmark of a timer.
    pub(crate) timer: Option<String>,
    /// `None` if the instance is deleted, and it was not a start.
    pub(crate) definition: Option<String>,
    /// That of the instance, if there is one.
    pub(crate) correlation_id: Option<String>,
    /// When the row was accepted; none for a timer.
    pub(crate) accepted_at: Option<DateTime<Utc>>,
    /// Of a stimulus that nothing matched in time.
    pub(crate) stimulus: Option<ExpiredStimulus>,
}

/// A stimulus that nothing matched before it expired.
#[derive(Clone, Debug)]
pub(crate) struct ExpiredStimulus {
    pub(crate) hash: String,
    /// The activity type that waits for such a stimulus.
    pub(crate) name: String,
    pub(crate) activity_execution_id: Option<String>,
}

/// A filter for dead letters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeadLetterFilter<'a> {
    /// Only of this instance.
    pub(crate) instance: Option<&'a InstanceId>,
    /// Only this one.
    pub(crate) id: Option<i64>,
    /// Only of instances of this definition, and starts of it.
    pub(crate) definition: Option<&'a str>,
    /// Only of these kinds.
    pub(crate) kinds: Option<&'a [i16]>,
    /// Only 0 failed, 1 crashed, or 2 expired ones.
    pub(crate) cause: Option<i16>,
    /// Only those whose reason contains this, ignoring case.
    pub(crate) reason: Option<&'a str>,
    /// Only those created then or later.
    pub(crate) from: Option<DateTime<Utc>>,
    /// Only those created before.
    pub(crate) until: Option<DateTime<Utc>>,
}

/// A dead letter that a bulk replay selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SelectedDeadLetter {
    pub(crate) id: i64,
    /// It can be replayed with others in one statement.
    pub(crate) is_plain: bool,
}

/// The result of a bulk replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BulkReplay {
    /// Dead letters that were consumed.
    pub(crate) taken: u64,
    /// Rows of work that they became; the others were no longer needed.
    pub(crate) rows: u64,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayedWork {
    pub(crate) instance: InstanceId,
    /// The row of work that it became; `None` if its instance has finished or started again, and it was deleted.
    pub(crate) work: Option<WorkId>,
}

/// What a number in `kind` is called.
pub(super) fn word(kind: i16) -> &'static str {
    match DeadLetterKind::from_number(kind) {
        Some(DeadLetterKind::Start) => "start",
        Some(DeadLetterKind::Resume) => "resume",
        Some(DeadLetterKind::Stimulus) => "stimulus",
        Some(DeadLetterKind::Cancel) => "cancel",
        Some(DeadLetterKind::Continue) => "continue",
        Some(DeadLetterKind::Timer) => "delay",
        Some(DeadLetterKind::Inbox) => "event",
        Some(DeadLetterKind::ChildEnd) => "child-end",
        None => "unknown",
    }
}

/// The numbers of a kind, by its word; none if there is no such word. A stimulus is one on its way or one that expired.
pub(crate) fn kinds(word: &str) -> &'static [i16] {
    match word {
        "start" => const { &[DeadLetterKind::Start.number()] },
        "resume" => const { &[DeadLetterKind::Resume.number()] },
        "stimulus" => const { &[DeadLetterKind::Stimulus.number(), DeadLetterKind::Inbox.number()] },
        "cancel" => const { &[DeadLetterKind::Cancel.number()] },
        "continue" => const { &[DeadLetterKind::Continue.number()] },
        "delay" => const { &[DeadLetterKind::Timer.number()] },
        "child-end" => const { &[DeadLetterKind::ChildEnd.number()] },
        _ => &[],
    }
}

/// The error for an unknown dead letter.
pub(crate) fn not_found(id: &str) -> Error {
    Error::not_found("dead-letter-not-found", format!("there is no dead letter {id:?}"))
}

/// A page of the dead letters of a tenant, newest first, with the total number.
pub(crate) async fn list(
    pool: &Pool,
    tenant: &TenantId,
    filter: DeadLetterFilter<'_>,
    limit: i64,
    offset: i64,
) -> Result<(u64, Vec<DeadLetterRow>)> {
    let rows = query(pool, LIST, tenant, filter, &[limit, offset]).await?;
    let at = DeadLetterColumns::of(&rows)?;
    let dead_letters = rows.iter().filter_map(|row| dead_letter(at, row)).collect();
    Ok((super::total(&rows), dead_letters))
}

/// Runs a statement that takes a filter and some numbers.
async fn query(
    pool: &Pool,
    statement: &'static str,
    tenant: &TenantId,
    filter: DeadLetterFilter<'_>,
    numbers: &[i64],
) -> Result<Vec<tokio_postgres::Row>> {
    let instance = filter.instance.map(InstanceId::as_str);
    let tenant = tenant.as_str();
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![
        &tenant,
        &instance,
        &filter.id,
        &filter.definition,
        &filter.kinds,
        &filter.cause,
        &filter.reason,
        &filter.from,
        &filter.until,
    ];
    params.extend(numbers.iter().map(|number| number as &(dyn ToSql + Sync)));
    pool.query(statement, &params).await
}

/// The dead letters that match a filter, after a given one, oldest first: so many, with bodies of so many bytes, or one.
/// Whether there are more of them up to the limit.
pub(crate) async fn select(
    pool: &Pool,
    tenant: &TenantId,
    filter: DeadLetterFilter<'_>,
    behind: i64,
    limit: i64,
    bytes: i64,
) -> Result<(Vec<SelectedDeadLetter>, bool)> {
    let rows = query(pool, SELECT, tenant, filter, &[behind, limit, bytes]).await?;
    let at = columns!(rows; id, found, together)?;
    let picked = rows.iter().map(|row| SelectedDeadLetter {
        id: row.get(at.id),
        is_plain: row.get(at.together),
    });
    let found = rows.first().map_or(0, |row| row.get::<_, i64>(at.found));
    Ok((picked.collect(), found > i64::try_from(rows.len()).unwrap_or(i64::MAX)))
}

/// Replays plain dead letters in one statement. Those that are not plain, are deleted, or are locked by another replay are
/// left out.
pub(crate) async fn replay_many(pool: &Pool, tenant: &TenantId, ids: &[i64]) -> Result<BulkReplay> {
    let row = pool
        .change_one(REPLAY_MANY, &[&tenant.as_str(), &ids], |rows| {
            rows.iter().any(|row| row.get::<_, i64>("taken") > 0)
        })
        .await?;
    let count = |name: &str| u64::try_from(row.get::<_, i64>(name)).unwrap_or(0);
    Ok(BulkReplay {
        taken: count("taken"),
        rows: count("rows"),
    })
}

columns!(struct DeadLetterColumns { id, instance_id, kind, reason, created_at, failures, crashes, body, work_id, timer_id, definition_id, correlation_id, accepted_at, hash, activity_execution_id, name });

/// `None` if the page is empty.
fn dead_letter(at: DeadLetterColumns, row: &tokio_postgres::Row) -> Option<DeadLetterRow> {
    Some(DeadLetterRow {
        id: row.get::<_, Option<i64>>(at.id)?,
        instance: Some(row.get::<_, String>(at.instance_id))
            .filter(|id| !id.is_empty())
            .map(InstanceId::new),
        kind: match row.get(at.kind) {
            kind if kind == DeadLetterKind::Inbox.number() => "stimulus",
            kind => word(kind),
        },
        reason: row.get(at.reason),
        created_at: row.get(at.created_at),
        failures: row.get(at.failures),
        crashes: row.get(at.crashes),
        // Postgres accepts JSON that nests too deep for serde_json.
        body: row
            .try_get::<_, Option<Value>>(at.body)
            .ok()
            .flatten()
            .unwrap_or(Value::Null),
        work: row.get(at.work_id),
        timer: row.get(at.timer_id),
        definition: row.get(at.definition_id),
        correlation_id: row.get(at.correlation_id),
        accepted_at: row.get(at.accepted_at),
        stimulus: row.get::<_, Option<String>>(at.hash).map(|hash| ExpiredStimulus {
            hash,
            name: row.get::<_, Option<String>>(at.name).unwrap_or_default(),
            activity_execution_id: row.get(at.activity_execution_id),
        }),
    })
}

/// Reads one dead letter. Unknown: [`Error::is_not_found`].
pub(crate) async fn find(pool: &Pool, tenant: &TenantId, id: i64) -> Result<DeadLetterRow> {
    let filter = DeadLetterFilter {
        id: Some(id),
        ..DeadLetterFilter::default()
    };
    let found = list(pool, tenant, filter, 1, 0).await?.1.into_iter().next();
    found.ok_or_else(|| not_found(&id.to_string()))
}

/// Turns a dead letter into work again, with its counters at zero; if its instance has finished, only deletes it. Unknown:
/// [`Error::is_not_found`]. A start that its activation strategy or the overlap policy of its schedule refuses stays a dead
/// letter: [`Error::is_conflict`].
pub(crate) async fn replay(pool: &Pool, tenant: &TenantId, id: i64) -> Result<ReplayedWork> {
    let replayed = |rows: &[tokio_postgres::Row]| {
        let is_refused = |row: &tokio_postgres::Row| row.get("schedule_is_running") || row.get("is_refused");
        rows.iter().any(|row| !is_refused(row))
    };
    let row = pool.change_opt(REPLAY, &[&tenant.as_str(), &id], replayed).await?;
    let row = row.ok_or_else(|| not_found(&id.to_string()))?;
    if row.get("schedule_is_running") {
        return Err(schedule::is_running());
    }
    if row.get("is_refused") {
        return Err(cannot_start());
    }
    Ok(ReplayedWork {
        instance: InstanceId::new(row.get::<_, String>("instance_id")),
        work: row.get::<_, Option<i64>>("work_id").map(WorkId),
    })
}

/// Deletes a dead letter. One without which a running instance would wait forever: [`Error::is_conflict`].
pub(crate) async fn delete(pool: &Pool, tenant: &TenantId, id: i64) -> Result<()> {
    let deleted = |rows: &[tokio_postgres::Row]| rows.iter().any(|row| row.get("deleted"));
    let row = pool.change_one(DELETE, &[&tenant.as_str(), &id], deleted).await?;
    match (row.get("known"), row.get("deleted")) {
        (_, true) => Ok(()),
        (true, false) => Err(Error::conflict(
            "dead-letter-needed",
            "without this dead letter its instance would wait forever: replay it, or cancel the instance first",
        )),
        (false, false) => Err(not_found(&id.to_string())),
    }
}
