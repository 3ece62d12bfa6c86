// What takes long in QuickJS's built-ins without asking for the interrupt, behind a check. Evaluated before everything else,
// so that no script sees the originals.
//
// All other long operations ask (vendor/README.md). Call sites of an error would give the original functions to a script, so
// they have no `getFunction`.
(function () {
  'use strict';
  const LONG = 1000;
  const { apply } = Reflect, exec = RegExp.prototype.exec, range = RangeError, text = String;

  // Marks that combine with the character before them are sorted, each run of them in quadratic time.
  const isMarked = (value) => value.length > LONG && apply(exec, /[\p{M}\uff9e\uff9f]{1000}/u, [value]) !== null;
  // A proxy has the name, the length and the text of what it stands for, and takes less time to make than a function with
  // these. An assignment keeps the attributes of the property.
  for (const name of ['normalize', 'localeCompare']) {
    String.prototype[name] = new Proxy(String.prototype[name], {
      __proto__: null,
      apply(native, self, list) {
        if (self === undefined || self === null) return apply(native, self, list);
        const whole = text(self);
        if (name === 'localeCompare') list[0] = `${list[0]}`;
        if (isMarked(whole) || (name === 'localeCompare' && isMarked(list[0]))) {
          throw new range(name + ' is limited to ' + LONG + ' combining marks in a row here');
        }
        return apply(native, whole, list);
      },
    });
  }
  Error.prepareStackTrace = (_, sites) => sites;
  delete Reflect.getPrototypeOf(new Error().stack[0]).getFunction;
  Error.prepareStackTrace = undefined;
})
