//! Members of dictionaries and of JSON objects.

use std::cell::RefCell;
use std::rc::Rc;

use super::arguments::Arguments;
use super::count;
use super::ordering::order;
use crate::convert::default_of;
use crate::problem::{Evaluated, Stop};
use crate::run::Meter;
use crate::types::ListKind;
use crate::value::{Map, Value};

/// Sets the value of a key; a new one takes its place in a sorted dictionary.
pub(super) fn put(map: &Rc<Map>, key: Value, value: Value, meter: &Meter<'_>) -> Evaluated<()> {
    let mut entries = map.entries.borrow_mut();
    let is_new = meter.set(&mut entries, key.clone(), value)?;
    if !is_new || !map.is_sorted {
        return Ok(());
    }
    let (mut first, mut last) = (0, entries.len().saturating_sub(1));
    meter.steps(1 + last / 8)?;
    while first < last {
        let middle = first.midpoint(last);
        let Some((known, _)) = entries.iter().nth(middle) else {
            break;
        };
        let order = order(known, &key, meter)?;
        let order = order.ok_or_else(|| Stop::thrown("InvalidOperationException", "the keys have no order"))?;
        if order.is_gt() {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    entries.move_last(first);
    Ok(())
}

/// The same pairs in the order of their keys, now and when others are added.
pub(crate) fn sorted(map: &Map, meter: &Meter<'_>) -> Evaluated<Value> {
    let sorted = Rc::new(Map {
        key: map.key.clone(),
        value: map.value.clone(),
        is_object: false,
        is_sorted: true,
        entries: RefCell::default(),
    });
    for (key, value) in map.entries.borrow().iter() {
        meter.hold(160)?;
        put(&sorted, key.clone(), value.clone(), meter)?;
    }
    Ok(Value::Map(sorted))
}

pub(super) fn property(map: &Rc<Map>, name: &str, meter: &Meter<'_>) -> Evaluated<Value> {
    let entries = map.entries.borrow();
    if name == "Count" {
        return Ok(count(entries.len()));
    }
    meter.hold(40 * entries.len())?;
    Ok(match name {
        "Keys" => Value::list(
            ListKind::Sequence,
            map.key.clone(),
            entries.iter().map(|(key, _)| key.clone()).collect(),
        ),
        "Values" => Value::list(
            ListKind::Sequence,
            map.value.clone(),
            entries.iter().map(|(_, value)| value.clone()).collect(),
        ),
        _ => {
            return Err(Stop::thrown(
                "RuntimeBinderException",
                format!("a dictionary has no member {name}"),
            ));
        }
    })
}

pub(super) fn call(map: &Rc<Map>, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let key = || -> Evaluated<Value> {
        let key = arguments.value(0)?;
        if key.is_null() {
            return Err(Stop::thrown("ArgumentNullException", "a key is null"));
        }
        arguments.meter().find(key)?;
        Ok(key.clone())
    };
    Ok(Some(match name {
        "Add" | "TryAdd" => {
            let key = key()?;
            let exists = map.entries.borrow().get(&key).is_some();
            if exists && name == "Add" {
                let message = format!("the key {} already exists", super::short(&key));
                return Err(Stop::thrown("ArgumentException", message));
            }
            if !exists {
                let value = arguments.value(1)?.clone();
                arguments.meter().hold(160)?;
                arguments.meter().put(&value, Value::Map(Rc::clone(map)))?;
                put(map, key, value, arguments.meter())?;
            }
            if name == "Add" {
                Value::Null
            } else {
                Value::Bool(!exists)
            }
        }
        "Remove" => {
            arguments.meter().steps(map.entries.borrow().len())?;
            Value::Bool(map.entries.borrow_mut().remove(&key()?).is_some())
        }
        "ContainsKey" => Value::Bool(map.entries.borrow().get(&key()?).is_some()),
        "ContainsValue" => {
            let wanted = arguments.value(0)?;
            let entries = map.entries.borrow();
            arguments.meter().steps(entries.len())?;
            for (_, value) in entries.iter() {
                if arguments.meter().equal(value, wanted)? {
                    return Ok(Some(Value::Bool(true)));
                }
            }
            Value::Bool(false)
        }
        "TryGetValue" => {
            let found = map.entries.borrow().get(&key()?).cloned();
            let is_found = found.is_some();
            let default = if map.value.is_dynamic() {
                arguments.out_type()
            } else {
                map.value.clone()
            };
            arguments.out(1, found.unwrap_or_else(|| default_of(&default)));
            Value::Bool(is_found)
        }
        "GetValueOrDefault" => {
            let found = map.entries.borrow().get(&key()?).cloned();
            match (found, arguments.optional(1)) {
                (Some(value), _) => value,
                (None, Some(default)) => default.clone(),
                (None, None) => default_of(&map.value),
            }
        }
        "Clear" => {
            map.entries.borrow_mut().clear();
            Value::Null
        }
        _ => return Ok(None),
    }))
}
