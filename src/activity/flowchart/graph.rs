//! The shape of a flowchart: its connections, by their ends and their directions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::directions::{Direction, directions};
use crate::activity::NodeIndex;
use crate::definition::Connection;

/// A connection with both ends resolved.
#[derive(Clone, Debug)]
pub(super) struct FlowConnection {
    pub(super) source: NodeIndex,
    pub(super) port: String,
    pub(super) target: NodeIndex,
    /// Its name in the state of an instance.
    pub(super) key: String,
}

/// The connections of a flowchart, whatever its start.
#[derive(Debug, Default)]
pub(super) struct FlowConnections {
    all: Vec<FlowConnection>,
    outbound: HashMap<NodeIndex, Vec<usize>>,
    inbound: HashMap<NodeIndex, Vec<usize>>,
}

impl FlowConnections {
    /// Builds this from the connections, each with its ends.
    pub(super) fn of<'a>(connections: impl Iterator<Item = (NodeIndex, NodeIndex, &'a Connection)>) -> Self {
        let mut found = Self::default();
        for (position, (source, target, connection)) in connections.enumerate() {
            found.outbound.entry(source).or_default().push(position);
            found.inbound.entry(target).or_default().push(position);
            found.all.push(FlowConnection {
                source,
                port: connection.source.port.clone(),
                target,
                key: key_of(connection),
            });
        }
        found
    }
}

/// The connections of a flowchart as seen from one start.
#[derive(Debug)]
pub(super) struct FlowGraph {
    start: NodeIndex,
    connections: Arc<FlowConnections>,
    directions: Vec<Direction>,
    forward_inbound: HashMap<NodeIndex, Vec<usize>>,
}

impl FlowGraph {
    pub(super) fn new(connections: Arc<FlowConnections>, start: NodeIndex) -> Self {
        let ends = connections
            .all
            .iter()
            .map(|connection| (connection.source, connection.target));
        let directions = directions(&ends.collect::<Vec<_>>(), start);
        let mut forward_inbound: HashMap<NodeIndex, Vec<usize>> = HashMap::new();
        for (position, (connection, direction)) in connections.all.iter().zip(&directions).enumerate() {
            if *direction == Direction::Forward {
                forward_inbound.entry(connection.target).or_default().push(position);
            }
        }
        Self {
            start,
            connections,
            directions,
            forward_inbound,
        }
    }

    pub(super) fn connection(&self, position: usize) -> Option<&FlowConnection> {
        self.connections.all.get(position)
    }

    pub(super) fn direction(&self, position: usize) -> Direction {
        self.directions.get(position).copied().unwrap_or(Direction::Unreachable)
    }

    /// The outbound connections of an activity, in the order of the definition.
    pub(super) fn outbound(&self, activity: NodeIndex) -> &[usize] {
        list(&self.connections.outbound, activity)
    }

    /// The inbound forward connections of an activity.
    pub(super) fn inbound(&self, activity: NodeIndex) -> &[usize] {
        list(&self.forward_inbound, activity)
    }

    /// All inbound connections of an activity, also those that lead back.
    pub(super) fn all_inbound(&self, activity: NodeIndex) -> &[usize] {
        list(&self.connections.inbound, activity)
    }

    /// The connections at these positions, each with its position.
    pub(super) fn at<'a>(&'a self, positions: &'a [usize]) -> impl Iterator<Item = (usize, &'a FlowConnection)> {
        positions
            .iter()
            .filter_map(|position| Some((*position, self.connection(*position)?)))
    }

    /// Values that were kept by the place of a connection in the definition, by its key.
    pub(super) fn by_key(&self, by_place: Map<String, Value>) -> Map<String, Value> {
        let of = |(place, value): (String, Value)| Some((self.connection(place.parse().ok()?)?.key.clone(), value));
        by_place.into_iter().filter_map(of).collect()
    }

    /// Whether an activity can be reached from the start.
    pub(super) fn is_reachable(&self, activity: NodeIndex) -> bool {
        activity == self.start || !self.inbound(activity).is_empty()
    }

    /// All activities with a path of forward connections to this one.
    pub(super) fn ancestors(&self, activity: NodeIndex) -> HashSet<NodeIndex> {
        let mut found = HashSet::new();
        let mut pending = vec![activity];
        while let Some(current) = pending.pop() {
            let sources = self
                .inbound(current)
                .iter()
                .filter_map(|position| self.connection(*position));
            for source in sources.map(|connection| connection.source) {
                if found.insert(source) {
                    pending.push(source);
                }
            }
        }
        found
    }
}

fn list(lists: &HashMap<NodeIndex, Vec<usize>>, activity: NodeIndex) -> &[usize] {
    lists.get(&activity).map(Vec::as_slice).unwrap_or_default()
}

/// A connection by its ends: the same in each version of a definition that has it, wherever it stands. A port that has Elsa's
/// default name is left out.
fn key_of(connection: &Connection) -> String {
    let Connection { source, target } = connection;
    let plain = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|");
    let port = |port: &str, default: &str| if port == default { String::new() } else { plain(port) };
    format!(
        "{}|{}|{}|{}",
        plain(&source.activity),
        port(&source.port, "Done"),
        plain(&target.activity),
        port(&target.port, "In")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn graph(edges: &[(usize, usize)]) -> FlowGraph {
        let connections = edges
            .iter()
            .map(|(a, b)| json!({"source": a.to_string(), "target": b.to_string()}));
        let connections = Connection::list(Some(&connections.collect()));
        let ends = edges.iter().map(|(a, b)| (NodeIndex(*a), NodeIndex(*b)));
        let connections = ends.zip(&connections).map(|((a, b), connection)| (a, b, connection));
        FlowGraph::new(Arc::new(FlowConnections::of(connections)), NodeIndex(0))
    }

    #[test]
    fn an_unreachable_activity_is_left_out() {
        let graph = graph(&[(0, 1), (2, 1)]);
        assert_eq!(graph.directions, [Direction::Forward, Direction::Unreachable]);
        assert!(!graph.is_reachable(NodeIndex(2)));
    }

    #[test]
    fn ancestors_follow_forward_connections_only() {
        let graph = graph(&[(0, 1), (1, 2), (2, 1), (2, 3)]);
        let mut ancestors: Vec<_> = graph.ancestors(NodeIndex(3)).into_iter().collect();
        ancestors.sort();
        assert_eq!(ancestors, [NodeIndex(0), NodeIndex(1), NodeIndex(2)]);
    }

    #[test]
    fn no_two_connections_have_one_key() {
        let end = |activity: &str, port: &str| json!({"activity": activity, "port": port});
        let all = json!([
            {"source": end("a", "Done"), "target": end("b", "In")},
            {"source": end("a", "b"), "target": end("", "In")},
            {"source": end("a|", "Done"), "target": end("b", "In")},
            {"source": end("a", "|Done"), "target": end("b", "In")},
            {"source": end("a\\", "|"), "target": end("b", "In")},
            {"source": end("a\\|", ""), "target": end("b", "In")},
            {"source": end("a", "Done"), "target": end("b", "Other")},
            {"source": end("a", "True"), "target": end("b", "In")},
        ]);
        let connections = Connection::list(Some(&all));
        let keys: HashSet<String> = connections.iter().map(key_of).collect();
        assert_eq!(keys.len(), connections.len(), "{keys:?}");
        assert!(keys.contains("a||b|") && keys.contains("a|True|b|"), "{keys:?}");
    }
}
