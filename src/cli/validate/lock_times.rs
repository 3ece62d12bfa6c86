//! Point 6: locks are taken in time, under contention, and none is left behind.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::node_api::NodeApi;
use super::own_workflows;
use super::point_report::PointOutcome;
use super::resumes::Resumes;
use super::target_cluster::{PAUSE, TargetCluster};
use crate::harness::client::text_field;

/// How many instances are resumed.
const ROUNDS: usize = 10;
/// As many as the checklist sends to each.
const RESUMES: usize = 50;
/// How long a lock may outlive the answer for which it was taken.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);

pub(super) async fn run(cluster: &TargetCluster, limit: Duration) -> PointOutcome {
    if let Err(problem) = own_workflows::publish_somewhere(cluster, &own_workflows::resumed()).await {
        return PointOutcome::failed(problem);
    }
    let (mut problems, mut times, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        match Resumes::send(cluster, round, RESUMES).await {
            Ok(resumes) => {
                problems.extend(resumes.problems(cluster).await);
                times.extend(resumes.times());
                ids.push(resumes.id);
            }
            Err(problem) => problems.push(problem),
        }
    }
    times.sort_unstable();
    let [median, most, nearly_all] = [50, 95, 99].map(|percent| quantile(&times, percent));
    let measured = format!(
        "{} answers to {RESUMES} simultaneous resumes: p50 {} ms, p95 {} ms, p99 {} ms; a lock takes less than its \
         answer",
        times.len(),
        median.as_millis(),
        most.as_millis(),
        nearly_all.as_millis()
    );
    if most > limit {
        problems.push(format!("{measured}. The limit for p95 is {} ms", limit.as_millis()));
    }
    problems.extend(left_locks(cluster, &ids).await);
    PointOutcome::of(problems, || {
        format!("{measured}; no lock is left, and no foreign session holds one")
    })
}

/// The time within which so many of 100 are.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

/// Locks of instances that are finished, and of sessions that are no nodes.
async fn left_locks(cluster: &TargetCluster, ids: &[String]) -> Vec<String> {
    let began = Instant::now();
    loop {
        let read = async |api: &NodeApi| api.get("cluster/locks?pageSize=1000").await;
        let left = match cluster.any(read).await {
            Ok(listed) => wrong_locks(&listed, ids),
            Err(problem) => return vec![problem],
        };
        if left.is_empty() || began.elapsed() > RELEASED_WITHIN {
            return left;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn wrong_locks(listed: &Value, ids: &[String]) -> Vec<String> {
    let items = listed.get("items").and_then(Value::as_array);
    let wrong = items.into_iter().flatten().filter_map(|lock| {
        let name = text_field(lock, "name");
        if let Some(foreign) = lock.get("foreign") {
            let process = foreign.get("processId").and_then(Value::as_i64).unwrap_or_default();
            let (user, application) = (text_field(foreign, "user"), text_field(foreign, "application"));
            return Some(format!(
                "the lock {name} is held by a session that is no node's: process {process} of {user} ({application}); \
                 pg_terminate_backend({process}) ends it"
            ));
        }
        let id = name.strip_prefix("instance:")?;
        let node = text_field(lock, "nodeId");
        let is_own = ids.iter().any(|own| own == id);
        is_own.then(|| format!("the lock of instance {id}, which is finished, is still held by {node}"))
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_times() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let found = [50, 95, 99, 100].map(|percent| quantile(&times, percent).as_millis());
        assert_eq!(found, [100, 190, 198, 200]);
        assert_eq!(quantile(&[], 95), Duration::ZERO);
    }

    #[test]
    fn own_locks_and_those_of_foreign_sessions_are_wrong() {
        let listed = json!({"items": [
            {"name": "instance:a", "nodeId": "one"},
            {"name": "instance:other", "nodeId": "one"},
            {"name": "liveness:7", "nodeId": "one"},
            {"name": "key:1", "foreign": {"processId": 4, "user": "u", "application": "psql"}},
        ]});
        let wrong = wrong_locks(&listed, &["a".to_owned()]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].contains("instance a") && wrong[1].contains("process 4 of u (psql)"),
            "{wrong:?}"
        );
    }
}
