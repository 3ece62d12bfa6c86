//! Many slow scripts at once: quick scripts still run, and none is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_language::Steps;
use serde_json::json;

use crate::compute::half_of_processors;
use crate::expression::ScriptErrorKind::{Busy, Timeout};
use crate::expression::script::{Evaluated, EvaluationResult, ScriptError};
use crate::expression::{ScriptEngine, ScriptOptions, ScriptScope, WorkflowFacts};
use crate::id::{InstanceId, VersionId};

/// Longer than any step takes on a busy machine, and shorter than the time limit of the loops.
const TIMEOUT: Duration = Duration::from_secs(60);

const LOOP: &str = "while (true) {}";

fn engine(options: ScriptOptions) -> Arc<ScriptEngine> {
    Arc::new(ScriptEngine::new(options))
}

fn of(definition: &str, instance: &str) -> ScriptScope {
    ScriptScope {
        workflow: WorkflowFacts {
            definition_id: definition.to_owned(),
            definition_version_id: format!("{definition}:1"),
            instance_id: instance.to_owned(),
            ..WorkflowFacts::default()
        },
        ..ScriptScope::default()
    }
}

fn begin(engine: &Arc<ScriptEngine>, script: &str, scope: ScriptScope) -> tokio::task::JoinHandle<EvaluationResult> {
    let (engine, script) = (Arc::clone(engine), script.to_owned());
    tokio::spawn(async move { engine.session().evaluate(&script, scope).await })
}

async fn evaluate_one_plus_one(engine: &ScriptEngine, scope: ScriptScope) -> Duration {
    let began = Instant::now();
    let session = engine.session();
    let two = tokio::time::timeout(TIMEOUT, session.evaluate("1 + 1", scope)).await;
    assert_eq!(two.expect("in time").expect("result").value, json!(2));
    began.elapsed()
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < TIMEOUT, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn loops_do_not_block_other_scripts() {
    let engine = engine(ScriptOptions {
        time_limit: TIMEOUT * 10,
        ..ScriptOptions::default()
    });
    // Of one definition, more than it may have slots; and of as many others.
    let many: Vec<String> = (0..12)
        .map(|n| format!("other {n}"))
        .chain(vec!["one".to_owned(); 12])
        .collect();
    let loops: Vec<_> = many
        .iter()
        .map(|definition| begin(&engine, LOOP, of(definition, "i")))
        .collect();
    until("slow", || engine.slow() == (12 + 8, 4)).await;
    for definition in ["quick", "one"] {
        for _ in 0..10 {
            evaluate_one_plus_one(&engine, of(definition, "quick")).await;
        }
    }
    // Dropped scripts release their slots, also while they wait for a time slice.
    for each in loops {
        assert!(!each.is_finished());
        each.abort();
    }
    until("nothing runs", || engine.slow() == (0, 0)).await;
}

/// The time limit counts only the time in which a script ran, and a preempted script runs again.
#[tokio::test]
async fn the_memory_of_all_scripts_bounds_the_slow_ones() {
    let one = ScriptOptions::default().memory_limit;
    let engine = engine(ScriptOptions {
        threads: 1,
        total_memory: 4 * one,
        time_limit: TIMEOUT * 10,
        ..ScriptOptions::default()
    });
    let loops: Vec<_> = (0..6)
        .map(|n| begin(&engine, LOOP, of(&format!("definition {n}"), "i")))
        .collect();
    // One heap is for the thread of the queue, and one for the other languages.
    until("slow", || engine.slow() == (2, 4)).await;
    evaluate_one_plus_one(&engine, of("quick", "i")).await;
    for each in loops {
        each.abort();
    }
    until("released", || engine.slow() == (0, 0)).await;
}

#[tokio::test]
async fn slow_scripts_run_to_their_end() {
    let engine = engine(ScriptOptions {
        threads: 1,
        slow_threads: 2,
        time_limit: Duration::from_secs(20),
        ..ScriptOptions::default()
    });
    let busy = "const until = Date.now() + 300; let n = 0; while (Date.now() < until) n++; setVariable('v', 1); 'done'";
    let all: Vec<_> = (0..6)
        .map(|n| begin(&engine, busy, of(&format!("{}", n % 2), &n.to_string())))
        .collect();
    for each in all {
        let result = tokio::time::timeout(TIMEOUT, each)
            .await
            .expect("in time")
            .expect("task")
            .expect("result");
        assert_eq!(result.value, json!("done"));
        assert_eq!(result.changes.variables, [("v".to_owned(), json!(1))]);
    }
    until("nothing runs", || engine.slow() == (0, 0)).await;
}

#[tokio::test]
async fn a_script_without_a_free_slot_is_deferred_without_a_fault() {
    let engine = engine(ScriptOptions {
        threads: 1,
        slow_threads: 1,
        queue: 1,
        time_limit: TIMEOUT * 10,
        ..ScriptOptions::default()
    });
    let running = begin(&engine, LOOP, of("a", "1"));
    until("one runs", || engine.slow() == (1, 0)).await;
    let waiting = begin(&engine, LOOP, of("b", "1"));
    until("one waits", || engine.slow() == (1, 1)).await;
    let session = engine.session();
    let error = session.evaluate(LOOP, of("c", "1")).await.expect_err("no slot");
    assert_eq!(error.kind, Busy, "{error}");
    assert!(session.deferral().is_some_and(|pause| pause >= Duration::from_secs(1)));
    evaluate_one_plus_one(&engine, of("c", "1")).await;
    running.abort();
    until("the other one runs", || engine.slow() == (1, 0)).await;
    waiting.abort();
    until("nothing runs", || engine.slow() == (0, 0)).await;
}

#[tokio::test]
async fn a_version_whose_scripts_time_out_has_one_slow_script_at_a_time() {
    let limit = Duration::from_secs(2);
    let engine = engine(ScriptOptions {
        time_limit: limit,
        ..ScriptOptions::default()
    });
    for n in 0..5 {
        let error = engine
            .session()
            .evaluate(LOOP, of("bad", &n.to_string()))
            .await
            .expect_err("endless");
        assert_eq!(error.kind, Timeout, "{error}");
    }
    let asks = |instance: &str| engine.deferral(&VersionId::new("bad:1"), &InstanceId::new(instance));
    // The slot of the version is taken for the time limit.
    let first = begin(&engine, LOOP, of("bad", "x"));
    until("one is slow", || engine.slow() == (1, 0)).await;
    let session = engine.session();
    let error = session.evaluate(LOOP, of("bad", "y")).await.expect_err("no slot");
    assert_eq!(error.kind, Busy, "{error}");
    assert!(session.deferral().is_some_and(|pause| pause >= Duration::from_secs(5)));
    assert!(asks("y").is_some(), "it was deferred, and another one runs");
    assert_eq!(first.await.expect("task").expect_err("endless").kind, Timeout);
    assert!(asks("x").is_none(), "it has its result");
    assert!(asks("z").is_none(), "it was never deferred");
    evaluate_one_plus_one(&engine, of("bad", "z")).await;
    // A slow script that succeeds closes the breaker.
    let busy = "const until = Date.now() + 100; while (Date.now() < until); 1";
    engine.session().evaluate(busy, of("bad", "z")).await.expect("result");
    assert!(asks("y").is_none());
}

/// Nothing polls the callers of the scripts that hang, as if they had left: who waits for a turn finds them.
#[tokio::test]
async fn a_script_that_hangs_holds_no_turn_of_another_language() {
    // As many hang as there are turns, and with eight the process is to end.
    if half_of_processors() >= 8 {
        return;
    }
    let engine = engine(ScriptOptions {
        threads: half_of_processors(),
        slow_threads: 4 * half_of_processors(),
        time_limit: Duration::from_millis(500),
        ..ScriptOptions::default()
    });
    let hang = "const until = Date.now() + 60; while (Date.now() < until); (2n ** 1048000n - 1n).toString().length";
    let sessions: Vec<_> = (0..half_of_processors()).map(|_| engine.session()).collect();
    let mut callers = Vec::new();
    for (n, session) in sessions.iter().enumerate() {
        let mut caller = Box::pin(session.evaluate(hang, of(&n.to_string(), "i")));
        assert!(futures_util::poll!(caller.as_mut()).is_pending());
        callers.push(caller);
    }
    let (session, observed) = (engine.session(), Arc::clone(&engine));
    let other = of("other", "i").workflow;
    let work = move |steps: &dyn Steps| {
        while observed.hanging() < half_of_processors() {
            let stopped = |stopped| ScriptError::new(Timeout, format!("{stopped:?}"));
            steps.check().map_err(stopped)?;
        }
        Ok(Evaluated::default())
    };
    session.run_long("L", &other, None, || work).await.expect("a turn");
}

/// Ten scripts that cannot be interrupted for some seconds, while eight threads may be abandoned: a script without a thread is deferred.
#[tokio::test]
async fn quick_scripts_do_not_fault_while_all_threads_hang() {
    let engine = engine(ScriptOptions {
        threads: 10,
        slow_threads: 1,
        time_limit: Duration::from_millis(200),
        ..ScriptOptions::default()
    });
    let hang = "(2n ** 1048000n - 1n).toString().length";
    let hanging: Vec<_> = (0..10).map(|n| begin(&engine, hang, of(&n.to_string(), "i"))).collect();
    for each in hanging {
        let ended = each.await.expect("task").expect_err("it takes longer than that");
        assert_eq!(ended.kind, Timeout, "{ended}");
    }
    let quick: Vec<_> = (0..10)
        .map(|n| begin(&engine, "1 + 1", of(&n.to_string(), "j")))
        .collect();
    let (mut answered, mut deferred) = (0, 0);
    for each in quick {
        match each.await.expect("task") {
            Ok(two) => {
                assert_eq!(two.value, json!(2));
                answered += 1;
            }
            Err(error) => {
                assert_eq!(error.kind, Busy, "{error}");
                deferred += 1;
            }
        }
    }
    println!("{answered} were answered, {deferred} deferred");
    let began = Instant::now();
    while engine.session().evaluate("1 + 1", of("x", "k")).await.is_err() {
        assert!(began.elapsed() < TIMEOUT, "the threads have come back");
    }
}
