//! What was given up: rows that were in the hands of three processes that died, or that failed again and again.
//!
//! The statements that hand rows back write the letters. A letter keeps all that a replay needs; its instance is left
//! waiting, and its other rows run on.

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
const PICK: &str = include_str!("../../../sql/queries/dead_letter/pick.sql");
const REPLAY: &str = include_str!("../../../sql/queries/dead_letter/replay.sql");
const REPLAY_MANY: &str = include_str!("../../../sql/queries/dead_letter/replay_many.sql");
const DELETE: &str = include_str!("../../../sql/queries/dead_letter/delete.sql");

/// A row that was given up.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    pub(crate) id: i64,
    /// None: a stimulus that was for no instance in particular.
    pub(crate) instance: Option<InstanceId>,
    /// A word for what it was to do.
    pub(crate) kind: &'static str,
    /// Why it was given up.
    pub(crate) reason: String,
    /// When, by the database's clock.
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) failures: i32,
    pub(crate) crashes: i32,
    /// Null for a delay.
    pub(crate) body: Value,
    /// The row that it was; none: it was a delay.
    pub(crate) work: Option<i64>,
    /// The bookmark of a delay.
    pub(crate) timer: Option<String>,
    /// None: the instance is gone, and it was no start.
    pub(crate) definition: Option<String>,
    /// The instance's, if there is one.
    pub(crate) correlation_id: Option<String>,
    /// When the row was accepted; none for a delay.
    pub(crate) accepted_at: Option<DateTime<Utc>>,
    /// Of a stimulus that nothing has waited for.
    pub(crate) stimulus: Option<Stimulus>,
}

/// A stimulus that nothing has waited for in time.
#[derive(Clone, Debug)]
pub(crate) struct Stimulus {
    pub(crate) hash: String,
    /// The activity type that waits for such a stimulus.
    pub(crate) name: String,
    pub(crate) activity_execution_id: Option<String>,
}

/// Which letters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Which<'a> {
    /// Only of this instance.
    pub(crate) instance: Option<&'a InstanceId>,
    /// Only this one.
    pub(crate) id: Option<i64>,
    /// Only of instances of this definition, and starts of it.
    pub(crate) definition: Option<&'a str>,
    /// Only of these kinds, as [`word`] reads them.
    pub(crate) kinds: Option<&'a [i16]>,
    /// Only 0 failed, 1 crashed, or 2 expired ones.
    pub(crate) cause: Option<i16>,
    /// Only those whose reason has this in it, whatever the case.
    pub(crate) reason: Option<&'a str>,
    /// Only those that were given up then or later.
    pub(crate) from: Option<DateTime<Utc>>,
    /// Only those that were given up before.
    pub(crate) until: Option<DateTime<Utc>>,
}

/// A letter that a bulk replay has to deal with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picked {
    pub(crate) id: i64,
    /// It needs no decision of its own, and can be replayed with others in one statement.
    pub(crate) together: bool,
}

/// What became of letters that were replayed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManyReplayed {
    /// Letters that are gone.
    pub(crate) taken: u64,
    /// Rows of work that came of them; the others were needed no more.
    pub(crate) rows: u64,
}

/// What became of a letter that was replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) instance: InstanceId,
    /// The row of work that it is now; none: its instance had finished, or was started anew, and it is gone.
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
        _ => &[],
    }
}

/// The error for an id that no letter has.
pub(crate) fn not_found(id: &str) -> Error {
    Error::not_found("dead-letter-not-found", format!("there is no dead letter {id:?}"))
}

/// A page of the letters of a tenant, newest first, and how many there are in all.
pub(crate) async fn list(
    pool: &Pool,
    tenant: &TenantId,
    which: Which<'_>,
    limit: i64,
    offset: i64,
) -> Result<(u64, Vec<DeadLetter>)> {
    let rows = query(pool, LIST, tenant, which, [limit, offset]).await?;
    let total = rows.first().map_or(0, |row| row.get::<_, i64>("total"));
    let at = LetterColumns::of(&rows)?;
    let letters = rows.iter().filter_map(|row| letter(at, row)).collect();
    Ok((u64::try_from(total).unwrap_or(0), letters))
}

/// A statement that takes a filter and two numbers.
async fn query(
    pool: &Pool,
    statement: &'static str,
    tenant: &TenantId,
    which: Which<'_>,
    numbers: [i64; 2],
) -> Result<Vec<tokio_postgres::Row>> {
    let instance = which.instance.map(InstanceId::as_str);
    let [first, second] = numbers;
    let params: [&(dyn ToSql + Sync); 11] = [
        &tenant.as_str(),
        &instance,
        &which.id,
        &which.definition,
        &which.kinds,
        &which.cause,
        &which.reason,
        &which.from,
        &which.until,
        &first,
        &second,
    ];
    pool.query(statement, &params).await
}

/// The letters that fit, behind one, oldest first.
pub(crate) async fn pick(
    pool: &Pool,
    tenant: &TenantId,
    which: Which<'_>,
    behind: i64,
    limit: i64,
) -> Result<Vec<Picked>> {
    let rows = query(pool, PICK, tenant, which, [behind, limit]).await?;
    let at = columns!(rows; id, together)?;
    let picked = rows.iter().map(|row| Picked {
        id: row.get(at.id),
        together: row.get(at.together),
    });
    Ok(picked.collect())
}

/// Replays letters that need no decision of their own, all or none of them. Those that do, that are gone, or that another
/// replay holds are left out.
pub(crate) async fn replay_many(pool: &Pool, tenant: &TenantId, ids: &[i64]) -> Result<ManyReplayed> {
    let row = pool.query_one(REPLAY_MANY, &[&tenant.as_str(), &ids]).await?;
    let count = |name: &str| u64::try_from(row.get::<_, i64>(name)).unwrap_or(0);
    Ok(ManyReplayed {
        taken: count("taken"),
        rows: count("rows"),
    })
}

columns!(struct LetterColumns { id, instance_id, kind, reason, created_at, failures, crashes, body, work_id, timer_id, definition_id, correlation_id, accepted_at, hash, activity_execution_id, name });

/// None: the page is empty.
fn letter(at: LetterColumns, row: &tokio_postgres::Row) -> Option<DeadLetter> {
    Some(DeadLetter {
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
        // JSON that Postgres takes and we do not, as it nests too deep.
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
        stimulus: row.get::<_, Option<String>>(at.hash).map(|hash| Stimulus {
            hash,
            name: row.get::<_, Option<String>>(at.name).unwrap_or_default(),
            activity_execution_id: row.get(at.activity_execution_id),
        }),
    })
}

/// One letter. No such: [`Error::is_not_found`].
pub(crate) async fn find(pool: &Pool, tenant: &TenantId, id: i64) -> Result<DeadLetter> {
    let which = Which {
        id: Some(id),
        ..Which::default()
    };
    let found = list(pool, tenant, which, 1, 0).await?.1.into_iter().next();
    found.ok_or_else(|| not_found(&id.to_string()))
}

/// Makes work of a letter again, with a clean slate. One whose instance has finished meanwhile is only thrown away. No
/// such letter: [`Error::is_not_found`]; a start that its activation strategy refuses just now, or whose schedule has
/// another one running that allows none beside it, stays a letter: [`Error::is_conflict`].
pub(crate) async fn replay(pool: &Pool, tenant: &TenantId, id: i64) -> Result<Replayed> {
    let row = pool.query_opt(REPLAY, &[&tenant.as_str(), &id]).await?;
    let row = row.ok_or_else(|| not_found(&id.to_string()))?;
    if row.get("schedule_is_running") {
        return Err(schedule::is_running());
    }
    if row.get("is_refused") {
        return Err(cannot_start());
    }
    Ok(Replayed {
        instance: InstanceId::new(row.get::<_, String>("instance_id")),
        work: row.get::<_, Option<i64>>("work_id").map(WorkId),
    })
}

/// Throws a letter away. One without which a running instance would wait for ever: [`Error::is_conflict`].
pub(crate) async fn delete(pool: &Pool, tenant: &TenantId, id: i64) -> Result<()> {
    let row = pool.query_one(DELETE, &[&tenant.as_str(), &id]).await?;
    match (row.get("known"), row.get("gone")) {
        (_, true) => Ok(()),
        (true, false) => Err(Error::conflict(
            "dead-letter-needed",
            "without this dead letter its instance would wait for ever: replay it, or cancel the instance first",
        )),
        (false, false) => Err(not_found(&id.to_string())),
    }
}
