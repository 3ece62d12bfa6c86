//! Fan-outs: events for which so many bookmarks wait that they receive it page by page.
//!
//! # Invariants
//!
//! - Events of one hash take their turns in the order in which they were accepted; a later event of the same key is not
//!   published directly before it. Events that workflows publish become fan-outs in the commit of the burst, without any
//!   key; of two that are committed at the same moment either one may be first.
//! - A turn holds the stimulus keys of a publisher. A bookmark that waits at that moment has a number up to the cut; one that
//!   replaces it in one commit takes over its number. A commit that ends such a bookmark before its page, or after which the
//!   event no longer fits it, leaves a row of `fan_out_owed` in its place. So pages by number, up to the cut, reach each
//!   instance that waited, once.
//! - A page inserts its rows and moves the cursor in one transaction, which holds the row of the fan-out: any node may write
//!   the next one, and none is written twice. If few bookmarks wait, the turn writes their page.
//! - If neither a page nor a trigger found anything, the event takes its turn again: in the end something waits for it, or
//!   the inbox keeps it.

use std::sync::LazyLock;
use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde_json::Value;

use super::stimulus_key::{BEGIN, KeySet, LOCK, StimulusScope};
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::failpoint;
use crate::id::{FanOutId, InstanceId, StimulusHash};
use crate::{Error, Result};

const NEXT: &str = include_str!("../../sql/queries/fan_out/next.sql");
const HAS_TURN: &str = include_str!("../../sql/queries/fan_out/has_turn.sql");
const TURN: &str = include_str!("../../sql/queries/fan_out/turn.sql");
const PAGE: &str = include_str!("../../sql/queries/fan_out/page.sql");
const LIST: &str = include_str!("../../sql/queries/fan_out/list.sql");
const GIVE_UP: &str = include_str!("../../sql/queries/fan_out/give_up.sql");
const PURGE: &str = include_str!("../../sql/queries/fan_out/purge.sql");
const PAYLOADS: &str = include_str!("../../sql/queries/fan_out/payloads.sql");

static TURNS: LazyLock<[String; 3]> = LazyLock::new(|| StimulusScope::texts(TURN));
static PAGES: LazyLock<[String; 3]> = LazyLock::new(|| StimulusScope::texts(PAGE));

/// An event with more waiting bookmarks becomes a fan-out.
pub(crate) const MAX_DIRECT: i64 = 1000;

/// The most bytes that the copies of a payload take for the bookmarks of an event that becomes no fan-out, unless only one
/// bookmark waits for it.
pub(crate) const MAX_DIRECT_BYTES: i64 = 16 << 20;

/// The most bookmarks of one page.
pub(crate) const PAGE_ROWS: i64 = 500;

/// A turn for which at most so many bookmarks wait writes their page: it holds the keys of a publisher meanwhile.
const FEW: i64 = 50;

/// The most unclaimed rows of work of one fan-out: other work waits for no more than these.
const MAX_QUEUED: i64 = 2000;

/// How long a finished fan-out is listed.
const RETENTION: Duration = Duration::from_secs(600);

/// How many pages of a thousand finished fan-outs one purge deletes: workflows may publish many events.
const PURGE_PAGES: usize = 100;

/// How the next page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FanOutPage {
    /// At most so many bookmarks.
    Rows(i64),
    /// The next bookmark; if the database refuses its row of work, a dead letter. The row is tried first, as the bookmark that
    /// was refused may be gone, or given up by another node. Of a turn: the turn, or a dead letter of the event.
    RowOrDeadLetter,
}

/// What a step has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FanOutStep {
    /// No fan-out is unfinished, or other nodes work on all of them.
    Idle,
    /// A fan-out had its turn.
    Turned(FanOutTurn),
    /// A page was written.
    Paged { resumed: u64, dead_letters: u64 },
    /// As many rows of the fan-out are unclaimed as may be.
    Full,
    /// Another one of its keys has begun.
    Behind,
}

/// What a turn has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FanOutTurn {
    pub(crate) started: u64,
    /// By the page of an event for which few bookmarks wait.
    pub(crate) resumed: u64,
    /// Workflows whose activation strategy refused the start.
    pub(crate) refused: Vec<String>,
    /// The database refuses the turn: the event became a dead letter.
    pub(crate) is_given_up: bool,
}

/// A step that failed, and the fan-out it worked on, if it came so far.
#[derive(Debug)]
pub(crate) struct FanOutError {
    pub(crate) fan_out: Option<FanOutId>,
    /// It failed at a page, not at a turn.
    pub(crate) at_page: bool,
    pub(crate) error: Error,
}

/// The fan-out of a step, locked.
struct Locked {
    id: FanOutId,
    tenant: String,
    hash: StimulusHash,
    name: String,
    correlation_id: Option<String>,
    instance: Option<InstanceId>,
    activity_execution_id: Option<String>,
    cut: Option<i64>,
    cursor: i64,
}

/// Does the next step of the oldest fan-out from `from` on that no other node works on, except of those in `except`. `page`: how
/// its page is written. If the future is dropped halfway, the step is not done.
pub(crate) async fn step(
    pool: &Pool,
    lock_class: i32,
    from: FanOutId,
    except: &[FanOutId],
    page: impl Fn(FanOutId) -> FanOutPage,
) -> Result<(Option<FanOutId>, FanOutStep), FanOutError> {
    let mut at = None;
    let step = within(ANSWER_TIMEOUT, try_step(pool, lock_class, from, except, page, &mut at)).await;
    let fan_out = at.map(|(fan_out, _)| fan_out);
    step.map(|step| (fan_out, step)).map_err(|error| FanOutError {
        fan_out,
        at_page: at.is_some_and(|(_, at_page)| at_page),
        error,
    })
}

async fn try_step(
    pool: &Pool,
    lock_class: i32,
    from: FanOutId,
    except: &[FanOutId],
    page: impl Fn(FanOutId) -> FanOutPage,
    at: &mut Option<(FanOutId, bool)>,
) -> Result<FanOutStep> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let except: Vec<i64> = except.iter().map(|id| id.0).collect();
    let next = client.prepare_cached(NEXT).await?;
    client.batch_execute(BEGIN).await?;
    let Some(row) = client.query_opt(&next, &[&except, &from.0]).await? else {
        client.batch_execute("ROLLBACK").await?;
        connection.give_back();
        return Ok(FanOutStep::Idle);
    };
    let locked = Locked::read(&row)?;
    *at = Some((locked.id, locked.cut.is_some()));
    failpoint::hit("fan_out.locked").await?;
    let step = match locked.cut {
        None => match page(locked.id) {
            FanOutPage::Rows(_) => turn(client, lock_class, &locked).await?,
            FanOutPage::RowOrDeadLetter => turn_or_dead_letter(client, lock_class, &locked).await?,
        },
        Some(cut) => match page(locked.id) {
            FanOutPage::Rows(rows) => write_page(client, &locked, cut, rows, None).await?,
            FanOutPage::RowOrDeadLetter => write_row_or_dead_letter(client, &locked, cut).await?,
        },
    };
    failpoint::hit("fan_out.written").await?;
    client.batch_execute("COMMIT").await?;
    connection.give_back();
    failpoint::hit("fan_out.committed").await?;
    Ok(step)
}

impl Locked {
    fn read(row: &tokio_postgres::Row) -> Result<Self> {
        let hash = <[u8; 32]>::try_from(row.get::<_, &[u8]>("hash"));
        let hash = hash.map_err(|_| Error::internal("a fan-out has no stimulus hash"))?;
        Ok(Self {
            id: FanOutId(row.get("id")),
            tenant: row.get("tenant_id"),
            hash: StimulusHash(hash),
            name: row.get("name"),
            correlation_id: row.get("correlation_id"),
            instance: row.get::<_, Option<String>>("instance_id").map(InstanceId::new),
            activity_execution_id: row.get("activity_execution_id"),
            cut: row.get("cut"),
            cursor: row.get("cursor"),
        })
    }

    fn scope(&self) -> StimulusScope {
        let is_targeted = self.instance.is_some() || self.activity_execution_id.is_some();
        StimulusScope::of(self.correlation_id.as_deref(), is_targeted)
    }
}

async fn turn(client: &deadpool_postgres::Object, lock_class: i32, locked: &Locked) -> Result<FanOutStep> {
    let can_start = locked.instance.is_none() && locked.activity_execution_id.is_none();
    let correlation_id = locked.correlation_id.as_deref();
    let keys = KeySet::of_publisher(&locked.hash, correlation_id, locked.instance.as_ref(), can_start);
    let (keys, modes) = keys.columns();
    let lock = client.prepare_cached(LOCK).await?;
    // In a statement before the one that matches.
    client.query(&lock, &[&lock_class, &keys, &modes]).await?;
    failpoint::hit("fan_out.keys").await?;
    let has_turn = client.prepare_cached(HAS_TURN).await?;
    let instance = locked.instance.as_ref().map(InstanceId::as_str);
    let own: [&(dyn ToSql + Sync); 5] = [
        &locked.id.0,
        &locked.tenant,
        &locked.hash.0.as_slice(),
        &locked.correlation_id,
        &instance,
    ];
    if !client.query_one(&has_turn, &own).await?.get::<_, bool>("has_turn") {
        return Ok(FanOutStep::Behind);
    }
    let statement = client.prepare_cached(locked.scope().pick(&TURNS)).await?;
    let params: [&(dyn ToSql + Sync); 7] = [
        &locked.id.0,
        &locked.tenant,
        &locked.hash.0.as_slice(),
        &locked.correlation_id,
        &locked.instance.as_ref().map(InstanceId::as_str),
        &locked.activity_execution_id,
        &(FEW + 1),
    ];
    let row = client.query_one(&statement, &params).await?;
    let mut turn = FanOutTurn {
        started: u64::try_from(row.get::<_, i64>("started")).unwrap_or(0),
        refused: row.get("refused"),
        ..FanOutTurn::default()
    };
    if (1..=FEW).contains(&row.get::<_, i64>("waiting")) {
        // Most events of workflows are for one instance: they take one transaction instead of two.
        client.batch_execute("SAVEPOINT page").await?;
        match write_page(client, locked, row.get("cut"), PAGE_ROWS, None).await {
            Ok(FanOutStep::Paged { resumed, .. }) => turn.resumed = resumed,
            Ok(_) => {}
            Err(refused) if refused.is_transient() => return Err(refused),
            // The page follows in a step of its own.
            Err(_) => client.batch_execute("ROLLBACK TO SAVEPOINT page").await?,
        }
    }
    Ok(FanOutStep::Turned(turn))
}

/// A turn that the database refuses again and again must not keep other events of its stimulus from theirs.
async fn turn_or_dead_letter(
    client: &deadpool_postgres::Object,
    lock_class: i32,
    locked: &Locked,
) -> Result<FanOutStep> {
    client.batch_execute("SAVEPOINT turn").await?;
    match turn(client, lock_class, locked).await {
        Err(refused) if !refused.is_transient() => {
            client.batch_execute("ROLLBACK TO SAVEPOINT turn").await?;
            let give_up = client.prepare_cached(GIVE_UP).await?;
            client.execute(&give_up, &[&locked.id.0, &refused.to_string()]).await?;
            Ok(FanOutStep::Turned(FanOutTurn {
                is_given_up: true,
                ..FanOutTurn::default()
            }))
        }
        turned => turned,
    }
}

async fn write_row_or_dead_letter(client: &deadpool_postgres::Object, locked: &Locked, cut: i64) -> Result<FanOutStep> {
    client.batch_execute("SAVEPOINT page").await?;
    match write_page(client, locked, cut, 1, None).await {
        Err(refused) if !refused.is_transient() => {
            client.batch_execute("ROLLBACK TO SAVEPOINT page").await?;
            write_page(client, locked, cut, 1, Some(refused.to_string())).await
        }
        written => written,
    }
}

/// Writes a page of at most so many bookmarks; with a reason they get dead letters instead of rows of work.
async fn write_page(
    client: &deadpool_postgres::Object,
    locked: &Locked,
    cut: i64,
    rows: i64,
    reason: Option<String>,
) -> Result<FanOutStep> {
    let statement = client.prepare_cached(locked.scope().pick(&PAGES)).await?;
    let params: [&(dyn ToSql + Sync); 13] = [
        &locked.id.0,
        &locked.tenant,
        &locked.hash.0.as_slice(),
        &locked.correlation_id,
        &locked.instance.as_ref().map(InstanceId::as_str),
        &locked.activity_execution_id,
        &locked.cursor,
        &rows,
        &MAX_QUEUED,
        &cut,
        &locked.name,
        &reason.is_some(),
        &reason,
    ];
    let row = client.query_one(&statement, &params).await?;
    let at = columns!(row; resumed, dead_letters, finished, room)?;
    let count = |place| u64::try_from(row.get::<_, i64>(place)).unwrap_or(0);
    let (resumed, dead_letters) = (count(at.resumed), count(at.dead_letters));
    metrics::counter!("mainspring_fan_out_resumed_total").increment(resumed);
    if row.get::<_, bool>(at.finished) {
        metrics::counter!("mainspring_fan_outs_finished_total").increment(1);
    }
    if count(at.room) == 0 {
        return Ok(FanOutStep::Full);
    }
    Ok(FanOutStep::Paged { resumed, dead_letters })
}

/// A fan-out, for operators.
#[derive(Clone, Debug)]
pub(crate) struct FanOutRow {
    pub(crate) id: FanOutId,
    pub(crate) tenant: String,
    pub(crate) name: String,
    pub(crate) correlation_id: Option<String>,
    pub(crate) instance: Option<String>,
    pub(crate) accepted_at: DateTime<Utc>,
    pub(crate) began_at: Option<DateTime<Utc>>,
    pub(crate) finished_at: Option<DateTime<Utc>>,
    pub(crate) resumed: i64,
    pub(crate) started: i64,
    /// How many bookmark numbers are left up to the cut: an upper bound of the bookmarks that are left.
    pub(crate) numbers_left: Option<i64>,
    /// Rows of work a second since it began.
    pub(crate) rate: f64,
}

/// The unfinished fan-outs in the order of their turns, then those that finished last; at most `limit` of each.
pub(crate) async fn list(pool: &Pool, limit: i64) -> Result<Vec<FanOutRow>> {
    let rows = pool.query(LIST, &[&limit]).await?;
    let at = columns!(rows; id, tenant_id, name, correlation_id, instance_id, accepted_at, began_at, finished_at, resumed,
        started, cursor, cut, at)?;
    let list = rows.iter().map(|row| {
        let (began_at, finished_at): (Option<DateTime<Utc>>, Option<DateTime<Utc>>) =
            (row.get(at.began_at), row.get(at.finished_at));
        let resumed: i64 = row.get(at.resumed);
        let until = finished_at.unwrap_or_else(|| row.get(at.at));
        let took = began_at.and_then(|began| (until - began).to_std().ok());
        let left = |cut: i64| {
            if finished_at.is_some() {
                0
            } else {
                cut - row.get::<_, i64>(at.cursor)
            }
        };
        FanOutRow {
            id: FanOutId(row.get(at.id)),
            tenant: row.get(at.tenant_id),
            name: row.get(at.name),
            correlation_id: row.get(at.correlation_id),
            instance: row.get(at.instance_id),
            accepted_at: row.get(at.accepted_at),
            began_at,
            finished_at,
            resumed,
            started: row.get(at.started),
            numbers_left: row.get::<_, Option<i64>>(at.cut).map(left),
            rate: took
                .filter(|took| !took.is_zero())
                .map_or(0.0, |took| resumed as f64 / took.as_secs_f64()),
        }
    });
    Ok(list.collect())
}

/// Deletes fan-outs that finished a while ago.
pub(crate) async fn purge(pool: &Pool) -> Result<()> {
    let retention = i64::try_from(RETENTION.as_micros()).unwrap_or(i64::MAX);
    let mut reached: Option<DateTime<Utc>> = None;
    for _ in 0..PURGE_PAGES {
        reached = pool.query_one(PURGE, &[&retention, &reached]).await?.get("reached");
        if reached.is_none() {
            break;
        }
    }
    Ok(())
}

/// The payloads of these fan-outs.
pub(crate) async fn payloads(pool: &Pool, ids: &[FanOutId]) -> Result<Vec<(FanOutId, Option<Value>)>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let rows = pool.query(PAYLOADS, &[&ids]).await?;
    let at = columns!(rows; id, payload)?;
    Ok(rows
        .iter()
        .map(|row| (FanOutId(row.get(at.id)), row.get(at.payload)))
        .collect())
}
