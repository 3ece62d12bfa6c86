//! What Studio does not know survives a round trip: each definition is opened, one activity is moved, and the save compared.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};

use super::{Studio, line, move_activity, node, saves_answered};
use crate::support::cases::cases;
use crate::support::elsa_workflows::elsa_workflows;
use crate::support::{long, wait_until};

/// The modifier of a key.
const CONTROL: u32 = 2;

/// An activity that is not outside of the canvas, nor behind another one, where it is taken.
const VISIBLE: &str = "[...document.querySelectorAll('.x6-node')].find(node => {
    const r = node.getBoundingClientRect();
    return node.contains(document.elementFromPoint(r.x + r.width * 0.3, r.y + r.height * 0.2));
})?.querySelector('foreignObject')";

/// What a designer cannot draw, hold or read of a definition.
fn odd() -> Value {
    let at = |activity: Value, x: i64| {
        let mut activity = activity;
        activity["version"] = activity.get("version").cloned().unwrap_or(json!(1));
        activity["metadata"] =
            json!({"designer": {"position": {"x": x, "y": 100, "z": 1}, "color": "red"}, "notes": ["a"]});
        activity
    };
    let script = json!({"id": "script", "type": "Elsa.RunJavaScript", "possibleOutcomes": ["Left"], "mine": {"deep": [{"k": null}]}});
    let switch = json!({"id": "switch", "type": "Elsa.Switch", "cases": [{"label": "A", "activity": line("in-a", "a"), "k": 1}], "slots": {"one": line("slot", "s")}});
    let long = json!({"id": "long", "type": "Elsa.WriteLine", "version": 9, "text": {"typeName": "Object", "expression": {"type": "Object", "value": [9_007_199_254_740_993_i64, 1.5]}}});
    let set = json!({"id": "set", "type": "Elsa.SetVariable<Int32>", "variable": {"id": "v", "name": "V"}, "extension": [1, "2", {"x": true}]});
    let unknown = json!({"id": "unknown", "type": "Shop.Gone", "branches": [line("b", "b"), {"type": "Shop.Other"}]});
    let arrow = |from: &str, port: &str, to: &str| json!({"source": {"activity": from, "port": port}, "target": {"activity": to, "port": "In"}, "vertices": []});
    let mut labelled = arrow("switch", "Done", "long");
    labelled["label"] = json!({"text": "L"});
    json!({"definitionId": "odd", "name": "Odd", "isSystem": false, "extra": {"k": [1]}, "toolVersion": "3.8.0.0",
        "variables": [{"id": "v", "name": "V", "typeName": "Int32", "value": 5, "extra": 1}],
        "inputs": [{"name": "I", "type": "String", "defaultValue": "x"}], "options": {"mine": {"k": 1}},
        "root": {"id": "flow", "type": "Elsa.Flowchart", "version": 1, "own": {"k": 1},
            "activities": [at(script, 0), at(switch, 400), at(long, 800), at(set, 1200), at(unknown, 1600)],
            "connections": [{"source": "script", "target": "switch", "sourcePort": "Left"}, labelled,
                arrow("long", "Gone", "set"), arrow("set", "Done", "unknown"), arrow("unknown", "Any", "script")]}})
}

/// The definitions of a folder, by the names of their files.
fn files(folder: &Path) -> Vec<Value> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let json = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == "json"));
    json.map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap()
    })
    .collect()
}

/// Flowcharts as they are, and what is no flowchart as the activities of one.
fn on_canvases(definitions: Vec<Value>) -> Vec<Value> {
    let is_flowchart = |definition: &Value| definition["root"]["type"] == "Elsa.Flowchart";
    let (mut drawn, others): (Vec<Value>, Vec<Value>) = definitions.into_iter().partition(is_flowchart);
    let activities: Vec<Value> = others
        .into_iter()
        .map(|mut definition| {
            definition["root"]["id"] = definition["definitionId"].clone();
            definition["root"].take()
        })
        .collect();
    drawn.push(json!({"definitionId": "catalogue", "root": {"id": "all", "type": "Elsa.Flowchart", "activities": activities, "connections": []}}));
    drawn
}

/// What a value has lost: everything in `before` must be in `after`. A save may move and measure boxes, and write defaults.
fn lost(path: &str, before: &Value, after: &Value, into: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                let path = format!("{path}.{name}");
                let is_layout = [".position.x", ".position.y", ".size.width", ".size.height"]
                    .iter()
                    .any(|end| path.ends_with(end));
                let of_version =
                    [".id", ".version", ".createdAt", ".isLatest", ".isPublished"].contains(&path.as_str());
                match after.get(name) {
                    _ if is_layout || of_version => {}
                    Some(other) => lost(&path, value, other, into),
                    None if value.is_null() => {}
                    None => into.push(format!("{path} = {value}")),
                }
            }
            let is_default = |value: &Value| {
                matches!(value, Value::Null | Value::Bool(false)) || *value == json!([]) || *value == json!({})
            };
            for (name, value) in after
                .iter()
                .filter(|(name, value)| !before.contains_key(*name) && !is_default(value))
            {
                if !["metadata", "designer", "position", "size", "version"].contains(&name.as_str()) {
                    into.push(format!("{path}.{name} is new: {value}"));
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            if before.len() != after.len() {
                into.push(format!("{path} had {} items, and has {}", before.len(), after.len()));
                return;
            }
            for (place, value) in before.iter().enumerate() {
                // What is moved is drawn over the others, so that it is the last.
                let same = |other: &&Value| match (path.ends_with("connections"), value.get("id")) {
                    (true, _) => ["source", "target"].iter().all(|end| other[end] == value[end]),
                    (_, Some(id)) => other.get("id") == Some(id),
                    _ => false,
                };
                let other = after.iter().find(same).unwrap_or(&after[place]);
                lost(&format!("{path}[{place}]"), value, other, into);
            }
        }
        (Value::Number(before), Value::Number(after)) if before.is_f64() && before.as_f64() == after.as_f64() => {}
        _ if before != after => into.push(format!("{path}: {before} became {after}")),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_and_what_studio_does_not_know_survive() {
    let mut definitions = vec![odd()];
    definitions.extend(files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")));
    assert_survive("round-trip-samples", definitions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_of_elsa_survive() {
    if let Some(folder) = elsa_workflows() {
        assert_survive("round-trip-elsa", files(&folder)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_of_the_catalogue_survive() {
    // One by one it is minutes of a browser; what survives there is what `odd` has.
    if !long() {
        return;
    }
    let cases = cases().into_iter();
    let of_case = cases.flat_map(|case| case.uses.into_iter().chain([case.definition]));
    assert_survive("round-trip-catalogue", on_canvases(of_case.collect())).await;
}

/// Opens each definition in Studio, changes and saves it: nothing is lost.
async fn assert_survive(name: &str, mut definitions: Vec<Value>) {
    let node = node(&[]).await;
    let http = &node.http;
    let mut ids = HashSet::new();
    for (number, definition) in definitions.iter_mut().enumerate() {
        let id = definition["definitionId"].as_str().unwrap().to_owned();
        if !ids.insert(id.clone()) {
            definition["definitionId"] = json!(format!("{id}-{number}"));
        }
        definition["id"] = Value::Null;
        http.post("workflow-definitions/import", definition).await.expect(200);
    }
    let studio = Studio::signed_in(&format!("http://{}", node.address), name).await;
    let mut losses = Vec::new();
    for definition in &definitions {
        let id = definition["definitionId"].as_str().unwrap();
        let file = format!("workflow-definitions/{id}/export");
        let before = http.get(&file).await.expect(200);
        studio.open_page(&format!("workflows/definitions/{id}/edit")).await;
        let root = &before["root"];
        let count = root["activities"].as_array().map_or(0, Vec::len);
        if ["Elsa.Flowchart", "Elsa.Sequence"]
            .map(Value::from)
            .contains(&root["type"])
        {
            let drawn = format!(
                "document.querySelectorAll('.x6-node').length === {count} && location.pathname.includes({})",
                json!(id)
            );
            studio.page.wait(&drawn).await;
            move_activity(&studio, VISIBLE).await;
        } else {
            // Its designer draws other boxes.
            studio
                .page
                .wait("document.querySelectorAll('.x6-node').length > 1")
                .await;
            let saves = saves_answered(&studio, 200);
            studio.page.key("s", 83, CONTROL).await;
            wait_until("the save", async || saves_answered(&studio, 200) > saves).await;
        }
        let after = http.get(&file).await.expect(200);
        let mut of_definition = Vec::new();
        lost("", &before, &after, &mut of_definition);
        losses.extend(of_definition.into_iter().map(|loss| format!("{id}{loss}")));
    }
    assert!(losses.is_empty(), "{}", losses.join("\n"));
    studio.assert_no_errors().await;
    node.assert_invariants();
}
