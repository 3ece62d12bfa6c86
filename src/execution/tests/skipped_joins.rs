//! Joins that never are complete: the journal shows them, with the branches that did not arrive.

use serde_json::json;

use super::activities::line;
use super::in_memory::{InMemoryInstance, definition};
use crate::execution::SubStatus;

#[tokio::test]
async fn a_join_that_is_skipped_says_which_branches_did_not_arrive() {
    let join = |mode: &str| {
        json!({"id": "j", "type": "Elsa.FlowJoin",
            "mode": {"typeName": "FlowJoinMode", "expression": {"type": "Literal", "value": mode}}})
    };
    let decision = json!({"id": "d", "type": "Elsa.FlowDecision",
        "condition": {"typeName": "Boolean", "expression": {"type": "Literal", "value": true}}});
    let connect = |from: &str, port: &str, to: &str| json!({"source": {"activity": from, "port": port}, "target": {"activity": to, "port": "In"}});
    for (mode, skipped) in [("WaitAll", true), ("WaitAllActive", false)] {
        let root = json!({"id": "flow", "type": "Elsa.Flowchart",
            "activities": [decision, line("a"), line("b"), join(mode), line("behind")],
            "connections": [connect("d", "True", "a"), connect("d", "False", "b"), connect("a", "Done", "j"),
                connect("b", "Done", "j"), connect("j", "Done", "behind")]});
        let mut instance = InMemoryInstance::new(&definition(json!({ "root": root })));
        let result = instance.start().await;
        assert_eq!(result.sub_status, SubStatus::Finished);
        let entry = instance.journal.iter().find(|entry| entry.event_name == "Canceled");
        assert_eq!(entry.is_some(), skipped, "{mode}");
        let shown = result
            .activity_executions
            .iter()
            .find(|execution| execution.activity_id.as_str() == "j")
            .unwrap();
        assert_eq!(shown.status, if skipped { "Canceled" } else { "Completed" });
        if let Some(entry) = entry {
            assert_eq!(entry.activity_id.as_str(), "j");
            assert!(
                entry.message.as_ref().unwrap().contains("nothing came from b"),
                "{entry:?}"
            );
            assert_eq!(entry.activity_execution_id, shown.id);
        }
    }
}
