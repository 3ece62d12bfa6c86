//! How often each activity and each arrow of a flowchart was visited.
//!
//! It lives in the flowchart's properties, as `{"a": {activity: visits}, "c": {arrow: [passes, followed last]}}`, and is
//! moved out and back for each call, never copied: a flowchart may have thousands of arrows.

use serde_json::{Map, Value, json};

use super::graph::FlowGraph;
use crate::activity::NodeIndex;

#[derive(Debug, Default)]
pub(super) struct FlowScope {
    /// By position of the activity in the tree.
    activities: Map<String, Value>,
    /// By position of the arrow in the definition.
    arrows: Map<String, Value>,
}

impl FlowScope {
    pub(super) fn read(value: Option<Value>) -> Self {
        let Some(Value::Object(mut fields)) = value else {
            return Self::default();
        };
        let mut take = |name: &str| match fields.get_mut(name).map(Value::take) {
            Some(Value::Object(inner)) => inner,
            _ => Map::new(),
        };
        Self {
            activities: take("a"),
            arrows: take("c"),
        }
    }

    pub(super) fn write(self) -> Value {
        json!({"a": Value::Object(self.activities), "c": Value::Object(self.arrows)})
    }

    pub(super) fn visit(&mut self, activity: NodeIndex) {
        let visits = self.visits(activity) + 1;
        self.activities.insert(activity.0.to_string(), visits.into());
    }

    pub(super) fn pass(&mut self, arrow: usize, followed: bool) {
        let (passes, _) = self.passes(arrow);
        self.arrows.insert(arrow.to_string(), json!([passes + 1, followed]));
    }

    fn visits(&self, activity: NodeIndex) -> u64 {
        self.activities
            .get(&activity.0.to_string())
            .and_then(Value::as_u64)
            .unwrap_or(0)
    }

    fn passes(&self, arrow: usize) -> (u64, bool) {
        match self
            .arrows
            .get(&arrow.to_string())
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        {
            Some([passes, followed]) => (passes.as_u64().unwrap_or(0), followed == &Value::Bool(true)),
            _ => (0, false),
        }
    }

    /// Each inbound arrow was passed once more than the activity was visited.
    pub(super) fn all_passed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        let least = graph.inbound(activity).iter().map(|arrow| self.passes(*arrow).0).min();
        least.is_some_and(|least| least > self.visits(activity))
    }

    /// Some inbound arrow of the newest round was followed.
    pub(super) fn any_followed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        self.newest(graph, activity).is_some_and(|newest| {
            graph
                .inbound(activity)
                .iter()
                .any(|arrow| self.passes(*arrow) == (newest, true))
        })
    }

    /// Every inbound arrow of the newest round was followed.
    pub(super) fn all_followed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        self.newest(graph, activity).is_some_and(|newest| {
            graph
                .inbound(activity)
                .iter()
                .all(|arrow| self.passes(*arrow) == (newest, true))
        })
    }

    /// The round that has begun for an activity which it has not been visited in.
    fn newest(&self, graph: &FlowGraph, activity: NodeIndex) -> Option<u64> {
        let most = graph
            .inbound(activity)
            .iter()
            .map(|arrow| self.passes(*arrow).0)
            .max()?;
        (most > self.visits(activity)).then_some(most)
    }

    /// An arrow that comes late: the activity has had its round without it.
    pub(super) fn is_late(&self, arrow: usize, activity: NodeIndex) -> bool {
        self.passes(arrow).0 <= self.visits(activity)
    }
}
