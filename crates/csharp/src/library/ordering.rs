//! The order of values, and stable sorting that can be refined by `ThenBy`.

use std::cmp::Ordering;

use mainspring_language::merge_sort;

use crate::problem::{Evaluated, Stop};
use crate::run::Meter;
use crate::text::collate;
use crate::value::{RecordKind, Value};

/// The order of two values, null first; `None` if they have none.
pub(super) fn order(a: &Value, b: &Value, meter: &Meter<'_>) -> Evaluated<Option<Ordering>> {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Null, _) => Some(Ordering::Less),
        (_, Value::Null) => Some(Ordering::Greater),
        (Value::Text(a), Value::Text(b)) => Some(collate(a, b, meter)?),
        (Value::Record(a), Value::Record(b)) if a.kind == RecordKind::Tuple && b.kind == RecordKind::Tuple => {
            for ((_, a), (_, b)) in a.fields.iter().zip(&b.fields) {
                meter.step()?;
                // Tuples inside of tuples have no order: parts may be shared without end.
                let is_nested = matches!(a, Value::Record(_)) || matches!(b, Value::Record(_));
                let next = if is_nested { None } else { order(a, b, meter)? };
                if next != Some(Ordering::Equal) {
                    return Ok(next);
                }
            }
            Some(Ordering::Equal)
        }
        // NaN is the least.
        (Value::Double(a), Value::Double(b)) => Some(a.partial_cmp(b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))),
        _ => a.order(b),
    })
}

/// Items sorted by their keys, and their ranks: items of one rank can still be ordered. `within` has the ranks so far.
pub(super) fn sorted(
    items: Vec<Value>,
    keys: Vec<Value>,
    is_descending: bool,
    within: &[usize],
    meter: &Meter<'_>,
) -> Evaluated<(Vec<Value>, Vec<usize>)> {
    let mut all: Vec<(usize, Value, Value)> = items
        .into_iter()
        .zip(keys)
        .enumerate()
        .map(|(place, (item, key))| (within.get(place).copied().unwrap_or(0), key, item))
        .collect();
    let count = all.len();
    meter.hold(240 * count)?;
    let mut has_order = true;
    let mut compare = |a: &Value, b: &Value| {
        let order = order(a, b, meter)?;
        has_order &= order.is_some();
        let order = order.unwrap_or(Ordering::Equal);
        Ok(if is_descending { order.reverse() } else { order })
    };
    // Rust's sort may panic where an order is inconsistent; a merge sort of our own cannot.
    merge_sort::<_, Box<Stop>>(&mut all, &mut |a, b| {
        meter.step()?;
        match a.0.cmp(&b.0) {
            Ordering::Equal => compare(&a.1, &b.1),
            within => Ok(within),
        }
    })?;
    if !has_order {
        return Err(Stop::thrown(
            "InvalidOperationException",
            "the values have no order; order by a number, a string or a date",
        ));
    }
    let (mut sorted, mut ranks) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut last: Option<(usize, Value)> = None;
    let mut rank = 0;
    for (within, key, item) in all {
        meter.step()?;
        if let Some((known, before)) = &last
            && (*known != within || order(before, &key, meter)? != Some(Ordering::Equal))
        {
            rank += 1;
        }
        last = Some((within, key));
        ranks.push(rank);
        sorted.push(item);
    }
    Ok((sorted, ranks))
}
