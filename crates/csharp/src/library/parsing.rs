//! `T.Parse(text)`.

use super::arguments::Arguments;
use crate::convert::parse;
use crate::problem::{Evaluated, Stop};
use crate::types::Ty;
use crate::value::Value;

/// The type whose static members a name has.
pub(super) fn type_of(owner: &str) -> Ty {
    match owner {
        "int" => Ty::Int,
        "long" => Ty::Long,
        "double" => Ty::Double,
        "decimal" => Ty::Decimal,
        "bool" => Ty::Bool,
        "DateTime" => Ty::Date,
        "DateTimeOffset" => Ty::Offset,
        "TimeSpan" => Ty::Span,
        "Guid" => Ty::Guid,
        _ => Ty::Dynamic,
    }
}

/// `T.Parse(text)`.
pub(super) fn parsed(ty: &Ty, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let text = arguments.text(0)?;
    parse(&text, ty, arguments.meter()).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        let digits = text.trim().trim_start_matches(['-', '+']);
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_whole && matches!(ty, Ty::Int | Ty::Long | Ty::Decimal) {
            return Stop::thrown("OverflowException", format!("{shown} does not fit into {ty}"));
        }
        Stop::thrown("FormatException", format!("{shown:?} is no {ty}"))
    })
}
