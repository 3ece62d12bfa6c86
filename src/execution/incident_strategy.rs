//! Elsa's incident strategies: what ends after a fault that no `Mainspring.Try` catches.
//!
//! A workflow names one in `options.incidentStrategyType`, and an activity in `customProperties.incidentStrategyType`
//! for itself and what it contains; the innermost one decides. Names are Elsa's, in its own file format and in that of
//! earlier releases.

use serde_json::Value;

use super::workflow_options::NamedStrategy;
use crate::activity::ActivityNode;
use crate::definition::WorkflowDefinition;

/// The strategies, for designers; the default first.
pub(crate) const INCIDENT_STRATEGIES: [NamedStrategy; 2] = [
    ("FaultStrategy", "Fault", "The instance faults with its first incident."),
    (
        "ContinueWithIncidentsStrategy",
        "Continue with incidents",
        "The branch with the incident stops; the other branches continue.",
    ),
];

/// The property of a workflow's options and of an activity's custom properties.
const PROPERTY: [&str; 2] = ["incidentStrategyType", "IncidentStrategyType"];

/// Where Elsa has its strategies.
const NAMESPACE: &str = "Elsa.Workflows.IncidentStrategies.";
const ASSEMBLY: &str = "Elsa.Workflows.Core";

/// What an incident ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum IncidentStrategy {
    /// The instance.
    #[default]
    Fault,
    /// The branch alone.
    Continue,
}

impl IncidentStrategy {
    /// The strategy of a workflow; none if it has none, or an unknown one.
    pub(super) fn of(definition: &WorkflowDefinition) -> Option<Self> {
        Self::parse(strategy_value(&definition.options)?)
    }

    /// The strategy of an activity and of what it contains.
    pub(super) fn of_activity(node: &ActivityNode) -> Option<Self> {
        Self::parse(strategy_value(node.property("customProperties")?.as_object()?)?)
    }

    /// `FaultStrategy`, or .NET's name of the type with or without its assembly.
    fn parse(value: &Value) -> Option<Self> {
        let text = value.as_str()?;
        let (name, assembly) = match text.split_once(',') {
            Some((name, rest)) => (name, Some(rest.split(',').next().unwrap_or_default())),
            None => (text, None),
        };
        let name = name.trim();
        let plain = name.strip_prefix(NAMESPACE);
        // Only the full name of a type has an assembly.
        if assembly.is_some_and(|assembly| plain.is_none() || assembly.trim() != ASSEMBLY) {
            return None;
        }
        match plain.unwrap_or(name) {
            "FaultStrategy" => Some(Self::Fault),
            "ContinueWithIncidentsStrategy" => Some(Self::Continue),
            _ => None,
        }
    }
}

fn strategy_value(properties: &serde_json::Map<String, Value>) -> Option<&Value> {
    let value = PROPERTY.iter().find_map(|name| properties.get(*name));
    value.filter(|value| !value.is_null() && value.as_str() != Some(""))
}

/// The error of a workflow whose strategy is unknown.
pub(super) fn unknown_strategy(definition: &WorkflowDefinition) -> Option<String> {
    error("of the workflow", strategy_value(&definition.options)?)
}

/// The error of an activity whose strategy is unknown.
pub(super) fn unknown_activity_strategy(node: &ActivityNode) -> Option<String> {
    let custom = node.property("customProperties")?.as_object()?;
    error(&format!("of the activity {}", node.title()), strategy_value(custom)?)
}

fn error(whose: &str, value: &Value) -> Option<String> {
    if IncidentStrategy::parse(value).is_some() {
        return None;
    }
    let [(first, ..), (second, ..)] = INCIDENT_STRATEGIES;
    let shown: String = match value {
        Value::String(name) => name.chars().take(200).collect(),
        other => other.to_string().chars().take(40).collect(),
    };
    Some(format!(
        "The incident strategy {whose} is {shown}, which is unknown; use {first} or {second}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_elsas() {
        let full = "Elsa.Workflows.IncidentStrategies.ContinueWithIncidentsStrategy";
        for (name, expected) in [
            ("FaultStrategy", Some(IncidentStrategy::Fault)),
            ("ContinueWithIncidentsStrategy", Some(IncidentStrategy::Continue)),
            (full, Some(IncidentStrategy::Continue)),
            (
                &format!("{full}, Elsa.Workflows.Core"),
                Some(IncidentStrategy::Continue),
            ),
            (
                &format!("{full}, Elsa.Workflows.Core, Version=3.8.0.0, Culture=neutral, PublicKeyToken=null"),
                Some(IncidentStrategy::Continue),
            ),
            (
                "Elsa.Workflows.IncidentStrategies.FaultStrategy, Elsa.Workflows.Core",
                Some(IncidentStrategy::Fault),
            ),
            ("ContinueWithIncidents", None),
            ("Acme.ContinueWithIncidentsStrategy", None),
            ("FaultStrategy, Elsa.Workflows.Core", None),
            (&format!("{full}, Acme"), None),
            (&format!("{full},"), None),
            (",", None),
        ] {
            assert_eq!(IncidentStrategy::parse(&json!(name)), expected, "{name}");
        }
        assert_eq!(IncidentStrategy::parse(&json!(1)), None);
        for (name, ..) in INCIDENT_STRATEGIES {
            assert!(IncidentStrategy::parse(&json!(name)).is_some(), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_and_none_is_the_default() {
        let with = |value: Value| {
            let options = json!({"options": {"incidentStrategyType": value}});
            WorkflowDefinition::from_value(options).unwrap()
        };
        for default in [json!(null), json!("")] {
            assert_eq!(
                (
                    IncidentStrategy::of(&with(default.clone())),
                    unknown_strategy(&with(default))
                ),
                (None, None)
            );
        }
        let unknown = unknown_strategy(&with(json!("Acme.Retry"))).unwrap();
        assert!(
            unknown.contains("Acme.Retry") && unknown.contains("use FaultStrategy or Continue"),
            "{unknown}"
        );
        assert!(unknown_strategy(&with(json!([1]))).is_some());
    }
}
