//! Who is there: registration, check-in, leave.

pub(crate) mod removal;

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_postgres::{Client, Statement};

use super::commit::WRITERS;
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::failpoint;
use crate::id::{Incarnation, NodeId};

const INCARNATION: &str = include_str!("../../../sql/queries/node/next_incarnation.sql");
const REGISTER: &str = include_str!("../../../sql/queries/node/register.sql");
const CHECK_IN: &str = include_str!("../../../sql/queries/node/check_in.sql");
const BY_ID: &str = include_str!("../../../sql/queries/node/find.sql");
const DRAIN: &str = include_str!("../../../sql/queries/node/drain.sql");
const ROLES: &str = include_str!("../../../sql/queries/node/set_roles.sql");
const TERM: &str = include_str!("../../../sql/queries/node/set_term.sql");
const LIST: &str = include_str!("../../../sql/queries/node/list.sql");
const LEAVE: &str = include_str!("../../../sql/queries/node/leave.sql");

/// Takes the next incarnation: never used before in this database.
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

/// The incarnations that are registered, or departing, under a node id; oldest first.
pub(crate) async fn by_node_id(client: &Client, node: &NodeId) -> Result<Vec<Incarnation>> {
    let rows = within(ANSWER_TIMEOUT, client.query(BY_ID, &[&node.as_str()])).await?;
    let at = columns!(rows; incarnation)?;
    Ok(rows.iter().map(|row| Incarnation(row.get(at.incarnation))).collect())
}

/// Says that this incarnation is about to leave.
pub(crate) async fn drain(pool: &Pool, incarnation: Incarnation) -> Result<()> {
    pool.query(DRAIN, &[&incarnation.0]).await?;
    Ok(())
}

/// Says what this incarnation does.
pub(crate) async fn report_roles(pool: &Pool, incarnation: Incarnation, roles: &[&str]) -> Result<()> {
    pool.query(ROLES, &[&incarnation.0, &roles]).await?;
    Ok(())
}

/// Says that this incarnation is the active scheduler, or is so no more.
pub(crate) async fn report_term(pool: &Pool, incarnation: Incarnation, term: Option<u64>) -> Result<()> {
    let term = term.map(|term| i64::try_from(term).unwrap_or(i64::MAX));
    pool.query(TERM, &[&incarnation.0, &term]).await?;
    Ok(())
}

/// Leaves in good order, when nothing is claimed any more.
pub(crate) async fn leave(pool: &Pool, incarnation: Incarnation) -> Result<()> {
    pool.query(LEAVE, &[&incarnation.0]).await?;
    Ok(())
}

/// What a check-in learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckIn {
    /// False: this incarnation was declared dead, or the server crashed and forgot everybody.
    pub(crate) registered: bool,
    /// Counts publishes.
    pub(crate) revision: i64,
    /// Until something is to be done that nobody has claimed, zero if it is late; none if there is nothing.
    pub(crate) next_due: Option<Duration>,
    /// Nothing that nobody has claimed was due before, by the database's clock.
    pub(crate) head: DateTime<Utc>,
    /// Until the next schedule fires, zero if it is late; none if there is nothing.
    pub(crate) next_fire: Option<Duration>,
    /// Occurrences wait until what runs of their schedule has ended.
    pub(crate) queued: bool,
    /// Nodes that missed their check-in.
    pub(crate) expired: Vec<ExpiredNode>,
    /// Every registered node, this one and the expired among them, in order.
    pub(crate) members: Vec<Incarnation>,
    /// A job of the cluster is due.
    pub(crate) jobs_due: bool,
    /// Another node that answers requests is there, is heard, and is not about to stop.
    pub(crate) has_api_peers: bool,
    /// Another node that runs bursts is there, is heard, and is not about to stop.
    pub(crate) has_worker_peers: bool,
    /// How many such nodes there are that can run every version.
    pub(crate) worker_peers: i64,
    /// How many of those registered before this one.
    pub(crate) rank: i64,
    /// Grows by one with each transaction of the server that writes.
    pub(crate) transactions: i64,
    /// What time it was for the database.
    pub(crate) clock: DateTime<Utc>,
}

/// A node that missed its check-in, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpiredNode {
    pub(crate) incarnation: Incarnation,
    /// How long it may go without one.
    pub(crate) tolerance: Duration,
}

fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}

/// Prepares the check-in on its own connection.
pub(crate) async fn prepare_check_in(client: &Client) -> Result<Statement> {
    within(ANSWER_TIMEOUT, client.prepare(CHECK_IN)).await
}

/// Checks in.
pub(crate) async fn check_in(
    client: &Client,
    statement: &Statement,
    incarnation: Incarnation,
    deadline: Duration,
) -> Result<CheckIn> {
    let row = within(deadline, client.query_one(statement, &[&incarnation.0])).await?;
    Ok(CheckIn {
        registered: row.get("registered"),
        revision: row.get("revision"),
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
        members: row.get::<_, Vec<i64>>("members").into_iter().map(Incarnation).collect(),
        jobs_due: row.get("jobs_due"),
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

/// A node, as the database knows it.
#[derive(Clone, Debug)]
pub(crate) struct NodeRow {
    pub(crate) incarnation: Incarnation,
    pub(crate) node: NodeId,
    /// None: it was declared dead.
    pub(crate) started_at: Option<DateTime<Utc>>,
    pub(crate) last_seen: Option<DateTime<Utc>>,
    pub(crate) state: String,
    /// Instances of which it has rows in its hands.
    pub(crate) running: i64,
    pub(crate) age_ms: Option<i64>,
    /// Activity types that published versions use and it does not know.
    pub(crate) lacks: Vec<String>,
    pub(crate) roles: Vec<String>,
    /// It is the one active scheduler.
    pub(crate) scheduler_term: Option<i64>,
}

/// Who is there, oldest registration first.
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
        lacks: row.get(at.missing_activity_types),
        roles: row.get(at.roles),
        scheduler_term: row.get(at.scheduler_term),
    };
    Ok(rows.iter().map(row).collect())
}
