// The functions of Elsa's scripts, over a few host functions that never leave this closure. Evaluated once per realm.
// Returns [begin, finish, flatten, define, compileExpression, compileBody], for the host alone.
//
// Names are kept in objects without a prototype, so that no name of a user's collides with a property, and built-ins are
// saved before a script can replace them.
(function (host) {
  'use strict';
  const VARIABLE = 0, INPUT = 1, OUTPUT = 2, FACT = 3, LAST = 4, WRITE = 5, NAMED = 6;
  const { pull, names, random, guid, encode: encodeText, decode, config, secret, linkUrl, plain, typed } = host;
  const { ownKeys, defineProperty, get: reflectGet, getPrototypeOf } = Reflect;
  const root = globalThis, text = String, object = Object, stringify = JSON.stringify, failure = Error;
  const bytes = Uint8Array, isArray = Array.isArray, arrayFrom = Array.from;
  const unbound = Function.prototype.call.bind.bind(Function.prototype.call);
  const trim = unbound(text.prototype.trim), replace = unbound(text.prototype.replace);
  const upper = unbound(text.prototype.toUpperCase), padStart = unbound(text.prototype.padStart);
  const charCode = unbound(text.prototype.charCodeAt), exponential = unbound(Number.prototype.toExponential);
  const matches = unbound(RegExp.prototype.test);
  const toBase64 = unbound(bytes.prototype.toBase64), fromBase64 = bytes.fromBase64.bind(bytes);
  const wellFormed = unbound(text.prototype.toWellFormed), encode = (value) => encodeText(wellFormed(value));
  const lower = unbound(text.prototype.toLowerCase), slice = unbound(text.prototype.slice);

  let cells, written, known, order, changes;

  // Variables: read from the host once and cached, so that reads see writes and changes in place.
  function read(name) {
    if (name in cells) return cells[name];
    const value = pull(VARIABLE, name, undefined, typed);
    if (value === undefined) return undefined;
    order[order.length] = name;
    return (cells[name] = value);
  }
  function write(name, value) {
    if (!(name in cells)) order[order.length] = name;
    written[name] = true;
    cells[name] = value === undefined ? null : value;
  }
  function has(name) {
    return name in cells || pull(VARIABLE, name, undefined, typed) !== undefined;
  }
  function kept(kind, name, part) {
    const key = kind + ':' + name.length + ':' + name + (part === undefined ? '' : ':' + part);
    if (key in known) return known[key];
    const value = pull(kind, name, part, typed);
    return (known[key] = value === undefined ? null : value);
  }
  const optional = (value) => (value === undefined || value === null ? undefined : text(value));
  const orNull = (value) => (value === undefined ? null : value);

  const variables = new Proxy({}, {
    __proto__: null,
    get: (target, key) => {
      if (typeof key !== 'string') return reflectGet(target, key);
      const value = read(key);
      return value === undefined ? reflectGet(target, key) : value;
    },
    set: (target, key, value) => (typeof key === 'string' ? (write(key, value), true) : false),
    has: (target, key) => (typeof key === 'string' && has(key)) || key in target,
    deleteProperty: () => true,
    ownKeys: () => {
      const all = names();
      const seen = { __proto__: null };
      for (let i = 0; i < all.length; i++) seen[all[i]] = true;
      for (let i = 0; i < order.length; i++) if (!(order[i] in seen)) all[all.length] = order[i];
      return all;
    },
    getOwnPropertyDescriptor: (target, key) => {
      const value = typeof key === 'string' ? read(key) : undefined;
      return value === undefined ? undefined : { value, writable: true, enumerable: true, configurable: true };
    },
    defineProperty: (target, key, descriptor) =>
      typeof key === 'string' && 'value' in descriptor ? (write(key, descriptor.value), true) : false,
    setPrototypeOf: () => false,
    preventExtensions: () => false,
  });

  // Bytes: a variable that holds bytes is Base64 in JSON.
  function asBytes(value) {
    if (value instanceof bytes) return value;
    if (typeof value === 'string') return fromBase64(value);
    if (isArray(value)) return new bytes(value);
    throw new failure('bytes expected');
  }
  function parseGuid(value) {
    const hex = replace(lower(trim(text(value))), /[-{}()]/g, '');
    if (!matches(/^[0-9a-f]{32}$/, hex)) throw new failure('not a GUID: ' + text(value));
    return slice(hex, 0, 8) + '-' + slice(hex, 8, 12) + '-' + slice(hex, 12, 16) + '-' + slice(hex, 16, 20) + '-' +
      slice(hex, 20);
  }
  function shortGuid() {
    const hex = replace(guid(), /-/g, '');
    const raw = new bytes(16);
    for (let i = 0; i < 16; i++) raw[i] = parseInt(slice(hex, 2 * i, 2 * i + 2), 16);
    return replace(toBase64(raw), /[/+=]/g, '');
  }
  // JSON as System.Text.Json writes it with all of Unicode allowed: what is undefined is null; what HTML would read is escaped, and
  // what is outside of the Basic Multilingual Plane, no character, or a space other than the usual one.
  const escaped = /\\u[0-9a-f]{4}|\\"|[\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\uf8ff\ufff0-\ufff8\ufffe\uffff'&<>+`]/g;
  function dotnetNumber(part) {
    const number = +part, size = number < 0 ? -number : number;
    if (size === 0 || (size >= 1e-4 && size < 1e17)) return part;
    return replace(replace(exponential(number), 'e', 'E'), /([+-])(\d)$/, '$10$2');
  }
  function toJson(value) {
    const members = function (key, member) {
      const own = this[key];
      if (member === undefined) return null;
      return own instanceof date && typeof member === 'string' ? plain(own) ?? shortIso(own) : member;
    };
    return replace(stringify(orNull(value), members), /"(?:[^"\\]|\\.)*"|-?\d[\d.e+-]*/g, (part) =>
      part[0] !== '"' ? dotnetNumber(part) :
        '"' + replace(slice(part, 1, -1), escaped, (one) => one.length > 2 ?
          '\\u' + upper(slice(one, 2)) : '\\u' + padStart(upper(charCode(one === '\\"' ? '"' : one, 0).toString(16)), 4, '0')) + '"');
  }
  const fact = (name) => kept(FACT, name, undefined);
  const outcomes = (list) => { changes.outcomes = arrayFrom(list, (one) => text(one)); };

  const link = (event, until, uses) => {
    const most = uses === undefined || uses === null ? undefined : +uses;
    return until instanceof date ? linkUrl(event, time(until), undefined, most) : linkUrl(event, undefined, optional(until), most);
  };

  const functions = {
    getVariable: (name) => orNull(read(text(name))),
    setVariable: (name, value) => write(text(name), value),
    getInput: (name) => kept(INPUT, text(name), undefined),
    getOutputFrom: (activity, output) => kept(NAMED, text(activity), optional(output)),
    getLastResult: () => kept(LAST, '', undefined),
    getWorkflowInstanceId: () => fact('instanceId'),
    getWorkflowDefinitionId: () => fact('definitionId'),
    getWorkflowDefinitionVersionId: () => fact('definitionVersionId'),
    getWorkflowDefinitionVersion: () => fact('definitionVersion'),
    getCorrelationId: () => (changes.correlation ? changes.correlation[0] : fact('correlationId')),
    setCorrelationId: (value) => { changes.correlation = [orNull(optional(value))]; },
    getWorkflowInstanceName: () => (changes.name ? changes.name[0] : fact('name')),
    setWorkflowInstanceName: (value) => { changes.name = [orNull(optional(value))]; },
    setOutcome: (value) => outcomes([value]),
    setOutcomes: (values) => outcomes(values),
    getConfig: (name) => orNull(config(text(name))),
    getSecret: async (name) => secret(text(name)),
    createEventTriggerUrl: (name, until, uses) => link(text(name), until, uses),
    createResumeUrl: (until, uses) => link(undefined, until, uses),
    isNullOrWhiteSpace: (value) => value === undefined || value === null || trim(text(value)) === '',
    isNullOrEmpty: (value) => value === undefined || value === null || text(value) === '',
    toJson,
    parseGuid,
    newGuid: () => guid(),
    newGuidString: () => guid(),
    getGuid: () => guid(),
    getGuidString: () => guid(),
    newShortGuid: shortGuid,
    getShortGuid: shortGuid,
    bytesToString: (value) => decode(arrayFrom(asBytes(value))),
    bytesFromString: (value) => encode(text(value)),
    bytesToBase64: (value) => toBase64(asBytes(value)),
    bytesFromBase64: (value) => fromBase64(text(value)),
    streamToBytes: (value) => asBytes(value),
    streamToBase64: (value) => toBase64(asBytes(value)),
    stringToBase64: (value) => toBase64(encode(text(value))),
    stringFromBase64: (value) => decode(arrayFrom(fromBase64(text(value)))),
  };
  // One descriptor for all takes less time than one each: what it does not name is false.
  const fixed = { __proto__: null, value: variables }, defined = ownKeys(functions);
  defineProperty(root, 'variables', fixed);
  for (let i = 0; i < defined.length; i++) {
    fixed.value = functions[defined[i]];
    defineProperty(root, defined[i], fixed);
  }

  function begin() {
    cells = { __proto__: null };
    written = { __proto__: null };
    known = { __proto__: null };
    order = [];
    changes = { __proto__: null };
  }

  // Null when no variable was touched that could have changed.
  function finish() {
    const touched = [];
    for (let i = 0; i < order.length; i++) {
      const name = order[i], value = cells[name], type = typeof value;
      if (written[name] || (value !== null && (type === 'object' || type === 'function'))) {
        touched[touched.length] = [name, value, written[name] === true];
      }
    }
    if (touched.length === 0 && !changes.correlation && !changes.name && !changes.outcomes) return null;
    return [touched, changes.correlation, changes.name, changes.outcomes];
  }

  // Converts an object without a JSON form: [0, value] is final, [1, value] is to be converted again, undefined means
  // that the object's own enumerable properties are walked.
  const map = Map, set = Set, date = Date, expression = RegExp, view = ArrayBuffer.isView, buffer = ArrayBuffer;
  const iso = unbound(date.prototype.toISOString), time = unbound(date.prototype.getTime);
  // As .NET writes a date: a fraction has no zeros at its end.
  const shortIso = (value) => replace(replace(iso(value), /0+Z$/, 'Z'), /\.Z$/, 'Z');
  const source = unbound(expression.prototype.toString);
  const eachEntry = unbound(map.prototype.forEach), eachMember = unbound(set.prototype.forEach);
  const boxes = [Number, String, Boolean, BigInt, Symbol];
  function flatten(value) {
    if (typeof value === 'string') return [0, wellFormed(value)];
    if (isArray(value)) return [1, arrayFrom(value)]; // a proxy of one
    const prototype = getPrototypeOf(value);
    if (prototype === object.prototype || prototype === null) return undefined;
    const special = plain(value);
    if (special !== undefined) return [0, special];
    if (value instanceof date) return [0, time(value) === time(value) ? shortIso(value) : null];
    if (value instanceof map) {
      const plain = { __proto__: null };
      eachEntry(value, (item, key) => { plain[typeof key === 'object' ? stringify(key) : text(key)] = item; });
      return [1, plain];
    }
    if (value instanceof set) {
      const list = [];
      eachMember(value, (item) => { list[list.length] = item; });
      return [1, list];
    }
    if (value instanceof buffer) return [0, toBase64(new bytes(value))];
    if (value instanceof bytes) return [0, toBase64(value)];
    if (view(value)) return [1, arrayFrom(value)];
    if (value instanceof expression) return [0, source(value)];
    if (value instanceof failure) return [1, { __proto__: null, name: value.name, message: value.message }];
    for (let i = 0; i < boxes.length; i++) if (value instanceof boxes[i]) return [1, value.valueOf()];
    return undefined;
  }

  function define(name, kind, target, part) {
    const value =
      kind === VARIABLE ? () => orNull(read(target)) : kind === WRITE ? (next) => write(target, next) :
      () => kept(kind, target, part);
    defineProperty(root, name, { value, writable: true, enumerable: false, configurable: true });
  }

  // Called by this name, `eval` is that of the global scope. A text may close the bracket that it stands in, and go on: nothing
  // of it runs before it has parsed in brackets that no other text closes alike.
  const evaluate = eval;
  function parse(text) {
    try {
      evaluate('throw 0;' + text);
    } catch (thrown) {
      if (thrown !== 0) throw thrown;
    }
  }
  const expressionOf = (before) => (script) => {
    parse(before + '() => [' + script + '\n]');
    return evaluate(before + '() => (' + script + '\n)');
  };
  const bodyOf = (before) => (script) => {
    parse('(' + before + 'function () {' + script + '\n})');
    parse('({ ' + before + 'm() {' + script + '\n} })');
    parse(before + '() => {' + script + '\n}');
    return evaluate(before + '() => {' + script + '\n}');
  };
  const compileExpression = expressionOf(''), compileBody = bodyOf('');
  const compileAsyncExpression = expressionOf('async '), compileAsyncBody = bodyOf('async ');

  // Numbers that an earlier script cannot foresee.
  defineProperty(Math, 'random', { value: { random: () => random() }.random });

  begin();
  return [begin, finish, flatten, define, compileExpression, compileBody, compileAsyncExpression,
    compileAsyncBody];
})
