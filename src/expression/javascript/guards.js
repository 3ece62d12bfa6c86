// Built-ins whose native loops never call the interrupt handler, behind a check of how long they would run. Evaluated
// before everything else, so that no script sees the originals.
//
// Arrays: a loop over `length` is at most MAX steps. The length must not change between the check and the loop, so it
// has to be a plain property: proxies and getters are refused for these few methods. Some do more for each element: SLOW.
// Texts: a search of more than WORK comparisons of characters is made in parts.
// Long texts in lists: what converts or compares each of them natively is followed in JavaScript, or refused.
// Call sites of an error would give the original functions to a script, so they have no `getFunction`.
// Proxies: QuickJS compares each key that `ownKeys` returns with all others, so there are at most KEYS of them.
// Iterators: native ones are followed in JavaScript where that takes long.
(function (isProxy, mustStop) {
  'use strict';
  const MAX = 10000000, SLOW = 1000000, KEYS = 5000, WORK = 100000000, LONG = 1000, FEW = 8, CHUNK = 4096;
  const { apply, construct, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const { trunc: truncate, max: most, min: least } = Math, exec = RegExp.prototype.exec, regExp = RegExp,
    setKeys = Set.prototype.keys, mapKeys = Map.prototype.keys, { values: valuesOf, slice: sliceOf } = Array.prototype;
  const isView = ArrayBuffer.isView, views = Reflect.getPrototypeOf(Uint8Array.prototype);
  const bytesOf = getOwnPropertyDescriptor(DataView.prototype, 'byteLength').get;
  const lengthOf = getOwnPropertyDescriptor(views, 'length').get;
  const viewLength = function () {
    return this instanceof DataView ? apply(bytesOf, this, []) : apply(lengthOf, this, []);
  };
  const range = RangeError, text = String, isArray = Array.isArray, spreadable = Symbol.isConcatSpreadable;

  // A proxy has the name, the length and the text of what it stands for, and takes less time to make than a function with
  // these. An assignment keeps the attributes of the property.
  const proxy = Proxy;
  function guard(holder, name, handler) {
    const native = holder[name];
    if (typeof native === 'function') holder[name] = new proxy(native, handler);
  }
  const by = (call) => ({ __proto__: null, apply: call });
  // Such a call may take as long as a thousand steps do, so the interrupt handler is asked before it.
  function ask(size) {
    if (!(size < LONG) && mustStop()) throw new range('the script must stop');
  }
  function check(value, what, most = MAX) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return;
    if (isProxy(value)) throw new range(what + ' is not available on proxies here');
    for (let holder = value; holder !== null; holder = Reflect.getPrototypeOf(holder)) {
      if (isProxy(holder)) throw new range(what + ' is not available on proxies here');
      const found = getOwnPropertyDescriptor(holder, 'length');
      if (found === undefined) continue;
      if (isView(value)) {
        const elements = apply(viewLength, value, []);
        if (elements > most) throw new range(what + ' is limited to ' + most + ' elements here');
        return ask(elements);
      }
      if (!('value' in found)) throw new range(what + ' needs a plain length here');
      const length = found.value;
      if (typeof length === 'object' && length !== null) throw new range(what + ' needs a plain length here');
      if (+length > most) throw new range(what + ' is limited to ' + most + ' elements here');
      return ask(+length);
    }
  }

  const methods = ['reverse', 'shift', 'unshift', 'splice', 'copyWithin', 'slice', 'toReversed', 'toSpliced', 'with',
    'fill'];
  const byLength = by((native, self, list) => {
    check(self, native.name);
    return apply(native, self, list);
  });
  for (let i = 0; i < methods.length; i++) guard(Array.prototype, methods[i], byLength);
  guard(Array.prototype, 'concat', by((native, self, list) => {
    check(self, 'concat');
    let sum = isArray(self) ? self.length : 0;
    for (let i = 0; i < list.length; i++) {
      const one = list[i];
      if (isArray(one) || (typeof one === 'object' && one !== null && one[spreadable])) {
        check(one, 'concat');
        sum += +one.length;
      }
      if (sum > MAX) throw new range('concat is limited to ' + MAX + ' elements here');
    }
    return apply(native, self, list);
  }));
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
  guard(Array.prototype, 'flat', by((_, self, list) => {
    const depth = list[0];
    return flat(Object(self), depth === undefined ? 1 : +depth, []);
  }));
  guard(Array.prototype, 'flatMap', by((_, self, list) => {
    check(self, 'flatMap');
    const into = [], length = self.length;
    for (let i = 0; i < length; i++) {
      if (i in self) flat([apply(list[0], list[1], [self[i], i, self])], 1, into);
    }
    return into;
  }));
  guard(String, 'raw', by((native, self, list) => {
    const strings = list[0];
    if (strings !== undefined && strings !== null) check(strings.raw, 'String.raw');
    return apply(native, self, list);
  }));
  guard(JSON, 'stringify', by((native, self, list) => {
    const value = list[0], replacer = list[1];
    if (isArray(replacer)) {
      check(replacer, 'a replacer');
      refuseLongTexts(replacer, 'a replacer');
    }
    if (isArray(value) && !isProxy(value)) check(value, 'JSON.stringify');
    return apply(native, self, list);
  }));
  const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
  const { sort, join } = Array.prototype;
  // Natively, the text of the largest integer takes seconds, as every few digits are a division of the whole. Halves take less, and are asked between.
  const { toString: integerText, valueOf: integerOf } = BigInt.prototype, integer = BigInt;
  const { ceil, log2 } = Math, padded = String.prototype.padStart, LARGE = 1n << 16384n;
  function textOf(value, radix) {
    const parts = [integer(radix) ** integer(CHUNK)];
    let bits = integer(ceil(CHUNK * log2(radix))), last = parts[0];
    for (; value >> bits >= last; bits *= 2n) parts[parts.length] = last = last ** 2n;
    const join = (value, depth) => {
      if (depth < 0) return apply(integerText, value, [radix]);
      const part = parts[depth], high = value / part, low = join(value - high * part, depth - 1);
      return high === 0n ? low : join(high, depth - 1) + apply(padded, low, [CHUNK * 2 ** depth, '0']);
    };
    return join(value, parts.length - 1);
  }
  const decimal = (value) => value < LARGE && value > -LARGE ? `${value}` : value < 0n ? '-' + textOf(-value, 10) : textOf(value, 10);
  const byRadix = (isLocal) => by((native, self, list) => {
    const value = apply(integerOf, self, []);
    if (value < LARGE && value > -LARGE) return apply(native, self, list);
    const radix = isLocal || list[0] === undefined ? 10 : truncate(list[0]);
    // Natively, those of a power of two take no time, and others are refused.
    if (!(radix > 2 && radix <= 36) || (radix & (radix - 1)) === 0) return apply(native, self, [radix]);
    return value < 0n ? '-' + textOf(-value, radix) : textOf(value, radix);
  });
  guard(BigInt.prototype, 'toString', byRadix(false));
  guard(BigInt.prototype, 'toLocaleString', byRadix(true));
  function withoutIntegers(list) {
    const length = list.length;
    let made = list;
    for (let i = 0; i < length; i++) {
      if (typeof list[i] !== 'bigint') continue;
      if (made === list) made = apply(sliceOf, list, []);
      made[i] = decimal(list[i]);
    }
    return made;
  }
  const byText = by((native, self, list) => {
    check(self, native.name, SLOW);
    return apply(native, isArray(self) ? withoutIntegers(self) : self, list);
  });
  const bySort = (isCopied) => by((native, self, list) => {
    check(self, native.name, SLOW);
    if (list[0] === undefined && isObject(self) && !isView(self) && hasLongTexts(self)) return sortByText(self, isCopied);
    return apply(native, self, list);
  });
  for (const holder of [Array.prototype, views]) {
    guard(holder, 'join', byText);
    guard(holder, 'toLocaleString', byText);
    guard(holder, 'sort', bySort(false));
    guard(holder, 'toSorted', bySort(true));
  }
  const isLong = (value) => typeof value === 'string' ? value.length > LONG : typeof value === 'bigint';
  // Whether a list has long texts, or objects, which may become such.
  function hasLongTexts(list) {
    const length = list.length;
    for (let i = 0; i < length; i++) {
      const value = list[i];
      if (isObject(value) || isLong(value)) return true;
    }
    return false;
  }
  const compare = (one, other) => one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : 0;
  // As the native methods do without a function, each element converted once; holes are last, behind what is undefined.
  function sortByText(list, isCopied) {
    const pairs = [], length = list.length;
    let holes = 0, nothing = 0;
    for (let i = 0; i < length; i++) {
      if (!isCopied && !(i in list)) holes++;
      else {
        const value = list[i];
        if (value === undefined) nothing++;
        else pairs[pairs.length] = [typeof value === 'bigint' ? decimal(value) : `${value}`, value];
      }
    }
    apply(sort, pairs, [compare]);
    const sorted = isCopied ? [] : list, found = pairs.length;
    for (let i = 0; i < found; i++) sorted[i] = pairs[i][1];
    for (let i = found; i < found + nothing; i++) sorted[i] = undefined;
    for (let i = found + nothing; i < found + nothing + holes; i++) delete sorted[i];
    return sorted;
  }
  function refuseLongTexts(list, what) {
    check(list, what);
    const length = list.length;
    if (!(length > FEW)) return;
    let sum = 0;
    for (let i = 0; i < length; i++) {
      const value = list[i];
      if (typeof value === 'string' && (sum += value.length) > WORK) {
        throw new range(what + ' is limited to texts of ' + WORK + ' characters here');
      }
    }
  }
  // What a list of numbers is made from, without long texts.
  function elements(source, what) {
    if (!isObject(source) || isView(source)) return source;
    const each = source[Symbol.iterator];
    const isList = isArray(source) && each === valuesOf && !isProxy(source);
    const list = isList || each === undefined || each === null ? source : [...source];
    refuseLongTexts(list, what);
    return list;
  }
  const finds = ['indexOf', 'lastIndexOf', 'includes'];
  for (let n = 0; n < finds.length; n++) {
    const name = finds[n], step = n === 1 ? -1 : 1;
    guard(Array.prototype, name, by((native, self, list) => {
      const wanted = list[0];
      if (!isLong(wanted) || self === undefined || self === null) return apply(native, self, list);
      const from = Object(self), length = from.length;
      let at = list.length > 1 ? +list[1] : step < 0 ? length - 1 : 0;
      at = at !== at ? 0 : truncate(at);
      if (at < 0) at += length;
      for (let i = step < 0 ? least(at, length - 1) : most(at, 0); i >= 0 && i < length; i += step) {
        if (from[i] === wanted) return n === 2 ? true : i;
      }
      return n === 2 ? false : -1;
    }));
  }
  const many = by((native, self, list) => {
    if (list.length > FEW) refuseLongTexts(list, native.name);
    return apply(native, self, list);
  });
  const ofViews = Reflect.getPrototypeOf(Uint8Array);
  for (const name of ['max', 'min', 'hypot']) guard(Math, name, many);
  guard(String, 'fromCharCode', many);
  guard(String, 'fromCodePoint', many);
  guard(ofViews, 'of', many);
  guard(ofViews, 'from', by((native, self, list) => {
    if (list[1] === undefined) list[0] = elements(list[0], 'from');
    return apply(native, self, list);
  }));
  guard(views, 'set', by((native, self, list) => {
    if (isObject(list[0]) && !isView(list[0])) refuseLongTexts(list[0], 'set');
    return apply(native, self, list);
  }));
  // Marks that combine with the character before them are sorted, each run of them in quadratic time.
  const isMarked = (value) => value.length > LONG && apply(exec, /[\p{M}\uff9e\uff9f]{1000}/u, [value]) !== null;
  for (const name of ['normalize', 'localeCompare']) {
    guard(String.prototype, name, by((native, self, list) => {
      if (self === undefined || self === null) return apply(native, self, list);
      const whole = text(self);
      if (name === 'localeCompare') list[0] = `${list[0]}`;
      if (isMarked(whole) || (name === 'localeCompare' && isMarked(list[0]))) {
        throw new range(name + ' is limited to ' + LONG + ' combining marks in a row here');
      }
      return apply(native, whole, list);
    }));
  }
  // The keys of what is no set may be the same long text many times.
  const bySet = by((native, self, list) => {
    const other = list[0];
    if (!isObject(other)) return apply(native, self, list);
    const { size, has, keys } = other;
    const each = typeof keys !== 'function' ? keys : () => {
      const all = apply(keys, other, []);
      if (keys === setKeys || keys === mapKeys) return all;
      const next = all.next;
      return { next: () => apply(next, all, []), return: () => all.return?.() ?? {} };
    };
    const bound = typeof has !== 'function' ? has : (key) => apply(has, other, [key]);
    list[0] = { size, has: bound, keys: each };
    return apply(native, self, list);
  });
  for (const name of ['union', 'intersection', 'difference', 'symmetricDifference', 'isSubsetOf', 'isSupersetOf',
    'isDisjointFrom']) {
    guard(Set.prototype, name, bySet);
  }
  guard(Object, 'fromEntries', by((native, self, list) => {
    const made = {};
    for (const entry of list[0]) {
      if (!isObject(entry)) throw new TypeError('Object.fromEntries needs objects');
      const key = entry[0], value = entry[1];
      defineProperty(made, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
    }
    return made;
  }));
  Error.prepareStackTrace = (_, sites) => sites;
  delete Reflect.getPrototypeOf(new Error().stack[0]).getFunction;
  Error.prepareStackTrace = undefined;
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
  guard(Iterator.prototype, 'drop', by((drop, self, list) => {
    const whole = +list[0];
    return whole > SLOW ? after(self, self.next, whole) : apply(drop, self, [whole]);
  }));
  guard(Iterator.prototype, 'join', by((_, self, list) => {
    const separator = list[0], between = separator === undefined ? ',' : text(separator), next = self.next;
    let joined = '', count = 0;
    for (;;) {
      const { done, value } = apply(next, self, []);
      if (done) return joined;
      if (count++ > 0) joined += between;
      if (value !== undefined && value !== null) joined += value;
    }
  }));
  guard(Iterator.prototype, 'includes', by((_, self, list) => {
    const wanted = list[0];
    let left = list[1] === undefined ? 0 : list[1];
    if (typeof left !== 'number' || !(left >= 0)) throw new range('includes skips a number of elements');
    const next = self.next;
    for (;;) {
      const { done, value } = apply(next, self, []);
      if (done) return false;
      if (left > 0) left--;
      else if (value === wanted || (value !== value && wanted !== wanted)) {
        self.return?.();
        return true;
      }
    }
  }));
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
          if (isObject(keys)) refuseLongTexts(keys, 'ownKeys of a proxy');
          return keys;
        };
      },
    });
  };
  const guardedProxy = new proxy(Proxy, {
    __proto__: null,
    construct: (target, list) => new proxy(list[0], bounded(list[1])),
  });
  guard(proxy, 'revocable', by((native, _, list) => apply(native, proxy, [list[0], bounded(list[1])])));
  globalThis.Proxy = guardedProxy;
  function guardConstructors(names, construct) {
    const handler = { __proto__: null, construct };
    for (let i = 0; i < names.length; i++) {
      const native = globalThis[names[i]];
      if (native !== undefined) native.prototype.constructor = globalThis[names[i]] = new proxy(native, handler);
    }
  }
  guardConstructors(['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array',
    'Uint32Array', 'Float16Array', 'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array'],
  (target, list, made) => {
    if (list.length > 0) list[0] = elements(list[0], target.name);
    return construct(target, list, made);
  });
  guardConstructors(['Set', 'Map', 'WeakSet', 'WeakMap'], (target, list, made) => {
    if (isArray(list[0])) check(list[0], target.name);
    return construct(target, list, made);
  });

  const { indexOf: first, lastIndexOf: last, slice } = String.prototype;
  // Finds the part from a place on. It searches in so many places at once that it takes no longer than a step may.
  function finder(whole, part) {
    const end = whole.length - part.length, places = most(1, truncate(WORK / part.length));
    let start = -places, window = '';
    return (place) => {
      for (let from = place; from <= end; from = start + places) {
        if (from >= start + places) {
          ask(LONG);
          start = from;
          window = apply(slice, whole, [start, start + places - 1 + part.length]);
        }
        const at = apply(first, window, [part, from - start]);
        if (at >= 0) return start + at;
      }
      return -1;
    };
  }
  function findLast(whole, part, from) {
    const places = most(1, truncate(WORK / part.length));
    for (let to = least(from, whole.length - part.length); to >= 0; to -= places) {
      ask(LONG);
      const start = most(0, to - places + 1);
      const at = apply(last, apply(slice, whole, [start, to + part.length]), [part]);
      if (at >= 0) return start + at;
    }
    return -1;
  }
  // A replacement for a text: `$$`, `$&`, `$\`` and `$'` stand for others.
  function expand(written, part, whole, place) {
    let made = '', from = 0;
    for (;;) {
      const at = apply(first, written, ['$', from]);
      if (at < 0 || at + 1 === written.length) return made + apply(slice, written, [from]);
      const sign = written[at + 1];
      const put = sign === '$' ? '$' : sign === '&' ? part : sign === '`' ? apply(slice, whole, [0, place])
        : sign === "'" ? apply(slice, whole, [place + part.length]) : '$' + sign;
      made += apply(slice, written, [from, at]) + put;
      from = at + 2;
    }
  }
  function searchInParts(name, whole, part, more) {
    if (name === 'lastIndexOf') return findLast(whole, part, +more !== +more ? whole.length : most(0, truncate(+more)));
    const find = finder(whole, part);
    if (name === 'indexOf' || name === 'includes') {
      const at = find(most(0, truncate(+more || 0)));
      return name === 'indexOf' ? at : at >= 0;
    }
    const isSplit = name === 'split', isFunction = typeof more === 'function';
    const limit = name === 'replace' ? 1 : isSplit && more !== undefined ? more >>> 0 : Infinity;
    const written = isSplit || isFunction ? '' : `${more}`;
    let pieces = [], made = '', from = 0;
    for (let count = 0; count < limit; count++) {
      const at = find(from);
      if (at < 0) break;
      pieces[pieces.length] = apply(slice, whole, [from, at]);
      from = at + part.length;
      if (isSplit) continue;
      pieces[pieces.length] = isFunction ? `${more(part, at, whole)}` : expand(written, part, whole, at);
      if (pieces.length > LONG) {
        made += apply(join, pieces, ['']);
        pieces = [];
      }
    }
    if (!isSplit) return made + apply(join, pieces, ['']) + apply(slice, whole, [from]);
    if (pieces.length < limit) pieces[pieces.length] = apply(slice, whole, [from]);
    return pieces;
  }
  function matches(value) {
    const match = value[Symbol.match];
    return match === undefined ? value instanceof regExp : !!match;
  }
  const searches = { indexOf: null, lastIndexOf: null, includes: null, replaceAll: Symbol.replace,
    replace: Symbol.replace, split: Symbol.split };
  for (const name of Object.keys(searches)) {
    const symbol = searches[name];
    guard(String.prototype, name, by((native, self, list) => {
      if (self === undefined || self === null) throw new TypeError(name + ' called on ' + self);
      const search = list[0];
      if (isObject(search)) {
        const isPattern = (name === 'includes' || name === 'replaceAll') && matches(search);
        if (isPattern && name === 'includes') throw new TypeError('includes needs a text, not a regular expression');
        if (isPattern && apply(first, `${search.flags}`, ['g']) < 0) {
          throw new TypeError('replaceAll needs a regular expression with the flag g');
        }
        const method = symbol === null ? undefined : search[symbol];
        if (method !== undefined && method !== null) return apply(method, search, [self, list[1]]);
      }
      const whole = typeof self === 'string' ? self : `${self}`;
      const part = typeof search === 'string' || search === undefined ? search : `${search}`;
      ask(whole.length);
      if (typeof part === 'string' && whole.length * part.length > WORK) return searchInParts(name, whole, part, list[1]);
      if (list.length > 0) list[0] = part;
      return apply(native, whole, list);
    }));
  }
})
