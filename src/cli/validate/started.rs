//! What has become of instances: whether they are finished, and what their journals say.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use futures_util::stream;
use hyper::Method;
use serde_json::Value;

use super::node_api::NodeApi;
use super::own_workflows::AFTER;
use super::target_cluster::{PAUSE, TargetCluster};
use crate::harness::client::text_field;

/// How many instances are read at once.
const READS: usize = 8;

/// The journal of an instance.
pub(super) struct ReadJournal(Vec<Value>);

impl ReadJournal {
    /// Reads it at a node.
    pub(super) async fn read(api: &NodeApi, id: &str) -> Result<Self, String> {
        let listed = api
            .get(&format!("workflow-instances/{id}/journal?pageSize=1000"))
            .await?;
        let items = listed.get("items").and_then(Value::as_array);
        Ok(Self(items.cloned().unwrap_or_default()))
    }

    fn of<'a>(&'a self, activity: &'a str, event: &'a str) -> impl Iterator<Item = &'a Value> {
        let is = move |entry: &&Value| {
            text_field(entry, "activityId") == activity && text_field(entry, "eventName") == event
        };
        self.0.iter().filter(is)
    }

    /// How often an activity has an event.
    pub(super) fn times(&self, activity: &str, event: &str) -> usize {
        self.of(activity, event).count()
    }

    /// When it first had it, by the database's clock.
    pub(super) fn at(&self, activity: &str, event: &str) -> Option<DateTime<Utc>> {
        let entry = self.of(activity, event).next()?;
        DateTime::parse_from_rfc3339(text_field(entry, "timestamp"))
            .ok()
            .map(|at| at.to_utc())
    }

    /// What is wrong if the activity behind the wait has not run exactly once.
    pub(super) fn not_once(&self, id: &str) -> Option<String> {
        let (started, completed) = (self.times(AFTER, "Started"), self.times(AFTER, "Completed"));
        ((started, completed) != (1, 1)).then(|| {
            format!(
                "instance {id}: the activity behind the wait was started {started} times and completed {completed} \
                 times"
            )
        })
    }
}

/// Waits until all are finished, or the time is over. Returns those that are not, each with its state.
pub(super) async fn unfinished(cluster: &TargetCluster, ids: &[String], within: Duration) -> Vec<String> {
    let began = Instant::now();
    let mut open: Vec<String> = ids.to_vec();
    loop {
        let states: Vec<(String, String)> = stream::iter(open)
            .map(async |id: String| (state(cluster, &id).await, id))
            .buffered(READS)
            .map(|(state, id)| (id, state))
            .collect()
            .await;
        let left: Vec<(String, String)> = states.into_iter().filter(|(_, state)| state != "Finished").collect();
        if left.is_empty() || began.elapsed() >= within {
            return left
                .into_iter()
                .map(|(id, state)| format!("instance {id}: {state}"))
                .collect();
        }
        open = left.into_iter().map(|(id, _)| id).collect();
        tokio::time::sleep(PAUSE).await;
    }
}

/// The sub-status of an instance, or why there is none.
async fn state(cluster: &TargetCluster, id: &str) -> String {
    let read = async |api: &NodeApi| match api
        .send(Method::GET, &format!("workflow-instances/{id}"), None, None)
        .await
    {
        Ok(answer) if answer.is_success() => Ok(match text_field(&answer.body, "subStatus") {
            "Pending" => "Pending: no node has run it".to_owned(),
            sub_status => sub_status.to_owned(),
        }),
        Ok(answer) => Err(answer.refusal()),
        Err(lost) => Err(lost.problem),
    };
    cluster.any(read).await.unwrap_or_else(|problem| problem)
}

/// What is wrong with the journals of instances that are finished.
pub(super) async fn repeats(cluster: &TargetCluster, ids: &[String]) -> Vec<String> {
    let problems: Vec<Option<String>> = stream::iter(ids)
        .map(async |id: &String| {
            let journal = cluster.any(async |api| ReadJournal::read(api, id).await).await;
            journal.map_or_else(Some, |journal| journal.not_once(id))
        })
        .buffered(READS)
        .collect()
        .await;
    problems.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_journal_is_counted() {
        let entry =
            |event: &str| json!({"activityId": AFTER, "eventName": event, "timestamp": "2026-01-01T00:00:01+00:00"});
        let once = ReadJournal(vec![entry("Started"), entry("Completed")]);
        assert_eq!(once.not_once("i"), None);
        assert_eq!(once.at(AFTER, "Started").unwrap().timestamp(), 1_767_225_601);
        let twice = ReadJournal(vec![entry("Started"), entry("Completed"), entry("Started")]);
        assert!(
            twice
                .not_once("i")
                .unwrap()
                .contains("started 2 times and completed 1 times")
        );
        assert!(
            ReadJournal(Vec::new())
                .not_once("i")
                .unwrap()
                .contains("started 0 times")
        );
    }
}
