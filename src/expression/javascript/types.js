// The types of .NET that scripts use, over host functions that never leave this closure. Evaluated once per realm, before it is
// frozen. A member has its name in .NET, and also with a small first letter, as Jint finds it by both.
//
// Returns two functions: one gives the text of such a value in JSON, and undefined for any other value; the other makes the value
// of a declared kind of a text in JSON.
(function (host) {
  'use strict';
  const { parseDate, random, guid } = host, isArray = Array.isArray, fromBase64 = Uint8Array.fromBase64.bind(Uint8Array);
  const { defineProperty, ownKeys, getOwnPropertyDescriptor } = Reflect;
  const root = globalThis, text = String, whole = Math.trunc, floor = Math.floor, abs = Math.abs;
  const unbound = Function.prototype.call.bind.bind(Function.prototype.call);
  const pad = unbound(text.prototype.padStart), slice = unbound(text.prototype.slice), trim = unbound(text.prototype.trim);
  const lower = unbound(text.prototype.toLowerCase), upper = unbound(text.prototype.toUpperCase);
  const replace = unbound(text.prototype.replace), exec = unbound(RegExp.prototype.exec);
  const time = unbound(Date.prototype.getTime), isFinite = Number.isFinite, range = RangeError, failure = Error, utc = Date.UTC;
  const MILLISECOND = 10000, SECOND = 1e7, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
  const two = (number) => pad(text(number), 2, '0');

  function number(value, what) {
    if (typeof value !== 'number' || !isFinite(value)) throw new failure(what + ' expects a number, not ' + text(value));
    return value;
  }

  // Lengths of time, in ticks of 100 ns. Beyond 28 years they are exact to some ticks.
  class TimeSpan {
    #ticks;
    constructor(...parts) {
      for (let i = 0; i < parts.length; i++) number(parts[i], 'TimeSpan');
      const [a = 0, b = 0, c = 0, d = 0, e = 0] = parts;
      if (parts.length === 2 || parts.length > 5) throw new failure('TimeSpan has 1, 3, 4 or 5 parts');
      const ticks = parts.length < 2 ? a : parts.length === 3 ? a * HOUR + b * MINUTE + c * SECOND :
        a * DAY + b * HOUR + c * MINUTE + d * SECOND + e * MILLISECOND;
      if (abs(ticks) > 9223372036854775807) throw new range('a TimeSpan is at most 10675199 days');
      this.#ticks = whole(ticks);
    }
    static FromTicks(value) { return new TimeSpan(number(value, 'FromTicks')); }
    static FromMilliseconds(value) { return new TimeSpan(number(value, 'FromMilliseconds') * MILLISECOND); }
    static FromSeconds(value) { return new TimeSpan(number(value, 'FromSeconds') * SECOND); }
    static FromMinutes(value) { return new TimeSpan(number(value, 'FromMinutes') * MINUTE); }
    static FromHours(value) { return new TimeSpan(number(value, 'FromHours') * HOUR); }
    static FromDays(value) { return new TimeSpan(number(value, 'FromDays') * DAY); }
    static Parse(value) {
      const found = exec(/^(-)?(?:(\d{1,8})(?:\.(?=\d+:)|$))?(?:(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,7}))?)?)?$/, trim(text(value)));
      const part = (at) => +(found[at] ?? 0);
      if (!found || (found[2] ?? found[3]) === undefined || part(3) > 23 || part(4) > 59 || part(5) > 59) {
        throw new failure('"' + text(value) + '" is not a TimeSpan; write it as 00:05:00 or 1.02:03:04');
      }
      const fraction = +slice((found[6] ?? "") + "0000000", 0, 7);
      const ticks = part(2) * DAY + part(3) * HOUR + part(4) * MINUTE + part(5) * SECOND + fraction;
      return new TimeSpan(found[1] ? -ticks : ticks);
    }
    static get Zero() { return new TimeSpan(0); }
    get Ticks() { return this.#ticks; }
    get Days() { return whole(this.#ticks / DAY); }
    get Hours() { return whole(this.#ticks / HOUR) % 24; }
    get Minutes() { return whole(this.#ticks / MINUTE) % 60; }
    get Seconds() { return whole(this.#ticks / SECOND) % 60; }
    get Milliseconds() { return whole(this.#ticks / MILLISECOND) % 1000; }
    get TotalDays() { return this.#ticks / DAY; }
    get TotalHours() { return this.#ticks / HOUR; }
    get TotalMinutes() { return this.#ticks / MINUTE; }
    get TotalSeconds() { return this.#ticks / SECOND; }
    get TotalMilliseconds() { return this.#ticks / MILLISECOND; }
    Add(other) { return new TimeSpan(this.#ticks + TimeSpan.of(other)); }
    Subtract(other) { return new TimeSpan(this.#ticks - TimeSpan.of(other)); }
    Multiply(factor) { return new TimeSpan(this.#ticks * number(factor, 'Multiply')); }
    Divide(by) { return typeof by === 'number' ? new TimeSpan(this.#ticks / by) : this.#ticks / TimeSpan.of(by); }
    Negate() { return new TimeSpan(-this.#ticks); }
    Duration() { return new TimeSpan(abs(this.#ticks)); }
    Equals(other) { return other instanceof TimeSpan && other.#ticks === this.#ticks; }
    CompareTo(other) { return Math.sign(this.#ticks - TimeSpan.of(other)); }
    static of(other) {
      if (other instanceof TimeSpan) return other.#ticks;
      return TimeSpan.Parse(other).#ticks;
    }
    // Compared by its ticks; in a text it is written out.
    [Symbol.toPrimitive](hint) { return hint === 'number' ? this.#ticks : this.toString(); }
    toJSON() { return this.toString(); }
    ToString() { return this.toString(); }
    toString() {
      const ticks = abs(this.#ticks), fraction = ticks % SECOND, days = whole(ticks / DAY);
      return (this.#ticks < 0 ? '-' : '') + (days ? days + '.' : '') + two(whole(ticks / HOUR) % 24) + ':' +
        two(whole(ticks / MINUTE) % 60) + ':' + two(whole(ticks / SECOND) % 60) +
        (fraction ? '.' + pad(text(fraction), 7, '0') : '');
    }
  }

  const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November',
    'December'];
  // The standard formats of the invariant culture.
  const STANDARD = {
    __proto__: null, d: 'MM/dd/yyyy', D: 'dddd, dd MMMM yyyy', f: 'dddd, dd MMMM yyyy HH:mm', F: 'dddd, dd MMMM yyyy HH:mm:ss',
    g: 'MM/dd/yyyy HH:mm', G: 'MM/dd/yyyy HH:mm:ss', m: 'MMMM dd', M: 'MMMM dd', o: "yyyy-MM-dd'T'HH:mm:ss.fffffffK",
    O: "yyyy-MM-dd'T'HH:mm:ss.fffffffK", r: "ddd, dd MMM yyyy HH:mm:ss 'GMT'", R: "ddd, dd MMM yyyy HH:mm:ss 'GMT'",
    s: "yyyy-MM-dd'T'HH:mm:ss", t: 'HH:mm', T: 'HH:mm:ss', u: "yyyy-MM-dd HH:mm:ss'Z'", y: 'yyyy MMMM', Y: 'yyyy MMMM',
  };
  const TOKENS = /\\(.)|'([^']*)'|"([^"]*)"|(y+|M+|d+|H+|h+|m+|s+|f+|F+|t+|K|z+)|%/g;
  const sign = (minutes) => (minutes < 0 ? '-' : '+');
  const offsetText = (minutes) => sign(minutes) + two(whole(abs(minutes) / 60)) + ':' + two(abs(minutes) % 60);

  // A moment as clock time, `offset` minutes from UTC; `zone` is what K writes.
  function format(moment, offset, zone, pattern) {
    const at = new Date(moment + offset * 60000), hour = at.getUTCHours();
    const standard = pattern.length === 1 ? STANDARD[pattern] : pattern;
    if (standard === undefined) throw new failure('"' + pattern + '" is not a format of a date');
    const isUtc = pattern === 'r' || pattern === 'R' || pattern === 'u';
    if (isUtc && offset) return format(moment, 0, 'Z', standard);
    const digits = pad(text(at.getUTCMilliseconds()), 3, '0') + '0000';
    return replace(standard, TOKENS, (all, escaped, single, double, token) => {
      if (token === undefined) return escaped ?? single ?? double ?? '';
      const length = token.length, sized = (value) => pad(text(value), length > 2 ? 2 : length, '0');
      switch (token[0]) {
        case 'y': return length < 3 ? sized(at.getUTCFullYear() % 100) : pad(text(at.getUTCFullYear()), length, '0');
        case 'M': return length < 3 ? sized(at.getUTCMonth() + 1) : slice(MONTHS[at.getUTCMonth()], 0, length === 3 ? 3 : 9);
        case 'd': return length < 3 ? sized(at.getUTCDate()) : slice(DAYS[at.getUTCDay()], 0, length === 3 ? 3 : 9);
        case 'H': return sized(hour);
        case 'h': return sized(hour % 12 || 12);
        case 'm': return sized(at.getUTCMinutes());
        case 's': return sized(at.getUTCSeconds());
        case 'f': return slice(digits, 0, length);
        case 'F': return replace(slice(digits, 0, length), /0+$/, '');
        case 't': return slice(hour < 12 ? 'AM' : 'PM', 0, length);
        case 'z': return length < 3 ? sign(offset) + sized(whole(abs(offset) / 60)) : offsetText(offset);
        default: return zone;
      }
    });
  }

  // The year 0 to 99 is not that of the last century.
  function moment(year, month, day, hour = 0, minute = 0, second = 0, millisecond = 0) {
    const at = new Date(0);
    at.setUTCFullYear(year, month - 1, day);
    at.setUTCHours(hour, minute, second, millisecond);
    const isOne = year >= 1 && year <= 9999 && at.getUTCFullYear() === year && at.getUTCMonth() === month - 1 &&
      at.getUTCDate() === day && at.getUTCHours() === hour && at.getUTCMinutes() === minute && at.getUTCSeconds() === second;
    if (!isOne) throw new range('there is no such date or time: ' + [year, month, day, hour, minute, second].join(', '));
    return time(at);
  }
  function within(value) {
    if (!(value >= -62135596800000 && value <= 253402300799999)) throw new range('a date lies in the years 1 to 9999');
    return value;
  }
  function read(value) {
    const found = parseDate(text(value));
    if (!found) throw new failure('"' + text(value) + '" is not a date and time; write it as 2026-01-31T12:00:00Z');
    return found;
  }

  // A Date of JavaScript with the members of .NET's.
  class DateTime extends Date {
    constructor(...parts) {
      if (parts.length === 1 && parts[0] instanceof Date) super(time(parts[0]));
      else if (parts.length === 1 && typeof parts[0] === 'string') super(read(parts[0])[0]);
      else if (parts.length === 0) super(-62135596800000);
      else if (parts.length < 3 || parts.length > 7) throw new failure('DateTime has 3, 6 or 7 parts: year, month, day, hour, …');
      else {
        for (let i = 0; i < parts.length; i++) number(parts[i], 'DateTime');
        super(moment(...parts));
      }
    }
    static get Now() { return new this(new Date()); }
    static get UtcNow() { return new this(new Date()); }
    static get Today() { return this.Now.Date; }
    static get MinValue() { return new this(new Date(-62135596800000)); }
    static get MaxValue() { return new this(new Date(253402300799999)); }
    static Parse(value) { return new DateTime(new Date(read(value)[0])); }
    static DaysInMonth(year, month) { return new Date(utc(year, month, 0)).getUTCDate(); }
    static IsLeapYear(year) { return new Date(utc(year, 1, 29)).getUTCMonth() === 1; }
    // What DateTimeOffset overrides.
    minutes() { return 0; }
    at(value) { return new DateTime(new Date(within(value))); }
    clock() { return new Date(time(this) + this.minutes() * 60000); }

    get Year() { return this.clock().getUTCFullYear(); }
    get Month() { return this.clock().getUTCMonth() + 1; }
    get Day() { return this.clock().getUTCDate(); }
    get Hour() { return this.clock().getUTCHours(); }
    get Minute() { return this.clock().getUTCMinutes(); }
    get Second() { return this.clock().getUTCSeconds(); }
    get Millisecond() { return this.clock().getUTCMilliseconds(); }
    get DayOfWeek() { return this.clock().getUTCDay(); }
    get DayOfYear() { return floor((time(this.clock()) - moment(this.Year, 1, 1)) / 86400000) + 1; }
    get Ticks() { return (time(this.clock()) + 62135596800000) * MILLISECOND; }
    get TimeOfDay() { return new TimeSpan((time(this.clock()) + 62135596800000) % 86400000 * MILLISECOND); }
    get Date() { return new DateTime(new Date(time(this.clock()) - (time(this.clock()) + 62135596800000) % 86400000)); }
    Add(span) { return this.at(time(this) + TimeSpan.of(span) / MILLISECOND); }
    Subtract(other) {
      if (other instanceof Date) return TimeSpan.FromMilliseconds(time(this) - time(other));
      return this.at(time(this) - TimeSpan.of(other) / MILLISECOND);
    }
    AddMilliseconds(value) { return this.at(time(this) + number(value, 'AddMilliseconds')); }
    AddSeconds(value) { return this.at(time(this) + number(value, 'AddSeconds') * 1000); }
    AddMinutes(value) { return this.at(time(this) + number(value, 'AddMinutes') * 60000); }
    AddHours(value) { return this.at(time(this) + number(value, 'AddHours') * 3600000); }
    AddDays(value) { return this.at(time(this) + number(value, 'AddDays') * 86400000); }
    AddMonths(value) {
      const count = (this.Year * 12 + this.Month - 1) + whole(number(value, 'AddMonths'));
      const year = floor(count / 12), month = count % 12 + 1, day = Math.min(this.Day, DateTime.DaysInMonth(year, month));
      return this.at(moment(year, month, day) + this.TimeOfDay.TotalMilliseconds - this.minutes() * 60000);
    }
    AddYears(value) { return this.AddMonths(12 * whole(number(value, 'AddYears'))); }
    ToUniversalTime() { return new DateTime(new Date(time(this))); }
    ToLocalTime() { return new DateTime(new Date(time(this))); }
    Equals(other) { return other instanceof Date && time(other) === time(this); }
    CompareTo(other) { return Math.sign(time(this) - time(new DateTime(other))); }
    ToString(pattern = 'G') { return format(time(this), this.minutes(), 'Z', text(pattern)); }
  }

  class DateTimeOffset extends DateTime {
    #minutes = 0;
    constructor(...parts) {
      const last = parts[parts.length - 1], isOffset = last instanceof TimeSpan;
      const given = isOffset ? parts.slice(0, -1) : parts;
      const found = given.length === 1 && typeof given[0] === 'string' ? read(given[0]) : undefined;
      const minutes = isOffset ? last.TotalMinutes : found ? found[1] ?? 0 : 0;
      if (!(abs(minutes) <= 840) || minutes % 1 !== 0) throw new range('an offset is at most 14 hours, in whole minutes');
      super(...(found ? [new Date(found[0])] : given));
      if (isOffset) this.setTime(time(this) - minutes * 60000);
      this.#minutes = minutes;
    }
    static Parse(value) { return new DateTimeOffset(text(value)); }
    static FromUnixTimeSeconds(value) { return new DateTimeOffset(new Date(within(number(value, 'FromUnixTimeSeconds') * 1000))); }
    static FromUnixTimeMilliseconds(value) {
      return new DateTimeOffset(new Date(within(number(value, 'FromUnixTimeMilliseconds'))));
    }
    minutes() { return this.#minutes; }
    at(value) { return new DateTimeOffset(new Date(within(value) + this.#minutes * 60000), TimeSpan.FromMinutes(this.#minutes)); }
    get Offset() { return TimeSpan.FromMinutes(this.#minutes); }
    get DateTime() { return new DateTime(this.clock()); }
    get UtcDateTime() { return new DateTime(new Date(time(this))); }
    get LocalDateTime() { return new DateTime(new Date(time(this))); }
    ToOffset(span) {
      const minutes = TimeSpan.of(span) / MINUTE;
      return new DateTimeOffset(new Date(time(this) + minutes * 60000), TimeSpan.FromMinutes(minutes));
    }
    ToUnixTimeSeconds() { return floor(time(this) / 1000); }
    ToUnixTimeMilliseconds() { return time(this); }
    ToString(pattern = "MM/dd/yyyy HH:mm:ss zzz") { return format(time(this), this.#minutes, offsetText(this.#minutes), text(pattern)); }
    static json(value) { return format(time(value), value.#minutes, offsetText(value.#minutes), "yyyy-MM-dd'T'HH:mm:ss"); }
  }

  class Guid {
    #digits;
    constructor(value = '00000000000000000000000000000000') {
      const hex = replace(lower(trim(text(value))), /[-{}()]/g, '');
      if (!exec(/^[0-9a-f]{32}$/, hex)) throw new failure('"' + text(value) + '" is not a Guid');
      this.#digits = hex;
    }
    static NewGuid() { return new Guid(guid()); }
    static Parse(value) { return new Guid(value); }
    static get Empty() { return new Guid(); }
    Equals(other) { return text(other) === this.toString(); }
    ToString(pattern = 'D') {
      const hex = this.#digits, parts = [slice(hex, 0, 8), slice(hex, 8, 12), slice(hex, 12, 16), slice(hex, 16, 20), slice(hex, 20)];
      const dashed = parts[0] + '-' + parts[1] + '-' + parts[2] + '-' + parts[3] + '-' + parts[4];
      switch (upper(text(pattern))) {
        case 'D': case '': return dashed;
        case 'N': return hex;
        case 'B': return '{' + dashed + '}';
        case 'P': return '(' + dashed + ')';
        default: throw new failure('"' + text(pattern) + '" is not a format of a Guid');
      }
    }
    toString() { return this.ToString(); }
    toJSON() { return this.ToString(); }
  }

  class Random {
    static get Shared() { return new Random(); }
    Next(a, b) {
      const low = b === undefined ? 0 : number(a, 'Next'), high = b ?? a ?? 2147483647;
      if (number(high, 'Next') < low) throw new range('the largest number is below the smallest');
      return low + floor(random() * (high - low));
    }
    NextInt64(a, b) { return this.Next(a, b); }
    NextDouble() { return random(); }
  }

  const LogPersistenceMode = { Inherit: 'Inherit', Include: 'Include', Exclude: 'Exclude' };

  // What Date has itself stays: `getDate`, `toString`.
  function alias(holder) {
    const names = ownKeys(holder);
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      if (typeof name !== 'string' || !exec(/^[A-Z]/, name) || name === 'ToString') continue;
      const small = lower(name[0]) + slice(name, 1);
      if (!(small in holder)) defineProperty(holder, small, getOwnPropertyDescriptor(holder, name));
    }
  }
  const types = { TimeSpan, DateTime, DateTimeOffset, Guid, Random };
  for (const name of ownKeys(types)) {
    alias(types[name]);
    alias(types[name].prototype);
    defineProperty(root, name, { value: types[name], writable: true, enumerable: false, configurable: true });
  }
  defineProperty(root, 'LogPersistenceMode', { value: LogPersistenceMode, writable: true, enumerable: false, configurable: true });

  function plain(value) {
    if (value instanceof DateTimeOffset) {
      const fraction = time(value) % 1000;
      const local = DateTimeOffset.json(value), digits = replace(pad(text((fraction + 1000) % 1000), 3, '0'), /0+$/, '');
      return local + (digits ? '.' + digits : '') + offsetText(value.Offset.TotalMinutes);
    }
    if (value instanceof TimeSpan || value instanceof Guid) return value.toString();
    return undefined;
  }

  // A text that is not of the declared kind stays: an instance may have it from before. The kinds are those of `DeclaredKind`.
  function typedOne(kind, value) {
    if (typeof value !== 'string') return value;
    try {
      if (kind === 4) return exec(/^-?\d+(\.\d+)?$/, value) ? +value : value;
      if (kind === 3) return fromBase64(value);
      if (kind === 2) return TimeSpan.Parse(value);
      const found = parseDate(value);
      return !found ? value : kind === 1 ? new DateTimeOffset(value) : new Date(found[0]);
    } catch {
      return value;
    }
  }
  function typed(kind, isList, value) {
    if (!isList || !isArray(value)) return typedOne(kind, value);
    for (let i = 0; i < value.length; i++) value[i] = typedOne(kind, value[i]);
    return value;
  }
  return [plain, typed];
})
