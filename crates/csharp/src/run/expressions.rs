//! Expressions.

use std::sync::Arc;

use super::blocks::thrown;
use super::initialize::new_exception;
use super::operators::{binary, lifted, unary};
use super::{Argument, Machine, located};
use crate::convert::{cast, convert_to, default_of, from_json, implicit};
use crate::library;
use crate::object::Object;
use crate::problem::{Evaluated, Position, Stop};
use crate::syntax::{Arm, Call, Constant, Expr, Global, Hole, Kind};
use crate::text::{aligned, formatted, text_of};
use crate::types::Ty;
use crate::value::{RecordKind, Value};

impl Machine<'_> {
    pub(crate) fn eval(&self, expr: &Expr) -> Evaluated<Value> {
        self.meter.step()?;
        match &expr.kind {
            Kind::Constant(constant) => Ok(constant_value(constant)),
            Kind::Local(slot) => Ok(self.local(*slot)),
            Kind::Target => Ok(self.targets.borrow().last().cloned().unwrap_or(Value::Null)),
            Kind::Variable(name) => located(self.variable(name), expr.at),
            Kind::Input(name, ty) => located(self.input(name, ty), expr.at),
            Kind::Global(global) => self.global(*global),
            Kind::Member(target, name) => self.member(expr, target, name),
            Kind::Call(call) => self.call(expr, call),
            Kind::Binary(op, left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                located(binary(*op, &left, &right, &self.meter), expr.at)
            }
            Kind::Lifted(op, left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                located(lifted(*op, &left, &right, &self.meter), expr.at)
            }
            Kind::And(left, right) => Ok(Value::Bool(self.holds(left)? && self.holds(right)?)),
            Kind::Or(left, right) => Ok(Value::Bool(self.holds(left)? || self.holds(right)?)),
            Kind::Choose(condition, then, otherwise) => {
                if self.holds(condition)? {
                    self.eval(then)
                } else {
                    self.eval(otherwise)
                }
            }
            Kind::Coalesce(left, right) => match self.eval(left)? {
                Value::Null => self.eval(right),
                value => Ok(value),
            },
            _ => self.eval_rare(expr),
        }
    }

    /// Kept apart, so that the recursion of the common ones takes little stack.
    fn eval_rare(&self, expr: &Expr) -> Evaluated<Value> {
        match &expr.kind {
            Kind::Interpolated(holes) => self.interpolated(holes, expr),
            Kind::Conditional(target, chain) => self.conditional(target, chain),
            Kind::Index(target, index) => {
                let target = self.eval(target)?;
                if let Kind::Range(first, last) = &index.kind {
                    let ends = self.range(&target, first.as_deref(), last.as_deref());
                    let part = ends.and_then(|(first, last)| library::slice(&target, first, last, &self.meter));
                    return located(part, expr.at);
                }
                let index = self.index_of(&target, index)?;
                located(library::index(&target, &index, &self.meter), expr.at)
            }
            Kind::Unary(op, operand) => located(unary(*op, &self.eval(operand)?), expr.at),
            Kind::Assign(op, target, value) => located(self.assign(*op, target, value), expr.at),
            Kind::Step(is_first, step, operand) => located(self.step_place(*is_first, *step, operand), expr.at),
            Kind::Cast(_, ty, value) => located(cast(self.eval(value)?, ty, &self.meter), expr.at),
            Kind::Convert(ty, value) => located(implicit(self.eval(value)?, ty, &self.meter), expr.at),
            Kind::Is(value, pattern) => {
                let value = self.eval(value)?;
                Ok(Value::Bool(self.matches(pattern, &value)?))
            }
            Kind::As(value, _, ty) => {
                let value = self.eval(value)?;
                let is_one = super::patterns::is_of(&value, ty);
                Ok(if is_one { value } else { Value::Null })
            }
            Kind::Switch(value, arms) => self.switch(expr, value, arms),
            Kind::New(initializer) => located(self.new_value(initializer), expr.at),
            Kind::Tuple(parts) => {
                self.meter.hold(60 + 40 * parts.len())?;
                let mut fields = Vec::new();
                for (number, part) in parts.iter().enumerate() {
                    let name = part
                        .name
                        .clone()
                        .unwrap_or_else(|| format!("Item{}", number + 1).into());
                    fields.push((name, self.eval(&part.value)?));
                }
                located(
                    super::initialize::shallow_enough(Value::record(RecordKind::Tuple, fields)),
                    expr.at,
                )
            }
            Kind::Default(_, ty) => Ok(default_of(ty)),
            Kind::Throw(value) => self.throw(value, expr.at),
            Kind::Function(lambda, ty) => located(self.function(lambda, ty), expr.at),
            Kind::Invoke(target, arguments) => {
                let target = self.eval(target)?;
                located(self.call_value(&target, arguments), expr.at)
            }
            Kind::CallFunction(number, arguments) => located(self.call_local_function(*number, arguments), expr.at),
            Kind::ExceptionName(value) => match self.eval(value)? {
                Value::Object(object) => match &*object {
                    Object::Exception(exception) => Ok(Value::Text(Arc::clone(&exception.name))),
                    _ => Ok(Value::Null),
                },
                _ => located(
                    Err(Stop::thrown("NullReferenceException", "the exception is null")),
                    expr.at,
                ),
            },
            _ => located(
                Err(Stop::thrown("InvalidOperationException", "this has no value")),
                expr.at,
            ),
        }
    }

    fn interpolated(&self, holes: &[Hole], expr: &Expr) -> Evaluated<Value> {
        let mut out = String::new();
        for hole in holes {
            let before = out.len();
            match hole {
                Hole::Text(text) => out.push_str(text),
                Hole::Value {
                    value,
                    alignment,
                    format,
                } => {
                    let value = self.eval(value)?;
                    let text = match format {
                        Some(format) => located(formatted(&value, format), expr.at)?,
                        None => text_of(&value),
                    };
                    match alignment {
                        Some(width) => out.push_str(&aligned(&text, *width)),
                        None => out.push_str(&text),
                    }
                }
            }
            located(self.meter.hold(64 + out.len() - before), expr.at)?;
        }
        Ok(Value::text(out))
    }

    fn conditional(&self, target: &Expr, chain: &Expr) -> Evaluated<Value> {
        let target = self.eval(target)?;
        if target.is_null() {
            return Ok(Value::Null);
        }
        self.targets.borrow_mut().push(target);
        let result = self.eval(chain);
        self.targets.borrow_mut().pop();
        result
    }

    fn member(&self, expr: &Expr, target: &Expr, name: &Arc<str>) -> Evaluated<Value> {
        match &target.kind {
            Kind::Class(class) => return located(library::static_property(self, class, name), expr.at),
            Kind::Type(ty) => return located(library::static_property(self, &ty.to_string(), name), expr.at),
            Kind::Global(Global::Output) => {
                let json = self.world.last_result().unwrap_or_default();
                return located(from_json(&json, &Ty::Dynamic, &self.meter), expr.at);
            }
            _ => {}
        }
        let target = self.eval(target)?;
        located(library::property_of(&target, name, &self.meter), expr.at)
    }

    fn call(&self, expr: &Expr, call: &Call) -> Evaluated<Value> {
        let target = match &call.target.kind {
            Kind::Class(_) | Kind::Type(_) => None,
            Kind::Global(global) if !global.is_text() => None,
            _ => Some(self.eval(&call.target)?),
        };
        if let (Some(target @ Value::Function(_)), "Invoke") = (&target, &*call.name) {
            return located(self.call_value(target, &call.arguments), expr.at);
        }
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(match (&argument.value.kind, &argument.out) {
                (Kind::Lambda(lambda), _) => Argument::Lambda(lambda),
                (_, Some(place)) => {
                    self.declare_local(place.slot, Value::Null)?;
                    Argument::Out(Some(place.slot), place.ty.clone())
                }
                (Kind::Local(slot), None) if argument.name.as_deref() == Some("out") => {
                    Argument::Out(Some(*slot), self.local(*slot).ty())
                }
                (_, None) if argument.name.as_deref() == Some("out") => Argument::Out(None, Ty::Dynamic),
                _ => Argument::Value(self.eval(&argument.value)?),
            });
        }
        let result = match (target, &call.target.kind) {
            (Some(target), _) => library::call(self, &target, call, &arguments),
            (None, Kind::Global(global)) => self.call_global(*global, call, &arguments),
            (None, Kind::Class(class)) => library::call_static(self, class, call, &arguments),
            (None, Kind::Type(ty)) => library::call_static(self, &ty.to_string(), call, &arguments),
            (None, _) => Err(Stop::thrown("InvalidOperationException", "this cannot be called")),
        };
        located(result, expr.at)
    }

    fn switch(&self, expr: &Expr, value: &Expr, arms: &[Arm]) -> Evaluated<Value> {
        let value = self.eval(value)?;
        for arm in arms {
            if !self.matches(&arm.pattern, &value)? {
                continue;
            }
            if let Some(when) = &arm.when
                && !self.holds(when)?
            {
                continue;
            }
            return self.eval(&arm.value);
        }
        let message = format!(
            "no arm of the switch matches {}",
            text_of(&value).chars().take(60).collect::<String>()
        );
        located(Err(Stop::thrown("SwitchExpressionException", message)), expr.at)
    }

    fn throw(&self, value: &Expr, at: Position) -> Evaluated<Value> {
        use crate::syntax::Initializer;
        let exception = match &value.kind {
            // Of a class that may be unknown here.
            Kind::New(initializer) => match &**initializer {
                Initializer::Object { written, arguments, .. } => {
                    let mut values = Vec::new();
                    for argument in arguments {
                        values.push(self.eval(&argument.value)?);
                    }
                    Some(new_exception(&written.name, &values))
                }
                _ => None,
            },
            _ => match self.eval(value)? {
                Value::Object(object) => match &*object {
                    Object::Exception(exception) => Some(exception.clone()),
                    _ => None,
                },
                _ => None,
            },
        };
        match exception {
            Some(exception) => Err(thrown(&exception, at)),
            None => located(Err(Stop::thrown("NullReferenceException", "null is thrown")), at),
        }
    }

    /// The index of an indexer, counted from the end where it says so.
    pub(super) fn index_of(&self, target: &Value, index: &Expr) -> Evaluated<Value> {
        let Kind::FromEnd(value) = &index.kind else {
            return self.eval(index);
        };
        let from_end = self.eval(value)?.as_i64().unwrap_or(-1);
        let length = located(library::length_of(target, &self.meter), index.at)?;
        let place = i64::try_from(length).unwrap_or(i64::MAX).saturating_sub(from_end);
        Ok(Value::Int(i32::try_from(place).unwrap_or(-1)))
    }

    /// The first and the last place of a range.
    fn range(&self, target: &Value, first: Option<&Expr>, last: Option<&Expr>) -> Evaluated<(usize, usize)> {
        let length = library::length_of(target, &self.meter)?;
        let place = |end: Option<&Expr>, default: usize| -> Evaluated<usize> {
            let Some(end) = end else {
                return Ok(default);
            };
            let place = self
                .index_of(target, end)?
                .as_i64()
                .and_then(|place| usize::try_from(place).ok());
            place
                .filter(|place| *place <= length)
                .ok_or_else(|| Stop::thrown("ArgumentOutOfRangeException", "the range is outside of the list"))
        };
        let (first, last) = (place(first, 0)?, place(last, length)?);
        if first > last {
            return Err(Stop::thrown(
                "ArgumentOutOfRangeException",
                "the range ends before it begins",
            ));
        }
        Ok((first, last))
    }

    /// A value of an `object` as another type, as Elsa's `Get<T>` converts it.
    pub(super) fn converted(&self, value: &Value, ty: &Ty) -> Evaluated<Value> {
        if value.ty() == *ty || ty.is_dynamic() {
            return Ok(value.clone());
        }
        if let (Value::Map(map), Ty::Text) = (value, ty) {
            let json = library::serialize(&Value::Map(std::rc::Rc::clone(map)), &self.meter)?;
            return Ok(Value::text(json));
        }
        convert_to(value, ty, &self.meter)
    }
}

fn constant_value(constant: &Constant) -> Value {
    match constant {
        Constant::Null => Value::Null,
        Constant::Bool(flag) => Value::Bool(*flag),
        Constant::Int(number) => Value::Int(*number),
        Constant::Long(number) => Value::Long(*number),
        Constant::Double(number) => Value::Double(*number),
        Constant::Decimal(number) => Value::Decimal(*number),
        Constant::Char(unit) => Value::Char(*unit),
        Constant::Text(text) => Value::Text(Arc::clone(text)),
    }
}
