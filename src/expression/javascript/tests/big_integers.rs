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
