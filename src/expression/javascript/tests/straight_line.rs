//! Operations without a loop and without a call, which take long alone or in a row: each script ends soon after its limit,
//! and so does its thread.

use super::long_values::{VALUES, assert_no_script_holds_its_thread};

/// What these scripts have in common. An operator calls nothing that asks, and neither do statements in a row.
const ROWS: &str = "const digits = '7'.repeat(3e5), large = 1n << 1048000n, one = 1, f = () => 0, \
    doubled = (s) => { for (let i = 0; i < 16; i++) s += s; return s; }, \
    deeper = (n) => { let o = {}; for (let i = 0; i < n; i++) o = { __proto__: o }; return o; }, \
    wider = (n, v) => { const o = {}; for (let i = 0; i < n; i++) o['k' + i] = v; return o; }, \
    rope = doubled('a'.repeat(9000)), other = doubled('a'.repeat(9000)), \
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

/// What an allocation that fails may do, in the parser or where objects are lost: the process goes on.
const OUT_OF_MEMORY: &[&str] = &[
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
