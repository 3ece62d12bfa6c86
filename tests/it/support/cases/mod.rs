//! A case per activity, port and mode. Each waits at least once.

mod composition;
mod control_flow;
mod flowcharts;
mod primitives;
mod structures;

use serde_json::{Map, Value, json};

/// What ends a wait.
pub(crate) enum Step {
    /// An event for the instance.
    Event(&'static str, Value),
    /// The result of its only task.
    Task(Value),
    /// Its only timer comes due.
    Due,
}

pub(crate) struct Case {
    /// The id of the definition, and of its instance.
    pub(crate) name: &'static str,
    pub(crate) definition: Value,
    /// In this order, each once everything waits.
    pub(crate) steps: Vec<Step>,
    pub(crate) sub_status: &'static str,
    pub(crate) lines: Vec<&'static str>,
    pub(crate) output: Value,
    /// Published before it.
    pub(crate) uses: Option<Value>,
}

impl Case {
    fn ends(mut self, sub_status: &'static str) -> Self {
        self.sub_status = sub_status;
        self
    }

    fn gives(mut self, output: Value) -> Self {
        self.output = output;
        self
    }

    fn using(mut self, definition: Value) -> Self {
        self.uses = Some(definition);
        self
    }

    fn with(mut self, property: &str, value: Value) -> Self {
        self.definition[property] = value;
        self
    }
}

fn case(name: &'static str, root: Value, steps: Vec<Step>, lines: &[&'static str]) -> Case {
    Case {
        name,
        definition: json!({"definitionId": name, "name": name, "root": root}),
        steps,
        sub_status: "Finished",
        lines: lines.to_vec(),
        output: json!({}),
        uses: None,
    }
}

fn events(names: &[&'static str]) -> Vec<Step> {
    names.iter().map(|name| Step::Event(name, Value::Null)).collect()
}

/// An activity with further properties.
pub(crate) fn activity(type_name: &str, id: &str, fields: Value) -> Value {
    let mut all = Map::from_iter([("type".to_owned(), json!(type_name)), ("id".to_owned(), json!(id))]);
    all.extend(fields.as_object().cloned().unwrap_or_default());
    Value::Object(all)
}

pub(crate) fn input(type_name: &str, kind: &str, value: Value) -> Value {
    json!({"typeName": type_name, "expression": {"type": kind, "value": value}})
}

pub(crate) fn text(value: &str) -> Value {
    input("String", "Literal", json!(value))
}

pub(crate) fn script(type_name: &str, value: &str) -> Value {
    input(type_name, "JavaScript", json!(value))
}

pub(crate) fn flag(value: bool) -> Value {
    input("Boolean", "Literal", json!(value))
}

pub(crate) fn line(id: &str) -> Value {
    activity("Elsa.WriteLine", id, json!({"text": text(id)}))
}

pub(crate) fn says(id: &str, value: &str) -> Value {
    activity("Elsa.WriteLine", id, json!({"text": script("String", value)}))
}

pub(crate) fn event(name: &str) -> Value {
    activity("Elsa.Event", &format!("wait-{name}"), json!({"eventName": text(name)}))
}

pub(crate) fn sequence(id: &str, activities: &[Value]) -> Value {
    activity("Elsa.Sequence", id, json!({"activities": activities}))
}

/// Waits for an event, and then writes a line of the same name.
pub(crate) fn branch(name: &str) -> Value {
    sequence(&format!("branch-{name}"), &[event(name), line(name)])
}

pub(crate) fn arrow(source: &str, port: &str, target: &str) -> Value {
    json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}})
}

pub(crate) fn flowchart(activities: &[Value], connections: &[Value]) -> Value {
    activity(
        "Elsa.Flowchart",
        "chart",
        json!({"activities": activities, "connections": connections}),
    )
}

pub(crate) fn choice(label: &str, condition: &str, child: Value) -> Value {
    json!({"label": label, "condition": {"type": "JavaScript", "value": condition}, "activity": child})
}

pub(crate) fn mode(type_name: &str, word: &str) -> Value {
    input(type_name, "Literal", json!(word))
}

pub(crate) fn cases() -> Vec<Case> {
    let mut all = control_flow::containers();
    all.extend(control_flow::branches());
    all.extend(control_flow::loops());
    all.extend(control_flow::breaks());
    all.extend(composition::children());
    all.extend(composition::nested());
    all.extend(flowcharts::flowcharts());
    all.extend(flowcharts::joins());
    all.extend(flowcharts::tokens());
    all.extend(structures::state_machines());
    all.extend(structures::tries());
    all.extend(structures::do_while());
    all.extend(primitives::primitives());
    all.extend(primitives::scripts());
    all.extend(primitives::times());
    all.extend(primitives::ends());
    all
}
