//! Equality and order as in Fluid: the left side decides how the right side is read.

use std::cmp::Ordering;

use super::budget::TemplateBudget;
use super::error::TemplateFailure;
use super::value::{Kind, Value};

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Contains,
    StartsWith,
    EndsWith,
}

/// Whether `left` equals `right`. It is not symmetric: `1 == "1"` is true, and `"1" == 1` is not.
pub(super) fn equal<'a>(
    left: &Value<'a>,
    right: &Value<'a>,
    budget: &TemplateBudget<'_>,
) -> Result<bool, TemplateFailure> {
    budget.spend(1)?;
    let left = left.bare();
    Ok(match left {
        Value::Number(number) => match right {
            Value::Nil | Value::Empty | Value::Blank => false,
            right => *number == right.number(budget)?,
        },
        Value::Text(text) => match right {
            Value::Nil | Value::Empty | Value::Blank => equal(right, left, budget)?,
            right if right.kind() == Kind::Text => {
                let right = right.text(budget)?;
                budget.spend_bytes(if text.len() == right.len() { text.len() } else { 0 })?;
                **text == *right
            }
            _ => false,
        },
        Value::Boolean(flag) => *flag == right.is_true(),
        Value::Nil => matches!(right.bare(), Value::Nil | Value::Blank),
        Value::Empty => match right.bare() {
            Value::Text(text) => text.is_empty(),
            Value::Empty | Value::Blank => true,
            Value::Map(fields) => fields.is_empty(),
            list if list.kind() == Kind::List => list.len() == 0,
            _ => false,
        },
        Value::Blank => match right {
            Value::Blank | Value::Empty | Value::Nil | Value::Boolean(false) => true,
            Value::Text(text) => is_blank(text, budget)?,
            _ => false,
        },
        Value::Map(fields) => match right.bare() {
            Value::Nil | Value::Empty | Value::Blank => fields.is_empty(),
            Value::Map(other) => {
                if fields.len() != other.len() {
                    return Ok(false);
                }
                for (key, value) in *fields {
                    budget.spend_bytes(key.len())?;
                    let Some(other) = other.get(key) else { return Ok(false) };
                    if !equal(&Value::from_json(value)?, &Value::from_json(other)?, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => false,
        },
        list @ (Value::Items(_) | Value::List(_) | Value::Range(..)) => match right.bare() {
            Value::Nil | Value::Empty | Value::Blank => list.len() == 0,
            other if other.kind() == Kind::List && other.len() == list.len() => {
                for index in 0..list.len() {
                    let (Some(one), Some(other)) = (list.item(index)?, other.item(index)?) else {
                        return Ok(false);
                    };
                    if !equal(&one, &other, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => false,
        },
        Value::Date(date) => matches!(right.bare(), Value::Date(other) if date == other),
        _ => false,
    })
}

/// Whether a text is white space alone.
fn is_blank(text: &str, budget: &TemplateBudget<'_>) -> Result<bool, TemplateFailure> {
    for c in text.chars() {
        if !c.is_whitespace() {
            return Ok(false);
        }
        budget.spend(1)?;
    }
    Ok(true)
}

/// A comparison.
pub(super) fn compare<'a>(
    left: Value<'a>,
    operator: Operator,
    right: &Value<'a>,
    budget: &TemplateBudget<'_>,
) -> Result<Value<'a>, TemplateFailure> {
    let result = match operator {
        Operator::Equal => equal(&left, right, budget)?,
        Operator::NotEqual => !equal(&left, right, budget)?,
        Operator::Contains => contains(&left, right, budget)?,
        Operator::StartsWith | Operator::EndsWith => {
            let at_start = operator == Operator::StartsWith;
            if matches!(left, Value::Items(_) | Value::List(_) | Value::Range(..)) {
                equal(
                    &left.member(if at_start { "first" } else { "last" }, budget)?,
                    right,
                    budget,
                )?
            } else {
                let (text, part) = (left.text(budget)?, right.text(budget)?);
                budget.spend_bytes(part.len())?;
                if at_start {
                    text.starts_with(&*part)
                } else {
                    text.ends_with(&*part)
                }
            }
        }
        _ => match order(&left, right, operator, budget)? {
            Some(result) => result,
            // Values without an order are written as nothing.
            None => return Ok(Value::compared(Value::Nil, false)),
        },
    };
    Ok(Value::compared(left, result))
}

/// Whether the order of two values is as the operator says; `None` if they have no order.
fn order<'a>(
    left: &Value<'a>,
    right: &Value<'a>,
    operator: Operator,
    budget: &TemplateBudget<'_>,
) -> Result<Option<bool>, TemplateFailure> {
    let or_equal = matches!(operator, Operator::GreaterOrEqual | Operator::LessOrEqual);
    if left.is_nil() || right.is_nil() {
        return Ok(Some(or_equal && left.is_nil() && right.is_nil()));
    }
    let ordering = match left {
        Value::Number(number) => number.cmp(&right.number(budget)?),
        Value::Text(text) => {
            let right = right.text(budget)?;
            budget.spend_bytes(text.len().min(right.len()))?;
            (**text).cmp(&*right)
        }
        _ => return Ok(None),
    };
    Ok(Some(
        match operator {
            Operator::Greater | Operator::GreaterOrEqual => ordering == Ordering::Greater,
            _ => ordering == Ordering::Less,
        } || (or_equal && ordering == Ordering::Equal),
    ))
}

/// Whether a text has a part, or a list an item.
fn contains<'a>(left: &Value<'a>, right: &Value<'a>, budget: &TemplateBudget<'_>) -> Result<bool, TemplateFailure> {
    match left.bare() {
        Value::Text(text) => {
            let part = right.text(budget)?;
            budget.spend_bytes(text.len() + part.len())?;
            Ok(text.contains(&*part))
        }
        list if list.kind() == Kind::List => {
            for index in 0..list.len() {
                if let Some(item) = list.item(index)?
                    && equal(&item, right, budget)?
                {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Ok(false),
    }
}
