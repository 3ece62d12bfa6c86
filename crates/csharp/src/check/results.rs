//! The types of results: the letters of the table of members, see [`super::super::library`].

use std::sync::Arc;

use crate::types::{EnumKind, ListKind, ObjectKind, SharedTy, Ty};

/// What is known when a result is worked out.
pub(super) struct Known<'a> {
    pub(super) receiver: &'a Ty,
    pub(super) arguments: &'a [Ty],
    /// What the lambdas among the arguments return, in their order.
    pub(super) lambdas: &'a [Ty],
    pub(super) type_argument: Option<&'a Ty>,
}

impl Known<'_> {
    fn item(&self) -> Ty {
        self.receiver.item().unwrap_or(Ty::Dynamic)
    }

    fn lambda(&self, number: usize) -> Option<Ty> {
        self.lambdas.get(number).cloned()
    }

    fn argument(&self, number: usize) -> Ty {
        self.arguments.get(number).cloned().unwrap_or(Ty::Dynamic)
    }

    fn type_argument(&self) -> Ty {
        self.type_argument.cloned().unwrap_or(Ty::Dynamic)
    }

    /// What `Sum`, `Min` and `Max` return.
    fn measured(&self) -> Ty {
        let ty = self.lambda(0).unwrap_or_else(|| match self.receiver.item() {
            Some(item) => item,
            None => self.argument(0),
        });
        if ty == Ty::Char { Ty::Int } else { ty }
    }
}

/// The type that letters stand for.
pub(super) fn result(letters: &str, known: &Known<'_>) -> Ty {
    let mut chars = letters.chars();
    let (first, second) = (chars.next().unwrap_or('v'), chars.next());
    let list = |kind: ListKind| {
        let item = match second {
            Some('F') => known.lambda(0).unwrap_or(Ty::Dynamic),
            // Of `SelectMany`: the items of what the first lambda returns, or the result of the second.
            Some('G') => {
                let inner = known.lambda(0).and_then(|list| list.item()).unwrap_or(Ty::Dynamic);
                known.lambda(1).unwrap_or(inner)
            }
            Some('T') => known.type_argument(),
            Some('N') => known.argument(0),
            Some('i') => Ty::Int,
            Some('t') => Ty::Text,
            Some('c') => Ty::Char,
            Some('y') => Ty::Byte,
            Some('m') => Ty::Object(ObjectKind::Match),
            Some('C') => Ty::Object(ObjectKind::Group),
            _ => known.item(),
        };
        Ty::list(kind, item)
    };
    match first {
        't' => Ty::Text,
        'i' => Ty::Int,
        'l' => Ty::Long,
        'd' => Ty::Double,
        'e' => Ty::Decimal,
        'b' => Ty::Bool,
        'c' => Ty::Char,
        'D' => Ty::Date,
        'o' => Ty::Offset,
        'S' => Ty::Span,
        'G' => Ty::Guid,
        'w' => Ty::Enum(EnumKind::DayOfWeek),
        'K' => Ty::Enum(EnumKind::DateTimeKind),
        '_' => Ty::Void,
        '=' => known.receiver.clone(),
        'I' => known.item(),
        's' => list(ListKind::Sequence),
        'L' => list(ListKind::List),
        'A' => list(ListKind::Array),
        'H' => list(ListKind::Set),
        'B' => Ty::Object(ObjectKind::Builder),
        'E' => Ty::Object(ObjectKind::Encoding),
        'm' => Ty::Object(ObjectKind::Match),
        'g' => Ty::Object(ObjectKind::Groups),
        'C' => Ty::Object(ObjectKind::Group),
        'T' => known.type_argument(),
        'N' => known.measured(),
        'W' => known
            .arguments
            .iter()
            .skip(1)
            .fold(known.argument(0), |all, one| all.common(one).unwrap_or(Ty::Dynamic)),
        'R' => match known.argument(0) {
            Ty::Decimal => Ty::Decimal,
            Ty::Dynamic => Ty::Dynamic,
            _ => Ty::Double,
        },
        'a' => match known.measured().plain() {
            Ty::Decimal => Ty::Decimal,
            Ty::Dynamic => Ty::Dynamic,
            _ => Ty::Double,
        },
        'P' => known.receiver.plain().clone(),
        'V' => match known.receiver {
            Ty::Map(_, value) => (**value).clone(),
            _ => Ty::Dynamic,
        },
        'X' => match known.receiver {
            Ty::Map(key, _) => Ty::List(ListKind::Sequence, key.clone()),
            _ => Ty::list(ListKind::Sequence, Ty::Dynamic),
        },
        'Y' => match known.receiver {
            Ty::Map(_, value) => Ty::List(ListKind::Sequence, value.clone()),
            _ => Ty::list(ListKind::Sequence, Ty::Dynamic),
        },
        'M' => {
            let value = known.lambda(1).unwrap_or_else(|| known.item());
            Ty::map(known.lambda(0).unwrap_or(Ty::Dynamic), value)
        }
        'Q' => {
            let item = known.lambda(1).unwrap_or_else(|| known.item());
            let group = Ty::Group(
                SharedTy::new(known.lambda(0).unwrap_or(Ty::Dynamic)),
                SharedTy::new(item),
            );
            Ty::list(ListKind::Sequence, group)
        }
        'U' => known.lambda(1).unwrap_or_else(|| known.argument(0)),
        'Z' => {
            let pair = || {
                let other = known.argument(0).item().unwrap_or(Ty::Dynamic);
                Ty::Record(Arc::new(vec![("First".into(), known.item()), ("Second".into(), other)]))
            };
            Ty::list(ListKind::Sequence, known.lambda(0).unwrap_or_else(pair))
        }
        _ => Ty::Dynamic,
    }
}
