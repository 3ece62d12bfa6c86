//! Numbers: `Parse`, `Math` and `Convert`.

use super::arguments::Arguments;
use super::bytes::{from_base64, from_hex, to_base64, to_hex};
use super::parsing::{parsed, type_of};
use crate::convert::{bytes_of, bytes_value, cast, convert_to, default_of, implicit};
use crate::problem::{Evaluated, Stop};
use crate::run::Meter;
use crate::types::{EnumKind, Ty};
use crate::value::Value;
use mainspring_language::{Decimal, Rounding};

pub(super) fn call_static(owner: &str, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    Ok(match (owner, name) {
        ("int" | "long" | "double" | "decimal" | "bool", "Parse") => Some(parsed(&type_of(owner), arguments)?),
        ("double", "IsNaN") => Some(Value::Bool(arguments.double(0)?.is_nan())),
        ("double", "IsInfinity") => Some(Value::Bool(arguments.double(0)?.is_infinite())),
        ("decimal" | "Math", "Round" | "Floor" | "Ceiling" | "Truncate") => Some(round(owner, name, arguments)?),
        ("decimal", "Abs") => math(name, arguments)?,
        ("decimal", _) => decimal(name, arguments)?,
        ("Math", _) => math(name, arguments)?,
        ("Convert", _) => convert(name, arguments)?,
        _ => None,
    })
}

/// `decimal.Add(a, b)` and its like.
fn decimal(name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let number = |place: usize| -> Evaluated<Decimal> {
        let value = arguments.value(place)?;
        value.as_decimal().ok_or_else(|| overflow(&Ty::Decimal))
    };
    let a = number(0)?;
    if name == "Negate" {
        return Ok(Some(Value::Decimal(a.negate())));
    }
    let b = number(1)?;
    let result = match name {
        "Add" => a.add(b),
        "Subtract" => a.subtract(b),
        "Multiply" => a.multiply(b),
        "Divide" | "Remainder" if b.is_zero() => {
            return Err(Stop::thrown("DivideByZeroException", "a decimal is divided by zero"));
        }
        "Divide" => a.divide(b),
        "Remainder" => a.remainder(b),
        _ => return Ok(None),
    };
    Ok(Some(Value::Decimal(result.ok_or_else(|| overflow(&Ty::Decimal))?)))
}

fn overflow(ty: &Ty) -> Box<Stop> {
    Stop::thrown("OverflowException", format!("the value does not fit into {ty}"))
}

/// How halves are rounded, and to how many places.
fn rounding(name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<(u32, Rounding)> {
    let (mut places, mut to) = (0, Rounding::HalfEven);
    for number in 1..arguments.len() {
        match arguments.value(number)? {
            Value::Enum(EnumKind::MidpointRounding, kind) => {
                to = match kind {
                    0 => Rounding::HalfEven,
                    1 => Rounding::HalfAway,
                    2 => Rounding::Truncate,
                    3 => Rounding::Floor,
                    _ => Rounding::Ceiling,
                }
            }
            _ => {
                places = u32::try_from(arguments.long(number)?)
                    .ok()
                    .filter(|places| *places <= 28)
                    .ok_or_else(|| Stop::thrown("ArgumentOutOfRangeException", "a number has 0 to 28 places"))?;
            }
        }
    }
    Ok(match name {
        "Floor" => (0, Rounding::Floor),
        "Ceiling" => (0, Rounding::Ceiling),
        "Truncate" => (0, Rounding::Truncate),
        _ => (places, to),
    })
}

fn round(owner: &str, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let (places, to) = rounding(name, arguments)?;
    let value = arguments.value(0)?;
    if owner == "decimal" || matches!(value, Value::Decimal(_)) {
        let number = value.as_decimal().ok_or_else(|| overflow(&Ty::Decimal))?;
        return Ok(Value::Decimal(number.round(places, to)));
    }
    let number = arguments.double(0)?;
    if places > 15 {
        return Err(Stop::thrown(
            "ArgumentOutOfRangeException",
            "a double has 0 to 15 places",
        ));
    }
    // .NET scales, rounds and scales back, too.
    let factor = 10f64.powi(i32::try_from(places).unwrap_or(0));
    if number.abs() >= 1e16 || !number.is_finite() {
        return Ok(Value::Double(number));
    }
    let scaled = number * factor;
    let rounded = match to {
        Rounding::HalfEven => scaled.round_ties_even(),
        Rounding::HalfAway => scaled.round(),
        Rounding::Truncate => scaled.trunc(),
        Rounding::Floor => scaled.floor(),
        Rounding::Ceiling => scaled.ceil(),
    };
    Ok(Value::Double(rounded / factor))
}

/// Two numbers in the type in which they meet.
fn met(a: &Value, b: &Value, meter: &Meter<'_>) -> Evaluated<(Value, Value)> {
    let (x, y) = (a.ty(), b.ty());
    let common = x.common(&y).filter(Ty::is_number);
    let common = common.ok_or_else(|| Stop::thrown("RuntimeBinderException", format!("{x} and {y} do not match")))?;
    let common = if common == Ty::Char { Ty::Int } else { common };
    Ok((
        implicit(a.clone(), &common, meter)?,
        implicit(b.clone(), &common, meter)?,
    ))
}

fn math(name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let is_less = |a: &Value, b: &Value| a.order(b) == Some(std::cmp::Ordering::Less);
    let value = match name {
        "Abs" => match arguments.value(0)? {
            Value::Int(number) => Value::Int(number.checked_abs().ok_or_else(|| overflow(&Ty::Int))?),
            Value::Long(number) => Value::Long(number.checked_abs().ok_or_else(|| overflow(&Ty::Long))?),
            Value::Decimal(number) if number.is_negative() => Value::Decimal(number.negate()),
            Value::Decimal(number) => Value::Decimal(*number),
            _ => Value::Double(arguments.double(0)?.abs()),
        },
        "Max" | "Min" => {
            let (a, b) = met(arguments.value(0)?, arguments.value(1)?, arguments.meter())?;
            let is_nan = matches!(&a, Value::Double(number) if number.is_nan());
            // Of two zeros the negative one is the lesser.
            if let (Value::Double(x), Value::Double(y)) = (&a, &b)
                && x == y
            {
                let is_first = x.is_sign_negative() == (name == "Min");
                return Ok(Some(if is_first { a } else { b }));
            }
            let takes_first = if name == "Max" {
                !is_less(&a, &b)
            } else {
                !is_less(&b, &a)
            };
            if is_nan || takes_first { a } else { b }
        }
        "Clamp" => {
            let (value, least) = met(arguments.value(0)?, arguments.value(1)?, arguments.meter())?;
            let (value, most) = met(&value, arguments.value(2)?, arguments.meter())?;
            if is_less(&most, &least) {
                return Err(Stop::thrown(
                    "ArgumentException",
                    "the minimum of Clamp is greater than the maximum",
                ));
            }
            if is_less(&value, &least) {
                cast(least, &value.ty(), arguments.meter())?
            } else if is_less(&most, &value) {
                most
            } else {
                value
            }
        }
        "Sign" => {
            let order = arguments.value(0)?.order(&Value::Int(0));
            let order = order.ok_or_else(|| Stop::thrown("ArithmeticException", "NaN has no sign"))?;
            Value::Int(order as i32)
        }
        "Sqrt" => Value::Double(arguments.double(0)?.sqrt()),
        "Cbrt" => Value::Double(arguments.double(0)?.cbrt()),
        "Pow" => Value::Double(arguments.double(0)?.powf(arguments.double(1)?)),
        "Log" if arguments.len() > 1 => Value::Double(arguments.double(0)?.ln() / arguments.double(1)?.ln()),
        "Log" => Value::Double(arguments.double(0)?.ln()),
        "Log10" => Value::Double(arguments.double(0)?.log10()),
        "Log2" => Value::Double(arguments.double(0)?.log2()),
        "Exp" => Value::Double(arguments.double(0)?.exp()),
        "Sin" => Value::Double(arguments.double(0)?.sin()),
        "Cos" => Value::Double(arguments.double(0)?.cos()),
        "Tan" => Value::Double(arguments.double(0)?.tan()),
        "Asin" => Value::Double(arguments.double(0)?.asin()),
        "Acos" => Value::Double(arguments.double(0)?.acos()),
        "Atan" => Value::Double(arguments.double(0)?.atan()),
        "Atan2" => Value::Double(arguments.double(0)?.atan2(arguments.double(1)?)),
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// The bytes of an argument.
fn bytes(arguments: &Arguments<'_, '_>) -> Evaluated<Vec<u8>> {
    let Value::List(list) = arguments.value(0)? else {
        return Err(Stop::thrown("ArgumentNullException", "the bytes are null"));
    };
    arguments.meter().hold(4 * list.items.borrow().len())?;
    Ok(bytes_of(list))
}

/// The bytes of an argument as digits, with a text between them.
pub(super) fn hex(arguments: &Arguments<'_, '_>, between: &str) -> Evaluated<Value> {
    Ok(Value::text(to_hex(&bytes(arguments)?, between)))
}

/// `Convert` of bytes, and of digits of another base.
fn of_digits(name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let wrong = |what: &str| Stop::thrown("FormatException", format!("the text is not {what}"));
    let read = |read: fn(&str) -> Option<Vec<u8>>, what: &str| -> Evaluated<Option<Value>> {
        let text = arguments.text(0)?;
        arguments.meter().hold(41 * text.len())?;
        let bytes = read(&text).ok_or_else(|| wrong(what))?;
        Ok(Some(bytes_value(&bytes)))
    };
    match name {
        "ToBase64String" => return Ok(Some(Value::text(to_base64(&bytes(arguments)?)))),
        "FromBase64String" => return read(from_base64, "of Base64"),
        "ToHexString" => return hex(arguments, "").map(Some),
        "FromHexString" => return read(from_hex, "of hexadecimal digits"),
        _ => {}
    }
    let Some(Value::Int(base)) = arguments.optional(1) else {
        return Ok(None);
    };
    let base = u32::try_from(*base).ok().filter(|base| matches!(base, 2 | 8 | 10 | 16));
    let base = base.ok_or_else(|| Stop::thrown("ArgumentException", "the base is 2, 8, 10 or 16"))?;
    Ok(Some(match name {
        "ToString" => Value::text(digits(arguments.value(0)?, base)),
        "ToInt32" | "ToInt64" => {
            let text = arguments.text(0)?;
            let digits = if base == 16 {
                text.strip_prefix("0x")
                    .or_else(|| text.strip_prefix("0X"))
                    .unwrap_or(&text)
            } else {
                &text
            };
            let is_int = name == "ToInt32";
            let ty = if is_int { Ty::Int } else { Ty::Long };
            let is_digit = |c: char| c.is_digit(base);
            if base == 10 {
                return parsed(&ty, arguments).map(Some);
            }
            if digits.is_empty() || !digits.chars().all(is_digit) {
                return Err(wrong(&format!("a number of base {base}")));
            }
            let bits = u64::from_str_radix(digits, base).map_err(|_| overflow(&ty))?;
            if is_int {
                Value::Int(u32::try_from(bits).map_err(|_| overflow(&ty))?.cast_signed())
            } else {
                Value::Long(bits.cast_signed())
            }
        }
        _ => return Ok(None),
    }))
}

/// A whole number by a base; a negative one of another base than ten by its bits.
fn digits(value: &Value, base: u32) -> String {
    let bits = match value {
        Value::Int(number) => u64::from(number.cast_unsigned()),
        other => other.as_i64().unwrap_or(0).cast_unsigned(),
    };
    match base {
        2 => format!("{bits:b}"),
        8 => format!("{bits:o}"),
        16 => format!("{bits:x}"),
        _ => value.as_i64().unwrap_or(0).to_string(),
    }
}

/// `Convert` rounds half to even, is checked, and makes null the default.
fn convert(name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    if let Some(value) = of_digits(name, arguments)? {
        return Ok(Some(value));
    }
    let ty = match name {
        "ToInt32" => Ty::Int,
        "ToInt64" => Ty::Long,
        "ToDouble" => Ty::Double,
        "ToDecimal" => Ty::Decimal,
        "ToBoolean" => Ty::Bool,
        "ToDateTime" => Ty::Date,
        "ToChar" => Ty::Char,
        // The text of null is the empty one.
        "ToString" if arguments.value(0)?.is_null() => return Ok(Some(Value::text(""))),
        "ToString" => Ty::Text,
        _ => return Ok(None),
    };
    let value = arguments.value(0)?;
    let whole = match value {
        Value::Null => return Ok(Some(default_of(&ty))),
        Value::Text(_) if ty != Ty::Text => return parsed(&ty, arguments).map(Some),
        Value::Double(number) if matches!(ty, Ty::Int | Ty::Long) => {
            let rounded = Decimal::from_f64(number.round_ties_even());
            Some(rounded.and_then(Decimal::to_i64).ok_or_else(|| overflow(&ty))?)
        }
        Value::Decimal(number) if matches!(ty, Ty::Int | Ty::Long) => Some(
            number
                .round(0, Rounding::HalfEven)
                .to_i64()
                .ok_or_else(|| overflow(&ty))?,
        ),
        Value::Int(_) | Value::Long(_) | Value::Char(_) => value.as_i64(),
        _ => None,
    };
    Ok(Some(match (whole, &ty) {
        (Some(number), Ty::Int) => Value::Int(i32::try_from(number).map_err(|_| overflow(&ty))?),
        (Some(number), Ty::Long) => Value::Long(number),
        (Some(number), Ty::Char) => Value::Char(u16::try_from(number).map_err(|_| overflow(&ty))?),
        _ => convert_to(value, &ty, arguments.meter())?,
    }))
}
