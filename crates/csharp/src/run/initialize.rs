//! `new`: lists, arrays, dictionaries, anonymous objects, dates, lengths of time and texts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::{Machine, Meter};
use crate::convert::{default_of, guid_of, implicit};
use crate::date_time::{
    DateKind, DateTime, DateTimeOffset, TICKS_PER_DAY, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND,
    date_ticks, in_range, time_ticks,
};
use crate::library::{self, items_of};
use crate::object::{Exception, Object};
use crate::problem::{Evaluated, Stop};
use crate::syntax::{Argument, Expr, Initializer};
use crate::text::{length, of_units};
use crate::types::{EnumKind, ListKind, ObjectKind, Ty};
use crate::value::{Entries, Map, RecordKind, Value};

/// The largest array that `new T[n]` makes.
const MOST_ITEMS: i64 = 1_000_000;

impl Machine<'_> {
    pub(super) fn new_value(&self, initializer: &Initializer) -> Evaluated<Value> {
        match initializer {
            Initializer::Anonymous(fields) => {
                let mut values = Vec::new();
                for Argument { name, value, .. } in fields {
                    values.push((name.clone().unwrap_or_default(), self.eval(value)?));
                }
                self.meter.hold(60 + 60 * values.len())?;
                shallow_enough(Value::record(RecordKind::Anonymous, values))
            }
            Initializer::Array(_, ty, items) => {
                let items = self.items(items)?;
                Ok(Value::list(ListKind::Array, ty.clone(), items))
            }
            Initializer::Sized(_, ty, size) => {
                let count = self.eval(size)?.as_i64().unwrap_or(-1);
                if count < 0 {
                    return Err(Stop::thrown("OverflowException", "an array length is at least 0"));
                }
                if count > MOST_ITEMS {
                    let message = format!("an array of more than {MOST_ITEMS} items is too large");
                    return Err(Stop::thrown("OutOfMemoryException", message));
                }
                let count = usize::try_from(count).unwrap_or(0);
                self.meter.hold(80 + 40 * count)?;
                Ok(Value::list(ListKind::Array, ty.clone(), vec![default_of(ty); count]))
            }
            Initializer::Object {
                written,
                ty,
                arguments,
                items,
                pairs,
            } => {
                let mut values = Vec::new();
                for argument in arguments {
                    values.push(self.eval(&argument.value)?);
                }
                match ty {
                    Ty::List(kind, item) => {
                        let mut all = match values.first() {
                            Some(Value::Int(_)) | None => Vec::new(),
                            Some(list) => items_of(list, &self.meter)?,
                        };
                        all.extend(self.items(items)?);
                        self.meter.hold(80 + 40 * all.len())?;
                        if *kind == ListKind::Set {
                            return crate::set::set_of((**item).clone(), all, &self.meter);
                        }
                        Ok(Value::list(*kind, (**item).clone(), all))
                    }
                    Ty::Map(key, value) => {
                        let is_sorted = matches!(&*written.name, "SortedDictionary" | "SortedList");
                        let map = self.map((**key).clone(), (**value).clone(), false, &values, pairs)?;
                        if is_sorted {
                            return library::sorted_map(&map, &self.meter);
                        }
                        Ok(Value::Map(Rc::new(map)))
                    }
                    Ty::Dynamic => Ok(Value::Map(Rc::new(self.map(
                        Ty::Text,
                        Ty::Dynamic,
                        true,
                        &values,
                        pairs,
                    )?))),
                    Ty::Object(ObjectKind::Exception) => {
                        self.meter.hold(120)?;
                        let exception = new_exception(&written.name, &values);
                        Ok(Value::object(Object::Exception(exception)))
                    }
                    Ty::Object(kind) => library::new_object(self, *kind, &values),
                    other => construct(other, &values, &self.meter),
                }
            }
        }
    }

    fn items(&self, items: &[Expr]) -> Evaluated<Vec<Value>> {
        self.meter.hold(80 + 40 * items.len())?;
        items.iter().map(|item| self.eval(item)).collect()
    }

    fn map(&self, key: Ty, value: Ty, is_object: bool, from: &[Value], pairs: &[(Expr, Expr)]) -> Evaluated<Map> {
        let mut entries = Entries::default();
        if let Some(Value::Map(other)) = from.first() {
            entries = other.entries.borrow().clone();
        }
        for (key, value) in pairs {
            let key = self.eval(key)?;
            if key.is_null() {
                return Err(Stop::thrown("ArgumentNullException", "a key is null"));
            }
            let value = self.eval(value)?;
            self.meter.set(&mut entries, key, value)?;
        }
        self.meter.hold(120 + 160 * entries.len())?;
        Ok(Map {
            key,
            value,
            is_object,
            is_sorted: false,
            entries: RefCell::new(entries),
        })
    }
}

/// What `new` makes of an exception: some classes say more than their arguments.
pub(super) fn new_exception(name: &Arc<str>, values: &[Value]) -> Exception {
    let text = |number: usize| match values.get(number) {
        Some(Value::Text(text)) => Some(Arc::clone(text)),
        _ => None,
    };
    let message: Arc<str> = match (&**name, text(0), text(1)) {
        ("ArgumentNullException", Some(parameter), None) => {
            format!("Value cannot be null. (Parameter '{parameter}')").into()
        }
        ("ArgumentOutOfRangeException", Some(parameter), None) => {
            format!("Specified argument was out of the range of valid values. (Parameter '{parameter}')").into()
        }
        ("ArgumentNullException" | "ArgumentOutOfRangeException", Some(parameter), Some(message))
        | ("ArgumentException", Some(message), Some(parameter)) => {
            format!("{message} (Parameter '{parameter}')").into()
        }
        (_, Some(message), _) => message,
        (_, None, _) => format!("Exception of type 'System.{name}' was thrown.").into(),
    };
    Exception {
        name: Arc::clone(name),
        message,
    }
}

/// What walks a record recurses as deep as it is.
pub(super) fn shallow_enough(value: Value) -> Evaluated<Value> {
    if value.is_too_deep() {
        let message = "anonymous objects and tuples are nested too deeply; use lists";
        return Err(Stop::thrown("InsufficientExecutionStackException", message));
    }
    Ok(value)
}

fn out_of_range() -> Box<Stop> {
    Stop::thrown("ArgumentOutOfRangeException", "there is no such date or time")
}

/// Ticks of `year, month, day[, hour, minute, second[, millisecond]]`.
fn clock_ticks(parts: &[i64]) -> Option<i64> {
    let (day, time) = match parts {
        [year, month, day] => (date_ticks(*year, *month, *day)?, 0),
        [year, month, day, hour, minute, second, rest @ ..] => {
            let milliseconds = rest.first().copied().unwrap_or(0);
            let fraction = (0..1000)
                .contains(&milliseconds)
                .then_some(milliseconds * TICKS_PER_MILLISECOND)?;
            (
                date_ticks(*year, *month, *day)?,
                time_ticks(*hour, *minute, *second)? + fraction,
            )
        }
        _ => return None,
    };
    Some(day + time)
}

fn construct(ty: &Ty, values: &[Value], meter: &Meter<'_>) -> Evaluated<Value> {
    let numbers: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
    match (ty, values) {
        (_, []) => Ok(default_of(ty)),
        (Ty::Date, [ticks]) => {
            let ticks = in_range(ticks.as_i64()).ok_or_else(out_of_range)?;
            Ok(Value::Date(DateTime {
                ticks,
                kind: DateKind::Unspecified,
            }))
        }
        (Ty::Date, _) => {
            let kind = match values.last() {
                Some(Value::Enum(EnumKind::DateTimeKind, 1)) => DateKind::Utc,
                Some(Value::Enum(EnumKind::DateTimeKind, 2)) => DateKind::Local,
                _ => DateKind::Unspecified,
            };
            let ticks = clock_ticks(&numbers).ok_or_else(out_of_range)?;
            Ok(Value::Date(DateTime { ticks, kind }))
        }
        (Ty::Offset, [date]) => implicit(date.clone(), &Ty::Offset, meter),
        (Ty::Offset, _) => {
            let Some(Value::Span(span)) = values.last() else {
                return Err(out_of_range());
            };
            let minutes = i32::try_from(span / TICKS_PER_MINUTE)
                .ok()
                .filter(|minutes| minutes.unsigned_abs() <= 14 * 60);
            let ticks = match values.first() {
                Some(Value::Date(date)) => Some(date.ticks),
                _ if numbers.len() == 1 => numbers.first().copied(),
                _ => clock_ticks(&numbers),
            };
            match (in_range(ticks), minutes) {
                (Some(ticks), Some(minutes)) => Ok(Value::Offset(DateTimeOffset { ticks, minutes })),
                _ => Err(out_of_range()),
            }
        }
        (Ty::Span, _) => {
            let ticks = match numbers.as_slice() {
                [ticks] => Some(*ticks),
                [hours, minutes, seconds] => span(0, *hours, *minutes, *seconds, 0),
                [days, hours, minutes, seconds] => span(*days, *hours, *minutes, *seconds, 0),
                [days, hours, minutes, seconds, milliseconds] => span(*days, *hours, *minutes, *seconds, *milliseconds),
                _ => None,
            };
            ticks
                .map(Value::Span)
                .ok_or_else(|| Stop::thrown("ArgumentOutOfRangeException", "the TimeSpan is too long"))
        }
        (Ty::Guid, [text]) => {
            let text = crate::text::text_of(text);
            let parsed = guid_of(&text).map(Value::Guid);
            parsed.ok_or_else(|| Stop::thrown("FormatException", "the text is not a Guid"))
        }
        (Ty::Text, [Value::Char(unit), count]) => {
            let count = count
                .as_i64()
                .and_then(|count| usize::try_from(count).ok())
                .filter(|count| *count <= 1_000_000);
            let count =
                count.ok_or_else(|| Stop::thrown("ArgumentOutOfRangeException", "the count is out of range"))?;
            meter.hold(count * of_units(&[*unit])?.len())?;
            let text = of_units(&vec![*unit; count])?;
            debug_assert_eq!(length(&text), count);
            Ok(Value::Text(text))
        }
        (Ty::Text, [Value::List(list)]) => {
            meter.hold(3 * list.items.borrow().len())?;
            let units: Vec<u16> = list
                .items
                .borrow()
                .iter()
                .filter_map(|item| {
                    if let Value::Char(unit) = item {
                        Some(*unit)
                    } else {
                        None
                    }
                })
                .collect();
            Ok(Value::Text(of_units(&units)?))
        }
        _ => Err(Stop::thrown(
            "MissingMethodException",
            format!("new {ty} does not take these values"),
        )),
    }
}

fn span(days: i64, hours: i64, minutes: i64, seconds: i64, milliseconds: i64) -> Option<i64> {
    let of_day = hours
        .checked_mul(3_600)?
        .checked_add(minutes.checked_mul(60)?)?
        .checked_add(seconds)?;
    let ticks = days
        .checked_mul(TICKS_PER_DAY)?
        .checked_add(of_day.checked_mul(TICKS_PER_SECOND)?)?;
    ticks.checked_add(milliseconds.checked_mul(TICKS_PER_MILLISECOND)?)
}
