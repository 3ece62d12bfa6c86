//! Arithmetic with the largest integers that there can be: QuickJS makes none of more than 2^20 bits, and does not ask for the
//! interrupt in one operation.

use std::time::{Duration, Instant};

use crate::expression::ScriptErrorKind::{Thrown, Timeout};
use crate::expression::{ScriptEngine, ScriptOptions, ScriptScope};

const LIMIT: Duration = Duration::from_millis(200);

/// QuickJS is hardly optimised in a debug build, and machines are busy.
const OVERTIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// The most bits of one.
const MOST: &str = "(2n ** 1048000n - 1n)";

#[tokio::test]
async fn no_integer_is_larger_than_its_limit() {
    let engine = ScriptEngine::new(ScriptOptions::default());
    for script in [
        "2n ** (2n ** 30n)",
        "2n ** (2n ** 62n)",
        "1n << (2n ** 30n)",
        "let x = 3n; for (;;) x = x * x",
        "BigInt.asUintN(2 ** 31, -1n)",
        "BigInt('1' + '0'.repeat(400000))",
    ] {
        let error = engine
            .session()
            .evaluate(script, ScriptScope::default())
            .await
            .expect_err(script);
        assert_eq!(error.kind, Thrown, "{script}: {error}");
        assert!(error.message.contains("too large"), "{script}: {error}");
    }
    let most = engine
        .session()
        .evaluate(&format!("{MOST} > 0n"), ScriptScope::default())
        .await;
    assert_eq!(most.expect("a large one").value, true);
}

#[tokio::test]
async fn no_operation_outlives_its_limit() {
    let engine = ScriptEngine::new(ScriptOptions {
        time_limit: LIMIT,
        ..ScriptOptions::default()
    });
    let mut failures = Vec::new();
    for operation in [
        "half * half",
        "a / half",
        "a % half",
        "a / 3n",
        "3n ** 660000n",
        "a.toString()",
        "a.toString(3)",
        "`${a}${a}`",
        "BigInt(digits)",
        "a == digits",
        "BigInt.asIntN(1000000, a)",
        "(a << 1n) >> 1n",
        "Number(a)",
        "-a & ~a | half ^ a",
        "half < digits",
    ] {
        let script = format!(
            "const a = {MOST}, half = 2n ** 524000n - 1n, digits = '9'.repeat(300000); setVariable('x', {operation}); for (;;);"
        );
        let began = Instant::now();
        let result = engine.session().evaluate(&script, ScriptScope::default()).await;
        let took = began.elapsed();
        println!("{operation}: {} ms", took.as_millis());
        let kind = result.expect_err(operation).kind;
        if kind != Timeout || took > LIMIT + OVERTIME {
            failures.push(format!("{operation}: {kind:?} after {took:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Their digits are made in parts; the text by a template is QuickJS's.
#[tokio::test]
async fn large_integers_have_the_digits_of_smaller_ones() {
    // It takes seconds of a debug build, and the tests beside it take the processors.
    let engine = ScriptEngine::new(ScriptOptions {
        time_limit: Duration::from_secs(60),
        ..ScriptOptions::default()
    });
    let script = "
      const digits = '0123456789abcdefghijklmnopqrstuvwxyz';
      const wrong = [];
      const values = [2n ** 16384n - 1n, 2n ** 16384n, 10n ** 4096n, 10n ** 8192n - 1n, 10n ** 8192n, 10n ** 20000n + 7n, 3n ** 31001n];
      for (const value of values.concat(values.map(value => -value))) {
        for (const text of [value.toString(), value.toString(undefined), value.toString(10.9), value.toLocaleString('de', {}), [value].join(),
            Object(value).toString(), [value, 1n].sort().find(one => one !== 1n) + '']) {
          if (text !== `${value}`) wrong.push(text.slice(0, 20));
        }
        for (const radix of [3, 36, 7, 16, 2]) {
          let read = 0n;
          const text = value.toString(radix), step = 512, base = BigInt(radix), size = base ** BigInt(step);
          const plain = text.replace('-', ''), first = plain.length % step;
          const part = (from, to) => { let sum = 0n; for (let i = from; i < to; i++) sum = sum * base + BigInt(digits.indexOf(plain[i])); return sum; };
          read = part(0, first);
          for (let at = first; at < plain.length; at += step) read = read * size + part(at, at + step);
          if ((text[0] === '-' ? -read : read) !== value || plain[0] === '0') wrong.push(radix);
        }
      }
      const thrown = (call) => { try { call(); return 'none'; } catch (error) { return error.name; } };
      const large = 10n ** 9000n;
      [wrong.length, thrown(() => large.toString(1)), thrown(() => large.toString(37)), thrown(() => large.toString(Symbol())),
        thrown(() => BigInt.prototype.toString.call('1')), 5n.toString(2), BigInt.prototype.toString.name, BigInt.prototype.toString.length]";
    let result = engine.session().evaluate(script, ScriptScope::default()).await;
    let expected = serde_json::json!([
        0,
        "RangeError",
        "RangeError",
        "TypeError",
        "TypeError",
        "101",
        "toString",
        0
    ]);
    assert_eq!(result.expect("the texts are made").value, expected);
}
