//! A workflow behind a URL in the designer: it shows the URL, tests an activity, and runs what waits for a request.

use std::time::Duration;

use serde_json::{Value, json};

use super::{RUN, Studio, node, on_canvas, select};
use crate::support::{TIMEOUT, poll_until};

const SAMPLE: &str = include_str!("../../../samples/web-greeting.json");

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_shows_its_url_and_is_tested() {
    let sample: Value = serde_json::from_str(SAMPLE).unwrap();
    let node = node(&[sample]).await;
    let studio = Studio::signed_in_at(
        &format!("http://{}", node.address),
        "web",
        "workflows/definitions/web-greeting/edit",
    )
    .await;
    studio.page.wait(&on_canvas("Request")).await;

    // The URL stands beside the path, which is below it.
    select(&studio, "Request", "Path").await;
    studio
        .page
        .wait_for_text(&format!("http://{}/workflows/", node.address))
        .await;
    for label in ["Supported Methods", "Authorize", "Policy", "Request Timeout"] {
        studio.page.wait_for_text(label).await;
    }
    studio.screenshot("1-url").await;
    let asked = || {
        let responses = studio.page.responses();
        responses
            .iter()
            .filter(|(_, url)| url.ends_with("/options/Path"))
            .count()
    };
    poll_until(TIMEOUT, "the designer to ask no more", async || {
        let before = asked();
        tokio::time::sleep(Duration::from_secs(1)).await;
        (asked() == before).then_some(())
    })
    .await;

    // A response alone has no request: what it would say is shown.
    select(&studio, "Greet", "Content Type").await;
    studio.tab("Test").await;
    studio.button("Start").await;
    assert_eq!(studio.page.wait_for_response("/tests/activities").await, 200);
    studio.page.wait_for_text("Faulted").await;
    studio.screenshot("2-tested").await;

    // A run of the designer waits for its request.
    studio.page.click(RUN).await;
    studio
        .wait_for_api("workflow-instances?definitionId=web-greeting", "the run", |body| {
            body["items"][0]["subStatus"] == "Suspended"
        })
        .await;

    // Its URL starts an instance beside the one that waits there.
    let answer = node.http.get("/workflows/greetings/Ada?language=de").await;
    assert_eq!(answer.expect(200), json!({"greeting": "Hallo Ada!"}));
    studio.assert_no_errors().await;
    node.assert_invariants();
}
