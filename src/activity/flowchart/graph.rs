//! The shape of a flowchart: which arrows lead forward and which lead back.
//!
//! Joins are found by counting: an activity is due when each of its inbound *forward* arrows was visited once more than
//! the activity itself. So what counts as forward decides everything. Arrows are taken in breadth-first order from the
//! start; one that would close a cycle with the forward arrows found so far leads back. Activities that cannot be
//! reached from the start have no part in it: their arrows would never be visited, and whoever waited for them would
//! wait for ever.
//!
//! An arrow back is *valid* when every way from the start to its source passes through its target (the target
//! dominates the source): then the loop has one entrance and counts stay in step. Elsa faults on others, and so do we.

use std::collections::VecDeque;

use crate::activity::NodeIndex;

/// An arrow whose ends are known.
#[derive(Clone, Debug)]
pub(super) struct Arrow {
    pub(super) source: NodeIndex,
    pub(super) port: String,
    pub(super) target: NodeIndex,
    pub(super) direction: Direction,
}

/// Where an arrow leads, seen from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Back,
    /// Back, into the middle of a loop that has another entrance.
    InvalidBack,
    /// From an activity that the start does not lead to.
    Unreachable,
}

/// The arrows of a flowchart as seen from one start.
#[derive(Debug)]
pub(super) struct FlowGraph {
    start: NodeIndex,
    arrows: Vec<Arrow>,
}

impl FlowGraph {
    pub(super) fn new(connections: Vec<(NodeIndex, String, NodeIndex)>, start: NodeIndex) -> Self {
        let mut arrows: Vec<Arrow> = connections
            .into_iter()
            .map(|(source, port, target)| Arrow {
                source,
                port,
                target,
                direction: Direction::Unreachable,
            })
            .collect();
        let forward = forward_edges(&arrows, start);
        for arrow in &mut arrows {
            if forward.contains(&(arrow.source, arrow.target)) {
                arrow.direction = Direction::Forward;
            } else if leads_to(&forward, start, arrow.source, None) {
                let has_other_way = leads_to(&forward, start, arrow.source, Some(arrow.target));
                arrow.direction = if has_other_way {
                    Direction::InvalidBack
                } else {
                    Direction::Back
                };
            }
        }
        Self { start, arrows }
    }

    pub(super) fn arrow(&self, position: usize) -> Option<&Arrow> {
        self.arrows.get(position)
    }

    /// The arrows that leave an activity, in the order of the definition.
    pub(super) fn outbound(&self, activity: NodeIndex) -> impl Iterator<Item = (usize, &Arrow)> {
        self.arrows
            .iter()
            .enumerate()
            .filter(move |(_, arrow)| arrow.source == activity)
    }

    /// The forward arrows that enter an activity.
    pub(super) fn inbound(&self, activity: NodeIndex) -> impl Iterator<Item = usize> {
        let all = self.arrows.iter().enumerate();
        all.filter(move |(_, arrow)| arrow.target == activity && arrow.direction == Direction::Forward)
            .map(|(position, _)| position)
    }

    /// Whether the start leads to an activity.
    pub(super) fn is_reachable(&self, activity: NodeIndex) -> bool {
        activity == self.start || self.inbound(activity).next().is_some()
    }

    /// All activities from which forward arrows lead to one.
    pub(super) fn ancestors(&self, activity: NodeIndex) -> Vec<NodeIndex> {
        let mut found: Vec<NodeIndex> = Vec::new();
        let mut pending = vec![activity];
        while let Some(current) = pending.pop() {
            for arrow in self.arrows.iter().filter(|arrow| arrow.target == current) {
                if arrow.direction == Direction::Forward && !found.contains(&arrow.source) {
                    found.push(arrow.source);
                    pending.push(arrow.source);
                }
            }
        }
        found
    }
}

fn forward_edges(arrows: &[Arrow], start: NodeIndex) -> Vec<(NodeIndex, NodeIndex)> {
    let mut edges: Vec<(NodeIndex, NodeIndex)> = Vec::new();
    let mut seen = vec![start];
    let mut pending = VecDeque::from([start]);
    while let Some(source) = pending.pop_front() {
        for arrow in arrows.iter().filter(|arrow| arrow.source == source) {
            let edge = (source, arrow.target);
            if edges.contains(&edge) || leads_to(&edges, arrow.target, source, None) {
                continue;
            }
            edges.push(edge);
            if !seen.contains(&arrow.target) {
                seen.push(arrow.target);
                pending.push_back(arrow.target);
            }
        }
    }
    edges
}

/// Whether the edges lead from one activity to another without touching a third.
fn leads_to(edges: &[(NodeIndex, NodeIndex)], from: NodeIndex, to: NodeIndex, without: Option<NodeIndex>) -> bool {
    if Some(from) == without || Some(to) == without {
        return false;
    }
    let mut seen = vec![from];
    let mut pending = vec![from];
    while let Some(current) = pending.pop() {
        if current == to {
            return true;
        }
        for (_, next) in edges.iter().filter(|(source, _)| *source == current) {
            if Some(*next) != without && !seen.contains(next) {
                seen.push(*next);
                pending.push(*next);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize)]) -> FlowGraph {
        let arrows = edges
            .iter()
            .map(|(a, b)| (NodeIndex(*a), "Done".to_owned(), NodeIndex(*b)))
            .collect();
        FlowGraph::new(arrows, NodeIndex(0))
    }

    fn directions(edges: &[(usize, usize)]) -> Vec<Direction> {
        graph(edges).arrows.iter().map(|arrow| arrow.direction).collect()
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
    fn what_cannot_be_reached_has_no_part() {
        assert_eq!(
            directions(&[(0, 1), (2, 1)]),
            [Direction::Forward, Direction::Unreachable]
        );
        assert!(!graph(&[(0, 1), (2, 1)]).is_reachable(NodeIndex(2)));
    }

    #[test]
    fn ancestors_follow_forward_arrows_only() {
        let graph = graph(&[(0, 1), (1, 2), (2, 1), (2, 3)]);
        let mut ancestors = graph.ancestors(NodeIndex(3));
        ancestors.sort();
        assert_eq!(ancestors, [NodeIndex(0), NodeIndex(1), NodeIndex(2)]);
    }
}
