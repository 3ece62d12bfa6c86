//! Tests of templates: the table of Fluid's results, snippets of workflows, hostile ones, and random ones.

mod battery;
mod fluid;
mod hostile;
mod random;
mod syntax;

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::{Bounds, ErrorKind, Fact, Template, TemplateData, ValueKind};

/// What the templates of the tests see.
pub(super) struct Data {
    variables: Map<String, Value>,
    inputs: Map<String, Value>,
}

impl Data {
    pub(super) fn new() -> Self {
        let variables = json!({
            "Name": "Ada", "Amount": 250, "Price": 19.5, "Whole": 2.0, "Empty": "", "Blank": "  ", "Nothing": null,
            "Flag": true, "Off": false, "None": [], "Emoji": "😀", "Text": "The quick brown fox",
            "Words": ["b", "A", "c", "a"], "Numbers": [3, 10, 2], "Mixed": ["a", null, "b"], "Pairs": {"a": 1, "b": 2},
            "Items": [
                {"Name": "Pear", "Price": 3.5, "Stock": 2, "Fresh": true},
                {"Name": "apple", "Price": 1.25, "Stock": 0, "Fresh": false},
                {"Name": "Fig", "Price": 2, "Stock": 7},
            ],
            "Order": {"Id": 17, "Customer": {"Name": "Bo"}},
            "Html": "<b>a & b</b>", "When": "2026-01-31T12:34:56Z", "At": "2026-01-31T12:34:56.5+02:00",
            "Dates": ["2026-01-31", null, "soon"], "Rate": "12.50", "Rates": ["1.0", "1.00", "2"],
            "Moments": ["2026-01-31T12:00:00Z", "2026-01-31T14:00:00+02:00"], "Delay": "1.02:03:04",
            "Huge": 1e300, "Long": "x".repeat(200_000), "Many": vec![1; 20_000],
            "Records": [{"Name": "ж".repeat(50_000)}],
        });
        let inputs = json!({"Customer": "acme", "Count": 3});
        let object = |value: Value| value.as_object().cloned().unwrap();
        Self {
            variables: object(variables),
            inputs: object(inputs),
        }
    }
}

impl TemplateData for Data {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.get(name)
    }

    fn variable_kind(&self, name: &str) -> ValueKind {
        match name {
            "At" | "Dates" | "Moments" => ValueKind::Date,
            "Rate" | "Rates" => ValueKind::Decimal,
            "Delay" => ValueKind::TimeSpan,
            _ => ValueKind::Json,
        }
    }

    fn input(&self, name: &str) -> Option<&Value> {
        self.inputs
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        ["Smtp:Host", "mail.example", "Title", "<b>"]
            .chunks(2)
            .find(|pair| pair[0].eq_ignore_ascii_case(name))
            .map(|pair| pair[1])
    }

    fn fact(&self, fact: Fact) -> Value {
        match fact {
            Fact::CorrelationId => "corr-1".into(),
            Fact::WorkflowDefinitionId => "def".into(),
            Fact::WorkflowDefinitionVersionId => "def-v2".into(),
            Fact::WorkflowDefinitionVersion => 2.into(),
            Fact::WorkflowInstanceId => "inst-9".into(),
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

pub(super) const LIMITS: Bounds<'static> = Bounds {
    steps: 1_000_000,
    memory: 4 << 20,
    output: 1 << 20,
    caller: None,
};

/// The text of a template, or why there is none.
pub(super) fn rendered(template: &str) -> Result<String, (ErrorKind, String)> {
    let template = Template::parse(template).map_err(|error| (error.kind, error.to_string()))?;
    let result = template.render(&Data::new(), LIMITS);
    result.map_err(|error| (error.kind, error.message))
}
