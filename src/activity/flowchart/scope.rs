//! The counts of a flowchart: visits of each activity, passes of each connection.
//!
//! They are kept in the flowchart's properties, as `{"a": {activity: visits}, "c": {connection: [passes, followed last]}}`,
//! and moved out and back for each call, never copied: a flowchart may have thousands of connections.

use serde_json::{Map, Value, json};

use super::graph::FlowGraph;
use crate::activity::NodeIndex;

#[derive(Debug, Default)]
pub(super) struct FlowScope {
    /// By position of the activity in the tree.
    activities: Map<String, Value>,
    /// By position of the connection in the definition.
    connections: Map<String, Value>,
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
            connections: take("c"),
        }
    }

    pub(super) fn write(self) -> Value {
        // The macro `json!` would copy them.
        let fields = [("a", self.activities), ("c", self.connections)];
        Value::Object(Map::from_iter(
            fields.map(|(name, counts)| (name.to_owned(), Value::Object(counts))),
        ))
    }

    pub(super) fn visit(&mut self, activity: NodeIndex) {
        let visits = self.visits(activity) + 1;
        self.activities.insert(activity.0.to_string(), visits.into());
    }

    pub(super) fn pass(&mut self, connection: usize, followed: bool) {
        let (passes, _) = self.passes(connection);
        self.connections
            .insert(connection.to_string(), json!([passes + 1, followed]));
    }

    fn visits(&self, activity: NodeIndex) -> u64 {
        self.activities
            .get(&activity.0.to_string())
            .and_then(Value::as_u64)
            .unwrap_or(0)
    }

    fn passes(&self, connection: usize) -> (u64, bool) {
        match self
            .connections
            .get(&connection.to_string())
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        {
            Some([passes, followed]) => (passes.as_u64().unwrap_or(0), followed == &Value::Bool(true)),
            _ => (0, false),
        }
    }

    /// Whether each inbound connection was passed more often than the activity was visited.
    pub(super) fn all_passed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        let least = graph
            .inbound(activity)
            .iter()
            .map(|connection| self.passes(*connection).0)
            .min();
        least.is_some_and(|least| least > self.visits(activity))
    }

    /// Whether an inbound connection was followed in the newest round.
    pub(super) fn any_followed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        self.newest_round(graph, activity).is_some_and(|newest| {
            graph
                .inbound(activity)
                .iter()
                .any(|connection| self.passes(*connection) == (newest, true))
        })
    }

    /// Whether every inbound connection was followed in the newest round.
    pub(super) fn all_followed(&self, graph: &FlowGraph, activity: NodeIndex) -> bool {
        self.newest_round(graph, activity).is_some_and(|newest| {
            graph
                .inbound(activity)
                .iter()
                .all(|connection| self.passes(*connection) == (newest, true))
        })
    }

    /// The newest round of an activity that has begun and in which it has not been visited.
    fn newest_round(&self, graph: &FlowGraph, activity: NodeIndex) -> Option<u64> {
        let most = graph
            .inbound(activity)
            .iter()
            .map(|connection| self.passes(*connection).0)
            .max()?;
        (most > self.visits(activity)).then_some(most)
    }

    /// Whether a connection is late: the activity was visited in this round without it.
    pub(super) fn is_late(&self, connection: usize, activity: NodeIndex) -> bool {
        self.passes(connection).0 <= self.visits(activity)
    }
}
