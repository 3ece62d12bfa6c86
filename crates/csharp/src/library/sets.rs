//! Members of `HashSet<T>`: each item is there once, in the order in which it was added.

use std::collections::HashSet;
use std::rc::Rc;

use super::arguments::Arguments;
use super::{count, items_of};
use crate::problem::Evaluated;
use crate::run::Meter;
use crate::set::add;
use crate::value::{List, Value, identity};

fn has(set: &List, item: &Value, meter: &Meter<'_>) -> Evaluated<bool> {
    meter.find(item)?;
    Ok(set.keys.borrow().contains(&identity(item)))
}

/// Keeps the items that pass; returns how many do not.
fn retain(set: &Rc<List>, mut keeps: impl FnMut(&Value) -> Evaluated<bool>, meter: &Meter<'_>) -> Evaluated<usize> {
    let items = items_of(&Value::List(Rc::clone(set)), meter)?;
    let before = items.len();
    meter.hold(8 * before)?;
    let mut kept = Vec::new();
    for item in items {
        meter.step()?;
        if keeps(&item)? {
            kept.push(item);
        }
    }
    let removed = before - kept.len();
    if removed > 0 {
        *set.keys.borrow_mut() = kept.iter().map(identity).collect();
        *set.change() = kept;
    }
    Ok(removed)
}

/// What a list contains, by what it is found by.
fn keys_of(items: &[Value], meter: &Meter<'_>) -> Evaluated<HashSet<Rc<str>>> {
    let mut keys = HashSet::new();
    for item in items {
        meter.step()?;
        meter.find(item)?;
        let key = identity(item);
        meter.hold(80 + key.len())?;
        keys.insert(key);
    }
    Ok(keys)
}

pub(super) fn call(set: &Rc<List>, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    let other = || items_of(arguments.value(0)?, meter);
    Ok(Some(match name {
        "Add" => Value::Bool(add(set, arguments.value(0)?.clone(), meter)?),
        "Contains" => Value::Bool(has(set, arguments.value(0)?, meter)?),
        "Remove" => {
            let wanted = arguments.value(0)?;
            if !has(set, wanted, meter)? {
                return Ok(Some(Value::Bool(false)));
            }
            let key = identity(wanted);
            retain(set, |item| Ok(identity(item) != key), meter)?;
            Value::Bool(true)
        }
        "RemoveWhere" => {
            let lambda = arguments.lambda(0)?;
            let removed = retain(
                set,
                |item| Ok(!arguments.holds(lambda, std::slice::from_ref(item))?),
                meter,
            )?;
            count(removed)
        }
        "Clear" => {
            set.keys.borrow_mut().clear();
            set.change().clear();
            Value::Null
        }
        "UnionWith" => {
            for item in other()? {
                add(set, item, meter)?;
            }
            Value::Null
        }
        "IntersectWith" | "ExceptWith" => {
            let other = other()?;
            let with = keys_of(&other, meter)?;
            let keeps_both = name == "IntersectWith";
            retain(set, |item| Ok(with.contains(&identity(item)) == keeps_both), meter)?;
            Value::Null
        }
        "SymmetricExceptWith" => {
            let other = other()?;
            let with = keys_of(&other, meter)?;
            let mut added = Vec::new();
            for item in other {
                if !has(set, &item, meter)? {
                    added.push(item);
                }
            }
            retain(set, |item| Ok(!with.contains(&identity(item))), meter)?;
            for item in added {
                add(set, item, meter)?;
            }
            Value::Null
        }
        "SetEquals" | "IsSubsetOf" | "IsSupersetOf" | "Overlaps" => {
            let other = other()?;
            let with = keys_of(&other, meter)?;
            let own = set.keys.borrow();
            Value::Bool(match name {
                "SetEquals" => *own == with,
                "IsSubsetOf" => own.is_subset(&with),
                "IsSupersetOf" => own.is_superset(&with),
                _ => !own.is_disjoint(&with),
            })
        }
        _ => return Ok(None),
    }))
}
