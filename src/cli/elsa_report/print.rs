//! The report as text and as JSON.

use serde::Serialize;

use super::verdict::{Finding, Verdict};
use crate::activity::printable;
use crate::definition::ValidationError;

/// How many definitions have each outcome.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) definitions: usize,
    pub(super) runs: usize,
    pub(super) warnings: usize,
    pub(super) refused: usize,
    pub(super) unreadable: usize,
    /// How many were imported, if that is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) imported: Option<usize>,
}

/// The JSON document.
#[derive(Debug, Serialize)]
pub(super) struct ReportDocument<'a> {
    pub(super) definitions: &'a [Verdict],
    pub(super) summary: &'a Summary,
}

impl Summary {
    /// Counts them.
    pub(super) fn of(verdicts: &[Verdict]) -> Self {
        let count = |finding| verdicts.iter().filter(|verdict| verdict.finding == finding).count();
        let wanted = verdicts.iter().any(|verdict| verdict.imported.is_some());
        let imported = verdicts.iter().filter(|verdict| verdict.imported == Some(true)).count();
        Self {
            definitions: verdicts.len(),
            runs: count(Finding::Runs),
            warnings: count(Finding::Warnings),
            refused: count(Finding::Refused),
            unreadable: count(Finding::Unreadable),
            imported: wanted.then_some(imported),
        }
    }

    /// The last line of the report.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "definitions: {}, run: {}, run with warnings: {}, do not run: {}, unreadable: {}",
            self.definitions, self.runs, self.warnings, self.refused, self.unreadable
        );
        if let Some(imported) = self.imported {
            line.push_str(&format!(", imported: {imported}"));
        }
        line
    }
}

/// The lines of one definition: the outcome, then each warning or reason.
pub(super) fn lines(verdict: &Verdict) -> Vec<String> {
    let outcome = match verdict.finding {
        Finding::Runs => "runs",
        Finding::Warnings => "runs with warnings",
        Finding::Refused => "does not run",
        Finding::Unreadable => "unreadable",
    };
    let mut head = verdict.source.clone();
    if let Some(id) = &verdict.definition_id {
        head.push_str(&format!(", {id}"));
    }
    if let Some(version) = verdict.version {
        head.push_str(&format!(" version {version}"));
    }
    head.push_str(&format!(": {outcome}"));
    if verdict.imported == Some(true) {
        head.push_str(", imported");
    }
    let said = verdict.errors.iter().chain(&verdict.warnings).map(said);
    let lines = std::iter::once(head).chain(said);
    // Ids and messages are of files.
    lines.map(|line| printable(&line).into_owned()).collect()
}

/// A message, with the id of its activity.
fn said(problem: &ValidationError) -> String {
    format!("    {}", problem.message_with_id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(finding: Finding, errors: Vec<ValidationError>) -> Verdict {
        Verdict {
            source: "a.json".to_owned(),
            definition_id: Some("a".to_owned()),
            name: None,
            version: Some(2),
            finding,
            warnings: Vec::new(),
            errors,
            imported: None,
        }
    }

    #[test]
    fn each_reason_has_a_line_with_its_activity() {
        let errors = vec![
            ValidationError::of("w", "The activity w is odd"),
            ValidationError::of("x", "The activity \"Mail\"\n is odd"),
        ];
        assert_eq!(
            lines(&verdict(Finding::Refused, errors)),
            [
                "a.json, a version 2: does not run",
                "    The activity w is odd",
                "    The activity \"Mail\"\\n is odd (x)"
            ]
        );
    }

    #[test]
    fn the_summary_counts() {
        let all = [
            verdict(Finding::Runs, Vec::new()),
            verdict(Finding::Unreadable, Vec::new()),
        ];
        let summary = Summary::of(&all);
        assert_eq!(
            summary.line(),
            "definitions: 2, run: 1, run with warnings: 0, do not run: 0, unreadable: 1"
        );
        let document = ReportDocument {
            definitions: &all[..1],
            summary: &summary,
        };
        assert_eq!(
            serde_json::to_string(&document).unwrap(),
            r#"{"definitions":[{"source":"a.json","definitionId":"a","name":null,"version":2,"outcome":"runs","warnings":[],"errors":[]}],"summary":{"definitions":2,"runs":1,"warnings":0,"refused":0,"unreadable":1}}"#
        );
    }
}
