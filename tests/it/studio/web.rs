//! A workflow behind a URL in the designer: it shows the URL, tests an activity, and runs what waits for a request.

use reqwest::Method;
use serde_json::{Value, json};

use super::{RUN, Studio, node, on_canvas, row, select};
use crate::support::browser::by_text;

const SAMPLE: &str = include_str!("../../../samples/web-greeting.json");

/// The test values of the variables.
const ROUTE: &str = r#"{"name": "Ada"}"#;
const QUERY: &str = r#"{"language": "de"}"#;

/// A request that starts a greeting, or answers one that waits.
const URL: &str = "/workflows/greetings/Ada?language=de";

/// More questions for the URL are a designer that asks without end.
const MOST_QUESTIONS: usize = 100;

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

    // The test of a response has a request of its own, and variables have their test values.
    studio.tab("Variables").await;
    for (variable, id, value) in [("Route", "route", ROUTE), ("Query", "query", QUERY)] {
        give_test_value(&studio, variable, id, value).await;
    }
    select(&studio, "Greet", "Content Type").await;
    studio.tab("Test").await;
    let is_tested = "document.body.innerText.includes('Completed')";
    studio.page.click_until(&by_text("button", "Start"), is_tested).await;
    for text in ["Hallo Ada!", "[\"Done\"]"] {
        studio.page.wait_for_text(text).await;
    }
    assert_eq!(studio.page.wait_for_response("/tests/activities").await, 200);
    studio.screenshot("2-tested").await;

    // A run of the designer waits for its request.
    studio.page.click(RUN).await;
    let viewed = "location.pathname.split('/workflows/instances/')[1]?.split('/')[0]";
    let id = studio.page.wait(viewed).await.as_str().unwrap().to_owned();
    studio.page.wait_for_text("HTTP Endpoint - Started").await;
    let instance = format!("workflow-instances/{id}");
    studio
        .wait_for_api(&instance, "the run", |body| body["subStatus"] == "Suspended")
        .await;
    studio.screenshot("3-waiting").await;

    // Its URL starts an instance beside the one that waits there, which a request reaches by its id.
    let greeting = json!({"greeting": "Hallo Ada!"});
    assert_eq!(node.http.get(URL).await.expect(200), greeting);
    assert_eq!(node.http.get(&instance).await.expect(200)["subStatus"], "Suspended");
    let named = [("X-Workflow-Instance-ID", id.as_str())];
    let answer = node.http.send(Method::GET, URL, &named, None).await.unwrap();
    assert_eq!(answer.expect(200), greeting);
    studio.page.wait_for_text("HTTP Endpoint - Completed").await;
    studio.tab("Details").await;
    studio
        .page
        .wait("[...document.querySelectorAll('td')].some(cell => cell.innerText.trim() === 'Finished')")
        .await;
    studio.screenshot("4-answered").await;
    studio.assert_no_errors().await;

    // The designer asked for the URL when it showed the path, and not over and over.
    let responses = studio.page.responses();
    let asked = responses
        .iter()
        .filter(|(_, url)| url.ends_with("/options/Path"))
        .count();
    assert!((1..MOST_QUESTIONS).contains(&asked), "{asked} questions");
    node.assert_invariants();
}

/// Gives a variable a value for tests of activities, which is saved.
async fn give_test_value(studio: &Studio, variable: &str, id: &str, value: &str) {
    let button = format!("({})?.cells[3]?.querySelector('button')", row(variable));
    studio
        .page
        .click_until(&button, "document.querySelector('.mud-dialog')")
        .await;
    studio.fill("Test Value", value).await;
    studio.confirm("Ok").await;
    let latest = "workflow-definitions/by-definition-id/web-greeting?versionOptions=Latest";
    studio
        .wait_for_api(latest, "the test value", |body| {
            body["customProperties"]["VariableTestValues"][id] == value
        })
        .await;
    // The next one belongs into the definition that the answer to the save brings.
    studio.page.wait_until_answered().await;
}
