// Every function that a script can reach, and values that make native loops long. Returns [names, counts, call, loop].
(function () {
  const functions = [], names = [], seen = new Set();
  function walk(value, path) {
    if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return;
    if (value === globalThis || seen.has(value)) return;
    seen.add(value);
    if (typeof value === 'function') {
      functions.push(value);
      names.push(path);
    }
    for (const key of Reflect.ownKeys(value)) {
      const found = Object.getOwnPropertyDescriptor(value, key), name = path + '.' + String(key);
      walk(found.value, name);
      // In a frozen realm the getter only returns the function.
      if (found.get && value !== variables) {
        let inner;
        try { inner = found.get.call(value); } catch {}
        if (typeof inner === 'function') walk(inner, name);
        else walk(found.get, 'get ' + name);
      }
    }
    walk(Reflect.getPrototypeOf(value), path + '.__proto__');
  }
  for (const key of Reflect.ownKeys(globalThis)) walk(globalThis[key], String(key));
  const syntax = { generator: function* () {}, async: async () => 1, asyncGenerator: async function* () {}, list: [].values(),
    made: (function* () {})(), map: new Map().entries(), set: new Set().values(), helper: [].values().map(x => x),
    text: ''[Symbol.iterator](), matches: 'x'.matchAll(/x/g), wrapped: Iterator.from({ next() {} }) };
  for (const name in syntax) walk(syntax[name], name);

  const text = 'ab'.repeat(4e6), holes = Array(4294967295), like = { length: 2 ** 53 - 1 };
  const keys = Array.from({ length: 1e5 }, (_, i) => 'k' + i);
  const wide = new Proxy({}, { ownKeys: () => keys });
  const open = new Proxy(like, {});
  const few = Array.from({ length: 20000 }, (_, i) => i), many = new Set(few), pairs = new Map(few.map(i => [i, i]));
  const typed = new Uint8Array(1 << 23), large = 2n ** 200000n;
  const native = { next: Object, [Symbol.iterator]() { return this; }, size: Infinity, has: Object, keys() { return native; } };
  const values = [() => undefined, () => like, () => holes, () => open, () => text, () => typed, () => holes.values(),
    () => wide, () => many, () => pairs, () => /(?:)/g, () => large, () => typed.buffer, () => native, () => 4e9,
    () => Math.abs, () => new Date(), () => [text, text, text], () => Iterator.from(native)];
  const lists = [[], [4e9], [0, 4e9], [-1], [text], ['a' + text.slice(3), 'b'], [Math.abs, 4e9]];
  const args = lists.map(list => () => list).concat(values.slice(1).map(make => () => [make()]),
    values.slice(1).map(make => () => [Math, make()]));
  function call(at, on, by) {
    const list = args[by]();
    return on < values.length ? Reflect.apply(functions[at], values[on](), list) : Reflect.construct(functions[at], list);
  }
  const { apply, construct } = Reflect;
  function loop(at, on, by) {
    const list = args[by](), made = functions[at], self = on < values.length ? values[on]() : undefined;
    for (;;) {
      try {
        if (on < values.length) apply(made, self, list);
        else construct(made, list);
      } catch {}
    }
  }
  return [names, [values.length + 1, args.length], call, loop];
})()
