1 + 2 * 3
'a' + 1 + true
getVariable('order').lines.length
variables.order.lines.map(line => line.price * line.count)
variables.order.lines.reduce((sum, line) => sum + line.price * line.count, 0)
variables.order.lines.filter(line => line.count > 1).map(line => line.name).join(', ')
getOrder().lines[0].name.toUpperCase()
variables.total = variables.order.lines.length; variables.total
setVariable('seen', true); getVariable('seen')
const { lines, customer: { name } } = variables.order; name + lines.length
const [first, ...others] = variables.order.lines; [first.name, others.length]
const copy = { ...variables.order, note: 'x' }; Object.keys(copy)
const list = [...variables.order.lines, { name: 'z' }]; list.length
Object.assign({}, variables.order, { id: 9 }).id
Object.entries({ a: 1, b: 2 }).map(([key, value]) => key + '=' + value).join('&')
Object.fromEntries([['a', 1], ['b', 2]])
Object.keys(variables).sort()
Object.values({ x: 1, y: [2] })
JSON.parse('{"a": [1, {"b": null}]}').a[1]
JSON.stringify({ a: 1, b: [true, null], c: undefined })
JSON.stringify({ a: 1 }, null, 2)
JSON.parse('[1,2,3]', (key, value) => typeof value === 'number' ? value * 2 : value)
JSON.stringify({ toJSON() { return 'mine'; } })
JSON.stringify([new Date(0), NaN, 'ü'])
const o = {}; o.toString = () => 'mine'; String(o)
const o = { toString() { return 'literal'; } }; `${o}`
const o = {}; o.valueOf = () => 42; o + 1
const o = {}; o.constructor = 'ACME Ltd'; o.constructor
const o = {}; o.hasOwnProperty = 1; Object.keys(o)
const o = {}; o.isPrototypeOf = 1; o.toLocaleString = 2; o.propertyIsEnumerable = 3; Object.values(o)
'use strict'; const o = {}; o.toString = () => 's'; '' + o
'use strict'; const o = { toString: null }; o.toString = 5; o.toString
const counts = {}; for (const word of ['constructor', 'a', 'constructor']) counts[word] = (Object.hasOwn(counts, word) ? counts[word] : 0) + 1; counts
const f = () => 1; f.toString = () => 'f'; String(f)
const f = function () {}; f.call = 5; f.apply = 6; [f.call, f.apply]
const f = () => 0; f.cache = {}; f.cache.x = 1; f.cache
const e = new Error('boom'); e.name = 'Mine'; String(e)
const e = new Error('boom'); e.message = 'other'; e.message
const e = new TypeError('t'); e.code = 7; [e.code, e.name, Object.keys(e)]
const e = new RangeError('r'); e.toString = () => 'shown'; `${e}`
class Mine extends Error { constructor(text) { super(text); this.name = 'Mine'; } } String(new Mine('x'))
class Mine extends Error { get name() { return 'Got'; } } const e = new Mine('y'); e + ''
class Mine extends Error {} try { throw new Mine('z'); } catch (e) { [e instanceof Mine, e instanceof Error, e.message, e.name] }
class Point { constructor(x) { this.x = x; } twice() { return this.x * 2; } } new Point(4).twice()
class Point { toString() { return 'P'; } } `${new Point()}`
class Animal { speak() { return 'a'; } } class Dog extends Animal { speak() { return super.speak() + 'd'; } } new Dog().speak()
class Counter { #n = 0; up() { return ++this.#n; } static zero = 0; } const c = new Counter(); c.up(); c.up() + Counter.zero
class Temperature { static #last = 1; static last() { return Temperature.#last; } } Temperature.last()
class Box { get size() { return 3; } set size(v) { this.given = v; } } const b = new Box(); b.size = 9; [b.size, b.given]
class Stack extends Array { peek() { return this[this.length - 1]; } } const s = new Stack(); s.push(1, 2); [s.peek(), s.length, s instanceof Array]
class Stack extends Array {} Stack.from([1, 2, 3]).map(x => x + 1) instanceof Stack
class Names extends Map { get(key) { return super.get(key.toLowerCase()); } } new Names([['a', 1]]).get('A')
class Unique extends Set { add(v) { return super.add(String(v)); } } const u = new Unique(); u.add(1); u.add('1'); u.size
class A { static make() { return new this(); } } A.make() instanceof A
class A { static { A.ready = true; } } A.ready
class A { [Symbol.toPrimitive]() { return 8; } } new A() * 2
class A { get [Symbol.toStringTag]() { return 'Tag'; } } String(new A())
class A { *[Symbol.iterator]() { yield 1; yield 2; } } [...new A()]
class A {} A.name
const A = class { constructor() { this.toString = () => 'own'; } }; String(new A())
function Old(x) { this.x = x; } new Old(3).x
function Old() {} const one = new Old(); one.constructor === Old
const list = [3, 1, 2]; list.sort(); list
[10, 9, 1].sort()
[10, 9, 1].sort((a, b) => a - b)
['b', 'a', 'C'].sort((a, b) => a.localeCompare(b))
[3, 1, 2].toSorted().concat([3, 1, 2].toReversed())
[1, 2, 3].at(-1)
[1, [2, [3, [4]]]].flat(Infinity)
[1, 2].flatMap(x => [x, x * 10])
[1, 2, 3].includes(2) && [1, 2, 3].indexOf(3) === 2
[1, 2, 3, 4].slice(1, 3).concat(9)
const a = [1, 2, 3, 4]; a.splice(1, 2, 'x'); a
const a = [1, 2, 3]; a.reverse(); a.unshift(0); a.pop(); a
Array.from({ length: 3 }, (_, i) => i * i)
Array.of(1, 2, 3).fill(7, 1)
new Array(3).fill(0).map((_, i) => i)
[1, 2, 3].find(x => x > 1) + [1, 2, 3].findIndex(x => x > 1) + [1, 2, 3].findLast(x => x < 3)
[1, 2, 3].every(x => x > 0) && [1, 2, 3].some(x => x > 2)
[..."héé"].length
[['a', 1], ['b', 2]].forEach(([key, value]) => { variables[key] = value; }); [variables.a, variables.b]
const a = [1]; a.push = 'own'; a.push
const a = [1, 2]; a.name = 'list'; [a.name, a.length]
const a = [1, 2]; a.map = () => 'own'; a.map()
const a = []; a[3] = 1; a.length
const a = [1, 2, 3]; a.length = 1; a
delete [1, 2][0]
const grouped = Object.groupBy([1, 2, 3], x => x % 2 ? 'odd' : 'even'); [grouped.odd, grouped.even]
Map.groupBy([1, 2, 3], x => x % 2).get(1)
const m = new Map(); m.set('a', 1).set('b', 2); [...m.keys(), ...m.values(), m.size]
const m = new Map([[1, 'x']]); m.get = 5; m.get
const m = new Map([['k', { v: 1 }]]); m.get('k').v++; m.get('k').v
[...new Set([1, 1, 2])].length
new Set([1, 2]).union(new Set([2, 3])).size
const w = new WeakMap(), key = {}; w.set(key, 1); w.get(key)
const r = new WeakRef({ a: 1 }); typeof r.deref
for (const [key, value] of new Map([['a', 1]])) { variables.pair = key + value; } variables.pair
let n = 0; for (const key in { a: 1, b: 2 }) n++; n
let text = ''; for (const key in [7, 8]) text += key; text
outer: for (let i = 0; i < 3; i++) { for (let j = 0; j < 3; j++) { if (j === 1) continue outer; if (i === 2) break outer; variables.at = i * 10 + j; } } variables.at
let i = 0; do { i += 2; } while (i < 7); i
let i = 0; while (true) { if (++i > 4) break; } i
switch (variables.order.customer.name) { case 'Ada': 'is Ada'; break; default: 'another'; }
if (variables.order.lines.length > 1) { 'many' } else { 'few' }
return variables.order.lines.length
if (getOrder().lines.length) return 'yes'; return 'no'
const t = getOrder(); return { id: t.id, n: t.lines.length };
for (const line of getOrder().lines) { if (line.count > 1) return line.name; }
try { null.x } catch (e) { e.constructor.name }
try { undefinedName } catch (e) { e instanceof ReferenceError }
try { JSON.parse('{') } catch { 'bad' } finally { variables.done = 1; }
try { throw { code: 5 } } catch ({ code }) { code }
(() => { try { return 1 } finally { variables.f = 2 } })()
throw new Error('mine')
throw 'a text'
missing.member
null.x
const x = 1; x = 2
'use strict'; undeclared = 1
undeclared = 5; undeclared + 1
var x = 3; x
let x = 4; { let x = 5; } x
const o = Object.freeze({ a: 1 }); o.a = 2; o.a
'use strict'; const o = Object.freeze({ a: 1 }); o.a = 2
Object.isFrozen(Object.freeze([1]))
Object.isSealed(Object.seal({ x: 1 }))
const o = Object.create(null); o.toString = 1; o.x = 2; Object.keys(o)
const o = Object.create({ inherited: 1 }); o.own = 2; [o.inherited, Object.keys(o)]
const o = Object.create({ get x() { return this.y * 2; } }); o.y = 4; o.x
const o = { get a() { return 1; }, set a(v) { this.b = v; } }; o.a = 5; [o.a, o.b]
const o = {}; Object.defineProperty(o, 'x', { value: 1 }); [o.x, Object.keys(o)]
const o = {}; Object.defineProperties(o, { x: { value: 1, enumerable: true } }); o
Object.getOwnPropertyNames({ a: 1, b: 2 })
Object.getOwnPropertyDescriptor({ a: 1 }, 'a')
Object.prototype.hasOwnProperty.call({ a: 1 }, 'a')
Object.prototype.toString.call([])
Array.prototype.slice.call('abc')
(function () { return Array.prototype.map.call(arguments, x => x + 1); })(1, 2)
({}).toString()
({ a: 1 }).hasOwnProperty('a')
'a' in { a: 1 } && !('b' in { a: 1 })
[] instanceof Array && [].constructor === Array
({}).constructor.name
(5).constructor.name + 'x'.constructor.name + true.constructor.name
typeof null + typeof undefined + typeof (() => 1) + typeof Symbol() + typeof 1n
const { a = 5, b: { c = 6 } = {}, ...rest } = { d: 7 }; [a, c, rest]
const swap = ([a, b]) => [b, a]; swap([1, 2])
((a, b = a + 1, ...c) => [a, b, c])(1, undefined, 3, 4)
variables.order?.customer?.address?.city ?? 'unknown'
variables.nothing?.x.y.z
variables.order.lines?.[0]?.name?.toLowerCase?.()
let a = null; a ??= 5; a ||= 6; a &&= 7; a
2 ** 10 + 7 % 3 + (5 >> 1) + (-1 >>> 28) + (6 & 3) + (6 | 1) + (6 ^ 2) + ~1
0.1 + 0.2
(1234.5678).toFixed(2) + (255).toString(16) + (0.00001).toString()
Number('12.5') + parseInt('0x1f') + parseFloat('2.5kg')
Number.isInteger(5) && !Number.isNaN(5) && Number.MAX_SAFE_INTEGER
Math.max(1, 5, 3) + Math.min(...[4, 2]) + Math.round(2.5) + Math.trunc(-1.5)
Math.floor(Math.random() * 0) + Math.abs(-3) + Math.hypot(3, 4)
[1, 2, 3].map(Math.sqrt).map(Math.floor)
10n ** 20n
BigInt(5) * 3n + BigInt.asUintN(8, 257n)
1_000_000 + 0b11 + 0o17 + 0xff
`a ${1 + 1} ${[1, 2]} ${{}}`
((strings, ...values) => strings.raw.join('|') + values)`a${1}\n${2}b`
String.raw`\n${1}`
'abc'.padStart(5, '*') + 'x'.repeat(3) + ' t '.trim()
'a-b-c'.split('-').reverse().join('+')
'Hello'.replace('l', 'L') + 'Hello'.replaceAll('l', 'L')
'a1b22'.replace(/\d+/g, digits => `<${digits}>`)
'2024-03-10'.match(/(\d+)-(\d+)/).slice(1, 3)
'k=v; k2=v2'.matchAll(/(\w+)=(\w+)/g).toArray().map(m => m[1])
/(?<year>\d{4})/.exec('in 2024').groups.year
const re = /a/g; re.test('aa'); re.lastIndex
const re = /x/; re.exec = () => null; re.test('x')
'Ünï'.normalize('NFD').length + 'ß'.toUpperCase()
'abc'.charCodeAt(1) + 'abc'.codePointAt(0) + 'abc'.at(-1)
'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.includes('b') && 'abc'.indexOf('c')
encodeURIComponent('a b&c') + decodeURIComponent('%C3%A9') + escape('ü')
new Date(0).toISOString()
new Date(2024, 0, 31, 12).getDate() + new Date('2024-03-10').getTime()
new Date(Date.UTC(2020, 1, 29)).toJSON()
const d = new Date(0); d.setDate(40); d
const d = new Date(0); d.toJSON = () => 'own'; JSON.stringify({ d })
const d = new Date(0); d.toString = () => 'day'; `${d}`
typeof Date.now() === 'number' && new Date() instanceof Date
class Day extends Date { iso() { return this.toISOString().slice(0, 10); } } new Day(0).iso()
function* count(n) { for (let i = 0; i < n; i++) yield i; } [...count(3)]
function* inner() { const got = yield 1; return got * 2; } const g = inner(); g.next(); g.next(21).value
const it = { from: 1, to: 3, *[Symbol.iterator]() { for (let i = this.from; i <= this.to; i++) yield i; } }; [...it]
const it = [1, 2, 3].values(); it.next(); it.next().value
[1, 2, 3, 4].values().filter(x => x % 2).map(x => x * 10).toArray()
Iterator.from([1, 2, 3]).drop(1).take(1).toArray()
const fib = (() => { let [a, b] = [0, 1]; return () => { [a, b] = [b, a + b]; return a; }; })(); fib(); fib(); fib()
const memo = new Map(); const sq = n => memo.get(n) ?? (memo.set(n, n * n), memo.get(n)); sq(4) + sq(4)
function fact(n) { return n < 2 ? 1 : n * fact(n - 1); } fact(10)
const compose = (...fs) => x => fs.reduceRight((v, f) => f(v), x); compose(x => x + 1, x => x * 2)(5)
const bound = function () { return this.v; }.bind({ v: 6 }); bound()
(function () { return typeof this; })()
(function () { 'use strict'; return typeof this; })()
(function () { return arguments.length; })(1, 2, 3)
(async () => { const x = await Promise.resolve(4); return x + 1; })()
(async () => { try { await Promise.reject(new Error('late')); } catch (e) { return e.message; } })()
Promise.all([1, Promise.resolve(2)]).then(list => list.reduce((a, b) => a + b))
Promise.allSettled([Promise.reject(1), 2]).then(list => list.map(x => x.status))
Promise.race([new Promise(() => {}), Promise.resolve('quick')])
Promise.resolve(1).finally(() => { variables.fin = true; }).then(x => x + 1)
const p = Promise.resolve(1); p.then = 5; typeof p.then
(async function* () { yield 1; yield 2; })().next().then(x => x.value)
(async () => { const all = []; for await (const x of (async function* () { yield 1; yield 2; })()) all.push(x); return all; })()
const { promise, resolve } = Promise.withResolvers(); resolve(9); promise
const s = Symbol('mine'); ({ [s]: 1 })[s] + s.description
Symbol.for('shared') === Symbol.for('shared')
const p = new Proxy({}, { get: (target, key) => key + '!' }); p.hello
const p = new Proxy([1, 2], {}); p.push(3); p.length
Reflect.ownKeys({ b: 1, a: 2, 1: 3 })
Reflect.has({ x: 1 }, 'x') && Reflect.get({ x: 5 }, 'x')
const view = new Uint8Array([1, 2, 255]); view[2] + view.length
new DataView(new ArrayBuffer(4)).getInt32(0)
const typed = new Float64Array(2); typed.set([1.5, 2.5]); typed.map(x => x * 2)
structuredCloneLike = value => JSON.parse(JSON.stringify(value)); structuredCloneLike({ a: [1] })
eval('1 + 1') + new Function('a', 'return a + 1')(4)
globalThis.own = 5; own + 1
void 0
(1, 2, 3)
{ const inner = 1; inner + 1 }
({ 'a-b': 1, [`c${1}`]: 2, 3: 4, __x: 5 })
var self = this; self === globalThis
function hoisted() { return later(); } function later() { return 'ok'; } hoisted()
const deep = { a: { b: { c: [1, { d: 2 }] } } }; deep.a.b.c[1].d
const merge = (to, from) => { for (const key in from) to[key] = typeof from[key] === 'object' ? merge(to[key] ?? {}, from[key]) : from[key]; return to; }; merge({ a: { x: 1 } }, { a: { y: 2 }, b: 3 })
getOutputFrom('a1').Status + getResultFromHttpRequest().x
toJson({ order: getOrder().id, ok: isNullOrEmpty('') })
stringToBase64('hé') + bytesToString(bytesFromString('x'))
newGuid().length + parseGuid('0F8FAD5BD9CB469FA16570867728950E')
setCorrelationId('c' + 1); setWorkflowInstanceName('n'); getCorrelationId() + getWorkflowInstanceName()
setOutcomes(['A', 'B']); 1
