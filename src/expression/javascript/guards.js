// Built-ins whose native loops never call the interrupt handler, behind a check of how long they would run. Evaluated
// before everything else, so that no script sees the originals.
//
// Arrays: a loop over `length` is at most MAX steps. The length must not change between the check and the loop, so it
// has to be a plain property: proxies and getters are refused for these few methods. Some do more for each element: SLOW.
// Texts: a search is at most WORK comparisons of characters.
// Proxies: QuickJS compares each key that `ownKeys` returns with all others, so there are at most KEYS of them.
// Iterators: native ones are followed in JavaScript where that takes long.
(function (isProxy) {
  'use strict';
  const MAX = 10000000, SLOW = 1000000, KEYS = 5000, WORK = 10000000000;
  const { apply, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const isView = ArrayBuffer.isView, views = Reflect.getPrototypeOf(Uint8Array.prototype);
  const bytesOf = getOwnPropertyDescriptor(DataView.prototype, 'byteLength').get;
  const lengthOf = getOwnPropertyDescriptor(views, 'length').get;
  const viewLength = function () {
    return this instanceof DataView ? apply(bytesOf, this, []) : apply(lengthOf, this, []);
  };
  const range = RangeError, text = String, isArray = Array.isArray, spreadable = Symbol.isConcatSpreadable;

  function replaceIn(holder, name, make) {
    const native = holder[name];
    if (typeof native !== 'function') return;
    const guarded = make(native);
    defineProperty(guarded, 'name', { value: native.name, configurable: true });
    defineProperty(guarded, 'length', { value: native.length, configurable: true });
    defineProperty(holder, name, { value: guarded, writable: true, enumerable: false, configurable: true });
  }
  function check(value, what, most = MAX) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return;
    if (isProxy(value)) throw new range(what + ' is not available on proxies here');
    for (let holder = value; holder !== null; holder = Reflect.getPrototypeOf(holder)) {
      if (isProxy(holder)) throw new range(what + ' is not available on proxies here');
      const found = getOwnPropertyDescriptor(holder, 'length');
      if (found === undefined) continue;
      if (isView(value)) {
        if (apply(viewLength, value, []) > most) throw new range(what + ' is limited to ' + most + ' elements here');
        return;
      }
      if (!('value' in found)) throw new range(what + ' needs a plain length here');
      const length = found.value;
      if (typeof length === 'object' && length !== null) throw new range(what + ' needs a plain length here');
      if (+length > most) throw new range(what + ' is limited to ' + most + ' elements here');
      return;
    }
  }

  const methods = ['reverse', 'shift', 'unshift', 'splice', 'copyWithin', 'slice', 'toReversed', 'toSpliced', 'with',
    'fill'];
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
      if (isArray(value) && !isProxy(value)) check(value, 'JSON.stringify');
      return apply(native, JSON, [value, replacer, space]);
    },
  }).guarded);
  const slow = ['join', 'toLocaleString', 'sort', 'toSorted'];
  for (let i = 0; i < slow.length; i++) {
    const name = slow[i];
    for (const holder of [Array.prototype, views]) {
      replaceIn(holder, name, (native) => ({
        guarded(...rest) {
          check(this, name, SLOW);
          return apply(native, this, rest);
        },
      }).guarded);
    }
  }
  const drop = Iterator.prototype.drop;
  function* after(source, next, count) {
    let left = count;
    try {
      for (;;) {
        const { done, value } = apply(next, source, []);
        if (done) return;
        if (left > 0) left--;
        else yield value;
      }
    } finally {
      source.return?.();
    }
  }
  replaceIn(Iterator.prototype, 'drop', () => ({
    guarded(count) {
      const whole = +count;
      return whole > SLOW ? after(this, this.next, whole) : apply(drop, this, [whole]);
    },
  }).guarded);
  replaceIn(Iterator.prototype, 'join', () => ({
    guarded(separator) {
      const between = separator === undefined ? ',' : text(separator), next = this.next;
      let joined = '', count = 0;
      for (;;) {
        const { done, value } = apply(next, this, []);
        if (done) return joined;
        if (count++ > 0) joined += between;
        if (value !== undefined && value !== null) joined += value;
      }
    },
  }).guarded);
  replaceIn(Iterator.prototype, 'includes', () => ({
    guarded(wanted, skipped) {
      let left = skipped === undefined ? 0 : skipped;
      if (typeof left !== 'number' || !(left >= 0)) throw new range('includes skips a number of elements');
      const next = this.next;
      for (;;) {
        const { done, value } = apply(next, this, []);
        if (done) return false;
        if (left > 0) left--;
        else if (value === wanted || (value !== value && wanted !== wanted)) {
          this.return?.();
          return true;
        }
      }
    },
  }).guarded);
  const proxy = Proxy, revocable = Proxy.revocable;
  const bounded = (handler) => {
    if ((typeof handler !== 'object' || handler === null) && typeof handler !== 'function') return handler;
    return new proxy(handler, {
      __proto__: null,
      get(traps, name) {
        const trap = traps[name];
        if (name !== 'ownKeys' || typeof trap !== 'function') return trap;
        return (target) => {
          const keys = apply(trap, traps, [target]);
          check(keys, 'ownKeys of a proxy', KEYS);
          return keys;
        };
      },
    });
  };
  const guardedProxy = new proxy(Proxy, {
    __proto__: null,
    construct: (target, list) => new proxy(list[0], bounded(list[1])),
  });
  defineProperty(proxy, 'revocable', {
    value: { revocable(target, handler) { return apply(revocable, proxy, [target, bounded(handler)]); } }.revocable,
  });
  defineProperty(globalThis, 'Proxy', { value: guardedProxy, writable: true, enumerable: false, configurable: true });
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
