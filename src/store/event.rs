//! Publishes an event once: to every bookmark that waits for it and every trigger, or else into the inbox.
//!
//! The stimulus keys are locked in a statement before the one that matches; see `store::stimulus_key`.
//!
//! Every event has an idempotency key, either its client's or a random one. An event in doubt is published again under the
//! same key, which the former backend holds until it ends.

use std::sync::LazyLock;
use std::time::Duration;

use postgres_types::ToSql;
use serde_json::Value;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::activation::{UNSEEDED_INTERVAL, UNSEEDED_TIMEOUT};
use super::fan_out::{MAX_DIRECT, MAX_DIRECT_BYTES};
use super::link::{self, LinkUse};
use super::request::{IdempotencyKey, find_request};
use super::stimulus_key::{self, BEGIN, BEGIN_ANSWERED, KeySet, LOCK, StimulusScope};
use crate::db::{ANSWER_TIMEOUT, Pool, is_in_doubt, within};
use crate::failpoint;
use crate::id::{FanOutId, InstanceId, StimulusHash, TenantId};
use crate::{Error, Result};

const PUBLISH: &str = include_str!("../../sql/queries/event/publish.sql");

pub(super) static PUBLISHES: LazyLock<[String; 3]> = LazyLock::new(|| StimulusScope::texts(PUBLISH));

/// An event to publish.
#[derive(Clone, Debug)]
pub(crate) struct NewEvent {
    pub(crate) tenant: TenantId,
    /// The client's key, or a random one.
    pub(crate) request: IdempotencyKey,
    pub(crate) hash: StimulusHash,
    /// The activity type that waits for such a stimulus.
    pub(crate) name: String,
    pub(crate) payload: Option<Value>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) instance: Option<InstanceId>,
    pub(crate) activity_execution_id: Option<String>,
    /// How long the inbox keeps an unmatched event.
    pub(crate) lifetime: Duration,
    /// Whether the inbox may keep it if it is unmatched; otherwise that is [`PublishedEvent::no_room`].
    pub(crate) may_keep: bool,
    /// The link by which it is published; the same transaction uses that.
    pub(crate) link: Option<LinkUse>,
    /// The trace that the bursts which follow at once continue, as the header has it.
    pub(crate) trace: Option<String>,
}

impl NewEvent {
    /// The instance that it is for.
    pub(super) fn target(&self) -> Option<InstanceId> {
        stimulus_key::target(self.instance.as_ref(), self.activity_execution_id.as_deref())
    }

    pub(super) fn keys(&self) -> KeySet {
        let can_start = self.instance.is_none() && self.activity_execution_id.is_none();
        let correlation_id = self.correlation_id.as_deref();
        KeySet::of_publisher(&self.hash, correlation_id, self.target().as_ref(), can_start)
    }
}

/// How many rows of work an event became.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublishedEvent {
    pub(crate) resumed: u64,
    pub(crate) started: u64,
    pub(crate) kept: bool,
    /// Nothing matched it, and it may not be kept: nothing was changed.
    pub(crate) no_room: bool,
    /// More bookmarks wait for it than are given it at once, or an earlier event is not given to all yet.
    pub(crate) fan_out: Option<FanOutId>,
    /// Workflows whose activation strategy refused the start.
    pub(crate) refused: Vec<String>,
    /// It was published more than once under its key; rows of the first attempt are not counted.
    pub(crate) doubted: bool,
    /// It was published before under its key, by another request.
    pub(crate) is_repeated: bool,
}

/// How long an event in doubt is retried before its outcome is unknown, and the pauses between two attempts, which double.
const DOUBT: Duration = Duration::from_secs(5);
const DOUBT_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_DOUBT_PAUSE: Duration = Duration::from_secs(1);

/// How long the key of a client is remembered.
const KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a key is remembered that no client has: it is only needed while the event is in doubt.
pub(super) const RANDOM_KEY_LIFETIME: Duration = Duration::from_secs(60);

/// Publishes an event; one whose key was used before changes nothing. Retries for a while if an activation strategy that was
/// published a moment ago is not ready, or if the outcome is in doubt. If the future is dropped, the event may be published.
pub(crate) async fn publish(pool: &Pool, lock_class: i32, event: &NewEvent) -> Result<PublishedEvent> {
    let deadline = Instant::now() + UNSEEDED_TIMEOUT;
    let mut doubt_ends = None;
    let mut pause = DOUBT_PAUSE;
    loop {
        match publish_once(pool, lock_class, event).await {
            Err(error) if error.is_unknown_outcome() || (doubt_ends.is_some() && error.is_transient()) => {
                // A server that refuses the password is not retried for each event.
                let is_over = Instant::now() >= *doubt_ends.get_or_insert_with(|| Instant::now() + DOUBT);
                if is_over || error.code() == "database-refused" {
                    return Err(unknown(error));
                }
                tracing::debug!(%error, "the outcome of an event is in doubt; it is published again under its key");
                tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                pause = (pause * 2).min(LONGEST_DOUBT_PAUSE);
            }
            Err(error) if error.code() == "database-busy" && Instant::now() < deadline => {
                tokio::time::sleep(UNSEEDED_INTERVAL).await;
            }
            Err(error) if error.is_paused() => return accepted_before(pool, event, error).await,
            // The same request may have used the link up, at once or in doubt.
            Err(error) if link::refusal(&error).is_some() => {
                let doubted = doubt_ends.is_some();
                let found = find_request(pool, &event.tenant, &event.request).await;
                let found = found.map_err(|error| if doubted { unknown(error) } else { error })?;
                return found
                    .map(|_| PublishedEvent {
                        doubted,
                        is_repeated: !doubted,
                        ..PublishedEvent::default()
                    })
                    .ok_or(error);
            }
            outcome => {
                let doubted = doubt_ends.is_some();
                return outcome.map(|published| PublishedEvent {
                    doubted,
                    is_repeated: published.is_repeated && !doubted,
                    ..published
                });
            }
        }
    }
}

fn unknown(error: Error) -> Error {
    let message =
        "the database connection was lost while the event was accepted; publish it again with the same Idempotency-Key";
    Error::unknown_outcome(message).caused_by(error)
}

/// An event that was accepted under its client's key before the pause; otherwise the refusal.
async fn accepted_before(pool: &Pool, event: &NewEvent, paused: Error) -> Result<PublishedEvent> {
    let is_known = !event.request.is_random() && find_request(pool, &event.tenant, &event.request).await?.is_some();
    if is_known {
        Ok(PublishedEvent {
            is_repeated: true,
            ..PublishedEvent::default()
        })
    } else {
        Err(paused)
    }
}

async fn publish_once(pool: &Pool, lock_class: i32, event: &NewEvent) -> Result<PublishedEvent> {
    failpoint::hit("accept.before").await?;
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let lifetime = i64::try_from(event.lifetime.as_micros()).unwrap_or(i64::MAX);
    let hash = event.hash.0.as_slice();
    let (keys, modes) = event.keys().columns();
    let remembered = if event.request.is_random() {
        RANDOM_KEY_LIFETIME
    } else {
        KEY_LIFETIME
    };
    let remembered = i64::try_from(remembered.as_micros()).unwrap_or(i64::MAX);
    let target = event.target();
    let is_targeted = target.is_some() || event.activity_execution_id.is_some();
    let scope = StimulusScope::of(event.correlation_id.as_deref(), is_targeted);
    let params: [&(dyn ToSql + Sync); 16] = [
        &event.tenant.as_str(),
        &event.request.route,
        &event.request.key,
        &event.request.fingerprint,
        &hash,
        &event.name,
        &event.payload,
        &event.correlation_id,
        &target.as_ref().map(InstanceId::as_str),
        &event.activity_execution_id,
        &lifetime,
        &MAX_DIRECT,
        &remembered,
        &MAX_DIRECT_BYTES,
        &event.may_keep,
        &event.trace,
    ];
    // What may find no room, or a link that does not permit it, is committed or rolled back by its answer.
    let is_answered = !event.may_keep || event.link.is_some();
    let sent = within(ANSWER_TIMEOUT, async {
        let spend = match &event.link {
            Some(_) => Some(LinkUse::prepare(client).await?),
            None => None,
        };
        let lock = client.prepare_cached(LOCK).await?;
        let publish = client.prepare_cached(scope.pick(&PUBLISHES)).await?;
        let companion = connection.companion();
        let note = match companion {
            Some(companion) => Some((client.prepare_cached(companion.sql()).await?, companion.params())),
            None => None,
        };
        let lock_params: [&(dyn ToSql + Sync); 3] = [&lock_class, &keys, &modes];
        // One round trip: `join!` polls in this order, so the statements are sent in this order.
        let (begun, locked, spent, published, noted, committed) = futures_util::join!(
            client.batch_execute(if is_answered { BEGIN_ANSWERED } else { BEGIN }),
            client.query(&lock, &lock_params),
            async {
                match (&event.link, &spend) {
                    (Some(link), Some(spend)) => link.spend(client, spend, &event.tenant).await,
                    _ => Ok(()),
                }
            },
            client.query(&publish, &params),
            async {
                match &note {
                    Some((statement, params)) => client.query(statement, params).await.map(drop),
                    None => Ok(()),
                }
            },
            async {
                if is_answered {
                    Ok(())
                } else {
                    client.batch_execute("COMMIT").await
                }
            },
        );
        begun?;
        locked?;
        spent?;
        let rows = published?;
        noted?;
        committed?;
        if is_answered {
            let row = rows.first();
            let has_no_room = row.is_some_and(|row| row.get("no_room"));
            // One that was published before under its key uses no link.
            let is_new = event.link.is_none() || row.is_some_and(|row| count(row, "accepted") > 0);
            let end = if has_no_room || !is_new { "ROLLBACK" } else { "COMMIT" };
            client.batch_execute(end).await?;
            if end == "ROLLBACK" {
                return Ok(rows);
            }
        }
        if let Some(companion) = companion {
            companion.written();
        }
        Ok::<_, tokio_postgres::Error>(rows)
    })
    .await;
    let answered = async { failpoint::hit("accept.after").await.and(sent) };
    let rows = answered
        .await
        .map_err(|error| if is_in_doubt(&error) { unknown(error) } else { error })?;
    connection.give_back();
    let row = rows
        .first()
        .ok_or_else(|| Error::internal("the publish of an event returned no row"))?;
    let mut published = published_event(row);
    if published.no_room {
        return Ok(published);
    }
    if count(row, "accepted") == 0 {
        // Published before under this key; another fingerprint is an error.
        find_request(pool, &event.tenant, &event.request).await?;
        published.is_repeated = true;
    }
    metrics::counter!("mainspring_events_total").increment(1);
    Ok(published)
}

fn count(row: &Row, name: &str) -> u64 {
    u64::try_from(row.get::<_, i64>(name)).unwrap_or(0)
}

/// Reads the result of the publish.
pub(super) fn published_event(row: &Row) -> PublishedEvent {
    PublishedEvent {
        resumed: count(row, "resumed"),
        started: count(row, "started"),
        kept: count(row, "kept") > 0,
        no_room: row.get("no_room"),
        fan_out: row.get::<_, Option<i64>>("fan_out").map(FanOutId),
        refused: row.get("refused"),
        doubted: false,
        is_repeated: false,
    }
}
