//! Descriptors: the choices that a designer offers.

use axum::Json;
use serde_json::{Value, json};

/// Display name, description, and the type name in definitions. `definition::publication` has the same names.
const ACTIVATION_STRATEGIES: [(&str, &str, &str); 4] = [
    (
        "Always",
        "Every start is accepted.",
        "Elsa.Workflows.ActivationValidators.AllowAlwaysStrategy, Elsa.Workflows.Core",
    ),
    (
        "Singleton",
        "A start is rejected while an instance of the workflow is unfinished.",
        "Elsa.Workflows.Runtime.ActivationValidators.SingletonStrategy, Elsa.Workflows.Runtime",
    ),
    (
        "Correlated singleton",
        "A start is rejected while an instance of the workflow with the same correlation id is unfinished.",
        "Elsa.Workflows.Runtime.ActivationValidators.CorrelatedSingletonStrategy, Elsa.Workflows.Runtime",
    ),
    (
        "Correlation",
        "A start is rejected while an instance of any workflow with the same correlation id is unfinished.",
        "Elsa.Workflows.Runtime.ActivationValidators.CorrelationStrategy, Elsa.Workflows.Runtime",
    ),
];

/// `GET /descriptors/workflow-activation-strategies`
pub(super) async fn activation_strategies() -> Json<Value> {
    let strategy = |(name, description, type_name): &(&str, &str, &str)| json!({"displayName": name, "description": description, "typeName": type_name});
    let items: Vec<Value> = ACTIVATION_STRATEGIES.iter().map(strategy).collect();
    Json(json!({"count": items.len(), "items": items}))
}
