//! The names that a script reads and that neither it, nor the realm, nor the workflow defines.

use std::collections::HashSet;

use super::accessor::{MOST_DIVISIONS, pascal};
use super::free_names::free_names;
use crate::expression::language::{KnownNames, UnknownName};

/// What every realm has, in order; a test compares.
const GLOBALS: &str = "AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean \
    DOMException DataView Date DateTime DateTimeOffset DisposableStack Error EvalError Float16Array \
    Float32Array Float64Array Function Guid Infinity Int16Array Int32Array Int8Array InternalError Iterator \
    JSON LogPersistenceMode Map Math NaN Number Object Promise Proxy Random RangeError ReferenceError Reflect \
    RegExp Set String SuppressedError Symbol SyntaxError TimeSpan TypeError URIError Uint16Array Uint32Array \
    Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet atob btoa bytesFromBase64 bytesFromString \
    bytesToBase64 bytesToString createEventTriggerUrl createResumeUrl decodeURI decodeURIComponent encodeURI \
    encodeURIComponent escape eval getConfig getCorrelationId getGuid getGuidString getInput getLastResult \
    getOutputFrom getSecret getShortGuid getVariable getWorkflowDefinitionId getWorkflowDefinitionVersion \
    getWorkflowDefinitionVersionId getWorkflowInstanceId getWorkflowInstanceName globalThis isFinite isNaN \
    isNullOrEmpty isNullOrWhiteSpace newGuid newGuidString newShortGuid parseFloat parseGuid parseInt \
    performance queueMicrotask setCorrelationId setOutcome setOutcomes setVariable setWorkflowInstanceName \
    streamToBase64 streamToBytes stringFromBase64 stringToBase64 toJson undefined unescape variables";

pub(super) fn unknown_names(script: &str, known: &KnownNames) -> Vec<UnknownName> {
    let functions = known.functions.get_or_init(|| functions(known));
    let free = free_names(script).into_iter().take(KnownNames::MOST);
    let unknown = free.filter(|(name, _)| !is_global(name) && !is_generated(name, functions));
    let unknown = unknown.map(|(name, place)| {
        let accessed = name.strip_prefix("get").or_else(|| name.strip_prefix("set"));
        // An output of an activity that there is not.
        let parts = name.strip_prefix("get").map(|rest| rest.split("From"));
        let is_accessor = accessed.is_some_and(|rest| rest.starts_with(char::is_uppercase));
        let is_output = parts.is_some_and(|parts| parts.filter(|part| !part.is_empty()).nth(1).is_some());
        UnknownName {
            variable: accessed.filter(|rest| !rest.is_empty()).map(str::to_owned),
            shown: name,
            place,
            becomes: match (is_output, is_accessor) {
                (true, _) => "it is null",
                (false, true) => "the script fails there, unless the start gives such an input",
                (false, false) => "the script fails there",
            },
        }
    });
    unknown.collect()
}

fn is_global(name: &str) -> bool {
    GLOBALS.split(' ').any(|known| known == name)
}

/// The names of the functions of variables and inputs, and the ends of those of the outputs of activities.
fn functions(known: &KnownNames) -> HashSet<String> {
    // What starts a child gives it these, declared or not.
    let mut functions = HashSet::from(["getParentInstanceId", "getItem"].map(str::to_owned));
    for name in known.names.variables.keys() {
        let pascal = pascal(name);
        functions.insert(format!("get{pascal}"));
        functions.insert(format!("set{pascal}"));
    }
    for name in known.names.inputs.keys() {
        functions.insert(format!("get{name}"));
        functions.insert(format!("get{}", pascal(name)));
    }
    functions.extend(known.activities.iter().map(|name| format!("From{}", pascal(name))));
    functions
}

fn is_generated(name: &str, functions: &HashSet<String>) -> bool {
    let mut ends = name
        .match_indices("From")
        .take(MOST_DIVISIONS)
        .filter_map(|(at, _)| name.get(at..));
    functions.contains(name) || (name.starts_with("get") && ends.any(|end| functions.contains(end)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;
    use crate::expression::language::ScriptNames;
    use crate::expression::script::ScriptScope;
    use crate::expression::script_options::ScriptOptions;
    use crate::expression::session::ScriptEngine;
    use crate::expression::type_name::TypeName;

    #[tokio::test]
    async fn the_globals_of_a_realm_are_known() {
        let engine = ScriptEngine::new(ScriptOptions::default());
        let script = "Object.getOwnPropertyNames(globalThis).sort()";
        let found = engine.session().evaluate(script, ScriptScope::default()).await.unwrap();
        let found: Vec<&str> = found
            .value
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(found.join(" "), GLOBALS);
    }

    #[test]
    fn names_of_the_workflow_are_known() {
        let typed = |name: &str| BTreeMap::from([(name.to_owned(), TypeName::Any)]);
        let names = ScriptNames {
            variables: typed("order total"),
            inputs: typed("customerName"),
            ..ScriptNames::default()
        };
        let known = KnownNames::new(names, HashSet::from(["Http Request".to_owned()]));
        let script = "getOrderTotal() + setOrderTotal(1) + getcustomerName() + getCustomerName() + getResultFromHttpRequest() + \
                      variables.x + Math.max(1) + setOutcome('a') + getOrder() + orderTotal + getResultFromOther()";
        let unknown = unknown_names(script, &known);
        let shown: Vec<&str> = unknown.iter().map(|unknown| unknown.shown.as_str()).collect();
        assert_eq!(shown, ["getOrder", "orderTotal", "getResultFromOther"]);
        assert_eq!(unknown[0].variable.as_deref(), Some("Order"));
    }
}
