//! The filters `format_number` and `format_string`: .NET's formats of numbers, in the invariant culture.

use super::date_format::dotnet;
use super::number_format::number;
use super::{Call, Filter, Filtered, filter};
use crate::budget::{Builder, TemplateBudget};
use crate::error::TemplateFailure;
use crate::value::Value;

pub(super) static FILTERS: [Filter; 2] = [
    filter("format_number", |call| {
        if call.argument(0).is_nil() {
            return Ok(Value::Nil);
        }
        invariant_culture(call.given(1), call.budget)?;
        let format = call.argument_text(0)?;
        let mut text = call.builder();
        number(call.input.number(call.budget)?, &format, &mut text)?;
        call.made(text)
    }),
    filter("format_string", format_string),
];

/// Refuses every culture but the invariant one.
pub(super) fn invariant_culture(
    culture: Option<&Value<'_>>,
    budget: &TemplateBudget<'_>,
) -> Result<(), TemplateFailure> {
    let Some(culture) = culture.filter(|culture| !culture.is_nil()) else {
        return Ok(());
    };
    let name = culture.text(budget)?;
    if name.is_empty() {
        return Ok(());
    }
    let name: String = name.chars().take(40).collect();
    Err(TemplateFailure::invalid(format!(
        "the culture {name} is not known; templates format in the invariant culture, so leave it out"
    )))
}

/// `{0}`, `{0,8}` and `{0:format}`, with the arguments of the filter.
fn format_string<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    if call.input.is_nil() {
        return Ok(Value::Nil);
    }
    invariant_culture(call.named("culture"), call.budget)?;
    let format = call.text()?;
    let mut text = call.builder();
    let mut rest = &*format;
    while let Some(at) = rest.find(['{', '}']) {
        call.budget.spend(1)?;
        let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        text.push_str(before)?;
        if let Some(doubled) = after.strip_prefix("{{") {
            text.push('{')?;
            rest = doubled;
            continue;
        }
        if let Some(doubled) = after.strip_prefix("}}") {
            text.push('}')?;
            rest = doubled;
            continue;
        }
        let item = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let Some((item, after)) = item else {
            let message = "a brace is not closed; write {0} for the first argument, and {{ for a brace";
            return Err(TemplateFailure::invalid(message));
        };
        write_item(&call, item, &mut text)?;
        rest = after;
    }
    text.push_str(rest)?;
    call.made(text)
}

fn write_item(call: &Call<'_, '_>, item: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    let (place, format) = item.split_once(':').unwrap_or((item, ""));
    let (place, width) = place.split_once(',').unwrap_or((place, "0"));
    let value = place.trim().parse::<usize>().ok().and_then(|place| call.given(place));
    let (Some(value), Ok(width)) = (value, width.trim().parse::<i32>()) else {
        let shown: String = item.chars().take(40).collect();
        return Err(TemplateFailure::invalid(format!(
            "there is no argument for {{{shown}}}; give the filter one more"
        )));
    };
    let mut shown = call.builder();
    match value.bare() {
        Value::Number(value) => number(*value, format, &mut shown)?,
        Value::Date(date) => dotnet(date, format, &mut shown)?,
        Value::Boolean(flag) => shown.push_str(if *flag { "True" } else { "False" })?,
        value => shown.push_str(&value.text(call.budget)?)?,
    }
    let missing = usize::try_from(width.unsigned_abs()).unwrap_or(0);
    let missing = missing.saturating_sub(shown.as_str().encode_utf16().count());
    if width > 0 {
        text.push_repeated(' ', missing)?;
    }
    text.push_str(shown.as_str())?;
    if width < 0 {
        text.push_repeated(' ', missing)?;
    }
    Ok(())
}
