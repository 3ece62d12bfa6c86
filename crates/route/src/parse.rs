//! From the text of a template to its segments.

use std::collections::HashSet;

use crate::case::folded;
use crate::error::TemplateError;
use crate::parameter::{self, Left, Placed};
use crate::path::decoded;
use crate::segment::{LONGEST_TEMPLATE, MOST_SEGMENTS, Part, Segment};

/// The most parameters of a template.
pub(crate) const MOST_PARAMETERS: usize = 64;

type Parsed<T> = Result<T, TemplateError>;

fn refuse<T>(column: usize, message: impl Into<String>) -> Parsed<T> {
    Err(TemplateError::new(column, message))
}

/// The segments of a template.
pub(crate) fn parse(source: &str) -> Parsed<Vec<Segment>> {
    if source.len() > LONGEST_TEMPLATE {
        let message = format!(
            "the template has {} bytes, and at most {LONGEST_TEMPLATE} are allowed; shorten it",
            source.len()
        );
        return refuse(1, message);
    }
    let text: Vec<char> = source.chars().collect();
    if let Some(at) = text.iter().position(|c| c.is_control()) {
        return refuse(at + 1, "a template has no control characters; remove it");
    }
    let at = match text.as_slice() {
        ['~', '/', ..] => 2,
        ['~', ..] => return refuse(1, "a template begins with a segment, / or ~/; remove the ~"),
        ['/', ..] => 1,
        _ => 0,
    };
    let mut parser = Parser {
        text: &text,
        at,
        names: HashSet::new(),
        left: Left::new(),
        catch_all: None,
        optional: None,
    };
    let mut segments = Vec::new();
    while !parser.is_at_end() {
        if segments.len() == MOST_SEGMENTS {
            let message =
                format!("a template has at most {MOST_SEGMENTS} segments, as in ASP.NET Core; leave some out");
            return refuse(parser.column(), message);
        }
        segments.push(parser.segment()?);
    }
    Ok(segments)
}

struct Parser<'t> {
    text: &'t [char],
    at: usize,
    /// The names so far, without their case.
    names: HashSet<String>,
    left: Left,
    /// The name of the catch-all, behind which nothing is.
    catch_all: Option<Box<str>>,
    /// The name of the last optional parameter that is a segment, and its column.
    optional: Option<(Box<str>, usize)>,
}

/// A part and its column.
struct PlacedPart {
    part: Part,
    column: usize,
    is_catch_all: bool,
}

impl Parser<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn column(&self) -> usize {
        self.at + 1
    }

    /// A segment and the slash behind it.
    fn segment(&mut self) -> Parsed<Segment> {
        let column = self.column();
        if self.peek(0) == Some('/') {
            return refuse(
                column,
                "two slashes are side by side, and a segment cannot be empty; remove one of them",
            );
        }
        if let Some(name) = &self.catch_all {
            let message = format!("the catch-all {name} takes the rest of the path; remove what is behind it");
            return refuse(column, message);
        }
        let mut parts = Vec::new();
        while self.peek(0).is_some_and(|c| c != '/') {
            let is_parameter = self.peek(0) == Some('{') && self.peek(1) != Some('{');
            parts.push(if is_parameter {
                self.parameter()?
            } else {
                self.literal()?
            });
        }
        self.at += 1;
        self.check_parts(&parts)?;
        let segment = match <[PlacedPart; 1]>::try_from(parts) {
            Ok([placed]) => single(placed)?,
            Err(parts) => Segment::Complex(parts.into_iter().map(|placed| placed.part).collect()),
        };
        self.check_order(&segment, column)?;
        Ok(segment)
    }

    /// An optional parameter is followed by nothing that a path must have.
    fn check_order(&mut self, segment: &Segment, column: usize) -> Parsed<()> {
        match segment {
            Segment::Parameter(parameter) if parameter.is_optional => {
                self.optional = Some((parameter.name.clone(), column));
            }
            Segment::Parameter(parameter) if parameter.default.is_some() => {}
            Segment::CatchAll(parameter) => self.catch_all = Some(parameter.name.clone()),
            _ => {
                if let Some((name, column)) = &self.optional {
                    let message = format!(
                        "the parameter {name} is optional, and what follows is not; remove the ? or move it to the end"
                    );
                    return refuse(*column, message);
                }
            }
        }
        Ok(())
    }

    fn check_parts(&self, parts: &[PlacedPart]) -> Parsed<()> {
        if parts.len() < 2 {
            return Ok(());
        }
        if let Some(placed) = parts.iter().find(|placed| placed.is_catch_all) {
            return refuse(
                placed.column,
                "a catch-all is a segment of its own; write a slash between it and what is beside it",
            );
        }
        let mut before: Option<&Part> = None;
        for (at, placed) in parts.iter().enumerate() {
            if let Part::Parameter(parameter) = &placed.part {
                let name = &parameter.name;
                if matches!(before, Some(Part::Parameter(_))) {
                    let message =
                        format!("the parameter {name} is behind another one; write text or a slash between them");
                    return refuse(placed.column, message);
                }
                if parameter.is_optional && at + 1 < parts.len() {
                    let message =
                        format!("the parameter {name} is optional and not the last part of its segment; remove the ?");
                    return refuse(placed.column, message);
                }
                if parameter.is_optional && !matches!(before, Some(Part::Literal(point)) if **point == *".") {
                    let message = format!(
                        "before the optional {name} of a segment with other parts only a point is allowed, as in {{x}}.{{{name}?}}"
                    );
                    return refuse(placed.column, message);
                }
            }
            before = Some(&placed.part);
        }
        Ok(())
    }

    fn literal(&mut self) -> Parsed<PlacedPart> {
        let column = self.column();
        let mut text = String::new();
        while let Some(c) = self.peek(0) {
            match c {
                '/' => break,
                '{' if self.peek(1) != Some('{') => break,
                '}' if self.peek(1) != Some('}') => {
                    return refuse(self.column(), "this } closes nothing; write }} for a brace of the path");
                }
                '{' | '}' => self.at += 1,
                '?' => {
                    return refuse(
                        self.column(),
                        "a template has no query; remove the ?, write {name?} for an optional parameter or %3F for the character",
                    );
                }
                '#' => {
                    return refuse(
                        self.column(),
                        "a template has no fragment; remove the #, or write %23 for the character",
                    );
                }
                _ => {}
            }
            text.push(c);
            self.at += 1;
        }
        let decoded = decoded(&text).ok().filter(|text| !text.contains(char::is_control));
        let Some(decoded) = decoded else {
            return refuse(
                column,
                format!("{text} has the escape of a control character; remove it"),
            );
        };
        Ok(PlacedPart {
            part: Part::Literal(folded(&decoded).into()),
            column,
            is_catch_all: false,
        })
    }

    fn parameter(&mut self) -> Parsed<PlacedPart> {
        let column = self.column();
        self.at += 1;
        let mut inner: Vec<Placed> = Vec::new();
        loop {
            let place = self.column();
            match (self.peek(0), self.peek(1)) {
                (None, _) => {
                    return refuse(
                        column,
                        "the brace { is not closed; write } behind the parameter, or {{ for a brace of the path",
                    );
                }
                (Some(c @ '{'), Some('{')) | (Some(c @ '}'), Some('}')) => {
                    inner.push((c, place));
                    self.at += 2;
                }
                (Some('{'), _) => {
                    return refuse(
                        place,
                        "this { is within a parameter; close the parameter before it, or write {{ for a brace of an expression",
                    );
                }
                (Some('}'), _) => break,
                (Some(c), _) => {
                    inner.push((c, place));
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        let (parameter, is_catch_all) = parameter::parse(&inner, column, &mut self.left)?;
        if self.names.len() == MOST_PARAMETERS {
            return refuse(
                column,
                format!("a template has at most {MOST_PARAMETERS} parameters; leave some out"),
            );
        }
        if !self.names.insert(folded(&parameter.name).into_owned()) {
            let message = format!(
                "the parameter {} is there twice; give one of them another name",
                parameter.name
            );
            return refuse(column, message);
        }
        Ok(PlacedPart {
            part: Part::Parameter(parameter),
            column,
            is_catch_all,
        })
    }
}

fn single(placed: PlacedPart) -> Parsed<Segment> {
    match placed.part {
        Part::Literal(text) if matches!(&*text, "." | "..") => {
            let message = format!(
                "the segment {text} is removed from the paths of requests, so that it matches none; leave it out"
            );
            refuse(placed.column, message)
        }
        Part::Literal(text) => Ok(Segment::Literal(text)),
        Part::Parameter(parameter) if placed.is_catch_all => Ok(Segment::CatchAll(parameter)),
        Part::Parameter(parameter) => Ok(Segment::Parameter(parameter)),
    }
}
