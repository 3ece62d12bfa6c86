//! The nodes of a cluster: registration, check-in and leave; `removal` of expired and crashed ones.

pub(crate) mod removal;

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde::Serialize;
use tokio_postgres::{Client, Statement};

use super::commit::WRITERS;
use super::pause::Pause;
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::failpoint;
use crate::id::{FanOutId, Incarnation, InstanceId, NodeId, TenantId};
use crate::{Error, Result};

const INCARNATION: &str = include_str!("../../../sql/queries/node/next_incarnation.sql");
const REGISTER: &str = include_str!("../../../sql/queries/node/register.sql");
const RECORD_HANG: &str = include_str!("../../../sql/queries/node/record_hang.sql");
const CHECK_IN: &str = include_str!("../../../sql/queries/node/check_in.sql");
const BY_ID: &str = include_str!("../../../sql/queries/node/find.sql");
#[cfg(feature = "cli")]
const TIMER_HOLDER: &str = include_str!("../../../sql/queries/node/timer_holder.sql");
const LIVING: &str = include_str!("../../../sql/queries/node/living.sql");
const CLUSTER_NAME: &str = include_str!("../../../sql/queries/node/cluster_name.sql");
const DRAIN: &str = include_str!("../../../sql/queries/node/drain.sql");
const ROLES: &str = include_str!("../../../sql/queries/node/set_roles.sql");
const OTHER_DOMAINS: &str = include_str!("../../../sql/queries/node/other_domains.sql");
const OTHER_IDENTITY_SETTINGS: &str = include_str!("../../../sql/queries/node/other_identity_settings.sql");
const FACTS: &str = include_str!("../../../sql/queries/node/set_facts.sql");
const TERM: &str = include_str!("../../../sql/queries/node/set_term.sql");
const LIST: &str = include_str!("../../../sql/queries/node/list.sql");
const LEAVE: &str = include_str!("../../../sql/queries/node/leave.sql");

/// Takes the next incarnation number, which is unique in this database.
pub(crate) async fn next_incarnation(client: &Client) -> Result<Incarnation> {
    Ok(Incarnation(
        within(ANSWER_TIMEOUT, client.query_one(INCARNATION, &[]))
            .await?
            .get("incarnation"),
    ))
}

/// Registers an incarnation, with a fence row for each of its commit writers.
pub(crate) async fn register(
    client: &Client,
    incarnation: Incarnation,
    node: &NodeId,
    tolerance: Duration,
) -> Result<()> {
    failpoint::hit("node.register").await?;
    let tolerance = i64::try_from(tolerance.as_micros()).unwrap_or(i64::MAX);
    let writers = WRITERS.to_vec();
    within(
        ANSWER_TIMEOUT,
        client.execute(REGISTER, &[&incarnation.0, &node.as_str(), &tolerance, &writers]),
    )
    .await?;
    Ok(())
}

/// The incarnations that are registered or being removed under a node id, oldest first.
pub(crate) async fn by_node_id(client: &Client, node: &NodeId) -> Result<Vec<Incarnation>> {
    let rows = within(ANSWER_TIMEOUT, client.query(BY_ID, &[&node.as_str()])).await?;
    let at = columns!(rows; incarnation)?;
    Ok(rows.iter().map(|row| Incarnation(row.get(at.incarnation))).collect())
}

/// The id of the node that claimed the due timer of an instance; none while it is unclaimed.
#[cfg(feature = "cli")]
pub(crate) async fn timer_holder(client: &Client, tenant: &TenantId, instance: &InstanceId) -> Result<Option<String>> {
    let rows = within(
        ANSWER_TIMEOUT,
        client.query(TIMER_HOLDER, &[&tenant.as_str(), &instance.as_str()]),
    )
    .await?;
    Ok(rows.first().map(|row| row.get("node_id")))
}

/// Which of these incarnations are registered, or being removed. The others are gone: nothing of theirs is committed any more.
pub(crate) async fn living(pool: &Pool, incarnations: &[i64]) -> Result<Vec<i64>> {
    let rows = pool.query(LIVING, &[&incarnations]).await?;
    let at = columns!(rows; incarnation)?;
    Ok(rows.iter().map(|row| row.get(at.incarnation)).collect())
}

/// A name for the cluster that no other schema and no other database has.
pub(crate) async fn cluster_name(pool: &Pool) -> Result<String> {
    let rows = pool.query(CLUSTER_NAME, &[]).await?;
    let at = columns!(rows; name)?;
    let row = rows.first().map(|row| row.get(at.name));
    row.ok_or_else(|| Error::internal("the secret of the cluster is missing"))
}

/// Marks this incarnation as draining.
pub(crate) async fn drain(pool: &Pool, incarnation: Incarnation) -> Result<()> {
    pool.query(DRAIN, &[&incarnation.0]).await?;
    Ok(())
}

/// The services of a node, as nodes compare them; empty: a provider that does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceDomains {
    pub(crate) locks: String,
    pub(crate) signal: String,
    pub(crate) wake: String,
}

/// Records the roles of this incarnation, its services, and the digests of its identity settings.
pub(crate) async fn report_roles(
    pool: &Pool,
    incarnation: Incarnation,
    roles: &[&str],
    domains: &ServiceDomains,
    identity_settings: &[String],
) -> Result<()> {
    let ServiceDomains { locks, signal, wake } = domains;
    pool.query(
        ROLES,
        &[&incarnation.0, &roles, locks, signal, wake, &identity_settings],
    )
    .await?;
    Ok(())
}

/// What a node records of itself, for operators to compare.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeFacts {
    /// Of the program.
    pub(crate) version: &'static str,
    /// The most connections to the database that it opens.
    pub(crate) connections: usize,
    /// Bursts at once, each of which may hold a lock of the server.
    pub(crate) workers: usize,
    pub(crate) check_in_ms: u64,
    /// The settings that are to be the same on all nodes.
    pub(crate) settings: BTreeMap<&'static str, String>,
}

/// How many connections a node opens besides those of its two pools: for locks, notifications, the liveness watch, check-ins,
/// each commit writer, and one more for moments.
pub(crate) const OWN_CONNECTIONS: usize = 5 + WRITERS.len();

/// Records the facts of this incarnation.
pub(crate) async fn report_facts(pool: &Pool, incarnation: Incarnation, facts: &NodeFacts) -> Result<()> {
    let facts = serde_json::to_value(facts)
        .map_err(|error| Error::internal("the facts of a node cannot be written as JSON").caused_by(error))?;
    pool.query(FACTS, &[&incarnation.0, &facts]).await?;
    Ok(())
}

/// The other live nodes and the digests of their identity settings; `None` for one that has not recorded them yet.
pub(crate) async fn other_identity_settings(
    pool: &Pool,
    incarnation: Incarnation,
) -> Result<Vec<(String, Option<Vec<String>>)>> {
    let rows = pool.query(OTHER_IDENTITY_SETTINGS, &[&incarnation.0]).await?;
    let at = columns!(rows; node_id, identity_settings)?;
    let of_row = |row: &tokio_postgres::Row| (row.get(at.node_id), row.get(at.identity_settings));
    Ok(rows.iter().map(of_row).collect())
}

/// The other live nodes and their services. Two nodes that start at the same time do not both miss each other: each has recorded
/// its own before.
pub(crate) async fn other_domains(pool: &Pool, incarnation: Incarnation) -> Result<Vec<(String, ServiceDomains)>> {
    let rows = pool.query(OTHER_DOMAINS, &[&incarnation.0]).await?;
    let at = columns!(rows; node_id, lock_domain, signal_domain, wake_domain)?;
    let of_row = |row: &tokio_postgres::Row| {
        let domains = ServiceDomains {
            locks: row.get(at.lock_domain),
            signal: row.get(at.signal_domain),
            wake: row.get(at.wake_domain),
        };
        (row.get(at.node_id), domains)
    };
    Ok(rows.iter().map(of_row).collect())
}

/// Records the term in which this incarnation is the active scheduler; `None` if it is not.
pub(crate) async fn report_term(pool: &Pool, incarnation: Incarnation, term: Option<u64>) -> Result<()> {
    let term = term.map(|term| i64::try_from(term).unwrap_or(i64::MAX));
    pool.query(TERM, &[&incarnation.0, &term]).await?;
    Ok(())
}

/// Leaves in order, once nothing is claimed.
pub(crate) async fn leave(pool: &Pool, incarnation: Incarnation) -> Result<()> {
    pool.query(LEAVE, &[&incarnation.0]).await?;
    Ok(())
}

/// The result of a check-in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckIn {
    /// False if this incarnation was removed, or the server crashed and lost all registrations.
    pub(crate) registered: bool,
    /// The number of publishes.
    pub(crate) revision: i64,
    /// That of the sinks of webhooks.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "without HTTP nothing is sent"))]
    pub(crate) webhooks: i64,
    /// That of users, roles and applications.
    #[cfg_attr(
        not(feature = "http"),
        allow(dead_code, reason = "without HTTP there are no callers")
    )]
    pub(crate) identity: i64,
    /// Whether the cluster is paused, and how often that has changed.
    pub(crate) pause: Pause,
    /// How long until unclaimed work is due, zero if it is late; `None` if there is no work.
    pub(crate) next_due: Option<Duration>,
    /// No unclaimed work was due before, by the database's clock.
    pub(crate) head: DateTime<Utc>,
    /// How long until the next schedule fires, zero if it is late; `None` if there is no schedule.
    pub(crate) next_fire: Option<Duration>,
    /// Occurrences wait until the running instance of their schedule ends.
    pub(crate) queued: bool,
    /// Expired nodes, which missed their check-in.
    pub(crate) expired: Vec<ExpiredNode>,
    /// How long until the next node expires, unless it checks in; `None` if there is no other node.
    pub(crate) next_expiry: Option<Duration>,
    /// Every registered node in order, with this one and the expired nodes.
    pub(crate) members: Vec<Incarnation>,
    /// A job of the cluster is due, other than its sample.
    pub(crate) jobs_due: bool,
    /// The sample of the cluster is due.
    pub(crate) sample_due: bool,
    /// A fan-out is unfinished.
    pub(crate) has_fan_outs: bool,
    /// The first unfinished one, else the last one that was accepted.
    pub(crate) first_fan_out: FanOutId,
    /// A bulk action is unfinished.
    pub(crate) has_bulk_actions: bool,
    /// The inbox keeps events that start what was published.
    pub(crate) has_inbox_matches: bool,
    /// Another live node that does not drain serves the API.
    pub(crate) has_api_peers: bool,
    /// Another live node that does not drain runs bursts.
    pub(crate) has_worker_peers: bool,
    /// How many such nodes can run every version.
    pub(crate) worker_peers: i64,
    /// How many of them registered before this one.
    pub(crate) rank: i64,
    /// Grows by one with each transaction of the server that writes.
    pub(crate) transactions: i64,
    /// The time by the database's clock.
    pub(crate) clock: DateTime<Utc>,
}

/// An expired node: it missed its check-in, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpiredNode {
    pub(crate) incarnation: Incarnation,
    /// How long it may go without a check-in.
    pub(crate) tolerance: Duration,
}

fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}

/// Prepares the check-in on its own connection.
pub(crate) async fn prepare_check_in(client: &Client) -> Result<Statement> {
    within(ANSWER_TIMEOUT, client.prepare(CHECK_IN)).await
}

/// From where a check-in reads the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueStart {
    /// Unclaimed work that is due from then on, by the database's clock; `None`: all.
    pub(crate) due: Option<DateTime<Utc>>,
    /// Unfinished fan-outs from this one on.
    pub(crate) fan_out: FanOutId,
}

impl QueueStart {
    /// Whole queues.
    pub(crate) const WHOLE: Self = Self {
        due: None,
        fan_out: FanOutId(0),
    };
}

/// Checks in.
pub(crate) async fn check_in(
    client: &Client,
    statement: &Statement,
    incarnation: Incarnation,
    start: QueueStart,
    deadline: Duration,
) -> Result<CheckIn> {
    // For operators alone.
    let own_clock = Utc::now();
    let params: [&(dyn ToSql + Sync); 4] = [&incarnation.0, &start.due, &start.fan_out.0, &own_clock];
    let row = within(deadline, client.query_one(statement, &params)).await?;
    let (fan_outs, numbers): (i64, i64) = (row.get("fan_outs"), row.get("fan_out_numbers"));
    metrics::gauge!("mainspring_fan_outs_unfinished").set(fan_outs as f64);
    metrics::gauge!("mainspring_fan_out_numbers_left").set(numbers as f64);
    Ok(CheckIn {
        registered: row.get("registered"),
        revision: row.get("revision"),
        webhooks: row.get("webhooks"),
        identity: row.get("identity"),
        pause: Pause::read(row.get("pause_mode"), row.get("pause_generation")),
        next_due: row.get::<_, Option<i64>>("next_due").map(micros),
        head: row.get("head"),
        expired: row
            .get::<_, Vec<i64>>("expired")
            .into_iter()
            .zip(row.get::<_, Vec<i64>>("tolerances"))
            .map(|(incarnation, tolerance)| ExpiredNode {
                incarnation: Incarnation(incarnation),
                tolerance: micros(tolerance),
            })
            .collect(),
        next_expiry: row.get::<_, Option<i64>>("next_expiry").map(micros),
        members: row.get::<_, Vec<i64>>("members").into_iter().map(Incarnation).collect(),
        jobs_due: row.get("jobs_due"),
        sample_due: row.get("sample_due"),
        has_fan_outs: fan_outs > 0,
        first_fan_out: FanOutId(row.get("first_fan_out")),
        has_bulk_actions: row.get("has_bulk_actions"),
        has_inbox_matches: row.get("has_inbox_matches"),
        has_api_peers: row.get("has_api_peers"),
        next_fire: row.get::<_, Option<i64>>("next_fire").map(micros),
        queued: row.get("queued"),
        has_worker_peers: row.get("has_worker_peers"),
        worker_peers: row.get("worker_peers"),
        rank: row.get("rank"),
        transactions: row.get("transactions"),
        clock: row.get("clock"),
    })
}

/// Records that this node hangs: it is expired from now on, and its end counts as a crash only of these instances, whose bursts
/// hang.
pub(crate) async fn record_hang(
    client: &Client,
    incarnation: Incarnation,
    hanging: &[(TenantId, InstanceId)],
) -> Result<()> {
    let (tenants, instances): (Vec<&str>, Vec<&str>) = hanging
        .iter()
        .map(|(tenant, instance)| (tenant.as_str(), instance.as_str()))
        .unzip();
    client
        .execute(RECORD_HANG, &[&incarnation.0, &tenants, &instances])
        .await?;
    Ok(())
}

/// A node as operators see it.
#[derive(Clone, Debug)]
pub(crate) struct NodeRow {
    pub(crate) incarnation: Incarnation,
    pub(crate) node: NodeId,
    /// `None` if it is being removed.
    pub(crate) started_at: Option<DateTime<Utc>>,
    pub(crate) last_seen: Option<DateTime<Utc>>,
    pub(crate) state: String,
    /// Instances of which it has claimed rows.
    pub(crate) running: i64,
    pub(crate) age_ms: Option<i64>,
    /// Activity types that published versions use and this node does not know.
    pub(crate) missing: Vec<String>,
    pub(crate) roles: Vec<String>,
    /// The term in which it is the active scheduler.
    pub(crate) scheduler_term: Option<i64>,
}

/// All nodes, oldest registration first.
pub(crate) async fn list(pool: &Pool) -> Result<Vec<NodeRow>> {
    let rows = pool.query(LIST, &[]).await?;
    let at = columns!(rows; incarnation, node_id, started_at, last_seen, state, running, age_ms, missing_activity_types, roles, scheduler_term)?;
    let row = |row: &tokio_postgres::Row| NodeRow {
        incarnation: Incarnation(row.get(at.incarnation)),
        node: NodeId::new(row.get::<_, String>(at.node_id)),
        started_at: row.get(at.started_at),
        last_seen: row.get(at.last_seen),
        state: row.get(at.state),
        running: row.get(at.running),
        age_ms: row.get(at.age_ms),
        missing: row.get(at.missing_activity_types),
        roles: row.get(at.roles),
        scheduler_term: row.get(at.scheduler_term),
    };
    Ok(rows.iter().map(row).collect())
}
