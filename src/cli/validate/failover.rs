//! Point 4: a node that stops in the middle of work loses nothing that was accepted, and nothing runs twice.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hyper::Method;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::operator::Operator;
use super::own_workflows::{self, TIMED};
use super::point_report::PointOutcome;
use super::started;
use super::target_cluster::{PAUSE, TargetCluster, TargetNode, look};
use crate::cli::settings::ValidateSettings;
use crate::harness::client::text_field;

/// How many instances the node accepts before it stops.
const BEFORE: usize = 30;
/// The most instances that are started while it stops.
const MOST_MEANWHILE: usize = 2_000;
/// The pause between two of them.
const EVERY: Duration = Duration::from_millis(50);
/// How long a start may find no node that accepts it.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(30);
/// How long the others may list a node that has stopped as live.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);
/// How long after the time of its timer an instance may take to finish.
const ALLOWANCE: Duration = Duration::from_secs(30);

pub(super) async fn run(cluster: &TargetCluster, settings: &ValidateSettings) -> PointOutcome {
    let Some(operator) = Operator::of(settings.stop_command.as_deref()) else {
        return PointOutcome::NotRun(
            "no node was stopped: give --stop-command, or run it at a terminal, where it asks for that".to_owned(),
        );
    };
    let [.., victim] = cluster.nodes.as_slice() else {
        return PointOutcome::failed("there is no node to stop");
    };
    if cluster.nodes.len() < 2 {
        return PointOutcome::failed("no other node can take over from the only one");
    }
    let ids = match stop_in_the_middle(cluster, settings, &operator, victim).await {
        Ok(ids) => ids,
        Err(problem) => return PointOutcome::failed(problem),
    };
    let mut problems = not_gone(cluster, victim).await;
    problems.extend(started::unfinished(cluster, &ids, settings.timer + ALLOWANCE).await);
    problems.extend(started::repeats(cluster, &ids).await);
    if let Operator::Person = operator {
        let wanted = format!("start the node {} again", victim.identity.id);
        problems.extend(operator.act(&wanted, Some(victim)).await.err());
    }
    PointOutcome::of(problems, || {
        let (count, victim) = (ids.len(), &victim.identity.id);
        format!(
            "{victim} stopped; all {count} instances that were accepted finished once, {BEFORE} of them started there \
             before"
        )
    })
}

/// Starts instances at the node, has it stopped, and starts more at all nodes meanwhile. Returns what was accepted.
async fn stop_in_the_middle(
    cluster: &TargetCluster,
    settings: &ValidateSettings,
    operator: &Operator<'_>,
    victim: &TargetNode,
) -> Result<Vec<String>, String> {
    own_workflows::publish_somewhere(cluster, &own_workflows::timed(settings.timer)).await?;
    let path = format!("workflow-definitions/{TIMED}/dispatch");
    let mut ids = Vec::new();
    for _ in 0..BEFORE {
        let accepted = victim.api.post(&path, &json!({})).await?;
        ids.push(text_field(&accepted, "workflowInstanceId").to_owned());
    }
    let stopped = CancellationToken::new();
    let wanted = format!("stop the node {} ({}) at once", victim.identity.id, victim.api.url());
    let stops = async {
        let outcome = operator.act(&wanted, Some(victim)).await;
        stopped.cancel();
        outcome
    };
    let (outcome, meanwhile) = tokio::join!(stops, start_until(cluster, &path, &stopped));
    outcome?;
    ids.extend(meanwhile?);
    Ok(ids)
}

async fn start_until(cluster: &TargetCluster, path: &str, stopped: &CancellationToken) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    while !stopped.is_cancelled() && ids.len() < MOST_MEANWHILE {
        ids.push(accepted(cluster, path, ids.len()).await?);
        tokio::time::sleep(EVERY).await;
    }
    Ok(ids)
}

/// Starts an instance at a node, and where it does not answer, by the same key at the next one.
async fn accepted(cluster: &TargetCluster, path: &str, turn: usize) -> Result<String, String> {
    let (began, key, body) = (Instant::now(), Uuid::new_v4().to_string(), json!({}));
    let count = cluster.nodes.len();
    loop {
        let mut last = String::new();
        for node in cluster.nodes.iter().cycle().skip(turn % count).take(count) {
            match node.api.send(Method::POST, path, Some(&key), Some(&body)).await {
                Ok(answer) if answer.is_success() => {
                    return Ok(text_field(&answer.body, "workflowInstanceId").to_owned());
                }
                Ok(answer) => last = answer.refusal(),
                Err(lost) => last = lost.problem,
            }
        }
        if began.elapsed() > ACCEPTED_WITHIN {
            let seconds = ACCEPTED_WITHIN.as_secs();
            return Err(format!("no node has accepted a start for {seconds} s: {last}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is wrong if the node is still listed as live, or another one is gone, too.
async fn not_gone(cluster: &TargetCluster, victim: &TargetNode) -> Vec<String> {
    let began = Instant::now();
    loop {
        match cluster.live().await {
            Err(problem) => return vec![problem],
            Ok(live) if !live.contains(&victim.identity) => break,
            Ok(_) if began.elapsed() > NOTICED_WITHIN => {
                let (id, seconds) = (&victim.identity.id, NOTICED_WITHIN.as_secs());
                return vec![format!("{id} is still live {seconds} s after it was to stop")];
            }
            Ok(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    let others = cluster.nodes.iter().filter(|node| node.identity != victim.identity);
    let looks = others.map(async |node| match look(&node.api).await {
        Ok((identity, _)) if identity == node.identity => None,
        Ok(_) => Some(format!(
            "{} was restarted, too: only {} was to stop",
            node.identity.id, victim.identity.id
        )),
        Err(problem) => Some(format!(
            "{} does not answer either, though only {} was to stop: {problem}",
            node.identity.id, victim.identity.id
        )),
    });
    join_all(looks).await.into_iter().flatten().collect()
}
