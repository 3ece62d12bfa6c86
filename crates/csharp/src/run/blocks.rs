//! Statements of several blocks: `switch` and `try`.

use std::sync::Arc;

use super::{Flow, Machine};
use crate::object::{Exception, Object, derives_from, own_message};
use crate::problem::{Evaluated, Position, Stop, StopKind};
use crate::syntax::{Expr, Section, Statement, Try};
use crate::value::Value;

impl Machine<'_> {
    /// Statements one after another, until one of them leads elsewhere.
    pub(super) fn statements(&self, list: &[Statement]) -> Evaluated<Flow> {
        for statement in list {
            match self.statement(statement)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    pub(super) fn switch_statement(&self, value: &Expr, sections: &[Section]) -> Evaluated<Flow> {
        let value = self.eval(value)?;
        let mut chosen = None;
        'sections: for section in sections {
            for label in &section.labels {
                let Some(pattern) = &label.pattern else {
                    continue;
                };
                let is_case = self.matches(pattern, &value)?;
                let holds = match &label.when {
                    Some(when) if is_case => self.holds(when)?,
                    _ => is_case,
                };
                if holds {
                    chosen = Some(section);
                    break 'sections;
                }
            }
        }
        let is_default = |section: &&Section| section.labels.iter().any(|label| label.pattern.is_none());
        let Some(section) = chosen.or_else(|| sections.iter().find(is_default)) else {
            return Ok(Flow::Next);
        };
        match self.statements(&section.body)? {
            Flow::Break => Ok(Flow::Next),
            other => Ok(other),
        }
    }

    /// A bound that is reached ends the script: only exceptions are caught, and only after them `finally` runs.
    pub(super) fn try_statement(&self, whole: &Try) -> Evaluated<Flow> {
        let mut result = self.statement(&whole.body);
        if let Err(stop) = result {
            result = self.catch(whole, stop);
        }
        let is_over = matches!(&result, Err(stop) if stop.kind != StopKind::Thrown);
        let Some(finally) = whole.finally.as_ref().filter(|_| !is_over) else {
            return result;
        };
        match self.statement(finally)? {
            Flow::Next => result,
            other => Ok(other),
        }
    }

    fn catch(&self, whole: &Try, stop: Box<Stop>) -> Evaluated<Flow> {
        if stop.kind != StopKind::Thrown {
            return Err(stop);
        }
        let exception = exception_of(&stop);
        for catch in &whole.catches {
            self.meter.step()?;
            if !derives_from(&exception.name, &catch.exception) {
                continue;
            }
            if let Some(place) = &catch.place {
                self.meter.hold(120 + stop.message.len())?;
                let value = Value::object(Object::Exception(exception.clone()));
                self.declare_local(place.slot, value)?;
            }
            if let Some(when) = &catch.when {
                match self.holds(when) {
                    Ok(true) => {}
                    // An exception in a filter counts as false.
                    Err(stop) if stop.kind != StopKind::Thrown => return Err(stop),
                    _ => continue,
                }
            }
            self.caught.borrow_mut().push(*stop);
            let result = self.statement(&catch.body);
            self.caught.borrow_mut().pop();
            return result;
        }
        Err(stop)
    }

    /// `throw;`
    pub(super) fn rethrow(&self) -> Box<Stop> {
        let caught = self.caught.borrow().last().cloned();
        match caught {
            Some(stop) => Box::new(stop),
            None => Stop::thrown("InvalidOperationException", "nothing is caught here"),
        }
    }
}

/// The exception that a stop is.
fn exception_of(stop: &Stop) -> Exception {
    let (name, message) = stop.message.split_once(": ").unwrap_or((&stop.message, ""));
    let message = own_message(name).filter(|_| !stop.is_of_script).unwrap_or(message);
    Exception {
        name: Arc::from(name),
        message: Arc::from(message),
    }
}

/// What an exception of the script is when it is thrown.
pub(super) fn thrown(exception: &Exception, at: Position) -> Box<Stop> {
    let shown: String = exception.message.chars().filter(|c| *c != '\0').take(2_000).collect();
    let mut stop = Stop::thrown(&exception.name, shown);
    stop.is_of_script = true;
    stop.at = Some(at);
    stop
}
