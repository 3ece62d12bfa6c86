1 + 2 * 3
//= {"value": 7}
'a' + 1 + true
//= {"value": "a1true"}
getVariable('order').lines.length
//= {"value": 2}
variables.order.lines.map(line => line.price * line.count)
//= {"value": [2, 7]}
variables.order.lines.reduce((sum, line) => sum + line.price * line.count, 0)
//= {"value": 9}
variables.order.lines.filter(line => line.count > 1).map(line => line.name).join(', ')
//= {"value": "ink"}
getOrder().lines[0].name.toUpperCase()
//= {"value": "PEN"}
variables.total = variables.order.lines.length; variables.total
//= {"value": 2, "variables": {"total": 2}}
setVariable('seen', true); getVariable('seen')
//= {"value": true, "variables": {"seen": true}}
const { lines, customer: { name } } = variables.order; name + lines.length
//= {"value": "Ada2"}
const [first, ...others] = variables.order.lines; [first.name, others.length]
//= {"value": ["pen", 1]}
const copy = { ...variables.order, note: 'x' }; Object.keys(copy)
//= {"value": ["id", "customer", "lines", "note"]}
const list = [...variables.order.lines, { name: 'z' }]; list.length
//= {"value": 3}
Object.assign({}, variables.order, { id: 9 }).id
//= {"value": 9}
Object.entries({ a: 1, b: 2 }).map(([key, value]) => key + '=' + value).join('&')
//= {"value": "a=1&b=2"}
Object.fromEntries([['a', 1], ['b', 2]])
//= {"value": {"a": 1, "b": 2}}
Object.keys(variables).sort()
//= {"value": ["order"]}
Object.values({ x: 1, y: [2] })
//= {"value": [1, [2]]}
JSON.parse('{"a": [1, {"b": null}]}').a[1]
//= {"value": {"b": null}}
JSON.stringify({ a: 1, b: [true, null], c: undefined })
//= {"value": "{\"a\":1,\"b\":[true,null]}"}
JSON.stringify({ a: 1 }, null, 2)
//= {"value": "{\n  \"a\": 1\n}"}
JSON.parse('[1,2,3]', (key, value) => typeof value === 'number' ? value * 2 : value)
//= {"value": [2, 4, 6]}
JSON.stringify({ toJSON() { return 'mine'; } })
//= {"value": "\"mine\""}
JSON.stringify([new Date(0), NaN, 'ü'])
//= {"value": "[\"1970-01-01T00:00:00.000Z\",null,\"ü\"]"}
const o = {}; o.toString = () => 'mine'; String(o)
//= {"value": "mine"}
const o = { toString() { return 'literal'; } }; `${o}`
//= {"value": "literal"}
const o = {}; o.valueOf = () => 42; o + 1
//= {"value": 43}
const o = {}; o.constructor = 'ACME Ltd'; o.constructor
//= {"value": "ACME Ltd"}
const o = {}; o.hasOwnProperty = 1; Object.keys(o)
//= {"value": ["hasOwnProperty"]}
const o = {}; o.isPrototypeOf = 1; o.toLocaleString = 2; o.propertyIsEnumerable = 3; Object.values(o)
//= {"value": [1, 2, 3]}
'use strict'; const o = {}; o.toString = () => 's'; '' + o
//= {"value": "s"}
'use strict'; const o = { toString: null }; o.toString = 5; o.toString
//= {"value": 5}
const counts = {}; for (const word of ['constructor', 'a', 'constructor']) counts[word] = (Object.hasOwn(counts, word) ? counts[word] : 0) + 1; counts
//= {"value": {"constructor": 2, "a": 1}}
const f = () => 1; f.toString = () => 'f'; String(f)
//= {"value": "f"}
const f = function () {}; f.call = 5; f.apply = 6; [f.call, f.apply]
//= {"value": [5, 6]}
const f = () => 0; f.cache = {}; f.cache.x = 1; f.cache
//= {"value": {"x": 1}}
const e = new Error('boom'); e.name = 'Mine'; String(e)
//= {"value": "Mine: boom"}
const e = new Error('boom'); e.message = 'other'; e.message
//= {"value": "other"}
const e = new TypeError('t'); e.code = 7; [e.code, e.name, Object.keys(e)]
//= {"value": [7, "TypeError", ["code"]]}
const e = new RangeError('r'); e.toString = () => 'shown'; `${e}`
//= {"value": "shown"}
class Mine extends Error { constructor(text) { super(text); this.name = 'Mine'; } } String(new Mine('x'))
//= {"value": "Mine: x"}
class Mine extends Error { get name() { return 'Got'; } } const e = new Mine('y'); e + ''
//= {"value": "Got: y"}
class Mine extends Error {} try { throw new Mine('z'); } catch (e) { [e instanceof Mine, e instanceof Error, e.message, e.name] }
//= {"value": [true, true, "z", "Error"]}
class Point { constructor(x) { this.x = x; } twice() { return this.x * 2; } } new Point(4).twice()
//= {"value": 8}
class Point { toString() { return 'P'; } } `${new Point()}`
//= {"value": "P"}
class Animal { speak() { return 'a'; } } class Dog extends Animal { speak() { return super.speak() + 'd'; } } new Dog().speak()
//= {"value": "ad"}
class Counter { #n = 0; up() { return ++this.#n; } static zero = 0; } const c = new Counter(); c.up(); c.up() + Counter.zero
//= {"value": 2}
class Temperature { static #last = 1; static last() { return Temperature.#last; } } Temperature.last()
//= {"value": 1}
class Box { get size() { return 3; } set size(v) { this.given = v; } } const b = new Box(); b.size = 9; [b.size, b.given]
//= {"value": [3, 9]}
class Stack extends Array { peek() { return this[this.length - 1]; } } const s = new Stack(); s.push(1, 2); [s.peek(), s.length, s instanceof Array]
//= {"value": [2, 2, true]}
class Stack extends Array {} Stack.from([1, 2, 3]).map(x => x + 1) instanceof Stack
//= {"value": true}
class Names extends Map { get(key) { return super.get(key.toLowerCase()); } } new Names([['a', 1]]).get('A')
//= {"value": 1}
class Unique extends Set { add(v) { return super.add(String(v)); } } const u = new Unique(); u.add(1); u.add('1'); u.size
//= {"value": 1}
class A { static make() { return new this(); } } A.make() instanceof A
//= {"value": true}
class A { static { A.ready = true; } } A.ready
//= {"value": true}
class A { [Symbol.toPrimitive]() { return 8; } } new A() * 2
//= {"value": 16}
class A { get [Symbol.toStringTag]() { return 'Tag'; } } String(new A())
//= {"value": "[object Tag]"}
class A { *[Symbol.iterator]() { yield 1; yield 2; } } [...new A()]
//= {"value": [1, 2]}
class A {} A.name
//= {"value": "A"}
const A = class { constructor() { this.toString = () => 'own'; } }; String(new A())
//= {"value": "own"}
function Old(x) { this.x = x; } new Old(3).x
//= {"value": 3}
function Old() {} const one = new Old(); one.constructor === Old
//= {"value": true}
const list = [3, 1, 2]; list.sort(); list
//= {"value": [1, 2, 3]}
[10, 9, 1].sort()
//= {"value": [1, 10, 9]}
[10, 9, 1].sort((a, b) => a - b)
//= {"value": [1, 9, 10]}
['b', 'a', 'C'].sort((a, b) => a.localeCompare(b))
//= {"value":["a","b","C"]}
[3, 1, 2].toSorted().concat([3, 1, 2].toReversed())
//= {"value": [1, 2, 3, 2, 1, 3]}
[1, 2, 3].at(-1)
//= {"value": 3}
[1, [2, [3, [4]]]].flat(Infinity)
//= {"value": [1, 2, 3, 4]}
[1, 2].flatMap(x => [x, x * 10])
//= {"value": [1, 10, 2, 20]}
[1, 2, 3].includes(2) && [1, 2, 3].indexOf(3) === 2
//= {"value": true}
[1, 2, 3, 4].slice(1, 3).concat(9)
//= {"value": [2, 3, 9]}
const a = [1, 2, 3, 4]; a.splice(1, 2, 'x'); a
//= {"value": [1, "x", 4]}
const a = [1, 2, 3]; a.reverse(); a.unshift(0); a.pop(); a
//= {"value": [0, 3, 2]}
Array.from({ length: 3 }, (_, i) => i * i)
//= {"value": [0, 1, 4]}
Array.of(1, 2, 3).fill(7, 1)
//= {"value": [1, 7, 7]}
new Array(3).fill(0).map((_, i) => i)
//= {"value": [0, 1, 2]}
[1, 2, 3].find(x => x > 1) + [1, 2, 3].findIndex(x => x > 1) + [1, 2, 3].findLast(x => x < 3)
//= {"value": 5}
[1, 2, 3].every(x => x > 0) && [1, 2, 3].some(x => x > 2)
//= {"value": true}
[..."héé"].length
//= {"value": 3}
[['a', 1], ['b', 2]].forEach(([key, value]) => { variables[key] = value; }); [variables.a, variables.b]
//= {"value": [1, 2], "variables": {"a": 1, "b": 2}}
const a = [1]; a.push = 'own'; a.push
//= {"value": "own"}
const a = [1, 2]; a.name = 'list'; [a.name, a.length]
//= {"value": ["list", 2]}
const a = [1, 2]; a.map = () => 'own'; a.map()
//= {"value": "own"}
const a = []; a[3] = 1; a.length
//= {"value": 4}
const a = [1, 2, 3]; a.length = 1; a
//= {"value": [1]}
delete [1, 2][0]
//= {"value": true}
const grouped = Object.groupBy([1, 2, 3], x => x % 2 ? 'odd' : 'even'); [grouped.odd, grouped.even]
//= {"value": [[1, 3], [2]]}
Map.groupBy([1, 2, 3], x => x % 2).get(1)
//= {"value": [1, 3]}
const m = new Map(); m.set('a', 1).set('b', 2); [...m.keys(), ...m.values(), m.size]
//= {"value": ["a", "b", 1, 2, 2]}
const m = new Map([[1, 'x']]); m.get = 5; m.get
//= {"value": 5}
const m = new Map([['k', { v: 1 }]]); m.get('k').v++; m.get('k').v
//= {"value": 2}
[...new Set([1, 1, 2])].length
//= {"value": 2}
new Set([1, 2]).union(new Set([2, 3])).size
//= {"value": 3}
const w = new WeakMap(), key = {}; w.set(key, 1); w.get(key)
//= {"value": 1}
const r = new WeakRef({ a: 1 }); typeof r.deref
//= {"value": "function"}
for (const [key, value] of new Map([['a', 1]])) { variables.pair = key + value; } variables.pair
//= {"value": "a1", "variables": {"pair": "a1"}}
let n = 0; for (const key in { a: 1, b: 2 }) n++; n
//= {"value": 2}
let text = ''; for (const key in [7, 8]) text += key; text
//= {"value": "01"}
outer: for (let i = 0; i < 3; i++) { for (let j = 0; j < 3; j++) { if (j === 1) continue outer; if (i === 2) break outer; variables.at = i * 10 + j; } } variables.at
//= {"value": 10, "variables": {"at": 10}}
let i = 0; do { i += 2; } while (i < 7); i
//= {"value": 8}
let i = 0; while (true) { if (++i > 4) break; } i
//= {"value": 5}
switch (variables.order.customer.name) { case 'Ada': 'is Ada'; break; default: 'another'; }
//= {"value": "is Ada"}
if (variables.order.lines.length > 1) { 'many' } else { 'few' }
//= {"value": "many"}
return variables.order.lines.length
//= {"value": 2}
if (getOrder().lines.length) return 'yes'; return 'no'
//= {"value": "yes"}
const t = getOrder(); return { id: t.id, n: t.lines.length };
//= {"value": {"id": 7, "n": 2}}
for (const line of getOrder().lines) { if (line.count > 1) return line.name; }
//= {"value": "ink"}
try { null.x } catch (e) { e.constructor.name }
//= {"value": "TypeError"}
try { undefinedName } catch (e) { e instanceof ReferenceError }
//= {"value": true}
try { JSON.parse('{') } catch { 'bad' } finally { variables.done = 1; }
//= {"value": "bad", "variables": {"done": 1}}
try { throw { code: 5 } } catch ({ code }) { code }
//= {"value": 5}
(() => { try { return 1 } finally { variables.f = 2 } })()
//= {"value": 1, "variables": {"f": 2}}
throw new Error('mine')
//= {"error": "Error: mine"}
throw 'a text'
//= {"error": "the script threw a text"}
missing.member
//= {"error": "ReferenceError: missing is not defined"}
null.x
//= {"error": "TypeError: cannot read property 'x' of null"}
const x = 1; x = 2
//= {"error": "TypeError: 'x' is read-only"}
'use strict'; undeclared = 1
//= {"error": "ReferenceError: undeclared is not defined"}
undeclared = 5; undeclared + 1
//= {"value": 6}
var x = 3; x
//= {"value": 3}
let x = 4; { let x = 5; } x
//= {"value": 4}
const o = Object.freeze({ a: 1 }); o.a = 2; o.a
//= {"value": 1}
'use strict'; const o = Object.freeze({ a: 1 }); o.a = 2
//= {"error": "TypeError: 'a' is read-only"}
Object.isFrozen(Object.freeze([1]))
//= {"value": true}
Object.isSealed(Object.seal({ x: 1 }))
//= {"value": true}
const o = Object.create(null); o.toString = 1; o.x = 2; Object.keys(o)
//= {"value": ["toString", "x"]}
const o = Object.create({ inherited: 1 }); o.own = 2; [o.inherited, Object.keys(o)]
//= {"value": [1, ["own"]]}
const o = Object.create({ get x() { return this.y * 2; } }); o.y = 4; o.x
//= {"value": 8}
const o = { get a() { return 1; }, set a(v) { this.b = v; } }; o.a = 5; [o.a, o.b]
//= {"value": [1, 5]}
const o = {}; Object.defineProperty(o, 'x', { value: 1 }); [o.x, Object.keys(o)]
//= {"value": [1, []]}
const o = {}; Object.defineProperties(o, { x: { value: 1, enumerable: true } }); o
//= {"value": {"x": 1}}
Object.getOwnPropertyNames({ a: 1, b: 2 })
//= {"value": ["a", "b"]}
Object.getOwnPropertyDescriptor({ a: 1 }, 'a')
//= {"value": {"value": 1, "writable": true, "enumerable": true, "configurable": true}}
Object.prototype.hasOwnProperty.call({ a: 1 }, 'a')
//= {"value": true}
Object.prototype.toString.call([])
//= {"value": "[object Array]"}
Array.prototype.slice.call('abc')
//= {"value": ["a", "b", "c"]}
(function () { return Array.prototype.map.call(arguments, x => x + 1); })(1, 2)
//= {"value": [2, 3]}
({}).toString()
//= {"value": "[object Object]"}
({ a: 1 }).hasOwnProperty('a')
//= {"value": true}
'a' in { a: 1 } && !('b' in { a: 1 })
//= {"value": true}
[] instanceof Array && [].constructor === Array
//= {"value": true}
({}).constructor.name
//= {"value": "Object"}
(5).constructor.name + 'x'.constructor.name + true.constructor.name
//= {"value": "NumberStringBoolean"}
typeof null + typeof undefined + typeof (() => 1) + typeof Symbol() + typeof 1n
//= {"value": "objectundefinedfunctionsymbolbigint"}
const { a = 5, b: { c = 6 } = {}, ...rest } = { d: 7 }; [a, c, rest]
//= {"value": [5, 6, {"d": 7}]}
const swap = ([a, b]) => [b, a]; swap([1, 2])
//= {"value": [2, 1]}
((a, b = a + 1, ...c) => [a, b, c])(1, undefined, 3, 4)
//= {"value": [1, 2, [3, 4]]}
variables.order?.customer?.address?.city ?? 'unknown'
//= {"value": "unknown"}
variables.nothing?.x.y.z
//= {"value": null}
variables.order.lines?.[0]?.name?.toLowerCase?.()
//= {"value": "pen"}
let a = null; a ??= 5; a ||= 6; a &&= 7; a
//= {"value": 7}
2 ** 10 + 7 % 3 + (5 >> 1) + (-1 >>> 28) + (6 & 3) + (6 | 1) + (6 ^ 2) + ~1
//= {"value": 1053}
0.1 + 0.2
//= {"value": 0.30000000000000004}
(1234.5678).toFixed(2) + (255).toString(16) + (0.00001).toString()
//= {"value": "1234.57ff0.00001"}
Number('12.5') + parseInt('0x1f') + parseFloat('2.5kg')
//= {"value": 46}
Number.isInteger(5) && !Number.isNaN(5) && Number.MAX_SAFE_INTEGER
//= {"value": 9007199254740991}
Math.max(1, 5, 3) + Math.min(...[4, 2]) + Math.round(2.5) + Math.trunc(-1.5)
//= {"value": 9}
Math.floor(Math.random() * 0) + Math.abs(-3) + Math.hypot(3, 4)
//= {"value": 8}
[1, 2, 3].map(Math.sqrt).map(Math.floor)
//= {"value": [1, 1, 1]}
10n ** 20n
//= {"value": "100000000000000000000"}
BigInt(5) * 3n + BigInt.asUintN(8, 257n)
//= {"value": 16}
1_000_000 + 0b11 + 0o17 + 0xff
//= {"value": 1000273}
`a ${1 + 1} ${[1, 2]} ${{}}`
//= {"value": "a 2 1,2 [object Object]"}
((strings, ...values) => strings.raw.join('|') + values)`a${1}\n${2}b`
//= {"value": "a|\\n|b1,2"}
String.raw`\n${1}`
//= {"value": "\\n1"}
'abc'.padStart(5, '*') + 'x'.repeat(3) + ' t '.trim()
//= {"value": "**abcxxxt"}
'a-b-c'.split('-').reverse().join('+')
//= {"value": "c+b+a"}
'Hello'.replace('l', 'L') + 'Hello'.replaceAll('l', 'L')
//= {"value": "HeLloHeLLo"}
'a1b22'.replace(/\d+/g, digits => `<${digits}>`)
//= {"value": "a<1>b<22>"}
'2024-03-10'.match(/(\d+)-(\d+)/).slice(1, 3)
//= {"value": ["2024", "03"]}
'k=v; k2=v2'.matchAll(/(\w+)=(\w+)/g).toArray().map(m => m[1])
//= {"value": ["k", "k2"]}
/(?<year>\d{4})/.exec('in 2024').groups.year
//= {"value": "2024"}
const re = /a/g; re.test('aa'); re.lastIndex
//= {"value": 1}
const re = /x/; re.exec = () => null; re.test('x')
//= {"value": false}
'Ünï'.normalize('NFD').length + 'ß'.toUpperCase()
//= {"value": "5SS"}
'abc'.charCodeAt(1) + 'abc'.codePointAt(0) + 'abc'.at(-1)
//= {"value": "195c"}
'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.includes('b') && 'abc'.indexOf('c')
//= {"value": 2}
encodeURIComponent('a b&c') + decodeURIComponent('%C3%A9') + escape('ü')
//= {"value": "a%20b%26cé%FC"}
new Date(0).toISOString()
//= {"value": "1970-01-01T00:00:00.000Z"}
new Date(2024, 0, 31, 12).getDate() + new Date('2024-03-10').getTime()
//= {"value": 1710028800031}
new Date(Date.UTC(2020, 1, 29)).toJSON()
//= {"value": "2020-02-29T00:00:00.000Z"}
const d = new Date(0); d.setDate(40); d
//= {"value": "1970-02-09T00:00:00Z"}
const d = new Date(0); d.toJSON = () => 'own'; JSON.stringify({ d })
//= {"value": "{\"d\":\"own\"}"}
const d = new Date(0); d.toString = () => 'day'; `${d}`
//= {"value": "day"}
typeof Date.now() === 'number' && new Date() instanceof Date
//= {"value": true}
class Day extends Date { iso() { return this.toISOString().slice(0, 10); } } new Day(0).iso()
//= {"value": "1970-01-01"}
function* count(n) { for (let i = 0; i < n; i++) yield i; } [...count(3)]
//= {"value": [0, 1, 2]}
function* inner() { const got = yield 1; return got * 2; } const g = inner(); g.next(); g.next(21).value
//= {"value": 42}
const it = { from: 1, to: 3, *[Symbol.iterator]() { for (let i = this.from; i <= this.to; i++) yield i; } }; [...it]
//= {"value": [1, 2, 3]}
const it = [1, 2, 3].values(); it.next(); it.next().value
//= {"value": 2}
[1, 2, 3, 4].values().filter(x => x % 2).map(x => x * 10).toArray()
//= {"value": [10, 30]}
Iterator.from([1, 2, 3]).drop(1).take(1).toArray()
//= {"value": [2]}
const fib = (() => { let [a, b] = [0, 1]; return () => { [a, b] = [b, a + b]; return a; }; })(); fib(); fib(); fib()
//= {"value": 2}
const memo = new Map(); const sq = n => memo.get(n) ?? (memo.set(n, n * n), memo.get(n)); sq(4) + sq(4)
//= {"value": 32}
function fact(n) { return n < 2 ? 1 : n * fact(n - 1); } fact(10)
//= {"value": 3628800}
const compose = (...fs) => x => fs.reduceRight((v, f) => f(v), x); compose(x => x + 1, x => x * 2)(5)
//= {"value": 11}
const bound = function () { return this.v; }.bind({ v: 6 }); bound()
//= {"value": 6}
(function () { return typeof this; })()
//= {"value": "object"}
(function () { 'use strict'; return typeof this; })()
//= {"value": "undefined"}
(function () { return arguments.length; })(1, 2, 3)
//= {"value": 3}
(async () => { const x = await Promise.resolve(4); return x + 1; })()
//= {"value": 5}
(async () => { try { await Promise.reject(new Error('late')); } catch (e) { return e.message; } })()
//= {"value": "late"}
Promise.all([1, Promise.resolve(2)]).then(list => list.reduce((a, b) => a + b))
//= {"value": 3}
Promise.allSettled([Promise.reject(1), 2]).then(list => list.map(x => x.status))
//= {"value": ["rejected", "fulfilled"]}
Promise.race([new Promise(() => {}), Promise.resolve('quick')])
//= {"value": "quick"}
Promise.resolve(1).finally(() => { variables.fin = true; }).then(x => x + 1)
//= {"value": 2, "variables": {"fin": true}}
const p = Promise.resolve(1); p.then = 5; typeof p.then
//= {"value": "number"}
(async function* () { yield 1; yield 2; })().next().then(x => x.value)
//= {"value": 1}
(async () => { const all = []; for await (const x of (async function* () { yield 1; yield 2; })()) all.push(x); return all; })()
//= {"value": [1, 2]}
const { promise, resolve } = Promise.withResolvers(); resolve(9); promise
//= {"value": 9}
const s = Symbol('mine'); ({ [s]: 1 })[s] + s.description
//= {"value": "1mine"}
Symbol.for('shared') === Symbol.for('shared')
//= {"value": true}
const p = new Proxy({}, { get: (target, key) => key + '!' }); p.hello
//= {"value": "hello!"}
const p = new Proxy([1, 2], {}); p.push(3); p.length
//= {"value": 3}
Reflect.ownKeys({ b: 1, a: 2, 1: 3 })
//= {"value": ["1", "b", "a"]}
Reflect.has({ x: 1 }, 'x') && Reflect.get({ x: 5 }, 'x')
//= {"value": 5}
const view = new Uint8Array([1, 2, 255]); view[2] + view.length
//= {"value": 258}
new DataView(new ArrayBuffer(4)).getInt32(0)
//= {"value": 0}
const typed = new Float64Array(2); typed.set([1.5, 2.5]); typed.map(x => x * 2)
//= {"value": [3, 5]}
structuredCloneLike = value => JSON.parse(JSON.stringify(value)); structuredCloneLike({ a: [1] })
//= {"value": {"a": [1]}}
eval('1 + 1') + new Function('a', 'return a + 1')(4)
//= {"error": "TypeError: eval: text is not compiled while a script runs: write the function into the script"}
globalThis.own = 5; own + 1
//= {"value": 6}
void 0
//= {"value": null}
(1, 2, 3)
//= {"value": 3}
{ const inner = 1; inner + 1 }
//= {"value": 2}
({ 'a-b': 1, [`c${1}`]: 2, 3: 4, __x: 5 })
//= {"value": {"3": 4, "a-b": 1, "c1": 2, "__x": 5}}
var self = this; self === globalThis
//= {"value": true}
function hoisted() { return later(); } function later() { return 'ok'; } hoisted()
//= {"value": "ok"}
const deep = { a: { b: { c: [1, { d: 2 }] } } }; deep.a.b.c[1].d
//= {"value": 2}
const merge = (to, from) => { for (const key in from) to[key] = typeof from[key] === 'object' ? merge(to[key] ?? {}, from[key]) : from[key]; return to; }; merge({ a: { x: 1 } }, { a: { y: 2 }, b: 3 })
//= {"value": {"a": {"x": 1, "y": 2}, "b": 3}}
getOutputFrom('a1').Status + getResultFromHttpRequest().x
//= {"value": "ok1"}
toJson({ order: getOrder().id, ok: isNullOrEmpty('') })
//= {"value": "{\"order\":7,\"ok\":true}"}
stringToBase64('hé') + bytesToString(bytesFromString('x'))
//= {"value": "aMOpx"}
newGuid().length + parseGuid('0F8FAD5BD9CB469FA16570867728950E')
//= {"value": "360f8fad5b-d9cb-469f-a165-70867728950e"}
setCorrelationId('c' + 1); setWorkflowInstanceName('n'); getCorrelationId() + getWorkflowInstanceName()
//= {"value": "c1n", "correlationId": "c1", "name": "n"}
setOutcomes(['A', 'B']); 1
//= {"value": 1, "outcomes": ["A", "B"]}
