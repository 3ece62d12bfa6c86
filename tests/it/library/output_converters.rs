//! Converters that a program brings: designers find them, and only nodes that have them run what names them.

use std::time::Duration;

use mainspring::Engine;
use mainspring::activity::{ConverterDescriptor, OutputConversion, OutputConverter};
use mainspring::api::{ApiOptions, router, serve};
use mainspring::definition::WorkflowDefinition;
use mainspring::runtime::Page;
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, save, start};
use crate::support::{TIMEOUT, TestDatabase, poll_until};

/// A text in capitals, after a prefix.
struct Capitals;

impl OutputConverter for Capitals {
    fn descriptor(&self) -> ConverterDescriptor {
        ConverterDescriptor::new("test.capitals.v1", "Object", "String")
            .display_name("Capitals")
            .describe("The text in upper case.")
            .settings_schema(json!({"type": "object", "properties": {"prefix": {"type": "string"}}}))
    }

    fn convert(&self, conversion: OutputConversion<'_>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let prefix = conversion.settings.and_then(|settings| settings["prefix"].as_str());
        let text = conversion.value.as_str().ok_or("not a text")?;
        Ok(format!("{}{}", prefix.unwrap_or_default(), text.to_uppercase()).into())
    }
}

fn workflow() -> Value {
    json!({
        "definitionId": "loud",
        "outputs": [{"name": "Said", "type": "String"}],
        "root": {"id": "r", "type": "Elsa.RunJavaScript", "version": 1,
            "script": {"typeName": "String", "expression": {"type": "Literal", "value": "return 'hello'"}},
            "result": {"typeName": "Object", "memoryReference": {"id": "Said"},
                "converter": {"id": "test.capitals.v1", "settings": {"prefix": "> "}}}},
    })
}

async fn listed(address: std::net::SocketAddr, query: &str) -> (u16, Value) {
    let answer = reqwest::get(format!(
        "http://{address}/elsa/api/descriptors/output-converters{query}"
    ))
    .await
    .unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_brings_converters_of_outputs() {
    let database = TestDatabase::create().await;
    let node = |name: &str| {
        let builder = Engine::builder(database.url()).node_id(name);
        builder.check_in(Duration::from_millis(100))
    };
    let engine = node("with").output_converter(Capitals).start().await.unwrap();
    save(&engine, workflow()).await;
    let done = engine.execute(start("loud")).await.unwrap();
    let ended = engine.instance(&done.instance_id).await.unwrap();
    assert_eq!(ended.workflow_state["output"]["Said"], "> HELLO");

    // What a designer asks.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = ApiOptions {
        listen: address,
        ..ApiOptions::default()
    };
    let routes = router(engine.clone(), options);
    let server = tokio::spawn(serve(listener, routes, std::future::pending(), Duration::ZERO));
    let (status, found) = listed(address, "?sourceType=Object&destinationType=String").await;
    assert_eq!((status, &found["count"]), (200, &json!(1)), "{found}");
    assert_eq!(
        found["items"][0],
        json!({"id": "test.capitals.v1", "sourceTypeName": "Object", "resultTypeName": "String",
            "displayName": "Capitals", "description": "The text in upper case.",
            "settingsSchema": {"type": "object", "properties": {"prefix": {"type": "string"}}}})
    );
    let (_, none) = listed(address, "?sourceType=Object&destinationType=Int32").await;
    assert_eq!(none["items"], json!([]));
    server.abort();

    // Another node publishes nothing that names it, and leaves its instances alone.
    let other = node("without").start().await.unwrap();
    let mut again = workflow();
    again["name"] = "Loud".into();
    let refused = other
        .save(WorkflowDefinition::from_value(again).unwrap(), true)
        .await
        .unwrap_err();
    assert!(
        refused.fields()[0].1.contains("test.capitals.v1 is not known"),
        "{refused}"
    );
    engine.shutdown().await;
    let id = other.dispatch(start("loud")).await.unwrap();
    poll_until(TIMEOUT, "the node to publish what it lacks", async || {
        let nodes = other.cluster_nodes(Page::default()).await.ok()?;
        let own = nodes
            .items
            .into_iter()
            .find(|node| node.node_id.as_str() == "without")?;
        (own.lacks == ["converter:test.capitals.v1"]).then_some(())
    })
    .await;
    let engine = node("again").output_converter(Capitals).start().await.unwrap();
    let test = TestEngine { database, engine };
    test.finishes(&id).await;
    other.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_converters_of_one_id_are_refused_at_the_start() {
    let builder = Engine::builder("postgresql://nowhere.invalid/x");
    let refused = builder
        .output_converter(Capitals)
        .output_converter(Capitals)
        .start()
        .await;
    assert_eq!(refused.err().unwrap().code(), "invalid-converter");
}
