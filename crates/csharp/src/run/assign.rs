//! Assignments to locals, variables, items and members.

use super::Machine;
use super::operators::{binary, lifted};
use crate::convert::cast;
use crate::library;
use crate::problem::{Evaluated, Stop};
use crate::syntax::{Argument, AssignOp, BinaryOp, Expr, Global, Kind};
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
        if let Kind::Tuple(parts) = &target.kind {
            return self.assign_parts(parts, value);
        }
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

    /// `(a, b) = (b, a)`: the places are found first, then the values, and then all are set.
    fn assign_parts(&self, parts: &[Argument], value: &Expr) -> Evaluated<Value> {
        let mut places = Vec::new();
        for part in parts {
            // A discard is no place.
            let is_place = !matches!(part.value.kind, Kind::Target);
            places.push(if is_place { Some(self.place(&part.value)?) } else { None });
        }
        let value = self.eval(value)?;
        let Value::Record(record) = &value else {
            return Err(Stop::thrown("RuntimeBinderException", "this value has no parts"));
        };
        if record.fields.len() != places.len() {
            let message = format!("this value has {} parts, not {}", record.fields.len(), places.len());
            return Err(Stop::thrown("RuntimeBinderException", message));
        }
        for (place, (_, part)) in places.iter().zip(&record.fields) {
            if let Some(place) = place {
                let ty = self.read(place)?.ty();
                let widens = ty.is_number() && part.ty().is_number() && part.ty() != ty;
                let part = if widens {
                    cast(part.clone(), &ty, &self.meter)?
                } else {
                    part.clone()
                };
                self.write(place, part)?;
            }
        }
        Ok(value)
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
            return cast(result, &ty, &self.meter);
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
            Kind::Index(list, index) => {
                let list = self.eval(list)?;
                let index = self.index_of(&list, index)?;
                Target::Item(list, index)
            }
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
                Value::Object(object) => library::set_object_property(object, name, &value, &self.meter)?,
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
