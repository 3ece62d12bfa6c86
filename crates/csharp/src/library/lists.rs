//! The methods of `List<T>` that change it.

use std::rc::Rc;

use super::arguments::Arguments;
use super::{as_item, count, items_of, out_of_range};
use crate::convert::default_of;
use crate::library::ordering::sorted;
use crate::problem::Evaluated;
use crate::types::ListKind;
use crate::value::{List, Value};

pub(super) fn call(list: &Rc<List>, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    if list.kind != ListKind::List {
        return Ok(None);
    }
    if let Some(value) = change(list, name, arguments)? {
        return Ok(Some(value));
    }
    let meter = arguments.meter();
    let made = |items: Vec<Value>| Value::list(ListKind::List, list.item.clone(), items);
    Ok(Some(match name {
        "IndexOf" => {
            let place = meter.place_of(&list.items.borrow(), arguments.value(0)?)?;
            place.map_or(Value::Int(-1), count)
        }
        "ForEach" => {
            let lambda = arguments.lambda(0)?;
            let version = list.version.get();
            for item in items_in_place(list) {
                arguments.call(lambda, &[item])?;
                list.unchanged_since(version, "ForEach")?;
            }
            Value::Null
        }
        "Exists" | "TrueForAll" | "Find" | "FindIndex" | "FindLast" | "FindAll" => {
            let lambda = arguments.lambda(0)?;
            let mut found = Vec::new();
            for (place, item) in items_in_place(list).enumerate() {
                let holds = arguments.holds(lambda, std::slice::from_ref(&item))?;
                match name {
                    "TrueForAll" if !holds => return Ok(Some(Value::Bool(false))),
                    "Exists" if holds => return Ok(Some(Value::Bool(true))),
                    "Find" if holds => return Ok(Some(item)),
                    "FindIndex" if holds => return Ok(Some(count(place))),
                    _ if holds => {
                        meter.hold(40)?;
                        found.push(item);
                    }
                    _ => {}
                }
            }
            match name {
                "TrueForAll" => Value::Bool(true),
                "Exists" => Value::Bool(false),
                "FindIndex" => Value::Int(-1),
                "FindAll" => made(found),
                "FindLast" => found.pop().unwrap_or_else(|| default_of(&list.item)),
                _ => default_of(&list.item),
            }
        }
        "GetRange" => {
            let (start, length) = (arguments.place(0)?, arguments.place(1)?);
            meter.hold(80 + 40 * length.min(list.items.borrow().len()))?;
            let items = list.items.borrow();
            let end = start.checked_add(length).ok_or_else(out_of_range)?;
            made(items.get(start..end).ok_or_else(out_of_range)?.to_vec())
        }
        "ConvertAll" => {
            let lambda = arguments.lambda(0)?;
            meter.hold(80 + 40 * list.items.borrow().len())?;
            let results = items_in_place(list).map(|item| arguments.call(lambda, &[item]));
            let results = results.collect::<Evaluated<Vec<_>>>()?;
            let item = super::sequences::common_type(&results);
            Value::list(ListKind::List, item, results)
        }
        _ => return Ok(None),
    }))
}

/// As many items as there are now, read where they are: a copy for each of many nested lambdas would be much.
fn items_in_place(list: &List) -> impl Iterator<Item = Value> + '_ {
    let count = list.items.borrow().len();
    (0..count).map_while(|place| list.items.borrow().get(place).cloned())
}

fn change(list: &Rc<List>, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    let changed = |result: Value| Ok(Some(result));
    match name {
        "Add" => {
            meter.hold(40)?;
            let value = as_item(arguments.value(0)?.clone(), &list.item, meter)?;
            meter.put(&value, Value::List(Rc::clone(list)))?;
            list.change().push(value);
            changed(Value::Null)
        }
        "AddRange" => {
            let items = items_of(arguments.value(0)?, meter)?;
            meter.hold(40 * items.len())?;
            if let Some(container) = items.iter().find(|item| item.is_container()) {
                meter.put(container, Value::List(Rc::clone(list)))?;
            }
            if !items.is_empty() {
                list.change().extend(items);
            }
            changed(Value::Null)
        }
        "Insert" => {
            let (at, value) = (
                arguments.place(0)?,
                as_item(arguments.value(1)?.clone(), &list.item, meter)?,
            );
            meter.put(&value, Value::List(Rc::clone(list)))?;
            let mut items = list.change();
            meter.hold(40)?;
            meter.steps(items.len() / 16)?;
            if at > items.len() {
                return Err(out_of_range());
            }
            items.insert(at, value);
            changed(Value::Null)
        }
        "Remove" => {
            let place = meter.place_of(&list.items.borrow(), arguments.value(0)?)?;
            meter.steps(list.items.borrow().len())?;
            if let Some(place) = place {
                list.change().remove(place);
            }
            changed(Value::Bool(place.is_some()))
        }
        "RemoveAt" => {
            let at = arguments.place(0)?;
            let mut items = list.change();
            meter.steps(items.len() / 16)?;
            if at >= items.len() {
                return Err(out_of_range());
            }
            items.remove(at);
            changed(Value::Null)
        }
        "RemoveRange" => {
            let (start, length) = (arguments.place(0)?, arguments.place(1)?);
            let count = list.items.borrow().len();
            meter.steps(count / 16)?;
            let end = start
                .checked_add(length)
                .filter(|end| *end <= count)
                .ok_or_else(out_of_range)?;
            if length > 0 {
                list.change().drain(start..end);
            }
            changed(Value::Null)
        }
        "RemoveAll" => {
            let lambda = arguments.lambda(0)?;
            let before = list.items.borrow().len();
            meter.hold(8 * before)?;
            let mut kept = Vec::new();
            for item in items_in_place(list) {
                if !arguments.holds(lambda, std::slice::from_ref(&item))? {
                    kept.push(item);
                }
            }
            let removed = before - kept.len();
            if removed > 0 {
                *list.change() = kept;
            }
            changed(count(removed))
        }
        "Clear" => {
            list.change().clear();
            changed(Value::Null)
        }
        "Sort" => {
            let items = items_of(&Value::List(Rc::clone(list)), meter)?;
            let keys = items.clone();
            let (items, _) = sorted(items, keys, false, &[], meter)?;
            *list.change() = items;
            changed(Value::Null)
        }
        // In place, other than that of arrays and sequences.
        "Reverse" => {
            let mut items = list.change();
            meter.steps(items.len() / 8)?;
            items.reverse();
            changed(Value::Null)
        }
        _ => Ok(None),
    }
}
