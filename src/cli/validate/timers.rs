//! Point 2: a timer fires once while all nodes run, and not late.

use std::time::Duration;

use serde_json::json;

use super::own_workflows::{self, AFTER, TIMED, WAITS};
use super::point_report::PointOutcome;
use super::started::{self, ReadJournal};
use super::target_cluster::TargetCluster;
use crate::harness::client::text_field;

/// How many timers each node starts.
const EACH: usize = 10;
/// How late a timer may fire: a node that hangs is noticed within its tolerance.
const MOST_LATE: Duration = Duration::from_secs(5);
/// How long after the time of its timer an instance may take to finish.
const ALLOWANCE: Duration = Duration::from_secs(30);
/// What fires twice does so within this time.
const SETTLED: Duration = Duration::from_secs(2);

pub(super) async fn run(cluster: &TargetCluster, timer: Duration) -> PointOutcome {
    let ids = match start(cluster, timer).await {
        Ok(ids) => ids,
        Err(problem) => return PointOutcome::failed(problem),
    };
    let open = started::unfinished(cluster, &ids, timer + ALLOWANCE).await;
    if !open.is_empty() {
        let (all, count) = (ids.len(), open.len());
        let seconds = ALLOWANCE.as_secs();
        let mut problems = vec![format!(
            "{count} of {all} timers have not fired {seconds} s after their time; does a node have the roles worker and \
             scheduler? GET /cluster/nodes lists them, and GET /cluster/queue what waits"
        )];
        problems.extend(open);
        return PointOutcome::Failed(problems);
    }
    tokio::time::sleep(SETTLED).await;
    let (mut problems, mut latest) = (Vec::new(), 0);
    for id in &ids {
        match cluster.any(async |api| ReadJournal::read(api, id).await).await {
            Err(problem) => problems.push(problem),
            Ok(journal) => {
                problems.extend(journal.not_once(id));
                match late_ms(&journal, timer) {
                    Some(late) => {
                        latest = latest.max(late);
                        problems.extend(untimely(id, late));
                    }
                    None => problems.push(format!("instance {id}: its journal does not say when its timer fired")),
                }
            }
        }
    }
    PointOutcome::of(problems, || {
        let (count, seconds) = (ids.len(), timer.as_secs_f64());
        format!("{count} timers of {seconds} s fired once each, at most {latest} ms late")
    })
}

async fn start(cluster: &TargetCluster, timer: Duration) -> Result<Vec<String>, String> {
    own_workflows::publish_somewhere(cluster, &own_workflows::timed(timer)).await?;
    let path = format!("workflow-definitions/{TIMED}/dispatch");
    let mut ids = Vec::new();
    for node in &cluster.nodes {
        for _ in 0..EACH {
            let accepted = node.api.post(&path, &json!({})).await?;
            ids.push(text_field(&accepted, "workflowInstanceId").to_owned());
        }
    }
    Ok(ids)
}

/// The time from when the timer should have fired, by the database's clock.
fn late_ms(journal: &ReadJournal, timer: Duration) -> Option<i64> {
    let waited = journal.at(AFTER, "Started")? - journal.at(WAITS, "Started")?;
    Some(waited.num_milliseconds() - i64::try_from(timer.as_millis()).ok()?)
}

fn untimely(id: &str, late: i64) -> Option<String> {
    let most = i64::try_from(MOST_LATE.as_millis()).unwrap_or(i64::MAX);
    if late < 0 {
        Some(format!("instance {id}: its timer fired {} ms early", -late))
    } else if late > most {
        Some(format!(
            "instance {id}: its timer fired {late} ms late; at most {most} ms are allowed"
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_neither_early_nor_late() {
        assert_eq!([untimely("i", 0), untimely("i", 5_000)], [None, None]);
        assert!(untimely("i", -1).unwrap().contains("1 ms early"));
        assert!(untimely("i", 5_001).unwrap().contains("5001 ms late"));
    }
}
