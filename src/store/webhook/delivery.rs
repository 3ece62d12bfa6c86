//! Deliveries: one event for one sink each.

use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use uuid::Uuid;

use super::sink::SinkNumber;
use crate::db::{Pool, columns};
use crate::id::{Incarnation, TenantId};
use crate::store::code::DeliveryState;
use crate::store::parts::with_parts;
use crate::{Error, Result};

const CLAIM: &str = include_str!("../../../sql/queries/webhook_sink/claim.sql");
const RELEASE: &str = include_str!("../../../sql/queries/webhook_sink/release.sql");
const DUE: &str = include_str!("../../../sql/queries/webhook_delivery/due.sql");
const COMPLETE: &str = include_str!("../../../sql/queries/webhook_delivery/complete.sql");
const LIST: &str = include_str!("../../../sql/queries/webhook_delivery/list.sql");
const REPLAY: &str = include_str!("../../../sql/queries/webhook_delivery/replay.sql");
const EXPIRE: &str = include_str!("../../../sql/queries/webhook_delivery/expire.sql");

/// The most sinks of one claim.
pub(crate) const MOST_CLAIMED: usize = 64;

/// The rows of a page of [`expire`], of each kind.
const PAGE: i64 = 1_000;

/// The right of a node to send to a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SinkClaim {
    pub(crate) number: SinkNumber,
    /// The fencing token.
    pub(crate) claim_no: i64,
}

/// Claims sinks that have deliveries to be sent; `held`: those that this node has.
pub(crate) async fn claim(pool: &Pool, incarnation: Incarnation, held: &[SinkNumber]) -> Result<Vec<SinkClaim>> {
    let held: Vec<i32> = held.iter().map(|number| number.0).collect();
    let rows = pool
        .query(CLAIM, &[&incarnation.0, &(MOST_CLAIMED as i64), &held])
        .await?;
    let at = columns!(rows; number, claim_no)?;
    let claim = |row: &tokio_postgres::Row| SinkClaim {
        number: SinkNumber(row.get(at.number)),
        claim_no: row.get(at.claim_no),
    };
    Ok(rows.iter().map(claim).collect())
}

/// Releases claimed sinks.
pub(crate) async fn release(pool: &Pool, incarnation: Incarnation, claims: &[SinkClaim]) -> Result<()> {
    let (numbers, claim_nos) = claim_columns(claims);
    pool.query(RELEASE, &[&incarnation.0, &numbers, &claim_nos]).await?;
    Ok(())
}

fn claim_columns(claims: &[SinkClaim]) -> (Vec<i32>, Vec<i64>) {
    claims.iter().map(|claim| (claim.number.0, claim.claim_no)).unzip()
}

/// A claimed sink, and how much is to be read for it.
#[derive(Clone, Debug)]
pub(crate) struct SinkRoom {
    pub(crate) claim: SinkClaim,
    pub(crate) room: i32,
    /// The most bytes of payloads; one delivery may have more.
    pub(crate) bytes: i64,
    /// What is being sent.
    pub(crate) in_flight: Vec<Uuid>,
    /// Nothing else is due before then; `None`: all is read.
    pub(crate) since: Option<DateTime<Utc>>,
}

/// A delivery to be sent.
#[derive(Clone, Debug)]
pub(crate) struct DueDelivery {
    pub(crate) id: Uuid,
    pub(crate) instance: String,
    pub(crate) event_type: String,
    /// JSON.
    pub(crate) payload: String,
    /// Attempts before this one.
    pub(crate) attempts: u32,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) due_at: DateTime<Utc>,
}

/// What is due for a sink.
#[derive(Clone, Debug)]
pub(crate) struct DueSink {
    pub(crate) number: SinkNumber,
    /// Rounds in a row without a success.
    pub(crate) failures: u32,
    pub(crate) deliveries: Vec<DueDelivery>,
}

/// What is due for claimed sinks. One that is missing is not this node's any more, or must not be sent to.
#[derive(Clone, Debug, Default)]
pub(crate) struct DueDeliveries {
    pub(crate) sinks: Vec<DueSink>,
    /// That of the sinks; `None` if none is returned.
    pub(crate) revision: Option<i64>,
    /// The time by the database's clock.
    pub(crate) now: Option<DateTime<Utc>>,
}

/// Reads what is to be sent, at least one delivery for each sink that has any.
pub(crate) async fn due(pool: &Pool, incarnation: Incarnation, rooms: &[SinkRoom]) -> Result<DueDeliveries> {
    let claims: Vec<SinkClaim> = rooms.iter().map(|room| room.claim).collect();
    let (numbers, claim_nos) = claim_columns(&claims);
    let (room, bytes): (Vec<i32>, Vec<i64>) = rooms.iter().map(|room| (room.room, room.bytes)).unzip();
    let since: Vec<Option<DateTime<Utc>>> = rooms.iter().map(|room| room.since).collect();
    let flight = rooms
        .iter()
        .flat_map(|room| room.in_flight.iter().map(|id| (room.claim.number.0, *id)));
    let (flight_sinks, flight_ids): (Vec<i32>, Vec<Uuid>) = flight.unzip();
    let params: [&(dyn ToSql + Sync); 8] = [
        &incarnation.0,
        &numbers,
        &claim_nos,
        &room,
        &flight_sinks,
        &flight_ids,
        &bytes,
        &since,
    ];
    let rows = pool.query(DUE, &params).await?;
    let at = columns!(rows; number, failures, revision, now, id, instance_id, event_type, payload, attempts, created_at, due_at)?;
    let mut due = DueDeliveries::default();
    for row in &rows {
        let number = SinkNumber(row.get(at.number));
        due.revision = Some(row.get(at.revision));
        due.now = Some(row.get(at.now));
        if due.sinks.last().is_none_or(|last| last.number != number) {
            due.sinks.push(DueSink {
                number,
                failures: u32::try_from(row.get::<_, i32>(at.failures)).unwrap_or(0),
                deliveries: Vec::new(),
            });
        }
        let Some(id) = row.get::<_, Option<Uuid>>(at.id) else {
            continue;
        };
        if let Some(sink) = due.sinks.last_mut() {
            sink.deliveries.push(DueDelivery {
                id,
                instance: row.get(at.instance_id),
                event_type: row.get(at.event_type),
                payload: row.get(at.payload),
                attempts: u32::try_from(row.get::<_, i32>(at.attempts)).unwrap_or(0),
                created_at: row.get(at.created_at),
                due_at: row.get(at.due_at),
            });
        }
    }
    Ok(due)
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The receiver has it.
    Delivered(u16),
    /// It is tried again after a pause.
    Failed {
        status: Option<u16>,
        error: String,
        pause: Duration,
    },
    /// The receiver wants nothing any more.
    Gone,
}

/// An attempt to be marked.
#[derive(Clone, Debug)]
pub(crate) struct Marked {
    pub(crate) sink: SinkNumber,
    pub(crate) instance: String,
    pub(crate) id: Uuid,
    pub(crate) attempt: Attempt,
}

/// What a round says of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SinkOutcome {
    /// It takes deliveries.
    Takes,
    /// It has answered, and refuses what it was sent: that is no fault of the sink as a whole.
    Refuses,
    /// It took none, and is left alone for a while.
    Fails { pause: Duration, note: String },
    /// It has answered that it is gone.
    Gone,
}

/// How long what has ended is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    pub(crate) delivered: Duration,
    pub(crate) dead: Duration,
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Marks attempts, under the claims of their sinks; returns how many have become dead letters.
pub(crate) async fn complete(
    pool: &Pool,
    incarnation: Incarnation,
    sinks: &[(SinkClaim, SinkOutcome)],
    marked: impl Iterator<Item = &Marked>,
    kept: Retention,
) -> Result<i64> {
    let claims: Vec<SinkClaim> = sinks.iter().map(|(claim, _)| *claim).collect();
    let (numbers, claim_nos) = claim_columns(&claims);
    let judged = sinks.iter().map(|(_, outcome)| match outcome {
        SinkOutcome::Refuses => (0i16, 0, None),
        SinkOutcome::Takes => (1, 0, None),
        SinkOutcome::Fails { pause, note } => (2, micros(*pause), Some(note.clone())),
        SinkOutcome::Gone => {
            let note = "it has answered that it is gone (410); once it receives again, set isPaused to false";
            (3, 0, Some(note.to_owned()))
        }
    });
    let (mut outcomes, mut pauses, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for (outcome, pause, note) in judged {
        outcomes.push(outcome);
        pauses.push(pause);
        notes.push(note);
    }
    let mut rows = AttemptColumns::default();
    marked.for_each(|marked| rows.add(marked));
    let (delivered, dead) = (micros(kept.delivered), micros(kept.dead));
    let params: [&(dyn ToSql + Sync); 15] = [
        &incarnation.0,
        &numbers,
        &claim_nos,
        &outcomes,
        &pauses,
        &notes,
        &rows.sinks,
        &rows.instances,
        &rows.ids,
        &rows.states,
        &rows.statuses,
        &rows.errors,
        &rows.delays,
        &delivered,
        &dead,
    ];
    Ok(pool.query_one(COMPLETE, &params).await?.get("dead_letters"))
}

#[derive(Default)]
struct AttemptColumns<'a> {
    sinks: Vec<i32>,
    instances: Vec<&'a str>,
    ids: Vec<Uuid>,
    states: Vec<i16>,
    statuses: Vec<Option<i16>>,
    errors: Vec<Option<&'a str>>,
    delays: Vec<i64>,
}

impl<'a> AttemptColumns<'a> {
    fn add(&mut self, marked: &'a Marked) {
        let status = |status: u16| i16::try_from(status).ok();
        let (state, status, error, delay) = match &marked.attempt {
            Attempt::Delivered(answered) => (DeliveryState::Delivered, status(*answered), None, 0),
            Attempt::Failed {
                status: answered,
                error,
                pause,
            } => (
                DeliveryState::Pending,
                answered.and_then(status),
                Some(error.as_str()),
                micros(*pause),
            ),
            Attempt::Gone => (
                DeliveryState::DeadLetter,
                Some(410),
                Some("its sink has answered that it is gone"),
                0,
            ),
        };
        self.sinks.push(marked.sink.0);
        self.instances.push(&marked.instance);
        self.ids.push(marked.id);
        self.states.push(state.number());
        self.statuses.push(status);
        self.errors.push(error);
        self.delays.push(delay);
    }
}

/// A delivery as clients see it.
#[derive(Clone, Debug)]
pub(crate) struct ShownDelivery {
    pub(crate) id: Uuid,
    pub(crate) sink: SinkNumber,
    /// `None`: its sink is deleted.
    pub(crate) sink_id: Option<String>,
    pub(crate) instance: String,
    pub(crate) event_type: String,
    pub(crate) state: DeliveryState,
    pub(crate) attempts: i32,
    pub(crate) due_at: DateTime<Utc>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) ended_at: Option<DateTime<Utc>>,
    pub(crate) last_status: Option<i16>,
    pub(crate) last_error: Option<String>,
}

/// Which deliveries a list has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeliveryFilter<'a> {
    /// Of an instance, perhaps in one state; the newest first.
    Instance(&'a str, Option<DeliveryState>),
    /// What is pending for a sink; the first due first.
    PendingFor(&'a str),
    /// The dead letters of a sink; the newest first.
    DeadFor(&'a str),
}

/// A place in a list: the time by which it is sorted, the event and the sink.
pub(crate) type DeliveryCursor = (DateTime<Utc>, Uuid, i32);

static LISTS: std::sync::LazyLock<[String; 3]> =
    std::sync::LazyLock::new(|| ["instance", "pending", "dead"].map(|name| with_parts(LIST, |part| part == name)));

/// A page of deliveries after a cursor.
pub(crate) async fn list(
    pool: &Pool,
    tenant: &TenantId,
    filter: DeliveryFilter<'_>,
    after: Option<DeliveryCursor>,
    limit: i64,
) -> Result<Vec<ShownDelivery>> {
    let [of_instance, pending, dead] = &*LISTS;
    let (text, of, state) = match filter {
        DeliveryFilter::Instance(id, state) => (of_instance, id, state),
        DeliveryFilter::PendingFor(id) => (pending, id, Some(DeliveryState::Pending)),
        DeliveryFilter::DeadFor(id) => (dead, id, Some(DeliveryState::DeadLetter)),
    };
    let state = state.map(DeliveryState::number);
    let (at, id, sink) = (
        after.map(|after| after.0),
        after.map(|after| after.1),
        after.map(|after| after.2),
    );
    let params: [&(dyn ToSql + Sync); 7] = [&tenant.as_str(), &of, &state, &at, &id, &sink, &limit];
    let rows = pool.query(text.as_str(), &params).await?;
    let at = columns!(rows; id, instance_id, event_type, state, attempts, due_at, created_at, ended_at, last_status, last_error, sink_id, sink)?;
    let row = |row: &tokio_postgres::Row| ShownDelivery {
        id: row.get(at.id),
        sink: SinkNumber(row.get(at.sink)),
        sink_id: row.get(at.sink_id),
        instance: row.get(at.instance_id),
        event_type: row.get(at.event_type),
        // A newer program wrote another one.
        state: DeliveryState::from_number(row.get(at.state)).unwrap_or(DeliveryState::DeadLetter),
        attempts: row.get(at.attempts),
        due_at: row.get(at.due_at),
        created_at: row.get(at.created_at),
        ended_at: row.get(at.ended_at),
        last_status: row.get(at.last_status),
        last_error: row.get(at.last_error),
    };
    Ok(rows.iter().map(row).collect())
}

/// What a replay has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replayed {
    /// So many dead letters are pending again.
    Dead(i64),
    /// The sink is disabled: what is pending for it would be given up again.
    Disabled,
    NoSink,
}

/// Makes dead letters of a sink pending again: one, or the oldest `limit` of them.
pub(crate) async fn replay(
    pool: &Pool,
    tenant: &TenantId,
    sink: &str,
    id: Option<Uuid>,
    limit: i64,
) -> Result<Replayed> {
    let replayed = |rows: &[tokio_postgres::Row]| rows.iter().any(|row| row.get::<_, i64>("replayed") > 0);
    let row = pool
        .change_one(REPLAY, &[&tenant.as_str(), &sink, &id, &limit], replayed)
        .await?;
    let at = columns!(row; is_disabled, replayed)?;
    Ok(match row.get(at.is_disabled) {
        Some(false) => Replayed::Dead(row.get(at.replayed)),
        Some(true) => Replayed::Disabled,
        None => Replayed::NoSink,
    })
}

/// Gives up what was not delivered in time, and purges what has ended long ago and what deleted sinks have left, page by page.
/// If the future is dropped, the pages before are done.
pub(crate) async fn expire(pool: &Pool, dead: Duration) -> Result<()> {
    let dead = micros(dead);
    loop {
        let row = pool.query_one(EXPIRE, &[&dead]).await?;
        let at = columns!(row; given_up, deleted)?;
        let (given_up, deleted): (i64, i64) = (row.get(at.given_up), row.get(at.deleted));
        if given_up > 0 {
            tracing::error!(
                given_up,
                "webhook deliveries were given up, and are dead letters; their sinks' notes say why"
            );
        }
        if given_up.saturating_add(deleted) < PAGE {
            return Ok(());
        }
    }
}

/// The id of an event as clients write it.
pub(crate) fn delivery_id(text: &str) -> Result<Uuid> {
    let found = Uuid::try_parse(text).ok();
    found.ok_or_else(|| Error::not_found("delivery-not-found", format!("there is no webhook delivery {text:?}")))
}
