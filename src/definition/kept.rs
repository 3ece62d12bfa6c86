//! The parts of a definition that a designer cannot hold, kept inside the form that it receives.
//!
//! Elsa Studio reads parts of a definition into its own types: whatever these have no place for is gone when it saves, and a
//! single part that they cannot read empties its canvas. Such a part is shown in a form that Studio can hold, and the
//! property [`KEPT`] beside it has the original part and the shown one. A save compares: a part that comes back as it was
//! shown is replaced by the original. The text is JSON inside a string, because numbers pass through JavaScript.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::connection::Connection;

/// The property with what was kept, of an activity or in the custom properties of a definition.
pub(crate) const KEPT: &str = "mainspringOriginal";

/// Asked about each JSON text inside a definition before it is parsed.
pub(crate) type Admit<'a, E> = &'a mut dyn FnMut(&str) -> Result<(), E>;

/// Some properties of an object, as they were and as they were shown; a property that is absent was absent.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    was: Map<String, Value>,
    shown: Map<String, Value>,
}

impl Kept {
    /// Shows a property in another form, or not at all.
    pub(crate) fn show(&mut self, fields: &mut Map<String, Value>, property: &str, shown: Option<Value>) {
        if fields.get(property) == shown.as_ref() {
            return;
        }
        let was = match &shown {
            // The property keeps its place.
            Some(shown) => fields.insert(property.to_owned(), shown.clone()),
            None => fields.shift_remove(property),
        };
        self.note(property, was, shown);
    }

    /// Shows a list with other items in the same places; null: the item is not shown.
    pub(crate) fn show_list(&mut self, fields: &mut Map<String, Value>, property: &str, shown: Vec<Value>) {
        if fields.get(property).and_then(Value::as_array) == Some(&shown) {
            return;
        }
        let visible: Vec<Value> = shown.iter().filter(|item| !item.is_null()).cloned().collect();
        let was = fields.insert(property.to_owned(), visible.into());
        self.note(property, was, Some(shown.into()));
    }

    /// Keeps a property that is shown as it is, because its numbers change in JavaScript.
    pub(crate) fn keep(&mut self, fields: &Map<String, Value>, property: &str) {
        let value = fields.get(property).cloned();
        self.note(property, value.clone(), value);
    }

    fn note(&mut self, property: &str, was: Option<Value>, shown: Option<Value>) {
        // What was kept first is the original.
        if !self.was.contains_key(property) {
            self.was.extend(was.map(|was| (property.to_owned(), was)));
        }
        self.shown.extend(shown.map(|shown| (property.to_owned(), shown)));
    }

    /// Writes what was kept, if there is any.
    pub(crate) fn write(self, fields: &mut Map<String, Value>) {
        if self.was.is_empty() && self.shown.is_empty() {
            return;
        }
        let kept = Value::from_iter([("was", Value::Object(self.was)), ("shown", Value::Object(self.shown))]);
        fields.insert(KEPT.to_owned(), kept.to_string().into());
    }

    /// Reads what [`Kept::write`] wrote.
    fn read(text: &str) -> Option<Self> {
        let Ok(Value::Object(mut kept)) = serde_json::from_str(text) else {
            return None;
        };
        let mut part = |name: &str| match kept.shift_remove(name) {
            Some(Value::Object(part)) => part,
            _ => Map::new(),
        };
        Some(Self {
            was: part("was"),
            shown: part("shown"),
        })
    }

    /// Puts back into an activity what was kept of it, the text of its property [`KEPT`].
    pub(crate) fn restore(fields: &mut Map<String, Value>, text: &str) {
        fields.shift_remove(KEPT);
        let Some(mut kept) = Self::read(text) else { return };
        // A type means something only with its version: the author may have chosen another one.
        const IDENTITY: [&str; 2] = ["type", "version"];
        if IDENTITY
            .iter()
            .any(|name| kept.shown.contains_key(*name) && !is_same_or_absent(fields.get(*name), kept.shown.get(*name)))
        {
            for name in IDENTITY {
                kept.was.shift_remove(name);
                kept.shown.shift_remove(name);
            }
        }
        let children = fields.get("activities").and_then(Value::as_array).into_iter().flatten();
        let children = children.filter_map(|child| child.get("id")?.as_str());
        let children: HashSet<String> = children.map(str::to_owned).collect();
        if let (Some(Value::Array(was)), Some(Value::Array(shown)), Some(Value::Array(edited))) = (
            kept.was.get(CONNECTIONS),
            kept.shown.get(CONNECTIONS),
            fields.get_mut(CONNECTIONS),
        ) {
            put_back_list(edited, was, shown, connection_identity);
            put_back_unseen(edited, was, shown, &children);
            kept.was.shift_remove(CONNECTIONS);
            kept.shown.shift_remove(CONNECTIONS);
        }
        put_back(fields, &kept.was, &kept.shown);
    }
}

/// The property of a flowchart.
pub(crate) const CONNECTIONS: &str = "connections";

/// What identifies an item of a list; `None` if it was not shown.
type Identity = fn(&Value) -> Option<String>;

/// The ends of a connection in the form that designers read.
fn connection_identity(connection: &Value) -> Option<String> {
    let end = |name: &str, default: &str| {
        let end = connection.get(name)?;
        let port = end.get("port").and_then(Value::as_str).unwrap_or(default);
        Some(format!("{}\0{port}", end.get("activity")?.as_str()?))
    };
    Some(format!("{}\0{}", end("source", "Done")?, end("target", "In")?))
}

/// Puts back what objects of a list have lost; `was` and `shown` have the same items in the same order.
pub(super) fn put_back_list(edited: &mut [Value], was: &[Value], shown: &[Value], identity: Identity) {
    let mut left: HashMap<String, VecDeque<(&Value, &Value)>> = HashMap::new();
    for (was, shown) in was.iter().zip(shown) {
        if let Some(identity) = identity(shown) {
            left.entry(identity).or_default().push_back((was, shown));
        }
    }
    for item in edited {
        let found = identity(item).and_then(|own| left.get_mut(&own)?.pop_front());
        if let Some((was, shown)) = found {
            put_back_value(item, was, shown);
        }
    }
}

/// Puts back the connections that were not shown, each behind the one that it followed, unless the author deleted an activity
/// at one of their ends, or has drawn the connection since.
fn put_back_unseen(edited: &mut Vec<Value>, was: &[Value], shown: &[Value], children: &HashSet<String>) {
    let read = |connection: &Value| Connection::list(Some(&Value::Array(vec![connection.clone()]))).pop();
    // Each connection by its place, so that a long id is compared once.
    let mut drawn: HashMap<Connection, usize> = HashMap::new();
    for (place, connection) in edited.iter().enumerate() {
        drawn.extend(read(connection).map(|read| (read, place)));
    }
    let mut behind: Vec<Vec<&Value>> = vec![Vec::new(); edited.len() + 1];
    let mut before = 0;
    for (was, shown) in was.iter().zip(shown) {
        let own = read(was);
        if !shown.is_null() {
            before = own.and_then(|own| drawn.get(&own)).map_or(before, |place| place + 1);
            continue;
        }
        let is_left = own.is_none_or(|own| {
            let ends = [&own.source.activity, &own.target.activity];
            let is_whole = ends.iter().all(|end| !end.is_empty());
            let has_ends = ends.iter().all(|end| end.is_empty() || children.contains(*end));
            has_ends && (!is_whole || drawn.insert(own, before).is_none())
        });
        if is_left && let Some(behind) = behind.get_mut(before) {
            behind.push(was);
        }
    }
    let connections = std::iter::once(None).chain(edited.drain(..).map(Some));
    let whole = connections.zip(behind).flat_map(|(connection, behind)| {
        let behind = behind.into_iter().cloned();
        connection.into_iter().chain(behind)
    });
    let whole: Vec<Value> = whole.collect();
    *edited = whole;
}

/// Puts back what an object has lost: what comes back as it was shown, and what was not shown. What the author changed or
/// deleted stays so.
pub(super) fn put_back(edited: &mut Map<String, Value>, was: &Map<String, Value>, shown: &Map<String, Value>) {
    for (name, was) in was {
        match (edited.get_mut(name), shown.get(name)) {
            (Some(edited), Some(shown)) => put_back_value(edited, was, shown),
            // Studio writes no null where there was nothing.
            (None, Some(Value::Null) | None) => drop(edited.insert(name.clone(), was.clone())),
            (Some(_), None) | (None, Some(_)) => {}
        }
    }
    // All at once: to remove one property moves those behind it.
    edited.retain(|name, edited| {
        let only_shown = shown.get(name).filter(|_| !was.contains_key(name));
        only_shown.is_none_or(|shown| !is_same(edited, shown))
    });
}

fn put_back_value(edited: &mut Value, was: &Value, shown: &Value) {
    if is_same(edited, shown) {
        edited.clone_from(was);
    } else if let (Value::Object(edited), Value::Object(was), Value::Object(shown)) = (edited, was, shown) {
        put_back(edited, was, shown);
    }
}

fn is_same_or_absent(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Whether two values are the same after a trip through JavaScript, whose numbers have 53 bits.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An activity with its properties in the form on the right; null: not shown.
    fn form(activity: &Value, shown: Value) -> Map<String, Value> {
        let mut fields = activity.as_object().unwrap().clone();
        let mut kept = Kept::default();
        for (name, shown) in shown.as_object().unwrap() {
            match (name.as_str(), shown) {
                (CONNECTIONS, Value::Array(shown)) => kept.show_list(&mut fields, name, shown.clone()),
                (_, Value::Null) => kept.show(&mut fields, name, None),
                (_, shown) => kept.show(&mut fields, name, Some(shown.clone())),
            }
        }
        kept.write(&mut fields);
        fields
    }

    fn restored(mut fields: Map<String, Value>) -> Value {
        if let Some(Value::String(kept)) = fields.get(KEPT).cloned() {
            Kept::restore(&mut fields, &kept);
        }
        Value::Object(fields)
    }

    #[test]
    fn what_comes_back_as_it_was_shown_is_put_back() {
        let activity = json!({"type": "Elsa.SetVariable<Int32>", "version": 7, "name": 5, "metadata": {"designer": {"color": "red"}, "k": 1}});
        let shown =
            json!({"type": "Elsa.SetVariable", "version": 1, "name": null, "metadata": {"designer": {}, "k": 1}});
        let form = form(&activity, shown);
        assert_eq!(restored(form.clone()), activity);
        // A moved box.
        let mut moved = form.clone();
        moved["metadata"]["designer"] = json!({"position": {"x": 1.5, "y": 2}});
        let mut expected = activity.clone();
        expected["metadata"]["designer"] = json!({"position": {"x": 1.5, "y": 2}, "color": "red"});
        assert_eq!(restored(moved), expected);
        // Another name, and another version, with which the type means another one.
        let mut changed = form;
        changed.insert("name".to_owned(), json!("N"));
        changed.insert("version".to_owned(), json!(2));
        let changed = restored(changed);
        assert_eq!(
            (&changed["name"], &changed["type"], &changed["version"]),
            (&json!("N"), &json!("Elsa.SetVariable"), &json!(2))
        );
        let unchanged = json!({"type": "Elsa.WriteLine", "version": 1});
        assert_eq!(Value::Object(self::form(&unchanged, unchanged.clone())), unchanged);
    }

    #[test]
    fn numbers_that_javascript_rounds_are_put_back() {
        let activity = json!({"text": {"value": [9_007_199_254_740_993_i64, 1.0]}});
        let mut fields = activity.as_object().unwrap().clone();
        let mut kept = Kept::default();
        kept.keep(&fields, "text");
        kept.write(&mut fields);
        fields["text"] = json!({"value": [9_007_199_254_740_992_i64, 1]});
        assert_eq!(restored(fields.clone()).to_string(), activity.to_string());
        let fields = fields.into_iter();
        let mut edited: Map<String, Value> = fields.collect();
        edited["text"] = json!({"value": [5]});
        assert_eq!(restored(edited), json!({"text": {"value": [5]}}));
    }

    #[test]
    fn connections_are_put_back_by_their_ends() {
        let connection = |source: &str, target: &str| json!({"source": {"activity": source, "port": "Done"}, "target": {"activity": target, "port": "In"}});
        let mut labelled = connection("b", "c");
        labelled["label"] = json!("L");
        labelled["vertices"] = json!([{"x": 1, "y": 2, "z": 3}]);
        let flat = json!({"source": "a", "target": "b", "sourcePort": "Done"});
        let activity = json!({"connections": [flat, labelled, {"source": null}, connection("c", "a")]});
        let mut shown_labelled = connection("b", "c");
        shown_labelled["vertices"] = json!([{"x": 1, "y": 2}]);
        let shown = json!({"connections": [connection("a", "b"), shown_labelled, null, connection("c", "a")]});
        let form = form(&activity, shown);
        assert_eq!(
            form["connections"],
            json!([connection("a", "b"), shown_labelled, connection("c", "a")])
        );
        assert_eq!(restored(form.clone()), activity);
        // One is deleted, one gets other vertices, and one is new.
        let mut edited = form;
        shown_labelled["vertices"] = json!([]);
        edited["connections"] = json!([shown_labelled, connection("c", "d"), connection("c", "a")]);
        let mut expected = labelled.clone();
        expected["vertices"] = json!([]);
        let expected = json!({"connections": [expected, {"source": null}, connection("c", "d"), connection("c", "a")]});
        assert_eq!(restored(edited), expected);
    }

    #[test]
    fn a_connection_that_was_not_shown_comes_back_once_and_in_its_place() {
        let connection = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
        let children = json!([{"id": "a"}, {"id": "b"}, {"id": "c"}]);
        let (gone, other) = (connection("a", "Gone", "b"), connection("b", "Gone", "c"));
        let (first, last) = (connection("a", "Done", "b"), connection("b", "Done", "c"));
        let activity = json!({"activities": children, "connections": [gone, first, other, last]});
        let form = form(&activity, json!({"connections": [null, first, null, last]}));
        assert_eq!(restored(form.clone()), activity);
        let edit = |edited: Value, children: Value| {
            let mut sent = form.clone();
            sent.insert("connections".to_owned(), edited);
            sent.insert("activities".to_owned(), children);
            restored(sent)["connections"].clone()
        };
        // The author draws it again, deletes the one before it, or an activity.
        let drawn = json!([first, last, gone]);
        assert_eq!(edit(drawn, children.clone()), json!([first, other, last, gone]));
        assert_eq!(edit(json!([last]), children.clone()), json!([gone, other, last]));
        assert_eq!(
            edit(json!([first]), json!([{"id": "a"}, {"id": "b"}])),
            json!([gone, first])
        );
    }
}
