//! Patterns of `is` and of switch expressions.

use super::Checker;
use super::fits::operation;
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Arm, Expr, Pattern, Place};
use crate::types::Ty;

impl Checker<'_> {
    pub(super) fn pattern(&mut self, pattern: &mut Pattern, of: &Ty) -> Checked<()> {
        match pattern {
            Pattern::Any | Pattern::NotNull => Ok(()),
            Pattern::Value(value) => {
                let ty = self.expression(value)?;
                self.comparable(value, of, &ty)
            }
            Pattern::Compare(op, value) => {
                let ty = self.expression(value)?;
                operation(*op, of, &ty).map_err(|message| Problem::new(value.at, message))?;
                Ok(())
            }
            Pattern::Type(written, ty, place) => {
                *ty = self.resolve(written)?;
                let ty = ty.clone();
                if ty.common(of).is_none() && !of.is_dynamic() {
                    return Err(Problem::new(written.at, format!("a {of} is never a {ty}")));
                }
                if let Some(place) = place {
                    self.pattern_place(place, ty)?;
                }
                Ok(())
            }
            Pattern::Var(place) => self.pattern_place(place, of.clone()),
            Pattern::Not(inner) => self.pattern(inner, of),
            Pattern::And(left, right) | Pattern::Or(left, right) => {
                self.pattern(left, of)?;
                self.pattern(right, of)
            }
        }
    }

    fn pattern_place(&mut self, place: &mut Place, ty: Ty) -> Checked<()> {
        place.slot = self.declare(&place.name, place.at, ty.clone())?;
        place.ty = ty;
        Ok(())
    }

    fn comparable(&self, value: &Expr, of: &Ty, ty: &Ty) -> Checked<()> {
        let is_known = of.plain().common(ty).is_some() || of.is_dynamic();
        if is_known {
            return Ok(());
        }
        Err(Problem::new(value.at, format!("a {of} is never this {ty}")))
    }

    pub(super) fn switch(&mut self, arms: &mut [Arm], of: &Ty, at: Position) -> Checked<Ty> {
        if arms.is_empty() {
            return Err(Problem::new(at, "this switch has no arms"));
        }
        let mut types = Vec::new();
        for arm in arms.iter_mut() {
            let ty = self.scoped(|checker| {
                checker.pattern(&mut arm.pattern, of)?;
                if let Some(when) = &mut arm.when {
                    checker.condition(when)?;
                }
                checker.arm(&mut arm.value)
            })?;
            types.push(ty);
        }
        self.unite(at, arms.iter_mut().map(|arm| &mut arm.value).zip(types))
    }
}
