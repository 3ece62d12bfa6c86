//! What a template sees: Elsa's objects.

use std::time::SystemTime;

use serde_json::Value;

/// A fact about the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The id by which events find it.
    CorrelationId,
    /// The definition that it runs.
    WorkflowDefinitionId,
    /// The version that it runs, by its id.
    WorkflowDefinitionVersionId,
    /// The number of the version that it runs.
    WorkflowDefinitionVersion,
    /// Its own id.
    WorkflowInstanceId,
}

impl Fact {
    const ALL: [(&'static str, Self); 5] = [
        ("CorrelationId", Self::CorrelationId),
        ("WorkflowDefinitionId", Self::WorkflowDefinitionId),
        ("WorkflowDefinitionVersionId", Self::WorkflowDefinitionVersionId),
        ("WorkflowDefinitionVersion", Self::WorkflowDefinitionVersion),
        ("WorkflowInstanceId", Self::WorkflowInstanceId),
    ];

    /// The fact of a name; names are as they are written.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, fact)| *fact)
    }
}

/// What the texts of a value are to a template. JSON has no dates, and its numbers have no places: the host knows the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueKind {
    /// Texts.
    #[default]
    Json,
    /// Dates, as .NET's `DateTimeOffset`: the text, or each text of a list. Without an offset they are in UTC.
    Date,
    /// Numbers, whose places are kept: the text, or each text of a list.
    Decimal,
    /// Lengths of time, as .NET's `TimeSpan`. To Fluid each is the date that is so long after 1970.
    TimeSpan,
}

/// Where a template reads.
pub trait TemplateData {
    /// The innermost visible variable with exactly this name.
    fn variable(&self, name: &str) -> Option<&Value>;

    /// What the texts of a variable are.
    fn variable_kind(&self, _name: &str) -> ValueKind {
        ValueKind::Json
    }

    /// The input of the workflow with this name, in any case.
    fn input(&self, name: &str) -> Option<&Value>;

    /// What the texts of an input are.
    fn input_kind(&self, _name: &str) -> ValueKind {
        ValueKind::Json
    }

    /// A setting that the operator lists.
    fn setting(&self, name: &str) -> Option<&str>;

    /// A fact: text, a number, or null.
    fn fact(&self, fact: Fact) -> Value;

    /// The URL of a link that triggers an event of the instance or, without one, resumes the activity: until a date or for a
    /// length of time, so many times. The error states why there is none.
    fn link(&self, _event: Option<&str>, _until: Option<&str>, _uses: Option<f64>) -> Result<String, String> {
        Err("there are no links here".to_owned())
    }

    /// The time that `now` has.
    fn now(&self) -> SystemTime;
}
