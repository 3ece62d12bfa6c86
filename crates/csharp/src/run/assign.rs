//! Assignments to locals, variables, items and members.

use super::Machine;
use super::operators::{binary, lifted};
use crate::convert::cast;
use crate::library;
use crate::problem::{Evaluated, Stop};
use crate::syntax::{AssignOp, BinaryOp, Expr, Global, Kind};
use crate::text::text_of;
use crate::types::Ty;
use crate::value::Value;

/// A place, whose own expressions are evaluated once.
enum Target<'e> {
    Local(usize),
    Variable(&'e str),
    Global(Global),
    Item(Value, Value),
    Member(Value, &'e std::sync::Arc<str>),
}

impl Machine<'_> {
    pub(super) fn assign(&self, op: AssignOp, target: &Expr, value: &Expr) -> Evaluated<Value> {
        let place = self.place(target)?;
        let result = match op {
            AssignOp::Set => self.eval(value)?,
            AssignOp::Coalesce => {
                let old = self.read(&place)?;
                if !old.is_null() {
                    return Ok(old);
                }
                self.eval(value)?
            }
            AssignOp::With(op) => {
                let old = self.read(&place)?;
                let value = self.eval(value)?;
                self.combined(op, &old, &value)?
            }
        };
        self.write(&place, result.clone())?;
        Ok(result)
    }

    /// The result has the type of what is changed, as `x += 1` of a char has.
    fn combined(&self, op: BinaryOp, old: &Value, value: &Value) -> Evaluated<Value> {
        let result = if old.is_null() || value.is_null() {
            lifted(op, old, value, &self.meter)?
        } else {
            binary(op, old, value, &self.meter)?
        };
        let ty = old.ty();
        if ty.is_number() && result.ty() != ty && result.ty().is_number() {
            return cast(result, &ty);
        }
        Ok(result)
    }

    /// `x++` and `++x`.
    pub(super) fn step_place(&self, is_first: bool, step: i32, operand: &Expr) -> Evaluated<Value> {
        let place = self.place(operand)?;
        let old = self.read(&place)?;
        if old.is_null() {
            return Err(Stop::thrown("NullReferenceException", "the value is null"));
        }
        let new = self.combined(BinaryOp::Add, &old, &Value::Int(step))?;
        self.write(&place, new.clone())?;
        Ok(if is_first { new } else { old })
    }

    fn place<'e>(&self, target: &'e Expr) -> Evaluated<Target<'e>> {
        Ok(match &target.kind {
            Kind::Local(slot) => Target::Local(*slot),
            Kind::Variable(name) => Target::Variable(name),
            Kind::Global(global) => Target::Global(*global),
            Kind::Index(list, index) => Target::Item(self.eval(list)?, self.eval(index)?),
            Kind::Member(of, name) => Target::Member(self.eval(of)?, name),
            _ => return Err(Stop::thrown("InvalidOperationException", "this cannot be assigned to")),
        })
    }

    fn read(&self, place: &Target<'_>) -> Evaluated<Value> {
        match place {
            Target::Local(slot) => Ok(self.local(*slot)),
            Target::Variable(name) => self.variable(name),
            Target::Global(global) => self.global(*global),
            Target::Item(list, index) => library::index(list, index, &self.meter),
            Target::Member(of, name) => library::property_of(of, name, &self.meter),
        }
    }

    fn write(&self, place: &Target<'_>, value: Value) -> Evaluated<()> {
        match place {
            Target::Local(slot) => self.set_local(*slot, value),
            Target::Variable(name) => {
                let ty = self.world.variable_type(name).0;
                self.set_variable(
                    name,
                    if ty == Ty::Dynamic {
                        value
                    } else {
                        self.converted(&value, &ty.nullable())?
                    },
                )?;
            }
            Target::Global(global) => {
                let text = if value.is_null() {
                    None
                } else {
                    let text = text_of(&value);
                    self.meter.hold(text.len())?;
                    Some(text)
                };
                let mut changes = self.changes.borrow_mut();
                match global {
                    Global::CorrelationId => changes.correlation_id = Some(text),
                    Global::WorkflowInstanceName => changes.name = Some(text),
                    _ => return Err(Stop::thrown("InvalidOperationException", "this cannot be set")),
                }
            }
            Target::Item(list, index) => library::set_index(list, index, value, &self.meter)?,
            Target::Member(of, name) => match of {
                Value::Map(map) if map.is_object => {
                    self.meter.hold(160)?;
                    self.meter.put(&value, Value::Map(std::rc::Rc::clone(map)))?;
                    let name = Value::Text(std::sync::Arc::clone(name));
                    self.meter.set(&mut map.entries.borrow_mut(), name, value)?;
                }
                Value::Null => return Err(Stop::thrown("NullReferenceException", format!("{name} of null is set"))),
                other => {
                    let message = format!("{name} of {} cannot be set", other.type_name());
                    return Err(Stop::thrown("RuntimeBinderException", message));
                }
            },
        }
        Ok(())
    }
}
