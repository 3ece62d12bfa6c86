//! The counts of a flowchart: visits of each activity, passes of each connection.
//!
//! They are kept in the flowchart's properties, as `{"visits": {activity: count}, "passes": {connection: [count, followed
//! last]}}`, by ids: an instance may go on with a version whose activities and connections stand in another order. They are moved
//! out and back for each call, never copied: a flowchart may have thousands of connections.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::graph::{FlowConnection, FlowGraph};
use crate::activity::{ActivityContext, NodeIndex};

#[derive(Debug, Default)]
pub(super) struct FlowScope {
    /// By the id of the activity.
    visits: Map<String, Value>,
    /// By the key of the connection.
    passes: Map<String, Value>,
}

impl FlowScope {
    pub(super) fn take(context: &mut ActivityContext<'_>, graph: &FlowGraph, property: &str) -> Self {
        let Some(Value::Object(mut fields)) = context.properties.get_mut(property).map(Value::take) else {
            return Self::default();
        };
        // As it was written before: by places in the tree and in the definition.
        if fields.contains_key("a") || fields.contains_key("c") {
            let visits = taken(&mut fields, "a").into_iter();
            let by_id = |(place, count): (String, Value)| {
                let activity = context.find(NodeIndex(place.parse().ok()?))?;
                Some((activity.id.clone(), count))
            };
            return Self {
                visits: visits.filter_map(by_id).collect(),
                passes: graph.by_key(taken(&mut fields, "c")),
            };
        }
        Self {
            visits: taken(&mut fields, "visits"),
            passes: taken(&mut fields, "passes"),
        }
    }

    pub(super) fn write(self) -> Value {
        // The macro `json!` would copy them.
        let fields = [("visits", self.visits), ("passes", self.passes)];
        Value::Object(Map::from_iter(
            fields.map(|(name, counts)| (name.to_owned(), Value::Object(counts))),
        ))
    }

    pub(super) fn visit(&mut self, activity: &str) {
        let visits = self.visits(activity) + 1;
        put(&mut self.visits, activity, visits.into());
    }

    pub(super) fn pass(&mut self, connection: &FlowConnection, followed: bool) {
        let (passes, _) = self.passes(connection);
        put(&mut self.passes, &connection.key, json!([passes + 1, followed]));
    }

    fn visits(&self, activity: &str) -> u64 {
        self.visits.get(activity).and_then(Value::as_u64).unwrap_or(0)
    }

    fn passes(&self, connection: &FlowConnection) -> (u64, bool) {
        match self
            .passes
            .get(&connection.key)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        {
            Some([passes, followed]) => (passes.as_u64().unwrap_or(0), followed == &Value::Bool(true)),
            _ => (0, false),
        }
    }

    /// Whether each inbound connection was passed more often than the activity was visited. This is called when the
    /// connection at `position` was passed: the one after it, which is usually the next to be passed, is compared
    /// first.
    pub(super) fn all_passed(&self, graph: &FlowGraph, target: FlowTarget<'_>, position: usize) -> bool {
        let inbound = graph.inbound(target.index);
        let (before, behind) = inbound.split_at(inbound.partition_point(|other| *other <= position));
        let visits = self.visits(target.id);
        let mut connections = graph.at(behind).chain(graph.at(before));
        !inbound.is_empty() && connections.all(|(_, connection)| self.passes(connection).0 > visits)
    }

    /// Whether an inbound connection was followed in the newest round.
    pub(super) fn any_followed(&self, graph: &FlowGraph, target: FlowTarget<'_>) -> bool {
        self.newest_round(graph, target).is_some_and(|newest| {
            let mut inbound = graph.at(graph.inbound(target.index));
            inbound.any(|(_, connection)| self.passes(connection) == (newest, true))
        })
    }

    /// The inbound connections that were not followed in the newest round, each with whether another one of its source was.
    pub(super) fn missing<'g>(&self, graph: &'g FlowGraph, target: FlowTarget<'_>) -> Vec<(&'g FlowConnection, bool)> {
        let newest = self.newest_round(graph, target);
        let inbound = graph.at(graph.inbound(target.index)).map(|(_, connection)| connection);
        let (followed, missing): (Vec<_>, Vec<_>) =
            inbound.partition(|connection| newest.is_some_and(|newest| self.passes(connection) == (newest, true)));
        let followed: HashSet<NodeIndex> = followed.into_iter().map(|connection| connection.source).collect();
        let missing = missing.into_iter();
        missing
            .map(|connection| (connection, followed.contains(&connection.source)))
            .collect()
    }

    /// Whether every inbound connection was followed in the newest round.
    pub(super) fn all_followed(&self, graph: &FlowGraph, target: FlowTarget<'_>) -> bool {
        self.newest_round(graph, target).is_some_and(|newest| {
            let mut inbound = graph.at(graph.inbound(target.index));
            inbound.all(|(_, connection)| self.passes(connection) == (newest, true))
        })
    }

    /// The newest round of an activity that has begun and in which it has not been visited.
    fn newest_round(&self, graph: &FlowGraph, target: FlowTarget<'_>) -> Option<u64> {
        let inbound = graph.at(graph.inbound(target.index));
        let most = inbound.map(|(_, connection)| self.passes(connection).0).max()?;
        (most > self.visits(target.id)).then_some(most)
    }

    /// Whether a connection is late: its target was visited in this round without it.
    pub(super) fn is_late(&self, connection: &FlowConnection, target: FlowTarget<'_>) -> bool {
        self.passes(connection).0 <= self.visits(target.id)
    }
}

/// An activity that connections lead to.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowTarget<'a> {
    pub(super) index: NodeIndex,
    pub(super) id: &'a str,
}

/// Sets a count; a key that has one is not copied.
pub(super) fn put(counts: &mut Map<String, Value>, key: &str, value: Value) {
    match counts.get_mut(key) {
        Some(kept) => *kept = value,
        None => drop(counts.insert(key.to_owned(), value)),
    }
}

/// The counts of a property.
pub(super) fn taken(fields: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match fields.get_mut(name).map(Value::take) {
        Some(Value::Object(counts)) => counts,
        _ => Map::new(),
    }
}
