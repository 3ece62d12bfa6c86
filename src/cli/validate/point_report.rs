//! What the points found, as text and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Violation;
use crate::activity::printable;
use crate::harness::without_controls;

/// The most problems of one point that are said one by one.
const MOST_SAID: usize = 10;

/// What came of a point.
#[derive(Debug, PartialEq)]
pub(super) enum PointOutcome {
    /// The promise holds; what was seen.
    Passed(String),
    /// It does not; each problem.
    Failed(Vec<String>),
    /// It was not tried; why, and what to give.
    NotRun(String),
}

impl PointOutcome {
    /// Passed if there is no problem.
    pub(super) fn of(problems: Vec<String>, seen: impl FnOnce() -> String) -> Self {
        if problems.is_empty() {
            Self::Passed(seen())
        } else {
            Self::Failed(problems)
        }
    }

    /// Failed by one problem.
    pub(super) fn failed(problem: impl Into<String>) -> Self {
        Self::Failed(vec![problem.into()])
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed(_) => "failed",
            Self::NotRun(_) => "not run",
        }
    }

    /// What was found, a line each.
    fn found(&self) -> Vec<String> {
        match self {
            Self::Passed(found) | Self::NotRun(found) => vec![found.clone()],
            Self::Failed(problems) => {
                let mut said: Vec<String> = problems.iter().take(MOST_SAID).cloned().collect();
                let more = problems.len().saturating_sub(MOST_SAID);
                said.extend((more > 0).then(|| format!("and {more} more")));
                said
            }
        }
    }
}

/// What a point of the checklist is about.
pub(super) fn name(number: u8) -> &'static str {
    match number {
        1 => "of simultaneous resumes one runs",
        2 => "a timer fires once",
        3 => "a publish is known to all nodes at once",
        4 => "a node that stops loses nothing",
        5 => "a rolling restart fails no request",
        _ => "locks are short",
    }
}

/// A point that is done.
#[derive(Debug)]
pub(super) struct PointReport {
    pub(super) number: u8,
    pub(super) outcome: PointOutcome,
    pub(super) took: Duration,
}

impl PointReport {
    /// Its outcome in one line.
    pub(super) fn line(&self) -> String {
        let (number, outcome) = (self.number, self.outcome.word());
        format!("point {number}: {outcome} after {:.1} s", self.took.as_secs_f64())
    }

    fn lines(&self) -> Vec<String> {
        let head = format!("{} {}: {}", self.number, name(self.number), self.outcome.word());
        let found = self.outcome.found();
        let found = found.iter().map(|found| format!("    {found}"));
        std::iter::once(head).chain(found).collect()
    }

    fn json(&self) -> Value {
        json!({
            "point": self.number,
            "name": name(self.number),
            "outcome": match self.outcome {
                PointOutcome::Passed(_) => "passed",
                PointOutcome::Failed(_) => "failed",
                PointOutcome::NotRun(_) => "notRun",
            },
            "seconds": (self.took.as_secs_f64() * 10.0).round() / 10.0,
            "found": self.outcome.found(),
        })
    }
}

/// The whole report.
#[derive(Debug)]
pub(super) struct ValidationReport {
    /// URL and node id of each.
    pub(super) nodes: Vec<(String, String)>,
    /// By number.
    pub(super) points: Vec<PointReport>,
    /// What violates an invariant of the database, if one was given.
    pub(super) violations: Option<Vec<Violation>>,
}

impl ValidationReport {
    /// Each point has passed, and no invariant is violated.
    pub(super) fn has_passed(&self) -> bool {
        let has_passed = |point: &PointReport| matches!(point.outcome, PointOutcome::Passed(_));
        self.points.iter().all(has_passed) && self.violations.as_ref().is_none_or(Vec::is_empty)
    }

    pub(super) fn lines(&self, as_json: bool) -> Vec<String> {
        if as_json {
            return vec![without_controls(&self.json().to_string())];
        }
        let nodes = self.nodes.iter().map(|(url, id)| format!("{id} at {url}"));
        let mut lines = vec![format!("nodes: {}", nodes.collect::<Vec<_>>().join(", "))];
        lines.extend(self.points.iter().flat_map(PointReport::lines));
        match &self.violations {
            None => {}
            Some(none) if none.is_empty() => lines.push("the database: every invariant holds".to_owned()),
            Some(violations) => lines.extend(violations.iter().map(|violation| {
                let (invariant, count) = (&violation.invariant, violation.count);
                format!("the database violates: {invariant} ({count} times); `mainspring check` shows a row")
            })),
        }
        let passed = self.points.iter().filter(|point| point.outcome.word() == "passed");
        lines.push(format!("{} of {} points passed", passed.count(), self.points.len()));
        // Ids of nodes and instances, and answers of servers.
        lines.iter().map(|line| printable(line).into_owned()).collect()
    }

    fn json(&self) -> Value {
        let nodes = self.nodes.iter().map(|(url, id)| json!({"url": url, "nodeId": id}));
        let mut document = json!({
            "passed": self.has_passed(),
            "nodes": nodes.collect::<Vec<_>>(),
            "points": self.points.iter().map(PointReport::json).collect::<Vec<_>>(),
        });
        if let (Some(violations), Value::Object(fields)) = (&self.violations, &mut document) {
            fields.insert("violations".to_owned(), json!(violations));
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcomes: Vec<PointOutcome>) -> ValidationReport {
        let points = outcomes.into_iter().zip(1..).map(|(outcome, number)| PointReport {
            number,
            outcome,
            took: Duration::from_millis(1_240),
        });
        ValidationReport {
            nodes: vec![("http://a".to_owned(), "one".to_owned())],
            points: points.collect(),
            violations: None,
        }
    }

    #[test]
    fn the_text_names_each_point_with_what_was_found() {
        let outcomes = vec![
            PointOutcome::Passed("seen".to_owned()),
            PointOutcome::failed("bad\u{1b}[31m"),
            PointOutcome::NotRun("give --x".to_owned()),
        ];
        let report = report(outcomes);
        assert!(!report.has_passed());
        assert_eq!(
            report.lines(false),
            [
                "nodes: one at http://a",
                "1 of simultaneous resumes one runs: passed",
                "    seen",
                "2 a timer fires once: failed",
                "    bad\\u{1b}[31m",
                "3 a publish is known to all nodes at once: not run",
                "    give --x",
                "1 of 3 points passed",
            ]
        );
        assert_eq!(report.points[0].line(), "point 1: passed after 1.2 s");
    }

    #[test]
    fn the_json_is_exact() {
        let report = report(vec![PointOutcome::Passed("se\u{9b}en".to_owned())]);
        assert!(report.has_passed());
        let text = report.lines(true).concat();
        assert!(!text.contains('\u{9b}'), "{text}");
        let document: Value = serde_json::from_str(&text).unwrap();
        let point = json!({"point": 1, "name": name(1), "outcome": "passed", "seconds": 1.2, "found": ["se\u{9b}en"]});
        let node = json!({"url": "http://a", "nodeId": "one"});
        assert_eq!(document, json!({"passed": true, "nodes": [node], "points": [point]}));
    }

    #[test]
    fn a_point_that_was_not_run_and_a_violation_are_no_success() {
        assert!(!report(vec![PointOutcome::NotRun(String::new())]).has_passed());
        let mut violated = report(vec![PointOutcome::Passed(String::new())]);
        violated.violations = Some(vec![Violation {
            invariant: "i".to_owned(),
            count: 2,
            sample: None,
        }]);
        assert!(!violated.has_passed());
        assert!(
            violated
                .lines(false)
                .iter()
                .any(|line| line.contains("violates: i (2 times)"))
        );
    }

    #[test]
    fn of_many_problems_ten_are_said() {
        let found = PointOutcome::Failed((0..12).map(|n| n.to_string()).collect()).found();
        assert_eq!((found.len(), found[10].as_str()), (11, "and 2 more"));
    }
}
