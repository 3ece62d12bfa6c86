//! Patterns, and whether a value is of a type.

use super::Machine;
use super::operators::binary;
use crate::problem::Evaluated;
use crate::syntax::Pattern;
use crate::types::{ListKind, Ty};
use crate::value::Value;

impl Machine<'_> {
    pub(super) fn matches(&self, pattern: &Pattern, value: &Value) -> Evaluated<bool> {
        self.meter.step()?;
        match pattern {
            Pattern::Any => Ok(true),
            Pattern::NotNull => Ok(!value.is_null()),
            Pattern::Var(place) => {
                self.declare_local(place.slot, value.clone())?;
                Ok(true)
            }
            Pattern::Value(wanted) => self.meter.equal(&self.eval(wanted)?, value),
            Pattern::Compare(op, with) => {
                let with = self.eval(with)?;
                if value.order(&with).is_none() {
                    return Ok(false);
                }
                let holds = binary(*op, value, &with, &self.meter)?;
                Ok(matches!(holds, Value::Bool(true)))
            }
            Pattern::Type(_, ty, place) => {
                let is_one = is_of(value, ty);
                if let Some(place) = place.as_ref().filter(|_| is_one) {
                    self.declare_local(place.slot, value.clone())?;
                }
                Ok(is_one)
            }
            Pattern::Not(inner) => Ok(!self.matches(inner, value)?),
            Pattern::And(left, right) => Ok(self.matches(left, value)? && self.matches(right, value)?),
            Pattern::Or(left, right) => Ok(self.matches(left, value)? || self.matches(right, value)?),
        }
    }
}

/// Whether a value is of a type: no number is one of another type.
pub(super) fn is_of(value: &Value, ty: &Ty) -> bool {
    match (value, ty.plain()) {
        (Value::Null, _) => false,
        (_, Ty::Dynamic) => true,
        (Value::List(list), Ty::List(kind, item)) => {
            let is_kind = *kind == ListKind::Sequence || *kind == list.kind;
            is_kind && (list.item == **item || item.is_dynamic() || list.item.is_dynamic())
        }
        (Value::Text(_), Ty::List(ListKind::Sequence, item)) => **item == Ty::Char,
        (Value::Map(_), Ty::Map(..)) => true,
        (value, ty) => value.ty() == *ty,
    }
}
