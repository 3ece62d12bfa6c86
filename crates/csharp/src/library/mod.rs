//! The members of .NET's types that scripts may use.
//!
//! `table` lists them with their signatures; the other files implement them, one per family.

mod arguments;
mod builders;
mod bytes;
mod dates;
mod json;
mod linq;
mod lists;
mod maps;
mod numbers;
mod objects;
mod ordering;
mod parsing;
mod regexes;
mod sequences;
mod sets;
mod statics;
mod strings;
mod table;

use std::sync::Arc;

pub(super) use arguments::Arguments;
pub(super) use bytes::{from_base64, to_base64};
pub(super) use json::serialize;
pub(super) use maps::sorted as sorted_map;
pub(super) use objects::{new_object, set_object_property};
pub(super) use statics::{call_static, static_property};
pub(super) use table::{Signature, any_methods, methods, names, property};

#[cfg(test)]
pub(super) use table::every_method;

use super::convert::{convert_to, implicit};
use super::object::Object;
use super::problem::{Evaluated, Stop};
use super::run::{Argument, Machine, Meter, field, units_of};
use super::syntax::Call;
use super::text::{formatted, length, text_of};
use super::types::{ListKind, Ty};
use super::value::{Map, Value};

/// The items of what can be enumerated.
pub(super) fn items_of(value: &Value, meter: &Meter<'_>) -> Evaluated<Vec<Value>> {
    match value {
        Value::List(list) => {
            let items = list.items.borrow();
            meter.steps(items.len() / 8)?;
            Ok(items.clone())
        }
        Value::Text(_) => {
            let units = units_of(value).unwrap_or_default();
            meter.hold(40 * units.len())?;
            Ok(units.into_iter().map(Value::Char).collect())
        }
        Value::Map(map) => {
            let entries = map.entries.borrow();
            meter.hold(120 * entries.len())?;
            Ok(entries
                .iter()
                .map(|(key, value)| Value::pair(key.clone(), value.clone()))
                .collect())
        }
        Value::Object(object) if matches!(**object, Object::Groups(_)) => match &**object {
            Object::Groups(found) => regexes::groups(found, meter),
            _ => Ok(Vec::new()),
        },
        Value::Null => Err(Stop::thrown("ArgumentNullException", "the list is null")),
        other => Err(Stop::thrown(
            "InvalidCastException",
            format!("{} is not a list", other.type_name()),
        )),
    }
}

/// The type of the items of what can be enumerated.
pub(super) fn item_type(value: &Value) -> Ty {
    match value {
        Value::List(list) => list.item.clone(),
        other => other.ty().item().unwrap_or(Ty::Dynamic),
    }
}

fn out_of_range() -> Box<Stop> {
    Stop::thrown("ArgumentOutOfRangeException", "the index is outside of the list")
}

/// `target[index]`.
pub(super) fn index(target: &Value, index: &Value, meter: &Meter<'_>) -> Evaluated<Value> {
    meter.find(index)?;
    match target {
        Value::Null => Err(Stop::thrown("NullReferenceException", "an item of null is read")),
        Value::Map(map) if is_no_key(map, index) => Err(no_key(index)),
        Value::Map(map) => {
            let found = map.entries.borrow().get(index).cloned();
            match found {
                Some(value) => Ok(value),
                // An object of JSON has no value there.
                None if map.is_object && map.value.is_dynamic() => Ok(Value::Null),
                None => Err(Stop::thrown(
                    "KeyNotFoundException",
                    format!("there is no key {}", short(index)),
                )),
            }
        }
        Value::List(list) if !matches!(list.kind, ListKind::Sequence | ListKind::Set) => {
            let place = place_of(index)?;
            let items = list.items.borrow();
            let name = if list.kind == ListKind::Array {
                "IndexOutOfRangeException"
            } else {
                "ArgumentOutOfRangeException"
            };
            let found = items.get(place).cloned();
            found.ok_or_else(|| Stop::thrown(name, format!("the index {place} is outside of {} items", items.len())))
        }
        Value::Text(text) => {
            let place = place_of(index)?;
            meter.steps(text.len() / 1024)?;
            let unit = if text.is_ascii() {
                text.as_bytes().get(place).map(|byte| u16::from(*byte))
            } else {
                meter.steps(place / 64)?;
                text.encode_utf16().nth(place)
            };
            let unit = unit.ok_or_else(|| {
                let message = format!("the index {place} is outside of {} chars", length(text));
                Stop::thrown("IndexOutOfRangeException", message)
            })?;
            Ok(Value::Char(unit))
        }
        Value::Object(object) => match &**object {
            Object::Groups(found) => regexes::group_at(found, index, meter),
            Object::Builder(text) => self::index(&Value::text(text.borrow().as_str()), index, meter),
            _ => Err(no_indexer(target)),
        },
        other => Err(no_indexer(other)),
    }
}

/// Whether the members of an object of JSON are asked for something that is no name.
fn is_no_key(map: &Map, index: &Value) -> bool {
    map.is_object && map.key == Ty::Text && !matches!(index, Value::Text(_) | Value::Null)
}

fn no_key(index: &Value) -> Box<Stop> {
    let message = format!("an object has members with names, and none by {}", index.type_name());
    Stop::thrown("RuntimeBinderException", message)
}

/// A value as an item of a type, which is not known before where the list is `dynamic`.
pub(super) fn as_item(value: Value, item: &Ty, meter: &Meter<'_>) -> Evaluated<Value> {
    let plain = item.plain();
    if plain.is_number() || matches!(plain, Ty::Text | Ty::Bool | Ty::Date | Ty::Offset | Ty::Span | Ty::Guid) {
        return implicit(value, item, meter);
    }
    Ok(value)
}

fn no_indexer(target: &Value) -> Box<Stop> {
    Stop::thrown(
        "RuntimeBinderException",
        format!("{} has no indexer", target.type_name()),
    )
}

/// The length of what can be counted from its end.
pub(super) fn length_of(target: &Value, meter: &Meter<'_>) -> Evaluated<usize> {
    match target {
        Value::Null => Err(Stop::thrown("NullReferenceException", "an item of null is read")),
        Value::List(list) if matches!(list.kind, ListKind::Array | ListKind::List) => Ok(list.items.borrow().len()),
        Value::Text(text) => {
            meter.steps(text.len() / if text.is_ascii() { 1024 } else { 64 })?;
            Ok(length(text))
        }
        other => Err(no_indexer(other)),
    }
}

/// `target[first..last]`.
pub(super) fn slice(target: &Value, first: usize, last: usize, meter: &Meter<'_>) -> Evaluated<Value> {
    match target {
        Value::List(list) => {
            meter.hold(80 + 40 * last.saturating_sub(first))?;
            let items = list.items.borrow().get(first..last).ok_or_else(out_of_range)?.to_vec();
            Ok(Value::list(list.kind, list.item.clone(), items))
        }
        Value::Text(text) => {
            let part = strings::slice(text, first, last.checked_sub(first))?;
            meter.hold(part.len())?;
            Ok(Value::Text(part))
        }
        other => Err(no_indexer(other)),
    }
}

fn place_of(index: &Value) -> Evaluated<usize> {
    match index.as_i64() {
        Some(number) => usize::try_from(number).map_err(|_| out_of_range()),
        None => Err(Stop::thrown(
            "RuntimeBinderException",
            format!("{} is not an index", index.type_name()),
        )),
    }
}

/// `target[index] = value`.
pub(super) fn set_index(target: &Value, index: &Value, value: Value, meter: &Meter<'_>) -> Evaluated<()> {
    match target {
        Value::Null => Err(Stop::thrown("NullReferenceException", "an item of null is set")),
        Value::Map(map) => {
            if index.is_null() {
                return Err(Stop::thrown("ArgumentNullException", "a key is null"));
            }
            if is_no_key(map, index) {
                return Err(no_key(index));
            }
            let value = as_item(value, &map.value, meter)?;
            meter.hold(160)?;
            meter.put(&value, target.clone())?;
            maps::put(map, index.clone(), value, meter)?;
            Ok(())
        }
        Value::List(list) if !matches!(list.kind, ListKind::Sequence | ListKind::Set) => {
            let place = place_of(index)?;
            let value = as_item(value, &list.item, meter)?;
            // An array has no version in .NET: who reads it sees what was set.
            let mut items = if list.kind == ListKind::List {
                list.change()
            } else {
                list.items.borrow_mut()
            };
            let item = items.get_mut(place).ok_or_else(out_of_range)?;
            meter.put(&value, target.clone())?;
            *item = value;
            Ok(())
        }
        other => Err(Stop::thrown(
            "RuntimeBinderException",
            format!("items of {} cannot be set", other.type_name()),
        )),
    }
}

fn short(value: &Value) -> String {
    text_of(value).chars().take(60).collect()
}

/// `target.Name`.
pub(super) fn property_of(target: &Value, name: &Arc<str>, meter: &Meter<'_>) -> Evaluated<Value> {
    let missing = || {
        let message = format!(
            "{} has no member {name}; member names are case-sensitive",
            target.type_name()
        );
        Stop::thrown("RuntimeBinderException", message)
    };
    match target {
        Value::Null => Err(Stop::thrown(
            "NullReferenceException",
            format!("{name} of null is read"),
        )),
        Value::Map(map) => {
            if map.is_object {
                let found = map.entries.borrow().get(&Value::Text(Arc::clone(name))).cloned();
                return match (found, &**name) {
                    (Some(value), _) => Ok(value),
                    (None, "Count" | "Keys" | "Values") => maps::property(map, name, meter),
                    (None, _) => Err(missing()),
                };
            }
            maps::property(map, name, meter)
        }
        Value::Record(record) => field(record, name).cloned().ok_or_else(missing),
        Value::List(list) => match (&**name, &list.key) {
            ("Key", Some(key)) => Ok(key.clone()),
            ("Count" | "Length", _) => Ok(count(list.items.borrow().len())),
            _ => Err(missing()),
        },
        Value::Text(text) if &**name == "Length" => {
            meter.steps(text.len() / if text.is_ascii() { 1024 } else { 64 })?;
            Ok(count(length(text)))
        }
        Value::Date(_) | Value::Offset(_) | Value::Span(_) => dates::property(target, name).ok_or_else(missing),
        Value::Object(object) => objects::property(object, name, meter)?.ok_or_else(missing),
        other => match &**name {
            "HasValue" => Ok(Value::Bool(true)),
            "Value" => Ok(other.clone()),
            _ => Err(missing()),
        },
    }
    .or_else(|stop| match (&**name, target) {
        ("HasValue", Value::Null) => Ok(Value::Bool(false)),
        ("HasValue", _) => Ok(Value::Bool(true)),
        ("Value", Value::Null) => Err(Stop::thrown("InvalidOperationException", "a nullable has no value")),
        ("Value", Value::Date(_) | Value::Offset(_) | Value::Span(_)) => Ok(target.clone()),
        _ => Err(stop),
    })
}

fn count(length: usize) -> Value {
    Value::Int(i32::try_from(length).unwrap_or(i32::MAX))
}

/// `target.Name(…)`.
pub(super) fn call(machine: &Machine<'_>, target: &Value, call: &Call, arguments: &[Argument<'_>]) -> Evaluated<Value> {
    let arguments = Arguments::new(machine, arguments, &call.name);
    let name = &*call.name;
    if target.is_null() {
        if name == "GetValueOrDefault" {
            return Ok(arguments
                .optional(0)
                .cloned()
                .unwrap_or_else(|| super::convert::default_of(&call.result)));
        }
        if call.takes_null {
            let is_null = || arguments.optional(0).is_none_or(Value::is_null);
            return Ok(if name == "ToString" {
                Value::text("")
            } else {
                Value::Bool(is_null())
            });
        }
        return Err(Stop::thrown(
            "NullReferenceException",
            format!("{name} of null is called"),
        ));
    }
    let found = match target {
        Value::Text(text) => strings::call(text, name, &arguments)?,
        Value::Date(_) | Value::Offset(_) | Value::Span(_) => dates::call(target, name, &arguments)?,
        Value::List(list) if list.kind == ListKind::Set => sets::call(list, name, &arguments)?,
        Value::List(list) => lists::call(list, name, &arguments)?,
        Value::Object(object) => objects::call(object, name, &arguments)?,
        Value::Map(map) => maps::call(map, name, &arguments)?,
        _ => None,
    };
    if let Some(value) = found {
        return Ok(value);
    }
    if let Some(value) = any(machine, target, call, &arguments)? {
        return Ok(value);
    }
    if matches!(
        target,
        Value::List(_) | Value::Map(_) | Value::Text(_) | Value::Object(_)
    ) && let Some(value) = linq::call(target, call, &arguments)?
    {
        return Ok(value);
    }
    let message = format!("{} has no method {name}", target.type_name());
    Err(Stop::thrown("RuntimeBinderException", message))
}

/// What every value has.
fn any(machine: &Machine<'_>, target: &Value, call: &Call, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    Ok(Some(match &*call.name {
        "ToString" => {
            let format = match arguments.optional(0) {
                Some(Value::Text(format)) => Arc::clone(format),
                _ => "".into(),
            };
            if let (Value::Map(map), "") = (target, &*format)
                && map.is_object
            {
                return Ok(Some(Value::text(serialize(target, &machine.meter)?)));
            }
            let text = formatted(target, &format)?;
            machine.meter.hold(text.len())?;
            Value::Text(text)
        }
        "Equals" => {
            let other = arguments.value(0)?;
            let is_one_type = target.ty() == other.ty() || !target.ty().is_number();
            Value::Bool(is_one_type && machine.meter.equal(target, other)?)
        }
        "CompareTo" => {
            let order = target.order(arguments.value(0)?);
            let order = order.ok_or_else(|| Stop::thrown("ArgumentException", "these values have no order"))?;
            Value::Int(order as i32)
        }
        "GetValue" => convert_to(target, call.types.first().unwrap_or(&Ty::Dynamic), &machine.meter)?,
        "GetValueOrDefault" if !matches!(target, Value::Map(_)) => target.clone(),
        _ => return Ok(None),
    }))
}
