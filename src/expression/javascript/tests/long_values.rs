//! Operations with long texts, long lists and large integers, once and in loops: each script ends soon after its limit, and so
//! does its thread.

use std::time::{Duration, Instant};

use serde_json::json;

use super::sandbox::alone;
use crate::expression::ScriptErrorKind::{Memory, Syntax, Thrown, Timeout};
use crate::expression::{ScriptEngine, ScriptOptions, ScriptScope};

pub(super) const LIMIT: Duration = Duration::from_millis(200);

/// QuickJS is hardly optimised in a debug build, and machines are busy.
const OVERTIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 1 });

/// Long values. The texts are as long as lets what no interrupt ends be over within seconds: a native loop over all of a list, or
/// the ten thousand steps between two interrupts, with a whole text in each.
pub(super) const VALUES: &str = "const t = 'a'.repeat(2e5), u = 'a'.repeat(2e5), v = 'a'.repeat(2e5 - 1) + 'b', blank = ' '.repeat(2e5), \
    needle = 'a'.repeat(9998) + 'b', hay = 'a'.repeat(1e6), marks = 'a' + '\\u0323\\u0301'.repeat(1e5), \
    half = (2n ** 1048000n - 1n) >> 524288n, b = 7n ** 100000n, c = b + 1n - 1n, d = b + 1n, \
    list = (of) => Array(2e4).fill(of), both = (a, b) => Array.from({ length: 2e4 }, (_, i) => i % 2 ? a : b); ";

const HOSTILE: &[&str] = &[
    // A step of a loop takes long, and most allocate nothing.
    "for (;;) half * half",
    "for (;;) try { half * half } catch {}",
    "for (let i = 0; i < 9000; i++) half * half",
    "for (;;) b === c",
    "for (;;) t === u",
    "let n = 0; for (;;) n += t < u ? 1 : 0",
    "let n = 0; for (;;) n += +blank",
    "const m = new Map(); for (;;) m.get(blank)",
    "for (;;) blank.trim()",
    "let s = 'a'.repeat(1000), r = 'a'.repeat(1000); for (let i = 0; i < 13; i++) { s += s; r += r; } for (;;) s === r",
    "const h = []; h.length = 9e6; for (;;) try { [].concat(...Array(200).fill(h)) } catch {}",
    "for (;;) try { blank.trim() } catch {}",
    "const f = () => { blank.trim(); f(); }; f()",
    "for (;;) hay.lastIndexOf(needle.slice(9900))",
    "const l = { length: 1e7 }; for (;;) try { Array.prototype.reverse.call(l) } catch {}",
    "const l = new Float64Array(4e6); for (;;) try { l.reverse() } catch {}",
    "const p = new Proxy({}, { ownKeys: () => keys }), keys = Array.from({ length: 5000 }, (_, i) => 'k' + i); \
     for (;;) try { Reflect.ownKeys(p) } catch {}",
    "Array(1e5).fill(half).join()",
    "for (;;) try { [Array(1e5).fill(half)].toLocaleString() } catch {}",
    // An async function catches what ends it.
    "const f = async () => { for (;;); }; for (;;) f()",
    "const f = async () => { for (;;) blank.trim(); }; for (;;) try { f(); f() } catch {}",
    "const f = async function* () { for (;;); }; for (;;) f().next()",
    "for (;;) Promise.resolve().then(() => { for (;;); }, new Promise(() => { for (;;); }))",
    "for (;;) new Promise(() => { for (;;); })",
    "for (;;) Array.fromAsync({ then: 1, length: 1e6 })",
    // The interrupt itself needs memory.
    "const f = () => { for (;;) try { for (;;); } catch {} }; \
     Object.defineProperty(f, 'name', { value: 'f'.repeat(600) }); f()",
    "const f = () => { for (;;) try { for (;;); } catch {} }; \
     Object.defineProperty(f, 'name', { value: t }); f()",
    "let k; for (;;) try { half * half } catch { try { for (;;) k = { k } } catch {} }",
    "let k; for (;;) try { for (;;) k = { k }; } catch {}",
    "const held = new ArrayBuffer(35e6); \
     (async () => { let k; for (;;) { k = null; for (let i = 0; i < 500; i++) k = { k }; } })(); for (;;);",
    // A search.
    "for (;;) hay.indexOf(needle)",
    "for (;;) hay.lastIndexOf(needle)",
    "for (;;) hay.includes(needle)",
    "for (;;) hay.split(needle)",
    "for (;;) hay.replace(needle, 'x')",
    "for (;;) hay.replaceAll(needle, () => 'x')",
    "for (;;) try { hay.replaceAll(needle, () => 'x') } catch {}",
    // Long values in long lists.
    "both(t, u).sort(); for (;;);",
    "both(t, { toString() { return u; } }).toSorted(); for (;;);",
    "both(7n ** 99999n, 7n ** 100000n).sort(); for (;;);",
    "list(t).indexOf(v); for (;;);",
    "list(t).lastIndexOf(v); for (;;);",
    "list(t).includes(v); for (;;);",
    "list(b).includes(d); for (;;);",
    "new Set(list(t)); for (;;);",
    "new Map(list([t, 1])); for (;;);",
    "Map.groupBy(list(t), x => x); for (;;);",
    "const l = list(t); new Set([1]).union({ size: 1, has: Object, keys: () => l.values() }); for (;;);",
    "const l = list(t); new Set([t]).isSupersetOf({ size: 1, has: Object, keys: () => l.values() }); for (;;);",
    "const l = list(t), s = { __proto__: Set.prototype, keys: () => l.values(), has: Object }; \
     Object.defineProperty(s, 'size', { value: 1 }); new Set([t]).isSupersetOf(s); for (;;);",
    "Math.max.apply(null, list(blank))",
    "Math.hypot(...list(blank))",
    "String.fromCharCode(...list(blank))",
    "Float64Array.of(...list(blank))",
    "new Float64Array(list(blank))",
    "new Uint8Array(list(blank).values())",
    "new Int32Array({ length: 0, [Symbol.iterator]: () => list(blank).values() })",
    "new BigInt64Array(list(blank))",
    "Float64Array.from(list(blank))",
    "Float64Array.from(list(blank).values())",
    "new Float64Array(20000).set(list(blank))",
    "JSON.stringify({}, list(t)); for (;;);",
    // Functions as lists, and what changes when it is read again.
    "const l = list(t); new Set([t]).isSupersetOf(Object.assign(() => 0, { size: 1, has: Object, keys: () => l.values() })); \
     for (;;);",
    "new Float64Array(Object.assign(() => 0, { [Symbol.iterator]: () => list(blank).values() }))",
    "const f = () => 0, g = () => 0; f.toString = () => t; g.toString = () => u; both(f, g).sort(); for (;;);",
    "const r = /x/; r.toString = () => 'a'.repeat(2e6) + 'b'; for (;;) t.indexOf(r)",
    "for (;;) t.split({ [Symbol.split]: null, toString: () => needle })",
    "let n = 0; const s = { get [Symbol.split]() { return n++ % 2 ? undefined : () => 1; }, toString: () => needle }; \
     for (;;) t.split(s)",
    "const held = { [t]: 1 }; Object.fromEntries(list([u, 1])); for (;;);",
    "const held = { [t]: 1 }; for (;;) try { Reflect.ownKeys(new Proxy({}, { ownKeys: () => Array(5000).fill(u) })) } catch {}",
    "Math.max.apply(null, Array(1000).fill(' '.repeat(2e6)))",
    "RegExp.prototype.exec = () => null; for (;;) marks.normalize('NFD')",
    "('a' + '\\uff9e\\u0301'.repeat(1e6)).normalize('NFKD')",
    // Runs of marks, which are sorted.
    "marks.normalize('NFD')",
    "marks.localeCompare('b')",
    "'b'.localeCompare(marks)",
    // Parsers.
    "JSON.parse('['.repeat(5e6)); for (;;);",
    "new RegExp('(?:a{0,9999}){0,9999}b').test('a'.repeat(1e5)); for (;;);",
];

#[test]
fn no_script_holds_its_thread() {
    alone("long_values::no_script_holds_its_thread_alone");
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn no_script_holds_its_thread_alone() {
    assert_no_script_holds_its_thread(VALUES, HOSTILE).await;
}

/// The scripts of this file.
pub(super) fn all() -> impl Iterator<Item = String> {
    HOSTILE.iter().map(|script| whole(VALUES, script))
}

/// A script of a table. A statement behind `row: ` is repeated.
pub(super) fn whole(values: &str, script: &str) -> String {
    match script.split_once("row: ") {
        Some((before, statement)) => {
            let times = (60_000 - values.len()) / statement.len();
            format!("{values}{before}{};for (;;);", statement.repeat(times))
        }
        None => format!("{values}{script}"),
    }
}

/// Each script after `values`, in an engine of its own.
pub(super) async fn assert_no_script_holds_its_thread(values: &str, scripts: &[&str]) {
    let began = Instant::now();
    let values_only = ScriptEngine::new(ScriptOptions::default()).session();
    values_only
        .evaluate(&format!("{values}1"), ScriptScope::default())
        .await
        .expect("values");
    // Time for the script itself, however slow the machine makes its values.
    let limit = LIMIT + 2 * began.elapsed();
    let options = ScriptOptions {
        time_limit: limit,
        ..ScriptOptions::default()
    };
    let mut failures = Vec::new();
    for hostile in scripts {
        let script = whole(values, hostile);
        // Each has its own, as a thread that hangs is that of one of its scripts.
        let engine = ScriptEngine::new(options.clone());
        let began = Instant::now();
        let result = engine.session().evaluate(&script, ScriptScope::default()).await;
        let error = result.expect_err(hostile);
        // Other scripts go on.
        let next = engine.session().evaluate("1 + 1", ScriptScope::default()).await;
        assert_eq!(next.expect("two").value, 2);
        while engine.hanging() > 0 && began.elapsed() < limit + OVERTIME {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = began.elapsed();
        println!("{hostile}: {:?} {} ms", error.kind, took.as_millis());
        if took > limit + OVERTIME || !matches!(error.kind, Timeout | Thrown | Memory | Syntax) {
            failures.push(format!("{hostile}: {error} after {took:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// What asks for the interrupt, in QuickJS or in a guard, has the results that it had.
#[tokio::test]
async fn long_values_have_their_results() {
    let engine = ScriptEngine::new(ScriptOptions::default());
    for (script, expected) in [
        (
            "const p = new Proxy([3, 1, 2], {}); \
             [Array.prototype.toSorted.call(p), p.indexOf(2), p.includes(9), p.slice(1), p.sort().join('-'), p.toReversed(), p.concat([4]), \
              new Float64Array(p).length, Math.max(...p), new Set(p).size, \
              Object.fromEntries(new Proxy([['a', 1]], {})).a, 'a'.repeat(9000) + 'b' === ('a'.repeat(9000) + 'b').slice(0), \
              'a'.repeat(9000) + 'b' == ('a'.repeat(9000) + 'b').slice(0), 'a'.repeat(9000) + 'b' < 'a'.repeat(9000) + 'c']",
            json!([
                [1, 2, 3],
                2,
                false,
                [1, 2],
                "1-2-3",
                [3, 2, 1],
                [1, 2, 3, 4],
                3,
                3,
                3,
                1,
                true,
                // QuickJS 0.16 finds a text that was made of parts unequal by `==`, if the parts are long (docs/reference).
                false,
                true
            ]),
        ),
        // Of 302,000 and 1,003 characters, so that the search is made in parts.
        (
            "const b = 'ab'.repeat(1e3) + 'abc'.repeat(1e5), p = 'ab'.repeat(500) + 'abc'; \
             [b.indexOf(p), b.indexOf(p, 1000), b.indexOf(p, 1001), b.indexOf(p, -1), b.indexOf(p, 1e9), b.indexOf(p, '7'), \
              b.lastIndexOf(p), b.lastIndexOf(p, 1000), b.lastIndexOf(p, 999), b.lastIndexOf(p, NaN), b.lastIndexOf(p, -1), \
              b.includes(p), b.includes(p, 1001), b.split(p).map(x => x.length).join(), b.split(p, 1).length, \
              b.split(p, 0).length, b.replace(p, 'x').length, b.replace(p, (...all) => all[0].length + ' ' + all[1]).slice(998, 1010), \
              b.replaceAll(p, 'x') === b.replace(p, 'x')]",
            json!([
                1000,
                1000,
                -1,
                1000,
                -1,
                1000,
                1000,
                1000,
                -1,
                1000,
                -1,
                true,
                false,
                "1000,299997",
                1,
                0,
                300_998,
                "ab1003 1000a",
                true
            ]),
        ),
        (
            "const p = 'ab'.repeat(500), b = ('-' + p).repeat(300); \
             [b.split(p).length, b.replaceAll(p, 'x') === '-x'.repeat(300), b.lastIndexOf(p), b.lastIndexOf(p, 299299), b.indexOf(p, 2)]",
            json!([301, true, 299 * 1001 + 1, 299 * 1001 + 1 - 1001, 1002]),
        ),
        (
            "const t = 'x'.repeat(2000), l = [t, , t + 'y', undefined, 'a', t]; \
             [l.indexOf(t), l.indexOf(t, 1), l.indexOf(t, -1), l.indexOf(t, 6), l.lastIndexOf(t), l.lastIndexOf(t, 4), \
              l.lastIndexOf(t, -6), l.lastIndexOf(t, -7), l.includes(t + 'y'), l.includes(t + 'z'), l.indexOf(2n), \
              [1, 2n].includes(2n), [2n].indexOf(2), Array.prototype.indexOf.call({ length: 2, 1: t }, t)]",
            json!([0, 5, 5, -1, 5, 0, 0, -1, true, false, -1, true, -1, 1]),
        ),
        (
            "const t = 'x'.repeat(2000); [[t, 'y', 'x', undefined, t + 'a', 'é', 10, 9].sort().map(x => String(x).length), \
              [{ toString: () => 'b' }, 'a', 'c'].toSorted().join(), [3, 1, 2].sort().join(), [t, 'a'].sort((a, b) => 0)[1]]",
            json!([[2, 1, 1, 2000, 2001, 1, 1, 9], "a,b,c", "1,2,3", "a"]),
        ),
        (
            "try { ['a', Symbol(), {}].sort() } catch (e) { e.name }",
            json!("TypeError"),
        ),
        (
            "const a = [{ toString: () => 'z' }, , undefined, 'a', null]; \
             [a.toSorted().length, a.toSorted().map(String).join(), a.sort() === a, a.length, 4 in a, 3 in a, a.map(String).join(), \
              Object.entries({ b: 1, a: 2 }).sort()[0][0], Array.prototype.sort.call({ length: 2, 0: {}, 1: 'A' })[0]]",
            json!([
                5,
                "a,null,z,undefined,undefined",
                true,
                5,
                false,
                true,
                "a,null,z,undefined,",
                "a",
                "A"
            ]),
        ),
        (
            "const e = (f) => { try { return f(); } catch (x) { return x.name; } }; \
             ['abc'.replace({ [Symbol.replace]: (s, r) => s + r }, 'x'), 'a.b'.split(/\\./).length, 'aXbX'.replaceAll(/X/g, '-'), \
              e(() => 'aXbX'.replaceAll(/X/, '-')), e(() => 'a'.includes(/a/)), 'a/a/'.indexOf(/a/), 'a,b'.split(), \
              'undefined'.indexOf(), e(() => 'a'.indexOf(Symbol())), 'a1b1'.replaceAll(1, (m) => m + '!'), \
              String.prototype.indexOf.call(12345, 3)]",
            json!([
                "abcx",
                2,
                "a-b-",
                "TypeError",
                "TypeError",
                1,
                ["a,b"],
                0,
                "TypeError",
                "a1!b1!",
                2
            ]),
        ),
        (
            "const b = '-'.repeat(1e7) + '{{customer.total}}' + '+'.repeat(10); \
             [b.replaceAll('{{customer.total}}', '$12.00 $$ $& $\\'').slice(1e7), b.replace('{{customer.total}}', '$`').length, \
              'ab'.repeat(3e6).replaceAll('abababababababababab', '-') === '-'.repeat(3e5)]",
            json!(["$12.00 $ {{customer.total}} ++++++++++++++++++++", 20_000_010, true]),
        ),
        (
            "class R extends RegExp { twice() { return this.source + this.source; } } \
             [/a/ instanceof RegExp, /a/.constructor === RegExp, new RegExp(/a/g).flags, RegExp('b', 'i').test('B'), new R('x').twice(), \
              new R('x') instanceof R, RegExp.name, 'a1b2'.match(/\\d/g).join(), 'ab'.match('b').index, 'ab'.search('b'), \
              [...'a1b2'.matchAll('\\\\d')].length, 'abc'.match().length, 'a-b'.split(new RegExp('-')).length, RegExp.length, \
              ''.match(undefined).index, RegExp('').source, 'a b c '.repeat(2e5).replace(/ /g, '').length, \
              [...new Uint8Array(new Proxy([1, 2], {}))].join()]",
            json!([
                true, true, "g", true, "xx", true, "RegExp", "1,2", 1, 1, 2, 1, 2, 2, 0, "(?:)", 600_000, "1,2"
            ]),
        ),
        (
            "const m = Object.fromEntries(new Map([['a', 1], ['b', 2]])); \
             [m, Object.fromEntries([['__proto__', 1]]).hasOwnProperty('__proto__'), Object.fromEntries.length, Object.fromEntries.name]",
            json!([{"a": 1, "b": 2}, true, 1, "fromEntries"]),
        ),
        (
            "const s = new Set([1, 2, 3]), like = { size: 2, has: x => x > 1, keys: () => [2, 4].values() }; \
             [[...s.union(like)], [...s.intersection(new Set([3, 1]))], [...s.difference(new Map([[1, 2]]))], \
              [...s.symmetricDifference(like)], s.isSubsetOf(like), s.isSupersetOf(new Set([1])), s.isDisjointFrom(new Set([5]))]",
            json!([[1, 2, 3, 4], [3, 1], [2, 3], [1, 3, 4], false, true, true]),
        ),
        (
            "[[...new Uint8Array([1, '2', 300])], [...Float64Array.from(new Set([1, 2]))], [...Uint8Array.from(['ab'], x => x.length)], \
              [...Uint8Array.of(1, 2)], [...new Uint16Array(new Uint8Array([7]))], new Int8Array(3).length, \
              [...new Float32Array({ length: 1, 0: 5 })], new Uint8Array(new ArrayBuffer(8), 2, 3).length, \
              new Uint8Array([1, 2]).map(x => x + 1) instanceof Uint8Array, Uint8Array.name, new Uint8Array().constructor === Uint8Array, \
              Math.max(), Math.max.apply(null, Array(2000).fill('7')), Uint8Array.BYTES_PER_ELEMENT, \
              new (class extends Uint8Array { twice() { return this[0] * 2; } })([4]).twice()]",
            json!([
                [1, 2, 44],
                [1, 2],
                [2],
                [1, 2],
                [7],
                3,
                [5],
                3,
                true,
                "Uint8Array",
                true,
                null,
                7,
                1,
                8
            ]),
        ),
        (
            "['\\u0041\\u030a'.normalize() === '\\u00c5', 'a'.localeCompare('b'), ('é'.repeat(3000)).normalize('NFD').length, \
              'x'.localeCompare('x')]",
            json!([true, -1, 6000, 0]),
        ),
    ] {
        let result = engine.session().evaluate(script, ScriptScope::default()).await;
        assert_eq!(result.expect(script).value, expected, "{script}");
    }
}
