//! The evaluation of expressions.

use chrono::{DateTime, Datelike};
use mainspring_language::{TimeSpan, parse_date_text};
use serde_json::Value as Json;

use super::budget::Builder;
use super::comparison::compare;
use super::data::{Fact, ValueKind};
use super::error::TemplateFailure;
use super::filters::Call;
use super::number;
use super::render::Renderer;
use super::syntax::{Connective, FilterCall, Path, PathSegment, TemplateExpression};
use super::value::{ITEM_BYTES, Text, Value};

/// Elsa's object of settings.
const CONFIGURATION: &str = "Configuration";

impl<'a> Renderer<'a, '_> {
    pub(super) fn evaluate(&self, expression: &'a TemplateExpression) -> Result<Value<'a>, TemplateFailure> {
        self.budget.spend(1)?;
        Ok(match expression {
            TemplateExpression::Empty => Value::Empty,
            TemplateExpression::Blank => Value::Blank,
            TemplateExpression::Boolean(flag) => Value::Boolean(*flag),
            TemplateExpression::Number(number) => Value::Number(*number),
            TemplateExpression::Text(text) => Value::Text(Text::Borrowed(text)),
            TemplateExpression::Path(path) => self.path(path)?,
            TemplateExpression::Range(ends) => {
                let (from, to) = &**ends;
                let from = self.evaluate(from)?.integer("the start of a range", &self.budget)?;
                let to = self.evaluate(to)?.integer("the end of a range", &self.budget)?;
                Value::Range(from, to)
            }
            TemplateExpression::Compare(parts) => {
                let (left, operator, right) = &**parts;
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                compare(left, *operator, &right, &self.budget)?
            }
            TemplateExpression::Logic { first, rest } => self.logic(first, rest)?,
            TemplateExpression::Filtered { input, calls } => {
                let mut value = self.evaluate(input)?;
                for call in calls {
                    value = self.filter(value, call).map_err(|failure| failure.placed(call.at))?;
                }
                value
            }
        })
    }

    fn logic(
        &self,
        first: &'a TemplateExpression,
        rest: &'a [(Connective, TemplateExpression)],
    ) -> Result<Value<'a>, TemplateFailure> {
        let mut values = Vec::with_capacity(rest.len() + 1);
        values.push(self.evaluate(first)?);
        for (_, expression) in rest {
            values.push(self.evaluate(expression)?);
        }
        let mut result = values.pop().unwrap_or(Value::Nil);
        for (connective, _) in rest.iter().rev() {
            let left = values.pop().unwrap_or(Value::Nil);
            let is_true = match connective {
                Connective::And => left.is_true() && result.is_true(),
                Connective::Or => left.is_true() || result.is_true(),
            };
            result = Value::compared(left, is_true);
        }
        Ok(result)
    }

    fn filter(&self, input: Value<'a>, call: &'a FilterCall) -> Result<Value<'a>, TemplateFailure> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for (name, expression) in &call.arguments {
            arguments.push((name.as_deref(), self.evaluate(expression)?));
        }
        self.budget.spend(2)?;
        (call.filter.apply)(Call {
            input,
            arguments: &arguments,
            budget: &self.budget,
            data: self.data,
        })
        .map_err(|failure| TemplateFailure {
            message: format!("{}: {}", call.filter.name, failure.message),
            ..failure
        })
    }

    /// A name, then its members; what is nil has none.
    fn path(&self, path: &'a Path) -> Result<Value<'a>, TemplateFailure> {
        let mut value = match self.local(&path.root)? {
            Some(value) if !value.is_nil() => value,
            _ if *path.root == *CONFIGURATION => return self.setting(path),
            _ => self
                .model_member(&path.root)
                .map_err(|failure| failure.placed(path.at))?,
        };
        for segment in &path.segments {
            if value.is_nil() {
                break;
            }
            value = match segment {
                PathSegment::Member(name) => self.member(&value, name),
                PathSegment::Index(index) => {
                    let index = self.evaluate(index)?;
                    match value {
                        Value::Model | Value::Variables | Value::Inputs => {
                            let name = index.text(&self.budget)?;
                            self.member(&value, &name)
                        }
                        value => value.index(&index, &self.budget),
                    }
                }
            }
            .map_err(|failure| failure.placed(path.at))?;
        }
        Ok(value)
    }

    /// A setting: what follows the name are the parts of its key, as .NET writes it.
    fn setting(&self, path: &'a Path) -> Result<Value<'a>, TemplateFailure> {
        let mut key = Builder::new(&self.budget);
        for (number, segment) in path.segments.iter().enumerate() {
            if number > 0 {
                key.push(':')?;
            }
            match segment {
                PathSegment::Member(name) => key.push_str(name)?,
                PathSegment::Index(index) => key.push_str(&self.evaluate(index)?.text(&self.budget)?)?,
            }
        }
        let found = self.data.setting(key.as_str());
        Ok(found.map_or(Value::Nil, |text| Value::Text(Text::of(text))))
    }

    fn member(&self, value: &Value<'a>, name: &str) -> Result<Value<'a>, TemplateFailure> {
        if !matches!(value, Value::Model | Value::Variables | Value::Inputs) {
            return value.member(name, &self.budget);
        }
        self.budget.spend_bytes(name.len())?;
        match value {
            Value::Variables => {
                let found = self.data.variable(name);
                found.map_or(Ok(Value::Nil), |json| self.host(json, || self.data.variable_kind(name)))
            }
            Value::Inputs => {
                let found = self.data.input(name);
                found.map_or(Ok(Value::Nil), |json| self.host(json, || self.data.input_kind(name)))
            }
            _ => self.model_member(name),
        }
    }

    /// A value of the host, which is asked for the kind only where it matters.
    fn host(&self, json: &'a Json, kind: impl Fn() -> ValueKind) -> Result<Value<'a>, TemplateFailure> {
        match json {
            Json::String(_) | Json::Array(_) => self.typed(json, kind()),
            json => Value::from_json(json),
        }
    }

    /// A text that is not what the host says stays a text.
    fn typed(&self, json: &'a Json, kind: ValueKind) -> Result<Value<'a>, TemplateFailure> {
        match (json, kind) {
            (Json::String(text), ValueKind::Date) => {
                self.budget.spend_bytes(text.len())?;
                let read = parse_date_text(text, self.data.now().into());
                Ok(read.map_or(Value::Text(Text::of(text)), |read| Value::Date(read.or_utc())))
            }
            (Json::String(text), ValueKind::Decimal) => {
                let number = number::parse(number::trimmed(text, &self.budget)?);
                Ok(number.map_or(Value::Text(Text::of(text)), Value::Number))
            }
            (Json::String(text), ValueKind::TimeSpan) => {
                self.budget.spend_bytes(text.len())?;
                let milliseconds = TimeSpan::parse(text).map(|span| span.ticks() / 10_000);
                let date = milliseconds.and_then(DateTime::from_timestamp_millis);
                let date = date.filter(|date| (1..=9999).contains(&date.year()));
                Ok(date.map_or(Value::Text(Text::of(text)), |date| Value::Date(date.fixed_offset())))
            }
            (Json::Array(items), ValueKind::Date | ValueKind::Decimal | ValueKind::TimeSpan) => {
                self.budget.check_memory(items.len().saturating_mul(ITEM_BYTES))?;
                let mut typed = Vec::with_capacity(items.len());
                for item in items {
                    self.budget.spend(1)?;
                    // A list in a list is what it is in JSON.
                    typed.push(match item {
                        Json::String(_) => self.typed(item, kind)?,
                        item => Value::from_json(item)?,
                    });
                }
                Value::list(typed, &self.budget)
            }
            (json, _) => Value::from_json(json),
        }
    }

    /// What the template can see from the start.
    fn model_member(&self, name: &str) -> Result<Value<'a>, TemplateFailure> {
        match name {
            "Variables" => return Ok(Value::Variables),
            "Input" => return Ok(Value::Inputs),
            "ExpressionExecutionContext" => return Ok(Value::Model),
            CONFIGURATION => {
                let message = "write Configuration.Name, without an object before it";
                return Err(TemplateFailure::invalid(message));
            }
            _ => {}
        }
        let Some(fact) = Fact::named(name) else {
            return Ok(Value::Nil);
        };
        match self.data.fact(fact) {
            Json::String(text) => Value::made(text, &self.budget),
            Json::Number(json) => number::from_json(&json).map(Value::Number),
            _ => Ok(Value::Nil),
        }
    }
}
