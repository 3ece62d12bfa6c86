//! `new`: lists, arrays, dictionaries, anonymous objects and values of other types.

use std::sync::Arc;

use super::Checker;
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Argument, Expr, Initializer, ItemType};
use crate::types::{EnumKind, ListKind, ObjectKind, Ty};

impl Checker<'_> {
    fn items(&mut self, items: &mut [Expr], wanted: Option<&Ty>, at: Position) -> Checked<Ty> {
        let mut types = Vec::new();
        for item in items.iter_mut() {
            types.push(match wanted {
                Some(wanted) => self.valued(item, wanted)?,
                None => self.expression(item)?,
            });
        }
        if let Some(wanted) = wanted {
            for (item, ty) in items.iter_mut().zip(&types) {
                self.convert(item, ty, wanted)?;
            }
            return Ok(wanted.clone());
        }
        if types.is_empty() {
            return Err(Problem::new(at, "an empty array needs a type: new string[0]"));
        }
        self.unite(at, items.iter_mut().zip(types))
    }

    /// `new …`; `wanted` is the type that is wanted of it.
    pub(super) fn new_value(
        &mut self,
        initializer: &mut Initializer,
        at: Position,
        wanted: Option<&Ty>,
    ) -> Checked<Ty> {
        match initializer {
            Initializer::Anonymous(fields) => {
                let mut types = Vec::new();
                for Argument { name, value, .. } in fields {
                    let ty = self.expression(value)?;
                    types.push((name.clone().unwrap_or_default(), ty));
                }
                Ok(Ty::Record(Arc::new(types)))
            }
            Initializer::Array(written, ty, items) => {
                let known = match (&*written, wanted) {
                    (ItemType::Written(written), _) => Some(self.resolve(written)?),
                    (ItemType::Shared, _) => None,
                    (ItemType::Declared, Some(Ty::List(ListKind::Array, item))) => Some((**item).clone()),
                    (ItemType::Declared, _) => {
                        let message = "items in braces are those of an array: write its type, as in int[] a = { 1, 2 }";
                        return Err(Problem::new(at, message));
                    }
                };
                let item = self.items(items, known.as_ref(), at)?;
                *ty = item.clone();
                Ok(Ty::list(ListKind::Array, item))
            }
            Initializer::Sized(written, ty, size) => {
                *ty = self.resolve(written)?;
                let of = self.expression(size)?;
                self.convert(size, &of, &Ty::Int)?;
                Ok(Ty::list(ListKind::Array, ty.clone()))
            }
            Initializer::Object {
                written,
                ty,
                arguments,
                items,
                pairs,
            } => {
                *ty = match wanted {
                    _ if !written.name.is_empty() => self.resolve(written)?,
                    Some(wanted) if !wanted.is_dynamic() => wanted.plain().clone(),
                    _ => {
                        let message = "the type of this new() is not known here; name it, as in new List<int>()";
                        return Err(Problem::new(at, message));
                    }
                };
                let mut types = Vec::new();
                for argument in arguments.iter_mut() {
                    types.push(self.expression(&mut argument.value)?);
                }
                let is_object = ty.is_dynamic();
                let fits = match (&*ty, types.as_slice()) {
                    (Ty::Date, [Ty::Long] | [Ty::Int]) => true,
                    (Ty::Date, parts) if matches!(parts.len(), 3 | 6 | 7 | 8) => is_clock(parts),
                    (Ty::Date, []) | (Ty::Span, []) | (Ty::Guid, [] | [Ty::Text | Ty::Dynamic]) => true,
                    (Ty::Span, parts) if (1..=5).contains(&parts.len()) && parts.len() != 2 => parts
                        .iter()
                        .all(|part| matches!(part, Ty::Int | Ty::Long | Ty::Dynamic)),
                    (Ty::Offset, [Ty::Date] | [Ty::Date | Ty::Long, Ty::Span]) => true,
                    (Ty::Offset, [parts @ .., Ty::Span | Ty::Dynamic]) if matches!(parts.len(), 6 | 7) => {
                        all_whole(parts)
                    }
                    (Ty::Text, [Ty::Char | Ty::Dynamic, Ty::Int | Ty::Dynamic] | [Ty::List(..)]) => true,
                    (Ty::List(ListKind::List | ListKind::Set, _), [] | [Ty::Int]) => true,
                    (Ty::List(ListKind::List | ListKind::Set, _), [one]) => one.item().is_some(),
                    (Ty::Object(ObjectKind::Builder), [] | [Ty::Text | Ty::Int | Ty::Dynamic]) => true,
                    (Ty::Object(ObjectKind::Builder), [Ty::Text | Ty::Dynamic, Ty::Int]) => true,
                    (Ty::Object(ObjectKind::Regex), [Ty::Text | Ty::Dynamic]) => true,
                    (Ty::Object(ObjectKind::Regex), [Ty::Text | Ty::Dynamic, Ty::Enum(EnumKind::RegexOptions)]) => true,
                    (Ty::Object(ObjectKind::Exception), []) => true,
                    (Ty::Object(ObjectKind::Exception), [Ty::Text | Ty::Null | Ty::Dynamic, rest @ ..]) => rest
                        .iter()
                        .all(|ty| matches!(ty, Ty::Text | Ty::Null | Ty::Object(ObjectKind::Exception))),
                    (Ty::Map(..), [] | [Ty::Map(..) | Ty::Dynamic | Ty::Int]) => true,
                    (Ty::Dynamic, []) => &*written.name != "JsonArray",
                    _ => false,
                };
                if !fits {
                    let shown: Vec<String> = types.iter().map(Ty::to_string).collect();
                    let message = format!("new {ty} does not take ({})", shown.join(", "));
                    return Err(Problem::new(at, message));
                }
                match &*ty {
                    Ty::List(_, item) if pairs.is_empty() => {
                        let item = (**item).clone();
                        self.items(items, Some(&item), at)?;
                    }
                    Ty::Map(key, value) if items.is_empty() => {
                        let (key_type, value_type) = (key.clone(), value.clone());
                        for (key, value) in pairs.iter_mut() {
                            let of = self.expression(key)?;
                            self.convert(key, &of, &key_type)?;
                            let of = self.valued(value, &value_type)?;
                            self.convert(value, &of, &value_type)?;
                        }
                    }
                    _ if is_object && items.is_empty() => {
                        for (key, value) in pairs.iter_mut() {
                            let of = self.expression(key)?;
                            self.convert(key, &of, &Ty::Text)?;
                            self.expression(value)?;
                        }
                    }
                    _ if items.is_empty() && pairs.is_empty() => {}
                    _ => {
                        return Err(Problem::new(at, format!("new {ty} takes no items in braces")));
                    }
                }
                Ok(ty.clone())
            }
        }
    }
}

/// Whole numbers, of which the last may be a kind of date instead.
fn is_clock(parts: &[Ty]) -> bool {
    match parts {
        [rest @ .., Ty::Enum(EnumKind::DateTimeKind)] => rest.len() >= 6 && all_whole(rest),
        parts => parts.len() <= 7 && all_whole(parts),
    }
}

fn all_whole(types: &[Ty]) -> bool {
    types.iter().all(|ty| matches!(ty, Ty::Int | Ty::Dynamic))
}
