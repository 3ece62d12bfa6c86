//! What the demo tells, and what has to be true of it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::client::text;
use crate::harness::say;
use crate::harness::work_activity::WORK;

/// How long the work takes in whose middle its node is killed.
pub(super) const WORK_TIME: Duration = Duration::from_secs(2);

/// The activities of the workflow, in order.
pub(super) const ACTIVITIES: [&str; 5] = ["greet", "wait", "work", "rest", "part"];

pub(super) const IN_WORDS: &str = "greet, wait 1 s, work for 2 s, rest 1 s, part";

/// What the first and the last activity write.
const SAID: [&str; 2] = ["Good morning. I wait for a second.", "Well rested, and done."];

/// The workflow.
pub(super) fn definition() -> Value {
    let literal = |type_name: &str, value: Value| json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}});
    let [greet, wait, work, rest, part] = ACTIVITIES;
    let [first, last] = SAID;
    let work_time = u64::try_from(WORK_TIME.as_millis()).unwrap_or_default();
    json!({
        "definitionId": "demo",
        "name": "Demo",
        "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": "Elsa.WriteLine", "id": greet, "text": literal("String", json!(first))},
            {"type": "Elsa.Delay", "id": wait, "timeSpan": literal("TimeSpan", json!("00:00:01"))},
            {"type": WORK, "id": work, "milliseconds": literal("Int64", json!(work_time))},
            {"type": "Elsa.Delay", "id": rest, "timeSpan": literal("TimeSpan", json!("00:00:01"))},
            {"type": "Elsa.WriteLine", "id": part, "text": literal("String", json!(last))},
        ]}
    })
}

/// Tells each step with the time since the beginning.
pub(super) struct Story {
    began: Instant,
    /// Who said what.
    heard: Mutex<Vec<(String, String)>>,
}

impl Story {
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            heard: Mutex::default(),
        }
    }

    pub(super) fn tell(&self, what: &str) {
        say(&format!("{:7.2} s  {what}", self.began.elapsed().as_secs_f64()));
    }

    /// A workflow has written a line.
    pub(super) fn heard(&self, node: &str, line: &str) {
        self.tell(&format!("{node} says: {line}"));
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push((node.to_owned(), line.to_owned()));
    }

    pub(super) fn heard_lines(&self) -> Vec<(String, String)> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How often an activity is in the journal with an event.
fn times(journal: &[Value], activity: &str, event: &str) -> usize {
    let is = |entry: &&Value| text(entry, "activityId") == activity && text(entry, "eventName") == event;
    journal.iter().filter(is).count()
}

/// What is not as it has to be; nothing, if all is well.
pub(super) fn differences(journal: &[Value], heard: &[(String, String)], victim: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for activity in ACTIVITIES {
        for event in ["Started", "Completed"] {
            let times = times(journal, activity, event);
            if times != 1 {
                wrong.push(format!("{activity} is {times} times {event} in the journal"));
            }
        }
    }
    for line in SAID {
        let times = heard.iter().filter(|(_, said)| said == line).count();
        if times != 1 {
            wrong.push(format!("{line:?} was said {times} times"));
        }
    }
    let [_, last] = SAID;
    if heard.iter().any(|(node, said)| node == victim && said == last) {
        wrong.push(format!("{victim}, which was killed, has finished the workflow"));
    }
    wrong
}

/// When each activity began and ended, in seconds after the first one began.
pub(super) fn journal_table(journal: &[Value], activities: &[&str]) -> Vec<String> {
    let at = |activity: &str, event: &str| {
        let entry = journal
            .iter()
            .find(|entry| text(entry, "activityId") == activity && text(entry, "eventName") == event)?;
        chrono::DateTime::parse_from_rfc3339(text(entry, "timestamp")).ok()
    };
    let began = activities.iter().filter_map(|activity| at(activity, "Started")).min();
    let since = |activity: &str, event: &str| {
        let (at, began) = (at(activity, event)?, began?);
        let seconds = (at - began).num_milliseconds() as f64 / 1000.0;
        Some(format!("{seconds:.2} s"))
    };
    let row = |activity: &&str| {
        format!(
            "             {activity:<6} began {:>7}, ended {:>7}",
            since(activity, "Started").unwrap_or_else(|| "never".to_owned()),
            since(activity, "Completed").unwrap_or_else(|| "never".to_owned()),
        )
    };
    activities.iter().map(row).collect()
}

/// Lines that can be pasted as they are, after a demo that went well.
pub(super) fn how_to_go_on() -> String {
    let program = std::env::args().next().unwrap_or_else(|| "mainspring".to_owned());
    format!(
        r"
Go on:

  # three nodes that stay, on ports 5001 to 5003, with samples to run and processes to kill
  {program} dev --nodes 3

  # a node on a database of yours; as many as you like
  {program} serve --database-url postgres://user@host/database

  # how long 200 bursts of a killed node are without one
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

    fn heard() -> Vec<(String, String)> {
        vec![
            ("node-1".to_owned(), SAID[0].to_owned()),
            ("node-2".to_owned(), SAID[1].to_owned()),
        ]
    }

    #[test]
    fn a_demo_that_went_well_shows_no_difference() {
        assert_eq!(differences(&journal(), &heard(), "node-1"), [""; 0]);
        assert_eq!(
            journal_table(&journal(), &ACTIVITIES)[1].trim(),
            "wait   began  1.00 s, ended  2.00 s"
        );
    }

    #[test]
    fn whatever_differs_is_told() {
        let mut twice = journal();
        twice.push(twice[4].clone());
        assert_eq!(differences(&twice, &heard(), "node-1").len(), 1);
        let mut missing = journal();
        missing.truncate(9);
        assert_eq!(differences(&missing, &heard(), "node-1").len(), 1);
        assert_eq!(differences(&journal(), &heard(), "node-2").len(), 1);
        assert_eq!(differences(&journal(), &heard()[..1], "node-1").len(), 1);
        assert_eq!(differences(&[], &[], "node-1").len(), 12);
    }

    #[test]
    fn the_workflow_is_one() {
        let definition = crate::definition::WorkflowDefinition::from_value(definition()).unwrap();
        assert_eq!(definition.definition_id.as_str(), "demo");
    }
}
