//! Text: the results of `ToString()`, and the UTF-16 that .NET counts in.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use mainspring_language::Collation;

use super::date_time::{DateKind, DateTime};
use super::format;
use super::object::Object;
use super::problem::{Evaluated, Stop, StopKind};
use super::run::Meter;
use super::types::{ListKind, Ty};
use super::value::{RecordKind, Value};

/// In bytes: the longest text of an anonymous object or a tuple.
const LONGEST_RECORD: usize = 1 << 20;

pub(super) fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

pub(super) fn of_units(units: &[u16]) -> Evaluated<Arc<str>> {
    match String::from_utf16(units) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(Stop::new(
            StopKind::InvalidText,
            "a text is cut inside a character that takes two chars, which cannot be stored",
        )),
    }
}

/// The length in UTF-16.
pub(super) fn length(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.encode_utf16().count()
    }
}

/// `ToString()`; null is the empty text.
pub(super) fn text_of(value: &Value) -> Arc<str> {
    match value {
        Value::Text(text) => Arc::clone(text),
        Value::Null => "".into(),
        Value::Bool(flag) => if *flag { "True" } else { "False" }.into(),
        Value::Int(number) => number.to_string().into(),
        Value::Long(number) => number.to_string().into(),
        Value::Double(number) => mainspring_language::double_text(*number).into(),
        Value::Decimal(number) => number.to_string().into(),
        Value::Char(unit) => char_text(*unit).into(),
        Value::Date(date) => format::date(*date, "").unwrap_or_default().into(),
        Value::Offset(at) => format::offset(*at, "").unwrap_or_default().into(),
        Value::Span(ticks) => format::span(*ticks, "").unwrap_or_default().into(),
        Value::Guid(guid) => guid.to_string().into(),
        Value::Enum(kind, number) => {
            let member = kind.member(*number);
            member.map_or_else(|| number.to_string().into(), Arc::from)
        }
        Value::List(list) => match list.kind {
            ListKind::Array => format!("{}[]", dotnet_name(&list.item)).into(),
            ListKind::List => format!("System.Collections.Generic.List`1[{}]", dotnet_name(&list.item)).into(),
            ListKind::Set => format!("System.Collections.Generic.HashSet`1[{}]", dotnet_name(&list.item)).into(),
            ListKind::Sequence => format!("System.Linq.Enumerable+Iterator`1[{}]", dotnet_name(&list.item)).into(),
        },
        Value::Map(map) if map.is_object => "System.Dynamic.ExpandoObject".into(),
        Value::Map(map) => {
            let (key, value) = (dotnet_name(&map.key), dotnet_name(&map.value));
            format!("System.Collections.Generic.Dictionary`2[{key},{value}]").into()
        }
        Value::Record(_) => {
            let mut out = String::new();
            write_record(value, &mut out);
            out.into()
        }
        Value::Object(object) => object_text(object),
        Value::Function(function) => dotnet_name(&Ty::Function(Arc::clone(&function.ty))).into(),
    }
}

fn object_text(object: &Object) -> Arc<str> {
    match object {
        Object::Builder(text) => text.borrow().as_str().into(),
        Object::Match(found) | Object::Groups(found) => found.value(0).into(),
        Object::Group(found, group) => found.value(*group).into(),
        Object::Regex(pattern) => pattern.source().into(),
        Object::Exception(exception) => format!("System.{}: {}", exception.name, exception.message).into(),
        Object::Encoding(_) => "System.Text.Encoding".into(),
    }
}

/// Into one text, which ends where it is too long: parts may be shared without end.
fn write_record(value: &Value, out: &mut String) {
    let Value::Record(record) = value else {
        out.push_str(&text_of(value));
        return;
    };
    let (open, close) = match record.kind {
        RecordKind::Anonymous => ("{ ", " }"),
        RecordKind::Tuple => ("(", ")"),
        RecordKind::Pair => ("[", "]"),
    };
    out.push_str(open);
    for (number, (name, value)) in record.fields.iter().enumerate() {
        if out.len() > LONGEST_RECORD {
            return;
        }
        if number > 0 {
            out.push_str(", ");
        }
        if record.kind == RecordKind::Anonymous {
            let _ = write!(out, "{name} = ");
        }
        write_record(value, out);
    }
    out.push_str(close);
}

fn char_text(unit: u16) -> String {
    char::from_u32(u32::from(unit)).unwrap_or('\u{fffd}').to_string()
}

fn dotnet_name(ty: &Ty) -> String {
    match ty {
        Ty::Dynamic | Ty::Null | Ty::Void | Ty::Lambda | Ty::Record(_) => "System.Object".to_owned(),
        Ty::Bool => "System.Boolean".to_owned(),
        Ty::Int => "System.Int32".to_owned(),
        Ty::Long => "System.Int64".to_owned(),
        Ty::Text => "System.String".to_owned(),
        Ty::Function(function) => {
            let is_action = function.result == Ty::Void;
            let name = if is_action { "Action" } else { "Func" };
            let result = (!is_action).then_some(&function.result);
            let all: Vec<String> = function.parameters.iter().chain(result).map(dotnet_name).collect();
            format!("System.{name}`{}[{}]", all.len(), all.join(","))
        }
        Ty::Nullable(inner) => format!("System.Nullable`1[{}]", dotnet_name(inner)),
        Ty::List(ListKind::Array, item) => format!("{}[]", dotnet_name(item)),
        Ty::List(_, item) => format!("System.Collections.Generic.List`1[{}]", dotnet_name(item)),
        other => {
            let name = other.to_string();
            let mut chars = name.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            format!("System.{first}{}", chars.as_str())
        }
    }
}

/// A value by a format string.
pub(super) fn formatted(value: &Value, format: &str) -> Evaluated<Arc<str>> {
    let written = match value {
        Value::Int(_) | Value::Long(_) | Value::Double(_) | Value::Decimal(_) => format::number(value, format),
        Value::Date(date) => format::date(*date, format),
        Value::Offset(at) => format::offset(*at, format),
        Value::Span(ticks) => format::span(*ticks, format),
        Value::Guid(guid) => match format {
            "" | "d" | "D" => Ok(guid.to_string()),
            "n" | "N" => Ok(guid.simple().to_string()),
            "b" | "B" => Ok(guid.braced().to_string()),
            "p" | "P" => Ok(format!("({guid})")),
            other => Err(format::FormatError(format!("the format {other} of a Guid is invalid"))),
        },
        Value::Enum(_, number) if matches!(format, "d" | "D") => Ok(number.to_string()),
        other => return Ok(text_of(other)),
    };
    written
        .map(Arc::from)
        .map_err(|error| Stop::thrown("FormatException", error.0))
}

/// Fills up to a width; a negative one fills behind.
pub(super) fn aligned(text: &str, width: i32) -> String {
    let missing = usize::try_from(width.unsigned_abs())
        .unwrap_or(0)
        .saturating_sub(length(text));
    let blanks = " ".repeat(missing);
    if width < 0 {
        format!("{text}{blanks}")
    } else {
        format!("{blanks}{text}")
    }
}

/// Whether a format can be one of this type; types that are known only later are not checked.
pub(super) fn check_format(ty: &Ty, format: &str) -> Result<(), String> {
    let date = DateTime {
        ticks: 0,
        kind: DateKind::Utc,
    };
    let sample = match ty.plain() {
        Ty::Int => Value::Int(1),
        Ty::Long => Value::Long(1),
        Ty::Double => Value::Double(1.0),
        Ty::Decimal => Value::Decimal(mainspring_language::Decimal::from_i64(1)),
        Ty::Date => Value::Date(date),
        Ty::Span => Value::Span(0),
        Ty::Guid => Value::Guid(uuid::Uuid::nil()),
        _ => return Ok(()),
    };
    formatted(&sample, format)
        .map(drop)
        .map_err(|stop| stop.message.replace("FormatException: ", ""))
}

/// Bytes of a text whose comparison is as much work as a step.
const BYTES_OF_STEP: usize = 16;

/// The order of `string.Compare`: that of words.
pub(super) fn collate(a: &str, b: &str, meter: &Meter<'_>) -> Evaluated<Ordering> {
    meter.steps((a.len() + b.len()) / BYTES_OF_STEP)?;
    Ok(Collation::root().compare(a, b))
}

/// Each character that has one in upper case alone.
pub(super) fn upper(text: &str) -> String {
    text.chars().map(upper_char).collect()
}

pub(super) fn lower(text: &str) -> String {
    text.chars().map(lower_char).collect()
}

pub(super) fn upper_char(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

pub(super) fn lower_char(c: char) -> char {
    let mut all = c.to_lowercase();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}
