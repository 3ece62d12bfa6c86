// What a script is not given, and bounds of what takes long or ends badly in QuickJS's built-ins. Evaluated after Elsa's
// functions, which keep the originals, and before a realm is frozen.
//
// `host.room(true)` gives the heap room for a compiler, and `host.room(false)` takes it; `host.localeCompare` compares texts;
// `host.stops()` is whether the script must end.
(function (host) {
  'use strict';
  const LONG_LIST = 1 << 22, LONG_TEXT = 1 << 16, WORK = 1 << 29, LONG_PATTERN = 1 << 12, DEEP = 100, MARKS = 1000, COMPARED = 1 << 20;
  const { apply, construct, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, isExtensible, ownKeys, setPrototypeOf } = Reflect;
  const root = globalThis, range = RangeError, type = TypeError, text = String, { max, min, trunc } = Math;
  const setHidden = (target, name, value) => defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });

  // Replaces a method by one of the same name and length.
  function replace(target, name, make) {
    const native = target[name];
    if (typeof native !== 'function') return;
    const made = make(native);
    defineProperty(made, 'name', { value: native.name });
    defineProperty(made, 'length', { value: native.length });
    setHidden(target, name, made);
  }

  // Text is compiled only where an author wrote it.
  const refusal = 'text is not compiled while a script runs: write the function into the script';
  setHidden(root, 'eval', { eval() { throw new type('eval: ' + refusal); } }.eval);
  for (const one of [function () {}, async () => 0, function* () {}, async function* () {}]) {
    const prototype = getPrototypeOf(one), name = prototype.constructor.name;
    const made = function () { throw new type(name + ': ' + refusal); };
    defineProperty(made, 'name', { value: name });
    defineProperty(made, 'prototype', { value: prototype, writable: false });
    defineProperty(prototype, 'constructor', { value: made });
    if (name === 'Function') setHidden(root, name, made);
  }

  // Callbacks that could run in a later script; waits; what is a setting of the realm and leads to callers.
  for (const name of ['FinalizationRegistry', 'Atomics', 'SharedArrayBuffer']) deleteProperty(root, name);
  deleteProperty(RegExp.prototype, 'compile');
  for (const name of ['stackTraceLimit', 'prepareStackTrace', 'captureStackTrace']) {
    if (!deleteProperty(Error, name)) throw new type(name);
  }
  setHidden(Error, 'captureStackTrace', { captureStackTrace() {} }.captureStackTrace);

  // Lists whose length is no number of elements: each method would ask for every one of them.
  const isLong = (self) => self !== undefined && self !== null && trunc(self.length) > LONG_LIST;
  function boundedList(native) {
    return { method(...list) {
      if (isLong(this)) throw new range(native.name + ' is limited to ' + LONG_LIST + ' elements here');
      return apply(native, this, list);
    } }.method;
  }
  for (const name of ['copyWithin', 'every', 'fill', 'filter', 'find', 'findIndex', 'findLast', 'findLastIndex', 'flat', 'flatMap',
    'forEach', 'includes', 'indexOf', 'join', 'lastIndexOf', 'map', 'reduce', 'reduceRight', 'reverse', 'shift', 'slice', 'some',
    'sort', 'splice', 'toLocaleString', 'toReversed', 'toSorted', 'toSpliced', 'unshift', 'with']) {
    replace(Array.prototype, name, boundedList);
  }
  replace(Array.prototype, 'concat', (native) => ({ method(...list) {
    for (let i = 0; i < list.length; i++) if (isLong(list[i])) throw new range('concat is limited to ' + LONG_LIST + ' elements here');
    if (isLong(this)) throw new range('concat is limited to ' + LONG_LIST + ' elements here');
    return apply(native, this, list);
  } }).method);
  for (const [target, name, at] of [[Reflect, 'apply', 2], [Reflect, 'construct', 1], [Function.prototype, 'apply', 1], [Array, 'from', 0]]) {
    replace(target, name, (native) => ({ method(...list) {
      if (isLong(list[at])) throw new range(name + ' is limited to ' + LONG_LIST + ' elements here');
      return apply(native, this, list);
    } }).method);
  }

  // Searches whose time is the product of both lengths.
  const pattern = RegExp, isPattern = (value) => typeof value === 'object' && value !== null;
  const isObject = (value) => isPattern(value) || typeof value === 'function';
  const searches = { __proto__: null, split: Symbol.split, replace: Symbol.replace, replaceAll: Symbol.replace };
  function boundedSearch(native) {
    const symbol = searches[native.name];
    return { method(needle, ...list) {
      if (typeof this === 'string' && this.length <= LONG_TEXT) return apply(native, this, [needle, ...list]);
      if (this === undefined || this === null || needle instanceof pattern) return apply(native, this, [needle, ...list]);
      const own = symbol !== undefined && isObject(needle) ? needle[symbol] : undefined;
      if (own !== undefined && own !== null) return apply(own, needle, [this, ...list]);
      const whole = `${this}`, part = `${needle}`;
      if (whole.length * min(part.length, whole.length) > WORK && part.length > 64) {
        throw new range(native.name + ' is limited to texts of ' + LONG_TEXT + ' characters here, or to short ones in them');
      }
      return apply(native, whole, [typeof needle === 'undefined' ? needle : part, ...list]);
    } }.method;
  }
  for (const name of ['includes', 'indexOf', 'lastIndexOf', 'replace', 'replaceAll', 'split']) replace(String.prototype, name, boundedSearch);

  // Patterns are compiled with room in the heap, and are short.
  const { includes } = String.prototype;
  function parts(list) {
    const from = list[0], isMade = from instanceof pattern;
    const source = isMade ? from.source : from === undefined ? from : `${from}`;
    if (source !== undefined && text(source).length > LONG_PATTERN) {
      throw new range('RegExp is limited to ' + LONG_PATTERN + ' characters here');
    }
    const flags = list[1] !== undefined ? list[1] : isMade ? from.flags : undefined;
    return [source === undefined ? source : text(source), flags === undefined ? flags : text(flags)];
  }
  function compile(native, list, made) {
    const known = parts(list);
    let result;
    host.room(true);
    try {
      result = construct(native, known);
    } finally {
      host.room(false);
    }
    const prototype = made === native ? undefined : made.prototype;
    if (isObject(prototype)) setPrototypeOf(result, prototype);
    return result;
  }
  const patterns = new Proxy(pattern, {
    __proto__: null,
    apply: (native, self, list) =>
      list[0] instanceof pattern && list[1] === undefined ? list[0] : compile(native, list, native),
    construct: (native, list, made) => compile(native, list, made === patterns ? native : made),
  });
  setHidden(root, 'RegExp', patterns);
  defineProperty(pattern.prototype, 'constructor', { value: patterns });
  for (const name of ['match', 'matchAll', 'search']) {
    replace(String.prototype, name, (native) => ({ method(searched) {
      if (this === undefined || this === null || searched === undefined) return apply(native, this, [searched]);
      const own = isObject(searched) ? searched[Symbol[name]] : undefined;
      if (own === undefined || own === null) return apply(native, this, [new patterns(`${searched}`, name === 'matchAll' ? 'g' : '')]);
      if (name === 'matchAll' && searched instanceof pattern && !apply(includes, `${searched.flags}`, ['g'])) {
        throw new type('matchAll needs a pattern with the flag g');
      }
      return apply(own, searched, [this]);
    } }).method);
  }

  // These make a pattern of what they are called for, by a constructor that scripts do not find where it names none.
  const sourceOf = getOwnPropertyDescriptor(pattern.prototype, 'source').get;
  for (const symbol of [Symbol.split, Symbol.matchAll]) {
    replace(pattern.prototype, symbol, (native) => ({ method(...list) {
      apply(sourceOf, this, []);
      if (this.constructor === undefined) throw new type('a pattern without a constructor');
      return apply(native, this, list);
    } }).method);
  }

  // What removes matches needs no list of them, which QuickJS knows by the constructor that scripts do not find: no code of a
  // script runs meanwhile.
  replace(pattern.prototype, Symbol.replace, (native) => ({ method(whole, by) {
    const isPlain = by === '' && typeof whole === 'string' && isPattern(this) && getPrototypeOf(this) === pattern.prototype &&
      ownKeys(this).length === 1 && isExtensible(this) && typeof this.lastIndex === 'number';
    if (!isPlain) return apply(native, this, [whole, by]);
    defineProperty(this, 'constructor', { value: pattern, configurable: true });
    try {
      return apply(native, this, [whole, by]);
    } finally {
      deleteProperty(this, 'constructor');
    }
  } }).method);

  // Each call of such a chain is a call of the one before, which QuickJS does not count.
  const depths = new WeakMap(), depthOf = unbound(WeakMap.prototype.get), setDepth = unbound(WeakMap.prototype.set);
  function unbound(method) { return (self, ...list) => apply(method, self, list); }
  function deeper(native) {
    return { method(...list) {
      let depth = 1;
      for (const inner of [this, ...list]) if (isObject(inner)) depth = max(depth, (depthOf(depths, inner) ?? 0) + 1);
      if (depth > DEEP) throw new range(native.name + ' is limited to ' + DEEP + ' levels here');
      const made = apply(native, this, list);
      if (isObject(made)) setDepth(depths, made, depth);
      return made;
    } }.method;
  }
  replace(Function.prototype, 'bind', deeper);
  if (typeof Iterator === 'function') {
    for (const name of ['map', 'filter', 'take', 'drop', 'flatMap']) replace(Iterator.prototype, name, deeper);
    for (const name of ['from', 'concat']) replace(Iterator, name, deeper);
  }

  // An async generator and the function of a promise catch the interrupt; so the next one comes in their caller.
  const ends = () => { if (host.stops()) for (;;); };
  for (const name of ['next', 'return', 'throw']) {
    replace(getPrototypeOf((async function* () {}).prototype), name, (native) => ({ method(...list) {
      const result = apply(native, this, list);
      ends();
      return result;
    } }).method);
  }
  const promise = Promise;
  const promises = new Proxy(promise, {
    __proto__: null,
    construct(native, list, made) {
      const result = construct(native, list, made === promises ? native : made);
      ends();
      return result;
    },
  });
  setHidden(promise.prototype, 'constructor', promises);
  setHidden(root, 'Promise', promises);

  // Marks that combine with the character before them are sorted, each run of them in quadratic time.
  const exec = pattern.prototype.exec, marked = /[\p{M}\uff9e\uff9f]{1000}/u;
  const isMarked = (value) => value.length > MARKS && apply(exec, marked, [value]) !== null;
  function refuseMarks(name, value) {
    if (isMarked(value)) throw new range(name + ' is limited to ' + MARKS + ' combining marks in a row here');
  }
  replace(String.prototype, 'normalize', (native) => ({ method(...list) {
    if (this === undefined || this === null) return apply(native, this, list);
    const whole = text(this);
    refuseMarks('normalize', whole);
    return apply(native, whole, list);
  } }).method);

  // QuickJS orders by code points. The host has the collation of a locale, and takes what can be a text of its own.
  const { localeCompare } = host, isArray = Array.isArray, formed = text.prototype.toWellFormed;
  const wellFormed = (value) => apply(formed, value, []), optional = (value) => (value === undefined ? null : wellFormed(`${value}`));
  const flag = (value) => (value === undefined ? null : !!value);
  replace(String.prototype, 'localeCompare', (native) => ({ method(other, locales, options) {
    if (this === undefined || this === null) return apply(native, this, [other]);
    const whole = wellFormed(text(this)), that = wellFormed(`${other}`), locale = isArray(locales) ? locales[0] : locales;
    for (const one of [whole, that]) {
      if (one.length > COMPARED) throw new range('localeCompare is limited to ' + COMPARED + ' characters here');
      refuseMarks('localeCompare', one);
    }
    const { sensitivity, caseFirst, numeric, ignorePunctuation } = options ?? {};
    const chosen = options === undefined || options === null ? null : { __proto__: null, sensitivity: optional(sensitivity),
      caseFirst: optional(caseFirst), numeric: flag(numeric), ignorePunctuation: flag(ignorePunctuation) };
    return localeCompare(whole, that, optional(locale), chosen);
  } }).method);
})
