//! Operators, with .NET's promotions. Whole numbers wrap when they overflow, as unchecked C# does; decimals do not.

use std::cmp::Ordering;

use crate::date_time::{DateTime, DateTimeOffset, in_range};
use crate::problem::{Evaluated, Stop};
use crate::run::Meter;
use crate::syntax::{BinaryOp, UnaryOp};
use crate::text::text_of;
use crate::value::Value;

fn refuse(op: BinaryOp, left: &Value, right: &Value) -> Box<Stop> {
    if left.is_null() || right.is_null() {
        return Stop::thrown("NullReferenceException", "an operand is null");
    }
    let (a, b) = (left.type_name(), right.type_name());
    Stop::thrown("RuntimeBinderException", format!("{op:?} does not take {a} and {b}"))
}

/// An operation of two values.
pub(super) fn binary(op: BinaryOp, left: &Value, right: &Value, meter: &Meter<'_>) -> Evaluated<Value> {
    match op {
        BinaryOp::Equal => return Ok(Value::Bool(meter.equal(left, right)?)),
        BinaryOp::NotEqual => return Ok(Value::Bool(!meter.equal(left, right)?)),
        BinaryOp::Less | BinaryOp::Greater | BinaryOp::LessOrEqual | BinaryOp::GreaterOrEqual => {
            return compare(op, left, right);
        }
        BinaryOp::Add if matches!(left, Value::Text(_)) || matches!(right, Value::Text(_)) => {
            let (a, b) = (text_of(left), text_of(right));
            meter.hold(a.len() + b.len())?;
            return Ok(Value::text(format!("{a}{b}")));
        }
        _ => {}
    }
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => int(op, *a, *b),
        (Value::Bool(a), Value::Bool(b)) => match op {
            BinaryOp::And => Ok(Value::Bool(a & b)),
            BinaryOp::Or => Ok(Value::Bool(a | b)),
            BinaryOp::Xor => Ok(Value::Bool(a ^ b)),
            _ => Err(refuse(op, left, right)),
        },
        (Value::Enum(kind, a), Value::Enum(other, b)) if kind == other => match op {
            BinaryOp::Or => Ok(Value::Enum(*kind, a | b)),
            BinaryOp::And => Ok(Value::Enum(*kind, a & b)),
            _ => Err(refuse(op, left, right)),
        },
        (Value::Date(_) | Value::Offset(_) | Value::Span(_), _) | (_, Value::Span(_)) => time(op, left, right),
        (Value::Decimal(_), Value::Double(_)) | (Value::Double(_), Value::Decimal(_)) => Err(Stop::thrown(
            "RuntimeBinderException",
            "a decimal and a double have no common type; cast one of them",
        )),
        (Value::Decimal(_), _) | (_, Value::Decimal(_)) => {
            let (Some(a), Some(b)) = (left.as_decimal(), right.as_decimal()) else {
                return Err(refuse(op, left, right));
            };
            let overflow = || Stop::thrown("OverflowException", "the value does not fit into a decimal");
            let is_division = matches!(op, BinaryOp::Divide | BinaryOp::Remainder);
            if is_division && b.is_zero() {
                return Err(Stop::thrown("DivideByZeroException", "a decimal is divided by zero"));
            }
            let result = match op {
                BinaryOp::Add => a.add(b),
                BinaryOp::Subtract => a.subtract(b),
                BinaryOp::Multiply => a.multiply(b),
                BinaryOp::Divide => a.divide(b),
                BinaryOp::Remainder => a.remainder(b),
                _ => return Err(refuse(op, left, right)),
            };
            Ok(Value::Decimal(result.ok_or_else(overflow)?))
        }
        (Value::Double(_), _) | (_, Value::Double(_)) => {
            let (Some(a), Some(b)) = (left.as_f64(), right.as_f64()) else {
                return Err(refuse(op, left, right));
            };
            Ok(Value::Double(match op {
                BinaryOp::Add => a + b,
                BinaryOp::Subtract => a - b,
                BinaryOp::Multiply => a * b,
                BinaryOp::Divide => a / b,
                BinaryOp::Remainder => a % b,
                _ => return Err(refuse(op, left, right)),
            }))
        }
        _ => {
            let (Some(a), Some(b)) = (left.as_i64(), right.as_i64()) else {
                return Err(refuse(op, left, right));
            };
            let is_shift = matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight);
            let is_long = matches!(left, Value::Long(_)) || (matches!(right, Value::Long(_)) && !is_shift);
            if is_long {
                return long(op, a, b);
            }
            // Chars become ints.
            int(op, i32::try_from(a).unwrap_or(0), i32::try_from(b).unwrap_or(0))
        }
    }
}

fn zero() -> Box<Stop> {
    Stop::thrown("DivideByZeroException", "a whole number is divided by zero")
}

fn least() -> Box<Stop> {
    Stop::thrown("OverflowException", "the least whole number is divided by -1")
}

fn int(op: BinaryOp, a: i32, b: i32) -> Evaluated<Value> {
    Ok(Value::Int(match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Subtract => a.wrapping_sub(b),
        BinaryOp::Multiply => a.wrapping_mul(b),
        BinaryOp::Divide | BinaryOp::Remainder if b == 0 => return Err(zero()),
        BinaryOp::Divide => a.checked_div(b).ok_or_else(least)?,
        BinaryOp::Remainder => a.checked_rem(b).ok_or_else(least)?,
        BinaryOp::ShiftLeft => a.wrapping_shl(b as u32),
        BinaryOp::ShiftRight => a.wrapping_shr(b as u32),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        _ => return Err(refuse(op, &Value::Int(a), &Value::Int(b))),
    }))
}

fn long(op: BinaryOp, a: i64, b: i64) -> Evaluated<Value> {
    Ok(Value::Long(match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Subtract => a.wrapping_sub(b),
        BinaryOp::Multiply => a.wrapping_mul(b),
        BinaryOp::Divide | BinaryOp::Remainder if b == 0 => return Err(zero()),
        BinaryOp::Divide => a.checked_div(b).ok_or_else(least)?,
        BinaryOp::Remainder => a.checked_rem(b).ok_or_else(least)?,
        BinaryOp::ShiftLeft => a.wrapping_shl(b as u32),
        BinaryOp::ShiftRight => a.wrapping_shr(b as u32),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        _ => return Err(refuse(op, &Value::Long(a), &Value::Long(b))),
    }))
}

fn time(op: BinaryOp, left: &Value, right: &Value) -> Evaluated<Value> {
    let out_of_range = || {
        Stop::thrown(
            "ArgumentOutOfRangeException",
            "the date is not within the years 1 to 9999",
        )
    };
    let too_long = || Stop::thrown("OverflowException", "the TimeSpan is too long");
    let signed = |ticks: i64| {
        if op == BinaryOp::Subtract {
            ticks.checked_neg()
        } else {
            Some(ticks)
        }
    };
    let is_sum = matches!(op, BinaryOp::Add | BinaryOp::Subtract);
    match (left, right) {
        (Value::Date(date), Value::Span(span)) if is_sum => {
            let ticks = in_range(signed(*span).and_then(|span| date.ticks.checked_add(span)));
            Ok(Value::Date(DateTime {
                ticks: ticks.ok_or_else(out_of_range)?,
                kind: date.kind,
            }))
        }
        (Value::Offset(at), Value::Span(span)) if is_sum => {
            let ticks = in_range(signed(*span).and_then(|span| at.ticks.checked_add(span)));
            Ok(Value::Offset(DateTimeOffset {
                ticks: ticks.ok_or_else(out_of_range)?,
                minutes: at.minutes,
            }))
        }
        (Value::Date(a), Value::Date(b)) if op == BinaryOp::Subtract => Ok(Value::Span(a.ticks - b.ticks)),
        (Value::Offset(_) | Value::Date(_), Value::Offset(_) | Value::Date(_)) if op == BinaryOp::Subtract => {
            let ticks = |value: &Value| match value {
                Value::Offset(at) => at.utc_ticks(),
                Value::Date(date) => date.ticks,
                _ => 0,
            };
            Ok(Value::Span(ticks(left) - ticks(right)))
        }
        (Value::Span(a), Value::Span(b)) if is_sum => {
            let sum = signed(*b).and_then(|b| a.checked_add(b));
            Ok(Value::Span(sum.ok_or_else(too_long)?))
        }
        (Value::Span(a), Value::Span(b)) if op == BinaryOp::Divide => Ok(Value::Double(*a as f64 / *b as f64)),
        (Value::Span(span), number) | (number, Value::Span(span))
            if matches!(op, BinaryOp::Multiply | BinaryOp::Divide) && number.as_f64().is_some() =>
        {
            let factor = number.as_f64().unwrap_or(1.0);
            let ticks = if op == BinaryOp::Multiply {
                *span as f64 * factor
            } else {
                *span as f64 / factor
            };
            rounded_ticks(ticks).map(Value::Span).ok_or_else(too_long)
        }
        _ => Err(refuse(op, left, right)),
    }
}

/// Ticks of a double, half to even; `None` if they do not fit.
pub(crate) fn rounded_ticks(ticks: f64) -> Option<i64> {
    let rounded = ticks.round_ties_even();
    (rounded.is_finite() && rounded.abs() < i64::MAX as f64).then_some(rounded as i64)
}

fn compare(op: BinaryOp, left: &Value, right: &Value) -> Evaluated<Value> {
    if matches!(left, Value::Text(_)) || matches!(right, Value::Text(_)) {
        return Err(Stop::thrown(
            "RuntimeBinderException",
            "strings have no <; write string.Compare(a, b) < 0, or convert them to numbers",
        ));
    }
    let is_nan = |value: &Value| matches!(value, Value::Double(number) if number.is_nan());
    if is_nan(left) || is_nan(right) {
        return Ok(Value::Bool(false));
    }
    let order = left.order(right).ok_or_else(|| refuse(op, left, right))?;
    Ok(Value::Bool(match op {
        BinaryOp::Less => order == Ordering::Less,
        BinaryOp::Greater => order == Ordering::Greater,
        BinaryOp::LessOrEqual => order != Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

/// The same where null is allowed by the types: a result is null, and a comparison does not hold.
pub(super) fn lifted(op: BinaryOp, left: &Value, right: &Value, meter: &Meter<'_>) -> Evaluated<Value> {
    let is_null = left.is_null() || right.is_null();
    let has_text = matches!(left, Value::Text(_)) || matches!(right, Value::Text(_));
    match op {
        BinaryOp::Equal | BinaryOp::NotEqual => binary(op, left, right, meter),
        _ if !is_null => binary(op, left, right, meter),
        BinaryOp::Add if has_text => binary(op, left, right, meter),
        BinaryOp::Less | BinaryOp::Greater | BinaryOp::LessOrEqual | BinaryOp::GreaterOrEqual => Ok(Value::Bool(false)),
        BinaryOp::And | BinaryOp::Or => match (op, left, right) {
            // Three values: one operand may decide.
            (BinaryOp::And, Value::Bool(false), _) | (BinaryOp::And, _, Value::Bool(false)) => Ok(Value::Bool(false)),
            (BinaryOp::Or, Value::Bool(true), _) | (BinaryOp::Or, _, Value::Bool(true)) => Ok(Value::Bool(true)),
            _ => Ok(Value::Null),
        },
        _ => Ok(Value::Null),
    }
}

pub(super) fn unary(op: UnaryOp, value: &Value) -> Evaluated<Value> {
    Ok(match (op, value) {
        (UnaryOp::Not, Value::Bool(flag)) => Value::Bool(!flag),
        (UnaryOp::Not, Value::Null) | (UnaryOp::Plus | UnaryOp::Minus, Value::Null) => Value::Null,
        (UnaryOp::Minus, Value::Int(number)) => Value::Int(number.wrapping_neg()),
        (UnaryOp::Minus, Value::Long(number)) => Value::Long(number.wrapping_neg()),
        (UnaryOp::Minus, Value::Double(number)) => Value::Double(-number),
        (UnaryOp::Minus, Value::Decimal(number)) => Value::Decimal(number.negate()),
        (UnaryOp::Minus, Value::Char(unit)) => Value::Int(-i32::from(*unit)),
        (UnaryOp::Minus, Value::Span(ticks)) => Value::Span(ticks.wrapping_neg()),
        (UnaryOp::Plus, Value::Char(unit)) => Value::Int(i32::from(*unit)),
        (UnaryOp::Plus, number) if number.as_f64().is_some() => number.clone(),
        (UnaryOp::Complement, Value::Int(number)) => Value::Int(!number),
        (UnaryOp::Complement, Value::Long(number)) => Value::Long(!number),
        (op, other) => {
            let message = format!("{op:?} does not take {}", other.type_name());
            return Err(Stop::thrown("RuntimeBinderException", message));
        }
    })
}
