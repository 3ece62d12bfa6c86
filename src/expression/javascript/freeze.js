// Makes a realm safe to be used by one instance after another: everything that scripts share is frozen, so that a script
// can leave nothing behind but properties of the global object, which `sweep` removes. Evaluated last.
//
// What is inherited stays assignable in the objects that inherit it, as in a realm that is not frozen: a property of a
// shared object becomes an accessor whose setter defines the property in the object at hand. Properties of the global
// object itself are made permanent but stay writable, so that `sweep` reads them without running a getter.
//
// `evaluate`: the `eval` that scripts do not find.
//
// Returns [isWhole, sweep]: `isWhole()` is whether the global object's own properties are as they were, if there are no
// more of them, and false from `sweep()` means that the realm must be dropped. `sweep` takes ten times as long.
(function (evaluate) {
  'use strict';
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, isExtensible, ownKeys,
    deleteProperty, setPrototypeOf } = Reflect;
  const root = globalThis, { freeze } = Object, type = TypeError;

  const setters = new Map();
  function setter(key) {
    const made = {
      set(value) {
        if ((typeof this !== 'object' || this === null) && typeof this !== 'function') return;
        const own = getOwnPropertyDescriptor(this, key);
        if (!isExtensible(this)) {
          if (own?.set === made) throw new type(`'${String(key)}' of a built-in object is shared by all scripts and cannot be changed`);
          return;
        }
        defineProperty(this, key, own ? { value } : { value, writable: true, enumerable: true, configurable: true });
      },
    }.set;
    setters.set(key, freeze(made));
    return made;
  }

  // Everything that a script can reach, from the global object and from syntax. What is frozen has been visited.
  const queue = [], plain = [Math, JSON, Reflect, Object, Symbol, performance];
  const add = (value) => {
    if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return;
    if (value !== root && value !== root.variables) queue[queue.length] = value;
  };
  const arrow = () => 0, step = [].values(), helper = step.map(arrow);
  const found = [function () {}, arrow, function* () {}, async () => 0, async function* () {}, [], {}, /x/, step, helper,
    new Map().entries(), new Set().values(), ''[Symbol.iterator](), 'x'.matchAll(/x/g), Iterator.from({ next: arrow }),
    (function* () {})(), (async function* () {})(), Promise.prototype, Symbol.prototype];
  // Of these it is what they inherit that is shared.
  for (let i = 0; i < found.length; i++) add(getPrototypeOf(found[i]));
  add((function () { return getOwnPropertyDescriptor(arguments, 'callee').get; })());
  const names = ownKeys(root);
  for (let i = 0; i < names.length; i++) {
    const { value, get, set } = getOwnPropertyDescriptor(root, names[i]);
    add(value);
    add(get);
    add(set);
  }
  for (let at = 0; at < queue.length; at++) {
    const one = queue[at];
    if (!isExtensible(one)) continue;
    const keys = ownKeys(one);
    add(getPrototypeOf(one));
    // Most are methods: no script assigns to these two, and their values are no objects.
    if (typeof one === 'function' && keys.length === 2 && keys[0] === 'length' && keys[1] === 'name') {
      freeze(one);
      continue;
    }
    const isPlain = plain.includes(one);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i], { value, get, set, writable, enumerable, configurable } = getOwnPropertyDescriptor(one, key);
      add(value);
      add(get);
      add(set);
      if (isPlain || !writable || !configurable) continue;
      const read = freeze(() => value);
      defineProperty(one, key, { get: read, set: setters.get(key) ?? setter(key), enumerable, configurable: false });
    }
    freeze(one);
  }

  for (let i = 0; i < names.length; i++) {
    if (getOwnPropertyDescriptor(root, names[i]).configurable) defineProperty(root, names[i], { configurable: false });
  }
  const originals = [], above = getPrototypeOf(root), count = names.length;
  for (let i = 0; i < count; i++) originals[i] = root[names[i]];

  // Compares them by their names: there is a getter for none of them, and those that are read-only need no comparison. Each
  // is then assigned, which fails if a script has made it read-only.
  const checked = [], terms = [], writes = [], isWritable = [];
  for (let i = 0; i < count; i++) {
    isWritable[i] = getOwnPropertyDescriptor(root, names[i]).writable === true;
    if (!isWritable[i]) continue;
    const place = typeof names[i] === 'string' ? names[i] : `root[keys[${i}]]`, value = `value${checked.length}`;
    terms[terms.length] = `${place} === ${value}`;
    // Strict code cannot assign to `eval` by its name.
    writes[writes.length] = `${names[i] === 'eval' ? 'root.eval' : place} = ${value};`;
    checked[checked.length] = originals[i];
  }
  const parameters = checked.map((_, at) => `value${at}`).join();
  const isWhole = evaluate(`(root, keys, above, getPrototypeOf, isExtensible, [${parameters}]) => () => {
    'use strict';
    if (getPrototypeOf(root) !== above || !isExtensible(root)) return false;
    if (!(${terms.join(' && ')})) return false;
    try {
      ${writes.join(' ')}
    } catch {
      return false;
    }
    return true;
  }`);

  return [isWhole(root, names, above, getPrototypeOf, isExtensible, checked), sweep];

  function sweep() {
    if (getPrototypeOf(root) !== above && !setPrototypeOf(root, above)) return false;
    if (!isExtensible(root)) return false;
    const keys = ownKeys(root);
    if (keys.length !== count) {
      // None of the first ones can be missing, and their order is that in which they were made.
      let at = 0;
      for (let i = 0; i < keys.length; i++) {
        if (keys[i] === names[at]) at++;
        else if (!deleteProperty(root, keys[i])) return false;
      }
      if (at !== count) return false;
    }
    for (let i = 0; i < count; i++) {
      const value = root[names[i]], before = originals[i];
      if (isWritable[i] && !getOwnPropertyDescriptor(root, names[i]).writable) return false;
      if (value === before || (value !== value && before !== before)) continue;
      root[names[i]] = before;
      if (root[names[i]] !== before) return false;
    }
    return true;
  }
})
