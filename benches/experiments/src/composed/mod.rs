//! `composed`: what workflows are made of: children, workflows as activities, flowcharts with tokens, loops with a script, and
//! executes beside scripts that never end.
//!
//! A mode with a baseline runs both in alternation, after one round of each to warm up, and reports medians: what is slow on a
//! shared machine for a while is slow for both.

mod definitions;
mod hostile;

use std::time::{Duration, Instant};

use mainspring::Engine;
use mainspring::definition::WorkflowDefinition;
use mainspring::id::InstanceId;
use mainspring::internals::{
    Failure, ScratchDatabase, Target, count_violations, describe_environment, name_of, nearest_rank, print_line,
    unless_stopped, with_schema,
};
use serde_json::{Value, json};

use crate::engines::{EngineOptions, finished, start, wait_for};
use crate::settings::{Composed, Composition};
use definitions::{chart, child, counting_loop, line, nine, parent, part};

/// The measured rounds of a mode with a baseline.
const ROUNDS: usize = 3;

/// What was measured, in workflows (children, executes) per second.
struct Found {
    instances: usize,
    took: Duration,
    per_second: f64,
    baseline: Option<f64>,
    /// Of executes in milliseconds: measured, and of the baseline.
    p99: Option<[f64; 2]>,
    lost: u64,
    errors: usize,
}

pub(crate) async fn run(target: &Target, settings: &Composed) -> Result<(), Failure> {
    let environment = describe_environment(target.database_url()?).await?;
    let (found, violations) = with_schema(target, async |scratch, stop| {
        let found = unless_stopped(stop, measure(scratch, settings)).await?;
        Ok((found, count_violations(scratch).await?))
    })
    .await?;
    report(settings, &environment, &found, violations)
}

async fn measure(scratch: &ScratchDatabase, settings: &Composed) -> Result<Found, Failure> {
    let default = match settings.mode {
        Composition::Bulk | Composition::BulkPorts | Composition::ScriptLoop => 10_000,
        Composition::Nested => 3_000,
        Composition::Tokens => 300,
        Composition::Loop | Composition::Hostile => 1_000,
    };
    let count = settings.instances.unwrap_or(default);
    let save = |definition: Value| {
        let definition = WorkflowDefinition::from_value(definition)?;
        Ok::<_, Failure>(settings.options.apply(definition))
    };
    let options = EngineOptions::new(scratch, settings.nodes);
    match settings.mode {
        Composition::Nested => {
            let both = [save(nine(true))?, save(nine(false))?];
            against(&options, &[save(part())?], both, count).await
        }
        Composition::Tokens => {
            let both = [save(chart("TokenBased"))?, save(chart("CounterBased"))?];
            against(&options, &[], both, count).await
        }
        Composition::ScriptLoop => {
            let both = [save(counting_loop(count, false))?, save(counting_loop(count, true))?];
            with_engine(&options, &both, async |engine| of_iterations(engine, count).await).await
        }
        Composition::Hostile => {
            let options = options.script_time_limit(hostile::TIME_LIMIT);
            let mut all: Vec<_> = hostile::definitions().map(save).collect::<Result<_, _>>()?;
            all.push(save(json!({"definitionId": "bench", "root": line("line")}))?);
            with_engine(&options, &all, async |engine| beside_hostile(engine, settings).await).await
        }
        Composition::Bulk | Composition::BulkPorts => {
            let both = [save(child())?, save(parent(settings.mode, count))?];
            with_engine(&options, &both, async |engine| of_one_parent(engine, count).await).await
        }
        Composition::Loop => {
            let both = [save(child())?, save(parent(settings.mode, count))?];
            with_engine(&options, &both, async |engine| in_a_loop(engine, count).await).await
        }
    }
}

/// Measures at the first of the engines, which have the definitions, and ends them.
async fn with_engine(
    options: &EngineOptions,
    definitions: &[WorkflowDefinition],
    measure: impl AsyncFnOnce(&Engine) -> Result<Found, Failure>,
) -> Result<Found, Failure> {
    let engines = options.start().await?;
    engines.publish(definitions).await?;
    let measured = measure(engines.first()?).await;
    engines.end().await;
    measured
}

fn report(settings: &Composed, environment: &[String], found: &Found, violations: usize) -> Result<(), Failure> {
    let Found {
        instances,
        took,
        per_second,
        baseline,
        p99,
        lost,
        errors,
    } = found;
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
            "bench": "composed",
            "mode": name_of(settings.mode),
            "commit": name_of(settings.options.commit),
            "journal": name_of(settings.options.journal),
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
async fn against(
    options: &EngineOptions,
    parts: &[WorkflowDefinition],
    both: [WorkflowDefinition; 2],
    count: usize,
) -> Result<Found, Failure> {
    let mut rates = [Vec::new(), Vec::new()];
    let mut found = Found::empty(count);
    for round in 0..=ROUNDS {
        for (definition, rates) in both.iter().zip(&mut rates) {
            let count = if round == 0 { count.div_ceil(10) } else { count };
            let idle = options.start_idle().await?;
            idle.publish(parts).await?;
            idle.publish(std::slice::from_ref(definition)).await?;
            idle.dispatch(count).await?;
            idle.end().await;
            let (began, wanted) = (Instant::now(), finished() + count as u64);
            let engines = options.start().await?;
            wait_for(wanted).await;
            let took = began.elapsed();
            let lost = wanted.saturating_sub(finished());
            engines.end().await;
            found.lost += lost;
            if round > 0 {
                rates.push((count as u64 - lost) as f64 / took.as_secs_f64());
            }
        }
    }
    let [measured, baseline] = rates.map(|rates| nearest_rank(&rates, 50));
    Ok(found.at(measured, Some(baseline)))
}

/// From the dispatch of a parent to the end of all of its children and of itself.
async fn of_one_parent(engine: &Engine, count: usize) -> Result<Found, Failure> {
    let mut found = Found::empty(count);
    found.took = run_parent(engine, count, 0, &mut found).await?;
    found.per_second = count as f64 / found.took.as_secs_f64();
    Ok(found)
}

/// A loop that executes a workflow, against a client that executes it as often.
async fn in_a_loop(engine: &Engine, count: usize) -> Result<Found, Failure> {
    let mut rates = [Vec::new(), Vec::new()];
    let mut found = Found::empty(count);
    for round in 0..=ROUNDS {
        let took = run_parent(engine, count, round, &mut found).await?;
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
async fn of_iterations(engine: &Engine, count: usize) -> Result<Found, Failure> {
    let mut rates = [Vec::new(), Vec::new()];
    let mut found = Found::empty(count);
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
async fn beside_hostile(engine: &Engine, settings: &Composed) -> Result<Found, Failure> {
    let (mut rates, mut p99) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut found = Found::empty(0);
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

async fn run_parent(engine: &Engine, count: usize, round: usize, found: &mut Found) -> Result<Duration, Failure> {
    let id = InstanceId::new(format!("parent-{round}"));
    let wanted = finished() + count as u64 + 1;
    let began = Instant::now();
    engine.dispatch(start("bench", Some(id.clone()))).await?;
    wait_for(wanted).await;
    let took = began.elapsed();
    found.lost += wanted.saturating_sub(finished());
    let state = engine.instance_execution_state(&id).await?;
    found.errors += usize::from(state.sub_status != "Finished");
    Ok(took)
}

impl Found {
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
