// Local time is UTC, whatever the host's time zone is: the result of a script must not depend on the node that runs it.
// Evaluated before everything that saves `Date`.
(function () {
  'use strict';
  const { apply, construct } = Reflect;
  const native = Date, proto = native.prototype, utc = native.UTC, nativeParse = native.parse, text = String;
  const unbound = Function.prototype.call.bind.bind(Function.prototype.call);
  const slice = unbound(text.prototype.slice), exec = unbound(RegExp.prototype.exec);
  const time = unbound(proto.getTime), inUtc = unbound(proto.toUTCString);
  const fullYear = unbound(proto.getUTCFullYear), setFullYear = proto.setUTCFullYear;
  const toPrimitive = Symbol.toPrimitive, failure = TypeError;

  // A proxy has the name, the length and the text of the method of local time.
  function put(name, call) {
    proto[name] = new Proxy(proto[name], { __proto__: null, apply: call });
  }
  const parts = ['Date', 'Day', 'FullYear', 'Hours', 'Milliseconds', 'Minutes', 'Month', 'Seconds'];
  for (let i = 0; i < parts.length; i++) {
    const get = proto['getUTC' + parts[i]], set = proto['setUTC' + parts[i]];
    put('get' + parts[i], (_, date) => apply(get, date, []));
    if (set) put('set' + parts[i], (_, date, list) => apply(set, date, list));
  }
  put('getTimezoneOffset', (_, date) => time(date) * 0);
  put('getYear', (_, date) => fullYear(date) - 1900);
  put('setYear', (_, date, list) => {
    const year = +list[0], whole = Math.trunc(year);
    return apply(setFullYear, date, [whole >= 0 && whole <= 99 ? 1900 + whole : year]);
  });

  // "Wed, 03 Jan 2018 00:05:22 GMT" in the other forms; the year may be longer.
  const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
  const forms = {
    toDateString: (all) => slice(all, 0, 3) + ' ' + slice(all, 8, 11) + ' ' + slice(all, 5, 7) + ' ' + slice(all, 12, -13),
    toTimeString: (all) => slice(all, -12) + '+0000',
    toLocaleDateString: (all) => {
      let month = 0;
      while (months[month] !== slice(all, 8, 11)) month++;
      return slice('0' + (month + 1), -2) + '/' + slice(all, 5, 7) + '/' + slice(all, 12, -13);
    },
    toLocaleTimeString: (all) => {
      const hours = +slice(all, -12, -10);
      return slice('0' + ((hours + 11) % 12 + 1), -2) + slice(all, -10, -4) + (hours < 12 ? ' AM' : ' PM');
    },
  };
  forms.toString = (all) => forms.toDateString(all) + ' ' + forms.toTimeString(all);
  forms.toLocaleString = (all) => forms.toLocaleDateString(all) + ', ' + forms.toLocaleTimeString(all);
  const show = (date, form) => (time(date) === time(date) ? form(inUtc(date)) : 'Invalid Date');
  const names = Object.keys(forms);
  for (let i = 0; i < names.length; i++) {
    const form = forms[names[i]];
    put(names[i], (_, date) => show(date, form));
  }

  // A text without a zone is in UTC. In ISO 8601 the zone is appended; in every other form it is put first, where a zone
  // that follows overrides it.
  const iso = /^(?:[+-]\d{6}|\d{4})(?:-\d\d(?:-\d\d)?)?(T\d\d:\d\d(?::\d\d(?:[.,]\d*)?)?)?(Z|[+-]\d\d(?::?\d\d)?)?$/;
  function parse(given) {
    const source = text(given), found = exec(iso, source);
    if (found === null) return nativeParse('GMT ' + source);
    return nativeParse(found[1] !== undefined && found[2] === undefined ? source + 'Z' : source);
  }
  const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
  function primitive(value) {
    const exotic = value[toPrimitive];
    if (exotic !== undefined && exotic !== null) {
      const found = apply(exotic, value, ['default']);
      if (!isObject(found)) return found;
    } else {
      for (const name of ['valueOf', 'toString']) {
        const method = value[name], found = typeof method === 'function' ? apply(method, value, []) : value;
        if (!isObject(found)) return found;
      }
    }
    throw new failure('a date cannot be made of this object');
  }
  function single(given) {
    let value = given;
    if (isObject(value)) {
      try {
        return time(value);
      } catch {
        value = primitive(value);
      }
    }
    return typeof value === 'string' ? parse(value) : value;
  }
  native.parse = new Proxy(nativeParse, { __proto__: null, apply: (_, date, list) => parse(list[0]) });
  globalThis.Date = proto.constructor = new Proxy(native, {
    __proto__: null,
    construct(target, list, made) {
      const given = list.length === 0 ? [] : [list.length === 1 ? single(list[0]) : apply(utc, target, list)];
      return construct(target, given, made);
    },
    apply: () => show(new native(), forms.toString),
  });
})
