//! LINQ. A sequence is computed at once, not when it is read: a script is pure, so the result is the same.

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use super::arguments::Arguments;
use super::ordering::sorted;
use super::sequences::{average, common_type, empty, extreme, sum};
use super::{count, item_type, items_of};
use crate::convert::{cast, default_of};
use crate::problem::{Evaluated, Stop};
use crate::syntax::Call;
use crate::types::{ListKind, Ty};
use crate::value::{Entries, List, RecordKind, Value, identity};
use std::cell::{Cell, RefCell};

pub(super) fn call(target: &Value, call: &Call, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let name = &*call.name;
    let item = item_type(target);
    // A list that no lambda can change meanwhile is read where it is.
    if let Value::List(list) = target
        && !arguments.has_lambda()
    {
        let items = list.items.borrow();
        arguments.meter().steps(items.len() / 8)?;
        if let Some(value) = one(name, &items, &item, call, arguments)? {
            return Ok(Some(value));
        }
    }
    let items = items_of(target, arguments.meter())?;
    arguments.meter().hold(80 + 8 * items.len())?;
    if let Some(value) = one(name, &items, &item, call, arguments)? {
        return Ok(Some(value));
    }
    if let Some(value) = combined(name, &items, &item, call, arguments)? {
        return Ok(Some(value));
    }
    shaped(target, name, items, &item, call, arguments)
}

fn sequence(item: &Ty, items: Vec<Value>) -> Value {
    Value::list(ListKind::Sequence, item.clone(), items)
}

/// The type of what a lambda has made: as the checker knows it, or as it is.
fn made_type(call: &Call, items: &[Value]) -> Ty {
    match call.result.item() {
        Some(item) if !item.is_dynamic() => item,
        _ => common_type(items),
    }
}

/// Those that match the condition, if there is one.
fn matching<'i>(items: &'i [Value], arguments: &Arguments<'_, '_>) -> Evaluated<Cow<'i, [Value]>> {
    let Some(lambda) = arguments.optional_lambda(0) else {
        return Ok(Cow::Borrowed(items));
    };
    let mut found = Vec::new();
    for item in items {
        if arguments.holds(lambda, std::slice::from_ref(item))? {
            found.push(item.clone());
        }
    }
    Ok(Cow::Owned(found))
}

/// What returns one value.
fn one(name: &str, items: &[Value], item: &Ty, call: &Call, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let default = || match arguments.optional(0) {
        Some(value) => value.clone(),
        None if item.is_dynamic() => default_of(&call.result),
        None => default_of(item),
    };
    Ok(Some(match name {
        "Any" => match arguments.optional_lambda(0) {
            None => Value::Bool(!items.is_empty()),
            Some(lambda) => {
                for item in items {
                    if arguments.holds(lambda, std::slice::from_ref(item))? {
                        return Ok(Some(Value::Bool(true)));
                    }
                }
                Value::Bool(false)
            }
        },
        "All" => {
            let lambda = arguments.lambda(0)?;
            for item in items {
                if !arguments.holds(lambda, std::slice::from_ref(item))? {
                    return Ok(Some(Value::Bool(false)));
                }
            }
            Value::Bool(true)
        }
        "First" | "FirstOrDefault" => {
            let mut found = None;
            for item in items {
                let holds = match arguments.optional_lambda(0) {
                    Some(lambda) => arguments.holds(lambda, std::slice::from_ref(item))?,
                    None => true,
                };
                if holds {
                    found = Some(item.clone());
                    break;
                }
            }
            match found {
                Some(value) => value,
                None if name == "First" => return Err(empty()),
                None => default(),
            }
        }
        "Last" => matching(items, arguments)?.last().cloned().ok_or_else(empty)?,
        "LastOrDefault" => matching(items, arguments)?.last().cloned().unwrap_or_else(default),
        "Single" | "SingleOrDefault" => {
            let found = matching(items, arguments)?;
            if found.len() > 1 {
                return Err(Stop::thrown(
                    "InvalidOperationException",
                    "the sequence contains more than one matching element",
                ));
            }
            match found.first() {
                Some(value) => value.clone(),
                None if name == "Single" => return Err(empty()),
                None => default(),
            }
        }
        "Count" => count(matching(items, arguments)?.len()),
        "LongCount" => Value::Long(i64::try_from(matching(items, arguments)?.len()).unwrap_or(i64::MAX)),
        "Sum" => sum(items, &call.result, arguments)?,
        "Average" => average(items, arguments)?,
        "Min" | "Max" => extreme(items, name == "Max", false, &call.result, arguments)?,
        "MinBy" | "MaxBy" => extreme(items, name == "MaxBy", true, item, arguments)?,
        "Contains" => {
            let wanted = arguments.value(0)?;
            Value::Bool(arguments.meter().place_of(items, wanted)?.is_some())
        }
        "ElementAt" | "ElementAtOrDefault" => {
            let place = usize::try_from(arguments.long(0)?).ok();
            match place.and_then(|place| items.get(place)) {
                Some(value) => value.clone(),
                None if name == "ElementAt" => return Err(super::out_of_range()),
                None => default_of(item),
            }
        }
        "Aggregate" => aggregate(items, arguments)?,
        "SequenceEqual" => {
            let other = items_of(arguments.value(0)?, arguments.meter())?;
            let mut is_equal = items.len() == other.len();
            for (a, b) in items.iter().zip(&other) {
                arguments.meter().step()?;
                is_equal = is_equal && arguments.meter().equal(a, b)?;
            }
            Value::Bool(is_equal)
        }
        _ => return Ok(None),
    }))
}

fn aggregate(items: &[Value], arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let (mut total, rest, lambda) = match arguments.optional(0) {
        Some(seed) => (seed.clone(), items, arguments.lambda(1)?),
        None => match items.split_first() {
            Some((first, rest)) => (first.clone(), rest, arguments.lambda(0)?),
            None => return Err(empty()),
        },
    };
    for item in rest {
        let next = arguments.call(lambda, &[total.clone(), item.clone()])?;
        // A seed of 0m stays a decimal.
        total = if total.ty().is_number()
            && next.ty().is_number()
            && total.ty() != next.ty()
            && next.ty().converts_to(&total.ty())
        {
            cast(next, &total.ty(), arguments.meter())?
        } else {
            next
        };
    }
    match arguments.optional_lambda(2) {
        Some(last) => arguments.call(last, &[total]),
        None => Ok(total),
    }
}

/// What takes a second sequence, or groups.
fn combined(
    name: &str,
    items: &[Value],
    item: &Ty,
    call: &Call,
    arguments: &Arguments<'_, '_>,
) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    let other = || items_of(arguments.value(0)?, meter);
    let keys = |items: &[Value]| -> Evaluated<HashSet<Rc<str>>> {
        meter.hold(80 * items.len())?;
        meter.steps(items.len())?;
        let found = items.iter().map(|item| {
            meter.find(item)?;
            let key = identity(item);
            meter.hold(key.len())?;
            Ok(key)
        });
        found.collect()
    };
    Ok(Some(match name {
        "Concat" => {
            let mut all = items.to_vec();
            all.extend(other()?);
            meter.hold(40 * all.len())?;
            sequence(item, all)
        }
        "Union" => {
            let mut all = items.to_vec();
            all.extend(other()?);
            sequence(item, distinct(all, arguments, false)?)
        }
        "Intersect" | "Except" => {
            // Some keys are addresses: what is there lives as long as they do.
            let other = other()?;
            let with = keys(&other)?;
            let kept = distinct(items.to_vec(), arguments, false)?;
            let mut found = Vec::new();
            for one in kept {
                meter.find(&one)?;
                if with.contains(&identity(&one)) == (name == "Intersect") {
                    found.push(one);
                }
            }
            sequence(item, found)
        }
        "Distinct" => sequence(item, distinct(items.to_vec(), arguments, false)?),
        "DistinctBy" => sequence(item, distinct(items.to_vec(), arguments, true)?),
        "Zip" => {
            let mut zipped = Vec::new();
            for (a, b) in items.iter().zip(other()?) {
                meter.hold(120)?;
                zipped.push(match arguments.optional_lambda(1) {
                    Some(lambda) => arguments.call(lambda, &[a.clone(), b])?,
                    None => Value::record(
                        RecordKind::Tuple,
                        vec![("First".into(), a.clone()), ("Second".into(), b)],
                    ),
                });
            }
            let item = made_type(call, &zipped);
            sequence(&item, zipped)
        }
        "SelectMany" => {
            let lambda = arguments.lambda(0)?;
            let mut all = Vec::new();
            for (place, outer) in items.iter().enumerate() {
                let inner = arguments.call(lambda, &[outer.clone(), count(place)])?;
                for one in items_of(&inner, meter)? {
                    meter.hold(40)?;
                    all.push(match arguments.optional_lambda(1) {
                        Some(pair) => arguments.call(pair, &[outer.clone(), one])?,
                        None => one,
                    });
                }
            }
            let item = made_type(call, &all);
            sequence(&item, all)
        }
        "GroupBy" => grouped(items, item, call, arguments)?,
        "ToDictionary" => {
            let by = arguments.lambda(0)?;
            let mut entries = Entries::default();
            for one in items {
                let key = arguments.call(by, std::slice::from_ref(one))?;
                let value = match arguments.optional_lambda(1) {
                    Some(lambda) => arguments.call(lambda, std::slice::from_ref(one))?,
                    None => one.clone(),
                };
                meter.hold(160)?;
                if key.is_null() {
                    return Err(Stop::thrown("ArgumentNullException", "a key is null"));
                }
                if !meter.set(&mut entries, key.clone(), value)? {
                    let message = format!("the key {} already exists", super::short(&key));
                    return Err(Stop::thrown("ArgumentException", message));
                }
            }
            let (key, value) = match &call.result {
                Ty::Map(key, value) => ((**key).clone(), (**value).clone()),
                _ => (Ty::Dynamic, Ty::Dynamic),
            };
            Value::map(key, value, false, entries)
        }
        _ => return Ok(None),
    }))
}

fn distinct(items: Vec<Value>, arguments: &Arguments<'_, '_>, by_key: bool) -> Evaluated<Vec<Value>> {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    // The key of a container may be its address, which another one would have after it.
    let mut containers = Vec::new();
    for item in items {
        arguments.meter().hold(60)?;
        let key = if by_key {
            arguments.call(arguments.lambda(0)?, std::slice::from_ref(&item))?
        } else {
            item.clone()
        };
        arguments.meter().find(&key)?;
        let identity = identity(&key);
        let length = identity.len();
        if seen.insert(identity) {
            arguments.meter().hold(length)?;
            if by_key && key.is_container() {
                arguments.meter().hold(40)?;
                containers.push(key);
            }
            kept.push(item);
        }
    }
    Ok(kept)
}

fn grouped(items: &[Value], item: &Ty, call: &Call, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let by = arguments.lambda(0)?;
    let mut groups: Entries = Entries::default();
    for one in items {
        let key = arguments.call(by, std::slice::from_ref(one))?;
        let value = match arguments.optional_lambda(1) {
            Some(lambda) => arguments.call(lambda, std::slice::from_ref(one))?,
            None => one.clone(),
        };
        arguments.meter().hold(80)?;
        arguments.meter().find(&key)?;
        if let Some(Value::List(group)) = groups.get(&key) {
            group.items.borrow_mut().push(value);
            continue;
        }
        let group = List {
            kind: ListKind::Sequence,
            item: if arguments.optional_lambda(1).is_some() {
                value.shallow_ty()
            } else {
                item.clone()
            },
            key: Some(key.clone()),
            ranks: Vec::new(),
            items: RefCell::new(vec![value]),
            version: Cell::new(0),
            keys: RefCell::default(),
        };
        arguments.meter().hold(240)?;
        arguments.meter().set(&mut groups, key, Value::List(Rc::new(group)))?;
    }
    let item = call.result.item().unwrap_or(Ty::Dynamic);
    Ok(sequence(&item, groups.iter().map(|(_, group)| group.clone()).collect()))
}

/// What returns a sequence of the items, or of what a lambda makes of each.
fn shaped(
    target: &Value,
    name: &str,
    mut items: Vec<Value>,
    item: &Ty,
    call: &Call,
    arguments: &Arguments<'_, '_>,
) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    meter.hold(40 * items.len())?;
    let amount = || -> Evaluated<usize> { Ok(usize::try_from(arguments.long(0)?).unwrap_or(0)) };
    let all = items.len();
    Ok(Some(match name {
        "Where" | "TakeWhile" | "SkipWhile" => {
            let lambda = arguments.lambda(0)?;
            let mut kept = Vec::new();
            let mut skips = true;
            for (place, one) in items.into_iter().enumerate() {
                let holds = (name != "SkipWhile" || skips) && arguments.holds(lambda, &[one.clone(), count(place)])?;
                match name {
                    "Where" if !holds => continue,
                    "TakeWhile" if !holds => break,
                    "SkipWhile" if holds => continue,
                    _ => skips = false,
                }
                kept.push(one);
            }
            sequence(item, kept)
        }
        "Select" => {
            let lambda = arguments.lambda(0)?;
            let made = items
                .into_iter()
                .enumerate()
                .map(|(place, one)| arguments.call(lambda, &[one, count(place)]));
            let made = made.collect::<Evaluated<Vec<_>>>()?;
            let item = made_type(call, &made);
            sequence(&item, made)
        }
        "OrderBy" | "OrderByDescending" | "ThenBy" | "ThenByDescending" | "Order" | "OrderDescending" => {
            let keys = match arguments.optional_lambda(0) {
                Some(lambda) => items
                    .iter()
                    .map(|one| arguments.call(lambda, std::slice::from_ref(one)))
                    .collect::<Evaluated<Vec<_>>>()?,
                None => items.clone(),
            };
            let ranks = match target {
                Value::List(list) if name.starts_with("Then") => list.ranks.clone(),
                _ => Vec::new(),
            };
            if name.starts_with("Then") && ranks.len() != items.len() {
                return Err(Stop::thrown(
                    "InvalidOperationException",
                    format!("{name} needs OrderBy before it"),
                ));
            }
            let (items, ranks) = sorted(items, keys, name.ends_with("Descending"), &ranks, meter)?;
            Value::List(Rc::new(List {
                kind: ListKind::Sequence,
                item: item.clone(),
                key: None,
                ranks,
                items: RefCell::new(items),
                version: Cell::new(0),
                keys: RefCell::default(),
            }))
        }
        "Take" => {
            items.truncate(amount()?);
            sequence(item, items)
        }
        "Skip" => sequence(item, items.split_off(amount()?.min(all))),
        "TakeLast" => sequence(item, items.split_off(all.saturating_sub(amount()?))),
        "SkipLast" => {
            items.truncate(all.saturating_sub(amount()?));
            sequence(item, items)
        }
        "Reverse" => {
            items.reverse();
            sequence(item, items)
        }
        "Append" | "Prepend" => {
            let value = arguments.value(0)?.clone();
            items.insert(if name == "Append" { all } else { 0 }, value);
            sequence(item, items)
        }
        "DefaultIfEmpty" => {
            if items.is_empty() {
                items.push(arguments.optional(0).cloned().unwrap_or_else(|| default_of(item)));
            }
            sequence(item, items)
        }
        "ToList" => Value::list(ListKind::List, item.clone(), items),
        "ToHashSet" => crate::set::set_of(item.clone(), items, meter)?,
        "ToArray" => Value::list(ListKind::Array, item.clone(), items),
        "AsEnumerable" => sequence(item, items),
        "Cast" => {
            let ty = call.types.first().cloned().unwrap_or(Ty::Dynamic);
            let items = items
                .into_iter()
                .map(|one| cast(one, &ty, meter))
                .collect::<Evaluated<Vec<_>>>()?;
            sequence(&ty, items)
        }
        "OfType" => {
            let ty = call.types.first().cloned().unwrap_or(Ty::Dynamic);
            items.retain(|one| !one.is_null() && (ty.is_dynamic() || one.ty() == ty));
            sequence(&ty, items)
        }
        "Chunk" => {
            let size = arguments.place(0)?.max(1);
            meter.hold(80 * all.div_ceil(size))?;
            let chunks = items
                .chunks(size)
                .map(|chunk| Value::list(ListKind::Array, item.clone(), chunk.to_vec()));
            let chunks: Vec<Value> = chunks.collect();
            sequence(&Ty::list(ListKind::Array, item.clone()), chunks)
        }
        _ => return Ok(None),
    }))
}
