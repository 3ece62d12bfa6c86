// Built-ins whose native loops never call the interrupt handler, behind a check of how long they would run. Evaluated
// before everything else, so that no script sees the originals.
//
// Arrays: a loop over `length` is at most MAX steps. The length must not change between the check and the loop, so it
// has to be a plain property: proxies and getters are refused for these few methods.
// Texts: a search is at most WORK comparisons of characters.
(function (isProxy) {
  'use strict';
  const MAX = 10000000, WORK = 10000000000;
  const { apply, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const range = RangeError, text = String, isArray = Array.isArray, spreadable = Symbol.isConcatSpreadable;

  function replaceIn(holder, name, make) {
    const native = holder[name];
    if (typeof native !== 'function') return;
    const guarded = make(native);
    defineProperty(guarded, 'name', { value: native.name, configurable: true });
    defineProperty(guarded, 'length', { value: native.length, configurable: true });
    defineProperty(holder, name, { value: guarded, writable: true, enumerable: false, configurable: true });
  }
  function check(value, what) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return;
    if (isProxy(value)) throw new range(what + ' is not available on proxies here');
    for (let holder = value; holder !== null; holder = Reflect.getPrototypeOf(holder)) {
      if (isProxy(holder)) throw new range(what + ' is not available on proxies here');
      const found = getOwnPropertyDescriptor(holder, 'length');
      if (found === undefined) continue;
      if (!('value' in found) && !ArrayBuffer.isView(value)) throw new range(what + ' needs a plain length here');
      const length = found.value;
      if (typeof length === 'object' && length !== null) throw new range(what + ' needs a plain length here');
      if (+length > MAX) throw new range(what + ' is limited to ' + MAX + ' elements here');
      return;
    }
  }

  const methods = ['reverse', 'shift', 'unshift', 'splice', 'copyWithin', 'join', 'sort', 'slice', 'toReversed',
    'toSorted', 'toSpliced', 'with', 'fill', 'toLocaleString'];
  for (let i = 0; i < methods.length; i++) {
    const name = methods[i];
    replaceIn(Array.prototype, name, (native) => ({
      guarded(...rest) {
        check(this, name);
        return apply(native, this, rest);
      },
    }).guarded);
  }
  replaceIn(Array.prototype, 'concat', (native) => ({
    guarded(...rest) {
      check(this, 'concat');
      for (let i = 0; i < rest.length; i++) {
        const one = rest[i];
        if (isArray(one) || (typeof one === 'object' && one !== null && one[spreadable])) check(one, 'concat');
      }
      return apply(native, this, rest);
    },
  }).guarded);
  // Each nested list has a length of its own to check, so `flat` is reimplemented.
  const flat = (from, depth, into) => {
    check(from, 'flat');
    const length = from.length;
    for (let i = 0; i < length; i++) {
      if (!(i in from)) continue;
      const one = from[i];
      if (depth >= 1 && isArray(one)) flat(one, depth - 1, into);
      else into[into.length] = one;
    }
    return into;
  };
  replaceIn(Array.prototype, 'flat', () => ({
    guarded(depth) {
      return flat(Object(this), depth === undefined ? 1 : +depth, []);
    },
  }).guarded);
  replaceIn(Array.prototype, 'flatMap', () => ({
    guarded(callback, self) {
      check(this, 'flatMap');
      const into = [], length = this.length;
      for (let i = 0; i < length; i++) {
        if (i in this) flat([apply(callback, self, [this[i], i, this])], 1, into);
      }
      return into;
    },
  }).guarded);
  replaceIn(String, 'raw', (native) => ({
    guarded(strings, ...rest) {
      if (strings !== undefined && strings !== null) check(strings.raw, 'String.raw');
      return apply(native, String, [strings, ...rest]);
    },
  }).guarded);
  replaceIn(JSON, 'stringify', (native) => ({
    guarded(value, replacer, space) {
      if (isArray(replacer)) check(replacer, 'a replacer');
      return apply(native, JSON, [value, replacer, space]);
    },
  }).guarded);
  for (const name of ['Set', 'Map', 'WeakSet', 'WeakMap']) {
    const native = globalThis[name];
    const guarded = new Proxy(native, {
      __proto__: null,
      construct(target, list, made) {
        if (isArray(list[0])) check(list[0], name);
        return Reflect.construct(target, list, made === guarded ? target : made);
      },
    });
    defineProperty(globalThis, name, { value: guarded, writable: true, enumerable: false, configurable: true });
    defineProperty(native.prototype, 'constructor', { value: guarded, writable: true, configurable: true });
  }

  const searches = { indexOf: null, lastIndexOf: null, includes: null, replaceAll: Symbol.replace,
    replace: Symbol.replace, split: Symbol.split };
  for (const name of Object.keys(searches)) {
    const symbol = searches[name];
    replaceIn(String.prototype, name, (native) => ({
      guarded(search, ...rest) {
        if (this === undefined || this === null) throw new TypeError(name + ' called on ' + this);
        if (symbol !== null && typeof search === 'object' && search !== null && search[symbol] !== undefined) {
          return apply(native, this, [search, ...rest]);
        }
        const whole = text(this);
        let part = search;
        if (!(search instanceof RegExp) && search !== undefined) part = typeof search === 'string' ? search : text(search);
        if (typeof part === 'string' && whole.length * part.length > WORK) {
          throw new range(name + ' would take too long on texts of this length');
        }
        return apply(native, whole, arguments.length === 0 ? [] : [part, ...rest]);
      },
    }).guarded);
  }
})
