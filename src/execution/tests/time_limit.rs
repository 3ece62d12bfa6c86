//! A call that does not return is dropped, and its execution faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::driver::{Driver, definition};
use crate::activity::{Activity, ActivityContext, Catalogue, Descriptor, Fault, InputDescriptor, Step};
use crate::execution::{BurstResult, Status, SubStatus, validate};

/// Longer than nothing, and over at once.
const SHORT: Duration = Duration::from_millis(20);

/// Never returns, or fails at once.
#[derive(Clone, Default)]
struct Hangs {
    own: Option<Duration>,
    dropped: Arc<AtomicBool>,
}

struct Tells(Arc<AtomicBool>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Activity for Hangs {
    fn descriptor(&self) -> Descriptor {
        let descriptor = Descriptor::new("Hangs")
            .input(InputDescriptor::new("Mode", "String"))
            .output("Result", "String");
        match self.own {
            Some(limit) => descriptor.timeout(limit),
            None => descriptor,
        }
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        context.set_output("Result", "late");
        context.set_variable("v", "late");
        match context.text("Mode").as_deref() {
            Some("fails") => return Err(Fault::new("at once")),
            Some("panics") => {
                let _panics = Panics;
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        let _tells = Tells(Arc::clone(&self.dropped));
        std::future::pending().await
    }
}

struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("as the test wants it");
    }
}

fn model(mode: &str, custom: Value) -> Value {
    json!({
        "variables": [{"id": "v", "name": "V", "typeName": "String", "value": "first"}],
        "options": {"incidentStrategyType": "ContinueWithIncidentsStrategy"},
        "root": {"id": "f", "type": "Elsa.Flowchart", "activities": [
            {"id": "s", "type": "Elsa.Start"},
            {"id": "h", "type": "Hangs", "mode": mode, "customProperties": custom},
            {"id": "w", "type": "Elsa.WriteLine",
             "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": "getV()"}}}],
            "connections": [{"source": "s", "target": "h"}, {"source": "s", "target": "w"}]}
    })
}

async fn runs(hangs: &Hangs, mode: &str, custom: Value, server: Duration) -> (Driver, BurstResult) {
    let mut catalogue = Catalogue::standard();
    catalogue.register(hangs.clone());
    let definition = definition(model(mode, custom));
    assert_eq!(validate::validate(&catalogue, &definition), []);
    let mut driver = Driver::with(&definition, catalogue, |options| options.activity_timeout = server);
    let outcome = driver.start().await;
    (driver, outcome)
}

fn executions(outcome: &BurstResult) -> Vec<(String, String)> {
    let executions = outcome.activity_executions.iter();
    let mut ids: Vec<_> = executions
        .map(|execution| (execution.activity_id.to_string(), execution.id.to_string()))
        .collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_call_that_does_not_return_is_dropped_and_faults() {
    let hour = Duration::from_secs(3600);
    let of_a_type = |limit| Hangs {
        own: Some(limit),
        ..Hangs::default()
    };
    // By the server, by the type, by the definition; the nearest counts.
    let cases = [
        (Hangs::default(), json!({}), SHORT),
        (of_a_type(SHORT), json!({}), hour),
        (of_a_type(hour), json!({"activityTimeout": "00:00:00.02"}), hour),
        (Hangs::default(), json!({"ActivityTimeout": "PT0.02S"}), hour),
    ];
    for (hangs, custom, server) in cases {
        let (driver, outcome) = runs(&hangs, "hangs", custom.clone(), server).await;
        assert!(hangs.dropped.load(Ordering::SeqCst), "{custom}");
        let incidents = outcome.state.incidents();
        assert_eq!(incidents.len(), 1, "{incidents:?}");
        assert_eq!(incidents[0].exception["code"], "activity-timeout", "{incidents:?}");
        assert!(incidents[0].message.contains("The activity h (Hangs)"), "{incidents:?}");
        // The other branch goes on, and what the call had asked for is not carried out.
        assert_eq!(driver.lines(), ["first"]);
        assert_eq!(
            (outcome.status, outcome.sub_status),
            (Status::Running, SubStatus::Suspended)
        );
    }
}

#[tokio::test]
async fn a_call_that_panics_when_it_is_dropped_faults() {
    let (driver, outcome) = runs(&Hangs::default(), "panics", json!({}), SHORT).await;
    assert_eq!(outcome.state.incidents()[0].exception["code"], "panic");
    assert_eq!(driver.lines(), ["first"]);
}

/// Whether it is dropped or fails by itself, the executions have the same ids.
#[tokio::test]
async fn the_limit_changes_no_id() {
    let (_, dropped) = runs(&Hangs::default(), "hangs", json!({}), SHORT).await;
    let (_, failed) = runs(&Hangs::default(), "fails", json!({}), SHORT).await;
    assert_eq!(executions(&dropped), executions(&failed));
}

#[test]
fn a_limit_that_is_none_is_refused_at_publish() {
    let mut catalogue = Catalogue::standard();
    catalogue.register(Hangs::default());
    for wrong in [
        json!("soon"),
        json!("00:00:00"),
        json!("-00:01:00"),
        json!(600),
        json!({}),
    ] {
        let definition = definition(model("hangs", json!({ "activityTimeout": wrong })));
        let errors = validate::validate(&catalogue, &definition);
        assert_eq!(errors.len(), 1, "{wrong}: {errors:?}");
        assert!(
            errors[0].message.contains("activityTimeout of the activity h"),
            "{errors:?}"
        );
    }
    let definition = definition(model("hangs", json!({ "activityTimeout": null })));
    assert_eq!(validate::validate(&catalogue, &definition), []);
}
