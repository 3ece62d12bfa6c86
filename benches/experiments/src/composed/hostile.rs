//! The mode `hostile`: executes of one line while other workflows run scripts that never end, or take all the memory they can get.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mainspring::internals::{Failure, nearest_rank};
use serde_json::{Value, json};
use tokio::task::{JoinError, JoinSet};

use crate::engines::start;
use mainspring::Engine;

/// The time limit of scripts, shorter than the default so that more of them run to it.
pub(super) const TIME_LIMIT: Duration = Duration::from_millis(500);

/// The clients that start hostile workflows, each one after another.
const CLIENTS: usize = 8;

/// Expression types and expressions, each of a workflow of its own.
const SCRIPTS: [(&str, &str); 32] = [
    ("JavaScript", "while (true) {}"),
    ("JavaScript", "/(a+)+$/.test('a'.repeat(40) + 'b')"),
    ("JavaScript", "[...('x'.repeat(99999)).matchAll(/(x+x+)+y/g)]"),
    ("JavaScript", "const a = []; while (true) a.push({x: [1, 2, 3]})"),
    ("JavaScript", "let s = 'x'; while (true) s += s + 'y'"),
    (
        "JavaScript",
        "const a = []; while (true) try { a.push(new Uint8Array(1e6)) } catch (e) {}",
    ),
    ("JavaScript", "function f() { try { f() } catch (e) { f() } } f()"),
    ("JavaScript", "while (true) try { while (true) {} } catch (e) {}"),
    ("JavaScript", "(async () => { while (true) await null })()"),
    (
        "JavaScript",
        "while (true) Array.from({length: 1e4}, Math.random).sort()",
    ),
    ("JavaScript", "function* g() { while (true) yield 1 } [...g()]"),
    ("JavaScript", "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)"),
    ("JavaScript", "let x = 7n ** 350000n; while (true) x.toString()"),
    ("JavaScript", "while (true) 'x'.repeat(1e5).normalize('NFKD')"),
    ("JavaScript", "const o = {}; for (let i = 0; ; i++) o['k' + i] = i"),
    ("JavaScript", "Function('while (true) {}')()"),
    ("Liquid", "{% for i in (1..2000000000) %}{{ i }}{% endfor %}"),
    (
        "Liquid",
        "{% for i in (1..100000) %}{% for j in (1..100000) %}{% endfor %}{% endfor %}",
    ),
    (
        "Liquid",
        "{% assign s = 'x' %}{% for i in (1..64) %}{% assign s = s | append: s %}{% endfor %}{{ s }}",
    ),
    (
        "Liquid",
        "{% for i in (1..100000) %}{% capture t %}{{ t }}{{ i }}{% endcapture %}{% endfor %}{{ t }}",
    ),
    (
        "Liquid",
        "{% assign l = 'a,b' | split: ',' %}{% for i in (1..64) %}{% assign l = l | concat: l %}{% endfor %}{{ l | join: ',' }}",
    ),
    (
        "Liquid",
        "{% for i in (1..1000000) %}{{ 'abcdefghij' | replace: 'a', 'aa' | upcase | reverse }}{% endfor %}",
    ),
    (
        "Liquid",
        "{% for i in (1..1000000) %}{% assign x = i | times: 3 | divided_by: 7 | modulo: 5 %}{% endfor %}",
    ),
    (
        "Liquid",
        "{% for i in (1..1000000) %}{% if i > 5 and i < 7 or i == 9 %}{{ i }}{% endif %}{% endfor %}",
    ),
    ("CSharp", "while (true) { }"),
    ("CSharp", "var s = \"x\"; while (true) { s += s; }"),
    ("CSharp", "var l = new List<object>(); while (true) { l.Add(l); }"),
    (
        "CSharp",
        "Enumerable.Range(0, 1000000).SelectMany(x => Enumerable.Range(0, 1000000)).Sum()",
    ),
    ("CSharp", "Enumerable.Repeat(\"x\", 1000000).Aggregate((a, b) => a + b)"),
    (
        "CSharp",
        "var l = Enumerable.Range(0, 100000).ToList(); while (true) { l = l.OrderBy(x => -x).ToList(); }",
    ),
    (
        "CSharp",
        "var x = 1m; while (true) { x = x * 1.0000001m / 1.0000001m; }",
    ),
    (
        "CSharp",
        "var o = new ExpandoObject(); while (true) { o[Guid.NewGuid().ToString()] = 1; }",
    ),
];

fn definition_id(number: usize) -> String {
    format!("bench-hostile-{number}")
}

/// The hostile workflows.
pub(super) fn definitions() -> impl Iterator<Item = Value> {
    SCRIPTS.iter().enumerate().map(|(number, (kind, script))| {
        let text = json!({"typeName": "Object", "expression": {"type": kind, "value": script}});
        json!({"definitionId": definition_id(number), "root": {"type": "Elsa.WriteLine", "id": "line", "text": text}})
    })
}

/// What the executes of some seconds took.
pub(super) struct Executes {
    /// Milliseconds.
    pub(super) p99: f64,
    pub(super) per_second: f64,
    pub(super) errors: usize,
    /// The hostile workflows that were started beside them.
    pub(super) hostile: usize,
}

/// Executes for some time, with hostile workflows beside them or without. Ends when those have ended, so that the next
/// measurement has the node for itself.
pub(super) async fn run(
    engine: &Engine,
    clients: usize,
    time: Duration,
    is_hostile: bool,
) -> Result<Executes, Failure> {
    let (ended, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut hostile = JoinSet::new();
    for _ in 0..if is_hostile { CLIENTS } else { 0 } {
        let (engine, ended, next) = (engine.clone(), Arc::clone(&ended), Arc::clone(&next));
        hostile.spawn(async move {
            while !ended.load(Relaxed) {
                let number = next.fetch_add(1, Relaxed) % SCRIPTS.len();
                // It faults, or is still deferred when the answer is due.
                engine.execute(start(&definition_id(number), None)).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    let mut measured = JoinSet::new();
    let began = Instant::now();
    for _ in 0..clients {
        let engine = engine.clone();
        measured.spawn(async move {
            let (mut times, mut errors) = (Vec::new(), 0);
            while began.elapsed() < time {
                let at = Instant::now();
                let executed = engine.execute(start("bench", None)).await?;
                times.push(at.elapsed().as_secs_f64() * 1e3);
                errors += usize::from(executed.sub_status() != Some("Finished"));
            }
            Ok::<_, Failure>((times, errors))
        });
    }
    let (mut times, mut errors) = (Vec::new(), 0);
    while let Some(client) = measured.join_next().await {
        let (of_client, failed) = client.map_err(ended_early)??;
        times.extend(of_client);
        errors += failed;
    }
    ended.store(true, Relaxed);
    while let Some(client) = hostile.join_next().await {
        client.map_err(ended_early)??;
    }
    Ok(Executes {
        p99: nearest_rank(&times, 99),
        per_second: times.len() as f64 / time.as_secs_f64(),
        errors,
        hostile: next.load(Relaxed),
    })
}

fn ended_early(error: JoinError) -> Failure {
    Failure::failed(format!("a client ended early: {error}"))
}
