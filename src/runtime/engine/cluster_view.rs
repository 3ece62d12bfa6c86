//! The cluster as operators see it. Every node answers for all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Engine;
use crate::Result;
use crate::db::Channel;
use crate::elsa_json;
use crate::id::{FanOutId, Incarnation, NodeId};
use crate::lock::{LockKey, LockMode};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{Listed, Page};
use crate::store::fan_out::{self, FanOutRow};
use crate::store::lock::report::{self as store_report, LockReport, LockRow};
use crate::store::lock::{self as store_lock, ForeignLock};
use crate::store::node::{self, NodeRow};
use crate::store::work;

/// How long the other nodes have to report their locks. A node takes some milliseconds.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);

/// The most unfinished fan-outs, and finished ones, that are listed.
const MOST_FAN_OUTS: i64 = 1000;

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ClusterNodeState {
    /// It checks in.
    Live,
    /// It drains: it claims nothing new.
    Draining,
    /// It has expired: its check-ins have been missing for longer than its tolerance, and other nodes are about to remove it.
    #[serde(rename = "silent")]
    Expired,
    /// It was removed, and its claims are being released.
    #[serde(rename = "departed")]
    Removed,
}

/// A node of the cluster.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// Its name.
    pub node_id: NodeId,
    /// Its registration.
    pub incarnation: Incarnation,
    /// Its state.
    pub state: ClusterNodeState,
    /// When it registered; `None` once it is removed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub started_at: Option<DateTime<Utc>>,
    /// Its last check-in; `None` once it is removed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub last_seen_at: Option<DateTime<Utc>>,
    /// How many instances it has claimed work of.
    pub running: u64,
    /// Its roles: `api`, `worker`, `scheduler`.
    pub roles: Vec<String>,
    /// The term of the elected scheduler, greater than all earlier terms; `None` on other nodes, and without an election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_term: Option<u64>,
    /// Activity types of published versions that it does not know; it leaves those versions to other nodes.
    pub lacks: Vec<String>,
    /// It is the node that gives this answer.
    pub answering: bool,
}

/// Work of one kind and state.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueItem {
    /// `start`, `resume`, `stimulus`, `cancel`, `continue`, `delay`, `event`.
    pub kind: String,
    /// `ready`, `claimed`, `retrying`, `suspect`, `nowhere` (no live node knows all its activities); for delays also
    /// `scheduled`, for events `kept`.
    pub state: String,
    /// How many.
    pub count: u64,
    /// The age of the oldest row, in milliseconds: since it was accepted, or for a delay since it was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_age_ms: Option<u64>,
    /// When the next row that is not due yet becomes due.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub next_at: Option<DateTime<Utc>>,
    /// For kept events, the bytes of their budget that they take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// An event that is given page by page to the many instances that wait for it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterFanOut {
    /// Its id.
    pub id: FanOutId,
    /// The activity type that waits for it.
    pub activity_type_name: String,
    /// The correlation id that it is for; `None` means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The instance that it is for; `None` means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_instance_id: Option<String>,
    /// `queued`: earlier events of its kind have their turn first; `running`; `finished`, listed for ten minutes.
    pub state: &'static str,
    /// When it was accepted.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub accepted_at: DateTime<Utc>,
    /// When its turn came.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub began_at: Option<DateTime<Utc>>,
    /// When the last bookmark received its row of work.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub finished_at: Option<DateTime<Utc>>,
    /// Bookmarks that have received a row of work so far.
    pub resumed: u64,
    /// Instances that triggers started.
    pub started: u64,
    /// The maximum number of bookmarks left; bookmarks of other events also count. `None` while it is queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_at_most: Option<u64>,
    /// Bookmarks per second since its turn came.
    pub per_second: f64,
}

/// A session of the server that holds a lock of this schema and belongs to no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForeignSession {
    /// The process of the server; `pg_terminate_backend` ends it.
    pub process_id: i32,
    /// Its role.
    pub user: String,
    /// Its `application_name`.
    pub application: String,
}

/// A lock that a node holds.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterLock {
    /// `instance:` and the id of an instance, `liveness:` and an incarnation, or the name that a program gave it. `key:` and
    /// its 64 bits if no node has reported the name.
    pub name: String,
    /// `exclusive` or `shared`.
    pub mode: LockMode,
    /// The node that holds it; `None` if a foreign session holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// The incarnation of that node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// The foreign session that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<ForeignSession>,
    /// How long its longest holder has held it, in milliseconds. `None` if the node did not report within half a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    /// How many wait for it, on all nodes that reported.
    pub waiters: u64,
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// One page of a list that is short enough to be read whole.
fn paged<T>(all: Vec<T>, page: Page) -> Listed<T> {
    let (limit, offset) = page.window();
    let total_count = u64::try_from(all.len()).unwrap_or(u64::MAX);
    let take = usize::try_from(limit).unwrap_or(0);
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    Listed {
        items: all.into_iter().skip(skip).take(take).collect(),
        total_count,
    }
}

impl Engine {
    /// The nodes, oldest registration first. Cancellation safe.
    pub async fn cluster_nodes(&self, page: Page) -> Result<Listed<ClusterNode>> {
        let context = self.node()?;
        let own = context.database.incarnation;
        let rows = node::list(context.database.reads.by_key()).await?;
        Ok(paged(rows.into_iter().map(|row| node(row, own)).collect(), page))
    }

    /// The work of the whole cluster, counted by kind and state; empty counts are left out. Cancellation safe.
    pub async fn cluster_queue(&self, page: Page) -> Result<Listed<QueueItem>> {
        let rows = work::queue(self.node()?.database.reads.lists()).await?;
        let items = rows.into_iter().map(|row| QueueItem {
            kind: row.kind.to_owned(),
            state: row.state,
            count: unsigned(row.count),
            oldest_age_ms: row.oldest_ms.map(unsigned),
            next_at: row.next_at,
            bytes: row.bytes.map(unsigned),
        });
        Ok(paged(items.collect(), page))
    }

    /// The events that are given page by page to the instances that wait for them, in the order of their turns, and then
    /// those that finished within the last ten minutes. Cancellation safe.
    pub async fn cluster_fan_outs(&self, page: Page) -> Result<Listed<ClusterFanOut>> {
        let rows = fan_out::list(self.node()?.database.reads.lists(), MOST_FAN_OUTS).await?;
        let of_tenant = rows.into_iter().filter(|row| row.tenant == self.tenant.as_str());
        Ok(paged(of_tenant.map(cluster_fan_out).collect(), page))
    }

    /// The named locks that nodes hold, those held longest first. The server has the list; the nodes report names, times and
    /// waiters within half a second. Cancellation safe.
    pub async fn cluster_locks(&self, page: Page) -> Result<Listed<ClusterLock>> {
        let node = self.node()?;
        let (pool, lists) = (node.database.reads.by_key(), node.database.reads.lists());
        // In this order: a lock that the server shows and its node no longer knows was released meanwhile.
        let rows = store_report::held_locks(lists, &node.database.schema.key()).await?;
        let since = store_report::request_reports(pool, node.notifications.notifier.name(Channel::LockReports)).await?;
        let began = Instant::now();
        let mut pause = Duration::from_millis(8);
        while !store_report::all_reported(pool, since).await? && began.elapsed() < REPORT_TIMEOUT {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        let answers = store_report::reports(pool, since).await?;
        let nodes = node::list(pool).await?;
        let foreign = foreign(&node, &answers).await?;
        Ok(paged(
            locks(node.database.schema.as_str(), &rows, answers, &nodes, foreign),
            page,
        ))
    }
}

fn node(row: NodeRow, own: Incarnation) -> ClusterNode {
    ClusterNode {
        answering: row.incarnation == own,
        node_id: row.node,
        incarnation: row.incarnation,
        state: match row.state.as_str() {
            "live" => ClusterNodeState::Live,
            "draining" => ClusterNodeState::Draining,
            "departed" => ClusterNodeState::Removed,
            _ => ClusterNodeState::Expired,
        },
        started_at: row.started_at,
        last_seen_at: row.last_seen,
        running: unsigned(row.running),
        roles: row.roles,
        scheduler_term: row.scheduler_term.map(unsigned),
        lacks: row.missing,
    }
}

fn cluster_fan_out(row: FanOutRow) -> ClusterFanOut {
    ClusterFanOut {
        id: row.id,
        activity_type_name: row.name,
        correlation_id: row.correlation_id,
        workflow_instance_id: row.instance,
        state: match (row.began_at, row.finished_at) {
            (_, Some(_)) => "finished",
            (Some(_), None) => "running",
            (None, None) => "queued",
        },
        accepted_at: row.accepted_at,
        began_at: row.began_at,
        finished_at: row.finished_at,
        resumed: unsigned(row.resumed),
        started: unsigned(row.started),
        left_at_most: row.numbers_left.map(unsigned),
        per_second: row.rate,
    }
}

fn mode(shared: bool) -> LockMode {
    if shared { LockMode::Shared } else { LockMode::Exclusive }
}

/// The locks of foreign sessions: those with which nodes exclude each other, and those that nodes report as held elsewhere.
async fn foreign(node: &NodeContext, answers: &[(Incarnation, Vec<LockReport>)]) -> Result<Vec<ClusterLock>> {
    let reports = answers.iter().flat_map(|(_, reports)| reports);
    let elsewhere: Vec<&LockReport> = reports.filter(|report| !report.held && report.key.is_some()).collect();
    let keys: Vec<i64> = elsewhere.iter().filter_map(|report| report.key).collect();
    let held = store_lock::foreign_locks(node.database.reads.lists(), &node.database.schema, &keys).await?;
    let lock = |held: ForeignLock| {
        let is_it = |report: &&&LockReport| held.class.is_none() && report.key == Some(held.key);
        let known: Vec<&&LockReport> = elsewhere.iter().filter(is_it).collect();
        ClusterLock {
            name: known
                .iter()
                .find_map(|report| report.name.clone())
                .unwrap_or_else(|| held.key_name()),
            mode: LockMode::Exclusive,
            node_id: None,
            incarnation: None,
            held_ms: None,
            waiters: known.iter().map(|report| report.waiters).sum(),
            foreign: Some(ForeignSession {
                process_id: held.process_id,
                user: held.user,
                application: held.application,
            }),
        }
    };
    Ok(held.into_iter().map(lock).collect())
}

/// The locks that the server shows, with the reports of their nodes.
fn locks(
    schema: &str,
    rows: &[LockRow],
    answers: Vec<(Incarnation, Vec<LockReport>)>,
    nodes: &[NodeRow],
    foreign: Vec<ClusterLock>,
) -> Vec<ClusterLock> {
    let mut waiters: HashMap<i64, u64> = HashMap::new();
    let mut reported: HashMap<Incarnation, HashMap<i64, LockReport>> = HashMap::new();
    // Locks of a provider of the program's own are known only to its nodes.
    let mut provided: Vec<(Incarnation, LockReport)> = Vec::new();
    for (incarnation, reports) in answers {
        let mut known = HashMap::new();
        for report in reports {
            let Some(key) = report.key else {
                provided.push((incarnation, report));
                continue;
            };
            *waiters.entry(key).or_default() += report.waiters;
            known.insert(key, report);
        }
        reported.insert(incarnation, known);
    }
    let nodes: HashMap<Incarnation, &NodeRow> = nodes.iter().map(|node| (node.incarnation, node)).collect();
    let seen = rows.iter().filter_map(|row| {
        // Not of a node that was removed meanwhile.
        let node = nodes.get(&row.incarnation)?;
        let liveness = LockKey::liveness(schema, row.incarnation).0 == row.key;
        let report = match reported.get(&row.incarnation) {
            Some(reports) => Some(reports.get(&row.key).filter(|report| report.held)?),
            None => None,
        };
        let (name, held_ms) = if liveness {
            (format!("liveness:{}", row.incarnation), node.age_ms.map(unsigned))
        } else {
            let name = report.and_then(|report| report.name.clone());
            let name = name.unwrap_or_else(|| format!("key:{}", LockKey(row.key)));
            (name, report.and_then(|report| report.held_ms))
        };
        Some(ClusterLock {
            name,
            mode: mode(row.shared),
            node_id: Some(node.node.clone()),
            incarnation: Some(row.incarnation),
            foreign: None,
            held_ms,
            waiters: waiters.get(&row.key).copied().unwrap_or(0) + unsigned(row.waiting),
        })
    });
    let mut all: Vec<ClusterLock> = seen.collect();
    let provided = provided.into_iter().filter_map(|(incarnation, report)| {
        Some(ClusterLock {
            name: report.name?,
            mode: mode(report.shared),
            node_id: Some(nodes.get(&incarnation)?.node.clone()),
            incarnation: Some(incarnation),
            foreign: None,
            held_ms: report.held_ms,
            waiters: report.waiters,
        })
    });
    all.extend(provided);
    all.extend(foreign);
    all.sort_by(|one, two| two.held_ms.cmp(&one.held_ms).then_with(|| one.name.cmp(&two.name)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(incarnation: i64, key: i64, waiting: i64) -> LockRow {
        LockRow {
            incarnation: Incarnation(incarnation),
            key,
            shared: false,
            waiting,
        }
    }

    fn node_row(incarnation: i64) -> NodeRow {
        NodeRow {
            incarnation: Incarnation(incarnation),
            node: NodeId::new(format!("n{incarnation}")),
            started_at: None,
            last_seen: None,
            state: "live".to_owned(),
            running: 0,
            age_ms: Some(9_000),
            missing: Vec::new(),
            roles: Vec::new(),
            scheduler_term: None,
        }
    }

    fn report(key: i64, name: Option<&str>, held_ms: Option<u64>, waiters: u64) -> LockReport {
        LockReport {
            key: (key != 0).then_some(key),
            shared: key == 0,
            name: name.map(str::to_owned),
            held_ms,
            held: held_ms.is_some(),
            waiters,
        }
    }

    #[test]
    fn locks_of_the_server_are_joined_with_the_reports_of_the_nodes() {
        let liveness = LockKey::liveness("s", Incarnation(1)).0;
        let rows = [
            row(1, 10, 0),
            row(1, 11, 0),
            row(1, liveness, 1),
            row(2, 12, 0),
            row(3, 13, 0),
        ];
        let answers = vec![(
            Incarnation(1),
            // 11 was released meanwhile; a task here waits for a lock of 2, which does not report.
            vec![
                report(10, Some("instance:i"), Some(7), 2),
                report(liveness, None, Some(1), 0),
                report(12, Some("x"), None, 3),
                report(0, Some("provided"), Some(5), 0),
            ],
        )];
        let joined = locks("s", &rows, answers, &[node_row(1), node_row(2)], Vec::new());
        let joined: Vec<_> = joined
            .iter()
            .map(|lock| {
                (
                    lock.name.as_str(),
                    lock.node_id.as_ref().unwrap().as_str(),
                    lock.held_ms,
                    lock.waiters,
                )
            })
            .collect();
        assert_eq!(
            joined,
            [
                ("liveness:1", "n1", Some(9_000), 1),
                ("instance:i", "n1", Some(7), 2),
                ("provided", "n1", Some(5), 0),
                ("key:000000000000000c", "n2", None, 3),
            ]
        );
    }

    #[test]
    fn a_page_is_a_part_of_it() {
        let page = |page, page_size| paged((0..5).collect(), Page { page, page_size });
        assert_eq!(
            (page(0, 2).items, page(2, 2).items, page(9, 2).items),
            (vec![0, 1], vec![4], vec![])
        );
        assert_eq!(page(9, 2).total_count, 5);
    }
}
