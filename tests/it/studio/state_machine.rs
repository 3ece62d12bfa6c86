//! The designer of state machines: it draws what the API shows, and what it saves still runs.

use serde_json::{Value, json};

use super::{PUBLISH, Studio, event, line, node};

const DESIGNER: &str = "document.querySelector('.elsa-state-machine-diagram-designer')";

fn ticket() -> Value {
    let transition =
        |from: &str, to: &str, name: &str| json!({"name": name, "from": from, "to": to, "trigger": event(name, name)});
    json!({"definitionId": "ticket", "name": "Ticket", "root": {"id": "machine", "type": "Elsa.StateMachine", "initialState": "Opened",
        "states": [{"name": "Opened", "entry": line("Greet", "Hello")}, {"name": "Solved"}, {"name": "Archived"}],
        "transitions": [transition("Opened", "Solved", "Solve"), transition("Solved", "Archived", "Archive")]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_designer_of_state_machines_draws_and_publishes_one() {
    let node = node(&[]).await;
    let saved = node
        .http
        .post("workflow-definitions", &json!({"model": ticket(), "publish": false}))
        .await
        .expect(200);
    assert_eq!(
        saved["workflowDefinition"]["root"]["states"][0]["entry"]["nodeId"],
        "Workflow1:machine:Greet"
    );
    let studio = Studio::signed_in_at(
        &format!("http://{}", node.address),
        "state-machine",
        "workflows/definitions/ticket/edit",
    )
    .await;
    studio.page.wait(DESIGNER).await;
    for state in ["Opened", "Solved", "Archived"] {
        let drawn = format!("({DESIGNER})?.textContent.includes({})", json!(state));
        studio.page.wait(&drawn).await;
    }
    studio.screenshot("1-drawn").await;
    studio.page.click(PUBLISH).await;
    let published = studio
        .wait_for_api("workflow-definitions/ticket", "the published version", |body| {
            body["isPublished"] == json!(true)
        })
        .await;
    assert_eq!(published["root"]["transitions"][1]["trigger"]["id"], "Archive");
    let run = node
        .http
        .post("workflow-definitions/ticket/execute", &json!({}))
        .await
        .expect(200);
    assert_eq!(run["workflowState"]["bookmarks"][0]["activityId"], "Solve");
    studio.assert_no_errors().await;
}
