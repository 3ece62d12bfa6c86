//! What stands between two slashes of a template, and the text that it matches.

use crate::case::{folded, last_place};
use crate::constraint::Constraint;
use crate::pattern::LONGEST_VALUE;

/// In bytes: the longest template.
pub(crate) const LONGEST_TEMPLATE: usize = 1 << 10;

/// The most segments of a template: those of ASP.NET Core.
pub(crate) const MOST_SEGMENTS: usize = 28;

#[derive(Clone, Debug)]
pub(crate) enum Segment {
    /// Its folded text.
    Literal(Box<str>),
    Parameter(Parameter),
    /// Several parts, of which no two parameters are side by side.
    Complex(Box<[Part]>),
    CatchAll(Parameter),
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Its folded text.
    Literal(Box<str>),
    Parameter(Parameter),
}

#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Box<str>,
    pub(crate) constraints: Box<[Constraint]>,
    pub(crate) default: Option<Box<str>>,
    pub(crate) is_optional: bool,
}

/// The values of parameters, in the order of the template. A catch-all may have none.
pub(crate) type Values<'v> = Vec<(&'v str, Option<&'v str>)>;

impl Parameter {
    /// Whether a value is allowed.
    pub(crate) fn allows(&self, value: Option<&str>) -> bool {
        self.constraints.iter().all(|constraint| constraint.is_met(value))
    }

    /// Parameters with the same key allow the same values. The order of constraints is no difference.
    fn push_key(&self, key: &mut String) {
        let mut constraints: Vec<String> = self.constraints.iter().map(Constraint::key).collect();
        constraints.sort_unstable();
        constraints.dedup();
        for constraint in constraints {
            key.push(':');
            key.push_str(&constraint);
        }
    }
}

impl Segment {
    /// The digit of the precedence.
    pub(crate) fn digit(&self) -> u8 {
        match self {
            Self::Literal(_) => 1,
            Self::Complex(_) => 2,
            Self::Parameter(parameter) => 3 - u8::from(!parameter.constraints.is_empty()),
            Self::CatchAll(parameter) => 5 - u8::from(!parameter.constraints.is_empty()),
        }
    }

    /// Whether a path that ends before this segment matches it.
    pub(crate) fn may_be_absent(&self) -> bool {
        match self {
            Self::Literal(_) | Self::Complex(_) => false,
            Self::Parameter(parameter) => {
                let default = parameter.default.as_deref();
                parameter.is_optional || (default.is_some() && parameter.allows(default))
            }
            Self::CatchAll(parameter) => parameter.allows(parameter.default.as_deref()),
        }
    }

    /// Whether a segment of a path, which is not empty, matches. A literal is compared elsewhere, and a catch-all with all
    /// that follows.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *folded(text),
            Self::Parameter(parameter) | Self::CatchAll(parameter) => parameter.allows(Some(text)),
            Self::Complex(parts) => {
                let Some(captured) = capture(parts, text) else {
                    return false;
                };
                captured.iter().all(|(parameter, value)| parameter.allows(Some(value)))
            }
        }
    }

    /// Adds the values of a segment of a path that matches.
    pub(crate) fn add_values<'v>(&'v self, text: &'v str, values: &mut Values<'v>) {
        match self {
            Self::Literal(_) => {}
            Self::Parameter(parameter) | Self::CatchAll(parameter) => values.push((&parameter.name, Some(text))),
            Self::Complex(parts) => {
                let captured = capture(parts, text).unwrap_or_default();
                values.extend(
                    captured
                        .iter()
                        .rev()
                        .map(|(parameter, value)| (&*parameter.name, Some(*value))),
                );
            }
        }
    }

    /// Adds the values that there are when a path ends before this segment.
    pub(crate) fn add_absent<'v>(&'v self, values: &mut Values<'v>) {
        match self {
            Self::Parameter(parameter) if parameter.default.is_some() => {
                values.push((&parameter.name, parameter.default.as_deref()));
            }
            Self::CatchAll(parameter) => values.push((&parameter.name, parameter.default.as_deref())),
            _ => {}
        }
    }

    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let (one, parts): (_, &[Part]) = match self {
            Self::Literal(_) => (None, &[]),
            Self::Parameter(parameter) | Self::CatchAll(parameter) => (Some(parameter), &[]),
            Self::Complex(parts) => (None, parts),
        };
        let of_parts = parts.iter().filter_map(|part| match part {
            Part::Parameter(parameter) => Some(parameter),
            Part::Literal(_) => None,
        });
        one.into_iter().chain(of_parts)
    }

    /// Segments with the same key match the same texts, and have the same digit.
    pub(crate) fn push_key(&self, key: &mut String) {
        let push_parameter = |parameter: &Parameter, begin: &str, end: &str, key: &mut String| {
            key.push_str(begin);
            parameter.push_key(key);
            key.push_str(end);
        };
        match self {
            Self::Literal(literal) => push_literal(literal, key),
            Self::Parameter(parameter) => push_parameter(parameter, "{", "}", key),
            Self::CatchAll(parameter) => push_parameter(parameter, "{*", "}", key),
            Self::Complex(parts) => {
                for part in parts {
                    match part {
                        Part::Literal(literal) => push_literal(literal, key),
                        Part::Parameter(parameter) => {
                            let end = if parameter.is_optional { "?}" } else { "}" };
                            push_parameter(parameter, "{", end, key);
                        }
                    }
                }
            }
        }
    }
}

pub(crate) fn push_literal(literal: &str, key: &mut String) {
    for c in literal.chars() {
        key.push(c);
        if matches!(c, '{' | '}') {
            key.push(c);
        }
    }
}

type Captured<'v> = Vec<(&'v Parameter, &'v str)>;

/// What the parameters of a segment of several parts have of a text, from the right.
///
/// Without its last parameter and the point before it, where that is optional, a segment matches a text that does not end with
/// that point.
fn capture<'v>(parts: &'v [Part], text: &'v str) -> Option<Captured<'v>> {
    if text.len() > LONGEST_VALUE {
        return None;
    }
    let all = capture_all(parts, text);
    if all.is_some() {
        return all;
    }
    match parts {
        [rest @ .., Part::Literal(point), Part::Parameter(last)] if last.is_optional && !text.ends_with(&**point) => {
            capture_all(rest, text)
        }
        _ => None,
    }
}

/// Each literal is found from the right and not moved afterwards, as ASP.NET Core does it.
fn capture_all<'v>(parts: &'v [Part], text: &'v str) -> Option<Captured<'v>> {
    let mut captured = Vec::new();
    let mut pending = None;
    let mut rest = text;
    for (at, part) in parts.iter().enumerate().rev() {
        match part {
            Part::Parameter(parameter) => pending = Some(parameter),
            Part::Literal(literal) => {
                // A parameter has at least one character.
                let searched = match pending {
                    Some(_) => rest.char_indices().next_back().and_then(|(last, _)| rest.get(..last))?,
                    None => rest,
                };
                let (start, end) = last_place(searched, literal)?;
                if at + 1 == parts.len() && end != text.len() {
                    return None;
                }
                if let Some(parameter) = pending.take() {
                    captured.push((parameter, rest.get(end..)?));
                }
                rest = rest.get(..start)?;
            }
        }
    }
    match pending {
        Some(parameter) if !rest.is_empty() => {
            captured.push((parameter, rest));
            Some(captured)
        }
        None if rest.is_empty() => Some(captured),
        _ => None,
    }
}
