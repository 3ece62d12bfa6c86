//! A cluster: which of its nodes answer, and what they report about the others.

use futures_util::{StreamExt, stream};
use rand::seq::SliceRandom;
use redis::Value;
use redis::aio::MultiplexedConnection;

use super::address::{AddressKind, RedisAddress};
use super::connection::{self, Endpoint, ServerRole, refused, unavailable};
use super::topology::{ClusterTopology, NodeAddress};
use crate::Result;

/// How many nodes are asked at a time.
const ASKED: usize = 3;

/// What a node says of its cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterView {
    pub(crate) topology: ClusterTopology,
    /// Whether the cluster serves, as far as the node sees: it reaches most masters, and each slot has one.
    pub(crate) is_ok: bool,
}

/// Asks a node. The connection serves on after an answer.
///
/// # Errors
/// Those of the server.
pub(crate) async fn view(connection: &mut MultiplexedConnection, node: &NodeAddress) -> Result<ClusterView> {
    let failed = |error| refused(&node.to_string(), error);
    let info: String = redis::cmd("CLUSTER")
        .arg("INFO")
        .query_async(connection)
        .await
        .map_err(failed)?;
    let slots: Value = redis::cmd("CLUSTER")
        .arg("SLOTS")
        .query_async(connection)
        .await
        .map_err(failed)?;
    let topology = ClusterTopology::read(&slots, &node.host)
        .ok_or_else(|| unavailable(&node.to_string(), "it does not report the nodes of its cluster"))?;
    Ok(ClusterView {
        topology,
        is_ok: info.lines().any(|line| line.trim() == "cluster_state:ok"),
    })
}

/// A server, checked to be what it is to be.
pub(super) async fn open(endpoint: &Endpoint, expected: ServerRole) -> Result<MultiplexedConnection> {
    let mut connection = endpoint.open().await?;
    let answered = redis::cmd("INFO").query_async(&mut connection).await;
    let info: String = answered.map_err(|error| refused(endpoint.place(), error))?;
    connection::check(endpoint.place(), &info, expected)?;
    Ok(connection)
}

/// The nodes by which a cluster is found: those that are known, then those of the address, each in random order.
pub(super) fn nodes(address: &RedisAddress, known: Vec<NodeAddress>) -> Vec<NodeAddress> {
    let named = address.hosts.iter().map(|(host, port)| NodeAddress {
        host: host.clone(),
        port: *port,
    });
    let (mut known, mut named) = (known, named.collect::<Vec<_>>());
    known.shuffle(&mut rand::rng());
    named.shuffle(&mut rand::rng());
    named.retain(|node| !known.contains(node));
    known.extend(named);
    known
}

/// What the first node says that answers, one that sees the cluster serve before others.
///
/// # Errors
/// `redis-refused` where a setting must change, `redis-unavailable` if none answers.
pub(super) async fn discover(address: &RedisAddress, known: Vec<NodeAddress>) -> Result<ClusterView> {
    let asked = nodes(address, known).into_iter().map(|node| ask(address, node));
    let mut asked = std::pin::pin!(stream::iter(asked).buffer_unordered(ASKED));
    let (mut away, mut apart) = (None, None);
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(found) if found.is_ok => return Ok(found),
            Ok(found) => apart = Some(found),
            Err(error) if error.is_unavailable() => away = Some(error),
            Err(error) => return Err(error),
        }
    }
    apart.ok_or_else(|| away.unwrap_or_else(|| unavailable(&address.place(), "it has no node")))
}

async fn ask(address: &RedisAddress, node: NodeAddress) -> Result<ClusterView> {
    let expected = match address.kind {
        AddressKind::Several => ServerRole::MemberOfSeveral,
        _ => ServerRole::Member,
    };
    let asked = async {
        let mut connection = open(&address.server(&node.host, node.port)?, expected).await?;
        view(&mut connection, &node).await
    };
    let is_named = address
        .hosts
        .iter()
        .any(|named| *named == (node.host.clone(), node.port));
    asked.await.map_err(|error| match is_named {
        true => error,
        // A node of before may be another server by now.
        false => unavailable(&node.to_string(), "it is no longer a node of the cluster").caused_by(error),
    })
}
