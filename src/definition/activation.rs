//! Elsa's strategies for starting a workflow beside instances that run.

use serde_json::Value;

use super::WorkflowDefinition;

/// What a start asks for. `activation_of` in the database reads the same names.
const KNOWN: [&str; 4] = ["AllowAlways", "Singleton", "CorrelatedSingleton", "Correlation"];

/// The name of the strategy of a definition, if nobody here knows it. A type name of .NET is cut to its last word:
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
    fn only_elsas_own_strategies_are_known() {
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
