//! Statements: scopes, loops and return values.

use super::flow::leaves;
use super::{Checker, conversion_problem};
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Expr, Initializer, Kind, Place, Section, Statement, StatementKind, Try};
use crate::types::{ObjectKind, Ty};

impl Checker<'_> {
    pub(super) fn statements(&mut self, list: &mut [Statement]) -> Checked<()> {
        self.declare_functions(list)?;
        for statement in list {
            self.statement(statement)?;
            self.note_queries(statement);
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
                self.parts(places, &ty, at)
            }
            StatementKind::Function(function) => self.function_statement(function, at),
            StatementKind::Switch(value, sections) => self.switch_statement(value, sections),
            StatementKind::Try(whole) => self.try_statement(whole),
            StatementKind::Rethrow => {
                if self.catches == 0 {
                    return Err(Problem::new(at, "throw without an exception needs a catch around it"));
                }
                Ok(())
            }
            StatementKind::ForEachParts(places, list, body) => {
                let ty = self.expression(list)?;
                let item = ty.item();
                let item =
                    item.ok_or_else(|| Problem::new(list.at, format!("foreach needs a list, and {ty} is not one")))?;
                self.looped(|checker| {
                    checker.parts(places, &item, at)?;
                    checker.statement(body)
                })
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
            StatementKind::Return(value) => self.returns(value, at),
            StatementKind::Break if self.switches > 0 => Ok(()),
            StatementKind::Break | StatementKind::Continue => {
                if self.loops == 0 {
                    return Err(Problem::new(at, "break and continue need a loop around them"));
                }
                Ok(())
            }
            StatementKind::Block(list) => self.scoped(|checker| checker.statements(list)),
        }
    }

    /// The locals that take the parts of a value.
    fn parts(&mut self, places: &mut [Place], ty: &Ty, at: Position) -> Checked<()> {
        let parts: Vec<Ty> = match ty {
            Ty::Record(fields) if fields.len() == places.len() => fields.iter().map(|(_, ty)| ty.clone()).collect(),
            Ty::Pair(key, value) if places.len() == 2 => vec![(**key).clone(), (**value).clone()],
            Ty::Dynamic => vec![Ty::Dynamic; places.len()],
            other => {
                let message = format!("{other} does not have {} parts", places.len());
                return Err(Problem::new(at, message));
            }
        };
        for (place, part) in places.iter_mut().zip(parts) {
            let ty = match &place.written {
                Some(written) => self.resolve(written)?,
                None => part.clone(),
            };
            if !part.converts_to(&ty) {
                return Err(Problem::new(place.at, conversion_problem(&part, &ty)));
            }
            place.slot = self.declare(&place.name, place.at, ty.clone())?;
            place.ty = ty;
        }
        Ok(())
    }

    fn switch_statement(&mut self, value: &mut Expr, sections: &mut [Section]) -> Checked<()> {
        let ty = self.expression(value)?;
        self.switches += 1;
        let checked = self.scoped(|checker| {
            for section in sections.iter() {
                checker.declare_functions(&section.body)?;
            }
            for section in sections {
                checker.section(section, &ty)?;
            }
            Ok(())
        });
        self.switches -= 1;
        checked
    }

    fn section(&mut self, section: &mut Section, of: &Ty) -> Checked<()> {
        for label in &mut section.labels {
            if let Some(pattern) = &mut label.pattern {
                self.pattern(pattern, of)?;
            }
            if let Some(when) = &mut label.when {
                self.condition(when)?;
            }
        }
        for statement in &mut section.body {
            self.statement(statement)?;
        }
        if section.body.iter().any(leaves) {
            return Ok(());
        }
        let at = section.body.last().map(|last| last.at).unwrap_or_default();
        let message = "a section of a switch cannot go on into the next one; end it with break or return";
        Err(Problem::new(at, message))
    }

    fn try_statement(&mut self, whole: &mut Try) -> Checked<()> {
        self.scoped(|checker| checker.statement(&mut whole.body))?;
        for catch in &mut whole.catches {
            self.catches += 1;
            let checked = self.scoped(|checker| {
                if let Some(place) = &mut catch.place {
                    place.ty = Ty::Object(ObjectKind::Exception);
                    place.slot = checker.declare(&place.name, place.at, place.ty.clone())?;
                }
                if let Some(when) = &mut catch.when {
                    checker.condition(when)?;
                }
                checker.statement(&mut catch.body)
            });
            self.catches -= 1;
            checked?;
        }
        match &mut whole.finally {
            Some(finally) => self.scoped(|checker| checker.statement(finally)),
            None => Ok(()),
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
                // `new()` is of the class that is written, which may say more than its type.
                if let (Kind::New(initializer), Some(known)) = (&mut value.kind, &place.written)
                    && let Initializer::Object { written, .. } = &mut **initializer
                    && written.name.is_empty()
                {
                    *written = (**known).clone();
                }
                let from = match &declared {
                    Some(to) => self.valued(value, to)?,
                    None => self.natural_lambda(value, &place.name)?,
                };
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
}
