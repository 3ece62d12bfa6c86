//! The receivers of events.

use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;

use crate::Result;
use crate::db::{Pool, columns};
use crate::id::TenantId;
use crate::webhook::{MOST_SINKS, WebhookSecret, WebhookSink, WebhookSinkChange};

const LIST: &str = include_str!("../../../sql/queries/webhook_sink/list.sql");
const SHOW: &str = include_str!("../../../sql/queries/webhook_sink/show.sql");
const INSERT: &str = include_str!("../../../sql/queries/webhook_sink/insert.sql");
const UPDATE: &str = include_str!("../../../sql/queries/webhook_sink/update.sql");
const ROTATE: &str = include_str!("../../../sql/queries/webhook_sink/rotate.sql");
const DELETE: &str = include_str!("../../../sql/queries/webhook_sink/delete.sql");
const LEAVE: &str = include_str!("../../../sql/queries/webhook_sink/leave.sql");

/// Why a sink is paused that has left the settings.
const LEFT: &str =
    "the webhooks-file of the node that began last does not have it, so it is paused; add it there again, or delete it";

/// By which deliveries name a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SinkNumber(pub(crate) i32);

/// A sink as a node sends to it.
#[derive(Clone, Debug)]
pub(crate) struct SinkRow {
    pub(crate) number: SinkNumber,
    pub(crate) tenant: String,
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) event_types: Vec<String>,
    pub(crate) definitions: Vec<String>,
    /// What is written for it waits.
    pub(crate) paused: bool,
    pub(crate) secret: WebhookSecret,
    /// The one before, and for how long it still signs.
    pub(crate) previous: Option<(WebhookSecret, Duration)>,
}

/// All sinks that receive anything, with their revision.
pub(crate) async fn list(pool: &Pool) -> Result<(i64, Vec<SinkRow>)> {
    let rows = pool.query(LIST, &[]).await?;
    let at = columns!(rows; revision, number, tenant_id, id, url, event_types, definitions, paused, secret, previous_secret, previous_for)?;
    let revision = rows.first().map_or(0, |row| row.get(at.revision));
    let sink = |row: &tokio_postgres::Row| {
        let number = SinkNumber(row.get::<_, Option<i32>>(at.number)?);
        let secret = |text: Option<&str>| WebhookSecret::parse(text?).ok();
        let previous_for = row.get::<_, Option<i64>>(at.previous_for);
        let left = previous_for
            .and_then(|micros| u64::try_from(micros).ok())
            .map(Duration::from_micros);
        Some(SinkRow {
            number,
            tenant: row.get(at.tenant_id),
            id: row.get(at.id),
            url: row.get(at.url),
            event_types: row.get(at.event_types),
            definitions: row.get(at.definitions),
            paused: row.get(at.paused),
            secret: secret(row.get(at.secret))?,
            previous: secret(row.get(at.previous_secret)).zip(left),
        })
    };
    Ok((revision, rows.iter().filter_map(sink).collect()))
}

/// A sink as clients see it, without its secret.
#[derive(Clone, Debug)]
pub(crate) struct ShownSink {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) url: String,
    pub(crate) event_types: Vec<String>,
    pub(crate) definitions: Vec<String>,
    pub(crate) is_configured: bool,
    pub(crate) paused: bool,
    pub(crate) disabled_at: Option<DateTime<Utc>>,
    pub(crate) note: Option<String>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
    pub(crate) failures: i32,
    pub(crate) retry_at: DateTime<Utc>,
    /// In seconds.
    pub(crate) retry_for: i64,
    pub(crate) previous_until: Option<DateTime<Utc>>,
    /// Counted up to 10,001, for a single sink.
    pub(crate) pending: Option<i64>,
    /// Counted up to 10,001, for a single sink.
    pub(crate) dead_letters: Option<i64>,
}

/// The sinks in the order of their ids: all, or that of an id.
pub(crate) async fn show(pool: &Pool, tenant: &TenantId, id: Option<&str>) -> Result<Vec<ShownSink>> {
    let rows = pool.query(SHOW, &[&tenant.as_str(), &id]).await?;
    let at = columns!(rows; id, name, url, event_types, definitions, is_configured, paused, disabled_at, note, created_at,
        updated_at, failures, retry_at, retry_for, previous_until, pending, dead_letters)?;
    let sink = |row: &tokio_postgres::Row| ShownSink {
        id: row.get(at.id),
        name: row.get(at.name),
        url: row.get(at.url),
        event_types: row.get(at.event_types),
        definitions: row.get(at.definitions),
        is_configured: row.get(at.is_configured),
        paused: row.get(at.paused),
        disabled_at: row.get(at.disabled_at),
        note: row.get(at.note),
        created_at: row.get(at.created_at),
        updated_at: row.get(at.updated_at),
        failures: row.get(at.failures),
        retry_at: row.get(at.retry_at),
        retry_for: row.get(at.retry_for),
        previous_until: row.get(at.previous_until),
        pending: row.get(at.pending),
        dead_letters: row.get(at.dead_letters),
    };
    Ok(rows.iter().map(sink).collect())
}

/// What became of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    Made,
    /// The id is taken.
    Taken,
    /// There are as many sinks as there may be.
    Full,
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// Registers a sink.
pub(crate) async fn insert(
    pool: &Pool,
    tenant: &TenantId,
    sink: &WebhookSink,
    is_configured: bool,
) -> Result<Registered> {
    let (secret, retry_for) = (sink.secret.reveal(), seconds(sink.retry_for));
    let params: [&(dyn ToSql + Sync); 11] = [
        &tenant.as_str(),
        &sink.id,
        &sink.name,
        &sink.url,
        &sink.event_types,
        &sink.definitions,
        &secret,
        &retry_for,
        &sink.paused,
        &is_configured,
        &MOST_SINKS,
    ];
    let made = |rows: &[tokio_postgres::Row]| rows.iter().any(|row| row.get("made"));
    let row = pool.change_one(INSERT, &params, made).await?;
    let at = columns!(row; made, has_room)?;
    Ok(match (row.get(at.made), row.get(at.has_room)) {
        (true, _) => Registered::Made,
        (false, true) => Registered::Taken,
        (false, false) => Registered::Full,
    })
}

/// Changes a sink; false: there is none, or the settings have it and the change is not theirs. The settings give a secret.
pub(crate) async fn update(
    pool: &Pool,
    tenant: &TenantId,
    id: &str,
    change: &WebhookSinkChange,
    of_settings: Option<&WebhookSecret>,
) -> Result<bool> {
    let secret = of_settings.map(WebhookSecret::reveal);
    let is_configured = of_settings.map(|_| true);
    let retry_for = change.retry_for.map(seconds);
    let name = change.name.clone().flatten();
    let params: [&(dyn ToSql + Sync); 11] = [
        &tenant.as_str(),
        &id,
        &name,
        &change.name.is_some(),
        &change.url,
        &change.event_types,
        &change.definitions,
        &retry_for,
        &change.paused,
        &secret,
        &is_configured,
    ];
    Ok(pool
        .change_opt(UPDATE, &params, |rows| !rows.is_empty())
        .await?
        .is_some())
}

/// Gives a sink another secret, while the one before signs as well for some time; false: as of [`update`].
pub(crate) async fn rotate(
    pool: &Pool,
    tenant: &TenantId,
    id: &str,
    secret: &WebhookSecret,
    overlap: Duration,
) -> Result<bool> {
    let (secret, overlap) = (secret.reveal(), seconds(overlap));
    let row = pool
        .change_opt(ROTATE, &[&tenant.as_str(), &id, &secret, &overlap], |rows| {
            !rows.is_empty()
        })
        .await?;
    Ok(row.is_some())
}

/// Deletes a sink of the API; false: as of [`update`].
pub(crate) async fn delete(pool: &Pool, tenant: &TenantId, id: &str) -> Result<bool> {
    let row = pool
        .change_opt(DELETE, &[&tenant.as_str(), &id], |rows| !rows.is_empty())
        .await?;
    Ok(row.is_some())
}

/// Makes the sinks of the settings those that are given. Those of the API stay; one of them with the id of a setting becomes one
/// of the settings. One that the settings had before is paused, and left to the API; returns the ids of these.
pub(crate) async fn configure(pool: &Pool, tenant: &TenantId, sinks: &[WebhookSink]) -> Result<Vec<String>> {
    for sink in sinks {
        let change = WebhookSinkChange {
            name: Some(sink.name.clone()),
            url: Some(sink.url.clone()),
            event_types: Some(sink.event_types.clone()),
            definitions: Some(sink.definitions.clone()),
            retry_for: Some(sink.retry_for),
            // An operator may have paused it.
            paused: sink.paused.then_some(true),
        };
        let update = || update(pool, tenant, &sink.id, &change, Some(&sink.secret));
        if update().await? {
            continue;
        }
        match insert(pool, tenant, sink, true).await? {
            Registered::Made => {}
            // By another node, meanwhile.
            Registered::Taken => drop(update().await?),
            Registered::Full => {
                let message = format!("there are {MOST_SINKS} webhook sinks already; delete some by the API");
                return Err(crate::Error::invalid("too-many-sinks", message));
            }
        }
    }
    let ids: Vec<&str> = sinks.iter().map(|sink| sink.id.as_str()).collect();
    let rows = pool.query(LEAVE, &[&tenant.as_str(), &ids, &LEFT]).await?;
    Ok(rows.iter().map(|row| row.get("id")).collect())
}
