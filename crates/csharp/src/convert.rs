//! Values and JSON, and values of one type as another.

use serde_json::{Map as JsonMap, Number, Value as Json};
use uuid::Uuid;

use super::date_time::{self, DateKind, DateTime, ParsedDate};
use super::format;
use super::problem::{Evaluated, Stop, StopKind};
use super::run::Meter;
use super::text::{text_of, units};
use super::types::{ListKind, Ty};
use super::value::{Entries, List, Value};
use mainspring_language::TimeSpan;
use mainspring_language::{Decimal, Rounding};

/// The deepest value that becomes JSON; PostgreSQL and the model have limits of their own.
const DEEPEST: usize = 100;

/// In bytes: a value of JSON without its text.
const NODE: usize = 80;

/// In bytes: what the first member of an object of JSON takes besides; the next ones have room beside it.
const FIRST_MEMBER: usize = 320;

/// JSON as a value of a type; null is the default of a type that is never null, as in Elsa.
pub(super) fn from_json(json: &Json, ty: &Ty, meter: &Meter<'_>) -> Evaluated<Value> {
    meter.step()?;
    if json.is_null() {
        return Ok(default_of(ty));
    }
    let mismatch = || {
        let mut shown: String = json.to_string().chars().take(60).collect();
        shown.push_str(if json.to_string().chars().count() > 60 {
            "…"
        } else {
            ""
        });
        Stop::thrown("InvalidCastException", format!("{shown} does not convert to {ty}"))
    };
    match ty.plain() {
        Ty::List(kind, item) => match json {
            Json::Array(items) => {
                meter.hold(80 + 40 * items.len())?;
                let items = items
                    .iter()
                    .map(|one| from_json(one, item, meter))
                    .collect::<Evaluated<Vec<_>>>()?;
                list_of(*kind, item, items, meter)
            }
            Json::String(text) if **item == Ty::Byte => {
                let bytes = crate::library::from_base64(text).ok_or_else(mismatch)?;
                meter.hold(80 + 40 * bytes.len())?;
                Ok(bytes_value(&bytes))
            }
            Json::String(text) if text.trim_start().starts_with('[') => {
                let parsed = read_json(text, meter)?.map_err(|_| mismatch())?;
                from_json(&parsed, ty, meter)
            }
            _ => Err(mismatch()),
        },
        Ty::Map(key, value) => match json {
            Json::Object(fields) => {
                meter.hold(120 + 160 * fields.len())?;
                let mut entries = Entries::default();
                for (name, json) in fields {
                    let name = from_json(&Json::String(name.clone()), key, meter)?;
                    meter.set(&mut entries, name, from_json(json, value, meter)?)?;
                }
                Ok(Value::map((**key).clone(), (**value).clone(), false, entries))
            }
            _ => Err(mismatch()),
        },
        Ty::Dynamic
        | Ty::Null
        | Ty::Void
        | Ty::Lambda
        | Ty::Record(_)
        | Ty::Pair(..)
        | Ty::Group(..)
        | Ty::Object(_)
        | Ty::Function(_) => dynamic(json, meter),
        Ty::Text => match json {
            Json::String(text) => {
                meter.hold(text.len())?;
                Ok(Value::text(text.as_str()))
            }
            Json::Bool(flag) => Ok(Value::text(if *flag { "True" } else { "False" })),
            Json::Number(_) => Ok(Value::Text(text_of(&dynamic(json, meter)?))),
            _ => {
                let text = json.to_string();
                meter.hold(text.len())?;
                Ok(Value::text(text))
            }
        },
        scalar => {
            let value = dynamic(json, meter)?;
            convert_to(&value, scalar, meter).map_err(|stop| match stop.kind {
                StopKind::Thrown => mismatch(),
                _ => stop,
            })
        }
    }
}

/// Text as JSON, whose nodes are counted before they are made.
pub(super) fn read_json(text: &str, meter: &Meter<'_>) -> Evaluated<serde_json::Result<Json>> {
    meter.hold(text.len() + node_bytes(text))?;
    Ok(serde_json::from_str(text))
}

/// About how many bytes the nodes of a text of JSON take: each comma and bracket outside of a string may begin a value.
fn node_bytes(text: &str) -> usize {
    let (mut total, mut last) = (0, b' ');
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b'[' => total += NODE,
            b'{' => total += NODE + FIRST_MEMBER,
            b'}' if last == b'{' => total -= FIRST_MEMBER,
            b'"' => {
                // To the end of the string, past each character that is escaped.
                while let Some(inner) = bytes.next().filter(|inner| *inner != b'"') {
                    if inner == b'\\' {
                        bytes.next();
                    }
                }
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            last = byte;
        }
    }
    total
}

fn dynamic(json: &Json, meter: &Meter<'_>) -> Evaluated<Value> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => number_of(number),
        Json::String(text) => {
            meter.hold(text.len())?;
            Value::text(text.as_str())
        }
        Json::Array(items) => {
            meter.hold(80 + 40 * items.len())?;
            let items = items.iter().map(|one| {
                meter.step()?;
                dynamic(one, meter)
            });
            Value::list(ListKind::List, Ty::Dynamic, items.collect::<Evaluated<Vec<_>>>()?)
        }
        Json::Object(fields) => {
            meter.hold(120 + 160 * fields.len())?;
            let mut entries = Entries::default();
            for (name, json) in fields {
                meter.step()?;
                meter.set(&mut entries, Value::text(name.as_str()), dynamic(json, meter)?)?;
            }
            Value::map(Ty::Text, Ty::Dynamic, true, entries)
        }
    })
}

fn number_of(number: &Number) -> Value {
    match number.as_i64() {
        Some(whole) => i32::try_from(whole).map_or(Value::Long(whole), Value::Int),
        None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// `default(T)`.
pub(super) fn default_of(ty: &Ty) -> Value {
    match ty {
        Ty::Bool => Value::Bool(false),
        Ty::Int | Ty::Byte => Value::Int(0),
        Ty::Long => Value::Long(0),
        Ty::Double => Value::Double(0.0),
        Ty::Decimal => Value::Decimal(Decimal::ZERO),
        Ty::Char => Value::Char(0),
        Ty::Date => Value::Date(DateTime {
            ticks: 0,
            kind: DateKind::Unspecified,
        }),
        Ty::Offset => Value::Offset(date_time::DateTimeOffset { ticks: 0, minutes: 0 }),
        Ty::Span => Value::Span(0),
        Ty::Guid => Value::Guid(Uuid::nil()),
        Ty::Enum(kind) => Value::Enum(*kind, 0),
        Ty::Pair(key, value) => Value::pair(default_of(key), default_of(value)),
        _ => Value::Null,
    }
}

/// A value as JSON, within the bytes that are left of the result.
pub(super) fn to_json(value: &Value, meter: &Meter<'_>, left: &mut usize) -> Evaluated<Json> {
    json_of(value, meter, 0, left)
}

fn take(left: &mut usize, bytes: usize) -> Evaluated<()> {
    let rest = left.checked_sub(bytes);
    *left = rest.ok_or_else(|| Stop::new(StopKind::TooLarge, "the result is too large"))?;
    Ok(())
}

fn json_of(value: &Value, meter: &Meter<'_>, depth: usize, left: &mut usize) -> Evaluated<Json> {
    meter.hold(NODE)?;
    if depth > DEEPEST {
        return Err(Stop::new(
            StopKind::TooLarge,
            format!("the result is nested more than {DEEPEST} levels deep, or contains itself"),
        ));
    }
    let size = if let Value::Text(text) = value {
        text.len() + 2
    } else {
        4
    };
    take(left, size)?;
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) => Json::from(*number),
        Value::Long(number) => Json::from(*number),
        Value::Enum(_, number) => Json::from(*number),
        Value::Double(number) => Json::Number(Number::from_f64(*number).ok_or_else(|| {
            Stop::thrown(
                "ArgumentException",
                format!("{} has no form in JSON", mainspring_language::double_text(*number)),
            )
        })?),
        Value::Decimal(number) => decimal_json(*number),
        Value::Text(text) => Json::String(checked(text)?.to_owned()),
        Value::Char(_) | Value::Guid(_) | Value::Span(_) => Json::String(checked(&text_of(value))?.to_owned()),
        Value::Date(_) | Value::Offset(_) => Json::String(iso_text(value)),
        Value::List(list) if list.item == Ty::Byte => {
            let text = crate::library::to_base64(&bytes_of(list));
            meter.hold(text.len())?;
            take(left, text.len())?;
            Json::String(text)
        }
        Value::Object(_) | Value::Function(_) => return Err(no_json(value)),
        Value::List(list) => {
            let items = list.items.borrow();
            let items = items.iter().map(|item| json_of(item, meter, depth + 1, left));
            Json::Array(items.collect::<Evaluated<Vec<_>>>()?)
        }
        Value::Map(map) => {
            let mut fields = JsonMap::new();
            let entries = map.entries.borrow();
            meter.hold(if entries.len() > 0 { FIRST_MEMBER } else { 0 })?;
            for (key, value) in entries.iter() {
                let key = text_of(key);
                take(left, key.len())?;
                fields.insert(checked(&key)?.to_owned(), json_of(value, meter, depth + 1, left)?);
            }
            Json::Object(fields)
        }
        Value::Record(record) => {
            meter.hold(FIRST_MEMBER)?;
            let mut fields = JsonMap::new();
            for (name, value) in &record.fields {
                take(left, name.len())?;
                fields.insert(name.to_string(), json_of(value, meter, depth + 1, left)?);
            }
            Json::Object(fields)
        }
    })
}

/// .NET has no JSON for a function, and one of little use for the other objects.
pub(super) fn no_json(value: &Value) -> Box<Stop> {
    let message = format!("a {} has no form in JSON; return what it contains", value.type_name());
    Stop::thrown("NotSupportedException", message)
}

/// A list of a kind: a set keeps what is equal once.
fn list_of(kind: ListKind, item: &Ty, items: Vec<Value>, meter: &Meter<'_>) -> Evaluated<Value> {
    if kind == ListKind::Set {
        return super::set::set_of(item.clone(), items, meter);
    }
    Ok(Value::list(kind, item.clone(), items))
}

/// An array of bytes.
pub(super) fn bytes_value(bytes: &[u8]) -> Value {
    let items = bytes.iter().map(|byte| Value::Int(i32::from(*byte)));
    Value::list(ListKind::Array, Ty::Byte, items.collect())
}

pub(super) fn bytes_of(list: &List) -> Vec<u8> {
    let items = list.items.borrow();
    let bytes = items.iter().filter_map(|item| u8::try_from(item.as_i64()?).ok());
    bytes.collect()
}

fn checked(text: &str) -> Evaluated<&str> {
    if text.contains('\0') {
        let message = "a text of the result contains U+0000, which cannot be stored";
        return Err(Stop::new(StopKind::InvalidText, message));
    }
    Ok(text)
}

fn decimal_json(number: Decimal) -> Json {
    let plain = number.without_zeros();
    match plain.to_i64().filter(|_| plain.scale() == 0) {
        Some(whole) => Json::from(whole),
        None => Number::from_f64(number.to_f64()).map_or(Json::Null, Json::Number),
    }
}

/// A date as System.Text.Json writes it: with `Z` only if it is of UTC, and with the offset that it has.
pub(super) fn iso_text(value: &Value) -> String {
    let written = match value {
        Value::Date(date) => format::date(*date, "yyyy-MM-ddTHH:mm:ss.FFFFFFFK"),
        Value::Offset(at) => format::offset(*at, "yyyy-MM-ddTHH:mm:ss.FFFFFFFzzz"),
        _ => return String::new(),
    };
    written.unwrap_or_default()
}

/// What C# converts silently: numbers that widen, a date as one with an offset, and what was `object` before.
pub(super) fn implicit(value: Value, to: &Ty, meter: &Meter<'_>) -> Evaluated<Value> {
    let is_nullable = !to.is_value();
    let plain = to.plain();
    let from = value.ty();
    if value.is_null() {
        if is_nullable {
            return Ok(value);
        }
        return Err(Stop::thrown(
            "NullReferenceException",
            format!("null does not convert to {to}"),
        ));
    }
    if from == *plain || plain.is_dynamic() || (from == Ty::Int && *plain == Ty::Byte) {
        return Ok(value);
    }
    let widens = matches!((from.rank(), plain.rank()), (Some(a), Some(b)) if a <= b && *plain != Ty::Char)
        && !(from == Ty::Double && *plain == Ty::Decimal);
    let is_date = from == Ty::Date && *plain == Ty::Offset;
    if widens || is_date {
        return cast(value, plain, meter);
    }
    if from.converts_to(plain) && !plain.is_number() {
        return Ok(value);
    }
    // A variable of the type Object holds text where JSON has no type for it.
    if let (Value::Text(text), Ty::Date | Ty::Offset | Ty::Span | Ty::Guid) = (&value, plain)
        && let Some(parsed) = parse(text, plain, meter)
    {
        return Ok(parsed);
    }
    Err(Stop::thrown(
        "RuntimeBinderException",
        format!("{} does not convert to {to} without a cast", value.type_name()),
    ))
}

/// `(T)value`.
pub(super) fn cast(value: Value, to: &Ty, meter: &Meter<'_>) -> Evaluated<Value> {
    if value.is_null() || value.ty() == *to.plain() || to.is_dynamic() {
        return if value.is_null() {
            implicit(value, to, meter)
        } else {
            Ok(value)
        };
    }
    let overflow = || Stop::thrown("OverflowException", format!("the value does not fit into {to}"));
    let plain = to.plain();
    Ok(match (&value, plain) {
        (Value::Enum(_, number), to) if to.is_number() => return cast(Value::Int(*number), to, meter),
        (number, Ty::Enum(kind)) if number.as_i64().is_some() => Value::Enum(
            *kind,
            i32::try_from(number.as_i64().unwrap_or(0)).map_err(|_| overflow())?,
        ),
        (Value::Date(date), Ty::Offset) => Value::Offset(date_time::DateTimeOffset {
            ticks: date.ticks,
            minutes: 0,
        }),
        (Value::Decimal(number), Ty::Int | Ty::Long | Ty::Char) => {
            // A decimal is always checked.
            let whole = number.round(0, Rounding::Truncate).to_i64().ok_or_else(overflow)?;
            match plain {
                Ty::Int => Value::Int(i32::try_from(whole).map_err(|_| overflow())?),
                Ty::Long => Value::Long(whole),
                _ => Value::Char(u16::try_from(whole).map_err(|_| overflow())?),
            }
        }
        (number, Ty::Decimal) => Value::Decimal(number.as_decimal().ok_or_else(|| {
            if value.ty().is_number() {
                overflow()
            } else {
                no_cast(&value, to)
            }
        })?),
        (number, Ty::Double) => Value::Double(number.as_f64().ok_or_else(|| no_cast(&value, to))?),
        (Value::Double(number), Ty::Int) => Value::Int(int_of(*number)),
        (Value::Double(number), Ty::Long) => Value::Long(long_of(*number)),
        (Value::Double(number), Ty::Char) => Value::Char(long_of(*number) as u16),
        (number, Ty::Int | Ty::Long | Ty::Char) => {
            let whole = number.as_i64().ok_or_else(|| no_cast(&value, to))?;
            match plain {
                // Unchecked, as C# does by default.
                Ty::Int => Value::Int(whole as i32),
                Ty::Long => Value::Long(whole),
                _ => Value::Char(whole as u16),
            }
        }
        _ => {
            return implicit(value, to, meter).map_err(|mut stop| {
                stop.message = stop.message.replace("RuntimeBinderException", "InvalidCastException");
                stop.message = stop.message.replace(" without a cast", "");
                stop
            });
        }
    })
}

fn no_cast(value: &Value, to: &Ty) -> Box<Stop> {
    Stop::thrown(
        "InvalidCastException",
        format!("{} does not convert to {to}", value.type_name()),
    )
}

/// Unchecked, as .NET 9 saturates.
fn int_of(number: f64) -> i32 {
    number as i32
}

fn long_of(number: f64) -> i64 {
    number as i64
}

/// Elsa's `ConvertTo<T>`: also text to what it says, and numbers to text.
pub(super) fn convert_to(value: &Value, to: &Ty, meter: &Meter<'_>) -> Evaluated<Value> {
    if value.is_null() {
        return Ok(default_of(to));
    }
    let plain = to.plain();
    match (value, plain) {
        (
            Value::Text(text),
            Ty::Bool
            | Ty::Int
            | Ty::Long
            | Ty::Double
            | Ty::Decimal
            | Ty::Char
            | Ty::Date
            | Ty::Offset
            | Ty::Span
            | Ty::Guid
            | Ty::Enum(_),
        ) => {
            meter.steps(text.len() / 256)?;
            parse(text, plain, meter).ok_or_else(|| no_cast(value, to))
        }
        (Value::Text(_), Ty::Text) => Ok(value.clone()),
        (_, Ty::Text) => {
            let text = text_of(value);
            meter.hold(text.len())?;
            Ok(Value::Text(text))
        }
        (Value::Bool(flag), Ty::Int | Ty::Long | Ty::Double | Ty::Decimal) => {
            cast(Value::Int(i32::from(*flag)), plain, meter)
        }
        (number, Ty::Bool) if number.as_f64().is_some() => Ok(Value::Bool(number.as_f64() != Some(0.0))),
        (Value::Double(number), Ty::Int | Ty::Long) if number.fract() != 0.0 => Err(no_cast(value, to)),
        (Value::Long(number), Ty::Int) if i32::try_from(*number).is_err() => Err(no_cast(value, to)),
        (Value::List(list), Ty::List(kind, item)) => {
            let items = list.items.borrow();
            meter.hold(80 + 40 * items.len())?;
            let items = items
                .iter()
                .map(|one| meter.step().and_then(|()| convert_to(one, item, meter)))
                .collect::<Evaluated<Vec<_>>>()?;
            list_of(*kind, item, items, meter)
        }
        _ => cast(value.clone(), to, meter),
    }
}

/// A text as a value of a type; `None` if it is none of them.
pub(super) fn parse(text: &str, ty: &Ty, meter: &Meter<'_>) -> Option<Value> {
    let trimmed = text.trim();
    Some(match ty {
        Ty::Bool if trimmed.eq_ignore_ascii_case("true") => Value::Bool(true),
        Ty::Bool if trimmed.eq_ignore_ascii_case("false") => Value::Bool(false),
        Ty::Int => Value::Int(whole(trimmed)?.parse().ok()?),
        Ty::Long => Value::Long(whole(trimmed)?.parse().ok()?),
        Ty::Double => Value::Double(float(trimmed)?),
        Ty::Decimal => Value::Decimal(Decimal::parse(&ungrouped(trimmed)?)?),
        Ty::Char => match units(text).as_slice() {
            [unit] => Value::Char(*unit),
            _ => return None,
        },
        Ty::Date => Value::Date(ParsedDate::read(trimmed, meter.now())?.date_time()?),
        Ty::Offset => Value::Offset(ParsedDate::read(trimmed, meter.now())?.offset()),
        Ty::Span => Value::Span(span_of(trimmed)?),
        Ty::Guid => Value::Guid(guid_of(trimmed)?),
        Ty::Text => Value::text(text),
        Ty::Enum(kind) => Value::Enum(*kind, kind.number(trimmed)?),
        _ => return None,
    })
}

fn whole(text: &str) -> Option<&str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then_some(text)
}

/// Without the commas between thousands, which .NET reads anywhere before the point.
fn ungrouped(text: &str) -> Option<String> {
    let (whole, places) = text
        .split_once('.')
        .map_or((text, None), |(whole, places)| (whole, Some(places)));
    if whole.starts_with(',') {
        return None;
    }
    let whole = whole.replace(',', "");
    Some(match places {
        Some(places) => format!("{whole}.{places}"),
        None => whole,
    })
}

fn float(text: &str) -> Option<f64> {
    match text {
        "NaN" => return Some(f64::NAN),
        "Infinity" => return Some(f64::INFINITY),
        "-Infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.,eE".contains(&byte));
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    (is_plain && has_digit).then(|| ungrouped(text)?.parse().ok()).flatten()
}

pub(super) fn span_of(text: &str) -> Option<i64> {
    if text.starts_with('P') || text.starts_with("-P") {
        return None;
    }
    TimeSpan::parse(text).map(TimeSpan::ticks)
}

/// A GUID in four of .NET's forms; not as a structure.
pub(super) fn guid_of(text: &str) -> Option<Uuid> {
    let inner = match (text.chars().next()?, text.chars().last()?) {
        ('{', '}') | ('(', ')') => text.get(1..text.len() - 1)?,
        _ => text,
    };
    let is_form = inner.len() == 36 || (inner.len() == 32 && inner.len() == text.len());
    is_form.then(|| Uuid::try_parse(inner).ok()).flatten()
}
