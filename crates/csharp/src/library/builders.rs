//! Members of `StringBuilder`, and of encodings.

use std::cell::RefCell;
use std::rc::Rc;

use super::arguments::Arguments;
use super::count;
use super::strings::{all, composite, joined};
use crate::convert::{bytes_of, bytes_value};
use crate::object::{Encoding, Object};
use crate::problem::{Evaluated, Stop};
use crate::run::Meter;
use crate::text::{length, of_units, text_of};
use crate::types::Ty;
use crate::value::Value;

fn out_of_range() -> Box<Stop> {
    Stop::thrown("ArgumentOutOfRangeException", "the index is outside of the text")
}

/// The place in bytes of one in UTF-16.
fn place(text: &str, units: usize, meter: &Meter<'_>) -> Evaluated<usize> {
    meter.steps(text.len() / 64)?;
    if text.is_ascii() {
        return if units <= text.len() {
            Ok(units)
        } else {
            Err(out_of_range())
        };
    }
    let mut left = units;
    for (at, character) in text.char_indices() {
        if left == 0 {
            return Ok(at);
        }
        left = left.checked_sub(character.len_utf16()).ok_or_else(out_of_range)?;
    }
    if left == 0 { Ok(text.len()) } else { Err(out_of_range()) }
}

/// What is appended of a value: the chars of an array of them.
fn shown(value: &Value, meter: &Meter<'_>) -> Evaluated<std::sync::Arc<str>> {
    match value {
        Value::List(list) if list.item == Ty::Char => {
            let items = list.items.borrow();
            meter.steps(items.len())?;
            let units: Vec<u16> = items
                .iter()
                .filter_map(|item| u16::try_from(item.as_i64()?).ok())
                .collect();
            of_units(&units)
        }
        other => Ok(text_of(other)),
    }
}

pub(super) fn call(
    builder: &Rc<Object>,
    text: &RefCell<String>,
    name: &str,
    arguments: &Arguments<'_, '_>,
) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    let append = |part: &str| -> Evaluated<()> {
        meter.hold(part.len())?;
        text.borrow_mut().push_str(part);
        Ok(())
    };
    match name {
        "Append" => {
            let part = match arguments.optional(0) {
                Some(value) => shown(value, meter)?,
                None => "".into(),
            };
            let times = if arguments.len() > 1 { arguments.place(1)? } else { 1 };
            meter.hold(part.len().saturating_mul(times))?;
            text.borrow_mut().push_str(&part.repeat(times));
        }
        "AppendLine" => {
            if arguments.len() > 0 && !arguments.value(0)?.is_null() {
                append(&arguments.text(0)?)?;
            }
            append("\n")?;
        }
        "AppendFormat" => {
            let format = arguments.text(0)?;
            append(&composite(&format, &all(arguments, 1)?, arguments)?)?;
        }
        "AppendJoin" => {
            let separator = arguments.text_or_char(0)?;
            append(&joined(&separator, &all(arguments, 1)?, arguments)?)?;
        }
        "Insert" => {
            let part = shown(arguments.value(1)?, meter)?;
            let at = place(&text.borrow(), arguments.place(0)?, meter)?;
            meter.hold(part.len())?;
            text.borrow_mut().insert_str(at, &part);
        }
        "Replace" => {
            let (old, new) = (arguments.text_or_char(0)?, arguments.text_or_char(1)?);
            if old.is_empty() {
                return Err(Stop::thrown("ArgumentException", "the replaced string is empty"));
            }
            let count = text.borrow().matches(&*old).count();
            meter.hold(text.borrow().len().saturating_add(count.saturating_mul(new.len())))?;
            let replaced = text.borrow().replace(&*old, &new);
            *text.borrow_mut() = replaced;
        }
        "Remove" => {
            let (start, count) = (arguments.place(0)?, arguments.place(1)?);
            let end = start.checked_add(count).ok_or_else(out_of_range)?;
            let (start, end) = {
                let text = text.borrow();
                (place(&text, start, meter)?, place(&text, end, meter)?)
            };
            text.borrow_mut().drain(start..end);
        }
        "Clear" => text.borrow_mut().clear(),
        "ToString" => {
            let text = text.borrow();
            let part = if arguments.len() == 2 {
                super::strings::slice(&text, arguments.place(0)?, Some(arguments.place(1)?))?
            } else {
                text.as_str().into()
            };
            meter.hold(part.len())?;
            return Ok(Some(Value::Text(part)));
        }
        _ => return Ok(None),
    }
    Ok(Some(Value::Object(Rc::clone(builder))))
}

/// The length in UTF-16.
pub(super) fn length_of(text: &RefCell<String>, meter: &Meter<'_>) -> Evaluated<Value> {
    let text = text.borrow();
    meter.steps(text.len() / if text.is_ascii() { 1024 } else { 64 })?;
    Ok(count(length(&text)))
}

/// `builder.Length = n`: it is cut, or filled up with U+0000.
pub(super) fn set_length(text: &RefCell<String>, wanted: &Value, meter: &Meter<'_>) -> Evaluated<()> {
    let wanted = wanted.as_i64().and_then(|wanted| usize::try_from(wanted).ok());
    let wanted = wanted.ok_or_else(out_of_range)?;
    let known = length(&text.borrow());
    if let Some(missing) = wanted.checked_sub(known) {
        meter.hold(missing)?;
        text.borrow_mut().push_str(&"\0".repeat(missing));
        return Ok(());
    }
    let at = place(&text.borrow(), wanted, meter)?;
    text.borrow_mut().truncate(at);
    Ok(())
}

/// Members of an encoding.
pub(super) fn of_encoding(encoding: Encoding, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    let encoded = || -> Evaluated<Vec<u8>> {
        let text = arguments.text(0)?;
        meter.hold(41 * text.len())?;
        Ok(match encoding {
            Encoding::Utf8 => text.as_bytes().to_vec(),
            Encoding::Ascii => text
                .encode_utf16()
                .map(|unit| u8::try_from(unit).ok().filter(u8::is_ascii).unwrap_or(b'?'))
                .collect(),
        })
    };
    Ok(Some(match name {
        "GetBytes" => bytes_value(&encoded()?),
        "GetByteCount" => count(encoded()?.len()),
        "GetString" => {
            let Value::List(list) = arguments.value(0)? else {
                return Err(Stop::thrown("ArgumentException", "GetString takes a byte[]"));
            };
            meter.hold(4 * list.items.borrow().len())?;
            let bytes = bytes_of(list);
            match encoding {
                Encoding::Utf8 => Value::text(String::from_utf8_lossy(&bytes).into_owned()),
                Encoding::Ascii => {
                    let shown = bytes
                        .iter()
                        .map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' });
                    Value::text(shown.collect::<String>())
                }
            }
        }
        _ => return Ok(None),
    }))
}
