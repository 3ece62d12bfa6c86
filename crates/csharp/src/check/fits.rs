//! Whether arguments fit a signature, and whether operators fit their operands.

use crate::syntax::BinaryOp;
use crate::types::{EnumKind, Ty};

/// Whether a lambda is wanted, and of how many parameters at most.
pub(super) fn lambda_parameters(letter: char) -> Option<usize> {
    match letter {
        'f' | 'p' | 'q' => Some(1),
        'm' | 'g' => Some(2),
        _ => None,
    }
}

/// Whether a value of this type may be an argument of this letter.
pub(super) fn accepts(letter: char, ty: &Ty) -> bool {
    if ty.is_dynamic() {
        return !matches!(letter, 'f' | 'p' | 'm' | 'g');
    }
    match letter {
        't' => matches!(ty, Ty::Text | Ty::Null),
        'c' => matches!(ty, Ty::Text | Ty::Null | Ty::Char) || matches!(ty, Ty::List(_, item) if **item == Ty::Char),
        'i' => matches!(ty, Ty::Int | Ty::Char | Ty::Byte),
        'l' => matches!(ty, Ty::Int | Ty::Long | Ty::Char | Ty::Byte),
        'n' => ty.is_number(),
        'd' => ty.is_number() && *ty != Ty::Decimal,
        'b' => *ty == Ty::Bool,
        'D' => matches!(ty, Ty::Date | Ty::Offset),
        'S' => *ty == Ty::Span,
        'k' => matches!(ty, Ty::Enum(EnumKind::StringComparison) | Ty::Bool),
        'o' => *ty == Ty::Enum(EnumKind::StringSplitOptions),
        'r' => *ty == Ty::Enum(EnumKind::MidpointRounding),
        'K' => *ty == Ty::Enum(EnumKind::DateTimeKind),
        'j' => *ty == Ty::Enum(EnumKind::RegexOptions),
        'y' => matches!(ty, Ty::List(_, item) if **item == Ty::Byte),
        's' => ty.item().is_some(),
        'f' | 'p' | 'm' | 'g' => *ty == Ty::Lambda,
        'x' => *ty == Ty::Null,
        'q' => *ty != Ty::Void,
        _ => !matches!(ty, Ty::Void | Ty::Lambda),
    }
}

/// What an argument of this letter is called in messages.
pub(super) fn wanted(letter: char) -> &'static str {
    match letter {
        't' => "a string",
        'c' => "a string or a char",
        'i' => "an int",
        'l' => "a long",
        'n' => "a number",
        'd' => "a double",
        'b' => "a bool",
        'D' => "a DateTime",
        'S' => "a TimeSpan",
        'k' => "a StringComparison",
        'o' => "StringSplitOptions",
        'r' => "a MidpointRounding",
        'K' => "a DateTimeKind",
        'j' => "RegexOptions",
        'y' => "a byte[]",
        's' => "a list",
        'f' | 'p' | 'm' | 'g' => "a lambda, such as x => x",
        'x' => "CultureInfo.InvariantCulture",
        'O' => "out var x",
        _ => "a value",
    }
}

fn sign(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Remainder => "%",
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::Less => "<",
        BinaryOp::Greater => ">",
        BinaryOp::LessOrEqual => "<=",
        BinaryOp::GreaterOrEqual => ">=",
        BinaryOp::Equal => "==",
        BinaryOp::NotEqual => "!=",
        BinaryOp::And => "&",
        BinaryOp::Xor => "^",
        BinaryOp::Or => "|",
    }
}

/// The type of an operation.
/// Errors: the operator does not take these operands.
pub(super) fn operation(op: BinaryOp, left: &Ty, right: &Ty) -> Result<Ty, String> {
    let is_lifted = matches!(left, Ty::Nullable(_)) || matches!(right, Ty::Nullable(_));
    let (a, b) = (left.plain(), right.plain());
    let is_comparison = matches!(
        op,
        BinaryOp::Less | BinaryOp::Greater | BinaryOp::LessOrEqual | BinaryOp::GreaterOrEqual
    );
    let is_equality = matches!(op, BinaryOp::Equal | BinaryOp::NotEqual);
    let result = plain_operation(op, a, b, is_comparison, is_equality);
    match result {
        Some(ty) if is_lifted && !is_comparison && !is_equality && ty != Ty::Text => Ok(ty.nullable()),
        Some(ty) => Ok(ty),
        None => {
            let remedy = match (a, b) {
                (Ty::Decimal, Ty::Double) | (Ty::Double, Ty::Decimal) => {
                    "; write m after the literal, or (decimal) before the double"
                }
                (Ty::Char, Ty::Text) | (Ty::Text, Ty::Char) => "; write the char as a string: \"a\"",
                _ if is_comparison && *a == Ty::Text => "; write string.Compare(a, b) < 0",
                _ => "",
            };
            Err(format!(
                "the operator {} does not take {left} and {right}{remedy}",
                sign(op)
            ))
        }
    }
}

fn plain_operation(op: BinaryOp, a: &Ty, b: &Ty, is_comparison: bool, is_equality: bool) -> Option<Ty> {
    use BinaryOp::{Add, And, Divide, Multiply, Or, ShiftLeft, ShiftRight, Subtract, Xor};
    if matches!(a, Ty::Void | Ty::Lambda) || matches!(b, Ty::Void | Ty::Lambda) {
        return None;
    }
    if is_equality {
        return equality(a, b).then_some(Ty::Bool);
    }
    if op == Add && (*a == Ty::Text || *b == Ty::Text) {
        return Some(Ty::Text);
    }
    if a.is_dynamic() || b.is_dynamic() {
        return Some(if is_comparison { Ty::Bool } else { Ty::Dynamic });
    }
    if is_comparison {
        let is_ordered = |ty: &Ty| matches!(ty, Ty::Date | Ty::Offset | Ty::Span | Ty::Enum(_));
        return (numbers(a, b).is_some()
            || (is_ordered(a) && a.common(b).is_some())
            || *a == Ty::Null
            || *b == Ty::Null)
            .then_some(Ty::Bool);
    }
    match (op, a, b) {
        (And | Or | Xor, Ty::Bool, Ty::Bool) => Some(Ty::Bool),
        (And | Or, Ty::Enum(x), Ty::Enum(y)) if x == y => Some(a.clone()),
        (And | Or | Xor, ..) => numbers(a, b).filter(|ty| matches!(ty, Ty::Int | Ty::Long)),
        (ShiftLeft | ShiftRight, Ty::Int | Ty::Long | Ty::Char, Ty::Int | Ty::Char) => {
            Some(if *a == Ty::Char { Ty::Int } else { a.clone() })
        }
        (ShiftLeft | ShiftRight, ..) => None,
        (Add | Subtract, Ty::Date | Ty::Offset, Ty::Span) => Some(a.clone()),
        (Subtract, Ty::Date | Ty::Offset, Ty::Date | Ty::Offset) => Some(Ty::Span),
        (Add | Subtract, Ty::Span, Ty::Span) => Some(Ty::Span),
        (Multiply | Divide, Ty::Span, other) if other.is_number() && *other != Ty::Decimal => Some(Ty::Span),
        (Multiply, other, Ty::Span) if other.is_number() && *other != Ty::Decimal => Some(Ty::Span),
        (Divide, Ty::Span, Ty::Span) => Some(Ty::Double),
        (_, Ty::Null, other) | (_, other, Ty::Null) if other.is_number() => Some(other.clone().nullable()),
        _ => numbers(a, b),
    }
}

/// The type in which two numbers meet: at least int.
fn numbers(a: &Ty, b: &Ty) -> Option<Ty> {
    let (x, y) = (a.rank()?, b.rank()?);
    if (*a == Ty::Decimal && *b == Ty::Double) || (*a == Ty::Double && *b == Ty::Decimal) {
        return None;
    }
    let wider = if x >= y { a } else { b };
    Some(if matches!(wider, Ty::Char | Ty::Byte) {
        Ty::Int
    } else {
        wider.clone()
    })
}

fn equality(a: &Ty, b: &Ty) -> bool {
    match (a, b) {
        (Ty::Null, other) | (other, Ty::Null) => !matches!(other, Ty::Void | Ty::Lambda),
        (Ty::Char, other) | (other, Ty::Char) => other.is_number() || other.is_dynamic(),
        _ => {
            (a.is_number() && numbers(a, b).is_some())
                || (!a.is_number() && a.common(b).is_some())
                || a.is_dynamic()
                || b.is_dynamic()
        }
    }
}
