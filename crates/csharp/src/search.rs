//! Regular expressions of .NET: their work, which is linear in the text, is counted.

use std::rc::Rc;
use std::sync::Arc;

use mainspring_language::{PatternProblem, PatternSize, TranslatedPattern};
use regex::RegexBuilder;

use super::object::Found;
use super::pattern::Pattern;
use super::problem::{Evaluated, Stop};
use super::run::Meter;

/// In bytes: the longest pattern.
const LONGEST: usize = 4 << 10;

/// In bytes: the smallest and the largest compiled pattern.
const LIGHTEST: usize = 8 << 10;
const HEAVIEST: usize = 1 << 20;

/// The most groups: the engine keeps their places for each of its states.
const MOST_GROUPS: usize = 50;

/// The most classes whose characters are searched in both cases: each takes a third of a ms for each size that is tried.
const MOST_CLASSES: usize = 480;

/// In steps: what such a class takes.
const STEPS_OF_CLASS: usize = 300;

/// Work that is as much as a step: see [`PatternSize`].
const WORK_OF_STEP: usize = 32;

/// The same where a search only may go through the whole text.
const WORK_OF_GLANCE: usize = 8 * WORK_OF_STEP;

/// The most work of one search, which nothing interrupts: about a second.
const MOST_WORK: usize = 32 << 20;

/// Bits of `RegexOptions`.
const IGNORE_CASE: i32 = 1;
const MULTILINE: i32 = 2;
const EXPLICIT: i32 = 4;
const SINGLELINE: i32 = 16;
const IGNORE_BLANKS: i32 = 32;
const REFUSED: i32 = 64 | 256;

fn refuse(what: &str) -> Box<Stop> {
    let message = format!("{what} in a regular expression is not supported here; match more, and look at it in C#");
    Stop::thrown("NotSupportedException", message)
}

fn invalid(message: &str) -> Box<Stop> {
    let shown: String = message.lines().last().unwrap_or_default().chars().take(200).collect();
    Stop::thrown(
        "RegexParseException",
        format!("the regular expression is invalid: {shown}"),
    )
}

impl Pattern {
    pub(super) fn compile(source: &Arc<str>, options: i32, meter: &Meter<'_>) -> Evaluated<Self> {
        if source.len() > LONGEST {
            return Err(invalid(&format!("it has more than {LONGEST} bytes")));
        }
        if options & REFUSED != 0 {
            return Err(refuse("RightToLeft or ECMAScript"));
        }
        meter.steps(source.len())?;
        let translated = TranslatedPattern::of(source, options & EXPLICIT != 0).map_err(|problem| match problem {
            PatternProblem::Lacking(what) => refuse(what),
            PatternProblem::Invalid(what) => invalid(what),
        })?;
        let size = PatternSize::of(&translated.text);
        if size.ignores_case || options & IGNORE_CASE != 0 {
            if size.classes() > MOST_CLASSES {
                return Err(invalid(
                    "it has too many classes to ignore their case; leave out RegexOptions.IgnoreCase",
                ));
            }
            meter.steps(size.classes() * STEPS_OF_CLASS)?;
        }
        let has = |bit: i32| options & bit != 0;
        let mut weight = LIGHTEST;
        let regex = loop {
            meter.steps(weight / 128)?;
            let built = RegexBuilder::new(&translated.text)
                .case_insensitive(has(IGNORE_CASE))
                .multi_line(has(MULTILINE))
                .dot_matches_new_line(has(SINGLELINE))
                .ignore_whitespace(has(IGNORE_BLANKS))
                .size_limit(weight)
                .nest_limit(100)
                .build();
            match built {
                Ok(regex) => break regex,
                Err(regex::Error::CompiledTooBig(_)) if weight < HEAVIEST => {
                    weight = weight.saturating_mul(4).min(HEAVIEST);
                }
                Err(regex::Error::CompiledTooBig(_)) => return Err(invalid("it is too large; repeat fewer parts")),
                Err(error) => return Err(invalid(&error.to_string())),
            }
        };
        let all: Vec<Option<&str>> = regex.capture_names().collect();
        if all.len() > MOST_GROUPS {
            return Err(invalid(&format!("it has more than {MOST_GROUPS} groups")));
        }
        meter.hold(weight.saturating_mul(all.len() + 1))?;
        let (mut order, mut names): (Vec<usize>, Vec<Arc<str>>) = (Vec::new(), Vec::new());
        for (place, name) in all.iter().enumerate() {
            if name.is_none() {
                names.push(order.len().to_string().into());
                order.push(place);
            }
        }
        for (place, name) in all.iter().enumerate() {
            if let Some(name) = name {
                names.push((*name).into());
                order.push(place);
            }
        }
        Ok(Self {
            source: Arc::clone(source),
            regex,
            work: size.work(),
            order,
            names,
            asks_end: translated.asks_end && !has(MULTILINE),
        })
    }

    /// The first match from a place on. The work of the whole search is counted before it; that of the next ones, which go on
    /// where the last one has ended, by how far they come.
    pub(super) fn find(
        self: &Rc<Self>,
        text: &Arc<str>,
        at: usize,
        is_first: bool,
        meter: &Meter<'_>,
    ) -> Evaluated<Option<Found>> {
        if self.asks_end && text.ends_with('\n') {
            return Err(refuse("$ before a line break at the end of the text, instead of \\z,"));
        }
        let work = text.len().saturating_sub(at).saturating_mul(self.work);
        if work > MOST_WORK {
            let most = MOST_WORK / self.work;
            return Err(Stop::thrown(
                "RegexMatchTimeoutException",
                format!(
                    "this regular expression searches at most {most} bytes of text; search parts, or repeat less in it"
                ),
            ));
        }
        let unit = if is_first { WORK_OF_STEP } else { WORK_OF_GLANCE };
        meter.steps(1 + work / unit)?;
        let Some(captures) = self.regex.captures_at(text, at) else {
            return Ok(None);
        };
        let span = |place: &usize| captures.get(*place).map(|found| (found.start(), found.end()));
        let spans: Rc<[Option<(usize, usize)>]> = self.order.iter().map(span).collect();
        meter.hold(120 + 24 * spans.len())?;
        let found = Found {
            text: Arc::clone(text),
            spans,
            pattern: Rc::clone(self),
        };
        if !is_first {
            let end = found.span(0).map_or(at, |(_, end)| end);
            meter.steps(end.saturating_sub(at).saturating_mul(self.work) / WORK_OF_STEP)?;
        }
        Ok(Some(found))
    }

    /// The next match behind one: behind an empty one the search goes on a character later.
    pub(super) fn next(self: &Rc<Self>, before: &Found, meter: &Meter<'_>) -> Evaluated<Option<Found>> {
        let Some((start, end)) = before.span(0) else {
            return Ok(None);
        };
        let step = if start == end {
            let after = before.text.get(end..).and_then(|rest| rest.chars().next());
            match after {
                Some(character) => character.len_utf8(),
                None => return Ok(None),
            }
        } else {
            0
        };
        self.find(&before.text, end + step, false, meter)
    }

    /// All matches, at most so many.
    pub(super) fn all(self: &Rc<Self>, text: &Arc<str>, most: usize, meter: &Meter<'_>) -> Evaluated<Vec<Found>> {
        let mut all = Vec::new();
        let mut next = if most > 0 {
            self.find(text, 0, true, meter)?
        } else {
            None
        };
        while let Some(found) = next {
            next = if all.len() + 1 < most {
                self.next(&found, meter)?
            } else {
                None
            };
            all.push(found);
        }
        Ok(all)
    }

    /// What a match is without one.
    pub(super) fn nothing(self: &Rc<Self>) -> Found {
        Found {
            text: "".into(),
            spans: Rc::new([]),
            pattern: Rc::clone(self),
        }
    }
}
