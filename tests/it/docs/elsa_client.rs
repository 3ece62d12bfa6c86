//! docs/elsa-client.md is right about each call of Elsa's API client.

use std::collections::BTreeSet;

use crate::support::elsa_client::client_calls;
use crate::support::routes::routes;

/// A path with every parameter under one name.
fn anonymous(path: &str) -> String {
    let segments = path.split('/');
    let segments = segments.map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

#[test]
fn every_call_of_elsas_client_is_served_or_has_a_reason() {
    let served: BTreeSet<(String, String)> = routes()
        .into_iter()
        .flat_map(|route| {
            let path = anonymous(&route.path);
            route.methods.into_iter().map(move |method| (method, path.clone()))
        })
        .collect();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for call in client_calls() {
        let key = (call.method.clone(), anonymous(&format!("/elsa/api{}", call.path)));
        assert!(seen.insert(key.clone()), "twice: {call:?}");
        let is_served = served.contains(&key);
        let is_right = match call.state.as_str() {
            "served" => is_served,
            "later" | "no" => !is_served && !call.note.is_empty(),
            _ => false,
        };
        if !is_right {
            wrong.push(format!(
                "{} {}: {}, routed: {is_served}",
                call.method, call.path, call.state
            ));
        }
    }
    assert!(wrong.is_empty(), "docs/elsa-client.md: {wrong:#?}");
}
