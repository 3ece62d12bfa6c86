//! The ids of activities and their places, as a compiled definition has them and as its JSON shows them.
//!
//! A node id is the path of ids from the workflow to an activity: `Workflow1:Flow:Hello`. Journal and activity executions
//! name activities by it, so Elsa's designer needs it in every activity of a definition. It is computed whenever a definition
//! is shown, and removed before one is saved, because ids may have changed in between.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::activity::{Catalogue, camel_case};
use crate::definition::RawActivity;

/// The id of the workflow itself, the first node of the tree.
pub(super) const WORKFLOW_ID: &str = "Workflow1";

/// The property of an activity.
const PROPERTY: &str = "nodeId";

/// Elsa's container that a path of segments leaves out, as it is drawn with its owner.
const FLOWCHART: &str = "Elsa.Flowchart";

/// The node id of an activity below `parent`.
pub(super) fn node_id(parent: &str, id: &str) -> String {
    format!("{parent}:{id}")
}

/// Makes ids for activities without one: `WriteLine1`, `WriteLine2`, …, as in Elsa.
pub(super) struct IdMaker {
    taken: HashSet<String>,
    counters: HashMap<String, usize>,
}

impl IdMaker {
    /// For the tree of this activity.
    pub(super) fn of(root: &Value) -> Self {
        let mut taken = HashSet::from([WORKFLOW_ID.to_owned()]);
        collect(root, &mut taken);
        Self {
            taken,
            counters: HashMap::new(),
        }
    }

    pub(super) fn make(&mut self, type_name: &str) -> String {
        let short = type_name.rsplit('.').next().unwrap_or_default().to_owned();
        loop {
            let counter = self.counters.entry(short.clone()).or_default();
            *counter += 1;
            let id = format!("{short}{counter}");
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

fn collect(value: &Value, into: &mut HashSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(id)) = fields.get("id") {
                into.insert(id.clone());
            }
            fields.values().for_each(|field| collect(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        _ => {}
    }
}

/// A property that holds children: the port, and the property.
type Place = (String, String);

/// The property of a container with its children.
const ACTIVITIES: &str = "activities";

/// Where the children of an activity are, in the order in which they are compiled. Of an unknown type, every property that
/// holds what has a type and an id: they do not run, but a designer shows them.
fn places(catalogue: &Catalogue, raw: RawActivity<'_>) -> Vec<Place> {
    let Some(registered) = catalogue.find(raw.type_name(), raw.named_version().unwrap_or(0)) else {
        let is_activity = |value: &Value| {
            RawActivity::new(value).is_some_and(|raw| !raw.id().is_empty() && !raw.type_name().is_empty())
        };
        let holds = |value: &Value| match value {
            Value::Array(items) => items.iter().any(is_activity),
            value => is_activity(value),
        };
        let held = raw.fields().iter().filter(|(_, value)| holds(value));
        return held.map(|(name, _)| (name.clone(), name.clone())).collect();
    };
    let descriptor = &registered.descriptor;
    let ports = descriptor.ports.iter().map(|port| (port.clone(), camel_case(port)));
    let container = descriptor
        .is_container
        .then(|| (ACTIVITIES.to_owned(), ACTIVITIES.to_owned()));
    ports.chain(container).collect()
}

/// The activities in a property.
fn children<'a>(fields: &'a mut Map<String, Value>, property: &str) -> impl Iterator<Item = &'a mut Value> {
    let (one, many) = match fields.get_mut(property) {
        Some(Value::Array(items)) => (None, Some(items).filter(|_| property == ACTIVITIES)),
        Some(value) => (Some(value), None),
        None => (None, None),
    };
    one.into_iter().chain(many.into_iter().flatten())
}

/// Writes its node id into every activity of a tree, and an id into those without one.
pub(super) fn write(catalogue: &Catalogue, root: &mut Value) {
    let mut ids = IdMaker::of(root);
    visit(catalogue, root, WORKFLOW_ID, &mut |fields, parent| {
        let path = node_id(parent, &own_id(fields, &mut ids));
        fields.insert(PROPERTY.to_owned(), path.clone().into());
        path
    });
}

/// Removes the node ids that a client sent back, and writes an id into every activity without one: what a client reads and
/// saves unchanged is the same then.
pub(super) fn remove(catalogue: &Catalogue, root: &mut Value) {
    let mut ids = IdMaker::of(root);
    visit(catalogue, root, "", &mut |fields, _| {
        fields.shift_remove(PROPERTY);
        own_id(fields, &mut ids)
    });
}

/// The id of an activity; one without gets one.
fn own_id(fields: &mut Map<String, Value>, ids: &mut IdMaker) -> String {
    if let Some(id) = fields.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        return id.to_owned();
    }
    let id = ids.make(fields.get("type").and_then(Value::as_str).unwrap_or_default());
    fields.insert("id".to_owned(), id.clone().into());
    id
}

/// Calls `change` for each activity with the path of its parent; it returns the path of the activity. The recursion is as
/// deep as the JSON, which the model bounds.
fn visit(
    catalogue: &Catalogue,
    activity: &mut Value,
    parent: &str,
    change: &mut impl FnMut(&mut Map<String, Value>, &str) -> String,
) {
    let Some(raw) = RawActivity::new(activity) else { return };
    let places = places(catalogue, raw);
    let Some(fields) = activity.as_object_mut() else { return };
    let path = change(fields, parent);
    for (_, property) in places {
        for child in children(fields, &property) {
            visit(catalogue, child, &path, change);
        }
    }
}

/// An activity of a tree as a designer takes it: `{activity, nodeId, port}`, with the activity whole.
fn shown(activity: &Value, port: Option<&str>) -> Value {
    json!({
        "activity": activity,
        "nodeId": activity.get(PROPERTY),
        "port": port,
        "children": [],
    })
}

/// The activities from the root to the one with a node id, each with the port that it is in.
fn path_to<'a>(catalogue: &Catalogue, root: &'a Value, wanted: &str) -> Option<Vec<(&'a Value, Option<String>)>> {
    let mut path = vec![(root, None)];
    loop {
        let (current, _) = path.last()?;
        let own = current.get(PROPERTY).and_then(Value::as_str)?;
        if own == wanted {
            return Some(path);
        }
        let raw = RawActivity::new(current)?;
        let is_on_the_way = |child: &&Value| {
            let id = child.get(PROPERTY).and_then(Value::as_str).unwrap_or_default();
            id == wanted
                || wanted
                    .strip_prefix(id)
                    .is_some_and(|rest| !id.is_empty() && rest.starts_with(':'))
        };
        let next = places(catalogue, raw).into_iter().find_map(|(port, property)| {
            let child = match raw.get(&property)? {
                Value::Array(items) => items.iter().find(is_on_the_way)?,
                child => Some(child).filter(is_on_the_way)?,
            };
            Some((child, Some(port)))
        })?;
        path.push(next);
    }
}

/// The activity of a tree with node ids that has this one.
pub(super) fn subgraph(catalogue: &Catalogue, root: &Value, wanted: &str) -> Option<Value> {
    let path = path_to(catalogue, root, wanted)?;
    let (activity, port) = path.last()?;
    Some(shown(activity, port.as_deref()))
}

/// The containers around an activity, from the outside: `{childNode, container, pathSegments}`.
pub(super) fn segments(catalogue: &Catalogue, root: &Value, wanted: &str) -> Option<Value> {
    let path = path_to(catalogue, root, wanted)?;
    let (child, port) = path.last()?;
    let text = |activity: &Value, name: &str| activity.get(name).cloned().unwrap_or_default();
    let mut segments = Vec::new();
    let mut container = None;
    for (at, (owner, owner_port)) in path.iter().enumerate().take(path.len() - 1) {
        if owner.get("type").and_then(Value::as_str) == Some(FLOWCHART) {
            continue;
        }
        let next = path.get(at + 1).and_then(|(_, port)| port.as_deref());
        let name = Some(text(owner, "name")).filter(|name| !name.is_null());
        segments.push(json!({
            "activityNodeId": text(owner, PROPERTY),
            "activityId": text(owner, "id"),
            "activityType": text(owner, "type"),
            "portName": next,
            "activityName": name.unwrap_or_else(|| text(owner, "type")),
        }));
        container = Some((*owner, owner_port.as_deref()));
    }
    let (owner, owner_port) = container.unwrap_or((root, None));
    Some(json!({
        "childNode": shown(child, port.as_deref()),
        "container": shown(owner, owner_port),
        "pathSegments": segments,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::WorkflowDefinition;
    use crate::execution::{Interpreter, InterpreterOptions};

    fn node_ids(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                into.extend(fields.get(PROPERTY).and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| node_ids(field, into));
            }
            Value::Array(items) => items.iter().for_each(|item| node_ids(item, into)),
            _ => {}
        }
    }

    #[test]
    fn the_json_has_the_node_ids_of_the_compiled_definition() {
        let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
        let line = json!({"type": "Elsa.WriteLine", "nodeId": "stale"});
        let nested = json!({"id": "f", "type": "Elsa.ForEach", "body": {
            "id": "s", "type": "Elsa.Sequence", "activities": [line.clone(), {"id": "WriteLine1", "type": "Elsa.WriteLine"}, line]}});
        let unknown = json!({"id": "u", "type": "Mine.Missing", "body": {"id": "v", "type": "Elsa.WriteLine"}});
        let root = json!({"type": "Elsa.Flowchart", "activities": [nested, unknown], "connections": []});
        let mut definition = WorkflowDefinition::from_value(json!({"root": root})).unwrap();
        let program = interpreter.compile(&definition).unwrap();
        let mut compiled: Vec<String> = program.tree().iter().map(|node| node.node_id.clone()).collect();
        let root = definition.root.as_mut().unwrap();
        write(interpreter.catalogue(), root);
        let mut shown = vec![WORKFLOW_ID.to_owned()];
        node_ids(root, &mut shown);
        // What an unknown activity holds is not compiled.
        compiled.push("Workflow1:Flowchart1:u:v".to_owned());
        compiled.sort();
        shown.sort();
        assert_eq!(shown, compiled);
        assert!(
            shown.contains(&"Workflow1:Flowchart1:f:s:WriteLine2".to_owned()),
            "{shown:?}"
        );

        let wanted = "Workflow1:Flowchart1:f:s:WriteLine1";
        let found = subgraph(interpreter.catalogue(), root, wanted).unwrap();
        assert_eq!(
            (&found["activity"]["id"], &found["port"]),
            (&json!("WriteLine1"), &json!("activities"))
        );
        let path = segments(interpreter.catalogue(), root, wanted).unwrap();
        let ids: Vec<&Value> = path["pathSegments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|segment| &segment["activityId"])
            .collect();
        assert_eq!(ids, ["f", "s"]);
        assert_eq!(path["container"]["activity"]["id"], "s");
        assert!(subgraph(interpreter.catalogue(), root, "Workflow1:Flowchart1:none").is_none());

        remove(interpreter.catalogue(), root);
        let mut left = Vec::new();
        node_ids(root, &mut left);
        assert_eq!(left, [""; 0]);
    }
}
