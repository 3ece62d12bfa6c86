//! The workflows that the points run, under ids of their own, and their removal.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::node_api::NodeApi;
use super::target_cluster::{PAUSE, TargetCluster};

/// Waits for a resume, and ends.
pub(super) const RESUMED: &str = "mainspring-validate-resume";
/// Waits for its timer, and ends.
pub(super) const TIMED: &str = "mainspring-validate-timer";
/// Is published again and again.
pub(super) const PUBLISHED: &str = "mainspring-validate-publish";
/// Ends at once.
pub(super) const BRIEF: &str = "mainspring-validate-load";

const ALL: [&str; 4] = [RESUMED, TIMED, PUBLISHED, BRIEF];

/// The activity that waits.
pub(super) const WAITS: &str = "waits";
/// The activity behind it, which must run once.
pub(super) const AFTER: &str = "after";
/// The output that it sets.
pub(super) const OUTPUT: &str = "Text";

/// How long the deletion of many instances may take.
const REMOVAL: Duration = Duration::from_secs(120);

/// Waits for a resume by its bookmark: no event of the cluster has this name.
pub(super) fn resumed() -> Value {
    let event = json!({"type": "Elsa.Event", "id": WAITS, "eventName": literal("String", "mainspring-validate-never")});
    workflow(RESUMED, Some(event), "resumed")
}

/// Waits for so long.
pub(super) fn timed(timer: Duration) -> Value {
    let delay = json!({"type": "Elsa.Delay", "id": WAITS, "timeSpan": literal("TimeSpan", &time_span(timer))});
    workflow(TIMED, Some(delay), "timed")
}

/// Says which edition of it runs.
pub(super) fn edition(text: &str) -> Value {
    workflow(PUBLISHED, None, text)
}

/// Ends at once.
pub(super) fn brief() -> Value {
    workflow(BRIEF, None, "brief")
}

fn workflow(id: &str, waits: Option<Value>, text: &str) -> Value {
    let after = json!({
        "type": "Elsa.SetOutput",
        "id": AFTER,
        "outputName": literal("String", OUTPUT),
        "outputValue": literal("Object", text),
    });
    let activities: Vec<Value> = waits.into_iter().chain([after]).collect();
    json!({
        "definitionId": id,
        "name": id,
        "description": "Made by `mainspring validate`; `--cleanup` deletes it.",
        "outputs": [{"name": OUTPUT, "type": "String"}],
        "root": {"type": "Elsa.Sequence", "id": "steps", "activities": activities},
    })
}

fn literal(type_name: &str, text: &str) -> Value {
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": text}})
}

/// As .NET writes a TimeSpan.
fn time_span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!(
        "{hours:02}:{minutes:02}:{:02}.{:03}",
        seconds % 60,
        time.subsec_millis()
    )
}

/// Saves and publishes one of them, and returns its version.
pub(super) async fn publish(api: &NodeApi, definition: &Value) -> Result<i64, String> {
    let save = json!({"model": definition, "publish": true});
    let saved = api.post("workflow-definitions", &save).await?;
    let version = saved
        .pointer("/workflowDefinition/version")
        .or_else(|| saved.get("version"));
    version
        .and_then(Value::as_i64)
        .ok_or_else(|| format!("{}: the answer to a publish has no version: {saved}", api.url()))
}

/// The same through whichever node takes it.
pub(super) async fn publish_somewhere(cluster: &TargetCluster, definition: &Value) -> Result<i64, String> {
    cluster.any(async |api| publish(api, definition).await).await
}

/// Deletes the instances of all of them, and then the definitions. Errors: what was not deleted.
pub(super) async fn remove(cluster: &TargetCluster) -> Result<(), String> {
    let began = Instant::now();
    let select = json!({"workflowDefinitionIds": ALL});
    cluster
        .any(async |api| api.post("bulk-actions/delete/workflow-instances", &select).await)
        .await?;
    while left(cluster).await? > 0 {
        // Many are deleted page by page after the answer.
        if began.elapsed() > REMOVAL {
            let seconds = REMOVAL.as_secs();
            return Err(format!(
                "the instances of {} are not deleted after {seconds} s",
                ALL.join(", ")
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
    let select = json!({"definitionIds": ALL});
    let path = "bulk-actions/delete/workflow-definitions/by-definition-id";
    cluster.any(async |api| api.post(path, &select).await).await.map(drop)
}

async fn left(cluster: &TargetCluster) -> Result<u64, String> {
    let list = json!({"definitionIds": ALL, "pageSize": 1});
    let listed = cluster
        .any(async |api| api.post("workflow-instances", &list).await)
        .await?;
    let count = listed.get("totalCount").and_then(Value::as_u64);
    count.ok_or_else(|| "the list of instances has no totalCount".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::WorkflowDefinition;

    #[test]
    fn each_workflow_is_valid_and_named() {
        let all = [resumed(), timed(Duration::from_millis(61_500)), edition("1"), brief()];
        for (workflow, id) in all.into_iter().zip(ALL) {
            let definition = WorkflowDefinition::from_value(workflow).unwrap();
            assert_eq!(definition.definition_id.as_str(), id);
        }
    }

    #[test]
    fn a_time_is_written_as_dotnet_does() {
        assert_eq!(time_span(Duration::from_millis(61_500)), "00:01:01.500");
        assert_eq!(time_span(Duration::from_secs(7_203)), "02:00:03.000");
    }
}
