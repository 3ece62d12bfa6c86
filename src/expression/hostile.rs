//! Scripts that mean harm: each is stopped in bounded time and memory, with the right kind, and the same engine works
//! right afterwards.

use std::time::{Duration, Instant};

use serde_json::json;

use super::ScriptErrorKind::{Closed, InvalidText, Memory, Thrown, Timeout, TooLarge};
use super::{ScriptEngine, ScriptErrorKind, ScriptOptions, ScriptScope};

const LIMIT: Duration = Duration::from_millis(200);

fn engine() -> ScriptEngine {
    ScriptEngine::new(ScriptOptions {
        threads: 1,
        time_limit: LIMIT,
        ..ScriptOptions::default()
    })
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("pages");
    pages * 4096
}

async fn still_works(engine: &ScriptEngine, script: &str) {
    let two = engine.session().evaluate("1+1", ScriptScope::default()).await;
    assert_eq!(two.expect(script).value, json!(2), "{script}");
}

/// A script and the kinds it may end with; none: it may also succeed.
const SCRIPTS: &[(&str, &str, &[ScriptErrorKind])] = &[
    ("endless loop", "while (true) {}", &[Timeout]),
    ("endless for", "for (;;);", &[Timeout]),
    ("regex backtracking", "/(a+)+$/.test('a'.repeat(40) + 'b')", &[Timeout]),
    (
        "regex in replace",
        "('a'.repeat(40) + 'b').replace(/(a|aa)+$/g, 'x')",
        &[Timeout],
    ),
    ("regex in split", "('a'.repeat(40) + 'b').split(/(?:a+)+$/)", &[Timeout]),
    (
        "regex in matchAll",
        "[...('x'.repeat(99999)).matchAll(/(x+x+)+y/g)]",
        &[Timeout],
    ),
    (
        "regex back reference",
        "/^(.*)*\\1*c$/.test('ab'.repeat(30))",
        &[Timeout],
    ),
    (
        "array push",
        "const a = []; while (true) a.push({x: [1, 2, 3]})",
        &[Memory],
    ),
    (
        "string doubling",
        "let s = 'x'; while (true) s += s + 'y'",
        &[Memory, Thrown],
    ),
    (
        "string doubling, kept",
        "let s = 'x', a = []; while (true) { s += s; a.push(s + 'z', s.split('')) }",
        &[Memory, Thrown],
    ),
    ("huge ArrayBuffer", "new ArrayBuffer(1e12)", &[Memory, Thrown]),
    (
        "many ArrayBuffers",
        "const a = []; while (true) a.push(new Uint8Array(1 << 20).fill(1))",
        &[Memory],
    ),
    ("huge repeat", "'x'.repeat(2 ** 30)", &[Memory, Thrown]),
    ("large repeat", "'x'.repeat(2 ** 29)", &[Memory, Thrown]),
    (
        "out of memory, caught",
        "const a = []; while (true) try { a.push(new Uint8Array(1e6)) } catch (e) {}",
        &[Timeout, Memory],
    ),
    ("deep recursion", "(function f() { return f() + 1 })()", &[Thrown]),
    (
        "deep recursion, caught",
        "function f() { try { f() } catch (e) { f() } } f()",
        &[Timeout],
    ),
    (
        "swallowed interrupt",
        "while (true) try { while (true) {} } catch (e) {}",
        &[Timeout],
    ),
    (
        "try finally",
        "while (true) try { while (true) {} } finally { continue }",
        &[Timeout],
    ),
    (
        "promise chain",
        "const f = () => Promise.resolve().then(f); f()",
        &[Timeout],
    ),
    (
        "promise flood",
        "const f = () => { Promise.resolve().then(f); Promise.resolve().then(f) }; f()",
        &[Timeout, Memory],
    ),
    ("async loop", "(async () => { while (true) await null })()", &[Timeout]),
    (
        "async loop, swallowed",
        "(async () => { while (true) try { while (true); } catch (e) { await null } })()",
        &[Timeout],
    ),
    (
        "loop in a job",
        "Promise.resolve().then(() => { while (true) {} }); 1",
        &[Timeout],
    ),
    ("getter in the result", "({ get x() { while (true) {} } })", &[Timeout]),
    ("toJSON", "toJson({ toJSON() { while (true) {} } })", &[Timeout]),
    (
        "proxy in the result",
        "new Proxy({}, { ownKeys() { while (true) {} } })",
        &[Timeout],
    ),
    (
        "endless proxy",
        "const p = () => new Proxy({}, { ownKeys: () => ['x'], getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }), get: p }); p()",
        &[TooLarge, Timeout, Thrown],
    ),
    (
        "getter in a variable",
        "setVariable('v', { get x() { while (true) {} } })",
        &[Timeout],
    ),
    (
        "getter in an error",
        "throw { get message() { while (true) {} } }",
        &[Timeout],
    ),
    (
        "coercion",
        "throw { name: { toString() { while (true) {} } } }",
        &[Thrown],
    ),
    (
        "deep result",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a",
        &[TooLarge],
    ),
    ("deep JSON", "JSON.parse('['.repeat(1e6))", &[Thrown]),
    (
        "deep stringify",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; toJson(a)",
        &[Thrown],
    ),
    (
        "wide DAG",
        "let a = [1]; for (let i = 0; i < 60; i++) a = [a, a]; a",
        &[TooLarge],
    ),
    (
        "sort comparator",
        "[3, 2, 1].sort(() => { while (true) {} })",
        &[Timeout],
    ),
    (
        "random sort",
        "while (true) Array.from({length: 1e4}, Math.random).sort(() => Math.random() - .5)",
        &[Timeout],
    ),
    (
        "generator",
        "function* g() { while (true) yield 1 } for (const x of g());",
        &[Timeout],
    ),
    (
        "spread generator",
        "function* g() { while (true) yield 1 } [...g()]",
        &[Timeout, Memory],
    ),
    (
        "generator return",
        "function* g() { try { while (true) yield 1 } finally { while (true); } } for (const x of g()) break",
        &[Timeout],
    ),
    (
        "array-like search",
        "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)",
        &[Timeout],
    ),
    (
        "array-like reverse",
        "Array.prototype.reverse.call({ length: 2 ** 53 - 1 })",
        &[Timeout],
    ),
    (
        "array-like last",
        "Array.prototype.lastIndexOf.call({ length: 2 ** 53 - 1 }, 1)",
        &[Timeout],
    ),
    (
        "array-like includes",
        "Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)",
        &[Timeout],
    ),
    (
        "array-like fill",
        "Array.prototype.fill.call(new Proxy({ length: 2 ** 53 - 1 }, { set: () => true }), 1)",
        &[Timeout],
    ),
    (
        "array-like shift",
        "Array.prototype.shift.call({ length: 2 ** 53 - 1 })",
        &[Timeout],
    ),
    (
        "array-like unshift",
        "Array.prototype.unshift.call({ length: 2 ** 53 - 2 }, 1)",
        &[Timeout],
    ),
    (
        "array-like splice",
        "Array.prototype.splice.call({ length: 2 ** 53 - 2 }, 0, 1)",
        &[Timeout, Thrown],
    ),
    (
        "array-like copyWithin",
        "Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1)",
        &[Timeout],
    ),
    (
        "array-like join",
        "Array.prototype.join.call({ length: 2 ** 53 - 1 })",
        &[Timeout, Memory, Thrown],
    ),
    (
        "array-like sort",
        "Array.prototype.sort.call({ length: 2 ** 53 - 1 })",
        &[Timeout, Thrown, Memory],
    ),
    (
        "array-like concat",
        "const a = { length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true }; [].concat(a)",
        &[Timeout, Thrown],
    ),
    (
        "array-like forEach",
        "Array.prototype.forEach.call({ length: 2 ** 53 - 1 }, Math.abs)",
        &[Timeout],
    ),
    (
        "array-like flat",
        "Array.prototype.flat.call({ length: 2 ** 53 - 1 })",
        &[Timeout],
    ),
    (
        "array-like at",
        "Array.prototype.findLast.call({ length: 2 ** 53 - 1 }, Boolean.bind(null, 0))",
        &[Timeout],
    ),
    ("array of holes", "Array(4e9).indexOf(1)", &[Timeout]),
    ("slice of holes", "Array(4e9).slice()", &[Timeout, Memory, Thrown]),
    ("holes as result", "Array(4e9)", &[TooLarge]),
    ("holes as array-like", "Array.from({ length: 4e9 })", &[Timeout, Memory]),
    (
        "apply",
        "Math.max.apply(null, { length: 4e9 })",
        &[Thrown, Memory, Timeout],
    ),
    ("needle", "'a'.repeat(2e7).indexOf('a'.repeat(1e7) + 'b')", &[Timeout]),
    (
        "last needle",
        "'a'.repeat(2e7).lastIndexOf('b' + 'a'.repeat(1e7))",
        &[Timeout],
    ),
    (
        "needle in replaceAll",
        "'a'.repeat(2e7).replaceAll('a'.repeat(1e7) + 'b', '')",
        &[Timeout],
    ),
    (
        "needle in split",
        "'a'.repeat(2e7).split('a'.repeat(1e7) + 'b')",
        &[Timeout],
    ),
    (
        "needle in includes",
        "'a'.repeat(2e7).includes('a'.repeat(1e7) + 'b')",
        &[Timeout],
    ),
    (
        "big power",
        "let x = 3n; while (true) x = x ** 3n",
        &[Thrown, Timeout, Memory],
    ),
    ("big text", "(7n ** 350000n).toString()", &[]),
    ("big parse", "BigInt('7'.repeat(300000)) > 1n", &[]),
    (
        "big texts",
        "let x = 7n ** 350000n; while (true) x.toString()",
        &[Timeout],
    ),
    ("padded", "'x'.padStart(2 ** 29, 'abc')", &[Memory, Thrown]),
    (
        "normalise",
        "while (true) 'ﷺ'.repeat(1e5).normalize('NFKD')",
        &[Timeout, Memory],
    ),
    ("regex source", "new RegExp('(?:a{0,1000}){0,1000}'.repeat(100))", &[]),
    (
        "regex quantifiers",
        "/(?:(?:a{0,9}){0,9}){0,9}$/.test('a'.repeat(5000) + 'b')",
        &[],
    ),
    (
        "property keys",
        "const o = {}; for (let i = 0; ; i++) o['k' + i] = i",
        &[Memory, Timeout],
    ),
    (
        "weak references",
        "const a = []; while (true) a.push(new WeakRef({}), Symbol('x' + a.length))",
        &[Memory, Timeout],
    ),
    (
        "closures",
        "let f = () => 1; while (true) { const g = f; f = () => g() }",
        &[Memory, Timeout],
    ),
    ("parser depth", "eval('('.repeat(1e6))", &[Thrown, Memory]),
    ("parser length", "eval('1+'.repeat(3e6) + '1')", &[]),
    ("Function", "Function('while (true) {}')()", &[Timeout]),
    (
        "date texts",
        "while (true) new Date(8.64e15).toLocaleString()",
        &[Timeout],
    ),
    ("huge result", "'x'.repeat(5 << 20)", &[TooLarge]),
    ("huge list", "Array(2e6).fill(1)", &[TooLarge, Timeout]),
    ("huge variable", "setVariable('v', 'x'.repeat(5 << 20)); 1", &[TooLarge]),
    ("U+0000", "'a\\u0000b'", &[InvalidText]),
    ("U+0000 in a key", "({ ['a\\0']: 1 })", &[InvalidText]),
    ("lone surrogate", "'\\ud800'", &[InvalidText]),
    ("lone surrogate, cut", "'😀'.slice(0, 1)", &[InvalidText]),
    ("lone surrogate in a key", "({ ['\\udc00']: 1 })", &[InvalidText]),
    ("lone surrogate, nested", "[{ a: ['\\udc00'] }]", &[InvalidText]),
    ("U+0000 in a variable", "setVariable('v', ['\\0']); 1", &[InvalidText]),
    ("U+0000 in a name", "setVariable('\\0', 1)", &[InvalidText, Thrown]),
    (
        "lone surrogate in a name",
        "setVariable('\\ud800', 1)",
        &[InvalidText, Thrown],
    ),
    (
        "lone surrogate, in place",
        "variables.v = {}; getVariable('v').x = '\\ud800'; 1",
        &[InvalidText],
    ),
    ("U+0000 as correlation id", "setCorrelationId('\\0')", &[InvalidText]),
    (
        "lone surrogate as a name",
        "setWorkflowInstanceName('\\ud800')",
        &[InvalidText],
    ),
    ("U+0000 as outcome", "setOutcome('\\0')", &[InvalidText]),
];

#[tokio::test]
async fn every_hostile_script_is_stopped() {
    let engine = engine();
    let mut wrong = Vec::new();
    for (name, script, kinds) in SCRIPTS {
        let began = Instant::now();
        let result = engine.session().evaluate(script, ScriptScope::default()).await;
        let took = began.elapsed();
        let memory = resident() >> 20;
        let outcome = result
            .as_ref()
            .map(|_| ())
            .map_err(|error| (error.kind, error.message.clone()));
        println!("{name} | {outcome:?} | {} ms | {memory} MiB", took.as_millis());
        let right = match &result {
            Ok(_) => kinds.is_empty(),
            Err(error) => kinds.contains(&error.kind) || kinds.is_empty() && error.kind != Closed,
        };
        if !right || took > LIMIT * 10 || memory > 600 {
            wrong.push(format!("{name}: {outcome:?} after {took:?} at {memory} MiB"));
        }
        still_works(&engine, script).await;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
