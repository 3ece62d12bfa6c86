//! Constants: whole numbers are computed before the script runs, and must not overflow.

use crate::problem::{Checked, Position, Problem};
use crate::syntax::{BinaryOp, Constant, Kind, UnaryOp};

/// Two constants as one; `None` if they are not both whole numbers.
pub(super) fn fold(op: BinaryOp, left: &Kind, right: &Kind, at: Position) -> Checked<Option<Constant>> {
    let (Kind::Constant(left), Kind::Constant(right)) = (left, right) else {
        return Ok(None);
    };
    let is_int = matches!((left, right), (Constant::Int(_), Constant::Int(_)));
    let whole = |constant: &Constant| match constant {
        Constant::Int(number) => Some(i64::from(*number)),
        Constant::Long(number) => Some(*number),
        _ => None,
    };
    let (Some(a), Some(b)) = (whole(left), whole(right)) else {
        return Ok(None);
    };
    let is_division = matches!(op, BinaryOp::Divide | BinaryOp::Remainder);
    if is_division && b == 0 {
        return Err(Problem::new(at, "this divides by the constant 0"));
    }
    let result = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Divide => a.checked_div(b),
        BinaryOp::Remainder => a.checked_rem(b),
        _ => return Ok(None),
    };
    let fits = result.filter(|result| !is_int || i32::try_from(*result).is_ok());
    let result = fits.ok_or_else(|| overflow(at, is_int))?;
    Ok(Some(whole_constant(result, is_int)))
}

pub(super) fn fold_unary(op: UnaryOp, operand: &Kind, at: Position) -> Checked<Option<Constant>> {
    let Kind::Constant(constant) = operand else {
        return Ok(None);
    };
    Ok(match (op, constant) {
        (UnaryOp::Minus, Constant::Int(number)) => {
            Some(Constant::Int(number.checked_neg().ok_or_else(|| overflow(at, true))?))
        }
        (UnaryOp::Minus, Constant::Long(number)) => {
            Some(Constant::Long(number.checked_neg().ok_or_else(|| overflow(at, false))?))
        }
        (UnaryOp::Minus, Constant::Double(number)) => Some(Constant::Double(-number)),
        (UnaryOp::Minus, Constant::Decimal(number)) => Some(Constant::Decimal(number.negate())),
        _ => None,
    })
}

fn overflow(at: Position, is_int: bool) -> Problem {
    let (ty, wider) = if is_int {
        ("int", "a long: write L after a number")
    } else {
        ("long", "a decimal: write m after a number")
    };
    Problem::new(at, format!("this constant overflows {ty}; use {wider}"))
}

fn whole_constant(value: i64, is_int: bool) -> Constant {
    match i32::try_from(value) {
        Ok(small) if is_int => Constant::Int(small),
        _ => Constant::Long(value),
    }
}
