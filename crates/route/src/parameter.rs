//! What stands in the braces of a template: a name, constraints, a default.

use crate::constraint::Constraint;
use crate::error::TemplateError;
use crate::pattern;
use crate::segment::Parameter;

/// The most constraints of a template.
const MOST_CONSTRAINTS: usize = 32;

/// A character and its column.
pub(crate) type Placed = (char, usize);

/// What a template may still have.
pub(crate) struct Left {
    /// In bytes: compiled regular expressions.
    bytes: usize,
    constraints: usize,
}

impl Left {
    pub(crate) fn new() -> Self {
        Self {
            bytes: pattern::BUDGET,
            constraints: MOST_CONSTRAINTS,
        }
    }
}

/// Reads the inner of braces, in which doubled braces are single ones already; returns the parameter and whether
/// it is a catch-all. `column` is that of the brace that opens.
pub(crate) fn parse(inner: &[Placed], column: usize, left: &mut Left) -> Result<(Parameter, bool), TemplateError> {
    let stars = inner.iter().take(2).take_while(|(c, _)| *c == '*').count();
    let is_catch_all = stars > 0;
    let (inner, is_optional) = match inner {
        [rest @ .., ('?', _)] => (rest, true),
        all => (all, false),
    };
    let inner = inner.get(stars..).unwrap_or_default();
    let at = |c: fn(char) -> bool, from: usize| {
        let rest = inner.get(from..).unwrap_or_default();
        rest.iter().position(|(next, _)| c(*next)).map(|place| from + place)
    };
    let name_end = at(|c| matches!(c, ':' | '='), 0).unwrap_or(inner.len());
    let name = name(inner.get(..name_end).unwrap_or_default(), column)?;
    if is_catch_all && is_optional {
        return Err(TemplateError::new(
            column,
            format!("the catch-all {name} matches nothing, too; write {{*{name}}} without ?"),
        ));
    }
    let mut constraints = Vec::new();
    let mut next = name_end;
    while inner.get(next).is_some_and(|(c, _)| *c == ':') {
        let begin = next + 1;
        next = constraint_end(inner, begin);
        let placed = inner.get(begin..next).unwrap_or_default();
        // An empty constraint is none.
        let Some((_, column)) = placed.first() else {
            continue;
        };
        left.constraints = left.constraints.checked_sub(1).ok_or_else(|| {
            TemplateError::new(
                *column,
                format!("a template has at most {MOST_CONSTRAINTS} constraints; leave some out"),
            )
        })?;
        let text: String = placed.iter().map(|(c, _)| c).collect();
        let constraint = Constraint::parse(&text, &mut left.bytes);
        constraints.push(constraint.map_err(|message| TemplateError::new(*column, message))?);
    }
    let default = inner.get(next..).and_then(|rest| rest.split_first());
    let default: Option<String> = default.map(|(_, rest)| rest.iter().map(|(c, _)| c).collect());
    if let (Some(default), true) = (&default, is_optional) {
        return Err(TemplateError::new(
            column,
            format!(
                "the parameter {name} has the default {default}, so it is optional already; leave out the ? or the default"
            ),
        ));
    }
    let parameter = Parameter {
        name: name.into(),
        constraints: constraints.into(),
        default: default.map(String::into_boxed_str),
        is_optional,
    };
    Ok((parameter, is_catch_all))
}

fn name(placed: &[Placed], column: usize) -> Result<String, TemplateError> {
    if placed.is_empty() {
        return Err(TemplateError::new(
            column,
            "a parameter needs a name: write {name}, {name:int} or {name=default}",
        ));
    }
    let wrong = placed.iter().find(|(c, _)| matches!(c, '/' | '{' | '}' | '?' | '*'));
    if let Some((c, column)) = wrong {
        return Err(TemplateError::new(
            *column,
            format!(
                "the name of a parameter has no {c}; close the parameter with }}, and write * before its name and ? at its end"
            ),
        ));
    }
    Ok(placed.iter().map(|(c, _)| c).collect())
}

/// Where the constraint ends that begins at a place: at the next `:` or `=` outside of its parentheses.
///
/// These end, as in ASP.NET Core, at a `)` before `:`, `=` or the end. A `:` or `=` within them reaches to the `)` that
/// follows it.
fn constraint_end(inner: &[Placed], begin: usize) -> usize {
    let sign = |at: usize| inner.get(at).map(|(c, _)| *c);
    let mut at = begin;
    while sign(at).is_some_and(|c| !matches!(c, ':' | '=' | '(')) {
        at += 1;
    }
    if sign(at) != Some('(') {
        return at;
    }
    at += 1;
    while let Some(c) = sign(at) {
        match c {
            ')' if matches!(sign(at + 1), None | Some(':' | '=')) => return at + 1,
            ':' | '=' => {
                let rest = inner.get(at + 1..).unwrap_or_default();
                match rest.iter().position(|(c, _)| *c == ')') {
                    Some(close) => at += close + 2,
                    None => return at,
                }
            }
            _ => at += 1,
        }
    }
    at
}
