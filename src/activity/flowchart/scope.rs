//! How often each activity and each arrow of a flowchart was visited. It lives in the flowchart's properties.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::graph::FlowGraph;
use crate::activity::NodeIndex;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FlowScope {
    /// By position of the activity in the tree.
    #[serde(rename = "a")]
    activities: BTreeMap<usize, u64>,
    /// By position of the arrow in the definition: the count, and whether the last visit followed it.
    #[serde(rename = "c")]
    arrows: BTreeMap<usize, (u64, bool)>,
}

impl FlowScope {
    pub(super) fn visit(&mut self, activity: NodeIndex) {
        *self.activities.entry(activity.0).or_default() += 1;
    }

    pub(super) fn pass(&mut self, arrow: usize, followed: bool) {
        let entry = self.arrows.entry(arrow).or_default();
        *entry = (entry.0 + 1, followed);
    }

    fn visits(&self, activity: NodeIndex) -> u64 {
        self.activities.get(&activity.0).copied().unwrap_or(0)
    }

    fn passes(&self, arrow: usize) -> (u64, bool) {
        self.arrows.get(&arrow).copied().unwrap_or((0, false))
    }

    /// Each inbound arrow was passed once more than the activity was visited.
    pub(super) fn all_passed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        let least = graph.inbound(activity).map(|arrow| self.passes(arrow).0).min();
        least.is_some_and(|least| least > self.visits(activity))
    }

    /// Some inbound arrow of the newest round was followed.
    pub(super) fn any_followed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        let Some(most) = graph.inbound(activity).map(|arrow| self.passes(arrow).0).max() else {
            return false;
        };
        most > self.visits(activity) && graph.inbound(activity).any(|arrow| self.passes(arrow) == (most, true))
    }

    /// Every inbound arrow of the newest round was followed.
    pub(super) fn all_followed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        let Some(most) = graph.inbound(activity).map(|arrow| self.passes(arrow).0).max() else {
            return false;
        };
        most > self.visits(activity) && graph.inbound(activity).all(|arrow| self.passes(arrow) == (most, true))
    }

    /// An arrow that comes late: the activity has had its round without it.
    pub(super) fn is_late(&self, arrow: usize, activity: NodeIndex) -> bool {
        self.passes(arrow).0 <= self.visits(activity)
    }
}
