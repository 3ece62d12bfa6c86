//! The ids of activities and their places, as a compiled definition has them and as its JSON shows them.
//!
//! A node id is the path of ids from the workflow to an activity: `Workflow1:Flow:Hello`. Journal and activity executions
//! name activities by it, so Elsa's designer needs it in every activity of a definition. It is computed whenever a definition
//! is shown, and removed before one is saved, because ids may have changed in between.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::composition::{Composition, MOST_LEVELS, WorkflowReference};
use super::drawable::Drawable;
use crate::activity::{Catalogue, ChildProperty, WORKFLOW};
use crate::definition::{KEPT, Kept, PLACEHOLDER, RawActivity, WorkflowDefinition};
use crate::elsa_json::without_nulls;
use crate::id::VersionId;

/// The id of the workflow itself, the first node of the tree.
pub(super) const WORKFLOW_ID: &str = "Workflow1";

/// The property of an activity.
const PROPERTY: &str = "nodeId";

/// The property of a workflow as an activity that holds the workflow inside it.
const ROOT: &str = "root";

/// Elsa's container that a path of segments leaves out because it is drawn with its owner.
const FLOWCHART: &str = "Elsa.Flowchart";

/// The maximum number of bytes of all node ids of one definition together. Each repeats the ids around its activity, so
/// the size of the definition does not include them.
pub(super) const MOST_BYTES: usize = 32 << 20;

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
        // Without the argument of a generic type.
        let plain = type_name.split('<').next().unwrap_or_default();
        let short = plain.rsplit('.').next().unwrap_or_default().to_owned();
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

/// Where the children of an activity are, in the order in which they are compiled. The content of an unknown activity
/// is its own.
pub(super) fn places(catalogue: &Catalogue, raw: RawActivity<'_>) -> Vec<ChildProperty> {
    let descriptor = catalogue.descriptor(raw.type_name(), raw.named_version().unwrap_or(0));
    descriptor.map(ChildProperty::of).unwrap_or_default()
}

/// Writes the node id into every activity of a tree, an id into each activity without one, and the version that runs
/// into each activity of a known type: a designer draws no activity without a version. No node ids are written beyond
/// [`MOST_BYTES`], which no definition exceeds that was saved since this bound exists.
pub(super) fn write(catalogue: &Catalogue, root: &mut Value) {
    write_below(catalogue, root, WORKFLOW_ID);
}

fn write_below(catalogue: &Catalogue, root: &mut Value, parent: &str) {
    let mut ids = IdMaker::of(root);
    let mut left = MOST_BYTES;
    visit(catalogue, root, parent, &mut |fields, parent| {
        show_version(catalogue, fields);
        let id = own_id(fields, &mut ids);
        match left
            .checked_sub(parent.len() + 1 + id.len())
            .filter(|_| !parent.is_empty())
        {
            Some(rest) => {
                left = rest;
                let path = node_id(parent, &id);
                fields.insert(PROPERTY.to_owned(), path.clone().into());
                path
            }
            // Without one, nothing inside has one either.
            None => {
                fields.shift_remove(PROPERTY);
                String::new()
            }
        }
    });
}

/// Removes the node ids that a client sent back, and writes an id into every activity without one, so that what a
/// client reads and saves unchanged stays the same.
pub(super) fn remove(catalogue: &Catalogue, root: &mut Value) {
    let mut ids = IdMaker::of(root);
    visit(catalogue, root, "", &mut |fields, _| {
        let sent = fields.shift_remove(PROPERTY);
        let type_name = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        // Another node, which knows the type, may have written those of the activities inside.
        if let (Some(Value::String(own)), []) = (sent, &*catalogue.versions(type_name)) {
            let prefix = node_id(&own, "");
            fields.values_mut().for_each(|field| remove_below(field, &prefix));
        }
        // What a workflow as an activity contains is not part of its consumer.
        let raw = RawActivity::over(fields);
        if WorkflowReference::of(catalogue, raw).is_some() {
            fields.shift_remove(ROOT);
        }
        own_id(fields, &mut ids)
    });
}

/// Removes the node ids with this prefix.
fn remove_below(value: &mut Value, prefix: &str) {
    match value {
        Value::Object(fields) => {
            let is_inside = |id: &Value| id.as_str().is_some_and(|id| id.starts_with(prefix));
            if fields.get(PROPERTY).is_some_and(is_inside) {
                fields.shift_remove(PROPERTY);
            }
            fields.values_mut().for_each(|field| remove_below(field, prefix));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_below(item, prefix)),
        _ => {}
    }
}

/// Writes the version that runs into an activity that names none.
fn show_version(catalogue: &Catalogue, fields: &mut Map<String, Value>) {
    const VERSION: &str = "version";
    if fields
        .get(VERSION)
        .and_then(Value::as_i64)
        .is_some_and(|version| version > 0)
    {
        return;
    }
    let type_name = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    if let Some(descriptor) = catalogue.descriptor(type_name, 0) {
        fields.insert(VERSION.to_owned(), descriptor.version.into());
    }
}

/// The id of an activity; an activity without an id gets one.
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
    for place in places {
        for child in place.children_mut(fields) {
            visit(catalogue, child, &path, change);
        }
    }
}

/// An activity of a tree as a designer takes it: `{activity, nodeId, port}`, with the activity whole.
fn shown(activity: &Value, port: Option<&str>) -> Value {
    without_nulls(json!({
        "activity": activity,
        "nodeId": activity.get(PROPERTY),
        "port": port,
        "children": [],
    }))
}

/// A workflow as the activity that contains its root.
pub(super) fn workflow(node_id: &str, definition: &WorkflowDefinition, root: Value) -> Value {
    without_nulls(json!({
        "id": WORKFLOW_ID,
        "nodeId": node_id,
        "name": definition.name,
        "type": WORKFLOW,
        "version": definition.version,
        "identity": {
            "definitionId": definition.definition_id,
            "version": definition.version,
            "id": definition.id,
        },
        "root": root,
    }))
}

/// The activities on the way to a node, each with the port that it is in.
type Path<'a> = Vec<(&'a Value, Option<String>)>;

/// The activities from the root to the one with a node id; the path is incomplete if that one is inside a workflow as
/// an activity.
fn walk<'a>(catalogue: &Catalogue, root: &'a Value, wanted: &str) -> Path<'a> {
    let mut path = vec![(root, None)];
    while let Some(next) = step(catalogue, &path, wanted) {
        path.push(next);
    }
    path
}

fn step<'a>(catalogue: &Catalogue, path: &Path<'a>, wanted: &str) -> Option<(&'a Value, Option<String>)> {
    let (current, _) = path.last()?;
    let own = current.get(PROPERTY).and_then(Value::as_str)?;
    if own == wanted {
        return None;
    }
    let raw = RawActivity::new(current)?;
    let is_on_the_way = |child: &Value| {
        let id = child.get(PROPERTY).and_then(Value::as_str).unwrap_or_default();
        id == wanted
            || wanted
                .strip_prefix(id)
                .is_some_and(|rest| !id.is_empty() && rest.starts_with(':'))
    };
    let mut children = places(catalogue, raw)
        .into_iter()
        .flat_map(|place| place.children(raw.fields()));
    let (port, child) = children.find(|(_, child)| is_on_the_way(child))?;
    Some((child, Some(port)))
}

fn is_placeholder(activity: &Value) -> bool {
    RawActivity::new(activity).is_some_and(|raw| raw.type_name() == PLACEHOLDER)
}

fn path_of(activity: &Value) -> &str {
    activity.get(PROPERTY).and_then(Value::as_str).unwrap_or_default()
}

/// An activity, its port, and the version that it is in; `None` for the definition itself.
type Place<'a> = (&'a Value, Option<String>, Option<&'a VersionId>);

/// A definition with the workflows as activities on the path to one of its nodes: the tree of the definition, that of
/// the first of these, and so on. Nothing outside the path is inlined, so their sizes add up.
struct Trees<'a> {
    drawable: Drawable<'a>,
    composition: &'a Composition,
    /// Each with its version; `None` for the definition itself.
    trees: Vec<(Value, Option<&'a VersionId>)>,
}

impl<'a> Trees<'a> {
    fn on_the_way(drawable: Drawable<'a>, composition: &'a Composition, root: &Value, wanted: &str) -> Self {
        let mut found = Self {
            drawable,
            composition,
            trees: vec![(root.clone(), None)],
        };
        while let Some(next) = found.next(wanted).filter(|_| found.trees.len() <= MOST_LEVELS) {
            found.trees.push(next);
        }
        found
    }

    /// The workflow inside the activity at which the path ends so far.
    fn next(&self, wanted: &str) -> Option<(Value, Option<&'a VersionId>)> {
        let (tree, version) = self.trees.last()?;
        let path = walk(self.drawable.catalogue, tree, wanted);
        let (activity, _) = path.last()?;
        wanted.strip_prefix(path_of(activity))?.strip_prefix(':')?;
        self.inside(activity, *version)
    }

    /// The workflow inside an activity, as its child.
    fn inside(&self, activity: &Value, within: Option<&VersionId>) -> Option<(Value, Option<&'a VersionId>)> {
        // A designer may have been shown another version than the activity names.
        let mut named = activity.as_object()?.clone();
        if let Some(Value::String(kept)) = named.get(KEPT).cloned() {
            Kept::restore(&mut named, &kept);
        }
        let reference = WorkflowReference::of(self.drawable.catalogue, RawActivity::over(&named))?;
        let composition: &'a Composition = self.composition;
        let part = composition.find(within, &reference)?;
        let path = node_id(path_of(activity), WORKFLOW_ID);
        let mut root = part.definition.root.clone()?;
        self.drawable.show(&mut root);
        write_below(self.drawable.catalogue, &mut root, &path);
        let workflow = workflow(&path, &part.definition, root);
        Some((workflow, Some(&part.definition.id)))
    }

    /// The whole path, each activity with its port and the version that it is in; `None` if no such node exists.
    fn path(&self, wanted: &str) -> Option<Vec<Place<'_>>> {
        let mut whole = Vec::new();
        for (tree, version) in &self.trees {
            let mut path = walk(self.drawable.catalogue, tree, wanted);
            if let Some((_, port)) = path.first_mut() {
                *port = Some("Root".to_owned());
            }
            whole.extend(path.into_iter().map(|(activity, port)| (activity, port, *version)));
        }
        let (last, ..) = whole.last()?;
        // What is inside a placeholder is not drawn.
        let is_inside = || {
            let inside = wanted.strip_prefix(path_of(last));
            is_placeholder(last) && inside.is_some_and(|inside| inside.starts_with(':'))
        };
        (path_of(last) == wanted || is_inside()).then_some(whole)
    }

    /// An activity as it is shown alone: a workflow as an activity with the workflow inside it.
    fn whole(&self, activity: &Value, within: Option<&VersionId>) -> Value {
        let mut whole = activity.clone();
        if let (Some((workflow, _)), Some(fields)) = (self.inside(activity, within), whole.as_object_mut()) {
            fields.insert(ROOT.to_owned(), workflow);
        }
        whole
    }
}

/// The activity with this node id in a tree with node ids.
pub(super) fn subgraph(drawable: Drawable<'_>, composition: &Composition, root: &Value, wanted: &str) -> Option<Value> {
    let trees = Trees::on_the_way(drawable, composition, root, wanted);
    let path = trees.path(wanted)?;
    let (activity, port, within) = path.last()?;
    Some(shown(&trees.whole(activity, *within), port.as_deref()))
}

/// The containers around an activity, from the outside: `{childNode, container, pathSegments}`. Around an activity of the
/// root flowchart the container is the workflow, which is its own one.
pub(super) fn segments(drawable: Drawable<'_>, composition: &Composition, root: &Value, wanted: &str) -> Option<Value> {
    let trees = Trees::on_the_way(drawable, composition, root, wanted);
    let path = trees.path(wanted)?;
    let (child, port, within) = path.last()?;
    let text = |activity: &Value, name: &str| activity.get(name).cloned().unwrap_or_default();
    let mut segments = Vec::new();
    let mut container = None;
    for (at, (owner, owner_port, within)) in path.iter().enumerate().take(path.len() - 1) {
        let kind = owner.get("type").and_then(Value::as_str);
        if [Some(FLOWCHART), Some(WORKFLOW)].contains(&kind) {
            continue;
        }
        let next = path.get(at + 1).and_then(|(_, port, _)| port.as_deref());
        let name = Some(text(owner, "name")).filter(|name| !name.is_null());
        segments.push(without_nulls(json!({
            "activityNodeId": text(owner, PROPERTY),
            "activityId": text(owner, "id"),
            "activityType": text(owner, "type"),
            "portName": next,
            "activityName": name.unwrap_or_else(|| text(owner, "type")),
        })));
        container = Some((*owner, owner_port.as_deref(), *within));
    }
    let (owner, owner_port, of_owner) = container.unwrap_or((root, Some("Root"), None));
    Some(json!({
        "childNode": shown(&trees.whole(child, *within), port.as_deref()),
        "container": shown(&trees.whole(owner, of_owner), owner_port),
        "pathSegments": segments,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn drawable(interpreter: &Interpreter) -> Drawable<'_> {
        Drawable {
            catalogue: interpreter.catalogue(),
            workflows: &[],
        }
    }

    #[test]
    fn the_json_has_the_node_ids_of_the_compiled_definition() {
        let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
        let line = json!({"type": "Elsa.WriteLine", "nodeId": "stale"});
        let nested = json!({"id": "f", "type": "Elsa.ForEach", "body": {
            "id": "s", "type": "Elsa.Sequence", "activities": [line.clone(), {"id": "WriteLine1", "type": "Elsa.WriteLine"}, line]}});
        let unknown = json!({"id": "u", "type": "Mine.Missing", "body": {"id": "v", "type": "Elsa.WriteLine"}});
        let root = json!({"type": "Elsa.Flowchart", "activities": [nested, unknown.clone()], "connections": []});
        let mut definition = WorkflowDefinition::from_value(json!({"root": root})).unwrap();
        let program = interpreter.compile(&definition).unwrap();
        let mut compiled: Vec<String> = program.tree().iter().map(|node| node.node_id.clone()).collect();
        let root = definition.root.as_mut().unwrap();
        write(interpreter.catalogue(), root);
        let mut shown = vec![WORKFLOW_ID.to_owned()];
        node_ids(root, &mut shown);
        compiled.sort();
        shown.sort();
        assert_eq!(shown, compiled);
        assert_eq!(
            root["version"],
            json!(1),
            "a designer draws no activity without a version"
        );
        // What an unknown activity holds is its own.
        assert_eq!(
            root["activities"][1],
            json!({"id": "u", "type": "Mine.Missing", "nodeId": "Workflow1:Flowchart1:u", "body": unknown["body"]})
        );
        assert!(
            shown.contains(&"Workflow1:Flowchart1:f:s:WriteLine2".to_owned()),
            "{shown:?}"
        );

        let wanted = "Workflow1:Flowchart1:f:s:WriteLine1";
        let found = subgraph(drawable(&interpreter), &Composition::default(), root, wanted).unwrap();
        assert_eq!(
            (&found["activity"]["id"], &found["port"]),
            (&json!("WriteLine1"), &json!("activities"))
        );
        let path = segments(drawable(&interpreter), &Composition::default(), root, wanted).unwrap();
        let ids: Vec<&Value> = path["pathSegments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|segment| &segment["activityId"])
            .collect();
        assert_eq!(ids, ["f", "s"]);
        assert_eq!(path["container"]["activity"]["id"], "s");
        assert!(
            subgraph(
                drawable(&interpreter),
                &Composition::default(),
                root,
                "Workflow1:Flowchart1:none"
            )
            .is_none()
        );

        remove(interpreter.catalogue(), root);
        let mut left = Vec::new();
        node_ids(root, &mut left);
        assert_eq!(left, [""; 0]);
    }

    #[test]
    fn branches_and_cases_have_the_node_ids_of_the_compiled_definition() {
        let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
        let line = json!({"type": "Elsa.WriteLine"});
        let switch = json!({"id": "s", "type": "Elsa.Switch", "default": line.clone(),
            "cases": [{"label": "Red", "activity": line.clone()}, {"label": "Blue"}, {"label": "Green", "activity": line.clone()}]});
        let set = json!({"type": "Elsa.SetVariable<System.Int32>"});
        let root = json!({"id": "f", "type": "Elsa.Fork", "branches": [switch, line, set]});
        let mut definition = WorkflowDefinition::from_value(json!({"root": root})).unwrap();
        let program = interpreter.compile(&definition).unwrap();
        let mut compiled: Vec<String> = program.tree().iter().map(|node| node.node_id.clone()).collect();
        let root = definition.root.as_mut().unwrap();
        write(interpreter.catalogue(), root);
        let mut shown = vec![WORKFLOW_ID.to_owned()];
        node_ids(root, &mut shown);
        compiled.sort();
        shown.sort();
        assert_eq!(shown, compiled);
        assert!(shown.contains(&"Workflow1:f:SetVariable1".to_owned()), "{shown:?}");

        // The second case has none, so the third one's is the child of its label.
        let green = root["branches"][0]["cases"][2]["activity"]["nodeId"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = segments(drawable(&interpreter), &Composition::default(), root, &green).unwrap();
        let ports: Vec<&Value> = path["pathSegments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|segment| &segment["portName"])
            .collect();
        assert_eq!(ports, ["Branches", "Green"]);
        remove(interpreter.catalogue(), root);
        let mut left = Vec::new();
        node_ids(root, &mut left);
        assert_eq!(left, [""; 0]);
    }

    #[test]
    fn the_parts_of_a_state_machine_have_the_node_ids_of_the_compiled_definition() {
        let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
        let line = json!({"type": "Elsa.WriteLine"});
        // The order of the properties does not matter for the ids.
        let states = json!([{"exit": line, "name": "A", "entry": line}, {"name": "B", "entry": null}, 7]);
        let sequence = json!({"type": "Elsa.Sequence", "activities": [line]});
        let transitions = json!([{"action": line, "trigger": sequence, "from": "A", "to": "B"}, {"trigger": line}]);
        let machine = json!({"id": "m", "type": "Elsa.StateMachine", "states": states, "transitions": transitions});
        let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [machine]});
        let mut definition = WorkflowDefinition::from_value(json!({"root": root})).unwrap();
        let program = interpreter.compile(&definition).unwrap();
        let mut compiled: Vec<String> = program.tree().iter().map(|node| node.node_id.clone()).collect();
        let ports = &program.tree().find("Workflow1:s:m").unwrap().ports;
        let ids = ports
            .iter()
            .map(|(port, child)| (port.as_str(), program.tree().get(*child).unwrap().id.as_str()));
        assert_eq!(
            ids.collect::<Vec<_>>(),
            [
                ("states[0].entry", "WriteLine1"),
                ("states[0].exit", "WriteLine2"),
                ("transitions[0].trigger", "Sequence1"),
                ("transitions[0].action", "WriteLine4"),
                ("transitions[1].trigger", "WriteLine5"),
            ]
        );
        let root = definition.root.as_mut().unwrap();
        write(interpreter.catalogue(), root);
        let shown_machine = &root["activities"][0];
        assert_eq!(
            shown_machine["states"][0]["entry"]["nodeId"],
            "Workflow1:s:m:WriteLine1"
        );
        assert_eq!(shown_machine["states"][0]["exit"]["nodeId"], "Workflow1:s:m:WriteLine2");
        assert_eq!(
            shown_machine["transitions"][0]["action"]["nodeId"],
            "Workflow1:s:m:WriteLine4"
        );
        let mut shown = vec![WORKFLOW_ID.to_owned()];
        node_ids(root, &mut shown);
        compiled.sort();
        shown.sort();
        assert_eq!(shown, compiled);
        let wanted = "Workflow1:s:m:Sequence1:WriteLine3";
        let found = subgraph(drawable(&interpreter), &Composition::default(), root, wanted).unwrap();
        assert_eq!(found["nodeId"], wanted);
        let path = segments(drawable(&interpreter), &Composition::default(), root, wanted).unwrap();
        let ports = path["pathSegments"].as_array().unwrap().iter();
        let ports: Vec<&Value> = ports.map(|segment| &segment["portName"]).collect();
        assert_eq!(ports, ["activities", "Activities", "activities"]);
        remove(interpreter.catalogue(), root);
        let mut left = Vec::new();
        node_ids(root, &mut left);
        assert_eq!(left, [""; 0]);
    }
}
