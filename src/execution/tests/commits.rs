//! Commit strategies: when a burst commits before its end.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::in_memory::{InMemoryInstance, definition, start};
use crate::activity::Catalogue;
use crate::execution::Instruction;

/// Two lines, one after the other; `first` is the first one's own strategy.
fn lines(workflow: &str, first: Option<&str>) -> Value {
    let line = |id: &str, strategy: Option<&str>| {
        json!({"type": "Elsa.WriteLine", "id": id, "customProperties": {"commitStrategyName": strategy},
               "text": {"typeName": "String", "expression": {"type": "Literal", "value": id}}})
    };
    json!({"definitionId": "d", "options": {"commitStrategyName": workflow},
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [line("a", first), line("b", None)]}})
}

/// The workflow's strategy, the first activity's own, and the activities that begin in each commit.
type Case<'a> = (&'a str, Option<&'a str>, &'a [&'a [&'a str]]);

/// The activities begun in each commit.
async fn commits(workflow: &str, first: Option<&str>, period: Duration) -> Vec<Vec<String>> {
    let change = |options: &mut crate::execution::InterpreterOptions| options.commit_period = period;
    let mut instance = InMemoryInstance::with(&definition(lines(workflow, first)), Catalogue::standard(), change);
    let mut commits = Vec::new();
    let mut instruction = start(Map::new());
    loop {
        let result = instance.burst(vec![instruction]).await;
        let begun = result.journal.iter().filter(|entry| entry.event_name == "Started");
        commits.push(
            begun
                .map(|entry| entry.activity_id.to_string())
                .filter(|id| id != "Workflow1")
                .collect(),
        );
        if !result.yielded {
            assert_eq!(instance.completed(), ["a", "b", "root"], "{workflow} {first:?}");
            return commits;
        }
        instruction = Instruction::Continue;
    }
}

#[tokio::test]
async fn without_a_journal_the_state_is_the_same() {
    let mut states = Vec::new();
    for (level, rows) in [("full", true), ("Off", false), ("loud", true)] {
        let mut value = lines("", None);
        value["options"]["journal"] = level.into();
        let mut instance = InMemoryInstance::new(&definition(value));
        let result = instance.burst(vec![start(Map::new())]).await;
        assert_eq!(result.sub_status.as_str(), "Finished", "{level}");
        assert_eq!(!result.journal.is_empty(), rows, "{level}");
        assert_eq!(!result.activity_executions.is_empty(), rows, "{level}");
        states.push((result.bookmarks_created.len(), result.incident_count));
    }
    assert_eq!(states[0], states[1]);
}

#[tokio::test]
async fn a_burst_commits_as_its_strategy_says() {
    let long = Duration::from_secs(3600);
    let none: &[&str] = &[];
    let cases: [Case<'_>; 9] = [
        ("", None, &[&["root", "a", "b"]]),
        ("WorkflowExecuted", None, &[&["root", "a", "b"]]),
        ("WorkflowExecuting", None, &[none, &["root", "a", "b"]]),
        ("ActivityExecuting", None, &[none, &["root"], &["a"], &["b"]]),
        ("ActivityExecuted", None, &[&["root", "a"], &["b"]]),
        ("Periodic", None, &[&["root", "a", "b"]]),
        ("", Some("Executing"), &[&["root"], &["a", "b"]]),
        ("", Some("CommitAlways"), &[&["root"], &["a"], &["b"]]),
        ("ActivityExecuted", Some("CommitNever"), &[&["root", "a", "b"]]),
    ];
    for (workflow, first, expected) in cases {
        assert_eq!(commits(workflow, first, long).await, expected, "{workflow} {first:?}");
    }
    let now = commits("Periodic", None, Duration::ZERO).await;
    assert!(now.len() >= 3, "{now:?}");
}
