//! An activity call that does not return is dropped, and its execution faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition};
use crate::activity::{
    Activity, ActivityContext, Catalogue, Descriptor, Fault, InputDescriptor, OutputDescriptor, Step,
};
use crate::definition::{ValidationError, WorkflowDefinition};
use crate::execution::{BurstResult, Composition, Status, SubStatus, program, validate};

/// A timeout that expires at once.
const SHORT: Duration = Duration::from_millis(20);

/// What keeps a definition from being published.
fn problems(catalogue: &Catalogue, definition: &WorkflowDefinition) -> Vec<ValidationError> {
    let program = program::compile(catalogue, definition, &Composition::default()).unwrap();
    validate::validate(catalogue, definition, &program)
}

/// Never returns, or faults at once.
#[derive(Clone, Default)]
struct Hangs {
    own: Option<Duration>,
    dropped: Arc<AtomicBool>,
}

struct ReportsDrop(Arc<AtomicBool>);

impl Drop for ReportsDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Activity for Hangs {
    fn descriptor(&self) -> Descriptor {
        let descriptor = Descriptor::new("Hangs")
            .input(InputDescriptor::new("Mode", "String"))
            .output(OutputDescriptor::new("Result", "String"));
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
        let _reports = ReportsDrop(Arc::clone(&self.dropped));
        std::future::pending().await
    }
}

struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("panics on request");
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

async fn run_hangs(hangs: &Hangs, mode: &str, custom: Value, server: Duration) -> (InMemoryInstance, BurstResult) {
    let mut catalogue = Catalogue::standard();
    catalogue.register(hangs.clone());
    let definition = definition(model(mode, custom));
    assert_eq!(problems(&catalogue, &definition), []);
    let mut instance = InMemoryInstance::with(&definition, catalogue, |options| options.activity_timeout = server);
    let result = instance.start().await;
    (instance, result)
}

fn executions(result: &BurstResult) -> Vec<(String, String)> {
    let executions = result.activity_executions.iter();
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
    // The timeout of the definition overrides that of the type, which overrides the server's.
    let cases = [
        (Hangs::default(), json!({}), SHORT),
        (of_a_type(SHORT), json!({}), hour),
        (of_a_type(hour), json!({"activityTimeout": "00:00:00.02"}), hour),
        (Hangs::default(), json!({"ActivityTimeout": "PT0.02S"}), hour),
    ];
    for (hangs, custom, server) in cases {
        let (instance, result) = run_hangs(&hangs, "hangs", custom.clone(), server).await;
        assert!(hangs.dropped.load(Ordering::SeqCst), "{custom}");
        let incidents = result.state.incidents();
        assert_eq!(incidents.len(), 1, "{incidents:?}");
        assert_eq!(incidents[0].exception["code"], "activity-timeout", "{incidents:?}");
        assert!(incidents[0].message.contains("The activity h (Hangs)"), "{incidents:?}");
        // The other branch goes on, and the commands of the call are not carried out.
        assert_eq!(instance.lines(), ["first"]);
        assert_eq!(
            (result.status, result.sub_status),
            (Status::Running, SubStatus::Suspended)
        );
    }
}

#[tokio::test]
async fn a_call_that_panics_when_it_is_dropped_faults() {
    let (instance, result) = run_hangs(&Hangs::default(), "panics", json!({}), SHORT).await;
    assert_eq!(result.state.incidents()[0].exception["code"], "panic");
    assert_eq!(instance.lines(), ["first"]);
}

/// The executions have the same ids whether the call is dropped or faults.
#[tokio::test]
async fn the_timeout_changes_no_id() {
    let (_, dropped) = run_hangs(&Hangs::default(), "hangs", json!({}), SHORT).await;
    let (_, failed) = run_hangs(&Hangs::default(), "fails", json!({}), SHORT).await;
    assert_eq!(executions(&dropped), executions(&failed));
}

#[test]
fn an_invalid_timeout_is_refused_at_publish() {
    let mut catalogue = Catalogue::standard();
    catalogue.register(Hangs::default());
    for invalid in [
        json!("soon"),
        json!("00:00:00"),
        json!("-00:01:00"),
        json!(600),
        json!({}),
    ] {
        let definition = definition(model("hangs", json!({ "activityTimeout": invalid })));
        let errors = problems(&catalogue, &definition);
        assert_eq!(errors.len(), 1, "{invalid}: {errors:?}");
        assert!(
            errors[0].message.contains("activityTimeout of the activity h"),
            "{errors:?}"
        );
    }
    let definition = definition(model("hangs", json!({ "activityTimeout": null })));
    assert_eq!(problems(&catalogue, &definition), []);
}
