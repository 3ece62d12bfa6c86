//! The cost of a workflow without the database: parsing and compiling its definition, a burst per kind of activity, a
//! script, and the hashes of stimuli and bookmarks.
//!
//! `cargo bench --bench interpreter [-- FILTER]`
// A benchmark that fails panics.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use chrono::{DateTime, Utc};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use mainspring::activity::{Catalogue, Console};
use mainspring::definition::WorkflowDefinition;
use mainspring::id::{ActivityExecutionId, InstanceId, StimulusHash};
use mainspring::internals::{
    Burst, BurstResult, Composition, InstanceState, Instruction, Interpreter, Program, References, ScriptEngine,
    ScriptScope, SubStatus, UsedVersion, WorkflowReference, event_hash, stimulus_hash,
};
use mainspring::runtime::{InterpreterOptions, ScriptOptions};
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};

fn main() {
    divan::main();
}

/// The files in `samples/`.
const SAMPLES: [(&str, &[u8]); 7] = [
    ("countdown", include_bytes!("../samples/countdown.json")),
    ("delay", include_bytes!("../samples/delay.json")),
    ("event", include_bytes!("../samples/event.json")),
    ("fork-join", include_bytes!("../samples/fork-join.json")),
    ("hello-world", include_bytes!("../samples/hello-world.json")),
    ("order-approval", include_bytes!("../samples/order-approval.json")),
    ("shopping-list", include_bytes!("../samples/shopping-list.json")),
];

fn names() -> impl Iterator<Item = &'static str> {
    SAMPLES.iter().map(|(name, _)| *name)
}

fn sample(name: &str) -> &'static [u8] {
    let found = SAMPLES.iter().find(|(other, _)| *other == name);
    found.map_or(&[], |(_, bytes)| bytes)
}

/// Parses a file into a definition.
#[divan::bench(args = names())]
fn parse(bencher: Bencher, name: &str) {
    let bytes = sample(name);
    assert!(WorkflowDefinition::from_json(bytes).is_ok(), "{name}");
    bencher
        .counter(BytesCount::of_slice(bytes))
        .bench(|| WorkflowDefinition::from_json(divan::black_box(bytes)));
}

/// Compiles a definition into the program that its instances share.
#[divan::bench(args = names())]
fn compile(bencher: Bencher, name: &str) {
    let interpreter = interpreter();
    let definition = WorkflowDefinition::from_json(sample(name)).unwrap();
    assert!(interpreter.compile(&definition).is_ok(), "{name}");
    bencher.bench(|| interpreter.compile(divan::black_box(&definition)));
}

/// Workflows that finish in one burst: the name, and the number of activities that the burst executes.
fn bursts() -> [(&'static str, usize, Value); 11] {
    let many = |what: &dyn Fn(usize) -> Value| (0..10).map(what).collect::<Vec<_>>();
    let line = |at: usize| json!({"type": "Elsa.WriteLine", "id": format!("line{at}"), "text": "Hello"});
    let sequence = |activities: Vec<Value>| json!({"type": "Elsa.Sequence", "id": "steps", "activities": activities});
    let set = |at: usize| {
        json!({"type": "Elsa.SetVariable", "id": format!("set{at}"), "variable": {"id": "v", "name": "V"},
            "value": {"typeName": "Int32", "expression": {"type": "Literal", "value": 7}}})
    };
    let choose = |at: usize| {
        json!({"type": "Elsa.If", "id": format!("if{at}"), "then": line(at),
            "condition": {"typeName": "Boolean", "expression": {"type": "Literal", "value": true}}})
    };
    let of_script = |at: usize| {
        json!({"type": "Elsa.WriteLine", "id": format!("script{at}"),
            "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": "`V is ${variables.V + 1}`"}}})
    };
    let connections: Vec<Value> = (1..10)
        .map(|at| {
            json!({"source": {"activity": format!("line{}", at - 1), "port": "Done"},
                "target": {"activity": format!("line{at}"), "port": "In"}})
        })
        .collect();
    let each = json!({"type": "Elsa.ForEach", "id": "each", "body": line(0),
        "items": {"typeName": "Object[]", "expression": {"type": "Object", "value": "[1,2,3,4,5,6,7,8,9,10]"}}});
    let chart = |activities: Vec<Value>, connections: &[Value]| json!({"type": "Elsa.Flowchart", "id": "flow", "activities": activities, "connections": connections});
    [
        ("write-line", 1, line(0)),
        ("sequence, none", 1, sequence(Vec::new())),
        ("sequence, 10 write-line", 11, sequence(many(&line))),
        ("set-variable", 1, set(0)),
        ("sequence, 10 set-variable", 11, sequence(many(&set))),
        ("if, then write-line", 2, choose(0)),
        ("for-each over 10", 11, each),
        ("flowchart, 1 write-line", 2, chart(vec![line(0)], &[])),
        ("flowchart, 10 write-line", 11, chart(many(&line), &connections)),
        ("JavaScript, 1", 1, of_script(0)),
        ("JavaScript, 10 in sequence", 11, sequence(many(&of_script))),
    ]
}

/// Runs a new instance to its end in memory: state, journal and activity executions, ready to be committed.
#[divan::bench(args = bursts().map(|(name, ..)| name))]
fn burst(bencher: Bencher, name: &str) {
    let runtime = runtime();
    let interpreter = interpreter();
    let (_, executed, root) = bursts().into_iter().find(|(other, ..)| *other == name).unwrap();
    let definition = WorkflowDefinition::from_value(json!({"definitionId": "bench", "root": root,
        "variables": [{"id": "v", "name": "V", "typeName": "Int32", "value": 1}]}));
    let program = Arc::new(interpreter.compile(&definition.unwrap()).unwrap());
    let outcome = runtime.block_on(interpreter.run(&program, start()));
    finished(name, &outcome);
    // The workflow is an activity execution, too.
    assert_eq!(outcome.activity_executions.len(), executed + 1, "{name}");
    bencher
        .with_inputs(start)
        .counter(ItemsCount::new(executed + 1))
        .bench_local_values(|burst| runtime.block_on(interpreter.run(&program, burst)));
}

/// Nine uses of a workflow as an activity, against the same activities written out: a sequence with ten lines each.
#[divan::bench(args = ["nested", "written out"])]
fn nine_workflows(bencher: Bencher, form: &str) {
    let runtime = runtime();
    let interpreter = interpreter();
    let lines = |prefix: &str| -> Vec<Value> {
        (0..10)
            .map(|at| json!({"type": "Elsa.WriteLine", "id": format!("{prefix}line{at}"), "text": "Hello"}))
            .collect()
    };
    let steps = |id: &str, prefix: &str| json!({"type": "Elsa.Sequence", "id": id, "activities": lines(prefix)});
    let child = json!({"id": "child-1", "definitionId": "child", "name": "Child", "root": steps("steps", ""),
        "options": {"usableAsActivity": true}});
    let child = WorkflowDefinition::from_value(child).unwrap();
    let uses: Vec<Value> = (0..9)
        .map(|at| match form {
            "nested" => {
                json!({"type": "Child", "id": format!("use{at}"), "version": 1, "workflowDefinitionId": "child"})
            }
            _ => steps(&format!("use{at}"), &format!("{at}-")),
        })
        .collect();
    let root = json!({"type": "Elsa.Sequence", "id": "all", "activities": uses});
    let definition = WorkflowDefinition::from_value(json!({"definitionId": "bench", "root": root})).unwrap();
    let reference = WorkflowReference {
        definition_id: "child".into(),
        type_name: "Child".to_owned(),
        version_id: "".into(),
        version: 1,
    };
    let part = UsedVersion {
        references: References::new(),
        definition: child.clone(),
    };
    let composition = Composition {
        references: [(reference, child.id.clone())].into(),
        used: [(child.id, part)].into(),
    };
    let program = Arc::new(interpreter.compile_composed(&definition, &composition).unwrap());
    let outcome = runtime.block_on(interpreter.run(&program, start()));
    finished(form, &outcome);
    let own = if form == "nested" { 3 } else { 1 };
    assert_eq!(outcome.activity_executions.len(), 2 + 9 * (10 + own), "{form}");
    bencher
        .with_inputs(start)
        .bench_local_values(|burst| runtime.block_on(interpreter.run(&program, burst)));
}

/// The same for samples without bookmarks.
#[divan::bench(args = ["hello-world", "countdown", "shopping-list", "fork-join"])]
fn run_sample(bencher: Bencher, name: &str) {
    let runtime = runtime();
    let interpreter = interpreter();
    let program = program(name, &interpreter);
    let outcome = runtime.block_on(interpreter.run(&program, start()));
    finished(name, &outcome);
    bencher
        .with_inputs(start)
        .counter(ItemsCount::new(outcome.activity_executions.len()))
        .bench_local_values(|burst| runtime.block_on(interpreter.run(&program, burst)));
}

/// The activities of a flowchart in the next benchmark, without the workflow and the flowchart.
const CHART: usize = 1000;

/// Runs a flowchart of 1,000 activities by counts and with tokens: one after another, and in 250 forks of two branches that
/// come together again.
#[divan::bench(args = ["counter, chain", "token, chain", "counter, forks", "token, forks"])]
fn flowchart(bencher: Bencher, name: &str) {
    let runtime = runtime();
    let options = InterpreterOptions {
        console: Arc::new(Quiet),
        // All of it in one burst.
        activities_per_burst: 2 * CHART,
        ..InterpreterOptions::default()
    };
    let interpreter = Interpreter::new(Catalogue::standard(), options);
    let activities: Vec<Value> = (0..CHART)
        .map(|at| json!({"type": "Elsa.WriteLine", "id": format!("line{at}"), "text": "Hello"}))
        .collect();
    let pairs: Vec<(usize, usize)> = if name.ends_with("chain") {
        (1..CHART).map(|at| (at - 1, at)).collect()
    } else {
        let fork = |at: usize| {
            [
                (at, at + 1),
                (at, at + 2),
                (at + 1, at + 3),
                (at + 2, at + 3),
                (at + 3, at + 4),
            ]
        };
        let all = (0..CHART).step_by(4).flat_map(fork);
        all.filter(|(_, target)| *target < CHART).collect()
    };
    let end = |at: usize, port: &str| json!({"activity": format!("line{at}"), "port": port});
    let connections: Vec<Value> = pairs
        .into_iter()
        .map(|(source, target)| json!({"source": end(source, "Done"), "target": end(target, "In")}))
        .collect();
    let mode = if name.starts_with("token") {
        "TokenBased"
    } else {
        "CounterBased"
    };
    let definition = WorkflowDefinition::from_value(json!({"definitionId": "bench",
        "customProperties": {"Flowchart:ExecutionMode": mode},
        "root": {"type": "Elsa.Flowchart", "id": "flow", "activities": activities, "connections": connections}}));
    let program = Arc::new(interpreter.compile(&definition.unwrap()).unwrap());
    let outcome = runtime.block_on(interpreter.run(&program, start()));
    finished(name, &outcome);
    assert_eq!(outcome.activity_executions.len(), CHART + 2, "{name}");
    bencher
        .with_inputs(start)
        .counter(ItemsCount::new(CHART + 2))
        .bench_local_values(|burst| runtime.block_on(interpreter.run(&program, burst)));
}

fn program(name: &str, interpreter: &Interpreter) -> Arc<Program> {
    let definition = WorkflowDefinition::from_json(sample(name)).unwrap();
    Arc::new(interpreter.compile(&definition).unwrap())
}

/// Asserts that the workflow has finished: a faulted one would be faster.
fn finished(name: &str, outcome: &BurstResult) {
    assert_eq!(
        outcome.sub_status,
        SubStatus::Finished,
        "{name}: {:?}",
        outcome.state.incidents()
    );
}

/// Serializes the whole state of an instance; a commit then cuts off what the columns of the row have.
#[divan::bench]
fn state_to_bytes(bencher: Bencher) {
    let state = state();
    bencher
        .counter(BytesCount::new(state.to_bytes().unwrap().len()))
        .bench(|| state.to_bytes());
}

#[divan::bench]
fn state_from_bytes(bencher: Bencher) {
    let bytes = state().to_bytes().unwrap();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| InstanceState::from_bytes(divan::black_box(&bytes)));
}

/// Parses numbers as a state or a request has them. They are read exactly: fractions of seventeen digits cost a sixth more than
/// rough ones would, all others what they did.
#[divan::bench(args = ["fractions", "prices", "whole numbers"])]
fn parse_numbers(bencher: Bencher, name: &str) {
    let number = |at: u32| match name {
        "fractions" => json!(f64::from(at) * 0.1 * 1.4),
        "prices" => json!(f64::from(at * 7) / 100.0),
        _ => json!(at),
    };
    let text = (0..4000).map(number).collect::<Value>().to_string();
    let parse = || serde_json::from_str::<Value>(divan::black_box(&text));
    assert!(parse().is_ok_and(|value| value.is_array()), "{name}");
    bencher.counter(BytesCount::of_str(&text)).bench(parse);
}

/// The state of an order that waits for its approval.
fn state() -> InstanceState {
    let interpreter = interpreter();
    let program = program("order-approval", &interpreter);
    let outcome = runtime().block_on(interpreter.run(&program, start()));
    assert_eq!(
        outcome.sub_status,
        SubStatus::Suspended,
        "{:?}",
        outcome.state.incidents()
    );
    outcome.state
}

/// Evaluates one expression, with the way to a script thread and back. `first` creates the realm, as each burst does
/// once; `next` reuses it.
mod script {
    use super::*;

    const EXPRESSION: &str = "variables.Price * variables.Count > getInput('Limit')";

    fn scope() -> ScriptScope {
        let fields = |value: Value| match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        ScriptScope {
            variables: fields(json!({"Price": 12.5, "Count": 3})),
            inputs: fields(json!({"Limit": 30})),
            ..ScriptScope::default()
        }
    }

    #[divan::bench]
    fn first(bencher: Bencher) {
        let runtime = runtime();
        let engine = ScriptEngine::new(ScriptOptions::default());
        bencher.with_inputs(scope).bench_local_values(|scope| {
            let result = runtime.block_on(engine.session().evaluate(EXPRESSION, scope));
            assert!(result.is_ok_and(|result| result.value == true));
        });
    }

    #[divan::bench]
    fn next(bencher: Bencher) {
        let runtime = runtime();
        let session = ScriptEngine::new(ScriptOptions::default()).session();
        bencher.with_inputs(scope).bench_local_values(|scope| {
            let result = runtime.block_on(session.evaluate(EXPRESSION, scope));
            assert!(result.is_ok_and(|result| result.value == true));
        });
    }
}

/// The hash of an event.
#[divan::bench]
fn hash_of_event() -> StimulusHash {
    event_hash(divan::black_box("OrderApproved"))
}

/// The hash of a payload whose keys need sorting, for one activity execution.
#[divan::bench]
fn hash_of_stimulus(bencher: Bencher) {
    let payload = json!({"zone": "north", "order": {"number": 4711, "lines": [1, 2, 3]}, "amount": 12.5});
    let execution = ActivityExecutionId::new("0123456789abcdef0123456789abcdef");
    bencher.bench(|| stimulus_hash("Shop.OrderPaid", divan::black_box(&payload), Some(&execution)));
}

/// Discards all lines: the terminal is not measured.
struct Quiet;

impl Console for Quiet {
    fn write_line(&self, line: &str) {
        divan::black_box(line);
    }
}

fn interpreter() -> Interpreter {
    let options = InterpreterOptions {
        console: Arc::new(Quiet),
        ..InterpreterOptions::default()
    };
    Interpreter::new(Catalogue::standard(), options)
}

/// A runtime with one thread for bursts; scripts have their own threads.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn start() -> Burst {
    Burst {
        instance_id: InstanceId::random(),
        state: None,
        instructions: vec![Instruction::Start {
            correlation_id: None,
            name: None,
            input: Map::new(),
            variables: Map::new(),
            trigger_activity_id: None,
            payload: None,
            parent: None,
            request: None,
        }],
        attempt: 1,
        is_followed: false,
        trace: None,
        now: DateTime::<Utc>::UNIX_EPOCH,
        child_seed: 0,
        origins: Vec::new(),
    }
}
