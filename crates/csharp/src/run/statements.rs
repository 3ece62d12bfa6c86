//! Statements.

use super::{Flow, Machine};
use crate::convert::{default_of, implicit};
use crate::library::items_of;
use crate::problem::{Evaluated, Position, Stop};
use crate::syntax::{Expr, Place, Statement, StatementKind};
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
                    self.declare_local(place.slot, value)?;
                }
                Ok(Flow::Next)
            }
            StatementKind::Deconstruct(places, value) => {
                let value = self.eval(value)?;
                super::located(self.parts(places, &value), statement.at)?;
                Ok(Flow::Next)
            }
            StatementKind::Switch(value, sections) => self.switch_statement(value, sections),
            StatementKind::Try(whole) => self.try_statement(whole),
            StatementKind::Rethrow => Err(self.rethrow()),
            // It is called by its number.
            StatementKind::Function(_) => Ok(Flow::Next),
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
            StatementKind::Block(list) => self.statements(list),
            StatementKind::ForEach(place, list, body) => {
                let begin = |item: Value| {
                    let item = super::located(implicit(item, &place.ty, &self.meter), place.at)?;
                    self.declare_local(place.slot, item)
                };
                self.for_each(list, body, statement.at, &begin)
            }
            StatementKind::ForEachParts(places, list, body) => {
                let begin = |item: Value| super::located(self.parts(places, &item), statement.at);
                self.for_each(list, body, statement.at, &begin)
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

    /// The locals that take the parts of a tuple or a pair.
    fn parts(&self, places: &[Place], value: &Value) -> Evaluated<()> {
        let Value::Record(record) = value else {
            return Err(Stop::thrown("RuntimeBinderException", "this value has no parts"));
        };
        if record.fields.len() != places.len() {
            let message = format!("this value has {} parts, not {}", record.fields.len(), places.len());
            return Err(Stop::thrown("RuntimeBinderException", message));
        }
        for (place, (_, part)) in places.iter().zip(&record.fields) {
            self.declare_local(place.slot, implicit(part.clone(), &place.ty, &self.meter)?)?;
        }
        Ok(())
    }

    fn for_each(
        &self,
        list: &Expr,
        body: &Statement,
        at: Position,
        begin: &dyn Fn(Value) -> Evaluated<()>,
    ) -> Evaluated<Flow> {
        let list = self.eval(list)?;
        // The items of a list are read where they are: a copy would stay until the loop ends.
        let copied = match &list {
            Value::List(_) => Vec::new(),
            other => super::located(items_of(other, &self.meter), at)?,
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
            let item = of_list().map_or_else(|| copied.get(number).cloned(), |items| items.get(number).cloned());
            let Some(item) = item else { break };
            begin(item)?;
            match self.statement(body)? {
                Flow::Break => break,
                returned @ Flow::Return(_) => return Ok(returned),
                Flow::Next | Flow::Continue => {}
            }
            if let Value::List(list) = &list {
                super::located(list.unchanged_since(version, "foreach"), at)?;
            }
        }
        Ok(Flow::Next)
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
