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
  const MAX = 10000000, SLOW = 1000000, KEYS = 5000, WORK = 100000000, LONG = 1000, FEW = 8;
  const { apply, construct, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const { trunc: truncate, max: most, min: least } = Math, exec = RegExp.prototype.exec, regExp = RegExp,
    setKeys = Set.prototype.keys, mapKeys = Map.prototype.keys, valuesOf = Array.prototype.values;
  const isView = ArrayBuffer.isView, views = Reflect.getPrototypeOf(Uint8Array.prototype);
  const bytesOf = getOwnPropertyDescriptor(DataView.prototype, 'byteLength').get;
  const lengthOf = getOwnPropertyDescriptor(views, 'length').get;
  const viewLength = function () {
    return this instanceof DataView ? apply(bytesOf, this, []) : apply(lengthOf, this, []);
  };
  const range = RangeError, text = String, isArray = Array.isArray, spreadable = Symbol.isConcatSpreadable;

  // An assignment keeps the attributes of the property; one descriptor for all takes less time than one each.
  const fixed = { __proto__: null, value: undefined, configurable: true };
  function replaceIn(holder, name, make) {
    const native = holder[name];
    if (typeof native !== 'function') return;
    const guarded = make(native);
    fixed.value = native.name;
    defineProperty(guarded, 'name', fixed);
    fixed.value = native.length;
    defineProperty(guarded, 'length', fixed);
    holder[name] = guarded;
  }
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
      let sum = isArray(this) ? this.length : 0;
      for (let i = 0; i < rest.length; i++) {
        const one = rest[i];
        if (isArray(one) || (typeof one === 'object' && one !== null && one[spreadable])) {
          check(one, 'concat');
          sum += +one.length;
        }
        if (sum > MAX) throw new range('concat is limited to ' + MAX + ' elements here');
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
      if (isArray(replacer)) {
        check(replacer, 'a replacer');
        refuseLongTexts(replacer, 'a replacer');
      }
      if (isArray(value) && !isProxy(value)) check(value, 'JSON.stringify');
      return apply(native, JSON, [value, replacer, space]);
    },
  }).guarded);
  const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
  const slow = ['join', 'toLocaleString', 'sort', 'toSorted'], { sort, join } = Array.prototype;
  for (let i = 0; i < slow.length; i++) {
    const name = slow[i], isSort = i > 1;
    for (const holder of [Array.prototype, views]) {
      replaceIn(holder, name, (native) => ({
        guarded(...rest) {
          check(this, name, SLOW);
          if (isSort && rest[0] === undefined && isObject(this) && !isView(this) && hasLongTexts(this)) {
            return sortByText(this, name === 'toSorted');
          }
          return apply(native, this, rest);
        },
      }).guarded);
    }
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
  const byText = (one, other) => one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : 0;
  // As the native methods do without a function, each element converted once; holes are last, behind what is undefined.
  function sortByText(list, isCopied) {
    const pairs = [], length = list.length;
    let holes = 0, nothing = 0;
    for (let i = 0; i < length; i++) {
      if (!isCopied && !(i in list)) holes++;
      else {
        const value = list[i];
        if (value === undefined) nothing++;
        else pairs[pairs.length] = [`${value}`, value];
      }
    }
    apply(sort, pairs, [byText]);
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
    replaceIn(Array.prototype, name, (native) => ({
      guarded(...rest) {
        const wanted = rest[0];
        if (!isLong(wanted) || this === undefined || this === null) return apply(native, this, rest);
        const list = Object(this), length = list.length, given = rest.length > 1;
        let from = given ? +rest[1] : step < 0 ? length - 1 : 0;
        from = from !== from ? 0 : truncate(from);
        if (from < 0) from += length;
        for (let i = step < 0 ? least(from, length - 1) : most(from, 0); i >= 0 && i < length; i += step) {
          if (list[i] === wanted) return n === 2 ? true : i;
        }
        return n === 2 ? false : -1;
      },
    }).guarded);
  }
  const many = [[Math, 'max'], [Math, 'min'], [Math, 'hypot'], [String, 'fromCharCode'], [String, 'fromCodePoint'],
    [Reflect.getPrototypeOf(Uint8Array), 'of']];
  for (let i = 0; i < many.length; i++) {
    replaceIn(many[i][0], many[i][1], (native) => ({
      guarded(...rest) {
        if (rest.length > FEW) refuseLongTexts(rest, many[i][1]);
        return apply(native, this, rest);
      },
    }).guarded);
  }
  replaceIn(Reflect.getPrototypeOf(Uint8Array), 'from', (native) => ({
    guarded(...rest) {
      if (rest[1] === undefined) rest[0] = elements(rest[0], 'from');
      return apply(native, this, rest);
    },
  }).guarded);
  replaceIn(views, 'set', (native) => ({
    guarded(...rest) {
      if (isObject(rest[0]) && !isView(rest[0])) refuseLongTexts(rest[0], 'set');
      return apply(native, this, rest);
    },
  }).guarded);
  // Marks that combine with the character before them are sorted, each run of them in quadratic time.
  const isMarked = (value) => value.length > LONG && apply(exec, /[\p{M}\uff9e\uff9f]{1000}/u, [value]) !== null;
  for (const name of ['normalize', 'localeCompare']) {
    replaceIn(String.prototype, name, (native) => ({
      guarded(...rest) {
        if (this === undefined || this === null) return apply(native, this, rest);
        const whole = text(this);
        if (name === 'localeCompare') rest[0] = `${rest[0]}`;
        if (isMarked(whole) || (name === 'localeCompare' && isMarked(rest[0]))) {
          throw new range(name + ' is limited to ' + LONG + ' combining marks in a row here');
        }
        return apply(native, whole, rest);
      },
    }).guarded);
  }
  // The keys of what is no set may be the same long text many times.
  for (const name of ['union', 'intersection', 'difference', 'symmetricDifference', 'isSubsetOf', 'isSupersetOf',
    'isDisjointFrom']) {
    replaceIn(Set.prototype, name, (native) => ({
      guarded(other, ...rest) {
        if (!isObject(other)) return apply(native, this, [other, ...rest]);
        const { size, has, keys } = other;
        const each = typeof keys !== 'function' ? keys : () => {
          const all = apply(keys, other, []);
          if (keys === setKeys || keys === mapKeys) return all;
          const next = all.next;
          return { next: () => apply(next, all, []), return: () => all.return?.() ?? {} };
        };
        const bound = typeof has !== 'function' ? has : (key) => apply(has, other, [key]);
        return apply(native, this, [{ size, has: bound, keys: each }, ...rest]);
      },
    }).guarded);
  }
  replaceIn(Object, 'fromEntries', () => ({
    guarded(entries) {
      const made = {};
      for (const entry of entries) {
        if (!isObject(entry)) throw new TypeError('Object.fromEntries needs objects');
        const key = entry[0], value = entry[1];
        defineProperty(made, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
      }
      return made;
    },
  }).guarded);
  Error.prepareStackTrace = (_, sites) => sites;
  delete Reflect.getPrototypeOf(new Error().stack[0]).getFunction;
  Error.prepareStackTrace = undefined;
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
  defineProperty(proxy, 'revocable', {
    value: { revocable(target, handler) { return apply(revocable, proxy, [target, bounded(handler)]); } }.revocable,
  });
  defineProperty(globalThis, 'Proxy', { value: guardedProxy, writable: true, enumerable: false, configurable: true });
  const typed = ['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array',
    'Float16Array', 'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array'];
  const ofNumbers = {
    __proto__: null,
    construct(target, list, made) {
      if (list.length > 0) list[0] = elements(list[0], target.name);
      return construct(target, list, made);
    },
  };
  for (let i = 0; i < typed.length; i++) {
    const native = globalThis[typed[i]];
    if (native !== undefined) native.prototype.constructor = globalThis[typed[i]] = new Proxy(native, ofNumbers);
  }
  for (const name of ['Set', 'Map', 'WeakSet', 'WeakMap']) {
    const native = globalThis[name];
    const guarded = new Proxy(native, {
      __proto__: null,
      construct(target, list, made) {
        if (isArray(list[0])) check(list[0], name);
        return construct(target, list, made === guarded ? target : made);
      },
    });
    defineProperty(globalThis, name, { value: guarded, writable: true, enumerable: false, configurable: true });
    defineProperty(native.prototype, 'constructor', { value: guarded, writable: true, configurable: true });
  }

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
    replaceIn(String.prototype, name, (native) => ({
      guarded(search, ...rest) {
        if (this === undefined || this === null) throw new TypeError(name + ' called on ' + this);
        if (isObject(search)) {
          const isPattern = (name === 'includes' || name === 'replaceAll') && matches(search);
          if (isPattern && name === 'includes') throw new TypeError('includes needs a text, not a regular expression');
          if (isPattern && apply(first, `${search.flags}`, ['g']) < 0) {
            throw new TypeError('replaceAll needs a regular expression with the flag g');
          }
          const method = symbol === null ? undefined : search[symbol];
          if (method !== undefined && method !== null) return apply(method, search, [this, rest[0]]);
        }
        const whole = typeof this === 'string' ? this : `${this}`;
        const part = typeof search === 'string' || search === undefined ? search : `${search}`;
        ask(whole.length);
        if (typeof part === 'string' && whole.length * part.length > WORK) {
          return searchInParts(name, whole, part, rest[0]);
        }
        return apply(native, whole, arguments.length === 0 ? [] : [part, ...rest]);
      },
    }).guarded);
  }
})
