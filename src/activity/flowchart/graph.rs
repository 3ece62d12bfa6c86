//! The shape of a flowchart: its forward and back connections.
//!
//! Joins count: an activity is due when each of its inbound *forward* connections was passed once more than the activity
//! was visited. So the definition of forward is essential. Connections are taken in breadth-first order from the start; one
//! that would close a cycle with the forward connections found so far leads back. Activities that cannot be reached from
//! the start are left out: their connections would never be passed, and a join would wait for them for ever.
//!
//! A back connection is *valid* if every path from the start to its source passes through its target (the target dominates
//! the source). Then the loop has one entrance and the counts stay consistent. As in Elsa, an invalid one is a fault.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::activity::NodeIndex;

/// A connection with both ends resolved.
#[derive(Clone, Debug)]
pub(super) struct FlowConnection {
    pub(super) source: NodeIndex,
    pub(super) port: String,
    pub(super) target: NodeIndex,
    pub(super) direction: Direction,
}

/// The direction of a connection, as seen from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Back,
    /// Back, into the middle of a loop that has another entrance.
    InvalidBack,
    /// From an activity that the start does not lead to.
    Unreachable,
}

/// The connections of a flowchart as seen from one start.
#[derive(Debug)]
pub(super) struct FlowGraph {
    start: NodeIndex,
    connections: Vec<FlowConnection>,
    outbound: HashMap<NodeIndex, Vec<usize>>,
    inbound: HashMap<NodeIndex, Vec<usize>>,
    forward_inbound: HashMap<NodeIndex, Vec<usize>>,
}

impl FlowGraph {
    pub(super) fn new(connections: Vec<(NodeIndex, String, NodeIndex)>, start: NodeIndex) -> Self {
        let mut outbound: HashMap<NodeIndex, Vec<usize>> = HashMap::new();
        let mut inbound: HashMap<NodeIndex, Vec<usize>> = HashMap::new();
        for (position, (source, _, target)) in connections.iter().enumerate() {
            outbound.entry(*source).or_default().push(position);
            inbound.entry(*target).or_default().push(position);
        }
        let forward = ForwardEdges::forward(&connections, &outbound, start);
        let reachable = forward.reachable_from(start, None);
        let mut forward_inbound: HashMap<NodeIndex, Vec<usize>> = HashMap::new();
        let direct = |position: usize, source: NodeIndex, target: NodeIndex| {
            if forward.contains(source, target) {
                forward_inbound.entry(target).or_default().push(position);
                Direction::Forward
            } else if !reachable.contains(&source) {
                Direction::Unreachable
            } else if forward.reachable_from(start, Some(target)).contains(&source) {
                Direction::InvalidBack
            } else {
                Direction::Back
            }
        };
        let connections =
            connections
                .into_iter()
                .enumerate()
                .scan(direct, |direct, (position, (source, port, target))| {
                    let direction = direct(position, source, target);
                    Some(FlowConnection {
                        port,
                        target,
                        source,
                        direction,
                    })
                });
        let connections = connections.collect();
        Self {
            start,
            connections,
            outbound,
            inbound,
            forward_inbound,
        }
    }

    pub(super) fn connection(&self, position: usize) -> Option<&FlowConnection> {
        self.connections.get(position)
    }

    /// The outbound connections of an activity, in the order of the definition.
    pub(super) fn outbound(&self, activity: NodeIndex) -> &[usize] {
        self.outbound.get(&activity).map(Vec::as_slice).unwrap_or_default()
    }

    /// The inbound forward connections of an activity.
    pub(super) fn inbound(&self, activity: NodeIndex) -> &[usize] {
        self.forward_inbound
            .get(&activity)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// All inbound connections of an activity, also those that lead back.
    pub(super) fn all_inbound(&self, activity: NodeIndex) -> &[usize] {
        self.inbound.get(&activity).map(Vec::as_slice).unwrap_or_default()
    }

    /// The connections at these positions, each with its position.
    pub(super) fn at<'a>(&'a self, positions: &'a [usize]) -> impl Iterator<Item = (usize, &'a FlowConnection)> {
        positions
            .iter()
            .filter_map(|position| Some((*position, self.connection(*position)?)))
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

/// Pairs of activities joined by forward connections.
#[derive(Default)]
struct ForwardEdges(HashMap<NodeIndex, Vec<NodeIndex>>);

impl ForwardEdges {
    fn forward(
        connections: &[(NodeIndex, String, NodeIndex)],
        outbound: &HashMap<NodeIndex, Vec<usize>>,
        start: NodeIndex,
    ) -> Self {
        let mut edges = Self::default();
        let mut seen = HashSet::from([start]);
        let mut pending = VecDeque::from([start]);
        while let Some(source) = pending.pop_front() {
            let leaving = outbound.get(&source).map(Vec::as_slice).unwrap_or_default();
            for (_, _, target) in leaving.iter().filter_map(|position| connections.get(*position)) {
                if edges.contains(source, *target) || edges.reachable_from(*target, None).contains(&source) {
                    continue;
                }
                edges.0.entry(source).or_default().push(*target);
                if seen.insert(*target) {
                    pending.push_back(*target);
                }
            }
        }
        edges
    }

    fn contains(&self, source: NodeIndex, target: NodeIndex) -> bool {
        self.0.get(&source).is_some_and(|targets| targets.contains(&target))
    }

    /// All activities that can be reached from one, including itself, on paths without a certain other one.
    fn reachable_from(&self, from: NodeIndex, without: Option<NodeIndex>) -> HashSet<NodeIndex> {
        if Some(from) == without {
            return HashSet::new();
        }
        let mut seen = HashSet::from([from]);
        let mut pending = vec![from];
        while let Some(current) = pending.pop() {
            for next in self.0.get(&current).into_iter().flatten() {
                if Some(*next) != without && seen.insert(*next) {
                    pending.push(*next);
                }
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize)]) -> FlowGraph {
        let connections = edges
            .iter()
            .map(|(a, b)| (NodeIndex(*a), "Done".to_owned(), NodeIndex(*b)))
            .collect();
        FlowGraph::new(connections, NodeIndex(0))
    }

    fn directions(edges: &[(usize, usize)]) -> Vec<Direction> {
        graph(edges)
            .connections
            .iter()
            .map(|connection| connection.direction)
            .collect()
    }

    #[test]
    fn a_loop_with_one_entrance_is_valid() {
        use Direction::{Back, Forward};
        assert_eq!(directions(&[(0, 1), (1, 2), (2, 1)]), [Forward, Forward, Back]);
        assert_eq!(directions(&[(0, 0)]), [Back]);
    }

    #[test]
    fn a_loop_with_two_entrances_is_not() {
        use Direction::{Forward, InvalidBack};
        assert_eq!(
            directions(&[(0, 1), (0, 2), (1, 2), (2, 1)]),
            [Forward, Forward, Forward, InvalidBack]
        );
    }

    #[test]
    fn an_unreachable_activity_is_left_out() {
        assert_eq!(
            directions(&[(0, 1), (2, 1)]),
            [Direction::Forward, Direction::Unreachable]
        );
        assert!(!graph(&[(0, 1), (2, 1)]).is_reachable(NodeIndex(2)));
    }

    #[test]
    fn ancestors_follow_forward_connections_only() {
        let graph = graph(&[(0, 1), (1, 2), (2, 1), (2, 3)]);
        let mut ancestors: Vec<_> = graph.ancestors(NodeIndex(3)).into_iter().collect();
        ancestors.sort();
        assert_eq!(ancestors, [NodeIndex(0), NodeIndex(1), NodeIndex(2)]);
    }
}
