//! Methods without their call, as in `Select(int.Parse)`: they become lambdas that call them.

use std::sync::Arc;

use super::Checker;
use super::members::{class, owners};
use super::type_names::simple;
use crate::library;
use crate::problem::{Checked, Position};
use crate::syntax::{Argument, Call, Expr, Kind, Lambda, Place, Statement, StatementKind};
use crate::types::Ty;

/// The names of the parameters, which no script can write.
const PARAMETERS: [&str; 4] = [" a", " b", " c", " d"];

impl Checker<'_> {
    /// Turns the name of a method into a lambda of so many parameters; other expressions stay as they are.
    pub(super) fn group_as_lambda(&mut self, value: &mut Expr, count: usize) -> Checked<()> {
        let at = value.at;
        let names = PARAMETERS.get(..count).unwrap_or_default();
        if names.len() != count || !self.is_group(value) {
            return Ok(());
        }
        let arguments: Vec<Argument> = names.iter().map(|name| argument(at, name)).collect();
        let depth = value.depth + 1;
        let kind = match std::mem::replace(&mut value.kind, Kind::Target) {
            Kind::Member(target, name) => Kind::Call(Box::new(Call {
                target: *target,
                name,
                type_arguments: Vec::new(),
                types: Vec::new(),
                arguments,
                result: Ty::Dynamic,
                takes_null: false,
            })),
            Kind::Name(name) => {
                let target = expression(at, Kind::Name(name));
                Kind::Invoke(Box::new(target), arguments)
            }
            other => other,
        };
        let body = Expr { at, depth, kind };
        let place = |name: &&str| Place {
            at,
            name: (*name).into(),
            written: None,
            ty: Ty::Dynamic,
            slot: 0,
        };
        let lambda = Lambda {
            at,
            parameters: names.iter().map(place).collect(),
            body: Statement {
                at,
                kind: StatementKind::Expression(body),
            },
            is_expression: true,
            depth: depth + 2,
            slots: (0, 0),
        };
        value.kind = Kind::Lambda(Arc::new(lambda));
        Ok(())
    }

    /// Whether it names a method, whose call makes a value.
    fn is_group(&mut self, value: &Expr) -> bool {
        match &value.kind {
            Kind::Name(name) => self.local(name).is_none() && self.functions.number(name).is_some(),
            Kind::Member(target, method) => {
                let Kind::Name(owner) = &target.kind else {
                    return self.is_method_of(target, method);
                };
                if self.local(owner).is_some() {
                    return self.is_method_of(target, method);
                }
                let owner = class(owner)
                    .map(str::to_owned)
                    .or_else(|| simple(owner).map(|ty| ty.to_string()));
                owner.is_some_and(|owner| library::methods(&[owner.as_str()], method).is_some())
            }
            _ => false,
        }
    }

    /// Whether a value has a method of this name. What the value is may be computed again at each call, so it is a name only.
    fn is_method_of(&mut self, target: &Expr, method: &str) -> bool {
        let is_simple = match &target.kind {
            Kind::Name(_) => true,
            Kind::Member(inner, _) => matches!(inner.kind, Kind::Name(_)),
            _ => false,
        };
        if !is_simple {
            return false;
        }
        let mut probe = target.clone();
        let Ok(ty) = self.any_expression(&mut probe) else {
            return false;
        };
        let owners = owners(&ty);
        !ty.is_dynamic() && library::property(owners, method).is_none() && library::methods(owners, method).is_some()
    }
}

fn expression(at: Position, kind: Kind) -> Expr {
    Expr { at, depth: 1, kind }
}

fn argument(at: Position, name: &str) -> Argument {
    Argument {
        name: None,
        value: expression(at, Kind::Name(name.into())),
        out: None,
    }
}
