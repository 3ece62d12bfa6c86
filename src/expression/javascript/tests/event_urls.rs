//! URLs that trigger an event.

use chrono::{TimeDelta, Utc};
use serde_json::Value;

use crate::expression::event_urls::{EventUrl, EventUrls};
use crate::expression::script::{ScriptError, ScriptScope, WorkflowFacts};
use crate::expression::script_options::ScriptOptions;
use crate::expression::{ScriptEngine, ScriptErrorKind};

async fn evaluate(event_urls: &EventUrls, instance: &str, script: &str) -> Result<Value, ScriptError> {
    let engine = ScriptEngine::new(ScriptOptions {
        event_urls: event_urls.clone(),
        ..ScriptOptions::default()
    });
    let scope = ScriptScope {
        workflow: WorkflowFacts {
            instance_id: instance.to_owned(),
            ..WorkflowFacts::default()
        },
        ..ScriptScope::default()
    };
    engine
        .session()
        .evaluate(script, scope)
        .await
        .map(|result| result.value)
}

#[tokio::test]
async fn a_url_is_for_one_event_of_the_instance_of_its_script() {
    let urls = EventUrls::default();
    urls.sign_with(|url: &EventUrl<'_>| {
        // A lifetime counts from now: the hours that are left.
        let left = url
            .expires
            .map(|at| (at - Utc::now() + TimeDelta::minutes(1)).num_hours());
        Some(format!("{} {} {left:?}", url.instance, url.event))
    });
    for (script, expected) in [
        ("createEventTriggerUrl('Go')", "i Go None"),
        ("createEventTriggerUrl('Go', null)", "i Go None"),
        ("createEventTriggerUrl('Go', '1.02:00:00')", "i Go Some(26)"),
        (
            "createEventTriggerUrl('Go', new Date(Date.now() + 3 * 3600 * 1000))",
            "i Go Some(3)",
        ),
        ("createEventTriggerUrl(7, 'PT5H')", "i 7 Some(5)"),
    ] {
        assert_eq!(evaluate(&urls, "i", script).await.expect(script), expected, "{script}");
    }
    for (instance, script, part) in [
        ("i", "createEventTriggerUrl('')", "1 to 512"),
        ("i", "createEventTriggerUrl('x'.repeat(513))", "1 to 512"),
        ("i", "createEventTriggerUrl('a\\u0000b')", "control"),
        ("i", "createEventTriggerUrl('Go', 'tomorrow')", "time span"),
        ("i", "createEventTriggerUrl('Go', '-1.00:00:00')", "time span"),
        ("i", "createEventTriggerUrl('Go', new Date(NaN))", "not a date"),
        ("i", "createEventTriggerUrl('Go', new Date(8.64e15 + 1))", "not a date"),
        ("", "createEventTriggerUrl('Go')", "needs an instance"),
    ] {
        let error = evaluate(&urls, instance, script).await.expect_err(script);
        assert!(
            error.kind == ScriptErrorKind::Thrown && error.message.contains(part),
            "{script}: {error:?}"
        );
    }
    let error = evaluate(&EventUrls::default(), "i", "createEventTriggerUrl('Go')").await;
    assert!(error.expect_err("no signer").message.contains("running engine"));
}
