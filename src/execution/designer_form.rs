//! The form of activities that Elsa's designer can draw.
//!
//! A single activity that Studio cannot draw empties its canvas, and the next save stores the empty canvas. So an
//! activity without a descriptor becomes a placeholder, an activity that runs as another type or version is shown as
//! that one, and properties that Studio cannot read are shown in a form that it reads. The original of whatever is
//! shown in another form is kept beside it, see [`Kept`]. `definition::restore` reverses this without knowing types,
//! because the node that saves may know other types than the node that answered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value, json};

use super::drawable::Drawable;
use super::drawn_connections::{self, connected_outcomes};
use super::outcomes::{decides_outcomes, readable_by_designers};
use crate::activity::{ChildProperty, Descriptor, camel_case};
use crate::definition::{
    CONNECTIONS, Kept, PLACEHOLDER, RawActivity, placeholder, readable_custom_properties, readable_metadata,
};

impl Drawable<'_> {
    /// Gives a tree the form that a designer can draw.
    pub(super) fn show(&self, root: &mut Value) {
        self.show_activity(root, &[]);
    }

    /// `outcomes` are those at which the connections of the activity begin. The recursion is as deep as the JSON, which
    /// the model bounds.
    fn show_activity(&self, activity: &mut Value, outcomes: &[String]) {
        let Some(raw) = RawActivity::new(activity) else { return };
        let Some((type_name, version)) = self.type_of(raw) else {
            *activity = placeholder(activity, &self.reason(raw), outcomes);
            return;
        };
        let descriptor = self.catalogue.descriptor(&type_name, version);
        let is_unnamed = descriptor.is_some() && raw.named_version().is_none();
        let Some(fields) = activity.as_object_mut() else { return };
        if is_unnamed {
            fields.insert("version".to_owned(), version.into());
        }
        let mut kept = Kept::default();
        kept.show(fields, "type", Some(type_name.into()));
        kept.show(fields, "version", Some(version.into()));
        show_common(fields, &mut kept);
        let places = descriptor.map(ChildProperty::of).unwrap_or_default();
        if let Some(descriptor) = descriptor {
            show_outcomes(descriptor, fields, &mut kept);
            for place in &places {
                show_place(place, fields, &mut kept);
            }
            if descriptor.is_container {
                drawn_connections::show(*self, fields, &mut kept);
            }
        }
        let names: Vec<String> = fields.keys().cloned().collect();
        for name in names {
            let is_place = name == CONNECTIONS || places.iter().any(|place| place.property() == name);
            if !is_place && fields.get(&name).is_some_and(has_long_number) {
                kept.keep(fields, &name);
            }
        }
        kept.write(fields);
        let outcomes = connected_outcomes(fields);
        for place in places {
            let is_list = matches!(place, ChildProperty::List(..));
            if is_list && let Some(Value::Array(children)) = fields.get_mut(place.property()) {
                distinguish(children);
            }
            for child in place.children_mut(fields) {
                if is_list && !child.is_object() {
                    *child = placeholder(child, "This is not an activity", &[]);
                    continue;
                }
                let id = child.get("id").and_then(Value::as_str).unwrap_or_default();
                let outcomes = outcomes.get(id).cloned().unwrap_or_default();
                self.show_activity(child, &outcomes);
            }
        }
    }

    /// The type and the version by which a designer finds the descriptor of an activity.
    fn type_of(&self, raw: RawActivity<'_>) -> Option<(String, i32)> {
        let (name, version) = (raw.type_name(), raw.named_version().unwrap_or(0));
        if let Some(descriptor) = self.catalogue.descriptor(name, version) {
            return Some((descriptor.type_name.clone(), descriptor.version));
        }
        if name == PLACEHOLDER {
            return Some((name.to_owned(), 1));
        }
        let found = self.workflow(raw)?;
        Some((found.type_name.clone(), found.version))
    }

    /// Why an activity cannot be drawn.
    fn reason(&self, raw: RawActivity<'_>) -> String {
        let name = raw.type_name();
        if name.is_empty() {
            return "The activity has no type".to_owned();
        }
        let named = raw.named_version().map(|version| format!(" with version {version}"));
        let known = self.catalogue.versions(name);
        let known: Vec<String> = known.iter().map(i32::to_string).collect();
        let others = match known.as_slice() {
            [] => String::new(),
            known => format!("; this server has version {}", known.join(", ")),
        };
        format!(
            "Could not find activity type {name}{}{others}",
            named.unwrap_or_default()
        )
    }
}

/// A designer draws only one of several children with the same id, so the others get ids of their own.
fn distinguish(children: &mut [Value]) {
    let ids = children.iter().filter_map(|child| child.get("id")?.as_str());
    // The next number to try for an id; none: the id was not met yet.
    let mut taken: HashMap<String, Option<usize>> = ids.map(|id| (id.to_owned(), None)).collect();
    for fields in children.iter_mut().filter_map(Value::as_object_mut) {
        let Some(id) = fields.get("id").and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        let Some(Some(mut number)) = taken.insert(id.clone(), Some(2)) else {
            continue;
        };
        let other = loop {
            let other = format!("{id}-{number}");
            number += 1;
            if let Entry::Vacant(free) = taken.entry(other.clone()) {
                free.insert(Some(2));
                break other;
            }
        };
        taken.insert(id, Some(number));
        fields.insert("id".to_owned(), other.into());
    }
}

/// The properties of every activity.
fn show_common(fields: &mut Map<String, Value>, kept: &mut Kept) {
    if fields
        .get("name")
        .is_some_and(|name| !name.is_string() && !name.is_null())
    {
        kept.show(fields, "name", None);
    }
    for (name, readable) in [
        (
            "metadata",
            readable_metadata as fn(&Map<String, Value>) -> Map<String, Value>,
        ),
        ("customProperties", readable_custom_properties),
    ] {
        let shown = match fields.get(name) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(found)) => Some(Value::Object(readable(found))),
            Some(_) => None,
        };
        kept.show(fields, name, shown);
    }
}

/// The inputs by which the author names outcomes.
fn show_outcomes(descriptor: &Descriptor, fields: &mut Map<String, Value>, kept: &mut Kept) {
    for input in descriptor.inputs.iter().filter(|input| decides_outcomes(input)) {
        let property = camel_case(&input.name);
        if let Some(value) = fields.get(&property).filter(|value| !value.is_null()) {
            let shown = readable_by_designers(input, value);
            kept.show(fields, &property, shown);
        }
    }
}

/// A property that holds children.
fn show_place(place: &ChildProperty, fields: &mut Map<String, Value>, kept: &mut Kept) {
    let property = place.property();
    let Some(held) = fields.get(property).filter(|held| !held.is_null()) else {
        return;
    };
    let is_text = |value: Option<&Value>| value.is_none_or(|value| value.is_string() || value.is_null());
    let is_case = |case: &Value| {
        let expression = case.get("condition").filter(|condition| !condition.is_null());
        let of_expression = |it: &Value| it.is_object() && is_text(it.get("type"));
        let child = case.get("activity").filter(|child| !child.is_null());
        case.is_object()
            && child.is_none_or(Value::is_object)
            && is_text(case.get("label"))
            && expression.is_none_or(of_expression)
    };
    let is_readable = match place {
        ChildProperty::One(..) => held.is_object(),
        ChildProperty::List(..) => held.is_array(),
        ChildProperty::Cases => held.as_array().is_some_and(|cases| cases.iter().all(is_case)),
        // The designer of state machines reads what it can.
        ChildProperty::ItemChildren(..) => true,
    };
    if !is_readable {
        // Studio writes the list of a container whatever it has drawn.
        let shown = matches!(place, ChildProperty::List(..)).then(|| json!([]));
        kept.show(fields, property, shown);
    }
}

/// Whether a value contains a whole number that JavaScript rounds.
fn has_long_number(value: &Value) -> bool {
    const LONGEST: u64 = 1 << 53;
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.unsigned_abs() > LONGEST,
            (None, Some(number)) => number > LONGEST,
            (None, None) => false,
        },
        Value::Array(items) => items.iter().any(has_long_number),
        Value::Object(fields) => fields.values().any(has_long_number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Activity, ActivityContext, Catalogue, Fault, InputDescriptor, Step};
    use crate::definition::{KEPT, WorkflowDefinition};
    use crate::execution::drawable::WorkflowType;
    use crate::execution::{Interpreter, InterpreterOptions};

    /// A type of a program, in one version.
    struct Charge(i32);

    impl Activity for Charge {
        fn descriptor(&self) -> Descriptor {
            Descriptor::new("Shop.Charge")
                .version(self.0)
                .input(InputDescriptor::new("Amount", "Int32"))
        }

        async fn execute(&self, _context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
            Ok(Step::Done)
        }
    }

    fn interpreter() -> Interpreter {
        let mut catalogue = Catalogue::standard();
        catalogue.register(Charge(2)).register(Charge(3));
        Interpreter::new(catalogue, InterpreterOptions::default())
    }

    fn greeter(version: i32, is_published: bool) -> WorkflowType {
        WorkflowType {
            type_name: "Greeter".to_owned(),
            version,
            definition_id: "greeter".into(),
            version_id: format!("greeter-{version}").into(),
            is_published,
            outcomes: vec!["Greeted".to_owned()],
        }
    }

    /// A tree as a designer gets it.
    fn shown(root: &Value) -> Value {
        let mut root = root.clone();
        interpreter().show_to_designers(&[greeter(1, true), greeter(2, false)], &mut root);
        root
    }

    /// What a save makes of it, on a node that knows no type of a program.
    fn saved(root: Value) -> Value {
        let mut definition = WorkflowDefinition::from_value(json!({"root": root})).unwrap();
        let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
        let root = definition.root.as_mut().unwrap();
        interpreter.remove_node_ids(root);
        root.clone()
    }

    fn line(id: &str) -> Value {
        json!({"id": id, "type": "Elsa.WriteLine", "version": 1})
    }

    fn flow(activities: &[Value], connections: Value) -> Value {
        json!({"id": "f", "type": "Elsa.Flowchart", "version": 1, "activities": activities, "connections": connections})
    }

    #[test]
    fn unknown_activities_are_placeholders_wherever_they_are() {
        let unknown = |id: &str| json!({"id": id, "type": "Shop.Gone", "version": 4, "body": {"id": "in", "type": "Shop.Other", "steps": [line("x")]}});
        let cases = json!([{"label": "A", "activity": unknown("c")}, {"label": "B"}]);
        let states = json!([{"name": "S", "entry": unknown("e")}]);
        let root = flow(
            &[
                unknown("a"),
                json!({"id": "i", "type": "Elsa.If", "version": 1, "then": unknown("t"), "else": line("l")}),
                json!({"id": "s", "type": "Elsa.Switch", "version": 1, "cases": cases}),
                json!({"id": "fork", "type": "Elsa.Fork", "version": 1, "branches": [line("b"), unknown("u")]}),
                json!({"id": "w", "type": "Elsa.While", "version": 1, "body": {"id": "q", "type": "Elsa.Sequence", "version": 1, "activities": [unknown("d")]}}),
                json!({"id": "m", "type": "Elsa.StateMachine", "version": 1, "states": states}),
            ],
            json!([{"source": {"activity": "a", "port": "Paid"}, "target": {"activity": "i", "port": "In"}}]),
        );
        let form = shown(&root);
        let found = |path: &str| {
            let found = form.pointer(path).unwrap();
            assert_eq!(found["type"], PLACEHOLDER, "{path}");
            assert_eq!(found["missingTypeName"], "Shop.Gone");
            assert_eq!(
                found["metadata"]["description"],
                "Could not find activity type Shop.Gone with version 4"
            );
            found
        };
        assert_eq!(found("/activities/0")["outcomes"]["expression"]["value"], "[\"Paid\"]");
        assert_eq!(found("/activities/1/then")["nodeId"], "Workflow1:f:i:t");
        found("/activities/2/cases/0/activity");
        found("/activities/3/branches/1");
        found("/activities/4/body/activities/0");
        found("/activities/5/states/0/entry");
        assert!(!form.to_string().contains(KEPT), "{form}");
        assert_eq!(saved(form), root);
        let alone = unknown("root");
        assert_eq!(shown(&alone)["type"], PLACEHOLDER);
        assert_eq!(saved(shown(&alone)), alone);
    }

    #[test]
    fn another_type_or_version_that_runs_is_shown_as_that() {
        let of = |name: &str, version: Value| json!({"id": "a", "type": name, "version": version});
        for (activity, shown_as) in [
            (of("Elsa.WriteLine", json!(7)), ("Elsa.WriteLine", 1)),
            (of("Elsa.SetVariable<List<String>>", json!(1)), ("Elsa.SetVariable", 1)),
            (of("Shop.Charge", json!(2)), ("Shop.Charge", 2)),
        ] {
            let form = shown(&activity);
            assert_eq!(
                (&form["type"], &form["version"]),
                (&json!(shown_as.0), &json!(shown_as.1))
            );
            assert_eq!(saved(form), activity);
        }
        let old = of("Shop.Charge", json!(1));
        let form = shown(&old);
        assert_eq!(
            form["metadata"]["description"],
            "Could not find activity type Shop.Charge with version 1; this server has version 2, 3"
        );
        assert_eq!(saved(form), old);
        // Without a version it runs in one, which a designer needs and saves.
        let unnamed = shown(&json!({"id": "a", "type": "Shop.Charge"}));
        assert_eq!((&unnamed["version"], unnamed.get(KEPT)), (&json!(3), None));
        let none = json!({"id": "a"});
        assert_eq!(shown(&none)["metadata"]["description"], "The activity has no type");
        assert_eq!(saved(shown(&none)), none);
    }

    #[test]
    fn a_workflow_as_an_activity_is_shown_in_the_version_that_designers_know() {
        let reference = |definition: &str, version_id: &str, version: i32| json!({"id": "a", "type": "Greeter", "version": version, "workflowDefinitionId": definition, "workflowDefinitionVersionId": version_id});
        for (activity, version) in [
            (reference("greeter", "greeter-2", 2), 2),
            (reference("greeter", "of-another-server", 9), 1),
            (reference("of-another-server", "greeter-2", 9), 2),
            (reference("of-another-server", "", 2), 2),
            (reference("of-another-server", "", 7), 1),
        ] {
            let form = shown(&activity);
            assert_eq!(
                (&form["type"], &form["version"]),
                (&json!("Greeter"), &json!(version)),
                "{form}"
            );
            assert_eq!(saved(form), activity);
        }
        let mut gone = reference("gone", "gone-1", 1);
        gone["type"] = json!("Gone");
        assert_eq!(shown(&gone)["type"], PLACEHOLDER);
        assert_eq!(saved(shown(&gone)), gone);
        // Its connections begin at the outcomes of the workflow.
        let connection =
            |port: &str| json!({"source": {"activity": "a", "port": port}, "target": {"activity": "b", "port": "In"}});
        let connections = json!([connection("Rejected"), connection("Greeted")]);
        let root = flow(&[reference("greeter", "greeter-1", 1), line("b")], connections);
        let form = shown(&root);
        assert_eq!(form["connections"], json!([connection("Greeted")]));
        assert_eq!(saved(form), root);
    }

    #[test]
    fn what_a_designer_cannot_read_is_shown_as_it_reads_it_and_comes_back() {
        for (name, value, form) in [
            ("name", json!(5), Value::Null),
            ("metadata", json!("m"), Value::Null),
            ("metadata", json!({"displayText": 5, "k": [1]}), json!({"k": [1]})),
            (
                "metadata",
                json!({"designer": {"position": {"x": "1"}, "color": "red"}}),
                json!({"designer": {}}),
            ),
            (
                "metadata",
                json!({"designer": {"position": {"x": 1, "y": 2, "z": 3}}}),
                json!({"designer": {"position": {"x": 1, "y": 2}}}),
            ),
            (
                "customProperties",
                json!({"canStartWorkflow": "yes", "k": 1}),
                json!({"k": 1}),
            ),
            ("possibleOutcomes", json!(["A"]), Value::Null),
            (
                "possibleOutcomes",
                json!({"expression": {"type": "JavaScript", "value": "['A']"}}),
                Value::Null,
            ),
            (
                "possibleOutcomes",
                json!({"expression": {"value": "[\"A\"]"}}),
                json!({"expression": {"value": "[\"A\"]"}}),
            ),
        ] {
            let mut activity = json!({"id": "a", "type": "Elsa.RunJavaScript", "version": 1});
            activity[name] = value;
            let shown = shown(&activity);
            assert_eq!(shown.get(name).cloned().unwrap_or_default(), form, "{activity}");
            assert_eq!(saved(shown), activity);
        }
        for (type_name, property, value) in [
            ("Elsa.If", "then", json!("x")),
            ("Elsa.Switch", "cases", json!([null])),
            ("Elsa.FlowSwitch", "cases", json!([{"label": 5}])),
            ("Elsa.Switch", "cases", json!([{"label": "A", "activity": 5}])),
            ("Elsa.Sequence", "activities", json!("x")),
            ("Elsa.Sequence", "activities", json!([null, line("b"), "x"])),
            ("Elsa.WriteLine", "text", json!({"expression": {"value": u64::MAX}})),
        ] {
            let mut activity = json!({"id": "a", "type": type_name, "version": 1});
            activity[property] = value;
            assert_eq!(saved(shown(&activity)), activity);
        }
    }

    #[test]
    fn children_with_the_same_id_are_drawn_beside_each_other() {
        let root = flow(&[line("a"), line("a"), line("a-2"), line("a")], json!([]));
        let form = shown(&root);
        let ids: Vec<&str> = form["activities"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["a", "a-3", "a-2", "a-4"]);
        assert_eq!(form["activities"][1]["nodeId"], "Workflow1:f:a-3");
    }

    #[test]
    fn connections_have_the_form_that_designers_read() {
        let connection = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
        let script = json!({"id": "s", "type": "Elsa.RunJavaScript", "version": 1, "possibleOutcomes": {"expression": {"value": "[\"A\"]"}}});
        let switch = json!({"id": "w", "type": "Elsa.FlowSwitch", "version": 1, "cases": [{"label": "B"}]});
        let start = json!({"id": "0", "type": "Elsa.Start", "version": 1});
        let unknown = json!({"id": "u", "type": "Shop.Gone"});
        let activities = [line("a"), script, switch, start, unknown];
        let seen = json!([
            connection("a", "Done", "s"),
            connection("s", "A", "w"),
            connection("w", "B", "a"),
            connection("w", "Default", "a"),
            connection("u", "Any", "a"),
            connection("0", "Done", "gone"),
            connection("gone", "X", "u")
        ]);
        let unseen = [
            connection("a", "Gone", "s"),
            connection("s", "Done", "w"),
            connection("a", "Done", "0"),
            json!({}),
            json!(5),
        ];
        let mut all = seen.as_array().unwrap().clone();
        all.extend(unseen.iter().cloned());
        let root = flow(&activities, all.into());
        let form = shown(&root);
        assert_eq!(form["connections"], seen);
        assert_eq!(saved(form.clone()), root);
        // With an activity go its connections, also those that are not shown.
        let mut edited = form;
        edited["activities"].as_array_mut().unwrap().remove(1);
        edited["connections"].as_array_mut().unwrap().drain(..2);
        assert_eq!(edited["activities"][1]["id"], "w");
        let kept = saved(edited)["connections"].clone();
        assert_eq!(kept.as_array().unwrap()[5..], unseen[2..]);

        let flat = json!([{"source": "a", "target": "u", "sourcePort": "Done"}]);
        let root = flow(&activities, flat);
        let form = shown(&root);
        let nested = json!([{"source": {"activity": "a", "port": "Done"}, "target": {"activity": "u"}}]);
        assert_eq!(form["connections"], nested);
        assert_eq!(saved(form), root);
        for odd in [
            json!({"source": "a"}),
            Value::Null,
            json!([{"source": {"activity": "a"}, "target": {"activity": "u"}, "vertices": null, "k": 1}]),
        ] {
            let root = flow(&activities, odd);
            assert_eq!(saved(shown(&root)), root);
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn connections_from_the_ports_of_http_are_shown() {
        let input =
            |kind: &str, value: &str| json!({"typeName": "Object", "expression": {"type": kind, "value": value}});
        let expecting = |id: &str, type_name: &str, codes: Value| json!({"id": id, "type": type_name, "version": 1, "expectedStatusCodes": codes});
        let activities = [
            line("a"),
            expecting("send", "Elsa.FlowSendHttpRequest", input("Object", "[201, \"404\"]")),
            expecting("evaluated", "Elsa.FlowSendHttpRequest", input("JavaScript", "codes()")),
            expecting("download", "Elsa.DownloadHttpFile", Value::Null),
            json!({"id": "endpoint", "type": "Elsa.HttpEndpoint", "version": 1,
                "exposeRequestTooLargeOutcome": true, "exposeFileTooLargeOutcome": false,
                "exposeInvalidFileExtensionOutcome": input("Literal", "true"),
                "exposeInvalidFileMimeTypeOutcome": input("JavaScript", "true")}),
        ];
        let connection = |(source, port): &(&str, &str)| json!({"source": {"activity": source, "port": port}, "target": {"activity": "a", "port": "In"}});
        let of_all = ["Unmatched status code", "Failed to connect", "Timeout", "Done"];
        let requests = ["send", "evaluated", "download"];
        let mut seen: Vec<(&str, &str)> = requests
            .into_iter()
            .flat_map(|id| of_all.map(|port| (id, port)))
            .collect();
        seen.extend([
            ("send", "201"),
            ("send", "404"),
            ("evaluated", "200"),
            ("download", "200"),
        ]);
        seen.extend(["Done", "Request too large", "Invalid file extension"].map(|port| ("endpoint", port)));
        let unseen = [
            ("send", "200"),
            ("evaluated", "503"),
            ("download", "404"),
            ("endpoint", "File too large"),
            ("endpoint", "Invalid file MIME type"),
        ];
        let all = seen.iter().chain(&unseen).map(connection).collect();
        let root = flow(&activities, all);
        let form = shown(&root);
        assert_eq!(form["connections"], seen.iter().map(connection).collect::<Value>());
        // A flag and a list of codes that a designer cannot read would empty its canvas.
        assert_eq!(form["activities"][2].get("expectedStatusCodes"), None);
        let endpoint = &form["activities"][4];
        assert_eq!(endpoint["exposeInvalidFileExtensionOutcome"], json!(true));
        assert_eq!(endpoint.get("exposeInvalidFileMimeTypeOutcome"), None);
        assert_eq!(saved(form), root);
    }
}
