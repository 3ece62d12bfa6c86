//! The connections of a flowchart as a designer reads and draws them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::drawable::Drawable;
use super::outcomes::{DONE, OutcomeReader, outcomes};
use crate::activity::ACTIVITIES;
use crate::definition::{CONNECTIONS, Connection, Kept, RawActivity};

/// The port at which connections end.
const INPUT: &str = "In";

/// The ports of an activity on the canvas.
struct Ports {
    /// `None` when any outcome is possible.
    outcomes: Option<HashSet<String>>,
    has_input: bool,
}

impl Ports {
    fn of(drawable: Drawable<'_>, raw: RawActivity<'_>) -> Self {
        let catalogue = drawable.catalogue;
        let Some(descriptor) = catalogue.descriptor(raw.type_name(), raw.named_version().unwrap_or(0)) else {
            // A placeholder has all outcomes that are connected.
            let outcomes = drawable.workflow(raw).map(|workflow| match &*workflow.outcomes {
                [] => HashSet::from([DONE.to_owned()]),
                outcomes => outcomes.iter().cloned().collect(),
            });
            return Self {
                outcomes,
                has_input: true,
            };
        };
        let outcomes = outcomes(descriptor, |name| raw.get(name), OutcomeReader::Designer);
        Self {
            outcomes: outcomes.map(HashSet::from_iter),
            has_input: !descriptor.is_start,
        }
    }
}

/// Shows the connections of a flowchart in the one form that designers read, with nothing else in it. A connection
/// without a drawn port at its end would begin in the middle of the box, where dragging the box removes it, so it is
/// not shown.
pub(super) fn show(drawable: Drawable<'_>, fields: &mut Map<String, Value>, kept: &mut Kept) {
    let children = fields.get(ACTIVITIES).and_then(Value::as_array).into_iter().flatten();
    let mut ports: HashMap<&str, Ports> = HashMap::new();
    for raw in children.filter_map(RawActivity::new) {
        ports.entry(raw.id()).or_insert_with(|| Ports::of(drawable, raw));
    }
    let shown: Vec<Value> = match fields.get(CONNECTIONS) {
        None | Some(Value::Null) => return,
        Some(Value::Array(connections)) => connections.iter().map(|it| shown_connection(it, &ports)).collect(),
        Some(_) => Vec::new(),
    };
    kept.show_list(fields, CONNECTIONS, shown);
}

/// The outcomes at which the connections of a flowchart begin, by the ids of activities.
pub(super) fn connected_outcomes(fields: &Map<String, Value>) -> HashMap<String, Vec<String>> {
    let mut outcomes: HashMap<String, Vec<String>> = HashMap::new();
    let mut seen = HashSet::new();
    for connection in Connection::list(fields.get(CONNECTIONS)) {
        let source = (connection.source.activity, connection.source.port);
        if seen.insert(source.clone()) {
            outcomes.entry(source.0).or_default().push(source.1);
        }
    }
    outcomes
}

/// A connection as designers read it; null when it is not shown.
fn shown_connection(connection: &Value, ports: &HashMap<&str, Ports>) -> Value {
    let Some(read) = Connection::list(Some(&json!([connection]))).pop() else {
        return Value::Null;
    };
    let end = |name: &str, flat_port: &str, activity: &str, port: &str| {
        let own = connection.get(name).filter(|end| end.is_object());
        let has_port = own.map_or(connection.get(flat_port), |end| end.get("port"));
        match has_port {
            Some(_) => json!({"activity": activity, "port": port}),
            None => json!({"activity": activity}),
        }
    };
    let (source, target) = (&read.source, &read.target);
    // What leads to an activity that is not there is shown, so that the author can remove it.
    let begins = ports.get(source.activity.as_str()).is_none_or(|ports| {
        let outcomes = ports.outcomes.as_ref();
        outcomes.is_none_or(|outcomes| outcomes.contains(&source.port))
    });
    let ends = ports
        .get(target.activity.as_str())
        .is_none_or(|ports| ports.has_input && target.port == INPUT);
    let is_there = |activity: &String| ports.contains_key(activity.as_str());
    let is_shown = begins && ends || !is_there(&source.activity) || !is_there(&target.activity);
    if source.activity.is_empty() || target.activity.is_empty() || !is_shown {
        return Value::Null;
    }
    let mut shown = json!({
        "source": end("source", "sourcePort", &source.activity, &source.port),
        "target": end("target", "targetPort", &target.activity, &target.port),
    });
    if let (Some(vertices), Some(shown)) = (connection.get("vertices"), shown.as_object_mut()) {
        let places = vertices.as_array().into_iter().flatten().filter_map(|place| {
            let number = |name: &str| place.get(name).filter(|value| value.is_number());
            Some(json!({"x": number("x")?, "y": number("y")?}))
        });
        shown.insert("vertices".to_owned(), places.collect());
    }
    shown
}
