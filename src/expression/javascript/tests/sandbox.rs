//! Malicious scripts: each is stopped in bounded time and memory, with the expected error kind, and the engine is usable
//! afterwards.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::expression::ScriptErrorKind::{Closed, InvalidText, Memory, Thrown, Timeout, TooLarge};
use crate::expression::{ScriptEngine, ScriptErrorKind, ScriptOptions, ScriptScope};

const LIMIT: Duration = Duration::from_millis(100);

/// The longest time that uninterruptible code takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

fn engine() -> ScriptEngine {
    ScriptEngine::new(ScriptOptions {
        threads: 1,
        time_limit: LIMIT,
        ..ScriptOptions::default()
    })
}

/// Resident memory of this process, in bytes.
fn resident_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("pages");
    pages * 4096
}

async fn assert_usable(engine: &ScriptEngine, script: &str) {
    // On a busy machine even this script may reach its time limit, but not repeatedly.
    for _ in 0..20 {
        match engine.session().evaluate("1+1", ScriptScope::default()).await {
            Ok(two) => return assert_eq!(two.value, json!(2), "{script}"),
            Err(error) => assert_eq!(error.kind, Timeout, "{script}: {error:?}"),
        }
    }
    panic!("the engine is not usable after {script}");
}

/// A script and the error kinds it may end with; none: it may also succeed.
#[rustfmt::skip]
const SCRIPTS: &[(&str, &str, &[ScriptErrorKind])] = &[
    ("endless loop", "while (true) {}", &[Timeout]),
    ("endless for", "for (;;);", &[Timeout]),
    ("regex backtracking", "/(a+)+$/.test('a'.repeat(40) + 'b')", &[Timeout]),
    ("regex in replace", "('a'.repeat(40) + 'b').replace(/(a|aa)+$/g, 'x')", &[Timeout]),
    ("regex in split", "('a'.repeat(40) + 'b').split(/(?:a+)+$/)", &[Timeout]),
    ("regex in matchAll", "[...('x'.repeat(99999)).matchAll(/(x+x+)+y/g)]", &[Timeout]),
    ("regex back reference", "/^(.*)*\\1*c$/.test('ab'.repeat(30))", &[Timeout]),
    ("array push", "const a = []; while (true) a.push({x: [1, 2, 3]})", &[Memory, Timeout]),
    ("string doubling", "let s = 'x'; while (true) s += s + 'y'", &[Memory, Thrown]),
    ("string doubling, kept", "let s = 'x', a = []; while (true) { s += s; a.push(s + 'z', s.split('')) }", &[Memory, Thrown]),
    ("huge ArrayBuffer", "new ArrayBuffer(1e12)", &[Memory, Thrown]),
    ("many ArrayBuffers", "const a = []; while (true) a.push(new Uint8Array(1 << 20).fill(1))", &[Memory]),
    ("huge repeat", "'x'.repeat(2 ** 30)", &[Memory, Thrown]),
    ("large repeat", "'x'.repeat(2 ** 29)", &[Memory, Thrown]),
    ("out of memory, caught", "const a = []; while (true) try { a.push(new Uint8Array(1e6)) } catch (e) {}", &[Timeout, Memory]),
    ("deep recursion", "(function f() { return f() + 1 })()", &[Thrown]),
    ("deep recursion, caught", "function f() { try { f() } catch (e) { f() } } f()", &[Timeout]),
    ("swallowed interrupt", "while (true) try { while (true) {} } catch (e) {}", &[Timeout]),
    ("try finally", "while (true) try { while (true) {} } finally { continue }", &[Timeout]),
    ("promise chain", "const f = () => Promise.resolve().then(f); f()", &[Timeout]),
    ("promise flood", "const f = () => { Promise.resolve().then(f); Promise.resolve().then(f) }; f()", &[Timeout, Memory]),
    ("async loop", "(async () => { while (true) await null })()", &[Timeout]),
    ("async loop, swallowed", "(async () => { while (true) try { while (true); } catch (e) { await null } })()", &[Timeout]),
    ("loop in a job", "Promise.resolve().then(() => { while (true) {} }); 1", &[Timeout]),
    ("getter in the result", "({ get x() { while (true) {} } })", &[Timeout]),
    ("toJSON", "toJson({ toJSON() { while (true) {} } })", &[Timeout]),
    ("proxy in the result", "new Proxy({}, { ownKeys() { while (true) {} } })", &[Timeout]),
    ("endless proxy", "const p = () => new Proxy({}, { ownKeys: () => ['x'], getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }), get: p }); p()", &[TooLarge, Timeout, Thrown]),
    ("getter in a variable", "setVariable('v', { get x() { while (true) {} } })", &[Timeout]),
    ("getter in an error", "throw { get message() { while (true) {} } }", &[Timeout]),
    ("coercion", "throw { name: { toString() { while (true) {} } } }", &[Thrown]),
    ("deep result", "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a", &[TooLarge]),
    ("deep JSON", "JSON.parse('['.repeat(1e6))", &[Thrown]),
    ("deep stringify", "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; toJson(a)", &[Thrown]),
    ("wide DAG", "let a = [1]; for (let i = 0; i < 60; i++) a = [a, a]; a", &[TooLarge, Timeout]),
    ("sort comparator", "[3, 2, 1].sort(() => { while (true) {} })", &[Timeout]),
    ("random sort", "while (true) Array.from({length: 1e4}, Math.random).sort(() => Math.random() - .5)", &[Timeout]),
    ("generator", "function* g() { while (true) yield 1 } for (const x of g());", &[Timeout]),
    ("spread generator", "function* g() { while (true) yield 1 } [...g()]", &[Timeout, Memory]),
    ("generator return", "function* g() { try { while (true) yield 1 } finally { while (true); } } for (const x of g()) break", &[Timeout]),
    ("array-like search", "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)", &[Thrown]),
    ("array-like reverse", "Array.prototype.reverse.call({ length: 2 ** 53 - 1 })", &[Thrown]),
    ("array-like last", "Array.prototype.lastIndexOf.call({ length: 2 ** 53 - 1 }, 1)", &[Thrown]),
    ("array-like includes", "Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)", &[Thrown]),
    ("array-like fill", "Array.prototype.fill.call(new Proxy({ length: 2 ** 53 - 1 }, { set: () => true }), 1)", &[Thrown]),
    ("array-like shift", "Array.prototype.shift.call({ length: 2 ** 53 - 1 })", &[Thrown]),
    ("array-like unshift", "Array.prototype.unshift.call({ length: 2 ** 53 - 2 }, 1)", &[Thrown]),
    ("array-like splice", "Array.prototype.splice.call({ length: 2 ** 53 - 2 }, 0, 1)", &[Timeout, Thrown]),
    ("array-like copyWithin", "Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1)", &[Thrown]),
    ("array-like join", "Array.prototype.join.call({ length: 2 ** 53 - 1 })", &[Timeout, Memory, Thrown]),
    ("array-like sort", "Array.prototype.sort.call({ length: 2 ** 53 - 1 })", &[Timeout, Thrown, Memory]),
    ("array-like concat", "const a = { length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true }; [].concat(a)", &[Timeout, Thrown]),
    ("array-like forEach", "Array.prototype.forEach.call({ length: 2 ** 53 - 1 }, Math.abs)", &[Thrown]),
    ("array-like flat", "Array.prototype.flat.call({ length: 2 ** 53 - 1 })", &[Thrown]),
    ("array-like at", "Array.prototype.findLast.call({ length: 2 ** 53 - 1 }, Boolean.bind(null, 0))", &[Thrown]),
    ("array of holes", "Array(4e9).indexOf(1)", &[Thrown]),
    ("slice of holes", "Array(4e9).slice()", &[Timeout, Memory, Thrown]),
    ("holes as result", "Array(4e9)", &[TooLarge]),
    ("holes as array-like", "Array.from({ length: 4e9 })", &[Thrown]),
    ("apply", "Math.max.apply(null, { length: 4e9 })", &[Thrown, Memory, Timeout]),
    ("needle", "'a'.repeat(2e7).indexOf('a'.repeat(1e7) + 'b')", &[]),
    ("last needle", "'a'.repeat(2e7).lastIndexOf('b' + 'a'.repeat(1e7))", &[]),
    ("needle in replaceAll", "'a'.repeat(2e7).replaceAll('a'.repeat(1e7) + 'b', '')", &[]),
    ("needle in split", "'a'.repeat(2e7).split('a'.repeat(1e7) + 'b')", &[]),
    ("needle in includes", "'a'.repeat(2e7).includes('a'.repeat(1e7) + 'b')", &[]),
    ("big power", "let x = 3n; while (true) x = x ** 3n", &[Thrown, Timeout, Memory]),
    ("big text", "(7n ** 350000n).toString()", &[]),
    ("big parse", "BigInt('7'.repeat(300000)) > 1n", &[]),
    ("big texts", "let x = 7n ** 350000n; while (true) x.toString()", &[Timeout]),
    ("padded", "'x'.padStart(2 ** 29, 'abc')", &[Memory, Thrown]),
    ("normalise", "while (true) 'ﷺ'.repeat(1e5).normalize('NFKD')", &[Timeout, Memory]),
    ("regex source", "new RegExp('(?:a{0,1000}){0,1000}'.repeat(100))", &[]),
    ("regex quantifiers", "/(?:(?:a{0,9}){0,9}){0,9}$/.test('a'.repeat(5000) + 'b')", &[]),
    ("property keys", "const o = {}; for (let i = 0; ; i++) o['k' + i] = i", &[Memory, Timeout]),
    ("weak references", "const a = []; while (true) a.push(new WeakRef({}), Symbol('x' + a.length))", &[Memory, Timeout]),
    ("closures", "let f = () => 1; while (true) { const g = f; f = () => g() }", &[Memory, Timeout]),
    ("parser depth", "eval('('.repeat(1e6))", &[Thrown, Memory]),
    ("parser length", "eval('1+'.repeat(3e6) + '1')", &[]),
    ("Function", "Function('while (true) {}')()", &[Thrown]),
    ("date texts", "while (true) new Date(8.64e15).toLocaleString()", &[Timeout]),
    ("huge result", "'x'.repeat(5 << 20)", &[TooLarge, Timeout]),
    ("huge list", "Array(2e6).fill(1)", &[TooLarge, Timeout]),
    ("huge variable", "setVariable('v', 'x'.repeat(5 << 20)); 1", &[TooLarge, Timeout]),
    ("U+0000", "'a\\u0000b'", &[InvalidText]),
    ("U+0000 in a key", "({ ['a\\0']: 1 })", &[InvalidText]),
    ("U+0000 in a variable", "setVariable('v', ['\\0']); 1", &[InvalidText]),
    ("U+0000 in a name", "setVariable('\\0', 1)", &[InvalidText, Thrown]),
    ("U+0000 as correlation id", "setCorrelationId('\\0')", &[InvalidText]),
    ("U+0000 as outcome", "setOutcome('\\0')", &[InvalidText]),
];

/// Runs an ignored test in a process of its own, as it measures the memory of the whole process, or may end it.
pub(super) fn alone(test: &str) {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("expression::javascript::tests::{test}"),
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(
        child.status.success() && output.contains("1 passed"),
        "{output}\n{errors}"
    );
}

#[test]
fn every_untrusted_script_is_stopped() {
    alone("sandbox::every_untrusted_script_is_stopped_alone");
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn every_untrusted_script_is_stopped_alone() {
    let engine = engine();
    let mut failures = Vec::new();
    for (name, script, kinds) in SCRIPTS {
        let began = Instant::now();
        let result = engine.session().evaluate(script, ScriptScope::default()).await;
        let took = began.elapsed();
        let memory = resident_memory() >> 20;
        let outcome = result
            .as_ref()
            .map(|_| ())
            .map_err(|error| (error.kind, error.message.clone()));
        println!("{name} | {outcome:?} | {} ms | {memory} MiB", took.as_millis());
        let is_expected = match &result {
            Ok(_) => kinds.is_empty(),
            // On a busy machine the time limit may stop a script before its memory limit or its own error does.
            Err(error) => {
                kinds.contains(&error.kind) || error.kind == Timeout || kinds.is_empty() && error.kind != Closed
            }
        };
        if !is_expected || took > TIMEOUT || memory > 600 {
            failures.push(format!("{name}: {outcome:?} after {took:?} at {memory} MiB"));
        }
        assert_usable(&engine, script).await;
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn memory_is_bounded() {
    alone("sandbox::memory_is_bounded_alone");
}

/// With enough time, the memory limit stops them.
#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn memory_is_bounded_alone() {
    let options = ScriptOptions {
        threads: 1,
        memory_limit: 8 << 20,
        ..ScriptOptions::default()
    };
    let engine = ScriptEngine::new(options);
    let session = engine.session();
    let scripts = [
        "const a = []; while (true) a.push({ x: [1, 2, 3] })",
        "let s = 'x', a = []; while (true) { s += s; a.push(s + 'z', s.split('')) }",
        "const o = {}; for (let i = 0; ; i++) o['k' + i] = i",
        "let f = () => 1; while (true) { const g = f; f = () => g() }",
        "function* g() { while (true) yield 1 } [...g()]",
        "const a = []; while (true) a.push(/x*y?/.exec('x'.repeat(20)), new Date(), Symbol('x'))",
        "'x'.repeat(1e7)",
    ];
    for script in scripts {
        let error = session
            .evaluate(script, ScriptScope::default())
            .await
            .expect_err(script);
        assert_eq!(error.kind, Memory, "{script}: {error}");
        // The session goes on with a fresh heap.
        let two = session.evaluate("1+1", ScriptScope::default()).await;
        assert_eq!(two.expect(script).value, json!(2), "{script}");
    }
    assert!(resident_memory() < 300 << 20, "{} MiB", resident_memory() >> 20);
}

#[tokio::test]
async fn nothing_leaks_into_another_script() {
    let engine = engine();
    let (one, other) = (engine.session(), engine.session());
    let dirt = [
        "Object.prototype.x = 1",
        "Array.prototype.join = () => 'mine'; [].__proto__.y = 2",
        "globalThis.JSON = null; Math = 1",
        "leak = 1; var leak2 = 2; function leak3() {}",
        "Object.defineProperty(globalThis, 'stuck', { value: 1 })",
        "Object.freeze(globalThis)",
        "globalThis.__proto__ = { z: 1 }",
        "delete globalThis.Map",
        "Promise.resolve().then(() => { late = 1 }); 1",
        "getVariable = 1; variables = 2; globalThis.getInput = 3",
        "Function('fromFunction = 1')()",
    ];
    let probe = "[({}).x, [].y, typeof JSON, typeof Math, typeof leak, typeof leak2, typeof leak3, typeof stuck, typeof z, \
                 typeof Map, typeof late, typeof getVariable, typeof variables, typeof fromFunction, [1, 2].join()]";
    let clean = json!([
        null,
        null,
        "object",
        "object",
        "undefined",
        "undefined",
        "undefined",
        "undefined",
        "undefined",
        "function",
        "undefined",
        "function",
        "object",
        "undefined",
        "1,2"
    ]);
    for script in dirt {
        let _ = one.evaluate(script, ScriptScope::default()).await;
        for session in [&one, &other] {
            let seen = session.evaluate(probe, ScriptScope::default()).await.expect(script);
            assert_eq!(seen.value, clean, "{script}");
        }
    }
}

#[tokio::test]
async fn a_dropped_caller_frees_the_thread() {
    let options = ScriptOptions {
        threads: 1,
        time_limit: Duration::from_secs(600),
        ..ScriptOptions::default()
    };
    let engine = ScriptEngine::new(options);
    let session = engine.session();
    let endless = session.evaluate("while (true) {}", ScriptScope::default());
    assert!(tokio::time::timeout(Duration::from_millis(50), endless).await.is_err());
    let began = Instant::now();
    assert_usable(&engine, "the caller was dropped").await;
    let two = session
        .evaluate("1+1", ScriptScope::default())
        .await
        .expect("same session");
    assert_eq!(two.value, json!(2));
    let endless = tokio::spawn(async move { session.evaluate("for (;;);", ScriptScope::default()).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    endless.abort();
    assert_usable(&engine, "the session was dropped").await;
    assert!(began.elapsed() < TIMEOUT * 3);
}

#[tokio::test]
async fn a_full_queue_makes_callers_wait() {
    let options = ScriptOptions {
        threads: 1,
        queue: 1,
        ..ScriptOptions::default()
    };
    let engine = ScriptEngine::new(options);
    let mut tasks = Vec::new();
    for n in 0..50 {
        let session = engine.session();
        tasks.push(tokio::spawn(async move {
            session.evaluate(&format!("{n} + 1"), ScriptScope::default()).await
        }));
    }
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.expect("task").expect("result").value, json!(n + 1));
    }
}

#[test]
fn a_thousand_sessions_leave_no_memory_behind() {
    alone("sandbox::a_thousand_sessions_alone_leave_no_memory_behind");
}

#[tokio::test]
#[ignore = "run by the test above in a process of its own"]
async fn a_thousand_sessions_alone_leave_no_memory_behind() {
    let engine = ScriptEngine::new(ScriptOptions {
        threads: 2,
        ..ScriptOptions::default()
    });
    let mut after_warm_up = 0;
    for n in 0..1_000 {
        let session = engine.session();
        let script =
            "const a = []; for (let i = 0; i < 100; i++) a.push({ i, self: a }); setVariable('v', a.length); 1";
        session.evaluate(script, ScriptScope::default()).await.expect("result");
        if n % 100 == 0 {
            let error = session
                .evaluate("'x'.repeat(2 ** 29)", ScriptScope::default())
                .await
                .expect_err("too much");
            assert_eq!(error.kind, Memory);
        }
        if n == 100 {
            after_warm_up = resident_memory();
        }
    }
    let grown = resident_memory().saturating_sub(after_warm_up);
    println!("grown by {} KiB over 900 sessions", grown >> 10);
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
}

/// Each script of the tables, stopped after any time and with any heap: the process goes on. Run by hand in a released build:
/// `cargo test --release --lib stopped_anywhere -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes as long as MAINSPRING_TEST_SECONDS says"]
async fn scripts_can_be_stopped_anywhere() {
    let seconds = std::env::var("MAINSPRING_TEST_SECONDS").map_or(60, |text| text.parse().unwrap());
    let ordinary = include_str!("ordinary_scripts.js")
        .lines()
        .filter(|line| !line.starts_with("//="));
    let mut scripts: Vec<String> = SCRIPTS.iter().map(|(_, script, _)| (*script).to_owned()).collect();
    scripts.extend(ordinary.map(|script| format!("for (let i = 0; i < 1e4; i++) {{ {script} }}")));
    scripts.extend(super::long_values::all());
    scripts.extend(super::straight_line::all());
    let (began, mut runs) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        let (time, memory) = (rand::random_range(100..60_000), 1 << rand::random_range(19..26));
        let options = ScriptOptions {
            threads: 2,
            time_limit: Duration::from_micros(time),
            memory_limit: memory,
            ..ScriptOptions::default()
        };
        let engine = ScriptEngine::new(options);
        for _ in 0..20 {
            let script = &scripts[rand::random_range(0..scripts.len())];
            let session = engine.session();
            let run = session.evaluate(script, ScriptScope::default());
            // Some callers drop their future.
            let longest = Duration::from_micros(rand::random_range(100..200_000));
            let _ = tokio::time::timeout(longest, run).await;
            runs += 1;
        }
    }
    println!("{runs} runs");
}

/// What would give a script a compiler, room in the heap while it runs, or a closure that stays with its compiled text.
#[tokio::test]
async fn no_script_reaches_a_compiler() {
    let engine = ScriptEngine::new(ScriptOptions {
        threads: 1,
        ..ScriptOptions::default()
    });
    let session = engine.session();
    for (script, expected) in [
        ("'use strict'; function __mainspring_begin__() {}; eval('1+1')", None),
        ("1]; globalThis.q = 1; [2", None),
        ("return 1}; let s = 41; () => { return ++s", None),
        ("return 1}, [globalThis.q = 1]()\n{ 2", None),
        ("return 1}, [globalThis.q = 1](), function () { return 2", None),
        ("await 1]; globalThis.q = 1; [2", None),
        ("typeof globalThis.q", Some(json!("undefined"))),
        (
            "const a = []; Reflect.construct(RegExp, ['a'], new Proxy(function () {}, { get(t, k) { \
             for (let i = 0; i < 60; i++) a.push(new Uint8Array(32 << 20).fill(1)); return t[k] } })); a.length",
            None,
        ),
        (
            "let C; const r = /b/; r.lastIndex = { valueOf() { C = r.constructor; return 0 } }; 'abc'.replace(r, ''); C === RegExp",
            Some(json!(true)),
        ),
        ("'abc'.match({ toString() { return 'a'.repeat(100000) } })", None),
        ("'abc'.search({ toString() { return 'a'.repeat(100000) } })", None),
        (
            "RegExp.prototype[Symbol.split].call({ flags: '', toString() { return 'a'.repeat(100000) }, constructor: undefined }, 'abc')",
            None,
        ),
        ("const r = /b/; r.constructor = undefined; 'abc'.split(r)", None),
        // What the same bounds leave alone.
        (
            "'a1b2'.split(/\\d/).join() + class R extends RegExp {}.name",
            Some(json!("a,b,R")),
        ),
        (
            "'row 1,some value'.repeat(1e6).indexOf('-----BEGIN CERTIFICATE-----')",
            Some(json!(-1)),
        ),
        (
            "class E extends Error { constructor(m) { super(m); Error.captureStackTrace(this, E) } } String(new E('q'))",
            Some(json!("Error: q")),
        ),
        (
            "'abc'.match(Object.assign(() => 1, { [Symbol.match]() { return 'R' } }))",
            Some(json!("R")),
        ),
        (
            "[...'a1b2'.matchAll(/\\d/g)].join() + 'a1'.search(/\\d/)",
            Some(json!("1,21")),
        ),
        (
            "class R extends RegExp {} const r = new R('b'); [r instanceof R, r.test('abc')]",
            Some(json!([true, true])),
        ),
    ] {
        let result = session.evaluate(script, ScriptScope::default()).await;
        match expected {
            None => assert!(result.is_err(), "{script}: {result:?}"),
            Some(expected) => assert_eq!(result.expect(script).value, expected, "{script}"),
        }
    }
}
