//! LINQ's sums and extremes, and the types of the lists that lambdas produce.

use super::arguments::Arguments;
use super::ordering::order;
use crate::convert::default_of;
use crate::problem::{Evaluated, Stop};
use crate::types::Ty;
use crate::value::Value;
use mainspring_language::Decimal;

/// The type of all these values, `object` if they differ.
pub(super) fn common_type(values: &[Value]) -> Ty {
    let mut common: Option<Ty> = None;
    for value in values {
        let ty = value.shallow_ty();
        common = match common {
            None => Some(ty),
            Some(known) if known == ty => Some(known),
            Some(known) => known.common(&ty).filter(|_| known == Ty::Null || ty == Ty::Null),
        };
        if common.is_none() {
            return Ty::Dynamic;
        }
    }
    match common {
        None | Some(Ty::Null) => Ty::Dynamic,
        Some(ty) => ty,
    }
}

/// The items, each with what is measured: itself, or what the lambda returns for it.
fn measured<'i>(
    items: &'i [Value],
    arguments: &'i Arguments<'_, '_>,
) -> impl Iterator<Item = Evaluated<(&'i Value, Value)>> {
    let lambda = arguments.optional_lambda(0);
    items.iter().map(move |item| {
        let value = match lambda {
            Some(lambda) => arguments.call(lambda, std::slice::from_ref(item))?,
            None => item.clone(),
        };
        Ok((item, value))
    })
}

fn overflow() -> Box<Stop> {
    Stop::thrown(
        "OverflowException",
        "the sum does not fit; convert the items to long or decimal first",
    )
}

/// Sums of whole numbers are checked, other than `+`.
pub(super) fn sum(items: &[Value], known: &Ty, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let mut total: Option<Value> = None;
    for measured in measured(items, arguments) {
        let (_, value) = measured?;
        if value.is_null() {
            continue;
        }
        total = Some(match total {
            None if value.as_f64().is_some() => value,
            None => {
                return Err(Stop::thrown(
                    "ArgumentException",
                    format!("{} has no sum", value.type_name()),
                ));
            }
            Some(total) => plus(&total, &value)?,
        });
    }
    Ok(total.unwrap_or_else(|| match known.plain() {
        ty if ty.is_number() => default_of(ty),
        _ => Value::Int(0),
    }))
}

fn plus(a: &Value, b: &Value) -> Evaluated<Value> {
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or_else(overflow)?),
        (Value::Decimal(_), Value::Int(_) | Value::Long(_) | Value::Decimal(_))
        | (Value::Int(_) | Value::Long(_), Value::Decimal(_)) => {
            let (a, b) = (
                a.as_decimal().ok_or_else(overflow)?,
                b.as_decimal().ok_or_else(overflow)?,
            );
            Value::Decimal(a.add(b).ok_or_else(overflow)?)
        }
        _ => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Value::Long(a.checked_add(b).ok_or_else(overflow)?),
            _ => {
                let wrong = || Stop::thrown("ArgumentException", format!("{} has no sum", b.type_name()));
                Value::Double(a.as_f64().ok_or_else(wrong)? + b.as_f64().ok_or_else(wrong)?)
            }
        },
    })
}

/// The sum is exact until an item is a double, as it is in .NET.
pub(super) fn average(items: &[Value], arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let (mut total, mut count) = (Value::Long(0), 0_i64);
    for measured in measured(items, arguments) {
        let (_, value) = measured?;
        if !value.is_null() {
            total = plus(&total, &value)?;
            count += 1;
        }
    }
    if count == 0 {
        return Err(empty());
    }
    Ok(match total {
        Value::Decimal(total) => Value::Decimal(total.divide(Decimal::from_i64(count)).ok_or_else(overflow)?),
        other => Value::Double(other.as_f64().unwrap_or(f64::NAN) / count as f64),
    })
}

/// The least or the greatest of what is measured; with `returns_item` the item of which it is.
pub(super) fn extreme(
    items: &[Value],
    is_most: bool,
    returns_item: bool,
    known: &Ty,
    arguments: &Arguments<'_, '_>,
) -> Evaluated<Value> {
    let mut best: Option<(&Value, Value)> = None;
    for measured in measured(items, arguments) {
        let (item, value) = measured?;
        if value.is_null() {
            continue;
        }
        let is_better = match &best {
            None => true,
            Some((_, known)) => {
                let order = order(&value, known, arguments.meter())?
                    .ok_or_else(|| Stop::thrown("ArgumentException", "the values have no order"))?;
                if is_most { order.is_gt() } else { order.is_lt() }
            }
        };
        if is_better {
            best = Some((item, value));
        }
    }
    match best {
        Some((item, value)) => Ok(if returns_item { item.clone() } else { value }),
        None if known.is_value() => Err(empty()),
        None => Ok(Value::Null),
    }
}

/// An exception for a list that has no item.
pub(super) fn empty() -> Box<Stop> {
    Stop::thrown("InvalidOperationException", "the sequence contains no matching element")
}
