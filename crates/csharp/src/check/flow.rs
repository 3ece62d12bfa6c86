//! Whether statements lead to what is behind them: a section of a switch must not, nor the body of a function with a value.

use crate::syntax::{Constant, Expr, Kind, Statement, StatementKind};

fn is_true(condition: &Expr) -> bool {
    matches!(condition.kind, Kind::Constant(Constant::Bool(true)))
}

/// Whether nothing behind it is reached.
pub(super) fn leaves(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(_) | StatementKind::Break | StatementKind::Continue | StatementKind::Rethrow => true,
        StatementKind::Expression(expr) => matches!(expr.kind, Kind::Throw(_)),
        StatementKind::Block(list) => list.iter().any(leaves),
        StatementKind::If(_, then, Some(otherwise)) => leaves(then) && leaves(otherwise),
        StatementKind::While(condition, body) => is_true(condition) && !breaks(body),
        StatementKind::For(_, condition, _, body) => condition.as_ref().is_none_or(is_true) && !breaks(body),
        StatementKind::DoWhile(body, condition) => is_true(condition) && !breaks(body),
        StatementKind::Try(whole) => {
            let all = leaves(&whole.body) && whole.catches.iter().all(|catch| leaves(&catch.body));
            all || whole.finally.as_ref().is_some_and(leaves)
        }
        StatementKind::Switch(_, sections) => {
            let mut labels = sections.iter().flat_map(|section| &section.labels);
            labels.any(|label| label.pattern.is_none())
                && sections
                    .iter()
                    .all(|section| section.body.iter().any(leaves) && !section.body.iter().any(breaks))
        }
        _ => false,
    }
}

/// Whether it breaks out of the loop or the switch around it.
fn breaks(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Break => true,
        StatementKind::Block(list) => list.iter().any(breaks),
        StatementKind::If(_, then, otherwise) => breaks(then) || otherwise.as_deref().is_some_and(breaks),
        StatementKind::Try(whole) => {
            breaks(&whole.body)
                || whole.catches.iter().any(|catch| breaks(&catch.body))
                || whole.finally.as_ref().is_some_and(breaks)
        }
        _ => false,
    }
}
