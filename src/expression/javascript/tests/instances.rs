//! Scripts of one instance that attack those of the next one.

use serde_json::{Value, json};

use crate::expression::script::ScriptScope;
use crate::expression::script_options::ScriptOptions;
use crate::expression::{ScriptEngine, WorkflowFacts};

/// What an instance's script leaves behind, or tries to. Most are written so that the text does not show it.
#[rustfmt::skip]
const ATTACKS: &[&str] = &[
    "Math.x = 1; Math.max = () => 666",
    "const M = Math; M.x = 1; M.max = () => 666; M.random = () => 0",
    "JSON.leak = 1; JSON.parse = () => 666; JSON.stringify = () => 666",
    "const J = JSON; J.leak = 1; J.parse = () => 666; J.stringify = () => 666",
    "const key = '__pro' + 'to__'; [][key].x = 1; ({})[key].x = 1; ''[key].x = 1; (() => 1)[key].x = 1",
    "const key = '__pro' + 'to__'; [][key].push = () => 666; [][key].map = () => 666; ({})[key].toString = () => 'mine'",
    "const key = '__pro' + 'to__'; [][key][key] = { x: 1 }; ({ a: 1 })[key].x = 1",
    "const c = 'con' + 'structor'; (function* () {})[c]['proto' + 'type'].x = 1; (async () => 1)[c].x = 1",
    "const p = 'proto' + 'type'; (function* () {})[p]['__pro' + 'to__'].next = () => 666",
    "const g = Object['getProto' + 'typeOf']; g(g([][Symbol.iterator]())).x = 1; g([].values()).next = () => ({ done: true })",
    "const g = Object['getProto' + 'typeOf']; g(new Map().entries()).next = () => 666; g(/x/).exec = () => 666",
    "const g = Object['getProto' + 'typeOf']; g(g(new Uint8Array(1))).fill = () => 666; g(Uint8Array).from = () => 666",
    "const g = Object['getProto' + 'typeOf']; g(async function* () {}).x = 1; g(Promise.resolve()).then = () => 666",
    "const define = Object['define' + 'Property'], p = 'proto' + 'type'; try { define(Array[p], 'x', { value: 1 }) } catch {} 1",
    "const merge = (to, from) => { for (const k of Object.keys(from)) if (typeof from[k] === 'object') merge(to[k] ??= {}, from[k]); else to[k] = from[k]; return to }; merge({}, getInput('body'))",
    "const merge = (to, from) => { 'use strict'; for (const k of Object.keys(from)) if (typeof from[k] === 'object') merge(to[k], from[k]); else to[k] = from[k] }; try { merge({}, getInput('body')) } catch {} 1",
    "leak = 1; var leak2 = 2; function leak3() {} globalThis.leak4 = 4; this['leak5'] = 5",
    "(0, eval)('var leak = 1; function leak2() {} let leak3 = 3; class leak4 {}')",
    "Function('leak = 1; globalThis.leak2 = 2')(); new (async () => 1)['con' + 'structor']('leak = 1')()",
    "Map = 1; JSON = 2; globalThis['Obj' + 'ect'] = 3; undefined = 4; Array = () => 666",
    "delete globalThis.Map; delete globalThis.getVariable; delete globalThis.variables",
    "Object.defineProperty(globalThis, 'Map', { get: () => 666 })",
    "globalThis['__define' + 'Getter__']('leak', () => 666); globalThis['__define' + 'Getter__']('JSON', () => 666)",
    "Object.defineProperty(globalThis, 'leak', { value: 1 })",
    "Object.defineProperty(globalThis, 'leak', { get() { while (true); } , configurable: true }); 1",
    "Object.defineProperty(globalThis, 'Math', { writable: false, value: 5 })",
    "Object.defineProperty(globalThis, 'Math', { writable: false }); Object.defineProperty(globalThis, 'leak', { value: 1 })",
    "for (const name of ['Array', 'escape', 'Symbol']) Object.defineProperty(globalThis, name, { writable: false }); 1",
    "Object.preventExtensions(globalThis)",
    "Object.freeze(globalThis)",
    "Object['setProto' + 'typeOf'](globalThis, { leak: 1 })",
    "globalThis['__pro' + 'to__'] = { leak: 1 }",
    "globalThis[Symbol.for('leak')] = 1; globalThis[Symbol.iterator] = 2; globalThis[0] = 3",
    "getVariable.leak = 1; getInput.cache = {}; newGuid.toString = () => 'mine'",
    "getVariable = () => 666; variables = {}; globalThis.toJson = 1",
    "variables.leak = 1; setVariable('leak', 2); variables['__pro' + 'to__'].leak = 3",
    "Object['setProto' + 'typeOf'](variables, { leak: 1 }); 1",
    "try { Object.defineProperty(variables, 'leak', { value: 1 }); Object.defineProperty(variables, Symbol.iterator, { value: 1 }) } catch {} 1",
    "Error.prepareStackTrace = () => 666; 1",
    "Error.stackTraceLimit = 0; 1",
    "Error['prepare' + 'StackTrace'] = (e, sites) => { for (const s of sites) { const f = s.getFunction(); if (f) f.leak = 1 } }; new Error().stack; 1",
    "globalThis.registry = new FinalizationRegistry(() => { leak = 1 }); registry.register({}, 1); 1",
    "const R = globalThis['Finalization' + 'Registry'], r = new R(() => { leak = 1 }), a = {}; a.a = a; a.r = r; r.register(a, 1); 1",
    "class R extends FinalizationRegistry {} const a = {}; a.a = [a, new R(() => { leak = 1 })]; a.a[1].register(a, 1); 1",
    "Promise.resolve().then(() => { leak = 1 }); 1",
    "(async () => { await null; leak = 1; await null; leak2 = 1 })(); 1",
    "new Promise(resolve => { globalThis.leak = resolve }); 1",
    "queueMicrotask(() => { leak = 1; queueMicrotask(() => { leak2 = 1 }) }); 1",
    "({ get then() { globalThis.leak = 1 } })",
    "({ get x() { globalThis.leak = 1; return 1 } })",
    "({ toJSON() { leak = 1 } })",
    "new Proxy({}, { ownKeys() { globalThis.leak = 1; return [] } })",
    "const d = new Date(0); const g = Object['getProto' + 'typeOf'](d); g.getTime = () => 666; g[Symbol.toPrimitive] = 1; Date.now = () => 666; Date.parse = () => 666",
    "Symbol.leak = 1; Symbol.iterator = 2; Symbol['proto' + 'type'].x = 1; Number['proto' + 'type'].x = 1",
    "String['proto' + 'type'].trim = () => 666; RegExp['proto' + 'type'].test = () => true; Array.isArray = () => true",
    "Reflect.ownKeys = () => []; Object.keys = () => []; Object.entries = Object.hasOwn = () => 666",
    "Promise['proto' + 'type'].then = () => 666; Promise.resolve = () => 666; Promise.all = 1",
    "Array.from([1]).constructor['spe' + 'cies'] = 1; Array[Symbol.species] = 1; Map[Symbol.species] = 1",
    "Object['define' + 'Property'](Object, 'x', { get: () => 666 })",
    "Object.assign(Array, { x: 1 })",
    "Reflect.set(Array['proto' + 'type'], 'x', 1); Reflect.defineProperty(JSON, 'x', { value: 1 }); Reflect.set(Math, 'max', 1)",
    "Reflect.set(Array['proto' + 'type'], 'push', 1, Math); Reflect.set({}, 'toString', 1, JSON)",
    "const d = Object.getOwnPropertyDescriptor(Array['proto' + 'type'], 'push'); d.get && (d.get.leak = 1, d.set.call(Math, 1), d.set.call(globalThis, 1)); 1",
    "const t = (x => x)`a${1}b`; try { t.leak = 1; t.raw.leak = 1 } catch {} 1",
    "(() => { for (const f of [getVariable, toJson, Map, Date, Array.from, [].push]) { try { f.leak = 1; f['proto' + 'type'].leak = 1 } catch {} } })()",
    "performance.leak = 1; performance.now = () => 666; Atomics.leak = 1; Iterator['proto' + 'type'].map = 1",
    "try { arguments.callee.leak = 1 } catch {} (function () { arguments.callee.leak = 1 })(); 1",
    "return (this.leak = 1, globalThis.leak2 = 2, 1)",
    "getV() + 1",
    "setV(getV() + 1)",
    "`${getV()} ${leak = 1}`",
    "/'/, (globalThis.leak = 1), /'/",
    "1..constructor.constructor('leak = 1')()",
    "getV.constructor('leak = 1')()",
    "getV?.constructor('leak = 1')()",
    "variables.v.constructor.constructor('leak = 1')()",
    "const s = []; s.x = 1; s.__lookupGetter__; const f = s['__lookup' + 'Getter__']('push'); f && (f.leak = 1); 1",
];

/// What an instance sees.
const PROBE: &str = "
  const seen = {}, wanted = ['x', 'leak', 'leak2', 'leak3', 'leak4', 'leak5', 'cache', 'registry', 'key', 'merge'];
  const objects = { globalThis, Math, JSON, Object, Array, Map, Date, Error, Reflect, Symbol, Promise, variables, getVariable,
    getInput, toJson, newGuid, performance, a: [], o: {}, f() {}, g: function* () {}, s: '', n: 5, r: /x/, d: new Date(0),
    i: [].values(), e: new Error('e'), t: new Uint8Array(1), p: Promise.resolve(), m: new Map().entries(), h: (function* () {})(),
    af: async () => 1, ag: (async function* () {})() };
  for (const name in objects) for (const key of wanted) if (objects[name][key] !== undefined) seen[name + '.' + key] = 1;
  const values = [[3, 1].sort(), [1].map(x => x + 1), JSON.stringify({ a: 1 }), JSON.parse('[1]'), Math.max(1, 2), `${{}}`,
    [...[1, 2]], [...new Map([[1, 2]])], [...new Set([1])], Object.keys({ a: 1 }), /x/.test('y'), new Date(5).getTime(),
    ' a '.trim(), Array.isArray(1), String([1]), typeof getVariable, typeof variables, toJson(1), [1, 2].push(3),
    [...(function* () { yield 1 })()], new Uint8Array(2).fill(7).join(), Date.parse('1970'), Array.from([1, 2]), Object.hasOwn({}, 'a'),
    new Error('e').stack.length > 0, getVariable('v'), Reflect.ownKeys({ b: 1 }), [1].values().map(x => x).toArray(),
    typeof globalThis[Symbol.iterator], typeof globalThis[0], newGuid.toString().length > 10, Math.random() !== Math.random(),
    Reflect.ownKeys(globalThis).length, isNaN(undefined),
    Reflect.ownKeys(globalThis).filter(key => Object.getOwnPropertyDescriptor(globalThis, key).writable).length];
  Promise.all([Promise.resolve(1), (async () => 2)()]).then(list => ({ seen, values, list }))";

fn scope(instance: &str) -> ScriptScope {
    let mut scope = ScriptScope {
        workflow: WorkflowFacts {
            instance_id: instance.to_owned(),
            ..WorkflowFacts::default()
        },
        ..ScriptScope::default()
    };
    let body = serde_json::from_str(r#"{"__proto__": {"x": 1, "push": 2}, "constructor": {"prototype": {"x": 1}}}"#);
    scope.inputs.insert("body".to_owned(), body.expect("JSON"));
    scope.variables.insert("v".to_owned(), json!(1));
    scope
}

fn engine() -> ScriptEngine {
    ScriptEngine::new(ScriptOptions {
        threads: 1,
        ..ScriptOptions::default()
    })
}

async fn probe(engine: &ScriptEngine, after: &str) -> Value {
    let probed = engine.session().evaluate(PROBE, scope("victim")).await;
    probed.unwrap_or_else(|error| panic!("after {after}: {error:?}")).value
}

#[tokio::test]
async fn the_scripts_of_one_instance_leave_nothing_for_the_next_one() {
    let clean = probe(&engine(), "nothing").await;
    let engine = engine();
    for attack in ATTACKS {
        let own_session = engine.session();
        for _ in 0..2 {
            let _ = own_session.evaluate(attack, scope("attacker")).await;
        }
        assert_eq!(probe(&engine, attack).await, clean, "{attack}");
        let probed = own_session.evaluate(PROBE, scope("attacker")).await;
        assert_eq!(probed.expect("result").value, clean, "within the burst: {attack}");
    }
}

#[tokio::test]
async fn all_that_scripts_share_is_frozen() {
    let walk = "
      const seen = new Set(), open = [];
      const walk = (one, path) => {
        if ((typeof one !== 'object' && typeof one !== 'function') || one === null || one === globalThis) return;
        if (one === variables || seen.has(one)) return;
        seen.add(one);
        if (!Object.isFrozen(one)) open.push(path);
        for (const key of Reflect.ownKeys(one)) {
          const { value, get, set } = Object.getOwnPropertyDescriptor(one, key);
          for (const child of [value, get, set]) walk(child, path + '.' + String(key));
        }
        walk(Object.getPrototypeOf(one), path + '^');
      };
      for (const key of Reflect.ownKeys(globalThis)) walk(globalThis[key], String(key));
      const syntax = [() => 1, function* () {}, async () => 1, async function* () {}, [].values(), new Map().entries(),
        new Set().values(), ''[Symbol.iterator](), 'x'.matchAll(/x/g), [].values().map(x => x), Iterator.from({ next() {} })];
      for (const one of syntax) walk(Object.getPrototypeOf(one), 'syntax');
      [open, seen.size > 900, variables[Symbol.iterator] ?? null]";
    let engine = engine();
    let seen = engine
        .session()
        .evaluate(walk, ScriptScope::default())
        .await
        .expect("result");
    assert_eq!(seen.value, json!([[], true, null]));
}

#[tokio::test]
async fn a_realm_that_has_grown_is_dropped() {
    let engine = engine();
    let grown = [
        // Held by the global object, by a cycle, by a text that is not its own.
        "const M = Math; M.x = Array(5e5).fill(1.5); globalThis.kept = Array(5e5).fill(1.5); 1",
        "const a = [new ArrayBuffer(5e7)]; a.push(a); 1",
        "for (let i = 0; i < 20; i++) { const a = ['x'.repeat(1e6) + i]; a.push(a) } 1",
        "const list = []; for (let i = 0; i < 3e4; i++) list.push(Symbol.for('leak' + i)); list.push(list); 1",
    ];
    for round in 0..4 {
        for script in grown {
            let kept = engine.session().evaluate(script, scope("attacker")).await;
            assert_eq!(kept.expect(script).value, json!(1), "round {round}");
            // As much as a script may have in a new heap.
            let victim = engine.session();
            let large = victim.evaluate("new ArrayBuffer(6e7).byteLength", scope("victim"));
            assert_eq!(
                large.await.expect(script).value,
                json!(60_000_000),
                "round {round}: {script}"
            );
        }
    }
}

#[tokio::test]
async fn many_instances_share_one_realm() {
    let engine = engine();
    for n in 0..200 {
        let script = "const was = typeof globalThis.mine; globalThis.mine = 1; was + variables.v++";
        let seen = engine
            .session()
            .evaluate(script, scope(&format!("i{n}")))
            .await
            .expect("result");
        assert_eq!(seen.value, json!("undefined1"));
        assert_eq!(seen.changes.variables, [("v".to_owned(), json!(2))]);
    }
    // On a busy machine the reset of one may have taken too long.
    let made = engine.realms();
    assert!(made < 20, "{made} were made");
}
