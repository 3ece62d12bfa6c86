//! The workflows that are compared.

use serde_json::{Value, json};

use crate::settings::Composition;

/// How many workflows as activities [`nine`] has, and how many lines each of them.
const NESTED: (usize, usize) = (9, 10);

/// The activities of the flowchart.
const CHART: usize = 1000;

pub(super) fn line(id: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": id, "text": "Hello from Mainspring!"})
}

fn literal(type_name: &str, value: &Value) -> Value {
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}})
}

/// The workflow that a parent starts.
pub(super) fn child() -> Value {
    json!({"definitionId": "bench-child", "root": line("line")})
}

pub(super) fn parent(mode: Composition, count: usize) -> Value {
    let named = literal("String", &"bench-child".into());
    let waits = literal("Boolean", &true.into());
    let root = if mode == Composition::Loop {
        json!({"type": "Elsa.For", "id": "loop", "start": literal("Int32", &1.into()),
            "end": literal("Int32", &count.into()),
            "body": {"type": "Elsa.ExecuteWorkflow", "id": "run", "workflowDefinitionId": named, "waitForCompletion": waits}})
    } else {
        let items: Vec<usize> = (0..count).collect();
        let mut bulk = json!({"type": "Elsa.BulkDispatchWorkflows", "id": "bulk", "workflowDefinitionId": named,
            "items": literal("Object", &items.into()), "waitForCompletion": waits});
        if let (Composition::BulkPorts, Value::Object(fields)) = (mode, &mut bulk) {
            let set = json!({"type": "Elsa.SetVariable", "id": "set", "value": literal("Object", &1.into()),
                "variable": {"id": "v", "name": "V", "typeName": "Object"}});
            fields.insert("childCompleted".to_owned(), set);
        }
        bulk
    };
    json!({"definitionId": "bench", "root": root, "variables": [{"id": "v", "name": "V", "typeName": "Object"}]})
}

/// A loop that sets a variable in each iteration.
pub(super) fn counting_loop(count: usize, has_script: bool) -> Value {
    let set = json!({"type": "Elsa.SetVariable", "id": "set", "value": literal("Object", &1.into()),
        "variable": {"id": "v", "name": "V", "typeName": "Object"}});
    let condition = format!("(variables.N = getN() + 1) <= {count}");
    let (id, root) = match has_script {
        true => (
            "bench",
            json!({"type": "Elsa.While", "id": "loop", "body": set,
                "condition": {"typeName": "Boolean", "expression": {"type": "JavaScript", "value": condition}}}),
        ),
        false => (
            "bench-child",
            json!({"type": "Elsa.For", "id": "loop", "body": set, "start": literal("Int32", &1.into()),
                "end": literal("Int32", &count.into())}),
        ),
    };
    json!({"definitionId": id, "root": root, "variables": [{"id": "v", "name": "V", "typeName": "Object"},
        {"id": "n", "name": "N", "typeName": "Int32", "value": 0}]})
}

/// A sequence of lines.
fn steps(id: &str, prefix: &str) -> Value {
    let lines: Vec<Value> = (0..NESTED.1).map(|at| line(&format!("{prefix}line{at}"))).collect();
    json!({"type": "Elsa.Sequence", "id": id, "activities": lines})
}

pub(super) fn part() -> Value {
    json!({"definitionId": "bench-part", "name": "BenchPart", "options": {"usableAsActivity": true},
        "root": steps("steps", "")})
}

/// The same activities, nested or written out.
pub(super) fn nine(is_nested: bool) -> Value {
    let uses: Vec<Value> = (0..NESTED.0)
        .map(|at| match is_nested {
            true => json!({"type": "BenchPart", "id": format!("use{at}"), "version": 1,
                "workflowDefinitionId": "bench-part"}),
            false => steps(&format!("use{at}"), &format!("{at}-")),
        })
        .collect();
    json!({"definitionId": "bench", "root": {"type": "Elsa.Sequence", "id": "all", "activities": uses}})
}

/// A flowchart of activities one after another.
pub(super) fn chart(mode: &str) -> Value {
    let lines: Vec<Value> = (0..CHART).map(|at| line(&format!("line{at}"))).collect();
    let end = |at: usize, port: &str| json!({"activity": format!("line{at}"), "port": port});
    let connections: Vec<Value> = (1..CHART)
        .map(|at| json!({"source": end(at - 1, "Done"), "target": end(at, "In")}))
        .collect();
    json!({"definitionId": "bench", "customProperties": {"Flowchart:ExecutionMode": mode},
        "root": {"type": "Elsa.Flowchart", "id": "flow", "activities": lines, "connections": connections}})
}
