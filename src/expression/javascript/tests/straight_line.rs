//! Operations without a loop and without a call, which take long alone or in a row: each script ends soon after its limit,
//! and so does its thread. And what may end the process: deep nesting, and the heap limit wherever it is met.

use super::long_values::{VALUES, assert_no_script_holds_its_thread};

/// What these scripts have in common. An operator calls nothing that asks, and neither do statements in a row.
const ROWS: &str = "const digits = '7'.repeat(3e5), large = 1n << 1048000n, one = 1, f = () => 0, \
    doubled = (s) => { for (let i = 0; i < 16; i++) s += s; return s; }, \
    deeper = (n) => { let o = {}; for (let i = 0; i < n; i++) o = { __proto__: o }; return o; }, \
    wider = (n, v) => { const o = {}; for (let i = 0; i < n; i++) o['k' + i] = v; return o; }, \
    rope = doubled('a'.repeat(9000)), other = doubled('a'.repeat(9000)), \
    names = (n) => Array.from({ length: n }, (_, i) => 'a' + i).join(), \
    colliding = (n) => { const parts = Array.from({ length: 8 }, (_, i) => String.fromCharCode(0x4e00 + i, 0x5f00 - 263 * i)); \
        let all = ['']; for (let i = 0; i < n; i++) all = all.flatMap(s => parts.map(p => s + p)); return all; }, \
    row = (statement) => statement.repeat(1e5) + ';for (;;);'; ";

const HOSTILE: &[&str] = &[
    // Texts of the largest integers.
    "const s = '' + large + large + large + large; for (;;);",
    "`${large}${large}${large}${large}`; for (;;);",
    "''.concat(large, large, large, large); for (;;);",
    "String(large) + String(large) + String(large); for (;;);",
    "const o = { [large]: 1, [large + 1n]: 1, [large + 2n]: 1, [large + 3n]: 1 }; for (;;);",
    "eval(row('one == large;'))",
    "eval(row('digits == large;'))",
    "eval(row('digits < large;'))",
    // Integers in a row.
    "eval(row('half * half;'))",
    "eval(row('large / b;'))",
    "eval(row('large % b;'))",
    "eval(row('7n ** 300000n;'))",
    "eval(row('b + b;'))",
    "eval(row('-b;'))",
    "eval(row('~b;'))",
    "eval(row('b & b;'))",
    "eval(row('b << 1n;'))",
    "eval(row('b >> 1n;'))",
    "eval(row('b == d;'))",
    "eval(row('c === b;'))",
    "eval(row('b < d;'))",
    "eval(row('b < 1e300;'))",
    "eval('let z = b;' + row('z++;'))",
    // Texts in a row.
    "eval(row('t === u;'))",
    "eval(row('t < u;'))",
    "eval(row('t == u;'))",
    "eval(row('rope === other;'))",
    "eval(row('rope < other;'))",
    "eval(row('rope + 1 == other + 1;'))",
    "eval(row('(t + one)[0];'))",
    "eval(row('(rope + one)[0];'))",
    "const functions = {}; eval(row('functions[t + one];'))",
    "const functions = {}; eval(row('functions[t];'))",
    "const functions = {}; eval(row('t in functions;'))",
    "const functions = {}; eval(row('delete functions[t];'))",
    "const functions = {}; eval(row('functions[t] = 1;'))",
    "eval(row('({ [t]: 1 });'))",
    "eval(row('+blank;'))",
    "eval(row('-blank;'))",
    "eval(row('~blank;'))",
    "eval(row('blank * 1;'))",
    "eval(row('blank | 1;'))",
    "eval(row('blank == 1;'))",
    "eval(row('blank < 1;'))",
    "eval('let z;' + row('z = blank; z++;'))",
    // Objects in a row.
    "const deep = deeper(1e5); eval(row('deep.x;'))",
    "const deep = deeper(1e5); eval(row('deep[one];'))",
    "const deep = deeper(1e5); eval(row('\"x\" in deep;'))",
    "const deep = deeper(1e5); eval(row('deep instanceof Array;'))",
    "const deep = deeper(1e5); eval(row('deep.x = 1; delete deep.x;'))",
    "const wide = wider(1e4, 1); eval(row('({ ...wide });'))",
    "const wide = wider(1e4, 1); eval(row('var { k1, ...rest } = wide;'))",
    "const filled = Array(1e6).fill(1); eval(row('[...filled];'))",
    "const filled = Array(1e6).fill(1); eval(row('var [z, ...rest] = filled;'))",
    "eval('let z = [];' + row('z.length = 5e6; z.length = 0;'))",
    // Sources that are long to compile.
    "eval('('.repeat(250) + '1+'.repeat(1e6) + '1' + ')'.repeat(250)); for (;;);",
    "eval('['.repeat(250) + '1,'.repeat(1e6) + '1' + ']'.repeat(250)); for (;;);",
    "eval('('.repeat(250) + ' '.repeat(1e7) + '1' + ')'.repeat(250)); for (;;);",
    "eval('{ let ' + names(6e4) + ';' + 'x;'.repeat(1e6) + '}'); for (;;);",
    "(0, eval)('var ' + names(3e5)); for (;;);",
    "eval('(() => { let ' + names(6e4) + '; return () => [' + names(6e4) + '] })'); for (;;);",
    "eval('class A {' + names(6e4).replaceAll(',', ';').replaceAll('a', '#a') + '}'); for (;;);",
    "eval('(function ({' + names(6e4) + '}) {})'); for (;;);",
    "eval('(function () {' + 'for (let i;;) { () => i; }'.repeat(6e4) + '})'); for (;;);",
    "eval('(() => {' + 'with (a)'.repeat(61) + '{' + 'x;'.repeat(1e6) + '} })'); for (;;);",
    // Keys with one hash, weak references of one object, and objects that are long to list.
    "const o = {}; for (const key of colliding(5)) o[key] = 1; for (;;);",
    "const json = '{' + colliding(5).map(key => `\"${key}\":1`) + '}'; JSON.parse(json); for (;;);",
    "const k = {}; let r = new FinalizationRegistry(() => {}); for (let i = 0; i < 2e5; i++) r.register(k, 1); r = null; for (;;);",
    "const k = {}, r = new FinalizationRegistry(() => {}); for (let i = 0; i < 2e5; i++) r.register(k, 1, k); r.unregister(k); for (;;);",
    "const k = {}; let l = []; for (let i = 0; i < 5e4; i++) l.push(new WeakSet([k])); l = null; for (;;);",
    "const o = {}; for (let i = 0; i < 1e5; i++) Object.defineProperty(o, 'k' + i, { value: 1 }); eval(row('z = { ...o };'))",
    "eval(row('for (z in t) break;'))",
    "const l = []; for (let i = 0; i < 2e5; i++) l[i * 3 + 4e6] = 1; eval(row('l.length = 1e7; l.length = 9e6;'))",
    // A regular expression of many alternatives, and of many groups.
    "new RegExp('a|'.repeat(3e6)); for (;;);",
    "new RegExp('a|'.repeat(3e4)); new RegExp('a|'.repeat(3e4) + 'b'); for (;;);",
    "eval('/' + 'a|'.repeat(3e6) + '/'); for (;;);",
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

#[tokio::test]
async fn no_row_of_operations_holds_its_thread() {
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
    "eval('{'.repeat(1e5))",
    "new RegExp('('.repeat(1e5))",
];

#[tokio::test]
async fn no_nesting_ends_the_process() {
    let scripts: Vec<String> = NESTED.iter().map(|script| format!("{script}; for (;;);")).collect();
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    assert_no_script_holds_its_thread("", &scripts).await;
}

/// What an allocation that fails may do, in the parser or where objects are lost: the process goes on.
const OUT_OF_MEMORY: &[&str] = &[
    "eval('(() => {' + 'with (a)'.repeat(6) + '{' + 'x;'.repeat(times) + '} })')",
    "eval('(() => {' + 'with (a)'.repeat(40) + '{' + 'x?.y(...z);'.repeat(times / 10) + '} })')",
    "eval('(() => {' + 'with (a)'.repeat(6) + '{' + 'for (x in y) if (x) break;'.repeat(times) + '} })')",
    "eval('var [z, ...rest] = [1, 2, 3];'.repeat(times))",
    "eval('var f = (a, { b, c: [d, ...e] = [1] } = {}, ...r) => () => a?.b?.[c] ?? `x${a}y${1 + 2}`;'.repeat(times))",
    "eval('label: for (;;) { try { break label } finally { class A { #x = 1; static s = 2; get y() { return this.#x } } } }'.repeat(times))",
    "eval('(function* () { switch (1) { case 1: yield 2; default: for (const x of [1]) { let y = x; } } });'.repeat(times))",
    "eval('(async () => { for await (const x of []) { using y = null; await x } });'.repeat(times))",
    "new Function('return [' + '{ a: 1, get b() { return 1 }, [1 + 1]: /a|b/g },'.repeat(times) + ']')",
    "const h = []; for (;;) h.push(Promise.all([Promise.resolve(1), Promise.allSettled([1])]).then(x => x))",
    "const h = []; for (;;) h.push((async () => { for await (const x of [1]) { await x; } })())",
];

#[tokio::test]
async fn no_failed_allocation_ends_the_process() {
    // The heap has room for more and more of the script.
    for times in 1..=8 {
        let values = format!(
            "const times = {times}e4, held = []; try {{ for (;;) held.push(new ArrayBuffer(1e6)) }} catch {{}} \
            for (let i = 0; i < {times} * 3; i++) held.pop(); "
        );
        let scripts: Vec<String> = OUT_OF_MEMORY
            .iter()
            .map(|script| format!("{script}; for (;;);"))
            .collect();
        let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
        assert_no_script_holds_its_thread(&values, &scripts).await;
    }
}
