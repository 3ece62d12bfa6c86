//! Snippets that people write in workflows, with the value that Fluid gives, or the reason why they are refused here.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::LIMITS;
use crate::{ErrorKind, Fact, Template, TemplateData, ValueKind};

const BATTERY: &str = include_str!("battery.json");

/// One of them: `code`, `expected`, and what it sees: each variable and input has a `type` and a `value`.
struct Snippet<'s>(&'s Map<String, Value>);

impl Snippet<'_> {
    fn typed(&self, what: &str, name: &str) -> Option<&Value> {
        self.0.get(what)?.get(name)
    }

    fn kind(&self, what: &str, name: &str) -> ValueKind {
        let declared = self.typed(what, name).and_then(|typed| typed["type"].as_str());
        match declared.unwrap_or_default().trim_end_matches("[]") {
            "DateTime" | "DateTimeOffset" => ValueKind::Date,
            "Decimal" => ValueKind::Decimal,
            "TimeSpan" => ValueKind::TimeSpan,
            _ => ValueKind::Json,
        }
    }

    /// The value, or the fault.
    fn rendered(&self) -> Result<String, (ErrorKind, String)> {
        let template = Template::parse(self.0["code"].as_str().unwrap());
        let template = template.map_err(|error| (error.kind, error.to_string()))?;
        let rendered = template.render(self, LIMITS);
        rendered.map_err(|error| (error.kind, error.to_string()))
    }

    /// What is wrong, if anything is.
    fn problem(&self) -> Option<String> {
        let given = self.rendered();
        // Some differ by intention, for a reason that is named.
        let expected = self
            .0
            .get("differs")
            .map_or(&self.0["expected"], |differs| &differs["value"]);
        let is_right = match (&given, self.0.get("refused")) {
            // Only a value that does not fit is refused: a snippet does not run into a bound.
            (given, Some(_)) => matches!(given, Err((ErrorKind::Invalid | ErrorKind::Syntax, _))),
            (Err((_, message)), None) => {
                let fault = expected["$fault"].as_str();
                fault.is_some_and(|fault| message.contains(fault))
            }
            (Ok(text), None) => expected.as_str() == Some(text),
        };
        (!is_right).then(|| format!("{} gives {given:?}, not {expected}", self.0["code"]))
    }
}

impl TemplateData for Snippet<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.typed("variables", name)?.get("value")
    }

    fn variable_kind(&self, name: &str) -> ValueKind {
        self.kind("variables", name)
    }

    fn input(&self, name: &str) -> Option<&Value> {
        self.typed("inputs", name)?.get("value")
    }

    fn input_kind(&self, name: &str) -> ValueKind {
        self.kind("inputs", name)
    }

    fn setting(&self, _name: &str) -> Option<&str> {
        None
    }

    fn fact(&self, fact: Fact) -> Value {
        match fact {
            Fact::CorrelationId => self.0.get("correlationId").cloned().unwrap_or_default(),
            _ => "1b4e28ba-2fa1".into(),
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

#[test]
fn snippets_give_the_value_of_fluid() {
    let battery: Vec<Map<String, Value>> = serde_json::from_str(BATTERY).unwrap();
    assert!(battery.len() >= 139, "{} snippets", battery.len());
    let problems: Vec<_> = battery
        .iter()
        .filter_map(|snippet| Snippet(snippet).problem())
        .collect();
    assert!(
        problems.is_empty(),
        "{} of {}:\n{}",
        problems.len(),
        battery.len(),
        problems.join("\n")
    );
}
