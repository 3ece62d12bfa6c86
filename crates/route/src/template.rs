//! A template, and the values that a path has for it.

use crate::case::folded;
use crate::constraint::Constraint;
use crate::error::TemplateError;
use crate::parse;
use crate::path::RequestPath;
use crate::precedence::Precedence;
use crate::segment::{Segment, Values};

/// A route template: `orders/{id:int}/lines/{line?}`.
#[derive(Clone, Debug)]
pub struct Template {
    source: Box<str>,
    segments: Box<[Segment]>,
    precedence: Precedence,
    /// So many segments every path has that matches.
    required: usize,
}

impl Template {
    /// Reads a template. Slashes around it do not matter.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let segments = parse::parse(source)?;
        let absent = segments
            .iter()
            .rev()
            .take_while(|segment| segment.may_be_absent())
            .count();
        Ok(Self {
            source: source.into(),
            precedence: Precedence::of(&segments),
            required: segments.len() - absent,
            segments: segments.into(),
        })
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Which of two templates goes before the other.
    pub fn precedence(&self) -> Precedence {
        self.precedence
    }

    /// The names of the parameters, in their order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        let parameters = self.segments.iter().flat_map(Segment::parameters);
        parameters.map(|parameter| &*parameter.name)
    }

    /// The key of a unique row for a template and a method: the form without what makes no difference to a path that has all
    /// segments. That is slashes around it, case and escapes of literals, the names and defaults of parameters, which segments
    /// are optional, the order of constraints.
    ///
    /// Two templates of one shape and method are ambiguous for each such path. Templates of different shapes are not, except
    /// where different constraints happen to allow the same values. It has at most 2,100 bytes, so that it fits into an index.
    pub fn shape(&self) -> String {
        let mut shape = String::with_capacity(self.source.len());
        for (at, segment) in self.segments.iter().enumerate() {
            if at > 0 {
                shape.push('/');
            }
            segment.push_key(&mut shape);
        }
        shape
    }

    /// Whether it has no parameter: its one path is found by its [`Self::shape`] alone, see [`RequestPath::shape`].
    pub fn is_literal(&self) -> bool {
        self.segments
            .iter()
            .all(|segment| matches!(segment, Segment::Literal(_)))
    }

    /// In bytes: what its compiled regular expressions take at most, some 1 MiB. A program that keeps many templates adds them up.
    pub fn pattern_bytes(&self) -> usize {
        let parameters = self.segments.iter().flat_map(Segment::parameters);
        let constraints = parameters.flat_map(|parameter| &parameter.constraints);
        constraints.map(Constraint::pattern_bytes).sum()
    }

    /// A key by which the template can be found in a store: each path that it matches has it among its
    /// [`RequestPath::anchors`]. It is the first run of literal segments, with its place; empty if there is none.
    pub fn anchor(&self) -> String {
        let literals = self.segments.iter().map(|segment| match segment {
            Segment::Literal(literal) => Some(&**literal),
            _ => None,
        });
        let mut literals = literals.enumerate().skip_while(|(_, literal)| literal.is_none());
        let Some((place, Some(first))) = literals.next() else {
            return String::new();
        };
        let mut anchor = format!("{place}/{first}");
        for literal in literals.map_while(|(_, literal)| literal) {
            anchor.push('/');
            anchor.push_str(literal);
        }
        anchor
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn required(&self) -> usize {
        self.required
    }

    /// Whether a path matches, and the values of its parameters if it does.
    pub fn matches<'v>(&'v self, path: &'v RequestPath<'_>) -> Option<RouteValues<'v>> {
        if path.len() < self.required {
            return None;
        }
        let ends_with_rest = matches!(self.segments.last(), Some(Segment::CatchAll(_)));
        if path.len() > self.segments.len() && !ends_with_rest {
            return None;
        }
        let fit = self
            .segments
            .iter()
            .enumerate()
            .take(path.len())
            .all(|(at, segment)| match segment {
                Segment::Literal(literal) => **literal == *path.folded(at),
                Segment::CatchAll(_) => segment.is_match(path.rest(at)),
                other => !path.segment(at).is_empty() && other.is_match(path.segment(at)),
            });
        fit.then(|| self.values(path))
    }

    /// The values of a path that matches; of another path they have no meaning.
    pub fn values<'v>(&'v self, path: &'v RequestPath<'_>) -> RouteValues<'v> {
        let mut values = Vec::new();
        for (at, segment) in self.segments.iter().enumerate() {
            match segment {
                _ if at >= path.len() => segment.add_absent(&mut values),
                Segment::CatchAll(_) => segment.add_values(path.rest(at), &mut values),
                other => other.add_values(path.segment(at), &mut values),
            }
        }
        RouteValues(values)
    }
}

/// The values of the parameters of a template, in its order. An optional parameter that is not in the path has no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteValues<'v>(Values<'v>);

impl<'v> RouteValues<'v> {
    /// The value of a parameter, whatever the case of its name is. A catch-all that matched nothing has none.
    pub fn get(&self, name: &str) -> Option<&'v str> {
        let is_it = |known: &str| known == name || folded(known) == folded(name);
        self.0
            .iter()
            .find(|(known, _)| is_it(known))
            .and_then(|(_, value)| *value)
    }

    /// All names with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'v str, Option<&'v str>)> {
        self.0.iter().copied()
    }
}
