//! `mainspring check`: whether the database violates an invariant.

use serde_json::json;

use super::settings::{Check, Common};
use crate::activity::printable;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::{Violation, runtime};

pub(super) async fn run(common: &Common, settings: &Check) -> Result<(), Failure> {
    let violations = runtime::check(&common.database_url()?, &common.schema).await?;
    for line in report(&violations, settings.json) {
        print_line(&line);
    }
    if violations.is_empty() {
        Ok(())
    } else {
        Err(Failure::reported())
    }
}

fn report(violations: &[Violation], as_json: bool) -> Vec<String> {
    if as_json {
        return vec![json!({"ok": violations.is_empty(), "violations": violations}).to_string()];
    }
    if violations.is_empty() {
        return vec!["ok: every invariant holds".to_owned()];
    }
    let line = |violation: &Violation| {
        let sample = violation
            .sample
            .as_ref()
            .map(|sample| format!(", as {sample}"))
            .unwrap_or_default();
        let line = format!("violated: {} ({} times{sample})", violation.invariant, violation.count);
        // Rows contain ids that clients chose.
        printable(&line).into_owned()
    };
    violations.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_is_exact() {
        assert_eq!(report(&[], true), [r#"{"ok":true,"violations":[]}"#]);
        let violation = Violation {
            invariant: "i".to_owned(),
            count: 2,
            sample: Some("s".to_owned()),
        };
        assert_eq!(
            report(&[violation], true),
            [r#"{"ok":false,"violations":[{"invariant":"i","count":2,"sample":"s"}]}"#]
        );
    }
}
