//! What publishing a definition yields: its triggers, or what is wrong with it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WorkflowDefinition;
use crate::id::{ActivityId, StimulusHash};
use crate::shortened::shortened;

/// A reason why a definition cannot be published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidationError {
    /// The activity concerned; empty for the definition as a whole.
    pub activity_id: String,
    /// The part of it that is declared and wrong, such as `variables.Total`, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The problem, and its remedy. It names an activity as its author sees it.
    pub message: String,
}

impl ValidationError {
    /// An error about one activity.
    pub fn of(activity_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            activity_id: activity_id.into(),
            field: None,
            message: message.into(),
        }
    }

    /// The same error about a part that is declared.
    pub(crate) fn of_field(self, field: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..self
        }
    }

    /// Its key among the errors of an answer: the activity, then the field.
    pub(crate) fn key(&self) -> String {
        match &self.field {
            None => self.activity_id.clone(),
            Some(field) if self.activity_id.is_empty() => field.clone(),
            Some(field) => format!("{}.{field}", self.activity_id),
        }
    }

    /// The message for an answer without details.
    #[cfg(any(feature = "http", feature = "cli", test))]
    pub(crate) fn message_with_id(&self) -> String {
        with_id(&self.message, &self.activity_id)
    }
}

/// The message about an activity for an answer without details: it ends with the id, unless it names the activity by it.
#[cfg(any(feature = "http", feature = "cli", test))]
pub(crate) fn with_id(message: &str, id: &str) -> String {
    let is_of_id = |character: char| character.is_alphanumeric() || "_-.:[]".contains(character);
    let is_named = || {
        message.match_indices(id).any(|(at, _)| {
            let before = message.get(..at).and_then(|text| text.chars().next_back());
            let after = message.get(at + id.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(is_of_id) && !after.is_some_and(|next| is_of_id(next) && !".:".contains(next))
        })
    };
    if id.is_empty() || is_named() {
        message.to_owned()
    } else {
        format!("{message} ({id})")
    }
}

/// What is wrong with a definition, as far as an answer can say it: whatever is checked ends once it is full.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<ValidationError>);

impl Problems {
    /// The most problems.
    pub(crate) const MOST: usize = 100;

    /// In bytes: the longest message, as messages quote names and values of any length.
    const MAX_MESSAGE: usize = 2_000;

    /// In bytes: what is kept of a field and of the id of an activity, which can be longer only where they are not checked.
    const MAX_ID: usize = 500;

    /// Adds a problem, unless there are enough.
    pub(crate) fn push(&mut self, mut problem: ValidationError) {
        let field = problem.field.iter_mut().map(|field| (field, Self::MAX_ID));
        for (text, most) in [
            (&mut problem.activity_id, Self::MAX_ID),
            (&mut problem.message, Self::MAX_MESSAGE),
        ]
        .into_iter()
        .chain(field)
        {
            if text.len() > most {
                *text = shortened(text, most).into_owned();
            }
        }
        if !self.is_full() {
            self.0.push(problem);
        }
    }

    /// Whether there are so many that nothing more needs to be checked.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= Self::MOST
    }

    /// The problems in the order in which they were found.
    pub(crate) fn into_list(self) -> Vec<ValidationError> {
        self.0
    }
}

impl Extend<ValidationError> for Problems {
    fn extend<T: IntoIterator<Item = ValidationError>>(&mut self, problems: T) {
        for problem in problems {
            self.push(problem);
            if self.is_full() {
                return;
            }
        }
    }
}

/// A trigger of a published definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The activity at which an instance starts.
    pub activity_id: ActivityId,
    /// Its type, which is the name of the stimulus: `Elsa.Event`.
    pub activity_type: String,
    /// The hash that a stimulus must have.
    pub hash: StimulusHash,
    /// The payload of the stimulus, `{"eventName": …}`, or what the trigger keeps in its place.
    pub payload: Value,
}

/// Elsa's strategies for a start besides running instances. `activation_strategy_of` in the database has the same names.
const KNOWN: [&str; 4] = ["AllowAlways", "Singleton", "CorrelatedSingleton", "Correlation"];

/// The activation strategy of a definition, if it is unknown. A .NET type name is reduced to its last segment:
/// `Elsa.Workflows.Runtime.ActivationValidators.SingletonStrategy, Elsa.Workflows.Runtime`.
pub(crate) fn unknown_strategy(definition: &WorkflowDefinition) -> Option<&str> {
    let given = definition
        .options
        .get("activationStrategyType")
        .and_then(Value::as_str)?;
    let name = given.split(',').next().unwrap_or_default();
    let name = name.rsplit('.').next().unwrap_or_default().trim();
    let known = name.is_empty() || KNOWN.contains(&name.strip_suffix("Strategy").unwrap_or(name));
    (!known).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_without_details_ends_with_the_id() {
        for (message, id, wanted) in [
            (
                "The activity \"Mail\" (T) is odd",
                "a1",
                "The activity \"Mail\" (T) is odd (a1)",
            ),
            (
                "The activity \"Mail\" (T) is odd",
                "a",
                "The activity \"Mail\" (T) is odd (a)",
            ),
            ("The activity a (T) is odd", "a", "The activity a (T) is odd"),
            ("It leads to a1.", "a1", "It leads to a1."),
            ("It leads to a12", "a1", "It leads to a12 (a1)"),
            ("The workflow is odd", "", "The workflow is odd"),
        ] {
            assert_eq!(with_id(message, id), wanted);
        }
    }

    #[test]
    fn a_part_that_is_declared_has_a_key_of_its_own() {
        let error = |id: &str| ValidationError::of(id, "bad");
        assert_eq!(error("a").key(), "a");
        assert_eq!(error("").of_field("variables.N").key(), "variables.N");
        assert_eq!(error("a").of_field("variables.N").key(), "a.variables.N");
        let mut problems = Problems::default();
        problems.push(error("").of_field("x".repeat(10_000)));
        assert!(problems.into_list()[0].key().len() <= 510);
    }

    #[test]
    fn only_elsas_own_activation_strategies_are_known() {
        let unknown = |strategy: &str| {
            let body = json!({"options": {"activationStrategyType": strategy}});
            let definition = WorkflowDefinition::from_value(body).unwrap();
            unknown_strategy(&definition).map(str::to_owned)
        };
        for known in [
            "",
            "AllowAlways",
            "Elsa.Workflows.ActivationValidators.AllowAlwaysStrategy, Elsa.Workflows.Core",
            "Elsa.Workflows.Runtime.ActivationValidators.SingletonStrategy, Elsa.Workflows.Runtime",
            "Elsa.Workflows.Runtime.ActivationValidators.CorrelatedSingletonStrategy, Elsa.Workflows.Runtime",
            "CorrelationStrategy",
        ] {
            assert_eq!(unknown(known), None, "{known}");
        }
        assert_eq!(unknown("Mine.OncePerDay, Mine").as_deref(), Some("OncePerDay"));
    }
}
