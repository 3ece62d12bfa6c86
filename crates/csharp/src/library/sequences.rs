//! LINQ's sums and extremes, and the types of the lists that lambdas produce.

use super::arguments::Arguments;
use super::ordering::order;
use crate::convert::{cast, default_of};
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

/// What is measured: the items, or what the lambda returns for them.
fn measured(items: Vec<Value>, arguments: &Arguments<'_, '_>) -> Evaluated<Vec<Value>> {
    match arguments.optional_lambda(0) {
        Some(lambda) => items.into_iter().map(|item| arguments.call(lambda, &[item])).collect(),
        None => Ok(items),
    }
}

fn overflow() -> Box<Stop> {
    Stop::thrown(
        "OverflowException",
        "the sum does not fit; convert the items to long or decimal first",
    )
}

/// Sums of whole numbers are checked, other than `+`.
pub(super) fn sum(items: Vec<Value>, known: &Ty, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let values = measured(items, arguments)?;
    let mut total: Option<Value> = None;
    for value in values {
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

#[allow(clippy::cast_precision_loss)]
pub(super) fn average(items: Vec<Value>, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let values: Vec<Value> = measured(items, arguments)?
        .into_iter()
        .filter(|value| !value.is_null())
        .collect();
    if values.is_empty() {
        return Err(empty());
    }
    let is_decimal = values.iter().any(|value| matches!(value, Value::Decimal(_)));
    let mut total = if is_decimal {
        Value::Decimal(Decimal::ZERO)
    } else {
        Value::Double(0.0)
    };
    for value in &values {
        let value = if is_decimal {
            value.clone()
        } else {
            cast(value.clone(), &Ty::Double)?
        };
        total = plus(&total, &value)?;
    }
    let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
    Ok(match total {
        Value::Decimal(total) => Value::Decimal(total.divide(Decimal::from_i64(count)).ok_or_else(overflow)?),
        other => Value::Double(other.as_f64().unwrap_or(f64::NAN) / count as f64),
    })
}

/// The least or the greatest of what is measured; with `returns_item` the item of which it is.
pub(super) fn extreme(
    items: Vec<Value>,
    is_most: bool,
    returns_item: bool,
    known: &Ty,
    arguments: &Arguments<'_, '_>,
) -> Evaluated<Value> {
    let values = measured(items.clone(), arguments)?;
    let mut best: Option<(Value, Value)> = None;
    for (item, value) in items.into_iter().zip(values) {
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
        Some((item, value)) => Ok(if returns_item { item } else { value }),
        None if known.is_value() => Err(empty()),
        None => Ok(Value::Null),
    }
}

/// An exception for a list that has no item.
pub(super) fn empty() -> Box<Stop> {
    Stop::thrown("InvalidOperationException", "the sequence contains no matching element")
}
