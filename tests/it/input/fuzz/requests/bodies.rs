//! Bodies: JSON as the route takes it, then changed in a place, or in its text.

use serde_json::{Map, Value, json};

use super::{DEFINITIONS, EVENTS, Known, Random};

pub(super) fn body(random: &mut Random, path: &str, known: &Known) -> Vec<u8> {
    let mut value = fitting(random, path, known);
    while random.in_100(25) {
        change(random, &mut value);
    }
    let mut text = match random.below(200) {
        0 => format!("{{\"input\":{}1{}}}", "[".repeat(200), "]".repeat(200)),
        1 => format!("{{\"input\":[{}0]}}", "{\"\":0},".repeat(random.below(60_000))),
        2 => format!("{{\"input\":{{\"a\":\"{}\"}}}}", "x".repeat(random.below(2 << 20))),
        3 => "{\"input\":\"\\ud800\"}".to_owned(),
        4 => "{\"name\":\"\\u0000\"}".to_owned(),
        5 => "{\"input\":1e999999,\"name\":-0.0}".to_owned(),
        _ => value.to_string(),
    }
    .into_bytes();
    if random.in_100(6) && !text.is_empty() {
        let at = random.below(text.len());
        match random.below(4) {
            0 => text.truncate(at),
            1 => text[at] = random.draw() as u8,
            2 => text.insert(at, *random.pick(b"{}[]\",:\\\0\n")),
            _ => drop(text.remove(at)),
        }
    }
    text
}

fn fitting(random: &mut Random, path: &str, known: &Known) -> Value {
    let correlation = format!("c{}", random.below(10));
    if path.ends_with("/execute") || path.ends_with("/dispatch") {
        json!({
            "correlationId": correlation,
            "name": text(random),
            "input": {"a": any(random, 2)},
            "variables": {"v": any(random, 1)},
            "instanceId": if random.in_100(30) { json!(format!("i{}", random.below(500))) } else { Value::Null },
            "versionOptions": if random.in_100(10) { json!("Latest") } else { Value::Null },
            "triggerActivityId": if random.in_100(10) { text(random) } else { Value::Null },
        })
    } else if path.contains("workflow-definitions") {
        let model = definition(random);
        if path.contains("import") {
            model
        } else {
            json!({"model": model, "publish": random.in_100(70)})
        }
    } else if path.contains("events") {
        json!({
            "correlationId": if random.in_100(40) { json!(correlation) } else { Value::Null },
            "workflowInstanceId": if random.in_100(30) { json!(known.any_instance(random)) } else { Value::Null },
            "activityInstanceId": if random.in_100(5) { text(random) } else { Value::Null },
            "workflowExecutionMode": "Synchronous",
            "input": any(random, 3),
        })
    } else if path.ends_with("/resume") || path.contains("resume/") {
        json!({
            "bookmarkId": if random.in_100(30) { text(random) } else { Value::Null },
            "input": {"a": any(random, 2)},
        })
    } else if path.ends_with("resume-links") {
        json!({"expiresIn": random.below(100_000), "uses": random.below(4)})
    } else if path.ends_with("/journal") {
        json!({
            "filter": {"activityIds": ["w"], "eventNames": ["Completed"], "excludedActivityTypes": any(random, 1)},
            "skip": random.below(5), "take": random.below(50),
        })
    } else if path.contains("bulk-actions") {
        json!({
            "ids": [known.any_instance(random), "none"],
            "definitionId": null,
            "workflowDefinitionIds": if random.in_100(5) { json!([random.pick(&DEFINITIONS)]) } else { Value::Null },
        })
    } else if random.in_100(30) {
        json!({"definitionId": random.pick(&DEFINITIONS), "input": {"a": 1}})
    } else {
        json!({
            "page": random.below(3), "pageSize": random.below(1_100), "searchTerm": text(random),
            "definitionIds": [random.pick(&DEFINITIONS)], "status": "Running", "subStatuses": ["Suspended"],
        })
    }
}

fn definition(random: &mut Random) -> Value {
    let id = format!("d{}", random.below(8));
    let strategies = [
        "SingletonStrategy",
        "CorrelatedSingletonStrategy",
        "CorrelationStrategy",
        "AllowAlwaysStrategy",
        "No",
    ];
    let strategy = if random.in_100(10) {
        json!(random.pick(&strategies))
    } else {
        Value::Null
    };
    json!({
        "definitionId": id,
        "name": text(random),
        "variables": [{"id": "v", "name": "v", "typeName": "Object", "value": any(random, 1)}],
        "options": {"activationStrategyType": strategy, "journal": if random.in_100(10) { "off" } else { "full" }},
        "root": activity(random, 3),
    })
}

fn input(random: &mut Random, kind: &str, value: Value) -> Value {
    let code = [
        "1 + 1",
        "getInput('a')",
        "throw new Error('no')",
        "'x'.repeat(100)",
        "JSON.stringify(this)",
        "}",
        "null.x",
    ];
    if random.in_100(80) {
        json!({"typeName": kind, "expression": {"type": "Literal", "value": value}})
    } else {
        json!({"typeName": kind, "expression": {"type": "JavaScript", "value": random.pick(&code)}})
    }
}

fn activity(random: &mut Random, depth: usize) -> Value {
    let id = format!("a{}", random.draw() % 10_000);
    let kinds = if depth == 0 { 9 } else { 14 };
    let nested = |random: &mut Random| activity(random, depth - 1);
    match random.below(kinds) {
        0 | 1 => json!({"id": id, "type": "Elsa.WriteLine", "text": input(random, "String", json!("line"))}),
        2 => {
            let event = *random.pick(&EVENTS);
            json!({"id": id, "type": "Elsa.Event", "eventName": input(random, "String", json!(event)),
                "customProperties": {"canStartWorkflow": random.in_100(10)}})
        }
        3 => json!({"id": id, "type": "Elsa.Delay", "timeSpan": input(random, "TimeSpan", json!("00:20:00"))}),
        4 => {
            json!({"id": id, "type": "Elsa.SetVariable", "variable": {"id": "v", "name": "v"}, "value": input(random, "Object", json!(1))})
        }
        5 => json!({"id": id, "type": "Elsa.Correlate", "correlationId": input(random, "String", json!("c1"))}),
        6 => json!({"id": id, "type": "Elsa.SetName", "value": input(random, "String", json!("n"))}),
        7 => {
            json!({"id": id, "type": *random.pick(&["Elsa.Finish", "Elsa.Fault", "Elsa.Complete", "Elsa.Unknown", ""])})
        }
        8 => json!({"id": id, "type": "Elsa.Timer", "interval": input(random, "TimeSpan", json!("12:00:00"))}),
        9 | 10 => {
            let count = random.below(4);
            let activities: Vec<Value> = (0..count).map(|_| nested(random)).collect();
            json!({"id": id, "type": "Elsa.Sequence", "activities": activities})
        }
        11 => json!({"id": id, "type": "Elsa.If", "condition": input(random, "Boolean", json!(true)),
            "then": nested(random), "else": nested(random)}),
        12 => {
            json!({"id": id, "type": "Elsa.ForEach", "items": input(random, "Object", json!([1, 2])), "body": nested(random)})
        }
        _ => {
            let (one, two) = (nested(random), nested(random));
            let wire = json!({"source": {"activity": one["id"], "port": "Done"}, "target": {"activity": two["id"]}});
            json!({"id": id, "type": "Elsa.Flowchart", "activities": [one, two], "connections": [wire]})
        }
    }
}

fn text(random: &mut Random) -> Value {
    let long = "x".repeat(random.below(2_000));
    let texts = [
        "",
        "n",
        "a b",
        "Gr\u{fc}\u{df}e",
        "\u{1b}[31m",
        "a\nb",
        "\u{202e}",
        "%",
        "'; DROP TABLE instance; --",
        long.as_str(),
    ];
    json!(random.pick(&texts))
}

fn any(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => json!(random.in_100(50)),
        2 => json!(random.draw()),
        3 => json!(-(random.below(1_000) as i64)),
        4 => json!(random.draw() as f64 / 3.0),
        5 | 6 => text(random),
        7 => (0..random.below(4)).map(|_| any(random, depth - 1)).collect(),
        _ => {
            let fields: Map<String, Value> = (0..random.below(4))
                .map(|number| (format!("f{number}"), any(random, depth - 1)))
                .collect();
            fields.into()
        }
    }
}

/// Changes one place.
fn change(random: &mut Random, value: &mut Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() && random.in_100(85) => {
            let at = random.below(fields.len());
            let name = fields.keys().nth(at).unwrap().clone();
            match random.below(10) {
                0 => drop(fields.remove(&name)),
                1 => {
                    let taken = fields.remove(&name).unwrap();
                    fields.insert(name.to_uppercase(), taken);
                }
                _ => change(random, fields.get_mut(&name).unwrap()),
            }
        }
        Value::Array(items) if !items.is_empty() && random.in_100(85) => {
            let at = random.below(items.len());
            if random.in_100(10) {
                let copy = items[at].clone();
                items.push(copy);
            } else {
                change(random, &mut items[at]);
            }
        }
        value => *value = any(random, 2),
    }
}
