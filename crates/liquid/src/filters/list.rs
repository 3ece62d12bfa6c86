//! Filters for lists. A text counts as a list with one item, an object as the list of its pairs.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::text::{lower, upper};
use super::{Call, Filter, Filtered, filter, json, with};
use crate::budget::TemplateBudget;
use crate::comparison::equal;
use crate::error::TemplateFailure;
use crate::value::{ITEM_BYTES, Kind, Text, Value};
use mainspring_language::{Decimal, merge_sort};

pub(super) static FILTERS: [Filter; 18] = [
    filter("compact", |call| {
        let items = call.input.items(call.budget)?;
        Value::list(items.into_iter().filter(|item| !item.is_nil()).collect(), call.budget)
    }),
    filter("concat", concat),
    filter("find", |call| {
        find(&call).map(|found| found.map_or(Value::Nil, |(_, item)| item))
    }),
    filter("find_index", |call| {
        let place = find(&call)?.map(|(place, _)| i64::try_from(place).unwrap_or(i64::MAX));
        Ok(place.map_or(Value::Nil, Value::whole))
    }),
    filter("first", |call| call.input.member("first", call.budget)),
    filter("has", |call| {
        let found = find(&call)?;
        Ok(Value::Boolean(found.is_some_and(|(_, item)| !item.is_nil())))
    }),
    filter("join", join),
    filter("keys", keys),
    filter("last", |call| call.input.member("last", call.budget)),
    with("map", 1, "map: \"Name\"", map),
    filter("reject", |call| chosen(call, false)),
    filter("reverse", reverse),
    filter("size", |call| call.input.member("size", call.budget)),
    filter("sort", |call| sorted(&call, false)),
    filter("sort_natural", |call| sorted(&call, true)),
    filter("sum", |call| {
        let member = call.given(0).map(|member| call.text_of(member)).transpose()?;
        sum(&call.input, member.as_deref(), call.budget).map(Value::Number)
    }),
    filter("uniq", uniq),
    with("where", 1, "where: \"Name\", \"value\"", |call| chosen(call, true)),
];

fn concat<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let argument = call.argument(0);
    if call.input.kind() != Kind::List && argument.kind() != Kind::List {
        return Ok(call.input);
    }
    let mut items = Vec::new();
    for part in [call.input, argument] {
        if part.kind() == Kind::List {
            items.append(&mut part.items(call.budget)?);
        } else {
            items.push(part);
        }
    }
    Value::list(items, call.budget)
}

fn join<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    if call.input.kind() != Kind::List {
        return Ok(call.input);
    }
    let separator = call.argument_text(0)?;
    let mut joined = call.builder();
    let mut is_first = true;
    call.input.each(call.budget, |item| {
        if !std::mem::take(&mut is_first) {
            joined.push_str(&separator)?;
        }
        joined.push_str(&item.text(call.budget)?)
    })?;
    call.made(joined)
}

/// The names of an object's members.
fn keys<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let Value::Map(fields) = call.input.bare() else {
        return Err(TemplateFailure::invalid("a value that is not an object has no keys"));
    };
    call.budget.spend(u64::try_from(fields.len()).unwrap_or(u64::MAX))?;
    let keys = fields.keys().map(|key| Value::Text(Text::Borrowed(key)));
    Value::list(keys.collect(), call.budget)
}

fn map<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    if call.input.kind() != Kind::List {
        return Ok(call.input);
    }
    let member = call.argument_text(0)?;
    let items = call.input.items(call.budget)?;
    let mapped = items.iter().map(|item| item.member(&member, call.budget));
    Value::list(mapped.collect::<Result<_, _>>()?, call.budget)
}

/// `where` and `reject`: without a value, what counts as true.
fn chosen<'a>(call: Call<'a, '_>, is_kept: bool) -> Filtered<'a> {
    if call.input.kind() != Kind::List {
        return Ok(call.input);
    }
    let member = call.argument_text(0)?;
    let wanted = match call.argument(1) {
        nil if nil.is_nil() => Value::Boolean(true),
        value => value,
    };
    let mut chosen = Vec::new();
    for item in call.input.items(call.budget)? {
        if equal(&wanted, &item.member(&member, call.budget)?, call.budget)? == is_kept {
            chosen.push(item);
        }
    }
    Value::list(chosen, call.budget)
}

/// The first item whose member equals a value, and its place.
fn find<'a>(call: &Call<'a, '_>) -> Result<Option<(usize, Value<'a>)>, TemplateFailure> {
    let wanted = call.argument(1);
    if call.input.kind() != Kind::List || wanted.is_nil() {
        return Ok(None);
    }
    let member = call.argument_text(0)?;
    for place in 0..call.input.len() {
        if let Some(item) = call.input.item(place)?
            && equal(&wanted, &item.member(&member, call.budget)?, call.budget)?
        {
            return Ok(Some((place, item)));
        }
    }
    Ok(None)
}

fn reverse<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    match call.input.bare() {
        Value::Text(text) if text.is_empty() => Ok(Value::Text(Text::of(""))),
        Value::Text(text) => {
            let characters = text.chars().rev().map(|c| Value::made(c.into(), call.budget));
            call.budget.spend(u64::try_from(text.len()).unwrap_or(u64::MAX))?;
            call.budget
                .check_memory(text.len().saturating_mul(size_of::<Value<'_>>()))?;
            Value::list(characters.collect::<Result<_, _>>()?, call.budget)
        }
        list if list.kind() == Kind::List => {
            let mut items = list.items(call.budget)?;
            items.reverse();
            Value::list(items, call.budget)
        }
        _ => Ok(call.input),
    }
}

/// By a member: nil first, numbers by value, texts in the order of words. Without one: by text, in the order of code points.
fn sorted<'a>(call: &Call<'a, '_>, is_natural: bool) -> Filtered<'a> {
    let items = call.input.items(call.budget)?;
    // Each item has a key, and the sort copies both.
    call.budget.check_memory(items.len().saturating_mul(4 * ITEM_BYTES))?;
    let member = call.given(0).map(|member| call.text_of(member)).transpose()?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let key = match &member {
            Some(member) => item.member(member, call.budget)?,
            None if is_natural => {
                let text = call.text_of(&item)?;
                Value::made(text.chars().map(upper).collect(), call.budget)?
            }
            None => Value::Text(item.text(call.budget)?),
        };
        keyed.push((key, item));
    }
    if let Some(member) = &member {
        let kinds: HashSet<&str> = keyed.iter().filter_map(|(key, _)| sort_kind(key)).collect();
        if kinds.len() > 1 || kinds.contains("objects") {
            let message = format!(
                "the values of {} have no order; sort by a member that is text or a number",
                &**member
            );
            return Err(TemplateFailure::invalid(message));
        }
    }
    let by_text: fn(&str, &str) -> Ordering = if member.is_some() { by_word } else { str::cmp };
    merge_sort(&mut keyed, &mut |(one, _), (other, _)| {
        by_value(one, other, by_text, call.budget)
    })?;
    Value::list(keyed.into_iter().map(|(_, item)| item).collect(), call.budget)
}

fn sort_kind(key: &Value<'_>) -> Option<&'static str> {
    match key.kind() {
        Kind::Nil => None,
        Kind::Number => Some("numbers"),
        Kind::Text | Kind::Empty => Some("texts"),
        Kind::Boolean => Some("booleans"),
        Kind::Date => Some("dates"),
        _ => Some("objects"),
    }
}

fn by_value(
    one: &Value<'_>,
    other: &Value<'_>,
    by_text: fn(&str, &str) -> Ordering,
    budget: &TemplateBudget<'_>,
) -> Result<Ordering, TemplateFailure> {
    budget.spend(1)?;
    Ok(match (one.bare(), other.bare()) {
        (Value::Nil, Value::Nil) => Ordering::Equal,
        (Value::Nil, _) => Ordering::Less,
        (_, Value::Nil) => Ordering::Greater,
        (Value::Text(one), Value::Text(other)) => {
            budget.spend_bytes(one.len().min(other.len()))?;
            by_text(one, other)
        }
        (Value::Date(one), Value::Date(other)) => one.cmp(other),
        (one, other) => one.number(budget)?.cmp(&other.number(budget)?),
    })
}

/// The order of words: the case decides only between equal ones, and lower case comes first.
fn by_word(one: &str, other: &str) -> Ordering {
    let folded = one.chars().map(lower).cmp(other.chars().map(lower));
    folded.then_with(|| other.cmp(one))
}

fn sum(value: &Value<'_>, member: Option<&str>, budget: &TemplateBudget<'_>) -> Result<Decimal, TemplateFailure> {
    let mut total = Decimal::ZERO;
    value.each(budget, |item| {
        let number = match (item.bare(), member) {
            (list, _) if list.kind() == Kind::List => sum(list, member, budget)?,
            (Value::Number(_) | Value::Text(_), None) => item.number(budget)?,
            (Value::Map(_), Some(member)) => item.member(member, budget)?.number(budget)?,
            _ => Decimal::ZERO,
        };
        let added = total.add(number);
        total = added
            .ok_or_else(|| TemplateFailure::invalid("the sum has more than the 28 digits that a template supports"))?;
        Ok(())
    })?;
    Ok(total)
}

/// The items without those that an earlier one equals; a number and its text differ.
fn uniq<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let mut seen = HashSet::new();
    let mut held = call.budget.hold(0)?;
    let mut items = Vec::new();
    for item in call.input.items(call.budget)? {
        let mut key = call.builder();
        match &item {
            // Neither places nor an offset make a difference.
            Value::Number(number) => json::write(&Value::Number(number.without_zeros()), &mut key, call.budget)?,
            Value::Date(date) => json::write(&Value::Date(date.to_utc().fixed_offset()), &mut key, call.budget)?,
            item => json::write(item, &mut key, call.budget)?,
        }
        let key = key.finish()?;
        call.budget.check_memory(key.len())?;
        held.grow(key.len());
        if seen.insert(key) {
            items.push(item);
        }
    }
    Value::list(items, call.budget)
}
