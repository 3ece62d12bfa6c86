//! Statements.

use super::{Flow, Machine};
use crate::convert::{default_of, implicit};
use crate::library::items_of;
use crate::problem::{Evaluated, Stop};
use crate::syntax::{Expr, Statement, StatementKind};
use crate::value::Value;

impl Machine<'_> {
    pub(super) fn statement(&self, statement: &Statement) -> Evaluated<Flow> {
        self.meter.step()?;
        match &statement.kind {
            StatementKind::Empty => Ok(Flow::Next),
            StatementKind::Expression(expr) => {
                self.eval(expr)?;
                Ok(Flow::Next)
            }
            StatementKind::Declare(list) => {
                for (place, value) in list {
                    let value = match value {
                        Some(value) => self.eval(value)?,
                        None => default_of(&place.ty),
                    };
                    self.set_local(place.slot, value);
                }
                Ok(Flow::Next)
            }
            StatementKind::Deconstruct(places, value) => {
                let Value::Record(record) = self.eval(value)? else {
                    return Err(Stop::thrown("RuntimeBinderException", "this value has no parts"));
                };
                for (place, (_, part)) in places.iter().zip(&record.fields) {
                    self.set_local(place.slot, part.clone());
                }
                Ok(Flow::Next)
            }
            StatementKind::If(condition, then, otherwise) => {
                if self.holds(condition)? {
                    self.statement(then)
                } else if let Some(otherwise) = otherwise {
                    self.statement(otherwise)
                } else {
                    Ok(Flow::Next)
                }
            }
            StatementKind::Return(value) => Ok(Flow::Return(match value {
                Some(value) => self.eval(value)?,
                None => Value::Null,
            })),
            StatementKind::Break => Ok(Flow::Break),
            StatementKind::Continue => Ok(Flow::Continue),
            StatementKind::Block(list) => {
                for statement in list {
                    match self.statement(statement)? {
                        Flow::Next => {}
                        other => return Ok(other),
                    }
                }
                Ok(Flow::Next)
            }
            StatementKind::ForEach(place, list, body) => {
                let list = self.eval(list)?;
                // The items of a list are read where they are: a copy would stay until the loop ends.
                let copied = match &list {
                    Value::List(_) => Vec::new(),
                    other => super::located(items_of(other, &self.meter), statement.at)?,
                };
                let of_list = || match &list {
                    Value::List(list) => Some(list.items.borrow()),
                    _ => None,
                };
                let count = of_list().map_or(copied.len(), |items| items.len());
                let version = if let Value::List(list) = &list {
                    list.version.get()
                } else {
                    0
                };
                for number in 0..count {
                    let item =
                        of_list().map_or_else(|| copied.get(number).cloned(), |items| items.get(number).cloned());
                    let Some(item) = item else { break };
                    self.set_local(place.slot, super::located(implicit(item, &place.ty), place.at)?);
                    match self.statement(body)? {
                        Flow::Break => break,
                        returned @ Flow::Return(_) => return Ok(returned),
                        Flow::Next | Flow::Continue => {}
                    }
                    if let Value::List(list) = &list {
                        super::located(list.unchanged_since(version, "foreach"), statement.at)?;
                    }
                }
                Ok(Flow::Next)
            }
            StatementKind::For(first, condition, steps, body) => {
                for statement in first {
                    self.statement(statement)?;
                }
                self.repeat(condition.as_ref(), steps, body)
            }
            StatementKind::While(condition, body) => self.repeat(Some(condition), &[], body),
            StatementKind::DoWhile(body, condition) => loop {
                match self.statement(body)? {
                    Flow::Break => return Ok(Flow::Next),
                    returned @ Flow::Return(_) => return Ok(returned),
                    Flow::Next | Flow::Continue => {}
                }
                if !self.holds(condition)? {
                    return Ok(Flow::Next);
                }
            },
        }
    }

    fn repeat(&self, condition: Option<&Expr>, steps: &[Expr], body: &Statement) -> Evaluated<Flow> {
        loop {
            self.meter.step()?;
            if let Some(condition) = condition
                && !self.holds(condition)?
            {
                return Ok(Flow::Next);
            }
            match self.statement(body)? {
                Flow::Break => return Ok(Flow::Next),
                returned @ Flow::Return(_) => return Ok(returned),
                Flow::Next | Flow::Continue => {}
            }
            for step in steps {
                self.eval(step)?;
            }
        }
    }

    pub(super) fn holds(&self, condition: &Expr) -> Evaluated<bool> {
        match self.eval(condition)? {
            Value::Bool(flag) => Ok(flag),
            other => super::located(
                Err(Stop::thrown(
                    "RuntimeBinderException",
                    format!("{} is not a bool", other.type_name()),
                )),
                condition.at,
            ),
        }
    }
}
