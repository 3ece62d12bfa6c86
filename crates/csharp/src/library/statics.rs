//! Static members: `Math.PI`, `DateTime.Parse(…)`, `Enumerable.Range(…)`.

use super::arguments::Arguments;
use super::parsing::{parsed, type_of};
use super::{dates, json, numbers, regexes, strings};
use crate::convert::{default_of, parse};
use crate::date_time::{
    DateKind, DateTime, DateTimeOffset, MOST_TICKS, TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MILLISECOND,
    TICKS_PER_MINUTE, TICKS_PER_SECOND, UNIX_TICKS, ticks_of,
};
use crate::object::{Encoding, Object};
use crate::problem::{Evaluated, Stop};
use crate::run::{Argument, Machine};
use crate::syntax::Call;
use crate::types::{EnumKind, ListKind, Ty};
use crate::value::Value;
use mainspring_language::Decimal;

/// The longest sequence that `Enumerable` makes.
const MOST_ITEMS: usize = 1_000_000;

/// `Owner.Name`.
pub(crate) fn static_property(machine: &Machine<'_>, owner: &str, name: &str) -> Evaluated<Value> {
    if let Some(kind) = EnumKind::of(owner) {
        return Ok(Value::Enum(kind, kind.number(name).unwrap_or(0)));
    }
    let date = |ticks: i64, kind: DateKind| Value::Date(DateTime { ticks, kind });
    let now = || ticks_of(machine.now());
    let offset = |ticks: i64| Value::Offset(DateTimeOffset { ticks, minutes: 0 });
    Ok(match (owner, name) {
        ("string", "Empty") => Value::text(""),
        ("char", "MaxValue") => Value::Char(u16::MAX),
        ("char", "MinValue") => Value::Char(0),
        ("double", "MaxValue") => Value::Double(f64::MAX),
        ("double", "MinValue") => Value::Double(f64::MIN),
        ("double", "NaN") => Value::Double(f64::NAN),
        ("double", "Epsilon") => Value::Double(5e-324),
        ("double", "PositiveInfinity") => Value::Double(f64::INFINITY),
        ("double", "NegativeInfinity") => Value::Double(f64::NEG_INFINITY),
        ("decimal", "MaxValue") => Value::Decimal(Decimal::MAX),
        ("decimal", "MinValue") => Value::Decimal(Decimal::MAX.negate()),
        ("decimal", "Zero") => Value::Decimal(Decimal::ZERO),
        ("decimal", "One") => Value::Decimal(Decimal::from_i64(1)),
        ("decimal", "MinusOne") => Value::Decimal(Decimal::from_i64(-1)),
        ("bool", "TrueString") => Value::text("True"),
        ("bool", "FalseString") => Value::text("False"),
        ("Math", "PI") => Value::Double(std::f64::consts::PI),
        ("Math", "E") => Value::Double(std::f64::consts::E),
        ("DateTime", "Now") => date(now(), DateKind::Local),
        ("DateTime", "UtcNow") => date(now(), DateKind::Utc),
        ("DateTime", "Today") => {
            let ticks = now();
            date(ticks - ticks % TICKS_PER_DAY, DateKind::Local)
        }
        ("DateTime", "MinValue") => date(0, DateKind::Unspecified),
        ("DateTime", "MaxValue") => date(MOST_TICKS, DateKind::Unspecified),
        ("DateTime", "UnixEpoch") => date(UNIX_TICKS, DateKind::Utc),
        ("DateTimeOffset", "Now" | "UtcNow") => offset(now()),
        ("DateTimeOffset", "MinValue") => offset(0),
        ("DateTimeOffset", "MaxValue") => offset(MOST_TICKS),
        ("DateTimeOffset", "UnixEpoch") => offset(UNIX_TICKS),
        ("TimeSpan", "Zero") => Value::Span(0),
        ("TimeSpan", "MaxValue") => Value::Span(i64::MAX),
        ("TimeSpan", "MinValue") => Value::Span(i64::MIN),
        ("TimeSpan", "TicksPerDay") => Value::Long(TICKS_PER_DAY),
        ("TimeSpan", "TicksPerHour") => Value::Long(TICKS_PER_HOUR),
        ("TimeSpan", "TicksPerMinute") => Value::Long(TICKS_PER_MINUTE),
        ("TimeSpan", "TicksPerSecond") => Value::Long(TICKS_PER_SECOND),
        ("TimeSpan", "TicksPerMillisecond") => Value::Long(TICKS_PER_MILLISECOND),
        ("Encoding", "UTF8") => Value::object(Object::Encoding(Encoding::Utf8)),
        ("Encoding", "ASCII") => Value::object(Object::Encoding(Encoding::Ascii)),
        ("Guid", "Empty") => Value::Guid(uuid::Uuid::nil()),
        // The only culture, and the styles that change nothing.
        ("CultureInfo" | "NumberStyles" | "DateTimeStyles", _) => Value::Null,
        _ => {
            return Err(Stop::thrown(
                "MissingMemberException",
                format!("{owner} has no member {name}"),
            ));
        }
    })
}

/// `Owner.Name(…)`.
pub(crate) fn call_static(
    machine: &Machine<'_>,
    owner: &str,
    call: &Call,
    arguments: &[Argument<'_>],
) -> Evaluated<Value> {
    let arguments = Arguments::new(machine, arguments, &call.name);
    let name = &*call.name;
    if name == "TryParse" || name == "TryParseExact" {
        return try_parse(owner, name, &arguments);
    }
    let found = match owner {
        "string" | "char" => strings::call_static(owner, name, &arguments)?,
        "int" | "long" | "double" | "decimal" | "bool" | "Math" | "Convert" => {
            numbers::call_static(owner, name, &arguments)?
        }
        "DateTime" | "DateTimeOffset" | "TimeSpan" => dates::call_static(owner, name, &arguments)?,
        "Guid" => match name {
            "NewGuid" => Some(Value::Guid(uuid::Uuid::new_v4())),
            "Parse" => Some(parsed(&Ty::Guid, &arguments)?),
            _ => None,
        },
        "Enumerable" | "Array" => enumerable(name, call, &arguments)?,
        "Regex" => regexes::call_static(name, &arguments)?,
        "BitConverter" => match name {
            "ToString" => Some(numbers::hex(&arguments, "-")?),
            _ => None,
        },
        "JsonSerializer" | "JsonNode" => json::call_static(name, call, &arguments)?,
        _ => None,
    };
    found.ok_or_else(|| Stop::thrown("MissingMethodException", format!("{owner} has no method {name}")))
}

fn try_parse(owner: &str, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let ty = type_of(owner);
    let text = match arguments.value(0)? {
        Value::Text(text) => {
            arguments.read(text)?;
            Some(text)
        }
        _ => None,
    };
    let value = match (text, name) {
        (Some(text), "TryParseExact") => dates::parse_exact(text, &arguments.text(1)?),
        (Some(text), _) => parse(text, &ty, arguments.meter()),
        (None, _) => None,
    };
    let is_parsed = value.is_some();
    if let Some(place) = arguments.out_place() {
        arguments.out(place, value.unwrap_or_else(|| default_of(&ty)));
    }
    Ok(Value::Bool(is_parsed))
}

fn enumerable(name: &str, call: &Call, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let count = |number: usize| -> Evaluated<usize> {
        let count = arguments.place(number)?;
        if count > MOST_ITEMS {
            let message = format!("a sequence of more than {MOST_ITEMS} items is too large");
            return Err(Stop::thrown("OutOfMemoryException", message));
        }
        arguments.meter().hold(40 * count)?;
        Ok(count)
    };
    Ok(Some(match name {
        "Range" => {
            let count = count(1)?;
            let start = arguments.long(0)?;
            let end = start.checked_add(i64::try_from(count).unwrap_or(i64::MAX));
            if end.is_none_or(|end| end > i64::from(i32::MAX) + 1) {
                return Err(Stop::thrown("ArgumentOutOfRangeException", "the range exceeds int"));
            }
            let start = i32::try_from(start).unwrap_or(0);
            let items = (0..count).map(|at| Value::Int(start.wrapping_add(i32::try_from(at).unwrap_or(0))));
            Value::list(ListKind::Sequence, Ty::Int, items.collect())
        }
        "Repeat" => {
            let value = arguments.value(0)?;
            Value::list(ListKind::Sequence, value.shallow_ty(), vec![value.clone(); count(1)?])
        }
        "Empty" => {
            let item = call.types.first().cloned().unwrap_or(Ty::Dynamic);
            let kind = if call.result.to_string().ends_with("[]") {
                ListKind::Array
            } else {
                ListKind::Sequence
            };
            Value::list(kind, item, Vec::new())
        }
        "IndexOf" => {
            let items = super::items_of(arguments.value(0)?, arguments.meter())?;
            let wanted = arguments.value(1)?;
            let place = arguments.meter().place_of(&items, wanted)?;
            place.map_or(Value::Int(-1), super::count)
        }
        _ => return Ok(None),
    }))
}
