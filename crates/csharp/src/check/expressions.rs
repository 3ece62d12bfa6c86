//! Expressions: their types, and the conversions between them.

use std::sync::Arc;

use super::constants::{fold, fold_unary};
use super::fits::operation;
use super::type_names::bounded;
use super::{Checker, conversion_problem, wrap};
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{AssignOp, Constant, Expr, Global, Hole, Initializer, Kind, UnaryOp};
use crate::types::{ListKind, ObjectKind, Ty};

const LAMBDA: &str =
    "a lambda is the argument of a method, or the value of a local with a type: Func<int, int> f = x => x + 1";

impl Checker<'_> {
    /// An expression that has a value.
    pub(super) fn expression(&mut self, expr: &mut Expr) -> Checked<Ty> {
        let ty = self.any_expression(expr)?;
        match (&ty, &expr.kind) {
            (Ty::Void, Kind::Class(name)) => Err(Problem::new(expr.at, format!("{name} is a class, not a value"))),
            (Ty::Void, Kind::Type(ty)) => Err(Problem::new(expr.at, format!("{ty} is a type, not a value"))),
            (Ty::Void, Kind::Throw(_)) => Ok(Ty::Dynamic),
            (Ty::Void, _) => Err(Problem::new(expr.at, "this returns no value")),
            (Ty::Lambda, _) => Err(Problem::new(expr.at, LAMBDA)),
            (_, Kind::Global(global)) if ty.is_dynamic() => Err(Problem::new(
                expr.at,
                format!("{global:?} is not a value; read its members, such as Variables.X or Input.X"),
            )),
            _ => Ok(ty),
        }
    }

    pub(super) fn any_expression(&mut self, expr: &mut Expr) -> Checked<Ty> {
        let at = expr.at;
        let ty = self.unbounded_expression(expr)?;
        bounded(ty, at)
    }

    fn unbounded_expression(&mut self, expr: &mut Expr) -> Checked<Ty> {
        let at = expr.at;
        match &mut expr.kind {
            Kind::Constant(constant) => Ok(constant_type(constant)),
            Kind::Interpolated(holes) => self.interpolated(holes),
            Kind::Name(name) => {
                let name = Arc::clone(name);
                self.name(expr, &name)
            }
            Kind::Member(..) => self.member(expr),
            Kind::Call(call) => self.call(call, at),
            Kind::Index(target, index) => self.index(target, index),
            Kind::Target => Ok(self.targets.last().cloned().unwrap_or(Ty::Dynamic)),
            Kind::Conditional(target, chain) => self.conditional(target, chain),
            Kind::Unary(op, operand) => {
                let op = *op;
                let ty = self.expression(operand)?;
                if let Some(constant) = fold_unary(op, &operand.kind, at)? {
                    expr.kind = Kind::Constant(constant);
                }
                unary(op, &ty, at)
            }
            Kind::Binary(..) => self.binary(expr),
            Kind::And(left, right) | Kind::Or(left, right) => {
                self.condition(left)?;
                self.condition(right)?;
                Ok(Ty::Bool)
            }
            Kind::Coalesce(left, right) => self.coalesce(left, right),
            Kind::Choose(condition, then, otherwise) => {
                self.condition(condition)?;
                let a = self.branch(then)?;
                let b = self.branch(otherwise)?;
                self.unite(at, [(&mut **then, a), (&mut **otherwise, b)])
            }
            Kind::Assign(..) => self.assign(expr),
            Kind::Step(_, _, operand) => {
                let ty = self.expression(operand)?;
                if !is_place(&operand.kind) {
                    return Err(Problem::new(at, "++ and -- change a variable; this is not one"));
                }
                if !ty.plain().is_number() && !ty.is_dynamic() {
                    return Err(Problem::new(at, format!("++ and -- do not take {ty}")));
                }
                Ok(ty)
            }
            Kind::Cast(written, ty, operand) => {
                let to = self.resolve(written)?;
                *ty = to.clone();
                let from = self.expression(operand)?;
                if !can_cast(&from, &to) {
                    return Err(Problem::new(at, conversion_problem(&from, &to)));
                }
                if let (Kind::Constant(Constant::Long(number)), Ty::Int) = (&operand.kind, &to)
                    && i32::try_from(*number).is_err()
                {
                    return Err(Problem::new(
                        at,
                        format!("the constant {number} does not fit into an int"),
                    ));
                }
                Ok(to)
            }
            Kind::Is(value, pattern) => {
                let ty = self.expression(value)?;
                self.pattern(pattern, &ty)?;
                Ok(Ty::Bool)
            }
            Kind::As(value, written, ty) => {
                let to = self.resolve(written)?;
                if to.is_value() {
                    return Err(Problem::new(
                        at,
                        format!("as needs a type that can be null; write {to}?"),
                    ));
                }
                *ty = to.clone();
                self.expression(value)?;
                Ok(to)
            }
            Kind::Switch(value, arms) => {
                let ty = self.expression(value)?;
                self.switch(arms, &ty, at)
            }
            Kind::New(initializer) => self.new_value(initializer, at, None),
            Kind::Tuple(parts) => {
                let mut fields = Vec::new();
                for (number, part) in parts.iter_mut().enumerate() {
                    let ty = self.expression(&mut part.value)?;
                    let name = part.name.get_or_insert_with(|| format!("Item{}", number + 1).into());
                    fields.push((Arc::clone(name), ty));
                }
                Ok(Ty::Record(Arc::new(fields)))
            }
            Kind::Lambda(_) => Err(Problem::new(at, LAMBDA)),
            Kind::Invoke(..) => self.invoke(expr),
            Kind::Range(..) | Kind::FromEnd(_) => {
                let message = "^ and .. count from the ends of a list, and are written in an indexer: a[^1], a[1..3]";
                Err(Problem::new(at, message))
            }
            Kind::Default(written, ty) => {
                *ty = match written {
                    Some(written) => self.resolve(written)?,
                    None => Ty::Null,
                };
                Ok(if ty.is_value() { ty.clone() } else { Ty::Null })
            }
            Kind::Throw(value) => {
                if let Kind::New(initializer) = &mut value.kind
                    && let Initializer::Object { written, arguments, .. } = &mut **initializer
                    && written.name.ends_with("Exception")
                {
                    for argument in arguments {
                        self.expression(&mut argument.value)?;
                    }
                    return Ok(Ty::Void);
                }
                match self.expression(value)? {
                    Ty::Object(ObjectKind::Exception) => Ok(Ty::Void),
                    _ => Err(Problem::new(at, "throw takes an exception: throw new Exception(\"…\")")),
                }
            }
            // What the checker itself has made.
            Kind::Local(_)
            | Kind::Global(_)
            | Kind::Type(_)
            | Kind::Class(_)
            | Kind::Variable(_)
            | Kind::Input(..)
            | Kind::Lifted(..)
            | Kind::Function(..)
            | Kind::CallFunction(..)
            | Kind::ExceptionName(_)
            | Kind::Convert(..) => Ok(Ty::Dynamic),
        }
    }

    fn interpolated(&mut self, holes: &mut [Hole]) -> Checked<Ty> {
        for hole in holes {
            let Hole::Value { value, format, .. } = hole else {
                continue;
            };
            let ty = self.expression(value)?;
            let Some(format) = format else { continue };
            if let Err(problem) = crate::format_check(&ty, format) {
                return Err(Problem::new(value.at, problem));
            }
        }
        Ok(Ty::Text)
    }

    fn index(&mut self, target: &mut Expr, index: &mut Expr) -> Checked<Ty> {
        if matches!(&target.kind, Kind::Name(name) if matches!(&**name, "Variables" | "Variable" | "Input" | "Inputs"))
            && self.local("Variables").is_none()
        {
            let message = "Variables and Input have no indexer; write Variable.Get<T>(\"X\") or Input.Get<T>(\"X\")";
            return Err(Problem::new(target.at, message));
        }
        let ty = self.target(target)?;
        if matches!(index.kind, Kind::Range(..) | Kind::FromEnd(_)) {
            return self.index_from_ends(&ty, index);
        }
        let of = self.expression(index)?;
        let (wanted, result) = match &ty {
            Ty::Dynamic => return Ok(Ty::Dynamic),
            Ty::List(ListKind::Sequence, _) => {
                return Err(Problem::new(
                    index.at,
                    format!("a {ty} has no indexer; write ElementAt(…), or ToList() before it"),
                ));
            }
            Ty::Text | Ty::Object(ObjectKind::Builder) => (Ty::Int, Ty::Char),
            Ty::Object(ObjectKind::Groups) if of == Ty::Text => (Ty::Text, Ty::Object(ObjectKind::Group)),
            Ty::Object(ObjectKind::Groups) => (Ty::Int, Ty::Object(ObjectKind::Group)),
            Ty::List(ListKind::Set, _) => {
                return Err(Problem::new(
                    index.at,
                    format!("a {ty} has no indexer; write Contains(…)"),
                ));
            }
            Ty::List(_, item) => (Ty::Int, (**item).clone()),
            Ty::Map(key, value) => ((**key).clone(), (**value).clone()),
            other => return Err(Problem::new(index.at, format!("a {other} has no indexer"))),
        };
        self.convert(index, &of, &wanted)?;
        Ok(result)
    }

    /// `a[^1]` and `a[1..3]`.
    fn index_from_ends(&mut self, ty: &Ty, index: &mut Expr) -> Checked<Ty> {
        let at = index.at;
        let (ends, is_range) = match &mut index.kind {
            Kind::Range(first, last) => (vec![first.as_deref_mut(), last.as_deref_mut()], true),
            Kind::FromEnd(end) => (vec![Some(&mut **end)], false),
            _ => (Vec::new(), false),
        };
        for end in ends.into_iter().flatten() {
            let value = match &mut end.kind {
                Kind::FromEnd(value) => value,
                _ => end,
            };
            let of = self.expression(value)?;
            self.convert(value, &of, &Ty::Int)?;
        }
        match ty {
            Ty::Dynamic => Ok(Ty::Dynamic),
            Ty::Text if is_range => Ok(Ty::Text),
            Ty::Text => Ok(Ty::Char),
            Ty::List(ListKind::Array | ListKind::List, _) if is_range => Ok(ty.clone()),
            Ty::List(ListKind::Array | ListKind::List, item) => Ok((**item).clone()),
            other => Err(Problem::new(
                at,
                format!("a {other} is not counted from its end; write ToList() before it"),
            )),
        }
    }

    fn conditional(&mut self, target: &mut Expr, chain: &mut Expr) -> Checked<Ty> {
        let ty = self.expression(target)?;
        if ty.is_value() {
            return Err(Problem::new(
                target.at,
                format!("a {ty} is never null; write . instead of ?."),
            ));
        }
        self.targets.push(ty.plain().clone());
        let result = self.any_expression(chain);
        self.targets.pop();
        Ok(match result? {
            Ty::Void => Ty::Void,
            other => other.nullable(),
        })
    }

    fn binary(&mut self, expr: &mut Expr) -> Checked<Ty> {
        let at = expr.at;
        let Kind::Binary(op, left, right) = &mut expr.kind else {
            return Ok(Ty::Dynamic);
        };
        let op = *op;
        let a = self.expression(left)?;
        let b = self.expression(right)?;
        let ty = operation(op, &a, &b).map_err(|message| Problem::new(at, message))?;
        if let Some(constant) = fold(op, &left.kind, &right.kind, at)? {
            expr.kind = Kind::Constant(constant);
            return Ok(ty);
        }
        let is_nullable = |ty: &Ty| matches!(ty, Ty::Nullable(_) | Ty::Null);
        if is_nullable(&a) || is_nullable(&b) {
            let (op, left, right) = match std::mem::replace(&mut expr.kind, Kind::Target) {
                Kind::Binary(op, left, right) => (op, left, right),
                other => {
                    expr.kind = other;
                    return Ok(ty);
                }
            };
            expr.kind = Kind::Lifted(op, left, right);
        }
        Ok(ty)
    }

    /// A branch, which may throw instead.
    fn branch(&mut self, value: &mut Expr) -> Checked<Ty> {
        let ty = self.any_expression(value)?;
        if matches!(value.kind, Kind::Throw(_)) {
            return Ok(Ty::Lambda);
        }
        match ty {
            Ty::Void | Ty::Lambda => Err(Problem::new(value.at, "a value is expected here")),
            other => Ok(other),
        }
    }

    /// The common type of branches; one that throws has the type of a lambda here.
    pub(super) fn unite<'e>(
        &self,
        at: Position,
        branches: impl IntoIterator<Item = (&'e mut Expr, Ty)>,
    ) -> Checked<Ty> {
        let branches: Vec<(&mut Expr, Ty)> = branches.into_iter().filter(|(_, ty)| *ty != Ty::Lambda).collect();
        let mut common: Option<Ty> = None;
        for (_, ty) in &branches {
            common = Some(match common {
                None => ty.clone(),
                Some(known) => known.common(ty).ok_or_else(|| {
                    Problem::new(
                        at,
                        format!("the branches are {known} and {ty}, which have no common type; convert one of them"),
                    )
                })?,
            });
        }
        let common = common.unwrap_or(Ty::Dynamic);
        for (value, ty) in branches {
            if ty != common && common.plain().is_number() && ty != Ty::Null && ty.plain() != common.plain() {
                wrap(value, |inner| Kind::Convert(common.clone(), inner));
            }
        }
        Ok(common)
    }

    pub(super) fn arm(&mut self, value: &mut Expr) -> Checked<Ty> {
        self.branch(value)
    }

    fn coalesce(&mut self, left: &mut Expr, right: &mut Expr) -> Checked<Ty> {
        let a = self.expression(left)?;
        if a.is_value() {
            let message = format!("?? needs a value that can be null, and {a} cannot; leave it out");
            // A variable that is null is the default of its type, as in Elsa.
            let is_variable = matches!(left.kind, Kind::Variable(_) | Kind::Input(..) | Kind::Call(_));
            if !is_variable {
                return Err(Problem::new(left.at, message));
            }
        }
        let b = self.branch(right)?;
        if b == Ty::Lambda {
            return Ok(a.plain().clone());
        }
        let plain = a.plain().clone();
        let result = plain
            .common(&b)
            .ok_or_else(|| Problem::new(right.at, conversion_problem(&b, &plain)))?;
        for (value, ty) in [(left, &plain), (right, &b)] {
            if *ty != result && result.plain().is_number() && ty.is_number() {
                wrap(value, |inner| Kind::Convert(result.clone().nullable(), inner));
            }
        }
        Ok(result)
    }

    fn assign(&mut self, expr: &mut Expr) -> Checked<Ty> {
        let at = expr.at;
        let Kind::Assign(op, target, value) = &mut expr.kind else {
            return Ok(Ty::Dynamic);
        };
        if let Kind::Tuple(parts) = &mut target.kind {
            let mut types = Vec::new();
            for part in parts {
                self.assigned(&part.value);
                let is_discard = matches!(&part.value.kind, Kind::Name(name) if **name == *"_");
                if is_discard && self.local("_").is_none() {
                    part.value.kind = Kind::Target;
                    types.push(Ty::Dynamic);
                    continue;
                }
                types.push(self.expression(&mut part.value)?);
                self.may_assign(&part.value, at)?;
            }
            let from = self.expression(value)?;
            let given: Vec<Ty> = match &from {
                Ty::Record(fields) => fields.iter().map(|(_, ty)| ty.clone()).collect(),
                Ty::Pair(key, value) => vec![(**key).clone(), (**value).clone()],
                _ => vec![Ty::Dynamic; types.len()],
            };
            if given.len() != types.len() {
                return Err(Problem::new(at, format!("{from} does not have {} parts", types.len())));
            }
            for (from, to) in given.iter().zip(&types) {
                if !from.converts_to(to) {
                    return Err(Problem::new(at, conversion_problem(from, to)));
                }
            }
            return Ok(from);
        }
        self.assigned(target);
        let to = self.expression(target)?;
        self.may_assign(target, at)?;
        let from = match op {
            AssignOp::Set => self.valued(value, &to)?,
            _ => self.expression(value)?,
        };
        match op {
            AssignOp::Set => self.convert(value, &from, &to)?,
            AssignOp::Coalesce => self.convert(value, &from, to.plain())?,
            AssignOp::With(op) => {
                let result = operation(*op, &to, &from).map_err(|message| Problem::new(at, message))?;
                // As in C#, `x += 1.5` of an int is refused, and `s += 1` of a char is cut to its type.
                let is_narrow = to == Ty::Char && result == Ty::Int;
                if !result.converts_to(&to) && !is_narrow {
                    return Err(Problem::new(at, conversion_problem(&result, &to)));
                }
            }
        }
        Ok(to)
    }

    fn may_assign(&mut self, target: &Expr, at: Position) -> Checked<()> {
        match &target.kind {
            Kind::Input(..) => {
                return Err(Problem::new(
                    at,
                    "inputs cannot be set; set a variable: Variables.X = …",
                ));
            }
            Kind::Global(Global::WorkflowInstanceId) => {
                return Err(Problem::new(at, "WorkflowInstanceId cannot be set"));
            }
            Kind::Index(inner, _) if self.is_text(inner) => {
                return Err(Problem::new(
                    at,
                    "the characters of a string cannot be set; make a new string",
                ));
            }
            kind if !is_place(kind) => {
                return Err(Problem::new(
                    at,
                    "this cannot be assigned to; assign to a local or to Variables.X",
                ));
            }
            Kind::Member(inner, name) if !self.may_set(inner, name) => {
                return Err(Problem::new(at, format!("{name} cannot be set; make a new value")));
            }
            Kind::Index(_, index) if matches!(index.kind, Kind::Range(..)) => {
                return Err(Problem::new(at, "a range cannot be set; set its items"));
            }
            _ => {}
        }
        Ok(())
    }

    fn is_text(&mut self, target: &Expr) -> bool {
        match &target.kind {
            Kind::Local(slot) => self.slots.get(*slot) == Some(&Ty::Text),
            Kind::Variable(name) => self
                .names
                .variables
                .get(&**name)
                .is_some_and(|declared| declared.0 == Ty::Text),
            _ => false,
        }
    }

    /// Members of JSON objects can be set, and the length of a StringBuilder; those of other values cannot.
    fn may_set(&mut self, target: &Expr, name: &str) -> bool {
        match &target.kind {
            Kind::Local(slot) => self
                .slots
                .get(*slot)
                .is_some_and(|ty| ty.is_dynamic() || (*ty == Ty::Object(ObjectKind::Builder) && name == "Length")),
            Kind::Variable(name) => self
                .names
                .variables
                .get(&**name)
                .is_none_or(|declared| declared.0.is_dynamic()),
            _ => true,
        }
    }
}

fn is_place(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Local(_)
            | Kind::Variable(_)
            | Kind::Index(..)
            | Kind::Member(..)
            | Kind::Global(Global::CorrelationId | Global::WorkflowInstanceName)
    )
}

fn constant_type(constant: &Constant) -> Ty {
    match constant {
        Constant::Null => Ty::Null,
        Constant::Bool(_) => Ty::Bool,
        Constant::Int(_) => Ty::Int,
        Constant::Long(_) => Ty::Long,
        Constant::Double(_) => Ty::Double,
        Constant::Decimal(_) => Ty::Decimal,
        Constant::Char(_) => Ty::Char,
        Constant::Text(_) => Ty::Text,
    }
}

fn unary(op: UnaryOp, ty: &Ty, at: Position) -> Checked<Ty> {
    let plain = ty.plain();
    let result = match (op, plain) {
        (_, Ty::Dynamic) => Some(Ty::Dynamic),
        (UnaryOp::Not, Ty::Bool) => Some(Ty::Bool),
        (UnaryOp::Minus, Ty::Span) => Some(Ty::Span),
        (UnaryOp::Plus | UnaryOp::Minus, Ty::Char) => Some(Ty::Int),
        (UnaryOp::Plus | UnaryOp::Minus, number) if number.is_number() => Some(number.clone()),
        (UnaryOp::Complement, Ty::Int | Ty::Long) => Some(plain.clone()),
        _ => None,
    };
    let result = result.ok_or_else(|| Problem::new(at, format!("this operator does not take {ty}")))?;
    Ok(if matches!(ty, Ty::Nullable(_)) {
        result.nullable()
    } else {
        result
    })
}

/// Whether a cast may succeed.
fn can_cast(from: &Ty, to: &Ty) -> bool {
    let (a, b) = (from.plain(), to.plain());
    from.converts_to(to)
        || a.is_dynamic()
        || (a.is_number() && b.is_number())
        || (a.is_number() && matches!(b, Ty::Enum(_)))
        || (matches!(a, Ty::Enum(_)) && b.is_number())
        || a == b
        || (matches!(a, Ty::List(..)) && matches!(b, Ty::List(..)))
        || (matches!(a, Ty::Byte) && b.is_number())
}
