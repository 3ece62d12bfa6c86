//! The modes that measure what workflows are made of: children, workflows as activities, flowcharts with tokens, and loops with
//! a script.
//!
//! A mode with a baseline runs both in alternation, after one round of each to warm up, and reports medians: what is slow on a
//! shared machine for a while is slow for both.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::engines::{EngineGroup, start};
use super::{Scenario, hostile, load, with_options};
use crate::bench::report::nearest_rank;
use crate::bench::settings::{BenchWorkflows, Mode, name_of};
use crate::definition::WorkflowDefinition;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::id::InstanceId;
use crate::runtime::Engine;

/// The measured rounds of a mode with a baseline.
const ROUNDS: usize = 3;

/// How many workflows as activities the workflow of the mode `nested` has, and how many lines each of them.
const NESTED: (usize, usize) = (9, 10);

/// The activities of the flowchart of the mode `tokens`.
const CHART: usize = 1000;

/// What was measured, in workflows (children, executes) per second.
pub(super) struct Composed {
    instances: usize,
    took: Duration,
    per_second: f64,
    baseline: Option<f64>,
    /// Of executes in milliseconds: measured, and of the baseline.
    p99: Option<[f64; 2]>,
    lost: u64,
    errors: usize,
}

pub(super) async fn measure(mut scenario: Scenario, settings: &BenchWorkflows) -> Result<Composed, Failure> {
    let default = match settings.mode {
        Mode::Bulk | Mode::BulkPorts => 10_000,
        Mode::Nested => 3_000,
        Mode::Tokens => 300,
        Mode::ScriptLoop => 10_000,
        _ => 1_000,
    };
    let count = settings.instances.unwrap_or(default);
    let save = |definition: Value| with_options(WorkflowDefinition::from_value(definition)?, settings);
    match settings.mode {
        Mode::Nested => {
            scenario.parts = vec![save(part())?];
            let both = [save(nine(true))?, save(nine(false))?];
            against(scenario, both, count).await
        }
        Mode::Tokens => {
            let both = [save(chart("TokenBased"))?, save(chart("CounterBased"))?];
            against(scenario, both, count).await
        }
        Mode::ScriptLoop => {
            scenario.parts = vec![save(counting_loop(count, false))?];
            scenario.definition = save(counting_loop(count, true))?;
            with_engine(&scenario, async |engine| of_iterations(engine, count).await).await
        }
        Mode::Hostile => {
            scenario.script_time_limit = Some(hostile::TIME_LIMIT);
            scenario.parts = hostile::definitions().map(save).collect::<Result<_, _>>()?;
            scenario.definition = save(json!({"definitionId": "bench", "root": line("line")}))?;
            with_engine(&scenario, async |engine| beside_hostile(engine, settings).await).await
        }
        _ => {
            scenario.parts = vec![save(child())?];
            scenario.definition = save(parent(settings.mode, count))?;
            let is_loop = settings.mode == Mode::Loop;
            with_engine(&scenario, async |engine| match is_loop {
                true => in_a_loop(&scenario, engine, count).await,
                false => of_one_parent(&scenario, engine, count).await,
            })
            .await
        }
    }
}

/// Measures at the first engine of a group that has the definitions, and ends the group.
async fn with_engine(
    scenario: &Scenario,
    measure: impl AsyncFnOnce(&Engine) -> Result<Composed, Failure>,
) -> Result<Composed, Failure> {
    let group = EngineGroup::engines(scenario, scenario.nodes, None).await?;
    group.publish(scenario).await?;
    let measured = match group.all_engines().first() {
        Some(engine) => measure(engine).await,
        None => Err(Failure::failed("no engine was started")),
    };
    group.end().await;
    measured
}

pub(super) fn report(
    settings: &BenchWorkflows,
    environment: &[String],
    measured: &Composed,
    violations: usize,
) -> Result<(), Failure> {
    let Composed {
        instances,
        took,
        per_second,
        baseline,
        p99,
        lost,
        errors,
    } = measured;
    let errors = errors + violations;
    let hundredths = |number: f64| (number * 100.0).round() / 100.0;
    let ratio = baseline.map(|baseline| (per_second / baseline * 1e3).round() / 1e3);
    print_line(&format!(
        "{}, {} nodes: {per_second:.1}/s, {instances} in {:.3} s",
        name_of(settings.mode),
        settings.nodes,
        took.as_secs_f64()
    ));
    environment.iter().for_each(|line| print_line(line));
    if let (Some(baseline), Some(ratio)) = (baseline, ratio) {
        print_line(&format!(
            "{ratio} times the {baseline:.1}/s of the baseline, medians of {ROUNDS} rounds"
        ));
    }
    let p99_ratio = p99.map(|[measured, baseline]| hundredths(measured / baseline));
    if let (Some([measured, baseline]), Some(ratio)) = (p99, p99_ratio) {
        print_line(&format!(
            "p99 {measured:.2} ms, {ratio} times the {baseline:.2} ms of the baseline, medians of {ROUNDS} rounds"
        ));
    }
    print_line(&format!("{lost} lost, {errors} errors"));
    if settings.json {
        let report = json!({
            "bench": "workflows",
            "mode": name_of(settings.mode),
            "commit": name_of(settings.commit),
            "journal": name_of(settings.journal),
            "nodes": settings.nodes,
            "instances": instances,
            "took_s": (took.as_secs_f64() * 1e3).round() / 1e3,
            "ops_per_s": hundredths(*per_second),
            "baseline_ops_per_s": baseline.map(hundredths),
            "ratio": ratio,
            "p99_ms": p99.map(|[measured, _]| hundredths(measured)),
            "baseline_p99_ms": p99.map(|[_, baseline]| hundredths(baseline)),
            "p99_ratio": p99_ratio,
            "lost": lost,
            "errors": errors,
        });
        print_line(&report.to_string());
    }
    if *lost > 0 || errors > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

/// One definition against another one: all instances are dispatched before any worker runs.
async fn against(mut scenario: Scenario, both: [WorkflowDefinition; 2], count: usize) -> Result<Composed, Failure> {
    let mut rates = [Vec::new(), Vec::new()];
    let mut found = Composed::empty(count);
    for round in 0..=ROUNDS {
        for (definition, rates) in both.iter().zip(&mut rates) {
            scenario.definition = definition.clone();
            scenario.mode = Mode::Dispatch;
            let count = if round == 0 { count.div_ceil(10) } else { count };
            let outcome = load::run(&scenario, 1, Some(count)).await?;
            found.lost += outcome.lost;
            found.errors += outcome.errors;
            if round > 0 {
                rates.push(outcome.done as f64 / outcome.took.as_secs_f64());
            }
        }
    }
    let [measured, baseline] = rates.map(|rates| nearest_rank(&rates, 50));
    Ok(found.at(measured, Some(baseline)))
}

/// From the dispatch of a parent to the end of all of its children and of itself.
async fn of_one_parent(scenario: &Scenario, engine: &Engine, count: usize) -> Result<Composed, Failure> {
    let mut found = Composed::empty(count);
    found.took = run_parent(scenario, engine, count, 0, &mut found).await?;
    found.per_second = count as f64 / found.took.as_secs_f64();
    Ok(found)
}

/// A loop that executes a workflow, against a client that executes it as often.
async fn in_a_loop(scenario: &Scenario, engine: &Engine, count: usize) -> Result<Composed, Failure> {
    let mut rates = [Vec::new(), Vec::new()];
    let mut found = Composed::empty(count);
    for round in 0..=ROUNDS {
        let took = run_parent(scenario, engine, count, round, &mut found).await?;
        let began = Instant::now();
        for _ in 0..count {
            let executed = engine.execute(start("bench-child", None)).await?;
            found.errors += usize::from(executed.sub_status() != Some("Finished"));
        }
        if round > 0 {
            for (rates, took) in rates.iter_mut().zip([took, began.elapsed()]) {
                rates.push(count as f64 / took.as_secs_f64());
            }
        }
    }
    let [measured, baseline] = rates.map(|rates| nearest_rank(&rates, 50));
    Ok(found.at(measured, Some(baseline)))
}

/// A loop with a script, against one without.
async fn of_iterations(engine: &Engine, count: usize) -> Result<Composed, Failure> {
    let mut rates = [Vec::new(), Vec::new()];
    let mut found = Composed::empty(count);
    for round in 0..=ROUNDS {
        for (definition, rates) in ["bench", "bench-child"].into_iter().zip(&mut rates) {
            let began = Instant::now();
            let executed = engine.execute(start(definition, None)).await?;
            found.errors += usize::from(executed.sub_status() != Some("Finished"));
            if round > 0 {
                rates.push(count as f64 / began.elapsed().as_secs_f64());
            }
        }
    }
    let [measured, baseline] = rates.map(|rates| nearest_rank(&rates, 50));
    Ok(found.at(measured, Some(baseline)))
}

/// Executes beside hostile workflows, against executes alone.
async fn beside_hostile(engine: &Engine, settings: &BenchWorkflows) -> Result<Composed, Failure> {
    let (mut rates, mut p99) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut found = Composed::empty(0);
    for round in 0..=ROUNDS {
        let time = Duration::from_secs(if round == 0 { 1 } else { settings.seconds as u64 });
        for ((is_hostile, rates), p99) in [true, false].into_iter().zip(&mut rates).zip(&mut p99) {
            let executes = hostile::run(engine, settings.clients, time, is_hostile).await?;
            found.errors += executes.errors;
            if round > 0 {
                found.instances += executes.hostile;
                rates.push(executes.per_second);
                p99.push(executes.p99);
            }
        }
    }
    let [measured, baseline] = rates.map(|rates| nearest_rank(&rates, 50));
    found.p99 = Some(p99.map(|times| nearest_rank(&times, 50)));
    found.took = Duration::from_secs((ROUNDS * settings.seconds) as u64);
    (found.per_second, found.baseline) = (measured, Some(baseline));
    Ok(found)
}

async fn run_parent(
    scenario: &Scenario,
    engine: &Engine,
    count: usize,
    round: usize,
    found: &mut Composed,
) -> Result<Duration, Failure> {
    let id = InstanceId::new(format!("parent-{round}"));
    let wanted = scenario.finished() + count as u64 + 1;
    let began = Instant::now();
    engine.dispatch(start("bench", Some(id.clone()))).await?;
    scenario.wait_for(wanted).await;
    let took = began.elapsed();
    found.lost += wanted.saturating_sub(scenario.finished());
    let state = engine.instance_execution_state(&id).await?;
    found.errors += usize::from(state.sub_status != "Finished");
    Ok(took)
}

impl Composed {
    fn empty(instances: usize) -> Self {
        Self {
            instances,
            took: Duration::ZERO,
            per_second: 0.0,
            baseline: None,
            p99: None,
            lost: 0,
            errors: 0,
        }
    }

    fn at(self, per_second: f64, baseline: Option<f64>) -> Self {
        Self {
            took: Duration::from_secs_f64(self.instances as f64 / per_second.max(f64::MIN_POSITIVE)),
            per_second,
            baseline,
            ..self
        }
    }
}

fn line(id: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": id, "text": "Hello from Mainspring!"})
}

fn literal(type_name: &str, value: &Value) -> Value {
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}})
}

/// The workflow that a parent starts.
fn child() -> Value {
    json!({"definitionId": "bench-child", "root": line("line")})
}

fn parent(mode: Mode, count: usize) -> Value {
    let named = literal("String", &"bench-child".into());
    let waits = literal("Boolean", &true.into());
    let root = if mode == Mode::Loop {
        json!({"type": "Elsa.For", "id": "loop", "start": literal("Int32", &1.into()),
            "end": literal("Int32", &count.into()),
            "body": {"type": "Elsa.ExecuteWorkflow", "id": "run", "workflowDefinitionId": named, "waitForCompletion": waits}})
    } else {
        let items: Vec<usize> = (0..count).collect();
        let mut bulk = json!({"type": "Elsa.BulkDispatchWorkflows", "id": "bulk", "workflowDefinitionId": named,
            "items": literal("Object", &items.into()), "waitForCompletion": waits});
        if let (Mode::BulkPorts, Value::Object(fields)) = (mode, &mut bulk) {
            let set = json!({"type": "Elsa.SetVariable", "id": "set", "value": literal("Object", &1.into()),
                "variable": {"id": "v", "name": "V", "typeName": "Object"}});
            fields.insert("childCompleted".to_owned(), set);
        }
        bulk
    };
    json!({"definitionId": "bench", "root": root, "variables": [{"id": "v", "name": "V", "typeName": "Object"}]})
}

/// A loop that sets a variable in each iteration.
fn counting_loop(count: usize, has_script: bool) -> Value {
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

fn part() -> Value {
    json!({"definitionId": "bench-part", "name": "BenchPart", "options": {"usableAsActivity": true},
        "root": steps("steps", "")})
}

/// The same activities, nested or written out.
fn nine(is_nested: bool) -> Value {
    let uses: Vec<Value> = (0..NESTED.0)
        .map(|at| match is_nested {
            true => json!({"type": "BenchPart", "id": format!("use{at}"), "version": 1,
                "workflowDefinitionId": "bench-part"}),
            false => steps(&format!("use{at}"), &format!("{at}-")),
        })
        .collect();
    json!({"definitionId": "bench", "root": {"type": "Elsa.Sequence", "id": "all", "activities": uses}})
}

/// A flowchart of activities one after the other.
fn chart(mode: &str) -> Value {
    let lines: Vec<Value> = (0..CHART).map(|at| line(&format!("line{at}"))).collect();
    let end = |at: usize, port: &str| json!({"activity": format!("line{at}"), "port": port});
    let connections: Vec<Value> = (1..CHART)
        .map(|at| json!({"source": end(at - 1, "Done"), "target": end(at, "In")}))
        .collect();
    json!({"definitionId": "bench", "customProperties": {"Flowchart:ExecutionMode": mode},
        "root": {"type": "Elsa.Flowchart", "id": "flow", "activities": lines, "connections": connections}})
}
