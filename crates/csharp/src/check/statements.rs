//! Statements: scopes, loops and return values.

use super::Checker;
use crate::problem::{Checked, Problem};
use crate::syntax::{Expr, Kind, Place, Statement, StatementKind};
use crate::types::Ty;

impl Checker<'_> {
    pub(super) fn statements(&mut self, list: &mut [Statement]) -> Checked<()> {
        for statement in list {
            self.statement(statement)?;
        }
        Ok(())
    }

    pub(super) fn statement(&mut self, statement: &mut Statement) -> Checked<()> {
        let at = statement.at;
        match &mut statement.kind {
            StatementKind::Empty => Ok(()),
            StatementKind::Expression(expr) => {
                self.any_expression(expr)?;
                Ok(())
            }
            StatementKind::Declare(list) => {
                for (place, value) in list {
                    self.declaration(place, value)?;
                }
                Ok(())
            }
            StatementKind::Deconstruct(places, value) => {
                let ty = self.expression(value)?;
                let parts: Vec<Ty> = match &ty {
                    Ty::Record(fields) if fields.len() == places.len() => {
                        fields.iter().map(|(_, ty)| ty.clone()).collect()
                    }
                    Ty::Pair(key, value) if places.len() == 2 => vec![(**key).clone(), (**value).clone()],
                    Ty::Dynamic => vec![Ty::Dynamic; places.len()],
                    other => {
                        return Err(Problem::new(
                            at,
                            format!("{other} does not have {} parts", places.len()),
                        ));
                    }
                };
                for (place, ty) in places.iter_mut().zip(parts) {
                    place.slot = self.declare(&place.name, place.at, ty.clone())?;
                    place.ty = ty;
                }
                Ok(())
            }
            StatementKind::If(condition, then, otherwise) => {
                self.condition(condition)?;
                self.scoped(|checker| checker.statement(then))?;
                if let Some(otherwise) = otherwise {
                    self.scoped(|checker| checker.statement(otherwise))?;
                }
                Ok(())
            }
            StatementKind::ForEach(place, list, body) => {
                let ty = self.expression(list)?;
                let item = ty.item();
                let item =
                    item.ok_or_else(|| Problem::new(list.at, format!("foreach needs a list, and {ty} is not one")))?;
                place.ty = match &place.written {
                    Some(written) => self.resolve(written)?,
                    None => item,
                };
                self.looped(|checker| {
                    place.slot = checker.declare(&place.name, place.at, place.ty.clone())?;
                    checker.statement(body)
                })
            }
            StatementKind::For(first, condition, steps, body) => self.looped(|checker| {
                checker.statements(first)?;
                if let Some(condition) = condition {
                    checker.condition(condition)?;
                }
                for step in steps {
                    checker.any_expression(step)?;
                }
                checker.scoped(|checker| checker.statement(body))
            }),
            StatementKind::While(condition, body) => {
                self.condition(condition)?;
                self.looped(|checker| checker.statement(body))
            }
            StatementKind::DoWhile(body, condition) => {
                self.looped(|checker| checker.statement(body))?;
                self.condition(condition)
            }
            StatementKind::Return(value) => self.returns(value),
            StatementKind::Break | StatementKind::Continue => {
                if self.loops == 0 {
                    return Err(Problem::new(at, "break and continue need a loop around them"));
                }
                Ok(())
            }
            StatementKind::Block(list) => self.scoped(|checker| checker.statements(list)),
        }
    }

    fn looped<T>(&mut self, check: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        self.loops += 1;
        let checked = self.scoped(check);
        self.loops -= 1;
        checked
    }

    fn declaration(&mut self, place: &mut Place, value: &mut Option<Expr>) -> Checked<()> {
        let declared = match &place.written {
            Some(written) => Some(self.resolve(written)?),
            None => None,
        };
        let ty = match (value, declared) {
            (Some(value), declared) => {
                let from = self.expression(value)?;
                match declared {
                    Some(to) => {
                        self.convert(value, &from, &to)?;
                        to
                    }
                    None if from == Ty::Null => {
                        let message = format!(
                            "var {} cannot be null; write its type: string {} = null",
                            place.name, place.name
                        );
                        return Err(Problem::new(place.at, message));
                    }
                    None => from,
                }
            }
            (None, declared) => declared.unwrap_or(Ty::Dynamic),
        };
        place.slot = self.declare(&place.name, place.at, ty.clone())?;
        place.ty = ty;
        Ok(())
    }

    fn returns(&mut self, value: &mut Option<Expr>) -> Checked<()> {
        let ty = match value {
            // The last expression of a script may return nothing, as a call of Variable.Set.
            Some(value) if self.lambdas == 0 => {
                let ty = self.any_expression(value)?;
                if matches!(value.kind, Kind::Class(_) | Kind::Type(_)) || ty == Ty::Lambda {
                    self.expression(value)?;
                }
                if matches!(value.kind, Kind::Global(_)) {
                    self.expression_again(value, &ty)?;
                }
                ty
            }
            Some(value) => self.expression(value)?,
            None => Ty::Void,
        };
        if let Some(known) = self.returned.last_mut() {
            let united = known.as_ref().and_then(|known| known.common(&ty));
            *known = Some(united.unwrap_or(ty));
        }
        Ok(())
    }

    fn expression_again(&self, value: &Expr, ty: &Ty) -> Checked<()> {
        if ty.is_dynamic() {
            return Err(Problem::new(
                value.at,
                "this is not a value; read its members, such as Variables.X or Input.X",
            ));
        }
        Ok(())
    }
}
