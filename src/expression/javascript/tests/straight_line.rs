//! Operations without a loop and without a call, which take long alone or in a row: each script ends soon after its limit,
//! and so does its thread. And what may end the process: deep nesting, and the heap limit wherever it is met.

use super::long_values::{LIMIT, VALUES, assert_no_script_holds_its_thread, whole};
use super::sandbox::alone;
use crate::expression::ScriptErrorKind::{Memory, Syntax, Thrown, Timeout};
use crate::expression::{ScriptEngine, ScriptOptions, ScriptScope};

/// What these scripts have in common. An operator calls nothing that asks, and neither do statements in a row.
const ROWS: &str = "const digits = '7'.repeat(3e5), large = 1n << 524000n, one = 1, f = () => 0, \
    doubled = (s) => { for (let i = 0; i < 13; i++) s += s; return s; }, \
    deeper = (n) => { let o = {}; for (let i = 0; i < n; i++) o = { __proto__: o }; return o; }, \
    wider = (n, v) => { const o = {}; for (let i = 0; i < n; i++) o['k' + i] = v; return o; }, \
    rope = doubled('a'.repeat(9000)), other = doubled('a'.repeat(9000)), \
    names = (n) => Array.from({ length: n }, (_, i) => 'a' + i).join(), \
    colliding = (n) => { const parts = Array.from({ length: 8 }, (_, i) => String.fromCharCode(0x4e00 + i, 0x5f00 - 263 * i)); \
        let all = ['']; for (let i = 0; i < n; i++) all = all.flatMap(s => parts.map(p => s + p)); return all; }; ";

/// Behind `row: ` stands a statement that the script repeats.
const HOSTILE: &[&str] = &[
    // Texts of the largest integers.
    "const s = '' + large + large + large + large; for (;;);",
    "`${large}${large}${large}${large}`; for (;;);",
    "''.concat(large, large, large, large); for (;;);",
    "String(large) + String(large) + String(large); for (;;);",
    "const o = { [large]: 1, [large + 1n]: 1, [large + 2n]: 1, [large + 3n]: 1 }; for (;;);",
    "row: one == large;",
    "row: digits == large;",
    "row: digits < large;",
    // Integers in a row.
    "row: half * half;",
    "row: large / b;",
    "row: large % b;",
    "row: 7n ** 300000n;",
    "row: b + b;",
    "row: -b;",
    "row: ~b;",
    "row: b & b;",
    "row: b << 1n;",
    "row: b >> 1n;",
    "row: b == d;",
    "row: c === b;",
    "row: b < d;",
    "row: b < 1e300;",
    "let z = b; row: z++;",
    // Texts in a row.
    "row: t === u;",
    "row: t < u;",
    "row: t == u;",
    "row: rope === other;",
    "row: rope < other;",
    "row: rope + 1 == other + 1;",
    "row: (t + one)[0];",
    "row: (rope + one)[0];",
    "const functions = {}; row: functions[t + one];",
    "const functions = {}; row: functions[t];",
    "const functions = {}; row: t in functions;",
    "const functions = {}; row: delete functions[t];",
    "const functions = {}; row: functions[t] = 1;",
    "row: ({ [t]: 1 });",
    "row: +blank;",
    "row: -blank;",
    "row: ~blank;",
    "row: blank * 1;",
    "row: blank | 1;",
    "row: blank == 1;",
    "row: blank < 1;",
    "let z; row: z = blank; z++;",
    // Objects in a row.
    "const deep = deeper(1e5); row: deep.x;",
    "const deep = deeper(1e5); row: deep[one];",
    "const deep = deeper(1e5); row: \"x\" in deep;",
    "const deep = deeper(1e5); row: deep instanceof Array;",
    "const deep = deeper(1e5); row: deep.x = 1; delete deep.x;",
    "const wide = wider(1e4, 1); row: ({ ...wide });",
    "const wide = wider(1e4, 1); row: var { k1, ...rest } = wide;",
    "const filled = Array(1e6).fill(1); row: [...filled];",
    "const filled = Array(1e6).fill(1); row: var [z, ...rest] = filled;",
    "let z = []; row: z.length = 5e6; z.length = 0;",
    // Keys with one hash, weak references of one object, and objects that are long to list.
    "const o = {}; for (const key of colliding(5)) o[key] = 1; for (;;);",
    "const json = '{' + colliding(5).map(key => `\"${key}\":1`) + '}'; JSON.parse(json); for (;;);",
    "const k = {}; let r = new FinalizationRegistry(() => {}); for (let i = 0; i < 2e5; i++) r.register(k, 1); r = null; for (;;);",
    "const k = {}, r = new FinalizationRegistry(() => {}); for (let i = 0; i < 2e5; i++) r.register(k, 1, k); r.unregister(k); for (;;);",
    "const k = {}; let l = []; for (let i = 0; i < 5e4; i++) l.push(new WeakSet([k])); l = null; for (;;);",
    "const o = {}; for (let i = 0; i < 1e5; i++) Object.defineProperty(o, 'k' + i, { value: 1 }); row: z = { ...o };",
    "row: for (z in t) break;",
    "const l = []; for (let i = 0; i < 2e5; i++) l[i * 3 + 4e6] = 1; row: l.length = 1e7; l.length = 9e6;",
    // A regular expression of many alternatives, and of many groups.
    "new RegExp('a|'.repeat(3e6)); for (;;);",
    "new RegExp('a|'.repeat(3e4)); new RegExp('a|'.repeat(3e4) + 'b'); for (;;);",
    "new RegExp('[' + 'a-bc-d'.repeat(1e6) + ']'); for (;;);",
    "new RegExp('[' + Array.from({ length: 2e4 }, (_, i) => String.fromCharCode(2 * i + 256)).join('') + ']', 'i'); for (;;);",
    "new RegExp('[' + Array.from({ length: 60000 }, (_, i) => String.fromCodePoint(2 * i + (i < 27000 ? 256 : 8448))).join('') + ']', 'iu'); \
     for (;;);",
    "new RegExp('[' + Array.from({ length: 60000 }, (_, i) => String.fromCodePoint(2 * i + (i < 27000 ? 256 : 8448))).join('') + ']', 'u'); \
     for (;;);",
    "new RegExp('[[^a]' + '--[b-y]'.repeat(1e6) + ']', 'v'); for (;;);",
    "/^(a*)\\1b/.test('a'.repeat(5e6)); /^(a*)\\1b/i.test('a'.repeat(5e6)); for (;;);",
    "/(?<=b\\1(a*))c/.test('a'.repeat(5e6) + 'c'); for (;;);",
    "new RegExp('a'.repeat(2e6) + 'b').test('a'.repeat(4e6)); for (;;);",
    "new RegExp('a'.repeat(1e6) + 'b', 'i').test('a'.repeat(4e6)); for (;;);",
    "new RegExp('(?:' + '[a-z]'.repeat(2e5) + ')+$').test('a'.repeat(1e6) + '!'); for (;;);",
    "new RegExp('\\\\k<b>'.repeat(5e4) + '(?<b>)'); for (;;);",
    "new RegExp('[\\\\p{RGI_Emoji}' + '--\\\\p{RGI_Emoji}'.repeat(1e4) + ']', 'v'); for (;;);",
    "new RegExp('[\\\\p{L}' + '--a'.repeat(1e6) + ']', 'v'); for (;;);",
    "new RegExp('[' + '\\\\p{L}'.repeat(3e5) + ']', 'u'); for (;;);",
    "new RegExp('\\\\p{L}{0}'.repeat(3e5), 'u'); for (;;);",
    "new RegExp('(?:' + 'a*'.repeat(1e6) + ')*?'); for (;;);",
    "new RegExp('(?:'.repeat(1e5) + 'a' + ')'.repeat(1e5)); for (;;);",
    "new RegExp('(a)?'.repeat(200) + '\\\\k<b>(?<b>)'.repeat(1e5)); for (;;);",
    "new RegExp('[\\\\q{' + 'ab|'.repeat(1e6) + '}]', 'v'); for (;;);",
    // One object in many places.
    "JSON.stringify(Array(1e5).fill(wider(1e4, f))); for (;;);",
    "JSON.stringify(Array(1e5).fill(Array(1e5).fill(f))); for (;;);",
    "JSON.stringify(Array(1e4).fill(deeper(1e4))); for (;;);",
];

/// The scripts of this file.
pub(super) fn all() -> impl Iterator<Item = String> {
    let values = format!("{VALUES}{ROWS}");
    let rows = HOSTILE.iter().map(move |script| whole(&values, script));
    rows.chain(NESTED.iter().chain(OUT_OF_MEMORY).map(|script| (*script).to_owned()))
}

#[test]
fn no_row_of_operations_holds_its_thread() {
    alone("straight_line::no_row_of_operations_holds_its_thread_alone");
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn no_row_of_operations_holds_its_thread_alone() {
    assert_no_script_holds_its_thread(&format!("{VALUES}{ROWS}"), HOSTILE).await;
}

/// What QuickJS follows to the end of a chain, in its own stack.
const NESTED: &[&str] = &[
    "let i = [1, 2].values(); for (let n = 0; n < 50000; n++) i = i.map(x => x); i.next()",
    "let i = [1, 2].values(); for (let n = 0; n < 50000; n++) i = i.drop(0); for (const x of i);",
    "let i = [1, 2].values(); for (let n = 0; n < 50000; n++) i = i.flatMap(x => [x]); [...i]",
    "let f = function () {}; for (let n = 0; n < 50000; n++) { f = f.bind(); \
        Object.defineProperty(f, 'name', { value: '' }); Object.defineProperty(f, Symbol.hasInstance, { value: undefined }); } \
     ({}) instanceof f",
    "let f = function () {}; for (let n = 0; n < 50000; n++) { f = f.bind(); Object.defineProperty(f, 'name', { value: '' }); } \
     Reflect.construct(Array, [1], f)",
    "let f = class {}; for (let n = 0; n < 50000; n++) f = new Proxy(f, {}); Reflect.construct(Array, [1], f)",
    "let a = []; for (let n = 0; n < 100000; n++) a = [a]; a.flat(Infinity)",
    "let a = []; for (let n = 0; n < 100000; n++) a = [a]; JSON.stringify(a)",
    "JSON.parse('['.repeat(1e5))",
    "new RegExp('('.repeat(1e5))",
];

#[tokio::test]
async fn no_nesting_ends_the_process() {
    let scripts: Vec<String> = NESTED.iter().map(|script| format!("{script}; for (;;);")).collect();
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    assert_no_script_holds_its_thread("", &scripts).await;
}

/// What an allocation that fails may do where objects are lost: the process goes on.
const OUT_OF_MEMORY: &[&str] = &[
    "const h = []; for (;;) h.push(Promise.all([Promise.resolve(1), Promise.allSettled([1])]).then(x => x))",
    "const h = []; for (;;) h.push((async () => { for await (const x of [1]) { await x; } })())",
    "const h = []; for (;;) try { h.push(new RegExp('(a|b)*[' + '\\\\p{L}'.repeat(100) + ']', 'u')) } catch {}",
    "const h = []; for (;;) try { h.push(JSON.parse('[' + '{\"a\":[1,\"' + 'x'.repeat(10000) + '\"]},'.repeat(20) + '1]')) } catch {}",
    "const h = []; for (;;) try { h.push('x'.repeat(10000).split('')) } catch {}",
    "const h = []; for (;;) try { h.push(new Map(Array.from({ length: 1000 }, (_, i) => [i, 'k' + i]))) } catch {}",
    "class A { #x = 1; y = [1]; get z() { return this.#x } } const h = []; for (;;) try { h.push(new A(), A.bind(null), new Error('x')) } catch {}",
];

#[tokio::test]
async fn no_failed_allocation_ends_the_process() {
    // The heap has room for more and more of the script.
    for times in 1..=8 {
        let values = format!(
            "const held = []; try {{ for (let i = 0; i < 60; i++) held.push(new ArrayBuffer(1e6)) }} catch {{}} \
            for (let i = 0; i < {times} * 3; i++) held.pop(); "
        );
        assert_no_script_holds_its_thread(&values, OUT_OF_MEMORY).await;
    }
}

/// The longest texts that take long to compile, or much memory: the parser ends with an error or the script goes on.
#[tokio::test]
async fn no_text_is_too_long_to_compile() {
    let names = |count: usize, mark: &str| (0..count).map(|n| format!("{mark}{n}")).collect::<Vec<_>>().join(",");
    let texts = [
        format!("{}{}1{}", "(".repeat(250), "1+".repeat(32_000), ")".repeat(250)),
        format!("{}{}1{}", "[".repeat(250), "1,".repeat(32_000), "]".repeat(250)),
        format!("{{ let {}; {} }}", names(9_000, "a"), "a8999;".repeat(1_500)),
        format!("(() => {{ let {0}; return () => [{0}] }})", names(4_500, "a")),
        format!("class A {{ {} }}", names(8_000, "#a").replace(',', ";")),
        format!("(function ({{ {} }}) {{}})", names(9_000, "a")),
        format!("(function () {{ {} }})", "for (let i;;) { () => i; }".repeat(2_400)),
        format!("(() => {{ {} {{ {} }} }})", "with (a)".repeat(61), "x;".repeat(31_000)),
        "x=>y=>z=>1,".repeat(5_900) + "1",
        "[{ a: 1, get b() { return 1 }, [1 + 1]: /a|b/g }][0];".repeat(1_200),
        format!("/{}/", "a|".repeat(32_000)),
        "{".repeat(64_000),
        "(".repeat(64_000),
        "[".repeat(64_000),
        "`${".repeat(21_000),
        "/(?:".to_owned() + &"(".repeat(64_000),
        "a=>".repeat(21_000),
        "var f = (a, { b, c: [d, ...e] = [1] } = {}, ...r) => () => a?.b?.[c] ?? `x${a}y${1 + 2}`;".repeat(700),
    ];
    let texts: Vec<String> = texts.into_iter().map(|text| format!("{text}; for (;;);")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_no_script_holds_its_thread("", &texts).await;
    // In a heap that the text alone fills.
    for memory_limit in [1 << 20, 4 << 20] {
        let options = ScriptOptions {
            time_limit: LIMIT,
            memory_limit,
            ..ScriptOptions::default()
        };
        for text in &texts {
            let engine = ScriptEngine::new(options.clone());
            let ended = engine.session().evaluate(text, ScriptScope::default()).await;
            let kind = ended.expect_err("an endless loop").kind;
            assert!(matches!(kind, Syntax | Thrown | Timeout | Memory), "{kind:?}");
        }
    }
}
