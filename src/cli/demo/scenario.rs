//! The workflow of the demo, its output, and the checks of its result.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::client::text_field;
use crate::harness::print_line;
use crate::harness::work_activity::WORK_ACTIVITY;

/// The duration of the activity whose node is killed.
pub(super) const WORK_TIME: Duration = Duration::from_secs(2);

/// The activities of the workflow, in order.
pub(super) const ACTIVITIES: [&str; 5] = ["greet", "wait", "work", "rest", "finish"];

pub(super) const SUMMARY: &str = "greet, wait 1 s, work for 2 s, rest 1 s, finish";

/// The lines that the first and the last activity write.
const OUTPUT_LINES: [&str; 2] = ["Good morning. Waiting for a second.", "Done."];

pub(super) fn definition() -> Value {
    let literal = |type_name: &str, value: Value| json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}});
    let [greet, wait, work, rest, finish] = ACTIVITIES;
    let [first, last] = OUTPUT_LINES;
    let work_time = u64::try_from(WORK_TIME.as_millis()).unwrap_or_default();
    json!({
        "definitionId": "demo",
        "name": "Demo",
        "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": "Elsa.WriteLine", "id": greet, "text": literal("String", json!(first))},
            {"type": "Elsa.Delay", "id": wait, "timeSpan": literal("TimeSpan", json!("00:00:01"))},
            {"type": WORK_ACTIVITY, "id": work, "milliseconds": literal("Int64", json!(work_time))},
            {"type": "Elsa.Delay", "id": rest, "timeSpan": literal("TimeSpan", json!("00:00:01"))},
            {"type": "Elsa.WriteLine", "id": finish, "text": literal("String", json!(last))},
        ]}
    })
}

/// Prints each step with the time since the start, and keeps the lines of workflows.
pub(super) struct DemoLog {
    began: Instant,
    /// Node and line.
    output: Mutex<Vec<(String, String)>>,
}

impl DemoLog {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            output: Mutex::default(),
        }
    }

    pub(super) fn print(&self, what: &str) {
        print_line(&format!("{:7.2} s  {what}", self.began.elapsed().as_secs_f64()));
    }

    /// Prints and keeps a line that a workflow wrote.
    pub(super) fn record(&self, node: &str, line: &str) {
        self.print(&format!("{node} writes: {line}"));
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.push((node.to_owned(), line.to_owned()));
    }

    pub(super) fn output_lines(&self) -> Vec<(String, String)> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The number of journal records of an activity with an event.
fn times(journal: &[Value], activity: &str, event: &str) -> usize {
    let is = |entry: &&Value| text_field(entry, "activityId") == activity && text_field(entry, "eventName") == event;
    journal.iter().filter(is).count()
}

/// The differences from the expected result.
pub(super) fn mismatches(journal: &[Value], output: &[(String, String)], killed_node: &str) -> Vec<String> {
    let mut mismatches = Vec::new();
    for activity in ACTIVITIES {
        for event in ["Started", "Completed"] {
            let times = times(journal, activity, event);
            if times != 1 {
                mismatches.push(format!("the journal has {event} of {activity} {times} times"));
            }
        }
    }
    for line in OUTPUT_LINES {
        let times = output.iter().filter(|(_, written)| written == line).count();
        if times != 1 {
            mismatches.push(format!("{line:?} was written {times} times"));
        }
    }
    let [_, last] = OUTPUT_LINES;
    if output
        .iter()
        .any(|(node, written)| node == killed_node && written == last)
    {
        mismatches.push(format!("{killed_node}, which was killed, has finished the workflow"));
    }
    mismatches
}

/// The start and end of each activity, in seconds after the first start.
pub(super) fn journal_table(journal: &[Value], activities: &[&str]) -> Vec<String> {
    let at = |activity: &str, event: &str| {
        let entry = journal
            .iter()
            .find(|entry| text_field(entry, "activityId") == activity && text_field(entry, "eventName") == event)?;
        chrono::DateTime::parse_from_rfc3339(text_field(entry, "timestamp")).ok()
    };
    let began = activities.iter().filter_map(|activity| at(activity, "Started")).min();
    let since = |activity: &str, event: &str| {
        let (at, began) = (at(activity, event)?, began?);
        let seconds = (at - began).num_milliseconds() as f64 / 1000.0;
        Some(format!("{seconds:.2} s"))
    };
    let row = |activity: &&str| {
        format!(
            "             {activity:<7} started {:>7}, ended {:>7}",
            since(activity, "Started").unwrap_or_else(|| "never".to_owned()),
            since(activity, "Completed").unwrap_or_else(|| "never".to_owned()),
        )
    };
    activities.iter().map(row).collect()
}

/// Commands to paste, after a successful demo.
pub(super) fn next_steps() -> String {
    let program = std::env::args().next().unwrap_or_else(|| "mainspring".to_owned());
    format!(
        r"
Next steps:

  # three nodes that stay, on ports 5001 to 5003, with samples to run and processes to kill
  {program} dev --nodes 3

  # a node on your own database; any number of them
  {program} serve --database-url postgres://user@host/database

  # how long the take-over of 200 bursts takes
  {program} bench failover --database-url postgres://user@host/database"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Vec<Value> {
        let entry = |activity: &str, event: &str, at: usize| {
            json!({"activityId": activity, "eventName": event,
                   "timestamp": format!("2026-01-01T00:00:0{at}Z")})
        };
        let entries = ACTIVITIES.iter().enumerate();
        entries
            .flat_map(|(at, activity)| [entry(activity, "Started", at), entry(activity, "Completed", at + 1)])
            .collect()
    }

    fn record() -> Vec<(String, String)> {
        vec![
            ("node-1".to_owned(), OUTPUT_LINES[0].to_owned()),
            ("node-2".to_owned(), OUTPUT_LINES[1].to_owned()),
        ]
    }

    #[test]
    fn a_successful_demo_has_no_mismatch() {
        assert_eq!(mismatches(&journal(), &record(), "node-1"), [""; 0]);
        assert_eq!(
            journal_table(&journal(), &ACTIVITIES)[1].trim(),
            "wait    started  1.00 s, ended  2.00 s"
        );
    }

    #[test]
    fn each_mismatch_is_reported() {
        let mut twice = journal();
        twice.push(twice[4].clone());
        assert_eq!(mismatches(&twice, &record(), "node-1").len(), 1);
        let mut missing = journal();
        missing.truncate(9);
        assert_eq!(mismatches(&missing, &record(), "node-1").len(), 1);
        assert_eq!(mismatches(&journal(), &record(), "node-2").len(), 1);
        assert_eq!(mismatches(&journal(), &record()[..1], "node-1").len(), 1);
        assert_eq!(mismatches(&[], &[], "node-1").len(), 12);
    }

    #[test]
    fn the_definition_is_valid() {
        let definition = crate::definition::WorkflowDefinition::from_value(definition()).unwrap();
        assert_eq!(definition.definition_id.as_str(), "demo");
    }
}
